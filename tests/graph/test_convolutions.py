"""What a graph does around convolutions: batch norm in evaluation goes into their weights."""

from __future__ import annotations

import re

import oneflow as flow
import pytest
from oneflow import nn


class Block(nn.Module):
    """Convolution, norm, sum and activation, as networks of images have them."""

    def __init__(self, bias: bool, affine: bool, groups: int, channels_last: bool) -> None:
        super().__init__()
        flow.manual_seed(0)
        self.conv = nn.Conv2d(8, 8, 3, padding=1, bias=bias, groups=groups)
        self.norm = nn.BatchNorm2d(8, affine=affine)
        self.format = flow.channels_last if channels_last else flow.contiguous_format
        with flow.no_grad():
            self.norm.running_mean.normal_()
            self.norm.running_var.uniform_(0.5, 2.0)
            if affine:
                self.norm.weight.normal_()
                self.norm.bias.normal_()

    def forward(self, x):
        x = x.contiguous(memory_format=self.format)
        return (self.norm(self.conv(x)) + x).relu()


def compiled(net, x, **options):
    class Forward(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.net = net
            for name, value in options.items():
                getattr(self.config, name)(value)

        def build(self, x):
            return self.net(x)

    graph = Forward()
    with flow.no_grad():
        y = graph(x)
    return y, re.findall(r"= ([a-z_+.0-9]+)\(", repr(graph)), graph


@pytest.mark.parametrize("channels_last", [False, True])
@pytest.mark.parametrize("groups", [1, 4])
@pytest.mark.parametrize("bias, affine", [(False, True), (True, True), (True, False), (False, False)])
def test_batch_norm_goes_into_the_weights(bias, affine, groups, channels_last):
    net = Block(bias, affine, groups, channels_last).eval()
    x = flow.randn(2, 8, 20, 20)
    y, ops, graph = compiled(net, x)
    assert "batch_norm_inference" not in ops and "native_conv" in ops
    # Chains run over rows of memory, of which channels last is none.
    assert ("add+relu" in ops) == (not channels_last)
    with flow.no_grad():
        assert flow.allclose(y, net(x), rtol=1e-4, atol=1e-5)
        # Weights and statistics are read in every run.
        net.conv.weight.mul_(0.5)
        net.norm.running_var.add_(1.0)
        assert flow.allclose(graph(x), net(x), rtol=1e-4, atol=1e-5)
    _, ops, _ = compiled(net, x, allow_fuse_elementwise=False)
    assert "batch_norm_inference" in ops


def test_batch_norm_stays_where_weights_outnumber_results_or_it_learns():
    net = Block(True, True, 1, False)
    assert "batch_norm_inference" in compiled(net.eval(), flow.randn(1, 8, 4, 4))[1]
    assert "batch_norm_training" in compiled(net.train(), flow.randn(2, 8, 20, 20))[1]
