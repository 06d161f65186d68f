"""The axes of a layout's mesh by name, and changes of layout along one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import oneflow as torch
from oneflow import Tensor, nn
from oneflow.distributed.device_mesh import mesh_or_new
from oneflow.distributed.tensor import _layouts
from oneflow.models.layers import Attention

__all__ = ["Axes", "blocks_of"]


@dataclass(frozen=True)
class Axes:
    """A placement, and the names of its axes from the outermost."""

    placement: torch.placement
    names: tuple[str, ...]

    def size(self, name: str) -> int:
        """The number of ranks along an axis; 1 if there is none of this name."""
        return self.placement.ranks.shape[self.names.index(name)] if name in self.names else 1

    def of(self, x: Tensor, name: str) -> Any:
        """The layout of ``x`` along an axis."""
        return x.sbp[self.names.index(name)]

    def changed(self, x: Tensor, name: str, sbp: Any, restores: bool = False) -> Tensor:
        """``x`` with another layout along an axis; where it ``restores``, the gradient gets that of ``x`` at once."""
        layout = list(x.sbp)
        at = self.names.index(name)
        if layout[at] == sbp:
            return x
        layout[at] = sbp
        return x.to_global(sbp=layout, grad_sbp=list(x.sbp)) if restores else x.to_global(sbp=layout)

    def layout(self, **others: Any) -> list[Any]:
        """Whole on all ranks, apart from the axes that are named."""
        return [others.get(name, torch.sbp.broadcast) for name in self.names]

    def group(self, name: str) -> Any:
        """The process group of the ranks that differ along an axis alone."""
        return mesh_or_new(self.placement).get_group(self.names.index(name))

    def make_groups(self) -> None:
        """Make the process groups; all ranks of the job call it, also those that are not of the placement."""
        mesh_or_new(self.placement).get_all_groups()

    def here(self, name: str) -> int:
        """This rank's place along an axis."""
        return mesh_or_new(self.placement).get_local_rank(self.names.index(name))

    @property
    def is_here(self) -> bool:
        """Whether this rank is one of them; the others have other pipeline stages."""
        return mesh_or_new(self.placement).get_coordinate() is not None

    def enter(self, local: Tensor, layout: list[Any], sizes: list[int]) -> Tensor:
        """The global tensor of which ``local`` is this rank's part."""
        return _layouts.enter(local, self.placement, layout, sizes)


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """The modules of lists, which repeat, with attention inside."""
    of_lists = [block for module in model.modules() if isinstance(module, nn.ModuleList) for block in module]
    blocks = [block for block in of_lists if any(isinstance(part, Attention) for part in block.modules())]
    inner = {id(part) for block in blocks for part in block.modules() if part is not block}
    return [block for block in blocks if id(block) not in inner]
