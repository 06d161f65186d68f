"""Values that record what is done with them, and what tracers share."""

from __future__ import annotations

import collections
import copy
import dataclasses
import dis
import inspect
import operator
import traceback
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

import oneflow
from oneflow import overrides
from oneflow.fx import traceback as fx_traceback
from oneflow.fx._codegen import MAGIC
from oneflow.fx._targets import is_tensor_method
from oneflow.fx.graph import Graph
from oneflow.fx.node import Node, Target, base_types, map_aggregate, map_arg

__all__ = ["Proxy", "TraceError"]

_REFLECTED = (
    "add",
    "sub",
    "mul",
    "floordiv",
    "truediv",
    "mod",
    "pow",
    "lshift",
    "rshift",
    "and_",
    "or_",
    "xor",
    "matmul",
)


class TraceError(ValueError):
    """A program did with a traced value what only a real one can do, as choosing a branch by it.

    Example::

        >>> issubclass(oneflow.fx.proxy.TraceError, ValueError)
        True
    """


class Scope:
    """The module that is being called: its path and its class."""

    def __init__(self, module_path: str, module_type: Any) -> None:
        self.module_path = module_path
        self.module_type = module_type


class ScopeContextManager:
    """Sets a scope to another one, and back at the end."""

    def __init__(self, scope: Scope, current_scope: Scope) -> None:
        self._before = copy.copy(scope)
        self._scope = scope
        scope.module_path, scope.module_type = current_scope.module_path, current_scope.module_type

    def __enter__(self) -> Scope:
        return self._scope

    def __exit__(self, *error: Any) -> None:
        self._scope.module_path, self._scope.module_type = self._before.module_path, self._before.module_type


