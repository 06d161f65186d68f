"""How much global tensors communicate: ``torch.distributed.tensor.debug``."""

from __future__ import annotations

import itertools
import sys
from typing import Any

from oneflow import Tensor, _ops, distributed
from oneflow.nn import Module
from oneflow.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

__all__ = ["CommDebugMode", "visualize_sharding"]

# PyTorch's names of the package's collectives.
_NAMES = {
    "all_gather": "all_gather_into_tensor",
    "all_reduce": "all_reduce",
    "all_to_all": "all_to_all_single",
    "broadcast": "broadcast",
    "gather": "gather",
    "recv": "recv",
    "reduce": "reduce",
    "reduce_scatter": "reduce_scatter_tensor",
    "scatter": "scatter",
    "send": "send",
}
_NAMESPACE = "c10d_functional"
# They name collectives in counts. Calling one raises: there is no kernel.
for _name in _NAMES.values():
    _ops.define(f"{_NAMESPACE}::{_name}")


class CommDebugMode:
    """Counts the collectives that this rank takes part in inside a ``with`` block.

    Those of global tensors and of the job's own group count, also those of gradients; barriers and the collectives of
    groups that the program has made do not. Each block starts anew. It also notes the parameters of modules that run in
    it, by the class of the outermost module and the names below it.

    Example::

        >>> from oneflow.distributed.tensor import Replicate, Shard, distribute_tensor
        >>> from oneflow.distributed.tensor.debug import CommDebugMode
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     x = distribute_tensor(oneflow.ones(4), mesh, [Shard(0)])
        ...     with CommDebugMode() as counts:
        ...         x.redistribute(mesh, [Replicate()])
        ...     return counts.get_total_counts(), counts.get_comm_counts()
        >>> oneflow.testing.run_ranks(2, rank)[0]
        (1, {<op c10d_functional::all_gather_into_tensor>: 1})
    """

    def __init__(self) -> None:
        self._before: dict[str, int] = {}
        # Of the block that has ended; None inside of one.
        self._ended: dict[Any, int] | None = {}
        self._parameters: dict[str, dict[str, Tensor]] = {}
        self._placements: dict[str, tuple[Any, ...]] = {}
        # The modules that run, and their names.
        self._running: list[tuple[Module, str]] = []
        self._hooks: list[Any] = []

    def __enter__(self) -> CommDebugMode:
        self._before, self._ended = distributed.wire_calls(), None
        self._parameters, self._placements, self._running = {}, {}, []
        self._hooks = [
            register_module_forward_pre_hook(self._begin_module),
            register_module_forward_hook(self._end_module, always_call=True),
        ]
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._ended, self._hooks, self._running = self._since(), [], []

    def _begin_module(self, module: Module, _: Any) -> None:
        name = type(module).__name__
        if self._running:
            parent, of_parent = self._running[-1]
            below = next((path for path, child in parent.named_modules() if child is module), name)
            name = f"{of_parent}.{below}" if below else of_parent
        self._running.append((module, name))
        for key, parameter in module.named_parameters(recurse=False):
            self._parameters.setdefault(name, {})[key] = parameter.data
            if parameter.is_global:
                self._placements[f"{name}.{key}"] = parameter.placements

    def _end_module(self, module: Module, *_: Any) -> None:
        if self._running and self._running[-1][0] is module:
            self._running.pop()

    def _since(self) -> dict[Any, int]:
        """How often each collective ran since the block began."""
        counts = {}
        for kind, n_calls in distributed.wire_calls().items():
            n = n_calls - self._before.get(kind, 0)
            if n > 0 and kind in _NAMES:
                counts[getattr(getattr(_ops.ops, _NAMESPACE), _NAMES[kind])] = n
        return counts

    @property
    def comm_counts(self) -> dict[Any, int]:
        """As :meth:`get_comm_counts`."""
        return self.get_comm_counts()

    def get_comm_counts(self) -> dict[Any, int]:
        """How often each collective ran, by the op that PyTorch has for it (``ops.c10d_functional.all_reduce``)."""
        return _Counts(self._since() if self._ended is None else self._ended)

    def get_parameter_info(self) -> dict[str, dict[str, Tensor]]:
        """The parameters of each module that ran, by the module's name and theirs."""
        return self._parameters

    def get_sharding_info(self) -> dict[str, tuple[Any, ...]]:
        """The placements of each parameter of these that is a DTensor, by the names of both."""
        return self._placements

    def get_total_counts(self) -> int:
        """How many collectives ran: so far, inside of the block."""
        return sum(self.get_comm_counts().values())


