"""``torch._library.infer_schema``: the schema of a function by its annotations."""

from oneflow.library import infer_schema

__all__ = ["infer_schema"]
