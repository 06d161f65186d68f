"""``oneflow.ops``: ops by namespace and name. ``ops.aten`` are those of this package, programs define the others.

An op chooses by its arguments: ``ops.aten.add.Tensor`` and ``ops.aten.add.default`` call what ``ops.aten.add`` does,
and have names of their own in graphs.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

from oneflow import Tensor

_OWN = ("aten", "prims")
# Modules that define ops of a namespace, loaded with the first that is asked for.
_DEFINED_BY = dict.fromkeys(("_c10d_functional", "c10d_functional", "c10d"), "oneflow.distributed._collective_ops")


class OpOverload:
    """An op under the name of an overload, as ``ops.aten.add.Tensor``: what graphs of exported programs call."""

    def __init__(self, op: Op, overload: str) -> None:
        self._op, self._overloadname = op, overload
        self.namespace, self._opname = op._qualname.split("::")
        self.__name__ = f"{self._opname}.{overload}"
        self.__module__ = f"oneflow.ops.{self.namespace}"

    @property
    def overloadpacket(self) -> Op:
        """The op itself."""
        return self._op

    # The name that modes written for PyTorch read.
    _overloadpacket = overloadpacket

    @property
    def _schema(self) -> str | None:
        return self._op._schema

    @property
    def tags(self) -> tuple[Any, ...]:
        """What was said of the op when it was defined: values of :class:`oneflow.library.Tag`."""
        return self._op.tags

    @property
    def _qualname(self) -> str:
        return self._op._qualname

    def name(self) -> str:
        """The op's name in its namespace, such as ``aten::add.Tensor``."""
        suffix = "" if self._overloadname == "default" else f".{self._overloadname}"
        return self._op._qualname + suffix

    @property
    def is_mutable(self) -> bool:
        """Whether a call writes into an argument."""
        return self._op.is_mutable or self._overloadname == "out" or self._overloadname.endswith("_out")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if (answer := _answer(self, args, kwargs)) is not NotImplemented:
            return answer
        heard = heard_calls()
        if heard and (result := heard[-1](self, args, kwargs)) is not NotImplemented:
            return result
        try:
            return self._op(*args, **kwargs)
        except AttributeError as error:
            if self.namespace != "aten":
                raise
            # A program that gives a number where a tensor belongs.
            raise TypeError(f"{self}(): an argument is of another kind than it takes: {error}") from error

    def __str__(self) -> str:
        return f"{self.namespace}.{self.__name__}"

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.namespace}.{self._opname}', overload='{self._overloadname}')>"

    def __reduce__(self) -> Any:
        return _overload, (self.namespace, self._opname, self._overloadname)


def _overload(namespace: str, name: str, overload: str) -> Any:
    """The op of a pickled graph."""
    return getattr(getattr(getattr(ops, namespace), name), overload)


