"""Sparse tensors by coordinates (COO): constructors, and methods that read their parts. Their ops are compiled."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._functions import compressed
from oneflow._functions.sparse_indices import check_sparse_tensor_invariants, entries_at, in_order
from oneflow._oneflow import Function

_C = _oneflow._C


def sparse_coo_tensor(
    indices: Any,
    values: Any = None,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Tensor:
    """A sparse tensor with ``values`` at ``indices`` and zero elsewhere. Values of one index count together.

    Args:
        indices: [sparse dims, nnz], integers.
        values: [nnz] or [nnz, dense dims...].
        size: sizes of the whole; left out, just large enough for the indices.
        dtype: of the values; theirs if left out.
        device: of the values; theirs if left out.
        requires_grad: whether ops are recorded.
        check_invariants: whether the promise of ``is_coalesced`` is checked as well; None does what
            :class:`oneflow.sparse.check_sparse_tensor_invariants` says. Indices and sizes are always checked.
        is_coalesced: True promises that every index is there once and in order.

    Raises:
        RuntimeError: sizes do not fit, an index is negative or outside ``size``, or a checked promise is broken.

    Example::

        >>> oneflow.sparse_coo_tensor([[0, 1]], [3.0, 4.0], (3,)).to_dense()
        tensor([3., 4., 0.])
    """
    if values is None or (size is None and isinstance(indices, (tuple, oneflow.Size)) and not _is_rows(indices)):
        size = indices if size is None else size
        indices, values = oneflow.zeros((len(size), 0), dtype=oneflow.int64), oneflow.zeros((0,), dtype=dtype)
    values = oneflow.as_tensor(values, dtype=dtype, device=device)
    at = oneflow.as_tensor(indices, device=values.device)
    at = at.to(oneflow.int64)
    if at.dim() != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(at.shape)}")
    if values.dim() == 0:
        values = values.reshape(1).expand(at.shape[1])
    if size is None:
        if at.shape[1] == 0:
            raise RuntimeError("sparse_coo_tensor(): without indices the size must be given")
        size = [int(n) + 1 for n in at.amax(1).tolist()] + list(values.shape[1:])
    size = [int(n) for n in size]
    _check(at, size)
    checked = check_sparse_tensor_invariants.is_enabled() if check_invariants is None else check_invariants
    if checked and is_coalesced and not in_order(at, size):
        raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")
    if values.requires_grad and oneflow.is_grad_enabled():
        return _FromParts.apply(values, at, size, bool(is_coalesced))
    made = _C._sparse_coo(at, values.detach(), size, bool(is_coalesced))
    return made.requires_grad_() if requires_grad else made


class _FromParts(Function):
    """A sparse tensor of values that want a gradient: that of the sparse tensor at their indices."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, at: Tensor, size: list[int], is_coalesced: bool) -> Tensor:
        ctx.at, ctx.size = at, size
        return _C._sparse_coo(at, values.detach(), size, is_coalesced)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        return entries_at(grads[0], ctx.at, ctx.size), None, None, None


def _is_rows(indices: Any) -> bool:
    return bool(indices) and isinstance(indices[0], (list, tuple, Tensor))


def _check(at: Tensor, size: list[int]) -> None:
    if at.shape[0] > len(size):
        raise RuntimeError(f"number of dimensions must be sparse_dim ({at.shape[0]}) + dense_dim, but got {len(size)}")
    if at.shape[1] == 0 or at.is_meta:
        return
    for d, (low, high) in enumerate(zip(at.amin(1).tolist(), at.amax(1).tolist(), strict=True)):
        if low < 0:
            raise RuntimeError(f"found negative index {low} for dim {d}")
        if high >= size[d]:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {d}, size is {size[d]} but found index {high}"
            )


# ---- methods


def _indices(self: Tensor) -> Tensor:
    """The indices [sparse dims, nnz], as they are kept."""
    return _C._sparse_indices(self)


