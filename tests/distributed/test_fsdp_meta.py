"""Modules that are sharded on the meta device: the whole of a parameter is never made, and values come later."""

from __future__ import annotations

from typing import Any

import oneflow
import oneflow.distributed as dist
import pytest
from oneflow import nn
from oneflow.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict
from oneflow.distributed.fsdp import FullyShardedDataParallel, fully_shard
from oneflow.distributed.tensor import distribute_tensor
from oneflow.testing import run_ranks


def model(device: str = "cpu") -> nn.Module:
    oneflow.manual_seed(0)
    layers = [nn.Linear(6, 10, device=device), nn.ReLU(), nn.Linear(10, 5, device=device)]
    return nn.Sequential(*layers, nn.BatchNorm1d(5, device=device))


def losses(module: Any) -> list[float]:
    optimizer, found = oneflow.optim.AdamW(module.parameters(), lr=0.1), []
    for step in range(3):
        oneflow.manual_seed(100 + step)
        loss = module(oneflow.randn(8, 6)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def from_state_dict(module: nn.Module, values: dict[str, Any]) -> None:
    set_model_state_dict(module, values, options=StateDictOptions(full_state_dict=True))


def by_hand(module: nn.Module, values: dict[str, Any]) -> None:
    with oneflow.no_grad():
        for name, param in module.named_parameters():
            param.copy_(distribute_tensor(values[name], param.device_mesh, param.placements))
        for name, buffer in module.named_buffers():
            buffer.copy_(values[name])


@pytest.mark.parametrize("fill", [from_state_dict, by_hand])
@pytest.mark.parametrize("shape", [(4,), (2, 2)])
def test_values_come_later(fill: Any, shape: tuple[int, ...]) -> None:
    def rank() -> list[float]:
        values = {name: t.clone() for name, t in model().state_dict().items()}
        mesh = dist.init_device_mesh("cpu", shape, mesh_dim_names=("replicate", "shard")[-len(shape) :])
        module = model("meta")
        for layer in (module[0], module):
            fully_shard(layer, mesh=mesh)
        module.to_empty(device="cpu")
        module(oneflow.randn(8, 6))
        module.reshard()
        fill(module, values)
        return losses(module)

    expected = losses(model())
    # Around all ranks: the filters of warnings are those of the process, and ranks are its threads.
    with pytest.warns(UserWarning, match="nobody has written their values: .*weight.*; initialise or load") as heard:
        found = run_ranks(4, rank)
    assert any("values: 2.weight" in str(w.message) for w in heard)
    for of_rank in found:
        assert of_rank == pytest.approx(expected, rel=1e-5)


def test_modules_initialise_their_slices() -> None:
    """The numbers are those of the whole: each rank draws its slice of them."""

    def rank() -> Any:
        module = nn.Linear(6, 10, device="meta")
        fully_shard(module)
        module.to_empty(device="cpu")
        oneflow.manual_seed(5)
        module.reset_parameters()
        return module.weight.full_tensor().tolist(), module(oneflow.ones(1, 6)).shape

    oneflow.manual_seed(5)
    whole = nn.Linear(6, 10)
    for weight, shape in run_ranks(2, rank):
        assert weight == whole.weight.tolist() and shape == (1, 10)


def test_the_older_class_gives_them_values() -> None:
    def rank() -> Any:
        module = nn.Sequential(nn.Linear(6, 10, device="meta"))
        oneflow.manual_seed(7)
        by_default = FullyShardedDataParallel(module)
        filled = []

        def fill(module: nn.Module) -> None:
            filled.append(type(module).__name__)
            module.to_empty(device="cpu", recurse=False)
            for param in module.parameters(recurse=False):
                nn.init.ones_(param)

        ones = FullyShardedDataParallel(nn.Sequential(nn.Linear(6, 10, device="meta")), param_init_fn=fill)
        with pytest.raises(ValueError, match=r"has left \['weight', 'bias'\] of Linear on meta"):
            FullyShardedDataParallel(nn.Linear(2, 2, device="meta"), param_init_fn=lambda module: None)
        x = oneflow.ones(1, 6)
        return by_default(x).tolist(), ones(x).tolist(), filled

    oneflow.manual_seed(7)
    whole = nn.Linear(6, 10)(oneflow.ones(1, 6))
    for by_default, ones, filled in run_ranks(2, rank):
        assert oneflow.allclose(oneflow.tensor(by_default), whole)
        assert ones == [[7.0] * 10] and filled == ["Linear"]
