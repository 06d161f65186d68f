"""Layers that only OneFlow has."""

import oneflow
import pytest
import torch


def test_activations_and_norms():
    nn = oneflow.nn
    x = oneflow.tensor([[-1.0, 0.5, 2.0]])
    assert nn.QuickGELU()(x).tolist() == oneflow.quick_gelu(x).tolist()
    assert nn.SquareReLU()(x).tolist() == [[0.0, 0.25, 4.0]]
    norm = nn.RMSLayerNorm(3)
    assert list(norm.state_dict()) == ["weight"]
    theirs = torch.nn.functional.rms_norm(torch.tensor(x.tolist()), (3,), torch.ones(3), 1e-6)
    torch.testing.assert_close(torch.tensor(norm(x).tolist()), theirs)


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_fused_batch_norm_adds_and_clips(dims):
    shape = (4, 3, *[5] * dims)
    x, addend = oneflow.randn(shape), oneflow.randn(shape)
    fused = getattr(oneflow.nn, f"FusedBatchNorm{dims}d")(3)
    plain = getattr(oneflow.nn, f"BatchNorm{dims}d")(3)
    assert list(fused.state_dict()) == list(plain.state_dict())
    assert (fused(x, addend) - (plain(x) + addend).relu()).abs().max().item() == 0.0
    assert (fused(x) - plain(x).relu()).abs().max().item() == 0.0


def test_margins_move_the_label_only():
    x = oneflow.tensor([[0.1, 0.5, -0.3]])
    y = oneflow.nn.CombinedMarginLoss(1.0, 0.5, 0.1)(x, oneflow.tensor([1]))
    assert y[0, 0].item() == x[0, 0].item() and y[0, 2].item() == x[0, 2].item()
    assert y[0, 1].item() == pytest.approx(torch.cos(torch.acos(torch.tensor(0.5)) + 0.5).item() - 0.1)
    assert oneflow.nn.CombinedMarginLoss(m3=0.2)(x, oneflow.tensor([1]))[0, 1].item() == pytest.approx(0.3)


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("scheme, formula", [("symmetric", "google"), ("affine", "google"), ("symmetric", "cambricon")])
def test_quantization_aware_convolution_is_near_the_convolution(dims, scheme, formula):
    oneflow.manual_seed(0)
    layer = getattr(oneflow.nn, f"QatConv{dims}d")(
        3, 4, 3, padding=1, quantization_scheme=scheme, quantization_formula=formula, quantization_bit=8
    )
    x = oneflow.randn(2, 3, *[6] * dims)
    plain = getattr(oneflow.nn, f"Conv{dims}d")(3, 4, 3, padding=1)
    plain.load_state_dict({"weight": layer.weight, "bias": layer.bias})
    y = layer(x)
    assert 0.0 < (y - plain(x)).abs().max().item() < 0.2
    y.sum().backward()
    assert layer.weight.grad.abs().sum().item() > 0
    moving = layer.input_observer.moving_max.item()
    assert moving > 0 and layer.current_train_step.item() == 1
    layer.eval()
    layer(x * 10)
    assert layer.input_observer.moving_max.item() == moving, "ranges are learned in training only"


def test_observers_feed_quantization():
    x = oneflow.randn(5, 7)
    nn = oneflow.nn
    for per_layer in (True, False):
        scale, zero = nn.MinMaxObserver(quantization_scheme="affine", per_layer_quantization=per_layer)(x)
        assert tuple(scale.shape) == ((1,) if per_layer else (5,))
        y = nn.FakeQuantization(quantization_scheme="affine")(x, scale, zero)
        assert (x - y).abs().max().item() <= scale.max().item() * 0.51
        whole = nn.Quantization(quantization_scheme="affine")(x, scale, zero)
        assert whole.min().item() >= 0 and whole.max().item() <= 255
    moving = nn.MovingAverageMinMaxObserver(stop_update_after_iters=2)
    first = moving(x, oneflow.tensor([1]))[0].item()
    assert moving(x * 3, oneflow.tensor([3]))[0].item() == first
    moving.reset_running_stats()
    assert moving.moving_max.item() == 0.0 and "quantization_bit=8" in repr(moving)
    with pytest.raises(ValueError, match="at least 2"):
        nn.Quantization(quantization_bit=1)


def test_names_of_the_package_and_of_tensors():
    x = oneflow.tensor([[-1.0, 0.5, 2.0]])
    F = oneflow.nn.functional
    for name in ("mish", "selu", "silu", "softplus", "softsign", "quick_gelu"):
        assert getattr(x, name)().tolist() == getattr(oneflow, name)(x).tolist() == getattr(F, name)(x).tolist()
    assert oneflow.repeat(x, 2, 1).shape == (2, 3) and oneflow.expand(x, 4, 3).shape == (4, 3)
    assert oneflow.new_ones(x, (2,)).tolist() == [1.0, 1.0] and oneflow.gelu(x).shape == x.shape
    assert not x.is_offloaded
    for call in (x.offload, x.load):
        with pytest.warns(UserWarning):
            call()
    with pytest.warns(UserWarning, match="resize is deprecated"):
        assert x.resize(3).shape == (3,)
    with pytest.raises(RuntimeError, match="only change"), pytest.warns(UserWarning):
        x.resize(4)
    assert x.index([None, oneflow.tensor([0, 2])]).tolist() == [[-1.0, 2.0]]
    weight = oneflow.arange(6.0).reshape(3, 2)
    assert oneflow.embedding(weight, oneflow.tensor([2, 0])).tolist() == [[4.0, 5.0], [0.0, 1.0]]
    with pytest.warns(UserWarning, match="deprecated"):
        assert oneflow.range(1, 2, 0.5).tolist() == [1.0, 1.5, 2.0]
