"""PyTorch's names around meshes: flattened dimensions in slices, the private table, collectives along a dimension."""

from __future__ import annotations

from typing import Any

import numpy
import oneflow
import oneflow.distributed as dist
import pytest
import torch
import torch.distributed as torch_dist
from oneflow.distributed.device_mesh import _mesh_resources, init_device_mesh
from oneflow.distributed.tensor import DTensor, Shard, distribute_module, distribute_tensor
from oneflow.distributed.tensor._collective_utils import (
    mesh_broadcast,
    mesh_scatter,
    shard_dim_alltoall,
    unpad_tensor,
)
from torch.distributed.tensor.placement_types import Shard as TorchShard


def test_slices_with_flattened_dimensions() -> None:
    def rank() -> Any:
        mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("replicate", "shard", "cp"))
        assert mesh.mesh.dtype == oneflow.int32
        flat = mesh["shard", "cp"]._flatten()
        both = mesh["replicate", "shard_cp"]
        assert both.mesh.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]] and both.mesh_dim_names == ("replicate", "shard_cp")
        assert flat.get_group() == both.get_group("shard_cp") == mesh.get_group("shard_cp")
        assert both.get_group("replicate") == mesh.get_group("replicate")
        x = oneflow.ones(1)
        dist.all_reduce(x, group=both.get_group("shard_cp"))
        lines = _mesh_resources._get_all_submeshes(mesh, "cp")
        return (
            x.item(),
            _mesh_resources.get_root_mesh(flat) == mesh,
            _mesh_resources.get_root_mesh_dim(mesh["cp"]),
            _mesh_resources.get_mesh_dim_by_name(mesh, "shard"),
            _mesh_resources.flatten_name_to_root_dims[mesh]["shard_cp"],
            [line.mesh.tolist() for line in lines],
        )

    expected = (4.0, True, 2, 1, (1, 2), [[0, 1], [2, 3], [4, 5], [6, 7]])
    assert oneflow.testing.run_ranks(8, rank) == [expected] * 8


def test_slices_are_padded_as_pytorch_does() -> None:
    for size in (1, 3, 4, 7, 8):
        for dim in (0, 1, -1):
            for with_padding in (True, False):
                values = numpy.arange(size * 6.0).reshape((size, 6) if dim == 0 else (6, size))
                mine, my_pads = Shard(dim)._split_tensor(oneflow.tensor(values), 4, with_padding=with_padding)
                theirs, pads = TorchShard(dim % 2)._split_tensor(torch.tensor(values), 4, with_padding=with_padding)
                assert [p.tolist() for p in mine] == [p.tolist() for p in theirs]
                assert list(my_pads) == list(pads)


def test_collectives_along_a_dimension() -> None:
    def rank() -> Any:
        mesh, here = init_device_mesh("cpu", (2, 2)), dist.get_rank()
        x = oneflow.full((2,), float(here))
        mesh_broadcast(x, mesh, 1)
        pieces, pads = Shard(0)._split_tensor(oneflow.arange(3.0) + 10 * here, 2)
        mine = oneflow.empty(2)
        mesh_scatter(mine, pieces, mesh, mesh_dim=0)
        at = mesh.get_local_rank(0)
        return x.tolist(), unpad_tensor(mine, 0, pads[at]).tolist()

    assert oneflow.testing.run_ranks(4, rank) == [
        ([0.0, 0.0], [0.0, 1.0]),
        ([0.0, 0.0], [10.0, 11.0]),
        ([2.0, 2.0], [2.0]),
        ([2.0, 2.0], [12.0]),
    ]


def test_slices_change_their_dimension() -> None:
    def rank() -> Any:
        mesh, here = init_device_mesh("cpu", (2,)), dist.get_rank()
        same = []
        for shape in ((4, 6, 2), (4, 5, 2)):
            whole = oneflow.arange(float(numpy.prod(shape))).reshape(shape)
            mine = shard_dim_alltoall(whole.chunk(2, 0)[here], 0, 1, mesh, 0)
            same.append(oneflow.equal(mine, whole.chunk(2, 1)[here]))
        return same

    assert oneflow.testing.run_ranks(2, rank) == [[True, True]] * 2


def test_keys_of_a_store_are_those_of_pytorch() -> None:
    def keys(package: Any, waits: bool) -> int:
        store = package.TCPStore("127.0.0.1", 0, 1, True, wait_for_workers=waits)
        store.set("a", "b")
        n: int = store.num_keys()
        return n

    for waits in (True, False):
        assert keys(dist, waits) == keys(torch_dist, waits)


def test_functions_of_a_distributed_module_take_the_module_or_not() -> None:
    mesh = init_device_mesh("cpu", (1,))
    model = oneflow.nn.Linear(4, 3)
    with pytest.warns(FutureWarning, match="Deprecating input_fn that takes two arguments"):
        distribute_module(
            model,
            mesh,
            input_fn=lambda inputs, mesh: DTensor.from_local(inputs[0], mesh, [Shard(0)]),
            output_fn=lambda module, output, mesh: output.to_local(),
        )
    y = model(oneflow.ones(2, 4))
    assert not y.is_global and tuple(y.shape) == (2, 3)
    with pytest.raises(ValueError, match="output_fn should take in 3 arguments, but got 1"):
        distribute_module(oneflow.nn.Linear(1, 1), mesh, output_fn=lambda output: output)
    hidden = oneflow.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="distribute leaf tensors"):
        distribute_tensor(hidden, mesh, [Shard(0), Shard(0)])
