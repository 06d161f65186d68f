"""``pad`` and ``roll`` in every mode, dtype and layout beside PyTorch: values, strides, gradients, traces."""

import functools
import random

import numpy as np
import oneflow
import pytest
import torch
from ops.op_samples import dtype_name

MODES = ("constant", "reflect", "replicate", "circular")
DTYPES = ("bool", "uint8", "int16", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128")
LAYOUTS = ("rows", "last", "transposed", "part", "expanded")


def made(fw, sizes, dtype, layout):
    """A tensor of distinct numbers in a layout."""
    x = fw.arange(torch.Size(sizes).numel()).reshape(*sizes)
    x = (x % 2 == 0) if dtype == "bool" else (x % 120).to(getattr(fw, dtype))
    if layout == "last" and len(sizes) in (4, 5):
        format = fw.channels_last if len(sizes) == 4 else fw.channels_last_3d
        return x.contiguous(memory_format=format)
    if layout == "transposed" and len(sizes) > 1:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "part":
        return fw.cat([x, x], -1)[..., 1 : sizes[-1] + 1] if sizes[-1] > 1 else x
    if layout == "expanded":
        return x[:1].expand(*sizes)
    return x


def widths(draw, sizes, mode):
    """Widths that the mode takes, some of them negative."""
    n_dims = draw.randint(1, len(sizes)) if mode == "constant" else draw.choice((len(sizes) - 2, len(sizes) - 1))
    found = []
    for n in list(reversed(sizes))[: max(n_dims, 1)]:
        most = {"constant": 3, "reflect": n - 1, "replicate": 3, "circular": n}[mode]
        pair = [draw.randint(-1 if n > 2 else 0, max(most, 0)) for _ in range(2)]
        if mode == "circular" and min(pair) < 0:
            pair = [min(w, n - 1) for w in pair]
        found += pair
    return found


def cases(seed, n):
    draw = random.Random(seed)
    for _ in range(n):
        mode = draw.choice(MODES)
        sizes = [draw.randint(1, 6) for _ in range(draw.randint(3, 5))]
        yield mode, sizes, widths(draw, sizes, mode), draw.choice(DTYPES), draw.choice(LAYOUTS), draw.choice((None, 2))


def padded(fw, mode, sizes, width, dtype, layout, value):
    x = made(fw, sizes, dtype, layout)
    return fw.nn.functional.pad(x, width, mode, value if mode == "constant" else None)


@pytest.mark.parametrize("seed", range(8))
def test_values_and_strides(seed):
    for case in cases(seed, 150):
        try:
            theirs = padded(torch, *case)
        except (RuntimeError, NotImplementedError) as e:
            # PyTorch has no kernels of some dtypes; what is wrong is wrong in both.
            if "not implemented for" not in str(e):
                with pytest.raises((RuntimeError, NotImplementedError)):
                    padded(oneflow, *case)
            continue
        ours = padded(oneflow, *case)
        assert (ours.tolist(), ours.stride()) == (theirs.tolist(), theirs.stride()), case
        assert dtype_name(ours) == dtype_name(theirs)


def derivatives(fw, mode, sizes, width, layout):
    """The gradient of a padded tensor, and the gradient of a number made from it."""
    x = made(fw, sizes, "float64", layout).detach().requires_grad_()
    y = fw.nn.functional.pad(x, width, mode)
    weight = fw.arange(y.numel(), dtype=fw.float64).reshape(y.shape) % 7 + 1
    (g,) = fw.autograd.grad((y * y * weight).sum(), x, create_graph=True)
    (gg,) = fw.autograd.grad((g * g).sum(), x)
    return g.detach(), gg


@pytest.mark.parametrize("seed", range(4))
def test_gradients(seed):
    for mode, sizes, width, _, layout, _ in cases(100 + seed, 80):
        try:
            theirs = derivatives(torch, mode, sizes, width, layout)
        except (RuntimeError, NotImplementedError):
            continue
        ours = derivatives(oneflow, mode, sizes, width, layout)
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, err_msg=f"{mode} {sizes} {width} {layout}")


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "complex64"])
def test_sums_of_the_gradient_in_every_dtype(dtype):
    for mode in MODES[1:]:
        x = oneflow.zeros(2, 3, 4, 5, dtype=getattr(oneflow, dtype)).requires_grad_()
        oneflow.nn.functional.pad(x, (2, 1, 1, 3), mode).sum().real.backward()
        y = torch.zeros(2, 3, 4, 5).requires_grad_()
        torch.nn.functional.pad(y, (2, 1, 1, 3), mode).sum().real.backward()
        assert x.grad.tolist() == y.grad.tolist()


def test_the_composition_agrees():
    """Samples of vmap run what the op is made of, or the kernel on all of them."""
    for mode, sizes, width, _, layout, _ in cases(7, 60):
        x = made(oneflow, sizes, "float64", layout)
        pad = functools.partial(oneflow.nn.functional.pad, pad=width, mode=mode)
        try:
            whole = pad(x)
        except (RuntimeError, NotImplementedError):
            continue
        assert oneflow.vmap(pad, -1)(oneflow.stack([x, 2 * x], -1))[0].tolist() == whole.tolist()
        _, tangent = oneflow.func.jvp(pad, (x,), (2 * x,))
        assert tangent.tolist() == pad(2 * x).tolist()


def test_compiled():
    class Padded(oneflow.nn.Module):
        def forward(self, x):
            for mode in MODES:
                x = oneflow.nn.functional.pad(x, (1, 2, 0, 1), mode)
            return x.roll((1, -2), (2, 3)).roll(5)

    x = oneflow.randn(2, 3, 4, 5)
    model = Padded()
    assert oneflow.compile(model)(x).tolist() == model(x).tolist()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rolls(layout):
    draw = random.Random(5)
    for _ in range(60):
        sizes = [draw.randint(1, 5) for _ in range(draw.randint(1, 5))]
        dims = [draw.randrange(-len(sizes), len(sizes)) for _ in range(draw.randint(0, 3))]
        shifts = [draw.randint(-9, 9) for _ in dims] or [draw.randint(-9, 9)]
        both = []
        for fw in (oneflow, torch):
            x = made(fw, sizes, "float32", layout).detach().requires_grad_()
            y = x.roll(shifts, dims)
            (y * fw.arange(float(y.numel())).reshape(y.shape)).sum().backward()
            both.append((y.tolist(), y.stride(), x.grad.tolist()))
        assert both[0] == both[1], (sizes, shifts, dims)


def test_a_long_row_is_the_same_by_any_number_of_threads():
    x = oneflow.arange(100_003.0)
    threads = oneflow.get_num_threads()
    try:
        for count in (1, 2, 3):
            oneflow.set_num_threads(count)
            y = oneflow.nn.functional.pad(x, (70_001, 11), value=-1.0)
            assert y[:70_001].eq(-1).all() and y[70_001:-11].equal(x) and y[-11:].eq(-1).all()
            z = oneflow.nn.functional.pad(x[None], (99_999, 3), "reflect")[0]
            assert z[:99_999].equal(x[1:100_000].flip(0)) and z[-3:].equal(x[-4:-1].flip(0))
            assert x.roll(40_000).equal(oneflow.cat([x[-40_000:], x[:-40_000]]))
    finally:
        oneflow.set_num_threads(threads)
