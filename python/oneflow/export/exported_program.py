"""Exported programs: a graph of calls, what its inputs and outputs are, and the tensors that it holds."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import oneflow
from oneflow import Tensor
from oneflow._trace.named_sizes import Size, SizeError
from oneflow._trace.size_guards import Guard
from oneflow.export.graph_signature import (
    ArgumentSpec,
    ConstantArgument,
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
)
from oneflow.fx._codegen import _PyTreeCodeGen, _PyTreeInfo
from oneflow.fx.graph import Graph
from oneflow.fx.graph_module import GraphModule, _assign_attr
from oneflow.nn import Module, Parameter
from oneflow.utils import _pytree

__all__ = ["CallSpec", "ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "Range"]


class CallSpec(NamedTuple):
    """How the arguments and the result are nested.

    Example::

        >>> program = oneflow.export.export(oneflow.nn.ReLU(), (oneflow.ones(1),))
        >>> program.call_spec.in_spec.num_leaves
        1
    """

    in_spec: Any
    out_spec: Any


@dataclass
class ModuleCallSignature:
    """The inputs and outputs of a module's call.

    Example::

        >>> program = oneflow.export.export(oneflow.nn.ReLU(), (oneflow.ones(1),))
        >>> program.module_call_graph[0].signature.forward_arg_names
        ['input']
    """

    inputs: list[ArgumentSpec]
    outputs: list[ArgumentSpec]
    in_spec: Any
    out_spec: Any
    forward_arg_names: list[str] | None = None


@dataclass
class ModuleCallEntry:
    """A module of the exported one, by its path; the whole has a signature.

    Example::

        >>> program = oneflow.export.export(oneflow.nn.Sequential(oneflow.nn.ReLU()), (oneflow.ones(1),))
        >>> [entry.fqn for entry in program.module_call_graph]
        ['', '0']
    """

    fqn: str
    signature: ModuleCallSignature | None = None


@dataclass(frozen=True)
class Range:
    """The sizes that an open dimension may have; ``upper`` is None where there is no limit.

    Example::

        >>> oneflow.export.exported_program.Range(2, None)
        [2, oo]
    """

    lower: int
    upper: int | None

    def __str__(self) -> str:
        return f"[{self.lower}, {'oo' if self.upper is None else self.upper}]"

    __repr__ = __str__


class _CallCode(_PyTreeCodeGen):
    """Code whose function takes the arguments of the exported module, and checks them."""

    def __init__(self, info: _PyTreeInfo, n_positional: int) -> None:
        super().__init__(info)
        self.n_positional = n_positional

    def process_inputs(self, *inputs: Any) -> Any:
        return _pytree.tree_leaves(inputs)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, **options: Any) -> str:
        names = [name for name in self.pytree_info.orig_args if name != "self"]
        line = f"def {self._func_name}(self{''.join(f', {name}' for name in names)}){maybe_return_annotation}:"
        bare = [name.split(":")[0].split("=")[0].split("#")[0].strip() for name in free_vars]
        taken = ", ".join(name for name in bare if name != "self")
        keywords = ", ".join(f"{name!r}: {name}" for name in names[self.n_positional :])
        positional = "".join(f"{name}, " for name in names[: self.n_positional])
        given = f"self._checked(({positional}), {{{keywords}}})"
        return f"{line}\n    {taken}, = {given}" if taken else f"{line}\n    {given}"


class ExportedModule(GraphModule):
    """What :meth:`ExportedProgram.module` returns: it takes the arguments of the module that was exported."""

    _program: ExportedProgram
    _check_guards: bool

    def _checked(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """Return the leaves of the arguments, after checking that the program accepts them."""
        return self.__dict__["_program"].leaves_of(args, kwargs, self.__dict__["_check_guards"])

    def train(self, mode: bool = True) -> Any:
        """Refuse: a program has the mode in which it was exported.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Calling train() is not supported yet.")

    def eval(self) -> Any:
        """Refuse: a program has the mode in which it was exported.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("Calling eval() is not supported yet.")

    def __deepcopy__(self, memo: Any) -> ExportedModule:
        program = copy.deepcopy(self.__dict__["_program"], memo)
        # What a load or a move has put in place of the program's own tensors.
        own = {**dict(self.named_parameters()), **dict(self.named_buffers())}
        for held in (program.state_dict, program.constants):
            held.update({name: copy.deepcopy(own[name], memo) for name in held if name in own})
        return self._made_of(program)

    def _made_of(self, program: ExportedProgram) -> Any:
        return unlifted(program, self.__dict__["_check_guards"])

    def __reduce__(self) -> Any:
        from oneflow.export._archive import to_bytes

        return _module_of, (to_bytes(self.__dict__["_program"]), self.__dict__["_check_guards"])


def _module_of(data: bytes, check_guards: bool) -> Any:
    from oneflow.export._archive import of_bytes

    return of_bytes(data).module(check_guards=check_guards)


class ExportedProgram:
    """A module as a graph: :func:`oneflow.export.export` returns one.

    Attributes:
        graph_module: the graph whose inputs are parameters, buffers, constants, and then the arguments; it writes
            nothing, and returns new values of what the module writes before its results.
        graph_signature: what each input and output is.
        state_dict: parameters and buffers by name.
        constants: the other tensors that the program holds.
        range_constraints: the sizes of open dimensions by name.
        guards: what open dimensions must meet besides, because Python decided by them when the module was traced.
        example_inputs: the arguments that it was exported with.

    Example::

        >>> program = oneflow.export.export(oneflow.nn.ReLU(), (oneflow.tensor([-1.0, 2.0]),))
        >>> [node.name for node in program.graph.nodes]
        ['input_1', 'relu', 'output']
        >>> program.module()(oneflow.tensor([3.0, -4.0]))
        tensor([3., 0.])
    """

    def __init__(
        self,
        root: Any,
        graph: Graph,
        graph_signature: ExportGraphSignature,
        state_dict: dict[str, Any],
        range_constraints: dict[str, Range],
        module_call_graph: list[ModuleCallEntry],
        example_inputs: tuple[tuple[Any, ...], dict[str, Any]] | None = None,
        constants: dict[str, Any] | None = None,
        *,
        verifiers: Any = None,
        guards: Sequence[Guard] = (),
    ) -> None:
        self._graph_module = GraphModule(root if isinstance(root, (Module, dict)) else {}, graph)
        self._graph_signature = graph_signature
        self._state_dict = state_dict
        self._range_constraints = range_constraints
        self._module_call_graph = module_call_graph
        self._example_inputs = example_inputs
        self._constants = constants or {}
        self._guards = list(guards)

    @property
    def graph_module(self) -> GraphModule:
        """The graph as a module of all inputs."""
        return self._graph_module

    @property
    def graph(self) -> Graph:
        """The graph."""
        return self._graph_module.graph

    @property
    def graph_signature(self) -> ExportGraphSignature:
        """What each input and output of the graph is."""
        return self._graph_signature

    @property
    def state_dict(self) -> dict[str, Any]:
        """Parameters and buffers by name."""
        return self._state_dict

    @property
    def constants(self) -> dict[str, Any]:
        """Tensors that are neither parameters nor saved buffers, by name."""
        return self._constants

    @property
    def tensor_constants(self) -> dict[str, Any]:
        """Tensors that are neither parameters nor saved buffers, by name."""
        return self._constants

    @property
    def range_constraints(self) -> dict[str, Range]:
        """The sizes that open dimensions may have, by name."""
        return self._range_constraints

    @property
    def guards(self) -> list[Guard]:
        """What open dimensions must meet besides their ranges; a call at other sizes is refused.

        Example::

            >>> class Halves(oneflow.nn.Module):
            ...     def forward(self, x):
            ...         return x[::2] if x.shape[0] % 2 == 0 else x
            >>> program = oneflow.export.export(Halves(), (oneflow.ones(4),), dynamic_shapes=({0: "n"},))
            >>> [(guard.asked, str(guard.a), guard.b, guard.answer) for guard in program.guards]
            [('mod', 'n', 2, 0)]
        """
        return self._guards

    @property
    def module_call_graph(self) -> list[ModuleCallEntry]:
        """The modules of the exported one."""
        return self._module_call_graph

    @property
    def example_inputs(self) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
        """The positional and the named arguments that the program was exported with."""
        return self._example_inputs

    @property
    def call_spec(self) -> CallSpec:
        """How the arguments and the result are nested."""
        whole = self._module_call_graph[0].signature
        assert whole is not None
        return CallSpec(whole.in_spec, whole.out_spec)

    def parameters(self) -> Iterator[Parameter]:
        """The parameters."""
        return (value for _, value in self.named_parameters())

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """The parameters by name."""
        return ((name, self._state_dict[name]) for name in self._graph_signature.parameters)

    def buffers(self) -> Iterator[Tensor]:
        """The buffers."""
        return (value for _, value in self.named_buffers())

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """The buffers by name."""
        held = {**self._constants, **self._state_dict}
        return ((name, held[name]) for name in self._graph_signature.buffers)

    def module(self, check_guards: bool = True) -> Any:
        """A module that runs the program, with the parameters and buffers of this object.

        Args:
            check_guards: compare sizes and constants of the arguments with what the program was exported for.
        """
        return unlifted(self, check_guards)

    def run_decompositions(self, decomp_table: Mapping[Any, Any] | None = None, **options: Any) -> ExportedProgram:
        """The program with the ops that are compositions of others taken apart.

        Args:
            decomp_table: None, or an empty dictionary, which leaves ops as they are.

        Raises:
            NotImplementedError: ``decomp_table`` has rules.
        """
        if options:
            raise NotImplementedError(f"run_decompositions: {next(iter(options))} is not provided")
        if decomp_table:
            raise NotImplementedError("run_decompositions: rules of the caller are not provided")
        from oneflow.export._exporting import decomposed

        return decomposed(self, expand=decomp_table is None)

    def leaves_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any], check: bool = True) -> list[Any]:
        """The leaves of a call's arguments.

        Raises:
            ValueError: the arguments are nested otherwise than those of the example.
            AssertionError: a size, or a constant, is not what the program was exported for.
        """
        expected = self.call_spec.in_spec
        whole = self._module_call_graph[0].signature
        order = list(whole.in_spec.children_specs[1].context or ()) if whole is not None else []
        if set(kwargs) == set(order):
            kwargs = {name: kwargs[name] for name in order}
        leaves, found = _pytree.tree_flatten((tuple(args), dict(kwargs)))
        if found != expected:
            raise ValueError(
                "Trying to flatten user inputs with exported input tree spec: \n"
                f"{expected}\nbut actually got inputs with tree spec of: \n{found}"
            )
        if check:
            self._check(leaves)
        return leaves

    def _check(self, leaves: list[Any]) -> None:
        placeholders = self.graph.find_nodes(op="placeholder")[-len(leaves) :] if leaves else []
        specs = [s for s in self._graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
        sizes: dict[str, tuple[int, str]] = {}
        derived = []
        for node, spec, value in zip(placeholders, specs, leaves, strict=True):
            if isinstance(spec.arg, ConstantArgument):
                if value != spec.arg.value:
                    raise AssertionError(f"Guard failed: {spec.arg.name} == {spec.arg.value!r} (it is {value!r})")
                continue
            if not isinstance(value, Tensor):
                raise AssertionError(f"Guard failed: {node.name} is a Tensor (it is {type(value).__name__})")
            wanted = node.meta["sizes"]
            if value.dim() != len(wanted):
                raise AssertionError(f"Guard failed: {node.name}.dim() == {len(wanted)} (it is {value.dim()})")
            dtype = node.meta["val"].dtype
            if value.dtype != dtype:
                raise AssertionError(f"Guard failed: {node.name}.dtype == {dtype} (it is {value.dtype})")
            for axis, size in enumerate(wanted):
                at, real = f"{node.name}.size()[{axis}]", value.shape[axis]
                if isinstance(size, str):
                    first, where = sizes.setdefault(size, (real, at))
                    if first != real:
                        raise AssertionError(f"Guard failed: {at} == {where} (they are {real} and {first})")
                elif isinstance(size, Size):
                    derived.append((size, real, at))
                elif size is not None and size != real:
                    raise AssertionError(f"Guard failed: {at} == {size} (it is {real})")
        for size, real, at in derived:
            try:
                solved = size.solved(real)
            except SizeError as error:
                raise AssertionError(f"Guard failed: {at} == {size} ({error})") from None
            first, _ = sizes.setdefault(size.root(), (solved, at))
            if size.at({size.root(): first}) != real:
                raise AssertionError(f"Guard failed: {at} == {size} (it is {real}, and {size.root()} is {first})")
        for name, (real, at) in sizes.items():
            allowed = self._range_constraints.get(name)
            if allowed is None:
                continue
            if real < allowed.lower:
                raise AssertionError(f"Guard failed: {at} >= {allowed.lower} (it is {real})")
            if allowed.upper is not None and real > allowed.upper:
                raise AssertionError(f"Guard failed: {at} <= {allowed.upper} (it is {real})")
        known = {name: real for name, (real, _) in sizes.items()}
        for guard in self._guards:
            if not guard.holds(known):
                shown = ", ".join(f"{name} is {real}" for name, real in known.items())
                raise AssertionError(f"Guard failed: {guard}; {shown}, and Python decided by it when it was exported")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse, as PyTorch does.

        Raises:
            RuntimeError: always; :meth:`module` gives what can be called.
        """
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def __str__(self) -> str:
        code = self._graph_module.print_readable(print_output=False).replace("\n", "\n    ")
        signature = str(self._graph_signature).replace("\n", "\n    ")
        ranges = f"Range constraints: {self._range_constraints}"
        return f"ExportedProgram:\n    {code}\n\nGraph signature: {signature}\n{ranges}\n"

    def __deepcopy__(self, memo: Any) -> ExportedProgram:
        return ExportedProgram(
            subgraphs_of(self),
            copy.deepcopy(self.graph, memo),
            copy.deepcopy(self._graph_signature),
            {name: copy.deepcopy(value, memo) for name, value in self._state_dict.items()},
            dict(self._range_constraints),
            list(self._module_call_graph),
            self._example_inputs,
            {name: copy.deepcopy(value, memo) for name, value in self._constants.items()},
            guards=self._guards,
        )

    def __reduce__(self) -> Any:
        from oneflow.export._archive import of_bytes, to_bytes

        return of_bytes, (to_bytes(self),)


