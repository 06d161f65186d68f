"""``segment_reduce`` over NaN, zeros, ties, empty segments and initial values: values and gradients beside PyTorch."""

import itertools
import math

import oneflow
import pytest
import torch
from torch_oracle import same

NAN = math.nan
DATA = {
    "plain": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
    "ties": [2.0, 2.0, 1.0, 2.0, 1.0, 1.0],
    "NaN": [1.0, NAN, 3.0, 4.0, NAN, 6.0],
    "zeros": [1.0, 0.0, 3.0, 0.0, 0.0, 6.0],
    "zeros and NaN": [0.0, NAN, 3.0, 0.0, 2.0, 6.0],
}
LENGTHS = [[1, 2, 0, 3], [0, 0, 6], [6], [2, 2, 2]]


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "max", "min"])
@pytest.mark.parametrize("name", DATA)
def test_values_and_gradients(reduce, name):
    for lengths, initial, by_offsets in itertools.product(LENGTHS, [None, 0, 1, 7], [False, True]):
        results = []
        for fw in (oneflow, torch):
            x = fw.tensor(DATA[name], dtype=fw.float64, requires_grad=True)
            if by_offsets:
                where = {"offsets": fw.tensor([0, *itertools.accumulate(lengths)])}
            else:
                where = {"lengths": fw.tensor(lengths)}
            y = fw.segment_reduce(x, reduce, initial=initial, **where)
            (y * fw.arange(1.0, len(lengths) + 1, dtype=fw.float64)).sum().backward()
            results.append((y.detach(), x.grad))
        same(*results, (lengths, initial, by_offsets))


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "max", "min"])
def test_of_no_elements(reduce):
    results = []
    for fw in (oneflow, torch):
        x = fw.zeros(0, 3, dtype=fw.float64, requires_grad=True)
        y = fw.segment_reduce(x, reduce, lengths=fw.tensor([0, 0]), initial=2)
        y.sum().backward()
        results.append((y.detach(), x.grad))
    same(*results)


def test_along_another_axis():
    for reduce in ("prod", "max"):
        results = []
        for fw in (oneflow, torch):
            x = fw.arange(24.0).reshape(2, 6, 2).requires_grad_()
            y = fw.segment_reduce(x, reduce, lengths=fw.tensor([[2, 4], [3, 3]]), axis=1)
            y.sum().backward()
            results.append((y.detach(), x.grad))
        same(*results)
