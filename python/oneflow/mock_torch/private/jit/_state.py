"""``torch.jit._state``: the classes that TorchScript has compiled; there are none."""

from __future__ import annotations

__all__: list[str] = []


def _clear_class_state() -> None:
    """Nothing is held."""
