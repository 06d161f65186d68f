"""Gradients as Python sees them: functions, hooks, nodes, modes, errors and exceptions on the way."""

import gc
import weakref

import oneflow as flow
import pytest
import torch
from torch_oracle import both


def exp_function(fw):
    class Exp(fw.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            y = (x * scale).exp()
            ctx.save_for_backward(y)
            ctx.scale = scale
            return y

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            assert ctx.needs_input_grad == (True, False)
            return g * y * ctx.scale, None

    return Exp


def test_function():
    def run(fw):
        x = fw.tensor([0.0, 1.0], requires_grad=True)
        y = exp_function(fw).apply(x, 2.0)
        y.sum().backward()
        return [round(v, 4) for v in x.grad.tolist()]

    both(run)


def test_function_twice():
    def run(fw):
        x = fw.tensor([0.5], requires_grad=True)
        y = exp_function(fw).apply(x, 2.0)
        (g,) = fw.autograd.grad(y, x, create_graph=True)
        (h,) = fw.autograd.grad(g, x)
        return [round(v, 3) for v in (*g.tolist(), *h.tolist())]

    both(run)


def test_function_with_several_outputs_and_setup_context():
    def run(fw):
        class Both(fw.autograd.Function):
            @staticmethod
            def forward(x, y):
                return x + y, x * y, 3

            @staticmethod
            def setup_context(ctx, inputs, output):
                ctx.save_for_backward(*inputs)

            @staticmethod
            def backward(ctx, g0, g1, g2):
                x, y = ctx.saved_tensors
                assert g2 is None
                return g0 + g1 * y, g0 + g1 * x

        x, y = fw.ones(2, requires_grad=True), fw.full((2,), 3.0, requires_grad=True)
        s, p, n = Both.apply(x, y)
        assert n == 3
        (s.sum() + (p * p).sum()).backward()
        return x.grad.tolist(), y.grad.tolist()

    both(run)


def test_function_with_an_unused_output_gets_zeros():
    def run(fw):
        class Two(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, a, b):
                return a * 2 + b * 3

        x = fw.ones(2, requires_grad=True)
        Two.apply(x)[1].sum().backward()
        return x.grad.tolist()

    both(run)


def test_function_in_place_and_without_gradient():
    def run(fw):
        class Double(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x.mul_(2)
                ctx.mark_dirty(x)
                return x

            @staticmethod
            def backward(ctx, g):
                return g * 2

        class Floor(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                y = x.floor()
                ctx.mark_non_differentiable(y)
                return y, x * 1

            @staticmethod
            def backward(ctx, a, b):
                return b

        leaf = fw.ones(2, requires_grad=True)
        y = leaf * 1
        z = Double.apply(y)
        assert z is y
        z.sum().backward()
        f, same = Floor.apply(leaf)
        return leaf.grad.tolist(), f.requires_grad, same.requires_grad

    both(run)


@pytest.mark.parametrize(
    "returned",
    [
        lambda g: (g, g, g),
        lambda g: (),
        lambda g: "text",
        lambda g: (g, g),
        lambda g: (g[:1].expand(5), None),
    ],
)
def test_wrong_gradients(returned):
    def run(fw):
        class Bad(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x, k):
                return x * k

            @staticmethod
            def backward(ctx, g):
                return returned(g)

        Bad.apply(fw.ones(2, requires_grad=True), 2).sum().backward()

    with pytest.raises(Exception) as theirs:
        run(torch)
    with pytest.raises(theirs.type):
        run(flow)


def test_an_exception_in_backward_comes_through():
    class Boom(Exception):
        pass

    class Bad(flow.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise Boom("mine")

    y = Bad.apply(flow.ones(2, requires_grad=True)).sum()
    with pytest.raises(Boom, match="mine"):
        y.backward()
    x = flow.ones(2, requires_grad=True)
    x.register_hook(lambda g: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        (x * 2).sum().backward()
    assert (flow.ones(1) + 1).item() == 2


def test_hooks():
    def run(fw):
        seen = []
        x = fw.ones(2, requires_grad=True)
        y = x * 3
        h = x.register_hook(lambda g: g * 10)
        y.register_hook(lambda g: seen.append(g.tolist()))
        x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
        y.retain_grad()
        y.sum().backward()
        h.remove()
        (x * 1).sum().backward()
        return x.grad.tolist(), y.grad.tolist(), seen

    both(run)


def test_a_hook_must_return_a_tensor():
    x = flow.ones(2, requires_grad=True)
    x.register_hook(lambda g: "text")
    with pytest.raises(TypeError):
        (x * 2).sum().backward()


def test_nodes():
    x = flow.ones(2, requires_grad=True)
    y = (x + 1) * 2
    assert y.grad_fn.name() == "MulBackward0" and x.grad_fn is None and not y.is_leaf and x.is_leaf
    (add, nr), *_ = y.grad_fn.next_functions
    assert add.name() == "AddBackward0" and nr == 0
    assert add.next_functions[0][0].variable is x
    assert y.grad_fn == y.grad_fn and hash(y.grad_fn) == hash(y.grad_fn)
    assert "MulBackward0" in repr(y.grad_fn)


def test_grad_arguments():
    def run(fw):
        x, y = fw.ones(2, requires_grad=True), fw.ones(2, requires_grad=True)
        z = (x * 3).sum()
        got = fw.autograd.grad(z, [x, y], allow_unused=True)
        return got[0].tolist(), got[1] is None, x.grad is None

    both(run)
    x, y = flow.ones(2, requires_grad=True), flow.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="not have been used"):
        flow.autograd.grad((x * 3).sum(), [x, y])
    (x * y).sum().backward(inputs=[x])
    assert x.grad is not None and y.grad is None
    with pytest.raises(RuntimeError):
        (x * y).sum().backward(inputs=[])


def test_modes():
    x = flow.ones(2, requires_grad=True)
    with flow.no_grad():
        assert not (x * 2).requires_grad
        with flow.enable_grad():
            assert (x * 2).requires_grad
    with flow.inference_mode():
        y = x * 2
    assert not y.requires_grad and y.is_inference()
    with pytest.raises(RuntimeError):
        y * x
    assert (x * 2).requires_grad


def test_what_backward_frees():
    x = flow.ones(4, requires_grad=True)
    kept = x.exp()
    alive = weakref.ref(kept)
    loss = (kept * kept).sum()
    del kept
    loss.backward()
    gc.collect()
    assert alive() is None
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_a_context_is_freed_with_its_graph():
    held = []

    class Keep(flow.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            held.append(weakref.ref(ctx))
            ctx.save_for_backward(x)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    y = Keep.apply(flow.ones(2, requires_grad=True))
    gc.collect()
    assert held[0]() is not None
    del y
    gc.collect()
    assert held[0]() is None


def test_a_long_chain_is_freed_without_recursion():
    x = flow.ones(1, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1.0
    y.backward()
    assert x.grad.item() == 1
    del y
    gc.collect()
