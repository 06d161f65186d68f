"""Products with compressed sparse matrices: gradients keep the places of the entries. Matrices of diagonals."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._functions.compressed import layout_name, rows_and_columns, title
from oneflow._oneflow import Function

_C = _oneflow._C
_REDUCTIONS = {"sum": "sum", "mean": "mean", "amax": "amax", "amin": "amin", "max": "amax", "min": "amin"}


class _Product(Function):
    """A compressed matrix times a dense one. The first gradient has entries where the matrix has some."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, dense: Tensor) -> Tensor:
        ctx.matrix, ctx.dense = matrix.detach(), dense.detach()
        return oneflow.mm(ctx.matrix, ctx.dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None]:
        of_matrix, of_dense = ctx.needs_input_grad
        return (
            _gradient_at(ctx.matrix, grads[0], ctx.dense) if of_matrix else None,
            oneflow.mm(ctx.matrix.t(), grads[0]) if of_dense else None,
        )


def _gradient_at(matrix: Tensor, grad: Tensor, dense: Tensor) -> Tensor:
    """The entries of ``grad @ dense.T`` at the places of ``matrix``."""
    rows, columns = rows_and_columns(matrix)
    _, _, (height, width) = _C._sparse_compressed_facts(matrix)
    if layout_name(matrix.layout) in ("sparse_bsr", "sparse_bsc"):
        values = grad.unflatten(0, (-1, height))[rows] @ dense.unflatten(0, (-1, width))[columns].mT
    else:
        values = (grad[rows] * dense[columns]).sum(1)
    return _C._sparse_with_values(matrix, values)


def mm(matrix: Tensor, dense: Tensor) -> Tensor:
    """The product of a compressed and a dense matrix."""
    return _Product.apply(matrix, dense)


def mm_reduced(matrix: Tensor, dense: Tensor, reduce: str) -> Tensor:
    """A reduction of the products of the entries of each row of a CSR matrix with the rows of ``dense`` that they name.

    Args:
        matrix: CSR, (n, m).
        dense: (m, p).
        reduce: ``sum``, ``mean``, ``amax`` or ``max``, ``amin`` or ``min``; zero where a row has no entries.
    """
    if reduce not in _REDUCTIONS:
        raise RuntimeError(f"sparse.mm(): reduce must be one of {', '.join(_REDUCTIONS)}, got {reduce!r}")
    if not matrix.is_sparse_csr or matrix.dim() != 2 or dense.dim() != 2:
        raise RuntimeError(
            f"sparse.mm(): reduce={reduce!r} needs a CSR and a dense matrix, got {title(matrix)} {list(matrix.shape)} "
            f"and {list(dense.shape)}"
        )
    if matrix.shape[1] != dense.shape[0]:
        raise RuntimeError(f"sparse.mm(): shapes {list(matrix.shape)} and {list(dense.shape)} cannot be multiplied")
    reduce, (rows, columns) = _REDUCTIONS[reduce], rows_and_columns(matrix)
    if reduce in ("sum", "mean"):
        total = mm(matrix, dense)
        counts = matrix.crow_indices().diff().clamp(min=1).to(total.dtype)
        return total if reduce == "sum" else total / counts[:, None]
    terms = dense[columns] * matrix.values()[:, None]
    at = rows[:, None].expand_as(terms)
    empty = terms.new_zeros((matrix.shape[0], dense.shape[1]))
    return empty.scatter_reduce(0, at, terms, reduce, include_self=False)


def sampled_addmm(
    input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1, out: Any = None
) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)`` at the places of the entries of ``input`` alone.

    Args:
        input: CSR, (n, p).
        mat1: dense, (n, m).
        mat2: dense, (m, p).
        beta: factor of ``input``.
        alpha: factor of the product.
        out: a CSR tensor that takes the result.

    Returns:
        CSR, with the places of ``input``.

    Raises:
        RuntimeError: ``input`` is not in CSR layout, or the shapes do not fit.

    Example::

        >>> a = oneflow.eye(2).to_sparse_csr()
        >>> oneflow.sparse.sampled_addmm(a, oneflow.ones(2, 3), oneflow.ones(3, 2)).values()
        tensor([4., 4.])
    """
    if not input.is_sparse_csr:
        raise RuntimeError(f"sampled_addmm: Expected self to have sparse csr layout, but got {title(input)}")
    if input.dim() != 2 or mat1.dim() != 2 or mat2.dim() != 2:
        raise RuntimeError(
            f"sampled_addmm: input, mat1 and mat2 must be matrices, got {list(input.shape)}, {list(mat1.shape)} "
            f"and {list(mat2.shape)}"
        )
    if mat1.shape[1] != mat2.shape[0]:
        raise RuntimeError(
            f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied ({list(mat1.shape)} and {list(mat2.shape)})"
        )
    if tuple(input.shape) != (mat1.shape[0], mat2.shape[1]):
        raise RuntimeError(
            f"sampled_addmm: input has shape {list(input.shape)}, the product {[mat1.shape[0], mat2.shape[1]]}"
        )
    rows, columns = rows_and_columns(input)
    values = input.values() * beta + (mat1[rows] * mat2.t()[columns]).sum(1) * alpha
    made = oneflow.sparse_csr_tensor(input.crow_indices(), input.col_indices(), values, input.shape)
    return made if out is None else out.copy_(made)


def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor:
    """A sparse matrix with the rows of ``diagonals`` along its diagonals: element j of a row stands in column j.

    Args:
        diagonals: (k, n), or (n,) for one diagonal.
        offsets: (k,) int64, which diagonal each row is: 0 the main one, above it positive, below it negative.
        shape: rows and columns of the result.
        layout: of the result; sparse_coo if left out.

    Raises:
        RuntimeError: an offset is there twice or outside the matrix, or the shapes do not fit.

    Example::

        >>> oneflow.sparse.spdiags(oneflow.tensor([[1.0, 2.0]]), oneflow.tensor([1]), (2, 2)).to_dense()
        tensor([[0., 2.],
                [0., 0.]])
    """
    rows_of, places = diagonals.reshape(-1, diagonals.shape[-1]), offsets.reshape(-1)
    n, m = (int(size) for size in shape)
    if offsets.dtype != oneflow.int64:
        raise RuntimeError(f"spdiags(): Offset Tensor must have dtype Long but got {offsets.dtype}")
    if diagonals.dim() > 2 or offsets.dim() > 1:
        raise RuntimeError("spdiags(): Diagonals must be vector or matrix, and offsets scalar or vector")
    if len(rows_of) != len(places):
        raise RuntimeError(
            f"spdiags(): Number of diagonals ({len(rows_of)}) does not match the number of offsets ({len(places)})"
        )
    if len(places.unique()) != len(places):
        raise RuntimeError("spdiags(): Offset tensor contains duplicate values")
    width = min(m, rows_of.shape[1])
    column = oneflow.arange(width, device=places.device).expand(len(places), width)
    row = column - places[:, None]
    inside = (row >= 0) & (row < n)
    made = oneflow.sparse_coo_tensor(oneflow.stack([row[inside], column[inside]]), rows_of[:, :width][inside], (n, m))
    return made if layout is None else made.to_sparse(layout=layout)
