"""Swin: attention within windows that shift from block to block (Liu et al., "Swin Transformer", 2021).

Reads the weights of Hugging Face's ``swin`` family and of torchvision's ``swin_t``, ``swin_s`` and ``swin_b``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import Tensor, nn
from oneflow.models.layers import MLP, Attention, DropPath, init_linear
from oneflow.models.pretrained import Config, Layout, Part, Pretrained

__all__ = ["Swin", "SwinConfig"]


@dataclass
class SwinConfig(Config):
    """Sizes of a Swin. The defaults are those of Swin-T.

    Args:
        patch, window: sides, in pixels and in patches.
        width: of the first stage; each next one is twice as wide and half as large.
        depths, n_heads: one number a stage.
        drop_path: probability of leaving out the last block's branches; earlier ones less, the first never.
        n_classes: classes, or 0 for a model that returns the mean state.

    Example::

        >>> from oneflow.models import SwinConfig
        >>> SwinConfig.preset("swin_s").depths
        (2, 2, 18, 2)
    """

    image: int = 224
    patch: int = 4
    channels: int = 3
    width: int = 96
    depths: tuple[int, ...] = (2, 2, 6, 2)
    n_heads: tuple[int, ...] = (3, 6, 12, 24)
    window: int = 7
    mlp_ratio: float = 4.0
    dropout: float = 0.0
    drop_path: float = 0.1
    norm_eps: float = 1e-5
    n_classes: int = 1000

    presets = {
        "swin_t": {"drop_path": 0.2},
        "swin_s": {"depths": (2, 2, 18, 2), "drop_path": 0.3},
        "swin_b": {"depths": (2, 2, 18, 2), "n_heads": (4, 8, 16, 32), "width": 128, "drop_path": 0.5},
        "swin_l": {"depths": (2, 2, 18, 2), "n_heads": (6, 12, 24, 48), "width": 192, "drop_path": 0.5},
    }
    model_type = "swin"
    hugging_face = {
        "image": "image_size",
        "patch": "patch_size",
        "channels": "num_channels",
        "width": "embed_dim",
        "depths": "depths",
        "n_heads": "num_heads",
        "window": "window_size",
        "mlp_ratio": "mlp_ratio",
        "dropout": "hidden_dropout_prob",
        "drop_path": "drop_path_rate",
        "norm_eps": "layer_norm_eps",
    }
    implemented = {"hidden_act": ("gelu",), "qkv_bias": (True,), "use_absolute_embeddings": (False,)}

    @classmethod
    def from_hugging_face(cls, values: Mapping[str, Any], **changes: Any) -> SwinConfig:
        # Not written where there are two classes without names.
        changes.setdefault("n_classes", len(values.get("id2label") or (0, 1)))
        return super().from_hugging_face(values, **changes)

    def to_hugging_face(self) -> dict[str, Any]:
        labels = {str(i): f"LABEL_{i}" for i in range(self.n_classes)}
        ids = {label: int(i) for i, label in labels.items()}
        values = super().to_hugging_face()
        values["depths"], values["num_heads"] = list(self.depths), list(self.n_heads)
        return {**values, "id2label": labels, "label2id": ids}


class WindowAttention(nn.Module):
    """Attention within windows of ``window`` x ``window`` patches, with a bias for each relative position.

    Input and output: (batch, height, width, channels). Sizes that are no multiple of ``window`` are padded.
    """

    places: Tensor

    def __init__(self, width: int, n_heads: int, window: int, shift: int, dropout: float) -> None:
        super().__init__()
        self.window, self.shift = window, shift
        self.attention = Attention(width, n_heads, dropout=dropout)
        self.bias = nn.Parameter(torch.zeros((2 * window - 1) ** 2, n_heads))
        nn.init.trunc_normal_(self.bias, std=0.02)
        y, x = torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij")
        y, x = y.flatten(), x.flatten()
        down, right = y[:, None] - y[None, :] + window - 1, x[:, None] - x[None, :] + window - 1
        self.register_buffer("places", down * (2 * window - 1) + right, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        batch, height, width, channels = x.shape
        size = self.window
        x = F.pad(x, (0, 0, 0, -width % size, 0, -height % size))
        rows, columns = x.shape[1] // size, x.shape[2] // size
        # A single window has nothing to shift to.
        shifts = (self.shift if rows > 1 else 0, self.shift if columns > 1 else 0)
        mask = self.bias[self.places].permute(2, 0, 1)
        if any(shifts):
            x = x.roll((-shifts[0], -shifts[1]), dims=(1, 2))
            mask = mask + self._seam(rows, columns, shifts, x)[:, None]
        x = self.attention(self._windows(x, rows, columns), mask=mask)
        x = x.view(batch, rows, columns, size, size, channels).transpose(2, 3)
        x = x.reshape(batch, rows * size, columns * size, channels)
        if any(shifts):
            x = x.roll(shifts, dims=(1, 2))
        return x[:, :height, :width]

    def _windows(self, x: Tensor, rows: int, columns: int) -> Tensor:
        """(batch, height, width, channels) to (batch, windows, patches of a window, channels)."""
        batch, size, channels = x.shape[0], self.window, x.shape[-1]
        x = x.view(batch, rows, size, columns, size, channels).transpose(2, 3)
        return x.reshape(batch, rows * columns, size * size, channels)

    def _seam(self, rows: int, columns: int, shifts: tuple[int, int], x: Tensor) -> Tensor:
        """-100 between patches that only the shift brought into one window: (windows, patches, patches)."""
        size = self.window

        def sides(n: int, shift: int) -> Tensor:
            # 0: not in the last window; 1: in its part that was there; 2: in its part from the other end.
            place = torch.arange(n * size, device=x.device)
            return (place >= (n - 1) * size).long() + (place >= n * size - shift).long() * (shift > 0)

        regions = 3 * sides(rows, shifts[0])[:, None] + sides(columns, shifts[1])[None, :]
        regions = self._windows(regions[None, :, :, None], rows, columns)[0, :, :, 0]
        return (regions[:, :, None] != regions[:, None, :]).to(x.dtype) * -100.0


class Block(nn.Module):
    """Windowed attention and a feed-forward network, each of the normed input and added to it.

    Input and output: (batch, height, width, channels).
    """

    def __init__(self, config: SwinConfig, width: int, n_heads: int, shift: int, drop_path: float) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width, eps=config.norm_eps)
        self.windows = WindowAttention(width, n_heads, config.window, shift, config.dropout)
        self.norm2 = nn.LayerNorm(width, eps=config.norm_eps)
        self.mlp = MLP(width, int(config.mlp_ratio * width), nn.GELU(), config.dropout)
        self.drop_path = DropPath(drop_path)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.drop_path(self.windows(self.norm1(x)))
        return x + self.drop_path(self.mlp(self.norm2(x)))


class Merge(nn.Module):
    """Four neighbours become one patch: (batch, height, width, c) to (batch, height / 2, width / 2, 2 c)."""

    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * width, eps=eps)
        self.reduction = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = F.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
        upper, lower = x[:, 0::2], x[:, 1::2]
        x = torch.cat([upper[:, :, 0::2], lower[:, :, 0::2], upper[:, :, 1::2], lower[:, :, 1::2]], dim=-1)
        return self.reduction(self.norm(x))


class Stage(nn.Module):
    """Blocks at one resolution, in turns unshifted and shifted, and the merging of patches after all but the last."""

    def __init__(self, config: SwinConfig, i: int, drop_paths: list[float]) -> None:
        super().__init__()
        width = config.width * 2**i
        self.blocks = nn.ModuleList(
            [
                Block(config, width, config.n_heads[i], shift=config.window // 2 if j % 2 else 0, drop_path=p)
                for j, p in enumerate(drop_paths)
            ]
        )
        self.merge = Merge(width, config.norm_eps) if i + 1 < len(config.depths) else None

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x if self.merge is None else self.merge(x)


_OURS = "stages.{}.blocks.{}."
_HF = "swin.encoder.layers.{}.blocks.{}."


def _torchvision() -> tuple[Part, ...]:
    parts = [
        Part("features.0.0", "patches"),
        Part("features.0.2", "patch_norm"),
        Part("norm", "norm"),
        Part("head", "head"),
    ]
    for i in range(4):
        theirs, ours = f"features.{2 * i + 1}.{{}}.", f"stages.{i}.blocks.{{}}."
        attention = ours + "windows.attention."
        parts += [
            Part(theirs + "norm1", ours + "norm1"),
            Part(theirs + "attn.qkv", (attention + "query", attention + "key", attention + "value")),
            Part(theirs + "attn.proj", attention + "out"),
            Part(theirs + "attn.relative_position_bias_table", ours + "windows.bias"),
            Part(theirs + "norm2", ours + "norm2"),
            Part(theirs + "mlp.0", ours + "mlp.up"),
            Part(theirs + "mlp.3", ours + "mlp.down"),
            Part(f"features.{2 * i + 2}.norm", f"stages.{i}.merge.norm"),
            Part(f"features.{2 * i + 2}.reduction", f"stages.{i}.merge.reduction"),
        ]
    return tuple(parts)


class Swin(Pretrained):
    """Images (batch, channels, height, width) in, logits (batch, n_classes) out. Any size of image is read.

    Example::

        >>> from oneflow.models import Swin, SwinConfig
        >>> config = SwinConfig(patch=2, width=8, depths=(2, 2), n_heads=(1, 2), window=2, n_classes=3)
        >>> Swin(config)(oneflow.ones(2, 3, 16, 16)).shape
        oneflow.Size([2, 3])
    """

    config_class = SwinConfig
    layouts = (
        Layout(
            "hugging_face",
            (
                Part("swin.embeddings.patch_embeddings.projection", "patches"),
                Part("swin.embeddings.norm", "patch_norm"),
                Part(_HF + "layernorm_before", _OURS + "norm1"),
                Part(_HF + "attention.self.query", _OURS + "windows.attention.query"),
                Part(_HF + "attention.self.key", _OURS + "windows.attention.key"),
                Part(_HF + "attention.self.value", _OURS + "windows.attention.value"),
                Part(_HF + "attention.self.relative_position_bias_table", _OURS + "windows.bias"),
                Part(_HF + "attention.output.dense", _OURS + "windows.attention.out"),
                Part(_HF + "layernorm_after", _OURS + "norm2"),
                Part(_HF + "intermediate.dense", _OURS + "mlp.up"),
                Part(_HF + "output.dense", _OURS + "mlp.down"),
                Part("swin.encoder.layers.{}.downsample.norm", "stages.{}.merge.norm"),
                Part("swin.encoder.layers.{}.downsample.reduction", "stages.{}.merge.reduction"),
                Part("swin.layernorm", "norm"),
                Part("classifier", "head"),
            ),
            skipped=(r".*\.relative_position_index",),
        ),
        Layout("torchvision", _torchvision(), skipped=(r".*\.relative_position_index",)),
    )

    def __init__(self, config: SwinConfig) -> None:
        super().__init__()
        self.config = config
        if len(config.depths) != len(config.n_heads):
            raise ValueError(f"depths {config.depths} and n_heads {config.n_heads} name different numbers of stages")
        n_blocks = sum(config.depths)
        drop_paths = [config.drop_path * i / max(n_blocks - 1, 1) for i in range(n_blocks)]
        self.patches = nn.Conv2d(config.channels, config.width, config.patch, stride=config.patch)
        self.patch_norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)
        self.stages = nn.ModuleList()
        for i, depth in enumerate(config.depths):
            self.stages.append(Stage(config, i, drop_paths[:depth]))
            drop_paths = drop_paths[depth:]
        width = config.width * 2 ** (len(config.depths) - 1)
        self.norm = nn.LayerNorm(width, eps=config.norm_eps)
        self.head = nn.Linear(width, config.n_classes) if config.n_classes else None
        # Keeps the variance from layer to layer at any width.
        init_linear(self, nn.init.xavier_uniform_)

    def forward(self, images: Tensor) -> Tensor:
        x = self.dropout(self.patch_norm(self.patches(images).permute(0, 2, 3, 1)))
        for stage in self.stages:
            x = stage(x)
        x = self.norm(x).mean((1, 2))
        return x if self.head is None else self.head(x)
