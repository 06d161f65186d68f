"""Compiled graphs in directories: the same results from many threads; errors name what does not fit."""

from __future__ import annotations

import io
import json
from concurrent.futures import ThreadPoolExecutor

import oneflow as torch
import pytest
from oneflow import nn


class Predict(nn.Graph):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def build(self, x, *, extra=None, scale=1.0):
        y = self.model(x) * scale
        return {"y": y, "both": [y + 1, None], "extra": (extra,) if extra is not None else ()}


class Train(nn.Graph):
    def __init__(self, model):
        super().__init__()
        self.model = model
        self.add_optimizer(torch.optim.AdamW(model.parameters(), lr=0.1))

    def build(self, x):
        loss = self.model(x).pow(2).mean()
        loss.backward()
        return loss


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2))


@pytest.fixture
def saved(tmp_path):
    graph = Predict(model())
    x, extra = torch.randn(3, 4), torch.arange(3)
    want = graph(x, extra=extra, scale=2.0)
    torch.save(graph, tmp_path / "predict")
    return tmp_path / "predict", (x, extra), want


def test_a_loaded_graph_is_the_same_function(saved):
    path, (x, extra), want = saved
    again = torch.load(path)
    have = again(x, extra=extra, scale=2.0)
    assert (have["y"] == want["y"]).all() and (have["both"][0] == want["both"][0]).all()
    assert have["both"][1] is None and (have["extra"][0] == extra).all()
    assert sorted(p.name for p in path.iterdir()) == ["plan.bin", "structure.json", "weights.safetensors"]
    state = again.state_dict()
    assert set(state) == {"model.0.weight", "model.0.bias", "model.2.weight", "model.2.bias"}
    assert (state["model.0.weight"] == model()[0].weight).all()


def test_many_threads_share_the_weights(saved):
    path, (_, extra), _ = saved
    again, plain = torch.load(path), model()
    inputs = [torch.randn(3, 4) for _ in range(40)]
    with ThreadPoolExecutor(8) as threads:
        results = list(threads.map(lambda x: again(x, extra=extra, scale=2.0)["y"], inputs))
    assert all(torch.allclose(y, plain(x) * 2) for x, y in zip(inputs, results, strict=True))


def test_inputs_have_the_names_of_the_arguments(saved):
    path, _, _ = saved
    inputs = torch.load(path)._program.inputs()
    assert inputs == [("x", "float32", [3, 4]), ("extra", "int64", [3])]


def test_other_arguments_are_refused(saved):
    path, (x, extra), _ = saved
    again = torch.load(path)
    for call in (
        lambda: again(x),
        lambda: again(x, extra=extra, scale=3.0),
        lambda: again(x, x, extra=extra, scale=2.0),
    ):
        with pytest.raises(TypeError, match="not those it was compiled for"):
            call()
    with pytest.raises(ValueError, match=r"input 'x' is oneflow.float32 \[5, 4\].*\[3, 4\]"):
        again(torch.randn(5, 4), extra=extra, scale=2.0)
    with pytest.raises(ValueError, match=r"input 'x' is oneflow\.float64"):
        again(x.double(), extra=extra, scale=2.0)


def test_a_saved_training_step_continues(tmp_path):
    x = torch.randn(3, 4)
    straight, saved = Train(model()), Train(model())
    want = [straight(x) for _ in range(4)]
    assert saved(x) == want[0] and saved(x) == want[1]
    torch.save(saved, tmp_path / "step")
    again = torch.load(tmp_path / "step")
    assert [again(x).item() for _ in range(2)] == [w.item() for w in want[2:]]


def test_what_is_wrong_is_named(saved, tmp_path):
    path, _, _ = saved
    with pytest.raises(RuntimeError, match="call the graph first"):
        torch.save(Predict(model()), tmp_path / "other")
    with pytest.raises(TypeError, match="directory"):
        torch.save(Predict(model()), io.BytesIO())
    with pytest.raises(RuntimeError, match=r"plan\.bin"):
        torch.load(tmp_path)
    form = json.loads((path / "structure.json").read_text())
    for wrong in (
        {**form, "version": 9},
        {"version": 1},
        [],
        {**form, "inputs": {"tuple": 3}},
        {**form, "inputs": {"constant": {}}},
        "[" * 100_000,
        json.dumps(form)[:-9],
    ):
        (path / "structure.json").write_text(json.dumps(wrong) if isinstance(wrong, dict | list) else wrong)
        with pytest.raises(ValueError, match=r"structure\.json"):
            torch.load(path)
    (path / "plan.bin").write_bytes(b"ONEFPLAN" + bytes(4))
    with pytest.raises(ValueError, match="version"):
        torch.load(path)
