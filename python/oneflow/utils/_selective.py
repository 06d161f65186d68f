"""Selective checkpoints: a policy says of each op whether its results are kept or computed again in backward.

Ops are heard below autograd, so a kept result stands for running the op, and what is recorded of it stays the same.
An op has the name by which PyTorch calls it (``ops.aten.addmm.default``), so that policies written for PyTorch hold.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.utils._pytree import tree_map

if TYPE_CHECKING:
    from oneflow._ops import Op, OpOverload

_C = _oneflow._C


def _ops() -> ModuleType:
    """The module of ``oneflow.ops``, which stands above this one."""
    return sys.modules[type(oneflow.ops).__module__]


class CheckpointPolicy(enum.Enum):
    """What becomes of an op's results: kept (``*_SAVE``) or computed again (``*_RECOMPUTE``).

    ``MUST_*`` and ``PREFER_*`` do the same here; a compiler may decide otherwise on what is only preferred.

    Example::

        >>> oneflow.utils.checkpoint.CheckpointPolicy.MUST_SAVE.name
        'MUST_SAVE'
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class SelectiveCheckpointContext:
    """What a policy is told besides the op: whether it is asked while the function runs again.

    Example::

        >>> oneflow.utils.checkpoint.SelectiveCheckpointContext(is_recompute=True).is_recompute
        True
    """

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., Any] | Sequence[OpOverload], allow_cache_entry_mutation: bool = False
) -> tuple[Any, Any]:
    """Return the contexts of a checkpoint that keeps the results of some ops, for ``context_fn`` of :func:`checkpoint`.

    Args:
        policy_fn_or_list: ops whose results are kept, such as ``[oneflow.ops.aten.mm.default]``; or a function that
            returns a :class:`CheckpointPolicy`, or True to keep. It is called as ``policy(ctx, op, *args, **kwargs)``
            before each op, in the forward and again in backward (``ctx.is_recompute``).
        allow_cache_entry_mutation: do not raise where a kept result was written after it was kept.

    Ops that write in place always run again. Functions of several steps are heard as their steps: ``nn.Linear`` as
    ``aten.addmm.default`` (``aten.mm.default`` without a bias), ``matmul`` as ``mm``, ``bmm``, ``mv`` or ``dot``,
    convolutions as ``aten.convolution.default``.

    Raises:
        ValueError: the list holds something else than overloads of ops.
        TypeError: neither a function nor a list.

    Example::

        >>> import functools
        >>> keep_products = functools.partial(
        ...     oneflow.utils.checkpoint.create_selective_checkpoint_contexts, [oneflow.ops.aten.mm.default]
        ... )
        >>> x = oneflow.ones(2, 2, requires_grad=True)
        >>> y = oneflow.utils.checkpoint.checkpoint(
        ...     lambda x: (x @ x).exp(), x, use_reentrant=False, context_fn=keep_products
        ... )
        >>> y.sum().backward()
    """
    if isinstance(policy_fn_or_list, (list, tuple)):
        for op in policy_fn_or_list:
            if isinstance(op, _ops().OpOverload):
                continue
            more = ""
            if isinstance(op, _ops().Op):
                more = (
                    " Please update the OpOverloadPacket to a specific OpOverload. For example, if you have "
                    "`torch.ops.aten.mm`, change it to `torch.ops.aten.mm.default`."
                )
            raise ValueError(f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}.{more}")
        kept = frozenset(policy_fn_or_list)

        def policy(ctx: SelectiveCheckpointContext, op: OpOverload, *args: Any, **kwargs: Any) -> bool:
            return op in kept
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: dict[OpOverload, list[Any]] = {}
    return _Keeping(policy, storage), _Reusing(policy, storage, allow_cache_entry_mutation)


class _Kept:
    """A result without its history, and the version it had."""

    def __init__(self, value: Any) -> None:
        self.value = value.detach() if isinstance(value, Tensor) else value
        self.version = value._version if isinstance(value, Tensor) else None

    def get(self, may_differ: bool) -> Any:
        if self.version is not None and not may_differ and self.value._version != self.version:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated: clone it before it is written, "
                "or pass allow_cache_entry_mutation=True"
            )
        return self.value


