"""The comparisons with PyTorch that tests use: they find each planted fault."""

import oneflow
import pytest
import torch
from ops.op_samples import check_equal
from torch_oracle import both, close, close_at_scale, outcome, same

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


NESTS = {
    "value": [1.0, 2.001],
    "not a number": [1.0, float("nan")],
    "length": [1.0, 2.0, 3.0],
    "type": [1, 2],
}


@pytest.mark.parametrize("fault", NESTS)
def test_helpers_see_faults_in_nests(fault):
    right = {"a": (torch.tensor([1.0, 2.0]), 1.5), "b": None}
    close({"a": (oneflow.tensor([1.0, 2.0]), 1.5), "b": None}, right)
    same({"a": [oneflow.tensor([1.0, 2.0]), 1.5], "b": None}, right)
    wrong = oneflow.tensor(NESTS[fault])
    for nest in ({"a": (wrong, 1.5), "b": None}, {"a": (oneflow.tensor([1.0, 2.0]), 1.51), "b": None}):
        for check in (close, same):
            with pytest.raises(AssertionError):
                check(nest, right)
    if fault != "type":
        with pytest.raises(AssertionError):
            close_at_scale(wrong, right["a"][0], 1e-4)


def test_helpers_see_faults_of_structure():
    x = torch.ones(2)
    for wrong, right in (
        (1.0, x),
        ([oneflow.ones(2)], [x, x]),
        ({"b": 1}, {"a": 1}),
        (None, x),
        (oneflow.ones(2), None),
    ):
        with pytest.raises(AssertionError):
            close(wrong, right)
    with pytest.raises(AssertionError):
        both(lambda fw: fw.__name__)
    assert outcome(lambda: oneflow.ones(2).reshape(3)) == "RuntimeError"
    assert outcome(lambda: [oneflow.ones(1)]) == outcome(lambda: [torch.ones(1)]) == [((1,), "float32", [1.0])]
