"""Pipeline stages of other ranks in a dry run: traced once, and then represented by the layouts of their results.

A rank's program has nothing of the stages that other ranks hold but the messages at their ends. The first trace runs
all stages and notes, for each call, the layouts of results and of the gradients that come back. Traces of other ranks
then run their own stages alone. A plan knows calls of ops by their numbers, so those of a stage that is left out are
noted and counted too.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.autograd.function import Function
from oneflow.utils._pytree import tree_flatten, tree_unflatten
from oneflow.utils.checkpoint import _runs_again

__all__ = ["Stages"]


class _Call:
    """One call of a stage: its results, the gradients that its inputs get, and the random numbers that it draws.

    And how many calls of ops its forward and its backward make, by their keys, and moves between placements.
    """

    def __init__(self) -> None:
        self.results: Any = None
        self.tensors: list[tuple[Any, ...]] = []
        self.grads: dict[int, tuple[Any, ...]] = {}
        self.n_inputs = -1
        self.wanting: list[int] = []
        self.drawn = 0
        self.forward: dict[str, int] = {}
        self.backward: dict[str, int] = {}
        self.forward_moves = self.backward_moves = 0
        # Whether modules keep tensors of the call for others to read.
        self.keeps = False
        self._backward_from: tuple[dict[str, int], int] | None = None

    @property
    def is_known(self) -> bool:
        """Whether layouts can stand for the call."""
        grads = all(i in self.grads for i in self.wanting)
        return self.n_inputs >= 0 and not (self.drawn or self.keeps) and grads and any(t[-1] for t in self.tensors)

    def note_backward(self, of_module: list[_Call], _: Tensor) -> None:
        """Note that the backward begins, with the gradient of a result, and that of other calls has ended; a hook."""
        for other in of_module:
            if other is not self:
                other._backward_from = None
        if self._backward_from is None:
            self._backward_from = (_oneflow._Layouts.pin_counts(), _oneflow._traced_moves())

    def note_backward_end(self, _: Tensor) -> None:
        """Note what the backward has called so far; a hook."""
        if self._backward_from is not None:
            counts, moves = self._backward_from
            self.backward, self.backward_moves = _since(counts), _oneflow._traced_moves() - moves

    def note_gradient(self, number: int, grad: Tensor) -> None:
        """Note the layout of an input's gradient; a hook."""
        self.grads[number] = _layout(grad)
        self.note_backward_end(grad)


