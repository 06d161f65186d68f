"""Transformer, its encoder and its decoder. (Vaswani et al., "Attention Is All You Need", 2017.)"""

from __future__ import annotations

import copy
import math
import warnings
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn import functional as F
from oneflow.nn import init
from oneflow.nn.functional import _attention
from oneflow.nn.modules.activation import GELU, ReLU
from oneflow.nn.modules.container import ModuleList
from oneflow.nn.modules.dropout import Dropout
from oneflow.nn.modules.linear import Linear
from oneflow.nn.modules.module import Module
from oneflow.nn.modules.multihead_attention import MultiheadAttention
from oneflow.nn.modules.normalization import LayerNorm

Activation = str | Callable[[Tensor], Tensor]


class Transformer(Module):
    """An encoder and a decoder.

    Args:
        d_model: width of input and output.
        nhead: attention heads.
        num_encoder_layers, num_decoder_layers: layers of both.
        dim_feedforward: width between the two linear maps of a layer.
        dropout: probability of zero, in training.
        activation: "relu", "gelu" or a function.
        custom_encoder, custom_decoder: modules to use instead.
        layer_norm_eps: added to variances.
        batch_first: (N, L, E) instead of (L, N, E).
        norm_first: normalise before attention and linear maps instead of behind them.
        bias: of linear maps and norms.

    Example::

        >>> model = oneflow.nn.Transformer(16, 4, 1, 1, 32, batch_first=True)
        >>> model(oneflow.zeros(2, 10, 16), oneflow.zeros(2, 7, 16)).shape
        oneflow.Size([2, 7, 16])
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        custom_encoder: Any = None,
        custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        args = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias)

        def norm() -> LayerNorm:
            return LayerNorm(d_model, eps=layer_norm_eps, bias=bias, device=device, dtype=dtype)

        if custom_encoder is None:
            layer = TransformerEncoderLayer(*args, device=device, dtype=dtype)
            custom_encoder = TransformerEncoder(layer, num_encoder_layers, norm())
        self.encoder = custom_encoder
        if custom_decoder is None:
            other = TransformerDecoderLayer(*args, device=device, dtype=dtype)
            custom_decoder = TransformerDecoder(other, num_decoder_layers, norm())
        self.decoder = custom_decoder
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """Encode ``src`` (S, N, E) and decode ``tgt`` (T, N, E) with it: (T, N, E).

        Masks are (T, S)-like or (N * heads, T, S)-like, padding masks (N, S)-like; bool (True is ignored) or added.
        """
        batch_dim = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[batch_dim] != tgt.shape[batch_dim]:
            raise RuntimeError("the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise RuntimeError("the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        out: Tensor = self.decoder(
            tgt,
            memory,
            tgt_mask=tgt_mask,
            memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
            tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )
        return out

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Causal mask (sz, sz) to add: minus infinity above the diagonal, zeros elsewhere."""
        return oneflow.full((sz, sz), -math.inf, device=device, dtype=dtype).triu(1)

    def _reset_parameters(self) -> None:
        for p in self.parameters():
            if p.dim() > 1:
                init.xavier_uniform_(p)


def _is_causal(mask: Tensor | None, hint: bool | None, n: int) -> bool:
    """The hint, or whether the mask is the causal one of ``n`` positions."""
    if hint is not None or mask is None:
        return hint is True
    if tuple(mask.shape) != (n, n):
        return False
    return bool((mask == Transformer.generate_square_subsequent_mask(n, mask.device, mask.dtype)).all())


def _get_clones(module: Module, n: int) -> ModuleList:
    return ModuleList([copy.deepcopy(module) for _ in range(n)])


def _length(x: Tensor, batch_first: bool) -> int:
    if x.is_nested:
        # Parts have lengths of their own, and no mask.
        return 0
    return x.shape[1 if x.dim() == 3 and batch_first else 0]


