"""Parallelism that is applied to a module in place, optimizers inside of backward, and DTensors by their specs."""

from __future__ import annotations

import copy
import functools
from typing import Any

import oneflow as torch
import oneflow.nn as nn
import pytest
from oneflow import distributed as dist
from oneflow.distributed._composable import checkpoint, fully_shard, replicate
from oneflow.distributed.algorithms._checkpoint import checkpoint_wrapper as wrappers
from oneflow.distributed.device_mesh import init_device_mesh
from oneflow.distributed.fsdp.wrap import ModuleWrapPolicy, lambda_auto_wrap_policy, size_based_auto_wrap_policy
from oneflow.distributed.optim import _apply_optimizer_in_backward, _get_in_backward_optimizers
from oneflow.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from oneflow.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from oneflow.distributed.tensor.experimental import implicit_replication
from oneflow.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from oneflow.testing import run_ranks


def model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Sequential(nn.Linear(8, 8), nn.ReLU()), nn.Linear(8, 2))


def batch(rank: int) -> torch.Tensor:
    return torch.arange(12.0).reshape(3, 4) * (rank + 1) / 10


def gradients(net: nn.Module) -> dict[str, list[Any]]:
    return {name: p.grad.tolist() for name, p in net.named_parameters() if p.grad is not None}


def averaged(n: int, own: set[str] = frozenset()) -> list[dict[str, list[Any]]]:
    """What each rank should have: the average over all, or its own gradient of some parameters."""
    found = []
    for rank in range(n):
        net = model()
        net(batch(rank)).square().sum().backward()
        found.append({name: p.grad for name, p in net.named_parameters()})
    mean = {name: sum(one[name] for one in found) / n for name in found[0]}
    return [{k: (one[k] if k in own else mean[k]).tolist() for k in mean} for one in found]


