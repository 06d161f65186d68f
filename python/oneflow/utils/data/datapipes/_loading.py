"""What a data loader does to pipes: seeds what shuffles, and gives each worker and rank its part."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow.utils.data._workers import Fetcher, get_worker_info
from oneflow.utils.data.datapipes.datapipe import IterDataPipe
from oneflow.utils.data.graph_settings import apply_random_seed, apply_sharding


class PipeFetcher(Fetcher):
    """Another fetcher, whose data set is a pipe.

    Args:
        inner: loads the samples.
        seed: of the first pass, the same in all workers and ranks; the next pass has the next number.
        place: this rank and the number of ranks.
    """

    def __init__(self, inner: Fetcher, seed: int | None, place: tuple[int, int]) -> None:
        self._inner, self._seed, self._place, self._is_sharded = inner, seed, place, False
        self.dataset = inner.dataset

    def start(self) -> None:
        """Begin a pass."""
        if not self._is_sharded:
            info, (rank, n_ranks) = get_worker_info(), self._place
            n, number = (1, 0) if info is None else (info.num_workers, info.id)
            apply_sharding(self.dataset, n_ranks * n, rank * n + number)
            self._is_sharded = True
        if self._seed is not None:
            apply_random_seed(self.dataset, oneflow.Generator().manual_seed(self._seed))
            self._seed += 1
        self._inner.start()

    def fetch(self, index: Any) -> Any:
        """Load a batch."""
        return self._inner.fetch(index)


def place_of_rank() -> tuple[int, int]:
    """This rank and the number of ranks."""
    from oneflow import distributed

    return (distributed.get_rank(), distributed.get_world_size()) if distributed.is_initialized() else (0, 1)


def shared_seed(dataset: Any, generator: Any) -> int | None:
    """A seed that all ranks have, for a stream."""
    if not isinstance(dataset, IterDataPipe):
        return None
    from oneflow import distributed

    seed = oneflow.empty((), dtype=oneflow.int64).random_(generator=generator)
    if distributed.is_initialized():
        distributed.broadcast(seed, src=0)
    return int(seed.item())
