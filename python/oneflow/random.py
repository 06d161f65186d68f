"""The default generator of random numbers: its seed and its state."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator as Iterating
from typing import Any

from oneflow import _oneflow
from oneflow._oneflow import Generator, Tensor

default_generator: Generator = _oneflow.default_generator


def manual_seed(seed: int) -> Generator:
    """Seed every random draw that follows.

    Args:
        seed: an integer in [-2^63, 2^64).

    Raises:
        NotImplementedError: inside the build of a graph, which draws from the generator's position at each call.

    Example::

        >>> _ = oneflow.manual_seed(0)
    """
    if _oneflow._is_tracing():
        raise NotImplementedError(
            "manual_seed(): a graph draws from the default generator in each call: seed it before, not in build"
        )
    return default_generator.manual_seed(int(seed))


def use(engine: str) -> str:
    """Choose how the default generator, and generators created from now on, draw on the CPU.

    ``"philox"``, the default, computes every number from the seed, the number of the call and the element's index: the
    same with any number of threads, on any device, split over ranks and inside graphs.

    ``"mt19937"`` draws one number after the other with PyTorch's engine and algorithms. After the same
    :func:`manual_seed` these return PyTorch's own numbers: ``rand, randn, randint, randperm, normal, bernoulli,
    multinomial, poisson, binomial``, gamma and Dirichlet distributions and what is made of them, the methods
    that fill tensors, dropout, ``nn.init`` and so the weights of new modules, samplers and loaders;
    :func:`get_rng_state` returns PyTorch's bytes. A ported program can be checked loss by loss.
    In half types ``multinomial`` with replacement and ``normal`` of two tensors may differ.

    It works in eager calls on the CPU and with whole tensors. Graphs, compiled functions, CUDA devices, shards of
    global tensors raise NotImplementedError. Drawing runs on one thread. On Intel's
    processors PyTorch may draw ``exponential_``, ``bernoulli_`` of one probability, and so dropout, with another
    library; the numbers here are those of all other processors.

    A generator that changes its engine starts over from its seed. The environment variable ``ONEFLOW_RANDOM=mt19937``
    makes the choice when the package is imported.

    Args:
        engine: ``"philox"`` or ``"mt19937"``.

    Returns:
        The engine that was used before.

    Raises:
        ValueError: there is no such engine.

    Example::

        >>> before = oneflow.random.use("mt19937")
        >>> _ = oneflow.manual_seed(0)
        >>> oneflow.rand(3)
        tensor([0.4963, 0.7682, 0.0885])
        >>> oneflow.random.use(before)
        'mt19937'
    """
    if _oneflow._is_tracing():
        raise NotImplementedError("random.use(): choose the engine before the build of a graph, not in it")
    return _oneflow._use_random_engine(engine)


def seed() -> int:
    """Seed from the operating system and return the seed drawn.

    Example::

        >>> isinstance(oneflow.seed(), int)
        True
    """
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed in use.

    Example::

        >>> _ = oneflow.manual_seed(3)
        >>> oneflow.initial_seed()
        3
    """
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """Return the state of the default generator as a tensor of bytes.

    Example::

        >>> oneflow.get_rng_state().dtype
        oneflow.uint8
    """
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Put a state from :func:`get_rng_state` back.

    Example::

        >>> state = oneflow.get_rng_state()
        >>> x = oneflow.rand(2)
        >>> oneflow.set_rng_state(state)
        >>> oneflow.equal(x, oneflow.rand(2))
        True
    """
    default_generator.set_state(new_state)


if "ONEFLOW_RANDOM" in os.environ:
    use(os.environ["ONEFLOW_RANDOM"])


@contextlib.contextmanager
def fork_rng(
    devices: Any = None,
    enabled: bool = True,
    _caller: str = "fork_rng",
    _devices_kw: str = "devices",
    device_type: str = "cuda",
) -> Iterating[None, None, None]:
    """Inside, draw as if nothing had been drawn; afterwards the state is what it was before.

    Args:
        devices: accepted: all devices draw from one generator.
        enabled: False does nothing.

    Example::

        >>> with oneflow.random.fork_rng():
        ...     x = oneflow.rand(2)
    """
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
