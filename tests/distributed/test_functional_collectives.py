"""Functional collectives: their gradients are those of the same sums written in one process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import oneflow
import pytest
from distributed.twice import both
from oneflow import Tensor
from oneflow.distributed import _functional_collectives as functional
from oneflow.testing import run_ranks

N = 2

# Each: what a rank does with its tensor, and what all ranks get from the list of all tensors.
CASES: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[list[Tensor]], list[Tensor]]]] = {
    "all_reduce": (lambda x: functional.all_reduce(x, "sum"), lambda xs: [sum(xs)] * N),  # type: ignore[list-item]
    "all_reduce avg": (lambda x: functional.all_reduce(x, "avg"), lambda xs: [sum(xs) / N] * N),
    "all_reduce max": (lambda x: functional.all_reduce(x, "max"), lambda xs: [oneflow.stack(xs).amax(0)] * N),
    "all_reduce min": (lambda x: functional.all_reduce(x, "min"), lambda xs: [oneflow.stack(xs).amin(0)] * N),
    # All ranks have the maximum.
    "all_reduce max of equals": (
        lambda x: functional.all_reduce(x - x.detach() + 1, "max"),
        lambda xs: [oneflow.stack([x - x.detach() + 1 for x in xs]).amax(0)] * N,
    ),
    "broadcast": (lambda x: functional.broadcast(x, 1), lambda xs: [xs[1]] * N),
    "all_gather 0": (lambda x: functional.all_gather_tensor(x, 0), lambda xs: [oneflow.cat(xs)] * N),
    "all_gather 1": (lambda x: functional.all_gather_tensor(x, 1), lambda xs: [oneflow.cat(xs, 1)] * N),
    "reduce_scatter 0": (
        lambda x: functional.reduce_scatter_tensor(x, "sum", 0),
        lambda xs: list(sum(xs).chunk(N)),  # type: ignore[union-attr]
    ),
    "reduce_scatter 1": (
        lambda x: functional.reduce_scatter_tensor(x, "avg", 1),
        lambda xs: list((sum(xs) / N).chunk(N, 1)),
    ),
    "all_gather coalesced": (
        lambda x: functional.all_gather_into_tensor_coalesced([x, 2 * x], [0, 1])[1],
        lambda xs: [2 * oneflow.cat(xs)] * N,
    ),
    "reduce_scatter coalesced": (
        lambda x: functional.reduce_scatter_tensor_coalesced([x, 2 * x], "sum", [1, 0])[1],
        lambda xs: list((2 * sum(xs)).chunk(N)),  # type: ignore[union-attr, operator]
    ),
    "permute": (lambda x: functional.permute_tensor(x, [1, 0]), lambda xs: [xs[1], xs[0]]),
    "all_to_all": (
        lambda x: functional.all_to_all_single(x, None, None),
        lambda xs: [oneflow.cat([x.chunk(N)[i] for x in xs]) for i in range(N)],
    ),
    "all_to_all uneven": (
        lambda x: functional.all_to_all_single(
            x, *[([3, 3], [3, 1]), ([1, 1], [3, 1])][oneflow.distributed.get_rank()]
        ),
        lambda xs: [oneflow.cat([x[:3] for x in xs]), oneflow.cat([x[3:] for x in xs])],
    ),
}


def inputs() -> list[Tensor]:
    return [oneflow.randn(4, 6, dtype=oneflow.float64, generator=oneflow.Generator().manual_seed(i)) for i in range(N)]


def derivatives(y: Tensor, xs: list[Tensor], here: int) -> Any:
    """A loss, its gradients, and the gradients of what they sum to: each rank weighs its own result."""
    weights = oneflow.linspace(1.0, 2.0, y.numel(), dtype=y.dtype).view(y.shape) * (here + 1)
    return (y.square() * weights).sum()


@pytest.mark.parametrize("case", CASES)
def test_values_and_gradients_of_both_orders(case: str) -> None:
    on_rank, of_all = CASES[case]
    xs = [x.requires_grad_() for x in inputs()]
    ys = of_all(xs)
    total: Any = sum(derivatives(y, xs, i) for i, y in enumerate(ys))
    first = oneflow.autograd.grad(total, xs, create_graph=True, materialize_grads=True)
    second = oneflow.autograd.grad(sum(g.square().sum() for g in first), xs, materialize_grads=True)

    def rank() -> tuple[Any, ...]:
        here = oneflow.distributed.get_rank()
        x = inputs()[here].requires_grad_()
        y = functional.wait_tensor(on_rank(x))
        (g,) = oneflow.autograd.grad(derivatives(y, [x], here), x, create_graph=True)
        (g2,) = oneflow.autograd.grad(g.square().sum(), x)
        return y.detach(), g.detach(), g2

    for here, found in enumerate(run_ranks(N, rank)):
        for mine, expected in zip(found, (ys[here], first[here], second[here]), strict=True):
            assert oneflow.allclose(mine, expected.detach(), rtol=1e-9, atol=1e-9)


def test_what_has_no_gradient_says_so() -> None:
    def rank() -> None:
        x = oneflow.ones(2, requires_grad=True)
        with pytest.raises(RuntimeError, match="by 'product' is not defined; sum, avg, max and min have one"):
            functional.all_reduce(x, "product").sum().backward()
        with pytest.raises(RuntimeError, match="by 'max' is not defined; sum and avg have one"):
            functional.reduce_scatter_tensor(x, "max", 0).sum().backward()
        with pytest.raises(ValueError, match="no multiple of 2 ranks"):
            functional.reduce_scatter_tensor(oneflow.ones(3), "sum", 0)

    run_ranks(N, rank)


GREATEST = """
import torch.distributed._functional_collectives as functional

