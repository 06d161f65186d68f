"""`export.unflatten`: the modules of the exported one, from our programs and from PyTorch's archives."""

import copy
import io
import pickle

import oneflow
import pytest
import torch
from oneflow import export
from oneflow.export._unflattening import InterpreterModule


def define(torch):
    nn = torch.nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)

        def forward(self, x, scale):
            return self.norm(self.linear(x)).relu() * scale, x.sum()

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = Block()
            self.blocks = nn.ModuleList([Block(), Block()])
            self.head = nn.Sequential(nn.Linear(4, 3), nn.Tanh())
            self.tied = nn.Linear(4, 4, bias=False)
            self.tied.weight = self.first.linear.weight
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x, scale):
            self.calls += 1
            x, total = self.first(x, scale)
            for block in self.blocks:
                x, part = block(x, scale)
                total = total + part
            x, _ = self.first(x, scale)
            return {"y": self.head(self.tied(x)), "total": total}

    return Model


def example(package, n=5):
    return package.arange(n * 4).reshape(n, 4) / 7, package.tensor(2.0)


def programs():
    """A program of this package, and one that PyTorch wrote, each with a module that gives what is expected."""
    oneflow.manual_seed(0)
    model = define(oneflow)()
    shapes = ({0: export.Dim("batch")}, None)
    yield export.export(model, example(oneflow), dynamic_shapes=shapes), copy.deepcopy(model)
    theirs, file = define(torch)(), io.BytesIO()
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in model.state_dict().items()})
    program = torch.export.export(theirs, example(torch), dynamic_shapes=({0: torch.export.Dim("batch")}, None))
    torch.export.save(program, file)
    yield export.load(io.BytesIO(file.getvalue())), model


def children(module):
    return [name for name, m in module.named_modules() if isinstance(m, InterpreterModule)]


EXPECTED = ["first", "first.linear", "first.norm", "blocks.0", "blocks.0.linear", "blocks.0.norm", "blocks.1"]
EXPECTED += ["blocks.1.linear", "blocks.1.norm", "tied", "head", "head.0", "head.1"]


@pytest.mark.filterwarnings("ignore")
def test_modules_are_nested_as_in_the_exported_one():
    for program, model in programs():
        made = export.unflatten(program)
        # The second call of `first` gives less, so it is another module there.
        assert {n for n in children(made) if "@" not in n} == set(EXPECTED)
        names = dict(made.named_parameters(remove_duplicate=False))
        for name, value in model.named_parameters(remove_duplicate=False):
            assert oneflow.equal(names[name], value)
        for n in (5, 9):
            want, have = model(*example(oneflow, n)), made(*example(oneflow, n))
            assert oneflow.allclose(have["y"], want["y"], atol=1e-6)
            assert oneflow.allclose(have["total"], want["total"], atol=1e-4)
        assert int(made.calls) == int(model.calls)


def test_copies_files_and_programs_that_were_saved():
    oneflow.manual_seed(0)
    model, file = define(oneflow)(), io.BytesIO()
    program = export.export(model, example(oneflow))
    want = copy.deepcopy(model)(*example(oneflow))["y"]
    export.save(program, file)
    made = export.unflatten(program)
    for again in (
        copy.deepcopy(made),
        pickle.loads(pickle.dumps(made)),
        export.unflatten(export.load(io.BytesIO(file.getvalue()))),
    ):
        assert set(children(again)) == set(children(made))
        assert oneflow.allclose(again(*example(oneflow))["y"], want, atol=1e-6)


def test_children_are_replaced_trained_and_called_again():
    net = oneflow.nn.Sequential(oneflow.nn.Linear(3, 3), oneflow.nn.ReLU(), oneflow.nn.Linear(3, 2))
    x = oneflow.ones(4, 3)
    made = export.unflatten(export.export(net, (x,)))
    assert made.training and not made.eval().training
    assert children(made) == ["0", "1", "2"]
    made(x).sum().backward()
    assert made.get_submodule("2").weight.grad is not None
    setattr(made, "1", oneflow.nn.Sigmoid())
    assert oneflow.allclose(made(x), net[2](net[0](x).sigmoid()))

    class Twice(oneflow.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = net

        def forward(self, x):
            return self.inner(x) + self.inner(x * 2)

    twice = export.unflatten(export.export(Twice(), (x,)))
    assert [n for n in children(twice) if "." not in n] == ["inner"]
    assert oneflow.allclose(twice(x), Twice()(x))
    with pytest.raises(AssertionError, match="Guard failed"):
        twice(oneflow.ones(4, 2))
    with pytest.raises(TypeError, match="an ExportedProgram is expected, got Sequential"):
        export.unflatten(net)
