"""Operations of models, by module and op, compared with PyTorch's counter."""

import oneflow
import pytest
import torch
from oneflow.utils.flop_counter import FlopCounterMode, register_flop_formula
from torch.utils.flop_counter import FlopCounterMode as TorchCounter
from torch.utils.flop_counter import register_flop_formula as register_theirs


def mlp(fw):
    inner = fw.nn.Sequential(fw.nn.ReLU(), fw.nn.Linear(20, 5))
    return fw.nn.Sequential(fw.nn.Linear(10, 20), inner), (4, 10)


def convolutions(fw):
    nn = fw.nn
    body = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2))
    return nn.Sequential(body, nn.Flatten(), nn.Linear(16 * 3 * 3, 10)), (2, 3, 8, 8)


def transposed(fw):
    return fw.nn.Sequential(fw.nn.ConvTranspose2d(4, 6, 3, stride=2), fw.nn.ReLU()), (2, 4, 5, 5)


def grouped(fw):
    return fw.nn.Sequential(fw.nn.Conv2d(8, 8, 3, groups=4, bias=False), fw.nn.Conv2d(8, 4, 1)), (2, 8, 6, 6)


class AttentionMixin:
    def forward(self, x):
        parts = [p.reshape(2, 6, 2, 8).transpose(1, 2) for p in self.qkv(x).chunk(3, -1)]
        y = self.attend(*parts, is_causal=True).transpose(1, 2).reshape(2, 6, 16)
        return self.out(y)


def attention(fw):
    class Attention(AttentionMixin, fw.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = fw.nn.Linear(16, 48), fw.nn.Linear(16, 16)
            self.attend = fw.nn.functional.scaled_dot_product_attention

    return Attention(), (2, 6, 16)


MODELS = [mlp, convolutions, transposed, grouped, attention]


def by_module(counter):
    return {module: sum(ops.values()) for module, ops in counter.get_flop_counts().items() if sum(ops.values())}


@pytest.mark.parametrize("make", MODELS, ids=lambda make: make.__name__)
def test_forward_of_models(make):
    found = []
    for fw, counter in ((torch, TorchCounter(display=False)), (oneflow, FlopCounterMode(display=False))):
        model, sizes = make(fw)
        with counter, fw.no_grad():
            model(fw.ones(*sizes))
        found.append(by_module(counter))
    assert found[0] == found[1]


@pytest.mark.parametrize("make", [mlp, transposed, convolutions], ids=lambda make: make.__name__)
def test_training_step_of_models(make):
    found = []
    for fw, counter in ((torch, TorchCounter(display=False)), (oneflow, FlopCounterMode(display=False))):
        model, sizes = make(fw)
        with counter:
            model(fw.ones(*sizes)).sum().backward()
        found.append(by_module(counter))
    assert found[0] == found[1]


def test_the_table(capsys):
    model, sizes = mlp(oneflow)
    with FlopCounterMode(depth=1) as counter:
        model(oneflow.ones(*sizes))
    text = capsys.readouterr().out
    assert text.splitlines()[0].split() == ["Module", "FLOP", "%", "Total"]
    assert "Sequential" in text and "Sequential.0" not in text and "100.00%" in text
    assert "Sequential.1.1" in counter.get_table(depth=3)
    assert counter.get_total_flops() == 2 * 4 * (10 * 20 + 20 * 5)


def test_products_outside_modules_and_while_counting():
    with FlopCounterMode(display=False) as counter:
        oneflow.ones(2, 3) @ oneflow.ones(3, 4)
        assert counter.get_total_flops() == 48
        oneflow.einsum("ij,jk->ik", oneflow.ones(2, 3), oneflow.ones(3, 4))
    assert counter.get_total_flops() == 96 and list(counter.get_flop_counts()) == ["Global"]
    assert "Global" in counter.get_table()


def test_elementwise_work_counts_as_nothing():
    with FlopCounterMode(display=False) as counter:
        oneflow.nn.functional.gelu(oneflow.ones(100)).sum().exp().softmax(-1)
    assert counter.get_total_flops() == 0 and "0%" in counter.get_table()


def own_formulas(fw):
    """A model of named ops and one of a program, with the shapes that the program's formulas get."""
    seen = []

    def squares(x_shape, *, out_shape, **kwargs):
        seen.append((tuple(x_shape), tuple(out_shape)))
        return 1000

    def products(bias, a, b, *, out_shape=None, **kwargs):
        seen.append((tuple(a), tuple(b), tuple(out_shape)))
        return 7

    def tensors(x, *args, out_val, **kwargs):
        seen.append((x.sum().item(), out_val.sum().item()))
        return 3

    tensors._get_raw = True
    aten = fw.ops.aten
    return {aten.addmm: products, aten.relu: tensors, fw.ops.counted_twice.square: squares}, seen


for package in (torch, oneflow):
    # Annotations are read as they are: each package asks for its own tensors.
    def square(x):
        return x @ x.t() + 0

    square.__annotations__ = {"x": package.Tensor, "return": package.Tensor}
    package.library.custom_op("counted_twice::square", square, mutates_args=())


@pytest.mark.parametrize("backward", [False, True])
def test_own_formulas(backward):
    found = []
    for fw, counter in ((torch, TorchCounter), (oneflow, FlopCounterMode)):
        mapping, seen = own_formulas(fw)
        model, sizes = mlp(fw)
        with fw.no_grad():
            for p in model.parameters():
                p.fill_(0.25)
        with counter(display=False, custom_mapping=mapping) as counting:
            y = model(fw.ones(*sizes))
            with fw.no_grad():
                z = fw.ops.counted_twice.square(fw.nn.functional.linear(y, fw.ones(3, 5)))
            if backward:
                (y.sum() * z.mean()).backward()
        found.append((by_module(counting), seen))
    assert found[0] == found[1]
    assert found[1][0]["Global"] > 1000


def test_registered_formulas():
    for counter, register in ((torch, register_theirs), (oneflow, register_flop_formula)):
        with pytest.raises(ValueError, match="expected each target to be OpOverloadPacket"):
            register(counter.exp)(abs)
    name = oneflow.ops.counted_twice.square

    @register_flop_formula([name], get_raw=True)
    def cost(x, *, out_val):
        return x.numel() * out_val.numel()

    with pytest.raises(RuntimeError, match="duplicate"):
        register_flop_formula(name)(cost)
    with FlopCounterMode(display=False) as counting:
        oneflow.ops.counted_twice.square(oneflow.ones(2, 3))
        oneflow.ones(2, 3) @ oneflow.ones(3, 4)
    assert counting.get_flop_counts()["Global"] == {"counted_twice.square": 24, "matmul": 48}


def test_a_formula_that_raises_leaves_no_mode_behind():
    def fails(*args, **kwargs):
        raise ArithmeticError

    with pytest.raises(ArithmeticError), FlopCounterMode(display=False, custom_mapping={oneflow.ops.aten.exp: fails}):
        oneflow.ones(2).exp()
    assert oneflow.ones(2).exp().shape == (2,)
