"""Names of ``torch`` itself that packages mention though oneflow has them elsewhere or not at all."""

from __future__ import annotations

from oneflow.futures import Future
from oneflow.jit import ScriptModule
from oneflow.mock_torch.private._C import PyTorchFileReader, PyTorchFileWriter

__all__ = ["Future", "PyTorchFileReader", "PyTorchFileWriter", "ScriptModule"]
