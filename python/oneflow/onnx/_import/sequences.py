"""Sequences (lists of values) and optionals."""

from __future__ import annotations

from typing import Any

import oneflow as flow
from oneflow.onnx._import.control import _tupled
from oneflow.onnx._import.registry import Call, axis_of, handler
from oneflow.onnx._import.values import Missing


@handler("SequenceEmpty")
def sequence_empty(c: Call) -> Any:
    return []


@handler("SequenceConstruct")
def sequence_construct(c: Call, *values: Any) -> Any:
    return list(values)


def _place(c: Call, position: Any, n: int, last: int) -> int:
    place = c.ints(position)[0]
    if not -n <= place <= last:
        raise IndexError(f"{c.op}: position {place} is out of range for a sequence of {n}")
    return place + n if place < 0 else place


@handler("SequenceAt")
def sequence_at(c: Call, sequence: Any, position: Any) -> Any:
    return sequence[_place(c, position, len(sequence), len(sequence) - 1)]


@handler("SequenceInsert")
def sequence_insert(c: Call, sequence: Any, value: Any, position: Any = None) -> Any:
    n = len(sequence)
    place = n if position is None else _place(c, position, n, n)
    return [*sequence[:place], value, *sequence[place:]]


@handler("SequenceErase")
def sequence_erase(c: Call, sequence: Any, position: Any = None) -> Any:
    n = len(sequence)
    place = n - 1 if position is None else _place(c, position, n, n - 1)
    return sequence[:place] + sequence[place + 1 :]


@handler("SequenceLength")
def sequence_length(c: Call, sequence: Any) -> Any:
    return flow.tensor(len(sequence), dtype=flow.int64)


@handler("SequenceMap")
def sequence_map(c: Call, *inputs: Any) -> Any:
    n = len(inputs[0])
    rows = [c.run(c.need("body"), [x[i] if isinstance(x, list) else x for x in inputs]) for i in range(n)]
    return _tupled([[row[j] for row in rows] for j in range(c.n_outputs)])


@handler("SplitToSequence")
def split_to_sequence(c: Call, x: Any, split: Any = None) -> Any:
    axis = axis_of(c.get("axis", 0), x.dim(), c.op)
    n = x.shape[axis]
    if split is None:
        parts = [x.narrow(axis, i, 1) for i in range(n)]
        return parts if c.get("keepdims", 1) else [p.squeeze(axis) for p in parts]
    sizes = c.ints(split)
    if split.dim() == 0:
        sizes = [min(sizes[0], n - i) for i in range(0, n, sizes[0])]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [x.narrow(axis, s, length) for s, length in zip(starts, sizes, strict=True)]


@handler("ConcatFromSequence")
def concat_from_sequence(c: Call, sequence: Any) -> Any:
    axis = c.need("axis")
    return flow.stack(sequence, axis) if c.get("new_axis", 0) else flow.cat(sequence, axis)


@handler("Optional")
def optional(c: Call, value: Any = None) -> Any:
    return Missing() if value is None else value


@handler("OptionalHasElement")
def optional_has_element(c: Call, value: Any = None) -> Any:
    return flow.tensor(value is not None and not isinstance(value, Missing))


@handler("OptionalGetElement")
def optional_get_element(c: Call, value: Any) -> Any:
    if isinstance(value, Missing):
        raise ValueError("OptionalGetElement: the optional is empty")
    return value
