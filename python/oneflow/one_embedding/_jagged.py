"""Lists of different lengths as flat tensors, under the names and with the meaning of torchrec.

Layouts and moves of numbers alone: the modules that look ids up are in ``_collections.py``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor


def _offsets(lengths: Tensor) -> Tensor:
    """Starts of pieces of these lengths, and the end of the last."""
    ends = oneflow.cumsum(lengths.to(oneflow.int64), 0)
    return oneflow.cat([oneflow.zeros(1, dtype=oneflow.int64, device=lengths.device), ends])


def _lengths(offsets: Tensor) -> Tensor:
    return offsets[1:] - offsets[:-1]


def _checked(what: str, values: Tensor, weights: Tensor | None, lengths: Tensor | None, offsets: Tensor | None) -> None:
    if lengths is None and offsets is None:
        raise ValueError(f"{what}: one of lengths and offsets is needed")
    if weights is not None and weights.shape[:1] != values.shape[:1]:
        raise ValueError(
            f"{what}: weights {tuple(weights.shape)} must be as many as the values {tuple(values.shape)} are"
        )


class JaggedTensor:
    """A batch of lists: their elements one after the other, and the length of each list.

    Args:
        values: (elements, ...).
        weights: (elements), one for each value.
        lengths: (lists), integers.
        offsets: (lists + 1): starts of the lists and the end of the last. One of both is enough.

    Raises:
        ValueError: neither lengths nor offsets are given, or there are not as many weights as values.

    Example::

        >>> from oneflow.one_embedding import JaggedTensor
        >>> jagged = JaggedTensor(oneflow.tensor([1.0, 2.0, 3.0]), lengths=oneflow.tensor([2, 0, 1]))
        >>> [row.tolist() for row in jagged.to_dense()]
        [[1.0, 2.0], [], [3.0]]
        >>> jagged.to_padded_dense(2).tolist()
        [[1.0, 2.0], [0.0, 0.0], [3.0, 0.0]]
    """

    def __init__(
        self,
        values: Tensor,
        weights: Tensor | None = None,
        lengths: Tensor | None = None,
        offsets: Tensor | None = None,
    ) -> None:
        _checked("JaggedTensor", values, weights, lengths, offsets)
        self._values, self._weights, self._given_lengths, self._given_offsets = values, weights, lengths, offsets

    @staticmethod
    def empty(
        is_weighted: bool = False, device: Any = None, values_dtype: Any = None, lengths_dtype: Any = None
    ) -> Any:
        """No list."""
        values = oneflow.empty(0, dtype=values_dtype or oneflow.float32, device=device)
        lengths = oneflow.empty(0, dtype=lengths_dtype or oneflow.int32, device=device)
        return JaggedTensor(values, oneflow.empty(0, device=device) if is_weighted else None, lengths)

    @staticmethod
    def from_dense(values: Sequence[Tensor], weights: Sequence[Tensor] | None = None) -> JaggedTensor:
        """From a tensor for each list."""
        lengths = oneflow.tensor([len(v) for v in values], dtype=oneflow.int64)
        return JaggedTensor(
            oneflow.cat(list(values)), None if weights is None else oneflow.cat(list(weights)), lengths=lengths
        )

    @staticmethod
    def from_dense_lengths(values: Tensor, lengths: Tensor, weights: Tensor | None = None) -> JaggedTensor:
        """From the first ``lengths[i]`` elements of each row of (lists, longest, ...)."""
        is_used = oneflow.arange(values.shape[1], device=values.device)[None, :] < lengths[:, None]
        return JaggedTensor(values[is_used], None if weights is None else weights[is_used], lengths=lengths)

    def values(self) -> Tensor:
        """The elements."""
        return self._values

    def weights(self) -> Tensor:
        """The weights; ValueError if there are none."""
        if self._weights is None:
            raise ValueError(f"{type(self).__name__} has no weights")
        return self._weights

    def weights_or_none(self) -> Tensor | None:
        """The weights, or None."""
        return self._weights

    def lengths(self) -> Tensor:
        """The length of each list."""
        if self._given_lengths is None:
            self._given_lengths = _lengths(self._given_offsets)  # type: ignore[arg-type]
        return self._given_lengths

    def lengths_or_none(self) -> Tensor | None:
        """The lengths if they are known already."""
        return self._given_lengths

    def offsets(self) -> Tensor:
        """Starts of the lists and the end of the last."""
        if self._given_offsets is None:
            self._given_offsets = _offsets(self._given_lengths)  # type: ignore[arg-type]
        return self._given_offsets

    def offsets_or_none(self) -> Tensor | None:
        """The offsets if they are known already."""
        return self._given_offsets

    @property
    def device(self) -> Any:
        """Where the elements are."""
        return self._values.device

    def to(self, device: Any, non_blocking: bool = False) -> JaggedTensor:
        """A copy on a device."""
        return JaggedTensor(*_moved((self._values, self._weights, self._given_lengths, self._given_offsets), device))

    def _rows(self, of: Tensor) -> list[Tensor]:
        ends = self.offsets().tolist()
        return [of[start:end] for start, end in itertools.pairwise(ends)]

    def to_dense(self) -> list[Tensor]:
        """A tensor for each list."""
        return self._rows(self._values)

    def to_dense_weights(self) -> list[Tensor]:
        """The weights of each list."""
        return self._rows(self.weights())

    def to_padded_dense(self, desired_length: int | None = None, padding_value: float = 0.0) -> Tensor:
        """(lists, longest, ...), filled up with ``padding_value``; longer lists are cut at ``desired_length``."""
        return self._padded(self._values, desired_length, padding_value)

    def to_padded_dense_weights(self, desired_length: int | None = None, padding_value: float = 0.0) -> Tensor:
        """The weights as :meth:`to_padded_dense` gives values."""
        return self._padded(self.weights(), desired_length, padding_value)

    def _padded(self, of: Tensor, desired_length: int | None, padding_value: float) -> Tensor:
        lengths = self.lengths().to(oneflow.int64)
        longest = desired_length
        if longest is None:
            longest = int(lengths.max()) if len(lengths) else 0
        columns = oneflow.arange(longest, device=of.device)
        is_used = columns[None, :] < lengths[:, None]
        out = oneflow.full((len(lengths), longest, *of.shape[1:]), padding_value, dtype=of.dtype, device=of.device)
        if is_used.any():
            out[is_used] = of[(self.offsets()[:-1, None] + columns[None, :])[is_used]]
        return out

    def __repr__(self) -> str:
        return f"{type(self).__name__}({[row.tolist() for row in self.to_dense()]})"


def _moved(tensors: Iterable[Tensor | None], device: Any) -> list[Any]:
    return [None if t is None else t.to(device) for t in tensors]


class KeyedJaggedTensor:
    """The lists of several features: for each key a batch of lists, key after key.

    Args:
        keys: names of the features.
        values, weights: as :class:`JaggedTensor`.
        lengths: (keys * batch), those of the first key first.
        offsets: (keys * batch + 1). One of both is enough.
        stride: lists a key; needed where there are no keys.

    Raises:
        ValueError: a key stands twice, or the lengths do not divide into the keys.

    Example::

        >>> from oneflow.one_embedding import KeyedJaggedTensor
        >>> features = KeyedJaggedTensor.from_lengths_sync(
        ...     ["user", "items"], oneflow.tensor([7, 9, 1, 2, 3]), oneflow.tensor([1, 1, 2, 1])
        ... )
        >>> features["items"]
        JaggedTensor([[1, 2], [3]])
        >>> features.stride(), features.length_per_key()
        (2, [2, 3])
    """

    def __init__(
        self,
        keys: Sequence[str],
        values: Tensor,
        weights: Tensor | None = None,
        lengths: Tensor | None = None,
        offsets: Tensor | None = None,
        stride: int | None = None,
    ) -> None:
        _checked("KeyedJaggedTensor", values, weights, lengths, offsets)
        self._keys = list(keys)
        if len(set(self._keys)) != len(self._keys):
            raise ValueError(f"KeyedJaggedTensor: a key stands twice in {self._keys}")
        n = len(lengths) if lengths is not None else len(offsets) - 1  # type: ignore[arg-type]
        if stride is None:
            stride = n // len(self._keys) if self._keys else 0
        if n != stride * len(self._keys):
            raise ValueError(f"KeyedJaggedTensor: {n} lengths are not those of {len(self._keys)} keys")
        self._jagged = JaggedTensor(values, weights, lengths, offsets)
        self._stride = stride
        self._ends: list[int] | None = None

    @staticmethod
    def from_lengths_sync(
        keys: Sequence[str], values: Tensor, lengths: Tensor, weights: Tensor | None = None, stride: int | None = None
    ) -> KeyedJaggedTensor:
        """From lengths."""
        return KeyedJaggedTensor(keys, values, weights, lengths=lengths, stride=stride).sync()

    @staticmethod
    def from_offsets_sync(
        keys: Sequence[str], values: Tensor, offsets: Tensor, weights: Tensor | None = None, stride: int | None = None
    ) -> KeyedJaggedTensor:
        """From offsets."""
        return KeyedJaggedTensor(keys, values, weights, offsets=offsets, stride=stride).sync()

    @staticmethod
    def from_jt_dict(features: dict[str, JaggedTensor]) -> KeyedJaggedTensor:
        """From a :class:`JaggedTensor` for each key, all with as many lists."""
        parts = list(features.values())
        weights = [part.weights_or_none() for part in parts]
        return KeyedJaggedTensor(
            list(features),
            oneflow.cat([part.values() for part in parts]),
            None if not weights or weights[0] is None else oneflow.cat(weights),  # type: ignore[arg-type]
            lengths=oneflow.cat([part.lengths() for part in parts]),
        )

    @staticmethod
    def concat(parts: Sequence[KeyedJaggedTensor]) -> KeyedJaggedTensor:
        """The keys of all of them, which have one stride."""
        if len({part.stride() for part in parts}) != 1:
            raise ValueError(f"KeyedJaggedTensor.concat: strides differ: {[part.stride() for part in parts]}")
        weights = [part.weights_or_none() for part in parts]
        return KeyedJaggedTensor(
            [key for part in parts for key in part.keys()],
            oneflow.cat([part.values() for part in parts]),
            None if any(w is None for w in weights) else oneflow.cat(weights),  # type: ignore[arg-type]
            lengths=oneflow.cat([part.lengths() for part in parts]),
        )

    @staticmethod
    def empty(is_weighted: bool = False, device: Any = None, values_dtype: Any = None) -> KeyedJaggedTensor:
        """No key."""
        jagged = JaggedTensor.empty(is_weighted, device, values_dtype)
        return KeyedJaggedTensor([], jagged.values(), jagged.weights_or_none(), jagged.lengths(), stride=0)

    def keys(self) -> list[str]:
        """Names of the features."""
        return self._keys

    def values(self) -> Tensor:
        """The elements of all lists."""
        return self._jagged.values()

    def weights(self) -> Tensor:
        """The weights; ValueError if there are none."""
        return self._jagged.weights()

    def weights_or_none(self) -> Tensor | None:
        """The weights, or None."""
        return self._jagged.weights_or_none()

    def lengths(self) -> Tensor:
        """The length of each list."""
        return self._jagged.lengths()

    def lengths_or_none(self) -> Tensor | None:
        """The lengths if they are known already."""
        return self._jagged.lengths_or_none()

    def offsets(self) -> Tensor:
        """Starts of the lists and the end of the last."""
        return self._jagged.offsets()

    def offsets_or_none(self) -> Tensor | None:
        """The offsets if they are known already."""
        return self._jagged.offsets_or_none()

    def stride(self) -> int:
        """Lists a key: the size of the batch."""
        return self._stride

    @property
    def device(self) -> Any:
        """Where the elements are."""
        return self._jagged.device

    def sync(self) -> KeyedJaggedTensor:
        """Compute where each key starts, now."""
        self.offset_per_key()
        return self

    def offset_per_key(self) -> list[int]:
        """Where the elements of each key start, and the end of the last."""
        if self._ends is None:
            step = max(self._stride, 1)
            self._ends = self.offsets()[::step].tolist() if self._keys and self._stride else [0] * (len(self._keys) + 1)
        return self._ends

    def length_per_key(self) -> list[int]:
        """The number of elements of each key."""
        ends = self.offset_per_key()
        return [end - start for start, end in itertools.pairwise(ends)]

    def index_per_key(self) -> dict[str, int]:
        """The number of each key."""
        return {key: i for i, key in enumerate(self._keys)}

    def _part(self, first: int, end: int) -> tuple[Tensor, Tensor | None, Tensor]:
        ends, weights = self.offset_per_key(), self.weights_or_none()
        lengths = self.lengths()[first * self._stride : end * self._stride]
        inside = slice(ends[first], ends[end])
        return self.values()[inside], None if weights is None else weights[inside], lengths

    def __getitem__(self, key: str) -> JaggedTensor:
        if key not in self._keys:
            raise KeyError(f"KeyedJaggedTensor has no key {key!r}; it has {self._keys}")
        i = self._keys.index(key)
        return JaggedTensor(*self._part(i, i + 1))

    def to_dict(self) -> dict[str, JaggedTensor]:
        """A :class:`JaggedTensor` for each key."""
        return {key: self[key] for key in self._keys}

    def split(self, segments: Sequence[int]) -> list[KeyedJaggedTensor]:
        """The first ``segments[0]`` keys, the next ``segments[1]``, and so on."""
        if sum(segments) > len(self._keys) or min(segments, default=0) < 0:
            raise ValueError(f"KeyedJaggedTensor.split: {list(segments)} segments of {len(self._keys)} keys")
        parts, first = [], 0
        for n in segments:
            values, weights, lengths = self._part(first, first + n)
            keys = self._keys[first : first + n]
            parts.append(KeyedJaggedTensor(keys, values, weights, lengths, stride=self._stride))
            first += n
        return parts

    def permute(self, indices: Sequence[int], indices_tensor: Tensor | None = None) -> KeyedJaggedTensor:
        """The keys with these numbers, in this order."""
        order = [int(i) for i in indices]
        if not all(0 <= i < len(self._keys) for i in order):
            raise IndexError(f"KeyedJaggedTensor.permute: {order} are no numbers of {len(self._keys)} keys")
        parts = [self._part(i, i + 1) for i in order]
        values, weights, lengths = zip(*parts, strict=True) if parts else ((), (), ())
        if not parts:
            return KeyedJaggedTensor.empty(self.weights_or_none() is not None, self.device, self.values().dtype)
        return KeyedJaggedTensor(
            [self._keys[i] for i in order],
            oneflow.cat(list(values)),
            None if weights[0] is None else oneflow.cat(list(weights)),
            oneflow.cat(list(lengths)),
            stride=self._stride,
        )

    def to(self, device: Any, non_blocking: bool = False) -> KeyedJaggedTensor:
        """A copy on a device."""
        jagged = self._jagged.to(device)
        return KeyedJaggedTensor(
            self._keys, jagged.values(), jagged.weights_or_none(), jagged.lengths(), stride=self._stride
        )

    def __repr__(self) -> str:
        return f"KeyedJaggedTensor({self.to_dict()})"


class KeyedTensor:
    """Pooled embeddings of several features next to each other, and where each one's columns are.

    Args:
        keys: names of the features.
        length_per_key: columns of each.
        values: (batch, columns).
        key_dim: the dimension of the columns.

    Raises:
        ValueError: the lengths do not add up to the columns.

    Example::

        >>> from oneflow.one_embedding import KeyedTensor
        >>> pooled = KeyedTensor(["user", "item"], [2, 1], oneflow.tensor([[1.0, 2.0, 3.0]]))
        >>> pooled["item"]
        tensor([[3.]])
    """

    def __init__(self, keys: Sequence[str], length_per_key: Sequence[int], values: Tensor, key_dim: int = 1) -> None:
        self._keys, self._length_per_key, self._values = list(keys), list(length_per_key), values
        self._key_dim = key_dim
        if len(self._keys) != len(self._length_per_key) or sum(self._length_per_key) != values.shape[key_dim]:
            raise ValueError(
                f"KeyedTensor: lengths {self._length_per_key} of {len(self._keys)} keys do not add up to dimension "
                f"{key_dim} of {tuple(values.shape)}"
            )

    @staticmethod
    def from_tensor_list(keys: Sequence[str], tensors: Sequence[Tensor], key_dim: int = 1, cat_dim: int = 1) -> Any:
        """From a tensor for each key."""
        return KeyedTensor(keys, [t.shape[key_dim] for t in tensors], oneflow.cat(list(tensors), cat_dim), key_dim)

    def keys(self) -> list[str]:
        """Names of the features."""
        return self._keys

    def values(self) -> Tensor:
        """All columns."""
        return self._values

    def key_dim(self) -> int:
        """The dimension of the columns."""
        return self._key_dim

    def length_per_key(self) -> list[int]:
        """Columns of each key."""
        return self._length_per_key

    def offset_per_key(self) -> list[int]:
        """Where each key's columns start, and the end of the last."""
        ends = [0]
        for n in self._length_per_key:
            ends.append(ends[-1] + n)
        return ends

    def __getitem__(self, key: str) -> Tensor:
        if key not in self._keys:
            raise KeyError(f"KeyedTensor has no key {key!r}; it has {self._keys}")
        i = self._keys.index(key)
        return self._values.narrow(self._key_dim, self.offset_per_key()[i], self._length_per_key[i])

    def to_dict(self) -> dict[str, Tensor]:
        """The columns of each key."""
        return {key: self[key] for key in self._keys}

    @staticmethod
    def regroup(keyed_tensors: Sequence[KeyedTensor], groups: Sequence[Sequence[str]]) -> list[Tensor]:
        """For each group the columns of its keys, from whichever tensor has them."""
        found: dict[str, Tensor] = {}
        for keyed in keyed_tensors:
            found.update(keyed.to_dict())
        unknown = [key for group in groups for key in group if key not in found]
        if unknown:
            raise KeyError(f"KeyedTensor.regroup: no tensor has {unknown}")
        dim = keyed_tensors[0].key_dim() if keyed_tensors else 1
        return [oneflow.cat([found[key] for key in group], dim) for group in groups]

    def to(self, device: Any, non_blocking: bool = False) -> KeyedTensor:
        """A copy on a device."""
        return KeyedTensor(self._keys, self._length_per_key, self._values.to(device), self._key_dim)

    def __repr__(self) -> str:
        return f"KeyedTensor({ {key: part.tolist() for key, part in self.to_dict().items()} })"