def subgraphs_of(program: ExportedProgram) -> dict[str, Any]:
    """The branches and bodies of loops by name, which hold no tensors."""
    names = [str(node.target) for node in program.graph.find_nodes(op="get_attr")]
    return {name: getattr(program.graph_module, name) for name in names}


def unlifted(program: ExportedProgram, check_guards: bool) -> ExportedModule:
    """The program as one module."""
    return module_of(ExportedModule, program, check_guards, unlifted_graph(program), {})


def unlifted_graph(program: ExportedProgram) -> Graph:
    """The graph with parameters, buffers and constants as attributes, and writes in place."""
    graph = Graph()
    made: dict[Any, Any] = {}
    signature = program.graph_signature
    placeholders = program.graph.find_nodes(op="placeholder")
    written: dict[str, Any] = {}
    lasting = []
    for node, spec in zip(placeholders, signature.input_specs, strict=True):
        if spec.kind is InputKind.USER_INPUT:
            made[node] = graph.placeholder(node.name)
            made[node].meta.update(node.meta)
            written[node.name] = made[node]
        else:
            lasting.append((node, spec))
    for node, spec in lasting:
        target = str(spec.target)
        if node.users or target in {s.target for s in signature.output_specs}:
            made[node] = graph.create_node("get_attr", target, name=target.replace(".", "_"))
            written[target] = made[node]
    for node in program.graph.nodes:
        if node.op not in ("placeholder", "output"):
            made[node] = graph.node_copy(node, made.__getitem__)
    results = []
    (returned,) = program.graph.output_node().args
    for output, value in zip(signature.output_specs, returned, strict=True):
        given = made[value] if isinstance(value, oneflow.fx.Node) else value
        if output.kind is OutputKind.USER_OUTPUT:
            results.append(given)
        else:
            graph.call_function(oneflow.ops.aten.copy_.default, (written[str(output.target)], given))
    graph.output(tuple(results))
    whole = program.module_call_graph[0].signature
    assert whole is not None
    n_positional = len(whole.in_spec.children_specs[0].children_specs)
    names = list(whole.forward_arg_names or [])
    graph.set_codegen(_CallCode(_PyTreeInfo(["self", *names], whole.in_spec, whole.out_spec), n_positional))
    return graph


