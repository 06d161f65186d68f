"""Modules traced by both libraries: nodes, printed graphs, generated code and results are the same."""

import copy
import importlib
import math
import operator
import pickle
import random
import sys
import types

import oneflow
import pytest
import torch

BOTH = (torch, oneflow)


def text(value):
    """A text of either library in the same words: which module of the library a function is found in is left out."""
    for theirs, ours in (
        ("torch._C._nn.", "torch."),
        ("nn.functional.", ""),
        ("torch._C._linalg.linalg_", "torch.linalg."),
        ("torch._C._fft.fft_", "torch.fft."),
        ("torch._C._special.special_", "torch.special."),
        ("torch.functional.", "torch."),
        ("torch.", "oneflow."),
    ):
        value = value.replace(theirs, ours)
    return value


def builders():
    """Functions that make a module of the library they get."""

    def module(forward, **parts):
        def build(lib):
            class Model(lib.nn.Module):
                def __init__(self):
                    super().__init__()
                    for name, part in parts.items():
                        value = part(lib)
                        if isinstance(value, lib.Tensor) and not isinstance(value, lib.nn.Parameter):
                            self.register_buffer(name, value)
                        else:
                            setattr(self, name, value)

            Model.forward = forward(lib)
            return Model()

        return build

    def linear(lib):
        return lib.nn.Linear(4, 4)

    def mixed(lib):
        def forward(self, x, scale: int = 2, *, flag=True):
            y = self.a(x) + self.w * scale
            z = lib.nn.functional.relu(y)
            return {"a": z.flatten(1).sum(dim=1), "b": (z[0], z[:, 1:2], z[..., None]), "c": [y, None, 3]}

        return forward

    def nested(lib):
        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.head(x), self.head(x)

        return forward

    def arithmetic(lib):
        def forward(self, x):
            y = -x + 1 - 2 * x / 3 // 4 % 5
            y = 2**y @ y
            y = (y > 0) & (y <= 1) | (y != 2) ^ (y == 3)
            y = 3 - abs(y) + math.sqrt(4)
            return ~(y >> 1 << 2)

        return forward

    def attributes(lib):
        def forward(self, x):
            a, b = x.shape
            y = x.view(x.size(0), -1).reshape(b, a).T.to(x.dtype, copy=True)
            y = lib.cat([y, x.new_zeros(2, x.shape[1])], dim=0).contiguous().float()
            return y.expand(-1, b), y.device, x.grad_fn

        return forward

    def functions(lib):
        F = lib.nn.functional

        def forward(self, x):
            y = F.dropout(F.gelu(x), 0.5, self.training)
            y = F.softmax(y, dim=-1) + lib.sigmoid(y) + F.silu(y) + lib.tanh(y)
            y = F.layer_norm(y, (4,)) + F.linear(y, self.w) + F.pad(y, (0, 1))[..., 1:]
            y = lib.einsum("ij,jk->ik", y, y) + lib.matmul(y, self.w) + lib.where(y > 0, y, lib.zeros(4))
            y = F.interpolate(y[None, None], scale_factor=2.0, mode="nearest") + F.avg_pool2d(y[None], 1)
            y = F.batch_norm(y, None, None, training=True) + F.normalize(y, dim=1) + F.one_hot(y.long())
            lib._assert(y.dim() == 4, "rank")
            return F.cross_entropy(y, y), lib.stack((y, y), 1), lib.linalg.norm(y), lib.fft.fft(y), lib.norm(y, 2)

        return forward

    def constants(lib):
        def forward(self, x):
            return x + lib.ones(4) + self.plain + self.w.sum()

        return forward

    def shadowing(lib):
        def forward(self, input, sum, len, torch_1):
            max = input + sum
            return max.max() + len, torch_1, max._x1.Y2Z

        return forward

    w = {"w": lambda lib: lib.nn.Parameter(lib.ones(4, 4))}
    yield "mixed", module(mixed, a=linear, **w)
    yield (
        "nested",
        module(
            nested,
            blocks=lambda lib: lib.nn.ModuleList(
                [lib.nn.Sequential(lib.nn.Linear(4, 4), lib.nn.ReLU()), lib.nn.Dropout(0.1)]
            ),
            head=linear,
        ),
    )
    yield "arithmetic", module(arithmetic)
    yield "attributes", module(attributes)
    yield "functions", module(functions, **w)
    yield "constants", module(constants, plain=lambda lib: lib.ones(4), **w)
    yield "shadowing", module(shadowing)
    yield "conv", lambda lib: lib.nn.Sequential(lib.nn.Conv2d(3, 4, 3), lib.nn.BatchNorm2d(4), lib.nn.MaxPool2d(2))


