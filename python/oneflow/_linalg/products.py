"""Norms, products of several factors and of vectors, and tensors seen as matrices. Public under ``linalg``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import _oneflow
from oneflow._base.amp import lowered
from oneflow._linalg.arguments import given, is_complex, need_float, need_matrix
from oneflow._oneflow import Tensor
from oneflow._oneflow import dtype as DType

_C = _oneflow._C


def vector_norm(
    x: Tensor,
    ord: Any = 2,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The norm of all elements, or of those along ``dim``.

    >>> import oneflow
    >>> oneflow.linalg.vector_norm(oneflow.tensor([3.0, 4.0]))
    tensor(5.)
    """
    _need_real_order("linalg.vector_norm", ord)
    if dim is not None and not isinstance(dim, int):
        dim = tuple(dim)
    return given(_C.linalg_vector_norm(x, ord, dim, keepdim, dtype=dtype), out)


def _need_real_order(name: str, ord: Any) -> None:
    if isinstance(ord, complex):
        raise RuntimeError(f"{name}: Expected a non-complex scalar as the order of norm, got {ord}.")


def matrix_norm(
    A: Tensor,
    ord: Any = "fro",
    dim: Sequence[int] = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The norm of matrices in two dimensions: "fro", "nuc", 1, -1, 2, -2, inf or -inf.

    Example::

        >>> oneflow.linalg.matrix_norm(oneflow.tensor([[3.0, 0.0], [0.0, 4.0]]))
        tensor(5.)
    """
    name = "linalg.matrix_norm"
    need_matrix(A, name)
    need_float(A, name)
    _need_real_order(name, ord)
    if isinstance(dim, int) or len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {dim}")
    rows, columns = (_wrap(d, A.ndim) for d in dim)
    if rows == columns:
        raise RuntimeError(f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})")
    if isinstance(ord, str):
        if ord not in ("fro", "nuc"):
            raise RuntimeError(f"{name}: Order {ord} not supported.")
    elif abs(ord) not in (1, 2, math.inf):
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim, dtype=dtype, out=out)
    if dtype is not None:
        A = A.to(dtype)
    if ord == "nuc" or abs(ord) == 2:
        values = oneflow.linalg.svdvals(A.movedim((rows, columns), (-2, -1)))
        if ord == "nuc":
            result = values.sum(-1)
        elif ord == 2:
            result = _greatest(values, -1)
        else:
            result = values.amin(-1)
        if keepdim:
            result = result.unsqueeze(-1).unsqueeze(-1).movedim((-2, -1), (rows, columns))
        return given(result, out)
    # Sums of columns for 1, of rows for inf.
    summed, over = (rows, columns) if abs(ord) == 1 else (columns, rows)
    if not keepdim and over > summed:
        over -= 1
    sums = vector_norm(A, 1, summed, keepdim)
    return given(_greatest(sums, over, keepdim) if ord > 0 else sums.amin(over, keepdim=keepdim), out)


def _greatest(norms: Tensor, dim: int, keepdim: bool = False) -> Tensor:
    """The greatest of norms; of none it is zero."""
    return norms.amax(dim, keepdim=keepdim) if norms.shape[dim] else norms.sum(dim, keepdim=keepdim)


def _wrap(d: int, ndim: int) -> int:
    if not -ndim <= d < ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {d})")
    return d % ndim


def norm(
    A: Tensor,
    ord: Any = None,
    dim: int | Sequence[int] | None = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """The vector or matrix norm, by the number of dimensions.

    >>> import oneflow
    >>> oneflow.linalg.norm(oneflow.ones(2, 2))
    tensor(2.)
    """
    dims = None if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if ord is not None:
        if dims is not None and len(dims) not in (1, 2):
            raise RuntimeError(f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}")
        if dims is None and A.ndim not in (1, 2):
            raise RuntimeError(
                f"linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got {A.ndim}D."
            )
        if (dims is not None and len(dims) == 2) or (dims is None and A.ndim == 2):
            return matrix_norm(A, ord, dims or (0, 1), keepdim, dtype=dtype, out=out)
        if isinstance(ord, str):
            if dims is not None:
                return matrix_norm(A, ord, dims, keepdim, dtype=dtype, out=out)
            return matrix_norm(A, ord, (0, 1), keepdim, dtype=dtype, out=out)
    return vector_norm(A, 2 if ord is None else ord, dims, keepdim, dtype=dtype, out=out)


# -------------------------------------------------------------------------------------------------- products


def multi_dot(tensors: Sequence[Tensor], *, out: Tensor | None = None) -> Tensor:
    """The product of matrices, in the order of least work; the first and the last may be vectors.

    Example::

        >>> oneflow.linalg.multi_dot([oneflow.ones(2, 3), oneflow.ones(3, 4), oneflow.ones(4, 1)])
        tensor([[12.],
                [12.]])
    """
    tensors = list(tensors)
    if len(tensors) < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {len(tensors)}")
    first, last = tensors[0].ndim, tensors[-1].ndim
    for at, (t, dims) in enumerate(zip(tensors, [(1, 2)] + [(2,)] * (len(tensors) - 2) + [(1, 2)], strict=True)):
        if t.ndim not in dims:
            kinds = "1D or 2D" if 1 in dims else "2D"
            raise RuntimeError(f"multi_dot(): tensor {at} must be {kinds} but got {t.ndim}D")
        if t.dtype != tensors[0].dtype:
            raise RuntimeError(
                f"multi_dot(): all tensors must have be the same dtype but tensor 0 is {tensors[0].dtype} "
                f"and tensor {at} {t.dtype}"
            )
    if first == 1:
        tensors[0] = tensors[0].unsqueeze(0)
    if last == 1:
        tensors[-1] = tensors[-1].unsqueeze(-1)
    for at in range(len(tensors) - 1):
        if tensors[at].shape[1] != tensors[at + 1].shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {at} and {at + 1} with shapes {list(tensors[at].shape)} and "
                f"{list(tensors[at + 1].shape)} cannot be multiplied"
            )
    split = _best_splits([t.shape[0] for t in tensors] + [tensors[-1].shape[1]])
    result = _product(tensors, split, 0, len(tensors) - 1)
    if first == 1:
        result = result.squeeze(0)
    if last == 1:
        result = result.squeeze(-1)
    return given(result, out)


def _product(tensors: list[Tensor], split: dict[tuple[int, int], int], i: int, j: int) -> Tensor:
    """The product of a run of matrices."""
    if i == j:
        return tensors[i]
    at = split[i, j]
    return _product(tensors, split, i, at) @ _product(tensors, split, at + 1, j)


def _best_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split each run of matrices (Cormen et al., "Introduction to Algorithms", chapter 15.2)."""
    n = len(sizes) - 1
    work = {(i, i): 0 for i in range(n)}
    split = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            options = [(work[i, k] + work[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)]
            work[i, j], split[i, j] = min(options)
    return split


def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The product of :func:`oneflow.matmul` under the name of this module.

    Example::

        >>> oneflow.linalg.matmul(oneflow.eye(2), oneflow.tensor([1.0, 2.0]))
        tensor([1., 2.])
    """
    return _oneflow.matmul(input, other, out=out)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Inner products along a dimension, conjugating ``x``.

    Example::

        >>> oneflow.linalg.vecdot(oneflow.tensor([1.0, 2.0]), oneflow.tensor([3.0, 4.0]))
        tensor(11.)
    """
    if not (x.is_floating_point() or is_complex(x.dtype)):
        return given((x * y).sum(dim), out)
    x, y = lowered(x, y)
    return given((x.conj() * y).sum(dim), out)


def cross(input: Tensor, other: Tensor, *, dim: int = -1, out: Tensor | None = None) -> Tensor:
    """Cross products of vectors of three elements along a dimension.

    >>> import oneflow
    >>> oneflow.linalg.cross(oneflow.tensor([1.0, 0.0, 0.0]), oneflow.tensor([0.0, 1.0, 0.0]))
    tensor([0., 0., 1.])
    """
    return given(_C.linalg_cross(input, other, dim=dim), out)


def diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """The diagonal of matrices, as a view.

    Example::

        >>> oneflow.linalg.diagonal(oneflow.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([1., 4.])
    """
    return A.diagonal(offset, dim1, dim2)


def vander(x: Tensor, N: int | None = None) -> Tensor:
    """Powers of each element: rows ``1, x, x**2, ...`` of ``N`` columns.

    Example::

        >>> oneflow.linalg.vander(oneflow.tensor([1, 2, 3]))
        tensor([[1, 1, 1],
                [1, 2, 4],
                [1, 3, 9]])
    """
    if N is not None and N <= 1:
        raise RuntimeError("N must be greater than 1.")
    n = (x.shape[-1] if x.ndim else 1) if N is None else N
    dtype = x.dtype if x.is_floating_point() or x.is_complex() else oneflow.int64
    x = oneflow.atleast_1d(x)
    one = x.new_ones((*x.shape, 1)).to(dtype)
    rest = x.to(dtype).unsqueeze(-1).expand(*x.shape, n - 1).cumprod(-1)
    return oneflow.cat([one, rest], -1)


def tensorinv(A: Tensor, ind: int = 2, *, out: Tensor | None = None) -> Tensor:
    """The inverse for ``tensordot`` over the first ``ind`` dimensions.

    Example::

        >>> oneflow.linalg.tensorinv(oneflow.eye(4).reshape(4, 2, 2), ind=1).shape
        oneflow.Size([2, 2, 4])
    """
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    first, rest = A.shape[:ind], A.shape[ind:]
    if math.prod(first) != math.prod(rest):
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), "
            f"but got {math.prod(rest)} != {math.prod(first)}"
        )
    n = math.prod(first)
    return given(oneflow.linalg.inv(A.reshape(n, n)).reshape(*rest, *first), out, casts=True)


def tensorsolve(A: Tensor, B: Tensor, dims: Sequence[int] | None = None, *, out: Tensor | None = None) -> Tensor:
    """The solution of ``tensordot(A, X, X.ndim) = B``; ``dims`` of ``A`` are moved to its end first.

    Example::

        >>> oneflow.linalg.tensorsolve(oneflow.eye(4).reshape(2, 2, 4), oneflow.ones(2, 2))
        tensor([1., 1., 1., 1.])
    """
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    shape = A.shape[B.ndim :]
    n, m = math.prod(shape), math.prod(A.shape[: B.ndim])
    if n != m:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == prod(self.shape[:other.ndim]), "
            f"but got {n} != {m}"
        )
    return given(oneflow.linalg.solve(A.reshape(n, n), B.flatten()).reshape(tuple(shape)), out, casts=True)
