"""Hand-written attention: in a graph the fused op replaces it, however it is spelled."""

from __future__ import annotations

import re

import oneflow as flow
import pytest
from oneflow import nn

F = nn.functional


class HandWritten(nn.Module):
    """Attention as people write it, in one of its spellings, between projections."""

    def __init__(self, spelling: str, width: int = 24, heads: int = 3, length: int = 64) -> None:
        super().__init__()
        flow.manual_seed(0)
        self.spelling, self.heads = spelling, heads
        self.qkv, self.out, self.drop = nn.Linear(width, 3 * width), nn.Linear(width, width), nn.Dropout(0.3)
        self.register_buffer("causal", flow.tril(flow.ones(length, length)).view(1, 1, length, length))

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1) for t in self.qkv(x).split(width, 2))
        if self.spelling == "einsum":
            scores = flow.einsum("blhe,bshe->bhls", q, k) / (width // self.heads) ** 0.5
            return self.out(flow.einsum("bhls,bshe->blhe", scores.softmax(-1), v).reshape(batch, length, width))
        if self.spelling == "bmm":
            q, k, v = (t.permute(0, 2, 1, 3).reshape(batch * self.heads, length, -1) for t in (q, k, v))
            hidden = flow.triu(flow.ones(length, length), diagonal=1).bool()
            scores = flow.bmm(q * q.shape[-1] ** -0.5, k.transpose(1, 2)).masked_fill(hidden, -flow.inf)
            y = flow.bmm(F.softmax(scores, dim=2), v).view(batch, self.heads, length, -1)
            return self.out(y.permute(0, 2, 1, 3).contiguous().view(batch, length, width))
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        scores = (q @ k.transpose(-2, -1)) * (1.0 / q.size(-1) ** 0.5)
        if self.spelling != "dropout":
            scores = scores.masked_fill(self.causal[:, :, :length, :length] == 0, float("-inf"))
        weights = F.softmax(scores, dim=-1)
        y = (self.drop(weights) if self.spelling == "dropout" else weights) @ v
        self.weights = weights if self.spelling == "kept" else None
        return self.out(y.transpose(1, 2).contiguous().view(batch, length, width))


class MultiHead(nn.Module):
    """PyTorch's module, called with `need_weights` though nobody reads them."""

    def __init__(self) -> None:
        super().__init__()
        flow.manual_seed(0)
        self.attention = nn.MultiheadAttention(24, 3, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x)[0]


def attend(net, options):
    """Values and gradients of a module, the ops of the program, and the graph."""

    class Forward(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.net = net
            for name, value in options.items():
                getattr(self.config, name)(value)

        def build(self, x):
            y = self.net(x)
            return y, *flow.autograd.grad(y.square().sum(), list(self.net.parameters()))

    flow.manual_seed(3)
    x = flow.randn(2, 64, 24)
    graph = Forward()
    flow.manual_seed(4)
    return [t.detach() for t in graph(x)], re.findall(r"= ([a-z_+.0-9]+)\(", repr(graph)), graph


ATTENTION = {"native_attention", "native_attention_backward"}


@pytest.mark.parametrize("spelling", ["plain", "einsum", "bmm", "dropout", "module"])
def test_attention_written_by_hand_is_the_fused_one(spelling):
    net = MultiHead() if spelling == "module" else HandWritten(spelling)
    on, with_, graph = attend(net, {"allow_fuse_attention": True})
    off, without, other = attend(net, {"allow_fuse_attention": False})
    for a, b in zip(on, off, strict=True):
        assert flow.allclose(a, b, rtol=1e-4, atol=1e-5)
    assert set(with_) >= ATTENTION and not {"softmax", "softmax_backward"} & set(with_)
    assert "softmax" in without and not ATTENTION & set(without)
    assert graph.memory()["peak"] < other.memory()["peak"]


def test_attention_whose_weights_are_kept_stays():
    _, with_, _ = attend(HandWritten("kept"), {"allow_fuse_attention": True})
    assert "softmax" in with_ and not ATTENTION & set(with_)


def test_attention_under_amp_is_the_fused_one():
    amp = {"enable_amp": True}
    on, with_, _ = attend(HandWritten("plain"), {**amp, "allow_fuse_attention": True})
    off, without, _ = attend(HandWritten("plain"), {**amp, "allow_fuse_attention": False})
    assert set(with_) >= ATTENTION and "softmax" in without and "softmax" not in with_
    # Half types round in fewer places.
    for a, b in zip(on, off, strict=True):
        assert (a.float() - b.float()).abs().max() <= 2e-2 * b.float().abs().max()


@pytest.mark.parametrize("spelling", ["plain", "bmm", "dropout"])
def test_a_compiled_module_holds_no_weights_between_forward_and_backward(spelling):
    nets = [HandWritten(spelling) for _ in range(2)]
    results = []
    for net, call in zip(nets, (nets[0], flow.compile(nets[1], fullgraph=True)), strict=True):
        flow.manual_seed(3)
        x = flow.randn(2, 64, 24)
        flow.manual_seed(4)
        y = call(x)
        y.square().sum().backward()
        results.append([y.detach(), *(p.grad for p in net.parameters())])
    for a, b in zip(*results, strict=True):
        assert flow.allclose(a, b, rtol=1e-4, atol=1e-5)