def _get_activation_fn(activation: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(activation, str):
        return activation
    named: dict[str, Callable[[Tensor], Tensor]] = {"relu": F.relu, "gelu": F.gelu}
    if activation not in named:
        raise RuntimeError(f"activation should be relu/gelu, not {activation}")
    return named[activation]


class TransformerEncoder(Module):
    """Copies of a layer, one after the other.

    Args:
        encoder_layer: the layer that is copied.
        num_layers: how many.
        norm: applied to the output.
        enable_nested_tensor: in inference, outputs of padded positions are zeros (before ``norm``), where layers allow.
        mask_check: check first that the padding is at the end.

    Example::

        >>> layer = nn.TransformerEncoderLayer(8, 2, batch_first=True)
        >>> nn.TransformerEncoder(layer, 2)(oneflow.ones(1, 5, 8)).shape
        oneflow.Size([1, 5, 8])
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,
        mask_check: bool = True,
    ) -> None:
        super().__init__()
        self.layers = _get_clones(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        why = _why_not_nested(encoder_layer)
        if enable_nested_tensor and why:
            warnings.warn(
                f"enable_nested_tensor is True, but self.use_nested_tensor is False because {why}", stacklevel=2
            )
        self.use_nested_tensor = enable_nested_tensor and not why
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        """(S, N, E) to (S, N, E); masks as of :class:`Transformer`."""
        other = None if mask is None else mask.dtype
        padding = _attention.canonical_mask(src_key_padding_mask, "src_key_padding_mask", other, "mask", src.dtype)
        mask = _attention.canonical_mask(mask, "mask", None, "", src.dtype, check_other=False)
        first = self.layers[0]
        is_causal = _is_causal(mask, is_causal, _length(src, first.self_attn.batch_first))
        blank = self._blank(src, mask, padding)
        out = src
        for layer in self.layers:
            out = layer(out, src_mask=mask, is_causal=is_causal, src_key_padding_mask=padding)
        if blank is not None:
            out = out.masked_fill(blank.unsqueeze(-1), 0.0)
        return out if self.norm is None else self.norm(out)

    def _blank(self, src: Tensor, mask: Tensor | None, padding: Tensor | None) -> Tensor | None:
        """The padded positions whose outputs are to be zeros, (N, S)."""
        possible = self.use_nested_tensor and not self.layers[0].training and src.dim() == 3
        if not possible or padding is None or mask is not None:
            return None
        recorded = oneflow.is_grad_enabled() and (
            src.requires_grad or any(p.requires_grad for p in self.layers[0].parameters())
        )
        hidden = padding != 0
        if recorded or (self.mask_check and bool((hidden[:, :-1] & ~hidden[:, 1:]).any())):
            return None
        return hidden


def _why_not_nested(layer: Module) -> str:
    if not isinstance(layer, TransformerEncoderLayer):
        return "encoder_layer was not TransformerEncoderLayer"
    attention = layer.self_attn
    reasons = {
        "encoder_layer.norm_first was True": layer.norm_first,
        "encoder_layer.self_attn.batch_first was not True(use batch_first for better inference performance)": not (
            attention.batch_first
        ),
        "encoder_layer.self_attn._qkv_same_embed_dim was not True": not attention._qkv_same_embed_dim,
        "encoder_layer.self_attn was passed bias=False": attention.in_proj_bias is None,
        "encoder_layer.activation_relu_or_gelu was not True": not layer.activation_relu_or_gelu,
        "encoder_layer.norm1.eps was not equal to encoder_layer.norm2.eps": layer.norm1.eps != layer.norm2.eps,
        "encoder_layer.self_attn.num_heads is odd": attention.num_heads % 2 == 1,
    }
    return next((why for why, holds in reasons.items() if holds), "")


class TransformerDecoder(Module):
    """Copies of a layer, one after the other.

    Args:
        decoder_layer: the layer that is copied.
        num_layers: how many.
        norm: applied to the output.

    Example::

        >>> layer = nn.TransformerDecoderLayer(8, 2, batch_first=True)
        >>> nn.TransformerDecoder(layer, 2)(oneflow.ones(1, 3, 8), oneflow.ones(1, 5, 8)).shape
        oneflow.Size([1, 3, 8])
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = _get_clones(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """(T, N, E) with the encoder's (S, N, E) to (T, N, E); masks as of :class:`Transformer`."""
        out = tgt
        tgt_is_causal = _is_causal(tgt_mask, tgt_is_causal, _length(tgt, self.layers[0].self_attn.batch_first))
        for layer in self.layers:
            out = layer(
                out,
                memory,
                tgt_mask=tgt_mask,
                memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=tgt_is_causal,
                memory_is_causal=memory_is_causal,
            )
        return out if self.norm is None else self.norm(out)


class TransformerEncoderLayer(Module):
    """Self-attention and two linear maps, each with a residual and a norm; arguments as of :class:`Transformer`.

    Example::

        >>> nn.TransformerEncoderLayer(8, 2, batch_first=True)(oneflow.ones(1, 5, 8)).shape
        oneflow.Size([1, 5, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, bias=bias, batch_first=batch_first, **place
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **place)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _get_activation_fn(activation)
        relu = self.activation is F.relu or isinstance(self.activation, ReLU)
        gelu = self.activation is F.gelu or isinstance(self.activation, GELU)
        self.activation_relu_or_gelu = 1 if relu else 2 if gelu else 0

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """(S, N, E) to (S, N, E)."""
        other = None if src_mask is None else src_mask.dtype
        padding = _attention.canonical_mask(src_key_padding_mask, "src_key_padding_mask", other, "src_mask", src.dtype)
        mask = _attention.canonical_mask(src_mask, "src_mask", None, "", src.dtype, check_other=False)
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), mask, padding, is_causal=is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, mask, padding, is_causal=is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        return self.dropout1(_attend(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal))

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


def _attend(
    attention: Module,
    x: Tensor,
    memory: Tensor,
    attn_mask: Tensor | None,
    key_padding_mask: Tensor | None,
    is_causal: bool,
) -> Tensor:
    out: Tensor = attention(
        x,
        memory,
        memory,
        attn_mask=attn_mask,
        key_padding_mask=key_padding_mask,
        need_weights=False,
        is_causal=is_causal,
    )[0]
    return out


class TransformerDecoderLayer(Module):
    """Self-attention, attention to the encoder's output and two linear maps, each with a residual and a norm.

    Arguments as of :class:`Transformer`.

    Example::

        >>> nn.TransformerDecoderLayer(8, 2, batch_first=True)(oneflow.ones(1, 3, 8), oneflow.ones(1, 5, 8)).shape
        oneflow.Size([1, 3, 8])
    """

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: Activation = F.relu,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        place = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **place
        )
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout=dropout, batch_first=batch_first, bias=bias, **place
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias=bias, **place)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias=bias, **place)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.norm2 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.norm3 = LayerNorm(d_model, eps=layer_norm_eps, bias=bias, **place)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _get_activation_fn(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        """(T, N, E) with the encoder's (S, N, E) to (T, N, E)."""
        x = tgt
        of_memory = (memory, memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), tgt_mask, tgt_key_padding_mask, tgt_is_causal)
            x = x + self._mha_block(self.norm2(x), *of_memory)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self.norm2(x + self._mha_block(x, *of_memory))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None, is_causal: bool = False
    ) -> Tensor:
        return self.dropout1(_attend(self.self_attn, x, x, attn_mask, key_padding_mask, is_causal))

    def _mha_block(
        self,
        x: Tensor,
        mem: Tensor,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:
        return self.dropout2(_attend(self.multihead_attn, x, mem, attn_mask, key_padding_mask, is_causal))

    def _ff_block(self, x: Tensor) -> Tensor:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))
