"""fully_shard with slices and states in files: the bits of slices in memory, and memory that is free between uses."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import oneflow as torch
import pytest
from oneflow import _oneflow, nn
from oneflow.distributed.fsdp import CPUOffloadPolicy, DiskOffloadPolicy, fully_shard
from oneflow.testing import run_ranks

WIDTH, LAYERS, STEPS = 256, 4, 20
OPTIMIZERS: dict[str, Any] = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
    "momentum": lambda p: torch.optim.SGD(p, lr=1e-3, momentum=0.9),
    "lamb": lambda p: torch.optim.LAMB(p, lr=1e-3),
}


def made(policy: Any, **options: Any) -> nn.Module:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS)]
    model = nn.Sequential(*layers).to(torch.float64)
    for layer in model:
        fully_shard(layer, offload_policy=policy, **options)
    return fully_shard(model, offload_policy=policy, **options)


def step(model: nn.Module, optimizer: Any, number: int) -> bytes:
    generator = torch.Generator().manual_seed(number + 100 * torch.distributed.get_rank())
    loss = model(torch.randn(4, WIDTH, generator=generator, dtype=torch.float64)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach().numpy().tobytes()


def tensors(model: nn.Module, optimizer: Any) -> list[Any]:
    states = [t for state in optimizer.state.values() for t in state.values() if t.dim()]
    return [*model.parameters(), *states]


def trained(name: str, policy: Any, options: dict[str, Any]) -> tuple[list[bytes], list[bytes], int, int]:
    model = made(policy, **options)
    optimizer = OPTIMIZERS[name](model.parameters())
    losses = [step(model, optimizer, k) for k in range(STEPS)]
    held = tensors(model, optimizer)
    bits = [t.detach().to_local().clone().numpy().tobytes() for t in held]
    return losses, bits, *_oneflow._offloaded_bytes(held)


@pytest.mark.parametrize("options", [{}, {"reshard_after_forward": False}], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_bit_is_that_of_memory(tmp_path: Path, name: str, options: dict[str, Any]) -> None:
    expected = run_ranks(2, trained, name, None, options)
    found = run_ranks(2, trained, name, DiskOffloadPolicy(tmp_path), options)
    n_states = 1 if name == "momentum" else 2
    for (losses, bits, _, _), (other_losses, other_bits, n, _) in zip(expected, found, strict=True):
        assert other_losses == losses and other_bits == bits
        assert n == LAYERS * (1 + n_states) * WIDTH * WIDTH // 2 * 8
    # Nobody finds the files.
    assert list(tmp_path.iterdir()) == []


def test_pages_are_free_between_steps(tmp_path: Path) -> None:
    """What a step has read and written goes back to the disk; a slice is there for its gather alone."""

    def resident() -> list[int]:
        model = made(DiskOffloadPolicy(tmp_path))
        optimizer = OPTIMIZERS["adamw"](model.parameters())
        for number in range(3):
            step(model, optimizer, number)
        held = tensors(model, optimizer)
        # The thread that writes ends some time after the step.
        for _ in range(300):
            everything, here = _oneflow._offloaded_bytes(held)
            if here <= everything // 8:
                break
            torch.ones(256, 256) @ torch.ones(256, 256)
        with torch.no_grad():
            model(torch.ones(1, WIDTH, dtype=torch.float64))
        return [everything, here]

    for everything, here in run_ranks(2, resident):
        assert everything == 3 * LAYERS * WIDTH * WIDTH // 2 * 8
        assert here <= everything // 8


def test_states_that_are_loaded_lie_in_files(tmp_path: Path) -> None:
    def loaded() -> None:
        plain = made(None)
        optimizer = OPTIMIZERS["adamw"](plain.parameters())
        for number in range(2):
            step(plain, optimizer, number)
        kept = copy.deepcopy((plain.state_dict(), optimizer.state_dict()))
        model = made(DiskOffloadPolicy(tmp_path))
        model.load_state_dict(kept[0])
        other = OPTIMIZERS["adamw"](model.parameters())
        other.load_state_dict(kept[1])
        assert _oneflow._offloaded_bytes(tensors(model, other))[0] == 3 * LAYERS * WIDTH * WIDTH // 2 * 8
        for number in range(2, 4):
            assert step(model, other, number) == step(plain, optimizer, number)

    run_ranks(2, loaded)


def test_what_is_refused(tmp_path: Path) -> None:
    def refused() -> None:
        with pytest.raises(ValueError, match="there is no folder '/no/such/folder'"):
            made(DiskOffloadPolicy("/no/such/folder"))
        with pytest.raises(TypeError, match="expected an OffloadPolicy, got str"):
            made("disk")
        if Path("/dev/shm").is_dir():
            with pytest.raises(ValueError, match="tmpfs"):
                made(DiskOffloadPolicy("/dev/shm"))
        # On the host everything of a mesh of CPUs is.
        assert _oneflow._offloaded_bytes(list(made(CPUOffloadPolicy()).parameters())) == (0, 0)
        # Small slices stay.
        small = fully_shard(nn.Linear(8, 8), offload_policy=DiskOffloadPolicy(tmp_path))
        assert _oneflow._offloaded_bytes(list(small.parameters())) == (0, 0)

    run_ranks(2, refused)
