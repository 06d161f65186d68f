"""Multi-head attention as all transformers here use it, and the cache of keys and values for generation."""

from __future__ import annotations

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import Tensor, nn
from oneflow.models.layers.rotary import rotate


class LayerCache:
    """Keys and values that one layer has seen, in memory for ``capacity`` positions that is reserved at once."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.length = 0
        self.key: Tensor | None = None
        self.value: Tensor | None = None

    def append(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keep ``key`` and ``value`` (batch, heads, time, head_dim) and return all that were kept."""
        batch, heads, time, dim = key.shape
        if self.key is None or self.value is None:
            self.key = key.new_empty(batch, heads, self.capacity, dim)
            self.value = value.new_empty(batch, heads, self.capacity, value.shape[-1])
        start, self.length = self.length, self.length + time
        if self.length > self.capacity:
            raise ValueError(f"{self.length} positions do not fit in a cache of {self.capacity}")
        self.key.narrow(2, start, time).copy_(key)
        self.value.narrow(2, start, time).copy_(value)
        return self.key.narrow(2, 0, self.length), self.value.narrow(2, 0, self.length)


class KVCache:
    """One ``LayerCache`` a layer. With a cache, a model reads new tokens as the continuation of those it has seen.

    Args:
        n_layers: layers of the model.
        capacity: positions to reserve memory for.
    """

    def __init__(self, n_layers: int, capacity: int) -> None:
        self.layers = [LayerCache(capacity) for _ in range(n_layers)]

    @property
    def length(self) -> int:
        """Positions seen so far."""
        return self.layers[0].length


def decoder_mask(tokens: Tensor, n_seen: int, padding_mask: Tensor | None) -> tuple[Tensor | None, bool]:
    """Return the mask of positions that ``tokens`` (batch, time) may attend to, after ``n_seen`` others.

    Args:
        padding_mask: (batch, n_seen + time), True for tokens, False for padding; all tokens by default.

    Returns:
        ``attn_mask`` (bool, True takes part, or None) and ``is_causal`` for ``scaled_dot_product_attention``.
    """
    time = tokens.shape[1]
    total = n_seen + time
    if padding_mask is None and n_seen == 0:
        return None, True
    if padding_mask is None and time == 1:
        return None, False
    mask = torch.ones(time, total, dtype=torch.bool, device=tokens.device).tril(n_seen)
    if padding_mask is not None:
        mask = mask & padding_mask.bool()[:, None, None, :]
    return mask, False


class Attention(nn.Module):
    """Multi-head attention (Vaswani et al., 2017), optionally with fewer heads of keys and values (Ainslie et al.,
    "GQA", 2023).

    Args:
        width: size of input and output.
        n_heads: heads of the queries.
        n_kv_heads: heads of keys and values, a divisor of ``n_heads``; as many by default.
        head_dim: size of a head, ``width // n_heads`` by default.
        bias, out_bias: whether the projections of the inputs and of the output have one; the latter as the former.
        dropout: probability of leaving an attention weight out in training.
        scale: of the scores, ``1 / sqrt(head_dim)`` by default.

    Example::

        >>> from oneflow.models.layers import Attention
        >>> Attention(width=8, n_heads=2)(oneflow.ones(1, 3, 8), is_causal=True).shape
        oneflow.Size([1, 3, 8])
    """

    def __init__(
        self,
        width: int,
        n_heads: int,
        n_kv_heads: int | None = None,
        head_dim: int | None = None,
        bias: bool = True,
        out_bias: bool | None = None,
        dropout: float = 0.0,
        scale: float | None = None,
    ) -> None:
        super().__init__()
        n_kv_heads = n_heads if n_kv_heads is None else n_kv_heads
        if n_heads % n_kv_heads or (head_dim is None and width % n_heads):
            raise ValueError(f"width {width}, {n_heads} heads and {n_kv_heads} key and value heads do not divide")
        head_dim = width // n_heads if head_dim is None else head_dim
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
        self.dropout, self.scale = dropout, scale
        self.query = nn.Linear(width, n_heads * head_dim, bias=bias)
        self.key = nn.Linear(width, n_kv_heads * head_dim, bias=bias)
        self.value = nn.Linear(width, n_kv_heads * head_dim, bias=bias)
        self.out = nn.Linear(n_heads * head_dim, width, bias=bias if out_bias is None else out_bias)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        is_causal: bool = False,
        rotary: tuple[Tensor, Tensor] | None = None,
        cache: LayerCache | None = None,
    ) -> Tensor:
        """Attend from ``x`` (..., time, width) to ``memory`` (..., seen, width), to itself by default.

        Args:
            mask: broadcastable to (..., heads, time, seen); bool (True takes part) or added to the scores.
            is_causal: no position sees a later one. Excludes ``mask``.
            rotary: cosines and sines by which queries and keys are rotated.
            cache: keys and values of earlier calls, which take part, and to which those of this call are added.
        """
        source = x if memory is None else memory
        query = self._heads(self.query(x), self.n_heads)
        key = self._heads(self.key(source), self.n_kv_heads)
        value = self._heads(self.value(source), self.n_kv_heads)
        if rotary is not None:
            query, key = rotate(query, rotary), rotate(key, rotary)
        if cache is not None:
            key, value = cache.append(key, value)
        y = self.attend(query, key, value, mask, is_causal)
        return self.out(y.transpose(-3, -2).flatten(-2))

    def attend(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        """The attention of heads, each (..., heads, time, head_dim): what context parallelism replaces."""
        return F.scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=is_causal,
            scale=self.scale,
            enable_gqa=self.n_heads != self.n_kv_heads,
        )

    def _heads(self, x: Tensor, n_heads: int) -> Tensor:
        """(..., time, heads * head_dim) to (..., heads, time, head_dim)."""
        return x.view(*x.shape[:-1], n_heads, self.head_dim).transpose(-3, -2)
