"""A case of every op on real processes: the sample that runs always; ``make every-op`` runs all cases."""

from __future__ import annotations

from pathlib import Path

import oneflow
import pytest
from distributed import every_op
from oneflow import _oneflow
from oneflow.testing import run_ranks

SEED = 20


@pytest.mark.parametrize(
    ("ranks", "modes", "parts"),
    [(2, ("eager", "graph"), "balanced"), (4, ("eager",), "balanced"), (4, ("eager", "graph"), "chunks")],
)
def test_a_case_of_every_op(ranks: int, modes: tuple[str, ...], parts: str, tmp_path: Path) -> None:
    given = ("--seed", str(SEED), "--parts", parts, "--modes", *modes)
    found = every_op.run(tmp_path, ranks, *given, seconds=300)
    assert found["failures"] == [], f"seed {SEED}"
    n_ops = len({case.op for case in every_op.cases()})
    assert n_ops > 450 and found["n_cases"] == n_ops
    assert found["checked"]["value"] > n_ops and found["checked"]["gradient"] > 400, found["checked"]
    if "graph" in modes:
        assert found["checked"]["graph value"] > 450 and found["checked"]["graph gradient"] > 400, found["checked"]
    # What one process cannot do without placements.
    assert len(found["skipped"]) < 20, found["skipped"]


def test_every_row_is_a_case() -> None:
    cases = set(every_op.cases(["matmul"]))
    rows = _oneflow._C._rows("matmul")
    assert all(every_op.Case("matmul", i, tuple(row)) in cases for i, of in enumerate(rows) for row in of)
    # Ops without a rule of their own get layouts too.
    assert every_op.Case("conv2d", 0, ("S(0)",) * 3) in cases | set(every_op.cases(["conv2d"]))


def test_wrong_values_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A planted mistake: an op that scales its value where it is global, and another that scales its gradient."""

    class Scaled(oneflow.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * 2

    caller = every_op.caller

    def planted(name: str):
        real = caller(name)
        if name == "exp":
            return lambda x: real(x) * 2 if x.is_global else real(x)
        if name == "sin":
            return lambda x: Scaled.apply(real(x)) if x.is_global else real(x)
        return real

    monkeypatch.setattr(every_op, "caller", planted)

    def rank() -> list[list[str]]:
        checker = every_op.Rank(["eager"])
        return [
            [text for case in every_op.cases([name]) for text in checker.check(case)] for name in ("exp", "sin", "cos")
        ]

    for of_exp, of_sin, of_cos in run_ranks(2, rank):
        assert any("value 0" in text for text in of_exp) and any("gradient 0" in text for text in of_exp)
        assert of_sin and all("gradient 0" in text for text in of_sin)
        assert of_cos == []
