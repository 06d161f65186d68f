"""Mixtures of experts: each token by itself as the formula says, on one rank and on several."""

from __future__ import annotations

import math
from typing import Any

import oneflow as flow
import pytest
from oneflow import distributed, models, nn
from oneflow.models.layers import MoE, balance_experts

BATCH, TIME, WIDTH, EXPERTS, HIDDEN, LAYERS = 4, 8, 16, 4, 12, 2


@pytest.fixture(autouse=True)
def default_dtype() -> Any:
    flow.set_default_dtype(flow.float64)
    yield
    flow.set_default_dtype(flow.float32)


def by_token(layer: MoE, x: Any) -> tuple[Any, list[int]]:
    """The layer's result one token after the other, and how many tokens each expert took."""
    y, load = flow.zeros_like(x), [0] * layer.n_experts
    for b in range(x.shape[0]):
        logits = x[b] @ layer.router.weight.T
        scores = logits.softmax(-1) if layer.score == "softmax" else logits.sigmoid()
        chosen = [sorted(range(layer.n_experts), key=lambda e: -(s[e] + layer.bias[e]).item()) for s in scores]
        taken = [0] * layer.n_experts
        capacity = math.inf
        if layer.capacity_factor is not None:
            capacity = math.ceil(layer.capacity_factor * x.shape[1] * layer.top_k / layer.n_experts)
        for choice in range(layer.top_k):
            for t, s in enumerate(scores):
                e = chosen[t][choice]
                taken[e] += 1
                if taken[e] > capacity:
                    continue
                load[e] += 1
                sums = s[chosen[t][: layer.top_k]].sum() if layer.normalized else 1.0
                inner = nn.functional.silu(layer.gate[e] @ x[b, t]) * (layer.up[e] @ x[b, t])
                y[b, t] += (layer.down[e] @ inner) * s[e] / sums * layer.scale
    return (y if layer.shared is None else y + layer.shared(x)), load


LAYERS_OF_EXPERTS: list[dict[str, Any]] = [
    {"top_k": 2},
    {"top_k": 1, "normalized": False},
    {"top_k": 3, "score": "sigmoid", "scale": 2.5, "shared": 6},
    {"top_k": 2, "capacity_factor": 0.6},
    {"top_k": 2, "capacity_factor": 0.01, "n_experts": 16},
    {"top_k": 2, "dense": True, "shared": 6},
    {"top_k": 2, "dense": True, "capacity_factor": 0.6},
]


@pytest.mark.parametrize("options", LAYERS_OF_EXPERTS, ids=str)
def test_each_token_goes_through_its_experts(options: dict[str, Any]) -> None:
    flow.manual_seed(0)
    layer = MoE(WIDTH, HIDDEN, **{"n_experts": EXPERTS, **options})
    layer.bias.normal_(std=0.05)
    x, weight = flow.randn(3, TIME, WIDTH), flow.randn(3, TIME, WIDTH)
    found = []
    for run in (lambda x: (layer(x), layer.load.tolist()), lambda x: by_token(layer, x)):
        leaf = x.clone().requires_grad_()
        y, load = run(leaf)
        grads = flow.autograd.grad((y * weight).sum(), [leaf, *layer.parameters()])
        found.append(([y, *grads], load))
    (ours, load), (expected, counted) = found
    assert load == counted
    for a, b in zip(ours, expected, strict=True):
        assert flow.allclose(a, b, rtol=0, atol=1e-13)


def test_experts_without_tokens_have_gradients_of_zero() -> None:
    layer = MoE(WIDTH, HIDDEN, 8, top_k=1)
    layer.bias[0] = 9.0
    layer(flow.randn(1, 5, WIDTH)).sum().backward()
    assert layer.load.tolist() == [5, 0, 0, 0, 0, 0, 0, 0]
    assert layer.up.grad[0].abs().sum() > 0 and layer.up.grad[1:].abs().sum() == 0


