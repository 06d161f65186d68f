"""Hooks of DistributedDataParallel, uneven inputs, shares of optimizer states, averages of parameters."""

from __future__ import annotations

from typing import Any

import oneflow as torch
import oneflow.nn as nn
import pytest
from oneflow import distributed as dist
from oneflow.distributed.algorithms.ddp_comm_hooks import DDPCommHookType, register_ddp_comm_hook
from oneflow.distributed.algorithms.ddp_comm_hooks import default_hooks as hooks
from oneflow.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook
from oneflow.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from oneflow.distributed.algorithms.join import Join, Joinable
from oneflow.distributed.algorithms.model_averaging.averagers import PeriodicModelAverager
from oneflow.distributed.optim import PostLocalSGDOptimizer, ZeroRedundancyOptimizer
from oneflow.nn.parallel import DistributedDataParallel
from oneflow.testing import run_ranks

N = 2


def net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 12))


def data(step: int, rank: int) -> torch.Tensor:
    return torch.randn(6, 12, generator=torch.Generator().manual_seed(10 * step + rank))


def train(register: Any, n_steps: int = 6) -> Any:
    model = DistributedDataParallel(net(), bucket_cap_mb=1e-3)
    if register is not None:
        register(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    losses = []
    for step in range(n_steps):
        dist.reset_wire_counters()
        x = data(step, dist.get_rank())
        loss = (model(x) - x.roll(1, 1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses, dist.wire_bytes()["all_reduce"], [p.tolist() for p in model.parameters()]


def custom(seen: list[Any]) -> Any:
    def hook(state: Any, bucket: dist.GradBucket) -> Any:
        seen.append((state, bucket.index(), bucket.is_last()))
        assert bucket.buffer().dim() == 1
        for grad, parameter in zip(bucket.gradients(), bucket.parameters(), strict=True):
            assert grad.shape == parameter.shape
        future = hooks.allreduce_hook(None, bucket)
        return future.then(lambda f: [f.value() * 1.0])

    return lambda model: model.register_comm_hook("state", hook)


def test_hooks_of_gradients() -> None:
    expected = run_ranks(N, train, None)

    def closeness(register: Any, n_steps: int = 6) -> tuple[float, float]:
        found = run_ranks(N, train, register, n_steps)
        # Replicas stay equal.
        assert found[0][2] == found[1][2]
        off = max(abs(a - b) for a, b in zip(found[0][0], expected[0][0], strict=False))
        return off, found[0][1] / expected[0][1]

    seen: list[Any] = []
    assert closeness(custom(seen)) == (0.0, 1.0)
    assert {state for state, *_ in seen} == {"state"}
    assert {i for _, i, last in seen if last} == {max(i for _, i, _ in seen)}
    for kind in (DDPCommHookType.ALLREDUCE, DDPCommHookType.FP16_COMPRESS, DDPCommHookType.BF16_COMPRESS):
        off, sent = closeness(lambda model, kind=kind: register_ddp_comm_hook(kind, model))
        assert (off, sent) == (0.0, 1.0) if kind is DDPCommHookType.ALLREDUCE else (0 < off < 2e-3 and sent == 0.5)
    for wrapper in (hooks.fp16_compress_wrapper, hooks.bf16_compress_wrapper):
        off, sent = closeness(lambda model, w=wrapper: model.register_comm_hook(None, w(hooks.allreduce_hook)))
        assert 0 < off < 2e-3 and sent == 0.5
    # Two columns of sixteen: close, with a part of what is sent; all columns are the whole.
    few = PowerSGDState
    off, sent = closeness(lambda m: m.register_comm_hook(few(None, 2, start_powerSGD_iter=2), powerSGD_hook))
    assert 0 < off < 0.2 and sent < 0.5
    exact = {"matrix_approximation_rank": 12, "start_powerSGD_iter": 2, "min_compression_rate": 0.1}
    off, sent = closeness(lambda m: m.register_comm_hook(few(None, **exact), powerSGD_hook))
    assert off < 1e-4

    def refused() -> None:
        model = DistributedDataParallel(net())
        with pytest.raises(TypeError, match="callable"):
            model.register_comm_hook(None, 3)
        model.register_comm_hook(None, hooks.allreduce_hook)
        with pytest.raises(RuntimeError, match="only be called once"):
            model.register_comm_hook(None, hooks.allreduce_hook)
        with pytest.raises(ValueError, match="start_powerSGD_iter"):
            PowerSGDState(None, start_powerSGD_iter=1)

    run_ranks(N, refused)


def test_uneven_inputs() -> None:
    counts = (2, 4)

    def rank(by_all: bool, unused: bool) -> Any:
        here = dist.get_rank()
        model = DistributedDataParallel(net(), bucket_cap_mb=1e-3, find_unused_parameters=unused)
        assert isinstance(model, Joinable)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with model.join(divide_by_initial_world_size=by_all):
            for step in range(counts[here]):
                x = data(step, here)
                optimizer.zero_grad()
                if step == 0:
                    with model.no_sync():
                        model(x).sum().backward()
                    optimizer.zero_grad()
                model(x).square().mean().backward()
                optimizer.step()
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()])

    def alone(by_all: bool) -> torch.Tensor:
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(max(counts)):
            active = [r for r in range(N) if step < counts[r]]
            optimizer.zero_grad()
            total = sum(model(data(step, r)).square().mean() for r in active)
            (total / (N if by_all else len(active))).backward()
            optimizer.step()
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()])

    for by_all in (True, False):
        for unused in (False, True):
            for found in run_ranks(N, rank, by_all, unused):
                assert torch.allclose(found, alone(by_all), rtol=1e-4, atol=1e-6)

    def early() -> str:
        model = DistributedDataParallel(net())
        with pytest.raises(RuntimeError, match="exhausted") as caught:
            with Join([model], throw_on_early_termination=True):
                for step in range(counts[dist.get_rank()]):
                    model(data(step, 0)).sum().backward()
        return str(caught.value)

    others = "Detected at least one rank that exhausted inputs. Throwing across all ranks."
    for r, said in enumerate(run_ranks(N, early)):
        assert said == (f"Rank {r} exhausted all inputs." if counts[r] == min(counts) else others)


