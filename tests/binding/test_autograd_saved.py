"""Writes to saved tensors, hooks without a gradient, calls of nodes and other corners of the tape, against PyTorch."""

import itertools
import warnings

import oneflow as flow
import pytest
import torch
from binding.test_autograd_graph import error, rounded
from torch_oracle import both

# ---- writes to what was saved

SAVERS = {
    "square": lambda fw, x: x**2,
    "product": lambda fw, x: x * x.sin(),
    "result": lambda fw, x: x.exp(),
    "view": lambda fw, x: x[0] * x[1],
    "twice": lambda fw, x: x**2 + x**3,
}
WRITERS = {
    "itself": lambda fw, x: x.sin_(),
    "view": lambda fw, x: x[:1].mul_(10),
    "out": lambda fw, x: fw.mul(x.detach(), 3.0, out=x.detach()),
    "index": lambda fw, x: x.__setitem__((0, 0), 7.0),
    "function": lambda fw, x: fw.nn.functional.relu(x, inplace=True),
    "data": lambda fw, x: x.data.add_(1),
    "nothing": lambda fw, x: None,
}


@pytest.mark.parametrize("saver,writer", itertools.product(SAVERS, WRITERS))
def test_saved_tensors_may_be_written(saver, writer):
    """The gradient is that of the values that were saved, whatever was written since."""

    def gradient(fw, write):
        x = fw.tensor([[0.5, 2.0], [-1.0, 3.0]], requires_grad=True)
        with fw.autograd.graph.allow_mutation_on_saved_tensors() as copies:
            y = x.clone()
            out = SAVERS[saver](fw, y)
            write(fw, y)
            out.sum().backward()
            del out
            return rounded(x.grad), len(copies.cloned)

    assert gradient(flow, WRITERS[writer]) == gradient(torch, WRITERS["nothing"])


def test_saved_tensors_are_copied_once_and_only_if_written():
    def run(fw):
        counts = []
        with fw.autograd.graph.allow_mutation_on_saved_tensors() as copies:

            def count():
                counts.append((len(copies.tid_to_weakhandle), len(copies.cloned)))

            x = fw.ones(2, 3, requires_grad=True).clone()
            b, c = x**2, x**2
            count()
            x.sin_()
            count()
            d = x**2
            x.sin_()
            count()
            del b, c
            count()
            d.sum().backward()
            x.cos_()
            count()
        with fw.autograd.graph.allow_mutation_on_saved_tensors():
            again = error(fw.autograd.graph.allow_mutation_on_saved_tensors().__enter__)
            y = fw.ones(2, requires_grad=True).exp()
        return counts, again, error(y.sum().backward)[1].partition("context")[0]

    both(run)


# ---- hooks


def test_hooks_of_outputs_that_no_gradient_reaches():
    def run(fw):
        seen = []
        x = fw.arange(6.0).reshape(3, 2).requires_grad_()
        parts = x.unbind()
        for i, part in enumerate(parts):
            part.register_hook(lambda g, i=i: seen.append((i, None if g is None else rounded(g))))
        parts[1].sum().backward(retain_graph=True)
        (parts[0] * parts[2]).sum().backward()
        return seen, rounded(x.grad)

    both(run)


# ---- nodes and errors


def test_nodes_may_be_called():
    def run(fw):
        x = fw.tensor([1.0, 2.0], requires_grad=True)
        y, z = x**2, x * x.detach()
        made = y.grad_fn(fw.ones(2))
        one = rounded(made[0] if isinstance(made, tuple) else made)  # PyTorch's node has no exponent.
        two = [None if g is None else rounded(g) for g in z.grad_fn(fw.ones(2))]
        y.sum().backward()
        return one, two, rounded(x.grad), error(z.grad_fn), error(z.grad_fn, fw.ones(2), fw.ones(2))

    both(run)


@pytest.mark.parametrize("name", ["var", "std", "var_mean", "std_mean"])
def test_results_of_variances_may_be_written_where_pytorch_saves_none(name):
    def run(fw):
        x = fw.tensor([[1.0, 4.0], [2.0, -3.0], [0.5, 1.0]], requires_grad=True)
        made = getattr(fw, name)(x, 0)
        first = made[0] if isinstance(made, tuple) else made
        first.add_(1e-3)
        if "std" in name:
            return error(first.sum().backward)[0]
        first.sum().backward()
        return rounded(x.grad)

    both(run)


def test_implicit_gradients_are_of_real_scalars():
    def run(fw):
        x = fw.zeros(1, requires_grad=True)
        y = x * 0.5j
        texts = [error(y.backward), error(fw.autograd.backward, y), error(fw.autograd.grad, y, x)]
        return [(kind, text.partition(" but got")[0]) for kind, text in texts]

    both(run)


