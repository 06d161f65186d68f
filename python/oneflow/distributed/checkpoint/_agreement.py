"""Steps that the ranks of a save or load take together: where one rank fails, all raise, and none waits for it.

Only exceptions of a step travel to the other ranks. A rank that ends is an error of the collective that waits for it.
"""

from __future__ import annotations

import builtins
import traceback
from collections.abc import Callable
from typing import Any

from oneflow import distributed
from oneflow.distributed.checkpoint.api import CheckpointException

__all__ = ["gathered", "ranks_of", "settled"]


def ranks_of(group: Any, no_dist: bool) -> Any:
    """The group of the ranks that take part; ``None`` for this process alone."""
    if no_dist or distributed.get_world_size(group) == 1:
        return None
    return group or distributed.group.WORLD


def gathered(what: str, step: Callable[[], Any], group: Any, wraps: bool = False) -> list[Any]:
    """What ``step`` returns on each rank, plain values, by rank.

    Args:
        what: what failed, the beginning of the error.
        group: of :func:`ranks_of`.
        wraps: this rank's exception is a CheckpointException, too, in place of the step's.

    Raises:
        CheckpointException: another rank's step raised; it names the ranks.
    """
    failure, text, mine = None, None, None
    try:
        mine = step()
    except Exception as error:  # All ranks learn of it.
        failure, text = error, _words(error)
    told = [(mine, text)]
    if group is not None:
        told = [(None, None)] * distributed.get_world_size(group)
        distributed.all_gather_object(told, (mine, text), group)
    here = 0 if group is None else distributed.get_rank(group)
    _check(what, {rank: text for rank, (_, text) in enumerate(told)}, failure, wraps, here)
    return [value for value, _ in told]


def settled(what: str, step: Callable[[], Any], group: Any, wraps: bool = False) -> Any:
    """What ``step`` returns on the first rank, which alone takes it; see :func:`gathered`."""
    failure = None
    told: list[Any] = [None, None]
    if group is None or distributed.get_rank(group) == 0:
        try:
            told[0] = step()
        except Exception as error:
            failure, told[1] = error, _words(error)
    if group is not None:
        distributed.broadcast_object_list(told, distributed.get_global_rank(group, 0), group)
    _check(what, {0: told[1]}, failure, wraps, 0)
    return told[0]


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _check(what: str, texts: dict[int, str | None], failure: Exception | None, wraps: bool, here: int) -> None:
    if failure is not None and not wraps:
        raise failure
    bad = "; ".join(f"rank {rank}: {text}" for rank, text in texts.items() if text is not None)
    if bad:
        failures: dict[int, tuple[BaseException, Any]] = {
            rank: (_rebuilt(text), None) for rank, text in texts.items() if text is not None
        }
        if failure is not None:
            failures[here] = (failure, traceback.extract_tb(failure.__traceback__))
        raise CheckpointException(f"{what}: {bad}", failures) from failure


def _rebuilt(text: str) -> Exception:
    """The exception of another rank, of which only the words come."""
    name, _, words = text.partition(": ")
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(words)
        except TypeError:  # One that is not made of a text alone.
            pass
    return RuntimeError(text)