dist.init_process_group("gloo")
for dtype in (torch.float32, torch.float64, torch.bfloat16):
    for op in ("max", "min"):
        x = torch.tensor([1.0 + rank, 5.0 - rank, 2.0, float("nan") if rank else 1.0], dtype=dtype, requires_grad=True)
        y = functional.all_reduce(x, op, dist.group.WORLD)
        (g,) = torch.autograd.grad((y * y).sum() * (rank + 1), x, create_graph=True)
        (g.nan_to_num() * (rank + 1.0)).sum().backward()
        say(op, str(y.tolist()), str(g.tolist()), str(x.grad.tolist()), str(g.dtype)[-8:])
"""


def test_gradients_of_the_greatest_are_those_of_torch(tmp_path: Path) -> None:
    found = both(GREATEST, tmp_path, N)
    assert found["oneflow"] == found["torch"]


SINGLE = """
import torch.distributed._functional_collectives as functional

dist.init_process_group("gloo")
x = torch.arange(6.0).view(2, 3) * (rank + 1)

def gathered(x, got, **options):
    # PyTorch's gloo has no gather into one tensor.
    to = options.get("dst", options.get("group_dst", 0))
    return dist.gather(x, list(got.view(n, 2, 3).unbind(0)) if rank == to else None, **options)

is_torch = sys.argv[1] == "torch"
gathers = [gathered, gathered] if is_torch else [dist.gather_single, dist.gather_into_tensor]
for is_async in (False, True):
    def done(work):
        if is_async:
            work.wait()
    got = torch.zeros(2 * n, 3)
    done(dist.all_gather_single(got, x, async_op=is_async))
    say("all_gather", got)
    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
        got = torch.zeros(3)
        done(dist.reduce_scatter_single(got, x.view(-1), op, async_op=is_async))
        say("reduce_scatter", got)
    for shape in ((2 * n, 3), (n, 2, 3), (6 * n,)):
        for gather in gathers:
            for options in ({}, {"dst": 1}, {"group_dst": 1}):
                # A tensor of other ranks is not looked at.
                got = torch.zeros(shape)
                done(gather(x, got, async_op=is_async, **options))
                say("gather", got)
for f in (functional.all_gather_single, functional.all_gather_single_autograd):
    y = x.clone().requires_grad_()
    z = f(y, 1, dist.group.WORLD)
    (z * z).sum().backward()
    say("functional", z.tolist(), y.grad)
