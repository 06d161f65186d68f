"""Every model equals its reference with the same weights, and trains the same eager and as a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import oneflow as flow
import pytest
import torch
from models_library.cases import CASES
from torch_oracle import close_at_scale

# Float32, sums in another order: a few hundred roundings, relative to the largest element.
TOLERANCE, SMALLEST = 5e-5, 1e-2


def listed(out: Any) -> list[Any]:
    return list(out) if isinstance(out, list | tuple) else [out]


def pair(name: str, folder: Any) -> tuple[Any, Any]:
    """The reference, and our model with its weights by way of a file."""
    torch.manual_seed(0)
    reference = CASES[name].reference().to(getattr(torch, CASES[name].dtype))
    with torch.no_grad():
        for parameter in reference.parameters():
            # Biases of zero, norms of one and blocks that begin as nothing hide what is wrong behind them.
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return reference.train(), CASES[name].load(CASES[name].save(reference, folder)).train()


def fed(package: Any, name: str, seed: int) -> list[Any]:
    """The inputs of a case as tensors of ``package``."""
    arrays = CASES[name].inputs(np.random.default_rng(seed))
    return [package.tensor(a.astype(CASES[name].dtype) if a.dtype == np.float32 else a) for a in arrays]


def loss_of(package: Any, outputs: list[Any]) -> Any:
    """A number that every element of the outputs moves, in another way each."""
    rng = np.random.default_rng(3)
    return sum((out * package.tensor(rng.standard_normal(out.shape)).to(out.dtype)).sum() for out in outputs)


@pytest.mark.parametrize("name", CASES)
def test_outputs_and_gradients_are_the_reference_s(name: str, tmp_path: Any) -> None:
    case = CASES[name]
    reference, ours = pair(name, tmp_path)
    expected = listed(case.call(reference, *fed(torch, name, 1)))
    outputs = listed(case.our_call(ours, *fed(flow, name, 1)))
    for i, (a, b) in enumerate(zip(outputs, expected, strict=True)):
        close_at_scale(a, b, TOLERANCE, f"output {i}", SMALLEST)
    loss_of(torch, expected).backward()
    loss_of(flow, outputs).backward()
    # The reference's gradients take the way of weights: named and laid out as ours.
    for parameter in reference.parameters():
        parameter.data = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
    holder = case.load(case.save(reference, tmp_path))
    # Where a gradient is zero but for rounding (a bias before a norm, a key's), it is as large as elsewhere.
    scale = 0.05 * max(float(p.abs().max()) for p in holder.parameters())
    for key, expected_gradient in holder.named_parameters():
        gradient = ours.get_parameter(key).grad
        if gradient is None:
            assert not expected_gradient.any(), key
        else:
            close_at_scale(gradient, expected_gradient, 2 * TOLERANCE, f"gradient of {key}", scale)


@pytest.mark.parametrize("name", CASES)
def test_a_training_step_as_a_graph_is_the_eager_one(name: str, tmp_path: Any) -> None:
    case = CASES[name]
    eager, compiled = pair(name, tmp_path)[1], pair(name, tmp_path)[1]

    def optimizer(model: Any) -> Any:
        return flow.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)

    class Step(flow.nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = compiled
            self.add_optimizer(optimizer(compiled))

        def build(self, *given: Any) -> Any:
            loss = loss_of(flow, listed(case.our_call(self.model, *given)))
            loss.backward()
            return loss

    step, sgd = Step(), optimizer(eager)
    for seed in range(2):
        given = fed(flow, name, seed)
        sgd.zero_grad()
        loss = loss_of(flow, listed(case.our_call(eager, *given)))
        loss.backward()
        sgd.step()
        assert step(*given).item() == pytest.approx(loss.item(), rel=1e-4, abs=1e-3)
    state = eager.state_dict()
    for key, value in compiled.state_dict().items():
        close_at_scale(value.float(), state[key].float(), TOLERANCE, key, SMALLEST)


@pytest.mark.parametrize("name", CASES)
def test_compiled_outputs_are_the_eager_ones(name: str, tmp_path: Any) -> None:
    case = CASES[name]
    model = pair(name, tmp_path)[1].eval()
    given = fed(flow, name, 1)
    compiled = flow.compile(lambda *given: tuple(listed(case.our_call(model, *given))))
    for a, b in zip(compiled(*given), listed(case.our_call(model, *given)), strict=True):
        close_at_scale(a, b, TOLERANCE, name, SMALLEST)
