"""utils.checkpoint: gradients, memory, random numbers, determinism, compared with PyTorch."""

import oneflow as flow
import pytest
import torch
from oneflow.utils.checkpoint import checkpoint as our_checkpoint
from torch.utils.checkpoint import checkpoint as their_checkpoint
from torch_oracle import both


def of(fw):
    return our_checkpoint if fw is flow else their_checkpoint


def rounded(t):
    return [round(v, 4) for v in t.flatten().tolist()]


def model(fw):
    net = fw.nn.Sequential(fw.nn.Linear(3, 4), fw.nn.Tanh(), fw.nn.Linear(4, 2))
    with fw.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(fw.linspace(-1, 1, p.numel()).view(p.shape) * (i + 1) / 4)
    return net


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients(reentrant):
    def run(fw):
        net = model(fw)
        x = fw.linspace(-1, 1, 6).view(2, 3).requires_grad_()
        y = of(fw)(net, x, use_reentrant=reentrant)
        (y * y).sum().backward()
        return rounded(y), rounded(x.grad), [rounded(p.grad) for p in net.parameters()]

    both(run)


@pytest.mark.parametrize("reentrant", [True, False])
def test_function_runs_twice_and_draws_the_same(reentrant):
    for fw in (flow, torch):
        drawn = []

        def f(x, fw=fw, drawn=drawn):
            r = fw.rand(3)
            drawn.append(r.tolist())
            return x * r

        fw.manual_seed(0)
        x = fw.ones(3, requires_grad=True)
        y = of(fw)(f, x, use_reentrant=reentrant)
        after = fw.rand(1).item()
        y.sum().backward()
        assert len(drawn) == 2 and drawn[0] == drawn[1] == x.grad.tolist()
        fw.manual_seed(0)
        fw.rand(3)
        assert fw.rand(1).item() == after
        assert fw.rand(1).item() not in drawn[0]


def test_keywords_nests_and_second_derivatives():
    def run(fw):
        def f(x, *, scale, more):
            return {"y": (x * scale).sin() * more["w"], "n": 3}

        x = fw.tensor([0.5, 1.0], requires_grad=True)
        w = fw.tensor([2.0, 3.0], requires_grad=True)
        out = of(fw)(f, x, scale=2.0, more={"w": w}, use_reentrant=False)
        (g,) = fw.autograd.grad(out["y"].sum(), x, create_graph=True)
        out["y"].sum().backward()
        return rounded(g), rounded(x.grad), rounded(w.grad), out["n"]

    both(run)


def test_nested():
    def run(fw):
        calls = []

        def inner(x):
            calls.append("inner")
            return x.exp().sin()

        def outer(x):
            calls.append("outer")
            return of(fw)(inner, x * 2, use_reentrant=False) * x

        x = fw.tensor([0.5, 1.0], requires_grad=True)
        of(fw)(outer, x, use_reentrant=False).sum().backward()
        return rounded(x.grad), sorted(set(calls))

    both(run)


def test_partial_gradients():
    def run(fw):
        x, w = fw.tensor([2.0], requires_grad=True), fw.tensor([3.0], requires_grad=True)
        y = of(fw)(lambda a, b: a * b * b, x, w, use_reentrant=False)
        (g,) = fw.autograd.grad(y, w)
        z = of(fw)(lambda a, b: a * b * b, x, w, use_reentrant=True)
        with pytest.raises(RuntimeError, match="incompatible with"):
            fw.autograd.grad(z, w)
        return rounded(g)

    both(run)


def test_determinism_is_checked():
    def run(fw):
        calls = [0]

        def f(x):
            calls[0] += 1
            return x.exp().sin() if calls[0] == 1 else x.exp()

        x = fw.ones(2, requires_grad=True)
        with pytest.raises(RuntimeError) as e:
            of(fw)(f, x, use_reentrant=False).sum().backward()

        def g(x):
            calls[0] += 1
            return (x[:1] if calls[0] % 2 else x).exp()

        calls[0] = 0
        with pytest.raises(RuntimeError) as h:
            of(fw)(g, x, use_reentrant=False).sum().backward()
        return (
            type(e.value).__name__,
            "A different number of tensors was saved" in str(e.value),
            type(h.value).__name__,
            "have different metadata" in str(h.value),
        )

    both(run)


def test_backward_twice():
    def run(fw):
        x = fw.ones(2, requires_grad=True)
        y = of(fw)(lambda x: (x * x).exp(), x, use_reentrant=False).sum()
        y.backward(retain_graph=True)
        first = rounded(x.grad)
        y.backward()
        return first, rounded(x.grad)

    both(run)


def test_less_is_kept():
    """Between forward and backward only the arguments are alive."""
    import gc

    def alive(run):
        gc.collect()
        x = flow.ones(64, 64, requires_grad=True)
        kept = []

        def pack(t):
            kept.append(t.numel())
            return t

        with flow.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            y = run(x)
        del y
        return len(kept)

    def deep(x):
        for _ in range(5):
            x = (x * x).sin()
        return x

    assert alive(deep) > 5
    assert alive(lambda x: our_checkpoint(deep, x, use_reentrant=False)) == 0


def test_sequential():
    def run(fw):
        sequential = fw.utils.checkpoint.checkpoint_sequential
        net = fw.nn.Sequential(*[fw.nn.Tanh() for _ in range(5)])
        x = fw.tensor([0.5, 1.0], requires_grad=True)
        sequential(net, 2, x, use_reentrant=False).sum().backward()
        first = rounded(x.grad)
        sequential(list(net), 3, x, use_reentrant=True).sum().backward()
        return first, rounded(x.grad)

    both(run)


def test_without_recording_and_context():
    def run(fw):
        import contextlib

        log = []

        @contextlib.contextmanager
        def note(name):
            log.append(name)
            yield

        x = fw.ones(2, requires_grad=True)
        with fw.no_grad():
            y = of(fw)(lambda x: x * 2, x, use_reentrant=False)
        z = of(fw)(lambda x: x.exp(), x, use_reentrant=False, context_fn=lambda: (note("now"), note("again")))
        z.sum().backward()
        return y.requires_grad, log

    both(run)


@pytest.mark.parametrize("reentrant", [True, False])
def test_dropout(reentrant):
    def run(fw):
        fw.manual_seed(3)
        x = fw.ones(1000, requires_grad=True)
        y = of(fw)(lambda x: fw.nn.functional.dropout(x, 0.5), x, use_reentrant=reentrant)
        y.sum().backward()
        return (x.grad == y).all().item()

    assert run(flow) and run(torch)
