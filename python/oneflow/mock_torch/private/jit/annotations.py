"""``torch.jit.annotations``: lists that one number may replace."""

from __future__ import annotations

from typing import Any, List, Optional  # noqa: UP035  (found here too)

__all__ = ["Any", "List", "Optional"]


class _BroadcastingList:
    def __getitem__(self, item: Any) -> Any:
        """In annotations only: a list of ``item``."""
        return list[item]


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = BroadcastingList1
