"""Products that work on one part of a sequence while the next one travels: sequence parallelism without waiting.

Wang et al., "Overlap Communication with Dependent Computation via Decomposition", 2023; PyTorch calls it async tensor
parallelism. A gather before products and a scattered sum after them go around a ring, a part of the sequence at a time.
As many bytes travel as without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import Tensor, distributed, nn
from oneflow.autograd.function import Function, once_differentiable
from oneflow.distributed.context import even_spans
from oneflow.distributed.tensor import Partial, Placement, Replicate, Shard, _layouts
from oneflow.models._parallel.axes import Axes
from oneflow.models._parallel.parts import Result, on_parts, working_dtype

__all__ = ["gathered_products", "scattered_product"]

# Messages of these rings, apart from what a user's program sends.
_TAG = 92_001


class _Ring:
    """The ranks of "tp", and the length of each one's part of the sequence."""

    def __init__(self, axes: Axes, length: int) -> None:
        self.group = axes.group("tp")
        self.rank, self.n = distributed.get_rank(self.group), distributed.get_world_size(self.group)
        self.parts = [span for (span,) in even_spans(length, self.n)]

    def hop(self, part: Tensor, holder: int, step: int) -> Callable[[], Tensor]:
        """Send a part to the next rank; return a function that waits for that of the rank before, ``holder``'s."""
        start, end = self.parts[holder]
        coming = part.new_empty((part.shape[0], end - start, part.shape[2]))
        options = {"group": self.group, "tag": _TAG + step}
        works = [distributed.irecv(coming, group_src=(self.rank - 1) % self.n, **options)]
        works.append(distributed.isend(part, group_dst=(self.rank + 1) % self.n, **options))

        def arrived() -> Tensor:
            for work in works:
                work.wait()
            return coming

        return arrived

    def gather(self, own: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Each rank's part of (batch, time, width), this rank's first; the next one travels meanwhile."""
        part = own.contiguous()
        for step in range(self.n):
            holder = (self.rank - step) % self.n
            is_last = step + 1 == self.n
            arrived = None if is_last else self.hop(part, (holder - 1) % self.n, step)
            yield slice(*self.parts[holder]), part
            if arrived is not None:
                part = arrived()

    def scatter(self, compute: Callable[[slice], Tensor]) -> Tensor:
        """This rank's part of the sum over ranks of what ``compute`` gives for each part."""
        arrived: Callable[[], Tensor] | None = None
        total = None
        for step in range(self.n):
            holder = (self.rank - 1 - step) % self.n
            part = compute(slice(*self.parts[holder]))
            total = part.contiguous() if arrived is None else part + arrived()
            if step + 1 < self.n:
                arrived = self.hop(total, (holder - 1) % self.n, step)
        assert total is not None
        return total


class _TracedRing(_Ring):
    """The same inside ``nn.Graph``, whose trace knows moves of global tensors and no messages.

    The parts that travel at one time are one tensor, split along the sequence. A hop is its move to a placement of the
    same ranks in which each stands one further.
    """

    def __init__(self, axes: Axes, length: int) -> None:
        super().__init__(axes, length)
        self.ranks = distributed.get_process_group_ranks(self.group)

    def hop(self, part: Tensor, holder: int, step: int) -> Callable[[], Tensor]:
        """Send a part to the next rank; return a function that gives that of the rank before, ``holder``'s."""
        # How far the part that this rank has now, and that of each other, has come from the rank of its number.
        far = self.rank - holder - 1
        split, sizes = [torch.sbp.split(1)], [part.shape[0], self.parts[-1][1], part.shape[2]]
        whole = _layouts.assemble(part, self._placement(far), split, sizes)
        moved = whole.to_global(placement=self._placement(far + 1), sbp=split)
        return lambda: _layouts.local_part(moved)

    def _placement(self, far: int) -> Any:
        return torch.placement("cpu", [self.ranks[(part + far) % self.n] for part in range(self.n)])


def _rows(x: Tensor) -> Tensor:
    return x.reshape(-1, x.shape[-1])


class _GatheredProducts(Function):
    """(own part, ring, number of weights, weights and biases) to the products of the whole sequence."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, ring: _Ring, n: int, *params: Any) -> tuple[Tensor, ...]:
        weights, biases = params[:n], params[n:]
        time = ring.parts[-1][1]
        whole = x.new_empty((x.shape[0], time, x.shape[2]))
        found = [x.new_empty((x.shape[0], time, weight.shape[0])) for weight in weights]
        for places, part in ring.gather(x):
            whole[:, places] = part
            for y, weight, bias in zip(found, weights, biases, strict=True):
                y[:, places] = F.linear(part, weight, bias)
        ctx.save_for_backward(whole, *weights)
        ctx.ring, ctx.has_bias = ring, [bias is not None for bias in biases]
        return tuple(found)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> Any:
        whole, *weights = ctx.saved_tensors
        own = ctx.ring.scatter(
            lambda places: sum(grad[:, places] @ weight for grad, weight in zip(grads, weights, strict=True))
        )
        of_weights = [_rows(grad).T @ _rows(whole) for grad in grads]
        of_biases = [_rows(grad).sum(0) if has else None for grad, has in zip(grads, ctx.has_bias, strict=True)]
        return (own, None, None, *of_weights, *of_biases)


class _ScatteredProduct(Function):
    """(whole sequence with own hidden units, weight, bias, ring) to this rank's part of the summed products."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, ring: _Ring) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.ring, ctx.has_bias = ring, bias is not None
        y = ring.scatter(lambda places: F.linear(x[:, places], weight))
        return y if bias is None else y + bias

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        of_x, of_weight = torch.empty_like(x), torch.zeros_like(weight)
        of_bias = weight.new_zeros(weight.shape[0])
        for places, part in ctx.ring.gather(grad):
            of_x[:, places] = part @ weight
            of_weight += _rows(part).T @ _rows(x[:, places])
            of_bias += _rows(part).sum(0)
        return of_x, of_weight, of_bias if ctx.has_bias else None, None


def _ring(axes: Axes, length: int) -> _Ring:
    return (_TracedRing if torch._oneflow._is_tracing() else _Ring)(axes, length)


def _whole_length(x: Tensor, axes: Axes) -> int:
    """The positions that the "tp" ranks of this rank have together."""
    if axes.size("cp") == 1:
        return x.shape[1]
    ((start, end),) = even_spans(x.shape[1], axes.size("cp"))[axes.here("cp")]
    return end - start


def _gradient_of(param: Tensor | None, x: Tensor, axes: Axes) -> list[Placement] | None:
    """The layout of the gradient of a weight or a bias: summed over the ranks that have other tokens."""
    if param is None:
        return None
    places: list[Placement] = []
    for name, s, w in zip(axes.names, x.sbp, param.sbp, strict=True):
        other = s.dim is not None and name != "tp"
        places.append(Shard(w.dim) if w.dim is not None else Partial() if other else Replicate())
    return places


def _cast(parts: Sequence[Any], dtype: Any) -> list[Any]:
    return [None if part is None else part.to(dtype) for part in parts]


def gathered_products(x: Tensor, linears: list[nn.Linear], axes: Axes) -> list[Tensor]:
    """``linear(x)`` of each, for ``x`` (batch, time, width) split along the sequence over "tp", and weights by rows."""
    dtype, n = working_dtype(x), len(linears)

    def products(own: Tensor, *params: Any) -> tuple[Tensor, ...]:
        ring = _ring(axes, _whole_length(x, axes))
        return _GatheredProducts.apply(own.to(dtype), ring, n, *_cast(params, dtype))

    params = [m.weight for m in linears] + [m.bias for m in linears]
    inputs = [(x, None), *((param, _gradient_of(param, x, axes)) for param in params)]
    layout = [torch.sbp.split(2) if name == "tp" else s for name, s in zip(axes.names, x.sbp, strict=True)]
    results = [Result(layout, [*x.shape[:2], linear.out_features], dtype) for linear in linears]
    hops = axes.size("tp") - 1
    return list(on_parts(axes, products, inputs, results, (hops, hops)))


def scattered_product(x: Tensor, linear: nn.Linear, axes: Axes) -> Tensor:
    """``linear(x)`` split along the sequence over "tp", for ``x`` (batch, time, hidden) split by hidden units there."""
    dtype = working_dtype(x)

    def product(own: Tensor, *params: Any) -> tuple[Tensor]:
        return (_ScatteredProduct.apply(own.to(dtype), *_cast(params, dtype), _ring(axes, own.shape[1])),)

    params = (linear.weight, linear.bias)
    inputs = [(x, None), *((param, _gradient_of(param, x, axes)) for param in params)]
    layout = [torch.sbp.split(1) if name == "tp" else s for name, s in zip(axes.names, x.sbp, strict=True)]
    hops = axes.size("tp") - 1
    (y,) = on_parts(axes, product, inputs, [Result(layout, [*x.shape[:2], linear.out_features], dtype)], (hops, hops))
    return y
