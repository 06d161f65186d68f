"""Floating-point operations of a program, by module and op, from the op table."""

from __future__ import annotations

import functools
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from oneflow import Tensor, _oneflow
from oneflow.profiler._module_regions import ModuleRegions
from oneflow.utils import _pytree
from oneflow.utils._python_dispatch import TorchDispatchMode

_SUFFIXES = ("", "K", "M", "B", "T")
F = TypeVar("F", bound=Callable[..., Any])

# What programs have said of ops, by op: functions that get tensors, and ``out_val``.
_formulas: dict[Any, Callable[..., int]] = {}


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[F], F]:
    """Let :class:`FlopCounterMode` count an op by a function, which this decorates.

    Args:
        targets: an op such as ``ops.mylib.my_op``, or a list of them. For an op of this package the function takes the
            place of what the op table says.
        get_raw: give the function tensors, and the result as ``out_val``; otherwise their shapes and ``out_shape``.

    Raises:
        ValueError: a target is not an op.

    Example::

        >>> from oneflow.utils.flop_counter import FlopCounterMode, register_flop_formula
        >>> @oneflow.library.custom_op("counted::square", mutates_args=())
        ... def square(x: oneflow.Tensor) -> oneflow.Tensor:
        ...     return x @ x
        >>> @register_flop_formula(oneflow.ops.counted.square)
        ... def square_flops(x_shape, *, out_shape):
        ...     return 2 * x_shape[0] ** 3
        >>> with FlopCounterMode(display=False) as counter:
        ...     y = square(oneflow.ones(3, 3))
        >>> counter.get_flop_counts()["Global"]
        {'counted.square': 54}
    """
    from oneflow._ops import Op

    found = targets if isinstance(targets, (list, tuple)) else [targets]
    for target in found:
        if not isinstance(target, Op):
            raise ValueError(
                "register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                f"oneflow.ops.mylib.foo), got {target!r} of type {type(target).__name__}"
            )

    def register(formula: F) -> F:
        for target in found:
            if target in _formulas:
                raise RuntimeError(f"duplicate registrations for {target}")
            _formulas[target] = formula if get_raw else _of_shapes(formula)
        return formula

    return register


def _of_shapes(formula: Callable[..., int]) -> Callable[..., int]:
    def shape(value: Any) -> Any:
        return value.shape if isinstance(value, Tensor) else value

    @functools.wraps(formula)
    def counted(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        args, kwargs, out_shape = _pytree.tree_map(shape, (args, kwargs, out_val))
        return formula(*args, out_shape=out_shape, **kwargs)

    return counted


class FlopCounterMode:
    """Count the floating-point operations of products, convolutions, attention and recurrent layers.

    Everything else (additions, activations, reductions, copies) counts as nothing, as in PyTorch's counter. Backward
    counts for the module whose forward it is of. All threads are counted.

    Args:
        mods: accepted; modules are found as they are called.
        depth: the number of levels of modules in the table.
        display: print the table at the end of the ``with`` block.
        custom_mapping: ops (``ops.mylib.my_op``) to functions of the shapes of their arguments and ``out_shape``, which
            count them in place of the op table; with a true attribute ``_get_raw`` they get tensors and ``out_val``.
            Ops of such functions, and of :func:`register_flop_formula`, are heard on the thread of the block.

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
        own = {
            op: formula if getattr(formula, "_get_raw", False) else _of_shapes(formula)
            for op, formula in (custom_mapping or {}).items()
        }
        self._own = own
        self.depth = depth
        self.display = display
        self._session: int | None = None
        self._counts: dict[str, Counter[str]] = {}

    def __enter__(self) -> FlopCounterMode:
        self._counts = {}
        self._names = _ModuleNames()
        self._stated = _StatedOps({**_formulas, **self._own})
        self._session = _oneflow._profiler_start(flops=True)
        if self._stated.formulas:
            self._stated.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._stated.formulas:
            self._stated.__exit__(*exc)
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
            scopes = _Scopes(events, self._stated.counts)
            for i, event in enumerate(events):
                if event.kind == "op" and event.sequence_nr:
                    modules_of.setdefault(event.sequence_nr, scopes.modules[i])
        for _, events in threads:
            scopes = _Scopes(events, self._stated.counts)
            for i, op, n in scopes.counted:
                number = scopes.backward[i]
                counts["Global"][op] += n
                for name in dict.fromkeys((*scopes.modules[i], *modules_of.get(number, ()))):
                    counts.setdefault(name, Counter())[op] += n
        self._counts = counts

    @property
    def flop_counts(self) -> dict[str, dict[str, int]]:
        """The operations by module, and there by op; modules and ops that nothing counted for have none."""
        counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for name, ops in self.get_flop_counts().items():
            counts[name].update(ops)
        return counts

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
    """For each event of a thread the modules and the node of the backward around it; and what counts: op and number.

    Args:
        events: of one thread, in the order in which they began.
        stated: regions around ops whose operations the program states, by name.
    """

    def __init__(self, events: list[Any], stated: Mapping[str, tuple[str, int]]) -> None:
        self.modules: list[tuple[str, ...]] = []
        self.backward: list[int] = []
        self.counted: list[tuple[int, str, int]] = []
        covered: list[bool] = []
        # What the op table says of these ops does not count.
        replaced = {event.parent for event in events if event.name in stated}
        for i, event in enumerate(events):
            outer = event.parent
            modules = self.modules[outer] if outer >= 0 else ()
            number = self.backward[outer] if outer >= 0 else 0
            self.modules.append((*modules, event.name) if event.kind == "module" else modules)
            self.backward.append(event.sequence_nr if event.kind == "backward" else number)
            inside = covered[outer] if outer >= 0 else False
            # An op composed of others counts for all of them.
            op, n = stated.get(event.name, (event.name, int(event.flops)))
            counts = not inside and (event.name in stated or (event.products and i not in replaced))
            if counts:
                self.counted.append((i, op, n))
            covered.append(inside or counts)


class _StatedOps(TorchDispatchMode):
    """Puts a region of the profiler around each op that has a formula, and keeps what the formula gives."""

    def __init__(self, formulas: dict[Any, Callable[..., int]]) -> None:
        self.formulas = formulas
        # The name of a region to its op and the number of operations.
        self.counts: dict[str, tuple[str, int]] = {}
        self._lock = threading.Lock()

    def __torch_dispatch__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        formula = self.formulas.get(func.overloadpacket)
        if formula is None:
            return func(*args, **kwargs)
        op = f"{func.namespace}.{func.overloadpacket.__name__}"
        with self._lock:
            region = f"{op} as the program counts it, call {len(self.counts)}"
            self.counts[region] = (op, 0)
        token = _oneflow._span_begin(region)
        try:
            result = func(*args, **kwargs)
        finally:
            if token is not None:
                _oneflow._span_end(token)
        self.counts[region] = (op, int(formula(*args, **kwargs, out_val=result)))
        return result


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


__all__ = ["FlopCounterMode", "register_flop_formula"]
