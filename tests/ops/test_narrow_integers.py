"""What elementwise ops take beside narrow integers: numbers and 0-dim tensors, wrapped as PyTorch wraps them."""

import itertools

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
