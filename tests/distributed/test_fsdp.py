"""fully_shard and FullyShardedDataParallel: ranks train as one process does, and each holds its slice of everything."""

from __future__ import annotations

import copy
import gc
import math
import sys
import weakref
from pathlib import Path
from typing import Any

import oneflow as torch
import oneflow.nn as nn
import pytest
from oneflow import distributed as dist
from oneflow.distributed.device_mesh import init_device_mesh
from oneflow.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    FullStateDictConfig,
    FullyShardedDataParallel,
    MixedPrecision,
    MixedPrecisionPolicy,
    ShardingStrategy,
    StateDictType,
    fully_shard,
)
from oneflow.distributed.fsdp.wrap import ModuleWrapPolicy, size_based_auto_wrap_policy
from oneflow.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from oneflow.distributed.tensor.debug import CommDebugMode
from oneflow.testing import run_ranks

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "gpt"))

from model import GPT, GPTConfig

CONFIG = GPTConfig(vocabulary=50, block_size=16, n_layers=2, n_heads=4, width=32, dropout=0.0)
BATCH, N_STEPS = 8, 3


def batches() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    size = (BATCH, CONFIG.block_size + 1)
    return [torch.randint(0, CONFIG.vocabulary, size, generator=generator) for _ in range(N_STEPS)]


def gpt(dtype: Any) -> nn.Module:
    torch.manual_seed(0)
    return GPT(CONFIG).to(dtype)


def train(model: nn.Module, micro: int = 1, after: Any = None) -> list[float]:
    """Train on this rank's part of each batch; return the losses of the whole batches."""
    rank, n = dist.get_rank(), dist.get_world_size()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for windows in batches():
        total = 0.0
        parts = windows.chunk(n)[rank].chunk(micro)
        for i, part in enumerate(parts):
            if isinstance(model, FSDPModule):
                model.set_requires_gradient_sync(i + 1 == micro)
            loss = model(part[:, :-1], part[:, 1:]) / micro
            loss.backward()
            total += loss.item()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        assert norm.full_tensor().item() > 0 if norm.is_global else norm.item() > 0
        if after is not None:
            after(model)
        optimizer.step()
        optimizer.zero_grad()
        mean = torch.tensor(total, dtype=torch.float64)
        dist.all_reduce(mean, dist.ReduceOp.AVG)
        losses.append(mean.item())
    return losses


def sharded(dtype: Any, **options: Any) -> nn.Module:
    model = gpt(dtype)
    for block in model.blocks:
        fully_shard(block, **options)
    return fully_shard(model, **options)


def bytes_of_whole(model: nn.Module) -> int:
    """Bytes that modules hold beside their slices."""
    states = {id(m._fsdp_state): m._fsdp_state for m in model.modules() if isinstance(m, FSDPModule)}
    return sum(p.n_bytes() for s in states.values() if s.group is not None for p in s.group.params)


def held(model: nn.Module, optimizer: Any = None) -> int:
    tensors = [t for p in model.parameters() for t in (p, p.grad) if t is not None]
    if optimizer is not None:
        tensors += [t for s in optimizer.state.values() for t in s.values() if t.dim()]
    return sum(t._local_tensor.numel() * t.element_size() for t in tensors) + bytes_of_whole(model)


@pytest.fixture(scope="module")
def alone() -> dict[Any, list[float]]:
    return {dtype: train(gpt(dtype)) for dtype in (torch.float32, torch.float64)}


FORMS = {
    "plain": {},
    "kept after forward": {"reshard_after_forward": False},
    "freed at the root too": {"reshard_after_forward": True},
    "offload": {"offload_policy": CPUOffloadPolicy()},
    "other dimension": {"shard_placement_fn": lambda p: Shard(p.dim() - 1)},
}


@pytest.mark.parametrize("form, n", [*[(form, 2) for form in FORMS], ("plain", 3)])
def test_losses_are_those_of_one_process(alone: Any, form: str, n: int) -> None:
    expected = alone[torch.float64]

    def rank() -> Any:
        model = sharded(torch.float64, **FORMS[form])
        seen = []
        losses = train(model, after=lambda m: seen.append((bytes_of_whole(m), held(m))))
        whole = sum(p.numel() * p.element_size() for p in model.parameters())
        return losses, seen, whole

    for losses, seen, whole in run_ranks(n, rank):
        # Three ranks do not divide the batch of eight: the averages differ.
        if n == 2:
            assert losses == pytest.approx(expected, rel=1e-9)
        for beside, all_ in seen:
            assert beside == 0
            # Parameters and gradients.
            assert all_ <= 1.1 * 2 * whole / n


