"""``torch.jit._recursive``: the store of types that TorchScript has compiled, which stays empty."""

from __future__ import annotations

__all__: list[str] = []


class ConcreteTypeStore:
    """A store without types."""


concrete_type_store = ConcreteTypeStore()
