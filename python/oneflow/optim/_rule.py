"""Optimizers whose step is a named rule: one op updates all parameters of a group that share a step count.

A subclass names its states, its rule and the rule's options; the op has the arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.optim import _differentiable
from oneflow.optim.optimizer import SHARED, Group, Optimizer, like, local_device

State = dict[str, Tensor]


class RuleOptimizer(Optimizer):
    """Base of optimizers that step by a rule."""

    _refuses_sparse = "{} does not support sparse gradients"
    _live = frozenset(("betas", "eps", "weight_decay"))

    # ---- what a subclass defines

    def _names(self, group: Group) -> tuple[str, ...]:
        """Names of the states, in the rule's order."""
        raise NotImplementedError

    def _rule(self, group: Group) -> tuple[str, list[float]]:
        """Name and options of the rule."""
        raise NotImplementedError

    def _shared(self, param: Tensor, group: Group) -> State:
        """State that parameters which join together have in common."""
        return {"step": zero_step(param)}

    def _own(self, param: Tensor, group: Group) -> State:
        """State of one parameter."""
        return {name: like(param) for name in self._names(group)}

    def _numbers(self, group: Group, lr: Tensor, state: State) -> tuple[Tensor | None, ...]:
        """The rule's numbers: lr, step and two more."""
        return (lr, state["step"], None, None)

    def _after(self, group: Group, lr: Tensor, state: State) -> None:
        """Advance what parameters share, beyond the step count."""

    def _dense(self, grad: Tensor, group: Group) -> Tensor:
        """Handle a sparse gradient: most optimizers refuse it."""
        raise RuntimeError(self._refuses_sparse.format(type(self).__name__))

    # ---- how it runs

    @property
    def _step_supports_amp_scaling(self) -> bool:
        return all(group.get("fused") for group in self.param_groups)

    def _new_state(self, param: Tensor, group: Group, shared: State | None) -> State:
        # One that is updated several times a step counts by itself.
        shared = self._shared(param, group) if shared is None or self._repeats else shared
        self.state[param] = {**shared, **self._own(param, group)}
        return shared

    def _init_state(self, group: Group) -> None:
        shared = None
        for param in group["params"]:
            if param.requires_grad and not self.state.get(param):
                shared = self._new_state(param, group, shared)

    def _update(self, group: Group, lr: Tensor) -> None:
        names = self._names(group)
        # Parameters that joined together share one step count; a call serves those of one count.
        calls: dict[int, tuple[State, list[list[Tensor]]]] = {}
        idle: dict[int, list[State]] = {}
        shared = None
        states = self.state
        for param in group["params"]:
            grad = param.grad
            if grad is None:
                if state := states.get(param):
                    idle.setdefault(id(state["step"]), []).append(state)
                continue
            if grad.is_sparse:
                grad = self._dense(grad, group)
            state = states.get(param)
            if not state:
                shared = self._new_state(param, group, shared)
                state = states[param]
            call = calls.get(id(state["step"]))
            if call is None:
                call = calls[id(state["step"])] = (state, [[], [], [], [], []])
            lists = call[1]
            operands = [param, grad, *[state[name] for name in names]]
            if param.is_complex():
                # Two independent numbers.
                operands = [oneflow.view_as_real(t) for t in operands]
            for known, operand in zip(lists, operands, strict=False):
                known.append(operand)
        if not calls:
            return
        if idle and not _oneflow._is_tracing():
            # A parameter without a gradient keeps its count while the others advance.
            for key in idle.keys() & calls.keys():
                kept = {name: value.clone() for name, value in idle[key][0].items() if name in SHARED}
                for state in idle[key]:
                    state.update(kept)
        rule, hyper = self._rule(group)
        grad_scale, found_inf = self.__dict__.get("grad_scale"), self.__dict__.get("found_inf")
        for state, lists in calls.values():
            if found_inf is None:
                state["step"].add_(1.0)
            else:
                state["step"].add_(1.0 - found_inf)
            for part in _parts(lists) if self._has_files else [lists]:
                self._step_lists(
                    group,
                    lr,
                    state,
                    part,
                    rule=rule,
                    hyper=hyper,
                    live=self._live_tensor(group),
                    maximize=group.get("maximize", False),
                    grad_scale=grad_scale,
                    found_inf=found_inf,
                )
            self._after(group, lr, state)

    def _step_lists(self, group: Group, lr: Tensor, state: State, lists: list[list[Tensor]], **options: Any) -> None:
        """One call of the op: parameters, gradients and up to three lists of states."""
        inputs: list[Any] = [*lists, *self._numbers(group, lr, state)]
        # No gradient leaves a traced step.
        is_recorded = group.get("differentiable") and not _oneflow._is_tracing()
        step = _differentiable.update_ if is_recorded else _oneflow._C._fused_update_
        step(*inputs, **options)


def _parts(lists: list[list[Tensor]]) -> Iterator[list[list[Tensor]]]:
    """All parameters in one call of the op; those whose states lie in files one by one, read one ahead."""
    params = lists[0]
    away = [k for k, p in enumerate(params) if hasattr(p, "_offload_folder")]
    if not away:
        yield lists
        return
    if len(away) < len(params):
        yield [[t for k, t in enumerate(own) if k not in away] for own in lists]
    # Gradients are in memory.
    files = [[own[k] for i, own in enumerate(lists) if own and i != 1] for k in away]
    for k, at in enumerate(away):
        for t in files[k + 1] if k + 1 < len(away) else []:
            _oneflow._hint_file(t, True)
        yield [own[at : at + 1] for own in lists]
        for t in files[k]:
            _oneflow._hint_file(t, False)


def zero_step(param: Tensor) -> Tensor:
    """A step count of zero on the parameter's device."""
    return oneflow.zeros((), dtype=oneflow.float32, device=local_device(param))
