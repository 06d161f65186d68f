"""Factorisations of symmetric and Hermitian matrices that need not be definite, and systems solved by them.

Bunch and Kaufman's pivoting chooses each step by numbers, so it runs matrix by matrix and column by column.
"""

from __future__ import annotations

import math
from typing import Any

import oneflow
from oneflow import return_types
from oneflow._linalg.arguments import given, is_complex, need_float, need_square
from oneflow._oneflow import Tensor

# Bunch and Kaufman's bound for the growth of elements.
_ALPHA = (1 + math.sqrt(17)) / 8


def ldl_factor(A: Tensor, *, hermitian: bool = False, out: Any = None) -> Any:
    """``A = P L D L^T P^T`` with diagonal blocks of one or two rows, in LAPACK's packed form (``sytrf``, ``hetrf``).

    Args:
        A: (*, n, n), symmetric, or Hermitian with ``hermitian=True``; the lower triangle is read.
        hermitian: of complex matrices, ``L^H`` in place of ``L^T``.

    Returns:
        LD (*, n, n) and pivots (*, n) of int32: rows from 1, negative where a block has two rows.

    Raises:
        RuntimeError: the matrices are not square, or ``D`` is singular.

    Example::

        >>> oneflow.linalg.ldl_factor(oneflow.tensor([[4.0, 0.0], [2.0, 3.0]])).LD
        tensor([[4.0000, 0.0000],
                [0.5000, 2.0000]])
    """
    result = _factored("linalg.ldl_factor", A, hermitian)
    _refuse_singular("linalg.ldl_factor", result[2])
    return given(return_types.linalg_ldl_factor(result[:2]), out)


def ldl_factor_ex(A: Tensor, *, hermitian: bool = False, check_errors: bool = False, out: Any = None) -> Any:
    """:func:`ldl_factor` that reports a singular ``D`` in ``info`` instead of raising.

    Example::

        >>> oneflow.linalg.ldl_factor_ex(oneflow.zeros(2, 2)).info
        tensor(1, dtype=oneflow.int32)
    """
    result = _factored("linalg.ldl_factor_ex", A, hermitian)
    if check_errors:
        _refuse_singular("linalg.ldl_factor_ex", result[2])
    return given(return_types.linalg_ldl_factor_ex(result), out)


def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False, out: Tensor | None = None) -> Tensor:
    """The solution of ``A X = B`` from the factors of :func:`ldl_factor`.

    Args:
        LD: (*, n, n).
        pivots: (*, n), int32.
        B: (*, n, k).

    Raises:
        RuntimeError: sizes or dtypes do not fit together.

    Example::

        >>> factors = oneflow.linalg.ldl_factor(oneflow.tensor([[0.0, 2.0], [2.0, 0.0]]))
        >>> oneflow.linalg.ldl_solve(*factors, oneflow.tensor([[2.0], [4.0]]))
        tensor([[2.],
                [1.]])
    """
    name = "linalg.ldl_solve"
    need_float(LD, name)
    need_square(LD, name)
    if pivots.is_floating_point() or is_complex(pivots.dtype) or pivots.dtype == oneflow.bool:
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {pivots.dtype}")
    if B.ndim < 2:
        raise RuntimeError(f"{name}: B must have at least 2 dimensions, got {list(B.shape)}")
    if B.shape[-2] != LD.shape[-1]:
        raise RuntimeError(
            f"Incompatible matrix sizes for {name}: each A matrix is {LD.shape[-1]} by {LD.shape[-1]} but each b "
            f"matrix is {B.shape[-2]} by {B.shape[-1]}"
        )
    if LD.shape[:-1] != pivots.shape:
        raise RuntimeError(
            f"{name}: Expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape "
            f"{list(pivots.shape)} instead"
        )
    if LD.dtype != B.dtype:
        raise RuntimeError(f"{name}: Expected LD and B to have the same dtype, but got {LD.dtype} and {B.dtype}")
    _refuse_gradients(name, LD, B)
    LD, pivots, B = _whole(LD), _whole(pivots), _whole(B)
    batch = oneflow.broadcast_shapes(LD.shape[:-2], B.shape[:-2])
    matrices = LD.expand(*batch, *LD.shape[-2:]).flatten(0, -3) if batch else LD[None]
    rows = pivots.expand(*batch, pivots.shape[-1]).flatten(0, -2) if batch else pivots[None]
    # Columns lie contiguous, as LAPACK leaves them.
    X = B.expand(*batch, *B.shape[-2:]).mT.clone(memory_format=oneflow.contiguous_format).mT
    solutions = X.flatten(0, -3) if batch else X[None]
    for matrix, places, x in zip(matrices, rows, solutions, strict=True):
        _solve(matrix, places.tolist(), x, hermitian and is_complex(LD.dtype))
    return given(X, out)


def _whole(t: Tensor) -> Tensor:
    """A global tensor whole on every rank: steps follow each other by values, and write into views."""
    return t.to_global(sbp=[oneflow.sbp.broadcast] * len(t.sbp)) if t.is_global else t


def _refuse_gradients(name: str, *tensors: Tensor) -> None:
    if oneflow.is_grad_enabled() and any(t.requires_grad for t in tensors):
        raise NotImplementedError(f"the derivative for '{name}' is not implemented: detach its inputs")


def _refuse_singular(name: str, info: Tensor) -> None:
    wrong = info.reshape(-1).nonzero()
    if len(wrong):
        i = int(wrong[0])
        where = f"(Batch element {i}): " if info.ndim else ""
        at = int(info.reshape(-1)[i])
        raise RuntimeError(f"{name}: {where}The factor D is singular: its diagonal element {at} is zero.")


