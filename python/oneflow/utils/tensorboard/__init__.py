"""Event files for TensorBoard, written by the ``tensorboard`` package.

It is no dependency of the package: without it, importing this raises an error with the install command.
"""

from __future__ import annotations

try:
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
except ImportError as e:
    raise ImportError(
        "oneflow.utils.tensorboard needs the package 'tensorboard': install it with pip install tensorboard"
    ) from e

from oneflow.utils.tensorboard.writer import FileWriter, SummaryWriter

__all__ = ["EventFileWriter", "FileWriter", "SummaryWriter"]
