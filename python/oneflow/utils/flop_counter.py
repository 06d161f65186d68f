"""Floating-point operations of a program, by module and op, from the op table."""

from __future__ import annotations

from collections import Counter
from typing import Any

from oneflow import _oneflow
from oneflow.profiler._module_regions import ModuleRegions

_SUFFIXES = ("", "K", "M", "B", "T")


class FlopCounterMode:
    """Count the floating-point operations of products, convolutions, attention and recurrent layers.

    Everything else (additions, activations, reductions, copies) counts as nothing, as in PyTorch's counter. Backward
    counts for the module whose forward it is of. All threads are counted.

    Args:
        mods: accepted; modules are found as they are called.
        depth: the number of levels of modules in the table.
        display: print the table at the end of the ``with`` block.
        custom_mapping: None: the cost of an op is in the op table.

    Raises:
        NotImplementedError: ``custom_mapping`` is given.

    Example::

        >>> model = oneflow.nn.Linear(10, 20)
        >>> with oneflow.utils.flop_counter.FlopCounterMode(display=False) as counter:
        ...     loss = model(oneflow.ones(5, 10)).sum()
        >>> counter.get_total_flops()
        2000
        >>> counter.get_flop_counts()["Linear"]
        {'linear': 2000}
    """

    def __init__(
        self, mods: Any = None, depth: int = 2, display: bool = True, custom_mapping: dict[Any, Any] | None = None
    ) -> None:
        if custom_mapping:
            raise NotImplementedError(
                "FlopCounterMode(): custom_mapping is not supported: the cost of an op is in the op table"
            )
        self.depth = depth
        self.display = display
        self._session: int | None = None
        self._counts: dict[str, Counter[str]] = {}

    def __enter__(self) -> FlopCounterMode:
        self._counts = {}
        self._names = _ModuleNames()
        self._session = _oneflow._profiler_start(flops=True)
        return self

    def __exit__(self, *exc: object) -> None:
        self._names.remove()
        self._gather()
        if self._session is not None:
            _oneflow._profiler_stop(self._session)
        self._session = None
        if self.display:
            print(self.get_table(self.depth))  # noqa: T201

    def _gather(self) -> None:
        if self._session is None:
            return
        counts: dict[str, Counter[str]] = {"Global": Counter()}
        threads = _oneflow._profiler_events(self._session)
        modules_of: dict[int, tuple[str, ...]] = {}
        for _, events in threads:
            scopes = _Scopes(events)
            for i, event in enumerate(events):
                if event.kind == "op" and event.sequence_nr:
                    modules_of.setdefault(event.sequence_nr, scopes.modules[i])
        for _, events in threads:
            scopes = _Scopes(events)
            for i in scopes.counted:
                event = events[i]
                number = scopes.backward[i]
                counts["Global"][event.name] += int(event.flops)
                for name in dict.fromkeys((*scopes.modules[i], *modules_of.get(number, ()))):
                    counts.setdefault(name, Counter())[event.name] += int(event.flops)
        self._counts = counts

    def get_total_flops(self) -> int:
        """Return the number of operations counted so far."""
        return sum(self.get_flop_counts()["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """Return the operations by module, and there by op. The entry "Global" holds all."""
        self._gather()
        if not self._counts:
            return {"Global": {}}
        return {name: dict(ops) for name, ops in self._counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return the operations of modules and ops as a table.

        Args:
            depth: the number of levels of modules. Default: the counter's own.
        """
        depth = self.depth if depth is None else depth
        counts = self.get_flop_counts()
        total = sum(counts["Global"].values())
        rows: list[tuple[str, str, str]] = []

        def add(name: str, level: int) -> None:
            n = sum(counts[name].values())
            indent = " " * level
            rows.append((indent + name, _with_suffix(n, total), _percent(n, total)))
            for op, k in counts[name].items():
                rows.append((f"{indent} - {op}", _with_suffix(k, total), _percent(k, total)))

        modules = sorted(name for name in counts if name != "Global")
        roots = {name.split(".")[0] for name in modules}
        # A single module that holds everything would repeat the row "Global".
        hides_global = len(roots) == 1 and sum(counts[next(iter(roots))].values()) == total
        if not hides_global:
            add("Global", 0)
        for name in modules:
            level = name.count(".") + 1
            if level <= depth:
                add(name, level - hides_global)
        widths = [
            max(len(head), *(len(row[i]) for row in rows)) for i, head in enumerate(("Module", "FLOP", "% Total"))
        ]
        lines = [f"{'Module':<{widths[0]}}  {'FLOP':>{widths[1]}}  {'% Total':>{widths[2]}}"]
        lines.append("  ".join("-" * width for width in widths))
        lines += [f"{a:<{widths[0]}}  {b:>{widths[1]}}  {c:>{widths[2]}}" for a, b, c in rows]
        return "\n".join(lines)


class _Scopes:
    """For each event of a thread: the modules around it, the node of the backward around it, and whether it counts."""

    def __init__(self, events: list[Any]) -> None:
        self.modules: list[tuple[str, ...]] = []
        self.backward: list[int] = []
        self.counted: list[int] = []
        covered: list[bool] = []
        for i, event in enumerate(events):
            outer = event.parent
            modules = self.modules[outer] if outer >= 0 else ()
            number = self.backward[outer] if outer >= 0 else 0
            self.modules.append((*modules, event.name) if event.kind == "module" else modules)
            self.backward.append(event.sequence_nr if event.kind == "backward" else number)
            inside = covered[outer] if outer >= 0 else False
            # An op composed of others counts for all of them.
            counts = event.products and not inside
            if counts:
                self.counted.append(i)
            covered.append(inside or counts)


class _ModuleNames(ModuleRegions):
    """Regions named after the way to each module: "Net", "Net.layer1.0"."""

    def _learn(self, module: Any) -> None:
        root = type(module).__name__
        for name, child in module.named_modules():
            self._names.setdefault(id(child), f"{root}.{name}" if name else root)


def _with_suffix(number: int, total: int) -> str:
    """The number in the unit that fits the total."""
    step = 0
    while step + 1 < len(_SUFFIXES) and total >= 1000 ** (step + 1):
        step += 1
    return f"{number / 1000**step:.3f}{_SUFFIXES[step]}" if step else str(number)


def _percent(number: int, total: int) -> str:
    return f"{100 * number / total:.2f}%" if total else "0%"


__all__ = ["FlopCounterMode"]
