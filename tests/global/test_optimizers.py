"""Every optimizer over global parameters, on two real processes, beside one process with local ones."""

from __future__ import annotations

import json
from typing import Any

import oneflow
import pytest
from distributed.processes import free_port, run, torchrun
from oneflow import optim

# Arguments of each case; the name's first word is the class.
CASES: dict[str, dict[str, Any]] = {
    "ASGD": {"lambd": 0.1, "weight_decay": 0.1},
    "LAMB": {"weight_decay": 0.1},
    "LAMB coupled": {"weight_decay": 0.1, "adam_w_mode": False},
    "LBFGS": {"max_iter": 3, "history_size": 4},
    "LBFGS wolfe": {"max_iter": 3, "line_search_fn": "strong_wolfe"},
    "SGD": {},
    "SGD momentum": {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1},
    "Adadelta": {"weight_decay": 0.1},
    "Adafactor": {},
    "Adafactor decay": {"weight_decay": 0.1, "maximize": True},
    "Adagrad": {"initial_accumulator_value": 0.1, "lr_decay": 0.1},
    "Adam": {},
    "Adam amsgrad": {"amsgrad": True},
    "AdamW": {"weight_decay": 0.1},
    "Adamax": {"weight_decay": 0.1},
    "Ftrl": {"lambda1": 0.01, "lambda2": 0.01},
    "Muon": {"weight_decay": 0.1},
    "NAdam": {"weight_decay": 0.1},
    "RAdam": {"weight_decay": 0.1},
    "RMSprop": {"momentum": 0.9, "centered": True},
    # Its own rule under OneFlow's conventions.
    "RMSprop oneflow": {"momentum": 0.9, "centered": True},
    "Rprop": {},
}
# Another class takes only sparse gradients, which global parameters do not have.
SPARSE = "SparseAdam"

# The optimizers' step on parameters that are split evenly, unevenly, with an empty shard, and not at all.
PROGRAM = """
SHAPES = [((4, 6), 0), ((5, 3), 0), ((5, 3), 1), ((1, 16), 0), ((2, 3), None)]
VECTORS = [((3,), 0), ((4,), 0), ((1,), 0), ((6,), None)]

def train(flow, case, options, place):
    name = case.split()[0]
    generator = flow.Generator().manual_seed(3)
    weights = []
    for shape, dim in SHAPES if name == "Muon" else SHAPES + VECTORS:
        w = flow.randn(*shape, dtype=flow.float64, generator=generator)
        weights.append(flow.nn.Parameter(w if place is None else place(w, dim)))
    with flow.conventions("oneflow" if case.endswith("oneflow") else "pytorch"):
        optimizer = getattr(flow.optim, name)(weights, lr=0.05, **options)
        for step in range(4):
            def closure():
                optimizer.zero_grad()
                loss = sum(((w * (0.5 + step)).sin() * (i + 1)).square().sum() for i, w in enumerate(weights))
                loss.backward()
                return loss
            optimizer.step(closure)
    return [w.to_global(sbp=flow.sbp.broadcast).to_local() if w.is_global else w for w in weights]
"""

RANKS = """
import json
flow.set_num_threads(1)
placement = flow.placement("cpu", [0, 1])
def place(w, dim):
    layout = flow.sbp.broadcast if dim is None else flow.sbp.split(dim)
    return w.to_global(placement, flow.sbp.broadcast).to_global(sbp=layout)
found = {}
for case, options in json.loads(CASES).items():
    try:
        found[case] = [w.flatten().tolist() for w in train(flow, case, options, place)]
    except Exception as error:
        found[case] = f"{type(error).__name__}: {error}"
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def trained() -> list[dict[str, Any]]:
    """The weights that each of two processes has after training, by case."""
    port = free_port()
    body = f"CASES = {json.dumps(json.dumps(CASES))}\n{PROGRAM}{RANKS}"
    said = run(body, [torchrun(rank, 2, port) for rank in range(2)])
    assert all(out for out, _ in said), said
    return [json.loads(out.splitlines()[-1]) for out, _ in said]


@pytest.mark.parametrize("case", CASES)
def test_weights_of_two_processes_are_those_of_one(case: str, trained: list[dict[str, Any]]) -> None:
    program: dict[str, Any] = {}
    exec(PROGRAM, program)
    expected = [w.flatten().tolist() for w in program["train"](oneflow, case, CASES[case], None)]
    # On the way Muon rounds to bfloat16 and LAMB's norms to float32, where the order of a sum shows.
    tolerance = {"Muon": 2e-3, "LAMB": 1e-6}.get(case.split()[0], 1e-9)
    for found in trained:
        assert isinstance(found[case], list), found[case]
        for own, right in zip(found[case], expected, strict=True):
            assert own == pytest.approx(right, rel=10 * tolerance, abs=tolerance)


@pytest.mark.parametrize("name", ["Adafactor", "Adam", "LAMB"])
def test_steps_in_a_graph(name: str) -> None:
    def train(is_global: bool) -> list[float]:
        oneflow.manual_seed(0)
        model, x = oneflow.nn.Linear(4, 6).double(), oneflow.linspace(-1, 1, 12, dtype=oneflow.float64).reshape(3, 4)
        if is_global:
            placement = oneflow.placement("cpu", [0, 1])
            model, x = (
                model.to_global(placement, oneflow.sbp.broadcast).to_global(sbp=oneflow.sbp.split(0)),
                x.to_global(placement, oneflow.sbp.broadcast),
            )
        optimizer = getattr(optim, name)(model.parameters(), lr=0.05, weight_decay=0.1)

        class Step(oneflow.nn.Graph):
            def __init__(self) -> None:
                super().__init__()
                self.model = model
                self.add_optimizer(optimizer)

            def build(self, x: oneflow.Tensor) -> oneflow.Tensor:
                loss = self.model(x).square().sum()
                loss.backward()
                return loss

        step: Any = Step()
        for _ in range(3):
            step(x)
        w = model.weight.detach()
        return (w.to_global(sbp=oneflow.sbp.broadcast).to_local() if is_global else w).flatten().tolist()

    expected = train(False)
    for found in oneflow.testing.run_ranks(2, train, True):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6)


def test_no_optimizer_is_missing() -> None:
    classes = {name for name in optim.__all__ if isinstance(getattr(optim, name), type)} - {"Optimizer", SPARSE}
    assert {case.split()[0] for case in CASES} == classes