def test_backward_that_is_recorded_warns():
    def run(fw):
        was = fw.is_warn_always_enabled()
        fw.set_warn_always(True)
        try:
            x = fw.ones(2, requires_grad=True)
            found = []
            for call in (
                lambda y: y.backward(create_graph=True),
                lambda y: fw.autograd.backward(y, create_graph=True),
                lambda y: fw.autograd.grad(y, x, create_graph=True),
                lambda y: y.backward(),
            ):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    call((x * x).sum())
                found.append(any("Using backward() with create_graph=True" in str(w.message) for w in caught))
                x.grad = None
            return found
        finally:
            fw.set_warn_always(was)

    assert both(run) == [True, True, False, False]


def test_anomaly_names_the_backward_that_recorded_a_node():
    def run(fw):
        class Outer(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x.sum(0, keepdim=True)

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                return Inner.apply(g.expand(3) * x)

        class Inner(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2

            @staticmethod
            def backward(ctx, g):
                return g * float("nan")

        found = []
        for inside in (True, False):
            x = fw.ones(3, requires_grad=True)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                with fw.autograd.set_detect_anomaly(inside):
                    (g,) = fw.autograd.grad(Outer.apply(x), x, create_graph=True)
                with fw.autograd.set_detect_anomaly(True):
                    found.append(error(g.sum().backward)[1].partition(" (recorded")[0])
            texts = [str(w.message) for w in caught if "Anomaly Detection" not in str(w.message)]
            found.append(
                [[part in t for part in ("No forward", "Inner.apply", "Outer.apply", "induced by")] for t in texts]
            )
        return found

    both(run)


def test_views_made_without_grad_whose_base_is_written_say_so():
    def run(fw):
        found = []
        for mode, grad, write in itertools.product(
            (fw.no_grad, fw.inference_mode), (True, False), (lambda x: x.add_(2), lambda x: x.clone())
        ):
            base = fw.ones(2, 3, requires_grad=grad).clone()
            with mode():
                view = base.view(-1)
            write(base)
            try:
                found.append(view.grad_fn is None)
            except RuntimeError as e:
                found.append(str(e).partition(" Given")[0])
        return found

    both(run)


def test_deleting_attributes_and_writing_inference_tensors():
    def run(fw):
        x = fw.ones(2, requires_grad=True)
        with fw.inference_mode():
            made = fw.ones(2)
        errors = [error(delattr, x, "data")[0], error(setattr, x, "data", None)[0]]
        for source in (x, x.detach()):
            with pytest.raises(RuntimeError) as e:
                fw.mul(source, source, out=made)
            errors.append("automatic differentiation" in str(e.value))
        return errors

    both(run)


# ---- sparse gradients


@pytest.mark.parametrize("order", itertools.product("nsd", "sd", "sd"))
@pytest.mark.filterwarnings("ignore")
def test_sparse_and_dense_gradients_add_up(order):
    def run(fw):
        class Give(fw.autograd.Function):
            @staticmethod
            def forward(ctx, x, g):
                ctx.g = g
                return x.clone()

            @staticmethod
            def backward(ctx, _):
                return ctx.g, None

        def gradient(kind, i):
            if kind == "d":
                return fw.full((4, 2), float(i))
            return fw.sparse_coo_tensor(fw.tensor([[0.0, i]]), fw.full((2, 2), float(i)), (4, 2))

        x = fw.zeros(4, 2, requires_grad=True)
        x.grad = None if order[0] == "n" else gradient(order[0], 1)
        (Give.apply(x, gradient(order[1], 2)) + Give.apply(x, gradient(order[2], 3))).sum().backward()
        g = x.grad
        return g.is_sparse, rounded(g.to_dense() if g.is_sparse else g)

    both(run)


VIEWS = {
    "split": lambda x: x.split(2),
    "unbind": lambda x: x.unbind(),
    "chunk": lambda x: x.chunk(2),
    "select": lambda x: (x[0], x[1]),
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("made,written", itertools.product(["enable_grad", "no_grad", "inference_mode"], repeat=2))
def test_use_of_views_whose_memory_was_written(view, made, written):
    """Refused if the base's history does not determine that of the view."""

    def run(fw, source, target):
        y = fw.ones(4, 2, requires_grad=True)
        x = {"leaf": y, "result": y.clone(), "no gradient": fw.ones(4, 2)}[source]
        try:
            with getattr(fw, made)():
                views = VIEWS[view](x)
            with getattr(fw, written)():
                {"itself": views[0], "other": views[1], "base": x}[target].mul_(3.0)
            r = views[0] * 2
            if r.requires_grad:
                r.sum().backward()
            return views[0].requires_grad, None if y.grad is None else rounded(y.grad)
        except RuntimeError as e:
            return "is a view" in str(e), "A view was created" in str(e)

    for source, target in itertools.product(["leaf", "result", "no gradient"], ["itself", "other", "base"]):
        both(lambda fw, source=source, target=target: run(fw, source, target))
