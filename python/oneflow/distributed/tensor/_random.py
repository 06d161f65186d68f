"""Random numbers of DTensors by PyTorch's names: trainers import ``manual_seed`` from here."""

from __future__ import annotations

import oneflow
from oneflow.distributed.device_mesh import DeviceMesh

__all__ = ["is_rng_supported_mesh", "manual_seed"]


def is_rng_supported_mesh(device_mesh: DeviceMesh) -> bool:
    """Whether DTensors over the mesh draw the numbers that one process would: over any mesh.

    Example::

        >>> from oneflow.distributed.tensor import _random
        >>> _random.is_rng_supported_mesh(oneflow.distributed.init_device_mesh("cpu", (1,)))
        True
    """
    return True


def manual_seed(seed: int, device_mesh: DeviceMesh) -> None:
    """Seed the numbers that DTensors over the mesh draw; all its ranks call it with the same seed.

    The numbers of local tensors of this rank begin anew as well.

    Raises:
        RuntimeError: this rank is not part of the mesh.

    Example::

        >>> from oneflow.distributed.tensor import Shard, _random, randn
        >>> def rank():
        ...     oneflow.manual_seed(oneflow.distributed.get_rank())
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     _random.manual_seed(3, mesh)
        ...     drawn = randn(4, device_mesh=mesh, placements=[Shard(0)]).full_tensor()
        ...     oneflow.manual_seed(3)
        ...     return drawn.equal(oneflow.randn(4))
        >>> oneflow.testing.run_ranks(2, rank)
        [True, True]
    """
    if device_mesh.get_coordinate() is None:
        raise RuntimeError(f"manual_seed: rank {oneflow.distributed.get_rank()} is not part of {device_mesh}")
    oneflow.manual_seed(seed)
