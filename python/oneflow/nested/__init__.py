"""Nested tensors: batches of tensors whose sizes differ, without padding.

Layout ``jagged`` is for parts that differ in one dimension, as sequences of several lengths do: layers, attention and
reductions run on it. In layout ``strided``, the default as in PyTorch, parts may differ in all dimensions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.nested._forms import Packed, Shapes
from oneflow.nested._rules import compact, padded
from oneflow.nested._tensor import NestedTensor, nested, packed_parts, parts, plain

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def nested_tensor(
    tensor_list: Sequence[Any],
    *,
    dtype: oneflow.dtype | None = None,
    layout: oneflow.layout | None = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Return a nested tensor with copies of the tensors, arrays or lists of ``tensor_list`` as its parts, a leaf.

    Args:
        tensor_list: tensors of one number of dimensions, which differ in one of them (``jagged``) or in any.
        dtype, device: of the result; those of the first part by default.
        layout: ``oneflow.strided`` (default) or ``oneflow.jagged``.
        requires_grad: whether gradients with respect to the result are recorded.
        pin_memory: keep it in pinned memory.

    Raises:
        RuntimeError: the parts have different numbers of dimensions, or differ in more than one where the layout is
            jagged.

    Example::

        >>> nested = oneflow.nested.nested_tensor([oneflow.arange(3.0), oneflow.arange(2.0)], layout=oneflow.jagged)
        >>> [part.tolist() for part in nested.unbind()]
        [[0.0, 1.0, 2.0], [0.0, 1.0]]
        >>> nested.to_padded_tensor(-1.0).tolist()
        [[0.0, 1.0, 2.0], [0.0, 1.0, -1.0]]
    """
    with oneflow.no_grad():
        given = [oneflow.as_tensor(part, dtype=dtype, device=device).detach() for part in _listed(tensor_list)]
        made = _made(given, layout, dtype, device)
        if len(given) == 1:
            made = made.clone()
    if pin_memory:
        made = nested(plain(made).pin_memory(), made._form)
    return made.requires_grad_(requires_grad)


def as_nested_tensor(
    ts: Any, dtype: oneflow.dtype | None = None, device: Any = None, layout: oneflow.layout | None = None
) -> Tensor:
    """Return a nested tensor of the parts ``ts``, through which gradients flow to them.

    A tensor in place of a list gives its rows as parts; a nested tensor is given back, cast or moved.

    Example::

        >>> rows = [oneflow.ones(2, requires_grad=True), oneflow.ones(1, requires_grad=True)]
        >>> (oneflow.nested.as_nested_tensor(rows, layout=oneflow.jagged) * 3).sum().backward()
        >>> rows[0].grad
        tensor([3., 3.])
    """
    if isinstance(ts, NestedTensor):
        if layout not in (None, ts.layout):
            raise RuntimeError(
                f"as_nested_tensor(): a nested tensor of layout {ts.layout} is not converted to {layout}"
            )
        device, dtype = oneflow.device(device or ts.device), dtype or ts.dtype
        return ts if (device, dtype) == (ts.device, ts.dtype) else ts.to(device=device, dtype=dtype)
    if isinstance(ts, Tensor):
        return _rows_of(ts.to(device=device or ts.device, dtype=dtype or ts.dtype), layout)
    given = [oneflow.as_tensor(part, dtype=dtype, device=device) for part in _listed(ts)]
    return _made(given, layout, dtype, device)


def _rows_of(tensor: Tensor, layout: oneflow.layout | None) -> Any:
    """Return the nested tensor of the rows of an ordinary one, a view of it where its elements lie in order."""
    if tensor.dim() < 2:
        raise RuntimeError(f"Expected tensor argument to have dim() > 1, got {tensor.dim()}")
    n, size = tensor.shape[:2]
    if layout is oneflow.jagged:
        offsets = oneflow.arange(n + 1, device=tensor.device) * size
        return nested(tensor.flatten(0, 1), Packed(offsets, shortest=size, longest=size))
    if layout not in (None, oneflow.strided):
        raise _no_layout(layout)
    return nested(tensor.reshape(-1), Shapes([tensor.shape[1:]] * n))


def _no_layout(layout: Any) -> RuntimeError:
    return RuntimeError(f"nested tensors have the layouts strided and jagged, not {layout}")


def _listed(tensor_list: Any) -> list[Any]:
    if not isinstance(tensor_list, (list, tuple)):
        raise TypeError(f"expected a list of tensors, got {type(tensor_list).__name__}")
    return list(tensor_list)


