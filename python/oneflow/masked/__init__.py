"""Tensors some of whose elements do not count, as a mask says: reductions with ``mask=``, and tensors with a mask.

A mask is a boolean tensor, true where an element counts. The functions here (:func:`sum`, :func:`softmax` and so on)
take a tensor and ``mask=``, which broadcasts to it, and return an ordinary tensor; ``None`` keeps all elements.
Excluded elements become the operation's neutral element, so a reduction over nothing gives that, or NaN if there is
none. ``sum``, ``prod``, ``amax``, ``amin`` and ``mean`` take sparse tensors too (COO, CSR), and give such;
masks may have any layout.

A :class:`MaskedTensor` carries its mask along. Elementwise functions keep the mask, views apply to data and mask
alike, and reductions leave out what the mask excludes; an element of their results counts if any of those that it is
made of does. What an excluded element holds is not specified, and :meth:`MaskedTensor.to_tensor` puts a number in its
place.
"""

from __future__ import annotations

from oneflow.masked._reductions import (
    amax,
    amin,
    argmax,
    argmin,
    cumprod,
    cumsum,
    log_softmax,
    logaddexp,
    logsumexp,
    mean,
    median,
    norm,
    normalize,
    prod,
    softmax,
    softmin,
    std,
    sum,
    var,
)
from oneflow.masked._tensor import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

__all__ = [
    "MaskedTensor",
    "amax",
    "amin",
    "argmax",
    "argmin",
    "as_masked_tensor",
    "cumprod",
    "cumsum",
    "is_masked_tensor",
    "log_softmax",
    "logaddexp",
    "logsumexp",
    "masked_tensor",
    "mean",
    "median",
    "norm",
    "normalize",
    "prod",
    "softmax",
    "softmin",
    "std",
    "sum",
    "var",
]
