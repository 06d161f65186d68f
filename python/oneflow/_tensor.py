"""Methods of Tensor that are better written in Python. They are attached to the compiled class at import."""

from __future__ import annotations

from typing import Any

from oneflow import _oneflow, _tensor_str
from oneflow._oneflow import Tensor


def _repr(self: Tensor, *, tensor_contents: Any = None) -> str:
    return _tensor_str.tensor_str(self, tensor_contents)


def _format(self: Tensor, spec: str) -> str:
    if self.dim() == 0 and type(self) is Tensor:
        return self.item().__format__(spec)
    return object.__format__(self, spec)


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment."
        )
    from oneflow import no_grad

    with no_grad():
        copy = self.detach().clone()
        if type(self) is not Tensor:
            copy = Tensor._make_subclass(type(self), copy, False)
        copy.requires_grad_(self.requires_grad)
        if self.grad is not None:
            copy.grad = self.grad.__deepcopy__(memo)
    attributes = getattr(self, "__dict__", None)
    memo[id(self)] = copy
    if attributes:
        import copy as copying

        for name, value in attributes.items():
            setattr(copy, name, copying.deepcopy(value, memo))
    return copy


def _reduce_ex(self: Tensor, protocol: Any) -> Any:
    """Plain ``pickle``: the whole checkpoint format inside one bytes object."""
    from oneflow.serialization import _tensor_from_bytes, _tensor_to_bytes

    return _tensor_from_bytes, (_tensor_to_bytes(self),)


_nonzero_indices = Tensor.nonzero


def _nonzero(self: Tensor, *, as_tuple: bool = False) -> Any:
    """Indices of the non-zero elements: one row each, or with ``as_tuple`` one tensor a dimension."""
    return _oneflow._C.nonzero_tuple(self) if as_tuple else _nonzero_indices(self)


def _real(self: Tensor) -> Tensor:
    """A view of the real parts; a real tensor itself."""
    return _oneflow.real(self)


def _set_real(self: Tensor, value: Any) -> None:
    _oneflow.real(self).copy_(value if isinstance(value, Tensor) else _oneflow.tensor(value))


def _imag(self: Tensor) -> Tensor:
    """A view of the imaginary parts."""
    return _oneflow.imag(self)


def _set_imag(self: Tensor, value: Any) -> None:
    _oneflow.imag(self).copy_(value if isinstance(value, Tensor) else _oneflow.tensor(value))


def _hermitian(self: Tensor) -> Tensor:
    """The transpose of a matrix, conjugated where it is complex."""
    if self.dim() not in (0, 2):
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {self.dim()}-D tensor. "
            "For batches of matrices, consider using tensor.mH"
        )
    return self.t().conj()


def _batch_hermitian(self: Tensor) -> Tensor:
    """The last two dimensions transposed, conjugated where the tensor is complex."""
    return self.transpose(-2, -1).conj()


def _no_flag(self: Tensor) -> bool:
    """Always False: conjugates and negations are computed, never flags on a tensor."""
    return False


def _itself(self: Tensor) -> Tensor:
    """The tensor itself: it has no flag to resolve."""
    return self


_PROPERTIES = {
    "real": property(_real, _set_real, doc=_real.__doc__),
    "imag": property(_imag, _set_imag, doc=_imag.__doc__),
    "H": property(_hermitian, doc=_hermitian.__doc__),
    "mH": property(_batch_hermitian, doc=_batch_hermitian.__doc__),
}

_METHODS = {
    "is_conj": _no_flag,
    "is_neg": _no_flag,
    "resolve_conj": _itself,
    "resolve_neg": _itself,
    "nonzero": _nonzero,
    "__repr__": _repr,
    "__str__": _repr,
    "__format__": _format,
    "__deepcopy__": _deepcopy,
    "__reduce_ex__": _reduce_ex,
}

for _name, _method in (_METHODS | _PROPERTIES).items():
    setattr(_oneflow.Tensor, _name, _method)
