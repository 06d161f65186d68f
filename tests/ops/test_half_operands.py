"""What elementwise ops take beside half floats: numbers, 0-dim tensors and integers, bit for bit as PyTorch's CPU."""

import itertools

import oneflow
import pytest
import torch

OPS = (
    "add sub rsub mul div true_divide floor_divide fmod remainder pow atan2 hypot copysign xlogy maximum minimum fmax "
    "fmin eq ne lt le gt ge logaddexp where clamp_min clamp_max lerp special.xlog1py"
).split()
# Rounded to the half type from a function in float32 that differs in its last bit at most.
NEAR = {"pow", "atan2", "hypot", "logaddexp"}
NUMBERS = [0.1, -0.3, 1.7, 3.14159, 1e-3, 100.003, 257]
HALVES = ["float16", "bfloat16"]


def half(name, of=torch):
    """The same 2,048 numbers in either package. They fill vectors: of a rest PyTorch rounds each step."""
    values = torch.randn(2048, generator=torch.Generator().manual_seed(3)).mul(3).to(getattr(torch, name))
    return values if of is torch else oneflow.tensor(values.float().numpy()).to(getattr(oneflow, name))


def operand(package, form, value):
    if form == "number":
        return value
    if form == "integers":
        return (package.arange(2048) * 3 - 2500).to(package.int64)
    return package.tensor(value).to(getattr(package, form))


def call(package, op, x, other, first):
    f = package
    for part in op.split("."):
        f = getattr(f, part)
    if op == "where":
        return f(x > 0, other, x) if first else f(x > 0, x, other)
    if op == "lerp":
        return f(x, x.flip(0), other)
    return f(other, x) if first else f(x, other)


def same(op, name, ours, theirs):
    ours, theirs = torch.tensor(ours.double().numpy()), theirs.double()
    differ = (ours != theirs) & ~(ours.isnan() & theirs.isnan())
    if op in NEAR:
        ulp = theirs.abs() * torch.finfo(getattr(torch, name)).eps * 1.01
        assert differ.sum() <= 2 and (not differ.any() or ((ours - theirs).abs() <= ulp)[differ].all())
    else:
        at = differ.nonzero().flatten()[:5].tolist()
        assert not at, [(i, ours[i].item(), theirs[i].item()) for i in at]


FORMS = ["number", "float32", "float64", "int64", "integers"]


def accepts(op, form, first):
    """Whether PyTorch takes the operand. Its floor division of two tensors rounds each step to the half type."""
    if op == "floor_divide" and (first or form == "integers"):
        return False
    try:
        call(torch, op, half("bfloat16"), operand(torch, form, 0.1), first)
    except (RuntimeError, TypeError, NotImplementedError):
        return False
    return True


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("op, form, first", [c for c in itertools.product(OPS, FORMS, (False, True)) if accepts(*c)])
def test_an_operand_of_another_dtype_is_rounded_first(op, form, first, name):
    for value in NUMBERS:
        theirs = call(torch, op, half(name), operand(torch, form, value), first)
        same(op, name, call(oneflow, op, half(name, oneflow), operand(oneflow, form, value), first), theirs)


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("op", ["add", "sub", "rsub"])
def test_alpha_is_rounded_too(op, name):
    for alpha in (0.3, 1e-3, -2):
        for other in (0.7, "tensor"):
            theirs = getattr(torch, op)(half(name), half(name).flip(0) if other == "tensor" else other, alpha=alpha)
            mine = half(name, oneflow)
            same(
                op, name, getattr(oneflow, op)(mine, mine.flip(0) if other == "tensor" else other, alpha=alpha), theirs
            )


@pytest.mark.parametrize("name", [*HALVES, "float32", "float64"])
def test_a_product_is_added_without_rounding_it(name):
    """`addcmul`, `lerp` and `add` with `alpha` round once, as PyTorch does."""
    x = torch.randn(3, 2048, generator=torch.Generator().manual_seed(4)).mul(3).to(getattr(torch, name))
    y = oneflow.tensor(x.double().numpy()).to(getattr(oneflow, name))
    for value in (1, 0.1, 0.3, 0.7, -1.7):
        for f in (
            lambda p, t, v=value: p.addcmul(t[0], t[1], t[2], value=v),
            lambda p, t, v=value: p.lerp(t[0], t[1], v),
            lambda p, t, v=value: p.lerp(t[0], t[1], p.full_like(t[2], v)),
            lambda p, t, v=value: p.add(t[0], t[1], alpha=v),
            lambda p, t, v=value: p.sub(t[0], 0.3, alpha=v),
        ):
            same("", name, f(oneflow, y), f(torch, x))


@pytest.mark.parametrize("name", HALVES)
def test_graphs_round_as_eager_does(name):
    def program(p, x, n, s):
        return [x + 0.1, (x % 0.3), x.fmod(n), x * 0.1 + n, s - x, x.pow(0.7), x < 0.1, n * x]

    class Graph(oneflow.nn.Graph):
        def build(self, x, n, s):
            return program(oneflow, x, n, s)

    operands = [(half(name, p), p.arange(2048) * 3 - 2500, p.tensor(0.1)) for p in (oneflow, torch)]
    for ours, eager, theirs in zip(
        Graph()(*operands[0]), program(oneflow, *operands[0]), program(torch, *operands[1]), strict=True
    ):
        same("pow", name, eager, theirs)
        same("", name, ours, torch.tensor(eager.double().numpy()))


def test_gradients_keep_the_dtype_of_each_operand():
    for p in (torch, oneflow):
        x, s = p.ones(3, dtype=p.bfloat16, requires_grad=True), p.tensor(0.3, requires_grad=True)
        (x * s + s).sum().backward()
        assert x.grad.dtype == p.bfloat16 and s.grad.dtype == p.float32
        assert x.grad.float().tolist() == pytest.approx([0.30078125] * 3) and s.grad.item() == 6.0
