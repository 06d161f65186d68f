"""Transformers over two ranks: the losses of one rank, with whole weights and split batches or the other way round."""

from __future__ import annotations

from typing import Any

import oneflow as flow
import pytest
from oneflow import models, nn, sbp

SIZES: dict[str, Any] = {"n_layers": 2, "n_heads": 4}


def made(name: str) -> tuple[Any, Any]:
    """A model, and the loss of its batch of 4."""
    flow.manual_seed(0)
    tokens, image = flow.randint(0, 50, (4, 8)), flow.randn(4, 3, 8, 8)
    if name == "gpt2":
        gpt2 = models.GPT2(models.GPT2Config(50, 16, width=16, dropout=0.0, **SIZES))
        return gpt2, (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    if name == "llama":
        llama = models.Llama(models.LlamaConfig(50, 16, n_kv_heads=2, width=16, hidden=24, **SIZES))
        return llama, (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())
    if name == "bert":
        config = models.BertConfig(50, 16, width=16, hidden=32, dropout=0.0, **SIZES)
        return models.BertClassifier(config), (tokens,)
    if name == "t5":
        config = models.T5Config(50, 2, n_heads=4, head_dim=4, width=16, hidden=32, dropout=0.0)
        return models.T5(config), (tokens, tokens[:, :5].contiguous())
    return models.ViT(models.ViTConfig(8, 4, width=16, hidden=32, n_classes=5, **SIZES)), (image,)


def train(name: str, layout: str, traced: bool = False) -> list[float]:
    model, batch = made(name)
    if layout != "single":
        placement = flow.placement.all("cpu")
        batch = tuple(x.to_global(placement, sbp.broadcast) for x in batch)
        if layout == "data":
            model.to_global(placement, sbp.broadcast)
            batch = tuple(x.to_global(sbp=sbp.split(0)) for x in batch)
        else:
            models.tensor_parallel(model, placement)
    optimizer = flow.optim.SGD(model.parameters(), lr=0.1)

    def loss_of(*given: Any) -> Any:
        out = model(*given)
        loss = out if out.dim() == 0 else (out * out).mean()
        loss.backward()
        return loss

    class Step(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.add_optimizer(optimizer)

        def build(self, *given: Any) -> Any:
            return loss_of(*given)

    step = Step() if traced else None
    losses = []
    for _ in range(3):
        if step is not None:
            losses.append(step(*batch).item())
            continue
        optimizer.zero_grad()
        losses.append(loss_of(*batch).item())
        optimizer.step()
    return losses


@pytest.mark.parametrize("traced", [False, True])
@pytest.mark.parametrize("layout", ["data", "tensor"])
@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "t5", "vit"])
def test_losses_equal_those_of_one_rank(name: str, layout: str, traced: bool) -> None:
    expected = train(name, "single")
    assert expected[0] != expected[-1]
    for losses in flow.testing.run_ranks(2, train, name, layout, traced):
        assert losses == pytest.approx(expected, rel=1e-5)


def train_over(name: str, dp: int, tp: int, recompute: bool, zero: int | None) -> list[float]:
    """The losses of a layout: eager, or in a graph with ZeRO."""
    flow.set_default_dtype(flow.float64)
    model, batch = made(name)
    layout = models.ParallelLayout(dp, tp, recompute)
    layout.place(model)
    given = layout.batch(*batch)
    optimizer = flow.optim.AdamW(model.parameters(), lr=0.01)

    def loss_of(*given: Any) -> Any:
        out = model(*given)
        loss = out if out.dim() == 0 else (out * out).mean()
        loss.backward()
        return loss

    class Step(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.add_optimizer(optimizer)
            if zero:
                self.config.enable_zero(stage=zero, shard_min_size=16)

        def build(self, *given: Any) -> Any:
            return loss_of(*given)

    step = None if zero is None else Step()
    losses = []
    for _ in range(4):
        if step is not None:
            losses.append(step(*given).item())
            continue
        optimizer.zero_grad()
        losses.append(loss_of(*given).item())
        optimizer.step()
    return losses


# dp, tp, recompute, stage of ZeRO in a graph; None: eager
LAYOUTS = [
    (2, 1, False, None),
    (1, 2, True, None),
    (2, 2, False, 0),
    (2, 2, True, None),
    (2, 2, True, 0),
    (2, 2, True, 2),
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "t5", "vit"])
def test_every_layout_gives_one_loss_curve(name: str, layout: tuple[int, int, bool, int | None]) -> None:
    try:
        (expected,) = flow.testing.run_ranks(1, train_over, name, 1, 1, False, None)
        assert expected[0] != expected[-1]
        for losses in flow.testing.run_ranks(layout[0] * layout[1], train_over, name, *layout):
            assert losses == pytest.approx(expected, rel=1e-9)
    finally:
        flow.set_default_dtype(flow.float32)


def test_recomputed_blocks_keep_their_inputs_alone() -> None:
    def kept(recompute: bool) -> int:
        model, batch = made("llama")
        layout = models.ParallelLayout(recompute=recompute)
        layout.place(model)
        held: set[int] = set()

        def pack(x: Any) -> Any:
            held.add(x.numel())
            sizes.append(x.numel())
            return x

        sizes: list[int] = []
        with flow.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            model(*layout.batch(*batch))
        return sum(sizes)

    assert kept(True) < kept(False) / 2


def test_layouts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="dp=2 times tp=1 is not the job's 1 ranks"):
        models.ParallelLayout(dp=2).placement
    with pytest.raises(ValueError, match="tp must be at least 1, got 0"):
        models.ParallelLayout(tp=0)

    def rows() -> None:
        with pytest.raises(ValueError, match=r"a batch of shape \(3, 2\) does not divide by dp=2"):
            models.ParallelLayout(dp=2).batch(flow.zeros(3, 2))

    flow.testing.run_ranks(2, rows)

    def nothing_to_split() -> None:
        with pytest.raises(ValueError, match="ResNet has no attention or feed-forward network to split over 2 ranks"):
            models.ParallelLayout(tp=2).place(models.ResNet(models.ResNetConfig.preset("resnet18")))

    flow.testing.run_ranks(2, nothing_to_split)


def generated() -> list[int]:
    model, _ = made("llama")
    models.tensor_parallel(model.eval(), flow.placement.all("cpu"))
    prompt = flow.tensor([[1, 2, 3]]).to_global(flow.placement.all("cpu"), sbp.broadcast)
    return model.generate(prompt, 6, temperature=0).to_local().tolist()


def test_split_models_write_the_same_text() -> None:
    model, _ = made("llama")
    expected = model.eval().generate(flow.tensor([[1, 2, 3]]), 6, temperature=0).tolist()
    for tokens in flow.testing.run_ranks(2, generated):
        assert tokens == expected


def refused() -> str:
    with pytest.raises(ValueError) as caught:
        models.tensor_parallel(made("llama")[0], flow.placement.all("cpu"))
    return str(caught.value)


def test_heads_that_do_not_divide_are_named() -> None:
    for text in flow.testing.run_ranks(3, refused):
        assert text == "blocks.0.attention: 4 and 2 do not divide by 3 ranks"
