"""What elementwise ops take beside narrow integers: numbers and 0-dim tensors, wrapped as PyTorch wraps them."""

import itertools
import math

import oneflow
import pytest
import torch

OPS = (
    "add sub rsub mul div true_divide floor_divide fmod remainder pow atan2 hypot copysign xlogy maximum minimum fmax "
    "fmin eq ne lt le gt ge where clamp_min clamp_max bitwise_and bitwise_or bitwise_xor bitwise_left_shift gcd lcm "
    "float_power"
).split()
DTYPES = ["uint8", "int8", "int16", "int32"]
VALUES = [-1, 2, 44, 300, -300, 256, 70000, -(2**31) - 5, 2**32 + 44, 1.5]
FORMS = ["number", "int64", "int32", "uint8"]


def call(package, op, dtype, form, value, first):
    x = package.tensor([0, 1, 3, 44, 100, 127]).to(getattr(package, dtype))
    other = value if form == "number" else package.tensor(value).to(getattr(package, form))
    f = getattr(package, op)
    if op == "where":
        return f(x > 2, other, x) if first else f(x > 2, x, other)
    return f(other, x) if first else f(x, other)


def outcome(package, *case):
    """The dtype and the elements, or that it raises."""
    try:
        result = call(package, *case)
    except (RuntimeError, TypeError, NotImplementedError):
        return "raises"
    return str(result.dtype).partition(".")[2], result.tolist()


def in_a_graph(case):
    class Program(oneflow.nn.Graph):
        def build(self):
            return call(oneflow, *case)

    return Program()()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_operands_wrap(op, dtype):
    for form, value, first in itertools.product(FORMS, VALUES, (False, True)):
        case = (op, dtype, form, value, first)
        theirs = outcome(torch, *case)
        ours = outcome(oneflow, *case)
        if theirs == "raises":
            # Where PyTorch has no such overload ours may.
            continue
        assert repr(ours) == repr(theirs) or close(ours, theirs), case


def close(ours, theirs):
    if ours == "raises" or ours[0] != theirs[0] or not ours[0].startswith("float"):
        return False
    return torch.allclose(torch.tensor(ours[1]), torch.tensor(theirs[1]), rtol=1e-6, equal_nan=True)


@pytest.mark.parametrize("op", ["eq", "lt", "remainder", "floor_divide", "maximum", "add"])
def test_a_trace_wraps_them_too(op):
    for dtype, form, value in itertools.product(DTYPES, ["number", "int64"], [-1, 300, 44]):
        case = (op, dtype, form, value, False)
        if outcome(torch, *case) != "raises":
            ours = in_a_graph(case)
            assert (str(ours.dtype).partition(".")[2], ours.tolist()) == outcome(torch, *case), case


@pytest.mark.parametrize("op", ["clamp", "clamp_min", "clamp_max", "pow", "sub", "floor_divide", "remainder", "fmod"])
def test_what_pytorch_refuses(op):
    for dtype, value in itertools.product(DTYPES, [-1, 300, 256, -70000, 2**40, True]):
        case = (op, dtype, "number", value, False)
        assert (outcome(oneflow, *case) == "raises") == (outcome(torch, *case) == "raises"), case


def _small(m, dtype, *shape):
    return (m.arange(math.prod(shape)) * 7 % 11).reshape(shape).to(getattr(m, dtype))


# Functions made of others, of which sums would widen the integers.
COMPOSED = {
    "tensordot": lambda m, t: m.tensordot(_small(m, t, 2, 3, 4), _small(m, t, 4, 3, 5), dims=([1, 2], [1, 0])),
    "tensordot of one": lambda m, t: m.tensordot(_small(m, t, 2, 3, 1), _small(m, t, 4, 3, 5), dims=([1, 2], [1, 0])),
    "tensordot by one": lambda m, t: m.tensordot(_small(m, t, 2, 3, 4), _small(m, t, 1, 1, 5), dims=([1, 2], [1, 0])),
    "bilinear": lambda m, t: m.nn.functional.bilinear(
        _small(m, t, 2, 3), _small(m, t, 2, 4), _small(m, t, 5, 3, 4), _small(m, t, 5)
    ),
    "masked.cumsum": lambda m, t: m.masked.cumsum(_small(m, t, 9) * 9, 0, mask=_small(m, t, 9) > 3),
    "masked.cumprod": lambda m, t: m.masked.cumprod(_small(m, t, 9) + 1, 0, mask=_small(m, t, 9) > 3),
    "masked.sum": lambda m, t: m.masked.sum(_small(m, t, 9) * 9, 0, mask=_small(m, t, 9) > 3),
    "unravel_index": lambda m, t: m.unravel_index(_small(m, t, 9) * 11, (3, 1000)),
    "unravel_index of sizes": lambda m, t: m.unravel_index(_small(m, t, 9) - 1, (1000, 300, 7)),
    "einsum": lambda m, t: m.einsum("ij,jk->ik", _small(m, t, 2, 3) * 9, _small(m, t, 3, 4) * 9),
    "chain_matmul": lambda m, t: m.chain_matmul(_small(m, t, 2, 3), _small(m, t, 3, 4), _small(m, t, 4, 2)),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
@pytest.mark.parametrize("name", COMPOSED)
def test_composed_functions_of_narrow_integers(name, dtype):
    found = []
    for m in (oneflow, torch):
        made = COMPOSED[name](m, dtype)
        made = made if isinstance(made, tuple) else (made,)
        found.append([(str(t.dtype).rpartition(".")[2], t.tolist()) for t in made])
    assert found[0] == found[1]
