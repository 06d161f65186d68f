"""PartialFC: the loss and the gradients of one softmax over all classes, wherever these are."""

from __future__ import annotations

from typing import Any

import oneflow as flow
import oneflow.nn.functional as F
import pytest
from oneflow import distributed, nn
from oneflow.models import PartialFC

WIDTH, CLASSES, BATCH = 6, 23, 12
SCALE = 8.0


@pytest.fixture(autouse=True)
def default_dtype() -> Any:
    flow.set_default_dtype(flow.float64)
    yield
    flow.set_default_dtype(flow.float32)


def drawn() -> tuple[Any, Any, Any]:
    flow.manual_seed(0)
    return flow.randn(BATCH, WIDTH), flow.randint(0, CLASSES, (BATCH,)), flow.randn(CLASSES, WIDTH)


def whole(margin: Any, kept: Any = None) -> list[Any]:
    """The loss, and the gradients of embeddings and weights; over the classes ``kept`` alone if given."""
    embeddings, labels, weight = drawn()
    embeddings.requires_grad_()
    weight.requires_grad_()
    cosines = F.normalize(embeddings) @ F.normalize(weight).T
    logits = margin(cosines, labels) * SCALE
    if kept is not None:
        logits = logits.masked_fill(~kept, float("-inf"))
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    return [loss.detach(), embeddings.grad, weight.grad]


def head(**options: Any) -> PartialFC:
    made = PartialFC(WIDTH, CLASSES, scale=SCALE, **options)
    with flow.no_grad():
        made.weight.copy_(drawn()[2][made.first : made.first + len(made.weight)])
    return made


MARGINS = [None, nn.CombinedMarginLoss(1.0, 0.0, 0.4), nn.CombinedMarginLoss(0.9, 0.4, 0.15)]


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("margin", MARGINS, ids=["arcface", "cosface", "combined"])
def test_loss_and_gradients_are_those_of_one_softmax(n: int, margin: Any) -> None:
    expected = whole(margin or nn.CombinedMarginLoss(1.0, 0.5, 0.0))

    def rank() -> list[float]:
        flow.set_default_dtype(flow.float64)
        layer, (embeddings, labels, _) = head(margin=margin), drawn()
        me = distributed.get_rank()
        own = embeddings.chunk(n)[me].requires_grad_()
        loss = layer(own, labels.chunk(n)[me])
        loss.backward()
        rows = slice(layer.first, layer.first + len(layer.weight))
        wanted = [expected[0], expected[1].chunk(n)[me], expected[2][rows]]
        return [(a - b).abs().max().item() for a, b in zip([loss, own.grad, layer.weight.grad], wanted, strict=True)]

    for differences in flow.testing.run_ranks(n, rank):
        assert max(differences) < 1e-13


@pytest.mark.parametrize("sparse", [False, True])
def test_sampled_classes(sparse: bool) -> None:
    def rank() -> Any:
        flow.set_default_dtype(flow.float64)
        layer, (embeddings, labels, _) = head(sample_rate=0.6, sparse=sparse), drawn()
        seen: list[Any] = []
        sample = layer._sample
        layer._sample = lambda own: seen.append(sample(own)) or seen[-1]  # type: ignore[method-assign]
        me = distributed.get_rank()
        own = embeddings.chunk(2)[me].requires_grad_()
        loss = layer(own, labels.chunk(2)[me])
        loss.backward()
        grad = layer.weight.grad
        assert grad.is_sparse == sparse
        n_rows = grad.coalesce().values().shape[0] if sparse else (grad.abs().sum(1) > 0).sum().item()
        assert n_rows == len(seen[0]) == max(round(0.6 * len(layer.weight)), len(seen[0]))
        layer.eval()
        complete = layer(own, labels.chunk(2)[me]).item()
        return loss.item(), (seen[0] + layer.first).tolist(), own.grad, (grad.to_dense() if sparse else grad), complete

    results = flow.testing.run_ranks(2, rank)
    kept = flow.zeros(CLASSES, dtype=flow.bool)
    for _, chosen, *_ in results:
        kept[chosen] = True
    labels = drawn()[1]
    assert kept[labels].all() and not kept.all()
    loss, of_embeddings, of_weight = whole(nn.CombinedMarginLoss(1.0, 0.5, 0.0), kept)
    complete = whole(nn.CombinedMarginLoss(1.0, 0.5, 0.0))[0].item()
    for found, _, _, _, in_evaluation in results:
        assert found == pytest.approx(loss.item(), rel=1e-12)
        assert in_evaluation == pytest.approx(complete, rel=1e-12)
    assert flow.allclose(flow.cat([r[2] for r in results]), of_embeddings, rtol=0, atol=1e-13)
    assert flow.allclose(flow.cat([r[3] for r in results]), of_weight, rtol=0, atol=1e-13)


