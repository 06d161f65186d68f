"""`set_float32_matmul_precision("medium")`: products of float32 round their operands to bfloat16 where the CPU can.

Each result is compared with the same sum in float64, of rounded operands or of the operands as they are.
"""

import os
import platform

import oneflow
import oneflow.nn.functional as F
import pytest
import torch
from oneflow import nn
from oneflow._base import float32_precision


def rounds():
    """Whether this CPU multiplies bfloat16, and may."""
    if platform.machine() != "x86_64" or os.environ.get("ONEFLOW_CPU_ISA", "amx") not in ("amx", "avx512bf16"):
        return False
    with open("/proc/cpuinfo") as f:
        flags = set(next((line for line in f if line.startswith("flags")), "").split())
    return {"avx512_bf16", "avx512_vnni"} <= flags


@pytest.fixture(autouse=True)
def restored():
    tables = (float32_precision._given, float32_precision._defaults)
    kept = [dict(table) for table in tables]
    yield
    oneflow.set_float32_matmul_precision("highest")
    for table, before in zip(tables, kept, strict=True):
        table.update(before)
    float32_precision._tell_kernels()


def operand(*sizes):
    return oneflow.rand(*sizes, generator=oneflow.Generator().manual_seed(sum(sizes))) * 2 - 1


def exactly(x, rounded=True):
    """The numbers that are multiplied, in float64."""
    return (x.bfloat16() if rounded and rounds() else x).double()


def near(got, want, k):
    assert got.dtype == oneflow.float32
    error = (got.double() - want).abs().max().item()
    assert error <= 1e-6 * k**0.5 * max(1.0, want.abs().max().item()), error


# What is called, the operands' sizes, the number of terms.
PRODUCTS = {
    "mm": (lambda a, b: a @ b, (40, 70), (70, 50), 70),
    "transposed": (lambda a, b: a.t() @ b.t(), (70, 40), (50, 70), 70),
    "gaps": (lambda a, b: a[::2] @ b[:, ::3], (80, 70), (70, 150), 70),
    "batches": (lambda a, b: a @ b, (3, 40, 70), (3, 70, 50), 70),
    "broadcast": (lambda a, b: a @ b, (2, 1, 40, 70), (3, 70, 50), 70),
    "one for all": (lambda a, b: a @ b, (3, 4, 40, 70), (70, 50), 70),
    "bmm": (lambda a, b: a.bmm(b.transpose(1, 2)), (3, 40, 70), (3, 50, 70), 70),
    "einsum": (lambda a, b: oneflow.einsum("bik,bkj->bij", a, b), (3, 40, 70), (3, 70, 50), 70),
    "tensordot": (lambda a, b: oneflow.tensordot(a, b, dims=2), (40, 7, 10), (7, 10, 50), 70),
    "one column more": (lambda a, b: a @ b, (64, 128), (128, 65), 128),
    "large": (lambda a, b: a @ b, (260, 530), (530, 270), 530),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name):
    f, a, b, k = PRODUCTS[name]
    a, b = operand(*a), operand(*b)
    before = f(a, b)
    oneflow.set_float32_matmul_precision("medium")
    near(f(a, b), f(exactly(a), exactly(b)), k)
    assert oneflow.equal(f(a, b), before) is not rounds()
    for word in ("high", "highest"):
        oneflow.set_float32_matmul_precision(word)
        assert oneflow.equal(f(a, b), before)


def test_what_is_added_stays_float32():
    oneflow.set_float32_matmul_precision("medium")
    a, b, c, bias = operand(40, 70), operand(70, 50), operand(40, 50) / 3, operand(50) / 3
    product = exactly(a) @ exactly(b)
    near(oneflow.addmm(c, a, b, beta=0.3, alpha=-1.7), 0.3 * c.double() - 1.7 * product, 70)
    near(oneflow.addmm(bias, a, b), bias.double() + product, 70)
    near(F.linear(a, b.t(), bias), bias.double() + product, 70)
    batch, more = operand(3, 40, 70), operand(3, 40, 50)
    want = 2 * more.double() + 0.5 * (exactly(batch) @ exactly(b))
    near(oneflow.baddbmm(more, batch, b.expand(3, 70, 50), beta=2, alpha=0.5), want, 70)
    out = oneflow.empty(50, 40).t()
    oneflow.mm(a, b, out=out)
    near(out, product, 70)


