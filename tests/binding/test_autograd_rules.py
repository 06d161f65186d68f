"""Rules of autograd compared with PyTorch: views and histories, kept gradients, custom functions, forward mode."""

import oneflow as flow
import pytest
import torch


def listed(value):
    if isinstance(value, (tuple, list)):
        return [listed(v) for v in value]
    return value.detach().tolist() if hasattr(value, "detach") else value


def both(f):
    """Check that `f` returns the same in both packages; an error counts as its class."""
    results = []
    for fw in (flow, torch):
        try:
            results.append(listed(f(fw)))
        except (RuntimeError, TypeError, ValueError) as e:
            results.append(type(e).__name__)
    ours, theirs = results
    assert ours == pytest.approx(theirs) if isinstance(theirs, float) else ours == theirs
    return ours


# ---- views of memory that takes part in a gradient later


def view_then_write_base(fw):
    base, w = fw.zeros(3), fw.ones(3, requires_grad=True)
    view = base[:2]
    base.add_(w)
    (view * 3).sum().backward()
    return view.requires_grad, view.is_leaf, w.grad


def view_then_write_view(fw):
    base, w = fw.zeros(4), fw.ones(2, requires_grad=True)
    first, second = base[:2], base[1:3]
    first.mul_(0).add_(w)
    second.sum().backward()
    return base.requires_grad, second.requires_grad, second.grad_fn is not None, w.grad


def view_then_requires_grad(fw):
    base = fw.ones(3)
    view = base[1:]
    base.requires_grad_()
    (view * 2).sum().backward()
    return view.requires_grad, view.is_leaf, base.grad


def view_of_int_bits(fw):
    base, w = fw.zeros(2), fw.ones(2, requires_grad=True)
    view = base.view(fw.int32)
    base.add_(w)
    return view.requires_grad, view.is_leaf


def view_after_detach(fw):
    base, w = fw.zeros(3), fw.ones(3, requires_grad=True)
    view = base.detach()[:2]
    base.add_(w)
    return view.requires_grad, view


def view_in_no_grad(fw):
    x = fw.ones(3, requires_grad=True)
    base = x * 1
    with fw.no_grad():
        view = base[:2]
    return view.requires_grad, view.add_(1)


def same_object_in_no_grad(fw):
    x = fw.ones(4, requires_grad=True) * 1
    view = x[:2]
    with fw.no_grad():
        same = view.contiguous()
    same.add_(1)
    return same is view, x


# ---- kept gradients


def retain_twice(fw):
    x = fw.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    z = y * 3
    z.sum().backward(retain_graph=True)
    first = y.grad
    z.sum().backward()
    return first, y.grad, x.grad