CASES = dict(builders())


def described(graph):
    return [
        (n.op, n.name, text(n._pretty_print_target(n.target)), text(str(n.args)), text(str(dict(n.kwargs))))
        for n in graph.nodes
    ]


@pytest.mark.parametrize("name", CASES)
def test_nodes_print_and_code_are_pytorchs(name):
    theirs, ours = (lib.fx.symbolic_trace(CASES[name](lib)) for lib in BOTH)
    assert described(ours.graph) == described(theirs.graph)
    assert text(str(ours.graph)) == text(str(theirs.graph))
    assert text(ours.code) == text(theirs.code)
    stacks = [
        [[(path, kind.__name__) for path, kind in n.meta.get("nn_module_stack", {}).values()] for n in t.graph.nodes]
        for t in (theirs, ours)
    ]
    assert stacks[0] == stacks[1]
    ours.graph.lint()


def chain(lib, seed):
    """A random module of nested modules and functions, whose results are used at random."""
    draw = random.Random(seed)
    F = lib.nn.functional
    unary = (
        lib.relu,
        lib.tanh,
        F.gelu,
        F.softplus,
        lambda x: x.abs(),
        lambda x: x * 2 - 1,
        lambda x: F.dropout(x, 0.0),
    )
    binary = (operator.add, operator.mul, lib.maximum, lambda x, y: lib.cat((x, y), -1)[..., :4])
    steps = []
    for i in range(draw.randint(4, 14)):
        kind = draw.choice("umb")
        choice = draw.randrange(len(unary if kind == "u" else binary))
        steps.append((kind, choice, draw.randrange(i + 1), draw.randrange(i + 1)))

    class Random(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = lib.nn.ModuleDict(
                {f"part{i}": lib.nn.Linear(4, 4) for i, step in enumerate(steps) if step[0] == "m"}
            )

        def forward(self, x):
            values = [x]
            for i, (kind, choice, a, b) in enumerate(steps):
                if kind == "m":
                    values.append(self.inner[f"part{i}"](values[a]))
                else:
                    values.append(unary[choice](values[a]) if kind == "u" else binary[choice](values[a], values[b]))
            return values[-1], values[len(values) // 2]

    return Random()


@pytest.mark.parametrize("seed", range(25))
def test_random_modules(seed):
    models = [chain(lib, seed) for lib in BOTH]
    weights = {key: value.numpy() for key, value in models[0].state_dict().items()}
    models[1].load_state_dict({key: oneflow.from_numpy(value.copy()) for key, value in weights.items()})
    theirs, ours = (lib.fx.symbolic_trace(model) for lib, model in zip(BOTH, models, strict=True))
    assert described(ours.graph) == described(theirs.graph)
    assert text(ours.code) == text(theirs.code)
    x = torch.randn(2, 4, generator=torch.Generator().manual_seed(seed))
    expected, mine = theirs(x), oneflow.from_numpy(x.numpy())
    again = [ours, copy.deepcopy(ours), pickle.loads(pickle.dumps(ours)), oneflow.fx.Transformer(ours).transform()]
    for run in (*again, oneflow.fx.Interpreter(ours).run):
        for got, want in zip(run(mine), expected, strict=True):
            assert abs(got.detach().numpy() - want.detach().numpy()).max() <= 1e-5
    for changed in (lib.fx.symbolic_trace(model) for lib, model in zip(BOTH, models, strict=True)):
        assert changed.graph.eliminate_dead_code() in (True, False)
        changed.recompile()
    assert changed(mine)[0].shape == ours(mine)[0].shape


def errors():
    def branch(lib):
        return lambda x: x if x.sum() > 0 else -x

    def loop(lib):
        return lambda x: [-y for y in x]

    def length(lib):
        return lambda x: len(x)

    def stranger(lib):
        inner = lib.nn.Linear(2, 2)
        return lambda x: inner(x)

    def alien(lib):
        return lambda x: lib.relu(x) + object()

    return [branch, loop, length, stranger, alien]


@pytest.mark.parametrize("make", errors(), ids=lambda f: f.__name__)
def test_what_cannot_be_traced_is_refused_alike(make):
    raised = []
    for lib in BOTH:
        with pytest.raises(Exception) as error:
            lib.fx.symbolic_trace(make(lib))
        raised.append(error)
    assert raised[0].type.__name__ == raised[1].type.__name__
    first = str(raised[0].value).split(".")[0].split(":")[0].split("call torch")[0]
    assert first.split(" by default")[0] in str(raised[1].value)


def test_control_flow_is_refused_with_its_line():
    def f(x):
        if x > 0:
            return x
        return -x

    with pytest.raises(oneflow.fx.proxy.TraceError, match=r"test_traces.py:\d+: if x > 0"):
        oneflow.fx.symbolic_trace(f)


def edits():
    def erase(lib, g):
        node = next(n for n in g.nodes if n.name == "relu")
        node.replace_all_uses_with(node.args[0])
        g.erase_node(node)

    def insert(lib, g):
        node = next(n for n in g.nodes if n.name == "relu")
        with g.inserting_after(node):
            new = g.call_function(lib.neg, (node,))
        node.replace_all_uses_with(new, delete_user_cb=lambda user: user is not new)

    def before(lib, g):
        node = next(n for n in g.nodes if n.op == "output")
        with g.inserting_before(node):
            a = g.call_method("neg", (node.args[0],))
            b = g.get_attr("w")
            node.args = ((a, b),)

    def arguments(lib, g):
        node = next(n for n in g.nodes if n.name == "add")
        node.update_arg(1, 5)
        node.insert_arg(0, node.args[0])
        node.args = node.args[1:]
        node.update_kwarg("alpha", 2)
        node.target = lib.add

    return [erase, insert, before, arguments]


@pytest.mark.parametrize("edit", edits(), ids=lambda f: f.__name__)
def test_edited_graphs(edit):
    theirs, ours = (edited(lib, edit) for lib in BOTH)
    assert ours == theirs


def edited(lib, edit):
    """The code and the result of a small module after an edit."""

    class Model(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = lib.nn.Parameter(lib.ones(4))

        def forward(self, x):
            return lib.relu(x + self.w) + 1

    traced = lib.fx.symbolic_trace(Model())
    edit(lib, traced.graph)
    traced.graph.lint()
    traced.recompile()
    result = traced(lib.ones(4))
    return text(traced.code), str(result[0] if isinstance(result, tuple) else result).split(", grad_fn")[0]


@pytest.mark.parametrize("lib", BOTH)
def test_a_used_node_is_not_erased(lib):
    graph = lib.fx.symbolic_trace(lambda x: lib.relu(x) + 1).graph
    node = next(n for n in graph.nodes if n.name == "relu")
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(node)


@pytest.mark.parametrize("lib", BOTH)
def test_arguments_of_nodes_cannot_be_changed_in_place(lib):
    graph = lib.fx.symbolic_trace(lambda x: lib.cat([x, x], dim=0)).graph
    node = next(n for n in graph.nodes if n.name == "cat")
    with pytest.raises(TypeError, match="does not support mutation"):
        node.args[0].append(1)
    with pytest.raises(TypeError, match="does not support mutation"):
        node.kwargs["dim"] = 1


@pytest.mark.parametrize("values", [{"k": 2}, {"k": None}, {"k": {"a": "PH", "b": ["PH", 1]}}])
def test_concrete_args(values):
    def function(x, k):
        if k is None:
            return x
        return x + k if isinstance(k, int) else x + k["a"] * k["b"][0] + k["b"][1]

    def filled(lib, value):
        if isinstance(value, dict):
            return {key: filled(lib, item) for key, item in value.items()}
        if isinstance(value, list):
            return [filled(lib, item) for item in value]
        return lib.fx.PH if value == "PH" else value

    codes = []
    for lib in BOTH:
        traced = lib.fx.symbolic_trace(function, concrete_args=filled(lib, values))
        codes.append(text(traced.code))
    assert codes[0] == codes[1]
    k = {"a": oneflow.ones(1), "b": [oneflow.ones(1), 1]} if isinstance(values["k"], dict) else values["k"]
    want = {True: 4.0, False: 1.0 if k is None else 3.0}[isinstance(k, dict)]
    assert float(traced(oneflow.ones(1) + (isinstance(k, dict)), k).sum()) == want


@pytest.mark.parametrize("lib", BOTH)
def test_code_can_be_changed_while_it_is_generated(lib):
    traced = lib.fx.symbolic_trace(lambda x: x + 1)
    with traced.graph.on_generate_code(lambda before: lambda body: ["x = x * 2\n", *body]):
        traced.recompile()
    assert float(traced(lib.ones(1))) == 3
    traced.recompile()
    assert float(traced(lib.ones(1))) == 2


def rewrites():
    def activation(lib):
        return (lambda x: lib.neg(x) + lib.relu(x)), (lambda x: lib.relu(x)), (lambda x: lib.tanh(x))

    def chained(lib):
        def model(x, y):
            return lib.relu(x + y) * lib.relu(y + x) + lib.relu(x * y)

        return model, (lambda a, b: lib.relu(a + b)), (lambda a, b: (a - b).abs())

    def read_outside(lib):
        def model(x):
            y = x + 1
            return lib.relu(y), y

        return model, (lambda x: lib.relu(x + 1)), (lambda x: x)

    def absent(lib):
        return (lambda x: lib.relu(x)), (lambda x: lib.tanh(x)), (lambda x: x)

    def several_results(lib):
        def model(x):
            a, b = lib.neg(x), lib.abs(x)
            return lib.relu(a) * lib.tanh(b)

        return model, (lambda a, b: (lib.relu(a), lib.tanh(b))), (lambda a, b: (b, a))

    def nested(lib):
        return (
            (lambda x: lib.cat([x, lib.cat([x, x], 0)], 0)),
            (lambda x: lib.cat([x, x], 0)),
            (lambda x: lib.stack([x], 1)),
        )

    return [activation, chained, read_outside, absent, several_results, nested]


@pytest.mark.parametrize("make", rewrites(), ids=lambda f: f.__name__)
def test_patterns_are_replaced_alike(make):
    codes = []
    for lib in BOTH:
        model, pattern, replacement = make(lib)
        traced = lib.fx.symbolic_trace(model)
        matches = lib.fx.replace_pattern(traced, pattern, replacement)
        traced.graph.lint()
        codes.append((len(matches), text(traced.code)))
    assert codes[0] == codes[1]


def test_split_module():
    codes = []
    for lib in BOTH:
        traced = lib.fx.symbolic_trace(CASES["nested"](lib))
        split_module = importlib.import_module(f"{lib.__name__}.fx.passes.split_module").split_module
        split = split_module(traced, traced, lambda node: int(node.name.startswith("head")))
        codes.append([text(split.code), *(text(part.code) for part in split.children())])
        split(lib.ones(2, 4))
    assert codes[0] == codes[1]


def test_shapes_are_noted():
    notes = []
    for lib in BOTH:
        traced = lib.fx.symbolic_trace(CASES["conv"](lib))
        prop = importlib.import_module(f"{lib.__name__}.fx.passes.shape_prop").ShapeProp(traced)
        prop.propagate(lib.ones(2, 3, 8, 8))
        notes.append([tuple(n.meta["tensor_meta"].shape) for n in traced.graph.nodes])
    assert notes[0] == notes[1]


def test_norms_are_fused_into_weights():
    from oneflow.fx.experimental.optimization import fuse

    model = CASES["conv"](oneflow).eval()
    x = oneflow.randn(2, 3, 8, 8)
    fused = fuse(model)
    assert len(fused.graph.nodes) == len(oneflow.fx.symbolic_trace(model).graph.nodes) - 1
    assert float((fused(x) - model(x)).abs().max()) <= 1e-5


def test_print_tabular(capsys, monkeypatch):
    # Stands for the package, so that the test runs where it is not installed.
    table = types.SimpleNamespace(tabulate=lambda rows, headers: "\n".join(str(list(row)) for row in [headers, *rows]))
    monkeypatch.setitem(sys.modules, "tabulate", table)
    printed = []
    for lib in BOTH:
        lib.fx.symbolic_trace(CASES["nested"](lib)).graph.print_tabular()
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] and "call_module" in printed[0]


def test_print_tabular_names_the_package_that_is_missing(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "tabulate", None)
    with pytest.raises(ImportError):
        oneflow.fx.symbolic_trace(CASES["nested"](oneflow)).graph.print_tabular()
    assert "pip install tabulate" in capsys.readouterr().out
