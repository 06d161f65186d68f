"""Each fusion switch changes the plan as documented, and changes results only by rounding."""

from __future__ import annotations

import itertools
import re
import warnings

import oneflow as flow
import pytest
from oneflow import nn

F = nn.functional


class Net(nn.Module):
    """A residual block behind a table, with its loss in two steps."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        flow.manual_seed(0)
        self.table = nn.Embedding(200, width)
        self.first, self.second = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 7)

    def forward(self, ids, target):
        x = self.table(ids).mean(1)
        x = x + self.second(F.gelu(self.first(x)))
        return F.nll_loss(F.log_softmax(self.head(self.norm(x)), -1), target)


def batch():
    flow.manual_seed(5)
    return flow.randint(0, 200, (12, 3)), flow.randint(0, 7, (12,))


def adamw(parameters):
    return flow.optim.AdamW(parameters, lr=1e-2)


def sgd(parameters):
    return flow.optim.SGD(parameters, lr=0.1)


def train(options, make=adamw, *, clip=None, steps=6, net=None):
    """Losses of some steps, the plan's ops, and the graph."""
    net = net or Net()
    optimizer = make(net.parameters())

    class Step(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.net = net
            self.add_optimizer(optimizer)
            for name, value in options.items():
                getattr(self.config, name)(*value if isinstance(value, tuple) else (value,))

        def build(self, *inputs):
            loss = self.net(*inputs)
            loss.backward()
            if clip is not None:
                nn.utils.clip_grad_norm_(self.net.parameters(), clip)
            return loss

    step = Step()
    losses = [step(*batch()).mean().item() for _ in range(steps)]
    return losses, ops(step), step


def ops(graph) -> list[str]:
    return re.findall(r"= ([a-z_+.0-9]+)\(", repr(graph)[repr(graph).index("graph ") :])


def peak(graph) -> int:
    return graph.memory()["peak"]


def same(a, b, rel=1e-5) -> None:
    assert a == pytest.approx(b, rel=rel)


def test_the_factor_of_clipping_is_fused_into_the_update():
    on, with_, _ = train({"allow_fuse_model_update_ops": True}, clip=0.1)
    off, without, _ = train({"allow_fuse_model_update_ops": False}, clip=0.1)
    plain, bare, _ = train({"allow_fuse_elementwise": False}, clip=0.1)
    same(on, off)
    same(on, plain)
    assert with_.count("mul") + sum("mul" in op for op in with_) < without.count("mul") + sum(
        "mul" in op for op in without
    )
    assert any("reciprocal" in op for op in with_) and not any("reciprocal" in op for op in without)
    assert len(bare) > len(without) > len(with_)


def test_a_table_changes_in_the_rows_that_were_looked_up():
    on, with_, graph = train({}, sgd)
    off, without, other = train({"allow_fuse_model_update_ops": False}, sgd)
    same(on, off)
    assert "embedding_backward" in without and "embedding_backward" not in with_ and "index_put" in with_
    same(graph.net.table.weight.flatten().tolist(), other.net.table.weight.flatten().tolist(), rel=1e-4)
    # The table's gradient takes no memory any more, and the rows are added in place.
    assert peak(graph) + 200 * 16 * 4 <= peak(other) + 12 * 3 * 16 * 4 * 2
    assert "write-back" not in str(graph._compiled[next(iter(graph._compiled))].compiled.rows()[0])


class Tables(nn.Module):
    """Bags of rows of several tables, side by side."""

    def __init__(self) -> None:
        super().__init__()
        flow.manual_seed(0)
        self.tables = nn.ModuleList([nn.Embedding(200, 8) for _ in range(3)])
        self.head = nn.Linear(24, 7)

    def forward(self, ids, target):
        return F.cross_entropy(self.head(flow.cat([t(ids).sum(1) for t in self.tables], 1)), target)


@pytest.mark.parametrize("make", [sgd, adamw])
def test_bags_of_rows_are_summed_as_they_are_looked_up(make):
    on, with_, graph = train({}, make, net=Tables(), steps=20)
    off, without, other = train({"allow_fuse_elementwise": False}, make, net=Tables(), steps=20)
    # Bags of three rows: their sums may round in another order.
    same(on, off)
    same(graph.net.head.weight.flatten().tolist(), other.net.head.weight.flatten().tolist(), rel=1e-3)
    assert with_.count("native_embedding_bag") == 3 and "embedding" not in with_ and "sum" in without
    if make is sgd:
        # The gradients of all bags are scaled at once, and their rows are never expanded.
        assert with_.count("index_put") == 3 and with_.count("mul") == 1 and "embedding" in without


def test_sums_go_into_the_epilogue_of_a_product():
    on, with_, _ = train({"allow_fuse_add_to_output": True})
    off, without, _ = train({"allow_fuse_add_to_output": False})
    same(on, off)
    assert "fused_linear_add" in with_ and "fused_linear_add" not in without
    # The gradients of micro-batches add up in the product too.
    steps = {"set_gradient_accumulation_steps": 2}
    on, with_, _ = train({**steps, "allow_fuse_add_to_output": True}, net=Whole())
    off, without, _ = train({**steps, "allow_fuse_add_to_output": False}, net=Whole())
    same(on, off)
    assert "fused_matmul_add" in with_ and "fused_matmul_add" not in without


class Whole(Net):
    def forward(self, ids, target):
        return super().forward(ids, target).reshape(1)


def test_log_probabilities_are_never_held():
    on, with_, _ = train({})
    off, without, _ = train({"allow_fuse_elementwise": False})
    same(on, off)
    assert "log_softmax" in without and "softmax_backward" in without
    assert not {"log_softmax", "softmax_backward", "scatter_add", "gather"} & set(with_)
    assert {"native_cross_entropy", "cross_entropy_backward"} <= set(with_)


def test_a_class_out_of_range_is_an_error_still():
    _, _, step = train({}, steps=1)
    ids, target = batch()
    with pytest.raises((IndexError, RuntimeError), match="out of"):
        step(ids, target + 7)
    assert step(ids, target).item() > 0


def test_casts_are_fused_with_adjacent_ops():
    amp = {"enable_amp": True}
    on, with_, _ = train({**amp, "allow_fuse_cast_scale": True})
    off, without, _ = train({**amp, "allow_fuse_cast_scale": False})
    same(on, off, rel=2e-2)
    assert with_.count("to_copy") < without.count("to_copy")
    assert any("to_copy+" in op or "+to_copy" in op for op in with_)


@pytest.mark.parametrize("memory_format", [flow.contiguous_format, flow.channels_last])
def test_chains_form_in_any_order_of_memory(memory_format):
    x, scale = flow.randn(2, 3, 5, 4), flow.randn(1, 3, 1, 1)

    def step(x):
        x = x.contiguous(memory_format=memory_format)
        return F.relu(x * scale + 1).sqrt() - x

    class Chain(nn.Graph):
        def build(self, x):
            return step(x)

    graph = Chain()
    y, eager = graph(x), step(x)
    assert ops(graph)[-1] == "mul+add+relu+sqrt+sub"
    assert flow.equal(y, eager) and y.stride() == eager.stride()


def test_values_of_two_memory_orders_are_not_fused():
    x, y = flow.randn(2, 3, 5, 4), flow.randn(2, 3, 5, 4)

    def step(x, y):
        y = y.contiguous(memory_format=flow.channels_last)
        return (x + 1).exp() * (y + 1).exp(), y.exp() + 1

    class Two(nn.Graph):
        def build(self, x, y):
            return step(x, y)

    for made, eager in zip(Two()(x, y), step(x, y), strict=True):
        assert flow.equal(made, eager) and made.stride() == eager.stride()


def test_one_update_or_one_for_each_parameter():
    one, with_, graph = train({"enable_multi_tensor_update": True}, net=Net(64))
    each, without, other = train({"enable_multi_tensor_update": False}, net=Net(64))
    assert one == each
    count = len(list(Net().parameters()))
    assert with_.count("_fused_update_") + with_.count("_fused_adamw_") == 1
    assert without.count("_fused_update_") + without.count("_fused_adamw_") == count
    # Gradients do not wait for each other.
    assert peak(other) < peak(graph)


class Wide(nn.Module):
    """Weights that are worth an update each, and a few small parameters."""

    def __init__(self) -> None:
        super().__init__()
        flow.manual_seed(0)
        self.layers = nn.ModuleList([nn.Linear(256, 256) for _ in range(3)])
        self.head = nn.Linear(256, 7)

    def forward(self, ids, target):
        x = flow.ones(12, 256) * ids.sum(1, keepdim=True) / 600
        for layer in self.layers:
            x = F.relu(layer(x))
        return F.cross_entropy(self.head(x), target)


@pytest.mark.parametrize("make", [sgd, adamw])
def test_updates_run_where_gradients_are_made(make):
    early, with_, graph = train({}, make, net=Wide())
    late, without, other = train({"enable_straighten_algorithm": "Disable"}, make, net=Wide())
    assert early == late
    for a, b in zip(graph.net.parameters(), other.net.parameters(), strict=True):
        assert flow.equal(a, b)
    updates = [i for i, op in enumerate(with_) if op.startswith("_fused_")]
    assert len(updates) == 4 and sum(op.startswith("_fused_") for op in without) == 1
    # A product lies between two updates: they do not wait for the last gradient, and free their own.
    assert all("matmul" in with_[a:b] for a, b in itertools.pairwise(updates[:-1]))
    assert peak(graph) < peak(other)
    # Clipping needs all gradients first.
    _, clipped, _ = train({}, make, net=Wide(), clip=0.1)
    assert sum(op.startswith("_fused_") for op in clipped) == 1


def test_parameters_are_kept_in_the_half_type_they_are_read_in():
    amp = {"enable_amp": (True,)}
    on, with_, graph = train({**amp, "enable_fused_model_update_cast": True})
    off, _, other = train({**amp, "enable_fused_model_update_cast": False})
    same(on, off, rel=1e-6)
    assert 'variable "net.first.weight.float16"' in repr(graph) and "weight.float16" not in repr(other)
    assert with_.index("_fused_update_") < len(with_) - 1 - with_[::-1].index("to_copy")
    # A write from outside is seen.
    for g in (graph, other):
        with flow.no_grad():
            g.net.head.weight.mul_(0.5)
    same(graph(*batch()).item(), other(*batch()).item(), rel=1e-6)


def test_registers_of_results():
    sizes = {}
    for size in (1, 3):
        _, _, graph = train({"set_outputs_buffer_size": size}, steps=1)
        kept = [graph(*batch()) for _ in range(6)]
        values = [k.item() for k in kept]
        assert values == [k.item() for k in kept] and len(set(values)) == 6
        sizes[size] = dict(next(iter(graph._compiled.values())).compiled.registers())["result"]
    assert sizes == {1: 1, 3: 3}
    for bad in (0, -1, 1.5, True):
        with pytest.raises(ValueError, match="positive integer"):
            nn.graph.GraphConfig().set_outputs_buffer_size(bad)


# An argument of every method of GraphConfig, and its visible effect: in the options a program is compiled
# with, by an error that names the method, or by a warning that it has no effect.
HEARD = {
    "allow_fuse_add_to_output": False,
    "allow_fuse_attention": False,
    "allow_fuse_cast_scale": False,
    "allow_fuse_elementwise": False,
    "allow_fuse_model_update_ops": False,
    "allow_precompute": False,
    "enable_amp": True,
    "enable_choose_best_memory_allocation": False,
    "enable_compress_memory": True,
    "enable_fused_model_update_cast": True,
    "enable_multi_tensor_update": False,
    "enable_straighten_algorithm": "Disable",
    "enable_zero": True,
    "enable_auto_parallel": True,
    "enable_auto_parallel_ignore_user_sbp_config": True,
    "set_auto_parallel_computation_cost_ratio": 2.0,
    "set_auto_parallel_wait_time": 1e3,
    "set_gradient_accumulation_steps": 2,
    "set_outputs_buffer_size": 3,
}


def test_every_setting_works_or_says_that_it_does_not():
    names = [name for name in dir(nn.graph.GraphConfig) if not name.startswith("_") and name != "changes"]
    refused = []
    for name in names:
        config = nn.graph.GraphConfig()
        heard = lambda config: {k: v for k, v in vars(config).items() if k != "changes"}  # noqa: E731
        before = heard(config)
        if name in HEARD:
            getattr(config, name)(HEARD[name])
            assert heard(config) != before, name
            continue
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                getattr(config, name)()
            except (NotImplementedError, RuntimeError) as error:
                assert name in str(error)
                refused.append(name)
                continue
        # Once a process: another test may have been the first.
        assert name in repr(config) and all("has no effect: " in str(w.message) for w in said)
    assert "enable_zero" not in refused and "enable_auto_memory" in refused
    assert "enable_auto_parallel" not in refused and "enable_auto_parallel_trunk_algo" in refused
    nn.graph.GraphConfig().enable_zero(False)
    nn.graph.GraphConfig().enable_auto_memory("Disable")


def test_a_product_keeps_what_its_activation_was_given():
    on, with_, graph = train({})
    off, without, other = train({"allow_fuse_elementwise": False})
    same(on, off)
    assert "fused_linear_keep" in with_ and "gelu" not in with_ and "gelu_backward" in with_
    assert "gelu" in without and "linear" in without
    same(graph.net.first.weight.flatten().tolist(), other.net.first.weight.flatten().tolist(), rel=1e-3)


class Sums(nn.Module):
    """A sum that no product computes, normalised and read again."""

    def __init__(self) -> None:
        super().__init__()
        flow.manual_seed(0)
        self.table, self.place, self.norm = nn.Embedding(200, 16), nn.Embedding(200, 16), nn.LayerNorm(16)
        self.head = nn.Linear(16, 7)

    def forward(self, ids, target):
        x = self.table(ids[:, 0]) + self.place(ids[:, 1])
        return F.cross_entropy(self.head(x + self.norm(x)), target)


@pytest.mark.parametrize("memory_format", ["contiguous_format", "channels_last"])
@pytest.mark.parametrize("name", ["relu", "relu6", "silu", "hardswish", "gelu"])
def test_a_convolution_ends_with_its_activation(name, memory_format):
    """A window, a single tap, one channel a group; without a bias, with one, and in a half type."""
    format, f = getattr(flow, memory_format), getattr(nn.functional, name)
    convs = [
        nn.Conv2d(6, 20, 3, padding=1),
        nn.Conv2d(20, 36, 1, bias=False),
        nn.Conv2d(36, 36, 5, stride=2, padding=2, groups=36),
        nn.Conv2d(36, 16, 3, groups=2),
    ]
    net = nn.ModuleList(convs).eval()

    class Forward(nn.Graph):
        def __init__(self):
            super().__init__()
            self.net = net

        def build(self, x):
            for conv in self.net:
                x = f(conv(x))
            return x

    for dtype, tol in [(flow.float32, 1e-5), (flow.float64, 1e-12), (flow.bfloat16, 2e-2)]:
        net.to(dtype)
        x = flow.randn(2, 6, 15, 17, dtype=dtype).contiguous(memory_format=format)
        with flow.no_grad():
            graph, y = Forward(), x
            out = graph(x)
            for conv in convs:
                y = f(conv(y))
        assert repr(graph).count("native_conv_activation(") == len(convs), repr(graph)
        flow.testing.assert_close(out, y, rtol=tol, atol=tol)


def test_a_convolution_whose_result_is_read_twice_keeps_it():
    conv = nn.Conv2d(3, 4, 3)

    class Both(nn.Graph):
        def build(self, x):
            y = conv(x)
            return y, y.relu()

    graph = Both()
    y, activated = graph(flow.randn(1, 3, 8, 8))
    assert "native_conv_activation" not in repr(graph)
    assert flow.equal(activated, y.relu())


def test_a_sum_that_is_normalised_is_made_by_the_norm():
    on, with_, _ = train({"allow_fuse_add_to_output": True}, net=Sums())
    off, without, _ = train({"allow_fuse_add_to_output": False}, net=Sums())
    assert on == off
    assert "fused_add_layer_norm" in with_ and "native_layer_norm" not in with_
    assert "native_layer_norm" in without and "fused_add_layer_norm" not in without


def scaled(fused, scale, divide, clip=None):
    """Losses and ops of steps whose gradients are all scaled by a number, and then maybe clipped."""
    net = Net()

    class Step(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.net = net
            self.add_optimizer(flow.optim.SGD(net.parameters(), lr=0.1, momentum=0.9))
            self.config.allow_fuse_model_update_ops(fused)

        def build(self, *inputs):
            loss = self.net(*inputs)
            loss.backward()
            for p in self.net.parameters():
                p.grad.div_(1 / scale) if divide else p.grad.mul_(scale)
            if clip is not None:
                nn.utils.clip_grad_norm_(self.net.parameters(), clip)
            return loss

    step = Step()
    losses = [step(*batch()).item() for _ in range(6)]
    return losses, sum(len(re.findall("mul|div", op)) for op in ops(step)), ops(step)


@pytest.mark.parametrize("divide", [False, True])
@pytest.mark.parametrize("scale", [0.25, 3.0])
def test_a_scale_of_all_gradients_is_fused_into_the_update(scale, divide):
    on, factors, with_ = scaled(True, scale, divide)
    off, others, without = scaled(False, scale, divide)
    same(on, off)
    count = len(list(Net().parameters()))
    assert factors == others - count and "full" in with_ and "full" not in without
    # The norm that is clipped reads the scaled gradients: only the last factor moves.
    on, factors, _ = scaled(True, scale, divide, clip=0.5)
    off, others, _ = scaled(False, scale, divide, clip=0.5)
    same(on, off)
    assert factors == others - count


def test_a_gradient_scaler_divides_in_the_update():
    """Unscaling needs no pass over the gradients: the update gets the scale."""
    net = Net()

    class Step(nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.net = net
            self.add_optimizer(flow.optim.AdamW(net.parameters(), lr=1e-2))
            self.set_grad_scaler(flow.amp.GradScaler("cpu", init_scale=1024.0))

        def build(self, *inputs):
            loss = self.net(*inputs)
            loss.backward()
            return loss

    step = Step()
    losses = [step(*batch()).item() for _ in range(6)]
    same(losses, train({})[0])
    update = next(line for line in repr(step).split("\n") if "_fused_update_(" in line)
    scale = re.search(r"(%\d+): float32\[\] = variable", repr(step)[repr(step).index("graph ") :])
    assert scale is not None and scale[1] in update
