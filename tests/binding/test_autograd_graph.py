"""Nodes, hooks, saved tensors, anomaly mode, in-place rules and autograd.functional, compared with PyTorch."""

import gc
import warnings
import weakref

import oneflow as flow
import pytest
import torch
from torch_oracle import both


def rounded(value):
    if isinstance(value, (tuple, list)):
        return [rounded(v) for v in value]
    return [round(v, 4) for v in value.flatten().tolist()] if hasattr(value, "flatten") else value


def error(f, *args):
    """The class of the error and its first words."""
    with pytest.raises(Exception) as e:
        f(*args)
    return type(e.value).__name__, str(e.value).split("\n")[0]


# ---- nodes


def test_node_names_and_links():
    def run(fw):
        x = fw.ones(2, requires_grad=True)
        y = (x * 2).exp().sum()
        names = []
        node = y.grad_fn
        while node is not None:
            names.append(node.name().split("::")[-1])
            following = node.next_functions
            node = following[0][0] if following else None
        leaf = y.grad_fn.next_functions[0][0].next_functions[0][0].next_functions[0][0]
        return names, leaf.variable is x, y.grad_fn.next_functions[0][1]

    both(run)


def test_node_hooks():
    def run(fw):
        x = fw.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        z = y.sum()
        seen = []
        y.grad_fn.register_prehook(lambda g: seen.append(("pre", rounded(g))))
        y.grad_fn.register_prehook(lambda g: (g[0] * 2,))
        y.grad_fn.register_hook(lambda i, o: seen.append(("post", rounded(i[0]), rounded(o))))
        handle = y.grad_fn.register_hook(lambda i, o: (i[0] + 1, *i[1:]))
        gone = y.grad_fn.register_hook(lambda i, o: seen.append("never"))
        gone.remove()
        z.backward(retain_graph=True)
        first = rounded(x.grad)
        handle.remove()
        z.backward()
        return seen, first, rounded(x.grad)

    both(run)


def test_hooks_of_accumulators():
    def run(fw):
        x = fw.tensor([1.0, 2.0], requires_grad=True)
        node = x.view_as(x).grad_fn.next_functions[0][0]
        seen = []
        node.register_hook(lambda i, o: seen.append((len(i), rounded(o), rounded(x.grad))))
        node.register_prehook(lambda g: (g[0] * 10,))
        (x * 2).sum().backward()
        return node.name().split("::")[-1], seen, rounded(x.grad)

    both(run)


def test_metadata():
    def run(fw):
        x = fw.ones(2, requires_grad=True)
        y = x * 2
        y.grad_fn.metadata["name"] = [1, 2]
        return y.grad_fn.metadata["name"], x.view_as(x).grad_fn.metadata

    both(run)


def test_order_of_tensor_hooks():
    def run(fw):
        order = []
        x = fw.ones(2, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: order.append("tensor 1"))
        y.register_hook(lambda g: order.append("tensor 2"))
        y.grad_fn.register_prehook(lambda g: order.append("pre"))
        y.grad_fn.register_hook(lambda i, o: order.append("post"))
        y.retain_grad()
        x.register_hook(lambda g: order.append("leaf"))
        x.register_post_accumulate_grad_hook(lambda t: order.append(("accumulated", rounded(t.grad))))
        y.sum().backward()
        return order, rounded(y.grad)

    both(run)


def test_hooks_of_outputs_of_one_node():
    def run(fw):
        x = fw.arange(6.0, requires_grad=True)
        a, b = x.chunk(2)
        a.register_hook(lambda g: g * 10)
        (a * 2 + b).sum().backward()
        return rounded(x.grad)

    both(run)


def test_removal_while_kept():
    def run(fw):
        x = fw.ones(1, requires_grad=True)
        seen = []
        h = x.register_hook(lambda g: seen.append(1))
        (x * 2).backward()
        h.remove()
        h.remove()
        (x * 2).backward()
        with x.register_hook(lambda g: seen.append(2)):
            (x * 2).backward()
        (x * 2).backward()
        return seen

    both(run)


