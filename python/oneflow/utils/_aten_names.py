"""The names by which PyTorch calls the ops of the table, for what hears ops below autograd."""

from __future__ import annotations

import ast
import functools
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

import oneflow
from oneflow import Tensor, _oneflow

if TYPE_CHECKING:
    from oneflow._ops import Op, OpOverload


def ops_module() -> ModuleType:
    """The module of ``oneflow.ops``, which stands above this one."""
    return sys.modules[type(oneflow.ops).__module__]


_NAMES = {
    "batch_norm_training": "native_batch_norm.default",
    "batch_norm_inference": "native_batch_norm.default",
    "group_norm": "native_group_norm.default",
    "group_norm_with_statistics": "native_group_norm.default",
    "layer_norm": "native_layer_norm.default",
    "native_embedding_bag": "_embedding_bag.default",
    "clone_contiguous": "clone.default",
    "softmax": "_softmax.default",
    "log_softmax": "_log_softmax.default",
    "to_copy": "_to_copy.default",
    "select": "select.int",
    "slice": "slice.Tensor",
    "index": "index.Tensor",
    "split": "split.Tensor",
    "transpose": "transpose.int",
    "where": "where.self",
    "native_conv": "convolution.default",
    **dict.fromkeys((f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)), "convolution.default"),
    **dict.fromkeys(("conv1d.padding", "conv2d.padding", "conv3d.padding"), "convolution.default"),
}
_OF_TENSORS = frozenset(("add", "sub", "mul", "div", "fmod", "remainder", "bitwise_and", "bitwise_or", "bitwise_xor"))
_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_STATISTICS = frozenset(("var", "std", "var_mean", "std_mean"))
_ALONG = {"sum": "dim_IntList", "mean": "dim", "prod": "dim_int"}


def as_pytorch_calls(name: str, given: dict[str, Any]) -> OpOverload:
    """The overload by which PyTorch calls an op of the table with these arguments."""
    base, _, overload = name.partition(".")
    operands = list(given.values())
    if base == "linear":
        return _overload("addmm" if given.get("bias") is not None else "mm", "default")
    if base == "matmul":
        return _overload(_product(*operands[:2]), "default")
    if base in ("scaled_dot_product_attention", "native_attention"):
        on_cpu = operands[0].device.type == "cpu"
        return _overload("_scaled_dot_product_flash_attention" + ("_for_cpu" if on_cpu else ""), "default")
    known = _NAMES.get(name)
    if known is not None:
        return _overload(*known.split("."))
    if base in _OF_TENSORS:
        return _overload(base, "Tensor")
    if base in _COMPARISONS:
        return _overload(base, "Tensor" if isinstance(operands[1], Tensor) else "Scalar")
    if base in _STATISTICS:
        return _overload(base, "correction")
    if base in _ALONG and given.get("dim") not in (None, [], ()):
        return _overload(base, _ALONG[base])
    if base == "pow":
        kinds = ["Tensor" if isinstance(x, Tensor) else "Scalar" for x in operands[:2]]
        return _overload(base, "Scalar" if kinds[0] == "Scalar" else "_".join(kinds))
    return _overload(base, overload or "default")


def _product(a: Tensor, b: Tensor) -> str:
    """The product of matrices that stands for ``matmul`` of these."""
    dims = (a.dim(), b.dim())
    if dims == (1, 1):
        return "dot"
    if dims == (2, 1):
        return "mv"
    # A batch times one matrix is one product.
    return "mm" if b.dim() <= 2 else "bmm"


def _overload(base: str, overload: str) -> OpOverload:
    try:
        op = getattr(oneflow.ops.aten, base)
    except AttributeError:
        # A step that has no public function: it has a name, and can be named by no list.
        op = _steps.setdefault(base, ops_module().Op("aten", base))
    return getattr(op, overload)


_steps: dict[str, Op] = {}