@pytest.mark.parametrize("name", ["mm", "transposed", "batches", "broadcast", "one for all"])
def test_gradients(name):
    f, a, b, k = PRODUCTS[name]
    a, b = operand(*a).requires_grad_(), operand(*b).requires_grad_()
    x, y = exactly(a.detach()).requires_grad_(), exactly(b.detach()).requires_grad_()
    want = f(x, y)
    weights = operand(*want.shape)
    want.backward(exactly(weights))
    oneflow.set_float32_matmul_precision("medium")
    f(a, b).backward(weights)
    near(a.grad, x.grad, 12 * k)
    near(b.grad, y.grad, 12 * k)


def test_what_is_not_rounded():
    vector, matrix, small = operand(300), operand(300, 200), operand(8, 8)
    image, window = operand(2, 16, 12, 12), operand(24, 16, 3, 3)
    q = operand(2, 4, 64, 32)
    calls = [
        lambda: vector @ matrix,
        lambda: matrix.t() @ vector,
        lambda: small @ small,
        lambda: matrix.double() @ matrix.double().t(),
        lambda: matrix.bfloat16() @ matrix.bfloat16().t(),
        lambda: F.conv2d(image, window),
        lambda: F.conv2d(image, window[:, :, :1, :1]),
        lambda: F.scaled_dot_product_attention(q, q, q),
    ]
    before = [f() for f in calls]
    oneflow.set_float32_matmul_precision("medium")
    oneflow.backends.fp32_precision = "bf16"
    for i, (f, want) in enumerate(zip(calls, before, strict=True)):
        assert oneflow.equal(f(), want), i


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(70, 60), nn.Linear(60, 50)

    def forward(self, x):
        return self.second(F.gelu(self.first(x)))


@pytest.mark.parametrize("compiled", ["compile", "graph"])
def test_compiled_programs_follow_the_present_setting(compiled):
    model = Twice().eval()
    x = operand(40, 70)

    class Program(nn.Graph):
        def __init__(self):
            super().__init__()
            self.model = model

        def build(self, x):
            return self.model(x)

    run = Program() if compiled == "graph" else oneflow.compile(model)
    with oneflow.no_grad():
        exact = run(x)
        near(exact, model(x).double(), 70)
        oneflow.set_float32_matmul_precision("medium")
        rounded = run(x)
        near(rounded, model(x).double(), 70)
        assert oneflow.equal(rounded, exact) is not rounds()
        oneflow.set_float32_matmul_precision("highest")
        assert oneflow.equal(run(x), exact)


def test_training_in_a_graph():
    losses = {}
    for word in ("highest", "medium"):
        oneflow.set_float32_matmul_precision(word)
        oneflow.manual_seed(0)
        model = Twice()
        sgd = oneflow.optim.SGD(model.parameters(), lr=0.1)

        class Step(nn.Graph):
            def __init__(self, model=model, sgd=sgd):
                super().__init__()
                self.model = model
                self.add_optimizer(sgd)

            def build(self, x, y):
                loss = F.mse_loss(self.model(x), y)
                loss.backward()
                return loss

        step, x, y = Step(), operand(64, 70), operand(64, 50)
        losses[word] = [step(x, y).item() for _ in range(5)]
    assert losses["medium"] == pytest.approx(losses["highest"], rel=1e-2)
    assert (losses["medium"] != losses["highest"]) is rounds()


# Assignments, one after the other, and what is read after each.
ASSIGNMENTS = [
    ("fp32_precision", "bf16"),
    ("mkldnn.matmul.fp32_precision", "ieee"),
    ("mkldnn.matmul.fp32_precision", "none"),
    ("fp32_precision", "tf32"),
    ("mkldnn.conv.fp32_precision", "bf16"),
    ("cuda.matmul.fp32_precision", "ieee"),
    ("mkldnn.matmul.fp32_precision", "bf16"),
    ("cuda.matmul.fp32_precision", "none"),
    ("fp32_precision", "none"),
    ("mkldnn.matmul.fp32_precision", "tf32"),
    ("mkldnn.rnn.fp32_precision", "ieee"),
    ("fp32_precision", "ieee"),
    ("cudnn.fp32_precision", "tf32"),
    ("cudnn.conv.fp32_precision", "ieee"),
    ("cudnn.fp32_precision", "none"),
    ("fp32_precision", "none"),
    ("cudnn.allow_tf32", False),
    ("cudnn.conv.fp32_precision", "none"),
    ("cudnn.rnn.fp32_precision", "tf32"),
    ("cudnn.allow_tf32", True),
]
READ = ["fp32_precision", "mkldnn.fp32_precision", "cuda.matmul.fp32_precision"]
READ += [f"mkldnn.{op}.fp32_precision" for op in ("matmul", "conv", "rnn")]
READ += ["cudnn.fp32_precision", "cudnn.conv.fp32_precision", "cudnn.rnn.fp32_precision"]


