"""Every layout of a transformer trains as one rank does, and sends as many bytes as its formula says."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import oneflow as flow
import pytest
from oneflow import distributed, models, nn

BATCH, TIME, WIDTH, VOCABULARY, LAYERS = 4, 8, 16, 50, 2


def made(name: str, time: int = TIME) -> tuple[Any, tuple[Any, ...]]:
    """A small model, and a batch of 4."""
    flow.manual_seed(0)
    words = flow.randint(0, VOCABULARY, (BATCH, time + 1))
    text = (words[:, :-1].contiguous(), words[:, 1:].contiguous())
    sizes: dict[str, Any] = {"n_layers": LAYERS, "n_heads": 4, "width": WIDTH}
    if name == "gpt2":
        return models.GPT2(models.GPT2Config(VOCABULARY, 16, dropout=0.0, **sizes)), text
    if name == "llama":
        return models.Llama(models.LlamaConfig(VOCABULARY, 16, n_kv_heads=2, hidden=24, **sizes)), text
    if name == "bert":
        return models.BertClassifier(models.BertConfig(VOCABULARY, 16, hidden=32, dropout=0.0, **sizes)), text[:1]
    if name == "t5":
        config = models.T5Config(VOCABULARY, 2, n_heads=4, head_dim=4, width=WIDTH, hidden=32, dropout=0.0)
        return models.T5(config), (text[0], text[1][:, :5].contiguous())
    if name == "swin":
        # Shifted windows in the first stage, one window in the second.
        stages: dict[str, Any] = {"width": WIDTH, "depths": (2, 2), "n_heads": (4, 4), "window": 2, "drop_path": 0.0}
        return models.Swin(models.SwinConfig(8, 2, n_classes=5, **stages)), (flow.randn(BATCH, 3, 8, 8),)
    config = models.ViTConfig(8, 4, hidden=32, n_classes=5, **sizes)
    return models.ViT(config), (flow.randn(BATCH, 3, 8, 8),)


def loss_of(model: Any, *given: Any) -> Any:
    out = model(*given)
    return out if out.dim() == 0 else (out * out).mean()


def train(
    name: str,
    options: dict[str, Any],
    n_steps: int = 20,
    dtype: str = "float64",
    zero: int | None = None,
    time: int = TIME,
) -> tuple[list[float], dict[str, int]]:
    """The losses of a layout, eager or in a graph with ZeRO, and what a forward and a backward sent."""
    flow.set_default_dtype(getattr(flow, dtype))
    model, batch = made(name, time)
    layout = models.ParallelLayout(**options)
    layout.place(model)
    given = layout.batch(*batch)
    optimizer = flow.optim.AdamW(model.parameters(), lr=1e-3)

    class Step(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.add_optimizer(optimizer)
            layout.configure(self)
            if zero:
                self.config.enable_zero(stage=zero, shard_min_size=16)

        def build(self, *given: Any) -> Any:
            loss = loss_of(self.model, *given)
            loss.backward()
            return loss

    step, losses, sent = None if zero is None else Step(), [], {}
    for _ in range(n_steps):
        if step is not None:
            distributed.reset_wire_counters()
            losses.append(step(*given).item())
            sent = distributed.wire_bytes()
            continue
        optimizer.zero_grad()
        distributed.reset_wire_counters()
        loss = loss_of(model, *given)
        loss.backward()
        sent = distributed.wire_bytes()
        losses.append(loss.item())
        optimizer.step()
    return losses, sent


@pytest.fixture(autouse=True)
def default_dtype() -> Any:
    yield
    flow.set_default_dtype(flow.float32)


_alone: dict[Any, list[float]] = {}


def alone(name: str, *how: Any) -> list[float]:
    """The losses of one rank."""
    if (name, how) not in _alone:
        ((losses, _),) = flow.testing.run_ranks(1, train, name, {}, *how)
        assert losses[0] != losses[-1]
        _alone[name, how] = losses
    return _alone[name, how]


def n_ranks(options: dict[str, Any]) -> int:
    return options.get("dp", 1) * options.get("cp", 1) * options.get("tp", 1)


def written(options: dict[str, Any]) -> str:
    return "-".join(f"{name}={value}" if not isinstance(value, bool) else name for name, value in options.items())


SEQUENCE: dict[str, Any] = {"sequence_parallel": True}
EVERY: list[dict[str, Any]] = [
    {"tp": 2, **SEQUENCE},
    {"tp": 2, "recompute": True, **SEQUENCE},
    {"dp": 2, "tp": 2, **SEQUENCE},
    {"tp": 2, "async_tp": True, **SEQUENCE},
    {"cp": 2},
    {"cp": 4},
    {"cp": 2, "context": "allgather"},
    {"cp": 2, "context": "ulysses"},
    {"cp": 2, "tp": 2},
    {"dp": 2, "cp": 2, "tp": 2, "recompute": True, **SEQUENCE},
]
TEXT: list[dict[str, Any]] = [
    {"tp": 2, "vocabulary_parallel": True},
    {"tp": 4, "vocabulary_parallel": True, **SEQUENCE},
    {"tp": 4, "async_tp": True, **SEQUENCE},
    {"cp": 3},
    {"cp": 2, "tp": 2, "vocabulary_parallel": True, **SEQUENCE},
    {"dp": 2, "cp": 2, "tp": 2, "context": "allgather", "vocabulary_parallel": True, **SEQUENCE},
    {"cp": 2, "tp": 2, "context": "ulysses", **SEQUENCE},
    {"dp": 2, "cp": 2, "tp": 2, "async_tp": True, "recompute": True, "vocabulary_parallel": True, **SEQUENCE},
]
# Attention within windows has no one sequence to split.
WINDOWS: list[dict[str, Any]] = [{"dp": 2}, {"tp": 4}, {"dp": 2, "tp": 2}, {"dp": 2, "tp": 2, "recompute": True}]
CASES = [
    *((name, options) for name in ("gpt2", "llama", "bert", "t5", "vit") for options in EVERY),
    *(("gpt2", options) for options in TEXT),
    *(("swin", options) for options in WINDOWS),
]


@pytest.mark.parametrize(("name", "options"), CASES, ids=lambda case: case if isinstance(case, str) else written(case))
def test_one_loss_curve(name: str, options: dict[str, Any]) -> None:
    for losses, _ in flow.testing.run_ranks(n_ranks(options), train, name, options):
        assert losses == pytest.approx(alone(name), rel=1e-9)


UNEVEN: list[dict[str, Any]] = [
    {"tp": 2, **SEQUENCE},
    {"cp": 3},
    {"cp": 2, "tp": 2, **SEQUENCE},
    {"cp": 2, "tp": 2, "async_tp": True, **SEQUENCE},
]


@pytest.mark.parametrize("time", [7, 11])
@pytest.mark.parametrize("options", UNEVEN, ids=written)
def test_uneven_lengths(options: dict[str, Any], time: int) -> None:
    how = (4, "float64", None, time)
    for losses, _ in flow.testing.run_ranks(n_ranks(options), train, "gpt2", options, *how):
        assert losses == pytest.approx(alone("gpt2", *how), rel=1e-9)


@pytest.mark.parametrize("options", [*EVERY, *TEXT], ids=written)
def test_single_precision(options: dict[str, Any]) -> None:
    for losses, _ in flow.testing.run_ranks(n_ranks(options), train, "gpt2", options, 5, "float32"):
        assert losses == pytest.approx(alone("gpt2", 5, "float32"), rel=1e-5)


TRACED: list[tuple[str, dict[str, Any], int]] = [
    ("gpt2", {"tp": 2, **SEQUENCE}, 0),
    ("llama", {"tp": 2, "vocabulary_parallel": True, **SEQUENCE}, 2),
    ("gpt2", {"cp": 2, "context": "allgather"}, 0),
    ("llama", {"cp": 2, "context": "ulysses"}, 2),
    ("gpt2", {"cp": 4}, 0),
    ("swin", {"dp": 2, "tp": 2, "recompute": True}, 0),
    ("swin", {"dp": 2, "tp": 2}, 3),
    ("llama", {"cp": 3}, 0),
    ("bert", {"cp": 2}, 0),
    ("t5", {"cp": 2, "tp": 2}, 0),
    ("llama", {"dp": 2, "cp": 2, "recompute": True}, 3),
    ("gpt2", {"dp": 2, "cp": 2, "tp": 2, "vocabulary_parallel": True, **SEQUENCE}, 1),
    ("t5", {"cp": 2, "tp": 2, "context": "ulysses"}, 0),
    ("bert", {"cp": 2, "tp": 2, "context": "ulysses", "recompute": True, **SEQUENCE}, 0),
    ("gpt2", {"dp": 2, "cp": 2, "tp": 2, "context": "ulysses", **SEQUENCE}, 3),
    ("gpt2", {"dp": 2, "cp": 2, "tp": 2, "context": "allgather", "recompute": True, **SEQUENCE}, 2),
    ("gpt2", {"tp": 4, "async_tp": True, **SEQUENCE}, 0),
    ("llama", {"dp": 2, "tp": 2, "async_tp": True, "vocabulary_parallel": True, **SEQUENCE}, 2),
    ("t5", {"cp": 2, "tp": 2, "async_tp": True, "recompute": True, **SEQUENCE}, 0),
]


@pytest.mark.parametrize(("name", "options", "zero"), TRACED, ids=str)
def test_compiled_steps(name: str, options: dict[str, Any], zero: int) -> None:
    for losses, _ in flow.testing.run_ranks(n_ranks(options), train, name, options, 6, "float64", zero):
        assert losses == pytest.approx(alone(name)[:6], rel=1e-9)


PIPELINES: list[dict[str, Any]] = [
    {"pp": 2, "micro_batches": 4},
    {"pp": 4, "micro_batches": 2, "schedule": "GPipe"},
    {"pp": 2, "micro_batches": 4, "schedule": "ZB-H1"},
    {"pp": 2, "virtual": 2, "micro_batches": 2, "schedule": "Interleaved1F1B"},
    {"pp": 2, "virtual": 2, "micro_batches": 4, "schedule": "ZB-V"},
    {"pp": 2, "tp": 2, "micro_batches": 2},
    {"dp": 2, "pp": 2, "micro_batches": 2, "zero": 1},
    {"dp": 2, "pp": 2, "tp": 2, "micro_batches": 2, "recompute": True, "schedule": "ZB-H1"},
    {"pp": 2, "tp": 2, "micro_batches": 2, **SEQUENCE},
    {"pp": 2, "tp": 2, "micro_batches": 4, "vocabulary_parallel": True},
    {"pp": 4, "tp": 2, "micro_batches": 2, "schedule": "GPipe", "vocabulary_parallel": True, **SEQUENCE},
    {"pp": 2, "tp": 2, "virtual": 2, "micro_batches": 4, "schedule": "ZB-V", "vocabulary_parallel": True, **SEQUENCE},
    {"dp": 2, "pp": 2, "tp": 2, "micro_batches": 2, "recompute": True, "vocabulary_parallel": True, **SEQUENCE},
]
SHARDED: list[tuple[str, dict[str, Any]]] = [
    ("gpt2", {"dp": 2, "zero": 1}),
    ("gpt2", {"dp": 2, "tp": 2, "zero": 3, **SEQUENCE}),
    ("llama", {"dp": 2, "cp": 2, "context": "ulysses", "recompute": True, "zero": 3}),
    ("llama", {"dp": 4, "tp": 2, "vocabulary_parallel": True, "zero": 2, **SEQUENCE}),
]


@pytest.mark.parametrize(("name", "options"), SHARDED, ids=str)
def test_zero_in_a_graph(name: str, options: dict[str, Any]) -> None:
    for losses, _ in flow.testing.run_ranks(n_ranks(options), train, name, options, 6, "float64", 0):
        assert losses == pytest.approx(alone(name)[:6], rel=1e-9)


def pipelined(options: dict[str, Any], traced: bool, n_steps: int = 20) -> tuple[list[float], dict[str, int]]:
    """The losses of a Llama of four blocks, maybe in stages, and what the last step sent."""
    flow.set_default_dtype(flow.float64)
    flow.manual_seed(0)
    words = flow.randint(0, VOCABULARY, (BATCH, TIME + 1))
    config = models.LlamaConfig(VOCABULARY, 16, n_layers=4, n_heads=4, n_kv_heads=2, width=WIDTH, hidden=24)
    layout = models.ParallelLayout(**options)
    model = layout.place(models.Llama(config))
    given = layout.batch(words[:, :-1].contiguous(), words[:, 1:].contiguous())
    optimizer = flow.optim.AdamW(model.parameters(), lr=1e-3)

    class Step(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.add_optimizer(optimizer)
            layout.configure(self)

        def build(self, *given: Any) -> Any:
            loss = self.model(*given)
            loss.backward()
            return loss

    step, losses = Step(), []
    for _ in range(n_steps):
        distributed.reset_wire_counters()
        if traced:
            loss = step(*given)
        else:
            optimizer.zero_grad()
            loss = model(*given)
            loss.backward()
            optimizer.step()
        sent = distributed.wire_bytes()
        losses.append(layout.mean(loss))
    return losses, sent


STAGES: list[dict[str, Any]] = [
    {},
    {"pp": 2, "micro_batches": 2},
    {"pp": 2, "virtual": 2, "micro_batches": 2, "schedule": "InterleavedZeroBubble"},
]
COPIES: list[dict[str, Any]] = [
    {"tp": 2},
    *({"dp": 2, "zero": zero} for zero in range(4)),
    *({"dp": 2, "tp": 2, "zero": zero} for zero in range(4)),
]
# All mixtures; every other one computes its blocks again. Those that split matrices split sequences too, some of them
# the vocabulary.
MIXTURES = [
    {
        **stages,
        **copies,
        "recompute": bool(number % 2),
        **({**SEQUENCE, "vocabulary_parallel": number % 3 == 0} if "tp" in copies else {}),
    }
    for number, (stages, copies) in enumerate(itertools.product(STAGES, COPIES))
]


@pytest.mark.parametrize("options", MIXTURES, ids=written)
def test_mixtures_in_a_graph(options: dict[str, Any]) -> None:
    """Stages, copies with each stage of ZeRO and parts of matrices together."""
    ((expected, _),) = flow.testing.run_ranks(1, pipelined, {}, False, 6)
    for losses, _ in flow.testing.run_ranks(options.get("pp", 1) * n_ranks(options), pipelined, options, True, 6):
        assert losses == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("options", PIPELINES, ids=written)
def test_pipelines(options: dict[str, Any], traced: bool) -> None:
    if "zero" in options and not traced:
        with pytest.raises(
            RuntimeError, match=r"zero=1 works in an nn.Graph that layout.configure\(graph\) has prepared"
        ):
            flow.testing.run_ranks(4, pipelined, options, False)
        return
    ((expected, _),) = flow.testing.run_ranks(1, pipelined, {}, False)
    assert expected[0] != expected[-1]
    for losses, _ in flow.testing.run_ranks(options["pp"] * n_ranks(options), pipelined, options, traced):
        assert losses == pytest.approx(expected, rel=1e-9)


def test_bytes_of_a_pipeline() -> None:
    """Each boundary passes an activation of every micro-batch forward, and its gradient back."""
    for schedule, virtual, boundaries in (("1F1B", 1, 1), ("Interleaved1F1B", 2, 3), ("ZB-V", 2, 2)):
        options = {"pp": 2, "virtual": virtual, "micro_batches": 4, "schedule": schedule}
        found = flow.testing.run_ranks(2, pipelined, options, True, 2)
        assert sum(sum(sent.values()) for _, sent in found) == boundaries * 2 * ACTIVATION


def test_bytes_between_stages_of_parts_of_sequences() -> None:
    """A boundary passes each part of a sequence once, where without each rank of a stage has all of it."""
    for options, n_copies in (({}, 2), (SEQUENCE, 1), ({**SEQUENCE, "vocabulary_parallel": True}, 1)):
        found = flow.testing.run_ranks(4, pipelined, {"pp": 2, "tp": 2, "micro_batches": 2, **options}, True, 2)
        assert sum(sent.get("send", 0) for _, sent in found) == 2 * n_copies * ACTIVATION, options


# Bytes: what is sent by a rank of n for an activation (batch, time, width), and for gradients of what every rank has.
ACTIVATION = 8 * BATCH * TIME * WIDTH


def check_sent(sent: dict[str, int], n: int, reduced: int, **others: int) -> None:
    """All bytes but those of two scalars of the loss, its sum and how many words count."""
    scalars = sent.pop("all_reduce") - 2 * (n - 1) * reduced // n
    assert sent == others
    assert 0 <= scalars <= 2 * 8 * 2 * n


def parameters(name: str, replicated: bool = False) -> int:
    """Bytes of the weights; those that tensor parallelism leaves whole, apart from biases after a sum over ranks."""
    split = ("query", "key", "value", "up", "gate", "out", "down")
    model, _ = made(name)
    kept = [p for key, p in model.named_parameters() if not (replicated and key.split(".")[-2] in split)]
    return 8 * sum(p.numel() for p in kept)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_bytes_of_sequence_parallelism(name: str, n: int) -> None:
    if name == "llama" and n > 2:
        pytest.skip("two heads of keys and values")
    reduced = parameters(name, replicated=True)
    for _, sent in flow.testing.run_ranks(n, train, name, {"tp": n, **SEQUENCE}, 1):
        # Before each pair of products a gather and after it a scattered sum; backward the other way round.
        each = 4 * LAYERS * ACTIVATION * (n - 1) // n
        check_sent(sent, n, reduced, all_gather=each, reduce_scatter=each)
    for _, sent in flow.testing.run_ranks(n, train, name, {"tp": n, "async_tp": True, **SEQUENCE}, 1):
        check_sent(sent, n, reduced, send=2 * each)


def test_bytes_of_a_split_vocabulary() -> None:
    n = 2
    rows = 3 * 8 * BATCH * TIME
    tables = 8 * VOCABULARY * WIDTH
    for _, sent in flow.testing.run_ranks(n, train, "gpt2", {"tp": n, "vocabulary_parallel": True, **SEQUENCE}, 1):
        each = (4 * LAYERS + 2) * ACTIVATION * (n - 1) // n
        reduced = parameters("gpt2", replicated=True) - tables + rows
        # The table's rows are a scattered sum, and the states are gathered before the logits; backward the other way.
        check_sent(sent, n, reduced, all_gather=each, reduce_scatter=each)


@pytest.mark.parametrize("n", [2, 4])
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_bytes_of_context_parallelism(name: str, n: int) -> None:
    reduced = parameters(name)
    # Keys and values of a rank; Llama has half as many heads of them.
    block = 2 * ACTIVATION // n // (2 if name == "llama" else 1)
    for _, sent in flow.testing.run_ranks(n, train, name, {"cp": n}, 1):
        check_sent(sent, n, reduced, send=LAYERS * 3 * (n - 1) * block)
    for _, sent in flow.testing.run_ranks(n, train, name, {"cp": n, "context": "allgather"}, 1):
        each = LAYERS * (n - 1) * block
        check_sent(sent, n, reduced, all_gather=2 * each, send=each)
    if name == "llama" and n > 2:
        return
    for _, sent in flow.testing.run_ranks(n, train, name, {"cp": n, "context": "ulysses"}, 1):
        each = 2 * (2 * ACTIVATION // n + block) * (n - 1) // n
        check_sent(sent, n, reduced, all_to_all=LAYERS * each)


@pytest.mark.parametrize("zero", [None, 0])
@pytest.mark.parametrize("dp", [1, 2])
def test_bytes_of_heads_traded_within_a_part(dp: int, zero: int | None) -> None:
    """Ulysses beside tensor parallelism: ranks trade heads of their part alone, eagerly and in a graph."""
    options = {"dp": dp, "cp": 2, "tp": 2, "context": "ulysses", **SEQUENCE}
    # Queries, keys, values and results, there and back: half of each rank's part.
    traded = LAYERS * 8 * (ACTIVATION // 4 // dp) // 2
    for _, sent in flow.testing.run_ranks(4 * dp, train, "gpt2", options, 1, "float64", zero):
        assert sent["all_to_all"] == traded, sent


def test_bytes_of_all_at_once() -> None:
    """Over two copies of two parts of the sequence of two parts of the heads each."""
    options = {"dp": 2, "cp": 2, "tp": 2, **SEQUENCE}
    own = ACTIVATION // 4
    replicated, biases = parameters("gpt2", replicated=True), 8 * LAYERS * 2 * WIDTH
    split = parameters("gpt2") - replicated - biases
    # Gradients are summed over an axis after the other: of what "tp" splits, and of biases that it adds once, over two.
    reduced = 3 * replicated + 2 * split // 2 + 2 * biases
    for _, sent in flow.testing.run_ranks(8, train, "gpt2", options, 1):
        each = 4 * LAYERS * own // 2
        scalars = sent.pop("all_reduce") - reduced
        assert sent == {"all_gather": each, "reduce_scatter": each, "send": LAYERS * 3 * own}
        assert 0 <= scalars <= 3 * 2 * 8 * 2


def test_logits_are_those_of_one_rank() -> None:
    def logits(options: dict[str, Any]) -> Any:
        flow.set_default_dtype(flow.float64)
        model, batch = made("gpt2")
        layout = models.ParallelLayout(**options)
        (tokens,) = layout.batch(batch[0])
        out = layout.place(model)(tokens)
        prompt = flow.tensor([[1, 2, 3]]).to_global(layout.placement, [flow.sbp.broadcast] * len(layout.axes))
        text = model.eval().generate(prompt, 6, temperature=0)
        return [x.to_global(sbp=[flow.sbp.broadcast] * len(x.sbp)).to_local().tolist() for x in (out, text)]

    ((expected, text),) = flow.testing.run_ranks(1, logits, {})
    for options in ({"cp": 2}, {"cp": 4, "context": "ulysses"}, {"cp": 2, "tp": 2, **SEQUENCE}, {"tp": 4, **SEQUENCE}):
        for found, also in flow.testing.run_ranks(n_ranks(options), logits, options):
            assert flow.allclose(flow.tensor(found), flow.tensor(expected), rtol=0, atol=1e-12)
            assert also == text


def test_cross_entropy_of_split_classes() -> None:
    def both() -> list[tuple[float, float]]:
        flow.manual_seed(0)
        place, sbp = flow.placement("cpu", [[0, 1], [2, 3]]), flow.sbp
        logits, targets = flow.randn(4, 6, 7, dtype=flow.float64) * 30, flow.randint(0, 7, (4, 6))
        targets[1, 2:] = -100
        leaf = logits.clone().requires_grad_()
        expected = nn.functional.cross_entropy(leaf.view(-1, 7), targets.view(-1))
        expected.backward()
        found = []
        for layout in ((sbp.split(0), sbp.split(2)), (sbp.split(1), sbp.split(1)), (sbp.split(2), sbp.split(2))):
            x = logits.to_global(place, [sbp.broadcast] * 2).to_global(sbp=layout).requires_grad_()
            y = targets.to_global(place, [sbp.broadcast] * 2)
            loss = models.vocabulary_parallel_cross_entropy(x, y)
            loss.backward()
            grad = x.grad.to_global(sbp=[sbp.broadcast] * 2).to_local()
            found.append((abs(loss.item() - expected.item()), (grad - leaf.grad).abs().max().item()))
        with pytest.raises(IndexError, match="Target 7 is out of bounds for 7 classes"):
            models.vocabulary_parallel_cross_entropy(x, y + 107 * (y < 0))
        with pytest.raises(ValueError, match=r"logits \(4, 6, 7\) and targets \(4,\) do not fit"):
            models.vocabulary_parallel_cross_entropy(x, y[:, 0])
        return found

    for pairs in flow.testing.run_ranks(4, both):
        assert all(max(pair) < 1e-12 for pair in pairs)


def test_layouts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="cp must be at least 1, got 0"):
        models.ParallelLayout(cp=0)
    with pytest.raises(ValueError, match="context must be one of ring, allgather, ulysses, got 'tree'"):
        models.ParallelLayout(cp=2, context="tree")
    with pytest.raises(ValueError, match="sequence_parallel splits over the ranks of tp, which is 1"):
        models.ParallelLayout(sequence_parallel=True)
    with pytest.raises(ValueError, match="dp=1 times cp=3 times tp=1 is not the job's 1 ranks"):
        models.ParallelLayout(cp=3).placement

    with pytest.raises(ValueError, match="async_tp overlaps what sequence_parallel sends, which is False"):
        models.ParallelLayout(tp=2, async_tp=True)
    with pytest.raises(ValueError, match="schedule"):
        models.ParallelLayout(pp=2, schedule="2F2B")
    with pytest.raises(ValueError, match="pp=2 times dp=1 times tp=1 is not the job's 1 ranks"):
        models.ParallelLayout(pp=2).placement

    def refused() -> None:
        staged = models.ParallelLayout(pp=2, virtual=2, micro_batches=4, schedule="Interleaved1F1B")
        with pytest.raises(ValueError, match="Llama: 2 blocks for 4 pipeline stages; each needs one"):
            staged.place(made("llama")[0])
        with pytest.raises(ValueError, match="GPT2: logits come from the table of tokens"):
            staged.place(made("gpt2")[0])
        with pytest.raises(ValueError, match="ViT is no language model"):
            staged.place(made("vit")[0])
        with pytest.raises(ValueError, match=r"\(6, 2\) does not divide by dp=1 times micro_batches=4"):
            staged.batch(flow.zeros(6, 2))
        swin = models.Swin(models.SwinConfig(image=32, width=8, depths=(1, 1), n_heads=(2, 2), window=4))
        with pytest.raises(ValueError, match=r"Swin attends within parts of its input \(blocks.0.windows.attention\)"):
            models.ParallelLayout(cp=2).place(swin)
        dropping = models.GPT2(models.GPT2Config(50, 16, 1, n_heads=2, width=8, dropout=0.1))
        with pytest.raises(ValueError, match=r"GPT2 drops attention weights .*dropout 0.1.* or take context='ulysses'"):
            models.ParallelLayout(cp=2).place(dropping)
        with pytest.raises(ValueError, match="1 heads and 1 of keys and values on a rank do not divide by cp=2"):
            models.ParallelLayout(cp=2, context="ulysses").place(
                models.GPT2(models.GPT2Config(50, 16, 1, n_heads=1, width=8, dropout=0.0))
            )
        with pytest.raises(ValueError, match="ViT is no language model: vocabulary_parallel has nothing to split"):
            models.ParallelLayout(tp=2, vocabulary_parallel=True).place(made("vit")[0])

    flow.testing.run_ranks(2, refused)


def test_dropout_is_that_of_one_rank() -> None:
    """Under "ulysses" what is dropped follows from the place in the whole, as everywhere with global tensors."""

    def losses(options: dict[str, Any]) -> list[float]:
        flow.set_default_dtype(flow.float64)
        flow.manual_seed(0)
        model = models.GPT2(models.GPT2Config(VOCABULARY, 16, 2, n_heads=4, width=WIDTH, dropout=0.2))
        layout = models.ParallelLayout(**options)
        layout.place(model)
        flow.manual_seed(1)
        return [model(*layout.batch(*made("gpt2")[1])).item() for _ in range(2)]

    (expected,) = flow.testing.run_ranks(1, losses, {})
    ulysses: dict[str, Any] = {"cp": 2, "context": "ulysses"}
    for options in (ulysses, {**ulysses, "tp": 2, **SEQUENCE}, {"tp": 2, **SEQUENCE}):
        for found in flow.testing.run_ranks(n_ranks(options), losses, options):
            assert found == pytest.approx(expected, rel=1e-12)


SCRIPT = """
import json, os, sys
sys.path.insert(0, {tests!r})
import test_layouts
found = [test_layouts.train(name, options, 3)[0] for name, options in {cases!r}]
with open({out!r} + os.environ["RANK"], "w") as f:
    json.dump(found, f)
"""


def test_four_processes(tmp_path: Path) -> None:
    cases = [("gpt2", {"cp": 2, "tp": 2, **SEQUENCE}), ("llama", {"cp": 4}), ("gpt2", {"cp": 4, "context": "ulysses"})]
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parent), cases=cases, out=str(tmp_path / "losses")))
    command = [sys.executable, "-m", "oneflow.distributed.launch", "--nproc-per-node", "4", str(script)]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    for rank in range(4):
        found = json.loads((tmp_path / f"losses{rank}").read_text())
        for losses, (name, _) in zip(found, cases, strict=True):
            assert losses == pytest.approx(alone(name)[:3], rel=1e-9)
