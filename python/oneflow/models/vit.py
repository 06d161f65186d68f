"""ViT: a transformer over patches of an image (Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021).

Reads the weights of Hugging Face's ``vit`` family and of torchvision's ``vit_*``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import oneflow as torch
from oneflow import Tensor, nn
from oneflow.models.layers import MLP, Attention, init_linear
from oneflow.models.pretrained import Config, Layout, Part, Pretrained

__all__ = ["ViT", "ViTConfig"]

_LARGE = {"n_layers": 24, "n_heads": 16, "width": 1024, "hidden": 4096}
_HUGE = {"n_layers": 32, "n_heads": 16, "width": 1280, "hidden": 5120}


@dataclass
class ViTConfig(Config):
    """Sizes of a ViT. The defaults are those of ViT-B/16 for images of 224 x 224.

    Args:
        image, patch: sides in pixels; ``patch`` divides ``image``.
        n_classes: classes, or 0 for a model that returns the state of the class token.

    Example::

        >>> from oneflow.models import ViTConfig
        >>> ViTConfig.preset("vit_l_32", image=384).patch
        32
    """

    image: int = 224
    patch: int = 16
    channels: int = 3
    n_layers: int = 12
    n_heads: int = 12
    width: int = 768
    hidden: int = 3072
    dropout: float = 0.0
    norm_eps: float = 1e-6
    n_classes: int = 1000

    presets = {
        "vit_b_16": {},
        "vit_b_32": {"patch": 32},
        "vit_l_16": _LARGE,
        "vit_l_32": {**_LARGE, "patch": 32},
        "vit_h_14": {**_HUGE, "patch": 14},
        "vit-base-patch16-224": {"norm_eps": 1e-12},
        "vit-large-patch16-224": {**_LARGE, "norm_eps": 1e-12},
        "deit-tiny": {"n_heads": 3, "width": 192, "hidden": 768},
        "deit-small": {"n_heads": 6, "width": 384, "hidden": 1536},
    }
    model_type = "vit"
    hugging_face = {
        "image": "image_size",
        "patch": "patch_size",
        "channels": "num_channels",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "width": "hidden_size",
        "hidden": "intermediate_size",
        "dropout": "hidden_dropout_prob",
        "norm_eps": "layer_norm_eps",
    }
    implemented = {"hidden_act": ("gelu",), "qkv_bias": (True,)}

    @classmethod
    def from_hugging_face(cls, values: Mapping[str, Any], **changes: Any) -> ViTConfig:
        # Not written where there are two classes without names.
        changes.setdefault("n_classes", len(values.get("id2label") or (0, 1)))
        return super().from_hugging_face(values, **changes)

    def to_hugging_face(self) -> dict[str, Any]:
        labels = {str(i): f"LABEL_{i}" for i in range(self.n_classes)}
        ids = {label: int(i) for i, label in labels.items()}
        return {**super().to_hugging_face(), "id2label": labels, "label2id": ids}


class Block(nn.Module):
    """Attention and a feed-forward network, each of the normed input and added to it.

    Input and output: (batch, time, width).
    """

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.attention = Attention(config.width, config.n_heads)
        self.norm2 = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.mlp = MLP(config.width, config.hidden, nn.GELU(), config.dropout)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.mlp(self.norm2(x))


_HF = "encoder.layer.{}."
_TV = "encoder.layers.encoder_layer_{}."
_QKV = ("blocks.{}.attention.query", "blocks.{}.attention.key", "blocks.{}.attention.value")


class ViT(Pretrained):
    """Images (batch, channels, image, image) in, logits (batch, n_classes) out.

    Example::

        >>> from oneflow.models import ViT, ViTConfig
        >>> config = ViTConfig(image=8, patch=4, n_layers=1, n_heads=2, width=8, hidden=16, n_classes=3)
        >>> ViT(config)(oneflow.ones(2, 3, 8, 8)).shape
        oneflow.Size([2, 3])
    """

    config_class = ViTConfig
    layouts = (
        Layout(
            "hugging_face",
            (
                Part("vit.embeddings.cls_token", "class_token"),
                Part("vit.embeddings.position_embeddings", "positions"),
                Part("vit.embeddings.patch_embeddings.projection", "patches"),
                Part("vit." + _HF + "layernorm_before", "blocks.{}.norm1"),
                Part("vit." + _HF + "attention.attention.query", "blocks.{}.attention.query"),
                Part("vit." + _HF + "attention.attention.key", "blocks.{}.attention.key"),
                Part("vit." + _HF + "attention.attention.value", "blocks.{}.attention.value"),
                Part("vit." + _HF + "attention.output.dense", "blocks.{}.attention.out"),
                Part("vit." + _HF + "layernorm_after", "blocks.{}.norm2"),
                Part("vit." + _HF + "intermediate.dense", "blocks.{}.mlp.up"),
                Part("vit." + _HF + "output.dense", "blocks.{}.mlp.down"),
                Part("vit.layernorm", "norm"),
                Part("classifier", "head"),
            ),
            skipped=(r"vit\.pooler\..*",),
        ),
        Layout(
            "torchvision",
            (
                Part("class_token", "class_token"),
                Part("encoder.pos_embedding", "positions"),
                Part("conv_proj", "patches"),
                Part(_TV + "ln_1", "blocks.{}.norm1"),
                Part(_TV + "self_attention.in_proj_weight", tuple(f"{name}.weight" for name in _QKV)),
                Part(_TV + "self_attention.in_proj_bias", tuple(f"{name}.bias" for name in _QKV)),
                Part(_TV + "self_attention.out_proj", "blocks.{}.attention.out"),
                Part(_TV + "ln_2", "blocks.{}.norm2"),
                Part(_TV + "mlp.0", "blocks.{}.mlp.up"),
                Part(_TV + "mlp.3", "blocks.{}.mlp.down"),
                # The first release's names.
                Part(_TV + "mlp.linear_1", "blocks.{}.mlp.up"),
                Part(_TV + "mlp.linear_2", "blocks.{}.mlp.down"),
                Part("encoder.ln", "norm"),
                Part("heads.head", "head"),
            ),
        ),
    )

    def __init__(self, config: ViTConfig) -> None:
        super().__init__()
        self.config = config
        if config.image % config.patch:
            raise ValueError(f"images of {config.image} pixels are no whole number of patches of {config.patch}")
        n_patches = (config.image // config.patch) ** 2
        self.patches = nn.Conv2d(config.channels, config.width, config.patch, stride=config.patch)
        self.class_token = nn.Parameter(torch.zeros(1, 1, config.width))
        self.positions = nn.Parameter(torch.zeros(1, 1 + n_patches, config.width))
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layers)])
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.head = nn.Linear(config.width, config.n_classes) if config.n_classes else None
        self.init_weights()

    def init_weights(self) -> None:
        """Draw the weights as the authors' code does."""
        nn.init.normal_(self.positions, std=0.02)
        init_linear(self, nn.init.xavier_uniform_)

    def forward(self, images: Tensor) -> Tensor:
        if images.shape[-2:] != (self.config.image, self.config.image):
            raise ValueError(f"images of {tuple(images.shape[-2:])} pixels: this ViT reads {(self.config.image,) * 2}")
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(x.shape[0], -1, -1), x], dim=1)
        x = self.dropout(x + self.positions)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x[:, 0])
        return x if self.head is None else self.head(x)
