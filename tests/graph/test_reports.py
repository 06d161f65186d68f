"""Reports of a graph: levels of detail, the lines of Python behind its ops, memory over time."""

from __future__ import annotations

import oneflow as flow
import pytest
from oneflow import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 2)

    def forward(self, x):
        return self.second(self.helper(self.first(x)))

    def helper(self, x):
        return x.tanh().cumsum(-1)


class Forward(nn.Graph):
    def __init__(self, **options):
        super().__init__(**options)
        self.net = Net()

    def build(self, x):
        return self.net(x)


def shown(capsys, **options):
    graph = Forward()
    graph.debug(**options)
    capsys.readouterr()
    graph(flow.ones(4, 8))
    return capsys.readouterr().out


def test_levels_show_more_and_more(capsys):
    texts = [shown(capsys, v_level=level) for level in (-1, 0, 1, 2, 3)]
    assert texts[0] == ""
    assert "traced in" in texts[1] and "launches a run" in texts[1] and "module" not in texts[1]
    assert "module net" in texts[2] and "cumsum" not in texts[2]
    assert "as it runs" in texts[3] and "cumsum" in texts[3] and "as it was traced" not in texts[3]
    assert "as it was traced" in texts[4] and "bytes in use" in texts[4]
    for bad in (4, -2, "2"):
        with pytest.raises(ValueError, match="v_level"):
            Forward().debug(bad)
    with pytest.raises(ValueError, match="max_py_stack_depth"):
        Forward(debug_max_py_stack_depth=0)


def test_ranks_select_the_printing_rank(capsys):
    assert shown(capsys, v_level=0, ranks=1) == ""
    assert shown(capsys, v_level=0, ranks=[1, 0]) and shown(capsys, v_level=0, ranks=-1)


def test_the_number_of_python_lines_can_be_chosen(capsys):
    line = {d: next(r for r in shown(capsys, v_level=2, max_py_stack_depth=d, op_repr_with_py_stack=True).split("\n")
                    if "cumsum(" in r) for d in (1, 3)}  # fmt: skip
    assert line[1].count("test_reports.py:") == 1 and " < " not in line[1]
    assert line[3].count("test_reports.py:") == 3 and line[3].count(" < ") == 2
    assert "test_reports.py:" not in shown(capsys, v_level=2)
    deep = shown(capsys, v_level=2, max_py_stack_depth=9, only_user_py_stack=False, op_repr_with_py_stack=True)
    assert "modules/module.py:" in deep


def test_memory_over_time():
    graph = Forward()
    with pytest.raises(RuntimeError, match="call the graph first"):
        graph.memory_timeline()
    graph(flow.ones(4, 8))
    rows = graph.memory_timeline()
    assert "cumsum" in [r["name"] for r in rows]
    assert all("test_reports.py:" in r["origin"] for r in rows)
    assert max(r["bytes"] for r in rows) == graph.memory()["lower_bound"]


def test_one_module_may_be_shown_alone(capsys):
    model = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.Tanh(), nn.Linear(3, 2)))
    model[1].to(nn.graph.GraphModule).debug(2, op_repr_with_py_stack=True)

    class Alone(nn.Graph):
        def __init__(self):
            super().__init__()
            self.model = model

        def build(self, x):
            return self.model(x)

    Alone()(flow.ones(1, 4))
    shown = capsys.readouterr().out
    assert "module model.1: Sequential" in shown and "tanh(" in shown and shown.count("linear(") == 1
    assert "test_reports.py" in shown and "module model.1.1" in shown
    with pytest.raises(ValueError, match="v_level"):
        model.to(nn.graph.GraphModule).debug(9)
