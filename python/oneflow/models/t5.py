"""T5: an encoder and a decoder over relative positions (Raffel et al., "Exploring the Limits of Transfer Learning",
2020).

Reads the weights of Hugging Face's ``t5`` family, both the first release and 1.1 (gated, untied).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import Tensor, nn
from oneflow.models.layers import MLP, Attention, GatedMLP
from oneflow.models.pretrained import Config, Layout, Part, Pretrained

__all__ = ["T5", "T5Config"]


@dataclass
class T5Config(Config):
    """Sizes of a T5. The defaults are those of t5-small.

    Args:
        n_decoder_layers: as many as of the encoder by default.
        n_buckets, max_distance: how relative positions share biases.
        gated: version 1.1's feed-forward network, GELU with a gate, instead of ReLU.
        tied: logits come from the table of tokens.
        scaled: divide the states before the logits by the root of ``width``; by default if ``tied``.
        start: the token that every output begins with.

    Example::

        >>> from oneflow.models import T5Config
        >>> T5Config.preset("t5-v1_1-base").gated
        True
    """

    vocabulary: int = 32128
    n_layers: int = 6
    n_decoder_layers: int | None = None
    n_heads: int = 8
    head_dim: int = 64
    width: int = 512
    hidden: int = 2048
    n_buckets: int = 32
    max_distance: int = 128
    dropout: float = 0.1
    norm_eps: float = 1e-6
    gated: bool = False
    tied: bool = True
    scaled: bool | None = None
    start: int = 0

    presets = {
        "t5-small": {},
        "t5-base": {"n_layers": 12, "n_heads": 12, "width": 768, "hidden": 3072},
        "t5-large": {"n_layers": 24, "n_heads": 16, "width": 1024, "hidden": 4096},
        "t5-v1_1-small": {"n_layers": 8, "n_heads": 6, "hidden": 1024, "gated": True, "tied": False},
        "t5-v1_1-base": {"n_layers": 12, "n_heads": 12, "width": 768, "gated": True, "tied": False},
        "t5-v1_1-large": {
            "n_layers": 24,
            "n_heads": 16,
            "width": 1024,
            "hidden": 2816,
            "gated": True,
            "tied": False,
        },
    }
    model_type = "t5"
    hugging_face = {
        "vocabulary": "vocab_size",
        "n_layers": "num_layers",
        "n_decoder_layers": "num_decoder_layers",
        "n_heads": "num_heads",
        "head_dim": "d_kv",
        "width": "d_model",
        "hidden": "d_ff",
        "n_buckets": "relative_attention_num_buckets",
        "max_distance": "relative_attention_max_distance",
        "dropout": "dropout_rate",
        "norm_eps": "layer_norm_epsilon",
        "tied": "tie_word_embeddings",
        "scaled": "scale_decoder_outputs",
        "start": "decoder_start_token_id",
    }
    implemented = {"feed_forward_proj": ("relu", "gated-gelu")}

    @classmethod
    def from_hugging_face(cls, values: Mapping[str, Any], **changes: Any) -> T5Config:
        changes.setdefault("gated", values.get("feed_forward_proj") == "gated-gelu")
        return super().from_hugging_face(values, **changes)

    def to_hugging_face(self) -> dict[str, Any]:
        values = super().to_hugging_face()
        values["feed_forward_proj"] = "gated-gelu" if self.gated else "relu"
        values["num_decoder_layers"] = self.n_decoder_layers or self.n_layers
        values["scale_decoder_outputs"] = self.is_scaled
        return values

    @property
    def is_scaled(self) -> bool:
        return self.tied if self.scaled is None else self.scaled


class RelativeBias(nn.Module):
    """A bias for each head and each bucket of distances, added to the scores of attention.

    Half of the buckets hold one distance each, the others grow logarithmically up to ``max_distance``.
    """

    def __init__(self, config: T5Config, bidirectional: bool) -> None:
        super().__init__()
        self.n_buckets, self.max_distance, self.bidirectional = config.n_buckets, config.max_distance, bidirectional
        self.table = nn.Embedding(config.n_buckets, config.n_heads)

    def forward(self, time: int) -> Tensor:
        """Return the bias of the scores, (1, heads, time, time); minus infinity where a decoder may not attend."""
        # Computed from the table, so that they have its device and placement.
        places = torch.ones_like(self.table.weight[0, 0]).long().expand(time).cumsum(0)
        offset = places[None, :] - places[:, None]
        bias = self.table(self._buckets(offset)).permute(2, 0, 1)[None]
        return bias if self.bidirectional else bias.masked_fill(offset > 0, float("-inf"))

    def _buckets(self, offset: Tensor) -> Tensor:
        n = self.n_buckets
        if self.bidirectional:
            n //= 2
            first = (offset > 0).long() * n
            distance = offset.abs()
        else:
            first = torch.zeros_like(offset)
            distance = (-offset).clamp(min=0)
        exact = n // 2
        # Small distances go another way: the clamp only keeps their logarithm finite.
        far = (distance.clamp(min=1).float() / exact).log() / math.log(self.max_distance / exact) * (n - exact)
        far = (exact + far.long()).clamp(max=n - 1)
        return first + torch.where(distance < exact, distance, far)


class Block(nn.Module):
    """Self-attention, attention to the encoder in a decoder, and a feed-forward network, each of the normed input and
    added to it. (batch, time, width) in and out."""

    def __init__(self, config: T5Config, is_decoder: bool) -> None:
        super().__init__()

        def attention() -> Attention:
            # The scale is part of the weights.
            return Attention(
                config.width,
                config.n_heads,
                head_dim=config.head_dim,
                bias=False,
                dropout=config.dropout,
                scale=1.0,
            )

        def norm() -> nn.RMSNorm:
            return nn.RMSNorm(config.width, eps=config.norm_eps)

        self.norm1, self.attention = norm(), attention()
        self.cross_norm = norm() if is_decoder else None
        self.cross_attention = attention() if is_decoder else None
        self.norm2 = norm()
        self.mlp: nn.Module = (
            GatedMLP(config.width, config.hidden, nn.GELU(approximate="tanh"))
            if config.gated
            else MLP(config.width, config.hidden, nn.ReLU(), bias=False)
        )
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor, memory: Tensor | None = None, seen: Tensor | None = None) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x), mask=mask))
        if self.cross_attention is not None and self.cross_norm is not None:
            x = x + self.dropout(self.cross_attention(self.cross_norm(x), memory, mask=seen))
        return x + self.dropout(self.mlp(self.norm2(x)))


class Stack(nn.Module):
    """The blocks of one side with its relative positions, between dropouts and under a norm."""

    def __init__(self, config: T5Config, is_decoder: bool) -> None:
        super().__init__()
        n_layers = (config.n_decoder_layers or config.n_layers) if is_decoder else config.n_layers
        self.relative = RelativeBias(config, bidirectional=not is_decoder)
        self.blocks = nn.ModuleList([Block(config, is_decoder) for _ in range(n_layers)])
        self.norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self, x: Tensor, allowed: Tensor | None, memory: Tensor | None = None, seen: Tensor | None = None
    ) -> Tensor:
        """(batch, time, width) in and out. ``allowed`` and ``seen`` are True for tokens: (batch, 1, 1, time)."""
        mask = self.relative(x.shape[1])
        if allowed is not None:
            mask = mask.masked_fill(~allowed, float("-inf"))
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x, mask, memory, seen)
        return self.dropout(self.norm(x))


def _names(theirs: str, ours: str, is_decoder: bool, gated: bool) -> list[tuple[str, str]]:
    """Hugging Face's names of one side, and ours."""
    last = 2 if is_decoder else 1
    layer, block = theirs + ".block.{}.layer.", ours + ".blocks.{}."

    def attention(place: str, mine: str) -> list[tuple[str, str]]:
        pairs = (("q", "query"), ("k", "key"), ("v", "value"), ("o", "out"))
        return [(f"{layer}{place}.{short}", f"{block}{mine}.{long}") for short, long in pairs]

    network = {"wi_0": "gate", "wi_1": "up", "wo": "down"} if gated else {"wi": "up", "wo": "down"}
    names = [
        (f"{theirs}.block.0.layer.0.SelfAttention.relative_attention_bias", f"{ours}.relative.table"),
        *attention("0.SelfAttention", "attention"),
        (layer + "0.layer_norm", block + "norm1"),
        (f"{layer}{last}.layer_norm", block + "norm2"),
        *((f"{layer}{last}.DenseReluDense.{short}", f"{block}mlp.{long}") for short, long in network.items()),
        (f"{theirs}.final_layer_norm", f"{ours}.norm"),
    ]
    if is_decoder:
        names += [*attention("1.EncDecAttention", "cross_attention"), (layer + "1.layer_norm", block + "cross_norm")]
    return names