def retain_then_write(fw):
    x = fw.ones(2, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y.mul_(5)
    (y * 3).sum().backward()
    return y.retains_grad, y.grad, x.grad


def retain_then_write_a_view(fw):
    x = fw.ones(3, requires_grad=True)
    y = x * 2
    y.retain_grad()
    y[0].mul_(5)
    (y * 3).sum().backward()
    return y.retains_grad, y.grad, x.grad


# ---- custom functions


def function(fw, **methods):
    return type("Own", (fw.autograd.Function,), {k: staticmethod(v) for k, v in methods.items()})


def dirty_view(fw):
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    own = function(fw, forward=forward, backward=lambda ctx, g: g * 2)
    x = fw.ones(3, requires_grad=True)
    base = x * 1
    own.apply(base[:2])
    (base * base).sum().backward()
    return base, x.grad


def dirty_base_of_a_view(fw):
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    own = function(fw, forward=forward, backward=lambda ctx, g: g * 2)
    x = fw.ones(3, requires_grad=True)
    base = x * 1
    view = base[:2]
    own.apply(base)
    (view * 3).sum().backward()
    return view, x.grad


def gradient_of_another_dtype(fw):
    own = function(fw, forward=lambda ctx, x: x * 2, backward=lambda ctx, g: g.double() * 2)
    x = fw.ones(2, requires_grad=True)
    own.apply(x).sum().backward()
    return x.grad, str(x.grad.dtype).split(".")[-1]


def gradient_of_a_larger_shape(fw):
    own = function(fw, forward=lambda ctx, x: x * 2, backward=lambda ctx, g: g.expand(3, 2))
    x = fw.ones(2, requires_grad=True)
    own.apply(x).sum().backward()
    return x.grad


def root_gradient_of_another_dtype(fw):
    x = fw.ones(2, requires_grad=True)
    y = x * 2
    y.backward(fw.ones(2, dtype=fw.float64))
    return x.grad, str(x.grad.dtype).split(".")[-1]


def function_with_jvp(fw):
    def forward(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)
        return x * y, x + y

    def jvp(ctx, dx, dy):
        x, y = ctx.saved_tensors
        dx = fw.zeros_like(x) if dx is None else dx
        dy = fw.zeros_like(y) if dy is None else dy
        # Not what backward says, to see which one is asked.
        return 10 * (dx * y + x * dy), dx + dy

    def backward(ctx, g, h):
        x, y = ctx.saved_tensors
        return g * y + h, g * x + h

    own = function(fw, forward=forward, backward=backward, jvp=jvp)
    x, y = fw.tensor([2.0, 3.0]), fw.tensor([5.0, 7.0])
    forward_ad = fw.autograd.forward_ad
    with forward_ad.dual_level():
        a, b = own.apply(forward_ad.make_dual(x, fw.tensor([1.0, 2.0])), y)
        tangents = [forward_ad.unpack_dual(a.sin()).tangent / a.cos(), forward_ad.unpack_dual(b).tangent]
    x.requires_grad_()
    own.apply(x, y)[0].sum().backward()
    return [[round(v, 4) for v in t.tolist()] for t in tangents], x.grad


def function_without_jvp_but_func(fw):
    def forward(x):
        return x * x

    def setup_context(ctx, inputs, output):
        ctx.save_for_forward(inputs[0])
        ctx.save_for_backward(inputs[0])

    own = function(
        fw,
        forward=forward,
        setup_context=setup_context,
        jvp=lambda ctx, t: 2 * ctx.saved_tensors[0] * t,
        backward=lambda ctx, g: 2 * ctx.saved_tensors[0] * g,
    )
    own.generate_vmap_rule = True
    x = fw.tensor([2.0, 3.0])
    value, tangent = fw.func.jvp(own.apply, (x,), (fw.ones(2),))
    return value, tangent, fw.func.jacfwd(own.apply)(x), fw.func.hessian(lambda x: own.apply(x).sum())(x)


def function_with_vmap(fw):
    seen = []

    def vmap(info, in_dims, x, k):
        seen.append((info.batch_size, info.randomness, in_dims[1], x.dim()))
        return Own.apply(x.movedim(in_dims[0], 0), k) + 100, 0

    Own = function(
        fw,
        forward=lambda x, k: x * k,
        setup_context=lambda ctx, inputs, output: setattr(ctx, "k", inputs[1]),
        backward=lambda ctx, g: (g * ctx.k, None),
        vmap=vmap,
    )
    x = fw.arange(6.0).reshape(2, 3)
    out = fw.func.vmap(lambda x: Own.apply(x, 3))(x)
    inner = fw.func.vmap(lambda x: Own.apply(x, 2).sum(), in_dims=1)(x)
    return out, inner, seen


RULES = [
    view_then_write_base,
    view_then_write_view,
    view_then_requires_grad,
    view_of_int_bits,
    view_after_detach,
    view_in_no_grad,
    same_object_in_no_grad,
    retain_twice,
    retain_then_write,
    retain_then_write_a_view,
    dirty_view,
    dirty_base_of_a_view,
    gradient_of_another_dtype,
    gradient_of_a_larger_shape,
    root_gradient_of_another_dtype,
    function_with_jvp,
    function_without_jvp_but_func,
    function_with_vmap,
]


@pytest.mark.filterwarnings("ignore:`torch.jit.script`")
@pytest.mark.parametrize("rule", RULES, ids=lambda f: f.__name__)
def test_rule(rule):
    both(rule)


def test_real_tensors_are_their_own_conjugate():
    x = flow.ones(2, requires_grad=True)
    assert x.conj() is x
    assert flow.real(x) is x
    assert x.grad_fn is None
    x = x * 2
    node = x.grad_fn
    assert x.conj().grad_fn == node
