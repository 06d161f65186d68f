"""`distributed.pipelining`: stages on ranks train as one process does, under every schedule; cut modules."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import oneflow as torch
import oneflow.nn as nn
import pytest
from distributed.processes import free_port, run, torchrun
from oneflow.distributed import pipelining as pp
from oneflow.distributed.pipelining import PipelineStage, SplitPoint, pipe_split, pipeline
from oneflow.distributed.pipelining.schedules import get_schedule_class
from oneflow.testing import run_ranks

# By class: ranks, stages a rank, micro-batches.
CASES = {
    pp.ScheduleGPipe: (2, 1, 4),
    pp.Schedule1F1B: (3, 1, 4),
    pp.ScheduleZBH1: (3, 1, 4),
    pp.ScheduleInterleaved1F1B: (2, 2, 4),
    pp.ScheduleInterleavedZeroBubble: (2, 3, 4),
    pp.ScheduleLoopedBFS: (2, 2, 3),
    pp.ScheduleZBVZeroBubble: (2, 2, 4),
    pp.ScheduleDualPipeV: (2, 2, 5),
}


class Layer(nn.Module):
    """Norms, a weight that is used twice, and a residual: several ways from the input to each parameter."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.norm, self.linear = nn.LayerNorm(8), nn.Linear(8, 8)
        self.double()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.linear(nn.functional.gelu(self.linear(self.norm(x))))


