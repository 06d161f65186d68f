"""Settings of deterministic algorithms, see :func:`oneflow.use_deterministic_algorithms`."""

from __future__ import annotations

import sys
from types import ModuleType

from oneflow import _settings


class _Settings(ModuleType):
    @property
    def fill_uninitialized_memory(self) -> bool:
        """Whether uninitialised memory is filled while deterministic algorithms are on; True at first.

        ``empty`` and its kind and ``resize_`` fill it with NaN, or the largest number of an integer dtype.
        """
        return bool(_settings._state["fill"])

    @fill_uninitialized_memory.setter
    def fill_uninitialized_memory(self, mode: bool) -> None:
        _settings._set_fill_uninitialized_memory(mode)


sys.modules[__name__].__class__ = _Settings
