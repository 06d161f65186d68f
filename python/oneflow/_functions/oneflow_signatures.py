"""OneFlow's signatures of ops that PyTorch has too: other arguments under the same public name.

The compiled functions come here once none of their signatures takes the arguments of a call, so that a call in
PyTorch's form costs nothing more. A form is a function with OneFlow's parameters; it serves the function and the
method alike.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow

_FORMS: dict[str, tuple[Callable[..., Any], inspect.Signature]] = {}
_LOCAL = threading.local()


def _form(function: Callable[..., Any]) -> Callable[..., Any]:
    _FORMS[function.__name__] = (function, inspect.signature(function))
    return function


def _find(name: str, is_method: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The result of the form that takes these arguments, or ``NotImplemented``.

    A form calls the op again; if that does not fit either, its own error is the one that is raised.
    """
    trying: set[str] = _LOCAL.__dict__.setdefault("trying", set())
    if name in trying:
        return NotImplemented
    trying.add(name)
    try:
        return _called(name, is_method, args, kwargs)
    finally:
        trying.discard(name)


_WITHOUT_ENTRIES = ("zeros", "empty", "zeros_like", "empty_like", "new_zeros", "new_empty")
_BLOCK_LAYOUTS = (oneflow.sparse_bsr, oneflow.sparse_bsc)
_SPARSE_LAYOUTS = (oneflow.sparse_coo, oneflow.sparse_csr, oneflow.sparse_csc)