def test_float32_and_micro_batches(alone: Any) -> None:
    def rank(micro: int) -> list[float]:
        return train(sharded(torch.float32), micro)

    for micro in (1, 2):
        for losses in run_ranks(2, rank, micro):
            assert losses == pytest.approx(alone[torch.float32], rel=1e-5)


def test_a_rank_holds_its_share_between_steps_and_two_layers_more_inside() -> None:
    def rank() -> Any:
        model = sharded(torch.float32)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        largest = 0

        def look(*_: Any) -> None:
            nonlocal largest
            largest = max(largest, bytes_of_whole(model))

        for block in model.blocks:
            block.attention.register_forward_hook(look)
            block.attention.register_full_backward_hook(look)
        model(batches()[0][:, :-1], batches()[0][:, 1:]).backward()
        optimizer.step()
        whole = sum(p.numel() * p.element_size() for p in model.parameters())
        layer = sum(p.numel() * p.element_size() for p in model.blocks[0].parameters())
        return held(model, optimizer), whole, largest, layer, whole - CONFIG.n_layers * layer

    for n in (2, 4):
        for own, whole, largest, layer, root in run_ranks(n, rank):
            # Parameters, gradients and two moments.
            assert own <= 1.1 * 4 * whole / n
            assert layer <= largest <= root + 2 * layer


def test_hybrid_mesh_mixed_precision_and_frozen_parameters(alone: Any) -> None:
    def hybrid() -> list[float]:
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard"))
        return train(sharded(torch.float64, mesh=mesh))

    for losses in run_ranks(4, hybrid):
        assert losses == pytest.approx(alone[torch.float64], rel=1e-9)

    def mixed() -> Any:
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
        model = sharded(torch.float32, mp_policy=policy)
        losses = train(model)
        return losses, {p.dtype for p in model.parameters()}

    for losses, dtypes in run_ranks(2, mixed):
        assert losses == pytest.approx(alone[torch.float32], rel=2e-2)
        assert dtypes == {torch.float32}

    def frozen(shards: bool) -> Any:
        torch.manual_seed(0)
        model = nn.Sequential(*[nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8)) for _ in range(3)])
        for layer in model:
            layer[0].requires_grad_(False)
            if shards:
                fully_shard(layer)
        if shards:
            fully_shard(model)
        x = torch.randn(4, 8, generator=torch.Generator().manual_seed(3))
        model(x).square().mean().backward()
        grads = [p.grad.full_tensor() if shards else p.grad for p in model.parameters() if p.requires_grad]
        assert all(p.grad is None for p in model.parameters() if not p.requires_grad)
        return torch.cat([g.reshape(-1) for g in grads]).tolist()

    expected = frozen(False)
    for grads in run_ranks(2, frozen, True):
        assert grads == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_shared_parameters_unused_ones_and_recomputation() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(7, 4)
            self.inner = nn.Linear(4, 4)
            self.unused = nn.Linear(4, 4)
            self.head = nn.Linear(4, 7, bias=False)
            self.head.weight = self.table.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            hidden = self.table(x)
            for _ in range(2):  # Twice through one sharded module.
                hidden = torch.utils.checkpoint.checkpoint(self.inner, hidden, use_reentrant=False)
            return self.head(hidden)

    def gradients(shards: bool) -> Any:
        torch.manual_seed(0)
        model = Tied()
        if shards:
            fully_shard(model.inner)
            fully_shard(model)
        x = torch.arange(6).view(2, 3)
        for _ in range(2):
            model(x).logsumexp(-1).sum().backward()
        grads = {name: p.grad for name, p in model.named_parameters()}
        return {k: g if g is None else (g.full_tensor() if shards else g).tolist() for k, g in grads.items()}

    expected = gradients(False)
    for found in run_ranks(2, gradients, True):
        assert found.keys() == expected.keys()
        for name, grad in expected.items():
            if grad is None:
                assert found[name] is None
            else:
                assert torch.allclose(torch.tensor(found[name]), torch.tensor(grad), atol=1e-5)


