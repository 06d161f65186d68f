"""GPT-2: a decoder over learned positions (Radford et al., "Language Models are Unsupervised Multitask Learners",
2019).

Reads the weights of Hugging Face's ``gpt2`` family.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import Tensor, nn
from oneflow.models.generation import Generator
from oneflow.models.layers import MLP, Attention, KVCache, LayerCache, decoder_mask, init_linear
from oneflow.models.pretrained import Config, Layout, Part, Pretrained

__all__ = ["GPT2", "GPT2Config"]


@dataclass
class GPT2Config(Config):
    """Sizes of a GPT-2. The defaults are those of the smallest, with 124 million parameters.

    Args:
        n_positions: the longest text in tokens.
        hidden: width of the feed-forward networks, four times ``width`` by default.

    Example::

        >>> from oneflow.models import GPT2Config
        >>> GPT2Config.preset("gpt2-xl").width
        1600
    """

    vocabulary: int = 50257
    n_positions: int = 1024
    n_layers: int = 12
    n_heads: int = 12
    width: int = 768
    hidden: int | None = None
    dropout: float = 0.1
    norm_eps: float = 1e-5

    presets = {
        "gpt2": {},
        "gpt2-medium": {"n_layers": 24, "n_heads": 16, "width": 1024},
        "gpt2-large": {"n_layers": 36, "n_heads": 20, "width": 1280},
        "gpt2-xl": {"n_layers": 48, "n_heads": 25, "width": 1600},
    }
    model_type = "gpt2"
    hugging_face = {
        "vocabulary": "vocab_size",
        "n_positions": "n_positions",
        "n_layers": "n_layer",
        "n_heads": "n_head",
        "width": "n_embd",
        "hidden": "n_inner",
        "dropout": "resid_pdrop",
        "norm_eps": "layer_norm_epsilon",
    }
    implemented = {
        "activation_function": ("gelu_new", "gelu_pytorch_tanh"),
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "add_cross_attention": (False,),
        "tie_word_embeddings": (True,),
    }


class Block(nn.Module):
    """Attention and a feed-forward network, each of the normed input and added to it.

    Input and output: (batch, time, width).
    """

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        width = config.width
        self.norm1 = nn.LayerNorm(width, eps=config.norm_eps)
        self.attention = Attention(width, config.n_heads, dropout=config.dropout)
        self.norm2 = nn.LayerNorm(width, eps=config.norm_eps)
        self.mlp = MLP(width, config.hidden or 4 * width, nn.GELU(approximate="tanh"), config.dropout)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None, is_causal: bool, cache: LayerCache | None) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x), mask=mask, is_causal=is_causal, cache=cache))
        return x + self.mlp(self.norm2(x))


class GPT2(Generator, Pretrained):
    """A language model: tokens in, logits of the next token out.

    ``forward(tokens)`` with int64 tokens (batch, time) returns logits (batch, time, vocabulary);
    ``forward(tokens, targets)`` returns the mean cross entropy in nats per token, 0-dim; targets of -100 do not count.

    Example::

        >>> from oneflow.models import GPT2, GPT2Config
        >>> model = GPT2(GPT2Config(vocabulary=50, n_positions=16, n_layers=2, n_heads=2, width=8))
        >>> model(oneflow.tensor([[1, 2, 3]])).shape
        oneflow.Size([1, 3, 50])
    """

    config_class = GPT2Config
    layouts = (
        Layout(
            "hugging_face",
            (
                Part("wte", "token"),
                Part("wpe", "position"),
                Part("h.{}.ln_1", "blocks.{}.norm1"),
                Part(
                    "h.{}.attn.c_attn",
                    ("blocks.{}.attention.query", "blocks.{}.attention.key", "blocks.{}.attention.value"),
                    transposed=True,
                ),
                Part("h.{}.attn.c_proj", "blocks.{}.attention.out", transposed=True),
                Part("h.{}.ln_2", "blocks.{}.norm2"),
                Part("h.{}.mlp.c_fc", "blocks.{}.mlp.up", transposed=True),
                Part("h.{}.mlp.c_proj", "blocks.{}.mlp.down", transposed=True),
                Part("ln_f", "norm"),
            ),
            prefix="transformer.",
            # Causal masks of old files.
            skipped=(r"(transformer\.)?h\.\d+\.attn\.(masked_)?bias",),
            tied=(("lm_head.weight", "token.weight"),),
        ),
    )

    def __init__(self, config: GPT2Config) -> None:
        super().__init__()
        self.config = config
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Embedding(config.n_positions, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layers)])
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.register_buffer("places", torch.arange(config.n_positions), persistent=False)
        self.init_weights()

    def init_weights(self) -> None:
        """Draw the weights as the paper does."""
        init_linear(self)
        for name, parameter in self.named_parameters():
            if name.endswith(("attention.out.weight", "mlp.down.weight")):
                # Each block adds two branches: keep the variance of the sum independent of depth.
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * self.config.n_layers))

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, padding_mask: Tensor | None = None) -> Tensor:
        """The normed states (batch, time, width) that ``logits`` reads.

        Args:
            tokens: int64 (batch, time), the continuation of what ``cache`` has seen.
            padding_mask: (batch, seen + time), True for tokens; padding is on the left.
        """
        n_seen = 0 if cache is None else cache.length
        end = n_seen + tokens.shape[1]
        if end > self.config.n_positions:
            raise ValueError(f"a text of {end} tokens: this GPT-2 reads at most {self.config.n_positions}")
        places = self.places[n_seen:end]
        if padding_mask is not None:
            places = (padding_mask.long().cumsum(1) - 1).clamp(min=0)[:, n_seen:]
        mask, is_causal = decoder_mask(tokens, n_seen, padding_mask)
        x = self.dropout(self.token(tokens) + self.position(places))
        for i, block in enumerate(self.blocks):
            x = block(x, mask, is_causal, None if cache is None else cache.layers[i])
        return self.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., width) to (..., vocabulary), by the table of tokens."""
        return F.linear(hidden, self.token.weight)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor:
        logits = self.logits(self.hidden(tokens))
        if targets is None:
            return logits
        return self.loss(logits, targets)