def _in_layout(name: str, is_method: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Tensor:
    """A tensor of another layout than strided, without entries."""
    layout = kwargs["layout"]
    likes = [a for a in (*args, *kwargs.values()) if isinstance(a, Tensor)]
    # `zeros_like` keeps the dense dimensions and the blocks of a sparse tensor.
    like = likes[0] if likes and name.endswith("_like") and likes[0].layout is not oneflow.strided else None
    blocks = None
    if like is not None and like.layout in _BLOCK_LAYOUTS:
        n_batch = like.dim() - like.dense_dim() - like.sparse_dim()
        blocks = tuple(like.values().shape[n_batch + 1 : n_batch + 3])
    if name not in _WITHOUT_ENTRIES or not (layout in _SPARSE_LAYOUTS or (layout in _BLOCK_LAYOUTS and blocks)):
        given = ", sparse_coo, sparse_csr or sparse_csc" if name in _WITHOUT_ENTRIES else ""
        raise NotImplementedError(f"{name}(): only layout=strided{given} is supported, got {layout}")
    rest = {key: value for key, value in kwargs.items() if key not in ("layout", "pin_memory", "requires_grad")}
    device = rest.pop("device", None)
    if device is None:
        device = likes[0].device if likes else oneflow.get_default_device()
    dense = getattr(Tensor if is_method else oneflow, name)(*map(_strided, args), **rest, device="meta")
    n_inside = 0 if like is None else like.dense_dim()
    n_outside = dense.dim() - n_inside
    at = oneflow.empty((n_outside, 0), dtype=oneflow.int64, device=device)
    values = oneflow.empty((0, *dense.shape[n_outside:]), dtype=dense.dtype, device=device)
    requires_grad = bool(kwargs.get("requires_grad"))
    if layout is not oneflow.sparse_coo:
        made = oneflow.sparse_coo_tensor(at, values, tuple(dense.shape), is_coalesced=True)
        made = made.to_sparse(layout=layout, blocksize=blocks if layout in _BLOCK_LAYOUTS else None)
        return made.requires_grad_(requires_grad)
    return oneflow.sparse_coo_tensor(at, values, tuple(dense.shape), requires_grad=requires_grad, is_coalesced=True)


def _strided(x: Any) -> Any:
    """In the place of a sparse tensor a dense one of its shape, which nobody has written."""
    is_sparse = isinstance(x, Tensor) and x.layout is not oneflow.strided
    return oneflow.empty(x.shape, dtype=x.dtype, device=x.device) if is_sparse else x


def _called(name: str, is_method: bool, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    if kwargs.get("layout") not in (None, oneflow.strided):
        return _in_layout(name, is_method, args, kwargs)
    if "layout" in kwargs and any(isinstance(a, Tensor) and a.layout is not oneflow.strided for a in args):
        return getattr(Tensor if is_method else oneflow, name)(*map(_strided, args), **kwargs)
    if name in _FORMS:
        form, signature = _FORMS[name]
        named = {"input" if key == "x" and "input" in signature.parameters else key: v for key, v in kwargs.items()}
        try:
            signature.bind(*args, **named)
        except TypeError:
            pass
        else:
            result = form(*args, **named)
            if result is not NotImplemented:
                return result
    # Channels come first in all ops here, so saying so changes nothing.
    said = {"inplace": (True, False), "data_format": ("channels_first",), "channel_pos": ("channels_first",)}
    rest = {key: value for key, value in kwargs.items() if value not in said.get(key, ())}
    place = Tensor if is_method else _oneflow
    if len(rest) == len(kwargs) or not hasattr(place, name):
        return NotImplemented
    if kwargs.get("inplace") is not True:
        return getattr(place, name)(*args, **rest)
    if hasattr(place, name + "_"):
        return getattr(place, name + "_")(*args, **rest)
    target = args[0] if args else rest.get("input", rest.get("x"))
    result = getattr(place, name)(*args, **rest)
    return target.copy_(result) if isinstance(target, Tensor) and isinstance(result, Tensor) else NotImplemented


@_form
def add(*tensors: Any, inputs: Any = None, inplace: bool = False) -> Any:
    """The sum of several tensors of one shape."""
    if inputs is None and len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        inputs = tensors[0]
    elif inputs is None and len(tensors) > 2:
        inputs = tensors
    if inputs is None or not all(isinstance(t, Tensor) for t in inputs) or not inputs:
        return NotImplemented
    total, *others = inputs
    for other in others:
        if other.shape != total.shape:
            raise RuntimeError(
                "add(): inconsistent tensor size, expected all tensor to have the same number of elements, but got "
                f"{list(total.shape)} and {list(other.shape)}"
            )
        total = total.add_(other) if inplace else total + other
    return total


@_form
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, alpha: Any = 1, beta: Any = 1) -> Tensor:
    """``beta * input + alpha * mat1 @ mat2``; OneFlow has both factors as positions, ``alpha`` first."""
    return oneflow.addmm(input, mat1, mat2, beta=beta, alpha=alpha)


@_form
def amax(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The largest elements; of the whole tensor without ``dim``."""
    return oneflow.amax(input, () if dim is None else dim, keepdim)


@_form
def amin(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The smallest elements; of the whole tensor without ``dim``."""
    return oneflow.amin(input, () if dim is None else dim, keepdim)


@_form
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The positions of the largest elements, as ``dtype``."""
    found = oneflow.argmax(input, dim, bool(keepdim))
    return found if dtype is None else found.to(dtype)


@_form
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The positions of the smallest elements, as ``dtype``."""
    found = oneflow.argmin(input, dim, bool(keepdim))
    return found if dtype is None else found.to(dtype)


@_form
def argwhere(input: Tensor, dtype: Any = None) -> Tensor:
    """The positions of the elements that are not zero, as ``dtype``."""
    found = oneflow.argwhere(input)
    return found if dtype is None else found.to(dtype)


@_form
def bernoulli(
    input: Tensor, p: float | None = None, *, dtype: Any = None, generator: Any = None, inplace: bool = False
) -> Tensor:
    """Draw one with the probability ``input`` or ``p``, as ``dtype``."""
    drawn = (
        oneflow.bernoulli(input, generator=generator) if p is None else oneflow.bernoulli(input, p, generator=generator)
    )
    drawn = drawn if dtype is None else drawn.to(dtype)
    return input.copy_(drawn) if inplace else drawn


@_form
def copy_(input: Tensor, other: Any, non_blocking: bool = False) -> Tensor:
    """Write a NumPy array into ``input``."""
    import numpy

    if not isinstance(other, (numpy.ndarray, numpy.generic)):
        raise TypeError(f"copy_(): argument 'src' must be Tensor or ndarray, not {type(other).__name__}")
    # As in OneFlow, an array's numbers are no part of the history: a leaf that requires a gradient takes them too.
    with oneflow.no_grad():
        return input.copy_(oneflow.tensor(other), non_blocking)


@_form
def gather(input: Tensor, dim: int, indices: Tensor) -> Tensor:
    """The elements at the positions ``indices`` along a dimension."""
    return oneflow.gather(input, dim, indices)


def _logical(name: str) -> None:
    def form(input: Any, other: Any) -> Tensor:
        like = input if isinstance(input, Tensor) else other
        if not isinstance(like, Tensor):
            raise TypeError(f"{name}(): one of its arguments must be Tensor, not {type(input).__name__}")
        both = [
            t if isinstance(t, Tensor) else oneflow.full_like(like, bool(t), dtype=oneflow.bool) for t in (input, other)
        ]
        return getattr(oneflow, name)(*both)

    form.__name__ = name
    _form(form)


for _name in ("logical_and", "logical_or", "logical_xor"):
    _logical(_name)


@_form
def lerp(start: Tensor, end: Tensor, weight: Any) -> Tensor:
    """``start + weight * (end - start)``."""
    return oneflow.lerp(start, end, weight)


@_form
def matmul(
    input: Tensor, other: Tensor, transpose_a: bool = False, transpose_b: bool = False, alpha: float = 1.0
) -> Tensor:
    """Return the product of matrices times ``alpha``; each matrix is transposed first if its flag is set."""
    a = input.mT if transpose_a else input
    b = other.mT if transpose_b else other
    product = oneflow.matmul(a, b)
    return product if alpha == 1.0 else product * alpha


@_form
def median(input: Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The median along a dimension, by default the last, and where it is."""
    return oneflow.median(input, dim, keepdim)


def _new(name: str, like: str) -> None:
    def form(input: Tensor, size: Any = None, **options: Any) -> Tensor:
        if size is not None:
            return getattr(input, name)(size, **options)
        if input.is_global:
            options = {"placement": input.placement, "sbp": input.sbp, **options}
        return getattr(oneflow, like)(input, **options)

    form.__name__ = name
    _form(form)


# Of the tensor's own sizes, and split, without ``size``.
for _name in ("empty", "ones", "zeros"):
    _new(f"new_{_name}", f"{_name}_like")


@_form
def prelu(input: Tensor, alpha: Tensor) -> Tensor:
    """``max(0, x) + alpha * min(0, x)``."""
    return oneflow.prelu(input, alpha)


@_form
def quantile(
    input: Tensor,
    q: Any,
    dim: int | None = None,
    keepdim: bool = False,
    interpolation: str = "linear",
    ignore_nan: bool = False,
) -> Tensor:
    """Return the ``q`` quantile of the elements; with ``ignore_nan`` of those that are numbers."""
    function = oneflow.nanquantile if ignore_nan else oneflow.quantile
    return function(input, q, dim, keepdim, interpolation=interpolation)


@_form
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """The elements moved on; over the flat tensor without ``dims``."""
    return oneflow.roll(input, shifts, () if dims is None else dims)


@_form
def searchsorted(sorted_sequence: Tensor, values: Any, out_int32: bool = False, right: bool = False) -> Tensor:
    """Where values would be inserted so that the sequence stays sorted."""
    return oneflow.searchsorted(sorted_sequence, values, out_int32=out_int32, right=right)


@_form
def softshrink(input: Tensor, alpha: float = 0.5, inplace: bool = False) -> Tensor:
    """Values moved towards zero by ``alpha``."""
    output = oneflow.nn.functional.softshrink(input, alpha)
    return input.copy_(output) if inplace else output


@_form
def split(input: Tensor, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of one size, or of the sizes of a list."""
    return oneflow.split(input, split_size_or_sections, dim)


@_form
def transpose(input: Tensor, perm: Sequence[int]) -> Tensor:
    """The dimensions in the order ``perm``."""
    return input.permute(tuple(perm))


_oneflow._set_other_forms(_find)
