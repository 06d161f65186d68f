"""Functions of local tensors as functions of DTensors: PyTorch's values, gradients and refusals."""

from __future__ import annotations

from pathlib import Path

from distributed import twice

BODY = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import local_map
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (n,))

def numbers(*shape, shift=0.0):
    count = 1
    for size in shape:
        count *= size
    return torch.sin(torch.arange(count, dtype=torch.float64) * 1.7 + shift).reshape(shape)

def spread(x, placements):
    return distribute_tensor(x, mesh, placements).requires_grad_()

def tell(x):
    said = x.full_tensor() if isinstance(x, DTensor) else x
    say([str(p) for p in x.placements] if isinstance(x, DTensor) else "", said.detach())

def error_of(call):
    try:
        return call()
    except Exception as error:
        return type(error).__name__

row, column, same = [Shard(0)], [Shard(1)], [Replicate()]
W, X = numbers(12, 8), numbers(8, 16, shift=1.0)

# A product of parts, which is a sum over ranks.
w, x = spread(W, column), spread(X, row)
y = local_map(lambda w, x: torch.mm(w, x), [Partial()], (column, row))(w, x)
tell(y)
(y.redistribute(mesh, same) ** 2).sum().full_tensor().backward()
tell(w.grad), tell(x.grad)

# Arguments are brought to their placements, or refused.
w, x = spread(W, row), spread(X, same)
mapped = local_map(torch.mm, row, (row, same))
tell(mapped(w, x))
say(error_of(lambda: local_map(torch.mm, row, (column, same))(w, x)))
tell(local_map(torch.mm, [Partial()], (column, row), redistribute_inputs=True)(w, x))

# Nested arguments, numbers and names; several results, some of which are no tensors.
@local_map(out_placements=(row, None, same), in_placements=(row, None, same))
def several(pair, k, *, shift=0):
    return pair * k + shift, k, torch.ones(3) * shift

say(error_of(lambda: several(w, 2)))
found = local_map(lambda pair, k, shift=0: (pair["w"] * k + shift, (k, pair["x"] + 1)), (row, None, same),
                  (row, same, None))({"w": w, "x": x}, 2, shift=3)
tell(found[0]), say(found[1][0]), tell(found[1][1])

# No DTensor: the function itself.
tell(local_map(lambda a, b: a + b, row, (None, None))(W, 1.0))
tell(local_map(lambda a, b: a + b.sum(), row, (row, None))(w, torch.ones(2)))

# Gradients in a layout of their own.
w = spread(W, same)
y = local_map(lambda w: w * (dist.get_rank() + 1), [Partial()], (same,), ([Partial()],))(w)
y.redistribute(mesh, same).sum().full_tensor().backward()
# PyTorch leaves the sum to whoever reads it.
say(w.grad.full_tensor())

for call in (
    lambda: local_map(torch.mm, row, (row,))(w, x),
    lambda: local_map(lambda w: w, (row, row), (same,))(w),
    lambda: local_map(lambda w: 3, row, (same,))(w),
    lambda: local_map(lambda w, k: w, row, (same, same))(w, 3),
    lambda: local_map(lambda w: w, row, (None,))(w),
    lambda: local_map(lambda k: w, row, (same,))(w),
    lambda: local_map(lambda w: w, row, (same,), (None,))(w),
):
    say(error_of(call))
dist.barrier()
"""


def test_local_map(tmp_path: Path) -> None:
    found = twice.both(BODY, tmp_path, 2)
    assert len(found["oneflow"][0]) == 20
    for ours, theirs in zip(found["oneflow"], found["torch"], strict=True):
        for mine, other in zip(ours, theirs, strict=True):
            assert _close(mine, other), (mine, other)


def _close(a: object, b: object) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(_close, a, b))
    if isinstance(a, float) and isinstance(b, float):
        return abs(a - b) < 1e-10
    return a == b
