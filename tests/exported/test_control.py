"""Programs with branches and loops that PyTorch wrote, in eager execution, written again, and traced."""

import io

import oneflow
import pytest
import torch
from oneflow import export
from torch._higher_order_ops.map import map as torch_map


class Branches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        def positive(x, y):
            return self.linear(x) + y, y * 2

        def negative(x, y):
            return x * 2, torch.cond(y.sum() < -9, lambda y: y - 1, lambda y: y + 1, (y,))

        a, b = torch.cond(x.sum() > 0, positive, negative, (x, x + 1))
        return a + b, torch.cond(x.max() > 2, lambda x: x.sin(), lambda x: x.cos(), (x,))


class Loop(torch.nn.Module):
    def forward(self, x):
        return torch.while_loop(lambda x, n: x.sum() < 50, lambda x, n: (x * 2, n + 1), (x, torch.zeros(())))


class Rows(torch.nn.Module):
    def forward(self, xs, y):
        return torch_map(lambda x, y: (x * y + 1).cumsum(0), xs, y)


INPUTS = {
    "branches": (Branches, [(torch.ones(2, 3),), (torch.full((2, 3), -3.0),), (torch.tensor([[3.0, -9, 1]] * 2),)]),
    "loop": (Loop, [(torch.ones(4),), (torch.full((4,), 20.0),)]),
    "rows": (Rows, [(torch.randn(3, 2), torch.randn(2))]),
}


def ours(args):
    return [oneflow.tensor(a.numpy()) for a in args]


def flat(result):
    return [t for r in result for t in flat(r)] if isinstance(result, (tuple, list)) else [result]


def written(name):
    torch.manual_seed(0)
    make, feeds = INPUTS[name]
    model, file = make(), io.BytesIO()
    torch.export.save(torch.export.export(model, feeds[0]), file)
    return model, feeds, export.load(io.BytesIO(file.getvalue()))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", INPUTS)
def test_programs_with_subgraphs(name):
    model, feeds, program = written(name)
    again = io.BytesIO()
    export.save(program, again)
    for module in (program.module(), export.load(io.BytesIO(again.getvalue())).module()):
        for args in feeds:
            with torch.no_grad():
                expected = flat(model(*args))
            for want, have in zip(expected, flat(module(*ours(args))), strict=True):
                assert oneflow.allclose(have, oneflow.tensor(want.numpy()), atol=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_a_trace_computes_both_branches_and_chooses():
    model, feeds, program = written("branches")
    module = program.module()
    compiled, retraced = oneflow.compile(module), program.run_decompositions().module()
    for args in feeds:
        with torch.no_grad():
            expected = flat(model(*args))
        for made in (compiled(*ours(args)), retraced(*ours(args))):
            for want, have in zip(expected, flat(made), strict=True):
                assert oneflow.allclose(have, oneflow.tensor(want.numpy()), atol=1e-5)
    _, feeds, program = written("loop")
    with pytest.raises(RuntimeError, match="data-dependent"):
        oneflow.onnx.export(program.module(), tuple(ours(feeds[0])))
