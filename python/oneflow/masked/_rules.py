"""What each function does with masked tensors.

A rule is found by the function's name. Elementwise functions run on the data and keep the mask; functions that only
move elements run on data and mask alike; reductions are those of `_reductions`. A function without a rule raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base.elementwise import ABOUT, ELEMENTWISE
from oneflow._base.nests import mapped
from oneflow.masked import _reductions
from oneflow.masked._tensor import MaskedTensor, kept, masked, plain, same_indices, with_values
from oneflow.overrides import DisableTorchFunctionSubclass

_RULES: dict[str, Callable[..., Any]] = {}
_ABOUT = ABOUT | frozenset(
    """
    dim is_nested is_same_size layout names ndim ndimension nelement numel shape size stride __deepcopy__ __len__
    __reduce_ex__
    """.split()
)
# Those that give elements of their inputs other places, and drop or repeat some.
_MOVING = frozenset(
    """
    as_strided atleast_1d atleast_2d atleast_3d broadcast_to chunk crow_indices diagonal dsplit expand expand_as
    flatten flip fliplr flipud gather hsplit index_select indices mT moveaxis movedim narrow permute ravel repeat
    repeat_interleave reshape reshape_as roll rot90 select split split_with_sizes squeeze swapaxes swapdims T t take
    take_along_dim tensor_split tile transpose unbind unflatten unfold unsqueeze values view view_as vsplit
    _unsafe_view __getitem__
    """.split()
)
_JOINING = ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack", "row_stack", "column_stack")
_READING = ("item", "__bool__", "__float__", "__int__", "__index__", "__complex__")


def answer(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Run ``func`` with at least one masked tensor among its arguments."""
    name = getattr(func, "__name__", str(func))
    if name in ("__get__", "__set__", "__delete__"):
        name = getattr(getattr(func, "__self__", None), "__name__", name)
    rule = _RULES.get(name)
    if rule is not None:
        return rule(func, *args, **kwargs)
    if name in _ABOUT:
        with DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    if name in _MOVING:
        return _moved(func, args, kwargs)
    if name in ELEMENTWISE or name.rstrip("_") in ELEMENTWISE:
        return _elementwise(name, func, args, kwargs)
    raise TypeError(
        f"{name}(): not implemented for masked tensors; get_data() and get_mask() give their parts, to_tensor(value) "
        "an ordinary tensor"
    )


def _rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(rule: Callable[..., Any]) -> Callable[..., Any]:
        _RULES.update(dict.fromkeys(names, rule))
        return rule

    return register


def _everywhere(f: Callable[[Tensor], Any], value: Any) -> Any:
    """Return ``value`` with ``f`` of each tensor in it."""
    return f(value) if isinstance(value, Tensor) else mapped(lambda x: _everywhere(f, x), value)


def _mask_of(x: Tensor) -> Tensor:
    return x._mask if isinstance(x, MaskedTensor) else x


