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
        low, high: by default -9 and 9; 0 and 10 for bytes, 0 and 2 for bools.
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
        raise ValueError("`requires_grad=True` is only supported for floating point and complex dtypes")
    default = {oneflow.bool: (0, 2), oneflow.uint8: (0, 10)}.get(dtype, (-9, 10 if not dtype.is_floating_point else 9))
    least, most = default[0] if low is None else low, default[1] if high is None else high
    if math.isnan(least) or math.isnan(most) or least > most:
        raise ValueError(f"make_tensor: the range [{least}, {most}) is empty")
    wide = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes and sizes[-1] > 1 else sizes
    if dtype.is_complex:
        part = dtype.to_real()
        real, imaginary = (oneflow.empty(wide, dtype=part, device=device).uniform_(least, most) for _ in range(2))
        made = oneflow.complex(real, imaginary).to(dtype)
    elif dtype.is_floating_point:
        made = oneflow.empty(wide, dtype=dtype, device=device).uniform_(least, most)
    else:
        made = oneflow.randint(math.floor(least), max(math.ceil(most), math.floor(least) + 1), wide, device=device)
        made = made.to(dtype)
    if wide != sizes:
        made = made[..., ::2]
    if exclude_zero:
        limits: Any = oneflow.finfo(dtype).tiny if dtype.is_floating_point else 1
        made = made.masked_fill(made == 0, limits)
        if wide != sizes:
            made = oneflow.stack([made, made], -1).flatten(-2)[..., ::2]
    if memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    return made.requires_grad_(requires_grad) if requires_grad else made
