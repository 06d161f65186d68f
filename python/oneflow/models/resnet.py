"""ResNet: convolutions with shortcuts (He et al., "Deep Residual Learning for Image Recognition", 2016).

Modules are called as in torchvision, whose weights it reads, those of ResNeXt (Xie et al., 2017) and wide ResNets
(Zagoruyko and Komodakis, 2016) included.
"""

from __future__ import annotations

from dataclasses import dataclass

import oneflow as torch
from oneflow import Tensor, nn
from oneflow.models.pretrained import Config, Pretrained

__all__ = ["ResNet", "ResNetConfig"]


@dataclass
class ResNetConfig(Config):
    """Sizes of a ResNet. The defaults are those of ResNet-50.

    Args:
        depths: blocks of the four stages.
        bottleneck: blocks of three convolutions instead of two.
        width: channels of the first stage.
        groups, group_width: groups of a bottleneck's middle convolution, and the channels of each in the first stage.
        n_classes: classes, or 0 for a model that returns the pooled features.
        zero_init: begin with blocks that change nothing.

    Example::

        >>> from oneflow.models import ResNetConfig
        >>> ResNetConfig.preset("resnet152").depths
        (3, 8, 36, 3)
    """

    depths: tuple[int, ...] = (3, 4, 6, 3)
    bottleneck: bool = True
    channels: int = 3
    width: int = 64
    groups: int = 1
    group_width: int = 64
    n_classes: int = 1000
    zero_init: bool = False

    presets = {
        "resnet18": {"depths": (2, 2, 2, 2), "bottleneck": False},
        "resnet34": {"bottleneck": False},
        "resnet50": {},
        "resnet101": {"depths": (3, 4, 23, 3)},
        "resnet152": {"depths": (3, 8, 36, 3)},
        "resnext50_32x4d": {"groups": 32, "group_width": 4},
        "resnext101_32x8d": {"depths": (3, 4, 23, 3), "groups": 32, "group_width": 8},
        "wide_resnet50_2": {"group_width": 128},
        "wide_resnet101_2": {"depths": (3, 4, 23, 3), "group_width": 128},
    }
    model_type = "oneflow_resnet"


def _conv3(n_in: int, n_out: int, stride: int = 1, groups: int = 1) -> nn.Conv2d:
    return nn.Conv2d(n_in, n_out, 3, stride=stride, padding=1, groups=groups, bias=False)


def _shortcut(n_in: int, n_out: int, stride: int) -> nn.Module | None:
    """Return the layer that maps a block's input to the shape of its output; None if they agree."""
    if stride == 1 and n_in == n_out:
        return None
    return nn.Sequential(nn.Conv2d(n_in, n_out, 1, stride=stride, bias=False), nn.BatchNorm2d(n_out))


class BasicBlock(nn.Module):
    """Two 3x3 convolutions with a shortcut: (N, n_in, H, W) to (N, width, H / stride, W / stride)."""

    expansion = 1

    def __init__(self, config: ResNetConfig, n_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = _conv3(n_in, width, stride), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = _conv3(width, width), nn.BatchNorm2d(width)
        self.relu = nn.ReLU()
        self.downsample = _shortcut(n_in, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """A 3x3 convolution between two 1x1: (N, n_in, H, W) to (N, 4 width, H / stride, W / stride)."""

    expansion = 4

    def __init__(self, config: ResNetConfig, n_in: int, width: int, stride: int) -> None:
        super().__init__()
        middle = width * config.group_width // 64 * config.groups
        n_out = width * self.expansion
        self.conv1, self.bn1 = nn.Conv2d(n_in, middle, 1, bias=False), nn.BatchNorm2d(middle)
        self.conv2, self.bn2 = _conv3(middle, middle, stride, config.groups), nn.BatchNorm2d(middle)
        self.conv3, self.bn3 = nn.Conv2d(middle, n_out, 1, bias=False), nn.BatchNorm2d(n_out)
        self.relu = nn.ReLU()
        self.downsample = _shortcut(n_in, n_out, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(Pretrained):
    """Images (N, channels, H, W) in, logits (N, n_classes) out.

    Example::

        >>> from oneflow.models import ResNet, ResNetConfig
        >>> config = ResNetConfig.preset("resnet18", width=8, n_classes=3)
        >>> ResNet(config)(oneflow.ones(2, 3, 32, 32)).shape
        oneflow.Size([2, 3])
    """

    config_class = ResNetConfig

    def __init__(self, config: ResNetConfig) -> None:
        super().__init__()
        self.config = config
        self.conv1 = nn.Conv2d(config.channels, config.width, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(config.width)
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        block = Bottleneck if config.bottleneck else BasicBlock
        n_in = config.width
        for i, depth in enumerate(config.depths):
            width = config.width * 2**i
            blocks = []
            for j in range(depth):
                blocks.append(block(config, n_in, width, stride=2 if i > 0 and j == 0 else 1))
                n_in = width * block.expansion
            setattr(self, f"layer{i + 1}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(n_in, config.n_classes) if config.n_classes else None
        self.init_weights()

    def init_weights(self) -> None:
        """Draw the weights as the paper does."""
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if self.config.zero_init:
            last = "bn3.weight" if self.config.bottleneck else "bn2.weight"
            for name, parameter in self.named_parameters():
                if name.endswith(last):
                    nn.init.zeros_(parameter)

    def forward(self, images: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        for i in range(len(self.config.depths)):
            x = getattr(self, f"layer{i + 1}")(x)
        x = torch.flatten(self.avgpool(x), 1)
        return x if self.fc is None else self.fc(x)
