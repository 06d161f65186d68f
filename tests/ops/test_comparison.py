"""The comparison with PyTorch that the table tests use: it finds each planted fault."""

import oneflow
import pytest
import torch
from ops.op_samples import check_equal

RIGHT = [[1.0, 2.0], [3.0, 4.0]]
FAULTS = {
    "value": lambda: oneflow.tensor([[1.0, 2.0], [3.0, 4.001]]),
    "not a number": lambda: oneflow.tensor([[1.0, 2.0], [3.0, float("nan")]]),
    "dtype": lambda: oneflow.tensor(RIGHT, dtype=oneflow.float64),
    "shape": lambda: oneflow.tensor([RIGHT]),
    "stride": lambda: oneflow.tensor([[1.0, 3.0], [2.0, 4.0]]).t(),
    "number of results": lambda: (oneflow.tensor(RIGHT), oneflow.tensor(RIGHT)),
}


def test_equal_is_equal():
    check_equal(oneflow.tensor(RIGHT), torch.tensor(RIGHT))


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_is_seen(fault):
    with pytest.raises(AssertionError):
        check_equal(FAULTS[fault](), torch.tensor(RIGHT))