def test_first_weights_and_training_do_not_depend_on_the_ranks() -> None:
    def trained(how: str) -> list[float]:
        flow.set_default_dtype(flow.float64)
        flow.manual_seed(0)
        embeddings, labels, _ = drawn()
        flow.manual_seed(0)
        net, layer = nn.Linear(WIDTH, WIDTH), PartialFC(WIDTH, CLASSES, scale=SCALE, averaged=how == "ddp")
        n, me = distributed.get_world_size(), distributed.get_rank()
        x, y = embeddings.chunk(n)[me], labels.chunk(n)[me]
        run: Any = net
        if how == "ddp":
            run = nn.parallel.DistributedDataParallel(net)
        elif how == "global":
            place = flow.placement.all("cpu")
            net.to_global(place, flow.sbp.broadcast)
            x, y = (part.to_global(place, flow.sbp.split(0)) for part in (x, y))
        optimizer = flow.optim.AdamW([*net.parameters(), *layer.parameters()], lr=1e-2)
        losses = []
        for _ in range(20):
            loss = layer(run(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    (expected,) = flow.testing.run_ranks(1, trained, "alone")
    assert expected[-1] < expected[0]
    for how in ("ddp", "global"):
        for losses in flow.testing.run_ranks(3, trained, how):
            assert losses == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n", [2, 4])
def test_bytes_do_not_depend_on_the_classes(n: int) -> None:
    def rank() -> dict[str, int]:
        flow.set_default_dtype(flow.float64)
        layer, (embeddings, labels, _) = head(), drawn()
        me = distributed.get_rank()
        own = embeddings.chunk(n)[me].requires_grad_()
        distributed.reset_wire_counters()
        layer(own, labels.chunk(n)[me]).backward()
        return distributed.wire_bytes()

    each = 8 * (BATCH // n) * (n - 1)
    for sent in flow.testing.run_ranks(n, rank):
        assert sent == {
            "all_gather": each * (WIDTH + 1),
            "reduce_scatter": each * WIDTH,
            "all_reduce": 3 * 2 * each,
        }


def test_a_million_classes() -> None:
    def rank() -> tuple[float, int]:
        flow.set_default_dtype(flow.float32)
        flow.manual_seed(0)
        layer = PartialFC(16, 1_000_000, sample_rate=0.01, sparse=True)
        optimizer = flow.optim.SGD(layer.parameters(), lr=1.0)
        me = distributed.get_rank()
        loss = layer(flow.randn(4, 16), flow.tensor([0, 250_000, 600_000, 999_999]))
        loss.backward()
        rows = layer.weight.grad.coalesce().values().shape[0]
        optimizer.step()
        return loss.item(), rows + me * 0

    (first, rows), (second, _) = flow.testing.run_ranks(2, rank)
    assert first == second and rows == 5000


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="sample_rate must be above 0 and at most 1, got 0"):
        PartialFC(4, 10, sample_rate=0)

    def rank() -> None:
        with pytest.raises(ValueError, match="1 classes for 2 ranks; each needs one"):
            PartialFC(4, 1)
        layer = PartialFC(4, 10)
        with pytest.raises(ValueError, match=r"embeddings \(2, 3\) and labels \(2,\) do not fit: \(batch, 4\)"):
            layer(flow.ones(2, 3), flow.tensor([0, 1]))
        with pytest.raises(IndexError, match="label 10 is none of 10 classes"):
            layer(flow.ones(2, 4), flow.tensor([0, 10]))

    flow.testing.run_ranks(2, rank)
