"""Compressed sparse tensors (CSR, CSC, BSR, BSC): constructors, conversions, and methods that read their parts."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._functions.sparse_indices import check_sparse_tensor_invariants, entries_at
from oneflow._oneflow import Function

_C = _oneflow._C

# What messages call the layouts.
_TITLES = {"sparse_csr": "SparseCsr", "sparse_csc": "SparseCsc", "sparse_bsr": "SparseBsr", "sparse_bsc": "SparseBsc"}


def layout_name(layout: Any) -> str:
    """The name of a compressed layout; "" of others."""
    name = repr(layout).rpartition(".")[2]
    return name if name in _TITLES else ""


def title(tensor: Tensor) -> str:
    """What messages call the layout of a tensor."""
    return _TITLES.get(layout_name(tensor.layout), "Sparse" if tensor.is_sparse else "Strided")


def is_compressed(tensor: Tensor) -> bool:
    """Return whether a tensor has a compressed layout."""
    return layout_name(tensor.layout) != ""


def sparse_compressed_tensor(
    compressed_indices: Any,
    plain_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Tensor:
    """A sparse tensor in a compressed layout. Batches stand before rows and columns; each has as many entries.

    Args:
        compressed_indices: [batch..., n + 1], where the entries of each row (CSR, BSR) or column (CSC, BSC) start.
        plain_indices: [batch..., nnz], the place of each entry in the other dimension.
        values: [batch..., nnz, dense dims...], or [batch..., nnz, rows, columns, dense dims...] of blocks.
        size: of the whole; left out, just large enough for the indices.
        dtype: of the values; theirs if left out.
        layout: sparse_csr, sparse_csc, sparse_bsr or sparse_bsc.
        device: of the values; theirs if left out.
        pin_memory: False.
        requires_grad: whether ops are recorded.
        check_invariants: whether entries are checked to be distinct and in order as well; None does what
            :class:`oneflow.sparse.check_sparse_tensor_invariants` says. Bounds are always checked.

    Raises:
        RuntimeError: the layout is none of these, or the parts do not fit each other.

    Example::

        >>> oneflow.sparse_compressed_tensor([0, 1, 2], [1, 0], [3.0, 4.0], layout=oneflow.sparse_csr).to_dense()
        tensor([[0., 3.],
                [4., 0.]])
    """
    name = layout_name(layout)
    if not name:
        raise RuntimeError(f"sparse_compressed_tensor expected sparse compressed tensor layout but got {layout}")
    if pin_memory:
        raise NotImplementedError(f"{name}_tensor(): pin_memory=True is not supported for sparse tensors")
    values = oneflow.as_tensor(values, dtype=dtype, device=device)
    starts = oneflow.as_tensor(compressed_indices, device=values.device)
    plain = oneflow.as_tensor(plain_indices, device=values.device)
    if size is None:
        size = _size_of(name, starts, plain, values)
    checked = check_sparse_tensor_invariants.is_enabled() if check_invariants is None else check_invariants
    made = _C._sparse_compressed(name, [starts, plain, values.detach()], [int(n) for n in size], bool(checked))
    if values.requires_grad and oneflow.is_grad_enabled():
        return _WithValues.apply(values, made)
    return made.requires_grad_() if requires_grad else made


def _size_of(name: str, starts: Tensor, plain: Tensor, values: Tensor) -> list[int]:
    """The smallest size that the parts fit in."""
    blocked = name in ("sparse_bsr", "sparse_bsc")
    n_batch = plain.dim() - 1
    if starts.dim() == 0 or plain.dim() == 0 or values.dim() < n_batch + (3 if blocked else 1):
        raise RuntimeError(
            f"{name}_tensor(): the parts do not fit each other: compressed indices {list(starts.shape)}, "
            f"plain indices {list(plain.shape)}, values {list(values.shape)}"
        )
    block = list(values.shape[n_batch + 1 : n_batch + 3]) if blocked else [1, 1]
    major, minor = starts.shape[-1] - 1, int(plain.max()) + 1 if plain.numel() else 0
    matrix = [major, minor] if name in ("sparse_csr", "sparse_bsr") else [minor, major]
    dense = values.shape[n_batch + (3 if blocked else 1) :]
    return [*plain.shape[:-1], *(n * b for n, b in zip(matrix, block, strict=True)), *dense]


def sparse_csr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Any = None, **options: Any) -> Tensor:
    """A sparse tensor by rows (CSR): :func:`sparse_compressed_tensor` of that layout.

    Args:
        crow_indices: [batch..., rows + 1], where the entries of each row start.
        col_indices: [batch..., nnz], the column of each entry.
        values: [batch..., nnz, dense dims...].
        size: of the whole; left out, just large enough.
        options: ``dtype``, ``device``, ``pin_memory``, ``requires_grad``, ``check_invariants`` as there.

    Example::

        >>> oneflow.sparse_csr_tensor([0, 1, 3], [1, 0, 1], [1.0, 2.0, 3.0]).to_dense()
        tensor([[0., 1.],
                [2., 3.]])
    """
    return _in_layout("sparse_csr", (crow_indices, col_indices, values, size), options)


def sparse_csc_tensor(ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, **options: Any) -> Tensor:
    """A sparse tensor by columns (CSC): :func:`sparse_compressed_tensor` of that layout.

    Args:
        ccol_indices: [batch..., columns + 1], where the entries of each column start.
        row_indices: [batch..., nnz], the row of each entry.
        values: [batch..., nnz, dense dims...].
        size: of the whole; left out, just large enough.
        options: ``dtype``, ``device``, ``pin_memory``, ``requires_grad``, ``check_invariants`` as there.

    Example::

        >>> oneflow.sparse_csc_tensor([0, 1, 3], [1, 0, 1], [1.0, 2.0, 3.0]).to_dense()
        tensor([[0., 2.],
                [1., 3.]])
    """
    return _in_layout("sparse_csc", (ccol_indices, row_indices, values, size), options)


def sparse_bsr_tensor(crow_indices: Any, col_indices: Any, values: Any, size: Any = None, **options: Any) -> Tensor:
    """A sparse tensor of blocks by rows (BSR): :func:`sparse_compressed_tensor` of that layout.

    Args:
        crow_indices: [batch..., rows of blocks + 1], where the blocks of each row start.
        col_indices: [batch..., nnz], the column of each block.
        values: [batch..., nnz, rows, columns, dense dims...].
        size: of the whole; left out, just large enough.
        options: ``dtype``, ``device``, ``pin_memory``, ``requires_grad``, ``check_invariants`` as there.

    Example::

        >>> oneflow.sparse_bsr_tensor([0, 1], [1], oneflow.ones(1, 1, 2)).to_dense()
        tensor([[0., 0., 1., 1.]])
    """
    return _in_layout("sparse_bsr", (crow_indices, col_indices, values, size), options)


def sparse_bsc_tensor(ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, **options: Any) -> Tensor:
    """A sparse tensor of blocks by columns (BSC): :func:`sparse_compressed_tensor` of that layout.

    Args:
        ccol_indices: [batch..., columns of blocks + 1], where the blocks of each column start.
        row_indices: [batch..., nnz], the row of each block.
        values: [batch..., nnz, rows, columns, dense dims...].
        size: of the whole; left out, just large enough.
        options: ``dtype``, ``device``, ``pin_memory``, ``requires_grad``, ``check_invariants`` as there.

    Example::

        >>> oneflow.sparse_bsc_tensor([0, 1], [1], oneflow.ones(1, 1, 2)).to_dense()
        tensor([[0., 0.],
                [1., 1.]])
    """
    return _in_layout("sparse_bsc", (ccol_indices, row_indices, values, size), options)


def _in_layout(name: str, parts: tuple[Any, ...], options: dict[str, Any]) -> Tensor:
    layout = getattr(oneflow, name)
    if options.pop("layout", None) not in (None, layout):
        raise RuntimeError(f"{name}_tensor(): the layout of this function is {layout}")
    unknown = options.keys() - _OPTIONS
    if unknown:
        raise TypeError(f"{name}_tensor() got an unexpected keyword argument '{min(unknown)}'")
    return sparse_compressed_tensor(*parts, layout=layout, **options)


_OPTIONS = {"dtype", "device", "pin_memory", "requires_grad", "check_invariants"}


class _WithValues(Function):
    """A compressed tensor of values that want a gradient: that of the tensor at their places."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, made: Tensor) -> Tensor:
        ctx.made = made
        return _C._sparse_with_values(made, values.detach())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        return _C._sparse_values_at(grads[0], ctx.made), None


