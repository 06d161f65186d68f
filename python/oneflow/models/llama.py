"""Llama: a decoder with rotary positions, RMS norms, SwiGLU and grouped queries (Touvron et al., "LLaMA", 2023; Dubey
et al., "The Llama 3 Herd of Models", 2024).

Reads the weights of Hugging Face's ``llama`` family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import oneflow.nn.functional as F
from oneflow import Tensor, nn
from oneflow.models.generation import Generator
from oneflow.models.layers import Attention, GatedMLP, KVCache, LayerCache, RotaryTables, decoder_mask, init_linear
from oneflow.models.layers.rotary import RotaryScaling
from oneflow.models.pretrained import Config, Layout, Part, Pretrained

__all__ = ["Llama", "LlamaConfig"]

# Hugging Face's names of the fields of `RotaryScaling`.
_SCALING = {
    "factor": "factor",
    "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor",
    "original_positions": "original_max_position_embeddings",
}


@dataclass
class LlamaConfig(Config):
    """Sizes of a Llama. The defaults are those of Llama 2 7B.

    Args:
        n_positions: the longest text in tokens.
        n_kv_heads: heads of keys and values, ``n_heads`` by default.
        head_dim: size of a head, ``width // n_heads`` by default.
        rotary_base, rotary_scaling: see ``RotaryTables``.
        tied: logits come from the table of tokens.
        attention_bias, mlp_bias: whether the linear layers have biases.

    Example::

        >>> from oneflow.models import LlamaConfig
        >>> LlamaConfig.preset("llama3-8b").n_kv_heads
        8
    """

    vocabulary: int = 32000
    n_positions: int = 4096
    n_layers: int = 32
    n_heads: int = 32
    n_kv_heads: int | None = None
    head_dim: int | None = None
    width: int = 4096
    hidden: int = 11008
    norm_eps: float = 1e-5
    rotary_base: float = 10000.0
    rotary_scaling: RotaryScaling | None = None
    tied: bool = False
    attention_bias: bool = False
    mlp_bias: bool = False
    dropout: float = 0.0

    presets = {
        "llama2-7b": {},
        "llama2-13b": {"n_layers": 40, "n_heads": 40, "width": 5120, "hidden": 13824},
        "llama2-70b": {"n_layers": 80, "n_heads": 64, "n_kv_heads": 8, "width": 8192, "hidden": 28672},
        "llama3-8b": {
            "vocabulary": 128256,
            "n_positions": 8192,
            "n_kv_heads": 8,
            "hidden": 14336,
            "rotary_base": 500000.0,
        },
        "llama3.1-8b": {
            "vocabulary": 128256,
            "n_positions": 131072,
            "n_kv_heads": 8,
            "hidden": 14336,
            "rotary_base": 500000.0,
            "rotary_scaling": RotaryScaling(),
        },
        "llama3.2-1b": {
            "vocabulary": 128256,
            "n_positions": 131072,
            "n_layers": 16,
            "n_kv_heads": 8,
            "width": 2048,
            "hidden": 8192,
            "rotary_base": 500000.0,
            "rotary_scaling": RotaryScaling(factor=32.0),
            "tied": True,
        },
        "tinyllama-1.1b": {"n_positions": 2048, "n_layers": 22, "n_kv_heads": 4, "width": 2048, "hidden": 5632},
    }
    model_type = "llama"
    hugging_face = {
        "vocabulary": "vocab_size",
        "n_positions": "max_position_embeddings",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "n_kv_heads": "num_key_value_heads",
        "head_dim": "head_dim",
        "width": "hidden_size",
        "hidden": "intermediate_size",
        "norm_eps": "rms_norm_eps",
        "rotary_base": "rope_theta",
        "tied": "tie_word_embeddings",
        "attention_bias": "attention_bias",
        "mlp_bias": "mlp_bias",
        "dropout": "attention_dropout",
    }
    implemented = {"hidden_act": ("silu",), "pretraining_tp": (1,)}

    @classmethod
    def from_hugging_face(cls, values: Mapping[str, Any], **changes: Any) -> LlamaConfig:
        # Newer files keep base and scaling together, older ones separately.
        rope = {**(values.get("rope_scaling") or {}), **(values.get("rope_parameters") or {})}
        kind = rope.get("rope_type", rope.get("type", "default"))
        if kind not in ("default", "llama3"):
            raise NotImplementedError(f"config.json has rotary positions of type {kind!r}; implemented is 'llama3'")
        if kind == "llama3" and "rotary_scaling" not in changes:
            changes["rotary_scaling"] = RotaryScaling(**{ours: rope[theirs] for ours, theirs in _SCALING.items()})
        if "rope_theta" in rope:
            values = {**values, "rope_theta": rope["rope_theta"]}
        return super().from_hugging_face(values, **changes)

    def to_hugging_face(self) -> dict[str, Any]:
        values = super().to_hugging_face()
        values["num_key_value_heads"] = self.n_kv_heads or self.n_heads
        values["head_dim"] = self.head_dim or self.width // self.n_heads
        if self.rotary_scaling is not None:
            scaling = {theirs: asdict(self.rotary_scaling)[ours] for ours, theirs in _SCALING.items()}
            values["rope_scaling"] = {"rope_type": "llama3", **scaling}
        return values


class Block(nn.Module):
    """Attention and SwiGLU, or another network, each of the normed input and added to it.

    (batch, time, width) in and out.
    """

    def __init__(self, config: LlamaConfig, mlp: nn.Module | None = None) -> None:
        super().__init__()
        self.norm1 = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.attention = Attention(
            config.width,
            config.n_heads,
            config.n_kv_heads,
            config.head_dim,
            bias=config.attention_bias,
            dropout=config.dropout,
        )
        self.norm2 = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.mlp = mlp or GatedMLP(config.width, config.hidden, nn.SiLU(), bias=config.mlp_bias)

    def forward(
        self,
        x: Tensor,
        rotary: tuple[Tensor, Tensor],
        mask: Tensor | None,
        is_causal: bool,
        cache: LayerCache | None,
    ) -> Tensor:
        x = x + self.attention(self.norm1(x), mask=mask, is_causal=is_causal, rotary=rotary, cache=cache)
        return x + self.mlp(self.norm2(x))


class Llama(Generator, Pretrained):
    """A language model: tokens in, logits of the next token out.

    ``forward(tokens)`` with int64 tokens (batch, time) returns logits (batch, time, vocabulary);
    ``forward(tokens, targets)`` returns the mean cross entropy in nats per token, 0-dim; targets of -100 do not count.

    Example::

        >>> from oneflow.models import Llama, LlamaConfig
        >>> config = LlamaConfig(50, n_positions=16, n_layers=2, n_heads=4, n_kv_heads=2, width=16, hidden=32)
        >>> Llama(config)(oneflow.tensor([[1, 2, 3]])).shape
        oneflow.Size([1, 3, 50])
    """

    config: LlamaConfig
    config_class = LlamaConfig
    layouts: tuple[Layout, ...] = (
        Layout(
            "hugging_face",
            (
                Part("model.embed_tokens", "token"),
                Part("model.layers.{}.input_layernorm", "blocks.{}.norm1"),
                Part("model.layers.{}.self_attn.q_proj", "blocks.{}.attention.query"),
                Part("model.layers.{}.self_attn.k_proj", "blocks.{}.attention.key"),
                Part("model.layers.{}.self_attn.v_proj", "blocks.{}.attention.value"),
                Part("model.layers.{}.self_attn.o_proj", "blocks.{}.attention.out"),
                Part("model.layers.{}.post_attention_layernorm", "blocks.{}.norm2"),
                Part("model.layers.{}.mlp.gate_proj", "blocks.{}.mlp.gate"),
                Part("model.layers.{}.mlp.up_proj", "blocks.{}.mlp.up"),
                Part("model.layers.{}.mlp.down_proj", "blocks.{}.mlp.down"),
                Part("model.norm", "norm"),
                Part("lm_head", "head"),
            ),
            # Old files keep the frequencies.
            skipped=(r"model\.layers\.\d+\.self_attn\.rotary_emb\.inv_freq",),
            tied=(("lm_head.weight", "token.weight"),),
        ),
    )

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        head_dim = config.head_dim or config.width // config.n_heads
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.rotary = RotaryTables(head_dim, config.n_positions, config.rotary_base, config.rotary_scaling)
        self.blocks = nn.ModuleList([self.make_block(i) for i in range(config.n_layers)])
        self.norm = nn.RMSNorm(config.width, eps=config.norm_eps)
        self.head = None if config.tied else nn.Linear(config.width, config.vocabulary, bias=False)
        init_linear(self)

    def make_block(self, index: int) -> Block:
        """The block of a layer, which models of this kind may replace."""
        return Block(self.config)

    def hidden(self, tokens: Tensor, cache: KVCache | None = None, padding_mask: Tensor | None = None) -> Tensor:
        """The normed states (batch, time, width) that ``logits`` reads.

        Args:
            tokens: int64 (batch, time), the continuation of what ``cache`` has seen.
            padding_mask: (batch, seen + time), True for tokens; padding is on the left.
        """
        n_seen = 0 if cache is None else cache.length
        time = tokens.shape[1]
        if n_seen + time > self.config.n_positions:
            raise ValueError(f"a text of {n_seen + time} tokens: this Llama reads at most {self.config.n_positions}")
        places = None
        if padding_mask is not None:
            places = (padding_mask.long().cumsum(1) - 1).clamp(min=0)[:, n_seen:]
        rotary = self.rotary(n_seen, time, places)
        mask, is_causal = decoder_mask(tokens, n_seen, padding_mask)
        x = self.token(tokens)
        for i, block in enumerate(self.blocks):
            x = block(x, rotary, mask, is_causal, None if cache is None else cache.layers[i])
        return self.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """(..., width) to (..., vocabulary)."""
        return F.linear(hidden, self.token.weight) if self.head is None else self.head(hidden)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor:
        logits = self.logits(self.hidden(tokens))
        if targets is None:
            return logits
        return self.loss(logits, targets)
