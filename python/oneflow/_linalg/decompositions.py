"""Functions and methods of linear algebra that are public in the package itself."""

from __future__ import annotations

import math
import warnings
from typing import Any

import oneflow
from oneflow import _oneflow, return_types
from oneflow._base.amp import in_float32
from oneflow._linalg.arguments import given, wants_grad
from oneflow._linalg.products import _wrap
from oneflow._oneflow import Tensor

_C = _oneflow._C


def norm(
    input: Tensor,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    out: Tensor | None = None,
    dtype: Any = None,
) -> Tensor:
    """The norm of all elements, or along dimensions; ``p`` is a number, "fro" or "nuc".

    >>> import oneflow
    >>> oneflow.norm(oneflow.tensor([3.0, 4.0]))
    tensor(5.)
    """
    dims = (dim,) if isinstance(dim, int) else dim
    if p == "fro" and (dims is None or len(dims) <= 2):
        return oneflow.linalg.vector_norm(input, 2, dims, keepdim, dtype=dtype, out=out)
    if p == "nuc":
        dims = tuple(range(input.ndim)) if dims is None else dims
        return oneflow.linalg.matrix_norm(input, "nuc", dims, keepdim, dtype=dtype, out=out)
    if isinstance(p, str):
        raise RuntimeError(f"only valid p are 'fro', 'nuc' and numbers, got {p!r} with dim {dim}")
    return oneflow.linalg.vector_norm(input, 2.0 if p is None else p, dims, keepdim, dtype=dtype, out=out)


def cholesky(input: Tensor, upper: bool = False, *, out: Tensor | None = None) -> Tensor:
    """:func:`oneflow.linalg.cholesky`.

    Example::

        >>> oneflow.cholesky(oneflow.tensor([[4.0, 2.0], [2.0, 5.0]]))
        tensor([[2., 0.],
                [1., 2.]])
    """
    return oneflow.linalg.cholesky(input, upper=upper, out=out)


