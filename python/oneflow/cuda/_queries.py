"""Questions and switches of less use: random states, dtypes, typed tensors, interprocess memory."""

from __future__ import annotations

from typing import Any

from oneflow import Tensor, random
from oneflow._tensor import typed_tensors

__all__ = [
    "get_arch_list",
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "ipc_collect",
    "is_bf16_supported",
    "is_tf32_supported",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return whether a GPU computes in bfloat16: natively from compute capability 8.0, otherwise through float32."""
    from oneflow import cuda

    if not cuda.is_available():
        return False
    return including_emulation or cuda.get_device_capability()[0] >= 8


def is_tf32_supported() -> bool:
    """Return whether a GPU has TF32: from compute capability 8.0 on."""
    from oneflow import cuda

    return cuda.is_available() and cuda.get_device_capability()[0] >= 8


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of the generator of all devices.

    Example::

        >>> state = oneflow.cuda.get_rng_state()
        >>> oneflow.cuda.set_rng_state(state)
    """
    return random.get_rng_state()


def get_rng_state_all() -> list[Tensor]:
    """The state of the generator, once for each GPU.

    Example::

        >>> len(oneflow.cuda.get_rng_state_all()) == oneflow.cuda.device_count()
        True
    """
    from oneflow import cuda

    return [random.get_rng_state() for _ in range(cuda.device_count())]


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Put a state from :func:`get_rng_state` back.

    Example::

        >>> oneflow.cuda.set_rng_state(oneflow.cuda.get_rng_state())
    """
    random.set_rng_state(new_state)


def set_rng_state_all(new_states: Any) -> None:
    """Put the states from :func:`get_rng_state_all` back: there is one generator, which takes the last.

    Example::

        >>> oneflow.cuda.set_rng_state_all(oneflow.cuda.get_rng_state_all())
    """
    for state in new_states:
        random.set_rng_state(state)


def seed() -> None:
    """Seed from the operating system.

    Example::

        >>> oneflow.cuda.seed()
    """
    random.seed()


seed_all = seed


def initial_seed() -> int:
    """The seed in use.

    Example::

        >>> isinstance(oneflow.cuda.initial_seed(), int)
        True
    """
    return random.initial_seed()


def ipc_collect() -> None:
    """Do nothing: memory of a GPU is not shared between processes."""


def get_arch_list() -> list[str]:
    """Empty: kernels are compiled for the GPU that is found."""
    return []


for _kind in typed_tensors.DTYPES:
    globals()[f"{_kind}Tensor"] = typed_tensors.make(f"{_kind}Tensor", "cuda")
    __all__.append(f"{_kind}Tensor")
