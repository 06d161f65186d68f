"""Every model of the library as a saved program: bit-equal results without the model, from many threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import oneflow as flow
import pytest
from models_library.cases import CASES
from models_library.test_models_library import fed, listed, pair
from oneflow import nn


class Predict(nn.Graph):
    def __init__(self, model: Any, call: Any) -> None:
        super().__init__()
        self.model, self.call = model, call

    def build(self, *given: Any) -> Any:
        return self.call(self.model, *given)


@pytest.mark.parametrize("name", CASES)
def test_a_saved_model_returns_the_same_bits(name: str, tmp_path: Any) -> None:
    _, model = pair(name, tmp_path)
    inputs = fed(flow, name, 1)
    graph = Predict(model.eval(), CASES[name].our_call)
    with flow.no_grad():
        want = [t.numpy().tobytes() for t in listed(graph(*inputs))]
    flow.save(graph, tmp_path / "program")
    again = flow.load(tmp_path / "program")
    with ThreadPoolExecutor(4) as threads:
        runs = list(threads.map(lambda _: [t.numpy().tobytes() for t in listed(again(*inputs))], range(8)))
    assert all(run == want for run in runs)
