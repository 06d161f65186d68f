"""What each function does with nested tensors.

A rule is found by the function's name. Elementwise functions run on the tensors below; the others say what becomes of
each dimension. Of a nested tensor dimension 0 counts the parts, and dimension ``d`` is dimension ``d - 1`` of a part,
and of the values of layout jagged. A function without a rule raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.elementwise import ABOUT, ELEMENTWISE
from oneflow._base.nests import mapped
from oneflow.nested._forms import Packed, RaggedSize, Shapes
from oneflow.nested._tensor import NestedTensor, from_parts, nested, parts, plain
from oneflow.overrides import DisableTorchFunctionSubclass

_RULES: dict[str, Callable[..., Any]] = {}


def answer(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run ``func`` with at least one nested tensor among its arguments."""
    name = getattr(func, "__name__", str(func))
    if name in ("__get__", "__set__", "__delete__"):
        name = getattr(getattr(func, "__self__", None), "__name__", name)
    rule = _RULES.get(name)
    if rule is not None:
        return rule(func, *args, **kwargs)
    if name in ABOUT:
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    if name.rstrip("_") in ELEMENTWISE or name in ELEMENTWISE:
        return _elementwise(name, func, args, kwargs)
    raise NotImplementedError(
        f"{name}(): not implemented for nested tensors; unbind() gives the parts, to_padded_tensor() one tensor"
    )


