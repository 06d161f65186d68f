"""``torch._library``: how ops of programs are declared, see :mod:`oneflow.library`."""

from oneflow.mock_torch.private._library import infer_schema

__all__ = ["infer_schema"]
