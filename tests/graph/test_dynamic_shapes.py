"""One program for many sizes: models of many kinds at traced and unseen sizes against eager execution."""

from __future__ import annotations

import copy
import warnings

import numpy as np
import oneflow as torch
import pytest
from oneflow import nn
from oneflow.export import Dim
from oneflow.nn import functional as F

BATCHES = [(4,), (7,), (1,), (9,), (33,), (2,), (4,), (16,)]
PAIRS = [(4, 8), (3, 5), (1, 9), (2, 1), (1, 1), (6, 20), (16, 16), (5, 8)]


class Run(nn.Graph):
    def __init__(self, model, shapes):
        super().__init__()
        self.model = model
        self.config.set_dynamic_shapes(shapes)

    def build(self, *args):
        return self.model(*args)


class Attention(nn.Module):
    """Written by hand, with a mask of the sequence's length, and results of every kind of size."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 4, 4).permute(2, 0, 3, 1, 4).unbind(0)
        scores = q @ k.transpose(-1, -2) / 2.0
        seen = torch.tril(torch.ones(length, length, dtype=torch.bool))
        scores = scores.masked_fill(~seen, float("-inf"))
        mixed = (torch.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, length, width)
        return mixed, scores.exp().flatten(), scores.exp().mean()


class Encoder(nn.Module):
    def __init__(self, dropout=0.0):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(50, 16), nn.Embedding(128, 16)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=dropout)
        self.head = nn.Linear(16, 50)

    def forward(self, ids):
        length = ids.shape[1]
        mask = torch.triu(torch.full((length, length), float("-inf")), diagonal=1)
        x = self.tokens(ids) + self.positions(torch.arange(length))[None]
        return self.head(self.layer(x, src_mask=mask))


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.cell = kind(8, 12, num_layers=2, batch_first=True)

    def forward(self, x):
        return self.cell(x)[0]


class Moved(nn.Module):
    """Split, slice, cat, reshape, flatten, stack, expand, pad."""

    def forward(self, x):
        n = x.shape[0]
        a, b = x.split([3, 5], dim=1)
        y = torch.cat([a, b[:, 1:], x[:, -1:]], 1).reshape(n * 2, 4)
        z = F.pad(x.t(), (1, 2)).flip(1)
        return (
            y[n:],
            x.t().reshape(8, n),
            x.chunk(2, 1)[0].sum(0),
            x[1:].sum(),
            torch.stack([x, x + 1], 1).flatten(0, 1),
            z,
            x[:, None].expand(n, 3, 8).reshape(-1, 8),
            x.mean(0, keepdim=True) - x,
            torch.arange(n).to(torch.float32) * x[:, 0],
            x.new_full((1,), n) * x[0],
        )


def conv():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 4),
    )


def mlp():
    return nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8))


def pools():
    return nn.Sequential(nn.AvgPool1d(3, 2), nn.AdaptiveAvgPool1d(4), nn.AdaptiveMaxPool1d(2), nn.Flatten())


MODELS = {
    "mlp": (mlp, lambda n: torch.randn(n, 16), [{0: "batch"}], BATCHES),
    "mlp at one row": (mlp, lambda n: torch.randn(n, 16), [{0: "batch"}], BATCHES[2:] + BATCHES[:2]),
    "mlp at its own width": (mlp, lambda n: torch.randn(n, 16), [{0: "batch"}], [(32,), (8,), (16,), (5,)]),
    "conv": (conv, lambda n: torch.randn(n, 3, 16, 16), [{0: "batch"}], BATCHES),
    "conv of any image": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 4, 3, padding=1)),
        lambda n, h, w: torch.randn(n, 3, h, w),
        [{0: "batch", 2: "height", 3: "width"}],
        [(2, 16, 16), (3, 24, 18), (1, 8, 8), (5, 32, 16)],
    ),
    "square images": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten(2)),
        lambda n, s: torch.randn(n, 3, s, s),
        [{0: "batch", 2: "side", 3: "side"}],
        [(2, 16), (3, 11), (1, 8)],
    ),
    "encoder": (Encoder, lambda n, k: torch.randint(0, 50, (n, k)), [{0: "batch", 1: "length"}], PAIRS),
    "attention": (Attention, lambda n, k: torch.randn(n, k, 16), [{0: "batch", 1: "length"}], PAIRS),
    "lstm": (lambda: Recurrent(nn.LSTM), lambda n: torch.randn(n, 6, 8), [{0: "batch"}], BATCHES),
    "gru of any length": (
        lambda: Recurrent(nn.GRU),
        lambda n, k: torch.randn(n, k, 8),
        [{0: "batch", 1: "length"}],
        PAIRS,
    ),
    "pools": (pools, lambda n: torch.randn(n, 6, 20), [{0: "batch"}], BATCHES),
    "moved": (Moved, lambda n: torch.randn(n, 8), [{0: Dim("rows", min=2)}], [(4,), (7,), (2,), (9,), (33,), (8,)]),
}


def flat(value):
    return [value] if isinstance(value, torch.Tensor) else [t for part in value for t in flat(part)]


def same(one, other, tolerance=1e-5):
    one, other = flat(one), flat(other)
    assert [tuple(t.shape) for t in one] == [tuple(t.shape) for t in other]
    for a, b in zip(one, other, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=tolerance, atol=tolerance)


def only(graph):
    assert len(graph._compiled) == 1
    return next(iter(graph._compiled.values()))


@pytest.mark.parametrize("name", MODELS)
def test_one_program_gives_what_eager_execution_gives(name):
    make, inputs, shapes, sizes = MODELS[name]
    torch.manual_seed(0)
    model = make().eval()
    graph = Run(model, shapes)
    with torch.no_grad():
        for size in sizes:
            x = inputs(*size)
            same(graph(x), model(x))
    assert only(graph).compiled.dims()


@pytest.mark.parametrize("name", MODELS)
def test_a_saved_program_runs_at_unseen_sizes(name, tmp_path):
    make, inputs, shapes, sizes = MODELS[name]
    torch.manual_seed(0)
    model = make().eval()
    graph = Run(model, shapes)
    graph.trace(inputs(*sizes[0]))
    torch.save(graph, tmp_path / "program")
    loaded = torch.load(tmp_path / "program")
    with torch.no_grad():
        for size in sizes:
            x = inputs(*size)
            same(loaded(x), model(x))


class Train(nn.Graph):
    def __init__(self, model, loss, optimizer, shapes):
        super().__init__()
        self.model, self.loss = model, loss
        self.add_optimizer(optimizer)
        self.config.set_dynamic_shapes(shapes)

    def build(self, x, target):
        loss = self.loss(self.model(x), target)
        loss.backward()
        return loss


def token_loss(logits, target):
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


TRAINED = {
    "mlp": (
        mlp,
        F.mse_loss,
        lambda n: (torch.randn(n, 16), torch.randn(n, 8)),
        {"x": {0: "batch"}, "target": {0: "batch"}},
        BATCHES,
    ),
    "mean of squares": (
        mlp,
        lambda y, t: (y - t).pow(2).mean(),
        lambda n: (torch.randn(n, 16), torch.randn(n, 8)),
        {"x": {0: "batch"}, "target": {0: "batch"}},
        BATCHES,
    ),
    "conv": (
        conv,
        F.cross_entropy,
        lambda n: (torch.randn(n, 3, 16, 16), torch.randint(0, 4, (n,))),
        {"x": {0: "batch"}, "target": {0: "batch"}},
        [(4,), (7,), (9,), (2,), (16,)],
    ),
    "encoder": (
        Encoder,
        token_loss,
        lambda n, k: (torch.randint(0, 50, (n, k)), torch.randint(0, 50, (n, k))),
        {"x": {0: "batch", 1: "length"}, "target": {0: "batch", 1: "length"}},
        PAIRS,
    ),
}


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_one_program_trains_at_any_size(name, kind):
    make, loss, batch, shapes, sizes = TRAINED[name]
    torch.manual_seed(0)
    one = make()
    other = copy.deepcopy(one)
    options = {"lr": 0.01, **({"momentum": 0.9} if kind == "SGD" else {})}
    optimizers = [getattr(torch.optim, kind)(m.parameters(), **options) for m in (one, other)]
    graph = Train(one, loss, optimizers[0], shapes)
    for size in sizes:
        x, target = batch(*size)
        expected = loss(other(x), target)
        optimizers[1].zero_grad()
        expected.backward()
        optimizers[1].step()
        same(graph(x, target), expected, 1e-4)
    for (key, a), (_, b) in zip(one.state_dict().items(), other.state_dict().items(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-4, err_msg=key)
    # The gradient of what is broadcast over a batch is no sum where the batch is one row.
    rows = {size for size in sizes if size[0] == 1 and name == "encoder"}
    assert len(graph._compiled) == 1 + len(rows)


def test_random_numbers_are_those_of_eager_execution():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 6), nn.Dropout(0.5))
    graph = Run(model, [{0: "batch"}])
    for n in (4, 9, 3):
        x = torch.randn(n, 6)
        torch.manual_seed(n)
        expected = [model(x), model(x)]
        torch.manual_seed(n)
        same([graph(x), graph(x)], expected)
    only(graph)


@pytest.mark.parametrize("name", ["mlp", "conv", "encoder"])
def test_compile_serves_all_sizes_with_one_pair_of_programs(name):
    make, loss, batch, _, sizes = TRAINED[name]
    torch.manual_seed(0)
    one = make()
    other = copy.deepcopy(one)
    compiled = torch.compile(one, dynamic=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for size in sizes:
            x, target = batch(*size)
            losses = []
            for model in (compiled, other):
                model.zero_grad()
                losses.append(loss(model(x), target))
                losses[-1].backward()
            same(*losses)
            for (key, a), (_, b) in zip(one.named_parameters(), other.named_parameters(), strict=True):
                np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-3, atol=1e-4, err_msg=key)


def count(monkeypatch):
    """Count what is compiled."""
    from oneflow.compiler import _compile

    made = []
    whole = _compile._Programs
    monkeypatch.setattr(_compile, "_Programs", lambda *args: made.append(whole(*args)) or made[-1])
    return made


def test_marked_dimensions_stay_open(monkeypatch):
    made = count(monkeypatch)
    model = nn.Linear(4, 2)
    function = torch.compile(lambda x, y: model(x) + y)
    x, y = torch.randn(5, 4), torch.randn(5, 2)
    torch._dynamo.mark_dynamic(x, 0)
    torch._dynamo.mark_dynamic(y, 0)
    same(function(x, y), model(x) + y)
    before = len(made)
    for n in (2, 9, 30, 1):
        x, y = torch.randn(n, 4), torch.randn(n, 2)
        same(function(x, y), model(x) + y)
    assert len(made) == before
    # A size that the named dimensions do not say is another kind of input.
    assert function(torch.randn(3, 4), torch.randn(1, 2)).shape == (3, 2)
    assert len(made) > before


def test_dynamic_shapes_of_compile():
    function = torch.compile(lambda x: x.flatten(), dynamic_shapes=({0: Dim("rows", max=20), 1: "columns"},))
    for sizes in [(3, 4), (5, 2), (1, 1), (20, 7), (2, 30)]:
        x = torch.randn(*sizes)
        same(function(x), x.flatten())
    with pytest.raises(ValueError, match="rows is 21, it has to be at least 1 and at most 20"):
        function(torch.randn(21, 2))
    with pytest.raises(ValueError, match="contradict"):
        torch.compile(lambda x: x, dynamic=False, dynamic_shapes=({0: "rows"},))


class Branches(nn.Module):
    """Decides by a size in a way that nothing of Python can be seen to."""

    def forward(self, x):
        if len(range(x.shape[0])) > 10:
            return x.relu()
        return x.sin()


class Rounds(nn.Module):
    def forward(self, x):
        n = (x.shape[0] * x.shape[0] * x.shape[0]) % 7 + 1
        return x.new_ones(n)


def test_programs_that_do_not_follow_are_refused_by_their_line():
    graph = Run(Branches(), [{0: "batch"}])
    line = r".*test_dynamic_shapes.py"
    with pytest.raises(ValueError, match=f"it runs sin{line}.*relu{line}"):
        graph(torch.randn(8, 2))
    # All sizes near the example are one program, and it is still another one for small ones.
    with pytest.raises(ValueError, match=f"with batch=[23]: .*it runs relu{line}.*sin{line}"):
        Run(Branches(), [{0: "batch"}])(torch.randn(40, 2))
    with pytest.raises(ValueError, match=r"Python decides by at .*test_dynamic_shapes.py.*does not follow"):
        Run(Rounds(), [{0: "batch"}])(torch.randn(4, 2))
    with pytest.raises(ValueError, match=r"does not run with batch=\d+, width=.*linear"):
        Run(mlp(), [{0: "batch", 1: "width"}])(torch.randn(4, 16))
    with pytest.raises(ValueError, match="in one input and"):
        Run(nn.Bilinear(3, 3, 2), [{0: "batch"}, {0: "batch"}])(torch.randn(4, 3), torch.randn(5, 3))


def test_compile_falls_back_to_a_program_a_size_and_says_so_once():
    function = torch.compile(Branches(), dynamic=True)
    with pytest.warns(UserWarning, match="each size on its own") as told:
        for n in (8, 12, 3, 8):
            x = torch.randn(n, 2)
            same(function(x), Branches()(x))
    assert len(told) == 1
    x = torch.randn(8, 2)
    torch._dynamo.mark_dynamic(x, 0)
    with pytest.raises(ValueError, match=r"sin.*test_dynamic_shapes.py"):
        torch.compile(Branches())(x)


class Squeezes(nn.Module):
    def forward(self, x):
        return x.squeeze() * 2


def test_sizes_at_which_the_program_is_another_one_have_their_own():
    graph = Run(Squeezes(), [{0: "batch"}])
    for n in (4, 1, 7, 1):
        x = torch.randn(n, 3)
        same(graph(x), Squeezes()(x))
    assert len(graph._compiled) == 2
    # No rows: a program of its own as well.
    model = mlp()
    graph = Run(model, [{0: "batch"}])
    for n in (4, 0, 6):
        x = torch.randn(n, 16)
        same(graph(x), model(x))
    assert len(graph._compiled) == 2


def test_sizes_that_do_not_fit_are_refused_by_name(tmp_path):
    model = nn.Bilinear(3, 4, 2)
    graph = Run(model, [{0: Dim("batch", min=2, max=9)}, {0: Dim("batch", min=2, max=9)}])
    graph(torch.randn(4, 3), torch.randn(4, 4))
    torch.save(graph, tmp_path / "program")
    loaded = torch.load(tmp_path / "program")
    for call in (graph, loaded):
        for a, b, error in [
            ((10, 3), (10, 4), "batch is 10, it has to be at least 2 and at most 9"),
            ((1, 3), (1, 4), "batch is 1, it has to be at least 2"),
            ((5, 3), (6, 4), r"with batch=5, got float32\[6, 4\]"),
        ]:
            with pytest.raises((ValueError, RuntimeError), match=error):
                call(torch.randn(*a), torch.randn(*b))
    for a, b in [((5, 4), (5, 4)), ((5, 3, 1), (5, 4))]:
        with pytest.raises((ValueError, RuntimeError, TypeError)):
            loaded(torch.randn(*a), torch.randn(*b))
    with pytest.raises(ValueError, match="three sizes"):
        Run(mlp(), [{0: Dim("batch", min=4, max=5)}])(torch.randn(4, 16))
    with pytest.raises(TypeError, match="set_dynamic_shapes"):
        graph.config.set_dynamic_shapes(3)


def test_loaders_feed_batches_of_any_size():
    model = mlp().eval()
    graph = Run(model, [{0: "batch"}])
    batches = [torch.randn(n, 16) for n in (4, 4, 4, 2, 7, 7, 1, 4)]
    with torch.no_grad():
        found = list(graph.over([(x,) for x in batches]))
        for y, x in zip(found, batches, strict=True):
            same(y, model(x))
    only(graph)


def test_results_of_other_sizes_stay():
    model = mlp().eval()
    graph = Run(model, [{0: "batch"}])
    inputs = [torch.randn(n, 16) for n in range(1, 30)]
    with torch.no_grad():
        found = [graph(x) for x in inputs]
        for y, x in zip(found, inputs, strict=True):
            same(y, model(x))
    only(graph)


def test_weights_that_change_are_seen():
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).eval()
    graph = Run(model, [{0: "batch"}])
    with torch.no_grad():
        for n in (3, 5, 2):
            x = torch.randn(n, 3, 6, 6)
            same(graph(x), model(x))
            model[0].weight.mul_(1.5)
    only(graph)


def test_new_sizes_trace_nothing():
    traced = []

    class Counting(nn.Graph):
        def __init__(self):
            super().__init__()
            self.config.set_dynamic_shapes({"x": {0: "batch"}})

        def build(self, x):
            traced.append(x.shape[0])
            return x * 2

    graph = Counting()
    graph(torch.ones(5, 2))
    before = len(traced)
    for n in range(1, 60):
        assert graph(torch.ones(n, 2)).shape == (n, 2)
    assert len(traced) == before


def test_marks_open_the_dimensions_of_graphs():
    class Plain(nn.Graph):
        def build(self, x, y):
            return (x @ y).relu()

    graph = Plain()
    x, y = torch.randn(4, 3), torch.randn(3, 6)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=30)
    torch._dynamo.mark_dynamic(y, 1)
    same(graph(x, y), (x @ y).relu())
    for n, m in [(2, 1), (30, 7), (9, 9)]:
        x, y = torch.randn(n, 3), torch.randn(3, m)
        same(graph(x, y), (x @ y).relu())
    only(graph)
    with pytest.raises(ValueError, match="is 31, it has to be at least 2 and at most 30"):
        graph(torch.randn(31, 3), torch.randn(3, 2))
    with pytest.raises(IndexError, match="dimension 2"):
        torch._dynamo.mark_dynamic(x, 2)


def test_marks_that_may_fail_fall_back():
    function = torch.compile(Branches())
    x = torch.randn(8, 2)
    torch._dynamo.maybe_mark_dynamic(x, 0)
    with pytest.warns(UserWarning, match="each size on its own"):
        same(function(x), Branches()(x))
    fixed = torch.randn(5, 4)
    torch._dynamo.mark_static(fixed, 1)
    function = torch.compile(lambda x: x * 2, dynamic=True)
    for shape in [(5, 4), (6, 4), (6, 5)]:
        x = torch.randn(*shape)
        same(function(x), x * 2)


def test_exported_programs_become_directories(tmp_path):
    model = Encoder().eval()
    ids = torch.randint(0, 50, (3, 7))
    shapes = {"ids": {0: Dim("batch", max=64), 1: Dim("length", max=100)}}
    program = torch.export.export(model, (ids,), dynamic_shapes=shapes)
    torch.export.save_program(program, tmp_path / "program")
    loaded = torch.load(tmp_path / "program")
    assert loaded._program.shapes() == [["batch", "length"]]
    with torch.no_grad():
        for size in [(3, 7), (1, 9), (5, 1), (20, 100)]:
            ids = torch.randint(0, 50, size)
            same(loaded(ids), model(ids))
    with pytest.raises(ValueError, match="length is 101"):
        loaded(torch.randint(0, 50, (2, 101)))
    with pytest.raises(TypeError, match="ExportedProgram"):
        torch.export.save_program(model, tmp_path / "other")


def test_loops_over_a_dimension_are_refused():
    class Loops(nn.Module):
        def forward(self, x):
            for i in range(x.shape[0]):
                x = x + i
            return x

    with pytest.raises(ValueError, match=r"goes on with add.*test_dynamic_shapes.py"):
        Run(Loops(), [{0: "batch"}])(torch.randn(4, 2))
