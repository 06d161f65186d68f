"""The ``torch`` that programs find if this folder is on the path: it replaces itself by oneflow."""

import sys
from pathlib import Path

# The import system returns the entry of `sys.modules` after this body ran: let that be the mock.
del sys.modules["torch"]

from oneflow import mock_torch

mock_torch.enable()
if not mock_torch.is_enabled():
    # Switched off by the environment: the next one on the path is meant.
    sys.path[:] = [entry for entry in sys.path if Path(entry).resolve() != Path(__file__).resolve().parents[1]]
import torch  # the mock, under the same name
