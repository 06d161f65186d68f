"""What ``import torch`` finds where this folder is on the path: it puts oneflow in its own place."""

import sys

# The import system returns what stands in `sys.modules` after this body ran: let that be the mock.
del sys.modules["torch"]

from oneflow import mock_torch

mock_torch.enable()
import torch  # the mock, under the same name
