"""Bools whose bytes are neither 0 nor 1 (``uint8`` memory viewed as bool): every byte but zero is true."""

import oneflow
import pytest
import torch
from torch_oracle import same

OPS = {
    "exp": lambda fw, x: x.exp(),
    "sum": lambda fw, x: x.sum(),
    "cumsum": lambda fw, x: x.cumsum(0),
    "mean": lambda fw, x: x.float().mean(),
    "to int64": lambda fw, x: x.long(),
    "to uint8": lambda fw, x: x.to(fw.uint8),
    "to float16": lambda fw, x: x.half(),
    "to complex": lambda fw, x: x.to(fw.complex64),
    "times a number": lambda fw, x: x * 3,
    "plus float": lambda fw, x: x + fw.ones(300),
    "not": lambda fw, x: ~x,
    "logical_not": lambda fw, x: x.logical_not(),
    "where": lambda fw, x: fw.where(x, 1, 0),
    "nonzero": lambda fw, x: x.nonzero(),
    "mask": lambda fw, x: fw.arange(300)[x],
    "masked_fill": lambda fw, x: fw.arange(300).masked_fill(x, -1),
    "any and all": lambda fw, x: (x.any(), x.all()),
    "count_nonzero": lambda fw, x: x.count_nonzero(),
    "max and min": lambda fw, x: (x.max(), x.min()),
    "sort": lambda fw, x: x.sort(stable=True)[0].long(),
    "argmax": lambda fw, x: x.long().argmax(),
    "isin": lambda fw, x: fw.isin(x.long(), fw.tensor([1])),
}


@pytest.mark.parametrize("name", OPS)
def test_beside_pytorch(name):
    def run(fw):
        x = (fw.arange(300) % 7 * (fw.arange(300) % 3)).to(fw.uint8).view(fw.bool)
        return OPS[name](fw, x)

    same(run(oneflow), run(torch), name)
