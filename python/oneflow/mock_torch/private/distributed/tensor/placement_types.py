"""``torch.distributed.tensor.placement_types``: values that tables of plans contain."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """The layout of a tensor along one dimension of the devices."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether it is split, in dimension ``dim`` where one is given."""
        return False

    def is_replicate(self) -> bool:
        """Return whether each device has all of it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Return whether the devices' parts are summed."""
        return isinstance(self, Partial)


@dataclass(frozen=True)
class Shard(Placement):
    """Split in dimension ``dim``."""

    dim: int

    def is_shard(self, dim: int | None = None) -> bool:
        """Return whether it is split in that dimension."""
        return dim is None or dim == self.dim


@dataclass(frozen=True)
class _StridedShard(Shard):
    split_factor: int = 1


@dataclass(frozen=True)
class Replicate(Placement):
    """Each device has all of it."""


@dataclass(frozen=True)
class Partial(Placement):
    """The value is the sum, or another reduction, of the devices' parts."""

    reduce_op: str = "sum"
