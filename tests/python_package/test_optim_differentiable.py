"""Steps with ``differentiable=True``: the numbers of ordinary steps, and PyTorch's gradients through them."""

from __future__ import annotations

from typing import Any

import oneflow as flow
import pytest
import torch
from torch_oracle import close

CASES: list[tuple[str, dict[str, Any]]] = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True}),
    ("SGD", {"momentum": 0.9, "dampening": 0.3, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
    ("AdamW", {"maximize": True}),
    ("NAdam", {"weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True}),
    ("RAdam", {"weight_decay": 0.1}),
    ("Adamax", {"weight_decay": 0.1}),
    ("Adadelta", {"weight_decay": 0.1}),
    ("Adagrad", {"lr_decay": 0.1, "weight_decay": 0.1}),
    ("RMSprop", {"weight_decay": 0.1}),
    ("RMSprop", {"momentum": 0.5}),
    ("RMSprop", {"centered": True}),
    ("RMSprop", {"centered": True, "momentum": 0.5}),
    ("Rprop", {}),
    ("ASGD", {"weight_decay": 0.1}),
]
LR = 0.07
START, SLOPES = [0.3, -1.2, 2.0, 0.7], [[0.5, -0.2, 0.9, 1.5], [0.4, 0.3, -0.8, 0.2], [-0.1, 0.6, 0.7, 0.3]]


def _stepped(lib: Any, name: str, options: dict[str, Any], is_recorded: bool, n_steps: int = 3) -> tuple[Any, ...]:
    """The parameter after a step for each of some rows of slopes, and what it was made from."""
    start = lib.tensor(START, dtype=lib.float64, requires_grad=is_recorded)
    slopes = [lib.tensor(row, dtype=lib.float64, requires_grad=is_recorded) for row in SLOPES[:n_steps]]
    param = start.clone() if is_recorded else lib.nn.Parameter(start.clone())
    optimizer = getattr(lib.optim, name)([param], lr=LR, differentiable=is_recorded, **options)
    for slope in slopes:
        param.grad = slope.clone() if is_recorded else slope
        optimizer.step()
    return param, [start, *slopes]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_a_recorded_step_computes_what_an_ordinary_one_does(name: str, options: dict[str, Any]) -> None:
    recorded, _ = _stepped(flow, name, options, True)
    plain, _ = _stepped(flow, name, options, False)
    assert recorded.requires_grad and not recorded.is_leaf
    close(recorded.detach(), plain.detach(), 1e-12)


# PyTorch takes no gradient through the first momentum buffer, and with amsgrad writes what the gradient needs.
LIKE_PYTORCH = [(name, o) for name, o in CASES if not ((name == "SGD" and o.get("momentum")) or o.get("amsgrad"))]


@pytest.mark.parametrize(("name", "options"), LIKE_PYTORCH)
def test_gradients_flow_through_a_step_as_in_pytorch(name: str, options: dict[str, Any]) -> None:
    # Of several steps PyTorch has no gradient: the second one writes states that the first one's needs.
    found = []
    for lib in (flow, torch):
        param, inputs = _stepped(lib, name, options, True, 1)
        weights = lib.arange(1.0, 5.0, dtype=lib.float64)
        made = lib.autograd.grad((param * weights).sum(), inputs, allow_unused=True)
        found.append([lib.zeros(4, dtype=lib.float64) if g is None else g for g in made])
    close(found[0], found[1], 1e-9)


@pytest.mark.parametrize(("name", "options"), CASES)
def test_gradients_flow_through_several_steps(name: str, options: dict[str, Any]) -> None:
    def steps(start: Any, *slopes: Any) -> Any:
        param = start.clone()
        optimizer = getattr(flow.optim, name)([param], lr=LR, differentiable=True, **options)
        for slope in slopes:
            param.grad = slope.clone()
            optimizer.step()
        return param

    _, inputs = _stepped(flow, "SGD", {}, True)
    assert flow.autograd.gradcheck(steps, tuple(inputs), fast_mode=True)


def test_gradients_reach_the_learning_rate() -> None:
    found = []
    for lib in (flow, torch):
        lr = lib.tensor(LR, dtype=lib.float64, requires_grad=True)
        param = lib.tensor(START, dtype=lib.float64, requires_grad=True).clone()
        optimizer = lib.optim.SGD([param], lr=lr, differentiable=True)
        param.grad = lib.tensor(SLOPES[0], dtype=lib.float64)
        optimizer.step()
        found.append(lib.autograd.grad(param.sum(), lr))
    close(found[0], found[1], 1e-12)


def test_a_leaf_is_refused_and_gradients_are_recorded_inside_no_grad() -> None:
    leaf = flow.nn.Parameter(flow.ones(2))
    leaf.grad = flow.ones(2)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        flow.optim.SGD([leaf], lr=0.1, differentiable=True).step()
    param = leaf.clone()
    param.grad = flow.ones(2)
    with flow.no_grad():
        flow.optim.SGD([param], lr=0.1, differentiable=True).step()
    assert param.requires_grad
    with pytest.raises(RuntimeError, match="`fused` does not support `differentiable`"):
        flow.optim.Adam([param], fused=True, differentiable=True)
