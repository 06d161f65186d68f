"""Tokens of a GPT-2 with 124 million parameters, one at a time: the model library's source on both packages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from benches.twin import models_on

Case = tuple[str, Callable[[], object]]

# A text of this length is begun anew, so that the cache has the same sizes on both sides.
N_TOKENS = 64


def generate(torch: Any, device: str) -> Iterator[Case]:
    """One call is one token: batch 1, a cache of keys and values, the likeliest token."""
    models = models_on(torch)
    for dtype in ("float32", "bfloat16"):
        model = models.GPT2(models.GPT2Config.preset("gpt2", dropout=0.0)).to(getattr(torch, dtype)).to(device).eval()
        prompt = torch.tensor([[464, 2068, 7586, 21831]], device=device)

        def tokens(model: Any = model, prompt: Any = prompt) -> Iterator[Any]:
            while True:
                yield from model.stream(prompt, temperature=0.0, max_new_tokens=N_TOKENS)

        yield f"a token of GPT-2 124M, {dtype}", tokens().__next__
