"""Generated text: the reference's tokens, a cache that changes nothing, sampling as described, bad input."""

from __future__ import annotations

from typing import Any

import numpy as np
import oneflow as flow
import pytest
import torch
from models_library.cases import CASES
from oneflow.models import GPT2, GPT2Config, Llama, LlamaConfig, sample
from oneflow.models.layers import KVCache

LANGUAGE_MODELS = ("gpt2", "llama", "llama3")


def both(name: str, folder: Any) -> tuple[Any, Any]:
    torch.manual_seed(0)
    reference = CASES[name].reference().eval()
    with torch.no_grad():
        for parameter in reference.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    return reference, CASES[name].load(CASES[name].save(reference, folder))


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
@pytest.mark.parametrize("batch", [1, 3])
def test_greedy_tokens_are_the_reference_s(name: str, batch: int, tmp_path: Any) -> None:
    reference, ours = both(name, tmp_path)
    tokens = np.random.default_rng(0).integers(3, 50, (batch, 5))
    mask = np.ones_like(tokens)
    expected = reference.generate(
        torch.tensor(tokens), attention_mask=torch.tensor(mask), max_new_tokens=20, do_sample=False, pad_token_id=0
    )
    assert ours.generate(flow.tensor(tokens), 20, temperature=0).tolist() == expected.tolist()


@pytest.mark.parametrize("name", LANGUAGE_MODELS)
def test_prompts_of_unequal_length_are_padded_on_the_left(name: str, tmp_path: Any) -> None:
    reference, ours = both(name, tmp_path)
    tokens = np.random.default_rng(0).integers(3, 50, (2, 6))
    mask = np.array([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    expected = reference.generate(
        torch.tensor(tokens), attention_mask=torch.tensor(mask), max_new_tokens=12, do_sample=False, pad_token_id=0
    )
    out = ours.generate(flow.tensor(tokens), 12, temperature=0, padding_mask=flow.tensor(mask).bool())
    assert out.tolist() == expected.tolist()
    # Padding is as if it were not there.
    alone = ours.generate(flow.tensor(tokens[:1, 2:]), 12, temperature=0)
    assert out[:1, 2:].tolist() == alone.tolist()


def test_t5_writes_the_reference_s_tokens(tmp_path: Any) -> None:
    reference, ours = both("t5", tmp_path)
    tokens = np.random.default_rng(0).integers(3, 50, (2, 6))
    expected = reference.generate(
        torch.tensor(tokens),
        attention_mask=torch.ones(2, 6),
        max_new_tokens=10,
        min_new_tokens=10,
        do_sample=False,
        eos_token_id=None,
    )
    assert ours.generate(flow.tensor(tokens), 10, stop=None).tolist() == expected.tolist()


def small(dtype: Any = flow.float32) -> list[Any]:
    flow.manual_seed(0)
    gpt2 = GPT2(GPT2Config(50, n_positions=32, n_layers=2, n_heads=2, width=16))
    llama = Llama(LlamaConfig(50, 32, 2, 4, 2, width=16, hidden=24))
    for model in (gpt2, llama):
        for parameter in model.parameters():
            parameter.data = parameter.data + 0.2 * flow.randn_like(parameter)
    return [gpt2.to(dtype).eval(), llama.to(dtype).eval()]


@pytest.mark.parametrize("dtype", [flow.float32, flow.bfloat16])
@pytest.mark.parametrize("chunks", [[1] * 12, [5, 1, 6], [11, 1]])
def test_a_cache_changes_nothing(chunks: list[int], dtype: Any) -> None:
    tokens = flow.randint(0, 50, (2, 12))
    for model in small(dtype):
        whole, cache, parts, start = model.hidden(tokens), KVCache(2, 12), [], 0
        for n in chunks:
            parts.append(model.hidden(tokens[:, start : start + n], cache))
            start += n
        tolerance = 1e-5 if dtype is flow.float32 else 0.06
        assert flow.allclose(flow.cat(parts, 1).float(), whole.float(), atol=tolerance, rtol=tolerance)


def test_a_stopped_row_repeats_its_stop() -> None:
    model = small()[0]
    free = model.generate(flow.tensor([[1, 2], [3, 4]]), 12, temperature=0)
    stop = int(free[0, 5])
    out = model.generate(flow.tensor([[1, 2], [3, 4]]), 12, temperature=0, stop=stop).tolist()
    for row, full in zip(out, free.tolist(), strict=True):
        end = full.index(stop, 2) if stop in full[2:] else len(row)
        assert row[:end] == full[:end]
        assert set(row[end:]) <= {stop}


def test_a_seed_repeats_a_text_and_streaming_is_generating() -> None:
    model = small()[1]
    prompt = flow.tensor([[1, 2]])

    def generator() -> Any:
        return flow.Generator().manual_seed(7)

    first = model.generate(prompt, 10, top_k=20, generator=generator())
    assert first.tolist() == model.generate(prompt, 10, top_k=20, generator=generator()).tolist()
    streamed = [int(t) for t in model.stream(prompt, top_k=20, generator=generator(), max_new_tokens=10)]
    assert streamed == first[0, 2:].tolist()


def test_sampling_draws_from_what_it_says() -> None:
    probabilities = flow.tensor([0.5, 0.3, 0.15, 0.05])
    logits = probabilities.log().expand(4000, 4)

    def shares(**how: Any) -> list[float]:
        drawn = sample(logits, generator=flow.Generator().manual_seed(0), **how)
        return (drawn.bincount(minlength=4) / 4000.0).tolist()

    # 0.03 is four standard deviations of a share of 4000 draws.
    assert shares() == pytest.approx(probabilities.tolist(), abs=0.03)
    assert shares(top_k=2) == pytest.approx([0.625, 0.375, 0, 0], abs=0.03)
    assert shares(top_p=0.7) == pytest.approx([0.625, 0.375, 0, 0], abs=0.03)
    assert shares(top_p=0.01) == [1, 0, 0, 0]
    assert shares(temperature=0) == [1, 0, 0, 0]
    squared = probabilities**2 / (probabilities**2).sum()
    assert shares(temperature=0.5) == pytest.approx(squared.tolist(), abs=0.03)


@pytest.mark.parametrize("how", [{"temperature": -1.0}, {"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}])
def test_impossible_sampling_is_refused(how: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected at least 0"):
        sample(flow.zeros(1, 4), **how)


def test_texts_too_long_are_refused() -> None:
    for model in small():
        with pytest.raises(ValueError, match="reads at most 32"):
            model.generate(flow.ones(1, 30, dtype=flow.int64), 5)
        with pytest.raises(ValueError, match="do not fit in a cache of 3"):
            model.hidden(flow.ones(1, 4, dtype=flow.int64), KVCache(2, 3))
