"""What ranks have traced of a graph is compared before its first step: ops, shapes, dtypes, arguments, boxing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import oneflow as flow
import pytest
from oneflow.testing import run_ranks

sys.path.insert(0, str(Path(__file__).parents[1] / "distributed"))

from processes import free_port, started, torchrun

SPLIT, WHOLE = flow.sbp.split(0), flow.sbp.broadcast

# What rank 0 builds, what the last rank builds, and the two lines that the error names.
CASES = {
    "another op": ("x.relu()", "x.tanh()", "relu(float32[4, 4]", "tanh(float32[4, 4]"),
    "another shape": ("x[:2] * 2", "x[:3] * 2", "2", "3"),
    "another dtype": ("x.to(flow.float64) + 1", "x.to(flow.float16) + 1", "float64", "float16"),
    "another argument": ("flow.softmax(x, 0)", "flow.softmax(x, 1)", "; 0", "; 1"),
    "another layout": ("x.to_global(sbp=W) + 1", "x.to_global(sbp=S1) + 1", "to [B]", "to [S(1)]"),
    "another order of layouts": (
        "x.to_global(sbp=W).sum() + (x * 2).to_global(sbp=W).sum()",
        "(x * 2).to_global(sbp=W).sum() + x.to_global(sbp=W).sum()",
        "change of layout",
        "mul(",
    ),
    "one more op": ("x + 1", "(x + 1) * 3", "nothing more", "mul("),
}


class Built(flow.nn.Graph):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def build(self, x: flow.Tensor) -> flow.Tensor:
        return eval(self.text, {"flow": flow, "x": x, "W": WHOLE, "S1": flow.sbp.split(1)})


def fails(graph: Any, x: Any) -> str:
    try:
        graph(x)
    except RuntimeError as error:
        # Behind the graph's name, which counts those of all ranks that are threads.
        return str(error).partition(": ")[2]
    return ""


def whole(n: int) -> flow.Tensor:
    return flow.ones(4, 4).to_global(flow.placement("cpu", list(range(n))), WHOLE).to_global(sbp=SPLIT)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("n", [2, 3])
def test_ranks_that_trace_different_programs_are_told(case: str, n: int) -> None:
    first, last, line, other = CASES[case]

    def rank() -> list[str]:
        x, odd = whole(n), flow.distributed.get_rank() == n - 1
        # Groups of a placement are made by its first exchange, which all ranks are part of.
        x.to_global(sbp=WHOLE)
        return [fails(Built(last if odd else first), x)]

    results = [text for (text,) in run_ranks(n, rank)]
    assert len(set(results)) == 1, results
    (text,) = set(results)
    ranks = "rank 0 has" if n == 2 else "ranks [0, 1] have"
    assert "different programs" in text and ranks in text and f"rank {n - 1} has" in text, text
    before, after = text.split(f"rank {n - 1} has")
    assert line in before and other in after, text


def test_equal_ranks_compare_once_and_a_failed_program_is_not_kept() -> None:
    def rank() -> Any:
        x, odd = whole(2), flow.distributed.get_rank() == 1
        graph = Built("x * 3")
        graph(x)
        flow._oneflow._reset_wire_counters()
        for _ in range(5):
            y = graph(x)
        sent = [(name, calls) for name, _, calls in flow._oneflow._wire_counters() if calls]
        # A program is compared again when it is compiled again.
        graph = Built("x + 1" if odd else "x - 1")
        text = fails(graph, x)
        graph.text = "x + 2"
        return sent, y.to_local().flatten().tolist(), text, graph(x).to_local().flatten().tolist()

    for sent, y, text, z in run_ranks(2, rank):
        assert sent == [] and y == [3.0] * 8
        assert "Call 0" in text and z == [3.0] * 8


def test_axes_of_a_mesh_parts_of_the_world_and_training() -> None:
    def rank(odd: int) -> list[str]:
        dist = flow.distributed
        here = dist.get_rank()
        mesh = flow.placement("cpu", [[0, 1], [2, 3]])
        x = flow.ones(4, 4).to_global(mesh, [WHOLE, WHOLE]).to_global(sbp=[SPLIT, flow.sbp.split(1)])
        text = [fails(Built("x.exp()" if here == odd else "x.sin()"), x)]
        # A part of the world: the others trace it, and have nothing to compare.
        part = flow.placement("cpu", [1, 3])
        w = flow.ones(4, 4).to_global(part, WHOLE).to_global(sbp=SPLIT)
        w.to_global(sbp=WHOLE)
        text.append(fails(Built("x.exp()" if here == 3 else "x.sin()"), w))
        return text

    for odd in (0, 2):
        found = run_ranks(4, rank, odd)
        meshes, parts = zip(*found, strict=True)
        assert len(set(meshes)) == 1 and f"rank {odd} has exp(" in meshes[0], meshes
        assert [bool(text) for text in parts] == [False, True, False, True], parts
        assert "rank 1 has sin(" in parts[1] and "rank 3 has exp(" in parts[3], parts

    class Model(flow.nn.Module):
        def __init__(self, activation: Any) -> None:
            super().__init__()
            self.linear, self.activation = flow.nn.Linear(4, 4), activation

        def forward(self, x: Any) -> Any:
            return self.activation(self.linear(x)).sum()

    class Train(flow.nn.Graph):
        def __init__(self, model: Any, optimizer: Any) -> None:
            super().__init__()
            self.model = model
            self.add_optimizer(optimizer)

        def build(self, x: Any) -> Any:
            loss = self.model(x)
            loss.backward()
            return loss

    def train(differ: bool) -> str:
        here = flow.distributed.get_rank()
        flow.manual_seed(0)
        model = Model(flow.tanh if differ and here else flow.sigmoid)
        model = model.to_global(flow.placement("cpu", [0, 1]), WHOLE)
        x = whole(2)
        return fails(Train(model, flow.optim.SGD(model.parameters(), lr=0.1)), x)

    assert run_ranks(2, train, False) == ["", ""]
    assert all("sigmoid(" in text and "tanh(" in text for text in run_ranks(2, train, True))


BODY = """
class Step(flow.nn.Graph):
    def build(self, x):
        y = x.to_global(sbp=flow.sbp.broadcast)
        return y.relu() if dist.get_rank() else y.sigmoid()

x = flow.ones(4).to_global(flow.placement("cpu", [0, 1]), flow.sbp.split(0))
try:
    Step()(x)
except RuntimeError as error:
    print(error, flush=True)
dist.destroy_process_group()
"""


def test_processes_are_told() -> None:
    port = free_port()
    with started(BODY, [torchrun(rank, 2, port) for rank in range(2)]) as ranks:
        said = [rank.communicate(timeout=120)[0] for rank in ranks]
    for text in said:
        assert "Call 1 on global tensors" in text and "rank 0 has sigmoid(" in text and "rank 1 has relu(" in text, said
