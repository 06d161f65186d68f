"""Convolutions of programs for inference read weights that were brought into their kernels' order before the run."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import oneflow as flow
import pytest
from oneflow import nn

F = nn.functional


class Answer(nn.Graph):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def build(self, x):
        return self.net(x)


def same(a, b) -> None:
    # Winograd's algorithm rounds about twice as much as the sum.
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=3e-4, atol=3e-5 * max(1.0, float(b.abs().max())))
    assert a.shape == b.shape


# [channels, outputs, kernel, stride, padding, dilation, height, width, batch], and whether at Winograd's points.
CASES = {
    "points": ([32, 40, 3, 1, 1, 1, 28, 26, 1], True),
    "points, one tile wide": ([64, 64, 3, 1, 1, 1, 80, 7, 2], True),
    "points, no padding": ([48, 33, 3, 1, 0, 1, 30, 30, 1], True),
    "points, more outputs than tiles": ([32, 200, 3, 1, 1, 1, 22, 22, 1], True),
    "points, a batch": ([17, 70, 3, 1, 1, 1, 14, 14, 5], True),
    "few positions": ([64, 72, 3, 1, 1, 1, 5, 4, 1], False),
    "one position": ([64, 64, 3, 1, 1, 1, 1, 1, 1], False),
    "stride": ([32, 48, 3, 2, 1, 1, 15, 17, 2], False),
    "dilation": ([24, 40, 3, 1, 2, 2, 14, 15, 1], False),
    "five": ([20, 35, 5, 1, 2, 1, 12, 13, 1], False),
    "seven with stride": ([8, 65, 7, 2, 3, 1, 21, 20, 1], False),
    "oblong": ([16, 48, (1, 7), 1, (0, 3), 1, 9, 10, 2], False),
    "single tap": ([96, 100, 1, 1, 0, 1, 14, 13, 1], False),
    "single tap, stride": ([96, 64, 1, 2, 0, 1, 13, 13, 2], False),
    "single tap, few positions": ([128, 130, 1, 1, 0, 1, 3, 3, 1], False),
}


def network(c, o, kernel, stride, padding, dilation, bias=True):
    flow.manual_seed(0)
    # So many that the network runs channels last.
    before = [nn.Conv2d(c, c, 3, padding=1), nn.ReLU()]
    after = [nn.Conv2d(o, 8, 3, padding=1), *(nn.Conv2d(8, 8, 3, padding=1) for _ in range(4))]
    conv = nn.Conv2d(c, o, kernel, stride, padding, dilation, bias=bias)
    return nn.Sequential(*before, conv, *after).eval()


@pytest.mark.parametrize("name", CASES)
def test_networks_give_what_they_give_eagerly(name):
    (*window, height, width, batch), at_points = CASES[name]
    net, x = network(*window), flow.randn(batch, window[0], height, width)
    with flow.no_grad():
        graph = Answer(net)
        same(graph(x), net(x))
        for other in (x.to(memory_format=flow.channels_last), flow.randn(*x.shape) * 100):
            same(flow.compile(net)(other), net(other))
    lines = [line for line in repr(graph).splitlines() if "= native_conv_prepared(" in line]
    size = str(list(net[2].weight.shape))
    mine = [line for line in lines if size in line]
    assert mine and ("true" in mine[-1].lower()) is at_points, "\n".join(lines)


@pytest.mark.parametrize("layout", ["channels first", "channels last"])
@pytest.mark.parametrize("name", CASES)
def test_a_convolution_by_itself(name, layout):
    (*window, height, width, batch), _ = CASES[name]
    flow.manual_seed(1)
    c, o, kernel, stride, padding, dilation = window
    x = flow.randn(batch, c, height, width)
    if layout == "channels last":
        x = x.to(memory_format=flow.channels_last)
    for bias in (True, False):
        conv = nn.Conv2d(c, o, kernel, stride, padding, dilation, bias=bias).eval()
        with flow.no_grad():
            for activation in (nn.Identity(), nn.ReLU(), nn.Hardswish()):
                net = nn.Sequential(conv, activation)
                same(Answer(net)(x), net(x))


@pytest.mark.parametrize("name", ["points", "stride", "single tap"])
def test_written_weights_are_prepared_anew(name):
    (*window, height, width, batch), _ = CASES[name]
    net, x = network(*window), flow.randn(batch, window[0], height, width)
    with flow.no_grad():
        graph = Answer(net)
        before = graph(x)
        net[2].weight.mul_(-1.5)
        net[2].bias.add_(1)
        same(graph(x), net(x))
        assert not before.equal(graph(x))


def test_activations_and_norms_are_part_of_them():
    flow.manual_seed(0)
    layers = []
    for i in range(4):
        layers += [nn.Conv2d(32, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), [nn.ReLU(), nn.Hardswish()][i % 2]]
    net, x = nn.Sequential(*layers).eval(), flow.randn(1, 32, 32, 32)
    for m in net.modules():
        if isinstance(m, nn.BatchNorm2d):
            m.running_mean.normal_()
            m.running_var.uniform_(0.5, 2)
    with flow.no_grad():
        graph = Answer(net)
        same(graph(x), net(x))
    text = repr(graph)
    assert text.count("= native_conv_prepared(") >= 4 and "= relu(" not in text.split("as it runs")[-1]


def test_groups_few_channels_and_training_keep_their_weights():
    x = flow.randn(1, 32, 16, 16)
    for net in (nn.Conv2d(32, 32, 3, padding=1, groups=4), nn.Conv2d(32, 32, 3, groups=32)):
        with flow.no_grad():
            graph = Answer(net.eval())
            same(graph(x), net(x))
            assert "native_conv_prepared" not in repr(graph)
    net = nn.Sequential(nn.Conv2d(32, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1))
    sgd = flow.optim.SGD(net.parameters(), lr=0.1)

    class Step(Answer):
        def __init__(self) -> None:
            super().__init__(net)
            self.add_optimizer(sgd)

        def build(self, x):
            loss = self.net(x).square().mean()
            loss.backward()
            return loss

    step = Step()
    first = step(x).item()
    assert step(x).item() < first and "native_conv_prepared" not in repr(step)


RUN = """
import sys
import numpy as np
import oneflow as flow
folder = sys.argv[1]
x = flow.from_numpy(np.load(folder + "/x.npy"))
np.save(folder + "/y.npy", flow.load(folder + "/program")(x).numpy())
"""


def tiers():
    flags = pathlib.Path("/proc/cpuinfo").read_text().split("flags", 1)[-1].split("\n", 1)[0].split()
    return [isa for isa, flag in (("avx512", "avx512f"), ("avx2", "avx2")) if flag in flags] + ["baseline"]


@pytest.mark.parametrize("isa", tiers())
def test_saved_programs_run_on_other_instruction_sets(isa, tmp_path):
    flow.manual_seed(0)
    kinds = [(32, 40, 3, 1, 1), (40, 72, 3, 2, 1), (72, 33, 1, 1, 0), (33, 70, 3, 1, 1), (70, 8, 5, 1, 2)]
    layers = [layer for kind in kinds for layer in (nn.Conv2d(*kind), nn.ReLU())]
    net, x = nn.Sequential(*layers).eval(), flow.randn(2, 32, 24, 24)
    with flow.no_grad():
        graph, want = Answer(net), net(x)
        graph(x)
    assert repr(graph).count("= native_conv_prepared(") >= len(kinds) - 1
    flow.save(graph, str(tmp_path / "program"))
    np.save(tmp_path / "x.npy", x.numpy())
    environment = {**os.environ, "ONEFLOW_CPU_ISA": isa}
    run = subprocess.run([sys.executable, "-c", RUN, str(tmp_path)], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[-4000:]
    same(flow.from_numpy(np.load(tmp_path / "y.npy")), want)


class Joining(nn.Module):
    """Layers that join what they make to all before them, after a batch norm that stays one."""

    def __init__(self, growth: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 2 * growth, 3, padding=1)
        widths = [growth * n for n in range(2, 8)]
        self.norms = nn.ModuleList(nn.BatchNorm2d(n) for n in widths)
        self.narrow = nn.ModuleList(nn.Conv2d(n, 64, 1) for n in widths)
        self.grow = nn.ModuleList(nn.Conv2d(64, growth, 3, padding=1) for _ in widths)

    def forward(self, x):
        x = self.first(x)
        for norm, narrow, grow in zip(self.norms, self.narrow, self.grow, strict=True):
            x = flow.cat([x, grow(F.relu(narrow(F.relu(norm(x)))))], 1)
        return x


# Rows of 32 channels are joined as fast as planes, shorter ones are not.
@pytest.mark.parametrize("growth, prepared", [(32, True), (8, False)])
def test_networks_that_join_channels(growth, prepared):
    flow.manual_seed(0)
    net, x = Joining(growth).eval(), flow.randn(2, 3, 15, 14)
    with flow.no_grad():
        graph = Answer(net)
        same(graph(x), net(x))
    single_taps = [line for line in repr(graph).splitlines() if "= native_conv_prepared(" in line and ", 1, 1]" in line]
    assert len(single_taps) == (6 if prepared else 0), "\n".join(single_taps)
