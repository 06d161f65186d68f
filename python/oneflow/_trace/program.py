"""One compiled program of a graph: the structure of its results, and the modules and memory it is about."""

from __future__ import annotations

import inspect
import re
from itertools import accumulate
from typing import Any

from oneflow import Tensor
from oneflow._trace.building import Kept
from oneflow._trace.lookups import Lookups
from oneflow._trace.structure import Modules, unflatten


class Program:
    """A compiled program.

    Args:
        compiled: what runs.
        structure: of the results.
        kept: attributes that get results of every run.
        modules: those that the program is about.
        memory: tensors whose memory it reads and writes.
        optimizers: those that step in it.
        once: the program is for one run, which creates what the next program updates.
        lookups: in stores, if ``build`` makes any.
    """

    __slots__ = (
        "alive",
        "compiled",
        "fitting",
        "kept",
        "lookups",
        "modules",
        "once",
        "optimizers",
        "ran",
        "states",
        "structure",
    )

    def __init__(
        self,
        compiled: Any,
        structure: Any,
        kept: Kept,
        modules: Modules,
        memory: list[Tensor],
        optimizers: list[Any],
        once: bool = False,
        lookups: Lookups | None = None,
    ) -> None:
        self.once, self.ran, self.lookups = once, False, lookups
        # Of a program for many sizes: those that it is for.
        self.fitting: Any = None
        self.compiled = compiled
        self.structure = structure
        self.kept = kept
        self.modules = modules
        self.alive = modules.tensors()
        compiled.watch([t for t in {id(t): t for t in memory}.values() if not t.is_global])
        self.optimizers = optimizers
        self.states = [(optimizer, optimizer.state, len(optimizer.state)) for optimizer in optimizers]

    def takes(self, tensors: list[Tensor]) -> bool:
        """Return whether a program for many sizes is for these, which have its metas.

        Sizes of 0, or 1, may need another one, and those that break a guard do. Those outside of the range that was
        asked for are its own: a run refuses them.
        """
        fitting = self.fitting
        dims = fitting.dims
        if not fitting.is_restricted and dims.are_large(tensors):
            return True
        sizes = dims.sizes(tensors)
        if sizes is None:
            return True
        rows = zip(sizes, fitting.least, dims.asked, strict=True)
        if any(size < low and size <= 1 and asked <= 1 for size, low, (asked, _) in rows):
            return False
        if dims.complaint(sizes) is not None or not dims.agree(tensors, sizes):
            return True
        return fitting.allows(tensors, sizes)

    def run(self, tensors: list[Tensor]) -> list[Tensor]:
        """Run once on the graph's inputs; return the results of ``build`` and those for ``kept``."""
        if self.lookups is None:
            return self.compiled.run(tensors)
        prepared = self.lookups.prepare(tensors)
        return self.settle(self.compiled.run([*tensors, *self.lookups.rows(prepared)]), prepared)

    def settle(self, results: list[Tensor], prepared: list[Any] | None) -> list[Tensor]:
        """Update the rows that a run has looked up; return its other results."""
        if self.lookups is None or prepared is None:
            return results
        n = len(results) - self.lookups.n_results
        self.lookups.settle(prepared, iter(results[n:]))
        return results[:n]

    def unpack(self, results: list[Tensor]) -> Any:
        """Return the results of ``build``; attributes that it wrote receive their values."""
        rest = iter(results)
        returned = unflatten(self.structure, rest)
        self.kept.put(rest)
        self.ran = True
        return returned

    def is_stale(self) -> bool:
        """Return whether a parameter, buffer or optimizer state has new memory since (``x.data = y``, loading)."""
        if self.once and self.ran:
            return True
        return self.compiled.is_stale() or any(o.state is not s or len(s) != n for o, s, n in self.states)

    def timeline(self) -> list[dict[str, Any]]:
        """For each step its name, origin, operands, and the bytes in use while it runs."""
        rows, held = self.compiled.rows()
        change = [0] * (len(rows) + 1)
        for _, size, first, last in held:
            change[first] += size
            change[last + 1] -= size
        live = accumulate(change)
        names = ("name", "origin", "reads", "writes", "bytes")
        parts = [(name, origin, ", ".join(ins), ", ".join(outs)) for name, origin, _, ins, outs, _ in rows]
        return [dict(zip(names, (*part, size), strict=True)) for part, size in zip(parts, live, strict=False)]

    def describe_module(self, name: str, path: str, module: Any) -> list[str]:
        """Print what ``GraphModule.debug`` asks for."""
        level, with_stack = module.__dict__.get("_in_graphs", {}).get("debug", (-1, False))
        lines = [f"{name}: module {path}: {module!r}"] if level >= 0 else []
        if level >= 2:
            of_it = re.compile(rf", module {re.escape(path)}(\.|$)")
            found = [line for line in self.compiled.text(False).split("\n") if of_it.search(line)]
            lines += found if with_stack else [line.partition("  # ")[0] for line in found]
        return lines

    def describe(self, name: str, level: int, modules: dict[str, Any], with_stack: bool) -> list[str]:
        """Print what ``Graph.debug`` asks for at a level beyond 0."""

        def text(traced: bool) -> str:
            lines = self.compiled.text(traced)
            return lines if with_stack else "\n".join(line.partition("  # ")[0] for line in lines.split("\n"))

        lines = [f"{name}: module {path}: {module!r}" for path, module in modules.items()] if level >= 1 else []
        if level >= 2:
            lines += ["as it runs:", text(False)]
        if level >= 3:
            lines += ["as it was traced:", text(True), "steps, and bytes in use during each:"]
            lines += [
                f"  {row['bytes']:>12} {row['name']}({row['reads']}) -> {row['writes']}" for row in self.timeline()
            ]
        return lines


def traced_step(optimizer: Any, scaler: Any) -> None:
    """Clip and step, or let the scaler step. A group's ``lr_scale`` multiplies its learning rate, as in OneFlow."""
    called = optimizer._opt_called
    optimizer._scales_lr = True
    if any(group.get("clip_grad_max_norm") is not None for group in optimizer.param_groups):
        if scaler is not None:
            scaler.unscale_(optimizer)
        optimizer.clip_grad()
    try:
        if scaler is None:
            optimizer.step()
        else:
            scaler.step(optimizer)
    finally:
        del optimizer._scales_lr
    optimizer._opt_called = called


def name_state(trace: Any, prefix: str, optimizer: Any, named: dict[str, Tensor]) -> None:
    """Name the optimizer's tensors after the parameters they belong to."""
    names = {id(tensor): name for name, tensor in named.items()}
    for i, (param, state) in enumerate(optimizer.state.items()):
        for key, value in state.items():
            if isinstance(value, Tensor):
                trace.name(value, f"{prefix}.{names.get(id(param), i)}.{key}")
    for i, (_, lr) in optimizer._lr_tensors.items():
        trace.name(lr, f"{prefix}.lr.{i}")
    for i, (_, options) in optimizer._live_tensors.items():
        trace.name(options, f"{prefix}.options.{i}")


def wants(method: Any) -> list[str]:
    """The arguments without which a bound method cannot be called."""
    found = inspect.signature(method).parameters.values()
    return [p.name for p in found if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
