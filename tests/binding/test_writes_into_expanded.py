"""Writes into expanded tensors: ops that change some elements alone write, all others refuse, as in PyTorch."""

import itertools

import oneflow
import pytest
import torch
from torch_oracle import outcome, same

pytestmark = pytest.mark.filterwarnings("ignore:Use of .* on expanded tensors is deprecated")

LAYOUTS = {
    "columns": lambda fw: fw.arange(3.0).reshape(3, 1).expand(3, 4),
    "rows": lambda fw: fw.arange(4.0).expand(3, 4),
    "one": lambda fw: fw.tensor(5.0).expand(3, 4),
    "part": lambda fw: fw.arange(12.0).reshape(6, 2)[1::2, 1:].expand(3, 4),
    "three": lambda fw: fw.arange(6.0).reshape(2, 1, 3).expand(2, 4, 3)[1],
}


def _mask(fw, x):
    return fw.arange(x.numel()).reshape(x.shape) % 5 == 2


def _set(index):
    def write(fw, x):
        x[index(fw)] = 7.0
        return x

    return write


WRITES = {
    "masked_fill_": lambda fw, x: x.masked_fill_(_mask(fw, x), 7.0),
    "masked_fill_ of a tensor": lambda fw, x: x.masked_fill_(_mask(fw, x), fw.tensor(7.0)),
    "index_fill_": lambda fw, x: x.index_fill_(0, fw.tensor([1]), 7.0),
    "index_fill_ of columns": lambda fw, x: x.index_fill_(1, fw.tensor([0, 2]), 7.0),
    "index_put_": lambda fw, x: x.index_put_((fw.tensor([0, 1]), fw.tensor([1, 2])), fw.tensor(7.0)),
    "tril_": lambda fw, x: x.tril_(),
    "triu_": lambda fw, x: x.triu_(1),
    "a list": _set(lambda fw: [0, 1]),
    "a mask": lambda fw, x: _set(lambda fw: fw.arange(x.shape[0]) % 2 == 0)(fw, x),
    "tensors": _set(lambda fw: (fw.tensor([0]), fw.tensor([1]))),
    "a number": _set(lambda fw: 1),
    "a slice": _set(lambda fw: (slice(None), slice(1, 3))),
    "fill_": lambda fw, x: x.fill_(7.0),
    "add_": lambda fw, x: x.add_(1.0),
    "copy_": lambda fw, x: x.copy_(fw.ones(())),
    "clamp_": lambda fw, x: x.clamp_(0.0, 1.0),
    "index_add_": lambda fw, x: x.index_add_(0, fw.tensor([1]), fw.ones(1, x.shape[1])),
    "index_copy_": lambda fw, x: x.index_copy_(0, fw.tensor([1]), fw.ones(1, x.shape[1])),
    "scatter_": lambda fw, x: x.scatter_(0, fw.tensor([[1]]), 7.0),
    "masked_scatter_": lambda fw, x: x.masked_scatter_(_mask(fw, x), fw.ones(12)),
    "cumsum_": lambda fw, x: x.cumsum_(0),
    "uniform_": lambda fw, x: x.uniform_().shape,
}


@pytest.mark.parametrize(("layout", "write"), itertools.product(LAYOUTS, WRITES))
def test_beside_pytorch(layout, write):
    def run(fw):
        x = LAYOUTS[layout](fw)
        WRITES[write](fw, x)
        return x.contiguous()

    assert outcome(lambda: run(oneflow)) == outcome(lambda: run(torch))


def test_values_that_differ_are_written_in_order():
    def run(fw):
        x = fw.zeros(3, 1).expand(3, 4)
        version = x._version
        x[[0, 2]] = fw.arange(8.0).reshape(2, 4)
        return x.contiguous(), fw.tensor(x._version - version)

    with pytest.warns(UserWarning, match="Use of index_put_ on expanded tensors is deprecated"):
        ours = run(oneflow)
    same(ours, run(torch))


def test_the_base_and_other_memory():
    def run(fw):
        base = fw.arange(12.0).reshape(3, 4)
        base[:, 1:2].expand(3, 5).masked_fill_(fw.tensor([[True], [False], [True]]), -1.0)
        return base

    same(run(oneflow), run(torch))


def test_not_a_number_is_kept_where_nothing_is_written():
    def run(fw):
        x = fw.tensor([[float("nan")], [1.0]]).expand(2, 3)
        mask = fw.tensor([[False, True, False], [False, False, False]])
        return x.masked_fill_(mask, 3.0).contiguous()

    same(run(oneflow), run(torch))
