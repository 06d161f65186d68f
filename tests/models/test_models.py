"""Whole models: PyTorch's outputs, gradients and optimizer steps from the same weights, eager and compiled."""

from __future__ import annotations

import numpy as np
import oneflow as flow
import pytest
import torch
from models.zoo import define
from torch_oracle import close_at_scale

FLOW, TORCH = define(flow), define(torch)
# Dropout cannot be compared with PyTorch, which draws other numbers; with the same model compiled it can.
DROPPING = define(flow, dropout=0.1)
STEPS, GRAPH_STEPS = 3, 20
TOLERANCE = 2e-4


def fed(package, arrays):
    return [package.tensor(np.ascontiguousarray(a)) for a in arrays]


def pair(name):
    """Both models with one set of weights, and both losses' inputs."""
    torch.manual_seed(0)
    theirs, ours = TORCH[name].model(), FLOW[name].model()
    weights = {k: flow.tensor(v.numpy()) for k, v in theirs.state_dict().items()}
    missing = ours.load_state_dict(weights)
    assert not missing.missing_keys and not missing.unexpected_keys
    return ours, theirs


def loss_of(case, model, given):
    n = len(given) - 1
    return case.loss(model(*given[:n]), *given)


@pytest.mark.parametrize("name", sorted(FLOW))
def test_a_model_trains_as_in_pytorch(name):
    ours, theirs = pair(name)
    our_optimizer, their_optimizer = FLOW[name].optimizer(ours.parameters()), TORCH[name].optimizer(theirs.parameters())
    rng = np.random.default_rng(1)
    for step in range(STEPS):
        arrays = FLOW[name].inputs(rng)
        given, expected = fed(flow, arrays), fed(torch, arrays)
        close_at_scale(ours(*given[:-1]), theirs(*expected[:-1]), TOLERANCE, f"{name} output {step}")
        for case, model, optimizer, data in (
            (FLOW[name], ours, our_optimizer, given),
            (TORCH[name], theirs, their_optimizer, expected),
        ):
            optimizer.zero_grad()
            loss_of(case, model, data).backward()
        their_grads = dict(theirs.named_parameters())
        for key, parameter in ours.named_parameters():
            if their_grads[key].grad is None:
                assert parameter.grad is None, key
            else:
                close_at_scale(
                    parameter.grad, their_grads[key].grad, TOLERANCE, f"{name} gradient of {key} in step {step}"
                )
        our_optimizer.step()
        their_optimizer.step()
    state = theirs.state_dict()
    for key, value in ours.state_dict().items():
        close_at_scale(value, state[key], 2e-3, f"{name} {key} after {STEPS} steps")


@pytest.mark.parametrize("name", sorted(FLOW))
def test_a_model_trains_as_a_graph(name):
    """Twenty steps with dropout: the numbers drawn are the same, since both worlds count them alike."""
    case = DROPPING[name]
    flow.manual_seed(0)
    eager = case.model()
    compiled = case.model()
    compiled.load_state_dict(eager.state_dict())

    class Step(flow.nn.Graph):
        def __init__(self):
            super().__init__()
            self.model = compiled
            self.add_optimizer(case.optimizer(compiled.parameters()))

        def build(self, *given):
            loss = loss_of(case, self.model, given)
            loss.backward()
            return loss

    step, optimizer = Step(), case.optimizer(eager.parameters())
    rng = np.random.default_rng(2)
    batches = [fed(flow, case.inputs(rng)) for _ in range(GRAPH_STEPS)]
    flow.manual_seed(7)
    expected = []
    for given in batches:
        optimizer.zero_grad()
        loss = loss_of(case, eager, given)
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    flow.manual_seed(7)
    # Chains fuse and products may sum in another order: results agree except for rounding, which steps carry on.
    assert [step(*given).item() for given in batches] == pytest.approx(expected, rel=5e-5)
    state = eager.state_dict()
    for key, value in compiled.state_dict().items():
        close_at_scale(value, state[key], 1e-3, f"{name} {key}")