def _moved(func: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    given = tuple(args), kwargs
    # The class must not answer for indices that are masked tensors, nor for the tensors below.
    data_args, data_kwargs = _everywhere(plain, given)
    mask_args, mask_kwargs = _everywhere(_mask_of, given)
    return _together(func(*data_args, **data_kwargs), func(*mask_args, **mask_kwargs))


def _together(data: Any, mask: Any) -> Any:
    if isinstance(data, Tensor):
        return masked(data, mask)
    return type(data)(_together(a, b) for a, b in zip(data, mask, strict=True))


# ---- elementwise functions


def _elementwise(name: str, func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    if kwargs.get("out") is not None:
        raise TypeError(f"{name}(): out= is not implemented for masked tensors")
    is_written = (name.endswith("_") and not name.endswith("__")) or (name[:3] == "__i" and name != "__invert__")
    if is_written and not isinstance(args[0], MaskedTensor):
        raise TypeError(f"{name}(): a masked tensor cannot be written into an ordinary one; to_tensor(value) gives one")
    given = [x for x in (*args, *kwargs.values()) if isinstance(x, Tensor)]
    mask = _common_mask(name, given)
    if mask.layout != oneflow.strided:
        return _of_values(name, func, args, kwargs, is_written)
    shape = oneflow.broadcast_shapes(*(plain(x).shape for x in given))
    mask = mask.expand(shape)

    def operand(x: Tensor) -> Tensor:
        if is_written and x is args[0]:
            return x
        below = plain(x)
        # What an excluded element gives to the gradient of an operand that others share must not reach it.
        return below if isinstance(x, MaskedTensor) and below.shape == shape else kept(below, mask)

    args, kwargs = _everywhere(operand, (tuple(args), kwargs))
    with DisableTorchFunctionSubclass():
        result = func(*args, **kwargs)
    if is_written:
        return args[0]
    return _everywhere(lambda x: masked(x, mask.to(x.device)), result)


def _common_mask(name: str, given: Sequence[Tensor]) -> Tensor:
    masks = [x._mask for x in given if isinstance(x, MaskedTensor)]
    for other in masks[1:]:
        if other is not masks[0] and not _match(masks[0], other):
            raise ValueError(
                f"Input masks must match: {name}() got masks that keep different elements; to_tensor(value) of one of "
                "the two, or one mask for both, says what is meant"
            )
    return max(masks, key=lambda mask: mask.dim())


def _match(a: Tensor, b: Tensor) -> bool:
    if a.layout != b.layout:
        raise ValueError(f"data and mask must have the same layout. Got {a.layout} and {b.layout}")
    if a.layout == oneflow.strided:
        return a.dim() == b.dim() and bool(oneflow.eq(a, b).all())
    return a.shape == b.shape and same_indices(a, b) and oneflow.equal(a.values(), b.values())


def _of_values(name: str, func: Callable[..., Any], args: Any, kwargs: dict[str, Any], is_written: bool) -> Any:
    """An elementwise function of sparse tensors, which have values at the same places."""
    first = next(x for x in (*args, *kwargs.values()) if isinstance(x, MaskedTensor))
    below = plain(first)

    def values(x: Tensor) -> Tensor:
        if isinstance(x, MaskedTensor):
            return plain(x).values()
        if x.layout == below.layout:
            if x.shape != below.shape or not same_indices(x.coalesce() if x.is_sparse else x, below):
                raise ValueError(f"{name}(): sparse tensors must have the same shape and indices")
            return x.values()
        if x.dim():
            raise TypeError(f"{name}(): a sparse masked tensor meets a dense one of shape {tuple(x.shape)}")
        return x

    args, kwargs = _everywhere(values, (tuple(args), kwargs))
    result = func(*args, **kwargs)
    return first if is_written else _everywhere(lambda x: masked(with_values(below, x), first._mask), result)


@_rule("where")
def _where(func: Callable[..., Any], *given: Any) -> Any:
    if len(given) != 3:
        raise TypeError("where(): of masked tensors a condition and both values are needed")
    # The method is called on the values where the condition is true.
    condition, x, y = (given[1], given[0], given[2]) if isinstance(given[0], MaskedTensor) else given
    if isinstance(condition, MaskedTensor):
        raise TypeError("where(): the condition must be an ordinary tensor; to_tensor(False) gives one")
    masks = [v._mask if isinstance(v, MaskedTensor) else condition.new_ones(()) for v in (x, y)]
    data = oneflow.where(condition, *(plain(v) if isinstance(v, Tensor) else v for v in (x, y)))
    return masked(data, oneflow.where(condition, *masks).expand(data.shape))


# ---- reductions


@_rule("sum", "mean", "prod", "amax", "amin", "argmax", "argmin", "logsumexp")
def _reduced(
    func: Callable[..., Any],
    input: MaskedTensor,
    dim: Any = None,
    keepdim: bool = False,
    dtype: Any = None,
    **more: Any,
) -> Any:
    return _reduction(func.__name__, input, dim, keepdim, dtype=dtype, **more)


@_rule("var", "std")
def _spread(
    func: Callable[..., Any],
    input: MaskedTensor,
    dim: Any = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
    dtype: Any = None,
) -> Any:
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    return _reduction(func.__name__, input, dim, keepdim, unbiased=unbiased, correction=correction, dtype=dtype)


@_rule("norm", "_norm")
def _norm(
    func: Callable[..., Any],
    input: MaskedTensor,
    p: Any = "fro",
    dim: Any = None,
    keepdim: bool = False,
    out: Any = None,
    dtype: Any = None,
) -> Any:
    if out is not None or p == "nuc":
        raise TypeError("norm(): of masked tensors there are vector norms, without out=")
    return _reduction("norm", input, dim, keepdim, ord=2.0 if p == "fro" or p is None else p, dtype=dtype)


@_rule("all", "any")
def _boolean(func: Callable[..., Any], input: MaskedTensor, dim: Any = None, keepdim: bool = False) -> Any:
    return _reduction(func.__name__, input, dim, keepdim)


def _reduction(name: str, input: MaskedTensor, dim: Any, keepdim: bool, **options: Any) -> Any:
    data, mask, sparse = input.get_data(), input._mask, None
    if data.layout != oneflow.strided:
        if dim is not None:
            raise TypeError(f"{name}(): of sparse masked tensors only all elements are reduced; see to_dense()")
        data, mask, sparse = data.values(), mask.values(), data
    if name in ("all", "any"):
        filled = data.masked_fill(~mask, name == "all")
        dims = _reductions._dims(mask, dim)
        result = getattr(filled, name)(dims, keepdim) if dims else getattr(filled, name)()
    else:
        result = getattr(_reductions, name)(data, dim=dim, keepdim=keepdim, mask=mask, **options)
    if sparse is not None and name in ("argmax", "argmin"):
        result = _position(sparse, result.long()).to(result.dtype)
    return masked(result, _some(mask, dim, keepdim))


def _some(mask: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """Return where a reduction has anything to reduce."""
    dims = _reductions._dims(mask, dim)
    return mask.any(dims, keepdim) if dims else mask.any()


def _position(x: Tensor, entry: Tensor) -> Tensor:
    """Return the position in a dense tensor of an entry of a sparse one."""
    if x.layout != oneflow.sparse_coo:
        raise TypeError("argmax() and argmin() of masked tensors of layout sparse_csr: see to_dense()")
    place = x.indices()[:, entry]
    position = place.new_zeros(())
    for index, size in zip(place, x.shape, strict=True):
        position = position * size + index
    return position


@_rule("softmax", "log_softmax", "softmin")
def _softmax(
    func: Callable[..., Any], input: MaskedTensor, dim: int, *more: Any, dtype: Any = None, **_stacklevel: int
) -> Any:
    # By position the function of nn.functional has a level of the stack in front of the dtype.
    dtype = next((given for given in more if isinstance(given, oneflow.dtype)), dtype)
    return masked(getattr(_reductions, func.__name__)(input, dim, dtype=dtype), input._mask)


@_rule("cumsum", "cumprod")
def _running(func: Callable[..., Any], input: MaskedTensor, dim: int, *, dtype: Any = None) -> Any:
    return masked(getattr(_reductions, func.__name__)(input, dim, dtype=dtype), input._mask)


# ---- shapes, copies and layouts


@_rule(*_JOINING)
def _joined(func: Callable[..., Any], tensors: Iterable[Tensor], *args: Any, **kwargs: Any) -> Any:
    if kwargs.get("out") is not None:
        raise TypeError(f"{func.__name__}(): out= is not implemented for masked tensors")
    given = [x if isinstance(x, MaskedTensor) else masked(x, oneflow.ones_like(x, dtype=oneflow.bool)) for x in tensors]
    return masked(func([plain(x) for x in given], *args, **kwargs), func([x._mask for x in given], *args, **kwargs))


@_rule("to", "cpu", "cuda")
def _to(func: Callable[..., Any], input: Any, *args: Any, **kwargs: Any) -> Any:
    below = [plain(x) if isinstance(x, Tensor) else x for x in (input, *args)]
    moved = func(*below, **_everywhere(plain, kwargs))
    return masked(moved, input._mask.to(moved.device)) if isinstance(input, MaskedTensor) else moved


@_rule("copy_")
def _copied(func: Callable[..., Any], input: Tensor, src: Tensor, non_blocking: bool = False) -> Any:
    if not isinstance(input, MaskedTensor):
        raise TypeError("copy_(): a masked tensor cannot be written into an ordinary one; to_tensor(value) gives one")
    if isinstance(src, MaskedTensor) and not _match(input._mask, src._mask):
        raise ValueError("copy_(): the masks of the two tensors must match")
    with DisableTorchFunctionSubclass():
        func(input, plain(src), non_blocking)
    return input


@_rule("contiguous", "is_contiguous")
def _contiguous(func: Callable[..., Any], input: MaskedTensor, **kwargs: Any) -> Any:
    data, name = plain(input), func.__name__
    if data.layout != oneflow.strided:
        raise ValueError(f"MaskedTensors with sparse data do not have {name}")
    if name == "is_contiguous":
        return func(data, **kwargs)
    return masked(func(data, **kwargs), func(input._mask, **kwargs))


@_rule("to_dense")
def _dense(func: Callable[..., Any], input: MaskedTensor) -> Any:
    if input.layout == oneflow.strided:
        return input
    return masked(plain(input).to_dense(), input._mask.to_dense())


@_rule("to_sparse", "to_sparse_coo", "to_sparse_csr")
def _sparse(func: Callable[..., Any], input: MaskedTensor) -> Any:
    """The elements that count."""
    csr = func.__name__ == "to_sparse_csr"
    if csr and input.dim() != 2:
        raise ValueError(
            f"Only 2D tensors can be converted to the SparseCsr layout but got shape: {tuple(input.shape)}"
        )
    if input.layout == (oneflow.sparse_csr if csr else oneflow.sparse_coo):
        return input
    dense = _dense(func, input)
    mask = dense._mask.to_sparse_csr() if csr else dense._mask.to_sparse().coalesce()
    return masked(plain(dense).sparse_mask(mask), mask)


@_rule("requires_grad_")
def _requires_grad(func: Callable[..., Any], input: MaskedTensor, requires_grad: bool = True) -> Any:
    with DisableTorchFunctionSubclass():
        func(input, requires_grad)
    return input


@_rule(*_READING)
def _read(func: Callable[..., Any], input: MaskedTensor) -> Any:
    if input.numel() == 1 and not input._mask:
        raise ValueError(f"{func.__name__}(): the element is excluded; to_tensor(value) gives a number in its place")
    return func(plain(input))


# ---- gradients


@_rule("backward")
def _backward(func: Callable[..., Any], tensors: Any, gradient: Any = None, *args: Any, **kwargs: Any) -> None:
    with DisableTorchFunctionSubclass():
        func(tensors, _everywhere(_filled, gradient), *args, **kwargs)


@_rule("grad")
def _grad(
    func: Callable[..., Any], outputs: Any, inputs: Any, grad_outputs: Any = None, *args: Any, **kwargs: Any
) -> Any:
    wanted = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    with DisableTorchFunctionSubclass():
        made = func(outputs, inputs, _everywhere(_filled, grad_outputs), *args, **kwargs)
    return tuple(
        masked(g, x._mask) if g is not None and isinstance(x, MaskedTensor) else g
        for x, g in zip(wanted, made, strict=True)
    )


def _filled(gradient: Tensor) -> Tensor:
    return gradient.to_tensor(0) if isinstance(gradient, MaskedTensor) else gradient
