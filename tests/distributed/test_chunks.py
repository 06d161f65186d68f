"""DTensors whose dimensions the mesh does not divide: each rank's part is PyTorch's, empty ones included.

The sizes of parts come from PyTorch's own arithmetic, values and gradients from one process.
"""

from __future__ import annotations

import itertools
import math
import pickle
from pathlib import Path
from typing import Any

import oneflow as torch
import oneflow.nn as nn
import oneflow.nn.functional as F
import pytest
from distributed.processes import environment, free_port, run, torchrun
from oneflow import distributed as dist
from oneflow.distributed import checkpoint as dcp
from oneflow.distributed.device_mesh import init_device_mesh
from oneflow.distributed.fsdp import fully_shard
from oneflow.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, zeros
from oneflow.distributed.tensor._utils import compute_local_shape_and_global_offset
from oneflow.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, loss_parallel, parallelize_module
from oneflow.sbp import broadcast, split
from oneflow.testing import run_ranks
from torch.distributed.tensor import Replicate as TorchReplicate
from torch.distributed.tensor import Shard as TorchShard
from torch.distributed.tensor._utils import _compute_local_shape_and_global_offset as torch_part

MESHES = [(1,), (2,), (3,), (4,), (2, 2), (1, 3), (3, 1)]


def expected_part(shape: Any, mesh: Any, placements: Any) -> Any:
    """The shape and the offsets of this rank's part in PyTorch; partial values are whole."""
    theirs = [TorchShard(p.dim) if isinstance(p, Shard) else TorchReplicate() for p in placements]
    return torch_part(tuple(shape), tuple(mesh.shape), mesh.get_coordinate(), theirs)


def has_part(x: Any, whole: torch.Tensor) -> None:
    """That ``x`` has PyTorch's part of ``whole`` on this rank, and is all of it."""
    local, what = x.to_local(), (x.placements, x.shape, x.device_mesh)
    shape, offsets = expected_part(x.shape, x.device_mesh, x.placements)
    assert tuple(local.shape) == tuple(shape), (what, tuple(local.shape), shape)
    if not any(p.is_partial() for p in x.placements):
        own = whole[tuple(slice(at, at + n) for at, n in zip(offsets, shape, strict=True))]
        assert torch.allclose(local, own), (what, local, own)
    assert torch.allclose(x.full_tensor(), whole, atol=1e-12), what


def every_size(mesh_shape: tuple[int, ...]) -> None:
    mesh = init_device_mesh("cpu", mesh_shape)
    for n in range(10):
        whole = torch.arange(float(3 * n)).view(n, 3)
        for layout in itertools.product([Shard(0), Shard(1), Replicate()], repeat=mesh.ndim):
            for value in (whole, whole.t().contiguous()):
                x = distribute_tensor(value, mesh, layout)
                has_part(x, value)
                shape, offsets = expected_part(value.shape, mesh, layout)
                found = compute_local_shape_and_global_offset(value.shape, mesh, layout)
                assert found == (tuple(shape), tuple(offsets)), (found, shape, offsets)
                again = DTensor.from_local(x.to_local(), mesh, layout, shape=value.shape, stride=value.stride())
                has_part(again, value)
                has_part(zeros(*value.shape, device_mesh=mesh, placements=layout), value * 0)
        # `chunk` gives no empty pieces, which the last ranks have.
        if mesh.ndim == 1:
            sizes = [len(piece) for piece in whole.chunk(mesh.size())] if n else []
            sizes += [0] * (mesh.size() - len(sizes))
            assert len(distribute_tensor(whole, mesh, [Shard(0)]).to_local()) == sizes[mesh.get_local_rank()]
    with pytest.raises(ValueError, match="7 into 3, 3 and 1"):
        own = torch.zeros(7, 1) if mesh.get_local_rank(0) == 0 else torch.zeros(0, 1)
        DTensor.from_local(own[:, :0], mesh, [Shard(0)] * mesh.ndim, shape=(5, 1), stride=(1, 1))


@pytest.mark.parametrize("mesh_shape", MESHES, ids=str)
def test_parts_of_every_size(mesh_shape: tuple[int, ...]) -> None:
    run_ranks(math.prod(mesh_shape), every_size, mesh_shape)


