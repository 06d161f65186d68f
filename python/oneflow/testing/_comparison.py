"""assert_close: compare tensors, numbers and containers of them, and report where they differ."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import oneflow
from oneflow import Tensor

# dtype name -> (relative, absolute) tolerance
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}
Message = Any  # str, or a function of the generated text


class _Options:
    def __init__(self, rtol: float | None, atol: float | None, **flags: bool) -> None:
        if (rtol is None) != (atol is None):
            raise ValueError("rtol and atol must both be specified or both be unspecified.")
        self.rtol = rtol
        self.atol = atol
        self.equal_nan = flags["equal_nan"]
        self.check_device = flags["check_device"]
        self.check_dtype = flags["check_dtype"]
        self.check_layout = flags["check_layout"]
        self.check_stride = flags["check_stride"]
        self.allow_subclasses = flags["allow_subclasses"]

    def tolerances(self, *dtypes: Any) -> tuple[float, float]:
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        pairs = [_TOLERANCES.get(str(dtype).rpartition(".")[2], (0.0, 0.0)) for dtype in dtypes]
        return max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: Message = None,
) -> None:
    """Raise unless ``|actual - expected| <= atol + rtol * |expected|`` everywhere.

    Of sparse tensors the indices and the values that are stored are compared; of tensors on the meta device, which have
    no values, everything else.

    Args:
        actual, expected: tensors, numbers, None, or sequences and mappings of them with the same structure.
        rtol, atol: tolerances, both or neither; by default those of the wider dtype's row in a fixed table.
        equal_nan: treat nan as equal to nan.
        check_device, check_dtype, check_layout: also compare these. What may differ is converted: sparse tensors to
            dense ones, dtypes to the wider one.
        check_stride: also compare the strides of strided tensors.
        allow_subclasses: accept different types, as long as both are tensors.
        msg: replaces the error text, or a function of it.

    Raises:
        AssertionError: they differ; the text has the number of elements and the largest differences.
        TypeError: the types cannot be compared.
        ValueError: only one tolerance is given.

    Example::

        >>> oneflow.testing.assert_close(oneflow.ones(2), oneflow.ones(2) + 1e-7)
    """
    options = _Options(
        rtol,
        atol,
        equal_nan=equal_nan,
        check_device=check_device,
        check_dtype=check_dtype,
        check_layout=check_layout,
        check_stride=check_stride,
        allow_subclasses=allow_subclasses,
    )
    try:
        _compare(actual, expected, options, ())
    except AssertionError as error:
        text = str(error)
        if msg is not None:
            text = msg(text) if callable(msg) else msg
        raise AssertionError(text) from None


def _where(path: tuple[Any, ...]) -> str:
    return "\n\nThe failure occurred for item " + "".join(f"[{part!r}]" for part in path) if path else ""


def _compare(actual: Any, expected: Any, options: _Options, path: tuple[Any, ...]) -> None:
    if actual is None or expected is None:
        if actual is not expected:
            raise AssertionError(f"None mismatch: {actual} is not {expected}{_where(path)}")
    elif isinstance(actual, Tensor) or isinstance(expected, Tensor):
        if not (isinstance(actual, Tensor) and isinstance(expected, Tensor)):
            raise TypeError(f"cannot compare {type(actual)} with {type(expected)}{_where(path)}")
        if not options.allow_subclasses and type(actual) is not type(expected):
            raise TypeError(f"cannot compare {type(actual)} with {type(expected)}{_where(path)}")
        _compare_tensors(actual, expected, options, path)
    elif isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            missing = sorted(map(repr, set(expected) - set(actual)))
            extra = sorted(map(repr, set(actual) - set(expected)))
            raise AssertionError(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: [{', '.join(missing)}]\n"
                f"Additional keys in the actual mapping: [{', '.join(extra)}]{_where(path)}"
            )
        for key in expected:
            _compare(actual[key], expected[key], options, (*path, key))
    elif _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            raise AssertionError(
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{_where(path)}"
            )
        for i, (a, b) in enumerate(zip(actual, expected, strict=True)):
            _compare(a, b, options, (*path, i))
    elif _is_number(actual) and _is_number(expected):
        _compare_numbers(actual, expected, options, path)
    elif type(actual).__module__ == "numpy" and type(expected).__module__ == "numpy":
        _compare_tensors(oneflow.as_tensor(actual), oneflow.as_tensor(expected), options, path)
    else:
        raise TypeError(
            f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}.{_where(path)}"
        )


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex))


def _compare_numbers(actual: Any, expected: Any, options: _Options, path: tuple[Any, ...]) -> None:
    if options.check_dtype and type(actual) is not type(expected):
        raise AssertionError(f"The (d)types do not match: {type(actual)} != {type(expected)}.{_where(path)}")
    names = [_number_dtype(value) for value in (actual, expected)]
    rtol, atol = options.tolerances(*names)
    if _close(actual, expected, rtol, atol, options.equal_nan):
        return
    absolute = abs(actual - expected)
    relative = absolute / abs(expected) if expected else math.inf
    if rtol == atol == 0:
        head = "Booleans mismatch" if isinstance(actual, bool) else "Scalars are not equal!"
        if isinstance(actual, bool):
            raise AssertionError(f"{head}: {actual} is not {expected}{_where(path)}")
        limit_abs = limit_rel = ""
    else:
        head, limit_abs, limit_rel = "Scalars are not close!", f" (up to {atol} allowed)", f" (up to {rtol} allowed)"
    raise AssertionError(
        f"{head}\n\nExpected {expected} but got {actual}.\nAbsolute difference: {absolute}{limit_abs}\n"
        f"Relative difference: {relative}{limit_rel}{_where(path)}"
    )


def _number_dtype(value: Any) -> str:
    if isinstance(value, (bool, int)):
        return "int64"
    return "float64" if isinstance(value, float) else "complex128"


def _close(a: Any, b: Any, rtol: float, atol: float, equal_nan: bool) -> bool:
    if a == b:
        return True
    if a != a or b != b:
        return equal_nan and a != a and b != b
    difference = abs(a - b)
    return bool(difference <= atol + rtol * abs(b)) and difference != math.inf


def _compare_tensors(actual: Tensor, expected: Tensor, options: _Options, path: tuple[Any, ...]) -> None:
    strided = actual.layout == expected.layout == oneflow.strided
    # Those of sparse tensors, which have no strides, are not asked for.
    strides = [x.stride() if strided and options.check_stride else None for x in (actual, expected)]
    for name, a, b, wanted in (
        ("shape", actual.shape, expected.shape, True),
        ("layout", actual.layout, expected.layout, options.check_layout),
        ("stride()", *strides, options.check_stride),
        ("device", actual.device, expected.device, options.check_device),
        ("dtype", actual.dtype, expected.dtype, options.check_dtype),
    ):
        if wanted and a != b:
            raise AssertionError(f"The values for attribute '{name}' do not match: {a} != {b}.{_where(path)}")
    if actual.is_meta or expected.is_meta:
        return
    tolerances = options.tolerances(actual.dtype, expected.dtype)
    with oneflow.no_grad():
        actual, expected = actual.detach(), expected.detach()
        if actual.layout != expected.layout:
            actual, expected = _dense(actual), _dense(expected)
        actual, expected = actual.cpu(), expected.cpu()
        if actual.layout == oneflow.strided:
            _compare_values(actual, expected, tolerances, options.equal_nan, path, "Tensor-likes")
        else:
            _compare_stored(actual, expected, tolerances, options.equal_nan, path)


def _dense(x: Tensor) -> Tensor:
    return x if x.layout == oneflow.strided else x.to_dense()


# The methods that give the places of what a sparse tensor stores.
_PLACES = {
    "sparse_csr": ("crow_indices", "col_indices"),
    "sparse_csc": ("ccol_indices", "row_indices"),
    "sparse_bsr": ("crow_indices", "col_indices"),
    "sparse_bsc": ("ccol_indices", "row_indices"),
}


def _compare_stored(
    actual: Tensor, expected: Tensor, tolerances: tuple[float, float], equal_nan: bool, path: tuple[Any, ...]
) -> None:
    """Compare what two sparse tensors of one layout store."""
    layout = str(actual.layout).rpartition(".")[2]
    name = layout.rpartition("_")[2].upper()
    counts = actual._nnz(), expected._nnz()
    if counts[0] != counts[1]:
        raise AssertionError(
            f"The number of specified values in sparse {name} tensors does not match: {counts[0]} != {counts[1]}"
            + _where(path)
        )
    for method in _PLACES.get(layout, ("_indices",)):
        ours, theirs = getattr(actual, method)(), getattr(expected, method)()
        _compare_values(ours, theirs, (0.0, 0.0), False, path, f"Sparse {name} {method.lstrip('_')}")
    ours, theirs = (x._values() if name == "COO" else x.values() for x in (actual, expected))
    _compare_values(ours, theirs, tolerances, equal_nan, path, f"Sparse {name} values")


def _compare_values(
    actual: Tensor,
    expected: Tensor,
    tolerances: tuple[float, float],
    equal_nan: bool,
    path: tuple[Any, ...],
    what: str,
) -> None:
    if actual.dtype != expected.dtype:
        wide = oneflow.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(wide), expected.to(wide)
    if str(actual.dtype).rpartition(".")[2].startswith(("float8", "float4")):
        actual, expected = actual.float(), expected.float()
    rtol, atol = tolerances
    matches = oneflow.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bool(matches.all()):
        return
    exact = rtol == atol == 0
    kind = "equal" if exact else "close"
    shape = tuple(actual.shape)
    allowed = [f" (up to {limit} allowed)" if not exact else "" for limit in (atol, rtol)]
    if not shape:
        ours, theirs = actual.item(), expected.item()
        difference = abs(ours - theirs)
        raise AssertionError(
            f"{'Scalars' if what == 'Tensor-likes' else what} are not {kind}!\n\n"
            f"Expected {theirs} but got {ours}.\nAbsolute difference: {difference}{allowed[0]}\n"
            f"Relative difference: {difference / abs(theirs) if theirs else math.inf}{allowed[1]}" + _where(path)
        )
    flat = matches.reshape(-1)
    x, y = actual.reshape(-1), expected.reshape(-1)
    if not (x.dtype.is_floating_point or x.dtype.is_complex):
        x, y = x.to(oneflow.int64), y.to(oneflow.int64)
    absolute = (x - y).abs()
    relative = absolute / y.abs()
    worst = [values.masked_fill(flat, 0).max(0) for values in (absolute, relative)]
    (largest, at), (largest_relative, at_relative) = [(best.item(), int(place)) for best, place in worst]
    n, total = int((~flat).sum()), flat.numel()
    raise AssertionError(
        f"{what} are not {kind}!\n\nMismatched elements: {n} / {total} ({n / total:.1%})\n"
        f"Greatest absolute difference: {largest} at index {_unravel(at, shape)}{allowed[0]}\n"
        f"Greatest relative difference: {largest_relative} at index {_unravel(at_relative, shape)}{allowed[1]}"
        + _where(path)
    )


def _unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        flat, i = divmod(flat, size)
        index.insert(0, i)
    return tuple(index)
