"""Anomaly mode: errors in backward name the line that recorded the op, and NaN gradients are errors."""

from __future__ import annotations

import warnings
from types import TracebackType

from oneflow import _oneflow

__all__ = ["detect_anomaly", "set_detect_anomaly"]


def is_anomaly_enabled() -> bool:
    """Return whether anomaly mode is on.

    Example::

        >>> oneflow.is_anomaly_enabled()
        False
    """
    return _oneflow._C._anomaly()[0]


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether anomaly mode looks for NaN.

    Example::

        >>> oneflow.is_anomaly_check_nan_enabled()
        False
    """
    return _oneflow._C._anomaly()[1]


class set_detect_anomaly:
    """Switch anomaly mode on or off, at once or as a context manager.

    Args:
        mode: True remembers, for every op recorded from now on, where in the program it was called.
        check_nan: also raise where a gradient holds NaN.

    The mode is slow; it is for finding an error only.

    Example::

        >>> with oneflow.autograd.set_detect_anomaly(True):
        ...     oneflow.is_anomaly_enabled()
        True
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._previous = _oneflow._C._anomaly()
        _oneflow._C._set_anomaly(bool(mode), bool(check_nan))

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _oneflow._C._set_anomaly(*self._previous)


class detect_anomaly:
    """Context manager: anomaly mode inside.

    Example::

        >>> x = oneflow.tensor(-1.0, requires_grad=True)
        >>> with oneflow.autograd.set_detect_anomaly(True):
        ...     x.sqrt().backward()
        Traceback (most recent call last):
        RuntimeError: Function 'SqrtBackward0' returned nan values in its 0th output...
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled "
            "for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self._previous = _oneflow._C._anomaly()
        _oneflow._C._set_anomaly(True, self._check_nan)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        _oneflow._C._set_anomaly(*self._previous)
