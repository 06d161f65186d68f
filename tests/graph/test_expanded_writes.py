"""Writes inside nn.Graph to tensors of which several elements are one in memory, as in eager calls and PyTorch."""

import oneflow
import pytest
import torch

FILLS = {
    "fill": lambda m, x: _after(x, lambda e: e.fill_(2.5)),
    "zero": lambda m, x: _after(x, lambda e: e.zero_()),
    "column": lambda m, x: _after(x, lambda e: e[:, 1].fill_(7.0)),
    "assignment": lambda m, x: _after(x, lambda e: e.__setitem__((slice(None), slice(1, 3)), 4.0)),
    "all": lambda m, x: _after(x, lambda e: e.__setitem__(..., 4.0)),
    "a row": lambda m, x: _after(x, lambda e: e.__setitem__(1, x[1])),
    "transposed": lambda m, x: _after(x, lambda e: e.t()[0].zero_()),
    "two dimensions": lambda m, x: _after(x[0, :1], lambda e: e.fill_(3.0), (2, 3, 3)),
    "read afterwards": lambda m, x: (lambda e: (e[:, 0].zero_(), e * x)[1])((x * 3)[:1].expand(3, 3)),
}


def _after(x, write, shape=(3, 3)):
    base = (x * 2)[:1]
    expanded = base.expand(shape)
    write(expanded)
    return base + 0, expanded + 0


def _made(m, name, graph):
    x = m.arange(9.0).reshape(3, 3)
    if not graph:
        return FILLS[name](m, x)

    class Step(m.nn.Graph):
        def build(self, x):
            return FILLS[name](m, x)

    return Step()(x)


@pytest.mark.parametrize("name", FILLS)
def test_fills_of_expanded_tensors(name):
    found = [_made(oneflow, name, True), _made(oneflow, name, False), _made(torch, name, False)]
    values = [[t.tolist() for t in (made if isinstance(made, (tuple, list)) else (made,))] for made in found]
    assert values[0] == values[1] == values[2]


def test_other_writes_are_refused_as_in_eager_calls():
    class Step(oneflow.nn.Graph):
        def build(self, x):
            return x[:1].expand(3, 3).add_(1)

    x = oneflow.arange(9.0).reshape(3, 3)
    for call in (Step(), lambda x: x[:1].expand(3, 3).add_(1)):
        with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
            call(x)