def test_auxiliary_loss_is_that_of_the_paper() -> None:
    """Fedus et al., eq. 4: experts times the sum of shares of tokens by mean scores; 1 where all are equal."""
    flow.manual_seed(0)
    layer = MoE(WIDTH, HIDDEN, EXPERTS, top_k=1, balance=0.5)
    x = flow.randn(2, TIME, WIDTH)
    layer(x)
    scores = (x.view(-1, WIDTH) @ layer.router.weight.T).softmax(-1)
    shares = [(scores.argmax(-1) == e).sum() / len(scores) for e in range(EXPERTS)]
    expected = 0.5 * EXPERTS * sum(f * p for f, p in zip(shares, scores.mean(0), strict=True))
    assert layer.auxiliary_loss.item() == pytest.approx(expected.item(), rel=1e-12)
    nn.init.zeros_(layer.router.weight)
    layer(x)
    assert layer.auxiliary_loss.item() == pytest.approx(0.5, rel=1e-12)


def test_the_bias_makes_experts_equally_busy() -> None:
    flow.manual_seed(0)
    layer = MoE(WIDTH, HIDDEN, EXPERTS, top_k=1)
    x = flow.randn(8, 64, WIDTH) + 1.0
    layer(x)
    before = layer.load.max().item() / layer.load.double().mean().item()
    for _ in range(500):
        layer(x)
        balance_experts(layer, 0.002)
    after = layer.load.max().item() / layer.load.double().mean().item()
    assert before > 1.5 and after < 1.1
    assert layer.bias.grad is None


def made(**changes: Any) -> tuple[Any, tuple[Any, Any]]:
    flow.manual_seed(0)
    words = flow.randint(0, 50, (BATCH, TIME + 1))
    sizes: dict[str, Any] = {"n_layers": LAYERS, "n_heads": 4, "n_kv_heads": 2, "width": WIDTH, "hidden": 24}
    config = models.MoELlamaConfig(50, 16, **{**sizes, "expert_hidden": HIDDEN, "n_experts": EXPERTS, **changes})
    return models.MoELlama(config), (words[:, :-1].contiguous(), words[:, 1:].contiguous())


def train(
    options: dict[str, Any], changes: dict[str, Any], n_steps: int = 20, dtype: str = "float64", rate: float = 0.0
) -> tuple[list[float], dict[str, int], list[list[int]]]:
    """The losses of a layout, what the last forward and backward sent, and the load of each layer."""
    flow.set_default_dtype(getattr(flow, dtype))
    model, batch = made(**changes)
    layout = models.ParallelLayout(**options)
    layout.place(model)
    given = layout.batch(*batch)
    optimizer = flow.optim.AdamW(model.parameters(), lr=1e-3)
    losses, sent = [], {}
    for _ in range(n_steps):
        optimizer.zero_grad()
        distributed.reset_wire_counters()
        loss = model(*given)
        loss.backward()
        sent = distributed.wire_bytes()
        losses.append(loss.item())
        optimizer.step()
        if rate:
            balance_experts(model, rate)
    return losses, sent, [m.load.tolist() for m in model.modules() if isinstance(m, MoE)]


def n_ranks(options: dict[str, Any]) -> int:
    return math.prod(options.get(name, 1) for name in ("dp", "ep", "cp", "tp"))


EVERY: list[dict[str, Any]] = [
    {"dp": 2},
    {"tp": 2},
    {"ep": 2},
    {"ep": 4},
    {"ep": 2, "tp": 2},
    {"dp": 2, "ep": 2, "recompute": True},
    {"tp": 2, "sequence_parallel": True, "recompute": True},
    {"dp": 2, "ep": 2, "tp": 2, "sequence_parallel": True, "vocabulary_parallel": True},
]
WITH_CONTEXT: list[dict[str, Any]] = [
    {"cp": 2},
    {"ep": 2, "cp": 2, "recompute": True},
    {"ep": 2, "cp": 2, "tp": 2, "context": "allgather", "sequence_parallel": True},
]
MODELS: dict[str, tuple[dict[str, Any], float]] = {
    "dropless": ({}, 0.0),
    "balanced": ({"balance": 0.1, "shared_hidden": 8, "score": "sigmoid"}, 0.01),
    "capacity": ({"capacity_factor": 0.6, "balance": 0.1}, 0.0),
    "idle": ({"n_experts": 16, "top_k": 1, "n_dense": 1}, 0.0),
}
CASES = [(name, options) for name in MODELS for options in EVERY + WITH_CONTEXT * (name != "capacity")]


