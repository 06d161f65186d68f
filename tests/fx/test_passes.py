"""Passes over traced modules beside PyTorch's: constants folded, calls in one form, sizes of nodes, replaced calls."""

import importlib
import operator
import random

import numpy as np
import oneflow
import pytest
import torch

pytestmark = pytest.mark.filterwarnings(
    "ignore:Attempted to insert a get_attr Node with no underlying", "ignore:Failed to fetch module"
)
BOTH = (torch, oneflow)


def _pass(lib, name):
    return importlib.import_module(f"{lib.__name__}.fx.{name}")


def _folded(lib, model, **options):
    return _pass(lib, "experimental.const_fold").split_const_subgraphs(model, **options)


def _filled(lib, model):
    numbers = np.random.default_rng(0)
    for value in model.state_dict().values():
        value.copy_(lib.tensor(numbers.standard_normal(tuple(value.shape)).astype(np.float32)))
    return model


def _random_model(lib, seed):
    """A module of parameters, buffers and layers, some of whose results depend on no input."""
    draw = random.Random(seed)
    steps = [(draw.choice("tbumlc"), draw.random(), draw.random()) for _ in range(draw.randint(3, 14))]

    class Inner(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = lib.nn.Parameter(lib.ones(4))

        def forward(self):
            return self.scale

    class Random(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = lib.nn.Parameter(lib.ones(4, 4))
            self.register_buffer("b", lib.ones(4))
            self.inner = lib.nn.ModuleDict({"scale": Inner(), "layer": lib.nn.Linear(4, 4)})

        def forward(self, x, y=2.0):
            values = [x, self.w, self.b * y if seed % 2 else self.b, self.inner["scale"]()]
            for kind, a, b in steps:
                first, second = values[int(a * len(values))], values[int(b * len(values))]
                if kind == "t":
                    values.append(lib.tanh(first))
                elif kind == "b":
                    values.append(first + second)
                elif kind == "u":
                    values.append(first * 0.5)
                elif kind == "m":
                    values.append(lib.maximum(first, second))
                elif kind == "l":
                    values.append(self.inner["layer"](first))
                else:
                    values.append((first.unbind(-1)[0] + 1).unsqueeze(-1).expand(4, 4))
            return values[-1], {"middle": values[len(values) // 2]}

    return _filled(lib, Random()).eval()


@pytest.mark.parametrize("seed", range(30))
def test_folded_modules_compute_the_same(seed):
    x = np.random.default_rng(seed).standard_normal((4, 4)).astype(np.float32)
    described = []
    for lib in BOTH:
        model = _random_model(lib, seed)
        folded = _folded(lib, model)
        wanted, got = model(lib.tensor(x)), folded(lib.tensor(x))
        for a, b in ((wanted[0], got[0]), (wanted[1]["middle"], got[1]["middle"])):
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
        second = folded(lib.tensor(x))
        assert lib.equal(second[0], got[0])
        constant = folded.const_subgraph_module
        described.append((constant, sorted(n.op for n in folded.graph.nodes if n.op.startswith("call"))))
    # PyTorch also keeps a constant part that nobody reads.
    if described[1][0] is not None:
        assert described[0][0] is not None and described[0][1] == described[1][1]


def test_what_stays_unfolded():
    for lib in BOTH:

        class Model(lib.nn.Module):
            def __init__(self, lib=lib):
                super().__init__()
                self.w = lib.nn.Parameter(lib.ones(3))
                self.relu = lib.nn.ReLU()
                self.lib = lib

            def forward(self, x):
                return x + self.relu(self.lib.nn.functional.gelu(self.w)), self.w

        traced = lib.fx.symbolic_trace(Model())
        for number, node in enumerate(traced.graph.nodes):
            node.meta["number"] = number
        by_name = {node.name: node.meta["number"] for node in traced.graph.nodes}
        all_folded = _folded(lib, traced)
        assert all_folded.const_subgraph_module is not None
        kept = [n.meta["number"] for n in all_folded.graph.nodes if str(n.target).startswith("_FX_CONST_FOLDED_ATTRS")]
        assert kept == [by_name["relu"]]
        skipping = _folded(lib, traced, skip_folding_node_fn=lambda node: node.name == "gelu")
        assert skipping.const_subgraph_module is None
        with pytest.raises(AssertionError, match="already been run"):
            all_folded.run_folding()
            all_folded.run_folding()
        unique = _pass(lib, "experimental.const_fold").get_unique_attr_name_in_module
        assert [unique(traced, name) for name in ("w", "a-b", "9", "free_3")] == ["w_1", "a_b", "_9", "free_3"]


def test_calls_get_their_arguments_by_name():
    def build(lib):
        F = lib.nn.functional

        class Model(lib.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = lib.nn.Linear(4, 4)
                self.pool = lib.nn.MaxPool1d(2)

            def forward(self, x):
                y = F.layer_norm(F.relu(self.layer(x)), (4,))
                y = F.dropout(y, 0.0) + lib.flatten(y, 0, 1).view(4, 4)
                return self.pool(F.softmax(y, dim=-1)) * 2

        return lib.fx.symbolic_trace(_filled(lib, Model()))

    x = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)
    for only_names in (True, False):
        normalized = []
        for lib in BOTH:
            traced = build(lib)
            made = _pass(lib, "experimental.normalize").NormalizeArgs(traced, only_names).transform()
            np.testing.assert_array_equal(made(lib.tensor(x)).detach().numpy(), traced(lib.tensor(x)).detach().numpy())
            # Arguments that only oneflow's functions have are given too.
            names = [sorted(set(n.kwargs) - {"addend", "generator"}) for n in made.graph.nodes]
            normalized.append([(n.op, len(n.args), names[i]) for i, n in enumerate(made.graph.nodes)])
        assert normalized[1] == normalized[0]


NAMES = "add mul sub div floor_divide remainder eq ne lt le gt ge".split()


@pytest.mark.parametrize("name", NAMES)
def test_operators_stand_for_functions(name):
    targets = []
    for lib in BOTH:
        function = getattr(lib, name)
        for second in (lambda y: y, lambda y: 3):

            def call(x, y):
                return function(x, second(y))  # noqa: B023

            traced = lib.fx.symbolic_trace(call)
            made = _pass(lib, "experimental.normalize").NormalizeOperators(traced).transform()
            x, y = lib.tensor([1.0, 2.0, -3.0]), lib.tensor([2.0, 2.0, 2.0])
            assert lib.equal(made(x, y), function(x, second(y)))
            targets.append([n.target for n in made.graph.nodes if n.op == "call_function"])
    assert targets[:2] == targets[2:]
    if name in ("add", "sub"):
        traced = oneflow.fx.symbolic_trace(lambda x, y: getattr(oneflow, name)(x, y, alpha=2))
        made = _pass(oneflow, "experimental.normalize").NormalizeOperators(traced).transform()
        assert made(x, y).tolist() == getattr(oneflow, name)(x, y, alpha=2).tolist()


def test_annotated_types():
    kinds = []
    for lib in BOTH:
        model = lib.nn.Sequential(lib.nn.Linear(2, 2), lib.nn.ReLU(), lib.nn.BatchNorm1d(2))
        traced = lib.fx.symbolic_trace(model)
        made = _pass(lib, "experimental.schema_type_annotation").AnnotateTypesWithSchema(traced).transform()
        kinds.append([node.type is lib.Tensor for node in made.graph.nodes])
    assert kinds[0] == kinds[1]


def test_sizes_and_replaced_targets():
    found = []
    for lib in BOTH:
        model = lib.nn.Sequential(lib.nn.Conv2d(3, 4, 3), lib.nn.BatchNorm2d(4), lib.nn.ReLU(), lib.nn.Flatten())
        traced = lib.fx.symbolic_trace(model.double())
        sizes = _pass(lib, "passes.graph_manipulation")
        with pytest.raises(RuntimeError, match="no tensor metadata"):
            sizes.get_tensor_meta(next(iter(traced.graph.nodes)))
        sizes.get_size_of_all_nodes(traced, [lib.ones(2, 3, 8, 8, dtype=lib.float64)])
        found.append([tuple(node.size_bytes) for node in traced.graph.nodes if node.op != "output"])
        traced = lib.fx.symbolic_trace(lambda x: lib.relu(x) + lib.relu(x * 2))  # noqa: B023
        sizes.replace_target_nodes_with(traced, "call_function", lib.relu, "call_function", lib.neg)
        sizes.replace_target_nodes_with(traced, "call_function", operator.add, "call_function", operator.sub)
        assert traced(lib.ones(1)).tolist() == [1.0]
    assert found[0] == found[1]