def _answer(op: Op | OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What an argument that is no tensor makes of the call, such as a proxy of ``fx``; else NotImplemented."""
    for value in (*args, *kwargs.values()):
        if not isinstance(value, Tensor) and hasattr(type(value), "__torch_function__"):
            return type(value).__torch_function__(op, (type(value),), args, kwargs)
    return NotImplemented


def _packet(namespace: str, name: str) -> Any:
    return getattr(getattr(ops, namespace), name)


class Op:
    """A callable of a namespace: an op of the package, or one that a program defined with :mod:`oneflow.library`."""

    def __init__(self, namespace: str, name: str, schema: str | None = None) -> None:
        self._qualname = f"{namespace}::{name}"
        self.__name__, self.__module__ = name, f"oneflow.ops.{namespace}"
        self._schema = schema
        # What :class:`oneflow.library.Tag` says of it.
        self.tags: tuple[Any, ...] = ()
        # By the type of device; "" serves every device.
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup_context: Callable[..., Any] | None = None
        self.vmap: Callable[..., Any] | None = None

    def __getattr__(self, overload: str) -> OpOverload:
        if overload.startswith("__"):
            raise AttributeError(overload)
        made = self.__dict__[overload] = OpOverload(self, overload)
        return made

    def __reduce__(self) -> Any:
        return _packet, tuple(self._qualname.split("::"))

    def overloads(self) -> list[str]:
        """The one overload there is."""
        return ["default"]

    def __repr__(self) -> str:
        return f"<op {self._qualname}>"

    @property
    def is_mutable(self) -> bool:
        """Whether a call writes into an argument."""
        if self._schema is not None:
            return "!" in self._schema
        return self.__name__.endswith("_") and not self.__name__.endswith("__")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel of the tensors' device.

        Raises:
            NotImplementedError: no kernel was registered for it.
        """
        if (answer := _answer(self, args, kwargs)) is not NotImplemented:
            return answer
        tensors = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
        kernel = self._kernel(tensors)
        if self.vmap is not None and (batched := self._batched()) is not None:
            kernel = batched(kernel)
        if self._qualname.partition("::")[0] not in _OWN:
            for listener in listeners():
                kernel = functools.partial(listener, self.default, kernel)
        if self.backward is not None and any(t.requires_grad for t in tensors):
            from oneflow.library import differentiable

            return differentiable(self, kernel, args, kwargs)
        return kernel(*args, **kwargs)

    def _batched(self) -> Callable[..., Any] | None:
        """What wraps a kernel inside of vmap: the op's own rule runs on tensors of a sample."""
        from oneflow.autograd import _batching, _rules

        if not _batching.is_batching():
            return None
        rule, name = self.vmap, f"the vmap rule of {self._qualname}"
        assert rule is not None

        def wrap(kernel: Callable[..., Any]) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                if not _batching.has_samples((args, tuple(kwargs.values()))):
                    return kernel(*args, **kwargs)
                return _rules.by_rule(rule, name, args, kwargs)

            # The arguments are bound by the kernel's names.
            return functools.wraps(kernel)(call)

        return wrap

    def _kernel(self, tensors: list[Tensor]) -> Callable[..., Any]:
        device = tensors[0].device.type if tensors else "cpu"
        if device == "meta" and self.fake is not None:
            return self.fake
        found = self.kernels.get(device) or self.kernels.get("")
        if found is None:
            known = ", ".join(sorted(self.kernels)) or "none"
            raise NotImplementedError(f"op {self._qualname} has no kernel for device {device} (it has: {known})")
        return found


_local = threading.local()


def listeners() -> list[Callable[..., Any]]:
    """What hears of this thread's calls of ops that programs defined: called with the op, its kernel and the arguments.

    The last one is asked first. Ops of the package are heard below autograd (``_C._push_listener``).
    """
    found: list[Callable[..., Any]] | None = getattr(_local, "listeners", None)
    if found is None:
        found = _local.listeners = []
    return found


def heard_calls() -> list[Callable[..., Any]]:
    """The calls of ops that modes of this thread are asked about, the latest last.

    Each is called with an overload and arguments, and returns NotImplemented unless they are the call that it runs.
    """
    found: list[Callable[..., Any]] | None = getattr(_local, "heard", None)
    if found is None:
        found = _local.heard = []
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
        if found is None and self._name in _DEFINED_BY:
            importlib.import_module(_DEFINED_BY[self._name])
            found = _defined.get(f"{self._name}::{op}")
        if found is None:
            raise AttributeError(f"'_OpNamespace' '{self._name}' object has no attribute '{op}': no such op is defined")
        return found

    def __dir__(self) -> list[str]:
        return [name.partition("::")[2] for name in _defined if name.startswith(self._name + "::")]


def _own(namespace: str, name: str) -> Op | None:
    """An op of the package by the name of its function or method."""
    for place in _places(name):
        function = place.get(name) if isinstance(place, dict) else getattr(place, name, None)
        if callable(function):
            op = _defined[f"{namespace}::{name}"] = Op(namespace, name)
            op.kernels[""] = function
            return op
    in_place = getattr(Tensor, f"{name}_", None)
    if not callable(in_place) or name.endswith("_"):
        return None
    # The form that writes a copy, where only the one that writes its input is public.
    op = _defined[f"{namespace}::{name}"] = Op(namespace, name)
    op.kernels[""] = lambda input, *args, **kwargs: in_place(input.clone(), *args, **kwargs)
    return op


def _places(name: str) -> Iterator[Any]:
    """Where a function of ATen may stand: under its own name and arguments first, then as the public function."""
    import oneflow
    from oneflow._functions import aten, aten_core, aten_losses

    yield from (aten_core, aten_losses.LOSSES, aten)
    family, _, rest = name.partition("_")
    if family in ("linalg", "fft", "special") and rest:
        yield {name: getattr(getattr(oneflow, family), rest, None)}
    yield from (oneflow, oneflow.nn.functional, oneflow.linalg, oneflow.special, oneflow._oneflow._C, Tensor)


# Modules whose functions compute and do nothing else.
_COMPUTING = ("_functions", "_linalg", "nn.functional", "linalg", "fft", "special")


@functools.cache
def _table() -> frozenset[str]:
    from oneflow import _oneflow

    return frozenset(op["name"].partition(".")[0] for op in _oneflow._C._ops())


def only_computes(op: Op) -> bool:
    """Whether an op is one that a program from a file may call: it reads no file, and changes no setting.

    Ops of other namespaces were defined by this process, which trusts them.
    """
    namespace, name = op._qualname.split("::")
    if namespace not in _OWN:
        return True
    name = name if name.endswith("__") else name.removesuffix("_")
    # Public functions are wrapped, and say that they are of the package.
    module = getattr(inspect.unwrap(op.kernels[""]), "__globals__", {}).get("__name__", "")
    return name in _table() or module.startswith(tuple(f"oneflow.{part}" for part in _COMPUTING))


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
