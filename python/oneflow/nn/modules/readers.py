"""OneFlow's readers of files as modules: each call returns the next batch.

A reader is called without arguments; decoders and the modules of pictures take its results. Things whose sizes differ
within a batch (records, encoded and decoded pictures) come in a :class:`TensorBuffer`, a list of tensors. Pictures are
(height, width, channels), as OneFlow has them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.nn import functional as F
from oneflow.nn.modules.module import Module

__all__ = [
    "COCOReader",
    "CoinFlip",
    "CropMirrorNormalize",
    "GPTIndexedBinDataReader",
    "OFRecordBytesDecoder",
    "OFRecordImageDecoder",
    "OFRecordImageDecoderRandomCrop",
    "OFRecordRawDecoder",
    "OFRecordReader",
    "OfrecordRawDecoder",
    "OfrecordReader",
    "RawReader",
    "TensorBuffer",
]


class TensorBuffer(list[Any]):
    """Tensors of a batch that differ in size.

    Example::

        >>> nn.TensorBuffer([oneflow.ones(1), oneflow.ones(2)]).shape
        oneflow.Size([2])
    """

    # Sizes of the batch of which the tensors are the entries; of None one dimension.
    _batch: tuple[int, ...] | None = None

    @property
    def shape(self) -> oneflow.Size:
        """The number of tensors."""
        return oneflow.Size([len(self)] if self._batch is None else self._batch)

    def numpy(self) -> Any:
        """The tensors as an array of arrays."""
        import numpy

        array = numpy.empty(len(self), dtype=object)
        for i, item in enumerate(self):
            array[i] = item.numpy() if isinstance(item, Tensor) else item
        return array


class _Reader(Module):
    """The base of readers: the device of a batch, and the order of an epoch."""

    def __init__(self, device: Any, placement: Any, sbp: Any, seed: int | None) -> None:
        super().__init__()
        if (placement is None) != (sbp is None):
            raise ValueError(f"{type(self).__name__}: placement and sbp are given together")
        if placement is not None and device is not None:
            raise ValueError(f"{type(self).__name__}: give a device, or a placement and sbp")
        self.device, self.placement, self.sbp = device, placement, sbp
        self._random = oneflow.Generator().manual_seed(
            seed if seed is not None and seed >= 0 else oneflow.initial_seed()
        )

    def _put(self, batch: Tensor) -> Tensor:
        if self.placement is not None:
            # The batch is that of all ranks: each has read the whole and keeps its part.
            whole = [oneflow.sbp.broadcast] * self.placement.ranks.ndim
            return batch.to_global(placement=self.placement, sbp=whole).to_global(sbp=self.sbp)
        return batch if self.device is None else batch.to(self.device)

    def _order(self, n: int, shuffled: bool) -> list[int]:
        return oneflow.randperm(n, generator=self._random).tolist() if shuffled else list(range(n))

    def _next(self, n: int, batch_size: int, shuffled: bool) -> list[int]:
        """Return which of ``n`` samples are next; the last batch of an epoch continues into the following one."""
        left: list[int] = self.__dict__.setdefault("_left", [])
        while len(left) < batch_size:
            left.extend(self._order(n, shuffled))
        chosen, self.__dict__["_left"] = left[:batch_size], left[batch_size:]
        return chosen


def _is_record(input: Any, name: str) -> TensorBuffer:
    if not isinstance(input, TensorBuffer) or not all(isinstance(item, bytes) for item in input):
        raise TypeError(f"{name}: expected the records that nn.OFRecordReader gives, not {type(input).__name__}")
    return input


class OFRecordReader(_Reader):
    """Batches of records from the files ``part-0``, ``part-1``, ... of a folder, for the decoders.

    Args:
        ofrecord_dir: the folder.
        batch_size: records of a batch.
        data_part_num: number of files.
        part_name_prefix: what a file's name begins with.
        part_name_suffix_length: digits of its number, zeros before it; -1 for as many as it has.
        random_shuffle, shuffle_after_epoch: return the records in a random order, another one each epoch.
        shuffle_buffer_size: accepted; the order is of all records.
        random_seed: of the order; -1 for the seed of the program.
        device, placement, sbp: where decoded tensors go. Records stay on the host.

    Raises:
        RuntimeError: a file is missing.
        ValueError: the files hold no record, or one that is cut short.

    Example::

        >>> import pathlib, struct
        >>> def field(number, data):  # Of a protocol buffer.
        ...     return bytes([number << 3 | 2, len(data)]) + data
        >>> record = field(1, field(1, b"label") + field(2, field(5, field(1, bytes([7])))))
        >>> _ = pathlib.Path("part-0").write_bytes(struct.pack("<q", len(record)) + record)
        >>> records = nn.OFRecordReader(".", batch_size=2)()
        >>> nn.OFRecordRawDecoder("label", shape=(), dtype=oneflow.int32)(records)
        tensor([7, 7], dtype=oneflow.int32)
    """

    def __init__(
        self,
        ofrecord_dir: str,
        batch_size: int = 1,
        data_part_num: int = 1,
        part_name_prefix: str = "part-",
        part_name_suffix_length: int = -1,
        random_shuffle: bool = False,
        shuffle_buffer_size: int = 1024,
        shuffle_after_epoch: bool = False,
        random_seed: int = -1,
        device: Any = None,
        placement: Any = None,
        sbp: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__(device, placement, sbp, random_seed)
        digits = max(part_name_suffix_length, 0)
        files = [str(Path(ofrecord_dir) / f"{part_name_prefix}{i:0{digits}d}") for i in range(data_part_num)]
        self._records = _oneflow._Records(files)
        if len(self._records) == 0 or batch_size < 1:
            raise ValueError(f"OFRecordReader: {len(self._records)} records give no batch of {batch_size}")
        self.batch_size = batch_size
        self.random_shuffle = random_shuffle or shuffle_after_epoch

    def forward(self) -> TensorBuffer:
        chosen = self._next(len(self._records), self.batch_size, self.random_shuffle)
        return TensorBuffer(self._records[i] for i in chosen)


def _values(record: bytes, name: str) -> tuple[str, Any]:
    found = _oneflow._record_values(record, name)
    if found is None:
        raise ValueError(f"ofrecord: a record has no feature {name!r}")
    return found


def _tensor_of(kind: str, data: Any) -> Tensor:
    if kind == "bytes":
        kind, data = "uint8", b"".join(data)
    if not data:
        return oneflow.empty(0, dtype=getattr(oneflow, kind))
    return oneflow.frombuffer(bytearray(data), dtype=getattr(oneflow, kind))


class OFRecordRawDecoder(Module):
    """The numbers of a feature of each record, as one tensor.

    Args:
        blob_name: the feature's name.
        shape: of one record's numbers.
        dtype: of the result.
        dim1_varying_length: take as many as fill whole rows, up to ``shape``; the rest is zeros.
        truncate, auto_zero_padding: cut what is too long off, and fill what is too short with zeros.

    Raises:
        ValueError: a record lacks the feature, or has another number of values.

    Example::

        >>> import pathlib, struct
        >>> def field(number, data):  # Of a protocol buffer.
        ...     return bytes([number << 3 | 2, len(data)]) + data
        >>> record = field(1, field(1, b"label") + field(2, field(5, field(1, bytes([7])))))
        >>> _ = pathlib.Path("part-0").write_bytes(struct.pack("<q", len(record)) + record)
        >>> nn.OFRecordRawDecoder("label", (1,), oneflow.float32)(nn.OFRecordReader(".")())
        tensor([[7.]])
    """

    def __init__(
        self,
        blob_name: str,
        shape: Sequence[int],
        dtype: oneflow.dtype,
        dim1_varying_length: bool = False,
        truncate: bool = False,
        auto_zero_padding: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.blob_name, self.shape, self.dtype = blob_name, tuple(shape), dtype
        self.pads = truncate or auto_zero_padding or dim1_varying_length

    def forward(self, input: TensorBuffer) -> Tensor:
        count = math.prod(self.shape)
        rows = []
        for record in _is_record(input, "OFRecordRawDecoder"):
            row = _tensor_of(*_values(record, self.blob_name)).to(self.dtype)
            if row.numel() != count:
                if not self.pads:
                    raise ValueError(f"ofrecord: {self.blob_name!r} has {row.numel()} values, expected {count}")
                row = F.pad(row[:count], (0, max(count - row.numel(), 0)))
            rows.append(row.reshape(self.shape))
        return oneflow.stack(rows)


class OFRecordBytesDecoder(Module):
    """The bytes of a feature of each record, as uint8 vectors.

    Args:
        blob_name: the feature's name.

    Example::

        >>> import pathlib, struct
        >>> def field(number, data):  # Of a protocol buffer.
        ...     return bytes([number << 3 | 2, len(data)]) + data
        >>> record = field(1, field(1, b"text") + field(2, field(1, field(1, b"ab"))))
        >>> _ = pathlib.Path("part-0").write_bytes(struct.pack("<q", len(record)) + record)
        >>> nn.OFRecordBytesDecoder("text")(nn.OFRecordReader(".")())[0]
        tensor([97, 98], dtype=oneflow.uint8)
    """

    def __init__(self, blob_name: str, name: str | None = None) -> None:
        super().__init__()
        self.blob_name = blob_name

    def forward(self, input: TensorBuffer) -> TensorBuffer:
        records = _is_record(input, "OFRecordBytesDecoder")
        return TensorBuffer(_tensor_of(*_values(record, self.blob_name)) for record in records)


def _decoded(data: Any, color_space: str) -> Tensor:
    raw = data.contiguous().numpy().tobytes() if isinstance(data, Tensor) else data
    height, width, channels, pixels = _oneflow._decode_image(raw, color_space.lower())
    return oneflow.frombuffer(bytearray(pixels), dtype=oneflow.uint8).reshape(height, width, channels)


def _checked_space(color_space: str) -> str:
    if color_space.upper() not in ("RGB", "BGR", "GRAY"):
        raise ValueError(f"color_space must be RGB, BGR or GRAY, not {color_space!r}")
    return color_space


class OFRecordImageDecoder(Module):
    """The pictures (JPEG or PNG) of a feature of each record, as uint8 (height, width, channels).

    Args:
        blob_name: the feature's name.
        color_space: RGB, BGR or GRAY.

    Raises:
        ValueError: the bytes are no picture.

    Example::

        >>> import pathlib, struct, zlib
        >>> def chunk(kind, data):  # Of a PNG file.
        ...     return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        >>> header = chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 1, 8, 2, 0, 0, 0))
        >>> rows = chunk(b"IDAT", zlib.compress(bytes([0, 1, 2, 3, 4, 5, 6])))
        >>> png = bytes([137]) + b"PNG" + bytes([13, 10, 26, 10]) + header + rows + chunk(b"IEND", b"")
        >>> def field(number, data):  # Of a protocol buffer.
        ...     return bytes([number << 3 | 2, len(data)]) + data
        >>> record = field(1, field(1, b"picture") + field(2, field(1, field(1, png))))
        >>> _ = pathlib.Path("part-0").write_bytes(struct.pack("<q", len(record)) + record)
        >>> nn.OFRecordImageDecoder("picture", "RGB")(nn.OFRecordReader(".")())[0].tolist()
        [[[1, 2, 3], [4, 5, 6]]]
    """

    def __init__(self, blob_name: str, color_space: str = "BGR") -> None:
        super().__init__()
        self.blob_name, self.color_space = blob_name, _checked_space(color_space)

    def _picture(self, record: bytes) -> Tensor:
        kind, data = _values(record, self.blob_name)
        if kind != "bytes" or not data:
            raise ValueError(f"ofrecord: {self.blob_name!r} holds no picture")
        return _decoded(data[0], self.color_space)

    def forward(self, input: TensorBuffer) -> TensorBuffer:
        return TensorBuffer(self._picture(record) for record in _is_record(input, type(self).__name__))


class OFRecordImageDecoderRandomCrop(OFRecordImageDecoder):
    """As :class:`OFRecordImageDecoder`, then a random part of each picture.

    Args:
        blob_name: the feature's name.
        color_space: RGB, BGR or GRAY.
        num_attempts: parts to try before the largest in the middle is taken.
        random_seed: of the parts.
        random_area: smallest and largest share of the picture.
        random_aspect_ratio: smallest and largest width over height.

    Example::

        >>> import pathlib, struct, zlib
        >>> def chunk(kind, data):  # Of a PNG file.
        ...     return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        >>> header = chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 1, 8, 2, 0, 0, 0))
        >>> rows = chunk(b"IDAT", zlib.compress(bytes([0, 1, 2, 3, 4, 5, 6])))
        >>> png = bytes([137]) + b"PNG" + bytes([13, 10, 26, 10]) + header + rows + chunk(b"IEND", b"")
        >>> def field(number, data):  # Of a protocol buffer.
        ...     return bytes([number << 3 | 2, len(data)]) + data
        >>> record = field(1, field(1, b"picture") + field(2, field(1, field(1, png))))
        >>> _ = pathlib.Path("part-0").write_bytes(struct.pack("<q", len(record)) + record)
        >>> crop = nn.OFRecordImageDecoderRandomCrop("picture", "RGB", random_area=[1.0, 1.0])
        >>> crop(nn.OFRecordReader(".")())[0].dim()
        3
    """

    def __init__(
        self,
        blob_name: str,
        color_space: str = "BGR",
        num_attempts: int = 10,
        random_seed: int | None = None,
        random_area: Sequence[float] = (0.08, 1.0),
        random_aspect_ratio: Sequence[float] = (0.75, 1.333333),
    ) -> None:
        super().__init__(blob_name, color_space)
        self.num_attempts = num_attempts
        self.random_area, self.random_aspect_ratio = tuple(random_area), tuple(random_aspect_ratio)
        seed = oneflow.initial_seed() if random_seed is None or random_seed < 0 else random_seed
        self._random = oneflow.Generator().manual_seed(seed)

    def _picture(self, record: bytes) -> Tensor:
        picture = super()._picture(record)
        height, width = picture.shape[:2]
        low, high = (math.log(ratio) for ratio in self.random_aspect_ratio)
        for _ in range(self.num_attempts):
            area, ratio, y, x = oneflow.rand(4, generator=self._random).tolist()
            area = height * width * (self.random_area[0] + area * (self.random_area[1] - self.random_area[0]))
            ratio = math.exp(low + ratio * (high - low))
            w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < w <= width and 0 < h <= height:
                top, left = int(y * (height - h + 1)), int(x * (width - w + 1))
                return picture[top : top + h, left : left + w]
        side = min(height, width)
        top, left = (height - side) // 2, (width - side) // 2
        return picture[top : top + side, left : left + side]


class CoinFlip(_Reader):
    """Zeros and ones, int8 (batch_size,): one with a probability.

    Args:
        batch_size: how many.
        random_seed: of the numbers.
        probability: of a one.
        device, placement, sbp: where they go.

    Example::

        >>> nn.CoinFlip(3, probability=1.0)()
        tensor([1, 1, 1], dtype=oneflow.int8)
    """

    def __init__(
        self,
        batch_size: int = 1,
        random_seed: int | None = None,
        probability: float = 0.5,
        device: Any = None,
        placement: Any = None,
        sbp: Any = None,
    ) -> None:
        super().__init__(device, placement, sbp, random_seed)
        self.batch_size, self.probability = batch_size, probability

    def forward(self) -> Tensor:
        drawn = oneflow.rand(self.batch_size, generator=self._random) < self.probability
        return self._put(drawn.to(oneflow.int8))


class CropMirrorNormalize(Module):
    """Pictures as floating point (N, C, H, W): cropped, optionally mirrored, minus ``mean``, divided by ``std``.

    Args:
        color_space: of the pictures; GRAY for one channel.
        output_layout: NCHW or NHWC.
        crop_h, crop_w: size of the part that is kept; 0 for all.
        crop_pos_y, crop_pos_x: position of the crop, from 0 (first rows or columns) to 1 (last).
        mean, std: a number for each channel, or one for all.
        output_dtype: of the result.

    Example::

        >>> nn.CropMirrorNormalize(mean=[1.0], std=[2.0])(oneflow.full((1, 1, 2, 3), 5, dtype=oneflow.uint8)).shape
        oneflow.Size([1, 3, 1, 2])
    """

    def __init__(
        self,
        color_space: str = "BGR",
        output_layout: str = "NCHW",
        crop_h: int = 0,
        crop_w: int = 0,
        crop_pos_y: float = 0.5,
        crop_pos_x: float = 0.5,
        mean: Sequence[float] = (0.0,),
        std: Sequence[float] = (1.0,),
        output_dtype: oneflow.dtype = oneflow.float32,
    ) -> None:
        super().__init__()
        if output_layout not in ("NCHW", "NHWC"):
            raise ValueError(f"output_layout must be NCHW or NHWC, not {output_layout!r}")
        self.color_space, self.output_layout = _checked_space(color_space), output_layout
        self.crop_h, self.crop_w, self.crop_pos_y, self.crop_pos_x = crop_h, crop_w, crop_pos_y, crop_pos_x
        self.mean, self.std, self.output_dtype = tuple(mean), tuple(std), output_dtype

    def _cropped(self, picture: Tensor) -> Tensor:
        height, width = picture.shape[:2]
        h, w = self.crop_h or height, self.crop_w or width
        if h > height or w > width:
            raise ValueError(f"CropMirrorNormalize: a part of {h} by {w} of a picture of {height} by {width}")
        top, left = int((height - h) * self.crop_pos_y), int((width - w) * self.crop_pos_x)
        return picture[top : top + h, left : left + w]

    def forward(self, input: TensorBuffer | Tensor, mirror: Tensor | None = None) -> Tensor:
        parts = [self._cropped(picture) for picture in input]
        if len({tuple(part.shape) for part in parts}) > 1:
            raise ValueError(
                "CropMirrorNormalize: the pictures of a batch have different sizes: give crop_h and crop_w"
            )
        batch = oneflow.stack(parts)
        if mirror is not None:
            flips = mirror.to(batch.device).reshape(-1, 1, 1, 1) != 0
            batch = oneflow.where(flips, batch.flip(2), batch)
        mean = oneflow.tensor(self.mean, dtype=oneflow.float32, device=batch.device)
        std = oneflow.tensor(self.std, dtype=oneflow.float32, device=batch.device)
        batch = ((batch.to(oneflow.float32) - mean) / std).to(self.output_dtype)
        return batch if self.output_layout == "NHWC" else batch.permute(0, 3, 1, 2).contiguous()


class GPTIndexedBinDataReader(_Reader):
    """Windows of tokens (batch_size, seq_length + 1) of Megatron's ``.bin`` and ``.idx`` files.

    Args:
        data_file_prefix: the files' names without their endings.
        seq_length: tokens of a sample; one more is returned, the last target.
        num_samples: samples of an epoch.
        batch_size: samples of a batch.
        dtype: of the result.
        shuffle: return the samples in a random order.
        random_seed: of the order.
        split_sizes, split_index: the shares that the samples are split in, and which of them is read.
        device, placement, sbp: of a batch.

    Example::

        >>> import pathlib, struct
        >>> _ = pathlib.Path("text.bin").write_bytes(bytes(range(20)))
        >>> header = b"MMIDIDX" + bytes(2) + struct.pack("<qBqq", 1, 1, 1, 2)
        >>> index = struct.pack("<iqqq", 20, 0, 0, 1)  # The length of the text, where it is, the documents.
        >>> _ = pathlib.Path("text.idx").write_bytes(header + index)
        >>> nn.GPTIndexedBinDataReader("text", seq_length=3, num_samples=4, batch_size=2, shuffle=False)()
        tensor([[0, 1, 2, 3],
                [3, 4, 5, 6]])
    """

    def __init__(
        self,
        data_file_prefix: str,
        seq_length: int,
        num_samples: int,
        batch_size: int,
        dtype: oneflow.dtype = oneflow.int64,
        shuffle: bool = True,
        random_seed: int | None = None,
        split_sizes: Sequence[Any] | None = None,
        split_index: int | None = None,
        device: Any = None,
        placement: Any = None,
        sbp: Any = None,
    ) -> None:
        super().__init__(device, placement, sbp, random_seed)
        if (split_sizes is None) != (split_index is None):
            raise ValueError("GPTIndexedBinDataReader: split_sizes and split_index are given together")
        self.seq_length, self.batch_size, self.dtype, self.shuffle = seq_length, batch_size, dtype, shuffle
        shares = [1.0] if split_sizes is None else [float(share) for share in split_sizes]
        index = 0 if split_index is None else split_index
        if not 0 <= index < len(shares):
            raise ValueError(f"GPTIndexedBinDataReader: {len(shares)} splits have no number {index}")
        self._first = int(num_samples * sum(shares[:index]) / sum(shares))
        self.num_samples = int(num_samples * sum(shares[: index + 1]) / sum(shares)) - self._first
        if self.num_samples < 1:
            raise ValueError(f"GPTIndexedBinDataReader: {num_samples} samples leave none for split {index}")
        # A source that begins at i reads window i of the file.
        self._source = _oneflow._DataSource.indexed(str(data_file_prefix), 1, seq_length + 1, False, 0, 0)

    def forward(self) -> Tensor:
        chosen = self._next(self.num_samples, self.batch_size, self.shuffle)
        batch = oneflow.empty(self.batch_size, self.seq_length + 1, dtype=oneflow.int64)
        for row, i in enumerate(chosen):
            self._source.at(self._first + i).fill([batch[row]])
        return self._put(batch.to(self.dtype))


class RawReader(_Reader):
    """Batches of records of one shape and dtype, which files hold one behind the other.

    Args:
        files: the files.
        shape, dtype: of a record.
        batch_size: records of a batch.
        random_shuffle: return the records in a random order.
        shuffle_block_size: accepted; the order is of all records.
        random_seed: of the order.
        placement, sbp: of a batch.

    Raises:
        ValueError: a file holds no whole number of records.

    Example::

        >>> import pathlib
        >>> _ = pathlib.Path("numbers").write_bytes(bytes([1, 2, 3, 4]))
        >>> nn.RawReader(["numbers"], (2,), oneflow.uint8, batch_size=2, random_shuffle=False)()
        tensor([[1, 2],
                [3, 4]], dtype=oneflow.uint8)
    """

    def __init__(
        self,
        files: Sequence[str],
        shape: Sequence[int],
        dtype: oneflow.dtype,
        batch_size: int,
        random_shuffle: bool = True,
        shuffle_block_size: int = 0,
        random_seed: int | None = None,
        placement: Any = None,
        sbp: Any = None,
    ) -> None:
        import numpy

        super().__init__(None, placement, sbp, random_seed)
        size = math.prod(shape) * dtype.itemsize
        parts = []
        for file in files:
            n = Path(file).stat().st_size
            if size == 0 or n % size:
                raise ValueError(f"RawReader: {file} has {n} bytes, no whole number of records of {size}")
            if n:
                # Mapped, and copied where somebody writes: a reader does not.
                stored = oneflow.from_numpy(numpy.memmap(file, numpy.uint8, "c"))
                parts.append(stored.view(dtype).reshape(-1, *shape))
        if not parts:
            raise ValueError("RawReader: the files hold no records")
        self._parts, self.batch_size, self.random_shuffle = parts, batch_size, random_shuffle

    def forward(self) -> Tensor:
        chosen = self._next(sum(len(part) for part in self._parts), self.batch_size, self.random_shuffle)
        rows = []
        for i in chosen:
            for part in self._parts:
                if i < len(part):
                    rows.append(part[i])
                    break
                i -= len(part)
        return self._put(oneflow.stack(rows))


def _corners(box: Sequence[float], width: int, height: int) -> list[float] | None:
    """The first and the last pixel of a box (x, y, width, height) inside of its picture; None if nothing is left."""
    x, y, w, h = box
    x1, x2 = (min(max(at, 0.0), width - 1.0) for at in (x, x + max(w - 1.0, 0.0)))
    y1, y2 = (min(max(at, 0.0), height - 1.0) for at in (y, y + max(h - 1.0, 0.0)))
    return [x1, y1, x2, y2] if x1 < x2 and y1 < y2 else None


class COCOReader(_Reader):
    """Pictures of a COCO folder with their boxes, classes and outlines.

    Args:
        annotation_file: COCO's JSON file of instances.
        image_dir: the folder of pictures.
        batch_size: pictures of a batch.
        shuffle: return them in a random order.
        random_seed: of the order.
        group_by_aspect_ratio: make batches of pictures that are all wide, or all high.
        remove_images_without_annotations: leave pictures without boxes out.
        stride_partition: accepted: every rank takes its part of the order by ``sbp``.
        device, placement, sbp: where ids and sizes go.

    Returns:
        The encoded pictures (uint8), ids (N,) int64, sizes (N, 2) int32 as height and width, and a buffer each of boxes
        (x1, y1, x2, y2: the pixels of two corners, both in the box and in the picture), of classes, of the outlines'
        points (x, y) and of what each point is of: its number in the polygon, the polygon's in the object, the object's
        in the picture.

    Example::

        >>> import json, pathlib
        >>> _ = pathlib.Path("a.png").write_bytes(b"...")
        >>> image = {"id": 5, "file_name": "a.png", "height": 4, "width": 6}
        >>> dog = {"image_id": 5, "category_id": 3, "bbox": [1, 1, 2, 2], "segmentation": [[1, 1, 3, 1, 3, 3]]}
        >>> content = {"images": [image], "annotations": [dog], "categories": [{"id": 3}]}
        >>> _ = pathlib.Path("instances.json").write_text(json.dumps(content))
        >>> pictures, ids, sizes, boxes, labels, points, ends = nn.COCOReader("instances.json", ".", 1)()
        >>> boxes[0]
        tensor([[1., 1., 2., 2.]])
    """

    def __init__(
        self,
        annotation_file: str,
        image_dir: str,
        batch_size: int,
        shuffle: bool = True,
        random_seed: int | None = None,
        group_by_aspect_ratio: bool = True,
        remove_images_without_annotations: bool = True,
        stride_partition: bool = True,
        device: Any = None,
        placement: Any = None,
        sbp: Any = None,
    ) -> None:
        super().__init__(device, placement, sbp, random_seed)
        self.batch_size, self.shuffle, self.image_dir = batch_size, shuffle, Path(image_dir)
        content = json.loads(Path(annotation_file).read_text())
        classes = {c["id"]: i + 1 for i, c in enumerate(sorted(content.get("categories", []), key=lambda c: c["id"]))}
        self._objects: dict[int, list[Any]] = {}
        images = sorted(content["images"], key=lambda image: image["id"])
        sizes = {image["id"]: (image["width"], image["height"]) for image in images}
        for one in content["annotations"]:
            size = sizes.get(one["image_id"])
            corners = None if size is None or one.get("iscrowd", 0) else _corners(one["bbox"], *size)
            if corners is not None:
                label = classes.get(one["category_id"], one["category_id"])
                self._objects.setdefault(one["image_id"], []).append((one, label, corners))
        if remove_images_without_annotations:
            images = [image for image in images if self._objects.get(image["id"])]
        if len(images) < 1:
            raise ValueError(f"COCOReader: {annotation_file} names no picture to read")
        groups = [[i for i in images if i["width"] >= i["height"]], [i for i in images if i["width"] < i["height"]]]
        self._groups = [group for group in groups if group] if group_by_aspect_ratio else [images]
        self._waiting: list[list[Any]] = []

    def _batch(self) -> list[Any]:
        if not self._waiting:
            for group in self._groups:
                order = [group[i] for i in self._order(len(group), self.shuffle)]
                while len(order) % self.batch_size:
                    order.append(order[len(order) % len(group)])
                self._waiting += [order[i : i + self.batch_size] for i in range(0, len(order), self.batch_size)]
            self._waiting = [self._waiting[i] for i in self._order(len(self._waiting), self.shuffle)]
        return self._waiting.pop(0)

    def forward(self) -> tuple[Any, ...]:
        batch = self._batch()
        pictures, boxes, labels, points, ends = (TensorBuffer() for _ in range(5))
        for image in batch:
            objects = self._objects.get(image["id"], [])
            data = bytearray((self.image_dir / image["file_name"]).read_bytes())
            pictures.append(oneflow.frombuffer(data, dtype=oneflow.uint8))
            boxes.append(oneflow.tensor([corners for _, _, corners in objects], dtype=oneflow.float32).reshape(-1, 4))
            labels.append(oneflow.tensor([label for _, label, _ in objects], dtype=oneflow.int32))
            outlines = [o if isinstance(o := one.get("segmentation", []), list) else [] for one, _, _ in objects]
            flat = [number for object_ in outlines for polygon in object_ for number in polygon]
            points.append(oneflow.tensor(flat, dtype=oneflow.float32).reshape(-1, 2))
            index = [
                [vertex, polygon_idx, object_idx]
                for object_idx, object_ in enumerate(outlines)
                for polygon_idx, polygon in enumerate(object_)
                for vertex in range(len(polygon) // 2)
            ]
            ends.append(oneflow.tensor(index, dtype=oneflow.int32).reshape(-1, 3))
        ids = self._put(oneflow.tensor([image["id"] for image in batch]))
        sizes = self._put(oneflow.tensor([[i["height"], i["width"]] for i in batch], dtype=oneflow.int32))
        return pictures, ids, sizes, boxes, labels, points, ends


# The spelling that OneFlow's older programs have.
OfrecordReader = OFRecordReader
OfrecordRawDecoder = OFRecordRawDecoder
