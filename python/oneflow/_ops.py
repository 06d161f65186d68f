"""``oneflow.ops``: ops by namespace and name. ``ops.aten`` are those of this package, programs define the others.

An op has no overloads here: ``ops.aten.add``, ``ops.aten.add.Tensor`` and ``ops.aten.add.default`` are one callable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oneflow import Tensor

_OWN = ("aten", "prims")


class Op:
    """A callable of a namespace: an op of the package, or one that a program defined with :mod:`oneflow.library`."""

    def __init__(self, namespace: str, name: str, schema: str | None = None) -> None:
        self._qualname = f"{namespace}::{name}"
        self.__name__ = name
        self._schema = schema
        # By the type of device; "" serves every device.
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None

    def __getattr__(self, overload: str) -> Op:
        if overload.startswith("__"):
            raise AttributeError(overload)
        return self

    def overloads(self) -> list[str]:
        """The one overload there is."""
        return ["default"]

    def __repr__(self) -> str:
        return f"<op {self._qualname}>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel of the tensors' device.

        Raises:
            NotImplementedError: no kernel was registered for it.
        """
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        kernel = self._kernel(tensors)
        if self.backward is not None and any(t.requires_grad for t in tensors):
            from oneflow.library import differentiable

            return differentiable(self, kernel, args, kwargs)
        return kernel(*args, **kwargs)

    def _kernel(self, tensors: list[Tensor]) -> Callable[..., Any]:
        device = tensors[0].device.type if tensors else "cpu"
        if device == "meta" and self.fake is not None:
            return self.fake
        found = self.kernels.get(device) or self.kernels.get("")
        if found is None:
            known = ", ".join(sorted(self.kernels)) or "none"
            raise NotImplementedError(f"op {self._qualname} has no kernel for device {device} (it has: {known})")
        return found


class Namespace:
    """The ops below one name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, op: str) -> Op:
        if op.startswith("__"):
            raise AttributeError(op)
        found = _defined.get(f"{self._name}::{op}")
        if found is None and self._name in _OWN:
            found = _own(self._name, op)
        if found is None:
            raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{op}': no such op is defined")
        return found

    def __dir__(self) -> list[str]:
        return [name.partition("::")[2] for name in _defined if name.startswith(self._name + "::")]


def _own(namespace: str, name: str) -> Op | None:
    """An op of the package by the name of its function or method."""
    import oneflow
    from oneflow._functions import aten

    for place in (aten, oneflow, oneflow.nn.functional, oneflow.linalg, oneflow.special, oneflow._oneflow._C, Tensor):
        function = getattr(place, name, None)
        if callable(function):
            op = _defined[f"{namespace}::{name}"] = Op(namespace, name)
            op.kernels[""] = function
            return op
    return None


class Ops:
    """The type of ``oneflow.ops``."""

    def __getattr__(self, namespace: str) -> Namespace:
        if namespace.startswith("__"):
            raise AttributeError(namespace)
        return _namespaces.setdefault(namespace, Namespace(namespace))

    def load_library(self, path: Any) -> None:
        """Refuse: libraries of ops are compiled for PyTorch's C++ interface. For torchvision's, define its ops instead.

        Raises:
            OSError: as where a library does not load; packages then go on without it.
        """
        from oneflow.mock_torch import _libraries

        if _libraries.stands_for(path):
            return
        raise OSError(
            f"{path}: libraries compiled for PyTorch do not load into oneflow; define ops with oneflow.library"
        )


_defined: dict[str, Op] = {}
_namespaces: dict[str, Namespace] = {}
ops = Ops()


def define(qualname: str, schema: str | None = None) -> Op:
    """Return the op ``"namespace::name"``, which is created if it is new."""
    namespace, separator, name = qualname.partition("::")
    if not separator or not namespace or not name:
        raise ValueError(f"expected a name like 'namespace::op', got {qualname!r}")
    op = _defined.get(qualname)
    if op is None:
        op = _defined[qualname] = Op(namespace, name)
    if schema is not None:
        op._schema = f"{qualname}{schema}"
    return op


def forget(qualname: str) -> None:
    """Take an op away again."""
    _defined.pop(qualname, None)
