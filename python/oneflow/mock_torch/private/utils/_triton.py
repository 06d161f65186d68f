"""``torch.utils._triton``: packages ask it whether they may run kernels of their own; there is no Triton here."""

from __future__ import annotations

__all__ = ["has_triton", "has_triton_package"]


def has_triton_package() -> bool:
    """False, whether it is installed or not: its kernels take PyTorch's tensors."""
    return False


def has_triton() -> bool:
    """False, as :func:`has_triton_package`."""
    return False