def test_a_hook_that_holds_its_own_tensor_is_collected():
    x = flow.ones(2, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g, t=y: None)
    y.grad_fn.metadata["self"] = y
    y.sum().backward()
    alive = weakref.ref(y)
    del y
    gc.collect()
    assert alive() is None


def test_a_hook_outlives_its_tensor():
    def run(fw):
        x = fw.ones(2, requires_grad=True)
        y = x * 2
        y.register_hook(lambda g: g * 5)
        z = y.sum()
        del y
        gc.collect()
        z.backward()
        return rounded(x.grad)

    both(run)


def test_multi_grad_hooks():
    def run(fw):
        seen = []
        a, b, c = (fw.ones(1, requires_grad=True) for _ in range(3))
        hook = fw.autograd.graph.register_multi_grad_hook
        h = hook((a, b, c), lambda grads: seen.append([None if g is None else rounded(g) for g in grads]))
        (a * 2 + b * 3).backward()
        (a * 2 + b * 3 + c).backward()
        h.remove()
        (a * 2).backward()
        hook((a, b), lambda grad: seen.append(rounded(grad)), mode="any")
        (a * 2 + b * 2).backward()
        return seen

    both(run)


def test_gradient_edges():
    def run(fw):
        edge = fw.autograd.graph.get_gradient_edge
        x = fw.tensor([1.0, 2.0], requires_grad=True)
        y = x * 3
        e = edge(y)
        z = (y * y).sum()
        (g,) = fw.autograd.grad(z, e, retain_graph=True)
        (h,) = fw.autograd.grad(z, edge(x), retain_graph=True)
        (k,) = fw.autograd.grad(e, x, grad_outputs=fw.ones(2), retain_graph=True)
        fw.autograd.backward(edge(z), fw.tensor(2.0))
        return e.node.name(), e.output_nr, rounded((g, h, k)), rounded(x.grad)

    both(run)


def test_increment_version():
    def run(fw):
        x = fw.ones(2, requires_grad=True)
        y = x.exp()
        fw.autograd.graph.increment_version(y)
        return y._version, error(y.sum().backward)[0]

    both(run)


def test_backward_inputs():
    def run(fw):
        x, w = fw.ones(2, requires_grad=True), fw.ones(2, requires_grad=True)
        y = x * w
        y.sum().backward(inputs=[w], retain_graph=True)
        first = x.grad is None, rounded(w.grad)
        y.sum().backward(inputs=x)
        return first, rounded(x.grad), rounded(w.grad), error(y.sum().backward, None, None, False, [])

    both(run)


def test_grad_options():
    def run(fw):
        x, w = fw.ones(2, requires_grad=True), fw.ones(2, requires_grad=True)
        y = (x * x).sum()
        grad = fw.autograd.grad
        return (
            rounded(grad(y, (x, w), allow_unused=True, retain_graph=True)),
            rounded(grad(y, (x, w), materialize_grads=True, retain_graph=True)),
            error(lambda: grad(y, (x, w), retain_graph=True)),
            rounded(grad(x * x, x, fw.eye(2), is_grads_batched=True)),
            error(lambda: grad(y, (x, w), allow_unused=False, materialize_grads=True)),
            error(lambda: grad(fw.ones(1), x)),
            error(lambda: grad(x * 2, x)),
            error(lambda: grad(x * 2, x, fw.ones(3)))[0],
        )

    both(run)


# ---- saved tensors


def test_saved_tensors_hooks():
    def run(fw):
        packed = []

        def pack(t):
            packed.append((tuple(t.shape), t.requires_grad))
            return t.detach() * 2

        x = fw.tensor([1.0, 2.0], requires_grad=True)
        with fw.autograd.graph.saved_tensors_hooks(pack, lambda t: t / 2):
            y = (x * x).exp()
        z = x * x
        (y.sum() + z.sum()).backward()
        return len(packed), rounded(x.grad)

    both(run)


