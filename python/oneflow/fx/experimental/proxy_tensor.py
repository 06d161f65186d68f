"""Functions as graphs of the ops that they run, below autograd and functional."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any

import oneflow
from oneflow.fx._symbolic_trace import PH, Tracer
from oneflow.fx.graph_module import GraphModule
from oneflow.fx.interpreter import Interpreter
from oneflow.fx.node import Node, map_arg
from oneflow.fx.proxy import Proxy
from oneflow.nn import Module, Parameter
from oneflow.utils import _pytree

__all__ = ["PythonKeyTracer", "get_isolated_graphmodule", "get_proxy_mode", "make_fx"]

_MODES = ("real", "fake", "symbolic")


class PythonKeyTracer(Tracer):
    """Makes the graph of :func:`make_fx`: modules are run through, and their parameters are constants.

    Example::

        >>> from oneflow.fx.experimental.proxy_tensor import PythonKeyTracer
        >>> graph = PythonKeyTracer().trace(oneflow.nn.Sequential(oneflow.nn.ReLU()))
        >>> [node.op for node in graph.nodes]
        ['placeholder', 'call_function', 'output']
    """

    def __init__(self) -> None:
        super().__init__(autowrap_modules=())

    def call_module(self, m: Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """The module's own result: its ops are the nodes."""
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Proxy]) -> Any:
        """The attribute itself."""
        return attr_val

    def create_arg(self, a: Any) -> Any:
        """As :class:`~oneflow.fx.Tracer`; a parameter becomes an attribute of the module that is made."""
        if isinstance(a, Parameter) and not any(a is p for p in self.root.parameters()):
            setattr(self.root, self.get_fresh_qualname("_param_constant"), a)
        return super().create_arg(a)


def make_fx(
    f: Callable[..., Any],
    decomposition_table: Mapping[Any, Callable[..., Any]] | None = None,
    tracing_mode: str = "real",
    _allow_non_fake_inputs: bool = False,
    *,
    pre_dispatch: bool = False,
    record_module_stack: bool = False,
    _allow_fake_constant: bool = False,
    _error_on_data_dependent_ops: bool = True,
) -> Callable[..., GraphModule]:
    """Return a function that gives the ops that ``f`` runs on its arguments as a module.

    Gradients that ``f`` computes are ops too. Ops that write become ops with new results; an argument that ``f``
    writes is written at the end. Sizes and numbers are those of the arguments, and so are branches; values of tensors
    are never needed. Ops are those of an exported program (:mod:`oneflow.export`), under its names.

    Args:
        f: a function or a module. Tensors that are no arguments become attributes of the module.
        decomposition_table: functions that stand for ops, by op (``ops.aten.addmm``, or one of its overloads).
        tracing_mode: "real" and "fake" are one here.
        _allow_non_fake_inputs: accepted: tensors with values may always be constants.
        record_module_stack: accepted; nodes name the modules that they come from where ``f`` is a module.
        _allow_fake_constant: accepted; there are no fake tensors here.
        _error_on_data_dependent_ops: accepted; they raise.

    Raises:
        NotImplementedError: sizes as symbols (``tracing_mode="symbolic"``), or ``pre_dispatch``.
        RuntimeError: ``f`` reads the values of a tensor.

    Example::

        >>> from oneflow.fx.experimental.proxy_tensor import make_fx
        >>> made = make_fx(lambda x: x.sin() + 1)(oneflow.zeros(2))
        >>> print(made.code.strip())
        def forward(self, x_1):
            sin = oneflow.ops.aten.sin.default(x_1);  x_1 = None
            add = oneflow.ops.aten.add.default(sin, 1);  sin = None
            return add
        >>> made(oneflow.zeros(3))
        tensor([1., 1., 1.])
    """
    if tracing_mode not in _MODES:
        raise AssertionError(f"make_fx: tracing_mode must be one of {_MODES}, got {tracing_mode!r}")
    if tracing_mode == "symbolic" or pre_dispatch:
        wanted = "pre_dispatch" if pre_dispatch else "tracing_mode='symbolic'"
        raise NotImplementedError(f"make_fx: {wanted} is not provided; sizes are numbers, and ops those below autograd")
    stands = {getattr(op, "overloadpacket", op): function for op, function in (decomposition_table or {}).items()}

    @functools.wraps(f)
    def traced(*args: Any) -> GraphModule:
        made = _traced(f, args)
        if stands and any(_packet(node.target) in stands for node in made.graph.nodes):
            made = make_fx(_named_as(f, _Decomposing(made, stands).run))(*args)
        return made

    return traced


def _packet(target: Any) -> Any:
    return getattr(target, "overloadpacket", None)


