"""Methods composed of others: in-place views, transposes, and functions called as methods."""

from __future__ import annotations

from typing import Any

from oneflow import _oneflow
from oneflow._base.overridable import overridable_method
from oneflow._functions.sets import histogram, unique, unique_consecutive
from oneflow._oneflow import Tensor

_IN_PLACE = ("as_strided", "squeeze", "swapaxes", "swapdims", "t", "transpose", "unsqueeze")


def _in_place(name: str) -> Any:
    view = getattr(Tensor, name)

    def take(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return self._take_view(view(self, *args, **kwargs))

    take.__name__ = take.__qualname__ = f"{name}_"
    take.__doc__ = f"In-place form of `{name}`: the tensor takes the view's sizes and strides."
    return take


def _hermitian(self: Tensor) -> Tensor:
    """The transpose of a matrix, complex numbers conjugated.

    Example::

        >>> oneflow.tensor([[1 + 2j, 3 + 0j]]).H
        tensor([[1.-2.j],
                [3.-0.j]])
    """
    if self.dim() not in (0, 2):
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {self.dim()}-D tensor. "
            "For batches of matrices, consider using tensor.mH"
        )
    return self.adjoint() if self.dim() == 2 else self.conj()


def _matrix_hermitian(self: Tensor) -> Tensor:
    """The last two dimensions exchanged, complex numbers conjugated.

    Example::

        >>> oneflow.zeros(5, 2, 3).mH.shape
        oneflow.Size([5, 3, 2])
    """
    if self.dim() < 2:
        raise RuntimeError(
            f"tensor.mH is only supported on matrices or batches of matrices. Got {self.dim()}-D tensor."
        )
    return self.adjoint()


def where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """Elements of the tensor where ``condition`` is true, of ``other`` elsewhere."""
    return _oneflow.where(condition, self, other)


METHODS: dict[str, Any] = {
    **{method.__name__: overridable_method(method) for method in (histogram, unique, unique_consecutive, where)},
    **{f"{name}_": _in_place(name) for name in _IN_PLACE},
    "H": property(_hermitian),
    "mH": property(_matrix_hermitian),
}
