"""Chooses between PyTorch's and OneFlow's result where one call means different things in the two libraries."""

from __future__ import annotations

import os
from typing import Any

from oneflow import _oneflow

_NAMES = ("pytorch", "oneflow")


class conventions:
    """Follow PyTorch ("pytorch", the default) or OneFlow ("oneflow") where one call means different things in both.

    OneFlow's conventions change these:

    - ``numpy()`` and ``__array__`` work on a tensor that requires a gradient; PyTorch raises.
    - An optimizer may have no parameters; PyTorch raises.
    - ``copy.deepcopy`` of a tensor that is no leaf gives a leaf of the same value; PyTorch raises.
    - ``Tensor.real`` and ``Tensor.imag`` are methods; in PyTorch they are attributes.
    - Integers are masks, true where they are not zero (``masked_fill, masked_select, masked_scatter, where``); PyTorch
      raises.
    - ``RMSprop`` adds ``eps`` to the average within the root; PyTorch to the root.
    - ``SGD`` dampens the first gradient of momentum too and allows dampening with Nesterov's; PyTorch does neither.
    - ``DistributedDataParallel`` takes modules without parameters that require gradients, returns zeros for parameters
      that a loss does not use, and has the attributes of its module; PyTorch raises. With ``broadcast_buffers=False``
      every rank keeps its own buffers; PyTorch starts with those of the first.
    - ``broadcast_shapes`` and ``broadcast_tensors`` of nothing raise; PyTorch returns nothing.
    - ``backward()`` of a complex number starts with one; PyTorch raises.
    - ``oneflow.mock_torch`` gives ``torch`` the version of oneflow; by PyTorch's, that of the PyTorch it stands for.
    - An error that OneFlow words differently ends with a line of its class and OneFlow's sentence, and a TypeError,
      ValueError or IndexError of an op is a RuntimeError too.

    The choice holds for the whole process, from the call on; in a ``with`` it ends with the block. The environment
    variable ``ONEFLOW_CONVENTIONS`` sets it at start-up.

    Args:
        name: "pytorch" or "oneflow".

    Raises:
        ValueError: another name.

    Example::

        >>> x = oneflow.ones(2, requires_grad=True)
        >>> with oneflow.conventions("oneflow"):
        ...     x.numpy()
        array([1., 1.], dtype=float32)
        >>> oneflow.conventions.current()
        'pytorch'
    """

    def __init__(self, name: str) -> None:
        if name not in _NAMES:
            raise ValueError(f'conventions(): expected "pytorch" or "oneflow", got {name!r}')
        self._before = _oneflow._set_oneflow_conventions(name == "oneflow")

    def __enter__(self) -> conventions:
        return self

    def __exit__(self, *_: Any) -> None:
        _oneflow._set_oneflow_conventions(self._before)

    @staticmethod
    def current() -> str:
        """Return the name of the conventions that hold.

        Example::

            >>> oneflow.conventions.current()
            'pytorch'
        """
        return _NAMES[_oneflow._oneflow_conventions()]

    def __repr__(self) -> str:
        return f'conventions("{self.current()}")'


def are_oneflows() -> bool:
    """Return whether OneFlow's conventions hold."""
    return bool(_oneflow._oneflow_conventions())


# How errors name the switch.
HINT = '(Under OneFlow\'s conventions it is allowed: oneflow.conventions("oneflow").)'

if os.environ.get("ONEFLOW_CONVENTIONS"):
    try:
        conventions(os.environ["ONEFLOW_CONVENTIONS"])
    except ValueError as error:
        raise ValueError(f"ONEFLOW_CONVENTIONS: {error}") from None
