"""Selective checkpoints: a policy says of each op whether its results are kept or computed again in backward.

Ops are heard below autograd, so a kept result stands for running the op, and what is recorded of it stays the same.
An op has the name by which PyTorch calls it (``ops.aten.addmm.default``), so that policies written for PyTorch hold.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oneflow import Tensor, _oneflow
from oneflow.utils._pytree import tree_map

if TYPE_CHECKING:
    from oneflow._ops import OpOverload

_C = _oneflow._C


def _names() -> ModuleType:
    """The module of PyTorch's names of ops, which is loaded when somebody selects ops."""
    from oneflow.utils import _aten_names

    return _aten_names


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
            if isinstance(op, _names().ops_module().OpOverload):
                continue
            more = ""
            if isinstance(op, _names().ops_module().Op):
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

    def __enter__(self) -> None:
        _C._push_interceptor(self.around)
        _names().ops_module().listeners().append(self.custom)

    def __exit__(self, *exception: object) -> None:
        _names().ops_module().listeners().pop()
        _C._pop_interceptor()

    def keeps(self, op: OpOverload, args: Sequence[Any], kwargs: dict[str, Any]) -> bool:
        decision = self.policy(SelectiveCheckpointContext(is_recompute=self.is_recompute), op, *args, **kwargs)
        if isinstance(decision, bool):
            return decision
        if not isinstance(decision, CheckpointPolicy):
            raise TypeError(f"a checkpoint's policy returns a CheckpointPolicy or a bool, not {decision!r}")
        return decision in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)

    def around(
        self, name: str, given: dict[str, Any], written: list[Tensor] | None, run: Callable[[], list[Tensor]]
    ) -> list[Tensor] | None:
        if self.is_inside:
            return None
        op = _names().as_pytorch_calls(name, given)
        keeps = self.keeps(op, list(given.values()), {}) and written is None
        return self.kept(op, run) if keeps else None

    def kept(self, op: OpOverload, run: Callable[[], list[Tensor]]) -> list[Tensor] | None:
        """The results of an op that the policy names; None for those that running it gave."""
        raise NotImplementedError

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

    def kept(self, op: OpOverload, run: Callable[[], list[Tensor]]) -> None:
        self.storage.setdefault(op, []).append([_Kept(t) for t in run()])

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

    def kept(self, op: OpOverload, run: Callable[[], list[Tensor]]) -> Any:
        return self.take(op)

    def custom(self, op: OpOverload, kernel: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self.take(op) if self.keeps(op, args, kwargs) else self.run(kernel, *args, **kwargs)
