"""Undefined gradients, writes of custom functions, hooks of views, second derivatives at zeros: beside PyTorch."""

import warnings

import oneflow as flow
import pytest
import torch
from oneflow.autograd import gradcheck, gradgradcheck


def answer(f, fw):
    """What a program gives: numbers, and the sentence of an error without names of ops and packages."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = f(fw)
        except (RuntimeError, TypeError, NotImplementedError) as error:
            result = (type(error).__name__, str(error).replace("Backward0", "")[:160])
    said = [str(w.message)[:60] for w in caught if w.category is UserWarning]
    return plain(result), said


def plain(value):
    if hasattr(value, "detach"):
        return value.detach().tolist()
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return value


def functions(fw):
    class Nothing(fw.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return None

    class Twice(fw.autograd.Function):
        seen = []

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            Twice.seen.append(g.tolist())
            return g * 2

    return Nothing, Twice


def no_gradient_arrives(fw):
    nothing, twice = functions(fw)
    seen = []
    x = fw.ones(1, requires_grad=True)
    x.register_hook(lambda g: seen.append(("leaf", plain(g))))
    y = x * 3
    y.register_hook(lambda g: seen.append(("tensor", plain(g))))
    y.grad_fn.register_hook(lambda i, o: seen.append(("post", plain(i[0]), plain(o))))
    y.grad_fn.register_prehook(lambda o: seen.append(("pre", plain(o))))
    nothing.apply(y).sum().backward()
    first = x.grad
    nothing.apply(twice.apply(x)).sum().backward()
    return seen, first, twice.seen, x.grad, fw.autograd.grad(nothing.apply(x * 2).sum(), x, allow_unused=True)


def one_of_two_ways_is_undefined(fw):
    nothing, twice = functions(fw)
    x = fw.ones(2, requires_grad=True)
    y = x * 3
    (nothing.apply(y) + y * 2 + twice.apply(y)).sum().backward()
    return x.grad, twice.seen


def writes(fw, returned):
    class Write(fw.autograd.Function):
        @staticmethod
        def forward(ctx, a, b):
            kept = a if "input" in returned else a * 3
            kept.add_(b)
            ctx.mark_dirty(kept)
            if "nothing" in returned:
                return a.clone()
            return (kept, a + b) if "two" in returned else kept

        @staticmethod
        def backward(ctx, *grads):
            return grads[0], grads[0]

    return Write


def write_program(returned, is_view, wants):
    def run(fw):
        a, b = fw.ones(2, requires_grad=wants), fw.ones(2)
        start = a.clone().view_as(a) if is_view else a.clone()
        made = writes(fw, returned).apply(start, b)
        first = made[0] if isinstance(made, tuple) else made
        if wants:
            first.sum().backward()
        return first, a.grad

    return run


WRITES = {
    f"{returned}-{is_view}-{wants}": write_program(returned, is_view, wants)
    for returned in ("input", "input two", "input nothing", "other", "other nothing")
    for is_view in (False, True)
    for wants in (False, True)
}


def returned_view(kind, how):
    def run(fw):
        class Same(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x if kind == "input" else x.view_as(x)

            @staticmethod
            def backward(ctx, g):
                return g

        x, b = fw.zeros(1, 2), fw.ones(1, requires_grad=True)
        y = Same.apply(x)
        if how == "recorded":
            y += b
        elif how == "copied":
            y.copy_(b)
        else:
            y += 1
        return y, x, y is x, y._base is x

    return run


VIEWS = {f"{k}-{h}": returned_view(k, h) for k in ("input", "view") for h in ("recorded", "copied", "plain")}


def views_of_views(fw, mode):
    x = fw.zeros(2)
    with mode():
        y = x.view(2)
    y.requires_grad_(True)
    z = y.view(2)
    z /= 2


def hooks_of_views(fw):
    seen = []
    base = fw.tensor([1.0, 2.0], requires_grad=True).clone()
    base.register_hook(lambda g: seen.append(("base", plain(g))))
    view, other = base[:1], base[1:]
    view.register_hook(lambda g: seen.append(("before", plain(g))))
    other.register_hook(lambda g: seen.append(("stale", plain(g))))
    used = view * 5
    view.mul_(2)
    view.register_hook(lambda g: seen.append(("after", plain(g))))
    (view.sum() + other.sum() + used.sum() + base.sum()).backward()
    return sorted(seen)


def hooks_removed_while_running(fw):
    seen = []
    x = fw.ones(1, requires_grad=True)
    y = x * 2
    handles = []
    for kind in ("register_prehook", "register_hook"):
        getattr(y.grad_fn, kind)(lambda *_: handles[-1].remove())
        handles.append(getattr(y.grad_fn, kind)(lambda *_, kind=kind: seen.append(kind)))
    gone = y.grad_fn.register_prehook(lambda *_: seen.append("never"))
    gone.remove()
    y.sum().backward(retain_graph=True)
    return sorted(set(seen))


def attributes_that_stay(fw):
    answers = []
    x = fw.ones(2, requires_grad=True) * 2
    for name in ("_grad_fn", "_backward_hooks", "data", "requires_grad"):
        try:
            delattr(x, name)
        except RuntimeError:
            answers.append(name)
    x._grad_fn = None
    return answers, x.requires_grad, x._backward_hooks


def layouts_that_change(fw):
    x = fw.ones(2, 3)
    versions = []
    for step in (lambda: x.transpose_(0, 1), lambda: x.unsqueeze_(0), lambda: x.squeeze_(), lambda: x.t_()):
        step()
        versions.append(x._version)
    return versions


def view_of_inference_mode(fw):
    a = fw.ones(1, 2, 3, requires_grad=True).clone()
    with fw.inference_mode():
        view = a.view(-1)
    a.transpose_(0, 1)
    return view.grad_fn


def moments_of_one_node(fw):
    counts = []
    x = fw.tensor([[1.0, 2.0], [4.0, 9.0]], requires_grad=True)
    for f in (fw.var_mean, fw.std_mean):
        spread, mean = f(x, dim=0)
        mean.grad_fn.register_prehook(lambda g: counts.append(len(g)))
        (spread + 3 * mean).sum().backward()
    return counts, [[round(v, 4) for v in row] for row in x.grad.tolist()]


def data_of_another_kind(fw):
    x = fw.ones(2)
    x.data = fw.ones(2).to_sparse()


def unsafe_parts(fw):
    found = []
    for f in (lambda t: t.unsafe_split(1), lambda t: t.unsafe_split_with_sizes((1, 2)), lambda t: t.unsafe_chunk(3)):
        a = fw.ones(3, 2, requires_grad=True)
        first, second, *_ = f(a + a)
        first.mul_(second[:1])
        first.sum().backward()
        found.append(a.grad)
    return found


def unique_values(fw):
    x = fw.tensor([3.0, 1.0, 3.0], requires_grad=True)
    many = [fw.unique(x, return_inverse=True), fw.unique(x, dim=0, return_counts=True), fw.unique_consecutive(x)]
    return [[t.requires_grad for t in (m if isinstance(m, tuple) else (m,))] for m in many]


def complex_numbers_alone(fw):
    x = fw.tensor(2 + 1j)
    return [f(x, correction=0).tolist() for f in (fw.var, fw.std)]


def older_order_of_bags(fw):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        made = fw.nn.functional.embedding_bag(fw.eye(3), fw.tensor([1, 2]), fw.tensor([0]))
    return made, len(caught)


PROGRAMS = {
    **{f.__name__: f for f in (no_gradient_arrives, one_of_two_ways_is_undefined, hooks_of_views)},
    **{f.__name__: f for f in (hooks_removed_while_running, attributes_that_stay, layouts_that_change)},
    **{f.__name__: f for f in (view_of_inference_mode, moments_of_one_node, data_of_another_kind, unsafe_parts)},
    **{f.__name__: f for f in (unique_values, complex_numbers_alone, older_order_of_bags)},
    "view_of_no_grad_view": lambda fw: views_of_views(fw, fw.no_grad),
    "view_of_inference_view": lambda fw: views_of_views(fw, fw.inference_mode),
    **WRITES,
    **VIEWS,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    assert answer(PROGRAMS[name], flow) == answer(PROGRAMS[name], torch)


def test_written_outputs_of_a_function_share_memory_once():
    class Pair(flow.autograd.Function):
        memory = 0

        @staticmethod
        def forward(ctx, a, b):
            return a + b

        @staticmethod
        def backward(ctx, g):
            Pair.memory = g.data_ptr()
            return g, g

    a, b = flow.randn(5, 6, requires_grad=True), flow.randn(5, 6, requires_grad=True)
    Pair.apply(a, b)[1][0].backward()
    assert a.grad.data_ptr() != b.grad.data_ptr()
    assert Pair.memory in (a.grad.data_ptr(), b.grad.data_ptr())


ZEROS = ([0.0, 0.0, 2.0], [0.0, 1.0, 2.0], [0.0, 0.0, 0.0], [1.0, 0.0, 3.0])
PRODUCTS = {
    "prod": lambda x, i: x.prod(),
    "prod_dim": lambda x, i: x.view(1, 3).prod(1),
    "cumprod": lambda x, i: x.cumprod(0),
    "scatter_reduce": lambda x, i: x.new_tensor([1.0, 3.0]).scatter_reduce(0, i, x, "prod"),
    "scatter_reduce_alone": lambda x, i: x.new_ones(2).scatter_reduce(0, i, x, "prod", include_self=False),
    "scatter_reduce_self": lambda x, i: x[:2].scatter_reduce(0, i, x, "prod"),
    "index_reduce": lambda x, i: x.new_tensor([2.0, 3.0]).index_reduce(0, i, x, "prod"),
}


@pytest.mark.parametrize("numbers", ZEROS, ids=str)
@pytest.mark.parametrize("name", PRODUCTS)
def test_second_derivatives_of_products_at_zeros(name, numbers):
    x = flow.tensor(numbers, dtype=flow.float64, requires_grad=True)
    index = flow.tensor([0, 0, 1])
    assert gradcheck(PRODUCTS[name], (x, index))
    assert gradgradcheck(PRODUCTS[name], (x, index))


def test_third_derivative_of_cumprod_at_zeros():
    x = flow.tensor([0.0, 2.0, 0.0, 3.0], dtype=flow.float64, requires_grad=True)

    def first(x):
        return flow.autograd.grad(x.cumprod(0).sum(), x, create_graph=True)[0]

    assert gradgradcheck(first, (x,))


REINTERPRETED = {
    "real_of_complex": lambda fw, x: fw.view_as_real(x.clone()),
    "complex_of_real": lambda fw, x: fw.view_as_complex(fw.view_as_real(x).clone()),
    "reshaped": lambda fw, x: fw.view_as_complex(fw.view_as_real(x).clone()).reshape(-1),
    "there_and_back": lambda fw, x: fw.view_as_real(fw.view_as_complex(fw.view_as_real(x).clone())),
    "column": lambda fw, x: fw.view_as_complex(fw.view_as_real(x).clone())[:, 1],
    "imaginary_column": lambda fw, x: fw.view_as_real(x.clone())[:, 1:, 1],
}


@pytest.mark.parametrize("name", REINTERPRETED)
def test_writes_through_views_of_other_numbers(name):
    def run(fw):
        x = (fw.arange(6.0).reshape(2, 3) * (1 - 2j)).requires_grad_()
        view = REINTERPRETED[name](fw, x)
        view.mul_(3)
        base = view._base
        base[0] += 1
        (view.abs().sum() + (base * base).sum().abs()).backward()
        return [[(round(v.real, 3), round(v.imag, 3)) for v in row] for row in x.grad.tolist()]

    assert run(flow) == run(torch)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated", "ignore:Sparse CSR tensor support")
def test_products_of_sparse_matrices():
    def run(fw, a_sparse, b_sparse):
        a = fw.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]])
        b = fw.tensor([[1.0, 0.0], [0.0, 4.0], [5.0, 0.0]])
        a, b = (t.to_sparse() if s else t for t, s in ((a, a_sparse), (b, b_sparse)))
        a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
        product = a.mm(b)
        product.sum().backward()
        return [t.to_dense().tolist() for t in (product.detach(), a.grad, b.grad)], product.is_sparse

    for kinds in ((True, True), (True, False), (False, True)):
        assert run(flow, *kinds) == run(torch, *kinds)


def test_early_stop_with_gradients_inside_of_checkpoints():
    from oneflow.utils import checkpoint as c

    def run(x, early_stop):
        def inner(x):
            (g,) = flow.autograd.grad(c.checkpoint(lambda t: t.sin().exp(), x, use_reentrant=False), x)
            return g * x.sin().exp()

        with c.set_checkpoint_early_stop(early_stop):
            y = c.checkpoint(inner, x, use_reentrant=False)
        (g,) = flow.autograd.grad(y, x)
        return float(g)

    x = flow.tensor(0.7, requires_grad=True)
    assert run(x, True) == run(x, False)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_tangents_of_the_very_tensors():
    def run(fw):
        ad = fw.autograd.forward_ad
        x, v = fw.tensor([1.0, 2.0]), fw.tensor([3.0, 4.0])
        with ad.dual_level():
            made = ad.make_dual(x, v)
            found = [ad.unpack_dual(made).tangent is v, made.data_ptr() == x.data_ptr()]
            x.add_(1)
            found.append(plain(ad.unpack_dual(made).primal))
            copied = fw.zeros(2).copy_(made)
            found.append(ad.unpack_dual(copied).tangent is v)
            part = fw.arange(5.0)[:2]
            other = ad.unpack_dual(ad.make_dual(part, v)).tangent
            found += [other is v, plain(other)]
            try:
                fw.add(made, made, out=fw.zeros(2))
            except NotImplementedError as error:
                found.append(str(error))
        return found

    assert run(flow) == run(torch)


def test_dual_tensors_without_memory_of_their_own():
    def push(x, v):
        ad = flow.autograd.forward_ad
        with ad.dual_level():
            return ad.unpack_dual(ad.make_dual(x, v).exp()).tangent

    x, v = flow.zeros(3, 2), flow.ones(3, 2)
    assert flow.func.vmap(push)(x, v).tolist() == v.tolist()
    assert push(x[:0], v[:0, :1].expand(0, 2)).shape == (0, 2)
    assert push(x.to("meta"), v.to("meta")).is_meta


def test_sparse_arguments_by_all_of_their_elements():
    x = flow.tensor([[0.0, 1.0], [2.0, 0.0]], dtype=flow.float64, requires_grad=True).to_sparse()
    for fast in (True, False):
        assert gradcheck(lambda t: t.to_dense(masked_grad=False) * 2, (x,), masked=False, fast_mode=fast)
        assert not gradcheck(lambda t: t.to_dense(), (x,), masked=False, fast_mode=fast, raise_exception=False)
        assert gradcheck(lambda t: t.to_dense(), (x,), masked=True, fast_mode=fast)