def every_pair(mesh_shape: tuple[int, ...], shapes: list[tuple[int, ...]]) -> None:
    mesh = init_device_mesh("cpu", mesh_shape)
    to_all = list(itertools.product([Shard(0), Shard(1), Replicate()], repeat=mesh.ndim))
    from_all = to_all + [
        (Partial(), *rest) for rest in itertools.product([Shard(0), Replicate()], repeat=mesh.ndim - 1)
    ]
    for shape in shapes:
        generator = torch.Generator().manual_seed(3)
        whole, weight = (torch.randn(*shape, dtype=torch.float64, generator=generator) for _ in range(2))
        for source, target in itertools.product(from_all, to_all):
            if source[0].is_partial():
                rest = distribute_tensor(whole, mesh, [Replicate(), *source[1:]]).to_local()
                own = rest * [3.0, -1.0, -1.0, 0.0][mesh.get_local_rank(0)]
                if mesh.size(0) == 2:
                    own = rest * [3.0, -2.0][mesh.get_local_rank(0)]
                x = DTensor.from_local(own, mesh, source, shape=shape, stride=whole.stride()).detach().requires_grad_()
            else:
                x = distribute_tensor(whole, mesh, source).requires_grad_()
            y = x.redistribute(placements=target)
            assert y.placements == target
            has_part(y, whole)
            (y * distribute_tensor(weight, mesh, target)).sum().backward()
            assert torch.allclose(x.grad.full_tensor(), weight), (shape, source, target)
            if not source[0].is_partial():
                has_part(x.grad, weight)


@pytest.mark.parametrize(
    ("mesh_shape", "shapes"),
    [
        ((2,), [(5, 3), (1, 1), (0, 3)]),
        ((3,), [(5, 7), (4, 2), (1, 1)]),
        ((4,), [(5, 6), (9, 3), (0, 2)]),
        ((2, 2), [(5, 3), (1, 6)]),
    ],
    ids=str,
)
def test_every_pair_of_placements(mesh_shape: tuple[int, ...], shapes: list[tuple[int, ...]]) -> None:
    run_ranks(math.prod(mesh_shape), every_pair, mesh_shape, shapes)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_on_processes(n: int) -> None:
    body = (
        f"from distributed.test_chunks import *\ndist.init_process_group('gloo')\nevery_size(({n},))\n"
        f"every_pair(({n},), [(5, 3), (1, 2)])\nmixed()\nprint('done')\n"
    )
    port = free_port()
    paths = f"{Path(__file__).parents[1]}:{Path(torch.__file__).parents[1]}"
    own = [environment(**torchrun(rank, n, port), PYTHONPATH=paths) for rank in range(n)]
    results = run(body, own, 600)
    assert [out.strip() for out, _ in results] == ["done"] * n, results


def mixed() -> None:
    """Global tensors of a placement and DTensors of a mesh over the same ranks."""
    n = dist.get_world_size()
    mesh, place = init_device_mesh("cpu", (n,)), torch.placement("cpu", list(range(n)))
    assert (place.parts, mesh.placement.parts) == ("balanced", "chunks") and place != mesh.placement
    assert (
        eval(repr(mesh.placement), {"oneflow": torch}) == mesh.placement == pickle.loads(pickle.dumps(mesh.placement))
    )
    assert eval(repr(place), {"oneflow": torch}) == place == pickle.loads(pickle.dumps(place))
    for size in (n + 1, 2 * n, 1):
        whole = torch.arange(float(2 * size)).view(size, 2)
        x = distribute_tensor(whole, mesh, [Shard(0)])
        flat = x.detach().requires_grad_()
        y = flat.to_global(place, split(0))
        each, more = divmod(size, n)
        assert len(y.to_local()) == each + (dist.get_rank() < more) and y.placement == place
        assert y.device_mesh == mesh and y.full_tensor().equal(whole)
        with pytest.raises(RuntimeError, match=r'add.*parts="chunks"'):
            x + y
        with pytest.raises(ValueError, match="move it with `redistribute`"):
            distribute_tensor(y.detach(), mesh, [Shard(0)])
        torch._oneflow._reset_wire_counters()
        back = y.redistribute(mesh, [Shard(0)])
        moved = sum(sent for _, sent, _ in torch._oneflow._wire_counters())
        assert moved == 0 or size % n
        has_part(back, whole)
        (back * x).sum().backward()
        has_part(flat.grad, whole)
    with pytest.raises(ValueError, match='must be "balanced" or "chunks", got "even"'):
        torch.placement("cpu", [0], parts="even")


def test_placements_that_differ_in_their_parts_are_converted() -> None:
    for n in (2, 4):
        run_ranks(n, mixed)


