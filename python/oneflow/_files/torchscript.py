"""The weights of a TorchScript archive. Its program, which is text in a language of its own, is not read."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

from oneflow import Tensor
from oneflow._files.unpickler import Listed, RestrictedUnpickler

__all__ = ["is_torchscript", "weights"]

_CLASSES = "__torch__."


class _Object:
    """An object of a class of the archive's: what its attributes are."""

    def __init__(self) -> None:
        self.fields: dict[str, Any] = {}


class _Unpickler(RestrictedUnpickler):
    """Reads objects of the archive's own classes as their attributes."""

    dispatch: ClassVar[dict[int, Any]] = dict(RestrictedUnpickler.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        if f"{module}.".startswith(_CLASSES):
            return Listed(f"{module}.{name}", _Object)
        if module == "torch.jit._pickle":
            # Lists with the types of their elements, and values with type tags.
            return Listed(f"{module}.{name}", lambda value, *tag: value)
        return super().find_class(module, name)

    def _load_build(self) -> None:
        if type(self.stack[-2]) is not _Object:
            RestrictedUnpickler.dispatch[pickle.BUILD[0]](self)
            return
        state = self.stack.pop()
        if not isinstance(state, dict) or not all(isinstance(name, str) for name in state):
            raise pickle.UnpicklingError("the attributes of an object in the archive are no dictionary")
        self.stack[-1].fields = state

    dispatch[pickle.BUILD[0]] = _load_build


def is_torchscript(has: Callable[[str], bool]) -> bool:
    """Whether an archive with these records is one of TorchScript."""
    return has("constants.pkl") and has("version")


def weights(file: Any, functions: dict[str, Any], load_storage: Callable[[Any], Any]) -> OrderedDict[str, Tensor]:
    """Parameters and buffers by name, from the pickle of the archive's module."""
    root = _Unpickler(file, functions, load_storage).load()
    found: OrderedDict[str, Tensor] = OrderedDict()
    # (path, object) pairs that remain; an object that is there twice has two names, as in a state_dict.
    rest: list[tuple[str, Any, int]] = [("", root, 0)]
    while rest:
        path, value, depth = rest.pop()
        if isinstance(value, Tensor):
            found[path] = value.detach()
        elif isinstance(value, _Object):
            if depth > 100:
                raise pickle.UnpicklingError("the modules of the archive are nested too deeply")
            prefix = f"{path}." if path else ""
            rest += [(prefix + name, inner, depth + 1) for name, inner in reversed(value.fields.items())]
    return found
