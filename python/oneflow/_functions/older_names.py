"""Functions under older names: PyTorch keeps them, and so does this package."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor


def embedding(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """Rows of ``weight`` at ``indices``; :func:`oneflow.nn.functional.embedding` takes them the other way round.

    Example::

        >>> oneflow.embedding(oneflow.tensor([[0.0], [2.0]]), oneflow.tensor([1]))
        tensor([[2.]])
    """
    return oneflow._oneflow.embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)


def dequantize(input: Tensor) -> Tensor:
    """The numbers in single precision; there are no quantized tensors.

    Example::

        >>> oneflow.ones(1, dtype=oneflow.float64).dequantize()
        tensor([1.])
    """
    return input.float()


def frobenius_norm(input: Tensor, dim: Any, keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The root of the sum of squares over ``dim``, over all dimensions if the list is empty.

    Example::

        >>> oneflow.frobenius_norm(oneflow.tensor([[3.0, 4.0]]), dim=[])
        tensor(5.)
    """
    dims = None if isinstance(dim, Sequence) and not dim else dim
    return oneflow.linalg.vector_norm(input, 2, dims, keepdim, out=out)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Norms over all dimensions but one; over all of them for ``dim=-1``. Dimensions stay, with size one.

    Example::

        >>> oneflow.norm_except_dim(oneflow.tensor([[3.0, 4.0], [0.0, 2.0]]))
        tensor([[5.],
                [2.]])
    """
    return oneflow.nn.utils.parametrizations.norm_except_dim(v, pow, dim)


def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False, *, out: Tensor | None = None) -> Tensor:
    """The sum of the singular values of matrices over two dimensions.

    Example::

        >>> oneflow.nuclear_norm(oneflow.tensor([[3.0, 0.0], [0.0, -1.0]]))
        tensor(4.)
    """
    if isinstance(dim, bool):
        dim, keepdim = (-2, -1), dim
    return oneflow.linalg.matrix_norm(input, "nuc", tuple(dim), keepdim, out=out)


def affine_grid_generator(theta: Tensor, size: Any, align_corners: bool) -> Tensor:
    """:func:`oneflow.nn.functional.affine_grid`, without a default for ``align_corners``.

    Example::

        >>> theta = oneflow.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
        >>> oneflow.affine_grid_generator(theta, (1, 1, 2, 2), True)[0, 0]
        tensor([[-1., -1.],
                [ 1., -1.]])
    """
    return oneflow.nn.functional.affine_grid(theta, size, align_corners)


def as_strided_(input: Tensor, size: Any, stride: Any, storage_offset: int | None = None) -> Tensor:
    """:meth:`Tensor.as_strided_` as a function.

    Example::

        >>> oneflow.as_strided_(oneflow.tensor([1.0, 2.0, 3.0]), (2,), (2,))
        tensor([1., 3.])
    """
    return input.as_strided_(size, stride, storage_offset)


def ger(input: Tensor, vec2: Tensor, *, out: Tensor | None = None) -> Tensor:
    """``outer(input, vec2)``.

    Example::

        >>> oneflow.ger(oneflow.tensor([1.0, 2.0]), oneflow.tensor([3.0]))
        tensor([[3.],
                [6.]])
    """
    return oneflow.outer(input, vec2) if out is None else oneflow.outer(input, vec2, out=out)


def detach(input: Tensor) -> Tensor:
    """:meth:`Tensor.detach` as a function.

    Example::

        >>> oneflow.detach(oneflow.ones(1, requires_grad=True))
        tensor([1.])
    """
    return input.detach()


def detach_(input: Tensor) -> Tensor:
    """:meth:`Tensor.detach_` as a function.

    Example::

        >>> oneflow.detach_(oneflow.ones(1, requires_grad=True))
        tensor([1.])
    """
    return input.detach_()


def range(
    start: float = 0,
    end: float | None = None,
    step: float = 1,
    *,
    out: Tensor | None = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> Tensor:
    """Numbers from ``start`` to ``end``, which counts too; :func:`oneflow.arange` leaves it out.

    Example::

        >>> oneflow.arange(0, 2 + 1, dtype=oneflow.float32)  # instead
        tensor([0., 1., 2.])
    """
    warnings.warn(
        "range is deprecated and will be removed in a future release because its behavior is inconsistent with "
        "Python's range builtin. Instead, use oneflow.arange, which produces values in [start, end).",
        stacklevel=3,
    )
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) / step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    count = int((end - start) / step) + 1
    if layout not in (None, oneflow.strided):
        raise NotImplementedError(f"range(): only layout=strided is supported, got {layout}")
    if out is not None:
        dtype, device = dtype or out.dtype, device or out.device
    numbers = oneflow.arange(count, device=device, dtype=oneflow.float64) * step + start
    numbers = numbers.to(dtype or oneflow.get_default_dtype())
    if out is None:
        return numbers.requires_grad_(requires_grad)
    if out.numel() == count:
        # As many elements in another shape are filled where they are.
        return out.copy_(numbers.reshape(out.shape))
    return oneflow.alias_copy(numbers, out=out)


def _removed(name: str, instead: str) -> Any:
    """A function that PyTorch removed and that raises RuntimeError: what takes its place."""
    text = f"This function was deprecated since version 1.9 and is now removed. {instead}"

    def removed(*args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(text)

    removed.__name__ = removed.__qualname__ = name
    removed.__module__ = __name__
    removed.__doc__ = (
        f"Raises RuntimeError: {instead}\n\nExample::\n\n"
        f"    >>> oneflow.{name}(oneflow.eye(2))  # doctest: +ELLIPSIS\n"
        "    Traceback (most recent call last):\n        ...\n    RuntimeError: This function was deprecated ..."
    )
    return removed


eig = _removed("eig", "Please use the `torch.linalg.eig` or `torch.linalg.eigvals` function instead.")
lstsq = _removed("lstsq", "Please use the `torch.linalg.lstsq` function instead: it takes the matrix first.")
matrix_rank = _removed(
    "matrix_rank",
    "Please use the `torch.linalg.matrix_rank` function instead; its parameter for symmetric matrices is `hermitian`.",
)
solve = _removed("solve", "Please use the `torch.linalg.solve` function instead: it takes the matrix first.")
symeig = _removed(
    "symeig",
    "Please use `torch.linalg.eigvalsh(A, UPLO='U' if upper else 'L')`, or `torch.linalg.eigh` for the vectors too.",
)
