"""Linear algebra under the names of ``torch.linalg``.

The decompositions are ops with their own gradients; this file adds their public form, or composes them.
"""

from __future__ import annotations

import math
from typing import Any

import oneflow
from oneflow import _oneflow
from oneflow import return_types as _types
from oneflow._base.amp import in_float32 as _in_float32
from oneflow._base.global_layouts import replicate_like
from oneflow._base.overridable import publish as _publish
from oneflow._linalg import indefinite as _indefinite
from oneflow._linalg import products as _products
from oneflow._linalg import roots as _roots
from oneflow._linalg.arguments import epsilon as _epsilon
from oneflow._linalg.arguments import given as _given
from oneflow._linalg.arguments import is_complex as _is_complex
from oneflow._linalg.arguments import need_matrix as _need_matrix
from oneflow._linalg.arguments import need_square as _need_square
from oneflow._linalg.arguments import wants_grad as _wants_grad
from oneflow._oneflow import Tensor
from oneflow._oneflow import dtype as DType

_C = _oneflow._C
LinAlgError = _oneflow._LinAlgError

# The names of the LU factorisation's `check` results.
_CHECK_LU, _CHECK_INV, _CHECK_SOLVE = 1, 2, 3


# --------------------------------------------------------------------------------------------- factorisations


def cholesky(A: Tensor, *, upper: bool = False, out: Tensor | None = None) -> Tensor:
    """The Cholesky factor of symmetric (Hermitian) positive-definite matrices.

    Args:
        A: ``(*, n, n)``, of which one triangle is read.
        upper: the factor is upper triangular, ``A = U^H U``, instead of ``A = L L^H``.

    Raises:
        LinAlgError: a matrix is not positive-definite.

    >>> import oneflow
    >>> oneflow.linalg.cholesky(oneflow.tensor([[4.0, 2.0], [2.0, 2.0]]))
    tensor([[2., 0.],
            [1., 1.]])
    """
    return _given(_C.linalg_cholesky_ex(A, upper=upper, check_errors=True)[0], out)


def cholesky_ex(A: Tensor, *, upper: bool = False, check_errors: bool = False, out: Any = None) -> Any:
    """:func:`cholesky` that reports failures in ``info`` instead of raising.

    Example::

        >>> oneflow.linalg.cholesky_ex(oneflow.eye(2)).info
        tensor(0, dtype=oneflow.int32)
    """
    return _given(_types.linalg_cholesky_ex(_C.linalg_cholesky_ex(A, upper=upper, check_errors=check_errors)), out)