def _layout(gated: bool) -> Layout:
    sides = _names("encoder", "encoder", False, gated) + _names("decoder", "decoder", True, gated)
    copies = ("encoder.embed_tokens", "decoder.embed_tokens", "lm_head")
    return Layout(
        "hugging_face",
        tuple(Part(*pair) for pair in [("shared", "token"), *sides, ("lm_head", "head")]),
        # In the first release's files, and used by nobody.
        skipped=(r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",),
        tied=tuple((f"{name}.weight", "token.weight") for name in copies),
    )


class T5(Pretrained):
    """Text to text: tokens of a source and of a target's beginning in, logits of the target's next token out.

    ``forward(source, target)`` with int64 (batch, source time) and (batch, target time) returns logits
    (batch, target time, vocabulary).

    Example::

        >>> from oneflow.models import T5, T5Config
        >>> model = T5(T5Config(50, n_layers=1, n_heads=2, head_dim=4, width=8, hidden=16))
        >>> model(oneflow.tensor([[1, 2, 3]]), oneflow.tensor([[0, 4]])).shape
        oneflow.Size([1, 2, 50])
    """

    config_class = T5Config

    def __init__(self, config: T5Config) -> None:
        super().__init__()
        self.config = config
        self.layouts = (_layout(config.gated),)
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.encoder = Stack(config, is_decoder=False)
        self.decoder = Stack(config, is_decoder=True)
        self.head = None if config.tied else nn.Linear(config.width, config.vocabulary, bias=False)
        self.init_weights()

    def init_weights(self) -> None:
        """Draw the weights so that states and scores begin with variance 1, without a scale in attention."""
        width = self.config.width
        nn.init.normal_(self.token.weight)
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=module.in_features**-0.5)
            if isinstance(module, Attention):
                nn.init.normal_(module.query.weight, std=(width * module.head_dim) ** -0.5)
            if isinstance(module, RelativeBias):
                nn.init.normal_(module.table.weight, std=width**-0.5)

    def encode(self, source: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """States (batch, time, width) of ``source`` (batch, time); ``padding_mask`` is True for tokens."""
        allowed = None if padding_mask is None else padding_mask.bool()[:, None, None, :]
        return self.encoder(self.token(source), allowed)

    def decode(self, target: Tensor, memory: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        """Logits (batch, time, vocabulary) of what follows each token of ``target``; ``memory`` is from ``encode``."""
        seen = None if padding_mask is None else padding_mask.bool()[:, None, None, :]
        x = self.decoder(self.token(target), None, memory, seen)
        if self.config.is_scaled:
            x = x * self.config.width**-0.5
        return F.linear(x, self.token.weight) if self.head is None else self.head(x)

    def forward(self, source: Tensor, target: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        return self.decode(target, self.encode(source, padding_mask), padding_mask)

    def shifted(self, target: Tensor) -> Tensor:
        """``target`` (batch, time) moved right by one behind the start token: what ``forward`` reads to predict it."""
        start = torch.full_like(target[:, :1], self.config.start)
        return torch.cat([start, target[:, :-1]], dim=1)

    @torch.no_grad()
    def generate(
        self, source: Tensor, max_new_tokens: int, stop: int | None = 1, padding_mask: Tensor | None = None
    ) -> Tensor:
        """The likeliest token after token, int64 (batch, at most 1 + max_new_tokens), behind the start token.

        A row that has reached ``stop`` is filled with it.
        """
        memory = self.encode(source, padding_mask)
        target = torch.full_like(source[:, :1], self.config.start)
        ended = torch.zeros_like(target[:, 0], dtype=torch.bool)
        for _ in range(max_new_tokens):
            drawn = self.decode(target, memory, padding_mask)[:, -1].argmax(-1)
            if stop is not None:
                drawn = drawn.masked_fill(ended, stop)
                ended = ended | (drawn == stop)
            target = torch.cat([target, drawn[:, None]], dim=1)
            if stop is not None and bool(ended.all()):
                break
        return target
