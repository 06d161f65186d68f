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

    Args:
        actual, expected: tensors, numbers, None, or sequences and mappings of them with the same structure.
        rtol, atol: tolerances, both or neither; by default those of the wider dtype's row in a fixed table.
        equal_nan: treat nan as equal to nan.
        check_device, check_dtype, check_stride: also compare these.
        check_layout: accepted for compatibility; every tensor is strided.
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
    if isinstance(actual, Tensor) or isinstance(expected, Tensor):
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
    elif actual is None or expected is None:
        if actual is not expected:
            raise AssertionError(f"None mismatch: {actual} is not {expected}{_where(path)}")
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
    for name, a, b, wanted in (
        ("shape", tuple(actual.shape), tuple(expected.shape), True),
        ("device", actual.device, expected.device, options.check_device),
        ("dtype", actual.dtype, expected.dtype, options.check_dtype),
        ("stride()", actual.stride(), expected.stride(), options.check_stride),
    ):
        if wanted and a != b:
            raise AssertionError(f"The values for attribute '{name}' do not match: {a} != {b}.{_where(path)}")
    rtol, atol = options.tolerances(actual.dtype, expected.dtype)
    with oneflow.no_grad():
        _compare_values(actual.detach().cpu(), expected.detach().cpu(), rtol, atol, options.equal_nan, path)


def _compare_values(
    actual: Tensor, expected: Tensor, rtol: float, atol: float, equal_nan: bool, path: tuple[Any, ...]
) -> None:
    xs, ys = actual.reshape(-1).tolist(), expected.reshape(-1).tolist()
    wrong = [i for i, (x, y) in enumerate(zip(xs, ys, strict=True)) if not _close(x, y, rtol, atol, equal_nan)]
    if not wrong:
        return
    exact = rtol == atol == 0
    shape = tuple(actual.shape)
    absolute = {i: abs(xs[i] - ys[i]) for i in wrong}
    relative = {i: absolute[i] / abs(ys[i]) if ys[i] else math.inf for i in wrong}
    kind = "equal" if exact else "close"
    if not shape:
        i = 0
        lines = [
            f"Scalars are not {kind}!\n",
            f"Expected {ys[i]} but got {xs[i]}.",
            f"Absolute difference: {absolute[i]}" + ("" if exact else f" (up to {atol} allowed)"),
            f"Relative difference: {relative[i]}" + ("" if exact else f" (up to {rtol} allowed)"),
        ]
        raise AssertionError("\n".join(lines) + _where(path))
    lines = [
        f"Tensor-likes are not {kind}!\n",
        f"Mismatched elements: {len(wrong)} / {len(xs)} ({100 * len(wrong) / len(xs):.1f}%)",
    ]
    for name, values, limit in (("absolute", absolute, atol), ("relative", relative, rtol)):
        worst = max(values, key=lambda i: math.inf if values[i] != values[i] else values[i])
        allowed = "" if exact else f" (up to {limit} allowed)"
        lines.append(f"Greatest {name} difference: {values[worst]} at index {_unravel(worst, shape)}{allowed}")
    raise AssertionError("\n".join(lines) + _where(path))


def _unravel(flat: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        flat, i = divmod(flat, size)
        index.insert(0, i)
    return tuple(index)
