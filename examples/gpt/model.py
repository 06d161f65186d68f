"""A small GPT over bytes, written as one would write it for PyTorch.

Pre-norm transformer blocks, learned positions, causal attention (Radford et al., "Language Models are Unsupervised
Multitask Learners", 2019).
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

import oneflow as torch
import oneflow.nn as nn
import oneflow.nn.functional as F


@dataclass
class GPTConfig:
    """Sizes of the model. ``block_size`` is the longest context in bytes."""

    vocabulary: int = 256
    block_size: int = 128
    n_layers: int = 3
    n_heads: int = 4
    width: int = 160
    dropout: float = 0.0


class Attention(nn.Module):
    """Causal multi-head self-attention. Input and output: (batch, time, width)."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.n_heads = config.n_heads
        self.dropout = config.dropout
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.out = nn.Linear(config.width, config.width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        # Heads before query, key and value: a split of the weight over ranks is then a split of heads.
        heads = self.qkv(x).view(batch, time, self.n_heads, 3, width // self.n_heads).permute(3, 0, 2, 1, 4)
        query, key, value = heads.unbind(0)
        p = self.dropout if self.training else 0.0
        y = F.scaled_dot_product_attention(query, key, value, dropout_p=p, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):
    """Attention and a four times wider GELU network, each added to its input. (batch, time, width) in and out."""

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width)
        self.attention = Attention(config)
        self.norm2 = nn.LayerNorm(config.width)
        self.mlp = nn.Sequential(
            nn.Linear(config.width, 4 * config.width),
            nn.GELU(),
            nn.Linear(4 * config.width, config.width),
            nn.Dropout(config.dropout),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """Bytes in, logits of the next byte out.

    ``forward(tokens)`` with int64 tokens (batch, time) returns float32 logits (batch, time, vocabulary);
    ``forward(tokens, targets)`` returns the mean cross entropy in nats per byte instead, 0-dim.
    """

    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.config = config
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Embedding(config.block_size, config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layers)])
        self.norm = nn.LayerNorm(config.width)
        self.head = nn.Linear(config.width, config.vocabulary, bias=False)
        self.register_buffer("places", torch.arange(config.block_size), persistent=False)
        self.apply(self._init_weights)
        for name, parameter in self.named_parameters():
            if name.endswith(("out.weight", "mlp.2.weight")):
                # Each block adds two branches: keep the variance of the sum independent of depth.
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * config.n_layers))

    @staticmethod
    def _init_weights(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor | None = None) -> torch.Tensor:
        x = self.token(tokens) + self.position(self.places[: tokens.shape[1]])
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits
        return F.cross_entropy(logits.reshape(-1, self.config.vocabulary), targets.reshape(-1))

    @torch.no_grad()
    def generate(self, prompt: bytes, n_bytes: int, temperature: float = 0.8, seed: int = 0) -> bytes:
        """Continue ``prompt`` by ``n_bytes`` sampled bytes."""
        was_training = self.training
        self.eval()
        draw = random.Random(seed)
        text = list(prompt)
        for _ in range(n_bytes):
            logits = self(torch.tensor([text[-self.config.block_size :]]))[0, -1]
            weights = F.softmax(logits / temperature, dim=-1).tolist()
            text += draw.choices(range(self.config.vocabulary), weights)
        self.train(was_training)
        return bytes(text)
