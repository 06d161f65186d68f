"""`*_like` functions and meta tensors: the results own their memory."""

from __future__ import annotations

import oneflow
import pytest

META = oneflow.empty(2, 3, device="meta")
MAKERS = {
    "empty_like": lambda: oneflow.empty_like(META, device="cpu").fill_(1),
    "zeros_like": lambda: oneflow.zeros_like(META, device="cpu"),
    "ones_like": lambda: oneflow.ones_like(META, device="cpu"),
    "full_like": lambda: oneflow.full_like(META, 2, device="cpu"),
    "rand_like": lambda: oneflow.rand_like(META, device="cpu"),
    "randn_like": lambda: oneflow.randn_like(META, device="cpu"),
    "randint_like": lambda: oneflow.randint_like(META, 3, device="cpu"),
    "new_empty": lambda: META.new_empty((2, 3), device="cpu").fill_(1),
    "new_empty_strided": lambda: META.new_empty_strided((2, 3), (1, 2), device="cpu").fill_(1),
    "new_full": lambda: META.new_full((2, 3), 1.0, device="cpu"),
    "new_ones": lambda: META.new_ones((2, 3), device="cpu"),
    "new_zeros": lambda: META.new_zeros((2, 3), device="cpu"),
}


@pytest.mark.parametrize("name", MAKERS)
def test_it_has_memory(name):
    made = MAKERS[name]()
    assert made.device.type == "cpu" and made.shape == (2, 3)
    assert made.data_ptr() != 0
    assert len(made.tolist()) == 2


def test_data_is_not_copied_from_nowhere():
    with pytest.raises(NotImplementedError, match="no data"):
        META.to("cpu")
    with pytest.raises(NotImplementedError, match="no data"):
        oneflow.zeros(2, 3).copy_(META)
