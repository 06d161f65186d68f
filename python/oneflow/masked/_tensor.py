"""The class of masked tensors, and how its objects are made and taken apart."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

import oneflow
from oneflow import Tensor
from oneflow._functions import compressed
from oneflow.overrides import DisableTorchFunctionSubclass

_plain_grad: Any = Tensor.grad
_LAYOUTS = (oneflow.strided, oneflow.sparse_coo, oneflow.sparse_csr)


class MaskedTensor(Tensor):
    """A tensor and a mask that says which of its elements count.

    The memory is that of an ordinary tensor, so that elementwise functions cost what they cost there. Gradients are
    masked tensors of the same mask. An ordinary tensor that meets a masked one, or becomes one by
    :func:`as_masked_tensor`, has an ordinary gradient, to which excluded elements add nothing.

    Args:
        data: a tensor of any shape, of layout strided, sparse_coo or sparse_csr. It is copied.
        mask: a tensor of booleans of the same shape and layout, true where an element counts. It is copied.
        requires_grad: whether gradients are computed with respect to the new tensor.

    Raises:
        TypeError: one of the two is no tensor, the mask has no booleans, or the layouts differ.
        ValueError: the shapes differ, or the indices of sparse tensors.

    Example::

        >>> masked = oneflow.masked.MaskedTensor(oneflow.tensor([1.0, 2.0, 4.0]), oneflow.tensor([True, False, True]))
        >>> masked.sum()
        MaskedTensor(  5.0000, True)
        >>> (masked * 2).to_tensor(0)
        tensor([2., 0., 8.])
    """

    _mask: Tensor
    _parts = ("masked tensors", "their get_data() and get_mask()")

    def __new__(cls, data: Tensor, mask: Tensor, requires_grad: bool = False) -> Any:
        data, mask = _fitting(data, mask)
        if data.requires_grad:
            warnings.warn(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad. "
                "To avoid this, you can use data.detach().clone()",
                UserWarning,
                stacklevel=2,
            )
        return masked(data.detach().clone(), mask.clone()).requires_grad_(requires_grad)

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        from oneflow.masked._rules import answer

        if not all(issubclass(t, MaskedTensor) or t in (Tensor, oneflow.nn.Parameter) for t in types):
            return NotImplemented
        return answer(func, args, kwargs or {})

    def get_data(self) -> Tensor:
        """Return the ordinary tensor, which shares memory; excluded elements have gradients of zero.

        Example::

            >>> x = oneflow.tensor([1.0, 2.0])
            >>> oneflow.masked.masked_tensor(x, x > 1).get_data()
            tensor([1., 2.])
        """
        return kept(plain(self), self._mask)

    def get_mask(self) -> Tensor:
        """Return the mask.

        Example::

            >>> x = oneflow.tensor([1.0, 2.0])
            >>> oneflow.masked.masked_tensor(x, x > 1).get_mask()
            tensor([False,  True])
        """
        return self._mask

    def to_tensor(self, value: float) -> Tensor:
        """Return an ordinary tensor with ``value`` in the place of excluded elements.

        Example::

            >>> x = oneflow.tensor([1.0, 2.0])
            >>> oneflow.masked.masked_tensor(x, x > 1).to_tensor(-1)
            tensor([-1.,  2.])
        """
        return plain(self).masked_fill(~self._mask, value)

    def is_sparse_coo(self) -> bool:
        return self.layout == oneflow.sparse_coo

    def is_sparse_csr(self) -> bool:  # type: ignore[override]
        return self.layout == oneflow.sparse_csr

    @property
    def is_sparse(self) -> bool:
        return self.is_sparse_coo() or self.is_sparse_csr()

    @property
    def grad(self) -> Tensor | None:
        with DisableTorchFunctionSubclass():
            grad = _plain_grad.__get__(self)
        return None if grad is None else masked(grad, self._mask)

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

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        data, mask = plain(self.detach()), self._mask
        if data.layout != oneflow.strided:
            data, mask = data.to_dense(), mask.to_dense()
        if data.dim() == 0:
            shown = _texts(data.reshape(1))[0] if mask else "--"
            return f"MaskedTensor({shown}, {bool(mask)})"
        return f"MaskedTensor(\n{textwrap.indent(_text(data, mask), '  ')}\n)"

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)


def _text(data: Tensor, mask: Tensor) -> str:
    if data.dim() > 1:
        rows = [textwrap.indent(_text(row, counts), "  ") for row, counts in zip(data, mask, strict=True)]
        return "[\n" + ",\n".join(rows) + "\n]"
    texts, counts = _texts(data), mask.tolist()
    width = max((len(text) if shown else 8 for text, shown in zip(texts, counts, strict=True)), default=0)
    shown = (text if is_shown else "--".rjust(width) for text, is_shown in zip(texts, counts, strict=True))
    return "[" + ", ".join(shown) + "]"


def _texts(row: Tensor) -> list[str]:
    return [f"{x:8.4f}" if isinstance(x, float) else str(x) for x in row.tolist()]


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """Return a masked tensor of copies of ``data`` and ``mask``, without history.

    Args:
        data, mask, requires_grad: as those of :class:`MaskedTensor`.

    Example::

        >>> x = oneflow.tensor([[1.0, float("nan")], [3.0, 4.0]])
        >>> oneflow.masked.masked_tensor(x, ~x.isnan()).mean(1)
        MaskedTensor(
          [  1.0000,   3.5000]
        )
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """Return a masked tensor of copies of ``data`` and ``mask``, through which gradients reach ``data``.

    Excluded elements have gradients of zero there. Behind ``data`` gradients are those of ordinary functions: what is
    zero times infinity in one of them is NaN.

    Args:
        data, mask: as those of :class:`MaskedTensor`.

    Example::

        >>> x = oneflow.tensor([1.0, 2.0, 4.0], requires_grad=True)
        >>> oneflow.masked.as_masked_tensor(x, x != 2).prod().backward()
        >>> x.grad
        tensor([4., 0., 1.])
    """
    data, mask = _fitting(data, mask)
    return masked(kept(data, mask).clone(), mask.clone())


