"""Products that work on one part of a sequence while the next one travels: sequence parallelism without waiting.

Wang et al., "Overlap Communication with Dependent Computation via Decomposition", 2023; PyTorch calls it async tensor
parallelism. A gather before products and a scattered sum after them go around a ring, a part of the sequence at a time.
As many bytes travel as without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import Tensor, distributed, nn
from oneflow.autograd.function import Function, once_differentiable
from oneflow.distributed.context import even_spans
from oneflow.distributed.tensor import Partial, Placement, Replicate, Shard, _layouts
from oneflow.models._parallel.axes import Axes

__all__ = ["gathered_products", "scattered_product"]

# Messages of these rings, apart from what a user's program sends.
_TAG = 92_001


class _Ring:
    """The ranks of "tp", and the length of each one's part of the sequence."""

    def __init__(self, axes: Axes, length: int) -> None:
        self.group = axes.group("tp")
        self.rank, self.n = distributed.get_rank(self.group), distributed.get_world_size(self.group)
        self.parts = [span for (span,) in even_spans(length, self.n)]

    def _start(self, sent: Tensor, coming: Tensor, step: int) -> list[Any]:
        options = {"group": self.group, "tag": _TAG + step}
        works = [distributed.irecv(coming, group_src=(self.rank - 1) % self.n, **options)]
        return [*works, distributed.isend(sent, group_dst=(self.rank + 1) % self.n, **options)]

    def gather(self, own: Tensor) -> Iterator[tuple[slice, Tensor]]:
        """Each rank's part of (batch, time, width), this rank's first; the next one travels meanwhile."""
        part = own.contiguous()
        for step in range(self.n):
            holder = (self.rank - step) % self.n
            works, coming = [], part
            if step + 1 < self.n:
                start, end = self.parts[holder - 1]
                coming = part.new_empty((part.shape[0], end - start, part.shape[2]))
                works = self._start(part, coming, step)
            yield slice(*self.parts[holder]), part
            for work in works:
                work.wait()
            part = coming

    def scatter(self, compute: Callable[[slice], Tensor]) -> Tensor:
        """This rank's part of the sum over ranks of what ``compute`` gives for each part."""
        works: list[Any] = []
        coming: Tensor | None = None
        total = None
        for step in range(self.n):
            part = compute(slice(*self.parts[(self.rank - 1 - step) % self.n]))
            for work in works:
                work.wait()
            total = part.contiguous() if coming is None else part + coming
            if step + 1 < self.n:
                start, end = self.parts[(self.rank - 2 - step) % self.n]
                coming = total.new_empty((total.shape[0], end - start, total.shape[2]))
                works = self._start(total, coming, step)
        assert total is not None
        return total


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


def _whole_length(x: Tensor, axes: Axes) -> int:
    """The positions that the "tp" ranks of this rank have together."""
    if axes.size("cp") == 1:
        return x.shape[1]
    ((start, end),) = even_spans(x.shape[1], axes.size("cp"))[axes.here("cp")]
    return end - start


def _own(param: Tensor | None, x: Tensor, axes: Axes, dtype: Any) -> Tensor | None:
    """This rank's part of a weight or a bias; its gradient is summed over the ranks that have other tokens."""
    if param is None:
        return None
    places: list[Placement] = []
    for name, s, w in zip(axes.names, x.sbp, param.sbp, strict=True):
        other = s.dim is not None and name != "tp"
        places.append(Shard(w.dim) if w.dim is not None else Partial() if other else Replicate())
    return _layouts.to_local(param, places).to(dtype)


def _dtype(x: Tensor) -> Any:
    kind = x.device.type
    return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else x.dtype


def gathered_products(x: Tensor, linears: list[nn.Linear], axes: Axes) -> list[Tensor]:
    """``linear(x)`` of each, for ``x`` (batch, time, width) split along the sequence over "tp", and weights by rows."""
    dtype = _dtype(x)
    own = _layouts.to_local(x).to(dtype)
    ring = _Ring(axes, _whole_length(x, axes))
    params = [
        _own(param, x, axes, dtype) for kind in ("weight", "bias") for param in (getattr(m, kind) for m in linears)
    ]
    layout = [torch.sbp.split(2) if name == "tp" else s for name, s in zip(axes.names, x.sbp, strict=True)]
    found = _GatheredProducts.apply(own, ring, len(linears), *params)
    return [
        axes.enter(y, layout, [*x.shape[:2], linear.out_features]) for y, linear in zip(found, linears, strict=True)
    ]


def scattered_product(x: Tensor, linear: nn.Linear, axes: Axes) -> Tensor:
    """``linear(x)`` split along the sequence over "tp", for ``x`` (batch, time, hidden) split by hidden units there."""
    dtype = _dtype(x)
    own = _layouts.to_local(x).to(dtype)
    weight, bias = (_own(param, x, axes, dtype) for param in (linear.weight, linear.bias))
    layout = [torch.sbp.split(1) if name == "tp" else s for name, s in zip(axes.names, x.sbp, strict=True)]
    y = _ScatteredProduct.apply(own, weight, bias, _Ring(axes, own.shape[1]))
    return axes.enter(y, layout, [*x.shape[:2], linear.out_features])
