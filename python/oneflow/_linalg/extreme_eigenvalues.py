"""Some of the greatest or least eigenvalues of large symmetric matrices, which are only multiplied with.

Source: Knyazev, "Toward the optimal preconditioned eigensolver", SIAM J. Sci. Comput. 23, 2001; the basis is chosen as
in Stathopoulos and Wu, "A block orthogonalization procedure", SIAM J. Sci. Comput. 23, 2002.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import oneflow
from oneflow._linalg.arguments import epsilon
from oneflow._oneflow import Tensor


def lobpcg(
    A: Tensor,
    k: int | None = None,
    B: Tensor | None = None,
    X: Tensor | None = None,
    n: int | None = None,
    iK: Tensor | None = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: dict[str, int] | None = None,
    ortho_fparams: dict[str, float] | None = None,
    ortho_bparams: dict[str, bool] | None = None,
) -> tuple[Tensor, Tensor]:
    """``k`` eigenvalues and vectors of ``A x = e B x`` by the locally optimal preconditioned conjugate gradients.

    Args:
        A: (*, m, m), symmetric and positive-definite, dense or, without a batch, sparse.
        k: how many; by default the columns of ``X``, or 1. At most ``m / 3``.
        B: (*, m, m), symmetric and positive-definite; None stands for the identity.
        X: (*, m, n), where the search starts; drawn if None.
        n: the columns of the start that is drawn; ``k`` by default.
        iK: (*, m, m), a preconditioner.
        niter: the most steps; 1000 by default, -1 for no limit.
        tol: the residual, beside the sizes of ``A``, ``B`` and ``x``, at which a pair counts as found; the root of the
            dtype's epsilon by default.
        largest: the greatest eigenvalues (the default) or the least.
        method: "ortho" or "basic"; one robust choice of the basis serves both.
        tracker: called after each step with an object that has ``E``, ``X``, ``S``, ``R``, ``iparams``, ``ivars`` and
            ``tvars``.
        ortho_iparams, ortho_fparams, ortho_bparams: accepted, they steer PyTorch's choice of the basis.

    Returns:
        E (*, k) and X (*, m, k). Where ``A`` is dense and requires a gradient they come from a whole decomposition.

    Raises:
        ValueError: ``A`` has less than ``3 n`` rows, or an unknown method.
        NotImplementedError: ``B`` or a sparse ``A`` requires a gradient.

    Example::

        >>> values, vectors = oneflow.lobpcg(oneflow.diag(oneflow.arange(1.0, 10.0)), k=1)
        >>> values.round()
        tensor([9.])
    """
    if method not in (None, "ortho", "basic"):
        raise ValueError(f"lobpcg(): method must be 'ortho' or 'basic', got {method!r}")
    k = (1 if X is None else X.shape[-1]) if k is None else k
    n = (k if n is None else n) if X is None else X.shape[-1]
    m = A.shape[-1]
    if m < 3 * n:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x the number of "
            f"requested eigenpairs (={n})"
        )
    if not k <= n:
        raise ValueError(f"lobpcg(): k ({k}) eigenpairs are asked for from a start of n ({n}) columns")
    largest = True if largest is None else largest
    settings = {
        "k": k,
        "niter": 1000 if niter is None else niter,
        "tol": epsilon(A.dtype) ** 0.5 if tol is None else tol,
        "largest": largest,
        "tracker": tracker,
    }
    if oneflow.is_grad_enabled() and any(t is not None and t.requires_grad for t in (A, B)):
        if A.is_sparse or B is not None:
            raise NotImplementedError("lobpcg(): gradients are only for a dense A without B")
        values, vectors = oneflow.linalg.eigh((A + A.mT) / 2)
        return (
            (values[..., -k:].flip(-1), vectors[..., -k:].flip(-1)) if largest else (values[..., :k], vectors[..., :k])
        )
    if A.dim() == 2:
        return _search(A, B, _start(A, X, n), iK, settings)
    batch = A.shape[:-2]

    def flat(t: Tensor | None) -> list[Any]:
        count = oneflow.Size(batch).numel()
        return (
            [None] * count if t is None else list(t.expand(*batch, *t.shape[-2:]).reshape(-1, *t.shape[-2:]).unbind(0))
        )

    rows = zip(flat(A), flat(B), flat(X), flat(iK), strict=True)
    found = [_search(a, b, _start(a, x, n), i, settings) for a, b, x, i in rows]
    values, vectors = (oneflow.stack([pair[i] for pair in found]) for i in (0, 1))
    return values.reshape(*batch, k), vectors.reshape(*batch, m, k)


def _start(A: Tensor, X: Tensor | None, n: int) -> Tensor:
    return oneflow.randn(A.shape[-1], n, dtype=A.dtype, device=A.device) if X is None else X


def _times(matrix: Tensor | None, t: Tensor) -> Tensor:
    return t if matrix is None else matrix @ t


def _basis(S: Tensor, B: Tensor | None) -> Tensor:
    """A B-orthonormal basis of the columns' space; directions that others hold already are left out."""
    for _ in range(2):
        S = S / S.norm(dim=0).clamp(min=epsilon(S.dtype))
        sizes, rotation = oneflow.linalg.eigh(S.mT @ _times(B, S))
        kept = sizes > sizes.abs().max() * epsilon(S.dtype) * S.shape[-1]
        S = S @ (rotation[:, kept] / sizes[kept].sqrt())
    return S