# name: an op on [n, 6], and the placements of its result over one axis, given those of its input.
KEEPS: dict[str, Any] = {
    "arithmetic": (lambda x: (2 * x + 1).exp() * x, Shard(0)),
    "comparison": (lambda x: (x > 3).double(), Shard(0)),
    "transposed": (lambda x: x.t(), Shard(1)),
    "added dimension": (lambda x: x.unsqueeze(0), Shard(1)),
    "permuted": (lambda x: x[None].permute(2, 0, 1), Shard(2)),
    "sum of others": (lambda x: x.sum(1), Shard(0)),
    "maximum of others": (lambda x: x.amax(1), Shard(0)),
    "softmax of others": (lambda x: x.softmax(1), Shard(0)),
    "like": (lambda x: torch.ones_like(x) * 3, Shard(0)),
    "cast": (lambda x: x.float().double(), Shard(0)),
    "in place": (lambda x: x.clone().mul_(2).add_(x), Shard(0)),
    "sum": (lambda x: x.sum(0), Partial()),
    "sum of all": (lambda x: x.sum(), Partial()),
    "maximum": (lambda x: x.amax(0), None),
    "product": (lambda x: x @ torch.ones(6, 5, dtype=x.dtype).to(x.device) if not x.is_global else x @ _ones(x), None),
    "mean": (lambda x: x.mean(), None),
    "sorted": (lambda x: x.sort(0).values, None),
    "norm": (lambda x: x.norm(float("inf")), None),
}


def _ones(x: Any) -> Any:
    return distribute_tensor(torch.ones(6, 5, dtype=x.dtype), x.device_mesh, [Replicate()] * x.device_mesh.ndim)


def operations() -> None:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for n in range(1, 7):
        whole = torch.linspace(0.5, 3, 6 * n, dtype=torch.float64).view(n, 6)
        for name, (op, layout) in KEEPS.items():
            alone = whole.clone().requires_grad_()
            x = distribute_tensor(whole, mesh, [Shard(0)]).requires_grad_()
            expected, found = op(alone), op(x)
            assert layout is None or found.placements == (layout,), (name, n, found.placements)
            has_part(found.detach(), expected.detach())
            if expected.requires_grad:
                expected.square().sum().backward()
                found.square().sum().backward()
                has_part(x.grad, alone.grad)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_results_keep_their_parts(n: int) -> None:
    run_ranks(n, operations)


LAYOUTS: list[Any] = [
    ((1,), [Shard(0)]),
    ((2,), [Shard(0)]),
    ((3,), [Shard(1)]),
    ((4,), [Shard(0)]),
    ((2, 2), [Shard(0), Shard(0)]),
    ((2, 2), [Shard(1), Shard(0)]),
]
SHAPES = [(5, 3), (1, 2), (9, 7), (0, 3), (2, 5)]


def stored(folder: str, layout: Any, saves: bool, chunks: bool = True) -> None:
    mesh = init_device_mesh("cpu", layout[0])
    state, wholes = {}, []
    for i, shape in enumerate(SHAPES):
        wholes.append(torch.arange(float(math.prod(shape))).view(*shape) + i)
        state[f"w{i}"] = distribute_tensor(wholes[-1] if saves else torch.zeros(*shape), mesh, layout[1])
        if not chunks:
            place = torch.placement("cpu", mesh.mesh.tolist())
            state[f"w{i}"] = state[f"w{i}"].to_global(place, list(state[f"w{i}"].sbp))
    (dcp.save if saves else dcp.load)(state, checkpoint_id=folder)
    for x, whole in zip(state.values(), wholes, strict=True):
        assert x.full_tensor().equal(whole)
        if chunks:
            has_part(x, whole)


@pytest.mark.parametrize("source", LAYOUTS, ids=str)
def test_checkpoints_are_loaded_over_other_meshes(source: Any, tmp_path: Path) -> None:
    run_ranks(math.prod(source[0]), stored, str(tmp_path), source, True)
    for target in LAYOUTS:
        for chunks in (True, False):
            run_ranks(math.prod(target[0]), stored, str(tmp_path), target, False, chunks)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = nn.Linear(3, 5), nn.Linear(5, 7), nn.Linear(7, 1)
        self.norm = nn.LayerNorm(5)
        generator = torch.Generator().manual_seed(7)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape, generator=generator))
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.third(self.second(self.norm(self.first(x).tanh())).tanh())


