"""Special functions under the names of SciPy and ``torch.special``."""

from __future__ import annotations

import oneflow
from oneflow import _oneflow
from oneflow._base.overridable import publish as _publish
from oneflow._functions.bessel import *  # noqa: F403
from oneflow._functions.polynomials import *  # noqa: F403

_C = _oneflow._C

digamma = psi = _oneflow.digamma
erf = _oneflow.erf
erfc = _oneflow.erfc
erfinv = _oneflow.erfinv
exp2 = _oneflow.exp2
expit = _oneflow.sigmoid
expm1 = _oneflow.expm1
gammaln = _oneflow.lgamma
gammainc = oneflow.igamma
gammaincc = oneflow.igammac
i0 = _oneflow.i0
log1p = _oneflow.log1p
logit = _oneflow.logit
multigammaln = _oneflow.mvlgamma
polygamma = _oneflow.polygamma
round = _oneflow.round
sinc = _oneflow.sinc
xlogy = _oneflow.xlogy
entr = _C.special_entr
erfcx = _C.special_erfcx
i0e = _C.special_i0e
i1 = _C.special_i1
i1e = _C.special_i1e
log_ndtr = _C.special_log_ndtr
ndtr = _C.special_ndtr
ndtri = _C.special_ndtri
xlog1py = _C.special_xlog1py
zeta = _C.special_zeta
modified_bessel_i0 = _oneflow.i0
modified_bessel_i1 = _C.special_i1


def softmax(input: oneflow.Tensor, dim: int, dtype: oneflow.dtype | None = None) -> oneflow.Tensor:
    """Softmax along ``dim``; the input is cast to ``dtype`` first if one is given.

    Example::

        >>> oneflow.special.softmax(oneflow.zeros(2), dim=0)
        tensor([0.5000, 0.5000])
    """
    return input.softmax(dim) if dtype is None else input.softmax(dim, dtype=dtype)


def log_softmax(input: oneflow.Tensor, dim: int, *, dtype: oneflow.dtype | None = None) -> oneflow.Tensor:
    """Logarithm of the softmax along ``dim``; the input is cast to ``dtype`` first if one is given.

    Example::

        >>> oneflow.special.log_softmax(oneflow.zeros(2), dim=0)
        tensor([-0.6931, -0.6931])
    """
    return input.log_softmax(dim) if dtype is None else input.log_softmax(dim, dtype=dtype)


def logsumexp(
    input: oneflow.Tensor, dim: int | tuple[int, ...], keepdim: bool = False, *, out: oneflow.Tensor | None = None
) -> oneflow.Tensor:
    """``log(sum(exp(input)))`` over ``dim``, without overflow.

    Example::

        >>> oneflow.special.logsumexp(oneflow.zeros(2), dim=0)
        tensor(0.6931)
    """
    return oneflow.logsumexp(input, dim, keepdim) if out is None else oneflow.logsumexp(input, dim, keepdim, out=out)


_publish(globals())
