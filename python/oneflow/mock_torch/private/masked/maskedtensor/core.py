"""``torch.masked.maskedtensor.core``: the class of masked tensors, and comparisons of two."""

from __future__ import annotations

import oneflow
from oneflow import Tensor
from oneflow.masked import MaskedTensor, is_masked_tensor
from oneflow.masked._tensor import indices_of

__all__ = ["MaskedTensor", "is_masked_tensor"]


def _tensors_match(a: Tensor, b: Tensor, exact: bool = True, rtol: float = 1e-05, atol: float = 1e-08) -> bool:
    """Whether two ordinary tensors of one layout hold the same numbers, which may be of two dtypes."""
    if is_masked_tensor(a) or is_masked_tensor(b):
        raise ValueError("Neither `a` nor `b` can be a MaskedTensor.")
    if a.layout != b.layout:
        raise ValueError(f"`a` and `b` must have the same layout. Got {a.layout} and {b.layout}")
    b = b.to(a.dtype)
    pairs = [(a, b)]
    if a.layout != oneflow.strided:
        pairs = [(a.values(), b.values()), *zip(indices_of(a), indices_of(b), strict=True)]
    if exact:
        return all(x.dim() == y.dim() and bool(oneflow.eq(x, y).all()) for x, y in pairs)
    return all(x.dim() == y.dim() and oneflow.allclose(x, y, rtol=rtol, atol=atol) for x, y in pairs)


def _masks_match(a: object, b: object) -> bool:
    """Whether two masked tensors keep the same elements; an ordinary tensor matches any."""
    if is_masked_tensor(a) and is_masked_tensor(b):
        return _tensors_match(a.get_mask(), b.get_mask(), exact=True)
    return True


def _get_data(a: object) -> object:
    return a.get_data() if is_masked_tensor(a) else a


def _maybe_get_mask(a: object) -> Tensor | None:
    return a.get_mask() if is_masked_tensor(a) else None
