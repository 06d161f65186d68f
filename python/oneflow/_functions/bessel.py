"""Bessel and Airy functions of real arguments, by Chebyshev series.

Near zero a series in the square of the argument (beside the logarithm where there is one), further on the amplitude and
phase of the asymptotic form as series in its reciprocal. (Clenshaw, "Chebyshev series for mathematical functions",
1962.) Computed in double precision. Where PyTorch has a gradient, there is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._base.destinations import cast_into

__all__ = [
    "airy_ai",
    "bessel_j0",
    "bessel_j1",
    "bessel_y0",
    "bessel_y1",
    "modified_bessel_k0",
    "modified_bessel_k1",
    "scaled_modified_bessel_k0",
    "scaled_modified_bessel_k1",
    "spherical_bessel_j0",
]

# Coefficients of Chebyshev polynomials, computed with forty digits.
_J0 = (
    0.15772797147489012,
    -0.0087234423528522213,
    0.26517861320333681,
    -0.37009499387264978,
    0.15806710233209726,
    -0.034893769411408885,
    0.0048191800694676045,
    -0.00046062616620627505,
    3.2460328821005081e-5,
    -1.7619469077621507e-6,
    7.6081635924187819e-8,
    -2.6792535305576729e-9,
    7.8486963144794644e-11,
    -1.9438346867370166e-12,
    4.1253205956343739e-14,
    -7.5885081254475463e-16,
    1.2218515873961411e-17,
)
_J1 = (
    0.081044846325658115,
    -0.14897514506765211,
    0.1609992623572097,
    -0.082680491766817907,
    0.022213639654966035,
    -0.003646940600769276,
    0.00040503377283548218,
    -3.2555548668572585e-5,
    1.9858774049915167e-6,
    -9.5219847567504362e-8,
    3.6871337590971482e-9,
    -1.1780266226958848e-10,
    3.1601545803480033e-12,
    -7.2217552396517734e-14,
    1.4232144003513942e-15,
    -2.4441972916190464e-17,
    3.6912682997929333e-19,
)
_Y0 = (
    -0.033146113203284942,
    -0.27447430552974527,
    0.17903431407718266,
    0.26156734625504664,
    -0.17730201278114358,
    0.047196689595763387,
    -0.0072879624795520792,
    0.00075311359325777423,
    -5.632079141056987e-5,
    3.206532537654801e-6,
    -1.4407233274018699e-7,
    5.2487947873305161e-9,
    -1.5837552541812015e-10,
    4.0263308183061208e-12,
    -8.7473412033107696e-14,
    1.6434898714919469e-15,
    -2.6977881152566836e-17,
    3.9032584173475983e-19,
)
_Y1 = (
    0.0025380132357417817,
    -0.01608717304766875,
    -0.095912045360830742,
    0.084451972596523458,
    -0.028328123944594366,
    0.005289897544167113,
    -0.0006414551451326356,
    5.5059828733387438e-5,
    -3.5380800186893499e-6,
    1.7707804556154403e-7,
    -7.1105500498992798e-9,
    2.3443379059115164e-10,
    -6.4651518414115942e-12,
    1.51429151205002e-13,
    -3.0511859694473253e-15,
    5.3466803857286701e-17,
    -8.2249113720215846e-19,
)
_P0 = (
    0.99946034934751867,
    -0.00053652204681321174,
    3.0751847875194746e-6,
    -5.1705945376060977e-8,
    1.6306464635151383e-9,
    -7.86409137723707e-11,
    5.1682623873491925e-12,
    -4.3045788699253912e-13,
    4.3265957431549406e-14,
    -5.0690340959352361e-15,
    6.7480722157338737e-16,
    -1.0011513723467786e-16,
    1.6305919233744185e-17,
    -2.8808661694828712e-18,
)
_Q0 = (
    -0.12444683684269607,
    0.00054708159540893197,
    -5.9315987288485178e-6,
    1.4377965798375193e-7,
    -5.817532749493056e-9,
    3.3760975237349908e-10,
    -2.5653979367973078e-11,
    2.404916100281365e-12,
    -2.6690625482579416e-13,
    3.4041800321963689e-14,
    -4.87994410531204e-15,
    7.7297031762426054e-16,
    -1.3348852171502517e-16,
    2.4865952389390515e-17,
    -4.9528926298865159e-18,
    1.0473158973776097e-18,
    -2.3369301722114219e-19,
)
_P1 = (
    1.0009030408600137,
    0.00089898983308594086,
    -3.9872843004889085e-6,
    6.1776339606442985e-8,
    -1.8718907491063066e-9,
    8.8168986595823389e-11,
    -5.7048636403956447e-12,
    4.6991955152305424e-13,
    -4.6842237839904892e-14,
    5.4526748960447172e-15,
    -7.2211808422740179e-16,
    1.0667689114335412e-16,
    -1.7312313216116335e-17,
    3.0492991197665872e-18,
)
_Q1 = (
    0.3742222965562826,
    -0.00077021788393256635,
    7.3108922063643633e-6,
    -1.6767825107266738e-7,
    6.5833546621204433e-9,
    -3.7490909505415562e-10,
    2.8121750359748865e-11,
    -2.6114525394623199e-12,
    2.8774212663332234e-13,
    -3.6490019160618378e-14,
    5.2066263662267072e-15,
    -8.2153180254585943e-16,
    1.4141084390211833e-16,
    -2.6267615898385292e-17,
    5.2192649196714082e-18,
    -1.101261718787959e-18,
)
_K0_SMALL = (
    -0.26766369661695138,
    0.34428989992462849,
    0.035979936515361502,
    0.0012646154114469259,
    2.2862121031194518e-5,
    2.5347910790261495e-7,
    1.9045163772202089e-9,
    1.0349695257633625e-11,
    4.2598161427910826e-14,
    1.3744654358807509e-16,
    3.5708965285083736e-19,
)
_K1_SMALL = (
    -0.064090345168662534,
    -0.10916919599320105,
    -0.0066368784528177139,
    -0.00016822792382067344,
    -2.3895591808036077e-6,
    -2.1853569024549694e-8,
    -1.3982271326113327e-10,
    -6.6185627529760409e-13,
    -2.4134516242987824e-15,
    -6.9908737312425667e-18,
)
_K0_LARGE = (
    1.2201515410329777,
    -0.031448101311964501,
    0.0015698838857300534,
    -0.00012849549581627803,
    1.3949813718876499e-5,
    -1.8317555227191195e-6,
    2.7668136394450151e-7,
    -4.6604898976879477e-8,
    8.5740340174142261e-9,
    -1.6975345093890615e-9,
    3.5773972814003284e-10,
    -7.957489244477397e-11,
    1.8559491149549266e-11,
    -4.5145978833745192e-12,
    1.1403405882073442e-12,
    -2.9800969231481784e-13,
    8.0328907750683744e-14,
    -2.2275133267462964e-14,
    6.340076476276646e-15,
    -1.8485933779209072e-15,
    5.5120559994043334e-16,
    -1.6782311257549006e-16,
    5.2103917776435541e-17,
    -1.6475805939842633e-17,
    5.3004337711773358e-18,
    -1.7331712005821e-18,
)
_K1_LARGE = (
    1.3603130952422213,
    0.10392373657681724,
    -0.0028578168596227794,
    0.00019521551847135163,
    -1.936197974166083e-5,
    2.4064849478372171e-6,
    -3.5019606030878125e-7,
    5.7410841254500493e-8,
    -1.0345762465678097e-8,
    2.0150497551970346e-9,
    -4.1903547593419256e-10,
    9.2183151876053141e-11,
    -2.129967838427791e-11,
    5.1396396734823435e-12,
    -1.2891739609498229e-12,
    3.3484196660522431e-13,
    -8.9767051820101461e-14,
    2.4771544242195987e-14,
    -7.0198370892147689e-15,
    2.0387031662398609e-15,
    -6.0570472706430178e-16,
    1.8380935752430454e-16,
    -5.6894628491936484e-17,
    1.7940510478863573e-17,
    -5.7567444820733025e-18,
    1.8778651901623267e-18,
)
_AI_LEFT = (
    0.19060936088817139,
    0.40073482994926167,
    -0.23662739948309151,
    -0.029736586751098981,
    0.035587911898388251,
    -0.0045395291473342858,
    -0.0014499270390662457,
    0.00047673708721294227,
    -1.5481365989362335e-5,
    -1.4327291933032851e-5,
    2.4773199081229079e-6,
    4.3413474937407121e-8,
    -6.2504304198113647e-8,
    6.6763311060310785e-9,
    3.8059949954125592e-10,
    -1.5424794178960671e-10,
    1.0706698491072081e-11,
    1.0605998654356479e-12,
    -2.4478695478513756e-13,
    1.0912066284825383e-14,
    1.7175902022008549e-15,
    -2.7041759334338869e-16,
    7.0763439420524153e-18,
    1.8837436309634603e-18,
)
_AI_RIGHT = (
    0.12807280947504754,
    -0.16890007620949722,
    0.054669293318437022,
    -0.0061781201789006866,
    -0.0017975339724170576,
    0.00086033098071206541,
    -0.00013928692326839065,
    2.1471127296813671e-7,
    4.2736444881479824e-6,
    -8.1659855029709532e-7,
    4.3400499999074918e-8,
    9.8594536310669961e-9,
    -2.3320974312633596e-9,
    1.743015093675592e-10,
    1.1602651041905867e-11,
    -3.9758368977605883e-12,
    3.510013867299995e-13,
    5.1567785706537568e-15,
    -4.4970589960233423e-15,
    4.4858909955601875e-16,
    -4.6861829450460032e-18,
    -3.5982972174213222e-18,
    4.0266967818377997e-19,
)
_AI_FAR = (
    0.27953487402695012,
    -0.00247904316223147,
    7.6409325416890543e-5,
    -4.1275333425083547e-6,
    3.0613660837530864e-7,
    -2.8132049957797155e-8,
    3.0294414664057013e-9,
    -3.6933532922640832e-10,
    4.9806871842306772e-11,
    -7.3074825587986539e-12,
    1.1521041681173858e-12,
    -1.933435461812344e-13,
    3.4277971798053342e-14,
    -6.3813060989837838e-15,
    1.2412050701135743e-15,
    -2.511921449921852e-16,
    5.270670484503003e-17,
    -1.1431775572136515e-17,
    2.556342558025029e-18,
    -5.880271944992753e-19,
)
_AI_P = (
    0.99856996263109124,
    -0.0013951995769053717,
    3.2678415064002465e-5,
    -1.9404091544431854e-6,
    1.8869330795558387e-7,
    -2.5081398395940354e-8,
    4.1476652353303162e-9,
    -8.0708394653594458e-10,
    1.7827924805699563e-10,
    -4.3617052732019037e-11,
    1.1611854273657649e-11,
    -3.3197780872798538e-12,
    1.0089771012367245e-12,
    -3.2341424638014314e-13,
    1.0863397834635641e-13,
    -3.8039355986385352e-14,
    1.382553936868321e-14,
    -5.1967854399516065e-15,
    2.0139656226370208e-15,
    -8.0257541099841254e-16,
    3.2812807447958266e-16,
    -1.3735972268163479e-16,
    5.8772538763500812e-17,
    -2.5663608322486589e-17,
    1.1420714221076035e-17,
    -5.1733143112217866e-18,
    2.3826865357729658e-18,
    -1.1146971703068371e-18,
)
_AI_Q = (
    0.068075344742563724,
    -0.0013083854582772593,
    5.5517630355720221e-5,
    -4.5447658659465459e-6,
    5.4654287128001894e-7,
    -8.490632985289182e-8,
    1.5863608897257044e-8,
    -3.4107384772845924e-9,
    8.195292084272133e-10,
    -2.1559704007789516e-10,
    6.1175331233578956e-11,
    -1.8511854871432321e-11,
    5.9217341981690824e-12,
    -1.9885901380079362e-12,
    6.9709137014050518e-13,
    -2.5390352457349191e-13,
    9.5720308933840943e-14,
    -3.7228877150175072e-14,
    1.4896665595239418e-14,
    -6.1177609304627625e-15,
    2.5732888544750706e-15,
    -1.1065951356139897e-15,
    4.8573468580611507e-16,
    -2.1732261971215763e-16,
    9.89825782207556e-17,
    -4.5842741891158543e-17,
    2.156749625961262e-17,
    -1.0297889174525883e-17,
    4.9860332904655252e-18,
    -2.4462014586417725e-18,
    1.2152328299486852e-18,
    -6.1091714980239783e-19,
    3.1060492851444759e-19,
    -1.5962653813550069e-19,
    8.2881547643537099e-20,
)


def _series(coefficients: tuple[float, ...], u: Tensor) -> Tensor:
    """``sum(c[k] T_k(u))``, by Clenshaw's recurrence."""
    later, last = oneflow.zeros_like(u), oneflow.zeros_like(u)
    for c in reversed(coefficients[1:]):
        later, last = 2 * u * later - last + c, later
    return u * later - last + coefficients[0]


