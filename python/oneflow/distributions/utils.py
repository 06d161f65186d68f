"""Helpers that distributions share: broadcasting of parameters, logits and probabilities, matrices as vectors."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn import functional as F

__all__ = [
    "broadcast_all",
    "clamp_probs",
    "lazy_property",
    "logits_to_probs",
    "probs_to_logits",
    "tril_matrix_to_vec",
    "vec_to_tril_matrix",
]

euler_constant = 0.57721566490153286060


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one shape; numbers take the dtype and device of the first tensor.

    Raises:
        ValueError: a value is neither.

    Example::

        >>> [t.shape for t in oneflow.distributions.utils.broadcast_all(1.0, oneflow.zeros(2))]
        [oneflow.Size([2]), oneflow.Size([2])]
    """
    if not all(isinstance(v, (Tensor, Number)) for v in values):
        raise ValueError(
            "Input arguments must all be instances of Number, Tensor or objects implementing __torch_function__."
        )
    first = next((v for v in values if isinstance(v, Tensor)), None)
    dtype = oneflow.get_default_dtype() if first is None else first.dtype
    device = None if first is None else first.device
    made = [v if isinstance(v, Tensor) else oneflow.tensor(v, dtype=dtype, device=device) for v in values]
    return tuple(oneflow.broadcast_tensors(*made))


def tensor_like(value: Any, like: Tensor) -> Tensor:
    """Return a number as a tensor of the same dtype and device as another."""
    return value if isinstance(value, Tensor) else oneflow.tensor(value, dtype=like.dtype, device=like.device)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities kept off 0 and 1 by the least step of their dtype.

    Example::

        >>> oneflow.distributions.utils.clamp_probs(oneflow.tensor([0.5]))
        tensor([0.5000])
    """
    eps = oneflow.finfo(probs.dtype).eps
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return probabilities: of the last dimension's entries, or each of a binary event.

    Example::

        >>> oneflow.distributions.utils.logits_to_probs(oneflow.zeros(2))
        tensor([0.5000, 0.5000])
    """
    return logits.sigmoid() if is_binary else logits.softmax(-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Logarithms of probabilities; of binary ones, of their odds.

    Example::

        >>> oneflow.distributions.utils.probs_to_logits(oneflow.tensor([0.5]), is_binary=True)
        tensor([0.])
    """
    kept = clamp_probs(probs)
    return kept.log() - (-kept).log1p() if is_binary else kept.log()


class lazy_property:
    """A property that is computed on first use, and kept.

    Example::

        >>> class Row:
        ...     @oneflow.distributions.utils.lazy_property
        ...     def total(self):
        ...         print("summed")
        ...         return 3
        >>> row = Row()
        >>> row.total, row.total
        summed
        (3, 3)
    """

    def __init__(self, wrapped: Any) -> None:
        self.wrapped = wrapped
        self.__doc__ = wrapped.__doc__

    def __get__(self, instance: Any, kind: Any = None) -> Any:
        if instance is None:
            return self
        with oneflow.enable_grad():
            value = self.wrapped(instance)
        setattr(instance, self.wrapped.__name__, value)
        return value


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Vectors (*, n) as lower triangles (*, d, d), row by row.

    Raises:
        ValueError: no triangle has that many entries.

    Example::

        >>> oneflow.distributions.utils.vec_to_tril_matrix(oneflow.tensor([1.0, 2.0, 3.0]))
        tensor([[1., 0.],
                [2., 3.]])
    """
    entries = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * entries + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if not math.isclose(n, round(n), abs_tol=1e-6):
        raise ValueError(
            f"The size of last dimension is {entries} which cannot be expressed as the lower triangular part of a "
            "square D x D matrix."
        )
    size = round(n)
    rows, columns = oneflow.tril_indices(size, size, diag, device=vec.device).unbind(0)
    matrix = vec.new_zeros((*vec.shape[:-1], size, size))
    matrix[..., rows, columns] = vec
    return matrix


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Lower triangles (*, d, d) as vectors, row by row.

    Example::

        >>> oneflow.distributions.utils.tril_matrix_to_vec(oneflow.tensor([[1.0, 0.0], [2.0, 3.0]]))
        tensor([1., 2., 3.])
    """
    size = mat.shape[-1]
    if not -size <= diag < size:
        raise ValueError(f"diag ({diag}) provided is outside [{-size}, {size - 1}].")
    rows, columns = oneflow.tril_indices(size, size, diag, device=mat.device).unbind(0)
    return mat[..., rows, columns]


def binary_cross_entropy(logits: Tensor, value: Tensor) -> Tensor:
    """``-log p(value)`` of an event with log odds ``logits``."""
    return F.binary_cross_entropy_with_logits(logits, value, reduction="none")


def _standard_normal(shape: Any, dtype: Any, device: Any) -> Tensor:
    """Draw from the standard normal distribution."""
    return oneflow.randn(shape, dtype=dtype, device=device)


def _sum_rightmost(value: Tensor, dim: int) -> Tensor:
    """The sum over the last ``dim`` dimensions."""
    return value if dim == 0 else value.reshape(*value.shape[: value.dim() - dim], -1).sum(-1)
