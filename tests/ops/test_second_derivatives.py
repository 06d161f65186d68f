"""Second derivatives beside PyTorch: values, and zeros where PyTorch has zeros (None is another answer).

Functions made of straight lines have the second derivative zero, which PyTorch gives as zeros for some and leaves out
for others. A program that asks without ``allow_unused`` sees the difference.
"""

import math

import oneflow
import pytest
import torch

VECTORS = [(3, 4)]
IMAGES = [(2, 3, 5), (1, 2, 4, 5), (1, 2, 3, 4, 3)]


def functional(name, *args, **kwargs):
    return lambda fw, x: getattr(fw.nn.functional, name)(x, *args, **kwargs)


def pad(mode):
    return lambda fw, x: fw.nn.functional.pad(x, (1, 2, 2, 1, 1, 1)[: 2 * (x.dim() - 2)], mode=mode)


def classes(name, reduction):
    def call(fw, x):
        target = fw.tensor([i % x.shape[1] for i in range(x.numel() // x.shape[1])])
        target = target.reshape(x.shape[0], *x.shape[2:])
        return getattr(fw.nn.functional, name)(x, target, reduction=reduction)

    return call


def weights(fw, n):
    return fw.tensor([0.1 + 0.2 * i for i in range(n)], dtype=fw.float64)


CASES = {
    **{f"pad {mode}": (pad(mode), IMAGES) for mode in ("reflect", "replicate", "circular", "constant")},
    **{
        f"{name} {reduction}": (classes(name, reduction), [(3, 4), (2, 3, 5)])
        for name in ("nll_loss", "cross_entropy")
        for reduction in ("mean", "sum", "none")
    },
    **{
        name: (functional(name), VECTORS)
        for name in (
            "relu relu6 hardtanh hardswish leaky_relu elu selu celu gelu silu mish softplus softshrink hardshrink "
            "tanhshrink softsign logsigmoid tanh sigmoid"
        ).split()
    },
    "prelu": (lambda fw, x: fw.nn.functional.prelu(x, weights(fw, x.shape[1])), [(3, 4), (2, 3, 5)]),
    "prelu weight": (lambda fw, w: fw.nn.functional.prelu(weights(fw, 12).reshape(3, 4) - 1, w), [(4,)]),
    **{
        f"{kind}_pool{n}d": (functional(f"{kind}_pool{n}d", 2), [IMAGES[n - 1][:2] + (4,) * n])
        for kind in ("max", "avg", "adaptive_max", "adaptive_avg")
        for n in (1, 2, 3)
    },
    **{
        name: (lambda fw, x, name=name: getattr(fw, name)(x, 0), [(4,), (3, 4), (1, 2), ()])
        for name in ("cumsum", "logcumsumexp", "logsumexp")
    },
    "cumprod": (lambda fw, x: fw.cumprod(x, 0), [(4,), (3, 4)]),
    "logcumsumexp last": (lambda fw, x: fw.logcumsumexp(x, -1), [(2, 9), (3, 1)]),
}


def second(fw, function, sizes, weight):
    """Gradients of a gradient: by the input and by the factor of the result."""
    n = math.prod(sizes)
    data = [math.sin(3.0 * i + 0.7) * 1.9 for i in range(n)]
    x = fw.tensor(data, dtype=fw.float64).reshape(sizes).requires_grad_()
    y = function(fw, x)
    factors = [weight(i) for i in range(y.numel())]
    w = fw.tensor(factors, dtype=fw.float64).reshape(y.shape).requires_grad_()
    (g,) = fw.autograd.grad(y, x, w, create_graph=True)
    v = fw.linspace(-1, 1, n, dtype=fw.float64).reshape(g.shape)
    return g, *fw.autograd.grad(g, (x, w), v, allow_unused=True)


@pytest.mark.parametrize("name", CASES)
def test_beside_pytorch(name):
    function, shapes = CASES[name]
    for sizes in shapes:
        for weight in (lambda i: 0.5 + i / 7, lambda i: (-1.0) ** i * (i + 1) / 3):
            ours = second(oneflow, function, sizes, weight)
            theirs = second(torch, function, sizes, weight)
            for what, a, b in zip(("gradient", "second by input", "second by factor"), ours, theirs, strict=True):
                assert (a is None) == (b is None), f"{name} {sizes}: {what} is {a}, PyTorch's {b}"
                if b is not None:
                    torch.testing.assert_close(torch.from_numpy(a.detach().numpy()), b.detach(), rtol=1e-9, atol=1e-12)


def test_factor_of_zero():
    """Derivatives by factors that are zero themselves."""
    x = oneflow.tensor([0.3, -1.2, 0.8], dtype=oneflow.float64, requires_grad=True)
    w = oneflow.zeros(3, dtype=oneflow.float64, requires_grad=True)
    assert oneflow.autograd.gradgradcheck(lambda v: v.logcumsumexp(0), (x,), (w,))


def test_complex_logcumsumexp():
    x = oneflow.tensor([0.3 + 1j, -1.2 - 0.4j, 0.8 + 0.2j], dtype=oneflow.complex128, requires_grad=True)
    assert oneflow.autograd.gradcheck(lambda v: v.logcumsumexp(0), (x,))


def test_hardsigmoid_has_zeros():
    x = oneflow.tensor([-4.0, 0.5, 4.0], requires_grad=True)
    (g,) = oneflow.autograd.grad(oneflow.nn.functional.hardsigmoid(x).sum(), x, create_graph=True)
    (h,) = oneflow.autograd.grad(g.sum(), x)
    assert h.tolist() == [0.0, 0.0, 0.0]
