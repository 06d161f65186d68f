"""``torch._dynamo._trace_wrapped_higher_order_op``."""

from __future__ import annotations

from typing import Any

from oneflow.overrides import TorchFunctionMode


class TransformGetItemToIndex(TorchFunctionMode):
    """Allows indices that are tensors inside ``vmap``; every index may be one here, so calls pass as they are."""

    def __torch_function__(
        self, func: Any, types: tuple[type, ...], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))
