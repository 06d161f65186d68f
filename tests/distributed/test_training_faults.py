"""A rank that raises, is slow or ends anywhere in a step of DDP or FSDP, and ranks with different models: an error on
all that names it, or the right numbers; never gradients or parameters of something else."""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable
from typing import Any

import oneflow
import oneflow.distributed as dist
import pytest
from oneflow import nn
from oneflow.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from oneflow.distributed.fsdp import FullyShardedDataParallel, fully_shard
from oneflow.testing import run_ranks

N, BAD, STEPS = 3, 1, 4
Act = Callable[[], None]


class Ends(BaseException):
    """What ends a rank and is nobody's error."""


def fails() -> None:
    raise OSError("broken")


def ends() -> None:
    raise Ends("gone")


def is_slow() -> None:
    time.sleep(0.02)


class Watched(oneflow.autograd.Function):
    """The identity, which calls a function in its backward."""

    @staticmethod
    def forward(ctx: Any, x: Any, act: Act) -> Any:
        ctx.act = act
        return x.clone()

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        ctx.act()
        return grad, None


class Block(nn.Module):
    """A layer that calls functions in its forward and backward."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(4, 4)
        self.in_forward: Act = lambda: None
        self.in_backward: Act = lambda: None

    def forward(self, x: Any) -> Any:
        x = self.lin(x)
        self.in_forward()
        return Watched.apply(x, lambda: self.in_backward())


# Layers of equal shapes: a collective of one looks like that of another.
def blocks() -> nn.Sequential:
    oneflow.manual_seed(0)
    return nn.Sequential(Block(), Block(), Block())


def ddp(model: nn.Module, **options: Any) -> Any:
    # A bucket for each parameter.
    return nn.parallel.DistributedDataParallel(model, bucket_cap_mb=1e-6, **options)


def sharded(model: Any, **options: Any) -> Any:
    for layer in model.children():
        fully_shard(layer, **options)
    return fully_shard(model)


def wrapped(model: nn.Module) -> Any:
    return FullyShardedDataParallel(model, auto_wrap_policy={Block, nn.Linear})


KINDS: dict[str, Callable[..., Any]] = {
    "ddp": ddp,
    "ddp unused": lambda model: ddp(model, find_unused_parameters=True),
    "fully_shard": sharded,
    "fully_shard kept": lambda model: sharded(model, reshard_after_forward=False),
    "FSDP": wrapped,
}


def no_sync(model: Any) -> Any:
    return model._no_sync() if hasattr(model, "_no_sync") else model.no_sync()


def in_hook(model: Any, layer: Any, opt: Any, act: Act) -> None:
    if isinstance(model, nn.parallel.DistributedDataParallel):

        def hook(state: Any, bucket: Any) -> Any:
            if bucket.index() == 2:
                act()
            return allreduce_hook(state, bucket)

        model.register_comm_hook(None, hook)
    else:
        layer.register_full_backward_hook(lambda *_: act())


# Where a step calls a function, by what sets that up.
PLACES: dict[str, Callable[[Any, Any, Any, Act], Any]] = {
    "forward": lambda model, layer, opt, act: setattr(layer, "in_forward", act),
    "forward hook": lambda model, layer, opt, act: layer.register_forward_hook(lambda *_: act()),
    "backward": lambda model, layer, opt, act: setattr(layer, "in_backward", act),
    "communication hook": in_hook,
    "optimizer": lambda model, layer, opt, act: opt.register_step_pre_hook(lambda *_: act()),
    "state_dict": lambda model, layer, opt, act: layer.register_state_dict_pre_hook(lambda *_: act()),
}


def batch(step: int) -> Any:
    rank = dist.get_rank()
    return oneflow.arange(8.0).view(2, 4).sin() * (rank + 1) + step


def train(kind: str, place: str, act: Act, bad: Any, micro: bool = False, catches: bool = False) -> list[float]:
    """Train; ``act`` is called at the place in the second step of the ranks ``bad``. Returns the parameters' sums."""
    whole = blocks()
    model = KINDS[kind](whole)
    opt = oneflow.optim.SGD(model.parameters(), 0.01)
    armed = False

    def call() -> None:
        nonlocal armed
        if armed and dist.get_rank() in bad:
            armed = False
            act()

    PLACES[place](model, whole[1], opt, call)
    for step in range(STEPS):
        armed = step == 1
        try:
            if micro:
                with no_sync(model):
                    model(batch(step)).square().sum().backward()
            model(batch(step + 1)).square().sum().backward()
            (model.clip_grad_norm_ if kind == "FSDP" else oneflow.nn.utils.clip_grad_norm_)(
                *(() if kind == "FSDP" else (model.parameters(),)), 5.0
            )
            model.state_dict()
            opt.step()
        except OSError:
            if not catches:
                raise
        opt.zero_grad()
    return [float((p.full_tensor() if p.is_global else p).sum()) for p in whole.parameters()]


