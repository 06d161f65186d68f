"""When a sharded module gathers, frees and reduces: hooks before and after its forward and its backward."""

from __future__ import annotations

import enum
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.distributed.fsdp._params import ParamGroup, ShardedParam
from oneflow.distributed.fsdp._policies import MixedPrecisionPolicy
from oneflow.nn import Module
from oneflow.utils._pytree import tree_leaves, tree_map

__all__ = ["FSDPState", "state_of"]


class _Phase(enum.Enum):
    IDLE = enum.auto()
    FORWARD = enum.auto()
    BACKWARD = enum.auto()


class _Shared:
    """What all states below one root share: the order of forwards, and whether a backward has begun."""

    def __init__(self) -> None:
        self.states: list[FSDPState] = []
        # As they ended: backward prefetches in the reverse order.
        self.order: list[FSDPState] = []
        # As they begin, in this forward and in the last one: forward prefetches what came next then.
        self.begun: list[FSDPState] = []
        self.begun_before: list[FSDPState] = []
        self.ahead: list[FSDPState] = []
        # The number of the backward at whose end `FSDPState._end` is called; 0 for none.
        self.backward = 0
        self.is_last_backward = True

    def begin(self, state: FSDPState) -> list[FSDPState]:
        """Take note that a forward begins; return what began next in the last forward, if that went alike so far."""
        if state.is_root:
            self.begun_before, self.begun = self.begun, []
        self.begun.append(state)
        if state in self.ahead:
            self.ahead.remove(state)
        n = len(self.begun)
        alike = all(a is b for a, b in zip(self.begun, self.begun_before, strict=False))
        if not alike:
            return []
        # What comes after that is read from its files meanwhile.
        for other in self.begun_before[n + 1 : n + 2]:
            if other.group is not None:
                other.group.prefetch()
        return self.begun_before[n : n + 1]

    def end(self) -> None:
        """Free what was gathered for a forward that did not come."""
        for state in self.ahead:
            if state.group is not None:
                state.group.reshard()
        self.ahead.clear()

    def abandon(self) -> None:
        """Forget a forward or backward that an exception ended: the next forward begins anew on this rank."""
        self.order.clear()
        self.begun.clear()
        self.ahead.clear()
        self.backward = 0
        for state in self.states:
            state._running.clear()
            state._marked.clear()
            state.phase, state._n_inputs = _Phase.IDLE, 0
            if state.group is not None:
                state.group.abandon()


