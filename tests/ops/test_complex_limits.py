"""Functions of complex numbers have the limits of C99 at the infinities, as Python's ``cmath`` states them."""

import cmath
import itertools
import math

import oneflow
import pytest

INF = math.inf
PARTS = (INF, -INF, 0.0, -0.0, 1.0, -2.5, 0.5)
FUNCTIONS = "acos acosh asin asinh atan atanh cos cosh exp log sin sinh sqrt".split()


def _stated(function, z):
    """What ``cmath`` gives, or None where it refuses or leaves a part open."""
    try:
        value = function(z)
    except (ValueError, OverflowError):
        return None
    return None if math.isnan(value.real) or math.isnan(value.imag) else value


def _near(a, b):
    return a == b or abs(a - b) <= 1e-6 * max(1.0, abs(b))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_limits(name, dtype):
    inputs = [complex(*parts) for parts in itertools.product(PARTS, repeat=2)]
    found = getattr(oneflow, name)(oneflow.tensor(inputs, dtype=getattr(oneflow, dtype))).tolist()
    compared = 0
    for z, value in zip(inputs, found, strict=True):
        stated = _stated(getattr(cmath, name), z)
        if stated is not None:
            assert _near(value.real, stated.real) and _near(value.imag, stated.imag), (name, z, value, stated)
            compared += 1
    assert compared >= 20


def test_power_of_one():
    x = oneflow.tensor([complex(INF, 0), complex(-INF, 1), 2 + 1j])
    assert (x**1).tolist() == x.tolist()
