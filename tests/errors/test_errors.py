"""Bad input: PyTorch's exception class, with a message that names the op and the fault."""

import oneflow
import pytest
import torch
from errors import cases_nn, cases_ops, cases_python, cases_tensor

TABLES = (cases_tensor.CASES, cases_ops.CASES, cases_nn.CASES, cases_python.CASES)
CASES = {key: case for table in TABLES for key, case in table.items()}


def _raised(case, fw):
    try:
        case(fw)
    except Exception as e:
        return e
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("key", CASES, ids=lambda k: f"{k[0]}-{k[1]}".replace(" ", "_"))
def test_error(key):
    case, words = CASES[key]
    theirs, ours = _raised(case, torch), _raised(case, oneflow)
    assert theirs is not None, "PyTorch takes it: no case"
    assert ours is not None, f"taken; PyTorch raises {theirs!r}"
    # Classes that PyTorch keeps private have an underscore.
    assert type(ours).__name__ == type(theirs).__name__.lstrip("_"), f"{ours!r} for {theirs!r}"
    missing = [w for w in words if w not in str(ours)]
    assert not missing, f"{missing} not in {str(ours)!r}"


def test_there_are_enough():
    assert len(CASES) == sum(map(len, TABLES)), "two tables name the same case"
    assert len(CASES) >= 300