def outcome(n: int, program: Callable[[], Any]) -> list[Any]:
    """What each rank returned or raised."""
    got: list[Any] = [None] * n

    def rank() -> None:
        try:
            got[dist.get_rank()] = program()
        except BaseException as error:
            got[dist.get_rank()] = error
            raise

    with contextlib.suppress(BaseException):
        run_ranks(n, rank)
    return got


def alone(n_skipped: int = 0, micro: bool = False) -> list[float]:
    """What one process gets from the batches of all ranks, without the second step where it is skipped."""
    model = blocks()
    opt = oneflow.optim.SGD(model.parameters(), 0.01)
    for step in range(STEPS):
        if step == 1 and n_skipped:
            continue
        for rank in range(N):
            for at in ([step] if micro else []) + [step + 1]:
                x = oneflow.arange(8.0).view(2, 4).sin() * (rank + 1) + at
                (model(x).square().sum() / N).backward()
        oneflow.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        opt.zero_grad()
    return [float(p.sum()) for p in model.parameters()]


CASES = [(kind, place, micro) for kind in KINDS for place in PLACES for micro in (False, True)]


@pytest.mark.parametrize(("kind", "place", "micro"), CASES)
def test_a_rank_that_fails_or_ends_is_named_by_all_others(kind: str, place: str, micro: bool) -> None:
    for act, words in ((fails, "OSError: broken"), (ends, "Ends: gone")):
        got = outcome(N, lambda act=act: train(kind, place, act, [BAD], micro))
        assert f"{type(got[BAD]).__name__}: {got[BAD]}" == words
        for rank in {*range(N)} - {BAD}:
            assert f"rank {BAD} aborted: {words}" in str(got[rank]), got


@pytest.mark.parametrize(("kind", "place", "micro"), CASES)
def test_a_slow_rank_is_waited_for(kind: str, place: str, micro: bool) -> None:
    expected = alone(micro=micro)
    for got in outcome(N, lambda: train(kind, place, is_slow, [BAD], micro)):
        assert got == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["forward", "forward hook", "backward", "communication hook"])
def test_ranks_that_all_fail_in_a_step_go_on_with_the_next(kind: str, place: str) -> None:
    """As with a batch that none of them can take."""
    if place == "communication hook" and kind.startswith("ddp"):
        # PyTorch's cannot either.
        for error in outcome(N, lambda: train(kind, place, fails, range(N), catches=True)):
            assert "the communication hook had been called for 2 of 6 buckets" in str(error)
        return
    expected = alone(n_skipped=1)
    for got in outcome(N, lambda: train(kind, place, fails, range(N), catches=True)):
        assert got == pytest.approx(expected, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", ["forward", "backward", "communication hook"])
def test_a_rank_that_goes_on_after_a_failed_step_is_out_of_step(kind: str, place: str) -> None:
    """Its next collectives look like those in which the others wait."""
    got = outcome(N, lambda: train(kind, place, fails, [BAD], catches=True))
    if kind.startswith("ddp") and place == "forward":
        # Nothing was reduced: it has trained on its next batch with the others, and has one less.
        assert isinstance(got[BAD], list)
        assert all("rank 1 has left the group" in str(got[rank]) for rank in (0, 2))
        return
    words = ("out of step", "the communication hook had been called for 2 of 6 buckets")
    for error in got:
        assert isinstance(error, RuntimeError), got
        assert any(word in str(error) for word in words), got


@pytest.mark.parametrize("kind", ["fully_shard", "FSDP"])
def test_ranks_out_of_step_in_an_evaluation_are_told(kind: str) -> None:
    def rank() -> None:
        whole = blocks()
        model = KINDS[kind](whole)
        with oneflow.no_grad():
            for step in range(STEPS):
                # The gather of the second layer has begun, not that of the third.
                whole[0].in_forward = fails if dist.get_rank() == BAD and step == 1 else lambda: None
                with contextlib.suppress(OSError):
                    model(batch(step))

    for error in outcome(N, rank):
        assert "weight [4, 4]" in str(error) and "of module '" in str(error)
        assert "out of step" in str(error)


class Layers(nn.Module):
    """Linear layers in an order of their own, called in another."""

    def __init__(self, names: str, calls: str, size: int = 4, **more: Any) -> None:
        super().__init__()
        for name in names:
            setattr(self, name, nn.Linear(4, size if name == "b" else 4))
        for name, value in more.items():
            self.register_buffer(name, value)
        self.calls = calls

    def forward(self, x: Any) -> Any:
        for name in self.calls:
            x = getattr(self, name)(x[:, :4])
        return x


class Shaped(nn.Module):
    """One matrix."""

    def __init__(self, *shape: int) -> None:
        super().__init__()
        self.w = nn.Parameter(oneflow.ones(*shape))

    def forward(self, x: Any) -> Any:
        return (x.sum() * self.w).sum()


def frozen(model: Any) -> Any:
    model.b.bias.requires_grad_(False)
    return model


# What the bad rank has in place of the model of the others, and words of DDP's error.
MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any], str]] = {
    "shapes": (lambda: Layers("ab", "ab"), lambda: Layers("ab", "ab", 2), r"parameter 2 is 'b.weight' .*\[2, 4\]"),
    "shapes of as many elements": (lambda: Shaped(4, 2), lambda: Shaped(2, 4), r"\[4, 2\].*\[2, 4\]"),
    "dtypes": (lambda: Layers("ab", "ab"), lambda: Layers("ab", "ab").half(), "float32.*float16"),
    "order": (lambda: Layers("ab", "ab"), lambda: Layers("ba", "ab"), "parameter 0 is 'a.weight'.*has 'b.weight'"),
    "number": (lambda: Layers("ab", "ab"), lambda: Layers("a", "a"), "Rank 0 has 4 params, .* inconsistent 2 params"),
    "frozen": (lambda: Layers("ab", "ab"), lambda: frozen(Layers("ab", "ab")), "Rank 0 has 4 params"),
    "buffers": (
        lambda: Layers("a", "a", s=oneflow.ones(3)),
        lambda: Layers("a", "a", s=oneflow.ones(1, 3)),
        "buffer 0 is 's'",
    ),
    "order of buffers": (
        lambda: Layers("a", "a", s=oneflow.ones(3), t=oneflow.ones(3)),
        lambda: Layers("a", "a", t=oneflow.ones(3), s=oneflow.ones(3)),
        "buffer 0 is 's'",
    ),
}


