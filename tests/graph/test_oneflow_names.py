"""Methods of nn.Graph and names around it that only OneFlow has, by what they do."""

from __future__ import annotations

import copy
import io
import warnings
from typing import Any

import oneflow as flow
import pytest
from oneflow import nn, sbp
from oneflow.testing import run_ranks


class Linear(nn.Graph):
    def __init__(self) -> None:
        super().__init__()
        self.model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())

    def build(self, x: flow.Tensor) -> flow.Tensor:
        return self.model(x)


def test_trace_makes_a_function_a_graph_and_compiles_a_graph() -> None:
    @nn.Graph.trace
    def twice(x, *, plus=0.0):
        """Twice it."""
        return x * 2 + plus

    assert isinstance(twice, nn.Graph) and twice.name.startswith("twice_graph") and "Twice" in type(twice).__doc__
    assert twice(flow.ones(2), plus=1.0).tolist() == [3, 3] and twice.is_compiled
    graph = Linear()
    assert graph.trace(flow.ones(1, 3)) is graph and graph.is_compiled
    with pytest.raises(TypeError, match="expected a function, got Linear"):
        nn.Graph.trace(nn.Linear(1, 1))


def test_dynamic_shapes_are_enabled_by_a_decorator_too() -> None:
    class Kept(Linear):
        @nn.Graph.with_dynamic_input_shape(size=2)
        def __init__(self) -> None:
            super().__init__()

    graph = Kept()
    for n in (1, 2, 3, 4):
        assert graph(flow.ones(n, 3)).shape == (n, 4)
    assert len(graph._compiled) == 2


def test_weights_are_shared_from_another_graph() -> None:
    first, second = Linear(), Linear()
    x = flow.randn(2, 3)
    with pytest.raises(RuntimeError, match="must be compiled"):
        second.share_from(first)
    y = first(x)
    second.share_from(first)
    assert (second(x) == y).all() and second(flow.randn(5, 3)).shape == (5, 4)
    with flow.no_grad():
        first.model[0].weight.zero_()
        first.model[0].bias.fill_(1.0)
    assert (second(x) == 1).all() and (second.model[0].weight == 0).all()
    other = Linear()
    other.model = nn.Linear(3, 5)
    with pytest.raises(RuntimeError, match="differ"):
        other.share_from(first)
    first.enable_shared(False)
    with pytest.raises(RuntimeError, match="enable_shared"):
        Linear().share_from(first)
    with pytest.raises(TypeError, match="got int"):
        Linear().share_from(1)


def test_programs_move_in_a_state_of_tensors() -> None:
    graph = Linear()
    inputs = [flow.randn(n, 3) for n in (1, 2, 4)]
    with pytest.raises(RuntimeError, match="call the graph first"):
        graph.runtime_state_dict()
    expected = [graph(x).tolist() for x in inputs]
    file = io.BytesIO()
    flow.save(graph.runtime_state_dict(), file)
    file.seek(0)
    state = nn.Graph.runtime_state_dict_to(flow.load(file), "cpu")

    class Never(Linear):
        def build(self, x):
            raise AssertionError("a loaded program traces nothing")

    loaded = Never()
    loaded.load_runtime_state_dict(state)
    assert loaded.is_compiled and [loaded(x).tolist() for x in inputs] == expected
    with pytest.raises(AssertionError, match="traces nothing"):
        loaded(flow.randn(7, 3))
    for bad in ({}, {**state, "oneflow_version": "0"}, {**state, "programs": [{"../x": flow.zeros(1)}]}):
        with pytest.raises(ValueError, match="load_runtime_state_dict"):
            Linear().load_runtime_state_dict(bad)
    with pytest.raises(NotImplementedError, match="compiled for"):
        nn.Graph.runtime_state_dict_to(state, "cuda")
    assert not copy.copy(loaded).is_compiled


def test_modules_know_their_place_in_a_graph() -> None:
    graph = Linear()
    part = graph.model[0].to(nn.graph.GraphModule)
    assert (part.path, part.name, part.name_prefix) == ("model.0", "0", "model.")
    assert graph.model.to(nn.graph.GraphModule).name == "model"
    assert nn.Linear(1, 1).to(nn.graph.GraphModule).name == ""
    assert graph.model[0].weight.to(flow.Tensor) is graph.model[0].weight
    assert graph.model[0].weight.to(flow.Tensor, copy=True) is not graph.model[0].weight
    placement = flow.placement("cpu", [0])
    part.set_stage(1, placement)
    part.stage_id = 2
    assert part.stage_id == 2 and part.stage_placement == placement
    with pytest.raises(TypeError, match="integer"):
        part.stage_id = "first"


