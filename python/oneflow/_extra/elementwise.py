"""Activations and other elementwise functions, and derivatives that are public under names of their own."""

from __future__ import annotations

import math
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._extra._checks import expect


def quick_gelu(x: Tensor) -> Tensor:
    """``x * sigmoid(1.702 * x)``, near to GELU.

    Example::

        >>> oneflow.quick_gelu(oneflow.tensor([0.0, 1.0]))
        tensor([0.0000, 0.8458])
    """
    return x * (1.702 * x).sigmoid()


def square_relu(x: Tensor) -> Tensor:
    """``relu(x) ** 2``.

    Example::

        >>> oneflow.square_relu(oneflow.tensor([-1.0, 3.0]))
        tensor([0., 9.])
    """
    return x.relu().square()


def fast_gelu(x: Tensor) -> Tensor:
    """GELU by the hyperbolic tangent."""
    return gelu_with_approximate(x, "tanh")


def gelu_with_approximate(x: Tensor, approximate: str = "none") -> Tensor:
    """GELU: "none" by the error function, "tanh" by the hyperbolic tangent."""
    return oneflow.nn.functional.gelu(x, approximate=approximate)


def fused_fast_gelu_mul(x: Tensor, multiplier: Tensor) -> Tensor:
    """``fast_gelu(x) * multiplier``."""
    return fast_gelu(x) * multiplier


def rint(x: Tensor) -> Tensor:
    """The nearest whole number; halves go to the even one."""
    return x.round()


def reciprocal_no_nan(x: Tensor) -> Tensor:
    """``1 / x``, and 0 where ``x`` is 0."""
    zero = x == 0
    return oneflow.where(zero, oneflow.zeros_like(x), oneflow.where(zero, oneflow.ones_like(x), x).reciprocal())


def trunc_divide(x: Tensor, y: Any) -> Tensor:
    """``x / y`` without its fraction."""
    return oneflow.div(x, y, rounding_mode="trunc")


def broadcast_equal(x: Tensor, y: Tensor) -> Tensor:
    """``x == y``."""
    return oneflow.eq(x, y)


def host_scalar_add_by_tensor(x: Tensor, scalar: Tensor) -> Tensor:
    """``x`` plus the number that a tensor of one element holds."""
    return x + scalar.to(x.device).reshape(())


def bias_add(x: Tensor, bias: Tensor, axis: int = 1) -> Tensor:
    """``x`` plus a vector along one dimension.

    Args:
        bias: as long as ``x`` is along ``axis``.
    """
    expect(bias.dim() == 1, f"bias_add: Bias tensor has to be a one-dimensional vector, got {list(bias.shape)}")
    expect(
        -x.dim() <= axis < x.dim(),
        f"bias_add: Dimension out of range (expected to be in range of [{-x.dim()},{x.dim() - 1}], but got {axis})",
        IndexError,
    )
    expect(
        bias.shape[0] == x.shape[axis],
        f"bias_add: The size of tensor x {_shape(x)} must match the size of tensor b {_shape(bias)} at dimension "
        f"{axis}",
    )
    return x + bias.reshape(-1, *([1] * (x.dim() - 1 - axis % x.dim())))


def _shape(x: Tensor) -> str:
    return str(tuple(x.shape)).replace(" ", "")


def identity(x: Tensor) -> Tensor:
    """``x`` as a new tensor of the graph."""
    return x.view_as(x)


amp_black_identity = amp_white_identity = identity


def copy(x: Tensor, device: Any = None, pin_memory: bool = False) -> Tensor:
    """Return a copy of ``x``, on ``device`` if one is given."""
    made = x.clone() if device is None else x.to(device, copy=True)
    return made.pin_memory() if pin_memory else made


def depend(input: Tensor, depend: Any) -> Tensor:
    """``input``; the tensor or tensors ``depend`` have been computed by then, since ops run in program order.

    Example::

        >>> oneflow.nn.functional.depend(oneflow.ones(1), oneflow.zeros(2))
        tensor([1.])
    """
    others = depend if isinstance(depend, (list, tuple)) else [depend]
    if not all(isinstance(t, Tensor) for t in (input, *others)):
        raise TypeError("depend: expected a tensor, and a tensor or a list of tensors that it depends on")
    return input


