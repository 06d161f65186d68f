"""Calls that mean different things in PyTorch and in OneFlow, and the switch between the two meanings."""

import copy
import os
import subprocess
import sys

import numpy
import oneflow
import pytest
from oneflow import nn

SWITCH = r'oneflow\.conventions\("oneflow"\)'


def non_leaf():
    return oneflow.ones(2, requires_grad=True) * 3


def backward_of_a_complex_number(get):
    x = oneflow.tensor([1 + 2j, 3 - 1j], requires_grad=True)
    return get((x * (2 + 1j)).sum(), x).tolist()


CALLS = {
    "numpy": (RuntimeError, lambda: oneflow.ones(2, requires_grad=True).numpy().tolist(), [1.0, 1.0]),
    "array": (RuntimeError, lambda: numpy.asarray(oneflow.ones(2, requires_grad=True)).tolist(), [1.0, 1.0]),
    "optimizer": (ValueError, lambda: oneflow.optim.AdamW([]).step(), None),
    "deepcopy": (RuntimeError, lambda: copy.deepcopy(non_leaf()).tolist(), [3.0, 3.0]),
    "complex backward": (
        RuntimeError,
        lambda: backward_of_a_complex_number(lambda y, x: (y.backward(), x.grad)[1]),
        [2 - 1j, 2 - 1j],
    ),
    "complex grad": (
        RuntimeError,
        lambda: backward_of_a_complex_number(lambda y, x: oneflow.autograd.grad(y, x)[0]),
        [2 - 1j, 2 - 1j],
    ),
    "nested deepcopy": (RuntimeError, lambda: copy.deepcopy({"a": [non_leaf()]})["a"][0].is_leaf, True),
}


@pytest.mark.parametrize("name", ["real", "imag"])
def test_parts_of_complex_numbers_are_methods_of_oneflows(name):
    x = oneflow.tensor([1 + 2j, 3 - 4j])
    parts = getattr(x, name).tolist()
    with oneflow.conventions("oneflow"):
        assert getattr(x, name)().tolist() == parts
        assert oneflow.linalg.norm(x).item() == pytest.approx(numpy.linalg.norm(x.numpy()))
        assert oneflow.cdist(x.abs()[None], x.abs()[None] + 1).shape == (1, 1)


@pytest.mark.parametrize("name", CALLS)
def test_the_switch_gives_oneflows_meaning_and_errors_name_it(name):
    kind, call, expected = CALLS[name]
    with pytest.raises(kind, match=SWITCH):
        call()
    with oneflow.conventions("oneflow"):
        assert oneflow.conventions.current() == "oneflow"
        assert call() == expected
        with oneflow.conventions("pytorch"), pytest.raises(kind):
            call()
        assert call() == expected
    with pytest.raises(kind):
        call()
    oneflow.conventions("oneflow")
    try:
        assert call() == expected
    finally:
        oneflow.conventions("pytorch")


def test_arrays_share_memory_and_copies_do_not():
    with oneflow.conventions("oneflow"):
        x = oneflow.ones(2, requires_grad=True)
        x.numpy()[0] = 5
        y = x * 2
        z = copy.deepcopy(y)
        y.detach().zero_()
    assert x.tolist() == [5, 1] and z.tolist() == [10, 2] and z.requires_grad and z.is_leaf


def test_an_optimizer_without_parameters_steps_and_takes_more():
    with oneflow.conventions("oneflow"):
        for kind in (oneflow.optim.SGD, oneflow.optim.Adam, oneflow.optim.RMSprop, oneflow.optim.Adagrad):
            optimizer = kind([], lr=0.1)
            optimizer.zero_grad()
            optimizer.step()
            optimizer.load_state_dict(optimizer.state_dict())
            p = nn.Parameter(oneflow.ones(2))
            optimizer.add_param_group({"params": [p]})
            p.sum().backward()
            optimizer.step()
            assert (p < 1).all()


def test_the_environment_sets_it():
    program = "import oneflow; print(oneflow.conventions.current())"
    for value, said in (("oneflow", "oneflow"), ("pytorch", "pytorch"), ("", "pytorch")):
        env = {**os.environ, "ONEFLOW_CONVENTIONS": value}
        assert subprocess.check_output([sys.executable, "-c", program], env=env, text=True).strip() == said
    env = {**os.environ, "ONEFLOW_CONVENTIONS": "theirs"}
    failed = subprocess.run([sys.executable, "-c", program], env=env, text=True, capture_output=True)
    assert failed.returncode and "ONEFLOW_CONVENTIONS: " in failed.stderr
    with pytest.raises(ValueError, match="'theirs'"):
        oneflow.conventions("theirs")


def test_a_state_of_arrays_is_loaded():
    a, b = nn.BatchNorm1d(3), nn.BatchNorm1d(3)
    a(oneflow.randn(8, 3))
    b.load_state_dict({name: value.numpy() for name, value in a.state_dict().items()})
    assert all((x == y).all() for x, y in zip(a.state_dict().values(), b.state_dict().values(), strict=True))
    with pytest.raises(RuntimeError, match="size mismatch"):
        nn.Linear(2, 2).load_state_dict({"weight": numpy.ones((3, 2), "float32"), "bias": numpy.ones(2, "float32")})
    with pytest.raises(RuntimeError, match="Tensor-like"):
        nn.Linear(2, 2).load_state_dict({"weight": [1.0], "bias": [1.0]})
    p, q = (nn.Parameter(oneflow.ones(2)) for _ in range(2))
    first, second = (oneflow.optim.Adam([x], lr=0.1) for x in (p, q))
    p.sum().backward()
    first.step()
    state = first.state_dict()
    state["state"] = {k: {n: v.numpy() for n, v in s.items()} for k, s in state["state"].items()}
    second.load_state_dict(state)
    assert (second.state[q]["exp_avg"] == first.state[p]["exp_avg"]).all()
