"""Several modules at a time, each in a thread."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Sequence
from typing import Any

import oneflow
from oneflow.nn.modules.module import Module

__all__ = ["parallel_apply"]


def parallel_apply(
    modules: Sequence[Module],
    inputs: Sequence[Any],
    kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:
    """Run every module on its own arguments at the same time and return what they gave, in order.

    Args:
        modules: one for each input; a module may be repeated.
        inputs: for each a tuple of arguments, or its only argument.
        kwargs_tup: for each its named arguments.
        devices: for each where it is; modules run where their parameters are.

    Raises:
        ValueError: the lists differ in length.
        Exception: of the first module that failed.

    Example::

        >>> a, b = nn.ReLU(), nn.Sigmoid()
        >>> nn.parallel.parallel_apply([a, b], [oneflow.ones(1), oneflow.zeros(1)])
        [tensor([1.]), tensor([0.5000])]
    """
    named = [{} for _ in modules] if kwargs_tup is None else list(kwargs_tup)
    if not len(modules) == len(inputs) == len(named) or (devices is not None and len(devices) != len(modules)):
        raise ValueError("parallel_apply(): modules, inputs, kwargs_tup and devices must be of one length")
    results: list[Any] = [None] * len(modules)
    errors: list[BaseException | None] = [None] * len(modules)
    grad_enabled = oneflow.is_grad_enabled()
    autocast = {"enabled": oneflow.is_autocast_enabled("cpu"), "dtype": oneflow.get_autocast_dtype("cpu")}

    def run(i: int) -> None:
        arguments = inputs[i] if isinstance(inputs[i], (list, tuple)) else (inputs[i],)
        try:
            with oneflow.set_grad_enabled(grad_enabled), oneflow.autocast("cpu", **autocast):
                results[i] = modules[i](*arguments, **named[i])
        except BaseException as error:
            errors[i] = error

    if len(modules) == 1:
        run(0)
    else:
        contexts = [contextvars.copy_context() for _ in modules]
        threads = [threading.Thread(target=context.run, args=(run, i)) for i, context in enumerate(contexts)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for error in errors:
        if error is not None:
            raise error
    return results
