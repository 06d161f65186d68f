"""How DTensors are made, moved and taken apart, beside PyTorch: layouts, sizes, strides, values and gradients."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy
import oneflow
import pytest
from distributed.twice import both
from oneflow.distributed.device_mesh import init_device_mesh
from oneflow.distributed.tensor import Partial, Replicate, Shard, distribute_tensor
from oneflow.distributed.tensor.debug import visualize_sharding
from oneflow.testing import run_ranks

PROGRAM = """
import itertools
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, linspace, logspace
from torch.distributed.tensor import _utils

dist.init_process_group("gloo")
flat = init_device_mesh("cpu", (n,))
square = init_device_mesh("cpu", (2, n // 2))

def numbers(*shape, shift=0.0):
    count = 1
    for size in shape:
        count *= size
    return torch.sin(torch.arange(count, dtype=torch.float64) * 1.7 + shift).reshape(shape)

def described(t):
    if not isinstance(t, DTensor):
        return [list(t.shape), list(t.stride()), str(t.dtype).split(".")[-1], t.tolist()]
    return [repr(t.placements), list(t.shape), list(t.stride()), described(t.to_local().detach())]

def tell(name, make):
    try:
        made = make()
        say(name, *[described(t) for t in (made if isinstance(made, tuple) else (made,))])
    except (RuntimeError, ValueError) as error:
        say(name, type(error).__name__)

def own(*shape):
    return numbers(*shape, shift=rank)

# Parts with strides of all orders, on both meshes.
layouts = [Shard(0), Shard(1), Shard(2), Replicate(), Partial()]
for order in itertools.permutations(range(3)):
    for mesh in (flat, square):
        for places in itertools.product(layouts, repeat=mesh.ndim):
            part = own(2, 3, 4).permute(order)
            tell(f"from_local {order} {places}", lambda: DTensor.from_local(part, mesh, places))

# The gradient of a part, by where it is brought.
kinds = [Shard(0), Replicate(), Partial()]
def part_gradient(kind, of_gradient, to):
    x = own(4, 4).requires_grad_()
    y = DTensor.from_local(x, flat, [kind], grad_placements=of_gradient).redistribute(placements=[to])
    (y.to_local() * numbers(*y.to_local().shape, shift=3.0)).sum().backward()
    return y, x.grad

# PyTorch has no gradient of what becomes terms.
for kind, of_gradient, to in itertools.product(kinds, [None] + [[k] for k in kinds], kinds[:2]):
    tell(f"gradient {kind} {of_gradient} {to}", lambda: part_gradient(kind, of_gradient, to))

def product_gradient(of_gradient):
    x = own(2, 3).requires_grad_()
    y = DTensor.from_local(x, flat, [Replicate()], grad_placements=of_gradient)
    y = y @ distribute_tensor(numbers(3, 2 * n), flat, [Shard(1)])
    (y.to_local() * numbers(2, 2, shift=rank)).sum().backward()
    return x.grad

for of_gradient in (None, [Partial()], [Replicate()]):
    tell(f"product {of_gradient}", lambda: product_gradient(of_gradient))

# Terms of sums and averages.
for op in ("sum", "avg", "max", "min"):
    def reduced(to=Replicate()):
        x = own(4, 4).requires_grad_()
        y = DTensor.from_local(x, flat, [Partial(op)]).redistribute(placements=[to])
        if op in ("sum", "avg"):
            (y.to_local() * numbers(*y.to_local().shape, shift=rank)).sum().backward()
            return y, x.grad
        return y.detach()
    tell(f"terms {op}", reduced)
    tell(f"terms {op} in slices", lambda: reduced(Shard(0)))
for places in ([Partial()], [Partial(), Shard(0)], [Replicate(), Partial()], [Partial(), Partial()]):
    tell(f"distribute {places}", lambda: distribute_tensor(numbers(4, 4), square if places[1:] else flat, places))
for source in (Shard(0), Shard(1)):
    x = distribute_tensor(numbers(8, 8), flat, [source]).requires_grad_()
    tell(f"to terms {source}", lambda: x.redistribute(placements=[Partial()]).detach())

def cast(forward_dtype, backward_dtype):
    x = distribute_tensor(numbers(8, 4), flat, [Shard(0)]).requires_grad_()
    y = x.redistribute(placements=[Replicate()], forward_dtype=forward_dtype, backward_dtype=backward_dtype)
    (y.to_local().double() * numbers(8, 4, shift=1.0)).sum().backward()
    return y.detach(), x.grad

for dtypes in itertools.product((None, torch.float32, torch.bfloat16), repeat=2):
    tell(f"dtypes {[str(d).split('.')[-1] for d in dtypes]}", lambda: cast(*dtypes))

tell("shape alone", lambda: DTensor.from_local(own(2, 3), flat, [Shard(0)], shape=(2 * n, 3)))
tell("stride alone", lambda: DTensor.from_local(own(2, 3), flat, [Shard(0)], stride=(3, 1)))
rows = numbers(2 * n - 1, 3)[2 * rank : 2 * rank + 2]
tell("both", lambda: DTensor.from_local(rows, flat, [Shard(0)], shape=(2 * n - 1, 3), stride=(3, 1)))
for kind in (Shard(0), Replicate()):
    tell(f"linspace {kind}", lambda: linspace(0, 1, 9, device_mesh=flat, placements=[kind]))
    tell(f"logspace {kind}", lambda: logspace(0, 1, 9, base=2.0, dtype=torch.float64, device_mesh=flat,
                                              placements=[kind]))

# What checkpoints and packages ask of a part.
x = distribute_tensor(numbers(2 * n + 1, 3), flat, [Shard(0)])
chunks = x.__create_chunk_list__()
say("chunks", [[list(c.offsets), list(c.sizes)] for c in chunks])
items = x.__create_write_items__("x", x)
say("items", [[i.index.fqn, list(i.index.offset), i.type.name, list(i.tensor_data.chunk.sizes),
               list(i.tensor_data.size)] for i in items])
if items:
    say("part", x.__get_tensor_shard__(items[0].index))
for part, places in ((own(2, 3), [Shard(0)]), (own(3, 2).t(), [Shard(1)]), (own(2, 3), [Replicate()])):
    say("whole", [list(v) for v in _utils.compute_global_tensor_info(part, flat, places)])
say("uneven", list(_utils.compute_global_tensor_shape(torch.Size((2 + rank, 3)), flat, [Shard(0)])))
say("alike", list(_utils.compute_global_tensor_shape(torch.Size((2, 3)), flat, [Replicate()])))
for size in ((4,), ([2, 3],), (2, 3)):
    say("size", list(_utils.normalize_to_torch_size(size)))
say("slices", [[Shard.local_shard_size_and_offset(size, n, r) for r in range(n)] for size in range(10)])
"""


MODULES = """
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.debug import CommDebugMode
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

dist.init_process_group("gloo")

class Layers(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.rest = nn.Linear(64, 256), nn.Sequential(nn.ReLU(), nn.Linear(256, 64))
        self.plain, self.unused = nn.LayerNorm(64), nn.Linear(2, 2)

    def forward(self, x):
        return self.plain(self.rest(self.first(x)))

mesh = init_device_mesh("cpu", (n,))
layers = parallelize_module(Layers(), mesh, {"first": ColwiseParallel(), "rest.1": RowwiseParallel()})
mode = CommDebugMode()
for _ in range(2):
    with mode:
        layers(torch.ones(512, 64)).sum().backward()
    say({name: {key: list(p.shape) for key, p in own.items()} for name, own in mode.get_parameter_info().items()})
    say({name: repr(placements) for name, placements in mode.get_sharding_info().items()}, mode.get_total_counts())
with mode:
    pass
say(mode.get_parameter_info(), mode.get_sharding_info())
"""


def test_parameters_of_modules_that_run(tmp_path: Path) -> None:
    found = both(MODULES, tmp_path, 2)
    assert found["oneflow"] == found["torch"] and len(found["torch"][0]) == 5


def close(mine: Any, theirs: Any) -> bool:
    if isinstance(theirs, list):
        return len(mine) == len(theirs) and all(map(close, mine, theirs))
    if isinstance(theirs, float):
        # The dtypes in which something is sent are exact in neither package.
        return bool(numpy.isclose(mine, theirs, rtol=1e-9, atol=1e-12))
    return bool(mine == theirs)


@pytest.mark.parametrize("n", [2, 4])
def test_calls_beside_pytorch(n: int, tmp_path: Path) -> None:
    found = both(PROGRAM, tmp_path, n)
    different = []
    for rank, (mine, theirs) in enumerate(zip(found["oneflow"], found["torch"], strict=True)):
        assert [line[0] for line in mine] == [line[0] for line in theirs] and len(theirs) > 200
        different += [(rank, a, b) for a, b in zip(mine, theirs, strict=True) if not close(a, b)]
    assert not different, (len(different), different[:3])


def test_pictures_of_layouts(capsys: pytest.CaptureFixture[str]) -> None:
    def pictures() -> None:
        mesh = init_device_mesh("cpu", (2, 2))
        for layout in itertools.product([Shard(0), Shard(1), Replicate()], repeat=2):
            x = distribute_tensor(oneflow.ones(5, 2), mesh, layout)
            visualize_sharding(x, header=str(layout))
        visualize_sharding(distribute_tensor(oneflow.ones(5), mesh, [Shard(0), Replicate()]), header="one")
        visualize_sharding(oneflow.distributed.tensor.zeros(0, 2, device_mesh=mesh))
        with pytest.raises(RuntimeError, match="1D or 2D DTensor, got 3D"):
            visualize_sharding(oneflow.distributed.tensor.zeros(1, 1, 1, device_mesh=mesh))
        visualize_sharding(oneflow.distributed.tensor.zeros(2, 2, device_mesh=mesh, placements=[Partial()] * 2))

    run_ranks(4, pictures)
    text = capsys.readouterr().out
    assert text.count("Col 0-1") == 5 and "Row 0-2   | cpu:0   | cpu:1\nRow 3-4   | cpu:2   | cpu:3" in text
    assert "one\n          | Col 0-2      | Col 3-4" in text and "cpu:0, cpu:1, cpu:2, cpu:3" in text


MIXED = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (n,))
for order in (1, -1):
    for kind in (1.0, 2.0, float("inf")):
        sharded = torch.nn.Parameter(distribute_tensor(torch.ones(4), mesh, [Shard(0)]))
        plain = torch.nn.Parameter(torch.ones(3))
        sharded.grad = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)])
        plain.grad = torch.arange(3.0)
        try:
            torch.nn.utils.clip_grad_norm_([sharded, plain][::order], 1.0, norm_type=kind)
        except RuntimeError as error:
            is_said = "mixed torch.Tensor and DTensor" in str(error)
            say(is_said, sharded.grad.full_tensor().tolist(), plain.grad.tolist())
        norms = [torch.nn.utils.clip_grad_norm_([p], 1.0, norm_type=kind) for p in (sharded, plain)]
        say(norms[0].full_tensor().item(), norms[1].item(), sharded.grad.full_tensor().tolist(), plain.grad.tolist())
"""


def test_a_norm_of_global_and_local_gradients_is_refused_as_in_torch(tmp_path: Path) -> None:
    found = both(MIXED, tmp_path, 2)
    for theirs, ours in zip(found["torch"], found["oneflow"], strict=True):
        assert len(theirs) == len(ours) == 12
        for expected, value in zip(theirs, ours, strict=True):
            assert expected[0] == pytest.approx(value[0], rel=1e-6)
            for x, y in zip(expected[-2:], value[-2:], strict=True):
                assert y == pytest.approx(x, rel=1e-6)
