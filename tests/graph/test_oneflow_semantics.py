"""nn.Graph as OneFlow defines it, compared with formulas and eager execution: averages, scales, constants."""

from __future__ import annotations

from typing import Any

import oneflow as flow
import pytest
from oneflow import nn, sbp
from oneflow.testing import run_ranks


class Of(nn.Graph):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def build(self, *args: Any) -> Any:
        return self.function(*args)


class Train(nn.Graph):
    def __init__(self, net: nn.Module, optimizer: Any, n: int = 1, scaler: Any = None) -> None:
        super().__init__()
        self.net = net
        self.add_optimizer(optimizer)
        self.config.set_gradient_accumulation_steps(n)
        if scaler is not None:
            self.set_grad_scaler(scaler)

    def build(self, x: flow.Tensor) -> flow.Tensor:
        loss = self.net(x).pow(2).mean()
        loss.backward()
        return loss


def net(spread: Any = None) -> nn.Module:
    flow.manual_seed(0)
    made = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4))
    if spread is not None:
        # The whole first: a local weight turned into a split one would be a part.
        made.to_global(placement=flow.placement.all("cpu"), sbp=sbp.broadcast).to_global(sbp=spread)
    return made


def weights(module: nn.Module) -> list[float]:
    return [v for p in module.parameters() for v in p.detach().numpy().flatten().tolist()]


SCALERS = {
    "none": lambda: None,
    "static": lambda: flow.amp.StaticGradScaler(512.0),
    "dynamic": lambda: flow.amp.GradScaler("cpu"),
}


@pytest.mark.parametrize("scaler", SCALERS)
@pytest.mark.parametrize("n", [1, 2, 4])
def test_gradients_of_micro_batches_are_averaged(n: int, scaler: str) -> None:
    """The mean of the losses of equal parts is that of the whole batch: any number of parts takes the same steps."""
    x = flow.randn(8, 4)
    one, many = net(), net()
    optimizer = flow.optim.SGD(one.parameters(), lr=0.5, momentum=0.9)
    graph = Train(many, flow.optim.SGD(many.parameters(), lr=0.5, momentum=0.9), n, SCALERS[scaler]())
    for _ in range(3):
        graph(x)
        optimizer.zero_grad()
        one(x).pow(2).mean().backward()
        optimizer.step()
    assert weights(many) == pytest.approx(weights(one), rel=1e-4, abs=1e-6)


@pytest.mark.parametrize(
    "make",
    [
        lambda groups: flow.optim.SGD(groups, lr=0.1),
        lambda groups: flow.optim.SGD(groups, lr=0.1, momentum=0.9),
        lambda groups: flow.optim.Adam(groups, lr=0.1),
        lambda groups: flow.optim.AdamW(groups, lr=0.1, weight_decay=0.1),
        lambda groups: flow.optim.Adagrad(groups, lr=0.1),
        lambda groups: flow.optim.RMSprop(groups, lr=0.1),
        lambda groups: flow.optim.LAMB(groups, lr=0.1),
        lambda groups: flow.optim.Ftrl(groups, lr=0.1, lr_power=0.5),
    ],
)
def test_the_scale_of_a_groups_learning_rate(make: Any) -> None:
    x = flow.randn(8, 4)
    scaled, plain = net(), net()
    scales = [0.25, 1.0, 4.0, 0.5]
    first = make([{"params": [p], "lr_scale": s} for p, s in zip(scaled.parameters(), scales, strict=True)])
    second = make([{"params": [p], "lr": 0.1 * s} for p, s in zip(plain.parameters(), scales, strict=True)])
    graph, other = Train(scaled, first), Train(plain, second)
    for step in range(3):
        if step == 2:
            first.param_groups[0]["lr_scale"], second.param_groups[0]["lr"] = 2.0, 0.2
        graph(x), other(x)
    assert weights(scaled) == pytest.approx(weights(plain), rel=1e-5, abs=1e-6)
    assert first.param_groups[0]["lr"] == 0.1


