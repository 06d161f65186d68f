"""Buckets of gradients: their assignment beside PyTorch's, and `Reducer` against averages of gradients."""

from __future__ import annotations

import random
from typing import Any

import numpy
import oneflow
import oneflow.distributed as dist
import pytest
import torch
import torch.distributed as torch_dist

TORCH = {oneflow.float32: torch.float32, oneflow.float64: torch.float64, oneflow.bfloat16: torch.bfloat16}


def test_assignment_of_buckets_is_pytorch_s() -> None:
    chance = random.Random(0)
    assert dist._DEFAULT_FIRST_BUCKET_BYTES == torch_dist._DEFAULT_FIRST_BUCKET_BYTES
    for _ in range(300):
        kinds = chance.sample(list(TORCH), chance.randint(1, 3))
        shapes = [(chance.randint(0, 60), chance.choice(kinds)) for _ in range(chance.randint(1, 12))]
        limits = [chance.randint(1, 500) for _ in range(chance.randint(1, 3))]
        sparse = [chance.random() < 0.2 for _ in shapes] if chance.random() < 0.5 else []
        order = chance.sample(range(len(shapes)), len(shapes)) if chance.random() < 0.5 else []
        mine = [oneflow.empty(n, dtype=dtype) for n, dtype in shapes]
        theirs = [torch.empty(n, dtype=TORCH[dtype]) for n, dtype in shapes]
        found = dist._compute_bucket_assignment_by_size(mine, limits, sparse, order)
        expected = torch_dist._compute_bucket_assignment_by_size(theirs, limits, sparse, order)
        if order:
            # PyTorch walks its table of open buckets in no particular order at the end.
            assert sorted(zip(*found, strict=True)) == sorted(zip(*expected, strict=True)), (shapes, limits)
        else:
            assert found == tuple(expected), (shapes, limits, sparse)


def test_a_reducer_averages_gradients() -> None:
    def rank() -> Any:
        here = dist.get_rank()
        numbers = numpy.random.default_rng(here)
        params = [
            oneflow.tensor(numpy.full((3,), 1.0 + i), dtype=dtype, requires_grad=True)
            for i, dtype in enumerate((oneflow.float32, oneflow.float64, oneflow.float32, oneflow.float64))
        ]
        buckets, limits = dist._compute_bucket_assignment_by_size(params, [1 << 20])
        assert buckets == [[0, 2], [1, 3]]
        reducer = dist.Reducer(params, buckets, limits, dist.group.WORLD)
        for _ in range(3):
            for p in params:
                p.grad = None
            weights = [numbers.standard_normal(3) for _ in params]
            reducer.prepare_for_forward()
            loss = sum(
                (p * oneflow.tensor(w, dtype=p.dtype)).sum().double() for p, w in zip(params, weights, strict=True)
            )
            reducer.prepare_for_backward(loss)
            loss.backward()
            every: list[Any] = [None] * dist.get_world_size()
            dist.all_gather_object(every, weights)
            for i, p in enumerate(params):
                mean = numpy.mean([w[i] for w in every], axis=0)
                numpy.testing.assert_allclose(p.grad.numpy(), mean, rtol=1e-6 if p.dtype == oneflow.float32 else 1e-14)
        return True

    assert oneflow.testing.run_ranks(2, rank) == [True, True]


def test_parameters_that_some_or_all_ranks_do_not_use() -> None:
    def rank() -> Any:
        here = dist.get_rank()
        a, b, c = (oneflow.ones(2, requires_grad=True) for _ in range(3))
        reducer = dist.Reducer([a, b, c], [[0, 1, 2]], [1 << 20], find_unused_parameters=True)
        reducer.prepare_for_forward()
        loss = (a * 2).sum() + (b.sum() * 4 if here == 0 else 0)
        reducer.prepare_for_backward(loss)
        loss.backward()
        reducer.prepare_for_forward()
        return a.grad.tolist(), b.grad.tolist(), c.grad

    assert oneflow.testing.run_ranks(2, rank) == [([2.0, 2.0], [2.0, 2.0], None)] * 2
    # Without being told to look for them, the next forward names what had no gradient.
    a, b = (oneflow.ones(2, requires_grad=True) for _ in range(2))
    reducer = dist.Reducer([a, b], [[0], [1]], [1, 1], param_to_name_mapping={1: "head.bias"})
    loss = a.sum()
    reducer.prepare_for_backward(loss)
    loss.backward()
    with pytest.raises(RuntimeError, match=r"no gradient for head\.bias \(oneflow\.float32, cpu\)"):
        reducer.prepare_for_forward()


def test_buckets_that_are_none() -> None:
    a, b = oneflow.ones(2, requires_grad=True), oneflow.ones(2, dtype=oneflow.float64, requires_grad=True)
    with pytest.raises(RuntimeError, match="must have the same dtype and device"):
        dist.Reducer([a, b], [[0, 1]], [1 << 20])
    for buckets, limits, words in (
        ([[0]], [1], "each of 2 parameters belongs in one bucket"),
        ([[0], [1], [1]], [1] * 3, "each of 2 parameters belongs in one bucket"),
        ([[0], [], [1]], [1] * 3, "no bucket is empty"),
        ([[0], [1]], [1], "2 buckets have 1 size limits"),
    ):
        with pytest.raises(ValueError, match=words):
            dist.Reducer([a, b], buckets, limits)
    with pytest.raises(ValueError, match=r"parameter 0 .* requires no gradient"):
        dist.Reducer([oneflow.ones(2)], [[0]], [1])
