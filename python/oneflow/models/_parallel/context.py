"""Context parallelism of the library's transformers: each rank runs the model on its part of the sequence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import Tensor, nn
from oneflow.distributed import context
from oneflow.distributed.tensor import _layouts
from oneflow.models._parallel.axes import Axes
from oneflow.models._parallel.heads import own_mask
from oneflow.models._parallel.parts import Result, on_parts
from oneflow.models._parallel.sequence import split_entries
from oneflow.models.generation import Generator
from oneflow.models.layers import Attention, RotaryTables

__all__ = ["split_context"]


def split_context(model: Any, parts: Sequence[tuple[nn.Module, Axes]], method: str) -> None:
    """Run a model on parts of its sequence over the axis "cp".

    Causal language models see the sequence in an order that shares the work (``balanced_spans``), which their inputs,
    positions and outputs follow; under "ulysses" each rank sees all positions, and nothing is reordered.

    Args:
        parts: the stages of a pipeline with their ranks, or the model with all of them.
    """
    for part, axes in parts:
        if not isinstance(model, Generator):
            # A language model's tokens are split, and what it reads again to continue a text is whole.
            split_entries(part, axes, "cp")
        for module in part.modules():
            if isinstance(module, Attention):
                _check(model, module, axes, method)
                module.attend = _Attend(module, axes, method)  # type: ignore[method-assign]
    balanced = isinstance(model, Generator) and method != "ulysses"
    _Sequence(model, [axes for _, axes in parts], balanced).install([part for part, _ in parts])


def _check(model: nn.Module, module: Attention, axes: Axes, method: str) -> None:
    kind, n = type(model).__name__, axes.size("cp")
    if method != "ulysses" and module.dropout > 0:
        raise ValueError(
            f"{kind} drops attention weights (dropout {module.dropout}), which context={method!r} does not; build it "
            "with dropout=0.0, or take context='ulysses'"
        )
    heads = (module.n_heads // axes.size("tp"), module.n_kv_heads // axes.size("tp"))
    if method == "ulysses" and any(number % n for number in heads):
        raise ValueError(
            f"{kind}: {heads[0]} heads and {heads[1]} of keys and values on a rank do not divide by cp={n}; take "
            "context='ring'"
        )


class _Sequence:
    """How a model's sequence lies over the ranks, while it runs."""

    def __init__(self, model: Any, stages: Sequence[Axes], balanced: bool) -> None:
        self.model, self.balanced = model, balanced
        self.axes = {axes.placement: axes for axes in stages}
        self.n = stages[0].size("cp")
        self.runs = False
        # Of the ranks of each stage, the positions in the order in which they hold them.
        self.orders: dict[Any, Tensor] = {}

    def install(self, parts: Sequence[nn.Module]) -> None:
        forward = self.model.forward

        def split(*args: Any, **kwargs: Any) -> Any:
            texts = [x for x in (*args, *kwargs.values()) if _is_text(x)]
            # A text that is shorter than the ranks are many is read whole by each.
            self.runs = bool(texts) and all(x.shape[1] >= self.n for x in texts)
            if self.runs and self.balanced:
                self.orders = {axes.placement: self._order(axes, texts[0].shape[1]) for axes in self.axes.values()}
            try:
                out = forward(*map(self._split, args), **{name: self._split(x) for name, x in kwargs.items()})
                # What has a row for each position comes out in their order.
                if self.orders and out.dim() == 3:
                    out = out.index_select(1, self.orders[out.placement].argsort())
                return out
            finally:
                self.runs, self.orders = False, {}

        self.model.forward = split
        for name, module in {id(m): (name, m) for part in parts for name, m in part.named_modules()}.values():
            if isinstance(module, RotaryTables):
                module.register_forward_hook(lambda own, args, tables: tuple(map(self._rows, tables)))
            elif isinstance(module, nn.Embedding) and name.split(".")[-1] == "position":
                module.register_forward_pre_hook(lambda own, args: (self._rows(args[0]), *args[1:]))

    def _order(self, axes: Axes, length: int) -> Tensor:
        order = context.order_of(context.balanced_spans(length, self.n))
        placement = axes.placement
        return _layouts.assemble(torch.tensor(order, device=placement.type), placement, axes.layout(), [length])

    def _split(self, x: Any) -> Any:
        if not self.runs or not _is_text(x):
            return x
        return self._part(x, 1)

    def _rows(self, rows: Tensor) -> Tensor:
        """(time, ...) of all positions to those of each rank."""
        return self._part(rows, 0) if self.runs else rows

    def _part(self, x: Tensor, dim: int) -> Tensor:
        if self.orders:
            x = x.index_select(dim, self.orders[x.placement])
        return self.axes[x.placement].changed(x, "cp", torch.sbp.split(dim))