@pytest.mark.parametrize(("name", "options"), CASES, ids=str)
def test_one_loss_curve(name: str, options: dict[str, Any]) -> None:
    changes, rate = MODELS[name]
    ((expected, _, load),) = flow.testing.run_ranks(1, train, {}, changes, 20, "float64", rate)
    assert expected[0] != expected[-1]
    if name == "idle":
        assert 0 in load[0]
    for losses, _, found in flow.testing.run_ranks(n_ranks(options), train, options, changes, 20, "float64", rate):
        assert losses == pytest.approx(expected, rel=1e-9)
        assert found == load


TRACED: list[dict[str, Any]] = [
    {},
    {"dp": 2},
    {"tp": 2, "sequence_parallel": True, "recompute": True},
    {"dp": 2, "cp": 2, "tp": 2, "context": "allgather"},
]
# Experts that not every token reads have places in a graph.
PLACES: list[dict[str, Any]] = [
    *TRACED,
    {"ep": 2},
    {"ep": 4, "recompute": True},
    {"dp": 2, "ep": 2, "tp": 2, "sequence_parallel": True, "vocabulary_parallel": True},
    {"ep": 2, "cp": 2, "tp": 2},
]
KINDS: dict[str, dict[str, Any]] = {
    "dense": {"dense": True, "shared_hidden": 8},
    "dropless": {"shared_hidden": 8, "score": "sigmoid"},
    "capacity": {"capacity_factor": 0.6},
    "idle": {"n_experts": 16, "top_k": 1, "n_dense": 1},
}
IN_GRAPHS = [
    (kind, options)
    for kind in KINDS
    for options in (TRACED if kind == "dense" else PLACES)
    if kind != "capacity" or "cp" not in options
]


@pytest.mark.parametrize(("kind", "options"), IN_GRAPHS, ids=str)
def test_experts_in_a_graph(kind: str, options: dict[str, Any]) -> None:
    changes = {**KINDS[kind], "balance": 0.1}
    ((expected, _, _),) = flow.testing.run_ranks(1, train, {}, {**changes, "dense": False}, 4)

    def traced() -> list[float]:
        flow.set_default_dtype(flow.float64)
        model, batch = made(**changes)
        layout = models.ParallelLayout(**options)
        layout.place(model)
        optimizer = flow.optim.AdamW(model.parameters(), lr=1e-3)

        class Step(nn.Graph):
            def __init__(self) -> None:
                super().__init__()
                self.model = model
                self.add_optimizer(optimizer)

            def build(self, *given: Any) -> Any:
                loss = self.model(*given)
                loss.backward()
                return loss

        step = Step()
        return [step(*layout.batch(*batch)).item() for _ in range(4)]

    for losses in flow.testing.run_ranks(n_ranks(options), traced):
        assert losses == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("options", EVERY + WITH_CONTEXT, ids=str)
def test_single_precision(options: dict[str, Any]) -> None:
    ((expected, _, _),) = flow.testing.run_ranks(1, train, {}, {}, 5, "float32")
    for losses, _, _ in flow.testing.run_ranks(n_ranks(options), train, options, {}, 5, "float32"):
        assert losses == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("n", [2, 4])