for f in (functional.reduce_scatter_single, functional.reduce_scatter_single_autograd):
    y = x.clone().requires_grad_()
    z = f(y, "sum", 0, dist.group.WORLD)
    (z * z).sum().backward()
    say("functional", z.tolist(), y.grad)
say("coalesced", [t.tolist() for t in functional.all_gather_single_coalesced([x, 2 * x], dist.group.WORLD)],
    [t.tolist() for t in functional.reduce_scatter_single_coalesced([x, x], "sum", [0, 0], dist.group.WORLD)])
"""


def test_names_of_single_tensors_are_those_of_torch(tmp_path: Path) -> None:
    found = both(SINGLE, tmp_path, N)
    for theirs, ours in zip(found["torch"], found["oneflow"], strict=True):
        assert len(ours) == 47
        assert ours == theirs


def test_a_tensor_that_cannot_take_all_is_refused() -> None:
    x = oneflow.ones(2, 3)
    for given in (oneflow.zeros(5), oneflow.zeros(6, dtype=oneflow.float64), oneflow.zeros(3, 2).t()):
        with pytest.raises(ValueError, match="gather_single: gather_tensor"):
            oneflow.distributed.gather_single(x, given)


def test_a_mesh_and_its_dimension_are_groups() -> None:
    def rank() -> Any:
        mesh = oneflow.distributed.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
        x = oneflow.full((2,), 1.0 + oneflow.distributed.get_rank())
        return (
            functional.all_reduce(x, "sum", (mesh, 0)).tolist(),
            functional.all_gather_tensor(x, 0, (mesh, "tp")).tolist(),
            functional.reduce_scatter_tensor(x, "sum", 0, mesh["tp"]).tolist(),
            functional.broadcast(x, 0, oneflow.distributed.group.WORLD).tolist(),
        )

    for here, found in enumerate(oneflow.testing.run_ranks(4, rank)):
        column, line = 1.0 + here % 2, 1.0 + here - here % 2
        total = 2 * line + 1
        assert found == ([2 * column + 2] * 2, [line, line, line + 1, line + 1], [total], [1.0, 1.0])


def test_collectives_are_ops():
    """Under the names that tables of classes hold, with a group or its name; those of lists only have names."""

    def rank():
        ops, own = oneflow.ops._c10d_functional, float(oneflow.distributed.get_rank())
        group = oneflow.distributed.new_group([0, 1])
        x = oneflow.full((2,), own)
        with pytest.raises(ValueError, match="cannot be found by its name"):
            ops.all_reduce.default(x, "sum", "another")
        in_place = x.clone()
        ops.all_reduce_.default(in_place, "sum", "world")
        return [
            t.tolist()
            for t in (
                ops.wait_tensor.default(ops.all_reduce.default(x, "sum", "world")),
                ops.all_gather_into_tensor.default(x, 2, group),
                ops.reduce_scatter_tensor.default(x, "sum", 2, group),
                ops.broadcast.default(x, 1, "world"),
                ops.all_to_all_single.default(x, [1, 1], [1, 1], group),
                in_place,
            )
        ]

    for n, found in enumerate(run_ranks(2, rank)):
        assert found == [[1, 1], [0, 0, 1, 1], [1], [1, 1], [0, 1], [1, 1]], n
    with pytest.raises(NotImplementedError, match="op c10d::scatter_ has no kernel"):
        oneflow.ops.c10d.scatter_.default(oneflow.ones(1))


def test_what_functional_collectives_refuse() -> None:
    x = oneflow.ones(2)
    for call, kind, text in (
        (lambda: functional.permute_tensor(x, [0, 0]), ValueError, "names each of 1 ranks once, got"),
        (lambda: functional.reduce_scatter_tensor_coalesced([x], "sum", [0, 0]), ValueError, "1 inputs have 2 dim"),
        (lambda: functional.all_reduce(x, "sum", [0, 1]), NotImplementedError, r"all 1 ranks, got \[0, 1\]"),
    ):
        with pytest.raises(kind, match=text):
            call()
    assert functional.wait_tensors([x])[0] is x
