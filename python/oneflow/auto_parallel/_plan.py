"""A plan: a mesh, layouts, what they cost and what others would; as a table, as a page, as a file, and applied."""

from __future__ import annotations

import html
import json
import os
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import oneflow
from oneflow import Tensor, sbp
from oneflow._schedules.generators import find
from oneflow.auto_parallel._problem import ZERO_LEAST, modules_of
from oneflow.nn.graph import GraphModule

__all__ = ["Plan"]

_VERSION = 3
_CALL_HEADS = ("call", "number", "inputs", "results", "the rule adds", "where")
_STAGE_HEADS = (
    "stage",
    "modules",
    "ms a micro-batch",
    "of them messages",
    "ms of the update",
    "peak MB",
    "next best",
    "adds",
)
_SCHEDULE_HEADS = ("schedule", "stages a device", "ms a step", "adds", "peak MB", "")
_OTHER_HEADS = ("mesh", "stages", "ZeRO", "blocks run again", "micro-batches", "ms a step", "over the limit: peak MB")


@dataclass
class Plan:
    """Layouts of a graph's parameters, inputs and calls over a mesh, with their costs.

    Attributes:
        mesh: the number of devices on each axis; with pipeline stages, of the devices of one stage.
        layouts: by the name of a parameter or buffer, ``"B"`` or ``"S(dim)"`` for each axis.
        inputs: the layouts of the graph's tensor arguments, in order.
        seconds: the estimated time of a step; its parts ``compute_seconds`` and ``move_seconds`` do not overlap. In a
            pipeline they are those of a device on average, and the rest is its wait for other stages.
        peak: the estimated peak memory of a device in bytes; ``memory`` is the limit.
        bytes: the bytes that a device sends in a step, for each axis.
        moves: the changes of layout, each with op, line of Python, sizes, from, to, bytes and seconds.
        others: what else was tried: mesh, pipeline stages, stage of ZeRO, whether blocks run again, micro-batches, the
            seconds of the best layouts, and their peak where it is over the limit.
        reasons: by groups of parameters of one shape: their layout, the next best and the seconds that it would add.
        calls: those that the rule of eager execution would lay out otherwise: the op with the sizes of its inputs, its
            number among equal calls of a micro-batch, the layouts of inputs and results, the line of Python, and the
            seconds that the rule would add (None where it would need too much memory).
        zero: the stage of ZeRO, 0 for none.
        recompute: the modules whose forward runs again in the backward.
        micro_batches: their number; None leaves that of the graph.
        input_sizes: of the inputs that the plan was made for; calls of other sizes are laid out by the rule.
        stages: of a pipeline, the names of the modules of each stage, which follow each other; modules may be moved
            from one to the next. Stage ``k`` has the devices behind those of stage ``k - 1``, unless ``rows`` says
            otherwise.
        rows: where devices have several stages, by stage which group of devices has it, counted from 0.
        stage_costs: by stage: seconds of a micro-batch, of them those of messages, seconds of the update, peak; and
            whether one module more or less is the next best, with the seconds that it would add.
        homes: the modules with which parameters and buffers lie, and ``input_homes`` those of the inputs.
        schedule: that of the stages; and ``schedules`` what was tried for them: seconds of a step, peak, and the stages
            of a device.

    Example::

        >>> oneflow.auto_parallel.Plan("c", [2], {}, [("S(0)",)], 1e-3, 1e-3, 0.0, 1e6, 1e9, [0.0]).mesh
        [2]
    """

    cluster: str
    mesh: list[int]
    layouts: dict[str, tuple[str, ...]]
    inputs: list[tuple[str, ...]]
    seconds: float
    compute_seconds: float
    move_seconds: float
    peak: float
    memory: float
    bytes: list[float]
    moves: list[Any] = field(default_factory=list)
    others: list[Any] = field(default_factory=list)
    reasons: list[Any] = field(default_factory=list)
    calls: list[Any] = field(default_factory=list)
    zero: int = 0
    recompute: list[str] = field(default_factory=list)
    micro_batches: int | None = None
    input_sizes: list[list[int]] = field(default_factory=list)
    stages: list[list[str]] = field(default_factory=list)
    stage_costs: list[Any] = field(default_factory=list)
    homes: dict[str, str] = field(default_factory=dict)
    input_homes: list[str] = field(default_factory=list)
    schedule: str = "1F1B"
    schedules: list[Any] = field(default_factory=list)
    rows: list[int] = field(default_factory=list)

    def __str__(self) -> str:
        return self.table()

    def table(self) -> str:
        """Return the plan as text: layouts with their reasons, calls, the costliest moves, what else was tried.

        Example::

            >>> plan = oneflow.auto_parallel.Plan("c", [2], {}, [], 1e-3, 1e-3, 0.0, 1e6, 1e9, [0.0])
            >>> plan.table().splitlines()[0]
            'c, mesh 2: 1.000 ms a step (1.000 compute, 0.000 moves), peak 1.0 of 1,000.0 MB'
        """
        lines = [self._head()]
        if self.stages:
            lines += ["", *_columns(_STAGE_HEADS, self._stage_rows())]
            lines += ["", *_columns(_SCHEDULE_HEADS, self._schedule_rows())]
        lines += ["", *_columns(("parameters", "layout", "next best", "adds"), self._reason_rows())]
        if self.calls:
            lines += ["", *_columns(_CALL_HEADS, self._call_rows())]
        lines += ["", *_columns(("move", "sizes", "from", "to", "MB", "ms", "where"), self._move_rows(12))]
        lines += ["", *_columns(_OTHER_HEADS, self._other_rows())]
        return "\n".join(line.rstrip() for line in lines)

    def html(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as a page for a browser; it needs no other file and no network."""

        def table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
            def line(cells: Any, tag: str) -> str:
                return "<tr>" + "".join(f"<{tag}>{html.escape(cell)}</{tag}>" for cell in cells) + "</tr>"

            return "<table>" + line(heads, "th") + "".join(line(row, "td") for row in rows) + "</table>"

        style = (
            "body{font:14px sans-serif;margin:2em}td,th{padding:2px 10px;text-align:left;border-bottom:1px solid #ddd}"
        )
        parts = [
            f"<h1>{html.escape(self._head())}</h1>",
            *(["<h2>Pipeline stages</h2>", table(_STAGE_HEADS, self._stage_rows())] if self.stages else []),
            *(["<h2>Schedules</h2>", table(_SCHEDULE_HEADS, self._schedule_rows())] if self.stages else []),
            "<h2>Layouts, and what the next best would add</h2>",
            table(("parameters", "layout", "next best", "adds"), self._reason_rows()),
            "<h2>Calls that the rule would lay out otherwise, and what that would add</h2>",
            table(_CALL_HEADS, self._call_rows()),
            "<h2>Changes of layout</h2>",
            table(("move", "sizes", "from", "to", "MB", "ms", "where"), self._move_rows(len(self.moves))),
            "<h2>What else was tried</h2>",
            table(_OTHER_HEADS, self._other_rows()),
        ]
        page = f"<!doctype html><meta charset=utf-8><title>Plan</title><style>{style}</style>" + "".join(parts)
        Path(path).write_text(page, encoding="utf-8")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the plan as JSON; its layouts may be edited."""
        Path(path).write_text(json.dumps({"version": _VERSION, **asdict(self)}, indent=1), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Plan:
        """Return the plan of a file that :meth:`save` wrote.

        Raises:
            ValueError: the file is not a plan, or a layout in it is not valid.
        """
        try:
            text = json.loads(Path(path).read_text(encoding="utf-8"))
            if text.pop("version") != _VERSION:
                raise ValueError("of another version")
            return cls.from_dict(text)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path} is not a plan: {error}") from None

    @classmethod
    def from_dict(cls, text: dict[str, Any]) -> Plan:
        """Return the plan of what ``dataclasses.asdict`` made of one.

        Raises:
            ValueError: a layout in it is not valid.
        """
        plan = cls(**text)
        plan.layouts = {str(name): tuple(layout) for name, layout in plan.layouts.items()}
        plan.inputs = [tuple(layout) for layout in plan.inputs]
        for layout in [*plan.layouts.values(), *plan.inputs]:
            if len(layout) != len(plan.mesh):
                raise ValueError(f"layout {layout} on a mesh of {len(plan.mesh)} axes")
            plan._sbp(layout)
        for _, number, ins, outs, _, _ in plan.calls:
            if not isinstance(number, int) or any(len(s) not in (0, len(plan.mesh)) for s in [*ins, *outs]):
                raise ValueError(f"a call's layouts {ins} -> {outs} on a mesh of {len(plan.mesh)} axes")
        modules = [module for stage in plan.stages for module in stage]
        if len(plan.stages) == 1 or not all(plan.stages) or len(set(modules)) != len(modules):
            raise ValueError(f"pipeline stages {plan.stages}: each needs modules, and no module is of two")
        unknown = sorted({*plan.homes.values(), *plan.input_homes} - set(modules)) if plan.stages else []
        if unknown or (plan.stages and len(plan.input_homes) != len(plan.inputs)):
            raise ValueError(f"parameters or inputs lie with {unknown or plan.input_homes}, which no stage has")
        if plan.stages:
            plan.schedule = find(plan.schedule)
        counts = [plan.rows.count(row) for row in range(len(set(plan.rows)))]
        if plan.rows and (len(plan.rows) != len(plan.stages) or not counts[0] or len(set(counts)) != 1):
            raise ValueError(f"rows {plan.rows} of {len(plan.stages)} stages: each group of devices has equally many")
        if plan.zero not in (0, 1, 2, 3):
            raise ValueError(f"stage {plan.zero!r} of ZeRO")
        return plan

    # ---- use

    def placement(self, device_type: str = "cpu", stage: int = 0) -> Any:
        """Return the mesh of a stage as a placement; without a pipeline, that of the first ranks.

        Raises:
            RuntimeError: the job has fewer ranks.
        """
        size = _product(self.mesh)
        rows = self.rows or list(range(max(1, len(self.stages))))
        n = size * (max(rows) + 1)
        if oneflow.distributed.get_world_size() < n:
            raise RuntimeError(f"the plan is for {n} ranks, and the job has {oneflow.distributed.get_world_size()}")
        ranks = oneflow.arange(rows[stage] * size, (rows[stage] + 1) * size).reshape(self.mesh).tolist()
        return oneflow.placement(device_type, ranks)

    def stage_of(self, name: str) -> int:
        """Return the pipeline stage of a module, parameter or buffer by its name; 0 without a pipeline.

        Example::

            >>> plan = oneflow.auto_parallel.Plan("c", [2], {}, [], 1e-3, 1e-3, 0.0, 1e6, 1e9, [0.0])
            >>> plan.stage_of("model.weight")
            0
        """
        name = self.homes.get(name, name)
        for k, modules in enumerate(self.stages):
            if any(name == module or name.startswith(f"{module}.") for module in modules):
                return k
        return 0

    def apply(self, graph: Any, device_type: str = "cpu") -> None:
        """Lay out the parameters, buffers and states of a graph, and let its next calls follow the plan.

        Call it on every rank, before the graph's first call.

        Args:
            graph: an ``nn.Graph`` whose modules have the same values on all ranks.

        Raises:
            ValueError: its parameters or modules are not those of the plan.
        """
        places = [self.placement(device_type, k) for k in range(max(1, len(self.stages)))]
        tensors = dict(graph._parameters())
        if set(tensors) != set(self.layouts):
            names = sorted(set(tensors) ^ set(self.layouts))
            raise ValueError(f"the plan and the graph differ in {names[:5]}")
        modules = dict(modules_of(graph))
        named = [*self.recompute, *(module for stage in self.stages for module in stage)]
        if missing := [name for name in named if name not in modules]:
            raise ValueError(f"the plan and the graph differ in the modules {missing[:5]}")
        whole = [sbp.broadcast] * len(self.mesh)
        layouts: dict[int, tuple[Any, list[Any]]] = {}
        for name, tensor in tensors.items():
            layouts[id(tensor)] = place, layout = places[self.stage_of(name)], self._sbp(self.layouts[name])
            tensor.data = tensor.detach().to_global(place, whole).to_global(sbp=layout, copy=True)
        for optimizer in graph._stepping():
            for param, state in optimizer.state.items():
                for key, value in state.items():
                    if isinstance(value, Tensor) and value.shape == param.shape and id(param) in layouts:
                        place, layout = layouts[id(param)]
                        state[key] = value.to_global(place, whole).to_global(sbp=layout, copy=True)
        for name in self.recompute:
            GraphModule(modules[name]).activation_checkpointing = True
        if self.zero:
            graph.config.enable_zero(True, stage=self.zero, shard_min_size=ZERO_LEAST)
        if self.micro_batches is not None:
            graph.config.set_gradient_accumulation_steps(self.micro_batches)
        for k, stage in enumerate(self.stages):
            for name in stage:
                GraphModule(modules[name]).set_stage(k, places[k])
        if self.stages:
            graph.config.set_pipeline_schedule(self.schedule)
        pins = [(key, number, (ins, outs)) for key, number, ins, outs, _, _ in self.calls]
        graph._pins = (self.input_sizes, pins) if pins else None

    def place(self, *tensors: Tensor, device_type: str = "cpu") -> Any:
        """Return inputs, which are the same on all ranks, in the plan's layouts: one, or a tuple.

        In a pipeline each lies on the stage that reads it.

        Raises:
            ValueError: there are more or fewer than the graph takes.
        """
        if len(tensors) != len(self.inputs):
            raise ValueError(f"the plan is for {len(self.inputs)} inputs, got {len(tensors)}")
        placed = []
        for i, tensor in enumerate(tensors):
            place, layout = self._input(i, device_type)
            whole = tensor.to_global(place, [sbp.broadcast] * len(self.mesh))
            placed.append(whole.to_global(sbp=layout))
        return placed[0] if len(placed) == 1 else tuple(placed)

    # ---- parts

    def _input(self, number: int, device_type: str) -> tuple[Any, list[Any]]:
        """The placement and the layout of an input."""
        stage = self.stage_of(self.input_homes[number]) if self.stages else 0
        return self.placement(device_type, stage), self._sbp(self.inputs[number])

    def _sbp(self, layout: tuple[str, ...]) -> list[Any]:
        found = []
        for text in layout:
            if text == "B":
                found.append(sbp.broadcast)
            elif text.startswith("S(") and text.endswith(")") and text[2:-1].isdigit():
                found.append(sbp.split(int(text[2:-1])))
            else:
                raise ValueError(f"{text!r} is not a layout: expected 'B' or 'S(dim)'")
        return found

    def _head(self) -> str:
        parts = f"{1e3 * self.compute_seconds:.3f} compute, {1e3 * self.move_seconds:.3f} moves"
        if self.stages:
            parts += f", {1e3 * (self.seconds - self.compute_seconds - self.move_seconds):.3f} waits"
        memory = f"peak {self.peak / 1e6:,.1f} of {self.memory / 1e6:,.1f} MB"
        ways = (
            [f"{len(self.stages)} stages", self.schedule] * bool(self.stages)
            + [f"ZeRO {self.zero}"] * bool(self.zero)
            + ["blocks run again"] * bool(self.recompute)
        )
        ways += [f"{self.micro_batches} micro-batches"] * (self.micro_batches is not None)
        way = "".join(f", {way}" for way in ways)
        return f"{self.cluster}, mesh {_mesh(self.mesh)}{way}: {1e3 * self.seconds:.3f} ms a step ({parts}), {memory}"

    def _reason_rows(self) -> list[tuple[str, ...]]:
        return [
            (names, " ".join(layout), " ".join(other) if other else "-", f"{1e3 * adds:.3f} ms" if other else "-")
            for names, layout, other, adds in self.reasons
        ]

    def _stage_rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        for k, modules in enumerate(self.stages):
            names = modules[0] if len(modules) == 1 else f"{modules[0]} to {modules[-1]} ({len(modules)})"
            seconds, messages, update, peak, other, adds = self.stage_costs[k]
            times = (f"{1e3 * seconds:.3f}", f"{1e3 * messages:.3f}", f"{1e3 * update:.3f}", f"{peak / 1e6:,.1f}")
            rows.append((str(k), names, *times, other or "-", f"{1e3 * adds:.3f} ms" if other else "-"))
        return rows

    def _schedule_rows(self) -> list[tuple[str, ...]]:
        rows: list[tuple[str, ...]] = []
        own = len(self.stages) // len(set(self.rows)) if self.rows else 1
        for name, seconds, peak, n in self.schedules:
            chosen = (name, n) == (self.schedule, own)
            note = "chosen" if chosen else "over the limit" if peak > self.memory else ""
            adds = "-" if chosen else f"{1e3 * (seconds - self.seconds):.3f} ms"
            rows.append((name, str(n), f"{1e3 * seconds:.3f}", adds, f"{peak / 1e6:,.1f}", note))
        return rows

    def _move_rows(self, most: int) -> list[tuple[str, ...]]:
        moves = sorted(self.moves, key=lambda move: -move[6])[:most]
        return [
            (op, str(sizes), source, target, f"{n / 1e6:.3f}", f"{1e3 * seconds:.3f}", where)
            for op, where, sizes, source, target, n, seconds in moves
        ]

    def _call_rows(self) -> list[tuple[str, ...]]:
        return [
            (
                call,
                str(number),
                ", ".join(" ".join(s) or "-" for s in ins),
                ", ".join(" ".join(s) for s in outs),
                "too much memory" if adds is None else f"{1e3 * adds:.3f} ms",
                where,
            )
            for call, number, ins, outs, where, adds in self.calls
        ]

    def _other_rows(self) -> list[tuple[str, ...]]:
        return [
            (
                _mesh(mesh),
                str(stages),
                str(zero) if zero else "-",
                "yes" if again else "no",
                "-" if micro is None else str(micro),
                f"{1e3 * seconds:.3f}",
                "-" if peak is None else f"{peak / 1e6:,.1f}",
            )
            for mesh, stages, zero, again, micro, seconds, peak in self.others
        ]


def _mesh(sizes: list[int]) -> str:
    return " x ".join(map(str, sizes))


def _product(sizes: list[int]) -> int:
    n = 1
    for size in sizes:
        n *= size
    return n


def _columns(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[i]) for row in [heads, *rows]) for i in range(len(heads))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in [heads, *rows]]
