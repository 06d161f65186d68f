"""``torch._custom_ops``: the older names of :mod:`oneflow.library`."""

from oneflow.library import custom_op, get_ctx, impl, impl_abstract

__all__ = ["custom_op", "get_ctx", "impl", "impl_abstract"]
