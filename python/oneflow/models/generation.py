"""Text generation, one token at a time, with a cache of keys and values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import Tensor
from oneflow.models.layers import KVCache

__all__ = ["Generator", "sample"]


def sample(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Draw one token for each row of ``logits`` (batch, vocabulary); returns int64 (batch,).

    Args:
        temperature: divides the logits; 0 takes the likeliest token.
        top_k: draw among the ``top_k`` likeliest tokens only.
        top_p: draw among the likeliest tokens that together have this probability (Holtzman et al., 2020).

    Example::

        >>> from oneflow.models import sample
        >>> sample(oneflow.tensor([[0.0, 5.0, 1.0]]), temperature=0)
        tensor([1])
    """
    if temperature < 0 or (top_k is not None and top_k < 1) or (top_p is not None and not 0 < top_p <= 1):
        raise ValueError(
            f"temperature {temperature}, top_k {top_k}, top_p {top_p}: "
            "expected at least 0, at least 1, and above 0 up to 1"
        )
    if temperature == 0:
        return logits.argmax(-1)
    logits = logits.float() / temperature
    if top_k is not None and top_k < logits.shape[-1]:
        least = logits.topk(top_k).values[..., -1:]
        logits = logits.masked_fill(logits < least, float("-inf"))
    if top_p is not None:
        ordered, order = logits.sort(descending=True)
        p = ordered.softmax(-1)
        # A token stays if the likelier ones have not reached top_p without it: the first always does.
        surplus = p.cumsum(-1) - p >= top_p
        logits = logits.masked_fill(torch.zeros_like(surplus).scatter(-1, order, surplus), float("-inf"))
    return torch.multinomial(logits.softmax(-1), 1, generator=generator).squeeze(-1)


class Generator:
    """Base of language models that continue a text.

    Such a model has ``hidden(tokens, cache, padding_mask)``, which returns (batch, time, width), ``logits(hidden)`` and
    ``config.n_layers``.

    Example::

        >>> from oneflow.models import Llama, LlamaConfig
        >>> model = Llama(LlamaConfig(50, 16, n_layers=1, n_heads=2, width=8, hidden=16)).eval()
        >>> len(list(model.stream(oneflow.tensor([[1, 2]]), max_new_tokens=3)))
        3
    """

    config: Any
    hidden: Any
    logits: Any

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Mean cross entropy in nats per token, 0-dim, of logits (..., vocabulary); targets of -100 do not count."""
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))

    def stream(
        self,
        tokens: Tensor,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        generator: torch.Generator | None = None,
        padding_mask: Tensor | None = None,
        max_new_tokens: int = 128,
    ) -> Iterator[Tensor]:
        """Yield tokens (batch,), one for each row, as they are drawn. See ``generate``."""
        cache = KVCache(self.config.n_layers, tokens.shape[1] + max_new_tokens)
        for _ in range(max_new_tokens):
            with torch.no_grad():
                logits = self.logits(self.hidden(tokens, cache, padding_mask)[:, -1])
                drawn = sample(logits, temperature, top_k, top_p, generator)
            yield drawn
            tokens = drawn[:, None]
            if padding_mask is not None:
                padding_mask = torch.cat([padding_mask, torch.ones_like(padding_mask[:, :1])], dim=1)

    def generate(
        self,
        tokens: Tensor,
        max_new_tokens: int,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        stop: int | None = None,
        generator: torch.Generator | None = None,
        padding_mask: Tensor | None = None,
    ) -> Tensor:
        """Continue ``tokens``, int64 (batch, time), by up to ``max_new_tokens``; returns both together.

        Call ``eval()`` first: dropout applies otherwise.

        Args:
            temperature, top_k, top_p, generator: see ``sample``.
            stop: the token that ends a text. A row that has ended repeats it until all have.
            padding_mask: (batch, time), True for tokens. Prompts of unequal length are padded on the left.

        Raises:
            ValueError: the text would be longer than the model can read.

        Example::

            >>> from oneflow.models import GPT2, GPT2Config
            >>> model = GPT2(GPT2Config(vocabulary=50, n_positions=16, n_layers=1, n_heads=2, width=8)).eval()
            >>> model.generate(oneflow.tensor([[1, 2, 3]]), max_new_tokens=4).shape
            oneflow.Size([1, 7])
        """
        rows = [tokens]
        ended = torch.zeros(tokens.shape[0], dtype=torch.bool, device=tokens.device)
        drawn_tokens = self.stream(
            tokens, temperature, top_k, top_p, generator, padding_mask, max_new_tokens=max_new_tokens
        )
        for drawn in drawn_tokens:
            if stop is not None:
                drawn = drawn.masked_fill(ended, stop)
                ended = ended | (drawn == stop)
            rows.append(drawn[:, None])
            if stop is not None and bool(ended.all()):
                break
        return torch.cat(rows, dim=1)
