"""Hints for OneFlow's NCCL boxing. They have no effect here: each warns once and changes nothing.

Boxing is a step of the program on the stream that needs it, and the planner chooses its collectives by their bytes.
"""

from __future__ import annotations

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

_WHY = "a change of layout is a step of the program on the stream that needs it, planned by its bytes"


def _hint(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind) or (kind is int and (isinstance(value, bool) or value < 1)):  # type: ignore[operator]
        wanted = "a positive integer" if kind is int else "a bool"
        raise ValueError(f"boxing.nccl.{name}(): expected {wanted}, got {value!r}")
    without_effect(f"boxing.nccl.{name}()", _WHY)


def set_fusion_threshold_mbytes(val: int) -> None:
    """Hint how many bytes are sent together (OneFlow: 16). Accepted; warns once that it has no effect.

    Raises:
        ValueError: it is not a positive integer.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.boxing.nccl.set_fusion_threshold_mbytes(2)
    """
    _hint("set_fusion_threshold_mbytes", val, int)


def set_fusion_max_ops_num(val: int) -> None:
    """Hint how many collectives run together (OneFlow: 64). Accepted; warns once that it has no effect.

    Raises:
        ValueError: it is not a positive integer.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.boxing.nccl.set_fusion_max_ops_num(2)
    """
    _hint("set_fusion_max_ops_num", val, int)


def set_stream_num(val: int) -> None:
    """Hint on how many streams they run (OneFlow: 1). Accepted; warns once that it has no effect.

    Raises:
        ValueError: it is not a positive integer.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.boxing.nccl.set_stream_num(2)
    """
    _hint("set_stream_num", val, int)


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
    """Hint to run collectives on the stream of the computation. Accepted; warns once that it has no effect.

    Raises:
        ValueError: it is no bool.

    Example::

        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     oneflow.boxing.nccl.enable_use_compute_stream(True)
    """
    _hint("enable_use_compute_stream", val, bool)


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
