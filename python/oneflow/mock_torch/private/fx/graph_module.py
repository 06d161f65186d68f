"""``torch.fx.graph_module``."""

from __future__ import annotations

from typing import Any

from oneflow._base.refusals import refuse, refuse_class
from oneflow.fx import GraphModule

__all__ = ["GraphModule"]

_INSTEAD = "oneflow.nn.Graph and oneflow.compile trace tensors' ops"
_USER_PRESERVED_ATTRIBUTES_KEY = "_user_preserved_attributes"
_CodeOnlyModule: Any = refuse_class("torch.fx.graph_module._CodeOnlyModule", _INSTEAD)
_copy_attr = refuse("torch.fx.graph_module._copy_attr", _INSTEAD)
