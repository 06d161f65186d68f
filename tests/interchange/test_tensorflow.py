"""Models that tf2onnx wrote: TensorFlow's results, training, traces, and back to ONNX. See ``tensorflow/make.py``."""

from pathlib import Path

import numpy as np
import oneflow as flow
import onnx
import pytest
from oneflow import nn

HERE = Path(__file__).parent / "tensorflow"
RESULTS = np.load(HERE / "results.npz")


def load(name):
    model = flow.onnx.load(HERE / f"{name}.onnx").eval()
    return model, flow.from_numpy(RESULTS[f"{name}_in"]), flow.from_numpy(RESULTS[f"{name}_out"])


@pytest.mark.parametrize("name", ["images", "words"])
def test_results_are_tensorflows(name):
    model, x, expected = load(name)
    with flow.no_grad():
        assert flow.allclose(model(x), expected, rtol=1e-5, atol=1e-6)
        assert flow.allclose(model(x[:1]), expected[:1], rtol=1e-5, atol=1e-6)


def test_a_model_trains_compiles_and_goes_back(session):
    model, x, expected = load("images")

    class Graph(nn.Graph):
        def __init__(self):
            super().__init__()
            self.model = model

        def build(self, x):
            return self.model(x)

    with flow.no_grad():
        assert flow.allclose(Graph()(x), expected, rtol=1e-5, atol=1e-6)
    # Numbers such as the epsilon of a norm are tensors of the file as weights are.
    weights = [p for p in model.parameters() if p.numel() > 1]
    optimizer, labels = flow.optim.Adam(weights, lr=1e-2), flow.tensor([0, 1, 2])
    losses = []
    for _ in range(10):
        loss = nn.functional.nll_loss(model(x).log(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]
    data = flow.onnx.export(model, (x,), dynamic_shapes=({0: "batch"},)).to_bytes()
    onnx.checker.check_model(data, full_check=True)
    more = flow.randn(5, *x.shape[1:])
    with flow.no_grad():
        assert np.allclose(session(data)(_named(data, more))[0], model(more).numpy(), atol=1e-5)


def _named(data, x):
    return {onnx.load_from_string(data).graph.input[0].name: x.numpy()}


def test_a_loop_over_data_is_refused_where_it_is_traced():
    model, x, _ = load("words")
    with pytest.raises(RuntimeError, match=r"ONNX node '.*' \(Loop\)"):
        flow.onnx.export(model, (x,))
