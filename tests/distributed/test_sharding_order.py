"""Dimensions of a mesh that cut a tensor in another order than they stand in: values, gradients, words."""

from __future__ import annotations

from pathlib import Path

import oneflow
import pytest
from distributed.twice import both
from oneflow.distributed.device_mesh import init_device_mesh
from oneflow.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from oneflow.distributed.tensor.debug import visualize_sharding
from oneflow.distributed.tensor.parallel import loss_parallel
from oneflow.distributed.tensor.placement_types import _StridedShard
from oneflow.testing import run_ranks

PROGRAM = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, zeros
from torch.distributed.tensor.placement_types import _StridedShard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset
import itertools
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (2, n // 2), mesh_dim_names=("dp", "tp"))

def numbers(*shape):
    count = 1
    for size in shape:
        count *= size
    return torch.arange(count, dtype=torch.float64).reshape(shape)

def told(t):
    return [repr(t.placements), list(t.shape), t.to_local().tolist()]

def tell(name, make):
    try:
        say(name, make())
    except (RuntimeError, ValueError) as error:
        say(name, type(error).__name__)

kinds = [Shard(0), _StridedShard(0, split_factor=2), _StridedShard(1, split_factor=2), Shard(1), Replicate(), Partial()]
later = [Shard(0), Shard(1), Replicate(), Partial()]
x = numbers(8, 4)
pairs = [p for p in itertools.product(kinds, later) if not isinstance(p[0], _StridedShard) or p[1] == Shard(p[0].dim)]
for places in pairs:
    if Partial() not in places:
        tell(f"distribute {places}", lambda: told(distribute_tensor(x, mesh, places)))
        part = compute_local_shape_and_global_offset((8, 4), mesh, places)
        say(f"part {places}", [list(z) for z in part])
        tell(f"full {places}", lambda: distribute_tensor(x, mesh, places).full_tensor().tolist())
    tell(f"from_local {places}", lambda: told(DTensor.from_local(numbers(2, 4) + rank, mesh, places)))
for source, to in itertools.product(pairs, pairs):
    if Partial() in (*source, *to) or not any(isinstance(p[0], _StridedShard) for p in (source, to)):
        continue
    def move():
        y = distribute_tensor(x, mesh, source).requires_grad_()
        z = y.redistribute(placements=to)
        (z.to_local() * (rank + 1.0)).sum().backward()
        return [told(z.detach()), told(y.grad)]
    tell(f"redistribute {source} {to}", move)

# Slices of fully_shard inside those of tensor parallelism.
def trained(mesh, first):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 4)).double()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(numbers(*p.shape) % 7 - 3)
    plan = {"0": ColwiseParallel(), "2": RowwiseParallel()}
    parallelize_module(model, mesh["tp"], plan)
    fully_shard(model, mesh=mesh["dp"])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(2):
        (model(numbers(4, 8) % 5 - 2) / 64).sum().backward()
        optimizer.step()
    found = []
    for name, p in model.named_parameters():
        whole = p.full_tensor()
        again = distribute_tensor(whole.detach(), p.device_mesh, p.placements)
        with torch.no_grad():
            p.copy_(again)
        if first == "dp":
            # PyTorch puts this dimension of the mesh first, whatever their order.
            found.append([told(p), told(again), told(p.grad), list(p.device_mesh.mesh_dim_names)])
        found.append([name, told(p)[1:], whole.tolist(), told(p.grad)[1:], bool((p.full_tensor() == whole).all())])
    return found

for names in (("dp", "tp"), ("tp", "dp")):
    tell(f"trained {names}", lambda: trained(init_device_mesh("cpu", (2, n // 2), mesh_dim_names=names), names[0]))
tell("zeros", lambda: told(zeros(8, 2, device_mesh=mesh, placements=[_StridedShard(0, split_factor=2), Shard(0)])))
p = _StridedShard(0, split_factor=2)
say("words", [repr(p), str(p), p.is_shard(), p.is_partial(), p.is_replicate(), isinstance(p, Shard), p == Shard(0)])
"""


def test_orders_are_those_of_torch(tmp_path: Path) -> None:
    found = both(PROGRAM, tmp_path, 4)
    for theirs, ours in zip(found["torch"], found["oneflow"], strict=True):
        assert len(theirs) == len(ours) > 90
        for expected, value in zip(theirs, ours, strict=True):
            assert value == expected


def test_three_dimensions_in_every_order() -> None:
    """Each order has words of its own, which lead back to it."""

    def rank() -> None:
        mesh = init_device_mesh("cpu", (2, 1, 3))
        x = oneflow.arange(48.0).view(24, 2)
        seen = []
        for first, second in ((1, 1), (1, 3), (3, 1), (3, 3)):
            places = [_StridedShard(0, sf=first), _StridedShard(0, sf=second), Shard(0)]
            y = distribute_tensor(x, mesh, places)
            assert oneflow.equal(y.full_tensor(), x)
            assert y.redistribute(placements=y.placements).placements == y.placements
            z = DTensor.from_local(y.to_local(), mesh, places, run_check=False)
            assert oneflow.equal(z.full_tensor(), x) and z.placements == y.placements
            w = y.redistribute(placements=[Shard(0), Replicate(), Shard(1)])
            assert w.placement == mesh.placement and oneflow.equal(w.full_tensor(), x)
            seen.append(y.to_local().tolist())
        # Over two and then three ranks, or over three and then two.
        assert seen[0] == seen[1] and seen[2] == seen[3]
        with pytest.raises(NotImplementedError, match=r"distribute_tensor: _StridedShard\(dim=0, sf=2\)"):
            distribute_tensor(x, mesh, [_StridedShard(0, sf=2), Shard(1), Shard(0)])
        with pytest.raises(NotImplementedError, match="to_local: gradients that lie as"):
            y.to_local(grad_placements=[Shard(0), Replicate(), Shard(0)])

    run_ranks(6, rank)


def test_losses_over_classes_that_are_split_out_of_order() -> None:
    def rank() -> None:
        mesh = init_device_mesh("cpu", (2, 3))
        data = oneflow.arange(35.0).view(5, 7).sin()
        target = oneflow.tensor([0, 6, 3, 4, 2])
        first = distribute_tensor(data, mesh, [_StridedShard(1, sf=3), Shard(1)])
        # Axes keep their order where an op takes the split of one away.
        for axis in range(2):
            layout = [oneflow.sbp.split(1) if i == axis else oneflow.sbp.broadcast for i in range(2)]
            x = first.to_global(sbp=layout).detach().requires_grad_()
            with loss_parallel():
                loss = oneflow.nn.functional.cross_entropy(x, target)
                loss.backward()
            y = data.clone().requires_grad_()
            expected = oneflow.nn.functional.cross_entropy(y, target)
            expected.backward()
            assert oneflow.allclose(loss.to_local(), expected)
            assert oneflow.allclose(x.grad.full_tensor(), y.grad)

    run_ranks(6, rank)


def test_drawings_say_who_has_what(capsys: pytest.CaptureFixture[str]) -> None:
    def rank() -> None:
        mesh = init_device_mesh("cpu", (2, 2))
        visualize_sharding(distribute_tensor(oneflow.ones(4), mesh, [_StridedShard(0, split_factor=2), Shard(0)]))

    run_ranks(4, rank)
    assert capsys.readouterr().out.splitlines()[-1].split()[3::2] == ["cpu:0", "cpu:2", "cpu:1", "cpu:3"]