def close(one: dict[str, list[Any]], other: dict[str, list[Any]]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert torch.allclose(torch.tensor(one[name]), torch.tensor(other[name]), rtol=1e-5, atol=1e-6), name


@pytest.mark.parametrize("parts", [False, True])
def test_replicate_averages_as_one_wrapper_or_by_parts(parts: bool) -> None:
    def rank() -> Any:
        net = model()
        with torch.no_grad():
            # Others get those of the first rank.
            [p.add_(dist.get_rank()) for p in net.parameters()]
        names = list(net.state_dict())
        for part in [net[0], net[2], net[3]] if parts else [net]:
            assert replicate(part) is part
        assert list(net.state_dict()) == names and isinstance(net[2], nn.Sequential)
        net(batch(dist.get_rank())).square().sum().backward()
        return gradients(net)

    for found, expected in zip(run_ranks(2, rank), averaged(2), strict=True):
        close(found, expected)


def test_replicate_leaves_ignored_modules_and_syncs_when_asked() -> None:
    def rank() -> Any:
        net = model()
        replicate(net, ignored_modules=[net[2]], device_id=torch.device("cpu"))
        net.set_requires_gradient_sync(False)
        net(batch(dist.get_rank())).square().sum().backward()
        alone = gradients(net)
        net.zero_grad()
        net.set_requires_gradient_sync(True)
        net(batch(dist.get_rank())).square().sum().backward()
        return alone, gradients(net)

    names = {name for name, _ in model().named_parameters()}
    every, some = averaged(2, names), averaged(2, {"2.0.weight", "2.0.bias"})
    for (alone, synced), one, other in zip(run_ranks(2, rank), every, some, strict=True):
        close(alone, one)
        close(synced, other)


def test_replicate_takes_hooks_meshes_and_sharded_parts() -> None:
    def rank() -> Any:
        seen: list[int] = []

        def hook(state: Any, bucket: Any) -> Any:
            seen.append(bucket.buffer().numel())
            future = torch.futures.Future()
            future.set_result(bucket.buffer().mul(0))
            return future

        net = model()
        fully_shard(net[2])
        replicate(net, device_mesh=init_device_mesh("cpu", (2,)))
        net.register_comm_hook(None, hook)
        net(batch(dist.get_rank())).square().sum().backward()
        sharded = net[2][0].weight
        assert isinstance(sharded, DTensor) and isinstance(sharded.grad, DTensor)
        assert all(not p.grad.any() for p in [*net[0].parameters(), *net[3].parameters()])
        return sum(seen)

    assert run_ranks(2, rank) == [4 * 8 + 8 + 8 * 2 + 2] * 2


def test_replicate_refuses() -> None:
    with pytest.raises(RuntimeError, match="device_id to be int"):
        replicate(model(), device_id="cpu")
    with pytest.raises(ValueError, match="replicated already"):
        replicate(replicate(model()))
    with pytest.raises(AssertionError, match="does not support deepcopy"):
        copy.deepcopy(replicate(model()))

    def rank() -> str:
        with pytest.raises(RuntimeError, match="already managed by `fully_shard`") as caught:
            replicate(fully_shard(nn.Linear(2, 2)))
        return str(caught.value)

    run_ranks(2, rank)


def test_checkpoint_of_a_module_runs_its_forward_again() -> None:
    plain, net = model(), model()
    calls: list[int] = []
    net[2][0].register_forward_hook(lambda *_: calls.append(1))
    kind, names = type(net[2]).__name__, list(net.state_dict())
    assert checkpoint(net[2]) is net[2]
    assert type(net[2]).__name__ == kind and list(net.state_dict()) == names
    for one in (plain, net):
        one(batch(0)).square().sum().backward()
    assert len(calls) == 2
    assert gradients(net) == gradients(plain)
    copied = copy.deepcopy(net)
    copied(batch(0)).square().sum().backward()
    assert len(calls) == 4
    with pytest.raises(ValueError, match="checkpointed already"):
        checkpoint(net[2])
    with pytest.raises(NotImplementedError, match="use_reentrant"):
        checkpoint(model(), use_reentrant=True)


@pytest.mark.parametrize("n_passes", [1, 3])
def test_optimizers_in_backward_step_as_others_do(n_passes: int) -> None:
    plain, net = model(), model()
    outside = [torch.optim.SGD(plain[:3].parameters(), lr=0.1), torch.optim.Adam(plain[3].parameters(), lr=0.01)]
    _apply_optimizer_in_backward(torch.optim.SGD, net[:3].parameters(), {"lr": 0.1})
    _apply_optimizer_in_backward(torch.optim.Adam, net[3].parameters(), {"lr": 0.01})
    for turn in range(n_passes):
        net(batch(turn)).square().sum().backward()
        plain(batch(turn)).square().sum().backward()
        for optimizer in outside:
            optimizer.step()
            optimizer.zero_grad()
    assert all(p.grad is None for p in net.parameters())
    for p, q in zip(net.parameters(), plain.parameters(), strict=True):
        assert torch.equal(p, q)
    assert len(_get_in_backward_optimizers(net)) == len(list(net.parameters()))


def test_optimizers_in_backward_may_be_several_or_wait() -> None:
    p = nn.Parameter(torch.ones(2))
    _apply_optimizer_in_backward(torch.optim.SGD, [p], {"lr": 1.0})
    _apply_optimizer_in_backward(torch.optim.SGD, [p], {"lr": 10.0})
    (p * 2).sum().backward()
    assert p.tolist() == [-21.0, -21.0] and p.grad is None
    q = nn.Parameter(torch.ones(2))
    _apply_optimizer_in_backward(torch.optim.SGD, [q], {"lr": 1.0}, register_hook=False)
    q.sum().backward()
    assert q.tolist() == [1.0, 1.0] and q.grad is not None
    q._in_backward_optimizers[0].step()
    assert q.tolist() == [0.0, 0.0]


def test_local_tensors_count_as_replicated_where_that_is_asked_for() -> None:
    def rank() -> Any:
        mesh = init_device_mesh("cpu", (2,))
        x = distribute_tensor(torch.arange(6.0).reshape(2, 3), mesh, [Shard(0)])
        other, weight = torch.full((3,), 2.0), torch.ones(2, 3)
        with pytest.raises(RuntimeError, match="global"):
            x * other
        with implicit_replication():
            total = [x * other, other + x, nn.functional.linear(x, weight), torch.where(x > 2, x, other)]
            assert not (other + 1).is_global
        with pytest.raises(RuntimeError, match="global"):
            x + other
        return [value.full_tensor().tolist() for value in total]

    x, other = torch.arange(6.0).reshape(2, 3), torch.full((3,), 2.0)
    expected = [x * other, other + x, x @ torch.ones(3, 2), torch.where(x > 2, x, other)]
    assert run_ranks(2, rank) == [[value.tolist() for value in expected]] * 2


def test_a_dtensor_has_a_spec_and_is_made_of_one() -> None:
    def rank() -> Any:
        mesh = init_device_mesh("cpu", (2, 2))
        x = distribute_tensor(torch.arange(8.0).reshape(4, 2), mesh, [Shard(0), Replicate()])
        spec = x._spec
        assert spec == distribute_tensor(torch.zeros(4, 2), mesh, [Shard(0), Replicate()])._spec
        assert hash(spec) == hash(x.clone()._spec)
        assert (spec.dim_map, spec.sums, spec.num_shards, spec.is_sharded()) == ([0, -1], [], 2, True)
        assert DTensorSpec.from_dim_map(mesh, [0, -1], [1]).placements[1].is_partial()
        again = DTensor(x.to_local(), spec, requires_grad=True)
        assert again.requires_grad and again.is_leaf and torch.equal(again.full_tensor(), x.full_tensor())
        with pytest.raises(TypeError, match="distribute_tensor"):
            DTensor(x.to_local(), DTensorSpec(mesh, spec.placements), requires_grad=False)
        assert spec.tensor_meta == TensorMeta(torch.Size([4, 2]), (2, 1), torch.float32)
        return again.to_local().shape

    assert run_ranks(4, rank) == [torch.Size([2, 2])] * 4


def test_a_model_of_the_meta_device_is_split_and_then_gets_memory() -> None:
    def rank() -> Any:
        mesh = init_device_mesh("cpu", (2,))
        net = nn.Sequential(nn.Linear(4, 8, device="meta"), nn.ReLU(), nn.Linear(8, 4, device="meta"))
        parallelize_module(net, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
        net.to_empty(device="cpu")
        for layer in (net[0], net[2]):
            nn.init.constant_(layer.weight, 0.5)
            nn.init.zeros_(layer.bias)
        return net[0].weight.to_local().shape, net(torch.ones(1, 4)).tolist()

    assert run_ranks(2, rank) == [(torch.Size([4, 4]), [[8.0] * 4])] * 2


@pytest.mark.parametrize("impl", list(wrappers.CheckpointImpl))
def test_wrapped_modules_take_arguments_by_name(impl: wrappers.CheckpointImpl) -> None:
    class Layer(nn.Linear):
        def forward(self, x: torch.Tensor, *, scale: torch.Tensor, shift: float = 0.0) -> torch.Tensor:
            return super().forward(x) * scale + shift

    torch.manual_seed(0)
    plain = Layer(3, 2)
    found = []
    for layer in (plain, wrappers.checkpoint_wrapper(copy.deepcopy(plain), impl), wrappers.offload_wrapper(plain)):
        x, scale = torch.ones(1, 3, requires_grad=True), torch.full((2,), 3.0, requires_grad=True)
        layer.weight.grad = None
        layer(x, scale=scale, shift=1.0).sum().backward()
        found.append([x.grad.tolist(), scale.grad.tolist(), layer.weight.grad.tolist()])
        assert list(layer.state_dict()) == ["weight", "bias"]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize(
    ("policy", "wrapped"),
    [
        (ModuleWrapPolicy({nn.Linear}), {"0", "2.0", "3"}),
        (functools.partial(size_based_auto_wrap_policy, min_num_params=60), {"2.0"}),
        (functools.partial(size_based_auto_wrap_policy, min_num_params=40), {"0", "2.0"}),
        (functools.partial(lambda_auto_wrap_policy, lambda_fn=lambda m: isinstance(m, nn.Sequential)), {"2"}),
    ],
)
def test_policies_choose_what_is_checkpointed(policy: Any, wrapped: set[str]) -> None:
    net, plain = model(), model()
    wrappers.apply_activation_checkpointing(net, auto_wrap_policy=policy)
    inside = "._checkpoint_wrapped_module"
    found = {name.replace(inside, "") for name, m in net.named_modules() if isinstance(m, wrappers.CheckpointWrapper)}
    assert found == wrapped
    for one in (net, plain):
        one(batch(0)).square().sum().backward()
    assert list(gradients(net).values()) == list(gradients(plain).values())
