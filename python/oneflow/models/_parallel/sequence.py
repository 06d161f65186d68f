"""Sequence parallelism: what tensor parallelism leaves whole is split along the sequence over the same ranks.

Korthikanti et al., "Reducing Activation Recomputation in Large Transformer Models", 2022. Between the networks of a
block each rank has its part of the sequence. An all-gather before the first products and a reduce-scatter after the
second ones take the place of an all-reduce, and send as many bytes.
"""

from __future__ import annotations

from typing import Any

import oneflow as torch
from oneflow import Tensor, nn
from oneflow.models._parallel.axes import Axes, blocks_of
from oneflow.models._parallel.overlap import gathered_products, scattered_product
from oneflow.models.layers import MLP, Attention, GatedMLP

__all__ = ["one_sequence", "split_entries", "split_sequence"]


def one_sequence(model: nn.Module, what: str) -> None:
    """Check that the blocks of ``model`` attend along one sequence.

    Raises:
        ValueError: there are none, or they attend within windows or images.
    """
    blocks = blocks_of(model)
    nested = [
        name
        for block in blocks
        for name, module in block.named_modules()
        if isinstance(module, Attention) and "." in name
    ]
    if not blocks or nested:
        why = f"attends within parts of its input ({nested[0]})" if nested else "has no blocks with attention"
        raise ValueError(f"{type(model).__name__} {why}; {what} needs blocks that attend along one sequence")


def split_sequence(model: nn.Module, axes: Axes, overlap: bool) -> None:
    """Install sequence parallelism over the axis "tp" in a model that ``tensor_parallel`` has split.

    Args:
        overlap: products work on one part of the sequence while the next one travels.
    """
    split_entries(model, axes, "tp")
    for block in blocks_of(model):
        for module in block.modules():
            if isinstance(module, Attention | MLP | GatedMLP):
                (_Overlapped if overlap else _Split)(module, axes)


class _Split:
    """One network: its input is gathered, and the sums that it gives are scattered."""

    def __init__(self, module: Attention | MLP | GatedMLP, axes: Axes) -> None:
        self.module, self.axes = module, axes
        self.second = module.out if isinstance(module, Attention) else module.down
        module.register_forward_pre_hook(self.before, with_kwargs=True)
        self.second.register_forward_hook(self.after)

    def gathered(self, x: Any) -> Any:
        if self.is_split(x):
            return self.axes.changed(x, "tp", torch.sbp.broadcast)
        return x

    def is_split(self, x: Any) -> bool:
        return isinstance(x, Tensor) and x.is_global and self.axes.of(x, "tp") == torch.sbp.split(1)

    def before(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        memory = kwargs.get("memory")
        if memory is not None:
            kwargs = {**kwargs, "memory": self.gathered(memory)}
        # The states, and those of the encoder for attention across.
        n = 2 if isinstance(module, Attention) else 1
        return (*map(self.gathered, args[:n]), *args[n:]), kwargs

    def after(self, module: nn.Module, args: Any, y: Tensor) -> Tensor:
        return self.axes.changed(y, "tp", torch.sbp.split(1)) if _is_split(y, self.axes.size("tp")) else y


class _Overlapped(_Split):
    """One network whose products overlap with what travels; attention to other states waits as usual."""

    def __init__(self, module: Attention | MLP | GatedMLP, axes: Axes) -> None:
        super().__init__(module, axes)
        self.ready: dict[int, Tensor] = {}
        self.first = self._first()
        for linear in self.first:
            linear.forward = self._taken(linear, linear.forward)  # type: ignore[method-assign]
        product = self.second.forward

        def scattered(x: Tensor) -> Tensor:
            if _is_split(x, axes.size("tp")) and axes.of(x, "tp") == torch.sbp.split(2):
                return scattered_product(x, self.second, axes)
            return product(x)

        self.second.forward = scattered  # type: ignore[method-assign, assignment]

    def _first(self) -> list[nn.Linear]:
        module = self.module
        if isinstance(module, Attention):
            return [module.query, module.key, module.value]
        return [module.gate, module.up] if isinstance(module, GatedMLP) else [module.up]

    def _taken(self, linear: nn.Linear, forward: Any) -> Any:
        def take(x: Tensor) -> Tensor:
            found = self.ready.pop(id(linear), None)
            return forward(x) if found is None else found

        return take

    def before(self, module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
        crosses = isinstance(module, Attention) and (len(args) > 1 or kwargs.get("memory") is not None)
        if crosses or not self.is_split(args[0]):
            return super().before(module, args, kwargs)
        # Computed before they are asked for, all from one gather.
        products = gathered_products(args[0], self.first, self.axes)
        self.ready = {id(linear): y for linear, y in zip(self.first, products, strict=True)}
        return args, kwargs


def split_entries(model: nn.Module, axes: Axes, axis: str) -> None:
    """Split what enters each block along the sequence over an axis; (batch, time, width), first argument."""

    def before(module: nn.Module, args: Any) -> Any:
        x = args[0]
        if not _is_split(x, axes.size(axis)):
            return None
        return (axes.changed(x, axis, torch.sbp.split(1)), *args[1:])

    for block in blocks_of(model):
        block.register_forward_pre_hook(before)


def _is_split(x: Tensor, n_ranks: int) -> bool:
    """Whether a tensor is long enough to give each rank a part; single tokens of generation are not."""
    return x.is_global and x.dim() == 3 and x.shape[1] >= n_ranks
