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


_METHODS = {
    "nonzero": _nonzero,
    "__repr__": _repr,
    "__str__": _repr,
    "__format__": _format,
    "__deepcopy__": _deepcopy,
    "__reduce_ex__": _reduce_ex,
}

for _name, _method in _METHODS.items():
    setattr(_oneflow.Tensor, _name, _method)
