"""Poolings at their edges, beside PyTorch: empty sizes, arguments that do not fit, layouts of results."""

import oneflow
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")


def ones(fw, *sizes):
    return fw.ones(*sizes, requires_grad=True)


def adaptive(kind, n):
    return lambda fw, F: getattr(F, f"adaptive_{kind}_pool{n}d")(ones(fw, 1, 4, *[5] * n), 0).sum().backward()


def fractional(size, **kwargs):
    def call(fw, F):
        samples = fw.full(kwargs.get("samples", (1, 2, 2)), 0.5)
        return F.fractional_max_pool2d(
            fw.arange(98.0).reshape(1, 2, 7, 7), kwargs.get("kernel", (2, 2)), size, _random_samples=samples
        )

    return call


CALLS = {
    "adaptive without channels": lambda fw, F: F.adaptive_avg_pool1d(ones(fw, 0, 5), 2).sum().backward(),
    **{f"adaptive {kind} {n}": adaptive(kind, n) for kind in ("avg", "max") for n in (1, 2, 3)},
    "fractional": fractional((3, 3)),
    "fractional kernel of one": fractional((3, 3), kernel=(2,)),
    "fractional kernel of none": fractional((3, 3), kernel=()),
    "fractional too high": fractional((9, 3)),
    "fractional too wide": fractional((3, 9)),
    "fractional size of one": fractional((3,)),
    "fractional without samples": fractional((3, 3), samples=(0, 2, 2)),
    "fractional without channels": lambda fw, F: F.fractional_max_pool2d(fw.ones(1, 0, 7, 7), 2, output_size=3),
    "fractional without images": lambda fw, F: F.fractional_max_pool2d(
        fw.ones(0, 2, 7, 7), 2, output_size=3, _random_samples=fw.ones(0, 2, 2)
    ),
    "unpool kernel of two": lambda fw, F: F.max_unpool3d(
        fw.ones(1, 3, 1, 1, 1), fw.zeros(1, 3, 1, 1, 1, dtype=fw.int64), [1, 1]
    ),
    "unpool without images": lambda fw, F: F.max_unpool1d(fw.ones(0, 2, 5), fw.zeros(0, 2, 5, dtype=fw.int64), 2),
    "stride of zero": lambda fw, F: F.max_pool2d(fw.ones(1, 2, 4, 4), 2, stride=0),
    "mean with a stride of zero": lambda fw, F: F.avg_pool2d(fw.ones(1, 2, 4, 4), 2, stride=0),
}


@pytest.mark.parametrize("name", CALLS)
def test_edges(name):
    results = []
    for fw in (oneflow, torch):
        try:
            made = CALLS[name](fw, fw.nn.functional)
            results.append(None if made is None else (tuple(made.shape), made.tolist()))
        except RuntimeError as e:
            assert "internal error" not in str(e)
            results.append("refused")
    assert results[0] == results[1]


def test_unpooled_channels_stay_last():
    for fw in (oneflow, torch):
        x = fw.arange(64.0).reshape(1, 4, 4, 4).contiguous(memory_format=fw.channels_last)
        y, at = fw.nn.functional.max_pool2d(x, 2, return_indices=True)
        z = fw.nn.functional.max_unpool2d(y, at, 2)
        assert z.is_contiguous(memory_format=fw.channels_last) and z.sum().item() == y.sum().item()