class _Values(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.x = x.detach()
        return _C._sparse_compressed_parts(x)[2]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return _C._sparse_with_values(ctx.x, grads[0])


def values(self: Tensor) -> Tensor:
    """The values of a compressed tensor."""
    if self.requires_grad and oneflow.is_grad_enabled():
        return _Values.apply(self)
    return _C._sparse_compressed_parts(self)[2]


class _Converted(Function):
    """The same entries in another layout. The gradient has the layout of the tensor that was converted."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layout: str, block: list[int], n_dense: int) -> Tensor:
        ctx.x = x.detach()
        return _converted(ctx.x, layout, block, n_dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None, None]:
        grad = grads[0]
        if ctx.x.layout is oneflow.strided:
            return grad.to_dense(), None, None, None
        if not ctx.x.is_sparse:
            return at_places_of(grad, ctx.x), None, None, None
        unique, size = ctx.x.coalesce(), list(ctx.x.shape)
        values = entries_at(grad.to_sparse() if is_compressed(grad) else grad, unique._indices(), size)
        return _C._sparse_coo(unique._indices(), values, size, True), None, None, None


def at_places_of(grad: Tensor, like: Tensor) -> Tensor:
    """A gradient, dense or sparse, at the places of a compressed tensor."""
    return _C._sparse_with_values(like, _C._sparse_values_at(grad, like))


def _converted(x: Tensor, layout: str, block: list[int], n_dense: int) -> Tensor:
    if layout == "sparse_coo":
        return _C._sparse_to_coo(x, x.dim() - n_dense)
    made = _C._sparse_to_compressed(x, layout, block, n_dense)
    if not is_compressed(x):
        return made
    # Indices keep their dtype from one compressed layout to another.
    kind = _C._sparse_compressed_parts(x)[0].dtype
    compressed, plain, entries = _C._sparse_compressed_parts(made)
    if compressed.dtype is kind:
        return made
    return sparse_compressed_tensor(
        compressed.to(kind), plain.to(kind), entries, made.shape, layout=made.layout, check_invariants=False
    )


def to_layout(self: Tensor, layout: Any, block: Any, dense_dim: int | None) -> Tensor:
    """A dense or sparse tensor in a compressed layout, or a compressed one by coordinates.

    Args:
        layout: the layout.
        block: rows and columns of a block, or one number for both; None if the layout has none.
        dense_dim: number of last dimensions that stay dense, of a dense tensor; None for none.
    """
    name = layout_name(layout) or "sparse_coo"
    if layout is self.layout and (not block or tuple(_pair(block)) == _block(self)):
        return self
    blocked = name in ("sparse_bsr", "sparse_bsc")
    if blocked and block is None:
        block = _block(self) if is_compressed(self) else None
        if block is None or block == (1, 1):
            raise RuntimeError(f"to_sparse: conversion from {title(self)} to {_TITLES[name]} needs blocksize")
    if not blocked and block is not None:
        raise RuntimeError(f"to_sparse: blocksize belongs to block layouts, got {layout}")
    if dense_dim is not None and self.layout is not oneflow.strided and dense_dim != self.dense_dim():
        raise RuntimeError(f"to_sparse: a sparse tensor keeps its {self.dense_dim()} dense dimensions, got {dense_dim}")
    pair = _pair(block) if blocked else [1, 1]
    if self.requires_grad and oneflow.is_grad_enabled():
        return _Converted.apply(self, name, pair, dense_dim or 0)
    return _converted(self, name, pair, dense_dim or 0)


def _pair(block: Any) -> list[int]:
    pair = [int(block)] * 2 if isinstance(block, int) else [int(n) for n in block]
    if len(pair) != 2 or min(pair) < 1:
        raise RuntimeError(f"blocksize must be two positive numbers, got {block}")
    return pair


def _block(tensor: Tensor) -> tuple[int, ...] | None:
    return tuple(_C._sparse_compressed_facts(tensor)[2]) if is_compressed(tensor) else None


def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The entries that are not zero, by rows (CSR).

    Args:
        dense_dim: number of last dimensions that stay dense, of a dense tensor.

    Example::

        >>> oneflow.eye(2).to_sparse_csr().crow_indices()
        tensor([0, 1, 2])
    """
    return to_layout(self, oneflow.sparse_csr, None, dense_dim)


def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """The entries that are not zero, by columns (CSC).

    Args:
        dense_dim: number of last dimensions that stay dense, of a dense tensor.

    Example::

        >>> oneflow.eye(2).to_sparse_csc().ccol_indices()
        tensor([0, 1, 2])
    """
    return to_layout(self, oneflow.sparse_csc, None, dense_dim)


def to_sparse_bsr(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
    """The blocks with an entry that is not zero, by rows (BSR).

    Args:
        blocksize: rows and columns of a block; they divide those of the tensor.
        dense_dim: number of last dimensions that stay dense, of a dense tensor.

    Example::

        >>> oneflow.eye(4).to_sparse_bsr((2, 2)).col_indices()
        tensor([0, 1])
    """
    return to_layout(self, oneflow.sparse_bsr, blocksize, dense_dim)


def to_sparse_bsc(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
    """The blocks with an entry that is not zero, by columns (BSC).

    Args:
        blocksize: rows and columns of a block; they divide those of the tensor.
        dense_dim: number of last dimensions that stay dense, of a dense tensor.

    Example::

        >>> oneflow.eye(4).to_sparse_bsc((2, 2)).row_indices()
        tensor([0, 1])
    """
    return to_layout(self, oneflow.sparse_bsc, blocksize, dense_dim)


def _index(self: Tensor, name: str, part: int, layouts: tuple[str, str], kind: str) -> Tensor:
    if layout_name(self.layout) not in layouts:
        raise RuntimeError(f"{name} expected sparse {kind} compressed tensor layout but got {title(self)}")
    return _C._sparse_compressed_parts(self)[part]


def crow_indices(self: Tensor) -> Tensor:
    """Where the entries of each row start (CSR, BSR): [batch..., rows + 1].

    Example::

        >>> oneflow.eye(2).to_sparse_csr().crow_indices()
        tensor([0, 1, 2])
    """
    return _index(self, "crow_indices", 0, ("sparse_csr", "sparse_bsr"), "row")


def col_indices(self: Tensor) -> Tensor:
    """The column of each entry (CSR, BSR): [batch..., nnz].

    Example::

        >>> oneflow.eye(2).to_sparse_csr().col_indices()
        tensor([0, 1])
    """
    return _index(self, "col_indices", 1, ("sparse_csr", "sparse_bsr"), "row")


def ccol_indices(self: Tensor) -> Tensor:
    """Where the entries of each column start (CSC, BSC): [batch..., columns + 1].

    Example::

        >>> oneflow.eye(2).to_sparse_csc().ccol_indices()
        tensor([0, 1, 2])
    """
    return _index(self, "ccol_indices", 0, ("sparse_csc", "sparse_bsc"), "column")


def row_indices(self: Tensor) -> Tensor:
    """The row of each entry (CSC, BSC): [batch..., nnz].

    Example::

        >>> oneflow.eye(2).to_sparse_csc().row_indices()
        tensor([0, 1])
    """
    return _index(self, "row_indices", 1, ("sparse_csc", "sparse_bsc"), "column")


def _of_entries(starts: Tensor) -> Tensor:
    """The place in the compressed dimension of each entry of a matrix."""
    return oneflow.arange(len(starts) - 1, device=starts.device).repeat_interleave(starts.diff())


def rows_and_columns(tensor: Tensor) -> tuple[Tensor, Tensor]:
    """The row and the column of each entry of a compressed matrix, as they lie: of blocks, in blocks."""
    starts, plain, _ = _C._sparse_compressed_parts(tensor)
    places = _of_entries(starts)
    return (places, plain) if layout_name(tensor.layout) in ("sparse_csr", "sparse_bsr") else (plain, places)


def parts_by_name(tensor: Tensor) -> dict[str, Tensor]:
    """The parts of a compressed tensor under the names that it is printed with."""
    starts, plain, kept = _C._sparse_compressed_parts(tensor)
    by_row = layout_name(tensor.layout) in ("sparse_csr", "sparse_bsr")
    names = ("crow_indices", "col_indices") if by_row else ("ccol_indices", "row_indices")
    return {names[0]: starts, names[1]: plain, "values": kept}


def _convert_indices_from_coo_to_csr(input: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Where the entries of each of ``size`` rows start, from the rows of entries in order."""
    starts = oneflow.searchsorted(input.contiguous(), oneflow.arange(size + 1, device=input.device, dtype=input.dtype))
    return starts.to(oneflow.int32 if out_int32 else oneflow.int64)


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """Rows and columns of each entry, [2, nnz]; the other way round if ``transpose``."""
    rows = _of_entries(crow_indices)
    both = [col_indices, rows] if transpose else [rows, col_indices]
    return oneflow.stack([t.to(oneflow.int32 if out_int32 else oneflow.int64) for t in both])


METHODS: dict[str, Any] = {
    method.__name__: method
    for method in (
        crow_indices,
        col_indices,
        ccol_indices,
        row_indices,
        to_sparse_csr,
        to_sparse_csc,
        to_sparse_bsr,
        to_sparse_bsc,
    )
}