def _function(
    name: str, what: str, value: Callable[[Tensor], Tensor], slope: Callable[[Tensor], Tensor] | None = None
) -> Callable[..., Tensor]:
    """``slope`` is the derivative, computed with these functions."""

    class Function(oneflow.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return value(x.double()).to(x.dtype)

        @staticmethod
        def backward(ctx: Any, grad: Tensor) -> Tensor:
            assert slope is not None
            return grad * slope(ctx.saved_tensors[0])

    def function(input: Tensor, *, out: Tensor | None = None) -> Tensor:
        if not isinstance(input, Tensor):
            raise TypeError(f"special_{name}(): argument 'input' must be Tensor, not {type(input).__name__}")
        dtype = input.dtype if input.is_floating_point() else oneflow.get_default_dtype()
        if dtype not in (oneflow.float32, oneflow.float64) or input.is_complex():
            raise NotImplementedError(f"special_{name}() is not implemented for {input.dtype}")
        y = Function.apply(input.to(dtype) if slope is not None else input.detach().to(dtype))
        return cast_into(y, out)

    function.__name__ = function.__qualname__ = f"special_{name}"
    example = f">>> oneflow.special.{name}(oneflow.ones(2)).shape\n    oneflow.Size([2])"
    function.__doc__ = f"{what}, elementwise.\n\nExample::\n\n    {example}"
    return function


def _near(x: Tensor, top: float) -> Tensor:
    """Map the square of x from [0, top ** 2] to [-1, 1]."""
    return 2 * (x / top) ** 2 - 1


def _phase(order: int, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The parts of the asymptotic form, and the angle."""
    u = 2 * (8 / x) ** 2 - 1
    p, q = (_P1, _Q1) if order else (_P0, _Q0)
    scale = (2 / (math.pi * x)).sqrt()
    return scale * _series(p, u), scale * _series(q, u) / x, x - (2 * order + 1) * math.pi / 4


def _first(order: int, x: Tensor) -> Tensor:
    """J of positive x."""
    low, high = x.clamp(max=8.0), x.clamp(min=8.0)
    near = _series(_J1, _near(low, 8)) * low if order else _series(_J0, _near(low, 8))
    p, q, angle = _phase(order, high)
    far = p * angle.cos() - q * angle.sin()
    return oneflow.where(x > 8, far, oneflow.where(x.isnan(), x, near))


def _second(order: int, x: Tensor) -> Tensor:
    """Y: minus infinity at zero, NaN below."""
    low, high = x.clamp(1e-300, 8.0), x.clamp(min=8.0)
    log = 2 / math.pi * low.log()
    if order:
        near = log * _first(1, low) - 2 / math.pi / low + _series(_Y1, _near(low, 8)) * low
    else:
        near = log * _first(0, low) + _series(_Y0, _near(low, 8))
    p, q, angle = _phase(order, high)
    far = p * angle.sin() + q * angle.cos()
    y = oneflow.where(x > 8, far, near)
    y = oneflow.where(x == 0, -math.inf, y)
    return oneflow.where((x < 0) | x.isnan(), math.nan, y)


def _modified(order: int, scaled: bool) -> Callable[[Tensor], Tensor]:
    small, large = (_K1_SMALL, _K1_LARGE) if order else (_K0_SMALL, _K0_LARGE)

    def value(x: Tensor) -> Tensor:
        low, high = x.clamp(1e-300, 2.0), x.clamp(min=2.0)
        log = (low / 2).log()
        if order:
            near = log * _oneflow._C.special_i1(low) + 1 / low + _series(small, _near(low, 2)) * low
        else:
            near = _series(small, _near(low, 2)) - log * oneflow.i0(low)
        far = _series(large, 4 / high - 1) / high.sqrt()
        near, far = (near * low.exp(), far) if scaled else (near, far * (-high).exp())
        y = oneflow.where(x > 2, far, near)
        y = oneflow.where(x == 0, math.inf, y)
        return oneflow.where((x < 0) | x.isnan(), math.nan, y)

    return value


def _airy(x: Tensor) -> Tensor:
    edge = 2 / 3 * 3**1.5
    middle = x.clamp(-3.0, 3.0)
    left = _series(_AI_LEFT, 2 * middle.clamp(max=0.0) / 3 + 1)
    right = _series(_AI_RIGHT, 2 * middle.clamp(min=0.0) / 3 - 1)
    away = x.abs().clamp(min=3.0)
    z = 2 / 3 * away**1.5
    root = away**0.25
    above = _series(_AI_FAR, 2 * edge / z - 1) * (-z).exp() / root
    u = 2 * (edge / z) ** 2 - 1
    angle = z + math.pi / 4
    below = (_series(_AI_P, u) * angle.sin() - _series(_AI_Q, u) / z * angle.cos()) / (root * math.sqrt(math.pi))
    y = oneflow.where(x < 0, left, right)
    y = oneflow.where(x > 3, above, oneflow.where(x < -3, below, y))
    return oneflow.where(x.isnan() | x.isinf(), math.nan, y)


def _spherical(x: Tensor) -> Tensor:
    safe = oneflow.where(x == 0, 1.0, x)
    series = 1 - x**2 / 6 * (1 - x**2 / 20 * (1 - x**2 / 42 * (1 - x**2 / 72)))
    y = oneflow.where(x.abs() < 0.25, series, safe.sin() / safe)
    return oneflow.where(x.isinf(), 0.0, y)


def _odd(x: Tensor) -> Tensor:
    return oneflow.where(x < 0, -_first(1, x.abs()), _first(1, x.abs()))


airy_ai = _function("airy_ai", "The Airy function Ai", _airy)
bessel_j0 = _function(
    "bessel_j0", "Bessel function of the first kind of order 0", lambda x: _first(0, x.abs()), lambda x: -bessel_j1(x)
)
bessel_j1: Callable[..., Tensor] = _function(
    "bessel_j1",
    "Bessel function of the first kind of order 1",
    _odd,
    lambda x: oneflow.where(x == 0, 0.5, bessel_j0(x) - bessel_j1(x) / x),
)
bessel_y0 = _function(
    "bessel_y0", "Bessel function of the second kind of order 0", lambda x: _second(0, x), lambda x: -bessel_y1(x)
)
bessel_y1: Callable[..., Tensor] = _function(
    "bessel_y1",
    "Bessel function of the second kind of order 1",
    lambda x: _second(1, x),
    lambda x: bessel_y0(x) - bessel_y1(x) / x,
)
modified_bessel_k0 = _function(
    "modified_bessel_k0",
    "Modified Bessel function of the second kind of order 0",
    _modified(0, False),
    lambda x: -modified_bessel_k1(x),
)
modified_bessel_k1: Callable[..., Tensor] = _function(
    "modified_bessel_k1",
    "Modified Bessel function of the second kind of order 1",
    _modified(1, False),
    lambda x: -modified_bessel_k0(x) - modified_bessel_k1(x) / x,
)
scaled_modified_bessel_k0 = _function(
    "scaled_modified_bessel_k0",
    "Modified Bessel function of the second kind of order 0 times ``exp(input)``",
    _modified(0, True),
)
scaled_modified_bessel_k1 = _function(
    "scaled_modified_bessel_k1",
    "Modified Bessel function of the second kind of order 1 times ``exp(input)``",
    _modified(1, True),
)
spherical_bessel_j0 = _function(
    "spherical_bessel_j0", "Spherical Bessel function of the first kind of order 0", _spherical
)
