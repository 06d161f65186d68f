"""Options of a graph: each changes the plan as it says, and no result."""

from __future__ import annotations

import oneflow as flow
import pytest
from oneflow import nn


class Branches(nn.Module):
    """Many values wait for the end of the program, though each could be summed at once."""

    def __init__(self) -> None:
        super().__init__()
        flow.manual_seed(0)
        self.parts = nn.ModuleList([nn.Linear(64, 256) for _ in range(6)])

    def forward(self, x):
        wide = [part(x).tanh() for part in self.parts]
        total = x.sum()
        for w in wide:
            total = total + w.sum()
        return total


def compiled(options, module=None):
    module = module or Branches()

    class Forward(nn.Graph):
        def __init__(self):
            super().__init__()
            self.module = module
            for name, value in options.items():
                getattr(self.config, name)(value)

        def build(self, x):
            return self.module(x)

    flow.manual_seed(1)
    x = flow.randn(32, 64)
    graph = Forward()
    with flow.no_grad():
        value = graph(x).item()
    return value, graph.memory(), repr(graph)


def test_straighten_modes_change_the_order_and_not_the_result():
    plain, disabled, text = compiled({"enable_straighten_algorithm": "Disable"})
    peaks = {}
    texts = set()
    for mode in ("MemoryFirst", "SpeedFirst", "OverlapCpuGpu", "DelayShortGpu"):
        value, memory, other = compiled({"enable_straighten_algorithm": mode})
        assert value == plain
        peaks[mode] = memory["peak"]
        texts.add(other.replace(mode, "Disable") != text)
    assert True in texts
    # One wide value at a time in place of six.
    assert peaks["MemoryFirst"] <= disabled["peak"] / 2
    assert compiled({})[1]["peak"] == peaks["MemoryFirst"]
    with pytest.raises(ValueError, match="MemoryFirst"):
        nn.graph.GraphConfig().enable_straighten_algorithm("Fast")


def test_memory_efforts_are_ordered():
    first = compiled({"enable_choose_best_memory_allocation": False})
    best = compiled({"enable_choose_best_memory_allocation": True})
    compressed = compiled({"enable_compress_memory": True})
    assert first[0] == best[0] == compressed[0]
    assert first[1]["peak"] >= best[1]["peak"] >= compressed[1]["peak"] >= compressed[1]["lower_bound"]
    name, size = best[1]["holders"][0]
    assert "test_config.py" in name and size > 0


def test_constants_are_computed_once():
    class Masked(nn.Module):
        def forward(self, x):
            n = x.shape[-1]
            mask = flow.ones(n, n).tril().log()
            return (x @ x.T + mask[: x.shape[0], : x.shape[0]]).softmax(-1).sum(0).max() + flow.arange(n).float().mean()

    module = Masked()
    value, _, text = compiled({}, module)
    flow.manual_seed(1)
    assert abs(value - module(flow.randn(32, 64)).item()) < 1e-5
    program = text[text.index("graph ") :]
    assert 'variable "constant.' in program
    assert "tril" not in program and "arange" not in program and "log(" not in program
