"""How many windows pools and convolutions have: beside PyTorch, and for the largest numbers; without elements."""

import itertools

import oneflow
import pytest
import torch

LARGEST = 2**63 - 1


def size(of, module, n, *args):
    """The output's size along the last axis, or None where the call raises."""
    x = module.empty((1, 1, n), device="meta")
    try:
        return of(module, x, *args).shape[-1]
    except RuntimeError:
        return None


def pool(module, x, kernel, stride, padding, dilation, ceil):
    return module.nn.functional.max_pool1d(x, kernel, stride, padding, dilation, ceil_mode=ceil)


def convolution(module, x, kernel, *args):
    return module.nn.functional.conv1d(x, module.empty((1, 1, kernel), device="meta"), None, *args)


def transposed(module, x, kernel, *args):
    return module.nn.functional.conv_transpose1d(x, module.empty((1, 1, kernel), device="meta"), None, *args)


@pytest.mark.parametrize("ceil", [False, True])
def test_pools_have_as_many_windows(ceil):
    for n, kernel, stride, padding, dilation in itertools.product([1, 2, 7, 8], [1, 2, 3], [1, 2, 3], [0, 1], [1, 2]):
        args = (n, kernel, stride, padding, dilation, ceil)
        assert size(pool, oneflow, *args) == size(pool, torch, *args), args


def test_convolutions_have_as_many_windows():
    for n, kernel, stride, padding, dilation in itertools.product([1, 4, 7], [1, 2, 3], [1, 2, 3], [0, 1, 2], [1, 2]):
        args = (n, kernel, stride, padding, dilation)
        assert size(convolution, oneflow, *args) == size(convolution, torch, *args), args


def test_transposed_convolutions_are_as_large():
    for n, kernel, stride, padding, extra, dilation in itertools.product(
        [1, 4], [1, 3], [1, 2], [0, 1], [0, 1], [1, 2]
    ):
        args = (n, kernel, stride, padding, extra, 1, dilation)
        assert size(transposed, oneflow, *args) == size(transposed, torch, *args), args


# Sizes by hand: PyTorch's own computation without elements overflows for some of these.
LARGEST_NUMBERS = [
    (pool, (LARGEST, 1, 0, 1, False), None),
    (pool, (2, LARGEST, 0, 1, True), 1),
    (pool, (2, 1, 0, LARGEST, False), None),
    (convolution, (2, LARGEST, 0, 1), 1),
    (convolution, (2, 1, LARGEST, 1), None),
    (convolution, (2, 1, 0, LARGEST), None),
    (transposed, (2, LARGEST, 0), None),
    (transposed, (2, 1, LARGEST), None),
    (transposed, (2, 1, 0, 0, 1, LARGEST), None),
]


@pytest.mark.parametrize(("of", "args", "expected"), LARGEST_NUMBERS)
def test_the_largest_numbers_are_exact_or_refused(of, args, expected):
    assert size(of, oneflow, 4, *args) == expected