class _Hearing:
    """A context in which the policy is asked about each op."""

    is_recompute = False

    def __init__(self, policy: Callable[..., Any], storage: dict[OpOverload, list[Any]]) -> None:
        self.policy, self.storage = policy, storage
        # An op of the program runs as a whole: of its steps nobody is asked.
        self.is_inside = False
        self.pending: OpOverload | None = None

    def __enter__(self) -> None:
        _C._push_interceptor(self.before, self.after)
        _ops().listeners().append(self.custom)

    def __exit__(self, *exception: object) -> None:
        _ops().listeners().pop()
        _C._pop_interceptor()

    def keeps(self, op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        decision = self.policy(SelectiveCheckpointContext(is_recompute=self.is_recompute), op, *args, **kwargs)
        if isinstance(decision, bool):
            return decision
        if not isinstance(decision, CheckpointPolicy):
            raise TypeError(f"a checkpoint's policy returns a CheckpointPolicy or a bool, not {decision!r}")
        return decision in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)

    def before(self, name: str, given: dict[str, Any], writes: bool) -> Any:
        if self.is_inside:
            return None
        op = _as_pytorch_calls(name, given)
        keeps = self.keeps(op, list(given.values()), {}) and not writes
        return self.decide(op, keeps)

    def decide(self, op: OpOverload, keeps: bool) -> Any:
        raise NotImplementedError

    def after(self, results: list[Tensor]) -> None:
        pass

    def custom(self, op: OpOverload, kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError

    def run(self, kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        was, self.is_inside = self.is_inside, True
        try:
            return kernel(*args, **kwargs)
        finally:
            self.is_inside = was


class _Keeping(_Hearing):
    """The forward: results of ops that the policy names are kept."""

    def decide(self, op: OpOverload, keeps: bool) -> None:
        self.pending = op if keeps else None

    def after(self, results: list[Tensor]) -> None:
        if self.pending is not None and not self.is_inside:
            self.storage.setdefault(self.pending, []).append([_Kept(t) for t in results])
            self.pending = None

    def custom(self, op: OpOverload, kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        keeps = self.keeps(op, args, kwargs)
        result = self.run(kernel, *args, **kwargs)
        if keeps:
            self.storage.setdefault(op, []).append(tree_map(_Kept, result))
        return result


class _Reusing(_Hearing):
    """The second run: kept results stand for those ops."""

    is_recompute = True

    def __init__(self, policy: Callable[..., Any], storage: dict[OpOverload, list[Any]], may_differ: bool) -> None:
        super().__init__(policy, storage)
        self.may_differ = may_differ

    def take(self, op: OpOverload) -> Any:
        entries = self.storage.get(op)
        if entries is None:
            raise RuntimeError(f"{op} encountered during backward, but not found in storage")
        if not entries:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        return tree_map(lambda kept: kept.get(self.may_differ), entries.pop(0))

    def decide(self, op: OpOverload, keeps: bool) -> Any:
        return self.take(op) if keeps else None

    def custom(self, op: OpOverload, kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self.take(op) if self.keeps(op, args, kwargs) else self.run(kernel, *args, **kwargs)


# ---- the names by which PyTorch calls the ops of the table

_NAMES = {
    "batch_norm_training": "native_batch_norm.default",
    "batch_norm_inference": "native_batch_norm.default",
    "group_norm": "native_group_norm.default",
    "group_norm_with_statistics": "native_group_norm.default",
    "layer_norm": "native_layer_norm.default",
    "native_embedding_bag": "_embedding_bag.default",
    "softmax": "_softmax.default",
    "log_softmax": "_log_softmax.default",
    "to_copy": "_to_copy.default",
    "select": "select.int",
    "slice": "slice.Tensor",
    "index": "index.Tensor",
    "split": "split.Tensor",
    "transpose": "transpose.int",
    "where": "where.self",
    **dict.fromkeys(("native_conv", "native_conv_activation"), "convolution.default"),
    **dict.fromkeys((f"conv{t}{n}d" for t in ("", "_transpose") for n in (1, 2, 3)), "convolution.default"),
    **dict.fromkeys(("conv1d.padding", "conv2d.padding", "conv3d.padding"), "convolution.default"),
}
_OF_TENSORS = frozenset(("add", "sub", "mul", "div", "fmod", "remainder", "bitwise_and", "bitwise_or", "bitwise_xor"))
_COMPARISONS = frozenset(("eq", "ne", "lt", "le", "gt", "ge"))
_STATISTICS = frozenset(("var", "std", "var_mean", "std_mean"))
_ALONG = {"sum": "dim_IntList", "mean": "dim", "prod": "dim_int"}


def _as_pytorch_calls(name: str, given: dict[str, Any]) -> OpOverload:
    """The overload by which PyTorch calls an op of the table with these arguments."""
    base, _, overload = name.partition(".")
    operands = list(given.values())
    if base in ("linear", "fused_linear", "fused_linear_keep", "fused_linear_add"):
        return _overload("addmm" if given.get("bias") is not None else "mm", "default")
    if base in ("matmul", "fused_matmul_add"):
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
        op = _steps.setdefault(base, _ops().Op("aten", base))
    return getattr(op, overload)


_steps: dict[str, Op] = {}