def test_bytes_of_expert_parallelism(n: int) -> None:
    """A row leaves for its expert and comes back, forward and backward; other weights' gradients are reduced."""

    def expected() -> list[int]:
        model, (tokens, targets) = made()
        seen: list[Any] = []
        for block in model.blocks:
            block.mlp.register_forward_pre_hook(
                lambda own, args: seen.append(own.route(args[0], own.router.weight, own.bias))
            )
        model(tokens, targets)
        moved = [0] * n
        for routing in seen:
            owners = routing.chosen.view(n, -1) // (EXPERTS // n)
            for rank in range(n):
                moved[rank] += (owners[rank] != rank).sum().item()
                moved[rank] += sum((owners[other] == rank).sum().item() for other in range(n) if other != rank)
        counts = LAYERS * (n - 1) * (EXPERTS // n) * 8
        return [2 * rows * WIDTH * 8 + counts for rows in moved]

    model, _ = made()
    whole = 8 * sum(
        p.numel() for name, p in model.named_parameters() if name.split(".")[-1] not in ("gate", "up", "down")
    )
    found = flow.testing.run_ranks(n, train, {"ep": n}, {}, 1)
    assert [sent["all_to_all"] for _, sent, _ in found] == expected()
    for _, sent, _ in found:
        # Beside the weights two scalars of the loss and the load of each layer.
        rest = sent["all_reduce"] - 2 * (n - 1) * whole // n
        assert set(sent) == {"all_to_all", "all_reduce"} and 0 <= rest <= 2 * n * 8 * (2 + LAYERS * EXPERTS)


def test_text_is_that_of_one_rank() -> None:
    def generated(options: dict[str, Any]) -> Any:
        flow.set_default_dtype(flow.float64)
        model, _ = made()
        layout = models.ParallelLayout(**options)
        layout.place(model.eval())
        prompt = flow.tensor([[1, 2, 3]]).to_global(layout.placement, [flow.sbp.broadcast] * len(layout.axes))
        return model.generate(prompt, 6, temperature=0).to_local().tolist()

    (expected,) = flow.testing.run_ranks(1, generated, {})
    for found in flow.testing.run_ranks(4, generated, {"ep": 2, "tp": 2}):
        assert found == expected


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="top_k=5 of 4 experts"):
        MoE(8, 8, 4, top_k=5)
    with pytest.raises(ValueError, match="score must be 'softmax' or 'sigmoid', got 'relu'"):
        MoE(8, 8, 4, score="relu")
    with pytest.raises(ValueError, match="capacity_factor must be positive, got 0"):
        MoE(8, 8, 4, capacity_factor=0)

    def refused() -> None:
        flow.set_default_dtype(flow.float64)
        with pytest.raises(ValueError, match=r"blocks\.0\.mlp: 3 experts do not divide by ep=2"):
            models.ParallelLayout(ep=2).place(made(n_experts=3)[0])
        with pytest.raises(ValueError, match=r"blocks\.0\.mlp: 13 hidden units do not divide by tp=2"):
            models.ParallelLayout(tp=2).place(made(expert_hidden=13)[0])
        with pytest.raises(ValueError, match="tokens of a whole sequence compete for places"):
            models.ParallelLayout(cp=2).place(made(capacity_factor=1.0)[0])
        with pytest.raises(ValueError, match="GPT2 has no mixture of experts to split over ep=2 ranks"):
            models.ParallelLayout(ep=2).place(models.GPT2(models.GPT2Config(50, 16, 1, n_heads=2, width=8)))
        with pytest.raises(ValueError, match="dense experts read every token, and ep splits the tokens"):
            models.ParallelLayout(ep=2).place(made(dense=True)[0])
        layout = models.ParallelLayout(ep=2)
        with pytest.raises(ValueError, match=r"a batch of shape \(3, 2\) does not divide by dp=1 times ep=2"):
            layout.batch(flow.zeros(3, 2))
        model, batch = made()
        layout.place(model)
        whole = [x.to_global(layout.placement, [flow.sbp.broadcast] * 3) for x in batch]
        with pytest.raises(ValueError, match="the batch is not split over ep; make it by ParallelLayout"):
            model(*whole)

    flow.testing.run_ranks(2, refused)
