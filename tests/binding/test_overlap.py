"""Writes whose source and destination overlap: PyTorch's errors, and correct results everywhere else."""

import random

import oneflow as flow
import pytest
import torch

N_PAIRS = 1500


def view_of(rng, shape, strides, n):
    """A view of this shape inside `n` elements: size, stride, offset."""
    while True:
        stride = strides(rng, shape)
        reach = sum((s - 1) * st for s, st in zip(shape, stride, strict=True))
        if reach < n:
            return shape, stride, rng.randrange(n - reach)


def row_major(rng, shape):
    """Strides of rows that are longer than what is taken of them, dimensions in any order."""
    stride, step = [0] * len(shape), rng.choice([1, 1, 1, 2, 3])
    for d in rng.choice([range(len(shape) - 1, -1, -1), rng.sample(range(len(shape)), len(shape))]):
        stride[d] = step
        step *= shape[d] + rng.choice([0, 0, 1, 2])
    return tuple(stride)


def any_strides(rng, shape):
    return tuple(rng.choice([0, 1, 2, 3, 4, 6]) for _ in shape)


def pairs():
    for seed in range(N_PAIRS):
        rng = random.Random(seed)
        shape = tuple(rng.randrange(1, 4) for _ in range(rng.randrange(0, 4)))
        a = view_of(rng, shape, row_major, 120)
        b = view_of(rng, shape, rng.choice([row_major, row_major, any_strides]), 120)
        if rng.random() < 0.5:
            # The same strides at another place, as slices of one tensor have.
            b = (*a[:2], rng.randrange(120 - sum((s - 1) * st for s, st in zip(*a[:2], strict=True))))
        yield seed, a, b


def places(layout):
    return set(torch.arange(120).as_strided(*layout).reshape(-1).tolist())


WRITES = {
    "add_": lambda fw, a, b: a.add_(b),
    "mul_": lambda fw, a, b: a.mul_(b),
    "copy_": lambda fw, a, b: a.copy_(b),
    "add_out": lambda fw, a, b: fw.add(b, 1, out=a),
    "mul_out": lambda fw, a, b: fw.mul(b, b, out=a),
    "exp_out": lambda fw, a, b: fw.exp(b, out=a),
}


def written(fw, write, a, b):
    memory = fw.arange(120, dtype=fw.float64) / 60
    a, b = memory.as_strided(*a), memory.as_strided(*b)
    try:
        WRITES[write](fw, a, b)
    except RuntimeError as e:
        return str(e).split(": ")[-1].split(".")[0]
    return memory.tolist()


def read_first(write, a, b):
    """The result where all inputs are read before anything is written."""
    memory = torch.arange(120, dtype=torch.float64) / 60
    a, b = memory.as_strided(*a), memory.as_strided(*b).clone()
    fresh = a.clone()
    WRITES[write](torch, fresh, b)
    a.copy_(fresh)
    return memory.tolist()


@pytest.mark.parametrize("write", WRITES)
def test_pairs_of_views(write):
    faults = []
    for seed, a, b in pairs():
        ours, theirs = written(flow, write, a, b), written(torch, write, a, b)
        # Where both views share some of their places PyTorch's result depends on its order of elements.
        if not isinstance(theirs, str):
            theirs = read_first(write, a, b)
        same = ours == theirs if isinstance(ours, str) or isinstance(theirs, str) else ours == pytest.approx(theirs)
        if not same:
            faults.append((seed, a, b, len(places(a) & places(b)), ours, theirs))
    assert not faults, f"{len(faults)} pairs differ, the first: {faults[0]}"


def test_columns():
    """Interleaved slices of one tensor."""

    def run(fw):
        boxes = fw.arange(12.0).reshape(3, 4)
        boxes[:, 2] += boxes[:, 0]
        boxes[:, 2:] -= boxes[:, :2]
        boxes[::2].mul_(boxes[1])
        fw.add(boxes[:, 1], boxes[:, 3], out=boxes[:, 0])
        return boxes.tolist()

    assert run(flow) == run(torch)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.__setitem__(slice(None), x[1]),
        lambda x: x.__setitem__(slice(None), x[1:2]),
        lambda x: x.__setitem__((0,), x[0, 2]),
        lambda x: x.__setitem__((slice(None), 0), x[0, 0]),
        lambda x: x.t().__setitem__(slice(None), x[:, 0]),
        lambda x: x.__setitem__(..., x[0, 0]),
        lambda x: x.t().__setitem__(slice(1, 3), x[:, 2]),
    ],
)
def test_a_part_becomes_the_value_of_the_whole(program):
    """An assignment spreads its value first, as PyTorch's does; `copy_` of these operands is refused."""
    results = []
    for fw in (flow, torch):
        x = fw.arange(1.0, 7.0).reshape(2, 3)
        program(x)
        results.append(x.tolist())
    assert results[0] == results[1]
