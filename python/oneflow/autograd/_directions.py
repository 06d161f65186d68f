"""Derivatives along directions, as gradcheck compares them: by differences, backward, forward.

An input counts as a list of real numbers; a complex number is two. A direction is a vector of as many; a
derivative along it has the shape of the outputs. All unit vectors together give the whole Jacobian, a random one a
projection of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow.autograd import forward_ad
from oneflow.autograd._engine import grad
from oneflow.overrides import DisableTorchFunctionSubclass


def as_tuple(value: Any) -> tuple[Any, ...]:
    """``value``, or it alone, as a tuple."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def is_differentiable(value: Any) -> bool:
    """Return whether ``value`` is a tensor of numbers that have derivatives."""
    return isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex())


def is_stored_sparsely(x: Tensor) -> bool:
    """Whether ``x`` has a sparse layout, compressed ones included."""
    return x.layout != oneflow.strided


def _parts(values: Tensor) -> Tensor:
    return oneflow.view_as_real(values) if values.is_complex() else values


def _stored(x: Tensor) -> Tensor:
    """The elements that a sparse tensor stores, as the memory that they are in."""
    return (x.detach()._values() if x.is_sparse else x.detach().values()).data


def _places(x: Tensor) -> Tensor:
    """Where the elements that a tensor of a compressed layout stores stand among all of its elements."""
    stored = _stored(x)
    numbered = oneflow.arange(1, stored.numel() + 1, device=x.device).reshape(stored.shape)
    whole = _with_values(x, numbered).to_dense().reshape(-1)
    return oneflow.argsort(whole)[whole.numel() - stored.numel() :]


def _with_values(x: Tensor, values: Tensor) -> Tensor:
    """A tensor of a compressed layout that stores other values at the same places."""
    if x.layout in (oneflow.sparse_csr, oneflow.sparse_bsr):
        ends, within = x.crow_indices(), x.col_indices()
    else:
        ends, within = x.ccol_indices(), x.row_indices()
    return oneflow.sparse_compressed_tensor(ends, within, values, x.shape, layout=x.layout)  # type: ignore[misc]


def _full(dense: Tensor, like: Tensor) -> Tensor:
    """``dense`` in the layout of a sparse tensor, zeros stored."""
    if like.is_sparse:
        indices = oneflow.ones(dense.shape[: like.sparse_dim()], device=dense.device).nonzero().mT
        return oneflow.sparse_coo_tensor(indices, dense[tuple(indices)], dense.shape, is_coalesced=True)
    block = like.values().shape[-2:] if like.layout in (oneflow.sparse_bsr, oneflow.sparse_bsc) else None
    numbered = oneflow.arange(1, dense.numel() + 1, device=dense.device).reshape(dense.shape)
    pattern = numbered.to_sparse(layout=like.layout, blocksize=None if block is None else tuple(block))
    return _with_values(pattern, dense.reshape(-1)[pattern.values() - 1])


