"""Who copies the tensors of an asynchronous checkpoint: PyTorch's ``torch.distributed.checkpoint.staging``."""

from __future__ import annotations

import copy
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import oneflow
from oneflow import Tensor
from oneflow.utils import _pytree

__all__ = ["AsyncStager", "DefaultStager", "StagingOptions"]


@runtime_checkable
class AsyncStager(Protocol):
    """Copies a state dictionary, so that training may change it: a form for stagers of one's own.

    A class that inherits it has at least ``stage``, which returns the copy, or a future of it.

    Example::

        >>> from oneflow.distributed.checkpoint import staging
        >>> class Clones(staging.AsyncStager):
        ...     def stage(self, state_dict):
        ...         return {name: t.clone() for name, t in state_dict.items()}
        >>> Clones().stage({"w": oneflow.ones(1)})
        {'w': tensor([1.])}
    """

    _synchronize_after_execute: bool = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether :func:`.async_save` calls ``synchronize_staging`` itself."""
        return self._synchronize_after_execute

    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any] | Future[dict[str, Any]]:
        """Return a copy of the state dictionary, or a future of one."""
        raise NotImplementedError(f"{type(self).__name__} must implement stage method")

    def synchronize_staging(self) -> None:
        """Return when all is copied."""

    def close(self) -> None:
        """Let go of what was kept for further copies."""


@dataclass
class StagingOptions:
    """How :class:`DefaultStager` copies.

    Attributes:
        use_async_staging: tensors are copied beside the forward and backward that follow the call.
        use_pinned_memory, use_shared_memory, use_non_blocking_copy: accepted, as they change no result: the package
            chooses the memory that it writes from.

    Example::

        >>> from oneflow.distributed.checkpoint.staging import DefaultStager, StagingOptions
        >>> DefaultStager(StagingOptions(use_async_staging=False)).stage({"w": oneflow.ones(1)})
        {'w': tensor([1.])}
    """

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


class DefaultStager(AsyncStager):
    """The package's own copies: of :func:`.async_save` those that become the file.

    Args:
        config: whether they are made in the call or beside what follows it.

    Example::

        >>> import oneflow.distributed.checkpoint as dcp
        >>> from oneflow.distributed.checkpoint.staging import DefaultStager
        >>> w = oneflow.ones(2)
        >>> response = dcp.async_save({"w": w}, checkpoint_id="checkpoint", async_stager=DefaultStager())
        >>> loss = (w * 3).sum()  # Forward and backward.
        >>> response.staging_completion.result()
        >>> w.sub_(0.5)  # The optimizer.
        tensor([0.5000, 0.5000])
        >>> response.upload_completion.result()
        >>> dcp.load({"w": w}, checkpoint_id="checkpoint")
        >>> w
        tensor([1., 1.])
    """

    def __init__(self, config: StagingOptions | None = None) -> None:
        self.options = StagingOptions() if config is None else config

    def stage(self, state_dict: dict[str, Any]) -> dict[str, Any] | Future[dict[str, Any]]:
        """Copy a state dictionary now. Returns a future of the copy with ``use_async_staging``."""
        with oneflow.no_grad():
            copied = _pytree.tree_map(
                lambda value: value.detach().clone() if isinstance(value, Tensor) else copy.deepcopy(value), state_dict
            )
        if not self.options.use_async_staging:
            return copied
        future: Future[dict[str, Any]] = Future()
        future.set_result(copied)
        return future
