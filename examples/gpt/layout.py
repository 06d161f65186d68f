"""How the GPT lies over the ranks of a job. Chosen by an argument: the model and the training step stay as they are.

``single``   every process on its own
``data``     each rank a part of the batch, parameters on all ranks
``tensor``   each rank a part of the heads and of the hidden units (Shoeybi et al., "Megatron-LM", 2019)
"""

from __future__ import annotations

from typing import Any

import oneflow as torch
import oneflow.nn as nn
from oneflow import sbp

LAYOUTS = ("single", "data", "tensor")


class Layout:
    """Places a model and its inputs. Joins the job that the launcher describes, if there is one to join."""

    def __init__(self, name: str) -> None:
        if name not in LAYOUTS:
            raise ValueError(f"layout {name!r}: expected one of {', '.join(LAYOUTS)}")
        self.name = name
        if name == "single":
            return
        if not torch.distributed.is_initialized():
            torch.distributed.init_process_group()
        self.placement = torch.placement.all("cpu")

    @property
    def rank(self) -> int:
        """This process's rank, 0 on its own."""
        return 0 if self.name == "single" else torch.distributed.get_rank()

    def spread(self, model: nn.Module) -> nn.Module:
        """Make the parameters and buffers of a GPT global, those of rank 0. Make the optimizer afterwards."""
        if self.name == "single":
            return model
        model.to_global(self.placement, sbp.broadcast)
        if self.name == "tensor":
            for block in model.blocks:
                # Rows of outputs here, columns of inputs there: one sum over ranks a pair.
                for first, second in ((block.attention.qkv, block.attention.out), (block.mlp[0], block.mlp[2])):
                    first.to_global(sbp=sbp.split(0))
                    second.weight = nn.Parameter(second.weight.detach().to_global(sbp=sbp.split(1)))
        return model

    def spread_state(self, optimizer: torch.optim.Optimizer) -> None:
        """Lay the state that an optimizer has just loaded out as its parameters are."""
        if self.name == "single":
            return
        for parameter, state in optimizer.state.items():
            for name, value in state.items():
                if torch.is_tensor(value) and value.shape == parameter.shape and not value.is_global:
                    whole = value.to_global(parameter.placement, sbp.broadcast)
                    state[name] = whole.to_global(sbp=parameter.sbp)

    def whole(self, state: Any) -> Any:
        """Return ``state`` (nested dicts and lists) with every global tensor whole and local. All ranks call it."""
        if isinstance(state, dict):
            return {key: self.whole(value) for key, value in state.items()}
        if isinstance(state, list):
            return [self.whole(value) for value in state]
        if torch.is_tensor(state) and state.is_global:
            return state.detach().to_global(sbp=sbp.broadcast).to_local()
        return state

    def batch(self, x: torch.Tensor) -> torch.Tensor:
        """Make a batch that every rank has read global: split over ranks, or whole on each."""
        if self.name == "single":
            return x
        whole = x.to_global(self.placement, sbp.broadcast)
        # Too few rows to split stay whole.
        splits = self.name == "data" and x.shape[0] >= len(self.placement.ranks)
        return whole.to_global(sbp=sbp.split(0)) if splits else whole
