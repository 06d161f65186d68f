"""Ops of ``ops.aten`` and of libraries in traces, dead code, and what pickles of traced modules keep."""

import copy
import pickle

import oneflow
import pytest
import torch

BOTH = (torch, oneflow)


def traced(lib, function):
    return lib.fx.symbolic_trace(function)


@pytest.mark.parametrize(
    "call",
    [
        lambda aten, x, y: aten.add(x, y),
        lambda aten, x, y: aten.add.Tensor(x, y),
        lambda aten, x, y: aten.view(x, [3, y.shape[0]]),
        lambda aten, x, y: aten.relu.default(x),
        lambda aten, x, y: aten.sum.dim_IntList(x, [1]),
    ],
)
def test_ops_are_the_targets_of_their_nodes(call):
    def run(lib):
        made = traced(lib, lambda x, y: call(lib.ops.aten, x, y))
        result = made(lib.arange(6.0).reshape(2, 3), lib.arange(2.0).reshape(2, 1))
        again = pickle.loads(pickle.dumps(made))
        assert [n.target for n in again.graph.nodes] == [n.target for n in made.graph.nodes]
        return made.code.replace("torch.", "oneflow."), result.tolist()

    assert run(oneflow) == run(torch)


def test_dead_code_keeps_what_writes():
    def writes(lib):
        def function(x, y):
            aten = lib.ops.aten
            aten.add_.Tensor(x, y)
            aten.add.out(y, y, out=x)
            aten.mul.Tensor(x, y)
            aten.relu(x)
            lib.ops.dead_code.write(x)
            lib.ops.dead_code.read.default(x)
            return x

        return function

    def run(lib):
        library = lib.library.Library("dead_code", "DEF")
        library.define("write(Tensor(a!) x) -> ()")
        library.define("read(Tensor x) -> Tensor")
        made = traced(lib, writes(lib))
        impure = [node.is_impure() for node in made.graph.nodes]
        made.graph.eliminate_dead_code()
        return impure, [str(node) for node in made.graph.nodes]

    assert run(oneflow) == run(torch)


@pytest.mark.parametrize("again", [lambda m: pickle.loads(pickle.dumps(m)), copy.deepcopy])
def test_what_the_graph_does_not_use_is_kept(again):
    def run(lib):
        made = traced(lib, lib.nn.Sequential(lib.nn.Linear(2, 3), lib.nn.ReLU()))
        made.add_submodule("spare", lib.nn.Linear(1, 1))
        made.spare_buffer = lib.nn.Buffer(lib.ones(1))
        made.register_buffer("passing", lib.ones(1), persistent=False)
        made.register_parameter("spare_parameter", lib.nn.Parameter(lib.ones(1)))
        made.note = "kept"
        new = again(made)
        return (
            list(new.state_dict()),
            new.passing.tolist(),
            getattr(new, "note", None),
            [n for n, _ in new.named_modules()],
        )

    assert run(oneflow) == run(torch)