def batches(n: int, rows: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    draw = [torch.randn(rows, 8, generator=generator, dtype=torch.float64) for _ in range(n)]
    return [(x, x.sin()) for x in draw]


def mse(out: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return (out - target).square().mean()


def train(
    schedule: Any, n_ranks: int, n_micro_batches: int, stages_per_rank: int, n_steps: int = 3
) -> list[float] | None:
    """Train this rank's stages; return the losses on the rank of the last stage."""
    rank = torch.distributed.get_rank()
    table = pp.make_table(schedule._name, n_ranks, n_micro_batches, stages_per_rank)
    layers = {k: Layer(k) for k in table.stages_of(rank)}
    stages = [PipelineStage(layer, k, table.n_stages, "cpu") for k, layer in layers.items()]
    single = issubclass(schedule, pp.schedules.PipelineScheduleSingle)
    run = schedule(stages[0] if single else stages, n_micro_batches, loss_fn=mse)
    optimizer = torch.optim.AdamW([p for layer in layers.values() for p in layer.parameters()], lr=1e-2)
    found = []
    for x, y in batches(n_steps, 20):
        optimizer.zero_grad()
        losses: list[torch.Tensor] = []
        last = table.n_stages - 1 in layers
        out = run.step(*[x] * (0 in layers), target=y if last else None, losses=losses)
        assert (out is not None) == last and len(losses) == n_micro_batches * last
        optimizer.step()
        sizes = [len(t) for t in y.tensor_split(n_micro_batches)]
        # Micro-batches of unequal sizes count equally.
        found.append(sum(loss.item() for loss in losses) / n_micro_batches if last else sum(sizes))
    return found if table.n_stages - 1 in layers else None


def alone(n_stages: int, n_micro_batches: int, n_steps: int = 3) -> list[float]:
    model = nn.Sequential(*[Layer(k) for k in range(n_stages)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    found = []
    for x, y in batches(n_steps, 20):
        optimizer.zero_grad()
        parts = zip(x.tensor_split(n_micro_batches), y.tensor_split(n_micro_batches), strict=True)
        loss = sum(mse(model(xs), ys) for xs, ys in parts) / n_micro_batches
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize("schedule", CASES, ids=lambda kind: kind.__name__)
def test_losses_are_those_of_one_process(schedule: Any) -> None:
    n, each, m = CASES[schedule]
    results = run_ranks(n, lambda: train(schedule, n, m, each))
    losses = [r for r in results if r is not None]
    # Three of twenty rows do not divide: messages say their own sizes.
    assert losses == [pytest.approx(alone(n * each, m), rel=1e-12)]


def test_two_processes() -> None:
    body = f"""
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from distributed.test_pipelining import pp, train
dist.init_process_group()
print(train(pp.ScheduleZBVZeroBubble, 2, 4, 2))
"""
    port = free_port()
    results = run(body, [torchrun(rank, 2, port) for rank in range(2)])
    assert results[1][0].strip() == "None", results
    assert eval(results[0][0]) == pytest.approx(alone(4, 4), rel=1e-12), results


def test_a_table_of_ones_own() -> None:
    # Backwards in the order of a stack, weights of the first stage last.
    rows = [["0F0", "0F1", "0I1", "0I0", "0W0", "0W1"], ["1F0", "1F1", "1B1", "1B0"]]
    table = pp.PipelineTable(rows)

    def rank() -> list[list[float]]:
        here = torch.distributed.get_rank()
        layer = Layer(here)
        schedule = pp.ScheduleTable([PipelineStage(layer, here, 2, "cpu")], table, loss_fn=mse, scale_grads=False)
        x, y = batches(1, 4)[0]
        schedule.step(*[x] * (here == 0), target=y if here else None)
        return [p.grad.flatten().tolist() for p in layer.parameters()]

    model = nn.Sequential(Layer(0), Layer(1))
    x, y = batches(1, 4)[0]
    for xs, ys in zip(x.chunk(2), y.chunk(2), strict=True):
        mse(model(xs), ys).backward()
    for k, grads in enumerate(run_ranks(2, rank)):
        assert grads == [pytest.approx(p.grad.flatten().tolist(), rel=1e-12) for p in model[k].parameters()]


class Twice(torch.autograd.Function):
    calls: list[str] = []

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return x * weight * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> Any:
        x, weight = ctx.saved_tensors
        Twice.calls.append("backward")
        return grad * weight * 2, (grad * x * 2).sum(0)


def weighted(x: torch.Tensor, w: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    h = nn.functional.linear(x, w).tanh()
    return nn.functional.linear(h * v, w) + x


@pytest.mark.parametrize("hooked", [False, True])
def test_a_backward_in_halves_has_the_gradients_of_a_whole_one(hooked: bool) -> None:
    def make() -> list[torch.Tensor]:
        torch.manual_seed(0)
        return [torch.randn(s, dtype=torch.float64, requires_grad=True) for s in ((5, 4), (4, 4), (4,))]

    def run(tensors: list[torch.Tensor], seen: list[str]) -> torch.Tensor:
        x, w, v = tensors
        h = weighted(x, w, v)
        if hooked:
            h.register_hook(lambda g: seen.append("tensor") or g * 2)
            h.grad_fn.register_hook(lambda *_: seen.append("node"))
            w.register_post_accumulate_grad_hook(lambda t: seen.append("leaf"))
        return Twice.apply(h.exp(), v)

    whole, halves, seen, seen_halves = make(), make(), [], []
    grad = torch.randn(5, 4, dtype=torch.float64)
    run(whole, seen).backward(grad)
    Twice.calls.clear()
    out = run(halves, seen_halves)
    (of_x,), rest = torch._oneflow._C._backward_inputs([out], [grad], halves[:1])
    assert torch.equal(of_x, whole[0].grad) and halves[1].grad is None and halves[2].grad is None
    rest.run()
    for ours, theirs in zip(halves[1:], whole[1:], strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-12, atol=0)
    # A function of the user and a node with hooks run once.
    assert Twice.calls == ["backward"] and seen_halves == seen
    with pytest.raises(RuntimeError, match="has run already"):
        rest.run()


def test_the_first_half_computes_no_gradient_of_weights() -> None:
    layer = nn.Linear(64, 64)
    x = torch.ones(8, 64, requires_grad=True)
    with torch.profiler.profile() as first:
        _, rest = torch._oneflow._C._backward_inputs([layer(x)], [torch.ones(8, 64)], [x])
    with torch.profiler.profile() as second:
        rest.run()
    products, sums = (
        [{e.key: e.count for e in p.key_averages()}.get(op, 0) for p in (first, second)] for op in ("matmul", "sum")
    )
    # The gradient of the input; then those of the weight and of the bias.
    assert products == [1, 1] and sums == [0, 1]


def test_inference_and_named_arguments() -> None:
    class Scaled(nn.Module):
        def forward(self, x: torch.Tensor, scale: torch.Tensor | float = 1.0) -> torch.Tensor:
            return x * scale

    def rank() -> Any:
        here = torch.distributed.get_rank()
        schedule = pp.Schedule1F1B(PipelineStage(Scaled(), here, 2, "cpu"), 2)
        x = torch.arange(4.0)
        out = [schedule.eval(*[x] * (here == 0), scale=torch.full((4,), 3.0))]
        out.append(schedule.step(*[x] * (here == 0), scale=2.0))
        whole = schedule.step(arg_mbs=[(x,), (x[:1],)] if here == 0 else None, kwarg_mbs=[{"scale": 1.0}] * 2)
        return [None if o is None else o.tolist() for o in [*out, whole]]

    first, second = run_ranks(2, rank)
    assert first == [None] * 3
    assert second == [[0.0, 9.0, 18.0, 27.0], [0.0, 4.0, 8.0, 12.0], [0.0, 1.0, 2.0, 3.0, 0.0]]


# ---- modules cut into stages


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x).relu()


class Net(nn.Module):
    """A residual over all blocks, and an argument that only the last part uses."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
        self.register_buffer("shift", torch.ones(4))
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, weight: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        h = x
        for block in self.blocks:
            h = block(h)
        if mask is not None:
            h = h * mask
        return self.head((h + x + self.shift) * weight)


def test_cut_at_submodules() -> None:
    torch.manual_seed(0)
    net = Net()
    x, weight = torch.randn(3, 4), torch.randn(3, 4)
    spec = {"blocks.1": SplitPoint.BEGINNING, "blocks.1.inner": SplitPoint.END}
    pipe = pipeline(net, (x, weight), split_spec=spec)
    assert pipe.num_stages == 3
    assert torch.equal(pipe(x, weight)[0], net(x, weight))
    names = [sorted(dict(pipe.get_stage_module(k).named_parameters())) for k in range(3)]
    assert names[0] == ["blocks.0.inner.bias", "blocks.0.inner.weight"]
    assert names[1] == ["blocks.1.inner.bias", "blocks.1.inner.weight"]
    assert names[2] == ["blocks.2.inner.bias", "blocks.2.inner.weight", "head.bias", "head.weight"]
    mask = torch.tensor([1.0, 0.0, 1.0, 0.0])
    masked = pipeline(net, (x, weight), {"mask": mask}, split_spec=spec)
    assert torch.equal(masked(x, weight, mask=mask)[0], net(x, weight, mask))


def test_cut_where_forward_says() -> None:
    class Marked(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.blocks[0](x)
            pipe_split()
            return self.head(self.blocks[1](h) + x)

    net, x = Marked(), torch.randn(2, 4)
    pipe = pipeline(net, (x,))
    assert pipe.num_stages == 2 and torch.equal(pipe(x)[0], net(x))

    def policy(traced: Any) -> Any:
        node = next(n for n in traced.graph.nodes if n.op == "call_module" and "head" in str(n.target))
        with traced.graph.inserting_before(node):
            traced.graph.call_function(pipe_split)
        return traced

    assert pipeline(net, (x,), split_policy=policy).num_stages == 3


HALVES = torch.full((4,), 0.5)


def test_a_tensor_may_be_the_default_of_an_input() -> None:
    class Defaults(Net):
        def forward(self, x: torch.Tensor, y: torch.Tensor = HALVES) -> torch.Tensor:
            return self.head(self.blocks[1](self.blocks[0](x) + y))

    net, x, y = Defaults(), torch.randn(2, 4), torch.randn(2, 4)
    spec = {"blocks.1": SplitPoint.BEGINNING}
    assert torch.equal(pipeline(net, (x,), {"y": y}, split_spec=spec)(x, y)[0], net(x, y))
    with pytest.warns(UserWarning, match="y to specialized function"):
        pipe = pipeline(net, (x,), split_spec=spec)
    assert torch.equal(pipe(x)[0], net(x))


def test_a_cut_module_trains_as_the_whole() -> None:
    spec = {"blocks.1": SplitPoint.BEGINNING, "head": SplitPoint.BEGINNING}

    def rank() -> dict[str, list[float]]:
        torch.manual_seed(0)
        net = Net().double()
        x, weight = torch.randn(4, 4, dtype=torch.float64), torch.randn(4, 4, dtype=torch.float64)
        here = torch.distributed.get_rank()
        pipe = pipeline(net, (x[:2], weight[:2]), split_spec=spec)
        schedule = pp.ScheduleZBH1(pipe.build_stage(here, "cpu"), 2, loss_fn=mse)
        schedule.step(*[x, weight] * (here == 0), target=x[:, :2] if here == 2 else None)
        return {name: p.grad.flatten().tolist() for name, p in pipe.get_stage_module(here).named_parameters()}

    torch.manual_seed(0)
    net = Net().double()
    x, weight = torch.randn(4, 4, dtype=torch.float64), torch.randn(4, 4, dtype=torch.float64)
    mse(net(x, weight), x[:, :2]).backward()
    found = {name: grad for part in run_ranks(3, rank) for name, grad in part.items()}
    assert set(found) == {name for name, _ in net.named_parameters()}
    for name, p in net.named_parameters():
        assert found[name] == pytest.approx(p.grad.flatten().tolist(), rel=1e-12, abs=1e-15)


# ---- bad input


def test_cuts_that_cannot_be() -> None:
    net, x = Net(), torch.randn(2, 4)
    with pytest.raises(ValueError, match=r"the forward calls no submodule 'blocks\.7'"):
        pipeline(net, (x, x), split_spec={"blocks.7": SplitPoint.END})
    with pytest.raises(ValueError, match=r"do not fit Net\.forward"):
        pipeline(net, (x,), split_spec={"head": SplitPoint.BEGINNING})
    with pytest.raises(ValueError, match="stage 0 of 2 has nothing to do"):
        pipeline(nn.Sequential(nn.ReLU()), (x,), split_spec={"0": SplitPoint.BEGINNING})
    with pytest.raises(ValueError, match="Cannot specify both"):
        pipeline(net, (x, x), split_spec={}, split_policy=lambda g: g)
    with pytest.raises(TypeError, match="must be a SplitPoint"):
        pipeline(net, (x, x), split_spec={"head": 1})
    shared = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))
    shared[2].weight = shared[0].weight
    with pytest.raises(NotImplementedError, match=r"stages 0 and 1 share the parameter '0\.weight'"):
        pipeline(shared, (x,), split_spec={"2": SplitPoint.BEGINNING})
    with pytest.raises(ValueError, match="Invalid stage index 5"):
        pipeline(net, (x, x)).get_stage_module(5)


def test_schedules_that_cannot_be() -> None:
    stage = PipelineStage(nn.ReLU(), 0, 1, "cpu")
    with pytest.raises(ValueError, match=r"stage_index must be in \[0, 2\), got 2"):
        PipelineStage(nn.ReLU(), 2, 2, "cpu")
    with pytest.raises(NotImplementedError, match="dw_builder"):
        PipelineStage(nn.ReLU(), 0, 1, "cpu", dw_builder=lambda: None)
    with pytest.raises(ValueError, match="the stages count 3 stages, and the table has 1"):
        pp.ScheduleGPipe(PipelineStage(nn.ReLU(), 0, 3, "cpu"), 2)
    with pytest.raises(ValueError, match="the table is for 2 ranks, and the group has 1"):
        pp.ScheduleTable([stage], pp.make_table("1F1B", 2, 2))
    with pytest.raises(ValueError, match=r"has stages \[0, 1\], got \[0, 0\]"):
        two = PipelineStage(nn.ReLU(), 0, 2, "cpu")
        pp.ScheduleZBVZeroBubble([two, two], 2)
    with pytest.raises(NotImplementedError, match="max_active_stages=7"):
        pp.ScheduleInterleaved1F1B([stage], 2, max_active_stages=7)
    with pytest.raises(TypeError, match="loss_fn must be callable"):
        pp.ScheduleGPipe(stage, 2, loss_fn=3)
    with pytest.raises(ValueError, match="cannot be cut into 4 micro-batches"):
        pp.ScheduleGPipe(stage, 4).step(torch.ones(3, 2))
    with pytest.raises(ValueError, match="not both"):
        pp.ScheduleGPipe(stage, 2).step(torch.ones(2), arg_mbs=[(), ()])
    with pytest.raises(ValueError, match="arg_mbs has 1 entries for 2 micro-batches"):
        pp.ScheduleGPipe(stage, 2).step(arg_mbs=[()])
    with torch.no_grad(), pytest.raises(RuntimeError, match="gradients are off"):
        pp.ScheduleGPipe(stage, 2, loss_fn=mse).step(torch.ones(2), target=torch.ones(2))
    assert get_schedule_class("1f1b") is pp.Schedule1F1B
    assert get_schedule_class("PipelineScheduleMulti") is pp.schedules.PipelineScheduleMulti


def test_errors_name_the_stage() -> None:
    def rank() -> str:
        here = torch.distributed.get_rank()
        like = torch.ones(1, 2) if here == 0 else torch.ones(1, 3)
        stage = PipelineStage(nn.Identity(), here, 2, "cpu", input_args=like)
        try:
            pp.ScheduleGPipe(stage, 2).step(*[torch.ones(2, 2)] * (here == 0))
        except RuntimeError as error:
            return str(error)
        return ""

    first, second = run_ranks(2, rank)
    assert first == "" and "pipeline stage 1 takes [((1, 2), " in second
    assert "in the forward of pipeline stage 1, micro-batch 0" in second
