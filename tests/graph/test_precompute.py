"""Inference: what depends on parameters alone is computed when they change, and convolutions run channels last."""

from __future__ import annotations

import random

import numpy as np
import oneflow as flow
import pytest
from oneflow import nn

F = nn.functional


class Block(nn.Module):
    """A residual block: grouped or not, with a gate computed from means where asked for."""

    def __init__(self, n_in: int, n_out: int, kernel: int, groups: int, gated: bool, bias: bool) -> None:
        super().__init__()
        self.first = nn.Conv2d(n_in, n_out, kernel, padding=kernel // 2, bias=bias)
        self.norm = nn.BatchNorm2d(n_out, affine=not bias)
        self.second = nn.Conv2d(n_out, n_out, 3, padding=1, groups=groups, bias=False)
        self.last = nn.BatchNorm2d(n_out)
        self.gate = nn.Conv2d(n_out, n_out, 1) if gated else None

    def forward(self, x):
        y = F.hardswish(self.norm(self.first(x)))
        z = self.last(self.second(y))
        if self.gate is not None:
            z = z * self.gate(z.mean((2, 3), keepdim=True)).sigmoid()
        return F.relu(z + y)


def model(seed: int) -> nn.Module:
    """A convolutional network of a random form, with statistics that are not those of a new one."""
    choose = random.Random(seed)
    flow.manual_seed(seed)
    layers: list[nn.Module] = []
    width = 3
    for _ in range(choose.randint(2, 4)):
        wide = choose.choice([8, 12, 16])
        groups = choose.choice([1, 1, wide, 4])
        layers.append(
            Block(width, wide, choose.choice([1, 3, 5]), groups, choose.random() < 0.4, choose.random() < 0.5)
        )
        width = wide
        if choose.random() < 0.5:
            layers.append(
                choose.choice([nn.MaxPool2d(2), nn.AvgPool2d(3, 2, 1), nn.Upsample(scale_factor=2), nn.Identity()])
            )
    ends = [
        [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 5)],
        [nn.Flatten(2)],
        [nn.PixelShuffle(2)],
        [nn.Softmax(1)],
    ]
    net = nn.Sequential(*layers, *choose.choice(ends))
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.normal_()
            m.running_var.uniform_(0.5, 2)
            if m.weight is not None:
                nn.init.normal_(m.weight)
                nn.init.normal_(m.bias)
    return net.eval()


class Answer(nn.Graph):
    def __init__(self, net: nn.Module, **options: bool) -> None:
        super().__init__()
        self.net = net
        for name, value in options.items():
            getattr(self.config, name)(value)

    def build(self, x):
        return self.net(x)


def same(a, b) -> None:
    # Folded weights are rounded once more, in up to nine convolutions one after another.
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-4, atol=2e-4 * float(b.abs().max()))
    assert a.stride() == b.stride()


@pytest.mark.parametrize("seed", range(30))
def test_random_networks_give_what_they_give_eagerly(seed):
    net, x = model(seed), flow.randn(2, 3, 8, 8)
    with flow.no_grad():
        graph = Answer(net)
        same(graph(x), net(x))
        same(flow.compile(net)(x), net(x))
    assert "batch_norm_inference" not in repr(graph)


@pytest.mark.parametrize(("width", "copies"), [(1, 2), (2, 1), (3, 1), (4, 1), (5, 2), (8, 2)])
def test_a_chain_is_laid_out_once_at_each_end(width, copies):
    blocks = [Block(n, 8, 3, 1, False, False) for n in (width, 8, 8)]
    net, x = nn.Sequential(*blocks).eval(), flow.randn(2, width, 8, 8)
    with flow.no_grad():
        graph = Answer(net)
        same(graph(x), net(x))
        text = repr(graph)
        text = text[text.index("as it runs") :] if "as it runs" in text else text
        # An input of many channels becomes channels last, the result channels first; weights were laid out before.
        assert text.count("= clone_contiguous(") == copies and text.count("= native_conv") == 6


def test_without_it_the_bits_are_those_of_eager():
    net, x = model(3), flow.randn(2, 3, 8, 8)
    with flow.no_grad():
        for options in (
            {"allow_precompute": False, "allow_fuse_elementwise": False},
            {"allow_fuse_elementwise": False},
        ):
            graph = Answer(net, **options)
            assert graph(x).equal(net(x))
            assert "batch_norm_inference" in repr(graph)


def write_norm(net):
    net[0].norm.running_var.mul_(2)


def write_weight(net):
    net[0].first.weight.data[0] += 1


def write_state(net):
    net.load_state_dict({name: value * 0.5 for name, value in net.state_dict().items()})


def write_array(net):
    net[0].first.weight.detach().numpy()[...] += 0.25


def train_a_step(net):
    net.train()(flow.randn(4, 3, 8, 8))
    net.eval()


@pytest.mark.parametrize("write", [write_norm, write_weight, write_state, write_array, train_a_step])
def test_what_is_written_from_outside_is_seen(write):
    net, x = model(5), flow.randn(2, 3, 8, 8)
    graph, compiled = Answer(net), flow.compile(net)
    with flow.no_grad():
        before = graph(x)
        compiled(x)
        for _ in range(2):
            write(net)
            same(graph(x), net(x))
            same(compiled(x), net(x))
        assert not before.equal(graph(x))


def test_an_array_that_was_taken_before_is_seen_too():
    net, x = model(5), flow.randn(2, 3, 8, 8)
    array = net[0].first.weight.detach().numpy()
    with flow.no_grad():
        graph = Answer(net)
        graph(x)
        array += 0.5
        same(graph(x), net(x))


def test_training_is_left_as_it_was():
    net = model(7).train()
    optimizer = flow.optim.SGD(net.parameters(), lr=0.1)

    class Step(Answer):
        def __init__(self) -> None:
            super().__init__(net)
            self.add_optimizer(optimizer)

        def build(self, x):
            loss = self.net(x).square().mean()
            loss.backward()
            return loss

    step = Step()
    losses = [step(flow.ones(2, 3, 8, 8) * (1 + i)).item() for i in range(3)]
    assert losses[0] != losses[1] and "derived." not in repr(step)


def test_casts_of_parameters_are_made_once():
    net = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4)).eval()
    graph = Answer(net)
    graph.config.enable_amp(True, dtype=flow.bfloat16)
    x = flow.randn(3, 16)
    with flow.no_grad():
        first = graph(x)
        net[0].weight.zero_()
        second = graph(x)
        with flow.autocast("cpu", dtype=flow.bfloat16):
            assert second.equal(net(x))
    assert not first.equal(second)
    text = repr(graph)
    assert text.count("to_copy") <= 1 and "derived." in text
