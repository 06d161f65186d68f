"""Exported programs as directories of compiled programs."""

import io

import oneflow
import pytest
from oneflow import nn
from oneflow.export import Dim, export, load, save, save_program


class Counted(nn.Module):
    """Nested arguments and results, a named argument, a buffer that a call writes."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.register_buffer("calls", oneflow.zeros(()))

    def forward(self, x, pair, *, scale):
        self.calls += 1
        return {"y": self.linear(x) * scale + pair[0], "both": [pair[1] - x, self.calls * 2]}


def example(n=5):
    return (oneflow.randn(n, 4), (oneflow.randn(n, 3), oneflow.randn(n, 4))), {"scale": oneflow.tensor(2.0)}


def test_a_directory_runs_as_the_program_does(tmp_path):
    oneflow.manual_seed(0)
    args, kwargs = example()
    model = Counted()
    program = export(model, args, kwargs)
    save_program(program, tmp_path / "counted")
    again = oneflow.load(tmp_path / "counted")
    assert [name for name, _, _ in again._program.inputs()] == ["x", "pair.0", "pair.1", "scale"]
    assert {"model.linear.weight", "model.linear.bias"} <= set(again.state_dict())
    for _ in range(2):
        args, kwargs = example()
        want, have = model(*args, **kwargs), again(*args, **kwargs)
        assert oneflow.allclose(have["y"], want["y"], atol=1e-6)
        assert oneflow.allclose(have["both"][0], want["both"][0], atol=1e-6)


def test_open_dimensions_stay_open_at_the_sizes_that_are_given(tmp_path):
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 2)).eval()
    program = export(net, (oneflow.randn(2, 3, 8, 8),), dynamic_shapes=({0: Dim("batch")},))
    file = io.BytesIO()
    save(program, file)
    loaded = load(io.BytesIO(file.getvalue()))
    x = oneflow.randn(7, 3, 8, 8)
    save_program(loaded, tmp_path / "seven", (x,))
    again = oneflow.load(tmp_path / "seven")
    assert oneflow.allclose(again(x), net(x), atol=1e-5)
    assert oneflow.allclose(again(x[:3]), net(x[:3]), atol=1e-5)
    with pytest.raises(AssertionError, match=r"Guard failed: .*size\(\)\[2\] == 8"):
        save_program(loaded, tmp_path / "other", (oneflow.randn(7, 3, 9, 8),))