def _factored(name: str, A: Tensor, hermitian: bool) -> tuple[Tensor, Tensor, Tensor]:
    need_float(A, name)
    need_square(A, name)
    _refuse_gradients(name, A)
    A = _whole(A)
    LD = A.tril().mT.clone(memory_format=oneflow.contiguous_format).mT
    places, info = [], []
    matrices = LD.flatten(0, -3) if LD.ndim > 2 else LD[None]
    for matrix in matrices.unbind(0):
        at, failed = _factor(matrix, hermitian and is_complex(A.dtype))
        places.append(at)
        info.append(failed)
    pivots = oneflow.tensor(places, dtype=oneflow.int32, device=A.device).reshape(A.shape[:-1])
    return LD, pivots, oneflow.tensor(info, dtype=oneflow.int32, device=A.device).reshape(A.shape[:-2])


def _largest(column: Tensor) -> tuple[float, int]:
    """The greatest modulus and its place; of complex numbers by the sum of the parts' moduli, as LAPACK chooses."""
    if column.numel() == 0:
        return 0.0, 0
    sizes = column.real.abs() + column.imag.abs() if is_complex(column.dtype) else column.abs()
    at = int(sizes.argmax())
    return float(sizes[at]), at


def _factor(A: Tensor, hermitian: bool) -> tuple[list[int], int]:
    """Factor one matrix in place; returns the pivots and the first zero of the diagonal, from 1."""
    n, k, failed = A.shape[-1], 0, 0
    pivots = [0] * n
    if hermitian:
        _make_real(A.diagonal())
    while k < n:
        size, chosen = 1, k
        here = _largest(A[k, k].reshape(1))[0]
        below, at = _largest(A[k + 1 :, k])
        at += k + 1
        if max(here, below) == 0 or math.isnan(here):
            failed = failed or k + 1
        elif here < _ALPHA * below:
            beside = max(_largest(A[at, k:at])[0], _largest(A[at + 1 :, at])[0])
            if here < _ALPHA * below * (below / beside):
                chosen = at
                size = 1 if _largest(A[at, at].reshape(1))[0] >= _ALPHA * beside else 2
        _exchange(A, k, k + size - 1, chosen, hermitian)
        if max(here, below) != 0 and not math.isnan(here):
            _eliminate(A, k, size, hermitian)
        pivots[k : k + size] = [chosen + 1] if size == 1 else [-(chosen + 1)] * 2
        k += size
    return pivots, failed


def _swap(a: Tensor, b: Tensor) -> None:
    kept = a.clone()
    a.copy_(b)
    b.copy_(kept)


def _exchange(A: Tensor, k: int, row: int, other: int, hermitian: bool) -> None:
    """Exchange two rows and columns of the triangle that is left, ``row`` < ``other``."""
    if row == other:
        return
    _swap(A[other + 1 :, row], A[other + 1 :, other])
    between, across = A[row + 1 : other, row], A[other, row + 1 : other]
    _swap(between, across)
    _swap(A[row, row], A[other, other])
    if hermitian:
        for part in (between, across, A[other, row]):
            oneflow.view_as_real(part)[..., 1].neg_()
    if row > k:
        _swap(A[row, k], A[other, k])


def _make_real(t: Tensor) -> None:
    oneflow.view_as_real(t)[..., 1].zero_()


def _adjoint(t: Tensor, hermitian: bool) -> Tensor:
    return t.mH if hermitian else t.mT


def _eliminate(A: Tensor, k: int, size: int, hermitian: bool) -> None:
    """Subtract what the block of ``size`` rows at ``k`` contributes to the rest, and leave its columns of L."""
    rest = A[k + size :, k + size :]
    if rest.numel() == 0:
        return
    columns = A[k + size :, k : k + size]
    factor = columns @ _inverse(_block(A, k, size, hermitian))
    rest.sub_((factor @ _adjoint(columns, hermitian)).tril())
    columns.copy_(factor)
    if hermitian:
        _make_real(rest.diagonal())


def _block(A: Tensor, k: int, size: int, hermitian: bool) -> Tensor:
    """The diagonal block of D at ``k``, whole."""
    lower = A[k : k + size, k : k + size].tril()
    return lower + _adjoint(lower.tril(-1), hermitian)


def _inverse(block: Tensor) -> Tensor:
    """Infinite where the block is singular, as LAPACK's division leaves it."""
    if block.shape[-1] == 1:
        return 1 / block
    inverse, info = oneflow.linalg.inv_ex(block)
    return inverse if int(info) == 0 else oneflow.full_like(block, math.inf)


def _solve(LD: Tensor, pivots: list[int], x: Tensor, hermitian: bool) -> None:
    """Solve for one matrix; ``x`` holds the right-hand sides, then the solution."""
    n, k = len(pivots), 0
    blocks: list[tuple[int, int, int]] = []
    while k < n:
        size = 1 if pivots[k] > 0 else 2
        blocks.append((k, size, abs(pivots[k]) - 1))
        k += size
    for k, size, other in blocks:
        if other != k + size - 1:
            _swap(x[k + size - 1], x[other])
        x[k + size :].sub_(LD[k + size :, k : k + size] @ x[k : k + size])
        x[k : k + size].copy_(_inverse(_block(LD, k, size, hermitian)) @ x[k : k + size])
    for k, size, other in reversed(blocks):
        x[k : k + size].sub_(_adjoint(LD[k + size :, k : k + size], hermitian) @ x[k + size :])
        if other != k + size - 1:
            _swap(x[k + size - 1], x[other])