def _of_parts(mask: Tensor, n_parts: int) -> Tensor:
    """A mask of (batch, heads, rows, keys), or fewer dimensions, as one of (batch, parts, heads of one, rows, keys)."""
    mask = mask.view(*(1,) * (4 - mask.dim()), *mask.shape)
    n = n_parts if mask.shape[1] > 1 else 1
    return mask.unflatten(1, (n, mask.shape[1] // n))


def _is_text(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_global and x.dim() == 2 and x.dtype == torch.int64


class _Attend:
    """``Attention.attend`` over the axis "cp"."""

    def __init__(self, module: Attention, axes: Axes, method: str) -> None:
        self.whole, self.module, self.axes, self.method = module.attend, module, axes, method

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        axes, along = self.axes, torch.sbp.split(2)
        if not query.is_global or axes.of(query, "cp") != along:
            return self.whole(query, key, value, mask, is_causal)
        key, value = axes.changed(key, "cp", along), axes.changed(value, "cp", along)
        if self.method == "ulysses":
            drops = self.module.dropout > 0 and self.module.training
            if not torch._oneflow._is_tracing() and not drops:
                return self._own_heads(query, key, value, mask, is_causal)
            return self._by_layouts(query, key, value, mask, is_causal, drops)
        return self._own_rows(query, key, value, mask, is_causal)

    def _by_layouts(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool, drops: bool
    ) -> Tensor:
        """Ulysses as changes of layout. What is dropped follows from the place of a weight in the whole."""
        axes, tp = self.axes, self.axes.size("tp")
        if tp == 1 or axes.of(query, "tp") != torch.sbp.split(1):
            q, k, v = (axes.changed(x, "cp", torch.sbp.split(1), True) for x in (query, key, value))
            return axes.changed(self.whole(q, k, v, mask, is_causal), "cp", torch.sbp.split(2), True)
        # (batch, tp, heads of a part, time, dim): a rank trades heads of its part alone. Were both axes to split one
        # dimension of heads, the outer one would cut it first, and heads would move over "tp" too.
        parts = (x.unflatten(1, (tp, x.shape[1] // tp)) for x in (query, key, value))
        q, k, v = (axes.changed(x, "cp", torch.sbp.split(2), True) for x in parts)
        seen = None if mask is None else _of_parts(mask, tp)
        if drops:
            y = self.whole(q, k, v, seen, is_causal)
        else:
            y = self._own_parts(q, k, v, seen, is_causal)
        return axes.changed(y, "cp", torch.sbp.split(3), True).flatten(1, 2)

    def _own_parts(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        """Attention of each rank's heads, which share keys and values among themselves."""
        whole, shares = q, q.shape[2] != k.shape[2]

        def seen() -> Tensor | None:
            return None if mask is None else own_mask(mask, whole)

        def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor]:
            y = F.scaled_dot_product_attention(
                q, k, v, attn_mask=seen(), is_causal=is_causal, scale=self.module.scale, enable_gqa=shares
            )
            return (y,)

        result = Result(q.sbp, [*q.shape[:4], v.shape[4]])
        (y,) = on_parts(self.axes, attend, [(x, None) for x in (q, k, v)], [result])
        return y

    def _own_heads(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        """Ulysses among the ranks that share a part of the heads; changes of layout would move heads over "tp" too."""
        axes, n = self.axes, self.axes.size("cp")

        def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor]:
            seen = None
            if mask is not None:
                seen = own_mask(mask, axes.changed(query, "cp", torch.sbp.broadcast))
                if seen.shape[1] > 1:
                    seen = seen.chunk(n, 1)[axes.here("cp")]
            return (
                context.ulysses_attention(
                    q,
                    k,
                    v,
                    seen,
                    is_causal,
                    scale=self.module.scale,
                    enable_gqa=query.shape[1] != key.shape[1],
                    spans=context.even_spans(query.shape[2], n),
                    key_spans=context.even_spans(key.shape[2], n),
                    group=axes.group("cp"),
                ),
            )

        return self._on_parts(attend, query, key, value, (0, 0))

    def _own_rows(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool) -> Tensor:
        axes, n = self.axes, self.axes.size("cp")
        spans = (context.balanced_spans if is_causal else context.even_spans)(key.shape[2], n)
        options: dict[str, Any] = {
            "scale": 1.0 / math.sqrt(query.shape[-1]) if self.module.scale is None else self.module.scale,
            "enable_gqa": query.shape[1] != key.shape[1],
        }

        def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor]:
            seen = None if mask is None else own_mask(mask, query)
            group = axes.group("cp")
            return (
                context.ring_attention(
                    q, k, v, seen, is_causal, spans=spans, method=self.method, group=group, **options
                ),
            )

        # The hops of keys and values, in backward again, where gradients travel too.
        hops = n - 1 if self.method == "ring" else 0
        return self._on_parts(attend, query, key, value, (hops, hops + n - 1))

    def _on_parts(self, attend: Any, query: Tensor, key: Tensor, value: Tensor, n_moves: tuple[int, int]) -> Tensor:
        result = Result(query.sbp, [*query.shape[:3], value.shape[3]])
        (y,) = on_parts(self.axes, attend, [(x, None) for x in (query, key, value)], [result], n_moves)
        return y