def test_state_dictionaries_methods_and_refusals() -> None:
    def rank() -> None:
        torch.manual_seed(0)
        plain = nn.Sequential(nn.Linear(5, 3), nn.Linear(3, 2))
        whole = {k: v.clone() for k, v in plain.state_dict().items()}
        model = fully_shard(plain)
        assert type(model).__name__ == "FSDPSequential" and isinstance(model, nn.Sequential)
        state = model.state_dict()
        assert all(isinstance(v, DTensor) and v.full_tensor().equal(whole[k]) for k, v in state.items())
        model.unshard()
        assert not model[0].weight.is_global and model[0].weight.shape == (3, 5)
        assert all(v.is_global for v in model.state_dict().values())
        assert model[0].weight.is_global
        model.load_state_dict({k: v + 1 for k, v in whole.items()})
        assert model.state_dict()["1.bias"].full_tensor().equal(whole["1.bias"] + 1)
        with torch.no_grad():
            assert model(torch.ones(1, 5)).shape == (1, 2)
        with pytest.raises(ValueError, match="was sharded before"):
            fully_shard(model)
        with pytest.raises(ValueError, match="scalar"):
            broken = nn.Linear(1, 1)
            broken.scale = nn.Parameter(torch.tensor(1.0))
            fully_shard(broken)
        with pytest.raises(ValueError, match="forward"):
            fully_shard(nn.ModuleList([nn.Linear(1, 1)]))

    run_ranks(2, rank)


def test_the_wrapper_of_the_first_fsdp(alone: Any) -> None:
    block = type(gpt(torch.float32).blocks[0])

    def rank(strategy: str, policy: Any) -> Any:
        model = gpt(torch.float64)
        if dist.get_rank() == 1:
            with torch.no_grad():
                for p in model.parameters():
                    p.zero_()
        names = [name for name, _ in model.named_parameters()]
        strategy = ShardingStrategy[strategy]
        model = FullyShardedDataParallel(
            model, sharding_strategy=strategy, auto_wrap_policy=policy, sync_module_states=True, use_orig_params=True
        )
        assert [name for name, _ in model.named_parameters()] == names
        losses = train(model)
        whole = {k: v.clone() for k, v in model.state_dict().items()}
        assert not any(v.is_global for v in whole.values())
        with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
            slices = model.state_dict()
        assert all(v.full_tensor().equal(whole[k]) for k, v in slices.items() if v.is_global)
        config = FullStateDictConfig(rank0_only=True)
        with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, config):
            assert bool(model.state_dict()) == (dist.get_rank() == 0)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        model(batches()[0][:, :-1], batches()[0][:, 1:]).backward()
        optimizer.step()
        of_optimizer = FullyShardedDataParallel.optim_state_dict(model, optimizer)
        assert of_optimizer["state"][names[0]]["exp_avg"].shape == whole[names[0]].shape
        again = torch.optim.AdamW(model.parameters(), lr=0.2)
        again.load_state_dict(FullyShardedDataParallel.optim_state_dict_to_load(model, again, of_optimizer))
        first, second = (o.state[p]["exp_avg"] for o in (optimizer, again) for p in [next(model.parameters())])
        assert first.sbp == second.sbp and first.full_tensor().equal(second.full_tensor())
        assert again.param_groups[0]["lr"] == 0.1
        model.load_state_dict({k: v * 2 for k, v in whole.items()})
        with FullyShardedDataParallel.summon_full_params(model):
            first = next(model.module.parameters())
            assert not first.is_global and torch.equal(first, whole[names[0]] * 2)
            with torch.no_grad():
                first.fill_(3.0)
        assert model.state_dict()[names[0]].eq(3.0).all()
        return losses

    cases = [
        ("FULL_SHARD", ModuleWrapPolicy({block})),
        ("SHARD_GRAD_OP", lambda **k: size_based_auto_wrap_policy(**k, min_num_params=5000)),
        ("NO_SHARD", None),
        ("HYBRID_SHARD", {block}),
    ]
    for strategy, policy in cases:
        for losses in run_ranks(2, rank, strategy, policy):
            assert losses == pytest.approx(alone[torch.float64], rel=1e-9)

    def pairs() -> list[float]:
        inner, _ = dist.new_subgroups(2)
        outer, _ = dist.new_subgroups_by_enumeration([[0, 2], [1, 3]])
        hybrid = ShardingStrategy.HYBRID_SHARD
        model = FullyShardedDataParallel(gpt(torch.float64), (inner, outer), hybrid, auto_wrap_policy={block})
        assert model.device_mesh.shape == (2, 2) and model.module.head.weight.to_local().shape == (25, 32)
        return train(model)

    for losses in run_ranks(4, pairs):
        assert losses == pytest.approx(alone[torch.float64], rel=1e-9)

    def options() -> None:
        mixed = MixedPrecision(param_dtype=torch.bfloat16, buffer_dtype=torch.bfloat16)
        model = FullyShardedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)), mixed_precision=mixed)
        assert model(torch.ones(3, 4)).dtype == torch.bfloat16
        with model.no_sync():
            model(torch.ones(3, 4)).float().sum().backward()
        assert model.module[0].weight.grad is None
        model(torch.ones(3, 4)).float().sum().backward()
        assert model.module[0].weight.grad.is_global
        assert model.clip_grad_norm_(1.0).dim() == 0
        with pytest.raises(NotImplementedError, match="keep_low_precision_grads"):
            FullyShardedDataParallel(nn.Linear(1, 1), mixed_precision=MixedPrecision(keep_low_precision_grads=True))

    run_ranks(2, options)