@dataclass(frozen=True)
class Input:
    """An argument whose derivative is wanted: its index among the arguments, and the indices of its numbers."""

    place: int
    x: Tensor
    numbers: Tensor
    # Whether the elements that a sparse tensor does not store count, too.
    whole: bool = False

    @staticmethod
    def of(arguments: Sequence[Any], masked: bool = True) -> list[Input]:
        """The arguments that require a gradient; ``masked``: sparse ones by the elements that they store."""
        wanted = [(i, x) for i, x in enumerate(arguments) if isinstance(x, Tensor) and x.requires_grad]
        found = []
        for i, x in wanted:
            if is_stored_sparsely(x) and not masked:
                found.append(Input(i, x, _parts(x.detach().to_dense()), whole=True))
            else:
                # The same memory outside the graph: writes reach the function, and no saved tensor takes notice.
                found.append(Input(i, x, _parts(_stored(x) if is_stored_sparsely(x) else x.data)))
        return found

    def among(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The arguments with the present numbers of this input."""
        if not self.whole:
            return arguments
        dense = oneflow.view_as_complex(self.numbers) if self.x.is_complex() else self.numbers
        sparse = _full(dense, self.x.detach())
        return [sparse.requires_grad_() if i == self.place else x for i, x in enumerate(arguments)]

    def units(self) -> Iterable[Tensor]:
        """The unit vectors."""
        for k in range(self.numbers.numel()):
            unit = oneflow.zeros(self.numbers.numel(), dtype=self.numbers.dtype, device=self.numbers.device)
            unit[k] = 1.0
            yield unit

    def anywhere(self) -> Tensor:
        """A random vector of length one."""
        return _drawn(self.numbers.numel(), self.place).to(self.numbers)

    def numbers_of(self, gradient: Tensor) -> Tensor:
        """The gradient of the numbers of this input, as one vector."""
        gradient = gradient.to_dense() if is_stored_sparsely(gradient) else gradient
        if is_stored_sparsely(self.x) and not self.whole:
            if self.x.is_sparse:
                gradient = gradient[tuple(self.x.detach()._indices())]
            else:
                gradient = gradient.reshape(-1)[_places(self.x.detach())]
        if self.x.is_complex() and not gradient.is_complex():
            gradient = gradient.to(self.x.dtype)
        if gradient.is_complex() and not self.x.is_complex():
            gradient = gradient.real
        return _parts(gradient.detach()).reshape(-1).double()

    def as_tangent(self, direction: Tensor) -> Tensor:
        """The direction in the shape and dtype of this input."""
        shaped = direction.reshape(self.numbers.shape)
        return oneflow.view_as_complex(shaped.contiguous()) if self.x.is_complex() else shaped


def wide(values: Tensor) -> Tensor:
    """``values`` as one vector in double precision."""
    values = values.detach().reshape(-1)
    return values.to(oneflow.complex128 if values.is_complex() else oneflow.float64)


def by_difference(
    func: Callable[..., Any], arguments: Sequence[Any], one: Input, direction: Tensor, eps: float
) -> list[Tensor]:
    """Central differences of every output along a direction of an input."""
    original = one.numbers.clone()
    step = (direction * eps).reshape(one.numbers.shape)
    sides = []
    try:
        for sign in (1, -1):
            one.numbers.copy_(original + step * sign)
            found = [y for y in as_tuple(func(*one.among(arguments))) if is_differentiable(y)]
            sides.append([y.detach().clone() for y in found])
    finally:
        one.numbers.copy_(original)
    found = []
    for above, below in zip(*sides, strict=True):
        for what in ("shape", "dtype"):
            if getattr(above, what) != getattr(below, what):
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {what} when inputs are perturbed up to {eps:g}, "
                    f"but got {getattr(above, what)} and {getattr(below, what)}."
                )
        found.append((wide(above) - wide(below)) / (2 * eps))
    return found


def by_backward(output: Tensor, inputs: Sequence[Input], seed: Tensor) -> list[Tensor]:
    """The gradients of the numbers of each input, for a gradient of an output."""
    # Gradients that no class made are plain tensors, as the seed is.
    with DisableTorchFunctionSubclass():
        found = grad(output, [one.x for one in inputs], seed, retain_graph=True, allow_unused=True)
    return [
        oneflow.zeros(one.numbers.numel(), dtype=oneflow.float64) if g is None else one.numbers_of(g)
        for one, g in zip(inputs, found, strict=True)
    ]


def duals(
    arguments: Sequence[Any], tangents: dict[int, Tensor], asked: Iterable[int] = (), keeps_grad: bool = False
) -> list[Any]:
    """Return the arguments with tangents at some places; those in ``asked`` without a tangent are detached."""
    result = list(arguments)
    for place in {*asked, *tangents}:
        x = result[place].detach()
        if keeps_grad:
            x.requires_grad_()
        result[place] = forward_ad.make_dual(x, tangents[place]) if place in tangents else x
    return result


def _drawn(n: int, place: int) -> Tensor:
    """A random vector of length one, the same for each call; functions that draw find the generator as it was."""
    own = oneflow.Generator().manual_seed(place + 1)
    found = oneflow.rand(n, generator=own, dtype=oneflow.float64)
    return found / found.norm() if n else found


def tangents_of(result: Any) -> list[tuple[Tensor, Tensor | None]]:
    """Value and tangent of every differentiable output, within the level of dual tensors."""
    found = [forward_ad.unpack_dual(y) for y in as_tuple(result) if is_differentiable(y)]
    return [(pair.primal, pair.tangent) for pair in found]


def seeds(output: Tensor, whole: bool, imaginary: bool) -> Iterable[tuple[Tensor, Tensor]]:
    """Gradients of a part of an output, each with the vector it weighs that part's numbers by."""
    n = output.numel()
    if whole:
        weights: Iterable[Tensor] = (row for row in oneflow.eye(n, dtype=oneflow.float64))
    else:
        weights = [_drawn(n, -1)]
    for weight in weights:
        seed = weight.to(output.device).reshape(output.shape)
        seed = seed.to(output.dtype) * 1j if imaginary else seed.to(output.dtype)
        yield seed.to(output.dtype), weight
