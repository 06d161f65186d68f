"""Impossible window sizes (huge, zero, negative): PyTorch's exception class, never a crash."""

import itertools

import oneflow
import pytest
import torch

VALUES = [2**62, 2**63 - 1, 2**40, -1, -(2**62), 0]


def _f(fw):
    return fw.nn.functional


def _image(fw, n, channels=4):
    return fw.ones((1, channels) + (5,) * n)


def _pool(name, n):
    return lambda fw, **kw: getattr(_f(fw), f"{name}{n}d")(_image(fw, n), **{"kernel_size": 2, **kw})


def _adaptive(name, n):
    return lambda fw, **kw: getattr(_f(fw), f"{name}{n}d")(_image(fw, n), **kw)


def _lp(n):
    return lambda fw, **kw: getattr(_f(fw), f"lp_pool{n}d")(_image(fw, n), 2.0, **{"kernel_size": 2, **kw})


def _conv(n, transposed=False):
    name = f"conv_transpose{n}d" if transposed else f"conv{n}d"
    return lambda fw, **kw: getattr(_f(fw), name)(_image(fw, n), fw.ones((4, 4) + (2,) * n), **kw)


def _unpool(n):
    def call(fw, **kw):
        y, i = getattr(_f(fw), f"max_pool{n}d")(_image(fw, n), 2, return_indices=True)
        return getattr(_f(fw), f"max_unpool{n}d")(y, i, **{"kernel_size": 2, **kw})

    return call


def _interpolate(mode):
    n = {"linear": 1, "nearest": 1, "area": 1, "trilinear": 3}.get(mode, 2)
    return lambda fw, **kw: _f(fw).interpolate(_image(fw, n), mode=mode, **kw)


def _fold(fw, **kw):
    return _f(fw).fold(fw.ones(1, 16, 16), **{"output_size": 5, "kernel_size": 2, **kw})


WINDOW = ("kernel_size", "stride", "padding")
OPS = {
    **{f"max_pool{n}d": (_pool("max_pool", n), (*WINDOW, "dilation")) for n in (1, 2, 3)},
    **{f"avg_pool{n}d": (_pool("avg_pool", n), WINDOW) for n in (1, 2, 3)},
    **{f"lp_pool{n}d": (_lp(n), ("kernel_size", "stride")) for n in (1, 2, 3)},
    **{f"adaptive_avg_pool{n}d": (_adaptive("adaptive_avg_pool", n), ("output_size",)) for n in (1, 2, 3)},
    **{f"adaptive_max_pool{n}d": (_adaptive("adaptive_max_pool", n), ("output_size",)) for n in (1, 2, 3)},
    **{f"conv{n}d": (_conv(n), ("stride", "padding", "dilation", "groups")) for n in (1, 2, 3)},
    **{
        f"conv_transpose{n}d": (_conv(n, True), ("stride", "padding", "output_padding", "dilation", "groups"))
        for n in (1, 2, 3)
    },
    **{f"max_unpool{n}d": (_unpool(n), (*WINDOW, "output_size")) for n in (1, 2, 3)},
    **{f"interpolate {m}": (_interpolate(m), ("size",)) for m in ("nearest", "linear", "bilinear", "bicubic", "area")},
    "unfold": (lambda fw, **kw: _f(fw).unfold(_image(fw, 2), **{"kernel_size": 2, **kw}), (*WINDOW, "dilation")),
    "fold": (_fold, ("output_size", *WINDOW, "dilation")),
    "Tensor.unfold": (lambda fw, **kw: fw.ones(5).unfold(0, **{"size": 2, "step": 1, **kw}), ("size", "step")),
    "pixel_shuffle": (lambda fw, **kw: _f(fw).pixel_shuffle(_image(fw, 2), **kw), ("upscale_factor",)),
    "pixel_unshuffle": (lambda fw, **kw: _f(fw).pixel_unshuffle(_image(fw, 2), **kw), ("downscale_factor",)),
    "channel_shuffle": (lambda fw, **kw: _f(fw).channel_shuffle(_image(fw, 2), **kw), ("groups",)),
    "pad": (lambda fw, pad: _f(fw).pad(_image(fw, 1), (pad, 1)), ("pad",)),
    "pad reflect": (lambda fw, pad: _f(fw).pad(_image(fw, 1), (pad, 1), "reflect"), ("pad",)),
}

CASES = [(op, {name: v}) for op, (_, names) in OPS.items() for name, v in itertools.product(names, VALUES)]
# Products and differences of two numbers that overflow although each alone is refused late or not at all.
for op in ("max_pool1d", "max_pool2d", "unfold"):
    CASES += [
        (op, {"kernel_size": 2**61, "dilation": 2**61}),
        (op, {"kernel_size": 8608480567731124087, "padding": 1250999896764, "dilation": 1250999896764}),
    ]
for op in ("conv1d", "conv2d"):
    CASES += [
        (op, {"padding": 2**62, "dilation": 2**63 - 1}),
        (op, {"padding": 2**61, "stride": 2**62, "dilation": 2**62}),
    ]
for op in ("conv_transpose1d", "conv_transpose2d"):
    CASES += [(op, {"stride": 2**62, "padding": 2**62}), (op, {"stride": 2**61, "dilation": 2**62, "padding": 2**62})]


def _raised(op, kwargs, fw):
    try:
        OPS[op][0](fw, **kwargs)
    except Exception as e:
        return e
    return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("op, kwargs", CASES, ids=lambda v: v if isinstance(v, str) else str(v).strip("{}"))
def test_window_sizes(op, kwargs):
    ours, theirs = _raised(op, kwargs, oneflow), _raised(op, kwargs, torch)
    if theirs is None:
        # Some sizes wrap around in PyTorch and seem to fit.
        assert ours is None or isinstance(ours, RuntimeError), f"{ours!r}"
        return
    classes = [c.__name__ for c in type(ours).__mro__]
    assert type(theirs).__name__ in classes, f"{ours!r} for {theirs!r}"
