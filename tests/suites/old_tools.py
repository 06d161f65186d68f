"""What OneFlow's tests take for granted of the Python, NumPy and PyTorch of their time, for those of today.

Their tools draw arguments by the annotations of PyTorch's modules, which were written with ``typing`` then, and compare
pairs of objects, one of each package. Without this a sample is drawn as None, which PyTorch refuses.
"""

from __future__ import annotations

import functools
import os
import types
import typing
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

# The environment variable with the most random samples that one case draws; none: as many as the case says.
SAMPLES = "ONEFLOW_SUITES_SAMPLES"


def of_numpy() -> None:
    """Functions that NumPy has renamed."""
    numpy: Any = np
    if not hasattr(numpy, "product"):
        numpy.product = np.prod


def _in_typing(annotation: Any) -> Any:
    """An annotation of numbers as ``typing`` has it. Names and tuples of any length are not drawn."""
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        kept = [_in_typing(a) for a in arguments if a is not str and Ellipsis not in typing.get_args(a)]
        return typing.Union[tuple(kept)]  # noqa: UP007
    return typing.Tuple[tuple(map(_in_typing, arguments))] if origin is tuple else annotation  # noqa: UP006


def _of_generators(module: Any) -> None:
    def to(self: Any, annotation: Any) -> None:
        if self.annotation is None:
            self.annotation = _in_typing(annotation)

    module.random._to = to


def _of_pairs(module: Any) -> None:
    pair = module.GetDualObject

    def with_truth(name: str, theirs: Any, ours: Any) -> Any:
        made = pair(name, theirs, ours)
        if isinstance(theirs, bool | np.bool_) and isinstance(ours, bool | np.bool_):
            # A pair has the class of its own; its truth is that of both.
            assert bool(theirs) == bool(ours), f"{name} is {theirs} in PyTorch and {ours} here"
            type(made).__bool__ = lambda self: bool(self.oneflow)
        if isinstance(theirs, np.ndarray) and isinstance(ours, np.ndarray):
            type(made).__array_function__ = of_arrays
        return made

    def of_arrays(self: Any, function: Any, kinds: Any, arguments: Any, options: Any) -> Any:
        """A function of NumPy, of each package's arrays."""
        each = [
            function(*(getattr(a, side) if isinstance(a, module.DualObject) else a for a in arguments), **options)
            for side in ("pytorch", "oneflow")
        ]
        return with_truth("unused", *each)

    module.GetDualObject = with_truth
    if limit := int(os.environ.get(SAMPLES, "0")):
        whole = module.autotest

        @functools.wraps(whole)
        def limited(n: int = 20, *arguments: Any, **options: Any) -> Any:
            return whole(min(n, limit), *arguments, **options)

        module.autotest = limited


_TOOLS = "oneflow.test_utils.automated_test_util"

# What to change in a module of the suite once it is loaded.
CHANGES: dict[str, Callable[[ModuleType], None]] = {
    f"{_TOOLS}.generators": _of_generators,
    f"{_TOOLS}.torch_flow_dual_object": _of_pairs,
}
