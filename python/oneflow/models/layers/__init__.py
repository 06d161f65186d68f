"""The parts that several models share, one module each. Norms are those of ``nn``: ``LayerNorm``, ``RMSNorm``."""

from oneflow.models.layers.attention import Attention, KVCache, LayerCache, decoder_mask
from oneflow.models.layers.drop_path import DropPath
from oneflow.models.layers.init import init_linear
from oneflow.models.layers.mlp import MLP, GatedMLP
from oneflow.models.layers.moe import MoE, balance_experts
from oneflow.models.layers.rotary import RotaryTables, rotate

__all__ = [
    "MLP",
    "Attention",
    "DropPath",
    "GatedMLP",
    "KVCache",
    "LayerCache",
    "MoE",
    "RotaryTables",
    "balance_experts",
    "decoder_mask",
    "init_linear",
    "rotate",
]