def module_of(
    cls: type[ExportedModule], program: ExportedProgram, check_guards: bool, graph: Graph, children: dict[str, Any]
) -> Any:
    """A module that runs a graph of the program, with the program's tensors and further modules, by their paths."""
    values, signature = {**program.constants, **program.state_dict}, program.graph_signature
    lasting = [str(spec.target) for spec in signature.input_specs if spec.kind is not InputKind.USER_INPUT]
    held = {name: values[name] for name in lasting}
    module = Module()
    for name, value in [*children.items(), *held.items(), *subgraphs_of(program).items()]:
        _assign_attr(value, module, name)
    result = cls(module, graph, cls.__name__ if children else "GraphModule")
    specs = {str(spec.target): spec for spec in signature.input_specs if spec.kind is not InputKind.USER_INPUT}
    for name, value in held.items():
        hold(result, name, value, specs[name])
    result.__dict__["_program"], result.__dict__["_check_guards"] = program, check_guards
    return result


def hold(module: Any, path: str, value: Any, spec: InputSpec) -> None:
    """Give a module a parameter, a buffer or a constant."""
    *inner, name = path.split(".")
    for part in inner:
        if not hasattr(module, part):
            module.add_module(part, Module())
        module = getattr(module, part)
    module._buffers.pop(name, None)
    if spec.kind is InputKind.BUFFER:
        module.register_buffer(name, value, persistent=bool(spec.persistent))
    elif spec.kind is InputKind.PARAMETER:
        setattr(module, name, value)
    else:
        module.__dict__[name] = value


# Functions of numbers that graphs may call, by the names that archives give them.
NUMBERS: dict[str, Callable[..., Any]] = {
    name: getattr(operator, name)
    for name in (
        "add sub mul truediv floordiv mod neg pow eq ne lt le gt ge and_ or_ not_ getitem lshift rshift pos abs"
    ).split()
}
