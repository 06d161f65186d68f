"""The tracer: runs a program with proxies for its inputs and records what it does with them."""

from __future__ import annotations

import collections
import contextlib
import copy
import inspect
import math
import threading
import types
import warnings
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.fx._codegen import _PyTreeCodeGen, _PyTreeInfo
from oneflow.fx._patching import Patches, find_proxy, wrap
from oneflow.fx.graph import Graph
from oneflow.fx.graph_module import GraphModule
from oneflow.fx.node import base_types
from oneflow.fx.proxy import ParameterProxy, Proxy, Scope, ScopeContextManager, TracerBase
from oneflow.nn import Module, Parameter
from oneflow.utils import _pytree

__all__ = ["PH", "PHBase", "ProxyableClassMeta", "Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

_local = threading.local()
# A trace replaces methods of all modules: one thread at a time, and the others see them as they were.
_PATCHING = threading.RLock()
_module_call = Module.__call__
_module_getattr = Module.__getattr__
_VARIADIC = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS
_proxyable: set[type] = set()


def is_fx_tracing() -> bool:
    """Return whether this thread is tracing symbolically.

    Example::

        >>> oneflow.fx._symbolic_trace.is_fx_tracing()
        False
    """
    return getattr(_local, "tracing", False)


is_fx_symbolic_tracing = is_fx_tracing


@contextlib.contextmanager
def _tracing() -> Iterator[None]:
    before = is_fx_tracing()
    _local.tracing = True
    try:
        yield
    finally:
        _local.tracing = before


class ProxyableClassMeta(type):
    """The class of classes whose making with a proxy is recorded as one node.

    Example::

        >>> class Pair(metaclass=oneflow.fx.ProxyableClassMeta):
        ...     def __init__(self, left, right):
        ...         self.left, self.right = left, right
        >>> Pair(1, 2).right
        2
    """

    def __init__(cls, name: str, bases: tuple[type, ...], attrs: dict[str, Any]) -> None:
        _proxyable.add(cls)
        super().__init__(name, bases, attrs)

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        proxy = find_proxy(args, kwargs) if is_fx_tracing() else None
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


class PHBase:
    """A place in ``concrete_args`` that stays an input of the traced program."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


def _assert_is_none(value: Any, msg: str) -> None:
    assert value is None, msg


class Tracer(TracerBase):
    """Traces modules and functions. Override :meth:`is_leaf_module` to choose the modules that become one node.

    Args:
        autowrap_modules: modules whose functions are recorded as one node each.
        autowrap_functions: functions that are, too.
        param_shapes_constant: sizes of parameters are numbers, not nodes.

    Example::

        >>> class Whole(oneflow.fx.Tracer):
        ...     def is_leaf_module(self, m, module_qualified_name):
        ...         return True
        >>> model = oneflow.nn.Sequential(oneflow.nn.Sequential(oneflow.nn.ReLU()))
        >>> [node.target for node in Whole().trace(model).nodes]
        ['input', '0', 'output']
    """

    def __init__(
        self,
        autowrap_modules: tuple[types.ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        held = chain.from_iterable(vars(module).items() for module in autowrap_modules)
        self._autowrap_function_ids = {id(f) for name, f in held if not name.startswith("_") and callable(f)}
        self._autowrap_function_ids.update(map(id, autowrap_functions))
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root_module_name = ""
        self.scope = Scope("", None)
        self.module_stack = collections.OrderedDict()
        self.num_calls: dict[str, int] = {}
        self.node_name_to_scope = {}

    root: Any

    # ---- what a program may override

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Return whether calls of ``m`` are one node: by default for the library's own modules except Sequential."""
        return m.__module__.startswith(("oneflow.nn", "torch.nn")) and not isinstance(m, oneflow.nn.Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The path of a module in the one that is traced; raises NameError for a stranger."""
        paths = self.submodule_paths or {module: name for name, module in self.root.named_modules()}
        if mod not in paths:
            raise NameError("module is not installed as a submodule")
        return paths[mod]

    def call_module(self, m: Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """A call of a module: a node if it is a leaf, else its calls."""
        path = self.path_of_module(m)
        with ScopeContextManager(self.scope, Scope(path, type(m))) as scope:
            calls = self.num_calls.get(path, 0)
            key = f"{scope.module_path}@{calls}" if calls else scope.module_path
            self.module_stack[key] = (path, scope.module_type)
            self.num_calls[path] = calls + 1
            if self.is_leaf_module(m, path):
                result: Any = self.create_proxy("call_module", path, args, kwargs)
            else:
                result = forward(*args, **kwargs)
            self.module_stack.popitem(last=True)
        return result

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """Return the value of a module's attribute: a node for a parameter."""
        members: Any = ()
        if isinstance(attr_val, Parameter):
            members = self.root.named_parameters()
        elif self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            members = self.root.named_buffers()
        for name, value in members:
            if value is attr_val:
                if name not in parameter_proxy_cache:
                    parameter_proxy_cache[name] = self._attribute(name, value)
                return parameter_proxy_cache[name]
        return attr_val

    def _attribute(self, name: str, value: Any) -> Proxy:
        known = {}
        if self.param_shapes_constant and "proxy_factory_fn" in inspect.signature(self.create_proxy).parameters:
            known["proxy_factory_fn"] = lambda node: ParameterProxy(self, node, name, value)
        return self.create_proxy("get_attr", name, (), {}, **known)  # type: ignore[arg-type]

    def create_arg(self, a: Any) -> Any:
        """Convert a value to an argument of a node: parameters and tensors become reads of an attribute."""
        members: Any = ()
        if isinstance(a, Parameter):
            members = self.root.named_parameters()
        elif isinstance(a, Tensor):
            members = self.root.named_buffers()
        elif isinstance(a, Module):
            members = self.root.named_modules()
        for name, value in members:
            if value is a:
                return self.create_node("get_attr", name, (), {})
        if isinstance(a, Parameter):
            raise NameError("parameter is not a member of this module")
        if isinstance(a, tuple) and hasattr(a, "_fields"):
            return self.create_node("call_function", type(a), tuple(self.create_arg(item) for item in a), {})
        if isinstance(a, Tensor):
            path = self.tensor_attrs.get(a)
            if path is None:
                path = self.tensor_attrs[a] = self.get_fresh_qualname("_tensor_constant")
                setattr(self.root, path, a)
            return self.create_node("get_attr", path, (), {})
        if type(a) in _proxyable:
            path = self.get_fresh_qualname(f"_{type(a).__name__}_constant_")
            setattr(self.root, path, a)
            return self.create_node("get_attr", path, (), {})
        return super().create_arg(a)

    def get_fresh_qualname(self, prefix: str) -> str:
        """A name that the root has no attribute of."""
        i = 0
        while hasattr(self.root, f"{prefix}{i}"):
            i += 1
        return f"{prefix}{i}"

    # ---- a trace

    def trace(self, root: Module | Callable[..., Any], concrete_args: Any = None) -> Graph:
        """The graph of a module or function.

        Args:
            root: what is traced.
            concrete_args: values of arguments that are no inputs of the graph, by name.

        Raises:
            TraceError: a branch or a loop depends on a traced value.
        """
        is_module = isinstance(root, Module)
        with _tracing():
            self.root = root if is_module else Module()
            if is_module:
                if not hasattr(type(root), self.traced_func_name):
                    raise AssertionError(f"{type(root).__name__} has no {self.traced_func_name}, which is to be traced")
                fn = getattr(type(root), self.traced_func_name)
                self.root_module_name = self.root._get_name()
                self.submodule_paths = {module: name for name, module in self.root.named_modules()}
            else:
                fn = root
            self.graph = Graph(tracer_cls=type(self))
            if hasattr(fn, "__code__"):
                code = fn.__code__
                names = ("co_name", "co_filename", "co_firstlineno")
                self.graph._co_fields = {name: getattr(code, name) for name in names}
            self.tensor_attrs: dict[Any, str] = {}
            for prefix, module in self.root.named_modules():
                for name, value in vars(module).items():
                    if isinstance(value, Tensor):
                        self.tensor_attrs[value] = f"{prefix}.{name}" if prefix else name
            if not isinstance(fn, types.FunctionType):
                raise AssertionError(f"Expected FunctionType, got {type(fn)}")
            self._run(fn, is_module, concrete_args)
            self.submodule_paths = None
        return self.graph

    def _run(self, function: types.FunctionType, is_module: bool, concrete_args: Any) -> None:
        namespace = function.__globals__
        fn, args = self.create_args_for_root(function, is_module, concrete_args)
        cache: dict[str, Proxy] = {}
        functions = self._autowrap_function_ids

        def read(module: Module, attr: str) -> Any:
            value = _module_getattr(module, attr)
            return self.getattr(attr, value, cache) if is_fx_tracing() else value

        def call(module: Module, *args: Any, **kwargs: Any) -> Any:
            if not is_fx_tracing():
                return _module_call(module, *args, **kwargs)

            def forward(*args: Any, **kwargs: Any) -> Any:
                return _module_call(module, *args, **kwargs)

            patches.search(getattr(module.forward, "__globals__", {}), functions)
            return self.call_module(module, forward, args, kwargs)

        with _PATCHING, Patches() as patches:
            patches.method(Module, "__getattr__", read)
            patches.method(Module, "__call__", call)
            patches.registered()
            patches.search(namespace, functions)
            for module in self._autowrap_search:
                patches.search(vars(module), functions)
            returns = _annotations(fn).get("return")
            self.create_node("output", "output", (self.create_arg(fn(*args)),), {}, type_expr=returns)

    def create_args_for_root(self, root_fn: Any, is_module: bool, concrete_args: Any = None) -> tuple[Any, list[Any]]:
        """Return the function that is called, and the proxies and values it is called with."""
        plain = inspect.unwrap(root_fn)
        code = plain.__code__
        total = code.co_argcount + code.co_kwonlyargcount
        if is_module and total == 0:
            raise RuntimeError("``self`` argument cannot be part of *args expansion!")
        args: list[Any] = [self.root] if is_module else []
        names = list(code.co_varnames[len(args) : total])
        if isinstance(concrete_args, tuple):
            if len(names) != len(concrete_args):
                raise RuntimeError(
                    f"Tracing expected {len(names)} arguments but got {len(concrete_args)} concrete arguments"
                )
            concrete_args = dict(zip(names, concrete_args, strict=True))
        signature = inspect.signature(plain)
        more = iter(code.co_varnames[total:])
        if code.co_flags & inspect.CO_VARARGS:
            names.append("*" + next(more))
        if code.co_flags & inspect.CO_VARKEYWORDS:
            names.append("**" + next(more))
        args += [self._placeholder(name, concrete_args, signature, plain) for name in names]
        if code.co_kwonlyargcount or code.co_flags & _VARIADIC:
            root_fn = _by_position(root_fn, len(args))
        leaves, spec = _pytree.tree_flatten(tuple(args))
        if all(child.is_leaf() for child in spec.children_specs):
            return root_fn, args
        self.graph._codegen = _PyTreeCodeGen(_PyTreeInfo(list(code.co_varnames[:total]), spec, None))

        def flat(*leaves: Any) -> Any:
            result = root_fn(*_pytree.tree_unflatten(list(leaves), spec))
            values, out_spec = _pytree.tree_flatten(result)
            codegen: Any = self.graph._codegen
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=out_spec)
            return values

        flat.__annotations__ = {}
        return flat, leaves

    def _placeholder(self, name: str, concrete_args: Any, signature: inspect.Signature, function: Any) -> Any:
        parameter = signature.parameters.get(name)
        has_default = parameter is not None and parameter.default is not parameter.empty
        default: tuple[Any, ...] = (parameter.default,) if parameter is not None and has_default else ()
        if concrete_args is None or name not in concrete_args:
            kind = _annotations(function).get(name)
            return self.create_proxy("placeholder", name, default, {}, type_expr=kind)
        count = 0

        def specialized(value: Any) -> Any:
            nonlocal count
            count += 1
            made = self.create_proxy("placeholder", f"{name}_{count}", default, {})
            if isinstance(value, PHBase):
                return made
            if isinstance(value, base_types) and not isinstance(value, Tensor):
                text = f"{name} has been specialized to have value {value} but got another value"
                oneflow._assert(made == value, text)  # type: ignore[comparison-overlap]
            elif value is None:
                text = f"{name} has been specialized to have value None but got another value"
                self.create_proxy("call_function", _assert_is_none, (made, text), {})
            else:
                warnings.warn(
                    f"Was not able to add assertion to guarantee correct input {name} to specialized function. It is "
                    f"up to the user to make sure that your inputs match the inputs you specialized the function with.",
                    stacklevel=2,
                )
            return value

        return _pytree.tree_map(specialized, concrete_args[name])

    @classmethod
    def _graph_module_deserialization_tracer(cls, root: Module) -> Tracer:
        return cls()

    def __deepcopy__(self, memo: dict[int, Any]) -> Tracer:
        made = type(self).__new__(type(self))
        for key, value in self.__dict__.items():
            made.__dict__[key] = list(value) if key == "_autowrap_search" else copy.deepcopy(value, memo)
        return made


def _annotations(function: Any) -> dict[str, Any]:
    """The annotations of a user's function; those of the library are texts for type checkers."""
    plain = inspect.unwrap(function)
    return {} if (plain.__module__ or "").startswith("oneflow.") else inspect.get_annotations(plain)


def _by_position(function: types.FunctionType, n: int) -> types.FunctionType:
    """``function`` taking everything by position: ``*args``, ``**kwargs`` and keyword arguments are single values."""
    code = function.__code__.replace(
        co_argcount=n,
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=function.__code__.co_flags & ~_VARIADIC,
    )
    return types.FunctionType(
        code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )


def symbolic_trace(root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> GraphModule:
    """The module, or the function as a module, traced: its ``graph`` can be changed and compiled again.

    Args:
        root: what is traced. It runs once, with proxies for its inputs; branches that depend on them are refused.
        concrete_args: values of arguments that are no inputs of the graph, by name.

    Raises:
        oneflow.fx.proxy.TraceError: a branch or a loop depends on a traced value.

    Example::

        >>> traced = oneflow.fx.symbolic_trace(lambda x: oneflow.relu(x) + 1)
        >>> traced(oneflow.tensor([-1.0, 1.0]))
        tensor([1., 2.])
        >>> print(traced.code.strip())
        def forward(self, x):
            relu = oneflow.relu(x);  x = None
            add = relu + 1;  relu = None
            return add
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = root.__class__.__name__ if isinstance(root, Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
