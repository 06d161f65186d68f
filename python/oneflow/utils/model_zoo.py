"""The older place of :func:`oneflow.hub.load_state_dict_from_url`, and the progress bar of downloads."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from oneflow.hub import load_state_dict_from_url

__all__ = ["load_state_dict_from_url", "load_url", "tqdm"]

load_url = load_state_dict_from_url


class _Percent:
    """A minimal ``tqdm`` for when it is not installed: a line with the progress."""

    def __init__(self, total: int | None = None, disable: bool = False, **_: Any) -> None:
        self.total, self.disable, self.n = total, disable, 0

    def update(self, n: int) -> None:
        """Another ``n`` are done."""
        self.n += n
        if not self.disable:
            done = f"{self.n} bytes" if self.total is None else f"{100 * self.n / self.total:.1f} %"
            sys.stderr.write(f"\r{done}")
            sys.stderr.flush()

    def close(self) -> None:
        """End the line."""
        if not self.disable:
            sys.stderr.write("\n")

    def __enter__(self) -> _Percent:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()


try:
    tqdm: Any = importlib.import_module("tqdm.auto").tqdm
except ImportError:
    tqdm = _Percent
