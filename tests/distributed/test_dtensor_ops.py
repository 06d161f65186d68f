"""What people call on DTensors, under every placement: values, gradients and placements beside PyTorch in one process.

A result counts by what its ranks hold: slices are joined, terms are reduced and copies compared as its placements
say, by this file and not by the package. Sizes that the mesh does not divide and empty slices are among the cases.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import oneflow
import pytest
import torch
from oneflow.distributed.device_mesh import init_device_mesh
from oneflow.distributed.tensor import DTensor, Partial, Placement, Replicate, Shard, distribute_tensor
from oneflow.testing import run_ranks

# The first sizes are even on two ranks, the second uneven; the third leave ranks without elements.
SHAPES = [(4, 6), (5, 3), (1, 4)]
MESHES: dict[int, tuple[int, ...]] = {2: (2,), 4: (2, 2)}


class Side:
    """One package: how its constants come to be, and how results become local where the loss is."""

    def __init__(self, package: Any, constant: Callable[[Any], Any], leave: Callable[[Any], Any]) -> None:
        self.torch, self.F, self.constant, self.leave = package, package.nn.functional, constant, leave

    def number(self, value: float) -> Any:
        """A local tensor of one element."""
        return self.torch.tensor(value, dtype=self.torch.float64)

    def ints(self, *values: int) -> Any:
        return self.constant(self.torch.tensor(values))


Op = Callable[[Side, Any], Any]


class Two(NamedTuple):
    """An op of ``x`` and of a second tensor, whose sizes are a function of those of ``x``."""

    sizes: Callable[[tuple[int, ...]], tuple[int, ...]]
    op: Callable[[Side, Any, Any], Any]


def same(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return sizes


def row(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return sizes[1:]


def column(sizes: tuple[int, ...]) -> tuple[int, ...]:
    return sizes[0], 1


def written(op: Callable[[Side, Any], Any]) -> Op:
    """What is left in a copy of ``x`` that was written."""

    def run(s: Side, x: Any) -> Any:
        y = x.clone()
        op(s, y)
        return y

    return run


# One tensor.
ONE: dict[str, Op] = {
    "neg": lambda s, x: -x,
    "scalar": lambda s, x: 2 * x + 1 - x / 4,
    "rsub": lambda s, x: 3 - x,
    "pow": lambda s, x: x**2,
    "rpow": lambda s, x: 2**x,
    "exp": lambda s, x: x.exp(),
    "log": lambda s, x: (x * x + 1).log(),
    "sqrt": lambda s, x: (x * x + 1).sqrt(),
    "rsqrt": lambda s, x: (x * x + 1).rsqrt(),
    "sigmoid": lambda s, x: x.sigmoid(),
    "tanh": lambda s, x: x.tanh(),
    "abs": lambda s, x: x.abs(),
    "clamp": lambda s, x: x.clamp(-0.5, 0.5),
    "relu": lambda s, x: s.F.relu(x),
    "gelu": lambda s, x: s.F.gelu(x),
    "gelu tanh": lambda s, x: s.F.gelu(x, approximate="tanh"),
    "silu": lambda s, x: s.F.silu(x),
    "softplus": lambda s, x: s.F.softplus(x),
    "float": lambda s, x: x.float().double(),
    "masked_fill": lambda s, x: x.masked_fill(x > 0, -1.0),
    "where": lambda s, x: s.torch.where(x > 0, x, 0.1 * x),
    "triu": lambda s, x: x.triu(),
    "tril": lambda s, x: x.tril(-1),
    "sum": lambda s, x: x.sum(),
    "sum 0": lambda s, x: x.sum(0),
    "sum 1": lambda s, x: x.sum(-1, keepdim=True),
    "mean": lambda s, x: x.mean(),
    "mean 0": lambda s, x: x.mean(0),
    "mean 1": lambda s, x: x.mean(1, keepdim=True),
    "var": lambda s, x: x.var(),
    "var 1": lambda s, x: x.var(1, unbiased=False),
    "std 1": lambda s, x: x.std(1),
    "max": lambda s, x: x.max(),
    "max 0": lambda s, x: x.max(0)[0],
    "max at 1": lambda s, x: x.max(1)[1],
    "amax 1": lambda s, x: x.amax(1),
    "min 1": lambda s, x: x.min(1).values,
    "argmax": lambda s, x: x.argmax(),
    "argmax 0": lambda s, x: x.argmax(0),
    "prod 0": lambda s, x: x.prod(0),
    "norm": lambda s, x: x.norm(),
    "norm inf": lambda s, x: s.torch.linalg.vector_norm(x, float("inf")),
    "norm 1": lambda s, x: s.torch.linalg.vector_norm(x, 2, dim=1),
    "logsumexp": lambda s, x: x.logsumexp(1),
    "cumsum 0": lambda s, x: x.cumsum(0),
    "any": lambda s, x: (x > 0).any(0),
    "all": lambda s, x: (x > -10).all(),
    "sort": lambda s, x: x.sort(0)[0],
    "topk": lambda s, x: x.topk(1, dim=1)[0],
    "softmax 0": lambda s, x: x.softmax(0),
    "softmax 1": lambda s, x: x.softmax(-1),
    "log_softmax 0": lambda s, x: x.log_softmax(0),
    "log_softmax 1": lambda s, x: x.log_softmax(1),
    "layer_norm": lambda s, x: s.F.layer_norm(x, x.shape[1:]),
    "rms_norm": lambda s, x: s.F.rms_norm(x, x.shape[1:]),
    "normalize": lambda s, x: s.F.normalize(x, dim=1),
    "t": lambda s, x: x.t(),
    "T matmul": lambda s, x: x.T @ x,
    "gram": lambda s, x: x @ x.mT,
    "transpose": lambda s, x: x.transpose(0, 1).contiguous(),
    "permute": lambda s, x: x.permute(1, 0),
    "flatten": lambda s, x: x.flatten(),
    "view": lambda s, x: x.reshape(1, -1),
    "view 3": lambda s, x: x.reshape(x.shape[0], 1, x.shape[1]),
    "unsqueeze 0": lambda s, x: x.unsqueeze(0),
    "unsqueeze -1": lambda s, x: x.unsqueeze(-1),
    "squeeze": lambda s, x: x.unsqueeze(1).squeeze(1),
    "expand": lambda s, x: x.unsqueeze(0).expand(3, -1, -1),
    "repeat": lambda s, x: x.repeat(2, 1),
    "repeat_interleave": lambda s, x: x.repeat_interleave(2, dim=1),
    "flip": lambda s, x: x.flip(0),
    "roll": lambda s, x: x.roll(1, 1),
    "pad": lambda s, x: s.F.pad(x, (1, 2, 0, 1)),
    "diagonal": lambda s, x: x.diagonal(),
    "row": lambda s, x: x[0],
    "last column": lambda s, x: x[:, -1],
    "slice 0": lambda s, x: x[1:],
    "slice 1": lambda s, x: x[:, 1:3],
    "steps": lambda s, x: x[:, ::2],
    "none": lambda s, x: x[:, None],
    "ellipsis": lambda s, x: x[..., :2],
    "element": lambda s, x: x[0, 1],
    "narrow": lambda s, x: x.narrow(1, 1, 2),
    "select": lambda s, x: x.select(1, 2),
    "index": lambda s, x: x[:, s.ints(2, 0, 2)],
    "index 0": lambda s, x: x[s.ints(0, 0)],
    "index_select": lambda s, x: x.index_select(1, s.ints(1, 0)),
    "gather": lambda s, x: x.gather(1, s.ints(*range(x.shape[0])).unsqueeze(1) % 3),
    "mask": lambda s, x: x[x > 0],
    "split 0": lambda s, x: x.split(2),
    "split 1": lambda s, x: x.split([1, x.shape[1] - 1], dim=1),
    "chunk 0": lambda s, x: x.chunk(2),
    "chunk 1": lambda s, x: x.chunk(3, dim=-1),
    "tensor_split": lambda s, x: x.tensor_split(2, dim=1),
    "unbind": lambda s, x: x.unbind(1),
    "cat 0": lambda s, x: s.torch.cat([x, 2 * x]),
    "cat 1": lambda s, x: s.torch.cat([x, x[:, :1], -x], dim=1),
    "stack": lambda s, x: s.torch.stack([x, x * x]),
    "hstack": lambda s, x: s.torch.hstack([x, x]),
    "einsum": lambda s, x: s.torch.einsum("ij,kj->ik", x, x),
    "zeros_like": lambda s, x: s.torch.zeros_like(x) + x,
    "full_like": lambda s, x: s.torch.full_like(x, 2.0) * x,
    "new_zeros": lambda s, x: x.new_zeros(x.shape) + x,
    "one_hot": lambda s, x: s.F.one_hot((x > 0).long(), 2),
    "isnan": lambda s, x: x.isnan(),
    "detach": lambda s, x: x.detach() * x,
    "embedding": lambda s, x: s.F.embedding(s.ints(0, 0, 0), x),
    "nll_loss": lambda s, x: s.F.nll_loss(x.log_softmax(1), s.ints(*[1] * x.shape[0])),
    "cross_entropy": lambda s, x: s.F.cross_entropy(x, s.ints(*[i % 3 for i in range(x.shape[0])])),
    "cross_entropy sum": lambda s, x: s.F.cross_entropy(x, s.ints(*[2] * x.shape[0]), reduction="sum"),
    "cross_entropy smoothed": lambda s, x: s.F.cross_entropy(x, s.ints(*[2] * x.shape[0]), label_smoothing=0.1),
    "cross_entropy ignored": lambda s, x: s.F.cross_entropy(
        x, s.ints(*[i % 2 for i in range(x.shape[0])]), ignore_index=1
    ),
    # Beside local tensors of one element.
    "local mul": lambda s, x: s.number(2.5) * x,
    "local div": lambda s, x: x / s.number(2.5),
    "local pow": lambda s, x: (x * x + 1) ** s.number(1.5),
    "local less": lambda s, x: x < s.number(0.3),
    "local where": lambda s, x: s.torch.where(x > 0, x, s.number(-1.0)),
    "local clamp": lambda s, x: x.clamp(max=s.number(0.5)),
    "local masked_fill": lambda s, x: x.masked_fill(x > 0, s.number(-1.0)),
    "local lerp": lambda s, x: x.lerp(2 * x, s.number(0.25)),
    "local stack": lambda s, x: s.torch.stack([x.sum(), s.number(1.5)]),
    "local add_": written(lambda s, y: y.add_(s.number(1.5))),
    "local fill_": written(lambda s, y: y.fill_(s.number(1.5))),
    "local out=": lambda s, x: s.torch.mul(x.detach(), s.number(1.5), out=s.torch.empty_like(x.detach())),
    # Indexed writes.
    "set row": written(lambda s, y: y.__setitem__(0, 1.5)),
    "set last": written(lambda s, y: y.__setitem__((slice(None), -1), y[:, 0])),
    "set slice": written(lambda s, y: y.__setitem__(slice(1, None), 2 * y[1:])),
    "set mask": written(lambda s, y: y.__setitem__(y > 0, 0.5)),
    "set index": written(lambda s, y: y.__setitem__((slice(None), s.ints(0, 2)), 0.5)),
    "set local": written(lambda s, y: y.__setitem__(0, s.number(1.5))),
    "index_add": lambda s, x: x.index_add(1, s.ints(0, 0), s.constant(s.torch.ones(x.shape[0], 2).double())),
    "scatter": lambda s, x: x.scatter(1, s.ints(*[1] * x.shape[0])[:, None], 2.0),
    "index_fill": lambda s, x: x.index_fill(1, s.ints(0, 2), 3.0),
    # In place and `out=`.
    "add_": written(lambda s, y: y.add_(1.5)),
    "mul_": written(lambda s, y: y.mul_(2)),
    "div_": written(lambda s, y: y.div_(y * y + 1)),
    "zero_": written(lambda s, y: y.zero_()),
    "fill_": written(lambda s, y: y.fill_(2.0)),
    "clamp_": written(lambda s, y: y.clamp_(min=0)),
    "copy_": written(lambda s, y: y.copy_(y * 3)),
    "exp_": written(lambda s, y: y.exp_()),
    "masked_fill_": written(lambda s, y: y.masked_fill_(y > 0, 0.0)),
    "addcmul_": written(lambda s, y: y.addcmul_(y, y, value=0.5)),
    "lerp_": written(lambda s, y: y.lerp_(y * 2, 0.25)),
    "add_ sum": written(lambda s, y: y.add_(y.sum())),
    "out=": lambda s, x: s.torch.add(x.detach(), 1, out=s.torch.empty_like(x.detach())),
    "out= exp": lambda s, x: s.torch.exp(x.detach(), out=s.torch.empty_like(x.detach())),
}

# Two tensors.
TWO: dict[str, Two] = {
    "add": Two(same, lambda s, x, y: x + y),
    "sub": Two(same, lambda s, x, y: x.sub(y, alpha=2)),
    "mul": Two(same, lambda s, x, y: x * y),
    "div": Two(same, lambda s, x, y: x / (y * y + 1)),
    "add row": Two(row, lambda s, x, y: x + y),
    "mul row": Two(row, lambda s, x, y: x * y),
    "add column": Two(column, lambda s, x, y: x + y),
    "mul column": Two(column, lambda s, x, y: y * x),
    "outer": Two(lambda z: (z[0], 1, 1), lambda s, x, y: x + y),
    "maximum": Two(same, lambda s, x, y: s.torch.maximum(x, y)),
    "compare": Two(same, lambda s, x, y: (x < y) | (x == y)),
    "where": Two(same, lambda s, x, y: s.torch.where(x > y, x, y)),
    "lerp": Two(same, lambda s, x, y: x.lerp(y, 0.3)),
    "addcdiv": Two(same, lambda s, x, y: s.torch.addcdiv(x, x, y * y + 1)),
    "matmul": Two(lambda z: (z[1], 3), lambda s, x, y: x @ y),
    "mm": Two(lambda z: (3, z[0]), lambda s, x, y: s.torch.mm(y, x)),
    "mv": Two(lambda z: (z[1],), lambda s, x, y: x @ y),
    "batched": Two(lambda z: (2, z[1], 3), lambda s, x, y: x @ y),
    "bmm": Two(lambda z: (2, z[1], 3), lambda s, x, y: s.torch.bmm(x.expand(2, -1, -1), y)),
    "addmm": Two(lambda z: (z[1], 3), lambda s, x, y: s.torch.addmm(y[0], x, y)),
    "linear": Two(lambda z: (4, z[1]), lambda s, x, y: s.F.linear(x, y)),
    "linear bias": Two(lambda z: (4, z[1]), lambda s, x, y: s.F.linear(x, y, y[:, 0])),
    "layer_norm": Two(row, lambda s, x, y: s.F.layer_norm(x, x.shape[1:], y, y)),
    "rms_norm": Two(row, lambda s, x, y: s.F.rms_norm(x, x.shape[1:], y)),
    "mse_loss": Two(same, lambda s, x, y: s.F.mse_loss(x, y)),
    "l1_loss": Two(same, lambda s, x, y: s.F.l1_loss(x, y, reduction="sum")),
    "smooth_l1": Two(same, lambda s, x, y: s.F.smooth_l1_loss(x, y, reduction="none")),
    "bce": Two(same, lambda s, x, y: s.F.binary_cross_entropy_with_logits(x, y.sigmoid())),
    "kl_div": Two(same, lambda s, x, y: s.F.kl_div(x.log_softmax(1), y.softmax(1), reduction="batchmean")),
    "cosine": Two(same, lambda s, x, y: s.F.cosine_similarity(x, y)),
    "cat": Two(same, lambda s, x, y: s.torch.cat([x, y], dim=1)),
    "stack": Two(same, lambda s, x, y: s.torch.stack([x, y], dim=-1)),
    "attention": Two(
        same,
        lambda s, x, y: s.F.scaled_dot_product_attention(*(t[None, None] for t in (x, y, x + y)), is_causal=True),
    ),
    "add_": Two(same, lambda s, x, y: x.clone().add_(y, alpha=0.5)),
    "mul_ row": Two(row, lambda s, x, y: x.clone().mul_(y)),
    "copy_": Two(same, lambda s, x, y: x.clone().copy_(y) * x),
    "copy_ row": Two(row, lambda s, x, y: x.clone().copy_(y)),
    "+=": Two(same, lambda s, x, y: _augmented(x.clone(), y)),
    "out=": Two(same, lambda s, x, y: s.torch.mul(x.detach(), y.detach(), out=s.torch.empty_like(x.detach()))),
    "out= mm": Two(lambda z: (z[1], z[1]), lambda s, x, y: _mm_into(s, x.detach(), y.detach())),
}


def _constants(s: Side, *shapes: tuple[int, ...]) -> list[Any]:
    return [s.constant(s.torch.tensor(_numbers(shape, 7))) for shape in shapes]


# Layers of pictures, N x C x H x W.
PICTURES: dict[str, Op] = {
    "conv2d": lambda s, x: s.F.conv2d(x, *_constants(s, (4, x.shape[1], 3, 3), (4,)), padding=1),
    "conv2d groups": lambda s, x: s.F.conv2d(x, *_constants(s, (4, x.shape[1] // 2, 2, 2)), stride=2, groups=2),
    "conv_transpose2d": lambda s, x: s.F.conv_transpose2d(x, *_constants(s, (x.shape[1], 3, 2, 2)), stride=2),
    "batch_norm": lambda s, x: s.F.batch_norm(x, None, None, training=True),
    "group_norm": lambda s, x: s.F.group_norm(x, 2),
    "instance_norm": lambda s, x: s.F.instance_norm(x),
    "layer_norm": lambda s, x: s.F.layer_norm(x, x.shape[2:]),
    "max_pool2d": lambda s, x: s.F.max_pool2d(x, 2),
    "avg_pool2d": lambda s, x: s.F.avg_pool2d(x, 3, stride=1, padding=1),
    "adaptive": lambda s, x: s.F.adaptive_avg_pool2d(x, 1).flatten(1),
    "interpolate": lambda s, x: s.F.interpolate(x, scale_factor=2),
    "bilinear": lambda s, x: s.F.interpolate(x, size=(3, 3), mode="bilinear"),
    "pixel_shuffle": lambda s, x: s.F.pixel_shuffle(s.torch.cat([x, x], dim=1), 2),
    "unfold": lambda s, x: s.F.unfold(x, 2),
    "heads": lambda s, x: s.F.scaled_dot_product_attention(x, 2 * x, x),
    "view heads": lambda s, x: x.transpose(1, 2).reshape(x.shape[0], x.shape[2], -1),
    "mean": lambda s, x: x.mean((2, 3)),
    "softmax": lambda s, x: x.softmax(1),
    "cross_entropy": lambda s, x: s.F.cross_entropy(x, s.constant(s.torch.zeros(x[:, 0].shape).long())),
    "embedding rows": lambda s, x: s.F.embedding(s.ints(0, 2, 1), x.flatten(1)),
}


def _augmented(x: Any, y: Any) -> Any:
    x += y
    x *= 2
    return x


def _mm_into(s: Side, x: Any, y: Any) -> Any:
    return s.torch.mm(x, y, out=s.torch.empty_like(x))


def _numbers(shape: tuple[int, ...], seed: int) -> np.ndarray[Any, Any]:
    """Of both signs, without equal elements."""
    return np.random.default_rng(seed).normal(size=shape)


def _results(found: Any) -> list[Any]:
    return list(found) if isinstance(found, (tuple, list)) else [found]


def _run(op: Callable[..., Any], side: Side, inputs: list[Any]) -> tuple[list[Any], list[Any]]:
    """Results, and the gradients of a weighted sum of them."""
    results = _results(op(side, *inputs))
    total = None
    for i, y in enumerate(results):
        if y.is_floating_point() and y.requires_grad:
            weight = side.torch.tensor(_numbers(tuple(y.shape), 100 + i))
            left = side.leave(y)
            term = (left * (side.constant(weight) if left is y else weight)).sum()
            total = term if total is None else total + term
    if total is None:
        return results, []
    total.backward()
    return results, [x.grad for x in inputs]


def _distributed(value: np.ndarray[Any, Any], mesh: Any, placements: tuple[Placement, ...]) -> Any:
    """A leaf; the terms of a partial one are uneven shares."""
    whole = oneflow.tensor(value)
    partial = [i for i, p in enumerate(placements) if p.is_partial()]
    layout = [Replicate() if p.is_partial() else p for p in placements]
    local = distribute_tensor(whole, mesh, layout).to_local()
    if partial:
        n = int(np.prod([mesh.size(i) for i in partial]))
        place = mesh.get_coordinate()
        share = int(np.ravel_multi_index([place[i] for i in partial], [mesh.size(i) for i in partial]))
        # Shares of 3, -1, -1, 0... of the value.
        local = local * ([3.0, -1.0, -1.0] + [0.0] * n if n > 2 else [3.0, -2.0])[share]
    x = DTensor.from_local(local, mesh, placements, shape=whole.shape, stride=whole.stride())
    return x.detach().requires_grad_()


def _held(x: Any) -> Any:
    """What this rank knows of a result."""
    if not isinstance(x, DTensor):
        return None
    return tuple(x.placements), x.detach().to_local().numpy(), str(x.dtype), tuple(x.shape)


def _meant(held: list[Any], mesh: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """The tensor that its ranks hold together, by what placements mean."""
    placements = held[0][0]
    assert all(h[0] == placements for h in held), [h[0] for h in held]
    parts = [h[1] for h in held]
    # The last dimension of the mesh was split last.
    for n, p in reversed(list(zip(mesh, placements, strict=True))):
        groups = [parts[i : i + n] for i in range(0, len(parts), n)]
        if p.is_shard():
            parts = [np.concatenate(g, axis=p.dim) for g in groups]
        elif p.is_partial():
            reduced = {"sum": np.sum, "max": np.max, "min": np.min}[p.reduce_op]
            parts = [np.asarray(reduced(g, axis=0)) for g in groups]
        else:
            for g in groups:
                assert all(np.array_equal(a, g[0], equal_nan=True) for a in g), (placements, g)
            parts = [g[0] for g in groups]
    return parts[0]


class Case(NamedTuple):
    name: str
    op: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    layouts: tuple[tuple[Placement, ...], ...]

    def __str__(self) -> str:
        return f"{self.name} of {self.shapes} in {self.layouts}"


def _layouts(ndim: int, n_axes: int) -> list[tuple[Placement, ...]]:
    each = [Replicate(), Partial(), *(Shard(d) for d in range(ndim))]
    return list(itertools.product(each, repeat=n_axes))


def _cases(shapes: list[tuple[int, ...]], n_axes: int, every: int, of_pairs: int) -> list[Case]:
    """One of ``every`` cases of ops of one tensor, and one of ``of_pairs`` where there are two."""
    one: list[Case] = []
    two: list[Case] = []
    for shape in shapes:
        for name, op in ONE.items():
            one += [Case(name, op, (shape,), (layout,)) for layout in _layouts(2, n_axes)]
        for name, (sizes, of_two) in TWO.items():
            other = sizes(shape)
            pairs = itertools.product(_layouts(2, n_axes), _layouts(len(other), n_axes))
            two += [Case(f"{name} (two)", of_two, (shape, other), pair) for pair in pairs]
    return one[::every] + two[::of_pairs]


Found = tuple[list[Any], list[Any]]


def _expected(case: Case) -> Found | None:
    """What one process finds; ``None`` where the op asks for more elements."""
    side = Side(torch, lambda t: t, lambda t: t)
    inputs = [torch.tensor(_numbers(s, i), requires_grad=True) for i, s in enumerate(case.shapes)]
    try:
        return _run(case.op, side, inputs)
    except (IndexError, RuntimeError, ValueError):
        return None


def _rank(cases: list[Case], sizes: tuple[int, ...]) -> list[Any]:
    mesh = init_device_mesh("cpu", sizes)
    whole = [Replicate()] * mesh.ndim
    # The loss is a DTensor, or a local tensor that all ranks compute.
    leave = itertools.cycle([lambda t: t, lambda t: t.full_tensor()])
    found: list[Any] = []
    for case in cases:
        side = Side(oneflow, lambda t: distribute_tensor(t, mesh, whole, src_data_rank=None), next(leave))
        try:
            inputs = [
                _distributed(_numbers(s, i), mesh, at)
                for i, (s, at) in enumerate(zip(case.shapes, case.layouts, strict=True))
            ]
            results, gradients = _run(case.op, side, inputs)
            found.append(([_held(y) for y in results], [_held(g) for g in gradients]))
        except Exception as e:
            found.append(f"{type(e).__name__}: {e}")
    return found


def _wrong(case: Case, found: list[Any], expected_of_case: Found, sizes: tuple[int, ...]) -> Iterator[str]:
    results, gradients = expected_of_case
    if errors := [f for f in found if isinstance(f, str)]:
        yield f"{case}: raises {errors[0][:300]}"
        return
    for what, theirs, at in (("value", results, 0), ("gradient", gradients, 1)):
        if len(found[0][at]) != len(theirs):
            yield f"{case}: {len(found[0][at])} {what}s against {len(theirs)}"
            continue
        for i, expected in enumerate(theirs):
            held = [rank[at][i] for rank in found]
            if held[0] is None:
                yield f"{case}: {what} {i} is no DTensor"
                continue
            try:
                got = _meant(held, sizes)
            except (AssertionError, ValueError) as e:
                yield f"{case}: {what} {i}: {type(e).__name__} {str(e)[:200]}"
                continue
            number = expected.detach().numpy()
            kind = str(expected.dtype).removeprefix("torch.")
            if held[0][2].rpartition(".")[2] != kind or held[0][3] != tuple(number.shape):
                yield f"{case}: {what} {i} is {held[0][2:]}, not {expected.dtype} {tuple(number.shape)}"
            elif got.shape != number.shape or not np.allclose(got, number, rtol=1e-9, atol=1e-9, equal_nan=True):
                yield f"{case}: {what} {i} in {held[0][0]}: {got.tolist()} against {number.tolist()}"


def _check(cases: list[Case], n: int, at_least: int) -> None:
    known = [(case, expected) for case in cases if (expected := _expected(case)) is not None]
    assert len(known) >= at_least
    ranks = run_ranks(n, _rank, [case for case, _ in known], MESHES[n])
    wrong = [
        text
        for (case, expected), *found in zip(known, *ranks, strict=True)
        for text in _wrong(case, found, expected, MESHES[n])
    ]
    assert not wrong, f"{len(wrong)} of {len(known)}:\n" + "\n".join(wrong[:40])


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_ops_on_two_ranks(shape: tuple[int, ...]) -> None:
    _check(_cases([shape], 1, every=1, of_pairs=3), 2, at_least=700)


def test_ops_on_a_mesh_of_two_dimensions() -> None:
    _check(_cases(SHAPES[:2], 2, every=13, of_pairs=97), 4, at_least=300)


def test_layers_of_pictures() -> None:
    cases = [
        Case(name, op, (shape,), (layout,))
        for shape in [(4, 6, 5, 4), (3, 4, 7, 6)]
        for name, op in PICTURES.items()
        for layout in _layouts(4, 1)
    ]
    _check(cases, 2, at_least=200)


def test_random_numbers_are_those_of_one_rank() -> None:
    """Each rank draws the part of its slice: dropout in any placement is dropout of the whole."""
    value = _numbers((5, 6), 0)
    calls: list[Callable[[Any], Any]] = [
        lambda x: oneflow.nn.functional.dropout(x, 0.4),
        lambda x: oneflow.nn.functional.dropout(x, 0.4).mul(2).softmax(1),
        lambda x: oneflow.rand_like(x) * x,
        lambda x: oneflow.bernoulli(x.sigmoid()),
        lambda x: oneflow.randn_like(x),
        lambda x: x.clone().uniform_(),
        lambda x: oneflow.nn.functional.gumbel_softmax(x, dim=1),
    ]

    def drawn(x: Any, call: Callable[[Any], Any]) -> list[Any]:
        oneflow.manual_seed(5)
        y = call(x)
        if y.requires_grad:
            (y * y).sum().backward()
        return [y] + ([x.grad] if y.requires_grad else [])

    def rank() -> list[list[Any]]:
        mesh = init_device_mesh("cpu", (2,))
        every = [(call, layout) for call in calls for layout in _layouts(2, 1)]
        return [[_held(t) for t in drawn(_distributed(value, mesh, layout), call)] for call, layout in every]

    expected = [drawn(oneflow.tensor(value, requires_grad=True), call) for call in calls for _ in _layouts(2, 1)]
    for one, *ranks in zip(expected, *run_ranks(2, rank), strict=True):
        for i, t in enumerate(one):
            got = _meant([found[i] for found in ranks], (2,))
            np.testing.assert_allclose(got, t.detach().numpy(), rtol=1e-9, atol=1e-9)


def test_gradients_of_local_numbers() -> None:
    """Beside a DTensor a local tensor of one element is a copy that all ranks have; its gradient is the whole one."""
    calls: list[Callable[[Any, Any], Any]] = [
        lambda x, a: x * a,
        lambda x, a: (x * a.exp()).sum(0),
        lambda x, a: x.clone().mul_(a),
        lambda x, a: (x * x + 1) ** a,
        lambda x, a: x - a.sin() / (x * x + a),
    ]

    def gradients(x: Any, package: Any, call: Callable[[Any, Any], Any]) -> list[Any]:
        a = package.tensor(1.5, dtype=package.float64, requires_grad=True)
        (first,) = package.autograd.grad(call(x, a).square().sum(), a, create_graph=True)
        (second,) = package.autograd.grad(first, a)
        return [first.item(), second.item(), a]

    def rank() -> list[list[float]]:
        mesh = init_device_mesh("cpu", (2,))
        found = []
        for shape, call in itertools.product(SHAPES, calls):
            for layout in _layouts(2, 1):
                first, second, a = gradients(_distributed(_numbers(shape, 0), mesh, layout), oneflow, call)
                call(_distributed(_numbers(shape, 0), mesh, layout), a).square().sum().backward()
                assert not a.grad.is_global and a.grad.device == a.device
                found.append([first, second, a.grad.item()])
        return found

    expected = []
    for shape, call in itertools.product(SHAPES, calls):
        first, second, _ = gradients(torch.tensor(_numbers(shape, 0)), torch, call)
        expected += [[first, second, first]] * len(_layouts(2, 1))
    for found in run_ranks(2, rank):
        np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_local_tensors_of_more_elements_are_refused() -> None:
    def rank() -> None:
        mesh = init_device_mesh("cpu", (2,))
        x = distribute_tensor(oneflow.arange(6.0).view(2, 3), mesh, [Shard(0)])
        for call in (lambda: x + oneflow.ones(3), lambda: oneflow.ones(2, 3) @ x.t(), lambda: oneflow.cat([x, x[0]])):
            with pytest.raises(RuntimeError, match=r"expected all tensors|dimension"):
                call()
        with pytest.raises(RuntimeError, match="is a view whose input had to be boxed"):
            x.clone().narrow(0, 1, 1).add_(1)
        with pytest.raises(RuntimeError, match="argument 'input' is a local tensor"):
            oneflow.tensor(1.0).add_(x.sum())
        with pytest.warns(UserWarning, match=r"of shape \[1\] beside global ones counts as a copy"):
            assert (x + oneflow.ones(1)).placements == x.placements
        # A number that is written counts when it is read.
        a = oneflow.tensor(2.0)
        y = x * a
        a.add_(1)
        assert (x * a).full_tensor().equal(y.full_tensor() * 1.5)

    run_ranks(2, rank)


def test_graphs_take_local_numbers() -> None:
    def rank() -> None:
        mesh = init_device_mesh("cpu", (2,))
        scale = oneflow.tensor(2.0)

        class Scaled(oneflow.nn.Graph):  # type: ignore[misc]
            def build(self, x: Any) -> Any:
                return (x * scale).sum(1)

        x = distribute_tensor(oneflow.arange(10.0).view(5, 2), mesh, [Shard(0)])
        graph = Scaled()
        assert graph(x).full_tensor().tolist() == [2.0, 10.0, 18.0, 26.0, 34.0]
        scale.add_(1)
        assert graph(x).full_tensor().tolist() == [3.0, 15.0, 27.0, 39.0, 51.0]

    run_ranks(2, rank)
