"""``torch._C._cpu``: which instructions the processor has."""

from __future__ import annotations

from oneflow import cpu

__all__ = ["_is_amx_tile_supported", "_is_avx512_supported", "_is_avx512_vnni_supported", "_is_vnni_supported"]


def _is_avx512_supported() -> bool:
    """Whether it has AVX-512."""
    return bool(cpu.get_capabilities().get("avx512_f"))


def _is_avx512_vnni_supported() -> bool:
    """Whether it multiplies and adds bytes in AVX-512's registers."""
    return bool(cpu.get_capabilities().get("avx512_vnni"))


_is_vnni_supported = _is_avx512_vnni_supported


def _is_amx_tile_supported() -> bool:
    """Whether it has AMX's tiles."""
    return bool(cpu.get_capabilities().get("amx_tile"))
