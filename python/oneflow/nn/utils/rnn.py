"""Sequences of different lengths: padding, packing, and the way back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import oneflow
from oneflow import Tensor
from oneflow._base.untraced import untraced

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpack_sequence",
    "unpad_sequence",
]


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Packed):
    """Sequences of different lengths without padding: the rows of step 0 of all, then those of step 1, and so on.

    Attributes:
        data: (rows of all steps, *).
        batch_sizes: int64 on the CPU, (longest length,): rows of each step.
        sorted_indices: the sequences' order by length, (B,), or None where they came sorted.
        unsorted_indices: the way back.

    Made by :func:`pack_sequence` and :func:`pack_padded_sequence`.

    Example::

        >>> nn.utils.rnn.pack_sequence([oneflow.tensor([1, 2]), oneflow.tensor([3])]).batch_sizes
        tensor([2, 1])
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. "
                "They should be instantiated by functions like pack_sequence and pack_padded_sequences in nn.utils.rnn."
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def __getnewargs__(self) -> tuple[Any, ...]:
        return tuple(self)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """As ``Tensor.to`` of the data; the indices follow to its device."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        indices = [None if i is None else i.to(data.device) for i in (self.sorted_indices, self.unsorted_indices)]
        return type(self)(data, self.batch_sizes, *indices)

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        return self if self.is_cuda and not args and not kwargs else self.to(*(args or ("cuda",)), **kwargs)

    def cpu(self) -> PackedSequence:
        return self.to("cpu")

    def pin_memory(self) -> PackedSequence:
        def pinned(t: Tensor | None) -> Tensor | None:
            return None if t is None else t.pin_memory()

        return type(self)(
            self.data.pin_memory(), self.batch_sizes, pinned(self.sorted_indices), pinned(self.unsorted_indices)
        )

    def is_pinned(self) -> bool:
        return bool(self.data.is_pinned())

    @property
    def is_cuda(self) -> bool:
        return self.data.device.type == "cuda"

    def double(self) -> PackedSequence:
        return self.to(oneflow.float64)

    def float(self) -> PackedSequence:
        return self.to(oneflow.float32)

    def half(self) -> PackedSequence:
        return self.to(oneflow.float16)

    def long(self) -> PackedSequence:
        return self.to(oneflow.int64)

    def int(self) -> PackedSequence:
        return self.to(oneflow.int32)

    def short(self) -> PackedSequence:
        return self.to(oneflow.int16)

    def char(self) -> PackedSequence:
        return self.to(oneflow.int8)

    def byte(self) -> PackedSequence:
        return self.to(oneflow.uint8)


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation that undoes ``permutation``, int64 (n,); None of None.

    Example::

        >>> nn.utils.rnn.invert_permutation(oneflow.tensor([2, 0, 1]))
        tensor([1, 2, 0])
    """
    return None if permutation is None else permutation.argsort()


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack padded sequences (T, B, *), or (B, T, *) with ``batch_first``, of these ``lengths`` (B,).

    Args:
        enforce_sorted: the lengths must fall; with False the sequences are sorted, and their order is kept.

    Raises:
        RuntimeError: a length is not positive, their number is not B, or they are not sorted though they should be.

    Example::

        >>> x = oneflow.tensor([[1, 2, 3], [4, 0, 0]])
        >>> nn.utils.rnn.pack_padded_sequence(x, [3, 1], batch_first=True).batch_sizes
        tensor([2, 1, 1])
    """
    batch_dim = 0 if batch_first else 1
    sorted_indices = None
    # Lengths decide shapes: in a trace only numbers are known.
    with untraced():
        if isinstance(lengths, Tensor):
            lengths = lengths.to(oneflow.int64)
        else:
            lengths = oneflow.tensor(list(lengths), dtype=oneflow.int64)
        if not enforce_sorted:
            lengths, order = lengths.sort(descending=True)
            sorted_indices = order.to(input.device)
    if sorted_indices is not None:
        input = input.index_select(batch_dim, sorted_indices)
    if not input.numel():
        raise RuntimeError("Cannot pack empty tensors.")
    n, longest = input.shape[batch_dim], input.shape[1 - batch_dim]
    if lengths.dim() != 1 or lengths.shape[0] != n:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.numel()} (batch_size={n})"
        )
    values = lengths.tolist()
    if min(values) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0"
        )
    if any(a < b for a, b in pairwise(values)):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement if you "
            "do not need ONNX exportability."
        )
    if values[0] > longest:
        raise RuntimeError(f"Expected lengths of at most {longest}, the input's steps, but got {values[0]}")
    with untraced():
        there = oneflow.arange(values[0]).unsqueeze(1) < lengths.to("cpu")
        rows = there.reshape(-1).nonzero().squeeze(1)
        # In memory a batch-first sequence has its steps together.
        if batch_first:
            rows = rows % n * longest + rows // n
        rows, batch_sizes = rows.to(input.device), there.sum(1)
    data = input.reshape(n * longest, *input.shape[2:]).index_select(0, rows)
    return PackedSequence(data, batch_sizes, sorted_indices, None)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """The way back from :func:`pack_padded_sequence`: the padded sequences and their lengths, in the first order.

    Args:
        total_length: steps of the result; the longest sequence's where None.

    Raises:
        ValueError: ``total_length`` is less than the longest length.

    Example::

        >>> packed = nn.utils.rnn.pack_sequence([oneflow.tensor([1, 2, 3]), oneflow.tensor([4])])
        >>> nn.utils.rnn.pad_packed_sequence(packed, batch_first=True)
        (tensor([[1, 2, 3],
                [4, 0, 0]]), tensor([3, 1]))
    """
    data, batch_sizes = sequence.data, sequence.batch_sizes
    steps = batch_sizes.shape[0]
    if total_length is not None:
        if total_length < steps:
            raise ValueError(
                "Expected total_length to be at least the length of the longest sequence in input, but got "
                f"total_length={total_length} and max sequence length being {steps}"
            )
    n = batch_sizes.tolist()[0]
    column = oneflow.arange(n)
    there = batch_sizes.unsqueeze(1) > column
    lengths = there.sum(0)
    starts = (batch_sizes.cumsum(0) - batch_sizes).unsqueeze(1)
    # Where there is nothing, the row behind the data: the padding.
    rows = oneflow.where(there, starts + column, data.shape[0])
    if total_length is not None and total_length > steps:
        rows = oneflow.cat([rows, oneflow.full((total_length - steps, n), data.shape[0], dtype=rows.dtype)])
    if batch_first:
        rows = rows.t()
    filler = oneflow.full((1, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    padded = oneflow.cat([data, filler]).index_select(0, rows.reshape(-1).to(data.device))
    padded = padded.reshape(*rows.shape, *data.shape[1:])
    order = sequence.unsorted_indices
    if order is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, order), lengths[order.to("cpu")]


def pad_sequence(
    sequences: Tensor | Iterable[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences (length, *) of different lengths as one tensor (longest, B, *), or (B, longest, *).

    Example::

        >>> nn.utils.rnn.pad_sequence([oneflow.tensor([1, 2, 3]), oneflow.tensor([4])], batch_first=True)
        tensor([[1, 2, 3],
                [4, 0, 0]])
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
        )
    each = list(sequences)
    if not each:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    longest = max(s.shape[0] for s in each)
    for s in each:
        if s.shape[1:] != each[0].shape[1:]:
            raise RuntimeError(
                f"The size of tensor a ({list(each[0].shape)}) must match the size of tensor b ({list(s.shape)}) "
                "at all dimensions but the first"
            )
    padded = []
    for s in each:
        missing = longest - s.shape[0]
        if missing:
            filler = oneflow.full((missing, *s.shape[1:]), padding_value, dtype=s.dtype, device=s.device)
            s = oneflow.cat([s, filler] if padding_side == "right" else [filler, s])
        padded.append(s)
    return oneflow.stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Tensor]:
    """The sequences of a padded tensor, (length, *) each.

    Example::

        >>> nn.utils.rnn.unpad_sequence(oneflow.tensor([[1, 2, 3], [4, 0, 0]]), oneflow.tensor([3, 1]),
        ...     batch_first=True)
        [tensor([1, 2, 3]), tensor([4])]
    """
    dim = 0 if batch_first else 1
    each = padded_sequences.unbind(dim)
    return [s[:n] for s, n in zip(each, lengths.tolist(), strict=True)]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack sequences (length, *); with ``enforce_sorted`` their lengths must fall.

    Example::

        >>> nn.utils.rnn.pack_sequence([oneflow.tensor([1, 2, 3]), oneflow.tensor([4])]).data
        tensor([1, 4, 2, 3])
    """
    lengths = oneflow.tensor([s.shape[0] for s in sequences], dtype=oneflow.int64)
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences of a packed one, (length, *) each.

    Example::

        >>> packed = nn.utils.rnn.pack_sequence([oneflow.tensor([1, 2, 3]), oneflow.tensor([4])])
        >>> nn.utils.rnn.unpack_sequence(packed)
        [tensor([1, 2, 3]), tensor([4])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
