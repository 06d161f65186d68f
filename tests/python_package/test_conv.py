"""Convolution and pooling layers compared with PyTorch: values, gradients, layouts, initial values, errors."""

import numpy as np
import oneflow
import pytest
import torch

CONVS = [
    ("Conv1d", (4, 6, 3), {"stride": 2, "padding": 1}, (2, 4, 9)),
    ("Conv1d", (4, 6, 3), {"padding": "same", "dilation": 2}, (4, 9)),
    ("Conv2d", (4, 6, (3, 2)), {"groups": 2, "bias": False}, (2, 4, 9, 8)),
    ("Conv2d", (4, 6, 3), {"padding": (2, 1), "padding_mode": "reflect"}, (2, 4, 9, 8)),
    ("Conv2d", (4, 6, 3), {"padding": 1, "padding_mode": "circular"}, (2, 4, 9, 8)),
    ("Conv3d", (2, 3, 2), {"padding": 1, "padding_mode": "replicate"}, (1, 2, 4, 5, 6)),
    ("ConvTranspose1d", (4, 6, 3), {"stride": 2, "output_padding": 1}, (2, 4, 7)),
    ("ConvTranspose2d", (4, 6, 3), {"stride": 2, "padding": 1, "groups": 2}, (2, 4, 5, 6)),
    ("ConvTranspose3d", (2, 4, 2), {"dilation": 2}, (1, 2, 3, 4, 3)),
]

POOLS = [
    ("MaxPool1d", (3,), {"stride": 2, "padding": 1}, (2, 3, 9)),
    ("MaxPool2d", (3,), {"stride": 2, "padding": 1, "ceil_mode": True}, (2, 3, 9, 8)),
    ("MaxPool2d", (2,), {"dilation": 2, "return_indices": True}, (3, 9, 8)),
    ("MaxPool3d", (2,), {}, (2, 3, 4, 6, 5)),
    ("AvgPool1d", (3,), {"padding": 1}, (2, 3, 9)),
    ("AvgPool2d", (3,), {"stride": 2, "padding": 1, "count_include_pad": False}, (2, 3, 9, 8)),
    ("AvgPool3d", (2,), {"divisor_override": 3}, (2, 3, 4, 6, 5)),
    ("AdaptiveAvgPool2d", ((3, None),), {}, (2, 3, 7, 5)),
    ("AdaptiveMaxPool2d", (3,), {}, (2, 3, 7, 5)),
    ("LPPool2d", (2, 3), {}, (2, 3, 9, 9)),
]


def _close(ours, theirs):
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=2e-5, atol=2e-5)


def _run(fw, layer, x, channels_last):
    t = fw.tensor(x)
    if channels_last:
        t = t.contiguous(memory_format=fw.channels_last)
    t.requires_grad_()
    out = layer(t)
    outs = out if isinstance(out, tuple) else (out,)
    (outs[0] * outs[0]).sum().backward()
    return t, outs


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize(("name", "args", "kwargs", "shape"), CONVS + POOLS)
def test_layer(name, args, kwargs, shape, channels_last):
    if channels_last and len(shape) != 4:
        pytest.skip("channels_last needs four dimensions")
    theirs, ours = getattr(torch.nn, name)(*args, **kwargs), getattr(oneflow.nn, name)(*args, **kwargs)
    assert repr(ours) == repr(theirs)
    ours.load_state_dict({k: oneflow.tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    xt, yt = _run(torch, theirs, x, channels_last)
    xo, yo = _run(oneflow, ours, x, channels_last)
    for a, b in zip(yo, yt, strict=True):
        _close(a, b)
        # The layout of a padded copy depends on the padding.
        assert "padding_mode" in kwargs or a.stride() == b.stride()
    _close(xo.grad, xt.grad)
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        _close(a.grad, b.grad)


def test_output_size():
    x = oneflow.ones(1, 2, 5, 5)
    up = oneflow.nn.ConvTranspose2d(2, 3, 3, stride=2)
    assert up(x, output_size=(12, 11)).shape == (1, 3, 12, 11)
    with pytest.raises(ValueError, match="requested an output size"):
        up(x, output_size=(20, 11))


def test_unpool():
    x = np.random.default_rng(0).standard_normal((2, 3, 8, 6)).astype(np.float32)
    results = []
    for fw in (oneflow, torch):
        y, indices = fw.nn.functional.max_pool2d(fw.tensor(x), 2, return_indices=True)
        results.append(fw.nn.MaxUnpool2d(2)(y, indices))
    _close(*results)


def test_initial_values():
    layer = oneflow.nn.Conv2d(16, 32, 3)
    bound = 1 / (16 * 9) ** 0.5
    for p in layer.parameters():
        assert -bound <= p.min().item() < p.max().item() <= bound


BAD = [
    lambda fw: fw.conv2d(fw.ones(1, 3, 4, 4), fw.ones(2, 4, 3, 3)),
    lambda fw: fw.conv2d(fw.ones(1, 3, 2, 2), fw.ones(2, 3, 3, 3)),
    lambda fw: fw.conv2d(fw.ones(3, 4), fw.ones(2, 3, 3, 3)),
    lambda fw: fw.conv2d(fw.ones(1, 3, 4, 4), fw.ones(2, 3, 3, 3), fw.ones(3)),
    lambda fw: fw.conv2d(fw.ones(1, 3, 4, 4), fw.ones(2, 3, 3, 3), stride=0),
    lambda fw: fw.conv2d(fw.ones(1, 3, 4, 4), fw.ones(2, 3, 3, 3), padding=-1),
    lambda fw: fw.conv2d(fw.ones(1, 3, 4, 4), fw.ones(2, 3, 3, 3), dilation=0),
    lambda fw: fw.conv2d(fw.ones(1, 4, 4, 4), fw.ones(3, 2, 3, 3), groups=2),
    lambda fw: fw.conv2d(fw.ones(1, 3, 4, 4), fw.ones(2, 3, 3, 3), stride=2, padding="same"),
    lambda fw: fw.conv2d(fw.ones(1, 3, 4, 4), fw.ones(2, 3, 3, 3).double()),
    lambda fw: fw.conv_transpose2d(fw.ones(1, 3, 4, 4), fw.ones(2, 3, 3, 3)),
    lambda fw: fw.conv_transpose2d(fw.ones(1, 2, 4, 4), fw.ones(2, 3, 3, 3), output_padding=1),
    lambda fw: fw.max_pool2d(fw.ones(1, 3, 4, 4), 0),
    lambda fw: fw.max_pool2d(fw.ones(1, 3, 4, 4), 2, padding=2),
    lambda fw: fw.max_pool2d(fw.ones(1, 3, 4, 4), 5),
    lambda fw: fw.nn.functional.avg_pool2d(fw.ones(1, 3, 4, 4), 2, divisor_override=0),
    lambda fw: fw.nn.functional.adaptive_avg_pool2d(fw.ones(3), (1, 1)),
    lambda fw: fw.nn.Conv2d(3, 4, 3, groups=2),
    lambda fw: fw.nn.Conv2d(3, 4, 3, padding="both"),
]


@pytest.mark.parametrize("i", range(len(BAD)))
def test_bad_input_raises_what_torch_raises(i):
    with pytest.raises(Exception) as theirs:
        BAD[i](torch)
    with pytest.raises(theirs.type) as ours:
        BAD[i](oneflow)
    assert type(ours.value).__name__ == type(theirs.value).__name__
    assert str(ours.value)
