"""Parameters and optimizer states of a graph elsewhere: what ``GraphConfig.enable_offload`` does before a trace.

A tensor keeps its identity and gets other memory. On the host that is pages of a file without a name; the runtime
brings them and lets them go in the order of the program (``crates/runtime/src/offload.rs``). On a GPU it is pinned
memory of the host. An update reads and writes it in place: it does so once, so a copy would send as many bytes and need
memory of the device besides. Modules read a copy on the device, which is made for their call and, for their backward,
once more (``seen.py``), each while the module before is computed (``passes/overlap.rs``). Every bit is the same.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from oneflow import Tensor, _oneflow
from oneflow.nn.parameter import Parameter

__all__ = ["LEAST", "Offload", "checked", "made_state"]

#: Called with each state that an optimizer makes, if there is one.
made_state: ContextVar[Callable[[Tensor], None] | None] = ContextVar("made_state", default=None)

# Tensors of fewer bytes stay: there is little to gain, and a file takes whole pages.
LEAST = 64 << 10


@dataclass(frozen=True)
class Offload:
    """What is offloaded, and to where.

    Args:
        optimizer_states: whether they are, and ``parameters``.
        on_host: in memory of the host, not in files.
        folder: the folder of the files; None is the system's for temporary ones.
        window: bytes that may stay in memory between the ops that need them.
    """

    optimizer_states: bool
    parameters: bool
    on_host: bool
    folder: str | None
    window: int

    def move(self, graph: Any) -> None:
        """Move the tensors of a graph; states that are missing are made there."""
        for name, tensor in self._parameters(graph):
            self._move(graph, name, tensor)
        with self._new_states(graph):
            for optimizer in graph._stepping():
                optimizer.prepare()
        if self.optimizer_states:
            for i, optimizer in enumerate(graph._stepping()):
                for state in optimizer.state.values():
                    for key, value in state.items():
                        if isinstance(value, Tensor):
                            self._move(graph, f"optimizer_{i}: {key}", value)

    def names(self, graph: Any) -> list[str]:
        """The names of what is offloaded, as programs have them."""
        found = [name for name, tensor in self._parameters(graph) if self._is_large(tensor)]
        known = {id(tensor): name for name, tensor in graph._parameters()}
        for i, optimizer in enumerate(graph._stepping() if self.optimizer_states else []):
            for k, (param, state) in enumerate(optimizer.state.items()):
                named = f"optimizer_{i}.{known.get(id(param), k)}"
                found += [f"{named}.{key}" for key, t in state.items() if isinstance(t, Tensor) and self._is_large(t)]
        return found

    def fetched(self, graph: Any) -> list[Tensor]:
        """Parameters on the host, of which modules see copies."""
        return [t for _, t in self._parameters(graph) if self.on_host and self._is_large(t)]

    def _parameters(self, graph: Any) -> Iterator[tuple[str, Tensor]]:
        """What modules hold and is offloaded; buffers are read in place, so on a GPU they stay."""
        for name, tensor in graph._parameters() if self.parameters else ():
            if not self.on_host or isinstance(tensor, Parameter):
                yield name, tensor

    def _is_large(self, tensor: Tensor) -> bool:
        local = tensor.to_local() if tensor.is_global else tensor
        return local.numel() * local.element_size() >= LEAST

    def _move(self, graph: Any, name: str, tensor: Tensor) -> None:
        if not self._is_large(tensor):
            return
        if self.on_host == (tensor.device.type == "cpu"):
            where, other = ("a GPU", "host") if self.on_host else ("the host", "disk")
            hint = "disk" if self.on_host else "host"
            raise NotImplementedError(
                f'{graph._name}: enable_offload(to="{other}") moves tensors of {where}, and {name} is on '
                f'{tensor.device}; to="{hint}" moves it from there'
            )
        try:
            if self.on_host:
                _oneflow._move_to_host(tensor)
            else:
                _oneflow._move_to_file(tensor, self.folder or tempfile.gettempdir(), self.window)
        except RuntimeError as error:
            raise RuntimeError(f"{graph._name}: {name}: {error}") from None

    @contextlib.contextmanager
    def _new_states(self, graph: Any) -> Iterator[None]:
        """Inside, states of optimizers go to their place one by one as they are made."""
        if not self.optimizer_states:
            yield
            return
        before = made_state.set(lambda tensor: self._move(graph, "a state", tensor))
        try:
            yield
        finally:
            made_state.reset(before)


def checked(mode: bool, optimizer_states: bool, parameters: bool, to: Any, window: int) -> Offload | None:
    """The settings of ``enable_offload``.

    Raises:
        ValueError: nothing is to be offloaded, a folder is not there, or a window is negative.
        TypeError: ``to`` is no path.
    """
    if not mode:
        return None
    if not (optimizer_states or parameters):
        raise ValueError("enable_offload(): name what is offloaded: optimizer_states, parameters, or both")
    if not isinstance(window, int) or isinstance(window, bool) or window < 0:
        raise ValueError(f"enable_offload(): window must be a number of bytes, got {window!r}")
    if not isinstance(to, (str, os.PathLike)):
        raise TypeError(f'enable_offload(): to must be "disk", "host" or the path of a folder, got {type(to).__name__}')
    folder = None if to in ("disk", "host") else os.fspath(to)
    if folder is not None and not os.path.isdir(folder):
        raise ValueError(f"enable_offload(): there is no folder {folder!r}")
    return Offload(bool(optimizer_states), bool(parameters), to == "host", folder, window)
