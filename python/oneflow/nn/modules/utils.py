"""One value for several dimensions: what layers do with ``kernel_size=3``."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from itertools import repeat
from typing import Any

__all__ = ["consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that repeats a value ``n`` times and turns an iterable into a tuple."""

    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: Iterable[Any], n: int) -> tuple[Any, ...]:
    """Each element ``n`` times, the last one first: paddings as ``functional.pad`` takes them."""
    return tuple(x for x in reversed(tuple(t)) for _ in range(n))


def _list_with_default(out_size: Any, defaults: list[int]) -> Any:
    """Sizes of an output, those of the input where one is None."""
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(f"Input dimension should be at least {len(out_size) + 1}")
    return [d if v is None else v for v, d in zip(out_size, defaults[-len(out_size) :], strict=True)]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Take ``prefix`` off the keys of a state_dict that have it, and of its metadata, in place.

    >>> state = {"module.weight": 1, "bias": 2}
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> state
    {'bias': 2, 'weight': 1}
    """
    for key in [key for key in state_dict if key.startswith(prefix)]:
        state_dict[key.removeprefix(prefix)] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    if isinstance(metadata, (dict, OrderedDict)):
        for key in list(metadata):
            if key and (key.removesuffix(".") + ".").startswith(prefix):
                metadata[key.removeprefix(prefix.removesuffix(".")).removeprefix(".")] = metadata.pop(key)