class Stages:
    """The stages of a graph whose modules name them, each with a placement of its own.

    Args:
        graph: the graph, or None to share nothing.
    """

    def __init__(self, graph: Any) -> None:
        marked = [] if graph is None else [m for top in graph._modules.values() for m in top.modules()]
        marks = [(m, m.__dict__.get("_in_graphs", {})) for m in marked]
        self._stages = [(m, mark["placement"]) for m, mark in marks if mark.get("stage") is not None]
        if any(placement is None for _, placement in self._stages):
            self._stages = []
        self._calls: dict[int, list[_Call]] = {}
        self._hooks: list[Any] = []
        self._complete = False

    @contextlib.contextmanager
    def of_rank(self, rank: int) -> Iterator[None]:
        """Inside, forwards of stages that the rank does not hold are not run where they are known."""
        before = [(m, m.__dict__.get("forward")) for m, _ in self._stages]
        counts: dict[int, int] = {}
        try:
            for module, placement in self._stages:
                if not self._complete:
                    module.__dict__["forward"] = self._noted(module, placement)
                elif rank not in placement.ranks.flatten().tolist() and self._is_known(module):
                    module.__dict__["forward"] = self._known(module, placement, counts)
            yield
            self._complete = True
        finally:
            for hook in self._hooks:
                hook.remove()
            self._hooks.clear()
            for module, forward in before:
                module.__dict__.pop("forward", None)
                if forward is not None:
                    module.__dict__["forward"] = forward

    def _is_known(self, module: Any) -> bool:
        calls = self._calls.get(id(module), [])
        return bool(calls) and all(call.is_known for call in calls)

    def _noted(self, module: Any, placement: Any) -> Any:
        """The forward of a stage, which is noted."""
        forward = module.forward
        params = [p for p in module.parameters() if p.requires_grad]

        def noted(*args: Any, **kwargs: Any) -> Any:
            if _runs_again():
                return forward(*args, **kwargs)
            call = _Call()
            self._calls.setdefault(id(module), []).append(call)
            inputs = _tensors(args, kwargs)
            generator = oneflow.default_generator
            start = generator.get_state().tolist()
            counts, moves = _oneflow._Layouts.pin_counts(), _oneflow._traced_moves()
            results = forward(*args, **kwargs)
            call.forward, call.forward_moves = _since(counts), _oneflow._traced_moves() - moves
            call.keeps = any(isinstance(v, Tensor) and v.is_lazy for m in module.modules() for v in vars(m).values())
            leaves, call.results = tree_flatten(results)
            call.drawn = -1 if generator.get_state().tolist() != start else 0
            fits = all(isinstance(t, Tensor) and t.is_global and t.placement == placement for t in leaves)
            if fits and all(t.is_global and t.placement == placement for t in inputs):
                call.n_inputs = len(inputs)
            call.tensors = [
                (*_layout(t), t.requires_grad) if isinstance(t, Tensor) and t.is_global else () for t in leaves
            ]
            for t in leaves:
                if isinstance(t, Tensor) and t.requires_grad:
                    t.register_hook(functools.partial(call.note_backward, self._calls[id(module)]))
            call.wanting = [i for i, t in enumerate(inputs) if t.requires_grad]
            for i in call.wanting:
                inputs[i].register_hook(functools.partial(call.note_gradient, i))
            if not call.wanting:
                self._hooks.extend(p.register_post_accumulate_grad_hook(call.note_backward_end) for p in params)
            return results

        return noted

    def _known(self, module: Any, placement: Any, counts: dict[int, int]) -> Any:
        """What stands for a forward of a stage: results in its layouts, whose gradients come back in its layouts."""
        params = [p for p in module.parameters() if p.requires_grad]

        def known(*args: Any, **kwargs: Any) -> Any:
            again = _runs_again()
            at = counts[id(module)] = counts.get(id(module), -1) + (not again)
            inputs, call = _tensors(args, kwargs), self._calls[id(module)][at]
            grads = [call.grads[i] for i in call.wanting]
            anchor = oneflow.ones((), requires_grad=True)
            made = _Stage.apply(call, again, grads, params, anchor, *[inputs[i] for i in call.wanting])
            return tree_unflatten(list(made), call.results)

        return known


class _Stage(Function):
    """A stage without its ops."""

    @staticmethod
    def forward(ctx: Any, call: _Call, again: bool, grads: Any, params: Any, anchor: Tensor, *inputs: Tensor) -> Any:
        ctx.call, ctx.grads, ctx.params = call, grads, params
        # What runs again is a part of the backward, and counted with it.
        with _passed({} if again else call.forward, 0 if again else call.forward_moves):
            return tuple(_empty(layout[:4]) for layout in call.tensors)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        with _passed(ctx.call.backward, ctx.call.backward_moves):
            for p in ctx.params:
                if p.grad is None:
                    p.grad = _empty(_layout(p))
            return (None, None, None, None, None, *[_empty(layout) for layout in ctx.grads])


@contextlib.contextmanager
def _passed(calls: dict[str, int], n_moves: int) -> Iterator[None]:
    """Inside, calls of ops stand for others, which are counted in their place, as are moves."""
    _oneflow._Layouts.pause_pins(True)
    try:
        yield
    finally:
        _oneflow._Layouts.pause_pins(False)
        _oneflow._Layouts.pass_pins(calls)
        _oneflow._pass_moves(n_moves)


def _since(counts: dict[str, int]) -> dict[str, int]:
    """How many calls of each key there were since then."""
    now = _oneflow._Layouts.pin_counts()
    return {key: n - counts.get(key, 0) for key, n in now.items() if n > counts.get(key, 0)}


def _tensors(args: Any, kwargs: Any) -> list[Tensor]:
    return [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, Tensor)]


def _layout(t: Tensor) -> tuple[Any, ...]:
    return tuple(t.shape), t.dtype, t.placement, tuple(t.sbp)


def _empty(layout: tuple[Any, ...]) -> Tensor:
    shape, dtype, placement, layouts = layout
    made: Any = oneflow.empty
    return made(shape, dtype=dtype, placement=placement, sbp=list(layouts))