class _Counts(dict[Any, int]):
    """Zero for what did not run."""

    def __missing__(self, key: Any) -> int:
        return 0


def visualize_sharding(dtensor: Tensor, header: str = "", use_rich: bool = False) -> None:
    """Print which ranks hold which part of a DTensor of one or two dimensions, once, on the mesh's first rank.

    Parts of replicated tensors name several ranks. Tensors without elements print nothing.

    Args:
        header: a line that is printed first.
        use_rich: draw the table with the package ``rich``, which must be installed; plain text otherwise.

    Raises:
        RuntimeError: the tensor has another number of dimensions.
        ValueError: ``use_rich`` without the package.

    Example::

        >>> from oneflow.distributed.tensor import Shard, distribute_tensor
        >>> from oneflow.distributed.tensor.debug import visualize_sharding
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     visualize_sharding(distribute_tensor(oneflow.ones(4, 2), mesh, [Shard(0)]))
        >>> _ = oneflow.testing.run_ranks(2, rank)
                  | Col 0-1
        --------- | -------
        Row 0-1   | cpu:0
        Row 2-3   | cpu:1
    """
    if dtensor.numel() == 0:
        return
    if dtensor.dim() not in (1, 2):
        raise RuntimeError(f"visualize sharding is only implemented for 1D or 2D DTensor, got {dtensor.dim()}D")
    mesh = dtensor.device_mesh
    if mesh.get_coordinate() != [0] * mesh.ndim:
        return
    placement = dtensor.placement
    holders: dict[tuple[Any, Any], list[int]] = {}
    for place in itertools.product(*map(range, placement.hierarchy)):
        starts, sizes = [0] * dtensor.dim(), list(dtensor.shape)
        for axis, s in enumerate(dtensor.sbp):
            if s.dim is not None:
                start, sizes[s.dim] = placement._part(sizes[s.dim], axis, place[axis])
                starts[s.dim] += start
        spans = [(start, start + size - 1) for start, size in zip(starts, sizes, strict=True) if size]
        if len(spans) == dtensor.dim():
            # One row for a tensor of one dimension.
            row, column = ((0, 0), *spans)[-2:]
            holders.setdefault((row, column), []).append(int(placement.ranks[place]))
    rows, columns = (sorted({spans[i] for spans in holders}) for i in (0, 1))
    titles = [f"Col {first}-{last}" for first, last in columns]
    table = [
        [
            f"Row {first}-{last}",
            *(", ".join(f"{mesh.device_type}:{r}" for r in holders.get(((first, last), c), ())) for c in columns),
        ]
        for first, last in rows
    ]
    if header:
        _write(header)
    if use_rich:
        _print_rich(titles, table)
        return
    lines = [["", *titles], *table]
    widths = [max(len(line[i]) for line in lines) + (2 if i == 0 else 0) for i in range(len(lines[0]))]
    lines.insert(1, ["-" * width for width in widths])
    for line in lines:
        _write(" | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _write(line: str) -> None:
    sys.stdout.write(line + "\n")


def _print_rich(titles: list[str], rows: list[list[str]]) -> None:
    try:
        import rich.console
        import rich.table
    except ImportError as missing:
        raise ValueError("visualize_sharding: use_rich=True needs the package rich; plain text is drawn without") from (
            missing
        )
    table = rich.table.Table("", *titles)
    for row in rows:
        table.add_row(*row)
    rich.console.Console().print(table)
