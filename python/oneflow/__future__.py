"""Settings of how modules change their parameters, under PyTorch's names. All are off at first."""

from __future__ import annotations

__all__ = [
    "get_overwrite_module_params_on_conversion",
    "get_swap_module_params_on_conversion",
    "set_overwrite_module_params_on_conversion",
    "set_swap_module_params_on_conversion",
]


class _Settings:
    overwrites: bool = False
    swaps: bool = False


def set_overwrite_module_params_on_conversion(value: bool) -> None:
    """Set whether ``Module.to``, ``float``, ``cuda`` and their like create new parameters.

    Otherwise they give the existing ones new data, which other holders of these parameters see.

    Example::

        >>> oneflow.__future__.set_overwrite_module_params_on_conversion(True)
        >>> linear = oneflow.nn.Linear(2, 2)
        >>> before = linear.weight
        >>> linear.double().weight is before
        False
        >>> oneflow.__future__.set_overwrite_module_params_on_conversion(False)
    """
    _Settings.overwrites = bool(value)


def get_overwrite_module_params_on_conversion() -> bool:
    """Return whether conversions of modules create new parameters.

    Example::

        >>> oneflow.__future__.get_overwrite_module_params_on_conversion()
        False
    """
    return _Settings.overwrites


def set_swap_module_params_on_conversion(value: bool) -> None:
    """Set whether conversions of modules, and ``load_state_dict``, use :func:`oneflow.utils.swap_tensors`.

    It has precedence over :func:`set_overwrite_module_params_on_conversion`. ``load_state_dict`` then swaps each
    parameter and buffer with what ``param.module_load(value)`` returns.

    Example::

        >>> oneflow.__future__.set_swap_module_params_on_conversion(True)
        >>> linear = oneflow.nn.Linear(2, 2)
        >>> before = linear.weight
        >>> linear.double().weight is before
        True
        >>> oneflow.__future__.set_swap_module_params_on_conversion(False)
    """
    _Settings.swaps = bool(value)


def get_swap_module_params_on_conversion() -> bool:
    """Return whether conversions of modules swap tensors.

    Example::

        >>> oneflow.__future__.get_swap_module_params_on_conversion()
        False
    """
    return _Settings.swaps