def _made(given: list[Tensor], layout: oneflow.layout | None, dtype: Any, device: Any) -> Any:
    if layout not in (None, oneflow.strided, oneflow.jagged):
        raise _no_layout(layout)
    if not given:
        if layout is oneflow.jagged:
            raise RuntimeError("a nested tensor of layout jagged has one part at least")
        return nested(oneflow.empty(0, dtype=dtype, device=device), Shapes([]))
    if len({part.dim() for part in given}) > 1:
        raise RuntimeError(
            f"all parts of a nested tensor have the same number of dimensions, got {[part.dim() for part in given]}"
        )
    if len({part.dtype for part in given}) > 1 or len({part.device for part in given}) > 1:
        raise RuntimeError("all parts of a nested tensor have the same dtype and device")
    if layout is not oneflow.jagged:
        return nested(oneflow.cat([part.reshape(-1) for part in given]), Shapes([part.shape for part in given]))
    shapes = [part.shape for part in given]
    if not shapes[0]:
        raise RuntimeError("parts of layout jagged have one dimension at least")
    differing = [d for d in range(len(shapes[0])) if len({s[d] for s in shapes}) > 1]
    if len(differing) > 1:
        raise RuntimeError(
            f"parts of layout jagged differ in one dimension only, got shapes {[tuple(s) for s in shapes]}"
        )
    return packed_parts(given, differing[0] + 1 if differing else 1)