def trained(form: str, mesh_shape: tuple[int, ...]) -> Any:
    model: Any = Layers()
    names = ("replicas", "shards")[-len(mesh_shape) :]
    mesh = init_device_mesh("cpu", mesh_shape, mesh_dim_names=names) if form != "alone" else None
    if form == "fully_shard":
        for layer in (model.first, model.second, model.third):
            fully_shard(layer, mesh=mesh)
        fully_shard(model, mesh=mesh)
        for p in model.parameters():
            has_part(p.detach(), p.detach().full_tensor())
            assert p.placements == (*[Replicate()] * (len(mesh_shape) - 1), Shard(0))
    elif form == "parallelize_module":
        plan = {
            "second": ColwiseParallel(output_layouts=Replicate()),
            "third": RowwiseParallel(input_layouts=Replicate()),
        }
        parallelize_module(model, mesh, plan)
        has_part(model.second.weight.detach(), model.second.weight.detach().full_tensor())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    losses = []
    for step in range(4):
        x = torch.linspace(-1, 1 + step, 12, dtype=torch.float64).view(4, 3)
        loss = model(x).square().mean()
        loss.backward()
        for params in (model.first, model.norm), (model.second, model.third):
            norm = nn.utils.clip_grad_norm_([p for layer in params for p in layer.parameters()], 0.5)
            losses.append(norm.full_tensor().item() if isinstance(norm, DTensor) else norm.item())
        losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    whole = {k: v.full_tensor() if isinstance(v, DTensor) else v for k, v in model.state_dict().items()}
    return losses, {k: v.flatten().tolist() for k, v in whole.items()}


TRAINED = [
    *(("fully_shard", shape) for shape in [(2,), (3,), (4,), (2, 2)]),
    *(("parallelize_module", shape) for shape in [(2,), (3,), (4,)]),
]


@pytest.mark.parametrize(("form", "mesh_shape"), TRAINED, ids=str)
def test_modules_train_as_on_one_process(form: str, mesh_shape: tuple[int, ...]) -> None:
    losses, weights = trained("alone", ())
    for found_losses, found_weights in run_ranks(math.prod(mesh_shape), trained, form, mesh_shape):
        assert found_losses == pytest.approx(losses, rel=1e-9)
        for name, weight in weights.items():
            assert found_weights[name] == pytest.approx(weight, rel=1e-7, abs=1e-10), name


def in_a_graph() -> None:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    whole = torch.arange(10.0).view(5, 2)
    x = distribute_tensor(whole, mesh, [Shard(0)])
    place = torch.placement("cpu", list(range(mesh.size())))

    class Program(nn.Graph):  # type: ignore[misc]
        def build(self, x: Any) -> Any:
            y = (x * 2).redistribute(placements=[Replicate()])
            return y.redistribute(placements=[Shard(0)]), y.to_global(place, broadcast) + 1

    for _ in range(2):
        y, z = Program()(x)
        has_part(y, 2 * whole)
        assert z.placement == place and z.to_local().equal(2 * whole + 1)


def test_graphs_keep_parts() -> None:
    for n in (2, 4):
        run_ranks(n, in_a_graph)


def losses() -> None:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for n_classes in (2, 5, 7):
        whole = torch.linspace(-1, 2, 3 * n_classes, dtype=torch.float64).view(3, n_classes)
        target = torch.tensor([0, n_classes - 1, 1])
        alone, x = whole.clone().requires_grad_(), distribute_tensor(whole, mesh, [Shard(1)]).requires_grad_()
        expected = F.cross_entropy(alone, target)
        with loss_parallel():
            found = F.cross_entropy(x, target)
            found.backward()
        expected.backward()
        assert torch.allclose(found.full_tensor(), expected)
        has_part(x.grad, alone.grad)


def test_classes_of_a_parallel_loss() -> None:
    for n in (2, 4):
        run_ranks(n, losses)


def convolutions() -> None:
    """There is none without a channel of its result, so that not every split of a weight can stay."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    layouts = [Shard(0), Shard(1), Replicate()]
    for n, source, of_weight in itertools.product((2, 5), layouts, layouts):
        values = [torch.linspace(-1, 1, 24 * n, dtype=torch.float64).view(4, n, 6) for _ in range(2)]
        alone = [v.clone().requires_grad_() for v in values]
        spread = [distribute_tensor(v, mesh, [p]) for v, p in zip(values, (source, of_weight), strict=True)]
        spread = [x.requires_grad_() for x in spread]
        expected, found = (F.conv1d(x, w, padding=3) for x, w in (alone, spread))
        has_part(found.detach(), expected.detach())
        expected.square().sum().backward()
        found.square().sum().backward()
        for x, right in zip(spread, alone, strict=True):
            has_part(x.grad, right.grad)


@pytest.mark.parametrize("n", [2, 3, 4])
def test_convolutions_of_uneven_batches_and_channels(n: int) -> None:
    run_ranks(n, convolutions)
