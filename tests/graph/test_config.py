"""Options of a graph: each changes the plan as documented, and none changes a result."""

from __future__ import annotations

import json
import re

import oneflow as flow
import pytest
from oneflow import nn
from oneflow.utils.checkpoint import checkpoint


class Branches(nn.Module):
    """Many values wait for the end of the program, though each could be summed at once."""

    def __init__(self) -> None:
        super().__init__()
        flow.manual_seed(0)
        self.parts = nn.ModuleList([nn.Linear(64, 256) for _ in range(6)])

    def forward(self, x):
        wide = [part(x).tanh() for part in self.parts]
        total = x.sum()
        for w in wide:
            total = total + w.sum()
        return total


def compiled(options, module=None):
    module = module or Branches()

    class Forward(nn.Graph):
        def __init__(self):
            super().__init__()
            self.module = module
            for name, value in options.items():
                getattr(self.config, name)(value)

        def build(self, x):
            return self.module(x)

    flow.manual_seed(1)
    x = flow.randn(32, 64)
    graph = Forward()
    with flow.no_grad():
        value = graph(x).item()
    return value, graph.memory(), repr(graph)


def test_straighten_modes_change_the_order_and_not_the_result():
    def lines(text):
        """The ops of the program, without the graph's own name."""
        return tuple(re.findall(r"%\d+: .*?\)", text[text.index("\n", text.index("graph Forward")) :]))

    plain, disabled, text = compiled({"enable_straighten_algorithm": "Disable"})
    peaks, programs = {}, {lines(text)}
    for mode in ("MemoryFirst", "SpeedFirst", "OverlapCpuGpu", "DelayShortGpu"):
        value, memory, other = compiled({"enable_straighten_algorithm": mode})
        assert value == plain
        peaks[mode] = memory["peak"]
        programs.add(lines(other))
    assert len(programs) == 5
    # One wide value at a time in place of six.
    assert peaks["MemoryFirst"] <= disabled["peak"] / 2
    assert compiled({})[1]["peak"] == peaks["MemoryFirst"]
    with pytest.raises(ValueError, match="MemoryFirst"):
        nn.graph.GraphConfig().enable_straighten_algorithm("Fast")


def test_memory_efforts_are_ordered():
    first = compiled({"enable_choose_best_memory_allocation": False})
    best = compiled({"enable_choose_best_memory_allocation": True})
    compressed = compiled({"enable_compress_memory": True})
    assert first[0] == best[0] == compressed[0]
    assert first[1]["peak"] >= best[1]["peak"] >= compressed[1]["peak"] >= compressed[1]["lower_bound"]
    name, size = best[1]["holders"][0]
    assert "test_config.py" in name and size > 0


def test_constants_are_computed_once():
    class Masked(nn.Module):
        def forward(self, x):
            n = x.shape[-1]
            mask = flow.ones(n, n).tril().log()
            return (x @ x.T + mask[: x.shape[0], : x.shape[0]]).softmax(-1).sum(0).max() + flow.arange(n).float().mean()

    module = Masked()
    value, _, text = compiled({}, module)
    flow.manual_seed(1)
    assert abs(value - module(flow.randn(32, 64)).item()) < 1e-5
    program = text[text.index("graph ") :]
    assert 'variable "constant.' in program
    assert "tril" not in program and "arange" not in program and "log(" not in program


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        flow.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(16, 64), nn.GELU(), nn.Dropout(0.2), nn.Linear(64, 64), nn.GELU())
        self.head = nn.Linear(64, 5)
        self.recompute = False

    def forward(self, x):
        if self.recompute:
            x = checkpoint(self.body, x, use_reentrant=False)
        else:
            x = self.body(x)
        return self.head(x)


def batch():
    flow.manual_seed(7)
    return flow.randn(32, 16), flow.randint(0, 5, (32,))


class Train(nn.Graph):
    def __init__(self, net, opt, *, amp=None, scaler=None, fuse=False):
        super().__init__()
        self.net = net
        self.add_optimizer(opt)
        self.config.allow_fuse_elementwise(fuse)
        if amp is not None:
            self.config.enable_amp(True, dtype=amp)
        if scaler is not None:
            self.set_grad_scaler(scaler)

    def build(self, x, y):
        loss = nn.functional.cross_entropy(self.net(x), y)
        loss.backward()
        return loss


