"""Which function computes an ONNX op: `handler` registers it, `find` looks it up.

A handler takes the call (attributes, opset version) and the inputs, None for those left out; it returns the output, or
a tuple of outputs.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from oneflow.onnx._import.values import Narrow, Strings

Handler = Callable[..., Any]

_HANDLERS: dict[tuple[str, str], Handler] = {}
_FAMILIES = (
    "attention",
    "control",
    "convolution",
    "elementwise",
    "images",
    "losses",
    "math",
    "ml",
    "normalization",
    "quantization",
    "random",
    "recurrent",
    "reduction",
    "sequences",
    "shapes",
    "signal",
    "text",
    "training",
)


def handler(*names: str, domain: str = "") -> Callable[[Handler], Handler]:
    def register(function: Handler) -> Handler:
        for name in names:
            _HANDLERS[domain, name] = function
        return function

    return register


def find(domain: str, op: str) -> Handler | None:
    if not _HANDLERS:
        for family in _FAMILIES:
            importlib.import_module(f"oneflow.onnx._import.{family}")
    return _HANDLERS.get((domain, op))


def supported() -> list[str]:
    """The ops that have a handler, those of other domains as ``domain::op``."""
    find("", "")
    return sorted(f"{domain}::{op}" if domain else op for domain, op in _HANDLERS)


class Call:
    """One node as its handler sees it."""

    def __init__(self, op: str, version: int, attributes: dict[str, Any], n_outputs: int, run: Any = None) -> None:
        self.op, self.version, self.attributes, self.n_outputs = op, version, attributes, n_outputs
        # Runs a graph that is an attribute: run(graph, inputs).
        self.run = run

    def get(self, name: str, default: Any = None) -> Any:
        value = self.attributes.get(name)
        return default if value is None else value

    def text(self, name: str, default: str = "") -> str:
        value = self.attributes.get(name)
        return default if value is None else value.decode("utf-8", "replace")

    def need(self, name: str) -> Any:
        value = self.attributes.get(name)
        if value is None:
            raise ValueError(f"{self.op}: the attribute {name!r} is missing")
        return value

    def ints(self, value: Any) -> list[int]:
        """The numbers in an input that must be known while the model is traced."""
        if isinstance(value, Narrow):
            value = value.values
        if isinstance(value, Strings):
            raise TypeError(f"{self.op}: numbers are expected, not strings")
        return [int(i) for i in value.flatten().tolist()]

    def axes(self, given: Any, attribute: str = "axes") -> list[int] | None:
        """Axes, which newer versions take as an input and older ones as an attribute."""
        if given is not None:
            return self.ints(given)
        found = self.attributes.get(attribute)
        return None if found is None else list(found)


def axis_of(axis: int, rank: int, op: str) -> int:
    """The axis counted from the front."""
    if not -rank <= axis < max(rank, 1):
        raise IndexError(f"{op}: axis {axis} is out of range for {rank} dimensions")
    return axis % rank if rank else 0


def spatial(values: Sequence[int] | None, n: int, default: int) -> list[int]:
    return list(values) if values is not None else [default] * n
