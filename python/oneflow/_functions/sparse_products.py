"""Sparse results of products of sparse with dense matrices. Products with dense results are ``mm`` and ``addmm``."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor

__all__ = ["dsmm", "hsmm", "hspmm", "saddmm", "smm", "spmm", "sspaddmm"]


def hspmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """The product of a sparse and a dense matrix, as a sparse vector of dense rows: those where ``mat1`` has entries.

    Args:
        mat1: sparse, (n, m).
        mat2: dense, (m, p).

    Returns:
        Hybrid: one sparse and one dense dimension, (n, p).

    Raises:
        RuntimeError: ``mat1`` is not sparse, or the shapes do not fit.

    Example::

        >>> a = oneflow.sparse_coo_tensor([[1], [0]], [2.0], (3, 2))
        >>> oneflow.hspmm(a, oneflow.ones(2, 2)).values()
        tensor([[2., 2.]])
    """
    rows, values = _rows_of_product("hspmm", mat1, mat2)
    return oneflow.sparse_coo_tensor(rows[None], values, (mat1.shape[0], mat2.shape[1]), is_coalesced=True)


def smm(input: Tensor, mat: Tensor) -> Tensor:
    """The product of a sparse and a dense matrix, as a sparse matrix.

    Args:
        input: sparse, (n, m).
        mat: dense, (m, p).

    Raises:
        RuntimeError: ``input`` is not sparse, or the shapes do not fit.

    Example::

        >>> a = oneflow.sparse_coo_tensor([[1], [0]], [2.0], (3, 2))
        >>> oneflow.smm(a, oneflow.ones(2, 2)).to_dense()
        tensor([[0., 0.],
                [2., 2.],
                [0., 0.]])
    """
    at, values = _entries_of_product("smm", input, mat)
    return oneflow.sparse_coo_tensor(at, values, (input.shape[0], mat.shape[1]))


def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)`` as a sparse matrix; an index that both have is there twice.

    Args:
        input: sparse, (n, p).
        mat1: sparse, (n, m).
        mat2: dense, (m, p).
        beta: factor of ``input``.
        alpha: factor of the product.

    Raises:
        RuntimeError: ``input`` or ``mat1`` is not sparse, or the shapes do not fit.

    Example::

        >>> a = oneflow.eye(2).to_sparse()
        >>> oneflow.sspaddmm(a, a, oneflow.ones(2, 2), alpha=3).to_dense()
        tensor([[4., 3.],
                [3., 4.]])
    """
    _check_sparse("sspaddmm", "input", input)
    at, values = _entries_of_product("sspaddmm", mat1, mat2)
    size = (mat1.shape[0], mat2.shape[1])
    if tuple(input.shape) != size:
        raise RuntimeError(f"sspaddmm: input has shape {list(input.shape)}, the product {list(size)}")
    together = oneflow.cat([input._indices(), at], 1), oneflow.cat([input._values() * beta, values * alpha])
    return oneflow.sparse_coo_tensor(*together, size)


def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices, of which one may be sparse: :func:`oneflow.mm`.

    Example::

        >>> oneflow.spmm(oneflow.eye(2).to_sparse(), oneflow.ones(2, 1))
        tensor([[1.],
                [1.]])
    """
    return oneflow.mm(input, mat2)


dsmm = spmm
hsmm = hspmm
saddmm = sspaddmm


def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * mat + alpha * (mat1 @ mat2)``, dense; ``mat1`` is sparse. Differentiable by the dense ones.

    Args:
        mat: dense, (n, p).
        mat1: sparse, (n, m).
        mat2: dense, (m, p).
        beta: factor of ``mat``.
        alpha: factor of the product.

    Example::

        >>> oneflow.sparse.addmm(oneflow.ones(2, 2), oneflow.eye(2).to_sparse(), oneflow.ones(2, 2), alpha=3)
        tensor([[4., 4.],
                [4., 4.]])
    """
    return beta * mat + alpha * oneflow.mm(mat1, mat2)


def _check_sparse(name: str, argument: str, tensor: Tensor) -> None:
    if not tensor.is_sparse:
        raise RuntimeError(f"{name}: {argument} must be a sparse COO tensor, got layout {tensor.layout}")


def _rows_of_product(name: str, sparse: Tensor, dense: Tensor) -> tuple[Tensor, Tensor]:
    _check_sparse(name, "the first matrix", sparse)
    product = oneflow.mm(sparse, dense)
    rows = sparse._indices()[0].unique()
    return rows, product[rows]


def _entries_of_product(name: str, sparse: Tensor, dense: Tensor) -> tuple[Tensor, Tensor]:
    rows, values = _rows_of_product(name, sparse, dense)
    n = dense.shape[1]
    columns = oneflow.arange(n, device=rows.device).repeat(len(rows))
    return oneflow.stack([rows.repeat_interleave(n), columns]), values.flatten()
