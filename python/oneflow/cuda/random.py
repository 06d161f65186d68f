"""Random states of GPUs, by the module that programs import them from."""

from __future__ import annotations

from oneflow.cuda import manual_seed, manual_seed_all
from oneflow.cuda._queries import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)

__all__ = [
    "get_rng_state",
    "get_rng_state_all",
    "initial_seed",
    "manual_seed",
    "manual_seed_all",
    "seed",
    "seed_all",
    "set_rng_state",
    "set_rng_state_all",
]