def _values(self: Tensor) -> Tensor:
    """The values [nnz, dense dims...], as they are kept."""
    return _C._sparse_values(self)


def indices(self: Tensor) -> Tensor:
    """The indices of a coalesced tensor: every one once, in order.

    Example::

        >>> oneflow.eye(2).to_sparse().indices()
        tensor([[0, 1],
                [0, 1]])
    """
    return _coalesced(self, "indices", _C._sparse_indices)


def values(self: Tensor) -> Tensor:
    """The values of a coalesced tensor, or of one in a compressed layout.

    Example::

        >>> oneflow.eye(2).to_sparse().values()
        tensor([1., 1.])
    """
    if compressed.is_compressed(self):
        return compressed.values(self)
    if self.requires_grad and oneflow.is_grad_enabled():
        return _coalesced(self, "values", _Values.apply)
    return _coalesced(self, "values", _C._sparse_values)


class _Values(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.at, ctx.size = _C._sparse_indices(x), list(x.shape)
        return _C._sparse_values(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return _C._sparse_coo(ctx.at, grads[0], ctx.size, True)


def _coalesced(self: Tensor, name: str, part: Any) -> Tensor:
    if not self.is_sparse:
        raise RuntimeError(f"{name} expected sparse coordinate tensor layout but got {compressed.title(self)}")
    if not self.is_coalesced():
        raise RuntimeError(f"Cannot get {name} on an uncoalesced tensor, please call .coalesce() first")
    return part(self)


def _nnz(self: Tensor) -> int:
    """Number of entries that are kept; of one matrix of a batch."""
    if compressed.is_compressed(self):
        return _C._sparse_compressed_parts(self)[1].shape[-1]
    return _C._sparse_indices(self).shape[1]


def is_coalesced(self: Tensor) -> bool:
    """Return whether every index is there once, in order.

    Example::

        >>> oneflow.eye(2).to_sparse().is_coalesced()
        True
    """
    if not self.is_sparse:
        raise RuntimeError(f"is_coalesced expected sparse coordinate tensor layout but got {compressed.title(self)}")
    return _C._sparse_facts(self)[0]


def coalesce(self: Tensor) -> Tensor:
    """The same tensor with every index once, in order; values of one index are added.

    Example::

        >>> oneflow.eye(2).to_sparse().coalesce().values()
        tensor([1., 1.])
    """
    if not self.is_sparse:
        raise RuntimeError(f"coalesce expected sparse coordinate tensor layout but got {compressed.title(self)}")
    if self.requires_grad and oneflow.is_grad_enabled() and not _C._sparse_facts(self)[0]:
        return _Coalesce.apply(self)
    return _C._sparse_coalesce(self)


def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    """Say of a tensor, in place, whether every index is there once and in order; it is not checked.

    Raises:
        RuntimeError: it is no sparse tensor by coordinates.
    """
    if not self.is_sparse:
        raise RuntimeError(f"_coalesced_ expected sparse coordinate tensor layout but got {compressed.title(self)}")
    self.data = _C._sparse_coo(_C._sparse_indices(self), _C._sparse_values(self), list(self.shape), coalesced)
    return self


class _Coalesce(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _C._sparse_coalesce(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


def sparse_dim(self: Tensor) -> int:
    """Number of sparse dimensions; 0 for a dense tensor.

    Example::

        >>> oneflow.eye(2).to_sparse().sparse_dim()
        2
    """
    if compressed.is_compressed(self):
        return 2
    return _C._sparse_facts(self)[1] if self.is_sparse else 0


def dense_dim(self: Tensor) -> int:
    """Number of dimensions of each value; for a dense tensor all of them.

    Example::

        >>> oneflow.eye(2).to_sparse().dense_dim()
        0
    """
    if compressed.is_compressed(self):
        return _C._sparse_compressed_facts(self)[1]
    return self.dim() - self.sparse_dim()


class _ToDense(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, masked: bool) -> Tensor:
        # Every index once: the gradient of an entry that several values make up is there once.
        unique = _C._sparse_coalesce(x) if x.is_sparse else x.detach()
        ctx.pattern = unique if masked else None
        return _C._sparse_to_dense(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        if ctx.pattern is None:
            return grads[0], None
        if compressed.is_compressed(ctx.pattern):
            return compressed.at_places_of(grads[0], ctx.pattern), None
        return _C._sparse_mask(grads[0].contiguous(), ctx.pattern), None


def to_dense(self: Tensor, dtype: Any = None, *, masked_grad: bool | None = None) -> Tensor:
    """The tensor with its zeros; a dense tensor is returned as it is.

    Args:
        dtype: of the result; the tensor's own if left out.
        masked_grad: whether a sparse tensor's gradient has entries where the tensor has some (True unless given), or
            is dense.

    Example::

        >>> oneflow.eye(2).to_sparse().to_dense()
        tensor([[1., 0.],
                [0., 1.]])
    """
    dense = self
    if self.layout is not oneflow.strided:
        dense = _ToDense.apply(self, masked_grad is not False) if self.requires_grad else _C._sparse_to_dense(self)
    return dense if dtype is None else dense.to(dtype)


def to_sparse(
    self: Tensor, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: Any = None
) -> Tensor:
    """The entries that are not zero.

    Args:
        sparse_dim: number of leading dimensions that become sparse; all of them if left out.
        layout: sparse_coo, a compressed layout, or strided, which is :meth:`to_dense`.
        blocksize: rows and columns of a block, of the layouts sparse_bsr and sparse_bsc.
        dense_dim: number of last dimensions that stay dense, in place of ``sparse_dim``.

    Raises:
        RuntimeError: arguments that do not fit the layout or the tensor.

    Example::

        >>> oneflow.eye(2).to_sparse().is_sparse
        True
    """
    if layout is oneflow.strided:
        return self.to_dense()
    if sparse_dim is not None and dense_dim is not None:
        raise RuntimeError("to_sparse(): give sparse_dim or dense_dim, not both")
    if compressed.layout_name(layout):
        if sparse_dim not in (None, 2):
            raise RuntimeError(f"to_sparse(): a compressed layout has two sparse dimensions, got {sparse_dim}")
        return compressed.to_layout(self, layout, blocksize, dense_dim)
    if layout is not None and layout is not oneflow.sparse_coo:
        raise RuntimeError(f"to_sparse(): {layout} is no layout of a sparse tensor")
    if blocksize is not None:
        raise RuntimeError("to_sparse(): blocksize belongs to the layouts sparse_bsr and sparse_bsc")
    if compressed.is_compressed(self):
        return compressed.to_layout(self, oneflow.sparse_coo, None, None)
    if self.is_sparse:
        return self
    n = self.dim() - (dense_dim or 0) if sparse_dim is None else sparse_dim
    if not min(1, self.dim()) <= n <= self.dim():
        raise RuntimeError(f"to_sparse(): sparse_dim argument must be in [1, {self.dim()}], got {n}")
    return _ToSparse.apply(self, n) if self.requires_grad else _C._sparse_to_coo(self, n)


class _ToSparse(Function):
    """Entries that are left out count as no function of the tensor, as everywhere with sparse tensors."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, n: int) -> Tensor:
        ctx.pattern = _C._sparse_to_coo(x.detach(), n)
        return ctx.pattern.detach()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        dense = _C._sparse_to_dense(grads[0]) if grads[0].is_sparse else grads[0]
        return _C._sparse_to_dense(_C._sparse_mask(dense.contiguous(), ctx.pattern)), None


def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The entries of a dense tensor, or of one in a compressed layout, at the places of the sparse ``mask``.

    Example::

        >>> oneflow.ones(2, 2).sparse_mask(oneflow.eye(2).to_sparse().coalesce()).values()
        tensor([1., 1.])
    """
    if mask.layout is oneflow.strided:
        raise RuntimeError("sparse_mask(): the mask must be sparse, but got a dense one")
    if self.requires_grad and oneflow.is_grad_enabled():
        return _Masked.apply(self, mask)
    return _C._sparse_mask(self, mask)


class _Masked(Function):
    """Entries at the places of a mask: those of a tensor that are left out have no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mask: Tensor) -> Tensor:
        ctx.mask, ctx.x = mask.detach(), None if x.layout is oneflow.strided else x.detach()
        return _C._sparse_mask(x.detach(), ctx.mask)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        grad = grads[0] if grads[0].layout is not oneflow.strided else _C._sparse_mask(grads[0], ctx.mask)
        if ctx.x is None:
            return grad.to_dense(), None
        return compressed.at_places_of(grad, ctx.x) if compressed.is_compressed(ctx.x) else grad, None


def mm(sparse: Tensor, dense: Tensor, reduce: str | None = None) -> Tensor:
    """The product of two matrices, one of them sparse. The sparse one's gradient has entries where it has some.

    Args:
        sparse: (n, m).
        dense: (m, p).
        reduce: what becomes of the products of a row's entries, of a CSR matrix: ``sum``, which is the product of
            matrices, ``mean``, ``amax`` or ``amin``.

    Example::

        >>> a = oneflow.eye(2).to_sparse()
        >>> oneflow.sparse.mm(a, oneflow.ones(2, 1))
        tensor([[1.],
                [1.]])
    """
    from oneflow._functions import compressed_products

    if reduce is not None:
        return compressed_products.mm_reduced(sparse, dense, reduce)
    if compressed.is_compressed(sparse) and sparse.requires_grad and dense.layout is oneflow.strided:
        return compressed_products.mm(sparse, dense)
    if not (sparse.is_sparse and sparse.requires_grad) or dense.is_sparse or sparse.dense_dim():
        return oneflow.mm(sparse, dense)
    unique = sparse.coalesce()
    rows, columns = unique.indices()
    terms = dense[columns] * unique.values().unsqueeze(1)
    return terms.new_zeros((sparse.shape[0], dense.shape[1])).index_add(0, rows, terms)


def sum(input: Tensor, dim: Any = None, dtype: Any = None) -> Tensor:
    """The sum of all entries, or over dimensions; the gradient has entries where ``input`` has some.

    Args:
        input: a sparse tensor.
        dim: a dimension, or several; all of them if left out.
        dtype: of the values that are added up; the tensor's own if left out.

    Returns:
        a sparse tensor if dimensions with indices are left, else a dense one.

    Example::

        >>> oneflow.sparse.sum(oneflow.eye(2).to_sparse())
        tensor(2.)
    """
    unique = input.coalesce()
    at, values, n = unique.indices(), unique.values(), input.sparse_dim()
    values = values if dtype is None else values.to(dtype)
    if dim is None:
        return values.sum()
    dims = {d + input.dim() if d < 0 else d for d in ([dim] if isinstance(dim, int) else dim)}
    for d in dims:
        if not 0 <= d < input.dim():
            raise IndexError(f"sparse.sum(): dimension {d} is out of range for size {list(input.shape)}")
    of_values = [d - n + 1 for d in sorted(dims) if d >= n]
    values = values.sum(of_values) if of_values else values
    rows = [d for d in range(n) if d not in dims]
    if not rows:
        return values.sum(0)
    size = [length for d, length in enumerate(input.shape) if d not in dims]
    made = oneflow.sparse_coo_tensor(at[rows], values, size)
    return made.coalesce() if len(rows) < n else made


_OWN = (
    _indices,
    _values,
    indices,
    values,
    _nnz,
    is_coalesced,
    coalesce,
    _coalesced_,
    sparse_dim,
    dense_dim,
    to_dense,
    to_sparse,
    sparse_mask,
)
METHODS: dict[str, Any] = {
    **{method.__name__: method for method in _OWN},
    **compressed.METHODS,
    "to_sparse_coo": to_sparse,
    "_dimI": sparse_dim,
    "_dimV": dense_dim,
}
