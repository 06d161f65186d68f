"""`accelerator` on a machine without one, beside PyTorch: what answers, what raises, and contexts without effect."""

import oneflow
import pytest
import torch

pytestmark = pytest.mark.skipif(
    oneflow.cuda.is_available() or torch.cuda.is_available(), reason="the machine has an accelerator"
)
ANSWERS = (
    "device_count",
    "empty_cache",
    "is_available",
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated",
    "memory_reserved",
    "memory_stats",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
)
RAISES = ("current_device_index", "current_stream", "get_memory_info", "synchronize")


@pytest.mark.parametrize("name", ANSWERS)
def test_answers(name):
    assert getattr(oneflow.accelerator, name)() == getattr(torch.accelerator, name)()


@pytest.mark.parametrize("name", RAISES)
def test_raises(name):
    for fw in (oneflow, torch):
        with pytest.raises(RuntimeError, match="NVIDIA driver"):
            getattr(fw.accelerator, name)()


def test_device_index():
    for fw in (oneflow, torch):
        with fw.accelerator.device_index(None):
            assert fw.ones(1).item() == 1
        with pytest.raises(RuntimeError, match="NVIDIA driver"), fw.accelerator.device_index(0):
            pass
