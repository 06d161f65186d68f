"""Functions of ``ops.aten`` that have no public name: casts, assertions and backwards.

Each is a composition of public functions.
"""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._functions import sparse, sparse_products


def sym_size(self: Tensor, dim: int | None = None) -> Any:
    """The sizes, or the one along ``dim``."""
    return self.shape if dim is None else self.shape[dim]


def sym_numel(self: Tensor) -> int:
    """The number of elements."""
    return self.numel()


def sym_stride(self: Tensor, dim: int | None = None) -> Any:
    """The strides, or the one along ``dim``."""
    return self.stride() if dim is None else self.stride(dim)


def _to_copy(
    self: Tensor,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: Any = None,
    non_blocking: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A copy with another dtype, device or order in memory."""
    options = {"dtype": dtype, "device": device, "memory_format": memory_format}
    options = {key: value for key, value in options.items() if value is not None}
    made = self.to(**options, non_blocking=non_blocking, copy=True)
    return made.pin_memory() if pin_memory else made


def _unsafe_view(self: Tensor, size: Any) -> Tensor:
    """A view with other sizes."""
    return self.view(size)


def _local_scalar_dense(self: Tensor) -> Any:
    """The number of a tensor of one element."""
    return self.item()


def _assert_scalar(self: Any, assert_msg: str) -> None:
    """Raise RuntimeError with the message where the number is zero."""
    if not self:
        raise RuntimeError(assert_msg)


def _assert_async(input: Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but got zero") -> None:
    """Raise RuntimeError where the one element of a tensor is zero.

    Example::

        >>> oneflow._assert_async(oneflow.tensor(True))
    """
    if not bool(input):
        raise RuntimeError(assert_msg)


def max_pool2d_with_indices_backward(
    grad_output: Tensor,
    self: Tensor,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    """Each gradient at the place its maximum came from; windows that share one add up."""
    planes = oneflow.zeros_like(self).flatten(-2)
    return planes.scatter_add(-1, indices.flatten(-2), grad_output.flatten(-2)).reshape(self.shape)


def _grouped_mm(
    self: Tensor, mat2: Tensor, offs: Tensor | None = None, bias: Tensor | None = None, out_dtype: Any = None
) -> Tensor:
    """:func:`oneflow.nn.functional.grouped_mm` with options by position.

    Example::

        >>> rows, weights = oneflow.ones(3, 2), oneflow.ones(2, 2, 1)
        >>> oneflow._grouped_mm(rows, weights, oneflow.tensor([1, 3], dtype=oneflow.int32)).T
        tensor([[2., 2., 2.]])
    """
    return oneflow.nn.functional.grouped_mm(self, mat2, offs=offs, bias=bias, out_dtype=out_dtype)


def _scaled_mm(
    self: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: Any = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """The product of two matrices of eight-bit floats times their factors; :func:`oneflow.nn.functional.scaled_mm`
    says more.

    Example::

        >>> a, one = oneflow.ones(2, 4).to(oneflow.float8_e5m2), oneflow.tensor(1.0)
        >>> oneflow._scaled_mm(a, a.t(), one, one, out_dtype=oneflow.float32).tolist()
        [[4.0, 4.0], [4.0, 4.0]]
    """
    if scale_result is not None:
        raise NotImplementedError("_scaled_mm: scale_result is not supported; divide the result by it")
    products: Any = oneflow.nn.functional._products
    return products.multiplied(self, mat2, scale_a, scale_b, bias, out_dtype)


def _pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """A copy in pinned host memory."""
    return self.pin_memory(device)


def _sparse_addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * self + alpha * (mat1 @ mat2)`` of a sparse ``mat1``."""
    return sparse_products.addmm(self, mat1, mat2, beta=beta, alpha=alpha)


def _sparse_mm_reduce_impl(self: Tensor, other: Tensor, reduce: str) -> tuple[Tensor, Tensor]:
    """:func:`oneflow.sparse.mm` with ``reduce``; the second is empty: which entry was the greatest is not kept."""
    return sparse.mm(self, other, reduce), self.crow_indices().new_empty((0,))