def test_saved_tensors_hooks_keep_second_derivatives():
    def run(fw):
        x = fw.tensor([1.0, 2.0], requires_grad=True)
        with fw.autograd.graph.saved_tensors_hooks(lambda t: t.detach().clone(), lambda t: t):
            y = (x * x * x).exp().sum()
        (g,) = fw.autograd.grad(y, x, create_graph=True)
        (h,) = fw.autograd.grad(g.sum(), x)
        return rounded((g / 100, h / 1000))

    both(run)


def test_saved_tensors_hooks_of_functions():
    def run(fw):
        class Square(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return 2 * g * x

        counts = [0, 0]

        def pack(t):
            counts[0] += 1
            return t

        def unpack(t):
            counts[1] += 1
            return t

        x = fw.tensor([3.0], requires_grad=True)
        with fw.autograd.graph.saved_tensors_hooks(pack, unpack):
            y = Square.apply(x)
        y.backward()
        return counts, rounded(x.grad)

    both(run)


def test_disabled_and_nested_saved_tensors_hooks():
    def run(fw):
        hooks, off = fw.autograd.graph.saved_tensors_hooks, fw.autograd.graph.disable_saved_tensors_hooks

        def enter():
            with off("not here"), hooks(lambda t: t, lambda t: t):
                pass

        def inside():
            with hooks(lambda t: t, lambda t: t), off("nor here"):
                pass

        x = fw.ones(2, requires_grad=True)
        with hooks(lambda t: t * 100, lambda t: t), hooks(lambda t: t * 2, lambda t: t):
            y = x * x
        y.sum().backward()
        with fw.autograd.graph.save_on_cpu():
            z = (x * x).sum()
        z.backward()
        return error(enter), error(inside), rounded(x.grad)

    both(run)


def test_errors_of_saved_tensors_hooks():
    def run(fw):
        hooks = fw.autograd.graph.saved_tensors_hooks
        x = fw.ones(2, requires_grad=True)
        with hooks(lambda t: t, lambda t: 5):
            y = (x * x).sum()

        def fails(t):
            raise ValueError("no room")

        def forward():
            with hooks(fails, lambda t: t):
                return x * x

        return error(y.backward)[0], error(forward)

    both(run)


# ---- anomaly mode


def test_anomaly_names_the_line():
    x = flow.tensor(-1.0, requires_grad=True)
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        mode = flow.autograd.detect_anomaly()
    with mode:
        y = x.sqrt()  # the line
        with (
            pytest.warns(UserWarning, match=r"(?s)Error detected in SqrtBackward0.*x\.sqrt\(\)  # the line"),
            pytest.raises(
                RuntimeError, match=r"'SqrtBackward0' returned nan values in its 0th output.*test_autograd_graph"
            ),
        ):
            y.backward()
    y = x.sqrt()
    y.backward()
    assert x.grad.isnan()


def test_anomaly_of_functions_and_switches():
    def run(fw):
        class Bad(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                raise ValueError("bad backward")

        x = fw.ones(2, requires_grad=True)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            with fw.autograd.set_detect_anomaly(True):
                inner = fw.is_anomaly_enabled(), fw.is_anomaly_check_nan_enabled()
                found = error(Bad.apply(x).sum().backward)
        texts = [str(w.message).split(".")[0] for w in caught]
        with fw.autograd.set_detect_anomaly(True, check_nan=False):
            unchecked = fw.is_anomaly_check_nan_enabled()
        return found, texts, inner, unchecked, fw.is_anomaly_enabled()

    both(run)


# ---- in-place and views


def leaf(fw):
    return fw.ones(4, requires_grad=True)


IN_PLACE = [
    lambda fw: leaf(fw).add_(1),
    lambda fw: leaf(fw).zero_(),
    lambda fw: leaf(fw)[0].fill_(1),
    lambda fw: leaf(fw).view(2, 2).mul_(2),
    lambda fw: leaf(fw).unbind()[0].add_(1),
    lambda fw: (leaf(fw) * 2).unbind()[0].add_(1),
    lambda fw: (leaf(fw) * 2).chunk(2)[1].mul_(2),
    lambda fw: (leaf(fw) * 2).split(2)[0][0].mul_(2),
    lambda fw: leaf(fw).detach_().add_(1),
    lambda fw: (leaf(fw) * 2).view(2, 2).detach_(),
    lambda fw: (leaf(fw) * 2).requires_grad_(False),
    lambda fw: fw.ones(2, dtype=fw.int64).requires_grad_(),
    lambda fw: setattr(leaf(fw) * 2, "requires_grad", False),
    lambda fw: fw.add(leaf(fw), 1, out=fw.empty(4)),
    lambda fw: fw.ones(3).retain_grad(),
    lambda fw: fw.ones(3).register_hook(print),
    lambda fw: (leaf(fw) * 2).register_post_accumulate_grad_hook(print),
    lambda fw: (leaf(fw) * 2).backward(),
    lambda fw: fw.ones(1).backward(),
    lambda fw: leaf(fw).numpy(),
    lambda fw: leaf(fw).resize_(2),
    lambda fw: setattr(leaf(fw), "grad", fw.ones(3)),
    lambda fw: setattr(leaf(fw), "grad", 3),
    lambda fw: setattr(leaf(fw), "data", fw.ones(3, dtype=fw.int64)),
    lambda fw: __import__("copy").deepcopy(leaf(fw) * 2),
]


@pytest.mark.parametrize("f", IN_PLACE)
def test_refused(f):
    def run(fw):
        try:
            return "accepted", type(f(fw)).__name__
        except Exception as e:
            return type(e).__name__

    both(run)


def test_views_made_without_recording():
    def run(fw):
        x = fw.ones(4)
        w = fw.ones(1, requires_grad=True)
        with fw.no_grad():
            v, s = x[1:], x.view(2, 2)
            v.add_(1)
        plain = v.add_(1).tolist()
        return error(lambda: v.add_(w))[0], error(lambda: s.mul_(w))[0], plain

    both(run)


def test_inference_tensors():
    def run(fw):
        with fw.inference_mode():
            x = fw.ones(2)
            y = x + 1
        w = fw.ones(2, requires_grad=True)
        with fw.inference_mode():
            x.add_(1)
        return (
            error(lambda: x.add_(1))[0],
            error(lambda: (w * x))[0],
            error(lambda: x.requires_grad_())[0],
            error(lambda: y._version)[0],
            (w + x).requires_grad,
            x.is_inference(),
        )

    both(run)


def test_versions():
    def run(fw):
        x = fw.ones(3, requires_grad=True)
        y = x * 1
        v = y[0]
        before = y._version
        v.add_(1)
        y.data.add_(1)
        y.detach().add_(1)
        z = y.exp()
        z.add_(1)
        return before, y._version, v._version, error(z.sum().backward)[0]

    both(run)


def test_in_place_through_views_differentiates():
    def run(fw):
        x = fw.arange(4.0, requires_grad=True)
        y = x * 2
        y[1:3].mul_(3)
        y.view(2, 2)[1].add_(x[:2])
        y[0] = x[3] * 7
        v = y.t() if y.dim() == 2 else y.view(4)
        (v * v).sum().backward()
        return rounded(x.grad), v.grad_fn is not None

    both(run)


def test_twice():
    def run(fw):
        x = fw.ones(2, requires_grad=True)
        y = (x * x).sum()
        y.backward()
        name, text = error(y.backward)
        return name, "second time" in text

    both(run)


# ---- Function


def test_once_differentiable():
    def run(fw):
        class Double(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x

            @staticmethod
            @fw.autograd.function.once_differentiable
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return 2 * x * g

        x = fw.tensor([3.0], requires_grad=True)
        y = Double.apply(x)
        (g,) = fw.autograd.grad(y, x, create_graph=True, grad_outputs=fw.ones(1, requires_grad=True))
        return rounded(g), g.requires_grad, error(lambda: g.sum().backward())

    both(run)


def test_dirty_and_non_differentiable():
    def run(fw):
        class Both(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                x.mul_(3)
                ctx.mark_dirty(x)
                index = x.argmax()
                ctx.mark_non_differentiable(index)
                ctx.set_materialize_grads(False)
                return x, index

            @staticmethod
            def backward(ctx, g, unused):
                return None if g is None else g * 3

        x = fw.tensor([1.0, 2.0], requires_grad=True)
        y = x * 1
        z, i = Both.apply(y)
        z.sum().backward()
        return z is y, z._version, i.requires_grad, rounded(x.grad), error(lambda: Both.apply(x))[0]

    both(run)


def test_function_errors():
    def run(fw):
        class No(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x, y):
                ctx.save_for_backward(x)
                return x + y

            @staticmethod
            def backward(ctx, g):
                return g

        class Wrong(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 1

            @staticmethod
            def backward(ctx, g):
                return g[0]

        class Saves(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(3)
                return x

        x = fw.ones(2, requires_grad=True)
        return (
            error(No.apply(x, x).sum().backward)[0],
            error(Wrong.apply(x).sum().backward)[0],
            error(lambda: Saves.apply(x))[0],
            error(fw.autograd.Function.apply)[0],
        )

    both(run)


def test_saved_tensors_are_freed():
    def run(fw):
        class F(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                F.ctx = ctx
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * 2

        x = fw.ones(2, requires_grad=True)
        y = F.apply(x)
        y.sum().backward()
        y.sum().backward()
        return error(lambda: F.ctx.saved_tensors)[0], rounded(x.grad)


def test_what_keeps_nothing_may_run_twice():
    def run(fw):
        x = fw.ones(2, requires_grad=True)
        y = x + x.view(2)
        y.sum().backward()
        y.sum().backward()
        return rounded(x.grad)

    both(run)

    both(run)


# ---- functional


def inputs(fw):
    return fw.tensor([1.0, 2.0]), fw.tensor([[0.5, -1.0], [2.0, 1.5]])


def f_vector(fw):
    return lambda x: (x * x).exp() / 10


def f_several(fw):
    return lambda x, m: ((m @ x).sin(), (x * x).sum())


def f_scalar(fw):
    return lambda x, m: ((m @ x) ** 3).sum() + (x**2).sum()


def test_jacobian_and_hessian():
    def run(fw):
        F = fw.autograd.functional
        x, m = inputs(fw)
        j = F.jacobian(f_several(fw), (x, m))
        h = F.hessian(f_scalar(fw), (x, m))
        again = F.jacobian(f_vector(fw), x.requires_grad_(), create_graph=True)
        again.sum().backward()
        return (
            rounded(F.jacobian(f_vector(fw), x)),
            rounded(j),
            [[tuple(c.shape) for c in row] for row in j],
            rounded(h),
            rounded(x.grad),
            error(lambda: F.jacobian(lambda x: x.detach(), x, strict=True))[0],
            rounded(F.jacobian(lambda x: x.detach() * 2, x)),
        )

    both(run)


def test_products():
    def run(fw):
        F = fw.autograd.functional
        x, m = inputs(fw)
        v, w = fw.tensor([0.3, -0.2]), fw.ones(2, 2)
        return (
            rounded(F.vjp(f_several(fw), (x, m), (v, fw.tensor(2.0)))),
            rounded(F.jvp(f_several(fw), (x, m), (v, w))),
            rounded(F.vhp(f_scalar(fw), (x, m), (v, w))),
            rounded(F.hvp(f_scalar(fw), (x, m), (v, w))),
            rounded(F.vjp(lambda x: x.sum(), x)),
            error(lambda: F.vjp(f_vector(fw), x))[0],
            error(lambda: F.hvp(f_vector(fw), x, v))[0],
            error(lambda: F.jvp(f_vector(fw), x, fw.ones(3)))[0],
            error(lambda: F.vhp(f_scalar(fw), [x, 3]))[0],
        )

    both(run)


def of_a_module(fw, ad):
    net = fw.nn.Linear(2, 1)
    primals = {"weight": fw.tensor([[1.0, 2.0]]), "bias": fw.tensor([3.0])}
    for name, primal in primals.items():
        delattr(net, name)
        setattr(net, name, ad.make_dual(primal, fw.ones_like(primal)))
    return net(fw.tensor([[1.0, -1.0]])).tanh()


def written(fw, ad):
    x = ad.make_dual(fw.tensor([0.5, 1.0]), fw.tensor([1.0, 2.0]))
    x.mul_(3)
    x[0] = 7.0
    return x


# PyTorch compiles its own rules with what it deprecates.
deprecated = pytest.mark.filterwarnings("ignore:`torch.jit.script`")

DUAL = {
    "product": lambda fw, ad: ad.make_dual(fw.tensor([0.5, 1.0]), fw.tensor([1.0, 2.0])).sin() * 3,
    "of two": lambda fw, ad: (
        ad.make_dual(fw.tensor(2.0), fw.tensor(1.0)) * ad.make_dual(fw.tensor(3.0), fw.tensor(10.0))
    ),
    "itself": lambda fw, ad: ad.make_dual(fw.tensor([0.5]), fw.tensor([2.0])),
    "rows": lambda fw, ad: (ad.make_dual(fw.eye(2), fw.ones(2, 2)) @ fw.tensor([[1.0], [2.0]])).softmax(0),
    "constant": lambda fw, ad: (ad.make_dual(fw.ones(2), fw.ones(2)), fw.ones(3) * 2)[1],
    "complex": lambda fw, ad: ad.make_dual(fw.tensor([1 + 2j]), fw.tensor([1j])) ** 2,
    "module": of_a_module,
    "written": written,
}


@deprecated
@pytest.mark.parametrize("name", DUAL)
def test_dual_tensors(name):
    def run(fw):
        ad = fw.autograd.forward_ad
        with ad.dual_level():
            primal, tangent = ad.unpack_dual(DUAL[name](fw, ad))
        return [None if t is None else [t.requires_grad, t.detach().numpy()] for t in (primal, tangent)]

    for ours, theirs in zip(run(flow), run(torch), strict=True):
        assert (ours is None) == (theirs is None)
        if ours is not None:
            assert ours[0] == theirs[0]
            assert abs(ours[1] - theirs[1]).max() < 1e-6


@deprecated
def test_tangents_are_differentiable():
    def run(fw):
        ad = fw.autograd.forward_ad
        x = fw.tensor([0.5, 1.0], requires_grad=True)
        with ad.dual_level():
            primal, tangent = ad.unpack_dual(ad.make_dual(x, fw.tensor([1.0, 2.0])) ** 3)
            (tangent.sum() + primal.sum()).backward()
        return [round(v, 4) for v in x.grad.tolist()]

    assert run(flow) == run(torch)


@deprecated
def test_levels():
    def run(fw):
        ad, seen = fw.autograd.forward_ad, []
        for f in (
            lambda: ad.make_dual(fw.ones(1), fw.ones(1)),
            lambda: [ad.enter_dual_level() for _ in range(2)],
            lambda: ad.make_dual(fw.ones(1), fw.ones(2)),
            lambda: ad.make_dual(fw.tensor([1]), fw.ones(1)),
            lambda: ad.exit_dual_level(),
            lambda: seen.append(ad.unpack_dual(fw.ones(1)).tangent),
        ):
            try:
                seen.append(f())
            except Exception as error:
                seen.append(type(error))
        return seen

    assert run(flow) == run(torch)


def test_forward_mode_under_no_grad_and_for_jacobians_is_refused():
    x, ad = flow.ones(2), flow.autograd.forward_ad
    with ad.dual_level(), flow.no_grad(), pytest.raises(RuntimeError, match="no_grad"):
        ad.make_dual(x, x)
    with pytest.raises(NotImplementedError, match="forward-mode"):
        flow.autograd.functional.jacobian(lambda x: x, x, strategy="forward-mode")
