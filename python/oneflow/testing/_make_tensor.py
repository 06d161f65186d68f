"""Tensors for tests, and an older comparison."""

from __future__ import annotations

import math
import warnings
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.testing._comparison import assert_close


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """Deprecated: :func:`oneflow.testing.assert_close`, with NaNs equal and dtypes not compared.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.testing.assert_allclose(oneflow.ones(2), [1.0, 1.0])
    """
    warnings.warn("`oneflow.testing.assert_allclose()` is deprecated; use assert_close()", FutureWarning, stacklevel=2)
    if not isinstance(actual, Tensor):
        actual = oneflow.tensor(actual)
    if not isinstance(expected, Tensor):
        expected = oneflow.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        tolerances = {oneflow.float16: (1e-3, 1e-3), oneflow.float32: (1e-4, 1e-5), oneflow.float64: (1e-5, 1e-8)}
        rtol, atol = max(tolerances.get(actual.dtype, (0.0, 0.0)), tolerances.get(expected.dtype, (0.0, 0.0)))
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )


def make_tensor(
    *shape: Any,
    dtype: Any,
    device: Any,
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of uniform numbers in [low, high).

    Args:
        shape: sizes.
        low, high: by default -9 and 9, of integers 10; 0 and 2 for bools. They are cut to what the dtype holds.
        requires_grad: of floating-point and complex tensors.
        noncontiguous: with strides that leave gaps.
        exclude_zero: the least step of the dtype in the place of zeros.
        memory_format: of the result.

    Raises:
        ValueError: an empty range, or both noncontiguous and a memory format.

    Example::

        >>> oneflow.testing.make_tensor(2, 3, dtype=oneflow.int64, device="cpu", low=0, high=1)
        tensor([[0, 0, 0],
                [0, 0, 0]])
    """
    sizes = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else tuple(shape)
    if noncontiguous and memory_format is not None:
        raise ValueError("The parameters `noncontiguous` and `memory_format` are mutually exclusive")
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(f"`requires_grad=True` is not supported for boolean and integral dtypes, but got {dtype=}")
    least, most = _range(dtype, low, high)
    wide = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes and sizes[-1] > 1 else sizes
    if dtype.is_complex:
        part = dtype.to_real()
        real, imaginary = (_uniform(oneflow.empty(wide, dtype=part, device=device), least, most) for _ in range(2))
        made = oneflow.complex(real, imaginary).to(dtype)
    elif dtype.is_floating_point:
        # Numbers of one byte are rounded from wider ones.
        drawn = oneflow.float32 if dtype.itemsize == 1 else dtype
        made = _uniform(oneflow.empty(wide, dtype=drawn, device=device), least, most).to(dtype)
    else:
        made = oneflow.randint(math.ceil(least), math.ceil(most), wide, device=device)
        made = made.to(dtype)
    if wide != sizes:
        made = made[..., ::2]
    if exclude_zero:
        limits: Any = oneflow.finfo(dtype).tiny if dtype.is_floating_point else 1
        made = made.masked_fill(made == 0, limits)
        if wide != sizes:
            made = oneflow.stack([made, made], -1).flatten(-2)[..., ::2]
    if memory_format is not None:
        made = made.clone(memory_format=memory_format)
    return made.requires_grad_(requires_grad) if requires_grad else made


def _range(dtype: Any, low: float | None, high: float | None) -> tuple[float, float]:
    """The bounds, by default those that PyTorch takes, inside of what the dtype holds."""
    is_integral = not (dtype.is_floating_point or dtype.is_complex)
    least: float
    most: float
    if dtype == oneflow.bool:
        least, most = 0, 2
    elif is_integral:
        least, most = oneflow.iinfo(dtype).min, oneflow.iinfo(dtype).max + (dtype != oneflow.int64)
    else:
        limits = oneflow.finfo(dtype)
        least, most = limits.min, limits.max
    low = (0 if dtype == oneflow.bool else -9) if low is None else low
    high = (2 if dtype == oneflow.bool else 10 if is_integral else 9) if high is None else high
    if any(isinstance(bound, float) and math.isnan(bound) for bound in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got {low=} and {high=}")
    if low == high and not is_integral:
        warnings.warn(
            "Passing `low==high` to `oneflow.testing.make_tensor` for floating or complex types is deprecated; use "
            "`oneflow.full(...)` instead.",
            FutureWarning,
            stacklevel=3,
        )
    elif low >= high:
        raise ValueError(f"`low` must be less than `high`, but got {low} >= {high}")
    elif high < least or low >= most:
        raise ValueError(
            f"The value interval specified by `low` and `high` is [{low}, {high}), but {dtype} only supports "
            f"[{least}, {most})"
        )
    return min(max(low, least), most), min(max(high, least), most)


def _uniform(t: Tensor, least: float, most: float) -> Tensor:
    """Numbers of the range, which may be wider than the greatest number of the dtype."""
    if most - least >= oneflow.finfo(t.dtype).max:
        return t.uniform_(least / 4, most / 4).mul_(4)
    return t.uniform_(least, most)