class _Decomposing(Interpreter):
    """Runs a graph with functions in the places of ops."""

    def __init__(self, module: GraphModule, stands: Mapping[Any, Callable[..., Any]]) -> None:
        super().__init__(module)
        self.stands = stands

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        stands = self.stands.get(_packet(target))
        return super().call_function(target, args, kwargs) if stands is None else stands(*args, **kwargs)


def _traced(f: Callable[..., Any], args: tuple[Any, ...]) -> GraphModule:
    # The exporter is loaded where it is used.
    from oneflow._trace.open_dims import open_dims
    from oneflow.export._exporting import exported

    given = _signature(f, len(args))

    @functools.wraps(given)
    def function(*args: Any) -> Any:
        # What is exported records no gradients unless it asks; a function may compute some.
        with oneflow.enable_grad():
            return f(*args)

    whole = f if isinstance(f, Module) else function
    program = exported(whole, args, {}, open_dims(given, args, {}, None), ())
    tracer = PythonKeyTracer()

    @functools.wraps(given)
    def run(*proxies: Any) -> Any:
        return _run(tracer, program, _pytree.tree_leaves(proxies))

    graph = tracer.trace(run, tuple(_pytree.tree_map(lambda _: PH, args)))
    name = type(f).__name__ if isinstance(f, Module) else getattr(f, "__name__", type(f).__name__)
    return GraphModule(tracer.root, graph, name)


def _run(tracer: Tracer, program: Any, inputs: list[Any]) -> Any:
    """The results of a program on proxies: its nodes, made anew."""
    from oneflow.export.graph_signature import InputKind, OutputKind

    values: dict[Node, Any] = {}
    by_name: dict[str, Any] = {}
    leaves = iter(inputs)
    specs = iter(program.graph_signature.input_specs)
    for node in program.graph.nodes:
        if node.op == "placeholder":
            spec = next(specs)
            own = spec.kind in (InputKind.PARAMETER, InputKind.BUFFER, InputKind.CONSTANT_TENSOR)
            held = {**program.constants, **program.state_dict}
            values[node] = by_name[spec.arg.name] = held[spec.target] if own else next(leaves)
        elif node.op == "output":
            outputs = node.args[0]
        else:
            args, kwargs = (map_arg(nest, values.__getitem__) for nest in (node.args, node.kwargs))
            values[node] = tracer.create_proxy(node.op, node.target, args, kwargs, name=node.name)
            values[node].node.meta.update(node.meta)
    results = []
    for spec, output in zip(program.graph_signature.output_specs, outputs, strict=True):
        value = values.get(output, output) if isinstance(output, Node) else output
        if spec.kind is OutputKind.USER_OUTPUT:
            results.append(value)
        else:
            written = by_name[spec.target] if spec.target in by_name else program.state_dict[spec.target]
            tracer.create_proxy("call_function", oneflow.ops.aten.copy_.default, (written, value), {})
    return _pytree.tree_unflatten(results, program.call_spec.out_spec)


def _signature(f: Callable[..., Any], n: int) -> Any:
    """A function with the parameters of ``f``: those of modules and of ``*args`` are named by their places."""
    plain: Any = inspect.unwrap(f)
    if isinstance(plain, types.FunctionType) and not plain.__code__.co_flags & inspect.CO_VARARGS:
        return plain
    scope: dict[str, Any] = {}
    exec(f"def given({', '.join(f'arg{i}' for i in range(n))}): pass", scope)
    return scope["given"]


def _named_as(f: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with the name and the parameters of ``f``."""

    @functools.wraps(f)
    def named(*args: Any) -> Any:
        return function(*args)

    return named


def get_isolated_graphmodule(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], tracing_mode: str = "real"
) -> GraphModule:
    """The ops of one call as a module that takes the tensors and values among its arguments, in their order.

    Example::

        >>> from oneflow.fx.experimental.proxy_tensor import get_isolated_graphmodule
        >>> made = get_isolated_graphmodule(oneflow.mul, (oneflow.ones(2), 3), {})
        >>> [node.target for node in made.graph.nodes if node.op == "call_function"]
        [<OpOverload(op='aten.mul', overload='default')>]
    """
    leaves, spec = _pytree.tree_flatten((args, kwargs))

    def flat(*values: Any) -> Any:
        given, named = _pytree.tree_unflatten(list(values), spec)
        return func(*given, **named)

    return make_fx(flat, tracing_mode=tracing_mode)(*leaves)


def get_proxy_mode() -> None:
    """None: :func:`make_fx` takes the ops of a program, and no mode that replaces tensors is ever on.

    Example::

        >>> from oneflow.fx.experimental.proxy_tensor import get_proxy_mode
        >>> get_proxy_mode() is None
        True
    """