class Layers(nn.Module):
    """Three layers, of which a call runs those that it names."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(3)])

    def forward(self, x: torch.Tensor, which: tuple[int, ...] = (0, 1, 2)) -> torch.Tensor:
        for i in which:
            x = self.layers[i](x)
        return x


def test_a_layer_is_gathered_while_the_one_before_it_runs() -> None:
    """From the second forward on, in the order of the last one; what is gathered and not needed is freed."""

    def rank() -> list[list[bool]]:
        model, seen = Layers(), []
        for layer in model.layers:
            fully_shard(layer)
        fully_shard(model)
        groups = [layer._state().group for layer in model.layers]
        for layer in model.layers:
            layer[0].register_forward_pre_hook(lambda *_: seen.append([group.is_ready() for group in groups]))
        for which in ((0, 1, 2), (0, 1, 2), (0, 2), (0, 2, 1), (0, 2, 1)):
            seen.append([])
            with torch.no_grad():
                model(torch.ones(2, 4), which)
            assert not any(group.is_ready() for group in groups)
        found = list(seen)
        torch.distributed.reset_wire_counters()
        for _ in range(2):
            model(torch.ones(2, 4), (0, 2, 1)).sum().backward()
        assert torch.distributed.wire_calls()["all_gather"] == 2 * 6
        return found

    on, off = True, False
    first = [[], [on, off, off], [off, on, off], [off, off, on]]
    second = [[], [on, on, off], [off, on, on], [off, off, on]]
    skipped = [[], [on, on, off], [off, on, on]]
    # Where the order differs from the last one, nothing is gathered ahead.
    changed = [[], [on, off, on], [off, off, on], [off, on, off]]
    alike = [[], [on, off, on], [off, on, on], [off, on, off]]
    for seen in run_ranks(2, rank):
        assert seen == first + second + skipped + changed + alike


# Dimensions that two and three ranks do not divide, or that are shorter than they are many.
UNEVEN = [(1, 16), (3,), (1,), (5, 3), (2, 1), (4, 1, 3)]
OPTIMIZERS = {
    "Adadelta": {},
    "Adagrad": {"initial_accumulator_value": 0.1},
    "Adam": {},
    "Adam amsgrad": {"amsgrad": True},
    "AdamW": {},
    "Adamax": {},
    "ASGD": {},
    "NAdam": {},
    "RAdam": {},
    "RMSprop": {"momentum": 0.9, "centered": True},
    "Rprop": {},
    "SGD": {},
    "SGD momentum": {"momentum": 0.9, "dampening": 0.1},
}


class Uneven(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(2)
        draw = [torch.randn(*shape, dtype=torch.float64, generator=generator) for shape in UNEVEN]
        self.weights = nn.ParameterList([nn.Parameter(w) for w in draw])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return sum(((w * x).sin() * (i + 1)).square().sum() for i, w in enumerate(self.weights))


@pytest.mark.parametrize("dim", [0, -1])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_keep_state_of_uneven_and_empty_slices(name: str, dim: int) -> None:
    def rank(shards: bool) -> list[Any]:
        model = Uneven()
        if shards:
            fully_shard(model, shard_placement_fn=lambda p: Shard(dim % p.dim()))
        optimizer = getattr(torch.optim, name.split()[0])(model.parameters(), lr=0.01, **OPTIMIZERS[name])
        for step in range(3):
            model(torch.tensor(0.5 + step, dtype=torch.float64)).backward()
            optimizer.step()
            optimizer.zero_grad()
        for p in model.parameters() if shards else ():
            states = [s for s in optimizer.state[p].values() if isinstance(s, torch.Tensor) and s.shape == p.shape]
            assert all(s.sbp == p.sbp for s in states if s.dim())
        return [(p.full_tensor() if shards else p).flatten().tolist() for p in model.parameters()]

    expected = rank(False)
    for n in (2, 3):
        for found in run_ranks(n, rank, True):
            for own, right in zip(found, expected, strict=True):
                assert own == pytest.approx(right, rel=1e-9, abs=1e-12)


def test_whole_parameters_go_at_once() -> None:
    """Also where the collector of cycles does not run: two copies of a model need not fit the memory."""

    def rank() -> list[bool]:
        model = nn.Sequential(nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 4)))
        wholes = [weakref.ref(p) for p in model.parameters()]
        gc.disable()
        try:
            fully_shard(model[1])
            fully_shard(model)
            return [whole() is None for whole in wholes]
        finally:
            gc.enable()

    assert run_ranks(1, rank) == [[True] * 4]


@pytest.mark.parametrize("form", ["fully_shard", "FSDP"])
def test_hooks_of_parameters_get_their_slices_of_gradients(form: str) -> None:
    """Once for each reduction; what a hook of a gradient returns takes its place."""

    def rank() -> tuple[list[str], list[bool]]:
        model = nn.Linear(4, 3)
        wrapped: Any = fully_shard(model) if form == "fully_shard" else FullyShardedDataParallel(model)
        said: list[str] = []
        weight, bias = model.weight, model.bias
        weight.register_post_accumulate_grad_hook(lambda p: said.append(f"{list(p.grad.shape)}"))
        bias.register_hook(lambda grad: grad * 2)
        for _ in range(2):
            wrapped(torch.ones(2, 4)).sum().backward()
        grads = [p.grad.full_tensor() for p in (weight, bias)]
        return said, [bool((grad == 4 * (i + 1)).all()) for i, grad in enumerate(grads)]

    assert run_ranks(2, rank) == [(["[3, 4]", "[3, 4]"], [True, True])] * 2


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, math.inf, 0.0])
@pytest.mark.parametrize("mesh_shape", [(3,), (2, 2)])
def test_norms_of_all_gradients_are_reduced_together(norm_type: float, mesh_shape: tuple[int, ...]) -> None:
    """As many sums travel as there are axes that split gradients, whatever the number of parameters."""
    sizes = [(5, 3), (1, 4), (2, 2), (7,), (4, 6)]
    grads = [torch.randn(s, generator=torch.Generator().manual_seed(i)) for i, s in enumerate(sizes)]
    expected = nn.utils.get_total_norm(grads, norm_type).item()

    def rank() -> tuple[float, list[list[float]], int]:
        mesh = init_device_mesh("cpu", mesh_shape)
        params = []
        for i, grad in enumerate(grads):
            layout: list[Any] = [Shard(i % grad.dim()), *[Replicate()] * (len(mesh_shape) - 1)]
            params.append(nn.Parameter(distribute_tensor(torch.zeros(grad.shape), mesh, layout)))
            params[-1].grad = distribute_tensor(grad, mesh, layout)
        with CommDebugMode() as mode:
            norm = nn.utils.get_total_norm([p.grad for p in params], norm_type)
        nn.utils.clip_grads_with_norm_(params, 0.5, norm)
        return norm.full_tensor().item(), [p.grad.full_tensor().tolist() for p in params], mode.get_total_counts()

    for norm, clipped, n_collectives in run_ranks(math.prod(mesh_shape), rank):
        assert norm == pytest.approx(expected, rel=1e-5)
        for got, grad in zip(clipped, grads, strict=True):
            assert torch.allclose(torch.tensor(got), grad * min(0.5 / (expected + 1e-6), 1.0), atol=1e-6)
        assert n_collectives == 1 or norm_type == 0.0


def test_sharded_modules_refuse_deep_copies() -> None:
    """As in PyTorch: their hooks gather the parameters of the first one."""

    def rank() -> None:
        model = fully_shard(nn.Sequential(nn.Linear(4, 3)))
        for module in (model, fully_shard(nn.Linear(4, 3))):
            with pytest.raises(AssertionError, match="FSDP does not support deepcopy: hooks of FSDP"):
                copy.deepcopy(module)

    run_ranks(2, rank)
