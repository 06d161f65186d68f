"""Square roots and polar factors of matrices, with gradients that hold where eigenvalues coincide.

The derivatives are solutions of Sylvester's equation, not derivatives of eigenvectors, and can be taken to any order.
"""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, return_types
from oneflow._linalg.arguments import given, need_float, need_square
from oneflow.autograd import Function


class _Sylvester(Function):
    """``Y`` with ``X Y + Y X = C``, for a positive-definite Hermitian ``X``."""

    @staticmethod
    def forward(ctx: Any, X: Tensor, C: Tensor) -> Tensor:
        values, vectors = oneflow.linalg.eigh(X)
        sums = values.unsqueeze(-1) + values.unsqueeze(-2)
        Y = vectors @ ((vectors.mH @ C @ vectors) / sums) @ vectors.mH
        ctx.save_for_backward(X, Y)
        return Y

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        X, Y = ctx.saved_tensors
        G = _Sylvester.apply(X, grad)
        return -(G @ Y.mH + Y.mH @ G), G


class _Sqrth(Function):
    @staticmethod
    def forward(ctx: Any, A: Tensor) -> Tensor:
        values, vectors = oneflow.linalg.eigh(A)
        X = (vectors * values.sqrt().unsqueeze(-2)) @ vectors.mH
        ctx.save_for_backward(X)
        return X

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        return _Sylvester.apply(ctx.saved_tensors[0], (grad + grad.mH) / 2)


class _PolarFactors(Function):
    @staticmethod
    def forward(ctx: Any, A: Tensor) -> tuple[Tensor, Tensor]:
        u, s, vh = oneflow.linalg.svd(A, full_matrices=False)
        U, H = u @ vh, (vh.mH * s.unsqueeze(-2)) @ vh
        ctx.save_for_backward(U, H)
        return U, H

    @staticmethod
    def backward(ctx: Any, grad_U: Tensor, grad_H: Tensor) -> Any:
        # dU = U W + (1 - U U^H) dA H^-1 with a skew W, and dH = U^H dA - W H, where H W + W H = U^H dA - dA^H U.
        U, H = ctx.saved_tensors
        inside = U.mH @ grad_U
        S = _Sylvester.apply(H, inside - grad_H @ H)
        outside = oneflow.linalg.solve(H, grad_U - U @ inside, left=False)
        return U @ (S - S.mH + grad_H) + outside


def matrix_sqrth(A: Tensor) -> Tensor:
    """The Hermitian square root of Hermitian positive-definite matrices, of which the lower triangle is read.

    Args:
        A: (*, n, n).

    Raises:
        RuntimeError: the matrices are not square, or not of floating-point numbers.

    Example::

        >>> oneflow.linalg.matrix_sqrth(oneflow.tensor([[4.0, 0.0], [0.0, 9.0]]))
        tensor([[2., 0.],
                [0., 3.]])
    """
    need_float(A, "linalg.matrix_sqrth")
    need_square(A, "linalg.matrix_sqrth")
    return _Sqrth.apply(A)


def polar(A: Tensor, *, out: Any = None) -> Any:
    """``A = U H`` with orthonormal columns of ``U`` and a positive-semidefinite Hermitian ``H``.

    Args:
        A: (*, m, n), m >= n; for gradients of rank n.

    Raises:
        RuntimeError: there are more columns than rows, or no floating-point numbers.

    Example::

        >>> oneflow.linalg.polar(oneflow.tensor([[0.0, -2.0], [3.0, 0.0]])).H
        tensor([[3., 0.],
                [0., 2.]])
    """
    need_float(A, "linalg.polar")
    if A.ndim < 2 or A.shape[-2] < A.shape[-1]:
        raise RuntimeError(f"linalg.polar: expected a matrix with m >= n, but got shape {list(A.shape)}")
    return given(return_types.linalg_polar(_PolarFactors.apply(A)), out)
