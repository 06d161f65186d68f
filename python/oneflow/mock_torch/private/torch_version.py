"""``torch.torch_version``: a version that compares with texts and with tuples of numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

__all__ = ["TorchVersion"]


def _release(version: Any) -> tuple[tuple[int, ...], str]:
    """The numbers of a version, without zeros at the end, and what follows them: "" sorts after "rc1"."""
    text = (
        str(version) if isinstance(version, str) or not isinstance(version, Iterable) else ".".join(map(str, version))
    )
    found = re.match(r"v?(\d+(?:\.\d+)*)(.*)", text.partition("+")[0])
    if found is None:
        raise ValueError(f"not a version: {version!r}")
    numbers = [int(part) for part in found[1].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers), found[2].strip(".") or "~"


class TorchVersion(str):
    """A version as text. It compares with texts, and with tuples of numbers, number by number.

    >>> TorchVersion("2.10.0") > "2.9", TorchVersion("2.7.1+cpu") >= (2, 7)
    (True, True)
    """

    def __eq__(self, other: object) -> bool:
        try:
            return _release(self) == _release(other)
        except ValueError:
            return str(self) == other

    def __lt__(self, other: Any) -> bool:
        return _release(self) < _release(other)

    def __le__(self, other: Any) -> bool:
        return _release(self) <= _release(other)

    def __gt__(self, other: Any) -> bool:
        return _release(self) > _release(other)

    def __ge__(self, other: Any) -> bool:
        return _release(self) >= _release(other)

    __hash__ = str.__hash__