def test_hints_say_once_that_they_have_no_effect() -> None:
    works = {"set_stream_num", "set_fusion_max_ops_num", "set_fusion_threshold_mbytes", "enable_use_compute_stream"}
    for name in works:
        with pytest.raises(ValueError, match=name):
            getattr(flow.boxing.nccl, name)("much")
    for name in sorted({*flow.boxing.nccl.__all__} - works):
        hint = getattr(flow.boxing.nccl, name)
        value: Any = 2 if name.startswith("set_") else True
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            hint(value)
            hint(value)
        # Others may warn meanwhile, of files that are collected unclosed.
        assert sum(f"{name}() is accepted and has no effect: " in str(each.message) for each in said) == 1
        with pytest.raises(ValueError, match=name):
            hint("much")


def test_layouts_change_by_functions() -> None:
    p = flow.placement("cpu", [0])
    x = flow.ones(2)
    y = flow.to_global(x, p, sbp.split(0))
    assert y.sbp == flow.local_to_global(x, p, sbp.split(0)).sbp == (sbp.split(0),)
    assert flow.global_to_global(y, sbp=sbp.broadcast).sbp == (sbp.broadcast,) and not flow.to_local(y).is_global


@pytest.mark.parametrize("layout", [sbp.broadcast, sbp.split(0), sbp.partial_sum], ids=str)
def test_global_states_are_saved_and_loaded(layout: Any, tmp_path: Any) -> None:
    path = tmp_path / "state.pt"

    def rank() -> None:
        p = flow.placement.all("cpu")
        x = flow.tensor([[1.0, 2], [3, 4]], placement=p, sbp=layout)
        nest = {"x": x, "more": [x * 2, {"half": x.bfloat16()}], "local": flow.ones(1), "n": 3}
        flow.save(nest, path, global_dst_rank=1 % flow.env.get_world_size())
        flow.distributed.barrier()
        found = flow.load(path)
        assert found["x"].tolist() == [[1, 2], [3, 4]] and found["more"][0].tolist() == [[2, 4], [6, 8]]
        assert found["more"][1]["half"].dtype == flow.bfloat16 and found["n"] == 3 and not found["x"].is_global
        buffer = io.BytesIO()
        flow.save(nest, buffer)
        buffer.seek(0)
        assert flow.load(buffer)["x"].tolist() == [[1, 2], [3, 4]]
        spread = flow.load(path, global_src_rank=0)
        assert spread["x"].placement == flow.placement("cpu", [0]) and spread["n"] == 3
        assert spread["more"][1]["half"].dtype == flow.bfloat16
        # A module, its optimizer and their states.
        flow.manual_seed(0)
        module = nn.Linear(4, 2).to_global(p, sbp.broadcast)
        optimizer = flow.optim.Adam(module.parameters(), lr=0.1)
        module(flow.ones(2, 4, placement=p, sbp=sbp.split(0))).sum().backward()
        optimizer.step()
        flow.save({"model": module.state_dict(), "optimizer": optimizer.state_dict()}, path, global_dst_rank=0)
        flow.distributed.barrier()
        other = nn.Linear(4, 2).to_global(p, sbp.broadcast).to_global(sbp=sbp.split(0))
        stepper = flow.optim.Adam(other.parameters(), lr=0.1)
        for source in ({}, {"global_src_rank": 0}):
            state = flow.load(path, **source)
            other.load_state_dict(state["model"])
            stepper.load_state_dict(state["optimizer"])
            assert other.weight.sbp == (sbp.split(0),)
            assert other.weight.detach().numpy().tolist() == module.weight.detach().numpy().tolist()
            ours, theirs = (o.state[m.weight]["exp_avg"] for o, m in ((stepper, other), (optimizer, module)))
            assert ours.sbp == other.weight.sbp and ours.numpy().tolist() == theirs.numpy().tolist()
        with pytest.raises(ValueError, match="no rank 9"):
            flow.save(x, path, global_dst_rank=9)

    for n in (1, 2):
        run_ranks(n, rank)