def is_masked_tensor(obj: Any, /) -> TypeGuard[MaskedTensor]:
    """Return whether ``obj`` is a :class:`MaskedTensor`.

    Example::

        >>> oneflow.masked.is_masked_tensor(oneflow.ones(2))
        False
    """
    return isinstance(obj, MaskedTensor)


def _fitting(data: Any, mask: Any) -> tuple[Tensor, Tensor]:
    """Return data and mask, once it is known that they fit; sparse data has the indices of its mask."""
    for name, given in (("data", data), ("mask", mask)):
        if not isinstance(given, Tensor) or isinstance(given, MaskedTensor):
            raise TypeError(f"{name} must be a Tensor, got {type(given).__name__}")
    if data.layout != mask.layout:
        raise TypeError(f"data and mask must have the same layout. Got {data.layout} and {mask.layout}")
    if data.layout not in _LAYOUTS:
        raise TypeError(f"data layout of {data.layout} is not supported.")
    if mask.dtype != oneflow.bool:
        raise TypeError(f"mask must have dtype bool, got {mask.dtype}")
    if data.dim() != mask.dim():
        raise ValueError(f"data.dim() must equal mask.dim(), got {data.dim()} and {mask.dim()}")
    if data.shape != mask.shape:
        raise ValueError(f"data.size() must equal mask.size(), got {tuple(data.shape)} and {tuple(mask.shape)}")
    if data.layout == oneflow.strided:
        return data, mask
    if data.layout == oneflow.sparse_coo:
        data, mask = data.coalesce(), mask.coalesce()
    if data._nnz() != mask._nnz():
        data = data.sparse_mask(mask)
    if not same_indices(data, mask):
        if data.layout == oneflow.sparse_coo:
            raise ValueError("data and mask are both sparse COO tensors but do not have the same indices.")
        raise ValueError("data and mask are both sparse CSR tensors but do not share either crow or col indices.")
    return data, mask


def indices_of(x: Tensor) -> tuple[Tensor, ...]:
    """Return the tensors that say where the values of a sparse tensor are."""
    return (x.indices(),) if x.layout == oneflow.sparse_coo else (x.crow_indices(), x.col_indices())


def same_indices(a: Tensor, b: Tensor) -> bool:
    """Return whether two sparse tensors of one layout have values at the same places, in the same order."""
    return all(oneflow.equal(x, y) for x, y in zip(indices_of(a), indices_of(b), strict=True))


def with_values(like: Tensor, values: Tensor) -> Tensor:
    """Return the sparse tensor of ``values`` at the places of another."""
    if like.layout == oneflow.sparse_coo:
        return oneflow.sparse_coo_tensor(like.indices(), values, like.shape, is_coalesced=True)
    return compressed.sparse_csr_tensor(like.crow_indices(), like.col_indices(), values, like.shape)


def masked(data: Tensor, mask: Tensor) -> Any:
    """Return the masked tensor of ``data``, which shares memory and gradients with it."""
    with DisableTorchFunctionSubclass():
        made = data.as_subclass(MaskedTensor)
        made._mask = mask
    return made


def plain(x: Tensor) -> Tensor:
    """Return the ordinary tensor below ``x``."""
    if not isinstance(x, MaskedTensor):
        return x
    with DisableTorchFunctionSubclass():
        return x.as_subclass(Tensor)


def kept(x: Tensor, mask: Tensor) -> Tensor:
    """Return a view of ``x`` in the shape of ``mask`` whose gradient is zero at excluded elements, even if NaN."""
    if not x.requires_grad or not oneflow.is_grad_enabled() or x.layout != oneflow.strided:
        return x
    view = x.expand(mask.shape)
    view.register_hook(lambda grad: oneflow.where(mask, grad, 0))
    return view
