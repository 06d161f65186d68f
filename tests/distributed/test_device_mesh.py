"""Meshes of ranks, DTensors over them, and modules split by a plan."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path
from typing import Any

import oneflow as torch
import oneflow.nn as nn
import oneflow.nn.functional as F
import pytest
from oneflow import distributed as dist
from oneflow.distributed.device_mesh import DeviceMesh, init_device_mesh
from oneflow.distributed.fsdp import fully_shard
from oneflow.distributed.tensor import (
    DTensor,
    Partial,
    Replicate,
    Shard,
    _random,
    distribute_module,
    distribute_tensor,
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from oneflow.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)
from oneflow.distributed.tensor.placement_types import _StridedShard
from oneflow.testing import run_ranks

sys.path.insert(0, str(Path(__file__).parent))

from processes import free_port, run, torchrun


def meshes() -> None:
    """On eight ranks, as processes or as threads."""
    rank = dist.get_rank()
    mesh = init_device_mesh("cpu", (2, 2, 2), mesh_dim_names=("dp", "cp", "tp"))
    dp, cp, tp = rank // 4, rank // 2 % 2, rank % 2
    assert (mesh.ndim, mesh.shape, mesh.size(), mesh.size(0)) == (3, (2, 2, 2), 8, 2)
    assert mesh.mesh.tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    assert mesh.get_coordinate() == [dp, cp, tp] and mesh.get_rank() == rank
    assert [mesh.get_local_rank(d) for d in ("dp", 1, "tp")] == [dp, cp, tp]
    assert mesh["tp"].mesh.tolist() == [rank - tp, rank - tp + 1] and mesh["dp"].mesh.tolist() == [
        rank % 4,
        rank % 4 + 4,
    ]
    assert mesh["dp", "tp"].mesh.tolist() == [[2 * cp, 2 * cp + 1], [2 * cp + 4, 2 * cp + 5]]
    assert mesh["dp", "tp"]["tp"] == mesh["tp"] and hash(mesh["tp"]) == hash(mesh["tp"])
    assert mesh["dp", "cp", "tp"] is mesh and mesh["cp"].mesh_dim_names == ("cp",) and copy.deepcopy(mesh) is mesh
    assert dist.get_process_group_ranks(mesh.get_group("cp")) == [rank - 2 * cp, rank - 2 * cp + 2]
    assert mesh["cp"].get_group() == mesh.get_group("cp") and len(mesh.get_all_groups()) == 3
    flat = mesh["dp", "cp"]._flatten("dp_cp")
    assert flat.mesh.tolist() == [tp, 2 + tp, 4 + tp, 6 + tp] and mesh["dp_cp"] == flat and flat.size() == 4
    assert mesh._flatten("everything").size() == 8 and mesh["dp", "cp"]._flatten("dp_cp") is flat
    x = torch.full((1,), float(rank))
    dist.all_reduce(x, group=mesh["dp_cp"].get_group())
    assert x.item() == 12 + 4 * tp
    # Parts of a mesh at different points of the program, on one half of the ranks first.
    order = ("tp", "cp") if dp else ("cp", "tp")
    for name in order:
        part = mesh[name]
        own = torch.arange(4.0) + dp
        y = distribute_tensor(own, part, [Shard(0)], src_data_rank=0)
        assert y.device_mesh == part and y.full_tensor().equal(own) and (y @ y).full_tensor().item() == own.dot(own)
    # Another rank's data count.
    z = distribute_tensor(torch.full((2,), float(rank)), mesh["tp"], [Replicate()], src_data_rank=1)
    assert z.to_local().tolist() == [float(rank - tp + 1)] * 2
    few = DeviceMesh("cpu", [3, 1], mesh_dim_names=("few",))
    assert few.get_coordinate() == {3: [0], 1: [1]}.get(rank)
    with pytest.raises(RuntimeError, match="not part of") if rank not in (1, 3) else _nothing():
        few.get_local_rank()
    again = DeviceMesh.from_group(mesh.get_group("tp"), "cpu", mesh_dim_names=("x",))
    assert again.mesh.tolist() == mesh["tp"].mesh.tolist() and again.get_group() == mesh.get_group("tp")
    both = DeviceMesh.from_group([mesh.get_group("dp"), mesh.get_group("tp")], "cpu", mesh["dp", "tp"].mesh)
    assert both.shape == (2, 2)
    with mesh["tp"]:
        assert zeros(2).device_mesh == mesh["tp"]
    for bad, kind, text in (
        (lambda: mesh["pp"], KeyError, "Invalid mesh_dim_name pp"),
        (lambda: mesh["tp", "dp"], KeyError, "order"),
        (lambda: mesh.get_group(), RuntimeError, "mesh_dim"),
        (lambda: mesh.get_group("pp"), KeyError, "pp"),
        (lambda: mesh.size(5), IndexError, "out of range"),
        (lambda: init_device_mesh("cpu", (8,))["x"], RuntimeError, "without mesh_dim_names"),
        (lambda: init_device_mesh("cpu", (9,)), RuntimeError, "bigger than default world size 8"),
        (lambda: init_device_mesh("cpu:0", (8,)), RuntimeError, "index"),
        (lambda: init_device_mesh("cpu", (2, 4), mesh_dim_names=("a", "a")), RuntimeError, "unique"),
        (lambda: init_device_mesh("cpu", (2, 4), mesh_dim_names=("a",)), RuntimeError, "same length"),
        (lambda: DeviceMesh("cpu", [0, 0]), RuntimeError, "duplicate"),
        (lambda: DeviceMesh.from_group([mesh.get_group("dp")], "cpu"), ValueError, "Must pass mesh"),
    ):
        with pytest.raises(kind, match=text):
            bad()


class _nothing:
    def __enter__(self) -> None: ...
    def __exit__(self, *exc: Any) -> None: ...


def test_meshes_and_their_parts() -> None:
    run_ranks(8, meshes)


def tensors() -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    whole = torch.arange(35.0).view(7, 5)
    layouts = [Shard(0), Shard(1), Shard(-1), Replicate()]
    for first in layouts:
        for second in layouts:
            x = distribute_tensor(whole, mesh, [first, second])
            assert isinstance(x, DTensor) and x.full_tensor().equal(whole)
            assert isinstance(x, torch.Tensor) and not isinstance(x.to_local(), DTensor)
            for to in ([Replicate(), Replicate()], [Shard(1), Shard(0)], [Shard(0), Shard(0)]):
                y = x.redistribute(placements=to)
                assert y.placements == tuple(to) and y.device_mesh == mesh and y.full_tensor().equal(whole)
    if dist.get_rank() == 0:
        assert x.redistribute(mesh["a"], [Shard(0)]).device_mesh == mesh["a"]
    made = [
        (zeros(4, 6, device_mesh=mesh, placements=[Shard(0), Shard(1)]), torch.zeros(4, 6)),
        (ones((4, 6), device_mesh=mesh, placements=[Shard(1), Replicate()]), torch.ones(4, 6)),
        (full((4, 6), 2.5, device_mesh=mesh, placements=[Shard(0), Shard(0)]), torch.full((4, 6), 2.5)),
    ]
    for x, want in made:
        assert x.full_tensor().equal(want)
    for draw, local in ((rand, torch.rand), (randn, torch.randn)):
        torch.manual_seed(3)
        want = local(4, 6)
        torch.manual_seed(3)
        x = draw(4, 6, device_mesh=mesh, placements=[Shard(0), Shard(1)], requires_grad=True)
        assert x.full_tensor().equal(want) and x.requires_grad and x.is_leaf
    assert empty(3, device_mesh=mesh).dtype == torch.get_default_dtype()
    assert zeros(3, device_mesh=mesh, dtype=torch.int32).placements == (Replicate(), Replicate())
    local = torch.full((2, 3), float(dist.get_rank()))
    assert DTensor.from_local(local, mesh, [Shard(0), Shard(1)]).shape == (4, 6)
    assert DTensor.from_local(local.clone(), mesh, [Replicate(), Replicate()], run_check=True).full_tensor().eq(0).all()
    rows = torch.ones(2 if dist.get_rank() < 2 else 1, 3)
    assert DTensor.from_local(rows, mesh, [Shard(0), Replicate()], shape=(3, 3), stride=(3, 1)).full_tensor().shape == (
        3,
        3,
    )
    assert DTensor.from_local(local, mesh, [Partial(), Replicate()]).full_tensor()[0, 0] in (2.0, 4.0)
    plain = torch.ones(2)
    assert not any(hasattr(plain, name) for name in ("device_mesh", "placements", "full_tensor_of"))
    for bad, kind, text in (
        (lambda: x.redistribute(), RuntimeError, "placements is needed"),
        (lambda: distribute_tensor(whole, mesh, [Shard(0)]), ValueError, "same length"),
        (lambda: distribute_tensor(whole, mesh, [Shard(2), Replicate()]), IndexError, "out of range"),
        (lambda: distribute_tensor(x, mesh, [Replicate(), Replicate()]), ValueError, "redistribute"),
        (lambda: distribute_tensor(whole, None), ValueError, "device_mesh"),
        (lambda: DTensor(whole), TypeError, "from_local"),
        (lambda: plain.device_mesh, AttributeError, "device_mesh"),
        (lambda: Partial("product"), NotImplementedError, "reduced by sum, avg, max, min"),
        (lambda: x + plain, RuntimeError, "expected all tensors to be global"),
    ):
        with pytest.raises(kind, match=text):
            bad()


def test_tensors_over_a_mesh() -> None:
    run_ranks(4, tensors)


def maxima() -> None:
    """Ranks that hold candidates of a maximum or minimum, as reductions of slices leave them."""
    mesh, rank = init_device_mesh("cpu", (2,)), dist.get_rank()
    whole = -torch.arange(12.0).view(4, 3) - 1
    x = distribute_tensor(whole.clone().requires_grad_(), mesh, [Shard(0)])
    for op, least in (("max", whole[0]), ("min", whole[3])):
        y = getattr(x, f"a{op}")(0)
        assert y.placements == (Partial(op),) != (Partial(),) and not y.placements[0].is_partial("sum")
        assert (repr(y.placements[0]), str(y.placements[0])) == (f"Partial({op})", f"P({op})")
        assert y.full_tensor().equal(least) and y.redistribute(placements=[Shard(0)]).full_tensor().equal(least)
        again = DTensor.from_local(y.to_local().detach(), mesh, y.placements)
        assert again.placements == y.placements and again.full_tensor().equal(least) and (y * 2 == again * 2).all()
        assert pickle.loads(pickle.dumps((y.sbp, y.placements))) == (y.sbp, y.placements)
        x.grad = None
        (y.full_tensor() * torch.arange(3.0)).sum().backward()
        expected = torch.zeros(4, 3)
        expected[0 if op == "max" else 3] = torch.arange(3.0)
        assert x.grad.full_tensor().equal(expected)
        assert full((2,), -3.0, device_mesh=mesh, placements=[Partial(op)]).full_tensor().tolist() == [-3.0, -3.0]
        assert x.redistribute(placements=[Partial(op)]).full_tensor().equal(whole)
    local = torch.tensor([1.0, 5.0]) if rank == 0 else torch.tensor([4.0, 2.0])
    assert DTensor.from_local(local, mesh, [Partial("max")]).full_tensor().tolist() == [4.0, 5.0]
    assert (DTensor.from_local(local, mesh, [Partial("min")]) + 1).full_tensor().tolist() == [2.0, 3.0]


def test_partial_maxima() -> None:
    run_ranks(2, maxima)


def without_elements() -> None:
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.empty(5, 3, device="meta"), mesh, [Shard(0)])
    for t in (x, x + 1, x.sum(0), x.t() @ x, torch.empty_like(x), x.detach(), x.double(), x[:2], x * torch.tensor(2.0)):
        assert t.is_meta and t.device.type == "meta" and not t.is_cpu and t.to_local().is_meta, t.shape
    assert x.placements == (Shard(0),) and x.to_local().shape == (3 - dist.get_rank(), 3)
    made = distribute_tensor(torch.ones(5, 3), mesh, [Shard(0)])
    assert not made.is_meta and made.is_cpu and made.device.type == "cpu"
    with torch.device("meta"):
        layer = nn.Linear(4, 4)
    distribute_module(layer, mesh)
    assert all(p.is_meta and p.device.type == "meta" for p in layer.parameters())
    layer.to_empty(device="cpu")
    assert not any(p.is_meta for p in layer.parameters())
    layer.reset_parameters()
    assert layer(torch.ones(2, 4).to_global(mesh.placement, torch.sbp.broadcast)).isfinite().all()


def test_tensors_without_elements() -> None:
    run_ranks(2, without_elements)


def gradients() -> None:
    """PyTorch's rule: each rank computes the one loss."""
    mesh = init_device_mesh("cpu", (2,))
    rank = dist.get_rank()
    a = torch.arange(12.0).view(4, 3)

    def grad(placement: Any, loss: Any) -> torch.Tensor:
        x = distribute_tensor(a.clone().requires_grad_(), mesh, [placement])
        loss(x).backward()
        assert x.grad.placements == x.placements
        return x.grad.full_tensor()

    for placement in (Shard(0), Shard(1), Replicate()):
        assert grad(placement, lambda x: (x * x).sum().full_tensor()).equal(2 * a)
        assert grad(placement, lambda x: x.full_tensor().square().sum()).equal(2 * a)
        assert grad(placement, lambda x: x.to_local().square().sum()).equal(2 * a)
        assert grad(placement, lambda x: x.redistribute(placements=[Shard(0)]).to_local().square().sum()).equal(2 * a)
        mixed = grad(placement, lambda x: x.redistribute(placements=[Shard(0)], forward_dtype=torch.bfloat16).sum())
        assert mixed.equal(torch.ones(4, 3)) and mixed.dtype == torch.float32
    # A sum of what every rank computes, where the program says so.
    summed = grad(Replicate(), lambda x: (x.to_local(grad_placements=[Partial()]) * (rank + 1)).sum())
    assert summed.equal(torch.full((4, 3), 3.0))
    for placement in (Shard(0), Replicate()):
        own = torch.ones(2, 3, requires_grad=True)
        DTensor.from_local(own, mesh, [placement]).square().sum().full_tensor().backward()
        assert own.grad.equal(torch.full((2, 3), 2.0))
    own = torch.ones(2, requires_grad=True)
    out = DTensor.from_local(own, mesh, [Partial()]).redistribute(placements=[Replicate()])
    out.to_local().sum().backward()
    assert own.grad.equal(torch.ones(2))
    second = torch.ones(2, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(
        lambda v: DTensor.from_local(v, mesh, [Replicate()]).pow(3).redistribute(placements=[Shard(0)]).full_tensor(),
        second,
    )
    # Without a mesh each rank's loss counts, as in OneFlow.
    torch.distributed.device_mesh._TABLE.meshes.clear()
    b = torch.ones(2, requires_grad=True).to_global(torch.placement.all("cpu"), torch.sbp.broadcast)
    b.retain_grad()
    b.to_local().sum().backward()
    assert b.grad.to_global(sbp=torch.sbp.broadcast).to_local().tolist() == [2.0, 2.0]


def test_gradients_are_those_of_one_loss() -> None:
    run_ranks(2, gradients)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(8)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(F.gelu(self.up(self.norm(x))))


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(12, 8)
        self.layers = nn.ModuleList([Block() for _ in range(2)])
        self.norm = nn.LayerNorm(8)
        self.head = nn.Linear(8, 12, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.table(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


TOKENS, TARGETS = torch.arange(24).view(4, 6) % 12, (torch.arange(24).view(4, 6) * 5) % 12
TENSOR = {
    "table": RowwiseParallel(input_layouts=Replicate()),
    "layers.*.up": ColwiseParallel(),
    "layers.*.down": RowwiseParallel(),
    "head": ColwiseParallel(output_layouts=Replicate()),
}
SEQUENCE = {
    "table": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False),
    "layers.*.norm": SequenceParallel(),
    "layers.*.up": ColwiseParallel(input_layouts=Shard(1), use_local_output=False),
    "layers.*.down": RowwiseParallel(output_layouts=Shard(1), use_local_output=False),
    "norm": SequenceParallel(),
    "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1), use_local_output=False),
}


def model() -> nn.Module:
    torch.manual_seed(0)
    return Model().double()


def losses(net: nn.Module, vocabulary: bool = False, part: Any = lambda x: x) -> list[float]:
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    found = []
    for _ in range(3):
        logits = net(part(TOKENS))
        if vocabulary:
            with loss_parallel():
                loss = F.cross_entropy(logits.flatten(0, 1), part(TARGETS).flatten())
                loss.backward()
            found.append(loss.to_local().item())
        else:
            loss = F.cross_entropy(logits.flatten(0, 1), part(TARGETS).flatten())
            loss.backward()
            found.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return found


@pytest.mark.parametrize("n", [2, 4])
def test_plans_of_tensor_and_sequence_parallelism(n: int) -> None:
    expected = losses(model())

    def rank(plan: Any, vocabulary: bool) -> Any:
        mesh = init_device_mesh("cpu", (n,))
        net = parallelize_module(model(), mesh, plan)
        dist.reset_wire_counters()
        found = losses(net, vocabulary)
        split = sum(p.to_local().numel() for p in net.parameters() if p.is_global)
        return found, split, dist.wire_bytes()

    whole = sum(p.numel() for p in model().parameters())
    for plan, vocabulary in ((TENSOR, False), (SEQUENCE, True)):
        for found, split, sent in run_ranks(n, rank, plan, vocabulary):
            assert found == pytest.approx(expected, rel=1e-9)
            assert split < 1.4 * whole / n
            assert sent.get("all_gather", 0) == 0 or plan is not TENSOR or sent["all_gather"] < 40_000


def test_loss_over_split_classes() -> None:
    def rank() -> None:
        mesh = init_device_mesh("cpu", (3,))
        generator = torch.Generator().manual_seed(0)
        for shape, target_shape in (((5, 7), (5,)), ((2, 7, 3), (2, 3)), ((7,), ())):
            data = torch.randn(*shape, dtype=torch.float64, generator=generator)
            target = torch.randint(0, 7, target_shape, generator=generator)
            if target.dim():
                target.view(-1)[0] = -100
            weight = torch.rand(7, dtype=torch.float64, generator=generator)
            for options in ({}, {"reduction": "sum"}, {"reduction": "none"}, {"weight": weight}):
                x = data.clone().requires_grad_()
                want = F.cross_entropy(x, target, **options)
                want.sum().backward()
                split = distribute_tensor(data.clone().requires_grad_(), mesh, [Shard(1 if len(shape) > 1 else 0)])
                dist.reset_wire_counters()
                with loss_parallel():
                    loss = F.cross_entropy(split, target, **options)
                    loss.sum().backward()
                assert "all_gather" not in dist.wire_bytes()
                assert torch.allclose(loss.to_local(), want, rtol=1e-12)
                assert torch.allclose(split.grad.full_tensor(), x.grad, rtol=1e-12, atol=1e-15)
        with loss_parallel():
            assert F.cross_entropy(data, target).dim() == 0
            with pytest.raises(NotImplementedError, match="label_smoothing"):
                F.cross_entropy(split, target, label_smoothing=0.1)
            with pytest.raises(IndexError, match="Target 7"):
                F.cross_entropy(split, torch.tensor(7))

    run_ranks(3, rank)


def two_dimensions() -> list[float]:
    """Tensor parallelism inside, slices over the other dimension."""
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    net = parallelize_module(model(), mesh["tp"], TENSOR)
    for layer in net.layers:
        fully_shard(layer, mesh=mesh["dp"])
    fully_shard(net, mesh=mesh["dp"])
    found = losses(net, part=lambda x: x.chunk(2)[mesh.get_local_rank("dp")])
    mean = torch.tensor(found, dtype=torch.float64)
    dist.all_reduce(mean, dist.ReduceOp.AVG, group=mesh.get_group("dp"))
    weight = net.layers[0].up.weight
    assert weight.to_local().shape == (4, 8) and weight.placements == (_StridedShard(0, split_factor=2), Shard(0))
    trained = net.state_dict()["layers.0.up.weight"].full_tensor()
    return [*mean.tolist(), trained.sum().item(), trained[5].sum().item()]


def one_dimension() -> list[float]:
    net = model()
    found = losses(net)
    trained = net.state_dict()["layers.0.up.weight"]
    return [*found, trained.sum().item(), trained[5].sum().item()]


def test_tensor_parallelism_inside_of_sharding() -> None:
    for found in run_ranks(4, two_dimensions):
        assert found == pytest.approx(one_dimension(), rel=1e-9)


def test_prepared_inputs_and_outputs() -> None:
    def rank() -> None:
        mesh = init_device_mesh("cpu", (2,))

        class Two(nn.Module):
            def forward(self, x: torch.Tensor, y: torch.Tensor, scale: Any = None, n: int = 2) -> Any:
                assert x.shape == (4, 2) and n == 2 and (scale is None or scale.is_global)
                return x * 2, y

        given, want = (Shard(0), None), (Replicate(), None)
        style = PrepareModuleInputOutput(
            input_layouts=given,
            desired_input_layouts=want,
            input_kwarg_layouts={"scale": Replicate()},
            desired_input_kwarg_layouts={"scale": Replicate()},
            use_local_input=False,
            output_layouts=(Replicate(), None),
            desired_output_layouts=(Shard(0), None),
        )
        net = parallelize_module(Two(), mesh, style)
        x, y = net(torch.ones(2, 2), 3, scale=torch.ones(1), n=2)
        assert x.shape == (2, 2) and not x.is_global and y == 3
        net = parallelize_module(
            nn.Identity(), mesh, PrepareModuleInput(input_layouts=Shard(0), desired_input_layouts=Shard(1))
        )
        assert net(torch.ones(2, 2)).placements == (Shard(1),)
        out = PrepareModuleOutput(output_layouts=Shard(0), desired_output_layouts=Replicate(), use_local_output=False)
        assert parallelize_module(nn.Identity(), mesh, out)(torch.ones(1, 2)).shape == (2, 2)
        with pytest.raises(AssertionError, match="should not be None"):
            PrepareModuleInput(input_layouts=Shard(0))
        with pytest.raises(NotImplementedError, match="only support nn"):
            parallelize_module(nn.ReLU(), mesh, ColwiseParallel())
        with pytest.raises(ValueError, match="1D DeviceMesh"):
            parallelize_module(nn.ReLU(), init_device_mesh("cpu", (2, 1)), ColwiseParallel())
        with pytest.raises(TypeError, match="parallelize_plan"):
            parallelize_module(nn.ReLU(), mesh, 3)
        with pytest.warns(UserWarning, match="could not be resolved"):
            parallelize_module(nn.ReLU(), mesh, {"missing": ColwiseParallel()})
        net = distribute_module(nn.BatchNorm1d(3), mesh, None, lambda m, i, d: i, lambda m, o, d: o)
        assert net.weight.placements == (Replicate(),) and net.running_mean.is_global
        with pytest.raises(RuntimeError, match="only be called once"):
            distribute_module(net, mesh)

    run_ranks(2, rank)


SCRIPT = """
sys.path.insert(0, {here!r})
import test_device_mesh as t
print(t.two_dimensions())
"""


def test_four_processes() -> None:
    port = free_port()
    body = SCRIPT.format(here=str(Path(__file__).parent))
    for out, errors in run(body, [torchrun(rank, 4, port) for rank in range(4)], 200):
        assert out.startswith("["), errors
        assert eval(out) == pytest.approx(one_dimension(), rel=1e-9)


@pytest.mark.parametrize("size", [7, 4, 2])
def test_balanced_parts_are_refused_with_those_that_fit(size: int) -> None:
    """A dimension that does not divide is split as `chunk` splits it."""

    def rank() -> bool:
        mesh, here = init_device_mesh("cpu", (3,)), dist.get_rank()
        whole = torch.arange(2.0 * size).view(size, 2)
        chunks = [*whole.chunk(3), *(whole[size:] for _ in range(3))]
        fits = [len(piece) for piece in chunks]
        own = whole.tensor_split(3)[here]
        if len(own) == fits[here]:
            DTensor.from_local(own, mesh, [Shard(0)], shape=whole.shape, stride=whole.stride())
        else:
            part, got = rf"\[{fits[here]}, 2\] on rank {here}", rf"got \[{len(own)}, 2\]"
            with pytest.raises(ValueError, match=rf"Shard\(dim=0\)\] of shape \[{size}, 2\] .* {part}, {got}; a dim"):
                DTensor.from_local(own, mesh, [Shard(0)], shape=whole.shape, stride=whole.stride())
        own = chunks[here]
        x = DTensor.from_local(own, mesh, [Shard(0)], shape=whole.shape, stride=whole.stride())
        return x.full_tensor().equal(whole)

    assert run_ranks(3, rank) == [True] * 3


def test_ranks_seed_what_a_mesh_draws() -> None:
    """As trainers do with PyTorch's module of this name; a rank outside is told."""

    def rank() -> Any:
        here = dist.get_rank()
        torch.manual_seed(here)
        mesh = DeviceMesh("cpu", [0, 1])
        assert _random.is_rng_supported_mesh(mesh)
        if here == 2:
            with pytest.raises(RuntimeError, match="manual_seed: rank 2 is not part of DeviceMesh"):
                _random.manual_seed(3, mesh)
            return None
        _random.manual_seed(3, mesh)
        return torch.nn.init.normal_(distribute_tensor(torch.zeros(4, 2), mesh, [Shard(0)])).full_tensor()

    drawn = run_ranks(3, rank)
    torch.manual_seed(3)
    expected = torch.nn.init.normal_(torch.zeros(4, 2))
    assert all(found.equal(expected) for found in drawn[:2])
