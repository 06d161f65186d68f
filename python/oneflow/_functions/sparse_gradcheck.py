"""``gradcheck`` of functions that take and return sparse tensors, by the strided tensors of their values."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor

_LAYOUTS = (oneflow.sparse_coo, oneflow.sparse_csr, oneflow.sparse_csc, oneflow.sparse_bsr, oneflow.sparse_bsc)


def as_sparse_gradcheck(gradcheck: Callable[..., bool]) -> Callable[..., bool]:
    """Let ``gradcheck`` check functions that take or return sparse tensors.

    Args:
        gradcheck: :func:`oneflow.autograd.gradcheck`, or what calls it, such as a ``functools.partial`` of it.

    Returns:
        A function with its arguments and ``masked``: whether sparse inputs are checked by their stored elements alone
        (False by default: by all of their elements).

    Example::

        >>> gradcheck = oneflow.sparse.as_sparse_gradcheck(oneflow.autograd.gradcheck)
        >>> x = oneflow.tensor([[0.0, 1.0], [2.0, 3.0]], dtype=oneflow.float64).to_sparse().requires_grad_()
        >>> gradcheck(lambda x: x.to_sparse_csr(), x)
        True
    """

    @functools.wraps(gradcheck)
    def check(func: Callable[..., Any], inputs: Any, **kwargs: Any) -> bool:
        masked = bool(kwargs.pop("masked", False))
        given = tuple(inputs) if isinstance(inputs, (list, tuple)) else (inputs,)
        forms = {i: _Form(x, masked) for i, x in enumerate(given) if _is_checked(x)}
        values = tuple(forms[i].values if i in forms else x for i, x in enumerate(given))

        def of_values(*args: Any, **rest: Any) -> Any:
            made = func(*(forms[i].of(x) if i in forms else x for i, x in enumerate(args)), **rest)
            if isinstance(made, (list, tuple)):
                return tuple(_strided(y, masked) for y in made)
            return _strided(made, masked)

        return gradcheck(of_values, values, **kwargs)

    return check


def _is_checked(x: Any) -> bool:
    return isinstance(x, Tensor) and x.requires_grad and x.layout in _LAYOUTS


def _strided(y: Any, masked: bool) -> Any:
    return y.to_dense(masked_grad=masked) if _is_checked(y) else y


class _Form:
    """The places of a sparse tensor, of all of its elements without ``masked``; and its values, a strided leaf."""

    def __init__(self, x: Tensor, masked: bool) -> None:
        self._shape, self._layout = x.shape, x.layout
        x = x.detach()
        if not masked:
            dense = x.to_dense()
            x = dense.sparse_mask(_everywhere(x))
        self._is_coalesced = x.is_coalesced() if self._layout is oneflow.sparse_coo else True
        self._places: tuple[Tensor, ...]
        if self._layout is oneflow.sparse_coo:
            self._places, values = (x._indices(),), x._values()
        elif self._layout in (oneflow.sparse_csr, oneflow.sparse_bsr):
            self._places, values = (x.crow_indices(), x.col_indices()), x.values()
        else:
            self._places, values = (x.ccol_indices(), x.row_indices()), x.values()
        self.values = values.clone().requires_grad_()

    def of(self, values: Tensor) -> Tensor:
        """The sparse tensor with other values."""
        if self._layout is oneflow.sparse_coo:
            return oneflow.sparse_coo_tensor(self._places[0], values, self._shape, is_coalesced=self._is_coalesced)
        return oneflow.sparse_compressed_tensor(*self._places, values, self._shape, layout=self._layout)


def _everywhere(x: Tensor) -> Tensor:
    """A mask in the layout of a tensor that stores all of its elements."""
    blocks = None
    if x.layout in (oneflow.sparse_bsr, oneflow.sparse_bsc):
        at = x.dim() - x.dense_dim() - x.sparse_dim() + 1
        blocks = tuple(x.values().shape[at : at + 2])
    mask = oneflow.ones(x.shape, dtype=oneflow.bool, device=x.device)
    return mask.to_sparse(layout=x.layout, blocksize=blocks, dense_dim=x.dense_dim())
