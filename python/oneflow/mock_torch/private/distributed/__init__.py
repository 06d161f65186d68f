"""``torch.distributed``: :mod:`oneflow.distributed`, and names of it that packages import without using them."""

from __future__ import annotations

import importlib
from typing import Any

import oneflow.distributed
from oneflow.mock_torch.private import absent

# Whose modules the importer enters under torch's names.
_target = oneflow.distributed


def __getattr__(name: str) -> Any:
    if absent.module(f"torch.distributed.{name}") is not None:
        # PyTorch has imported these with the package.
        return importlib.import_module(f"torch.distributed.{name}")
    return getattr(oneflow.distributed, name)
