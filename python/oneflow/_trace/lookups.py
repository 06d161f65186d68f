"""Lookups in stores within graphs: rows are inputs of the program, and their gradients results of it.

A store has no memory that a program could read, so a lookup is split. While ``build`` is traced, the ids are noted and
an empty input stands for the rows. Before each run the host computes the ids, by a second program unless they are
inputs of the graph, and looks the rows up. After it the optimizer updates the rows by the gradients that the run gave.
``Graph.over`` does the first part for later batches while a step runs.

Knows no store: modules with stores pass a :class:`Host` in.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Protocol

import oneflow
from oneflow import Tensor
from oneflow._base.untraced import untraced
from oneflow.autograd.function import Function, once_differentiable


class Host(Protocol):
    """What a module does for its lookups in a graph, outside of the trace."""

    def _prepare(self, *tensors: Tensor | None) -> Any:
        """Look at the ids, and bring their rows near. May run on another thread, before earlier steps have ended."""

    def _rows(self, prepared: Any, trains: bool) -> Tensor:
        """The rows as they are now, in float32."""

    def _keep_gradient(self, prepared: Any, grad: Tensor) -> None:
        """Keep the gradient of a lookup for the next step of the optimizer."""

    def _forget_gradients(self) -> None:
        """Drop gradients that were kept."""


class Lookup:
    """A lookup of a trace.

    Args:
        host: the module.
        tensors: what ``host._prepare`` takes, as traced tensors.
        rows: the input that stands for the rows.
    """

    def __init__(self, host: Any, tensors: tuple[Tensor | None, ...], rows: Tensor) -> None:
        self.host, self.tensors, self.rows = host, tensors, rows
        # The traced gradient, if the trace has taken one.
        self.grad: Tensor | None = None


class _Rows(Function):
    """The rows of a lookup as a function of the parameter that stands for them in optimizers."""

    @staticmethod
    def forward(ctx: Any, shadow: Tensor, lookup: Lookup) -> Tensor:
        ctx.lookup, ctx.shadow = lookup, (shadow.shape, shadow.dtype)
        return lookup.rows.view_as(lookup.rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        lookup, (sizes, dtype) = ctx.lookup, ctx.shadow
        grad = grad.detach().to(oneflow.float32).contiguous()
        lookup.grad = grad if lookup.grad is None else lookup.grad + grad
        return oneflow.zeros(sizes, dtype=dtype), None


class Step:
    """A step of an optimizer over rows: it takes the gradients that the trace had by then.

    Args:
        update: called after a run, outside of the trace, with the factor of the gradients.
        lookups: those whose gradients it takes.
        found_inf: traced; the step is skipped where it is not 0.
        inverse_scale: traced; multiplies the gradients.
    """

    def __init__(
        self, update: Any, lookups: list[Lookup], found_inf: Tensor | None, inverse_scale: Tensor | None
    ) -> None:
        self.update, self.lookups = update, lookups
        self.found_inf, self.inverse_scale = found_inf, inverse_scale


_here = threading.local()


class Lookups:
    """The lookups of one program."""

    def __init__(self, trace: Any) -> None:
        self._trace: Any = trace
        self.all: list[Lookup] = []
        self.steps: list[Step] = []
        # For each lookup the positions of its tensors among the graph's inputs or the results of `before`.
        self._where: list[list[int | None]] = []
        self.before: Any = None
        # Results of a run that are for the steps.
        self.n_results = 0

    def __enter__(self) -> Lookups:
        _here.lookups = self
        return self

    def __exit__(self, *_: object) -> None:
        _here.lookups = None

    # ---- while the trace runs

    def add(self, host: Any, shadow: Tensor, tensors: tuple[Tensor | None, ...], sizes: list[int]) -> Tensor:
        """Note a lookup; returns the traced rows, in float32."""
        with untraced():
            like = oneflow.empty(sizes, dtype=oneflow.float32)
        lookup = Lookup(host, tensors, self._trace.input(like))
        self.all.append(lookup)
        if oneflow.is_grad_enabled() and shadow.requires_grad:
            return _Rows.apply(shadow, lookup)
        return lookup.rows

    def step(
        self, hosts: list[Any], update: Any, found_inf: Tensor | None = None, inverse_scale: Tensor | None = None
    ) -> None:
        """Note a step of an optimizer that takes the gradients of these modules."""
        taken = {id(lookup) for step in self.steps for lookup in step.lookups}
        mine = [
            lookup
            for lookup in self.all
            if any(lookup.host is host for host in hosts) and lookup.grad is not None and id(lookup) not in taken
        ]
        if mine:
            self.steps.append(Step(update, mine, found_inf, inverse_scale))

    def gradients(self, hosts: list[Any]) -> list[Tensor]:
        """The traced gradients of these modules' rows."""
        return [x.grad for x in self.all if x.grad is not None and any(x.host is host for host in hosts)]

    def drop(self, hosts: list[Any]) -> None:
        """Forget the gradients of these modules' rows."""
        for lookup in self.all:
            if any(lookup.host is host for host in hosts):
                lookup.grad = None

    def finish(self, trace: Any, outputs: list[Tensor], inputs: list[Tensor], **options: Any) -> Any:
        """End the trace: compile the step, and what computes the ids where they are no inputs."""
        results = list(self._results())
        self.n_results = len(results)
        outputs = [*outputs, *results]
        ids: list[Tensor] = []
        for lookup in self.all:
            where: list[int | None] = []
            for tensor in lookup.tensors:
                if tensor is None:
                    where.append(None)
                    continue
                known = next((i for i, t in enumerate(inputs) if t is tensor), None)
                # Results of the program before come behind the inputs.
                where.append(len(inputs) + len(ids) if known is None else known)
                if known is None:
                    ids.append(tensor)
            self._where.append(where)
        if not ids:
            compiled = trace.finish(outputs, **options)
        else:
            compiled, self.before = trace.finish_with_results_before([*outputs, *ids], len(ids), len(inputs), **options)
        self._trace = None
        for lookup in self.all:
            lookup.tensors, lookup.rows = (), None  # type: ignore[assignment]
        return compiled

    def _results(self) -> Iterator[Tensor]:
        for step in self.steps:
            yield from [lookup.grad for lookup in step.lookups if lookup.grad is not None]
            yield from [t for t in (step.found_inf, step.inverse_scale) if t is not None]

    # ---- around each run

    def prepare(self, tensors: list[Tensor]) -> list[Any]:
        """Look at the ids of a batch, given the graph's inputs."""
        known = [t.detach() for t in tensors]
        if self.before is not None:
            known += self.before.run(known)
        prepared = []
        for lookup, where in zip(self.all, self._where, strict=True):
            prepared.append(lookup.host._prepare(*[None if i is None else known[i] for i in where]))
        return prepared

    def rows(self, prepared: list[Any]) -> list[Tensor]:
        """The rows of a batch as they are now."""
        trained = {id(lookup) for step in self.steps for lookup in step.lookups}
        return [
            lookup.host._rows(part, id(lookup) in trained).contiguous()
            for lookup, part in zip(self.all, prepared, strict=True)
        ]

    def settle(self, prepared: list[Any], results: Iterator[Tensor]) -> None:
        """Update rows by the gradients among the last results of a run."""
        parts = {id(lookup): part for lookup, part in zip(self.all, prepared, strict=True)}
        for step in self.steps:
            grads = [next(results) for _ in step.lookups]
            found = None if step.found_inf is None else next(results)
            inverse = None if step.inverse_scale is None else next(results)
            hosts = {id(lookup.host): lookup.host for lookup in step.lookups}
            for host in hosts.values():
                host._forget_gradients()
            for lookup, grad in zip(step.lookups, grads, strict=True):
                lookup.host._keep_gradient(parts[id(lookup)], grad)
            if found is None or float(found) == 0.0:
                step.update(1.0 if inverse is None else float(inverse))
            for host in hosts.values():
                host._forget_gradients()


def current() -> Lookups | None:
    """The lookups of the graph that this thread traces; None where no graph does."""
    return getattr(_here, "lookups", None)
