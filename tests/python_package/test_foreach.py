"""Functions over lists of tensors, against PyTorch's."""

from __future__ import annotations

import numpy as np
import oneflow
import pytest
import torch
from oneflow._functions.foreach import FUNCTIONS

rng = np.random.default_rng(0)
ARRAYS = [[rng.uniform(0.2, 0.9, shape).astype("f4") for shape in ((2, 3), (4,), ())] for _ in range(3)]
UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal".split()
)
UNARY += "round rsqrt sigmoid sign sin sinh sqrt tan tanh trunc".split()
BINARY = "add clamp_max clamp_min div maximum minimum mul pow sub".split()


def check(name, *arguments, **options):
    """``arguments`` are created for each package: an index selects a list of tensors."""
    results = []
    for package in (oneflow, torch):
        lists = [[package.tensor(a) for a in arrays] for arrays in ARRAYS]
        given = [lists[a.stop] if isinstance(a, slice) else a for a in arguments]
        found = getattr(package, f"_foreach_{name}")(*given, **options)
        results.append([x.numpy() for x in (lists[0] if name.endswith("_") else found)])
    for ours, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=1e-6)


X, Y, Z = slice(0), slice(1), slice(2)


@pytest.mark.parametrize("name", [*UNARY, *(f"{name}_" for name in UNARY), "clone", "zero_", "norm", "max"])
def test_unary(name):
    check(name, X)


@pytest.mark.parametrize("name", [f"{name}{end}" for name in BINARY for end in ("", "_")])
def test_binary(name):
    for other in (Y, 0.5, [0.3, 0.6, 0.9]):
        check(name, X, other)


def test_with_weights():
    check("add", X, Y, alpha=3)
    check("sub_", X, Y, alpha=2)
    check("copy_", X, Y)
    check("pow", 2.0, Y)
    check("norm", X, 1)
    for end in ("", "_"):
        check(f"lerp{end}", X, Y, 0.3)
        check(f"lerp{end}", X, Y, Z)
        for name in ("addcmul", "addcdiv"):
            for value in (0.5, [0.1, 0.2, 0.3]):
                check(f"{name}{end}", X, Y, Z, value)


@pytest.mark.parametrize("name", [*(f"{name}_" for name in UNARY), *(f"{name}_" for name in BINARY)])
def test_in_place_functions_return_their_list(name):
    for package in (oneflow, torch):
        lists = [[package.tensor(a) for a in arrays] for arrays in ARRAYS]
        found = getattr(package, f"_foreach_{name}")(*(lists[:2] if name[:-1] in BINARY else lists[:1]))
        assert found is lists[0]


def test_empty_lists_are_refused():
    for name in [*UNARY, "norm", "add", "addcmul", "lerp", "pow_"]:
        for package in (oneflow, torch):
            lists = {"add": 2, "pow_": 2, "addcmul": 3, "lerp": 3}.get(name, 1)
            with pytest.raises(RuntimeError, match="must have at least one tensor"):
                getattr(package, f"_foreach_{name}")(*[[] for _ in range(lists)])
    for package in (oneflow, torch):
        with pytest.raises(RuntimeError, match="same number of elements as scalar list"):
            package._foreach_add([package.ones(1)], [1.0, 2.0])
        with pytest.raises(RuntimeError, match="packed scalar Tensor to be of dimension 1"):
            ones = [package.ones(1)]
            package._foreach_addcdiv(ones, ones, ones, package.tensor(2.0))


def test_lists_must_be_as_long():
    with pytest.raises(RuntimeError, match="same number of tensors, got 2 and 1"):
        oneflow._foreach_add([oneflow.ones(1)] * 2, [oneflow.ones(1)])
    assert len(FUNCTIONS) > 70
