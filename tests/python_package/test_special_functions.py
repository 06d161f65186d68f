"""Masked reductions, windows, orthogonal polynomials, Bessel functions and spectrograms compared with PyTorch."""

import math

import numpy as np
import oneflow
import pytest
import torch

X = np.linspace(-12.0, 25.0, 371)
DEGREES = np.arange(371) % 12 - 1.0


def _t(fw, values):
    return fw.tensor(values)


def _close(ours, theirs, tolerance=1e-9):
    if isinstance(theirs, tuple):
        return [_close(a, b, tolerance) for a, b in zip(ours, theirs, strict=True)]
    assert tuple(ours.shape) == tuple(theirs.shape)
    assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
    np.testing.assert_allclose(
        ours.detach().resolve_conj().numpy(), theirs.detach().resolve_conj().numpy(), rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize(
    "name",
    [f"{shift}chebyshev_polynomial_{kind}" for shift in ("", "shifted_") for kind in "tuvw"]
    + ["hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p"],
)
def test_polynomials(name):
    def call(fw):
        return getattr(fw.special, name)(_t(fw, X / 10), _t(fw, DEGREES))

    _close(call(oneflow), call(torch), 1e-8)


@pytest.mark.parametrize(
    "name",
    ["bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "airy_ai", "spherical_bessel_j0"]
    + [f"{scaled}modified_bessel_k{order}" for scaled in ("", "scaled_") for order in "01"],
)
def test_bessel(name):
    def call(fw):
        x = _t(fw, X).requires_grad_()
        y = getattr(fw.special, name)(x)
        if y.requires_grad:
            y.nan_to_num(0.0, 0.0, 0.0).sum().backward()
            return y, x.grad.nan_to_num(0.0, 0.0, 0.0)
        return y, x

    # PyTorch's own tables are good to seven digits in places.
    _close(call(oneflow), call(torch), 5e-6)


@pytest.mark.parametrize("upper", [False, True])
def test_incomplete_gamma(upper):
    a, x = np.meshgrid([0.0, 0.3, 1.0, 7.5, 60.0, 900.0, np.inf], [0.0, 0.1, 1.0, 6.0, 70.0, 890.0, np.inf])

    def call(fw):
        return (fw.igammac if upper else fw.igamma)(_t(fw, a), _t(fw, x))

    _close(call(oneflow), call(torch), 1e-7)


@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("n", [0, 1, 2, 7])
def test_windows(n, sym):
    for name, options in {
        "bartlett": {},
        "blackman": {},
        "cosine": {},
        "exponential": {"tau": 2.0},
        "gaussian": {"std": 1.5},
        "general_cosine": {"a": [0.5, 0.3, 0.2]},
        "general_hamming": {"alpha": 0.6},
        "hamming": {},
        "hann": {},
        "kaiser": {"beta": 8.0},
        "nuttall": {},
    }.items():

        def call(fw, name=name, options=options):
            return getattr(fw.signal.windows, name)(n, sym=sym, dtype=fw.float64, **options)

        _close(call(oneflow), call(torch))


MASKED = {
    **{name: {} for name in ("sum", "prod", "amax", "amin", "mean", "logsumexp", "norm", "var", "std")},
    **{name: {} for name in ("argmax", "argmin", "median", "cumsum", "cumprod", "softmax", "log_softmax", "softmin")},
}


@pytest.mark.parametrize("name", MASKED)
@pytest.mark.parametrize("dim", [0, 1])
def test_masked(name, dim):
    values = np.random.default_rng(0).standard_normal((5, 6))
    keep = np.random.default_rng(1).random((5, 6)) > 0.4
    keep[2] = False

    def call(fw):
        return getattr(fw.masked, name)(_t(fw, values), dim=dim, mask=_t(fw, keep))

    _close(call(oneflow), call(torch))


@pytest.mark.parametrize("options", [{}, {"normalized": True}, {"center": False}, {"onesided": False}])
def test_spectrogram(options):
    signal = np.random.default_rng(0).standard_normal((2, 64))

    def call(fw):
        window = fw.signal.windows.hann(16, sym=False, dtype=fw.float64) + 0.1
        spectrum = fw.stft(_t(fw, signal), 16, 4, window=window, return_complex=True, **options)
        return spectrum, fw.istft(spectrum, 16, 4, window=window, **options)

    ours, theirs = call(oneflow), call(torch)
    _close(ours, theirs)
    np.testing.assert_allclose(ours[1].numpy(), signal, atol=1e-9)


# A number in a tensor's place: taken where PyTorch takes it.
@pytest.mark.parametrize("name", ["add", "mul", "sub", "div", "floor_divide", "eq", "lt", "fmod", "remainder", "pow"])
@pytest.mark.parametrize("args", ["number, tensor", "tensor, number", "number, number"])
def test_numbers_for_tensors(name, args):
    def call(fw):
        one, other = (fw.tensor([3, 5]) if kind == "tensor" else 2 for kind in args.split(", "))
        return getattr(fw, name)(one, other)

    try:
        theirs = call(torch)
    except TypeError:
        with pytest.raises(TypeError):
            call(oneflow)
        return
    _close(call(oneflow), theirs)


@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "gather", "index_select", "matmul", "all", "abs", "add"])
def test_dtype_of_out(name):
    def call(fw):
        x, i = fw.ones(3, 3), fw.zeros(3, 3, dtype=fw.int64)
        args = {
            "gather": (0, i),
            "index_select": (0, i[0]),
            "matmul": (x,),
            "add": (x,),
            "amax": (0,),
            "amin": (0,),
            "argmax": (0,),
            "all": (0,),
        }.get(name, ())
        out = fw.empty((3,) if len(args) == 1 and args[0] == 0 else (3, 3), dtype=fw.float64)
        return getattr(fw, name)(x, *args, out=out)

    def raised(fw):
        try:
            return call(fw) is None
        except RuntimeError:
            return True

    assert raised(oneflow) == raised(torch)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_digamma_near_its_poles(dtype):
    poles = -np.arange(0.0, 300.0, 7.0)[:, None]
    away = 10.0 ** np.linspace(-6.0, -0.4, 30) * np.array([[1.0], [-1.0]])
    x = (poles[..., None] + away).astype(dtype).reshape(-1)
    x = x[x != np.round(x)]
    # With the reflection formula in double precision.
    wide = x.astype(np.float64)
    nearest = wide - np.round(wide)
    wanted = torch.digamma(torch.tensor(1.0 - wide)).numpy() - np.pi / np.tan(np.pi * nearest)
    found = oneflow.digamma(oneflow.tensor(x)).numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5 if dtype == np.float32 else 1e-11, atol=1e-5)


@pytest.mark.parametrize("dtype,tolerance", [("float64", 1e-9), ("float32", 1e-3)])
@pytest.mark.parametrize("n", [2, 3, 4, 7])
def test_polygamma_far_below_zero(n, dtype, tolerance):
    x = np.concatenate([np.arange(-400, 8) + fraction for fraction in (0.2, 0.5, 0.7)])

    def call(fw):
        return fw.special.polygamma(n, _t(fw, x).to(getattr(fw, dtype))).double().numpy()

    # Between the poles of even derivatives are zeros, near which only the absolute error is small.
    np.testing.assert_allclose(call(oneflow), call(torch), rtol=tolerance, atol=tolerance * math.factorial(n))


def test_zeta_far_below_zero():
    x, q = np.meshgrid([2.0, 3.0, 5.0, 2.5], np.concatenate([np.arange(-60.3, 20.0, 1.7), [-3.0, 0.0]]))

    def call(fw):
        return fw.special.zeta(_t(fw, x), _t(fw, q)).numpy()

    np.testing.assert_allclose(call(oneflow), call(torch), rtol=1e-9, atol=1e-9)
