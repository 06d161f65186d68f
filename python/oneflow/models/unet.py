"""U-Net: an image in, an image of the same size out, for segmentation and as the denoiser of diffusion models.

Ronneberger et al., "U-Net", 2015; with residual blocks, attention and conditions on time and class as in Ho et al.,
"Denoising Diffusion Probabilistic Models", 2020, and Dhariwal and Nichol, "Diffusion Models Beat GANs", 2021.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import Tensor, nn
from oneflow.models.layers import Attention
from oneflow.models.pretrained import Config, Pretrained

__all__ = ["UNet", "UNetConfig"]


@dataclass
class UNetConfig(Config):
    """Sizes of a U-Net. The defaults make a segmentation network of one class.

    Args:
        channels, n_out: channels of the input image and of the output image.
        width: channels at full resolution.
        multipliers: of the width, one number a level; each level has half the resolution of the one before.
        n_blocks: residual blocks a level.
        attention: levels with attention between all pixels.
        n_heads: heads of attention.
        groups: of the group norms; divides all widths.
        timed: conditioned on the time of a diffusion.
        n_classes: conditioned on a class, where above 0.

    Example::

        >>> from oneflow.models import UNetConfig
        >>> UNetConfig.preset("ddpm-cifar10").multipliers
        (1, 2, 2, 2)
    """

    channels: int = 3
    n_out: int = 1
    width: int = 64
    multipliers: tuple[int, ...] = (1, 2, 4, 8)
    n_blocks: int = 2
    attention: tuple[int, ...] = ()
    n_heads: int = 4
    groups: int = 8
    dropout: float = 0.0
    timed: bool = False
    n_classes: int = 0

    presets = {
        "unet-segmentation": {},
        "ddpm-cifar10": {
            "n_out": 3,
            "width": 128,
            "multipliers": (1, 2, 2, 2),
            "attention": (1,),
            "n_heads": 1,
            "groups": 32,
            "dropout": 0.1,
            "timed": True,
        },
        "ddpm-256": {
            "n_out": 3,
            "width": 128,
            "multipliers": (1, 1, 2, 2, 4, 4),
            "attention": (4,),
            "n_heads": 1,
            "groups": 32,
            "timed": True,
        },
        "adm-imagenet64": {
            "n_out": 6,
            "width": 192,
            "multipliers": (1, 2, 3, 4),
            "n_blocks": 3,
            "attention": (1, 2, 3),
            "n_heads": 4,
            "groups": 32,
            "timed": True,
            "n_classes": 1000,
        },
    }
    model_type = "oneflow_unet"


def time_features(time: Tensor, width: int) -> Tensor:
    """Cosines and sines of ``time`` (batch,) at ``width / 2`` frequencies: (batch, width)."""
    half = width // 2
    frequencies = torch.exp(torch.arange(half, device=time.device).float() * (-math.log(10000.0) / half))
    angles = time.float()[:, None] * frequencies[None, :]
    return torch.cat([angles.cos(), angles.sin()], dim=-1)


class ResidualBlock(nn.Module):
    """Two normalised convolutions with a shortcut; the condition, if there is one, scales and shifts the second one.

    ``x`` (N, n_in, H, W) and ``condition`` (N, n_condition) to (N, n_out, H, W).
    """

    def __init__(self, config: UNetConfig, n_in: int, n_out: int, n_condition: int) -> None:
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(config.groups, n_in), nn.Conv2d(n_in, n_out, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(config.groups, n_out), nn.Conv2d(n_out, n_out, 3, padding=1)
        self.condition = nn.Linear(n_condition, 2 * n_out) if n_condition else None
        self.dropout = nn.Dropout(config.dropout)
        self.shortcut = nn.Conv2d(n_in, n_out, 1) if n_in != n_out else nn.Identity()
        # A block begins as its shortcut.
        nn.init.zeros_(self.conv2.weight)

    def forward(self, x: Tensor, condition: Tensor | None) -> Tensor:
        y = self.norm2(self.conv1(F.silu(self.norm1(x))))
        if self.condition is not None and condition is not None:
            scale, shift = self.condition(F.silu(condition))[:, :, None, None].chunk(2, dim=1)
            y = y * (1 + scale) + shift
        return self.shortcut(x) + self.conv2(self.dropout(F.silu(y)))


class PixelAttention(nn.Module):
    """Attention between all pixels of the normed image, added to it. (N, C, H, W) in and out."""

    def __init__(self, config: UNetConfig, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(config.groups, width)
        self.attention = Attention(width, config.n_heads)
        nn.init.zeros_(self.attention.out.weight)

    def forward(self, x: Tensor) -> Tensor:
        pixels = self.norm(x).flatten(2).transpose(1, 2)
        return x + self.attention(pixels).transpose(1, 2).reshape(x.shape)


class Step(nn.Module):
    """A residual block, and attention where the level has it."""

    def __init__(self, config: UNetConfig, n_in: int, n_out: int, n_condition: int, attends: bool) -> None:
        super().__init__()
        self.block = ResidualBlock(config, n_in, n_out, n_condition)
        self.attention = PixelAttention(config, n_out) if attends else nn.Identity()

    def forward(self, x: Tensor, condition: Tensor | None) -> Tensor:
        return self.attention(self.block(x, condition))


class UNet(Pretrained):
    """Images (N, channels, H, W) in, (N, n_out, H, W) out; H and W are multiples of 2 to the number of levels less one.

    ``forward(images)`` segments; ``forward(images, time, labels)`` with ``time`` (N,) and int64 ``labels`` (N,)
    predicts the noise of a diffusion, as far as the configuration has these conditions.

    Example::

        >>> from oneflow.models import UNet, UNetConfig
        >>> sizes = {"width": 8, "multipliers": (1, 2)}
        >>> UNet(UNetConfig(**sizes))(oneflow.ones(2, 3, 8, 8)).shape
        oneflow.Size([2, 1, 8, 8])
        >>> denoiser = UNet(UNetConfig(n_out=3, timed=True, n_classes=10, **sizes))
        >>> denoiser(oneflow.ones(2, 3, 8, 8), oneflow.tensor([5, 900]), oneflow.tensor([1, 7])).shape
        oneflow.Size([2, 3, 8, 8])
    """

    config_class = UNetConfig

    def __init__(self, config: UNetConfig) -> None:
        super().__init__()
        self.config = config
        widths = [config.width * m for m in config.multipliers]
        last = len(widths) - 1
        conditioned = config.timed or config.n_classes > 0
        n_condition = 4 * config.width if conditioned else 0
        self.time = (
            nn.Sequential(nn.Linear(config.width, n_condition), nn.SiLU(), nn.Linear(n_condition, n_condition))
            if config.timed
            else None
        )
        self.label = nn.Embedding(config.n_classes, n_condition) if config.n_classes else None

        def step(n_in: int, n_out: int, attends: bool) -> Step:
            return Step(config, n_in, n_out, n_condition, attends)

        self.first = nn.Conv2d(config.channels, config.width, 3, padding=1)
        self.down, self.shrink = nn.ModuleList(), nn.ModuleList()
        width, skipped = config.width, [config.width]
        for level, n_out in enumerate(widths):
            steps = nn.ModuleList()
            for _ in range(config.n_blocks):
                steps.append(step(width, n_out, level in config.attention))
                width = n_out
                skipped.append(width)
            self.down.append(steps)
            if level < last:
                self.shrink.append(nn.Conv2d(width, width, 3, stride=2, padding=1))
                skipped.append(width)
        self.middle = nn.ModuleList([step(width, width, bool(config.attention)), step(width, width, False)])
        self.up, self.grow = nn.ModuleList(), nn.ModuleList()
        for level, n_out in reversed(list(enumerate(widths))):
            steps = nn.ModuleList()
            for _ in range(config.n_blocks + 1):
                steps.append(step(width + skipped.pop(), n_out, level in config.attention))
                width = n_out
            self.up.append(steps)
            if level > 0:
                self.grow.append(nn.Conv2d(width, width, 3, padding=1))
        self.norm = nn.GroupNorm(config.groups, width)
        self.last = nn.Conv2d(width, config.n_out, 3, padding=1)

    def forward(self, images: Tensor, time: Tensor | None = None, labels: Tensor | None = None) -> Tensor:
        condition = self._condition(time, labels)
        x = self.first(images)
        skipped = [x]
        for level, steps in enumerate(self.down):
            for step in steps:
                x = step(x, condition)
                skipped.append(x)
            if level < len(self.shrink):
                x = self.shrink[level](x)
                skipped.append(x)
        for step in self.middle:
            x = step(x, condition)
        for level, steps in enumerate(self.up):
            for step in steps:
                x = step(torch.cat([x, skipped.pop()], dim=1), condition)
            if level < len(self.grow):
                x = self.grow[level](F.interpolate(x, scale_factor=2.0, mode="nearest"))
        return self.last(F.silu(self.norm(x)))

    def _condition(self, time: Tensor | None, labels: Tensor | None) -> Tensor | None:
        if (time is None) != (self.time is None) or (labels is None) != (self.label is None):
            wanted = [name for name, part in (("time", self.time), ("labels", self.label)) if part is not None]
            raise ValueError(f"this UNet is conditioned on {' and '.join(wanted) or 'nothing'}: give exactly that")
        condition = None
        if self.time is not None and time is not None:
            condition = self.time(time_features(time, self.config.width))
        if self.label is not None:
            label = self.label(labels)
            condition = label if condition is None else condition + label
        return condition
