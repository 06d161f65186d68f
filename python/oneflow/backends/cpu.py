"""The CPU."""

from __future__ import annotations


def get_cpu_capability() -> str:
    """The widest vector instructions that kernels use here: "AVX512", "AVX2" or "DEFAULT".

    Example::

        >>> isinstance(oneflow.backends.cpu.get_cpu_capability(), str)
        True
    """
    from oneflow import _oneflow

    return _oneflow._cpu_isa()