@pytest.mark.parametrize("layout", [sbp.broadcast, sbp.split(0)], ids=str)
@pytest.mark.parametrize("scaler", SCALERS)
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "graph"])
def test_scaled_losses_of_global_tensors(layout: Any, scaler: str, traced: bool) -> None:
    data = [flow.randn(4, 4) for _ in range(3)]
    data[1][3, 3] = float("inf")  # A step that a scaler skips, though one rank alone may see it.

    def rank(spread: Any) -> Any:
        module = net(spread)
        optimizer = flow.optim.Adam(module.parameters(), lr=0.1)
        scale = SCALERS[scaler]()
        graph = Train(module, optimizer, scaler=scale)
        for x in data:
            if scaler == "none" and not bool(x.isfinite().all()):
                continue
            if spread is not None:
                x = flow.tensor(x.numpy(), placement=flow.placement.all("cpu"), sbp=sbp.split(0))
            if traced:
                graph(x)
                continue
            optimizer.zero_grad()
            loss = module(x).pow(2).mean()
            if scale is None:
                loss.backward()
                optimizer.step()
            else:
                scale.scale(loss).backward()
                scale.step(optimizer)
                scale.update()
        return weights(module), 0 if scale is None else scale.get_scale()

    # The reference steps eagerly on one rank.
    reference, sizes = net(), {"none": 0, "static": 512.0, "dynamic": 2.0**15}
    optimizer = flow.optim.Adam(reference.parameters(), lr=0.1)
    for x in (data[0], data[2]):
        optimizer.zero_grad()
        reference(x).pow(2).mean().backward()
        optimizer.step()
    for found, scale in [rank(None), *run_ranks(2, lambda: rank(layout))]:
        assert found == pytest.approx(weights(reference), rel=1e-3, abs=1e-5) and scale == sizes[scaler]


LINE = "flow.arange(6.0)"
CONSTANTS = [
    f"{LINE}.reshape(2, 3).t() * 2",
    f"{LINE}.reshape(2, 3).permute(1, 0).exp()",
    f"{LINE}.reshape(2, 3).t() > 2",
    "flow.arange(6).reshape(2, 3).t().float()",
    "flow.arange(12.0).reshape(3, 4)[:, :2] * 2",
    "flow.arange(12.0)[6:].reshape(3, 2) * 2",
    "flow.arange(2.0).expand(3, 2) * 2",
    "flow.arange(2.0).expand(3, 2).contiguous()",
    "flow.full((2, 3), 2.0).t().exp()",
    f"{LINE}.reshape(3, 2).flip(0)",
    f"{LINE}.reshape(3, 2).fill_(3.0)",
    f"{LINE}.reshape(3, 2).add_(3.0)",
    "flow.ones(2, 3).cumsum(1).t()",
    "flow.tril(flow.ones(3, 3))[:, :2]",
    "flow.eye(3)[:, 1:]",
    "flow.tensor([[1.0, 2, 3], [4, 5, 6]]).t().sin()",
    "(flow.arange(6.0).reshape(1, 2, 3, 1).contiguous(memory_format=flow.channels_last) + 1)[0, :, :, 0].t()",
]


@pytest.mark.parametrize("text", CONSTANTS)
def test_constants_of_any_layout(text: str) -> None:
    x = flow.randn(3, 2)

    def function(x: flow.Tensor) -> Any:
        constant = eval(text, {"flow": flow})
        return x + constant, (x.t() * constant.t()).sum(), constant * 1

    for found, expected in zip(Of(function)(x), function(x), strict=True):
        assert found.tolist() == expected.tolist()


def test_margins_and_numbers_go_with_global_tensors() -> None:
    def rank() -> None:
        p = flow.placement.all("cpu")
        x = (flow.rand(4, 6) * 2 - 1).to_global(p, sbp.broadcast)
        label = flow.tensor([1, 2, 3, 0], placement=p, sbp=sbp.broadcast)
        for m1, m2, m3 in ((0.3, 0.5, 0.4), (1.0, 0.0, 0.4)):
            loss = nn.CombinedMarginLoss(m1, m2, m3)
            assert Of(loss)(x, label).numpy().tolist() == loss(x, label).numpy().tolist()

    run_ranks(1, rank)
    run_ranks(2, rank)
