"""How graphs run the collectives of boxing: OneFlow's names.

A compiled graph runs collectives on streams beside the compute stream where there is work to hide them behind, and
several of one kind as one. ``set_stream_num``, ``set_fusion_threshold_mbytes``, ``set_fusion_max_ops_num`` and
``enable_use_compute_stream`` count for graphs that are compiled afterwards, whatever the backend; all ranks must say
the same. The other names are hints without effect: each warns once. Eager boxing is a step of the program on its own
thread.
"""

from __future__ import annotations

from oneflow import _settings
from oneflow._base.refusals import without_effect

__all__ = [
    "allow_fuse_all_gather",
    "allow_fuse_all_reduce",
    "allow_fuse_broadcast",
    "allow_fuse_mixed_ops",
    "allow_fuse_reduce",
    "allow_fuse_reduce_scatter",
    "disable_group_boxing_by_dst_parallel",
    "enable_all_to_all",
    "enable_use_buffer_to_fuse_all_reduce",
    "enable_use_compute_stream",
    "set_fusion_max_ops_num",
    "set_fusion_threshold_mbytes",
    "set_stream_num",
]

_WHY = "collectives are planned by their bytes and their order in the program"


def _hint(name: str, value: object, kind: type) -> None:
    _check(name, value, kind)
    without_effect(f"boxing.nccl.{name}()", _WHY)


def _check(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind) or (kind is int and (isinstance(value, bool) or value < 1)):  # type: ignore[operator]
        wanted = "a positive integer" if kind is int else "a bool"
        raise ValueError(f"boxing.nccl.{name}(): expected {wanted}, got {value!r}")


def set_fusion_threshold_mbytes(val: int) -> None:
    """Set how many MiB of tensors collectives of one kind take together (16).

    Gradients of layers that follow each other are reduced in such buckets, each as soon as its last gradient is there.

    Raises:
        ValueError: it is not a positive integer.

    Example::

        >>> oneflow.boxing.nccl.set_fusion_threshold_mbytes(8)
        >>> oneflow.boxing.nccl.set_fusion_threshold_mbytes(16)
    """
    _check("set_fusion_threshold_mbytes", val, int)
    _settings.collectives["bucket_bytes"] = val << 20


def set_fusion_max_ops_num(val: int) -> None:
    """Set how many tensors collectives of one kind take together (64); with 1 each goes alone.

    Raises:
        ValueError: it is not a positive integer below 2**16.

    Example::

        >>> oneflow.boxing.nccl.set_fusion_max_ops_num(1)
        >>> oneflow.boxing.nccl.set_fusion_max_ops_num(64)
    """
    _check("set_fusion_max_ops_num", val, int)
    if val >= 1 << 16:
        raise ValueError(f"boxing.nccl.set_fusion_max_ops_num(): expected less than 65536, got {val}")
    _settings.collectives["bucket_ops"] = val


def set_stream_num(val: int) -> None:
    """Set on how many streams beside the compute stream collectives run (4).

    Collectives of one group of ranks share a stream and keep their order; groups share the streams.

    Raises:
        ValueError: it is not a positive integer up to 64.

    Example::

        >>> oneflow.boxing.nccl.set_stream_num(1)
        >>> oneflow.boxing.nccl.set_stream_num(4)
    """
    _check("set_stream_num", val, int)
    if val > 64:
        raise ValueError(f"boxing.nccl.set_stream_num(): expected at most 64, got {val}")
    _streams[0] = val
    if _settings.collectives["streams"]:
        _settings.collectives["streams"] = val


# How many streams there are while collectives use them.
_streams = [_settings.collectives["streams"]]


def allow_fuse_all_reduce(val: bool = True) -> None:
    """Hint to run all-reduces together. Accepted; warns once that it has no effect.

    Raises:
        ValueError: it is no bool.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.boxing.nccl.allow_fuse_all_reduce(True)
    """
    _hint("allow_fuse_all_reduce", val, bool)


def allow_fuse_reduce_scatter(val: bool = True) -> None:
    """Hint to run reduce-scatters together. Accepted; warns once that it has no effect.

    Raises:
        ValueError: it is no bool.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.boxing.nccl.allow_fuse_reduce_scatter(True)
    """
    _hint("allow_fuse_reduce_scatter", val, bool)


def allow_fuse_all_gather(val: bool = True) -> None:
    """Hint to run all-gathers together. Accepted; warns once that it has no effect.

    Raises:
        ValueError: it is no bool.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.boxing.nccl.allow_fuse_all_gather(True)
    """
    _hint("allow_fuse_all_gather", val, bool)


def allow_fuse_reduce(val: bool = True) -> None:
    """Hint to run reductions together. Accepted; warns once that it has no effect.

    Raises:
        ValueError: it is no bool.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.boxing.nccl.allow_fuse_reduce(True)
    """
    _hint("allow_fuse_reduce", val, bool)


def allow_fuse_broadcast(val: bool = True) -> None:
    """Hint to run broadcasts together. Accepted; warns once that it has no effect.

    Raises:
        ValueError: it is no bool.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.boxing.nccl.allow_fuse_broadcast(True)
    """
    _hint("allow_fuse_broadcast", val, bool)


def allow_fuse_mixed_ops(val: bool = True) -> None:
    """Hint to run collectives of different kinds together. Accepted; warns once that it has no effect.

    Raises:
        ValueError: it is no bool.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.boxing.nccl.allow_fuse_mixed_ops(True)
    """
    _hint("allow_fuse_mixed_ops", val, bool)


def enable_use_buffer_to_fuse_all_reduce(val: bool = True) -> None:
    """Hint to copy fused reductions into a buffer. Accepted; warns once that it has no effect.

    Raises:
        ValueError: it is no bool.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.boxing.nccl.enable_use_buffer_to_fuse_all_reduce(True)
    """
    _hint("enable_use_buffer_to_fuse_all_reduce", val, bool)


def enable_all_to_all(val: bool = True) -> None:
    """Hint to use all-to-all from one split to another. Accepted; warns once that it has no effect.

    Raises:
        ValueError: it is no bool.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.boxing.nccl.enable_all_to_all(True)
    """
    _hint("enable_all_to_all", val, bool)


def enable_use_compute_stream(val: bool = True) -> None:
    """Run collectives of graphs in line with the computation, one by one and where the program has them.

    Off, as it is unless it is asked for, they run on streams of their own and in buckets.

    Raises:
        ValueError: it is no bool.

    Example::

        >>> oneflow.boxing.nccl.enable_use_compute_stream(True)
        >>> oneflow.boxing.nccl.enable_use_compute_stream(False)
    """
    _check("enable_use_compute_stream", val, bool)
    _settings.collectives["streams"] = 0 if val else _streams[0]


def disable_group_boxing_by_dst_parallel(val: bool = True) -> None:
    """Hint to group collectives by their destination. Accepted; warns once that it has no effect.

    Raises:
        ValueError: it is no bool.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.boxing.nccl.disable_group_boxing_by_dst_parallel(True)
    """
    _hint("disable_group_boxing_by_dst_parallel", val, bool)
