"""Settings of all pipes of a pipeline: ``torch.utils.data.graph_settings``."""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import oneflow
from oneflow.utils.data.datapipes.iter.sharding import SHARDING_PRIORITIES
from oneflow.utils.data.graph import traverse_dps

__all__ = ["apply_random_seed", "apply_sharding", "apply_shuffle_settings", "get_all_graph_pipes"]


def get_all_graph_pipes(graph: dict[int, tuple[Any, Any]]) -> list[Any]:
    """Return all pipes of what :func:`~oneflow.utils.data.graph.traverse_dps` gives, each once.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> from oneflow.utils.data.graph import traverse_dps
        >>> from oneflow.utils.data.graph_settings import get_all_graph_pipes
        >>> get_all_graph_pipes(traverse_dps(IterableWrapper(range(3)).batch(2)))
        [BatcherIterDataPipe, IterableWrapperIterDataPipe]
    """
    found: dict[int, Any] = {}
    waiting = [graph]
    while waiting:
        for number, (pipe, inner) in waiting.pop().items():
            found.setdefault(number, pipe)
            waiting.append(inner)
    return list(found.values())


def _has(pipe: Any, *names: str) -> bool:
    return all(inspect.ismethod(getattr(pipe, name, None)) for name in names)


def apply_sharding(
    datapipe: Any,
    num_of_instances: int,
    instance_id: int,
    sharding_group: SHARDING_PRIORITIES = SHARDING_PRIORITIES.DEFAULT,
) -> Any:
    """Make a pipeline one of several at its ``sharding_filter``, and return it.

    Raises:
        RuntimeError: there are two of them one after the other, which would lose samples.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> from oneflow.utils.data.graph_settings import apply_sharding
        >>> list(apply_sharding(IterableWrapper(range(6)).sharding_filter().batch(2), 2, 1))
        [[1, 3], [5]]
    """
    _shard(traverse_dps(datapipe), None, num_of_instances, instance_id, sharding_group)
    return datapipe


def _shard(graph: dict[int, tuple[Any, Any]], before: Any, n: int, number: int, group: SHARDING_PRIORITIES) -> None:
    for pipe, inner in graph.values():
        applied = before
        if _has(pipe, "apply_sharding"):
            if before is not None:
                raise RuntimeError(
                    "Sharding twice on a single pipeline is likely unintended and will cause data loss. Sharding "
                    f"already applied to {before} while trying to apply to {pipe}"
                )
            takes_group = len(inspect.signature(pipe.apply_sharding).parameters) > 2
            pipe.apply_sharding(n, number, **({"sharding_group": group} if takes_group else {}))
            applied = pipe
        _shard(inner, applied, n, number, group)


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Let the pipes that can shuffle do so or not, and return the pipeline; ``None`` changes nothing.

    Where none can and ``shuffle`` is true, one is added behind it, with a warning.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> from oneflow.utils.data.graph_settings import apply_shuffle_settings
        >>> list(apply_shuffle_settings(IterableWrapper(range(4)).shuffle(), shuffle=False))
        [0, 1, 2, 3]
    """
    if shuffle is None:
        return datapipe
    pipes = get_all_graph_pipes(traverse_dps(datapipe))
    shufflers = [pipe for pipe in pipes if _has(pipe, "set_shuffle", "set_seed")]
    if shuffle and not shufflers:
        warnings.warn(
            "`shuffle=True` was set, but the datapipe does not contain a `Shuffler`. Adding one at the end. Be aware "
            "that the default buffer size might not be sufficient for your task.",
            stacklevel=2,
        )
        datapipe = datapipe.shuffle()
        shufflers = [datapipe]
    for shuffler in shufflers:
        shuffler.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: oneflow.Generator) -> Any:
    """Seed the pipes that draw numbers, each with one of the generator's, and return the pipeline.

    Example::

        >>> from oneflow.utils.data.datapipes.iter import IterableWrapper
        >>> from oneflow.utils.data.graph_settings import apply_random_seed
        >>> pipe = IterableWrapper(range(9)).shuffle()
        >>> first = list(apply_random_seed(pipe, oneflow.Generator().manual_seed(1)))
        >>> first == list(apply_random_seed(pipe, oneflow.Generator().manual_seed(1)))
        True
    """
    for pipe in get_all_graph_pipes(traverse_dps(datapipe)):
        if _has(pipe, "set_seed"):
            pipe.set_seed(int(oneflow.empty((), dtype=oneflow.int64).random_(generator=rng).item()))
    return datapipe
