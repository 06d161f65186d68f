"""``torch._higher_order_ops``: functions that take functions, see :mod:`oneflow._higher_order_ops`."""

from oneflow._higher_order_ops import associative_scan, cond, while_loop
from oneflow.mock_torch.private._higher_order_ops.out_dtype import out_dtype

__all__ = ["associative_scan", "cond", "out_dtype", "while_loop"]