def nested_tensor_from_jagged(
    values: Tensor,
    offsets: Tensor | None = None,
    lengths: Tensor | None = None,
    jagged_dim: int | None = None,
    min_seqlen: int | None = None,
    max_seqlen: int | None = None,
) -> Tensor:
    """Return the nested tensor of layout jagged whose parts lie in ``values``: a view of it.

    Args:
        values: the parts, one after the other along a dimension.
        offsets: where each begins in that dimension, and where the last one ends, of shape (parts + 1,).
        lengths: how long the parts are, of shape (parts,): in place of offsets, or beside them where there are gaps.
        jagged_dim: the ragged dimension of the result, 1 by default, which is dimension 0 of ``values``.
        min_seqlen, max_seqlen: the least and greatest length, where they are known; they are not checked.

    Example::

        >>> rows = oneflow.arange(5.0)
        >>> nested = oneflow.nested.nested_tensor_from_jagged(rows, oneflow.tensor([0, 2, 5]))
        >>> [part.tolist() for part in nested.unbind()]
        [[0.0, 1.0], [2.0, 3.0, 4.0]]
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError("nested_tensor_from_jagged(): At least one of offsets or lengths is required.")
        offsets, lengths = oneflow.cat([lengths.new_zeros(1), lengths.cumsum(0)]), None
    ragged = 1 if jagged_dim is None else jagged_dim
    if not 1 <= ragged <= values.dim():
        raise RuntimeError(
            f"jagged_dim is from 1 to {values.dim()} for values of shape {tuple(values.shape)}, got {ragged}"
        )
    if offsets.dim() != 1 or len(offsets) < 1 or offsets.dtype not in (oneflow.int64, oneflow.int32):
        raise RuntimeError(
            f"offsets are integers of one dimension, got {offsets.dtype} of shape {tuple(offsets.shape)}"
        )
    if lengths is not None and lengths.shape != (len(offsets) - 1,):
        raise RuntimeError(f"lengths have shape ({len(offsets) - 1},) for these offsets, got {tuple(lengths.shape)}")
    form = Packed(offsets, lengths, ragged, None, min_seqlen, max_seqlen)
    rows = values.shape[ragged - 1]
    if any(start < 0 or n < 0 or start + n > rows for start, n in form.bounds()):
        raise RuntimeError(f"offsets and lengths reach outside the {rows} rows of the values")
    return nested(values, form)


def narrow(
    tensor: Tensor, dim: int, start: int | Tensor, length: int | Tensor, layout: oneflow.layout = oneflow.strided
) -> Tensor:
    """Return the nested tensor of a span of each row of a padded ``tensor``; jagged, it shares the tensor's memory.

    Args:
        tensor: of shape (parts, longest, ...).
        dim: the dimension that is cut, 1.
        start: where each span begins: a number for all, or a tensor of shape (parts,).
        length: how long each span is, likewise.
        layout: of the result.

    Example::

        >>> padded = oneflow.arange(6.0).reshape(2, 3)
        >>> nested = oneflow.nested.narrow(padded, 1, 0, oneflow.tensor([3, 1]), layout=oneflow.jagged)
        >>> [part.tolist() for part in nested.unbind()]
        [[0.0, 1.0, 2.0], [3.0]]
    """
    if dim != 1:
        raise RuntimeError(f"narrow(): of nested tensors dim is 1, got {dim}")
    n, size = tensor.shape[:2]
    begins = (start if isinstance(start, Tensor) else oneflow.tensor(start)).to(oneflow.int64).expand(n)
    lengths = (length if isinstance(length, Tensor) else oneflow.tensor(length)).to(oneflow.int64).expand(n)
    if bool(((begins < 0) | (lengths < 0) | (begins + lengths > size)).any()):
        raise RuntimeError(f"narrow(): start and length reach outside the {size} rows of each part")
    if layout is not oneflow.jagged:
        spans = zip(tensor.unbind(), begins.tolist(), lengths.tolist(), strict=True)
        return as_nested_tensor([row.narrow(0, a, b) for row, a, b in spans], layout=layout)
    offsets = oneflow.cat([oneflow.arange(n) * size + begins, oneflow.tensor([n * size])])
    return nested(tensor.flatten(0, 1), Packed(offsets.to(tensor.device), lengths.contiguous().to(tensor.device)))


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """Return the nested tensor, of layout jagged, of the entries of each row of ``tensor`` where ``mask`` is true.

    Args:
        tensor: of shape (parts, longest).
        mask: booleans that broadcast to that shape.

    Example::

        >>> x = oneflow.arange(4.0).reshape(2, 2)
        >>> [part.tolist() for part in oneflow.nested.masked_select(x, x > 0).unbind()]
        [[1.0], [2.0, 3.0]]
    """
    if isinstance(tensor, NestedTensor) or tensor.layout != oneflow.strided:
        raise RuntimeError("masked_select(): needs an ordinary tensor")
    mask = mask.expand_as(tensor)
    if tensor.dim() != 2:
        raise RuntimeError(f"masked_select(): needs a tensor of 2 dimensions, got one of {tensor.dim()}")
    lengths = mask.sum(1)
    offsets = oneflow.cat([lengths.new_zeros(1), lengths.cumsum(0)])
    return nested(tensor.masked_select(mask), Packed(offsets))


def to_padded_tensor(
    input: Tensor, padding: float, output_size: Sequence[int] | None = None, out: Any = None
) -> Tensor:
    """Return one tensor of the parts of ``input``, with ``padding`` where a part ends before the longest.

    Args:
        input: a nested tensor.
        padding: the number that fills up.
        output_size: the shape of the result; what the parts need by default, and not less. Of layout jagged only the
            ragged size is read, as in PyTorch, and longer parts are cut.
        out: not supported; None.

    Example::

        >>> nested = oneflow.nested.nested_tensor([oneflow.ones(1, 2), oneflow.ones(2, 1)])
        >>> oneflow.nested.to_padded_tensor(nested, 0.0).tolist()
        [[[1.0, 1.0], [0.0, 0.0]], [[1.0, 0.0], [1.0, 0.0]]]
    """
    if out is not None:
        raise NotImplementedError("to_padded_tensor(): out is not supported")
    if not isinstance(input, NestedTensor):
        raise TypeError(f"to_padded_tensor(): needs a nested tensor, got {type(input).__name__}")
    form = input._form
    if isinstance(form, Packed):
        return padded(input, padding, None if output_size is None else output_size[form.ragged])
    rows = parts(compact(input))
    if not rows:
        return plain(input)
    least = [len(rows), *(max(s) for s in zip(*form.shapes, strict=True))]
    shape = list(least if output_size is None else output_size)
    if len(shape) != len(least) or any(a < b for a, b in zip(shape, least, strict=True)):
        raise RuntimeError(
            f"to_padded_tensor(): output_size {tuple(shape)} is less than the parts need, {tuple(least)}; "
            "nothing is cut"
        )
    filled = [_filled(row, shape[1:], padding) for row in rows]
    filled += [filled[0].new_full(shape[1:], padding)] * (shape[0] - len(rows))
    return oneflow.stack(filled)


def _filled(row: Tensor, shape: Sequence[int], padding: float) -> Tensor:
    around: list[int] = []
    for have, want in zip(reversed(row.shape), reversed(shape), strict=True):
        around += [0, want - have]
    return oneflow.nn.functional.pad(row, around, value=padding)