@dataclass
class Spelled:
    """A call of the table in PyTorch's words.

    Attributes:
        op: the overload.
        args, kwargs: its arguments.
        shape: the shape of the first result, where PyTorch's op works on matrices and gives another one.
        gives_list: whether its result is a list.
        again: the same op on other arguments in the places of these. None where PyTorch's op is called.
    """

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shape: Sequence[int] | None = None
    gives_list: bool = False
    again: Callable[[Sequence[Any], dict[str, Any]], Any] | None = None

    def anew(self, op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
        """The result of ``op`` on these arguments, if it is this call with others in their places."""
        fits = op is self.op and len(args) == len(self.args) and kwargs.keys() == self.kwargs.keys()
        return NotImplemented if self.again is None or not fits else self.again(args, kwargs)

    def result(self, made: list[Tensor]) -> Any:
        """What PyTorch's op returns, of a list of results."""
        return list(made) if self.gives_list else made[0] if len(made) == 1 else tuple(made) if made else None

    def results(self, result: Any) -> list[Tensor]:
        """The list of results, of what PyTorch's op returns."""
        found = list(result) if isinstance(result, (tuple, list)) else [] if result is None else [result]
        if self.shape is not None and tuple(found[0].shape) != tuple(self.shape):
            found[0] = found[0].reshape(self.shape)
        return found


def spelled(name: str, given: dict[str, Any], written: list[Tensor] | None) -> Spelled:
    """The overload by which PyTorch calls an op of the table with these arguments, and its arguments of that call.

    Args:
        name: the op's full name.
        given: its arguments by name.
        written: the tensors that it writes, in place or as ``out=``; None for new results.
    """
    op = as_pytorch_calls(name, given)
    if written is None and (adapted := _adapted(name, op, given)) is not None:
        return adapted
    by_keyword, gives_list = _form(name)
    positions = [key for key in given if key not in by_keyword]
    args = [given[key] for key in positions]
    kwargs = {key: given[key] for key, default in by_keyword.items() if key in given and given[key] != default}
    while args and args[-1] is None:
        args.pop()
    in_place = False
    if written:
        base = op.overloadpacket.__name__
        if args and args[0] is written[0]:
            op, in_place = _overload(f"{base}_", op._overloadname), True
        else:
            op, kwargs["out"] = _overload(base, "out"), written[0] if len(written) == 1 else tuple(written)

    def again(others: Sequence[Any], named: dict[str, Any]) -> Any:
        operands = {**given, **dict(zip(positions[1:], others[1:], strict=False)), **named}
        for first in positions[:1]:
            operands.pop(first)
        # What was not given may have no form of its own: a list of dimensions that is None, say.
        operands = {key: value for key, value in operands.items() if value is not None or key in _required(name)}
        return _callable(name, in_place)(*others[:1], **operands)

    return Spelled(op, tuple(args), kwargs, None, gives_list, again)


@functools.cache
def _callable(name: str, in_place: bool) -> Callable[..., Any]:
    """The compiled function or method of an op of the table."""
    described = _ops()[name]
    public, faces = described["public"], described["faces"]
    if in_place and not public.endswith("_"):
        place: Any = _oneflow._C._nn if "nn" in faces else _oneflow._C if "private" in faces else Tensor
        return getattr(place, public + "_")
    for face, place in (("function", _oneflow), ("nn", _oneflow._C._nn), ("private", _oneflow._C)):
        if face in faces:
            return getattr(place, public)
    return getattr(Tensor, public) if "method" in faces else functools.partial(_anew, public + "_")


def _anew(name: str, x: Tensor, *args: Any, **kwargs: Any) -> Any:
    """What an op that programs call in place alone would leave in ``x``, in a tensor of its own."""
    return getattr(x.clone(), name)(*args, **kwargs)


def spelled_alone(name: str, given: dict[str, Any]) -> Spelled:
    """A function of PyTorch's that is no op of the table."""
    return Spelled(_overload(name, "default"), tuple(given.values()), {})


def _adapted(name: str, op: OpOverload, given: dict[str, Any]) -> Spelled | None:
    """Convolutions with all arguments of PyTorch's op; products of layers and of batches as those of matrices."""
    base = op.overloadpacket.__name__
    if base == "convolution" and not isinstance(given.get("padding"), str) and "stride" in given:
        operands = given["input"], given["weight"], given.get("bias"), given["stride"], given["padding"]
        zeros = [0] * len(given["stride"])
        rest = given["dilation"], "transpose" in name, given.get("output_padding") or zeros, given["groups"]
        return Spelled(op, (*operands, *rest), {})
    if base in ("addmm", "mm") and "weight" in given:
        x, weight, bias = given["input"], given["weight"], given.get("bias")
        matrices = (_matrix(x), weight.t())
        shape = (*x.shape[:-1], weight.shape[0])
        return Spelled(op, matrices if bias is None else (bias, *matrices), {}, shape)
    if name.partition(".")[0] == "matmul" and base in ("mm", "bmm"):
        x, y = list(given.values())[:2]
        if x.dim() < 2 or y.dim() < 2 or (base == "bmm" and x.shape[:-2] != y.shape[:-2]):
            return None
        shape = (*x.shape[:-1], y.shape[-1])
        if base == "mm":
            return Spelled(op, (_matrix(x), y), {}, shape)
        n = math.prod(x.shape[:-2])
        return Spelled(op, (x.reshape(n, *x.shape[-2:]), y.reshape(n, *y.shape[-2:])), {}, shape)
    return None


def _matrix(x: Tensor) -> Tensor:
    """The rows of all dimensions but the last, in one."""
    return x if x.dim() == 2 else x.reshape(math.prod(x.shape[:-1]), x.shape[-1])


@functools.cache
def _ops() -> dict[str, dict[str, Any]]:
    return {op["name"]: op for op in _oneflow._C._ops()}


@functools.cache
def _required(name: str) -> frozenset[str]:
    """The arguments of an op that have no default."""
    parameters = _ops()[name]["signature"].partition("(")[2].rpartition(" -> ")[0].rpartition(")")[0].split(", ")
    return frozenset(p.rpartition(" ")[2] for p in parameters if "=" not in p)


@functools.cache
def _form(name: str) -> tuple[dict[str, Any], bool]:
    """The arguments that an op takes by name alone, with their defaults, and whether it returns a list."""
    text, _, returns = _ops()[name]["signature"].rpartition(" -> ")
    _, _, named = text.rpartition(")")[0].partition("*, ")
    by_keyword = {}
    for parameter in named.split(", ") if named else []:
        key, _, default = parameter.rpartition(" ")[2].partition("=")
        try:
            by_keyword[key] = ast.literal_eval(default)
        except (SyntaxError, ValueError):
            by_keyword[key] = default
    return by_keyword, returns == "Tensor[]"
