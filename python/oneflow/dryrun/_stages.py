"""Pipeline stages of other ranks in a dry run: traced once, and then represented by the layouts of their results.

A rank's program has nothing of the stages that other ranks hold but the messages at their ends. The first trace runs
all stages and notes, for each call, the layouts of results and of the gradients that come back. Traces of other ranks
then run their own stages alone.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.autograd.function import Function
from oneflow.utils._pytree import tree_flatten, tree_unflatten

__all__ = ["Stages"]


class _Call:
    """One call of a stage: its results, the gradients that its inputs get, and the random numbers that it draws."""

    def __init__(self) -> None:
        self.results: Any = None
        self.tensors: list[tuple[Any, ...]] = []
        self.grads: dict[int, tuple[Any, ...]] = {}
        self.n_inputs = -1
        self.drawn = 0

    def note_gradient(self, number: int, grad: Tensor) -> None:
        """Note the layout of an input's gradient; a hook."""
        self.grads[number] = _layout(grad)


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
                elif rank not in placement.ranks.flatten().tolist():
                    module.__dict__["forward"] = self._known(module, placement, counts)
            yield
            self._complete = True
        finally:
            for module, forward in before:
                module.__dict__.pop("forward", None)
                if forward is not None:
                    module.__dict__["forward"] = forward

    def _noted(self, module: Any, placement: Any) -> Any:
        """The forward of a stage, which is noted."""
        forward = module.forward

        def noted(*args: Any, **kwargs: Any) -> Any:
            call = _Call()
            self._calls.setdefault(id(module), []).append(call)
            inputs = _tensors(args, kwargs)
            generator = oneflow.default_generator
            start = generator.get_state().tolist()
            results = forward(*args, **kwargs)
            leaves, call.results = tree_flatten(results)
            call.drawn = -1 if generator.get_state().tolist() != start else 0
            fits = all(isinstance(t, Tensor) and t.is_global and t.placement == placement for t in leaves)
            if fits and all(t.is_global and t.placement == placement for t in inputs):
                call.n_inputs = len(inputs)
            call.tensors = [
                (*_layout(t), t.requires_grad) if isinstance(t, Tensor) and t.is_global else () for t in leaves
            ]
            for i, t in enumerate(inputs):
                if t.requires_grad and t.is_global:
                    t.register_hook(functools.partial(call.note_gradient, i))
            return results

        return noted

    def _known(self, module: Any, placement: Any, counts: dict[int, int]) -> Any:
        """What stands for a forward of a stage: results in its layouts, whose gradients come back in its layouts."""
        forward = module.forward
        params = [p for p in module.parameters() if p.requires_grad]

        def known(*args: Any, **kwargs: Any) -> Any:
            at = counts[id(module)] = counts.get(id(module), -1) + 1
            calls = self._calls.get(id(module), [])
            inputs = _tensors(args, kwargs)
            call = calls[at] if at < len(calls) else _Call()
            if call.n_inputs != len(inputs) or call.drawn:
                return forward(*args, **kwargs)
            wanting = [i for i, t in enumerate(inputs) if t.requires_grad]
            if any(i not in call.grads for i in wanting) or not any(t[-1] for t in call.tensors):
                return forward(*args, **kwargs)
            anchor = oneflow.ones((), requires_grad=True)
            grads = [call.grads[i] for i in wanting]
            made = _Stage.apply(call.tensors, grads, params, anchor, *[inputs[i] for i in wanting])
            return tree_unflatten(list(made), call.results)

        return known


class _Stage(Function):
    """A stage without its ops."""

    @staticmethod
    def forward(ctx: Any, results: Any, grads: Any, params: Any, anchor: Tensor, *inputs: Tensor) -> Any:
        ctx.grads, ctx.params = grads, params
        return tuple(_empty(layout[:4]) for layout in results)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        for p in ctx.params:
            if p.grad is None:
                p.grad = _empty(_layout(p))
        return (None, None, None, None, *[_empty(layout) for layout in ctx.grads])


def _tensors(args: Any, kwargs: Any) -> list[Tensor]:
    return [t for t in tree_flatten((args, kwargs))[0] if isinstance(t, Tensor)]


def _layout(t: Tensor) -> tuple[Any, ...]:
    return tuple(t.shape), t.dtype, t.placement, tuple(t.sbp)


def _empty(layout: tuple[Any, ...]) -> Tensor:
    shape, dtype, placement, layouts = layout
    made: Any = oneflow.empty
    return made(shape, dtype=dtype, placement=placement, sbp=list(layouts))
