"""Where tensors are made inside a block or a function that has a device, beside PyTorch."""

import oneflow
import pytest
import torch
from oneflow.mock_torch.private.utils._device import DeviceContext, set_device

BOTH = (torch, oneflow)


@pytest.mark.parametrize("name", ["logspace", "linspace", "arange", "eye", "full", "rand", "zeros"])
def test_numbers_are_made_on_the_device_of_a_block(name):
    args = {"full": ((2,), 1.0), "logspace": (0, 1, 3), "linspace": (0, 1, 3)}.get(name, (3,))
    for lib in BOTH:
        with lib.device("meta"):
            assert getattr(lib, name)(*args).is_meta


def test_functions_make_their_tensors_on_a_device():
    @set_device("meta")
    def steps():
        yield oneflow.ones(1).device.type
        yield oneflow.ones(1).device.type

    assert set_device("meta", lambda: oneflow.ones(1))().is_meta
    assert [(kind, oneflow.ones(1).device.type) for kind in steps()] == [("meta", "cpu")] * 2
    block = DeviceContext("meta")
    with block, block:
        assert oneflow.ones(1).is_meta
    assert oneflow.ones(1).is_cpu
    with pytest.raises(RuntimeError, match="classes"):
        set_device("meta", int)