def reach(package, path):
    *owners, name = path.split(".")
    owner = package.backends
    for o in owners:
        owner = getattr(owner, o)
    return owner, name


def test_switches_read_as_in_pytorch():
    kept = {path: getattr(*reach(torch, path)) for path in ("fp32_precision", "cuda.matmul.fp32_precision")}
    try:
        for path, value in ASSIGNMENTS:
            for package in (oneflow, torch):
                setattr(*reach(package, path), value)
            for other in READ:
                ours, theirs = (getattr(*reach(package, other)) for package in (oneflow, torch))
                assert ours == theirs, (path, value, other)
        for word in ("medium", "high", "highest"):
            for package in (oneflow, torch):
                package.set_float32_matmul_precision(word)
            for other in READ:
                ours, theirs = (getattr(*reach(package, other)) for package in (oneflow, torch))
                assert ours == theirs, (word, other)
        for allowed in (True, False):
            for package in (oneflow, torch):
                package.backends.cuda.matmul.allow_tf32 = allowed
            assert oneflow.get_float32_matmul_precision() == torch.get_float32_matmul_precision()
    finally:
        for path, value in kept.items():
            setattr(*reach(torch, path), value)
        for op in ("matmul", "conv", "rnn"):
            setattr(*reach(torch, f"mkldnn.{op}.fp32_precision"), "none")
        torch.backends.cudnn.fp32_precision, torch.backends.cudnn.allow_tf32 = "none", True


def test_convolutions_of_cudnn_round_where_the_switches_say_so(monkeypatch):
    told = []
    monkeypatch.setattr(float32_precision._oneflow, "_cuda_cudnn_settings", lambda *given: told.append(given))
    cudnn = oneflow.backends.cudnn
    with oneflow.backends.flags(fp32_precision="ieee"):
        assert told[-1] == (True, False)
    assert told[-1] == (True, True) and cudnn.allow_tf32
    with cudnn.flags(enabled=True, allow_tf32=False):
        assert told[-1] == (True, False) and cudnn.rnn.fp32_precision == "none"
    with cudnn.flags(enabled=False, fp32_precision="ieee"):
        assert told[-1] == (False, True) and cudnn.fp32_precision == "ieee"
    assert told[-1] == (True, True) and cudnn.fp32_precision == "none"
    cudnn.conv.fp32_precision = "ieee"
    assert told[-1] == (True, False) and not cudnn.allow_tf32
    assert cudnn.set_flags(_allow_tf32=True)[4:] == (False, "none") and told[-1] == (True, True)


def test_switches_have_the_effect():
    a = operand(64, 64)
    exact = a @ a
    for path in ("fp32_precision", "mkldnn.fp32_precision", "mkldnn.matmul.fp32_precision"):
        setattr(*reach(oneflow, path), "bf16")
        assert oneflow.equal(a @ a, exact) is not rounds(), path
        setattr(*reach(oneflow, path), "none")
        assert oneflow.equal(a @ a, exact), path
    with oneflow.backends.flags(fp32_precision="bf16"):
        assert oneflow.equal(a @ a, exact) is not rounds()
        with oneflow.backends.mkldnn.flags(fp32_precision="ieee"):
            assert oneflow.equal(a @ a, exact)
    assert oneflow.equal(a @ a, exact)
    oneflow.backends.cuda.matmul.allow_tf32 = True
    assert oneflow.backends.cuda.matmul.fp32_precision == "tf32"
    for path, value in (("fp32_precision", "fp8"), ("cuda.matmul.fp32_precision", "bf16")):
        with pytest.raises(RuntimeError, match=r"fp32_precision of \w+ is one of"):
            setattr(*reach(oneflow, path), value)