def inverse(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse matrices: :func:`oneflow.linalg.inv`.

    Example::

        >>> oneflow.inverse(oneflow.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    return oneflow.linalg.inv(input, out=out)


@in_float32
def pinverse(input: Tensor, rcond: float = 1e-15) -> Tensor:
    """Pseudo-inverses: :func:`oneflow.linalg.pinv`.

    Example::

        >>> oneflow.pinverse(oneflow.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    return oneflow.linalg.pinv(input, rtol=rcond)


def qr(input: Tensor, some: bool = True, *, out: Any = None) -> Any:
    """:func:`oneflow.linalg.qr`, complete with ``some=False``.

    Example::

        >>> q, r = oneflow.qr(oneflow.tensor([[3.0, 1.0], [4.0, 2.0]]))
        >>> oneflow.allclose(q @ r, oneflow.tensor([[3.0, 1.0], [4.0, 2.0]]))
        True
    """
    return given(return_types.qr(oneflow.linalg.qr(input, "reduced" if some else "complete")), out)


def svd(input: Tensor, some: bool = True, compute_uv: bool = True, *, out: Any = None) -> Any:
    """``input = U diag(S) V^H``; note ``V``, not its adjoint.

    Example::

        >>> oneflow.svd(oneflow.tensor([[3.0, 0.0], [0.0, 4.0]])).S
        tensor([4., 3.])
    """
    if compute_uv:
        u, s, vh = _C.linalg_svd(input, not some)
        return given(return_types.svd((u, s, vh.mH)), out)
    rows, columns = input.shape[-2:]
    zeros = [input.new_zeros((*input.shape[:-2], n, n)) for n in (rows, columns)]
    return given(return_types.svd((zeros[0], oneflow.linalg.svdvals(input), zeros[1])), out)


@in_float32
def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
    *,
    out: Any = None,
) -> Any:
    """The solution of ``A X = input`` with a triangular ``A``, and a copy of ``A``.

    Example::

        >>> oneflow.triangular_solve(oneflow.tensor([[4.0]]), oneflow.tensor([[2.0]])).solution
        tensor([[2.]])
    """
    matrix = A.mT if transpose else A
    solution = oneflow.linalg.solve_triangular(matrix, input, upper=upper != transpose, unitriangular=unitriangular)
    copy = A.expand(*solution.shape[:-2], *A.shape[-2:]).mT.clone(memory_format=oneflow.contiguous_format).mT
    return given(return_types.triangular_solve((solution, copy)), out)


def lu_solve(input: Tensor, LU_data: Tensor, LU_pivots: Tensor, *, out: Tensor | None = None) -> Tensor:
    """:func:`oneflow.linalg.lu_solve` with the right-hand side first.

    Example::

        >>> factors = oneflow.linalg.lu_factor(oneflow.tensor([[2.0, 0.0], [0.0, 4.0]]))
        >>> oneflow.lu_solve(oneflow.tensor([[2.0], [8.0]]), *factors)
        tensor([[1.],
                [2.]])
    """
    return oneflow.linalg.lu_solve(LU_data, LU_pivots, input, out=out)


def lu(A: Tensor, pivot: bool = True, get_infos: bool = False, out: Any = None) -> Any:
    """The packed LU factorisation: ``(LU, pivots)``, and where it met a zero with ``get_infos``.

    Example::

        >>> factors, pivots = oneflow.lu(oneflow.tensor([[2.0, 1.0], [1.0, 3.0]]))
        >>> factors, pivots
        (tensor([[2.0000, 1.0000],
                [0.5000, 2.5000]]), tensor([1, 2], dtype=oneflow.int32))
    """
    packed, pivots, info = oneflow.linalg.lu_factor_ex(A, pivot=pivot)
    return given((packed, pivots, info) if get_infos else (packed, pivots), out, casts=True)


def orgqr(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """:func:`oneflow.linalg.householder_product`.

    Example::

        >>> a, tau = oneflow.geqrf(oneflow.tensor([[3.0], [4.0]]))
        >>> oneflow.orgqr(a, tau)
        tensor([[-0.6000],
                [-0.8000]])
    """
    return oneflow.linalg.householder_product(input, tau, out=out)


@in_float32
def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """A matrix times the product of Householder reflections (or its adjoint), from the left or the right.

    Example::

        >>> a, tau = oneflow.geqrf(oneflow.tensor([[3.0], [4.0]]))
        >>> oneflow.ormqr(a, tau, oneflow.tensor([[1.0], [0.0]]))
        tensor([[-0.6000],
                [-0.8000]])
    """
    if input.dim() < 2 or other.dim() < 2:
        which, t = ("input", input) if input.dim() < 2 else ("other", other)
        raise RuntimeError(f"ormqr: {which} must have at least 2 dimensions, got {list(t.shape)}")
    if tau.shape[-1:] != (min(other.shape[-2 if left else -1], input.shape[-1]),):
        raise RuntimeError(
            f"ormqr: tau.shape[-1] must be equal to min(other.shape[{-2 if left else -1}], input.shape[-1]), "
            f"got {list(tau.shape)}"
        )
    rows = other.shape[-2 if left else -1]
    if input.shape[-2] != rows:
        raise RuntimeError(f"ormqr: other.shape[{-2 if left else -1}] must be equal to input.shape[-2]")
    packed = input[..., : tau.shape[-1]]
    q = (
        oneflow.linalg._reflections(packed, tau, rows)
        if wants_grad(input, tau)
        else (_C.linalg_householder_product(packed, tau, rows))
    )
    q = q.mH if transpose else q
    # Columns stay contiguous, as LAPACK leaves them.
    product = q @ other if left else other @ q
    return given(oneflow.linalg._columns(product), out)


def matrix_power(input: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """:func:`oneflow.linalg.matrix_power`.

    Example::

        >>> oneflow.matrix_power(oneflow.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
        tensor([[1., 3.],
                [0., 1.]])
    """
    return oneflow.linalg.matrix_power(input, n, out=out)


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of matrices, in the order of least work.

    Example::

        >>> oneflow.chain_matmul(oneflow.ones(2, 3), oneflow.ones(3, 4), oneflow.ones(4, 1))
        tensor([[12.],
                [12.]])
    """
    for matrix in matrices:
        if matrix.dim() != 2:
            raise RuntimeError(f"chain_matmul(): Tensor dimension is {matrix.dim()}, expected 2 instead.")
    if len(matrices) == 1:
        return given(matrices[0], out)
    return oneflow.linalg.multi_dot(matrices, out=out)


def cross(input: Tensor, other: Tensor, dim: int | None = None, *, out: Tensor | None = None) -> Tensor:
    """Cross products along ``dim``, or along the first dimension of size three.

    Example::

        >>> oneflow.cross(oneflow.tensor([1.0, 0.0, 0.0]), oneflow.tensor([0.0, 1.0, 0.0]), dim=0)
        tensor([0., 0., 1.])
    """
    if dim is None:
        warnings.warn(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim explicitly or "
            "simply use torch.linalg.cross.\nThe default value of dim will change to agree with that of linalg.cross "
            "in a future release.",
            stacklevel=3,
        )
        if 3 not in input.shape:
            raise RuntimeError("no dimension of size 3 in input")
        dim = list(input.shape).index(3)
    return oneflow.linalg.cross(input, other, dim=dim, out=out)


def tensordot(a: Tensor, b: Tensor, dims: Any = 2, out: Tensor | None = None) -> Tensor:
    """Sums of products over ``dims``: a number of last and first dimensions, or two lists of dimensions.

    >>> import oneflow
    >>> oneflow.tensordot(oneflow.ones(2, 3), oneflow.ones(3, 4), dims=1).shape
    oneflow.Size([2, 4])
    """
    if isinstance(dims, Tensor):
        dims = dims.item() if dims.numel() == 1 else dims.tolist()
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot expects dims < ndim_a or ndim_b, but got dims={dims}")
        left, right = list(range(-dims, 0)), list(range(dims))
    else:
        left, right = ([d] if isinstance(d, int) else list(d) for d in dims)
    if len(left) != len(right):
        raise RuntimeError("both dimension lists should have same length")
    if a.dtype != b.dtype:
        raise RuntimeError("tensordot : both inputs should have same dtype")
    lefts, rights = [_wrap(d, a.ndim) for d in left], [_wrap(d, b.ndim) for d in right]
    for axes in (lefts, rights):
        for d in axes:
            if axes.count(d) > 1:
                raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    for i, (x, y) in enumerate(zip(lefts, rights, strict=True)):
        n, m = a.shape[x], b.shape[y]
        if n == m:
            continue
        if m == 1:
            a = a.sum(x, keepdim=True, dtype=a.dtype)
        elif n == 1:
            b = b.sum(y, keepdim=True, dtype=b.dtype)
        else:
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {n} in dim {left[i]} and second has size "
                f"{m} in dim {right[i]}"
            )
    free_a = [d for d in range(a.ndim) if d not in lefts]
    free_b = [d for d in range(b.ndim) if d not in rights]
    shape = [a.shape[d] for d in free_a] + [b.shape[d] for d in free_b]
    k = math.prod(a.shape[d] for d in lefts)
    rows, columns = math.prod(a.shape[d] for d in free_a), math.prod(b.shape[d] for d in free_b)
    product = a.permute(free_a + lefts).reshape(rows, k) @ b.permute(rights + free_b).reshape(k, columns)
    return given(product.reshape(shape), out)


def _randn_like_columns(A: Tensor, columns: int) -> Tensor:
    return oneflow.randn(A.shape[-1], columns, dtype=A.dtype, device=A.device)


def _range_finder(A: Tensor, q: int, niter: int, M: Tensor | None) -> Tensor:
    """A basis of about the range of ``A - M`` (Halko et al., "Finding structure with randomness", 2009)."""
    A = A if M is None else A - M
    basis = oneflow.linalg.qr(A @ _randn_like_columns(A, q))[0]
    for _ in range(niter):
        basis = oneflow.linalg.qr(A.mH @ basis)[0]
        basis = oneflow.linalg.qr(A @ basis)[0]
    return basis


def svd_lowrank(A: Tensor, q: int | None = 6, niter: int = 2, M: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor]:
    """About the ``q`` greatest singular values and their vectors, by random projection.

    Example::

        >>> [t.shape for t in oneflow.svd_lowrank(oneflow.eye(4), q=2)]
        [oneflow.Size([4, 2]), oneflow.Size([2]), oneflow.Size([4, 2])]
    """
    q = 6 if q is None else q
    rows, columns = A.shape[-2:]
    wide = rows < columns
    if wide:
        A, M = A.mH, None if M is None else M.mH
    basis = _range_finder(A, q, niter, M)
    u, s, vh = oneflow.linalg.svd(basis.mH @ (A if M is None else A - M), full_matrices=False)
    u, v = basis @ u, vh.mH
    return (v, s, u) if wide else (u, s, v)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Return principal components by :func:`svd_lowrank`; with ``center`` the columns are first shifted to mean zero.

    Example::

        >>> [t.shape for t in oneflow.pca_lowrank(oneflow.eye(4), q=2)]
        [oneflow.Size([4, 2]), oneflow.Size([2]), oneflow.Size([4, 2])]
    """
    rows, columns = A.shape[-2:]
    q = min(6, rows, columns) if q is None else q
    if not 0 <= q <= min(rows, columns):
        raise ValueError(f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(rows, columns)}")
    return svd_lowrank(A - A.mean(-2, keepdim=True) if center else A, q, niter)


def _norm(self: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    return norm(self, p, dim, keepdim, dtype=dtype)


METHODS: dict[str, Any] = {
    "norm": _norm,
    "cholesky": cholesky,
    **{f.__name__: f for f in (inverse, pinverse, qr, svd, triangular_solve)},
    **{f.__name__: f for f in (lu_solve, lu, orgqr, ormqr, matrix_power, cross)},
}
