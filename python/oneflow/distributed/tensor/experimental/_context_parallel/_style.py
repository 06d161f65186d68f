"""Context parallelism of a module that computes attention, by ``parallelize_module``."""

from __future__ import annotations

import enum
from typing import Any

from oneflow.distributed import _functional_collectives as functional
from oneflow.distributed.device_mesh import DeviceMesh
from oneflow.distributed.tensor.experimental._context_parallel._attention import _cp_options, _RingOfParts
from oneflow.distributed.tensor.parallel import ParallelStyle
from oneflow.nn import Module

__all__ = ["_ContextParallel"]


class _ContextParallel(ParallelStyle):
    """A module that takes each rank's part of queries, keys and values and gives its rows.

    Args:
        seq_dim: the dimension of the sequence.
        attention_type: ``scaled_dot_product_attention`` inside of the module, whose parts lie as ``_cp_options`` says;
            or ``flex_attention``, for which keys and values are gathered, in the order of ranks.
    """

    class AttentionType(enum.Enum):
        """Which function the module calls."""

        FLEX = "flex_attention"
        SDPA = "scaled_dot_product_attention"

    def __init__(self, seq_dim: int, attention_type: _ContextParallel.AttentionType) -> None:
        super().__init__()
        if not isinstance(attention_type, self.AttentionType):
            raise ValueError(f"Unknown attention type: {attention_type}")
        self.seq_dim, self.attention_type = seq_dim, attention_type

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        if self.attention_type is self.AttentionType.FLEX:
            module.register_forward_pre_hook(
                lambda own, args, kwargs: self._gathered(device_mesh, args, kwargs), with_kwargs=True
            )
            return module
        forward = module.forward

        def ring(*args: Any, **kwargs: Any) -> Any:
            with _RingOfParts(device_mesh, None, _cp_options.enable_load_balance, self.seq_dim):
                return forward(*args, **kwargs)

        module.forward = ring  # type: ignore[method-assign]
        return module

    def _gathered(self, mesh: DeviceMesh, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        def whole(x: Any) -> Any:
            return functional.all_gather_tensor(x, self.seq_dim, mesh.get_group())

        found = {name: whole(kwargs[name]) for name in ("key", "value") if name in kwargs}
        return tuple(whole(x) if i in (1, 2) else x for i, x in enumerate(args)), {**kwargs, **found}
