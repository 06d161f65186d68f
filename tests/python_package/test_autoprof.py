"""AutoProf: cases from text and from scripts, both libraries' times, CSV and the page."""

import csv
import json
import re
import sys

import oneflow
import pytest
import torch
from oneflow import autoprof
from oneflow.autoprof.__main__ import main

SCRIPT = """
import sys
import oneflow as torch

assert sys.argv[1:] == ["--width", "8"] and __name__ == "__main__"
model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = torch.nn.functional.cross_entropy(model(torch.randn(4, 8)), torch.randint(0, 8, (4,)))
    loss.backward()
    optimizer.step()
torch.randn(3, 5).t().softmax(-1).to(torch.bfloat16).add_(1)
sys.exit(0)
"""


def test_cases_from_text():
    case = autoprof.Case.parse("sum rows", "sum(x, 1, keepdim=True)", x="bf16[4,6]")
    assert (case.name, case.shapes(), case.dtype(), case.text) == ("sum", "[4, 6]", "bfloat16", "sum rows")
    (t,) = autoprof.Case.parse("embedding", "embedding(t)", t="i64(5)[100]").args
    assert t.dtype == oneflow.int64 and 0 <= t.min() and t.max() < 5
    for call, spec in (("sum(x", "f32[2]"), ("sum(x)", "f31[2]"), ("1 + 1", "f32[2]")):
        with pytest.raises(ValueError, match="autoprof"):
            autoprof.Case.parse("wrong", call, x=spec)


def test_built_in_cases_run_in_both_libraries():
    cases = autoprof.built_in_cases()
    assert len(cases) >= 40
    for case in cases[::6]:
        row = autoprof.measure(case, torch, seconds=0.001)
        assert row.note == "" and row.ratio > 0, row


def test_what_fails_is_said():
    row = autoprof.measure(autoprof.Case.parse("mm", "mm(x, x)", x="f32[2,3]"), torch, seconds=0.001)
    assert row.oneflow_us is None and row.note.startswith("oneflow: RuntimeError")
    row = autoprof.measure(autoprof.Case("no_such_function", (oneflow.ones(1),)), torch, seconds=0.001)
    assert "no such function" in row.note and row.ratio is None
    row = autoprof.measure(autoprof.Case.parse("relu", "relu(x)", x="f32[2]"), None, seconds=0.001)
    assert row.torch_us is None and row.oneflow_us > 0 and row.note == ""


def test_calls_of_a_script(tmp_path, monkeypatch):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    cases = {(case.name, case.shapes()): case for case in autoprof.calls_of_script(str(path), ["--width", "8"])}
    linear = cases["linear", "[4, 8], [8, 8], [8]"]
    assert linear.calls == 3 and linear.args[1].requires_grad
    softmax = next(case for (name, _), case in cases.items() if name == "softmax")
    assert softmax.args[0].stride() == (1, 5)
    for case in cases.values():
        row = autoprof.measure(case, torch, seconds=0.001)
        assert row.oneflow_us is not None and (row.torch_us is not None or case.name.startswith("_")), row


def test_the_command_line(tmp_path, capsys):
    script, table, page = (tmp_path / name for name in ("script.py", "ops.csv", "ops.html"))
    script.write_text(SCRIPT)
    threads = oneflow.get_num_threads(), torch.get_num_threads()
    options = ["--seconds", "0.001", "--csv", str(table), "--html", str(page), "--only", "linear|softmax"]
    try:
        assert main([*options, str(script), "--width", "8"]) == 0
        assert main(["--only", "no such case"]) == 1 and main(["--seconds", "-1"]) == 2 and main(["--only", "("]) == 2
    finally:
        oneflow.set_num_threads(threads[0])
        torch.set_num_threads(threads[1])
    text = capsys.readouterr().out
    assert "geometric mean" in text and "linear [4, 8], [8, 8], [8]" in text
    rows = list(csv.DictReader(table.read_text().splitlines()))
    assert {row["name"] for row in rows} == {"linear", "softmax"} and float(rows[0]["ratio"]) > 0
    data = json.loads(re.search(r"const data = (.*);\n", page.read_text())[1])
    assert [row["name"] for row in data["rows"]] == [row["name"] for row in rows]
    assert not re.search(r"(src|href)=", page.read_text())


def test_torch_is_not_needed(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "torch", None)
    threads = oneflow.get_num_threads()
    try:
        assert main(["--seconds", "0.001", "--only", "^relu$"]) == 0
    finally:
        oneflow.set_num_threads(threads)
    assert "relu [1024, 1024]" in capsys.readouterr().out
