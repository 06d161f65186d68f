"""What the inputs and outputs of an exported graph are: parameters, buffers, constants, arguments, results, writes."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

__all__ = [
    "ArgumentSpec",
    "ConstantArgument",
    "CustomObjArgument",
    "ExportBackwardSignature",
    "ExportGraphSignature",
    "InputKind",
    "InputSpec",
    "OutputKind",
    "OutputSpec",
    "SymBoolArgument",
    "SymFloatArgument",
    "SymIntArgument",
    "TensorArgument",
    "TokenArgument",
]


@dataclass
class TensorArgument:
    """A tensor, by the name of its node.

    Example::

        >>> oneflow.export.graph_signature.TensorArgument('x')
        TensorArgument(name='x')
    """

    name: str


@dataclass
class TokenArgument:
    """A token that orders effects.

    Example::

        >>> oneflow.export.graph_signature.TokenArgument('t')
        TokenArgument(name='t')
    """

    name: str


@dataclass
class SymIntArgument:
    """An integer that follows from the sizes of the inputs.

    Example::

        >>> oneflow.export.graph_signature.SymIntArgument('n')
        SymIntArgument(name='n')
    """

    name: str


@dataclass
class SymFloatArgument:
    """A number that follows from the sizes of the inputs.

    Example::

        >>> oneflow.export.graph_signature.SymFloatArgument('f')
        SymFloatArgument(name='f')
    """

    name: str


@dataclass
class SymBoolArgument:
    """A truth value that follows from the sizes of the inputs.

    Example::

        >>> oneflow.export.graph_signature.SymBoolArgument('b')
        SymBoolArgument(name='b')
    """

    name: str


@dataclass
class CustomObjArgument:
    """An object of a class of the program's own.

    Example::

        >>> oneflow.export.graph_signature.CustomObjArgument('o', 'my.Class').class_fqn
        'my.Class'
    """

    name: str
    class_fqn: str
    fake_val: Any = None


@dataclass
class ConstantArgument:
    """A number, string or None, which is part of the program.

    Example::

        >>> oneflow.export.graph_signature.ConstantArgument('n', 3).value
        3
    """

    name: str
    value: int | float | bool | str | None


ArgumentSpec = (
    TensorArgument
    | SymIntArgument
    | SymFloatArgument
    | SymBoolArgument
    | ConstantArgument
    | CustomObjArgument
    | TokenArgument
)


class InputKind(Enum):
    """What an input of the graph is.

    Example::

        >>> oneflow.export.graph_signature.InputKind.PARAMETER.name
        'PARAMETER'
    """

    USER_INPUT = auto()
    PARAMETER = auto()
    BUFFER = auto()
    CONSTANT_TENSOR = auto()
    CUSTOM_OBJ = auto()
    TOKEN = auto()


class OutputKind(Enum):
    """What an output of the graph is.

    Example::

        >>> oneflow.export.graph_signature.OutputKind.BUFFER_MUTATION.name
        'BUFFER_MUTATION'
    """

    USER_OUTPUT = auto()
    LOSS_OUTPUT = auto()
    BUFFER_MUTATION = auto()
    PARAMETER_MUTATION = auto()
    GRADIENT_TO_PARAMETER = auto()
    GRADIENT_TO_USER_INPUT = auto()
    USER_INPUT_MUTATION = auto()
    TOKEN = auto()


@dataclass
class InputSpec:
    """An input: what it is, the node, and the name of the parameter, buffer or constant that it stands for.

    Example::

        >>> program = oneflow.export.export(oneflow.nn.Linear(3, 2), (oneflow.ones(1, 3),))
        >>> print(program.graph_signature.input_specs[0])
        p_weight: PARAMETER target='weight'
    """

    kind: InputKind
    arg: ArgumentSpec
    target: str | None
    persistent: bool | None = None

    def __post_init__(self) -> None:
        if self.kind is InputKind.BUFFER and self.persistent is None:
            raise AssertionError("Failed to specify persistent flag on BUFFER.")

    def __str__(self) -> str:
        target = "" if self.target is None else f" target={self.target!r}"
        persistent = "" if self.persistent is None else f" persistent={self.persistent}"
        return f"{self.arg.name}: {self.kind.name}{target}{persistent}"


@dataclass
class OutputSpec:
    """An output: what it is, the node, and the name of what it is written to.

    Example::

        >>> program = oneflow.export.export(oneflow.nn.Linear(3, 2), (oneflow.ones(1, 3),))
        >>> print(program.graph_signature.output_specs[0])
        linear: USER_OUTPUT
    """

    kind: OutputKind
    arg: ArgumentSpec
    target: str | None

    def __str__(self) -> str:
        target = "" if self.target is None else f" target={self.target!r}"
        return f"{self.arg.name}: {self.kind.name}{target}"


@dataclass
class ExportBackwardSignature:
    """Which outputs are gradients; programs with a backward of their own are not exported.

    Example::

        >>> oneflow.export.ExportBackwardSignature({}, {}, "loss").loss_output
        'loss'
    """

    gradients_to_parameters: dict[str, str]
    gradients_to_user_inputs: dict[str, str]
    loss_output: str


@dataclass
class ExportGraphSignature:
    """The inputs and the outputs of an exported graph, in order.

    Example::

        >>> program = oneflow.export.export(oneflow.nn.Linear(3, 2), (oneflow.ones(1, 3),))
        >>> program.graph_signature.parameters, program.graph_signature.user_inputs
        (('weight', 'bias'), ('input_1',))
    """

    input_specs: list[InputSpec]
    output_specs: list[OutputSpec]

    def _targets(self, kind: InputKind) -> tuple[Any, ...]:
        return tuple(s.target for s in self.input_specs if s.kind is kind)

    def _by_name(self, kind: InputKind) -> dict[str, Any]:
        return {s.arg.name: s.target for s in self.input_specs if s.kind is kind}

    def _written(self, kind: OutputKind) -> dict[str, Any]:
        return {s.arg.name: s.target for s in self.output_specs if s.kind is kind}

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return self._targets(InputKind.PARAMETER)

    @property
    def buffers(self) -> tuple[str, ...]:
        """The names of the buffers."""
        return self._targets(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self) -> tuple[str, ...]:
        """The names of the buffers that are not saved."""
        return tuple(str(s.target) for s in self.input_specs if s.kind is InputKind.BUFFER and not s.persistent)

    @property
    def lifted_tensor_constants(self) -> tuple[str, ...]:
        """The names of tensors that the program holds."""
        return self._targets(InputKind.CONSTANT_TENSOR)

    @property
    def lifted_custom_objs(self) -> tuple[str, ...]:
        """The names of objects of other classes."""
        return self._targets(InputKind.CUSTOM_OBJ)

    @property
    def user_inputs(self) -> tuple[Any, ...]:
        """The nodes of the arguments, or their values where they are constants."""
        found = (s.arg for s in self.input_specs if s.kind is InputKind.USER_INPUT)
        return tuple(a.value if isinstance(a, ConstantArgument) else a.name for a in found)

    @property
    def user_outputs(self) -> tuple[Any, ...]:
        """The nodes of the results, or their values where they are constants."""
        kinds = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        found = (s.arg for s in self.output_specs if s.kind in kinds)
        return tuple(a.value if isinstance(a, ConstantArgument) else a.name for a in found)

    @property
    def inputs_to_parameters(self) -> dict[str, str]:
        """The parameters by the nodes that stand for them."""
        return self._by_name(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self) -> dict[str, str]:
        """The buffers by the nodes that stand for them."""
        return self._by_name(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self) -> dict[str, str]:
        """The constants by the nodes that stand for them."""
        return self._by_name(InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self) -> dict[str, str]:
        """The objects by the nodes that stand for them."""
        return self._by_name(InputKind.CUSTOM_OBJ)

    @property
    def buffers_to_mutate(self) -> dict[str, str]:
        """The buffers that the program writes, by the nodes of their new values."""
        return self._written(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self) -> dict[str, str]:
        """The parameters that the program writes, by the nodes of their new values."""
        return self._written(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self) -> dict[str, str]:
        """The arguments that the program writes, by the nodes of their new values."""
        return self._written(OutputKind.USER_INPUT_MUTATION)

    @property
    def backward_signature(self) -> ExportBackwardSignature | None:
        """None: programs with a backward of their own are not exported."""
        return None

    @property
    def assertion_dep_token(self) -> None:
        """None: assertions need no order."""
        return

    @property
    def input_tokens(self) -> tuple[str, ...]:
        """The tokens that order effects, of which there are none."""
        return self._targets(InputKind.TOKEN)

    def replace_all_uses(self, old: str, new: str) -> None:
        """Rename a node."""
        specs: list[InputSpec | OutputSpec] = [*self.input_specs, *self.output_specs]
        for spec in specs:
            if spec.arg.name == old:
                spec.arg.name = new

    def __str__(self) -> str:
        inputs = "\n".join(map(str, self.input_specs))
        outputs = "\n".join(map(str, self.output_specs))
        return f"\n# inputs\n{inputs}\n\n# outputs\n{outputs}\n"