@pytest.mark.parametrize("what", MODELS)
def test_ddp_refuses_ranks_with_different_models(what: str) -> None:
    good, bad, words = MODELS[what]
    for error in outcome(N, lambda: ddp(bad() if dist.get_rank() == BAD else good())):
        assert isinstance(error, RuntimeError)
        with pytest.raises(RuntimeError, match=f"DDP expects same model across all ranks.*{words}"):
            raise error


@pytest.mark.parametrize("option", [{"bucket_cap_mb": 3.0}, {"broadcast_buffers": False}, {"use_bucket": False}])
def test_ddp_refuses_ranks_with_different_settings(option: dict[str, Any]) -> None:
    kind = nn.parallel.DistributedDataParallel
    for error in outcome(2, lambda: kind(nn.Linear(2, 2), **(option if dist.get_rank() else {}))):
        assert f"DistributedDataParallel: {next(iter(option))} is " in str(error)


# Layers of their own are gathered in the order in which forwards call them.
@pytest.mark.parametrize(
    ("what", "kind"),
    [(what, kind) for what in list(MODELS)[:6] for kind in ("whole", "layers") if (what, kind) != ("order", "layers")],
)
def test_fsdp_tells_ranks_with_different_models(what: str, kind: str) -> None:
    good, bad, _ = MODELS[what]

    def rank() -> None:
        model = bad() if dist.get_rank() == BAD else good()
        model = fully_shard(model) if kind == "whole" or isinstance(model, Shaped) else sharded(model)
        for _ in range(2):
            model(oneflow.ones(2, 4).to(next(model.parameters()).dtype)).sum().backward()
        dist.barrier()

    for error in outcome(2, rank):
        assert isinstance(error, RuntimeError)
        assert "out of step" in str(error), error


def test_ranks_that_call_layers_in_different_orders_or_leave_some_out() -> None:
    """DDP gives the average; with FSDP ranks would compute with each other's layers."""

    def grads(calls: str, kind: Callable[..., Any]) -> list[Any]:
        oneflow.manual_seed(0)
        model = Layers("abc", calls)
        kind(model)(oneflow.ones(2, 4)).square().sum().backward()
        return [None if p.grad is None else p.grad.clone() for p in model.parameters()]

    def one(model: Any) -> Any:
        return model

    def looks(model: Any) -> Any:
        # One rank that looks for unused parameters is enough.
        return ddp(model, find_unused_parameters=bool(dist.get_rank()))

    def own(both: tuple[str, str], kind: Callable[..., Any]) -> list[Any]:
        return grads(both[dist.get_rank()], kind)

    for both in (("abc", "bac"), ("ac", "bc")):
        each = [grads(calls, one) for calls in both]
        expected = [sum(g for g in pair if g is not None) / 2 for pair in zip(*each, strict=True)]
        for got in run_ranks(2, own, both, looks):
            for mine, right in zip(got, expected, strict=True):
                assert oneflow.allclose(mine, right, rtol=1e-5)
        for error in outcome(2, functools.partial(own, both, sharded)):
            assert "out of step" in str(error)
            assert "for the parameters weight [4, 4], bias [4] of module '" in str(error)