class TracerBase:
    """Creates nodes of calls. Subclasses override the treatment of arguments, iteration and conditions."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"
    scope: Scope
    module_stack: collections.OrderedDict[str, Any]
    node_name_to_scope: dict[str, tuple[str, Any]]

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
    ) -> Node:
        """Insert a node into the graph, with notes of the module it is in."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        self.node_name_to_scope[node.name] = (self.scope.module_path, self.scope.module_type)
        if fx_traceback.has_preserved_node_meta():
            current = fx_traceback.get_current_meta()
            kept = ("stack_trace", "nn_module_stack", "source_fn_stack", "original_aten", "from_node", "custom")
            node.meta.update({key: copy.copy(current[key]) for key in kept if current.get(key)})
        elif self.module_stack:
            node.meta["nn_module_stack"] = copy.copy(self.module_stack)
        if self.record_stack_traces and not node.stack_trace:
            frames = traceback.extract_stack()
            first = next((i for i, frame in enumerate(frames) if frame.name == "forward"), None)
            users = [] if first is None else [f for f in frames[first:] if not _is_ours(f.filename)]
            if users:
                node.stack_trace = "".join(traceback.StackSummary.from_list(users).format()).strip()
        return node

    def proxy(self, node: Node) -> Proxy:
        """Return the value that represents the result of ``node``."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        name: str | None = None,
        type_expr: Any = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Insert a node and return the value that represents its result."""
        node = self.create_node(kind, target, self.create_arg(args), self.create_arg(kwargs), name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """Convert a value to an argument of a node; raise NotImplementedError for types that cannot be one."""
        if isinstance(a, Proxy):
            return a.node
        if a is None or a is ... or isinstance(a, (Node, *base_types)):
            return a
        if hasattr(a, "__fx_create_arg__"):
            return a.__fx_create_arg__(self)
        if isinstance(a, tuple):
            values = [self.create_arg(item) for item in a]
            return type(a)(*values) if hasattr(a, "_fields") else tuple(values)
        if isinstance(a, list):
            return [self.create_arg(item) for item in a]
        if isinstance(a, dict):
            return {self._key(key): self.create_arg(item) for key, item in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        raise NotImplementedError(f"argument of type: {type(a)}")

    def _key(self, key: Any) -> Any:
        if isinstance(key, str):
            return key
        key = self.create_arg(key)

        def refuse(node: Node) -> Any:
            raise RuntimeError(f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {node}")

        map_arg(key, refuse)
        return key

    def to_bool(self, obj: Proxy) -> bool:
        """Evaluate a condition on a traced value: here an error."""
        raise TraceError(
            f"symbolically traced variables cannot be used as inputs to control flow: {obj!r} was asked whether it is "
            f"true{_place()}"
        )

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Iterate over a traced value: here an error."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            f"**kwargs function argument: {obj!r}{_place()}"
        )

    def keys(self, obj: Proxy) -> Any:
        """Return the keys of a traced value, for ``**value``."""
        return Attribute(obj, "keys")()


def _is_ours(file: str) -> bool:
    return file.startswith(_HOME)


_HOME = oneflow.__path__[0]


def _place() -> str:
    """Where in the user's program this was called from, for an error."""
    for frame in reversed(traceback.extract_stack()):
        if not _is_ours(frame.filename):
            return f" ({frame.filename}:{frame.lineno}: {frame.line})"
    return ""


class GraphAppendingTracer(TracerBase):
    """A tracer that adds to a graph; no module is being traced."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.node_name_to_scope = {}


def assert_fn(x: Any) -> None:
    """``assert x`` of a traced program."""
    if not x:
        raise AssertionError("Assertion failed")


def _instruction(frame: Any) -> tuple[list[dis.Instruction], int]:
    """The instructions of a frame, and which one it is at."""
    found = list(dis.get_instructions(frame.f_code))
    return found, bisect_left([one.offset for one in found], frame.f_lasti)


class Proxy:
    """Stands for a value while a program is traced: what is done with it becomes a node.

    Example::

        >>> graph = oneflow.fx.Graph()
        >>> x = oneflow.fx.Proxy(graph.placeholder("x"))
        >>> oneflow.relu(x) + 1
        Proxy(add)
    """

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        # The attribute is recorded where it is used; a method is recorded by its call.
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: dict[int, Any]) -> Proxy:
        made = Proxy.__new__(Proxy)
        made.__dict__.update({key: copy.deepcopy(value, memo) for key, value in self.__dict__.items()})
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = inspect.currentframe()
        if frame is not None and frame.f_back is not None:
            instructions, at = _instruction(frame.f_back)
            if instructions[at].opname == "UNPACK_SEQUENCE":
                return (self[i] for i in range(instructions[at].argval))  # type: ignore[index]
        return self.tracer.iter(self)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        frame = inspect.currentframe()
        if self.tracer.trace_asserts and frame is not None and frame.f_back is not None:
            instructions, at = _instruction(frame.f_back)
            names = [one.opname for one in instructions[at : at + 3]]
            if "LOAD_ASSERTION_ERROR" in names and "JUMP_IF_TRUE" in names[0]:
                self.tracer.create_proxy("call_function", assert_fn, (self,), {})
                return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        """Return the keys, for ``**value``; the tracer supplies them."""
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(
        cls, orig_method: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        tracers: dict[TracerBase, None] = {}

        def note(value: Any) -> Any:
            if isinstance(value, Proxy):
                tracers[value.tracer] = None
            return value

        map_aggregate(args, note)
        map_aggregate(kwargs, note)
        if len(tracers) > 1:
            raise RuntimeError(
                f"Found multiple different tracers {list(tracers)} while trying to trace operations {orig_method}"
            )
        tracer = next(iter(tracers))
        if is_tensor_method(orig_method) or overrides.is_tensor_method_or_property(orig_method):
            return tracer.create_proxy("call_method", orig_method.__name__, args, kwargs)
        name = tracer.graph._target_to_str(orig_method)
        return tracer.create_proxy("call_function", orig_method, args, kwargs, name=name)


class Attribute(Proxy):
    """An attribute of a traced value: a node once it is used, or a method once it is called."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root = root
        self.attr = attr
        self.tracer = root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter whose sizes are read while one traces, since they are known."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        if not isinstance(param, oneflow.nn.Parameter):
            raise AssertionError(f"Expected Parameter, got {type(param)}")
        self.param = param
        self.name = name

    def __repr__(self) -> str:
        return f"ParameterProxy({self.name})"

    @property
    def shape(self) -> Any:
        """The sizes of the parameter."""
        return self.param.shape

    @property
    def ndim(self) -> int:
        """The number of its dimensions."""
        return self.param.ndim

    def size(self) -> Any:
        """The sizes of the parameter."""
        return self.param.size()

    def dim(self) -> int:
        """The number of its dimensions."""
        return self.param.dim()

    def numel(self) -> int:
        """The number of its elements."""
        return self.param.numel()

    nelement = numel


def _recorded(name: str, reflected: bool) -> Callable[..., Any]:
    target = getattr(operator, name)

    def method(self: Proxy, *args: Any) -> Any:
        operands = (*args, self) if reflected else (self, *args)
        return self.tracer.create_proxy("call_function", target, operands, {})

    method.__name__ = f"__{'r' if reflected else ''}{name.strip('_')}__"
    return method


for _name in MAGIC:
    setattr(Proxy, f"__{_name.strip('_')}__", _recorded(_name, reflected=False))
for _name in _REFLECTED:
    setattr(Proxy, f"__r{_name.strip('_')}__", _recorded(_name, reflected=True))
# A comparison creates a node; as a dictionary key a proxy is compared by identity all the same.
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]