def lu_factor(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """LU factorisation with partial pivoting, in the packed form that :func:`lu_solve` takes.

    Example::

        >>> oneflow.linalg.lu_factor(oneflow.tensor([[2.0, 0.0], [0.0, 4.0]])).pivots
        tensor([1, 2], dtype=oneflow.int32)
    """
    lu, pivots, _ = _C.linalg_lu_factor_ex(A, pivot=pivot, check=_CHECK_LU)
    return _given(_types.linalg_lu_factor((lu, pivots)), out)


def lu_factor_ex(A: Tensor, *, pivot: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """:func:`lu_factor` that reports a zero pivot in ``info`` instead of raising.

    Example::

        >>> oneflow.linalg.lu_factor_ex(oneflow.eye(2)).info
        tensor(0, dtype=oneflow.int32)
    """
    return _given(
        _types.linalg_lu_factor_ex(_C.linalg_lu_factor_ex(A, pivot=pivot, check=_CHECK_LU * check_errors)), out
    )


def lu(A: Tensor, *, pivot: bool = True, out: Any = None) -> Any:
    """``A = P L U`` with a permutation, a unit lower and an upper triangular matrix.

    >>> import oneflow
    >>> oneflow.linalg.lu(oneflow.tensor([[0.0, 1.0], [2.0, 0.0]])).U
    tensor([[2., 0.],
            [0., 1.]])
    """
    packed, pivots, _ = _C.linalg_lu_factor_ex(A, pivot=pivot)
    lower, upper = _unpack(packed)
    permutation = _permutation(pivots, A.shape[-2], A.dtype) if pivot else A.new_empty((0,))
    return _given(_types.linalg_lu((permutation, lower, upper)), out)


def _unpack(packed: Tensor) -> tuple[Tensor, Tensor]:
    rows, columns = packed.shape[-2:]
    k = min(rows, columns)
    lower = packed[..., :k].contiguous().tril(-1)
    unit = replicate_like(packed, oneflow.eye(rows, k, dtype=packed.dtype, device=packed.device))
    return lower + unit, packed[..., :k, :].contiguous().triu()


def _permutation(pivots: Tensor, rows: int, dtype: DType) -> Tensor:
    order = _C.linalg_lu_permutation(pivots, rows)
    unit = replicate_like(pivots, oneflow.eye(rows, dtype=dtype, device=pivots.device))
    return unit[order].mT.contiguous()


def lu_unpack(
    LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True, *, out: Any = None
) -> Any:
    """The factors ``P, L, U`` of a packed LU factorisation.

    Example::

        >>> p, l, u = oneflow.lu_unpack(*oneflow.linalg.lu_factor(oneflow.tensor([[2.0, 1.0], [1.0, 3.0]])))
        >>> p @ l @ u
        tensor([[2., 1.],
                [1., 3.]])
    """
    nothing = LU_data.new_empty((0,))
    lower, upper = _unpack(LU_data) if unpack_data else (nothing, nothing)
    permutation = _permutation(LU_pivots, LU_data.shape[-2], LU_data.dtype) if unpack_pivots else nothing
    return _given(_types.lu_unpack((permutation, lower, upper)), out)


def lu_solve(
    LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False, out: Tensor | None = None
) -> Tensor:
    """The solution of ``A X = B`` (``X A = B``) from the packed factors of ``A``; with ``adjoint`` of ``A^H``.

    Example::

        >>> factors = oneflow.linalg.lu_factor(oneflow.tensor([[2.0, 0.0], [0.0, 4.0]]))
        >>> oneflow.linalg.lu_solve(*factors, oneflow.tensor([[2.0], [8.0]]))
        tensor([[1.],
                [2.]])
    """
    _need_square(LU, "torch.linalg.lu_solve")
    if LU.dtype != B.dtype:
        raise RuntimeError(
            f"linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type {LU.dtype} "
            f"and B of type {B.dtype} instead"
        )
    if not left:
        return _given(lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH, out)
    if B.ndim < 2 or B.shape[-2] != LU.shape[-2]:
        raise RuntimeError(
            "linalg.lu_solve: Incompatible shapes of A and B for the equation AX = B "
            f"({tuple(LU.shape)} and {tuple(B.shape)})"
        )
    order = _C.linalg_lu_permutation(pivots, LU.shape[-1])
    if not adjoint:
        rows = _rows(B, order)
        x = solve_triangular(LU, rows, upper=False, unitriangular=True)
        return _given(solve_triangular(LU, x, upper=True), out)
    x = solve_triangular(LU.mH, B, upper=False)
    x = solve_triangular(LU.mH, x, upper=True, unitriangular=True)
    return _given(_columns(_rows(x, order.argsort(-1))), out)


def _columns(x: Tensor) -> Tensor:
    """The same matrices with contiguous columns, as LAPACK leaves them."""
    return x.mT.clone(memory_format=oneflow.contiguous_format).mT


def _rows(x: Tensor, order: Tensor) -> Tensor:
    """Permute the rows of each matrix by its own permutation."""
    batch = oneflow.broadcast_shapes(x.shape[:-2], order.shape[:-1])
    x = x.expand(*batch, *x.shape[-2:])
    return x.gather(-2, order.unsqueeze(-1).expand(x.shape))


def qr(A: Tensor, mode: str = "reduced", *, out: Any = None) -> Any:
    """``A = Q R`` with orthonormal columns and an upper triangle; ``mode`` is "reduced", "complete" or "r".

    >>> import oneflow
    >>> oneflow.linalg.qr(oneflow.tensor([[3.0], [4.0]])).R
    tensor([[-5.]])
    """
    return _given(_C.linalg_qr(A, mode), out)


def householder_product(input: Tensor, tau: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The first columns of the product of reflections that :func:`oneflow.geqrf` leaves.

    Example::

        >>> a, tau = oneflow.geqrf(oneflow.tensor([[3.0], [4.0]]))
        >>> oneflow.linalg.householder_product(a, tau)
        tensor([[-0.6000],
                [-0.8000]])
    """
    if _wants_grad(input, tau):
        return _given(_columns(_reflections(input, tau, input.shape[-1])), out, casts=True)
    return _given(_C.linalg_householder_product(input, tau), out, casts=True)


def _reflections(packed: Tensor, tau: Tensor, columns: int) -> Tensor:
    """The product one reflection at a time, so that each has its gradient."""
    rows, k = packed.shape[-2], tau.shape[-1]
    with oneflow.no_grad():
        _C.linalg_householder_product(packed, tau, columns)  # Raises what is wrong with the shapes.
    unit = replicate_like(packed, oneflow.eye(rows, columns, dtype=packed.dtype, device=packed.device))
    # Without a reflection the result depends on no argument, but the tape goes through them.
    q = unit.expand(*packed.shape[:-2], rows, columns) + (packed[..., :0].sum() + tau[..., :0].sum())
    for i in reversed(range(k)):
        below = packed[..., i + 1 :, i]
        v = oneflow.cat([below.new_zeros((*below.shape[:-1], i)), below.new_ones((*below.shape[:-1], 1)), below], -1)
        v = v.unsqueeze(-1)
        q = q - tau[..., i, None, None] * (v @ (v.mH @ q))
    return q


def eigh(A: Tensor, UPLO: str = "L", *, out: Any = None) -> Any:
    """Eigenvalues (ascending) and eigenvectors of symmetric (Hermitian) matrices.

    >>> import oneflow
    >>> oneflow.linalg.eigh(oneflow.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    return _given(_C.linalg_eigh(A, UPLO), out)


def eigvalsh(A: Tensor, UPLO: str = "L", *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of :func:`eigh`.

    Example::

        >>> oneflow.linalg.eigvalsh(oneflow.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([2., 4.])
    """
    return _given(_C.linalg_eigh(A, UPLO, compute_v=_wants_grad(A))[0], out)


def eig(A: Tensor, *, out: Any = None) -> Any:
    """Eigenvalues and eigenvectors of square matrices, complex.

    Example::

        >>> oneflow.linalg.eig(oneflow.tensor([[2.0, 0.0], [0.0, 4.0]])).eigenvalues
        tensor([2.+0.j, 4.+0.j])
    """
    return _given(_C.linalg_eig(A), out, casts=True)


def eigvals(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """The eigenvalues of :func:`eig`.

    Example::

        >>> oneflow.linalg.eigvals(oneflow.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([2.+0.j, 4.+0.j])
    """
    return _given(_C.linalg_eig(A, compute_v=_wants_grad(A))[0], out, casts=True, what="eigenvalues")


def svd(A: Tensor, full_matrices: bool = True, *, driver: str | None = None, out: Any = None) -> Any:
    """``A = U diag(S) Vh`` with singular values in descending order.

    >>> import oneflow
    >>> oneflow.linalg.svd(oneflow.tensor([[0.0, 2.0], [3.0, 0.0]])).S
    tensor([3., 2.])
    """
    if driver is not None and not A.is_cuda:
        raise RuntimeError(
            "linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )
    return _given(_C.linalg_svd(A, full_matrices), out)


def svdvals(A: Tensor, *, driver: str | None = None, out: Tensor | None = None) -> Tensor:
    """The singular values of :func:`svd`.

    Example::

        >>> oneflow.linalg.svdvals(oneflow.tensor([[3.0, 0.0], [0.0, 4.0]]))
        tensor([4., 3.])
    """
    if driver is not None and not A.is_cuda:
        raise RuntimeError(
            "linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with cuSOLVER backend."
        )
    return _given(_C.linalg_svd(A, False, compute_uv=_wants_grad(A))[1], out)


# ------------------------------------------------------------------------------------- systems and inverses


def solve(A: Tensor, B: Tensor, *, left: bool = True, out: Tensor | None = None) -> Tensor:
    """The solution of ``A X = B``, or of ``X A = B`` with ``left=False``; ``B`` may be vectors.

    Raises:
        LinAlgError: a matrix is singular.

    >>> import oneflow
    >>> oneflow.linalg.solve(oneflow.tensor([[2.0, 0.0], [0.0, 4.0]]), oneflow.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    return _given(_C.linalg_solve_ex(A, B, left=left, check=_CHECK_SOLVE)[0], out)


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False, out: Any = None) -> Any:
    """:func:`solve` that reports singular matrices in ``info`` instead of raising.

    Example::

        >>> oneflow.linalg.solve_ex(oneflow.eye(2), oneflow.ones(2)).result
        tensor([1., 1.])
    """
    return _given(_types.linalg_solve_ex(_C.linalg_solve_ex(A, B, left=left, check=_CHECK_SOLVE * check_errors)), out)


def inv(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Inverse matrices.

    Raises:
        LinAlgError: a matrix is singular.

    >>> import oneflow
    >>> oneflow.linalg.inv(oneflow.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    return _given(_C.linalg_inv_ex(A, check=_CHECK_INV)[0], out)


def inv_ex(A: Tensor, *, check_errors: bool = False, out: Any = None) -> Any:
    """:func:`inv` that reports singular matrices in ``info`` instead of raising.

    Example::

        >>> oneflow.linalg.inv_ex(oneflow.eye(2)).info
        tensor(0, dtype=oneflow.int32)
    """
    return _given(_types.linalg_inv_ex(_C.linalg_inv_ex(A, check=_CHECK_INV * check_errors)), out)


def solve_triangular(
    A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False, out: Tensor | None = None
) -> Tensor:
    """The solution of ``A X = B`` (``X A = B``) with a triangular ``A``, whose other triangle is not read.

    Example::

        >>> oneflow.linalg.solve_triangular(oneflow.tensor([[2.0, 1.0], [0.0, 4.0]]), oneflow.tensor([[4.0],
        ...     [8.0]]), upper=True)
        tensor([[1.],
                [2.]])
    """
    if B.dtype != A.dtype and (A.is_complex() or not B.is_complex()):
        B = B.to(A.dtype)
    return _given(_C.linalg_solve_triangular(A, B, upper=upper, left=left, unitriangular=unitriangular), out)


def _tolerances(A: Tensor, atol: Any, rtol: Any, name: str) -> tuple[Any, Any]:
    """Absolute and relative tolerance with torch's defaults."""
    for tolerance, which in ((atol, "atol"), (rtol, "rtol")):
        if isinstance(tolerance, Tensor) and _is_complex(tolerance.dtype):
            raise RuntimeError(f"{name}: {which} tensor of complex type is not supported.")
    if rtol is None:
        default = _epsilon(A.dtype) * max(A.shape[-2:])
        if atol is None:
            rtol = default
        elif isinstance(atol, Tensor):
            rtol = oneflow.where(atol > 0, 0.0, default)
        else:
            rtol = 0.0 if atol > 0 else default
    return 0.0 if atol is None else atol, rtol


def _threshold(largest: Tensor, atol: Any, rtol: Any) -> Tensor:
    """max(atol, rtol * largest), where tolerances may be batches."""

    def wide(t: Any) -> Any:
        return t.to(largest.dtype).unsqueeze(-1) if isinstance(t, Tensor) else t

    relative = largest * wide(rtol)
    if isinstance(atol, Tensor):
        return oneflow.maximum(wide(atol), relative)
    return relative.clamp(min=float(atol))


def pinv(
    A: Tensor,
    rcond: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """Moore-Penrose inverses. Singular values up to ``max(atol, rtol * largest)`` count as zero.

    Example::

        >>> oneflow.linalg.pinv(oneflow.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor([[0.5000, 0.0000],
                [0.0000, 0.2500]])
    """
    if isinstance(rcond, bool):
        hermitian, rcond = rcond, None
    if rcond is not None:
        rtol = rcond
    if A.ndim < 2:
        raise RuntimeError(
            f"linalg.pinv({A.dtype}{{{list(A.shape)}}}): expected a tensor with 2 or more dimensions of float, double, "
            "cfloat or cdouble types"
        )
    if hermitian:
        _need_square(A, "linalg.pinv")
    atol, rtol = _tolerances(A, atol, rtol, "linalg.pinv")
    return _given(_PinvFunction(A, atol, rtol, hermitian), out, casts=True)


def _PinvFunction(A: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    with oneflow.no_grad():
        inverse = _pinv(A.detach(), atol, rtol, hermitian)
    if not _wants_grad(A):
        return inverse
    return _C.linalg_pinv_of(A, inverse)


def _pinv(A: Tensor, atol: Any, rtol: Any, hermitian: bool) -> Tensor:
    if A.numel() == 0:
        return A.new_empty((*A.shape[:-2], A.shape[-1], A.shape[-2]))
    if hermitian:
        s, u = _C.linalg_eigh(A, "L")
        magnitude = s.abs()
        tolerance = _threshold(magnitude.amax(-1, keepdim=True), atol, rtol)
        inverse = oneflow.where(magnitude > tolerance, s.reciprocal(), 0.0).to(A.dtype)
        return (u * inverse.unsqueeze(-2)) @ u.mH
    u, s, vh = _C.linalg_svd(A, False)
    tolerance = _threshold(s[..., :1], atol, rtol)
    inverse = oneflow.where(s > tolerance, s.reciprocal(), 0.0).to(A.dtype)
    return (vh.mH * inverse.unsqueeze(-2)) @ u.mH


def _ranks(values: Tensor, tolerance: float) -> Tensor:
    """How many singular values are not negligible beside the largest."""
    return (values > tolerance * values[..., :1]).sum(-1)


def _by_factors(A: Tensor, b: Tensor, tolerance: float) -> tuple[Tensor, Tensor, Tensor] | None:
    """Least-squares solutions of tall matrices of full rank by QR, their singular values and ranks; None for others."""
    rows, columns = A.shape[-2:]
    hidden = _oneflow._is_tracing() or _oneflow._vmap_shown(A) is not None or A.is_global or A.is_meta
    if rows < columns or hidden or not A.numel():
        return None
    q, r = qr(A)
    with oneflow.no_grad():
        values = svdvals(r.detach())
        rank = _ranks(values, tolerance)
    if not bool((rank == columns).all()):
        return None
    return solve_triangular(r, q.mH @ b, upper=True), values, rank


def _by_pseudo_inverse(A: Tensor, b: Tensor, tolerance: float) -> tuple[Tensor, Tensor, Tensor]:
    """Least-squares solutions of least norm, singular values and ranks."""
    solution = pinv(A, rtol=tolerance) @ b
    with oneflow.no_grad():
        values = svdvals(A.detach())
        rank = _ranks(values, tolerance) if min(A.shape[-2:]) else A.new_zeros(A.shape[:-2]).long()
    return solution, values, rank


@_in_float32
def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> Any:
    """The least-squares solution of ``A X = B``, of least norm where there are many.

    Returns ``(solution, residuals, rank, singular_values)``, empty where torch leaves them so for the driver.

    Example::

        >>> oneflow.linalg.lstsq(oneflow.tensor([[1.0], [1.0]]), oneflow.tensor([[1.0], [3.0]])).solution.round()
        tensor([[2.]])
    """
    if A.ndim < 2:
        raise RuntimeError("torch.linalg.lstsq: input must have at least 2 dimensions.")
    if B.ndim < 1:
        raise RuntimeError("torch.linalg.lstsq: other must have at least 1 dimension.")
    if A.dtype != B.dtype:
        raise RuntimeError("torch.linalg.lstsq: Expected input and other to have the same dtype.")
    if driver not in (None, "gels", "gelsy", "gelsd", "gelss"):
        raise RuntimeError(
            f"torch.linalg.lstsq: parameter `driver` should be one of (gels, gelsy, gelsd, gelss) but got {driver}"
        )
    driver = driver or "gelsy"
    vector = B.ndim == A.ndim - 1 and tuple(B.shape) == tuple(A.shape[:-1])
    rows, columns = A.shape[-2:]
    b = B.unsqueeze(-1) if vector else B
    if b.ndim < 2 or b.shape[-2] != rows:
        what = "input.size(-2) should match other.size(-1)" if vector else "input.size(-2) should match other.size(-2)"
        raise RuntimeError(f"torch.linalg.lstsq: {what}")
    tolerance = _epsilon(A.dtype) * max(rows, columns) if rcond is None else rcond
    if driver == "gels":
        tolerance = 0.0
    solution, values, rank = _by_factors(A, b, tolerance) or _by_pseudo_inverse(A, b, tolerance)
    nothing = A.new_empty((0,), dtype=values.dtype)
    # Adds nothing, except to the tape.
    residuals = solution.reshape(-1)[:0]
    if _is_complex(A.dtype):
        residuals = oneflow.real(residuals)
    full = rows > columns and driver != "gelsy"
    if full and bool((rank == columns).all()):
        difference = A @ solution - b
        residuals = (
            oneflow.real(difference * difference.conj()).sum(-2)
            if _is_complex(A.dtype)
            else difference.square().sum(-2)
        )
    if driver == "gels":
        rank = oneflow.empty((0,), dtype=oneflow.int64)
    if rows > columns:
        # As LAPACK leaves it: the first rows of a longer buffer.
        rest = solution.new_zeros((*solution.shape[:-2], rows - columns, solution.shape[-1]))
        solution = _columns(oneflow.cat([solution, rest], -2)).narrow(-2, 0, columns)
    else:
        solution = _columns(solution)
    if vector:
        solution = solution.squeeze(-1)
    return _types.linalg_lstsq((solution, residuals, rank, values if driver in ("gelsd", "gelss") else nothing))


def det(A: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Determinants of square matrices.

    Example::

        >>> oneflow.linalg.det(oneflow.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor(8.)
    """
    return _given(oneflow.det(A), out)


def slogdet(A: Tensor, *, out: Any = None) -> Any:
    """Signs of determinants and the logarithms of their magnitudes.

    Example::

        >>> oneflow.linalg.slogdet(oneflow.tensor([[2.0, 0.0], [0.0, -4.0]]))
        oneflow.return_types.linalg_slogdet(
        sign=tensor(-1.),
        logabsdet=tensor(2.0794))
    """
    return _given(_types.linalg_slogdet(oneflow.slogdet(A)), out)


def matrix_exp(A: Tensor) -> Tensor:
    """Exponentials of square matrices.

    Example::

        >>> oneflow.linalg.matrix_exp(oneflow.zeros(2, 2))
        tensor([[1., 0.],
                [0., 1.]])
    """
    return oneflow.matrix_exp(A)


def matrix_power(A: Tensor, n: int, *, out: Tensor | None = None) -> Tensor:
    """``A`` times itself ``n`` times; the inverse that often for a negative ``n``.

    Example::

        >>> oneflow.linalg.matrix_power(oneflow.tensor([[1.0, 1.0], [0.0, 1.0]]), 3)
        tensor([[1., 3.],
                [0., 1.]])
    """
    _need_square(A, "linalg.matrix_power")
    return _given(_power(A, n), out, casts=True)


def _power(A: Tensor, n: int) -> Tensor:
    if n == 0:
        unit = replicate_like(A, oneflow.eye(A.shape[-1], dtype=A.dtype, device=A.device))
        return A.clone().copy_(unit.expand(A.shape))
    if n == 1:
        return A.clone()
    if n == -1:
        return inv(A)
    base, n = (A, n) if n > 0 else (inv(A), -n)
    result = None
    while n > 0:
        if n & 1:
            result = base if result is None else result @ base
        n >>= 1
        if n:
            base = base @ base
    assert result is not None
    return result


def matrix_rank(
    A: Tensor,
    tol: Any = None,
    hermitian: bool = False,
    *,
    atol: Any = None,
    rtol: Any = None,
    out: Tensor | None = None,
) -> Tensor:
    """How many singular values are greater than ``max(atol, rtol * largest)``.

    Example::

        >>> oneflow.linalg.matrix_rank(oneflow.tensor([[1.0, 1.0], [2.0, 2.0]]))
        tensor(1)
    """
    if isinstance(tol, bool):
        hermitian, tol = tol, None
    if tol is not None:
        atol, rtol = tol, 0.0
    if hermitian:
        _need_square(A, "linalg.matrix_rank")
    else:
        _need_matrix(A, "linalg.matrix_rank")
    atol, rtol = _tolerances(A, atol, rtol, "torch.linalg.matrix_rank")
    if A.numel() == 0:
        return _given(oneflow.zeros(A.shape[:-2], dtype=oneflow.int64), out, casts=True)
    with oneflow.no_grad():
        values = eigvalsh(A).abs() if hermitian else svdvals(A)
        tolerance = _threshold(values.amax(-1, keepdim=True), atol, rtol)
        return _given((values > tolerance).sum(-1), out, casts=True)


def cond(A: Tensor, p: Any = None, *, out: Tensor | None = None) -> Tensor:
    """Condition numbers: the norm of ``A`` times the norm of its inverse.

    Example::

        >>> oneflow.linalg.cond(oneflow.tensor([[2.0, 0.0], [0.0, 4.0]]))
        tensor(2.)
    """
    _need_matrix(A, "linalg.cond")
    if p not in (None, 2, -2, 1, -1, math.inf, -math.inf, "fro", "nuc"):
        raise ValueError(f"linalg.cond got an invalid norm type: {p}")
    if A.numel() == 0 and (p in (None, 2, -2) or A.shape[-1] == A.shape[-2]):
        if min(A.shape[-2:]) == 0 and p in (None, 2, -2) and 0 not in A.shape[:-2]:
            return _given(svdvals(A).new_zeros(A.shape[:-2]), out, casts=True)
        return _given(A.new_zeros(A.shape[:-2]).abs(), out, casts=True)
    if p in (None, 2, -2):
        s = svdvals(A)
        first, last = s[..., 0], s[..., -1]
        result = last / first if p == -2 else first / last
        return _given(oneflow.where(result.isnan(), math.inf, result), out, casts=True)
    _need_square(A, "linalg.cond")
    inverse, info = inv_ex(A)
    result = matrix_norm(A, p) * matrix_norm(oneflow.where((info != 0)[..., None, None], 0.0, inverse), p)
    return _given(oneflow.where(info != 0, math.inf, result), out, casts=True)


cross, diagonal, matmul, multi_dot, vander, vecdot = (
    _products.cross,
    _products.diagonal,
    _products.matmul,
    _products.multi_dot,
    _products.vander,
    _products.vecdot,
)
matrix_norm, norm, vector_norm = _products.matrix_norm, _products.norm, _products.vector_norm
ldl_factor, ldl_factor_ex, ldl_solve = _indefinite.ldl_factor, _indefinite.ldl_factor_ex, _indefinite.ldl_solve
matrix_sqrth, polar = _roots.matrix_sqrth, _roots.polar
tensorinv, tensorsolve, _wrap = _products.tensorinv, _products.tensorsolve, _products._wrap

_publish(globals())