def _rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(rule: Callable[..., Any]) -> Callable[..., Any]:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def _elementwise(name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    given = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
    first = next(x for x in given if isinstance(x, NestedTensor))
    form = first._form
    for other in given:
        if isinstance(other, NestedTensor) and not form.agrees(other._form):
            raise RuntimeError(
                f"cannot call binary pointwise function {name} with inputs of shapes {_shape(first)} and "
                f"{_shape(other)}"
            )
    n = first.dim()
    operands = _everywhere(lambda x: _beside(name, x, form, n), (tuple(args), kwargs))
    with DisableTorchFunctionSubclass():
        result = func(*operands[0], **operands[1])
    if name.endswith("_") and isinstance(args[0], NestedTensor) and not name.endswith("__"):
        return args[0]
    out = kwargs.get("out")
    if out is not None:
        return out
    form = form.to(result.device) if isinstance(result, Tensor) else form
    return _everywhere(lambda x: nested(x, form), result)


def _everywhere(f: Callable[[Tensor], Any], value: Any) -> Any:
    """Return ``value`` with ``f`` of each tensor in it."""
    return f(value) if isinstance(value, Tensor) else mapped(lambda x: _everywhere(f, x), value)


def _shape(t: NestedTensor) -> str:
    sizes = t._sizes() if isinstance(t._form, Packed) else [tuple(p.shape) for p in parts(t)]
    return "(" + ", ".join(map(repr, sizes)) + ")"


def _beside(name: str, x: Tensor, form: Packed | Shapes, n: int) -> Tensor:
    """Return ``x`` so that it broadcasts against the values of a nested tensor of ``n`` dimensions."""
    if isinstance(x, NestedTensor) or x.dim() == 0:
        return plain(x)
    if isinstance(form, Shapes):
        raise RuntimeError(
            f"{name}(): expected both operands to be nested, or one to be a number, got one of {x.shape}"
        )
    if x.dim() > n:
        raise RuntimeError(f"{name}(): a tensor of {x.dim()} dimensions does not broadcast with a nested one of {n}")
    if x.dim() < n:
        return x
    if x.shape[form.ragged] != 1:
        raise RuntimeError(
            f"{name}(): a tensor of shape {tuple(x.shape)} does not fit a ragged dimension {form.ragged}"
        )
    if x.shape[0] == 1:
        return x[0]
    if x.shape[0] != len(form):
        raise RuntimeError(f"{name}(): {x.shape[0]} does not match the number of parts, {len(form)}")
    if form.lengths is not None:
        raise RuntimeError(f"{name}(): a tensor with a row for each part needs parts without gaps; see contiguous()")
    return x.movedim(0, form.ragged - 1).squeeze(form.ragged)[_at(form.ragged - 1, form.rows()[1])]


def _at(dim: int, index: Tensor) -> tuple[Any, ...]:
    return (*(slice(None),) * dim, index)


def _inner(name: str, t: NestedTensor, dim: int, room: int = 0) -> int:
    """Return a dimension of the parts, given that of the nested tensor; the one that counts the parts raises."""
    n = t.dim() + room
    if not -n <= dim < n:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
    if dim % n == 0:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    return dim % n - 1


def _fixed(name: str, t: NestedTensor, dim: int) -> int:
    """As :func:`_inner`, of a dimension that must not be the ragged one."""
    d = _inner(name, t, dim)
    if isinstance(t._form, Packed) and d == t._form.ragged - 1:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    return d


def _each(t: NestedTensor, f: Callable[[Tensor], Tensor], ragged: int | None = None) -> Any:
    """Return ``f`` of the values, or of each part where these differ in several dimensions."""
    form = t._form
    if isinstance(form, Packed):
        return nested(f(plain(t)), form if ragged is None else form.at(ragged))
    return from_parts([f(part) for part in parts(t)], form)


def compact(t: NestedTensor) -> NestedTensor:
    """Return ``t`` without gaps between its parts."""
    form = t._form
    if isinstance(form, Shapes) or form.lengths is None:
        return t
    values = plain(t)[_at(form.ragged - 1, form.rows()[0])]
    return nested(values, form.closed())


def padded(t: NestedTensor, fill: Any, length: int | None = None) -> Tensor:
    """Return the parts of layout jagged in one tensor, with ``fill`` where one ends before ``length``."""
    form = t._form
    assert isinstance(form, Packed)
    rows, batch, places = form.rows()
    dim = form.ragged - 1
    values = plain(t).movedim(dim, 0)[rows]
    length = form.extremes()[1] if length is None else length
    if length < form.extremes()[1]:
        kept = places < length
        values, batch, places = values[kept], batch[kept], places[kept]
    made = values.new_full((len(form), length, *values.shape[1:]), fill).index_put((batch, places), values)
    return made.movedim(1, dim + 1)


def repacked(dense: Tensor, form: Packed) -> Any:
    """Return the nested tensor of the rows of ``dense`` that parts have; gaps are closed."""
    _, batch, places = form.rows()
    values = dense.movedim(form.ragged, 1)[batch, places].movedim(0, form.ragged - 1)
    return nested(values, form.closed())


# Reductions.

_BOUND = {"amax": "min", "max": "min", "argmax": "min", "amin": "max", "min": "max", "argmin": "max"}
_NEUTRAL = {"sum": 0, "mean": 0, "nansum": 0, "prod": 1, "any": False, "all": True, "logsumexp": float("-inf")}


def _neutral(name: str, dtype: oneflow.dtype) -> Any:
    if name in _NEUTRAL:
        return _NEUTRAL[name]
    if dtype.is_floating_point:
        return float("-inf") if _BOUND[name] == "min" else float("inf")
    return getattr(oneflow.iinfo(dtype), _BOUND[name])


@_rule("sum", "mean", "nansum", "prod", "any", "all", "amax", "amin", "max", "min", "argmax", "argmin", "logsumexp")
def _reduce(func: Callable[..., Any], input: NestedTensor, *args: Any, **kwargs: Any) -> Any:
    name = func.__name__
    if args and isinstance(args[0], Tensor):
        return _elementwise(name, func, (input, *args), kwargs)
    dim = args[0] if args else kwargs.pop("dim", None)
    keepdim = args[1] if len(args) > 1 else kwargs.pop("keepdim", False)
    form = input._form
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        with DisableTorchFunctionSubclass():
            return func(plain(compact(input)), **kwargs)
    dims = [dim] if isinstance(dim, int) else list(dim)
    n = input.dim()
    dims = [_inner(name, input, d) + 1 if d % n else 0 for d in dims]
    if isinstance(form, Shapes):
        if 0 in dims:
            raise RuntimeError(f"{name}(): parts of several shapes have no reduction over dim=0")
        return _over_inner(func, input, [d - 1 for d in dims], dim, keepdim, kwargs)
    if form.ragged not in dims:
        if 0 in dims:
            raise RuntimeError(
                f"{name}(): reducing along the batch dimension but not the ragged dimension is not supported for "
                "nested tensors"
            )
        return _over_inner(func, input, [d - 1 for d in dims], dim, keepdim, kwargs)
    if 0 in dims:
        inner = [d - 1 for d in dims if d]
        with DisableTorchFunctionSubclass():
            result = func(plain(compact(input)), inner, keepdim, **kwargs)
        return result.unsqueeze(0) if keepdim else result
    if len(dims) > 1:
        raise RuntimeError(
            f"{name}(): reducing along a ragged and non-batch dimension is not supported for nested tensors"
        )
    filled = padded(input, _neutral(name, input.dtype))
    if name != "mean":
        return func(filled, form.ragged, keepdim, **kwargs)
    lengths = (form.offsets.diff() if form.lengths is None else form.lengths).to(filled.device)
    total = oneflow.sum(filled, form.ragged, True, **kwargs)
    mean = total / lengths.view(-1, *(1,) * (n - 1))
    return mean if keepdim else mean.squeeze(form.ragged)


def _over_inner(
    func: Callable[..., Any], t: NestedTensor, inner: list[int], dim: Any, keepdim: bool, kwargs: dict[str, Any]
) -> Any:
    form = t._form
    wanted = inner[0] if isinstance(dim, int) else inner
    if isinstance(form, Packed):
        lost = 0 if keepdim else sum(d < form.ragged - 1 for d in inner)
        with DisableTorchFunctionSubclass():
            result = func(plain(t), wanted, keepdim, **kwargs)
        form = form.at(form.ragged - lost)
        return _everywhere(lambda x: nested(x, form), result)
    with DisableTorchFunctionSubclass():
        results = [func(part, wanted, keepdim, **kwargs) for part in parts(t)]
    if isinstance(results[0], Tensor):
        return from_parts(results, form)
    columns = [from_parts(column, form) for column in zip(*results, strict=True)]
    return type(results[0])(columns)


@_rule("softmax", "log_softmax", "_softmax", "_log_softmax")
def _softmax(func: Callable[..., Any], input: NestedTensor, dim: int, *args: Any, **kwargs: Any) -> Any:
    if dim % input.dim() == 0:
        raise RuntimeError("Cannot apply softmax across nested dimension 0")
    d, form = _inner(func.__name__, input, dim), input._form
    if isinstance(form, Packed) and d == form.ragged - 1:
        return repacked(func(padded(input, float("-inf")), form.ragged, *args, **kwargs), form)
    return _each(input, lambda x: func(x, d, *args, **kwargs))


@_rule("var", "std", "norm", "_norm", "cumsum", "cumprod", "logcumsumexp", "sort", "argsort", "flip", "roll", "diff")
def _part_by_part(func: Callable[..., Any], input: NestedTensor, *args: Any, **kwargs: Any) -> Any:
    """Functions of one dimension without a form of their own: part by part."""
    name = func.__name__
    place = 1 if name in ("norm", "_norm", "roll") else 0
    if len(args) > place and isinstance(args[place], int) and not isinstance(args[place], bool):
        args = (*args[:place], _inner(name, input, args[place]), *args[place + 1 :])
    elif isinstance(kwargs.get("dim"), int):
        kwargs["dim"] = _inner(name, input, kwargs["dim"])
    else:
        raise NotImplementedError(f"{name}(): of a nested tensor one dimension has to be given")
    results = [func(part, *args, **kwargs) for part in parts(input)]
    if isinstance(results[0], Tensor):
        return _together(results, input)
    columns = [_together(column, input) for column in zip(*results, strict=True)]
    return type(results[0])(columns)


def _together(made: Sequence[Tensor], like: NestedTensor) -> Any:
    """Return results of parts as one: nested where they still differ, stacked where the ragged dimension is gone."""
    form = like._form
    if isinstance(form, Shapes):
        return from_parts(made, form)
    lengths = [n for _, n in form.bounds()]
    for ragged in (form.ragged, form.ragged - 1):
        if 1 <= ragged <= made[0].dim() and [m.shape[ragged - 1] for m in made] == lengths:
            return from_parts(made, form, ragged)
    return oneflow.stack(list(made))


# Products and layers.


@_rule("linear")
def _linear(func: Callable[..., Any], input: NestedTensor, weight: Tensor, bias: Tensor | None = None) -> Any:
    _fixed("linear", input, -1)
    return _each(input, lambda x: func(x, weight, bias))


@_rule("matmul", "bmm", "__matmul__")
def _matmul(func: Callable[..., Any], input: Tensor, other: Tensor) -> Any:
    if not isinstance(input, NestedTensor):
        assert isinstance(other, NestedTensor)
        if input.dim() < 3:
            _fixed("matmul", other, -2)
            if isinstance(other._form, Packed) and other._form.ragged == other.dim() - 1:
                raise RuntimeError("matmul(): not supported over a ragged dimension")
            return _each(other, lambda x: oneflow.matmul(input, x))
        return _pairs(list(input.unbind()), parts(other), other)
    if isinstance(other, NestedTensor):
        return _pairs(parts(input), parts(other), input)
    if other.dim() < 3:
        _fixed("matmul", input, -1)
        return _each(input, lambda x: oneflow.matmul(x, other))
    if other.shape[0] != input.size(0):
        raise RuntimeError(f"matmul(): {input.size(0)} parts and a batch of {other.shape[0]} do not match")
    return _pairs(parts(input), list(other.unbind()), input)


def _pairs(left: list[Tensor], right: list[Tensor], like: NestedTensor) -> Any:
    if len(left) != len(right):
        raise RuntimeError(f"matmul(): {len(left)} and {len(right)} parts do not match")
    made = [oneflow.matmul(a, b) for a, b in zip(left, right, strict=True)]
    form = like._form
    if isinstance(form, Shapes):
        return from_parts(made, form)
    differing = [d for d in range(made[0].dim()) if len({m.shape[d] for m in made}) > 1]
    if len(differing) > 1:
        return nested(oneflow.cat([m.reshape(-1) for m in made]), Shapes([m.shape for m in made]))
    if differing:
        return from_parts(made, form, differing[0] + 1)
    return _together(made, like)


@_rule("scaled_dot_product_attention")
def _attention(
    func: Callable[..., Any],
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Tensor | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    if attn_mask is not None or not all(isinstance(x, NestedTensor) for x in (query, key, value)):
        raise RuntimeError(
            "scaled_dot_product_attention(): of nested tensors query, key and value are nested, and there is no mask"
        )
    rows = zip(parts(query), parts(key), parts(value), strict=True)
    made = [func(q[None], k[None], v[None], None, *args, **kwargs)[0] for q, k, v in rows]
    return from_parts(made, query._form)


@_rule("embedding")
def _embedding(func: Callable[..., Any], input: NestedTensor, weight: Tensor, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(input, NestedTensor):
        raise TypeError("embedding(): weight is nested; only indices can be")
    return _each(input, lambda x: func(x, weight, *args, **kwargs))


@_rule("embedding_bag")
def _embedding_bag(
    func: Callable[..., Any],
    input: NestedTensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    *args: Any,
    **kwargs: Any,
) -> Any:
    if not isinstance(input, NestedTensor) or isinstance(weight, NestedTensor):
        raise TypeError("embedding_bag(): of nested tensors only the indices, and weights beside them, can be")
    if offsets is not None:
        raise ValueError("embedding_bag(): a nested input has its bags; leave offsets out")
    if input.dim() != 2:
        raise ValueError(f"embedding_bag(): a nested input has two dimensions, bags and indices, got {input.dim()}")
    # Nested weights of samples lie as the indices do.
    beside = [x for x in (*args, *kwargs.values()) if isinstance(x, NestedTensor)]
    for x in beside:
        if not input._form.agrees(x._form):
            raise ValueError(f"embedding_bag(): per_sample_weights of shape {_shape(x)} for indices of {_shape(input)}")
    given = _everywhere(lambda x: oneflow.cat(parts(x)) if isinstance(x, NestedTensor) else x, (args, kwargs))
    starts = oneflow.tensor([0, *(part.shape[0] for part in parts(input))][:-1], device=input.device).cumsum(0)
    return func(oneflow.cat(parts(input)), weight, starts, *given[0], **given[1])


@_rule("layer_norm", "rms_norm")
def _norm(func: Callable[..., Any], input: NestedTensor, normalized_shape: Any, *args: Any, **kwargs: Any) -> Any:
    shape = [normalized_shape] if isinstance(normalized_shape, int) else list(normalized_shape)
    for d in range(1, len(shape) + 1):
        _fixed(func.__name__, input, -d)
    return _each(input, lambda x: func(x, shape, *args, **kwargs))


# Shapes.


@_rule("transpose", "swapaxes", "swapdims")
def _transpose(func: Callable[..., Any], input: NestedTensor, dim0: int, dim1: int) -> Any:
    a, b = _inner("transpose", input, dim0), _inner("transpose", input, dim1)
    form = input._form
    if isinstance(form, Shapes):
        return from_parts([part.transpose(a, b) for part in parts(input)], form)
    ragged = {a + 1: b + 1, b + 1: a + 1}.get(form.ragged, form.ragged)
    return nested(plain(input).transpose(a, b), form.at(ragged))


@_rule("permute")
def _permute(func: Callable[..., Any], input: NestedTensor, *dims: Any) -> Any:
    order = [d % input.dim() for d in (dims[0] if isinstance(dims[0], (tuple, list)) else dims)]
    if sorted(order) != list(range(input.dim())) or order[0] != 0:
        raise RuntimeError(f"permute(): {tuple(order)} is no order of the dimensions that keeps the first one")
    ragged = order.index(input._form.ragged) if isinstance(input._form, Packed) else None
    return _each(input, lambda x: x.permute([d - 1 for d in order[1:]]), ragged)


@_rule("unsqueeze")
def _unsqueeze(func: Callable[..., Any], input: NestedTensor, dim: int) -> Any:
    d, form = _inner("unsqueeze", input, dim, room=1), input._form
    ragged = form.ragged + (d < form.ragged) if isinstance(form, Packed) else None
    return _each(input, lambda x: x.unsqueeze(d), ragged)


@_rule("squeeze")
def _squeeze(func: Callable[..., Any], input: NestedTensor, dim: int) -> Any:
    d, form = _fixed("squeeze", input, dim), input._form
    if isinstance(form, Shapes):
        return from_parts([part.squeeze(d) for part in parts(input)], form)
    gone = plain(input).shape[d] == 1 and d + 1 < form.ragged
    return _each(input, lambda x: x.squeeze(d), form.ragged - gone)


@_rule("select")
def _select(func: Callable[..., Any], input: NestedTensor, dim: int, index: int) -> Any:
    if dim % input.dim() == 0:
        return _part(input, index)
    d, form = _fixed("select", input, dim), input._form
    ragged = form.ragged - (d + 1 < form.ragged) if isinstance(form, Packed) else None
    return _each(input, lambda x: x.select(d, index), ragged)


def _part(t: NestedTensor, index: int) -> Tensor:
    form, n = t._form, len(t._form)
    if not -n <= index < n:
        raise IndexError(f"index {index} is out of bounds for dimension 0 with size {n}")
    if isinstance(form, Shapes):
        return parts(t)[index]
    start, length = form.bounds()[index]
    return plain(t).narrow(form.ragged - 1, start, length)


@_rule("narrow")
def _narrow(func: Callable[..., Any], input: NestedTensor, dim: int, start: int, length: int) -> Any:
    if dim % input.dim() == 0:
        chosen = parts(input)[start : start + length]
        return from_parts(chosen, input._form)
    d = _fixed("narrow", input, dim)
    return _each(input, lambda x: x.narrow(d, start, length))


@_rule("__getitem__")
def _getitem(func: Callable[..., Any], input: NestedTensor, index: Any) -> Any:
    items = list(index) if isinstance(index, tuple) else [index]
    if Ellipsis in [i for i in items if not isinstance(i, Tensor)]:
        at = next(k for k, i in enumerate(items) if i is Ellipsis)
        used = sum(i is not None and i is not Ellipsis for i in items)
        items[at : at + 1] = [slice(None)] * (input.dim() - used)
    first, *rest = items or [slice(None)]
    if isinstance(first, int) and not isinstance(first, bool):
        part = _part(input, first)
        return part[tuple(rest)] if rest else part
    if not isinstance(first, slice) or first != slice(None):
        raise RuntimeError("slice(): not supported for NestedTensor on dim=0")
    result: Any = input
    dim = 1
    for item in rest:
        if item is None:
            result, dim = result.unsqueeze(dim), dim + 1
        elif isinstance(item, int):
            result = result.select(dim, item)
        elif isinstance(item, slice):
            if item != slice(None):
                d, here = _fixed("slice", result, dim), item
                result = _each(result, lambda x, d=d, here=here: x[_at(d, here)])  # type: ignore[misc]
            dim += 1
        else:
            raise NotImplementedError("nested tensors are indexed by numbers, slices, None and ...")
    return result


@_rule("index_put", "index_put_")
def _index_put(
    func: Callable[..., Any], input: NestedTensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False
) -> Any:
    if not isinstance(input, NestedTensor):
        raise TypeError("index_put(): of nested tensors only the first can be")
    made = func(plain(input), _places(input, indices), plain(values), accumulate)
    return input if func.__name__ == "index_put_" else nested(made, input._form)


def _places(t: NestedTensor, indices: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return indices into the values, given those of parts and of the dimensions behind, the ragged one among them."""
    form = t._form
    if isinstance(form, Shapes):
        raise NotImplementedError("index_put(): only for nested tensors of layout jagged; write into their unbind()")
    if any(not isinstance(i, Tensor) or i.dtype in (oneflow.bool, oneflow.uint8) for i in indices):
        raise NotImplementedError("index_put(): of nested tensors the indices are tensors of numbers")
    indices = [i.long() for i in indices]
    bounds = oneflow.tensor(form.bounds(), device=t.device).view(-1, 2)
    first, n = indices[0], len(form)
    if ((first < -n) | (first >= n)).any():
        raise IndexError(f"index_put(): an index is out of bounds for dimension 0 with size {n}")
    starts, lengths = bounds[first].unbind(-1)
    if len(indices) > form.ragged:
        within = indices[form.ragged]
        if ((within < -lengths) | (within >= lengths)).any():
            raise RuntimeError("Some indices in the ragged dimension are out of bounds!")
        within = oneflow.where(within < 0, within + lengths, within)
        return (*indices[1 : form.ragged], starts + within, *indices[form.ragged + 1 :])
    if len(indices) > 1 or indices[0].dim() > 1:
        raise NotImplementedError("index_put(): give an index of parts alone, or one of the ragged dimension as well")
    # Whole parts: their rows, of values whose dimensions before the ragged one are all written.
    if form.ragged != 1:
        raise NotImplementedError("index_put(): of whole parts only where the ragged dimension is the first of a part")
    rows = [oneflow.arange(a, a + n, device=t.device) for a, n in zip(starts.tolist(), lengths.tolist(), strict=True)]
    return (oneflow.cat(rows),)


@_rule("__setitem__")
def _setitem(func: Callable[..., Any], input: NestedTensor, index: Any, value: Any) -> None:
    items = index if isinstance(index, tuple) else (index,)
    if all(isinstance(i, Tensor) for i in items):
        value = value if isinstance(value, Tensor) else oneflow.tensor(value, dtype=input.dtype, device=input.device)
        input.index_put_(items, value)
        return
    target = input[index]
    if isinstance(target, NestedTensor):
        target.copy_(value) if isinstance(value, Tensor) else target.fill_(value)
    else:
        target[...] = value


@_rule("unbind")
def _unbind(func: Callable[..., Any], input: NestedTensor, dim: int = 0) -> tuple[Tensor, ...]:
    if dim % input.dim():
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    return tuple(parts(input))


@_rule("chunk", "split", "split_with_sizes", "tensor_split")
def _split(func: Callable[..., Any], input: NestedTensor, into: Any, dim: int = 0) -> tuple[Any, ...]:
    form = input._form
    if dim % input.dim() == 0:
        counts = [len(c) for c in func(oneflow.empty(len(form)), into)]
        all_parts, made = parts(input), []
        for count in counts:
            made.append(from_parts(all_parts[:count], form))
            all_parts = all_parts[count:]
        return tuple(made)
    d = _fixed(func.__name__, input, dim)
    if isinstance(form, Packed):
        return tuple(nested(x, form) for x in func(plain(input), into, d))
    pieces = [func(part, into, d) for part in parts(input)]
    return tuple(from_parts(piece, form) for piece in zip(*pieces, strict=True))


@_rule("flatten")
def _flatten(func: Callable[..., Any], input: NestedTensor, start_dim: int = 0, end_dim: int = -1) -> Any:
    a, b = _inner("flatten", input, start_dim), _inner("flatten", input, end_dim)
    form = input._form
    if isinstance(form, Packed) and a < b and a <= form.ragged - 1 <= b:
        raise RuntimeError("flatten(): not supported for NestedTensor on ragged dim")
    ragged = form.ragged - (b - a) * (b < form.ragged - 1) if isinstance(form, Packed) else None
    return _each(input, lambda x: x.flatten(a, b), ragged)


@_rule("unflatten")
def _unflatten(func: Callable[..., Any], input: NestedTensor, dim: int, sizes: Sequence[int]) -> Any:
    d, form = _fixed("unflatten", input, dim), input._form
    ragged = form.ragged + (len(sizes) - 1) * (d < form.ragged - 1) if isinstance(form, Packed) else None
    return _each(input, lambda x: x.unflatten(d, sizes), ragged)


@_rule("view", "reshape", "_unsafe_view")
def _view(func: Callable[..., Any], input: NestedTensor, *shape: Any) -> Any:
    if len(shape) == 1 and isinstance(shape[0], oneflow.dtype):
        return _elementwise("view", func, (input, *shape), {})
    wanted = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else list(shape)
    form = input._form
    name = func.__name__
    if not wanted or wanted[0] not in (len(form), -1):
        raise RuntimeError(f"{name}(): the first size of a nested tensor is the number of its parts, {len(form)}")
    if isinstance(form, Shapes):
        return from_parts([part.reshape(_sizes(part, wanted[1:])) for part in parts(input)], form)
    ragged = _ragged_of(name, input, wanted)
    sizes = [int(s) for s in wanted[1:]]
    sizes[ragged - 1] = plain(input).shape[form.ragged - 1]
    return nested(getattr(plain(input), name)(sizes), form.at(ragged))


def _sizes(part: Tensor, wanted: Sequence[int]) -> list[int]:
    """The shape of a part: the first -1 keeps a size where several are given."""
    sizes, left = list(wanted), sum(s == -1 for s in wanted)
    for d, size in enumerate(sizes):
        if size == -1 and left > 1:
            sizes[d], left = part.shape[d], left - 1
    return sizes


def _ragged_of(name: str, t: NestedTensor, wanted: Sequence[int]) -> int:
    """Where in a new shape the ragged dimension is: its own size, or the -1 behind as many elements as before."""
    form = t._form
    assert isinstance(form, Packed)
    for d, size in enumerate(wanted):
        if isinstance(size, RaggedSize):
            if size == form.size:
                return d
            raise RuntimeError(f"{name}(): {size!r} is the size of another nested tensor than {_shape(t)}")
    before = 1
    for size in plain(t).shape[: form.ragged - 1]:
        before *= size
    count = 1
    for d, size in enumerate(wanted[1:], 1):
        if size == -1 and count == before:
            return d
        count *= size
    raise RuntimeError(f"{name}(): {tuple(wanted)} does not keep the ragged dimension of a tensor of shape {_shape(t)}")


@_rule("expand")
def _expand(func: Callable[..., Any], input: NestedTensor, *shape: Any) -> Any:
    wanted = list(shape[0]) if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else list(shape)
    if len(wanted) != input.dim() or wanted[0] not in (-1, input.size(0)):
        raise RuntimeError(f"expand(): {tuple(wanted)} has another number of dimensions or parts than the tensor")
    return _each(input, lambda x: x.expand([int(s) for s in wanted[1:]]).contiguous())


@_rule("expand_as")
def _expand_as(func: Callable[..., Any], input: Tensor, other: NestedTensor) -> Any:
    return oneflow.zeros_like(other, dtype=input.dtype) + input


@_rule("repeat_interleave", "index_select")
def _by_dim(func: Callable[..., Any], input: NestedTensor, how: Any, dim: Any = None, **kwargs: Any) -> Any:
    dim, how = (how, dim) if func.__name__ == "index_select" else (dim, how)
    if dim is None:
        raise RuntimeError(f"{func.__name__}(): of a nested tensor dim has to be given")
    d = _fixed(func.__name__, input, dim)
    order = (d, how) if func.__name__ == "index_select" else (how, d)
    return _each(input, lambda x: func(x, *order, **kwargs))


@_rule("cat", "concat", "concatenate")
def _cat(func: Callable[..., Any], tensors: Iterable[Any], dim: int = 0, **kwargs: Any) -> Any:
    given = list(tensors)
    first = next(t for t in given if isinstance(t, NestedTensor))
    if not all(isinstance(t, NestedTensor) for t in given):
        raise RuntimeError("cat(): nested tensors are joined with nested tensors only")
    form = first._form
    if dim % first.dim() == 0:
        return from_parts([part for t in given for part in parts(t)], form)
    d = _fixed("cat", first, dim)
    _agree("cat", given)
    if isinstance(form, Packed):
        return nested(oneflow.cat([plain(t) for t in given], d), form)
    return from_parts([oneflow.cat(row, d) for row in zip(*(parts(t) for t in given), strict=True)], form)


@_rule("stack")
def _stack(func: Callable[..., Any], tensors: Iterable[Any], dim: int = 0) -> Any:
    given = list(tensors)
    if not all(isinstance(t, NestedTensor) for t in given):
        raise RuntimeError("stack(): nested tensors are stacked with nested tensors only")
    d = _inner("stack", given[0], dim, room=1)
    _agree("stack", given)
    return oneflow.cat([t.unsqueeze(d + 1) for t in given], d + 1)


def _agree(name: str, given: Sequence[NestedTensor]) -> None:
    first = given[0]._form
    for t in given:
        fits = type(t._form) is type(first) and len(t._form) == len(first)
        if fits and isinstance(first, Packed):
            fits = first.agrees(t._form)
        if not fits:
            raise RuntimeError(f"{name}(): nested tensors of shapes {_shape(given[0])} and {_shape(t)} do not match")


@_rule("stride")
def _stride(func: Callable[..., Any], input: NestedTensor, dim: int | None = None) -> Any:
    """The strides of layout jagged, as those of its values; of the dimension of parts none is known."""
    if isinstance(input._form, Shapes) or dim == 0 or dim is None:
        raise RuntimeError("stride(): the parts of a nested tensor have no common stride; values() has strides")
    return plain(input).stride(_inner("stride", input, dim))


@_rule("contiguous")
def _contiguous(func: Callable[..., Any], input: NestedTensor, **kwargs: Any) -> Any:
    whole = compact(input)
    return nested(plain(whole).contiguous(), whole._form)


@_rule("to", "cpu", "cuda", "type_as")
def _to(func: Callable[..., Any], input: Any, *args: Any, **kwargs: Any) -> Any:
    with DisableTorchFunctionSubclass():
        moved = func(*(plain(x) if isinstance(x, Tensor) else x for x in (input, *args)), **kwargs)
    if not isinstance(input, NestedTensor):
        return moved
    return nested(moved, input._form.to(moved.device))


@_rule("equal")
def _equal(func: Callable[..., Any], input: Tensor, other: Tensor) -> bool:
    if not (isinstance(input, NestedTensor) and isinstance(other, NestedTensor)) or len(parts(input)) != len(
        parts(other)
    ):
        return False
    return all(oneflow.equal(a, b) for a, b in zip(parts(input), parts(other), strict=True))


@_rule("allclose")
def _allclose(func: Callable[..., Any], input: Tensor, other: Tensor, *args: Any, **kwargs: Any) -> bool:
    _agree("allclose", (input, other))  # type: ignore[arg-type]
    return oneflow.allclose(plain(compact(input)), plain(compact(other)), *args, **kwargs)  # type: ignore[arg-type]


@_rule("backward")
def _backward(func: Callable[..., Any], tensors: Any, gradient: Any = None, *args: Any, **kwargs: Any) -> None:
    def below(x: Any) -> Any:
        return _everywhere(lambda t: t if t.is_leaf else plain(t), x)

    with DisableTorchFunctionSubclass():
        func(below(tensors), below(gradient), *args, **kwargs)


@_rule("grad")
def _grad(
    func: Callable[..., Any], outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any, **kwargs: Any
) -> Any:
    wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    given = _everywhere(lambda t: t if t.is_leaf else plain(t), outputs), inputs, _everywhere(plain, grad_outputs)
    with DisableTorchFunctionSubclass():
        made = func(*given, *args, **kwargs)
    return tuple(
        nested(g, t._form) if g is not None and isinstance(t, NestedTensor) else g
        for t, g in zip(wanted, made, strict=True)
    )


@_rule("tolist", "numpy", "item_list")
def _listed(func: Callable[..., Any], input: NestedTensor, **kwargs: Any) -> Any:
    raise RuntimeError(f".{func.__name__}() is not supported for nested tensors; unbind() gives the parts")
