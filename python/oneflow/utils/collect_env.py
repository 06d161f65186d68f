"""What a report of a fault says of the machine: ``python -m oneflow.utils.collect_env``."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

import oneflow
from oneflow.backends.cpu import get_cpu_capability

__all__ = ["SystemEnv", "get_env_info", "get_pretty_env_info", "main"]

# Packages that a fault may have to do with.
_PACKAGES = ("oneflow", "numpy", "nvidia-", "onnx", "torch", "triton", "mypy")


class SystemEnv(NamedTuple):
    """A machine and what is installed on it; "N/A" is what it does not have.

    Example::

        >>> from oneflow.utils.collect_env import get_env_info
        >>> get_env_info().python_version.startswith("3.")
        True
    """

    torch_version: str
    is_debug_build: str
    cuda_compiled_version: str
    gcc_version: str
    clang_version: str
    cmake_version: str
    os: str
    libc_version: str
    python_version: str
    python_platform: str
    is_cuda_available: str
    nvidia_driver_version: str
    nvidia_gpu_models: str
    pip_version: str
    pip_packages: str
    is_xnnpack_available: str
    cpu_info: str


def _first_line(*command: str) -> str:
    """What a program says of its version; "N/A" without the program."""
    if shutil.which(command[0]) is None:
        return "N/A"
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "N/A"
    lines = done.stdout.strip().splitlines()
    return lines[0].strip() if done.returncode == 0 and lines else "N/A"


def _system() -> str:
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except (OSError, KeyError):
        name = platform.platform()
    return f"{name} ({platform.machine()})"


def _cpu() -> str:
    model = platform.processor() or "unknown"
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    return f"Model name: {model}\nCPU(s): {os.cpu_count()}\nCapability: {get_cpu_capability()}"


def _pip() -> str:
    try:
        return f"pip{sys.version_info.major} {importlib.metadata.version('pip')}"
    except importlib.metadata.PackageNotFoundError:
        return "N/A"


def _packages() -> str:
    found = {d.metadata["Name"]: d.version for d in importlib.metadata.distributions() if d.metadata["Name"]}
    return "\n".join(
        f"{name}=={found[name]}" for name in sorted(found, key=str.lower) if name.lower().startswith(_PACKAGES)
    )


def get_env_info() -> SystemEnv:
    """Ask the machine what it is and has.

    Example::

        >>> from oneflow.utils.collect_env import get_env_info
        >>> get_env_info().torch_version == oneflow.__version__
        True
    """
    has_cuda = oneflow.cuda.is_available()
    gpus = [oneflow.cuda.get_device_name(i) for i in range(oneflow.cuda.device_count())] if has_cuda else []
    driver = _first_line("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader")
    return SystemEnv(
        torch_version=oneflow.__version__,
        is_debug_build=str(oneflow.version.debug),
        cuda_compiled_version=str(oneflow.version.cuda or "N/A"),
        gcc_version=re.sub(r"^gcc ", "", _first_line("gcc", "--version")),
        clang_version=_first_line("clang", "--version"),
        cmake_version=_first_line("cmake", "--version").removeprefix("cmake "),
        os=_system(),
        libc_version="-".join(platform.libc_ver()),
        python_version=f"{sys.version} ({sys.maxsize.bit_length() + 1}-bit runtime)".replace("\n", " "),
        python_platform=platform.platform(),
        is_cuda_available=str(has_cuda),
        nvidia_driver_version=driver,
        nvidia_gpu_models="\n".join(f"GPU {i}: {name}" for i, name in enumerate(gpus)) or "N/A",
        pip_version=_pip(),
        pip_packages=_packages(),
        is_xnnpack_available=str(oneflow.backends.xnnpack.is_available()),
        cpu_info=_cpu(),
    )


def get_pretty_env_info() -> str:
    """What :func:`get_env_info` finds, as text for a report.

    Example::

        >>> print(oneflow.utils.collect_env.get_pretty_env_info().splitlines()[1])
        Is debug build: False
    """
    info = get_env_info()
    return f"""OneFlow version: {info.torch_version}
Is debug build: {info.is_debug_build}
CUDA used to build OneFlow: {info.cuda_compiled_version}

OS: {info.os}
GCC version: {info.gcc_version}
Clang version: {info.clang_version}
CMake version: {info.cmake_version}
Libc version: {info.libc_version}

Python version: {info.python_version}
Python platform: {info.python_platform}
Is CUDA available: {info.is_cuda_available}
GPU models and configuration: {info.nvidia_gpu_models}
Nvidia driver version: {info.nvidia_driver_version}

CPU:
{info.cpu_info}

Versions of relevant libraries:
{info.pip_packages}"""


def main() -> None:
    """Print the report.

    Example::

        >>> import contextlib, io
        >>> with contextlib.redirect_stdout(io.StringIO()) as report:
        ...     oneflow.utils.collect_env.main()
        >>> report.getvalue().startswith("OneFlow version")
        True
    """
    print(get_pretty_env_info())  # noqa: T201


if __name__ == "__main__":
    main()
