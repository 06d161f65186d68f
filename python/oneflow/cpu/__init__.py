"""The CPU as a device: one, always there, synchronous."""

from __future__ import annotations

import contextlib
import os
import pathlib
import platform
from typing import Any

from oneflow.cpu import amp

__all__ = [
    "amp",
    "current_device",
    "device_count",
    "get_capabilities",
    "is_available",
    "set_device",
    "synchronize",
]


def is_available() -> bool:
    """Return True.

    Example::

        >>> oneflow.cpu.is_available()
        True
    """
    return True


def device_count() -> int:
    """Return one.

    Example::

        >>> oneflow.cpu.device_count()
        1
    """
    return 1


def current_device() -> str:
    """Return "cpu".

    Example::

        >>> oneflow.cpu.current_device()
        'cpu'
    """
    return "cpu"


def set_device(device: Any) -> None:
    """Accepted for compatibility: there is one CPU device.

    Example::

        >>> oneflow.cpu.set_device("cpu")
    """


def synchronize(device: Any = None) -> None:
    """Accepted for compatibility: ops on the CPU are done when they return.

    Example::

        >>> oneflow.cpu.synchronize()
    """


# PyTorch's names of instruction sets, and Linux's.
_INSTRUCTIONS = {
    "aes": "aes",
    "amx_bf16": "amx_bf16",
    "amx_fp16": "amx_fp16",
    "amx_int8": "amx_int8",
    "amx_tile": "amx_tile",
    "avx": "avx",
    "avx2": "avx2",
    "avx10_1": "avx10_1",
    "avx10_2": "avx10_2",
    "avx512_4fmaps": "avx512_4fmaps",
    "avx512_4vnniw": "avx512_4vnniw",
    "avx512_bf16": "avx512_bf16",
    "avx512_bitalg": "avx512_bitalg",
    "avx512_bw": "avx512bw",
    "avx512_cd": "avx512cd",
    "avx512_dq": "avx512dq",
    "avx512_f": "avx512f",
    "avx512_fp16": "avx512_fp16",
    "avx512_ifma": "avx512ifma",
    "avx512_vbmi": "avx512vbmi",
    "avx512_vbmi2": "avx512_vbmi2",
    "avx512_vl": "avx512vl",
    "avx512_vnni": "avx512_vnni",
    "avx512_vp2intersect": "avx512_vp2intersect",
    "avx512_vpopcntdq": "avx512_vpopcntdq",
    "avx_ne_convert": "avx_ne_convert",
    "avx_vnni": "avx_vnni",
    "avx_vnni_int16": "avx_vnni_int16",
    "avx_vnni_int8": "avx_vnni_int8",
    "bmi": "bmi1",
    "bmi2": "bmi2",
    "clflush": "clflush",
    "clflushopt": "clflushopt",
    "clwb": "clwb",
    "f16c": "f16c",
    "fma3": "fma",
    "fma4": "fma4",
    "lzcnt": "abm",
    "popcnt": "popcnt",
    "sha": "sha_ni",
    "sse": "sse",
    "sse2": "sse2",
    "sse3": "pni",
    "sse4_1": "sse4_1",
    "sse4_2": "sse4_2",
    "sse4a": "sse4a",
    "ssse3": "ssse3",
}


def get_capabilities() -> dict[str, Any]:
    """Return what the processor says of itself: architecture and name, cores, bytes of caches, and its instructions.

    Where the system does not say (no ``/proc/cpuinfo``, or another processor than x86), instructions are left out.

    Example::

        >>> oneflow.cpu.get_capabilities()["num_logical_cores"] >= 1
        True
    """
    found: dict[str, Any] = {"architecture": platform.machine(), "num_logical_cores": os.cpu_count() or 1}
    try:
        lines = [line.partition(":") for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()]
    except OSError:
        return found
    said = {key.strip(): value.strip() for key, _, value in reversed(lines)}
    pairs = [(key.strip(), value.strip()) for key, _, value in lines]
    sockets = {value for key, value in pairs if key == "physical id"}
    if "cpu cores" in said:
        found["num_sockets"] = max(1, len(sockets))
        found["num_physical_cores"] = int(said["cpu cores"]) * found["num_sockets"]
    if "model name" in said:
        found["cpu_name"] = said["model name"]
    if "flags" in said:
        has = set(said["flags"].split())
        found.update((name, flag in has) for name, flag in _INSTRUCTIONS.items())
    for name, index in (("l1d_cache_size", 0), ("l2_cache_size", 2)):
        with contextlib.suppress(OSError, ValueError):
            size = pathlib.Path(f"/sys/devices/system/cpu/cpu0/cache/index{index}/size").read_text().strip()
            found[name] = int(size.removesuffix("K")) * 1024
    return found