class FSDPState:
    """The hooks of the modules of one call of ``fully_shard``."""

    def __init__(
        self,
        modules: list[Module],
        group: ParamGroup | None,
        policy: MixedPrecisionPolicy,
        reshard_after_forward: bool | None,
    ) -> None:
        self.modules, self.group, self.policy = modules, group, policy
        # None: true below a root, whose own parameters are needed first thing in the backward.
        self.reshard_after_forward = reshard_after_forward
        self.reshard_after_backward = True
        self.unshard_in_backward = True
        self.prefetch_forward: list[FSDPState] = []
        self.prefetch_backward: list[FSDPState] | None = None
        self.shared: _Shared | None = None
        self.is_root = False
        self.phase = _Phase.IDLE
        self._running: set[int] = set()
        self._marked: set[int] = set()
        self._n_inputs = 0
        if group is not None:
            group.on_new_whole = self._watch
        for module in modules:
            module.register_forward_pre_hook(self._before_forward, prepend=True, with_kwargs=True)
            module.register_forward_hook(self._after_forward)
            module.register_state_dict_pre_hook(lambda *_: self.reshard())
            module.register_load_state_dict_pre_hook(lambda *_: self.reshard())

    def reshard(self) -> None:
        """Free the whole."""
        if self.group is not None:
            self.group.reshard()

    # ---- forward

    def _find_root(self) -> None:
        """The first module that is called is the root of those below it."""
        self.shared, self.is_root = _Shared(), True
        seen: set[int] = set()
        for top in self.modules:
            for name, module in top.named_modules():
                state = state_of(module)
                if state is None or id(state) in seen:
                    continue
                seen.add(id(state))
                state.shared = self.shared
                if state.group is not None:
                    state.group.call(f"module '{name}'" if name else f"the root {_plain_name(module)}")
                state.is_root = state is self
                self.shared.states.append(state)

    def abandon(self) -> None:
        """A forward of the module has raised. What a backward does that raises is seen by the next forward."""
        if self.shared is not None and self.is_root and not _oneflow._C._backward_number():
            self.shared.abandon()

    def _before_forward(self, module: Module, args: Any, kwargs: Any) -> Any:
        if self.shared is not None and self.shared.backward and not _oneflow._C._backward_number():
            # It has not come to its end.
            self.shared.abandon()
        if self.phase is _Phase.BACKWARD:
            # Activation checkpointing computes again inside the backward.
            return None
        if not self._running:
            if self.shared is None:
                self._find_root()
            self.phase = _Phase.FORWARD
            if self.group is not None:
                self.group.forget()
                self.group.unshard()
            assert self.shared is not None
            following = self.shared.begin(self)
            for other in self.prefetch_forward or following:
                if other.group is not None and not other.group.is_ready():
                    other.group.forget()
                    other.group.start_unshard(async_op=True)
                    self.shared.ahead.append(other)
            self._running = {id(m) for m in self.modules}
        if self.policy.cast_forward_inputs and self.policy.param_dtype is not None:
            args, kwargs = _cast((args, kwargs), self.policy.param_dtype)
        if self._keeps_frozen():
            args, kwargs = tree_map(self._watch_input, (args, kwargs))
        return args, kwargs

    def _after_forward(self, module: Module, args: Any, output: Any) -> Any:
        if self.phase is _Phase.BACKWARD:
            return None
        self._running.discard(id(module))
        if not self._running:
            keeps = self.is_root if self.reshard_after_forward is None else not self.reshard_after_forward
            if not keeps and self.group is not None:
                self.group.reshard(before_backward=oneflow.is_grad_enabled())
            self.phase = _Phase.IDLE
            if self.is_root and self.shared is not None:
                self.shared.end()
            if oneflow.is_grad_enabled() and self.shared is not None:
                self.shared.order.append(self)
        for t in tree_leaves(output):
            if isinstance(t, Tensor) and t.requires_grad:
                t.register_hook(self._before_backward)
        if self.policy.output_dtype is not None:
            output = _cast(output, self.policy.output_dtype)
        return output

    # ---- backward

    def _before_backward(self, grad: Tensor) -> Tensor:
        if self.phase is _Phase.BACKWARD:
            return grad
        shared = self.shared
        assert shared is not None
        if shared.backward != (now := _oneflow._C._backward_number()):
            _oneflow._C._queue_callback(self._end)
            shared.backward = now
        self.phase = _Phase.BACKWARD
        self._marked = set()
        if self.group is not None and self.unshard_in_backward:
            self.group.unshard()
        for other in self._next_in_backward():
            if other.group is not None and other.unshard_in_backward:
                other.group.start_unshard(async_op=True)
        return grad

    def _next_in_backward(self) -> list[FSDPState]:
        if self.prefetch_backward is not None:
            return self.prefetch_backward
        assert self.shared is not None
        order = self.shared.order
        at = max((i for i, state in enumerate(order) if state is self), default=0)
        for other in order[max(at - 2, 0) : max(at - 1, 0)]:
            if other.group is not None and other.unshard_in_backward:
                other.group.prefetch()
        return [order[at - 1]] if at > 0 else []

    def _watch(self, param: ShardedParam) -> None:
        """Hear of the gradient of a parameter: the last one of a group starts its reduction."""
        if param.sharded.requires_grad:
            assert param.unsharded is not None
            param.unsharded.register_post_accumulate_grad_hook(lambda _: self._mark(param))

    def _keeps_frozen(self) -> bool:
        return self.group is not None and any(not p.sharded.requires_grad for p in self.group.params)

    def _watch_input(self, value: Any) -> Any:
        """With frozen parameters only the gradients of the inputs say that the backward has passed."""
        if not isinstance(value, Tensor) or not value.requires_grad:
            return value
        alias = value.view_as(value)
        self._n_inputs += 1
        alias.register_hook(self._input_done)
        return alias

    def _input_done(self, grad: Tensor) -> Tensor:
        self._n_inputs -= 1
        if self._n_inputs == 0 and self.phase is _Phase.BACKWARD:
            self._after_backward()
        return grad

    def _mark(self, param: ShardedParam) -> None:
        assert self.group is not None
        self._marked.add(id(param))
        trained = {id(p) for p in self.group.params if p.sharded.requires_grad}
        if self._marked >= trained and not self._keeps_frozen():
            self._after_backward()

    def _after_backward(self) -> None:
        self._marked = set()
        self.phase = _Phase.IDLE
        if self.group is not None:
            self.group.reduce()
            if self.reshard_after_backward:
                self.group.reshard()

    def _end(self) -> None:
        """After the backward: what has not been reduced is, on every rank in the same order."""
        shared = self.shared
        assert shared is not None
        shared.backward = 0
        for state in reversed(shared.states):
            if state.phase is _Phase.BACKWARD or (state.group is not None and state.group.has_grads()):
                state._after_backward()
            elif state.group is not None and state.reshard_after_backward and state.group.is_ready():
                # Gathered ahead, and not needed.
                state.group.reshard()
            state.phase, state._n_inputs = _Phase.IDLE, 0
        if shared.is_last_backward:
            shared.order.clear()


def _plain_name(module: Module) -> str:
    return type(module).__name__.removeprefix("FSDP")


def state_of(module: Module) -> FSDPState | None:
    """The state of a module that was sharded."""
    return module.__dict__.get("_fsdp_state")


def _cast(values: Any, dtype: Any) -> Any:
    def cast(value: Any) -> Any:
        return value.to(dtype) if isinstance(value, Tensor) and value.is_floating_point() else value

    return tree_map(cast, values)
