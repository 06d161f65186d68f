"""Sobol sequences are PyTorch's, bit by bit."""

from __future__ import annotations

import copy

import numpy as np
import oneflow
import pytest
import torch

Ours = oneflow.quasirandom.SobolEngine
Theirs = torch.quasirandom.SobolEngine


def same(ours: oneflow.Tensor, theirs: torch.Tensor) -> None:
    assert np.array_equal(ours.numpy(), theirs.numpy())


@pytest.fixture
def of_torch():
    """Draws as PyTorch's generator does."""
    oneflow.random.use("mt19937")
    yield
    oneflow.random.use("philox")


def test_the_direction_numbers_of_all_dimensions_are_pytorchs():
    same(Ours(Ours.MAXDIM).sobolstate, Theirs(Theirs.MAXDIM).sobolstate)


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("dimension", [1, 3, 200])
@pytest.mark.parametrize("scramble", [False, True])
def test_draws_are_pytorchs(dimension, scramble, seed, of_torch):
    oneflow.manual_seed(3)
    torch.manual_seed(3)
    ours, theirs = Ours(dimension, scramble, seed), Theirs(dimension, scramble, seed)
    assert repr(ours) == repr(theirs)
    same(ours.shift, theirs.shift)
    for n in (1, 5, 0, 1, 100, 7):
        same(ours.draw(n), theirs.draw(n))
    for n in (0, 1, 12345):
        ours.fast_forward(n), theirs.fast_forward(n)
        same(ours.draw(3, dtype=oneflow.float64), theirs.draw(3, dtype=torch.float64))
    assert ours.num_generated == theirs.num_generated
    ours.reset(), theirs.reset()
    out = oneflow.empty(0)
    assert ours.draw_base2(3, out=out) is out
    same(out, theirs.draw_base2(3))
    same(copy.deepcopy(ours).draw_base2(3), theirs.draw_base2(3))


def test_skipping_from_the_start_is_drawing():
    ahead, drawn = Ours(4).fast_forward(37), Ours(4)
    drawn.draw(37)
    assert ahead.draw(5).equal(drawn.draw(5))
    with oneflow.device("meta"):
        assert Ours(4, scramble=True).draw(2).device.type == "cpu"


@pytest.mark.parametrize("call", [lambda E: E(0), lambda E: E(21202), lambda E: E(2).draw(-1)])
def test_what_is_out_of_range_is_refused(call):
    for engine in (Ours, Theirs):
        with pytest.raises(ValueError):
            call(engine)


def test_errors_of_a_running_sequence():
    for engine in (Ours(2), Theirs(2)):
        engine.draw(3)
        with pytest.raises(ValueError, match=r"power of 2. 3 points have been previously generated"):
            engine.draw_base2(3)
    engine = Ours(2).fast_forward(2**30 - 1)
    engine.draw(1)
    with pytest.raises(ValueError, match="at most 1073741824 points"):
        engine.draw(1)
    with pytest.raises(NotImplementedError, match="float16"):
        Ours(2).draw(2, dtype=oneflow.float16)