def test_amp_is_autocast():
    x, y = batch()
    losses = {}
    for graph in (False, True):
        net = Classifier().eval()
        opt = flow.optim.AdamW(net.parameters(), lr=1e-2)
        step = Train(net, opt, amp=flow.bfloat16) if graph else None
        losses[graph] = []
        for _ in range(5):
            if step is not None:
                losses[graph].append(step(x, y).item())
                continue
            with flow.autocast("cpu", dtype=flow.bfloat16):
                loss = nn.functional.cross_entropy(net(x), y)
                opt.zero_grad()
                loss.backward()
            opt.step()
            losses[graph].append(loss.item())
    assert losses[True] == pytest.approx(losses[False], rel=2e-2)
    assert "bfloat16" in repr(step)
    net = Classifier().eval()
    plain = Train(net, flow.optim.AdamW(net.parameters()))
    plain.trace(x, y)
    assert "bfloat16" not in repr(plain)
    with pytest.raises(TypeError, match="float16"):
        plain.config.enable_amp(True, dtype=flow.float64)


def test_a_gradient_scaler_lives_in_the_program():
    x, y = batch()
    nets = [Classifier().eval() for _ in range(2)]
    opts = [flow.optim.AdamW(net.parameters(), lr=1e-2) for net in nets]
    scalers = [flow.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=3) for _ in range(2)]
    step = Train(nets[0], opts[0], scaler=scalers[0])
    for i in range(8):
        bad = x * float("inf") if i == 4 else x
        step(bad, y)
        opts[1].zero_grad()
        scalers[1].scale(nn.functional.cross_entropy(nets[1](bad), y)).backward()
        scalers[1].step(opts[1])
        scalers[1].update()
        assert scalers[0].get_scale() == scalers[1].get_scale()
        pairs = zip(nets[0].parameters(), nets[1].parameters(), strict=True)
        assert all((p - q).abs().max() < 1e-5 for p, q in pairs), i
    assert scalers[0].get_scale() == 2.0**11
    with pytest.raises(TypeError, match="GradScaler"):
        step.set_grad_scaler(3)


def test_checkpointing_computes_again_and_needs_less_memory():
    x, y = (t.repeat(*([16] + [1] * (t.dim() - 1))) for t in batch())
    peaks, losses = [], []
    for recompute in (False, True):
        net = Classifier()
        net.recompute = recompute
        step = Train(net, flow.optim.SGD(net.parameters(), lr=0.1))
        flow.manual_seed(11)
        losses.append([step(x, y).item() for _ in range(4)])
        peaks.append(step.memory()["peak"])
        text = repr(step)
        # The second call stops once all is there that backward reads: the last result is not among it.
        assert text.count("gelu(") == (3 if recompute else 2)
    assert losses[0] == losses[1]
    assert peaks[1] < peaks[0]


def test_report_is_one_page(tmp_path):
    net = Classifier().eval()
    step = Train(net, flow.optim.SGD(net.parameters(), lr=0.1))
    with pytest.raises(RuntimeError, match="call the graph first"):
        step.report(tmp_path / "graph.html")
    step(*batch())
    step.report(tmp_path / "graph.html")
    page = (tmp_path / "graph.html").read_text()
    data = json.loads(re.search(r'type="application/json">(.*?)</script>', page, re.S)[1].replace("<\\/", "</"))
    assert data["rows"][0]["name"] == "linear" and "test_config.py" in data["rows"][0]["origin"]
    assert all(j < i for i, row in enumerate(data["rows"]) for j in row["after"])
    assert max(h["offset"] + h["bytes"] for h in data["held"]) <= data["memory"]["peak"]
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_folding_is_a_pass_of_the_list(monkeypatch, capfd):
    monkeypatch.setenv("ONEFLOW_DEBUG_PASS", "fold")
    compiled({})
    text = capfd.readouterr().err
    assert text.count("before fold") == 1 and text.count("after fold") == 1 and "dead_code" not in text
