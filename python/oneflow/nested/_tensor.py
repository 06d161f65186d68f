"""The class of nested tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import oneflow
from oneflow import Size, Tensor
from oneflow.nested._forms import Packed, Shapes
from oneflow.overrides import DisableTorchFunctionSubclass

_plain_grad: Any = Tensor.grad


class NestedTensor(Tensor):
    """A batch of tensors whose sizes differ: in one dimension (layout ``jagged``), or in any (``strided``).

    The memory is that of one ordinary tensor, which ``values()`` returns, so that elementwise functions and products
    cost what they cost on it. Made by the functions of :mod:`oneflow.nested`.

    Example::

        >>> nested = oneflow.nested.nested_tensor([oneflow.ones(2, 3), oneflow.ones(1, 3)], layout=oneflow.jagged)
        >>> (nested * 2).sum(1).tolist()
        [[4.0, 4.0, 4.0], [2.0, 2.0, 2.0]]
    """

    _form: Packed | Shapes
    _parts = ("nested tensors", "their values() and offsets()")

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        from oneflow.nested._rules import answer

        if not all(issubclass(t, NestedTensor) or t in (Tensor, oneflow.nn.Parameter) for t in types):
            return NotImplemented
        return answer(func, args, kwargs or {})

    @property
    def is_nested(self) -> bool:  # type: ignore[override]
        return True

    @property
    def layout(self) -> oneflow.layout:
        return oneflow.jagged if isinstance(self._form, Packed) else oneflow.strided

    @property
    def shape(self) -> Size:
        if isinstance(self._form, Shapes):
            raise RuntimeError("a nested tensor of layout strided has no shape; unbind() gives the parts, which have")
        return Size(self._sizes())

    def _sizes(self) -> tuple[int, ...]:
        form = self._form
        assert isinstance(form, Packed)
        sizes = [len(form), *plain(self).shape]
        sizes[form.ragged] = form.size
        return tuple(sizes)

    def size(self, dim: int | None = None) -> Any:
        if dim is None:
            return self.shape
        n = self.dim()
        if not -n <= dim < n:
            raise IndexError(f"Dimension out of range (expected to be in range of [{-n}, {n - 1}], but got {dim})")
        dim %= n
        form = self._form
        if isinstance(form, Packed):
            return self._sizes()[dim]
        size = len(form) if dim == 0 else form.common(dim - 1)
        if size is None:
            raise RuntimeError(f"Given dimension {dim} is irregular and does not have a size.")
        return size

    def dim(self) -> int:
        form = self._form
        if isinstance(form, Packed):
            return 1 + plain(self).dim()
        return 1 + len(form.shapes[0]) if form.shapes else 1

    ndimension = dim
    ndim = property(dim)

    def numel(self) -> int:
        form = self._form
        if isinstance(form, Shapes) or form.lengths is None:
            return plain(self).numel()
        return sum(part.numel() for part in parts(self))

    nelement = numel

    def values(self) -> Tensor:
        """Return the tensor that holds the elements: the parts packed along the ragged dimension, or flattened."""
        return plain(self)

    def offsets(self) -> Tensor:
        """Return where each part begins in the ragged dimension of ``values()``, and where the last one ends."""
        return self._packed("offsets").offsets

    def lengths(self) -> Tensor | None:
        """Return how long the parts are, where they do not reach to the next one; else None."""
        return self._packed("lengths").lengths

    # PyTorch's names of attributes, which programs read.
    @property
    def _values(self) -> Tensor:  # type: ignore[override]
        return plain(self)

    @property
    def _offsets(self) -> Tensor:
        return self._packed("_offsets").offsets

    @property
    def _lengths(self) -> Tensor | None:
        return self._packed("_lengths").lengths

    @property
    def _ragged_idx(self) -> int:
        return self._packed("_ragged_idx").ragged

    # None: the extremes are numbers here.
    _max_seqlen_tensor = _min_seqlen_tensor = None

    @property
    def _max_seqlen(self) -> int:
        return self._get_max_seqlen()

    @property
    def _min_seqlen(self) -> int:
        return self._get_min_seqlen()

    def _get_max_seqlen(self) -> int:
        return self._packed("_get_max_seqlen").extremes()[1]

    def _get_min_seqlen(self) -> int:
        return self._packed("_get_min_seqlen").extremes()[0]

    def _packed(self, name: str) -> Packed:
        if not isinstance(self._form, Packed):
            raise AttributeError(f"only nested tensors of layout jagged have {name}; this one is strided")
        return self._form

    def _nested_tensor_size(self) -> Tensor:
        """Return the shapes of the parts, one a row."""
        shapes = [list(part.shape) for part in parts(self)]
        return oneflow.tensor(shapes, dtype=oneflow.int64).reshape(len(shapes), self.dim() - 1)

    def is_contiguous(self, memory_format: oneflow.memory_format = oneflow.contiguous_format) -> bool:
        form = self._form
        return isinstance(form, Shapes) or (form.ragged == 1 and form.lengths is None and plain(self).is_contiguous())

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """Return one tensor of the batch, with ``padding`` where a part ends before the longest; see
        :func:`oneflow.nested.to_padded_tensor`."""
        return _public().to_padded_tensor(self, padding, output_size)

    @property
    def grad(self) -> Tensor | None:
        with DisableTorchFunctionSubclass():
            grad = _plain_grad.__get__(self)
        return None if grad is None else nested(grad, self._form)

    @grad.setter
    def grad(self, grad: Tensor | None) -> None:
        with DisableTorchFunctionSubclass():
            _plain_grad.__set__(self, None if grad is None else plain(grad))

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def data(self) -> Tensor:  # type: ignore[override]
        return self.detach()

    def __len__(self) -> int:
        if isinstance(self._form, Shapes):
            raise RuntimeError("a nested tensor of layout strided has no len(); size(0) is the number of its parts")
        return len(self._form)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(parts(self))

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        form = self._form
        grad = ", requires_grad=True" if self.is_leaf and self.requires_grad else ""
        if not grad and self.grad_fn is not None:
            grad = f", grad_fn=<{type(self.grad_fn).__name__}>"
        if isinstance(form, Packed):
            sizes = ", ".join(map(repr, self._sizes()))
            return f"NestedTensor(size=({sizes}), offsets={form.offsets}{grad}, contiguous={self.is_contiguous()})"
        lines = [str(part.detach()).replace("\n", "\n  ") for part in parts(self)]
        return "nested_tensor([\n  " + ",\n  ".join(lines) + f"\n]{grad})"

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> NestedTensor:
        if not self.is_leaf:
            raise RuntimeError("only nested tensors that a user made can be copied deeply, not results of functions")
        if id(self) not in memo:
            copied = nested(plain(self.detach()).clone(), self._form)
            memo[id(self)] = copied.requires_grad_(self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol: Any) -> Any:
        form, values = self._form, plain(self.detach())
        if isinstance(form, Packed):
            return rebuilt, (values, (form.offsets, form.lengths, form.ragged), "jagged", self.requires_grad)
        return rebuilt, (values, form.shapes, "strided", self.requires_grad)


def _public() -> Any:
    return oneflow.nested


def rebuilt(values: Tensor, form: Any, layout: str, requires_grad: bool) -> NestedTensor:
    """Return the nested tensor that a pickle describes, once what it says has been checked."""
    if layout == "jagged":
        offsets, lengths, ragged = form
        made = _public().nested_tensor_from_jagged(values, offsets, lengths, jagged_dim=ragged)
    else:
        shapes = Shapes([[_count(size) for size in shape] for shape in form])
        if sum(_product(shape) for shape in shapes.shapes) != values.numel() or values.dim() != 1:
            raise ValueError(f"parts of shapes {shapes.shapes} in {values.numel()} elements")
        made = nested(values, shapes)
    return made.requires_grad_(requires_grad)


def _count(size: Any) -> int:
    if not isinstance(size, int) or size < 0:
        raise ValueError(f"a size is {size!r}")
    return size


def nested(values: Tensor, form: Packed | Shapes) -> Any:
    """Return the nested tensor of ``values``, which share memory and gradients with it."""
    with DisableTorchFunctionSubclass():
        made = values.as_subclass(NestedTensor)
    made._form = form
    return made


def plain(t: Tensor) -> Tensor:
    """Return the ordinary tensor below ``t``."""
    if not isinstance(t, NestedTensor):
        return t
    with DisableTorchFunctionSubclass():
        return t.as_subclass(Tensor)


def parts(t: NestedTensor) -> list[Tensor]:
    """Return the parts, which are views."""
    form, values = t._form, plain(t)
    with DisableTorchFunctionSubclass():
        if isinstance(form, Packed):
            dim = form.ragged - 1
            if form.lengths is None:
                return list(values.split([n for _, n in form.bounds()], dim)) if len(form) else []
            return [values.narrow(dim, start, n) for start, n in form.bounds()]
        counts = [_product(shape) for shape in form.shapes]
        flat = values.split(counts) if counts else ()
        return [part.view(shape) for part, shape in zip(flat, form.shapes, strict=True)]


def _product(shape: Sequence[int]) -> int:
    n = 1
    for size in shape:
        n *= size
    return n


def from_parts(made: Sequence[Tensor], like: Packed | Shapes, ragged: int | None = None) -> Any:
    """Return the nested tensor of new parts: of the layout of ``like``, packed along ``ragged`` or as ``like`` is."""
    if isinstance(like, Packed):
        ragged = like.ragged if ragged is None else ragged
        lengths = [part.shape[ragged - 1] for part in made]
        if like.lengths is None and lengths == [n for _, n in like.bounds()]:
            return nested(oneflow.cat(list(made), ragged - 1), like.at(ragged))
        return packed_parts(made, ragged)
    return nested(oneflow.cat([part.reshape(-1) for part in made]), Shapes([part.shape for part in made]))


def packed_parts(made: Sequence[Tensor], ragged: int = 1) -> Any:
    """Return the nested tensor of layout jagged of parts that differ in one dimension."""
    lengths = [part.shape[ragged - 1] for part in made]
    values = oneflow.cat(list(made), ragged - 1)
    ends = oneflow.tensor([0, *lengths], dtype=oneflow.int64).cumsum(0).to(values.device)
    return nested(values, Packed(ends, ragged=ragged, shortest=min(lengths), longest=max(lengths)))
