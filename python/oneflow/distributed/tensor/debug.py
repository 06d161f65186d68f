"""How much global tensors communicate: ``torch.distributed.tensor.debug``."""

from __future__ import annotations

from typing import Any

from oneflow import _ops, distributed

__all__ = ["CommDebugMode"]

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
    groups that the program has made do not. Each block starts anew.

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

    def __enter__(self) -> CommDebugMode:
        self._before, self._ended = distributed.wire_calls(), None
        return self

    def __exit__(self, *_: object) -> None:
        self._ended = self._since()

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

    def get_total_counts(self) -> int:
        """How many collectives ran: so far, inside of the block."""
        return sum(self.get_comm_counts().values())


class _Counts(dict[Any, int]):
    """Zero for what did not run."""

    def __missing__(self, key: Any) -> int:
        return 0