def _ritz(S: Tensor, A: Tensor, n: int, largest: bool) -> tuple[Tensor, Tensor]:
    """The ``n`` best values in the space of ``S``, and how their vectors are made of it."""
    values, mix = oneflow.linalg.eigh(S.mT @ (A @ S))
    return (values[-n:].flip(0), mix[:, -n:].flip(1)) if largest else (values[:n], mix[:, :n])


def _search(
    A: Tensor, B: Tensor | None, X: Tensor, iK: Tensor | None, settings: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    k, n, tracker = settings["k"], X.shape[-1], settings["tracker"]
    start_norm = X.norm()
    size = (A @ X).norm() / start_norm
    size_b = _times(B, X).norm() / start_norm
    X = _basis(X, B)
    values, mix = _ritz(X, A, X.shape[-1], settings["largest"])
    X, P, step, found = X @ mix, X[:, :0], 0, 0
    while True:
        R = A @ X - _times(B, X) * values
        errors = R.norm(dim=0) / (X.norm(dim=0) * (size + values.abs() * size_b))
        done = errors < settings["tol"]
        found = max(found, int(done.to(oneflow.int64).cumprod(0).sum()))
        S = oneflow.cat([X, P, _times(iK, R)], 1)
        if tracker is not None:
            tracker(
                SimpleNamespace(
                    A=A, B=B, iK=iK, X=X, E=values, R=R, S=S,
                    iparams={"m": A.shape[-1], "n": n, "k": k, "niter": settings["niter"]},
                    ivars={"istep": step, "converged_count": found, "converged_end": found, "iterations_left": 0},
                    fvars={"A_norm": float(size), "B_norm": float(size_b)},
                    tvars={"rerr": errors},
                    bparams={"largest": settings["largest"]},
                )
            )  # fmt: skip
        if found >= k or (settings["niter"] >= 0 and step >= settings["niter"]):
            return values[:k], X[:, :k]
        # The part of the new vectors that is not of the old ones is the next direction.
        rest = _basis(S[:, n:] - X @ (X.mT @ _times(B, S[:, n:])), B)
        S = _basis(oneflow.cat([X, rest], 1), B)
        values, mix = _ritz(S, A, n, settings["largest"])
        new = S @ mix
        P = new - X @ (X.mT @ _times(B, new))
        X, step = new, step + 1
