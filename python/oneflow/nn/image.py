"""OneFlow's modules of pictures: (height, width, channels), several in a ``nn.TensorBuffer``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nn import functional as F
from oneflow.nn.modules.module import Module
from oneflow.nn.modules.readers import TensorBuffer, _checked_space, _decoded

__all__ = ["Resize", "batch_align", "decode", "flip", "normalize"]

_MODES = {"bilinear": "bilinear", "bicubic": "bicubic", "nearest_neighbor": "nearest", "nearest": "nearest"}


def _resized(picture: Tensor, height: int, width: int, interpolation: str) -> Tensor:
    if interpolation == "auto":
        # Averages when the picture gets smaller, as OpenCV does on request.
        smaller = height * width < picture.shape[0] * picture.shape[1]
        mode = "area" if smaller else "bilinear"
    else:
        mode = _MODES[interpolation]
    x = picture.permute(2, 0, 1).unsqueeze(0).to(oneflow.float32)
    align = False if mode in ("bilinear", "bicubic") else None
    y = F.interpolate(x, (height, width), mode=mode, align_corners=align)[0].permute(1, 2, 0)
    return y.round().clamp(0, 255).to(oneflow.uint8) if picture.dtype == oneflow.uint8 else y.to(picture.dtype)


class Resize(Module):
    """Pictures in another size.

    Args:
        target_size: (width, height), or with ``keep_aspect_ratio`` the length of one side.
        min_size, max_size: with ``keep_aspect_ratio``, the least of the shorter and the most of the longer side.
        keep_aspect_ratio: resize both sides by one factor.
        resize_side: which side has ``target_size``, ``"shorter"`` or ``"longer"``.
        channels: of pictures of one size.
        dtype: of pictures of one size; uint8 by default.
        interpolation_type: auto, bilinear, nearest_neighbor or bicubic.

    Returns:
        The pictures (a buffer, or with a size (width, height) a tensor), the factors (N, 2) of width and height, and
        with ``keep_aspect_ratio`` the sizes (N, 2) as width and height, else None.

    Example::

        >>> pictures = nn.TensorBuffer([oneflow.zeros(4, 6, 3), oneflow.zeros(5, 5, 3)])
        >>> nn.image.Resize(target_size=(2, 3))(pictures)[0].shape
        oneflow.Size([2, 3, 2, 3])
    """

    def __init__(
        self,
        target_size: int | Sequence[int] | None = None,
        min_size: int | None = None,
        max_size: int | None = None,
        keep_aspect_ratio: bool = False,
        resize_side: str = "shorter",
        channels: int = 3,
        dtype: oneflow.dtype | None = None,
        interpolation_type: str = "auto",
        name: str | None = None,
        color_space: str | None = None,
        interp_type: str | None = None,
        resize_shorter: int = 0,
        resize_x: int = 0,
        resize_y: int = 0,
    ) -> None:
        super().__init__()
        old = {"Linear": "bilinear", "NN": "nearest_neighbor", "Cubic": "bicubic"}
        if interp_type is not None:
            if interp_type not in old:
                raise ValueError(f"interp_type must be Linear, NN or Cubic, not {interp_type!r}")
            interpolation_type = old[interp_type]
        if resize_x > 0 and resize_y > 0:
            target_size, keep_aspect_ratio = (resize_x, resize_y), False
        if resize_shorter > 0:
            target_size, keep_aspect_ratio, resize_side = resize_shorter, True, "shorter"
        if interpolation_type != "auto" and interpolation_type not in _MODES:
            raise ValueError(
                f"interpolation_type must be auto or one of {', '.join(_MODES)}, not {interpolation_type!r}"
            )
        if resize_side not in ("shorter", "longer"):
            raise ValueError(f'resize_side must be "shorter" or "longer", not {resize_side!r}')
        if keep_aspect_ratio != isinstance(target_size, int):
            raise ValueError("target_size is a number with keep_aspect_ratio, and (width, height) without")
        if color_space is not None:
            channels = 1 if _checked_space(color_space).upper() == "GRAY" else 3
        self.target_size: Any = target_size
        self.min_size, self.max_size, self.resize_side = min_size or 0, max_size or 0, resize_side
        self.keep_aspect_ratio, self.channels, self.dtype = keep_aspect_ratio, channels, dtype or oneflow.uint8
        self.interpolation_type = interpolation_type

    def _size(self, height: int, width: int) -> tuple[int, int]:
        if not self.keep_aspect_ratio:
            return self.target_size[1], self.target_size[0]
        short, long = min(height, width), max(height, width)
        factor = self.target_size / (short if self.resize_side == "shorter" else long)
        if self.min_size and short * factor < self.min_size:
            factor = self.min_size / short
        if self.max_size and long * factor > self.max_size:
            factor = self.max_size / long
        return max(round(height * factor), 1), max(round(width * factor), 1)

    def forward(self, input: TensorBuffer | Tensor) -> tuple[Any, Tensor, Tensor | None]:
        pictures, factors, sizes = TensorBuffer(), [], []
        for picture in input:
            height, width = self._size(*picture.shape[:2])
            pictures.append(_resized(picture, height, width, self.interpolation_type))
            factors.append([width / picture.shape[1], height / picture.shape[0]])
            sizes.append([width, height])
        scale = oneflow.tensor(factors, dtype=oneflow.float32)
        if self.keep_aspect_ratio:
            return pictures, scale, oneflow.tensor(sizes, dtype=oneflow.int32)
        if any(picture.shape[2] != self.channels for picture in pictures):
            raise ValueError(f"Resize: a picture has other than {self.channels} channels")
        return oneflow.stack(list(pictures)).to(self.dtype), scale, None


class batch_align(Module):
    """Pictures of a buffer as one tensor, each filled up with zeros at the right and below.

    Args:
        shape: most that the result may have, (height, width, channels).
        dtype: of the result.
        alignment: height and width are multiples of it.

    Example::

        >>> pictures = nn.TensorBuffer([oneflow.ones(2, 3, 1), oneflow.ones(4, 1, 1)])
        >>> nn.image.batch_align(shape=(16, 16, 1), dtype=oneflow.float32, alignment=4)(pictures).shape
        oneflow.Size([2, 4, 4, 1])
    """

    def __init__(self, shape: Sequence[int], dtype: oneflow.dtype, alignment: int) -> None:
        super().__init__()
        if len(shape) != 3 or alignment < 1:
            raise ValueError("batch_align: expected shape (height, width, channels) and a positive alignment")
        self.shape, self.dtype, self.alignment = tuple(shape), dtype, alignment

    def forward(self, input: TensorBuffer | Tensor) -> Tensor:
        most = [max(picture.shape[d] for picture in input) for d in (0, 1)]
        height, width = (math.ceil(n / self.alignment) * self.alignment for n in most)
        if height > self.shape[0] or width > self.shape[1]:
            raise ValueError(f"batch_align: pictures of up to {height} by {width} do not fit {self.shape}")
        filled = []
        for picture in input:
            below, right = height - picture.shape[0], width - picture.shape[1]
            filled.append(F.pad(picture.to(self.dtype), (0, 0, 0, right, 0, below)))
        return oneflow.stack(filled)


class decode(Module):
    """Encoded pictures (JPEG or PNG, uint8 vectors) as tensors.

    Args:
        dtype: of the result.
        color_space: RGB, BGR or GRAY.

    Raises:
        ValueError: the bytes are no picture.

    Example::

        >>> decode = nn.image.decode(color_space="RGB")
        >>> encoded = nn.TensorBuffer([])
        >>> len(decode(encoded))
        0
    """

    def __init__(self, dtype: oneflow.dtype = oneflow.uint8, color_space: str = "BGR") -> None:
        super().__init__()
        self.dtype, self.color_space = dtype, _checked_space(color_space)

    def forward(self, input: TensorBuffer) -> TensorBuffer:
        return TensorBuffer(_decoded(data, self.color_space).to(self.dtype) for data in input)


class flip(Module):
    """Mirror pictures by code: 0 not, 1 left to right, 2 upside down, 3 both.

    Example::

        >>> pictures = nn.TensorBuffer([oneflow.arange(2.0).reshape(1, 2, 1)])
        >>> nn.image.flip()(pictures, oneflow.tensor([1], dtype=oneflow.int8))[0].flatten()
        tensor([1., 0.])
    """

    def forward(self, images: TensorBuffer, flip_code: Tensor) -> TensorBuffer:
        codes = [int(code) for code in flip_code.tolist()]
        if len(codes) != len(images) or any(code not in (0, 1, 2, 3) for code in codes):
            raise ValueError(f"flip: expected a code from 0 to 3 for each of {len(images)} pictures, got {codes}")
        dims = {0: (), 1: (1,), 2: (0,), 3: (0, 1)}
        return TensorBuffer(image.flip(dims[code]) for image, code in zip(images, codes, strict=True))


class normalize(Module):
    """Pictures less ``mean``, over ``std``: a number for each channel.

    Example::

        >>> pictures = nn.TensorBuffer([oneflow.ones(1, 2, 1)])
        >>> nn.image.normalize(std=[2.0], mean=[0.5])(pictures)[0].flatten()
        tensor([0.2500, 0.2500])
    """

    def __init__(self, std: Sequence[float], mean: Sequence[float]) -> None:
        super().__init__()
        self.std, self.mean = tuple(std), tuple(mean)

    def forward(self, input: TensorBuffer) -> TensorBuffer:
        std, mean = oneflow.tensor(self.std), oneflow.tensor(self.mean)
        return TensorBuffer((image - mean.to(image.device)) / std.to(image.device) for image in input)