@pytest.mark.parametrize("kind", [torch.optim.AdamW, torch.optim.SGD])
def test_shares_of_optimizer_states(kind: Any) -> None:
    options = {"lr": 0.1, **({"momentum": 0.9} if kind is torch.optim.SGD else {})}

    def steps(model: nn.Module, optimizer: Any, first: int, n: int) -> None:
        for step in range(first, first + n):
            optimizer.zero_grad()
            sum(model(data(step, r)).square().mean() for r in range(N)).backward()
            optimizer.step()

    def whole() -> Any:
        model = net()
        optimizer = kind([{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.05}], **options)
        steps(model, optimizer, 0, 4)
        return [p.tolist() for p in model.parameters()], optimizer.state_dict()

    expected, state = whole()

    def shared() -> Any:
        model = net()
        optimizer = ZeroRedundancyOptimizer(model[0].parameters(), kind, **options)
        optimizer.add_param_group({"params": list(model[2].parameters()), "lr": 0.05})
        steps(model, optimizer, 0, 2)
        held = sum(t.numel() for s in optimizer.optim.state.values() for t in s.values() if t is not None and t.dim())
        with pytest.raises(RuntimeError, match="consolidate_state_dict"):
            optimizer.state_dict()
        optimizer.consolidate_state_dict(to=0)
        told = [optimizer.state_dict() if dist.get_rank() == 0 else None]
        dist.broadcast_object_list(told, 0)
        again = ZeroRedundancyOptimizer(
            [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": 0.05}], kind, **options
        )
        again.load_state_dict(told[0])
        steps(model, again, 2, 2)
        again.consolidate_state_dict(to=1)
        return [p.tolist() for p in model.parameters()], held, again.state_dict() if dist.get_rank() == 1 else None

    numel = sum(p.numel() for p in net().parameters())
    per = 2 if kind is torch.optim.AdamW else 1
    for found, held, consolidated in run_ranks(N, shared):
        for a, b in zip(found, expected, strict=True):
            assert torch.allclose(torch.tensor(a), torch.tensor(b), rtol=1e-5, atol=1e-6)
        assert held <= 0.6 * per * numel
        if consolidated is not None:
            assert consolidated["state"].keys() == state["state"].keys()
            for i, values in state["state"].items():
                for name, value in values.items():
                    assert torch.allclose(consolidated["state"][i][name], value, rtol=1e-4, atol=1e-6)
            assert [g["lr"] for g in consolidated["param_groups"]] == [0.1, 0.05]


def test_uneven_inputs_of_a_model_and_its_optimizer() -> None:
    def rank() -> list[float]:
        model = DistributedDataParallel(net())
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, lr=0.1)
        with Join([model, optimizer]):
            for step in range(1 + dist.get_rank()):
                optimizer.zero_grad()
                model(data(step, dist.get_rank())).square().mean().backward()
                optimizer.step()
        return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).tolist()

    first, second = run_ranks(N, rank)
    assert first == second


def test_averages_of_parameters() -> None:
    def rank() -> Any:
        here = dist.get_rank()
        model = DistributedDataParallel(net())
        state = PostLocalSGDState(None, dist.new_subgroups(1)[0], start_localSGD_iter=2)
        model.register_comm_hook(state, post_localSGD_hook)
        averager = PeriodicModelAverager(period=2, warmup_steps=2)
        optimizer = PostLocalSGDOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), averager)
        equal = []
        for step in range(6):
            optimizer.zero_grad()
            model(data(step, here)).square().mean().backward()
            optimizer.step()
            bits = [torch.zeros(12, 16), torch.zeros(12, 16)]
            dist.all_gather(bits, model.module[2].weight.detach())
            equal.append(bool(bits[0].equal(bits[1])))
        saved = optimizer.state_dict()
        assert saved["step"] == 6
        averager.step = 0
        optimizer.load_state_dict(saved)
        assert averager.step == 6
        return equal

    # Averaged gradients twice, then averaged parameters after every second step.
    for equal in run_ranks(N, rank):
        assert equal == [True, True, True, False, True, False]