def contiguous_(x: Tensor) -> Tensor:
    """Give ``x`` row-major strides in place."""
    return x if x.is_contiguous() else x.set_(x.contiguous())


def eye_(x: Tensor) -> Tensor:
    """Make a matrix the unit matrix in place."""
    if x.dim() != 2:
        raise RuntimeError(f"eye_: expected a matrix, got {x.dim()} dimensions")
    with oneflow.no_grad():
        return x.copy_(oneflow.eye(*x.shape, dtype=x.dtype, device=x.device))


# ---- derivatives, times what comes from above


def cosh_grad(x: Tensor, dy: Tensor) -> Tensor:
    """``dy * sinh(x)``."""
    return dy * x.sinh()


def tan_grad(x: Tensor, dy: Tensor) -> Tensor:
    """``dy / cos(x) ** 2``."""
    return dy * (1 + x.tan().square())


def tanh_grad(x: Tensor, dy: Tensor) -> Tensor:
    """``dy * (1 - tanh(x) ** 2)``."""
    return dy * (1 - x.tanh().square())


def sigmoid_grad(y: Tensor, dy: Tensor) -> Tensor:
    """``dy * y * (1 - y)``, ``y`` the result of sigmoid."""
    return dy * y * (1 - y)


# ---- reductions


def reduce_sum(x: Tensor, axis: Any = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum over dimensions; all of them by default."""
    return x.sum(_dims(x, axis), keepdim=keepdims, dtype=dtype)


def reduce_mean(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean over dimensions; all of them by default."""
    return x.mean(_dims(x, axis), keepdim=keepdims)


def reduce_nansum(x: Tensor, axis: Any = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum over dimensions of what is a number."""
    return x.nansum(_dims(x, axis), keepdim=keepdims, dtype=dtype)


def reduce_max(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The greatest elements over dimensions; equal ones share the gradient."""
    return x.amax(_dims(x, axis), keepdim=keepdims)


def reduce_min(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The least elements over dimensions; equal ones share the gradient."""
    return x.amin(_dims(x, axis), keepdim=keepdims)


def reduce_prod(x: Tensor, axis: Any = None, keepdims: bool = False, *, dtype: Any = None) -> Tensor:
    """The product over dimensions."""
    for dim in sorted((d % x.dim() for d in _dims(x, axis)), reverse=True):
        x = x.prod(dim, keepdim=keepdims, dtype=dtype)
    return x


def reduce_all(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return whether all elements over dimensions are true."""
    return x.all(_dims(x, axis), keepdim=keepdims)


def reduce_any(x: Tensor, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Return whether an element over dimensions is true."""
    return x.any(_dims(x, axis), keepdim=keepdims)


def _dims(x: Tensor, axis: Any) -> tuple[int, ...]:
    if axis is None or (not isinstance(axis, int) and len(axis) == 0):
        return tuple(range(x.dim()))
    return (axis,) if isinstance(axis, int) else tuple(axis)


def sqrt_square_sum(x: Tensor) -> Tensor:
    """The Euclidean norm of all elements."""
    return x.square().sum().sqrt()


def batch_matmul(
    a: Tensor, b: Tensor, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0
) -> Tensor:
    """``alpha * a @ b`` of batches of matrices, each transposed first where wanted."""
    a = a.transpose(-1, -2) if transpose_a else a
    b = b.transpose(-1, -2) if transpose_b else b
    product = a.matmul(b)
    return product if math.isclose(alpha, 1.0) else product * alpha


def matrix_vector_product(a: Tensor, b: Tensor) -> Tensor:
    """``a @ b``, a matrix and a vector."""
    return oneflow.mv(a, b)


def linalg_cross(input: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The cross product of vectors of length 3 along ``dim``; by default the first dimension of that length."""
    return oneflow.cross(input, other, dim)
