"""The GPT example trains on a GPU as it does on the CPU."""

import sys
from pathlib import Path

import oneflow
import oneflow.nn as nn
import pytest

pytestmark = pytest.mark.gpu
EXAMPLE = Path(__file__).parents[2] / "examples" / "gpt"


def train(device, n_steps, dropout=0.0, sgd=False):
    """Losses of the first steps of a small model on one text."""
    from model import GPT, GPTConfig

    oneflow.manual_seed(0)
    model = GPT(GPTConfig(block_size=16, n_layers=2, n_heads=2, width=32, dropout=dropout)).to(device)
    if sgd:
        optimizer = oneflow.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01, nesterov=True)
    else:
        optimizer = oneflow.optim.AdamW(model.parameters(), lr=3e-3, betas=(0.9, 0.95))
    text = oneflow.tensor([[(i * i + 7 * j) % 97 for i in range(17)] for j in range(4)])
    tokens, targets = text[:, :-1].to(device), text[:, 1:].to(device)
    losses = []
    for _ in range(n_steps):
        loss = model(tokens, targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
    assert all(p.device == oneflow.device(device) for p in model.parameters())
    return losses


@pytest.mark.parametrize("dropout, sgd", [(0.0, False), (0.2, False), (0.0, True)])
def test_losses_are_the_cpus(dropout, sgd, gpu, monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))
    sys.modules.pop("model", None)
    here, there = train("cpu", 6, dropout, sgd), train(gpu, 6, dropout, sgd)
    assert here[-1] < here[0]
    # Sums in other orders, which steps carry on.
    assert there == pytest.approx(here, rel=2e-4)
