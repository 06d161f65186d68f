"""Ranges of draws that a dtype does not hold are refused, where PyTorch refuses them."""

import itertools
import warnings

import oneflow
import pytest
import torch
from torch_oracle import dtype_name

DTYPES = [
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint16",
    "uint32",
    "uint64",
    "bool",
    "float16",
    "bfloat16",
    "float32",
    "float64",
]
ENDS = [-(2**63), -(2**31) - 1, -70000, -129, -128, -1, 0, 1, 2, 127, 128, 129, 255, 256, 257, 65504, 65536, 65537]
ENDS += [2**31, 2**32, 2**32 + 1, 2**63 - 1]


def outcome(call, *args):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            call(*args)
    except RuntimeError:
        return "refused"
    return "drawn"


@pytest.mark.parametrize("dtype", DTYPES)
def test_random(dtype):
    # PyTorch draws between ends that a 16-bit float does not hold by rounding them, which may leave nothing between.
    ends = [n for n in ENDS if not 256 < abs(n) < 2**17] if dtype == "bfloat16" else ENDS
    for low, high in itertools.product(ends, repeat=2):
        found = [
            outcome(lambda fw, *ends: fw.empty(3, dtype=getattr(fw, dtype)).random_(*ends), fw, low, high)
            for fw in (oneflow, torch)
        ]
        assert found[0] == found[1], (low, high)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "uint64"])
def test_without_an_end_all_that_a_dtype_holds_is_drawn(dtype):
    for low in (0, 1):
        found = [fw.zeros(4000, dtype=getattr(fw, dtype)).random_(low, None).double() for fw in (oneflow, torch)]
        least, most = ([getattr(x, end)().item() for x in found] for end in ("min", "max"))
        width = most[1] - low
        assert all(low <= n <= low + width / 100 for n in least)
        assert abs(most[0] - most[1]) <= width / 100


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform(dtype):
    ends = [-1e308, -3.4028e38, -3.38e38, -65504, -1, 0, 1, 60000, 65504, 65505, 3.38e38, 3.4028e38, 1e308]
    for low, high in itertools.product(ends, repeat=2):
        found = [
            outcome(lambda fw, *ends: fw.empty(3, dtype=getattr(fw, dtype)).uniform_(*ends), fw, low, high)
            for fw in (oneflow, torch)
        ]
        assert found[0] == found[1], (low, high)


@pytest.mark.parametrize("dtype, most", [("float16", 2049), ("uint8", 256), ("int8", 128)])
def test_permutations(dtype, most):
    of = getattr(oneflow, dtype)
    assert sorted(oneflow.randperm(most, dtype=of).tolist()) == list(range(most))
    for call in (
        lambda: oneflow.randperm(most + 1, dtype=of),
        lambda: oneflow.randperm(most + 1, out=oneflow.empty(0, dtype=of)),
    ):
        with pytest.raises(RuntimeError, match=f"n cannot be greater than {most}"):
            call()
    assert dtype_name(oneflow.randperm(3, dtype=of)) == dtype
