"""``torch.hub``: :mod:`oneflow.hub`, and the home that packages keep their own files below."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlparse

import oneflow.hub
from oneflow.utils.model_zoo import tqdm

__all__ = ["tqdm", "urlparse"]


def _get_torch_home() -> str:
    """The folder above the cache of weights."""
    return os.path.dirname(oneflow.hub.get_dir())


def __getattr__(name: str) -> Any:
    return getattr(oneflow.hub, name)
