"""Inference mode, views that autograd cannot follow, hooks and partial backwards: what PyTorch does, step by step."""

import warnings

import oneflow
import pytest
import torch

# Phrases that identify the rule behind an error.
RULES = [
    "Inplace update to inference tensor outside InferenceMode",
    "Inference tensors cannot be saved for backward",
    "A view was created in no_grad mode",
    "A view was created in inference mode",
    "the output of a function that returns multiple views",
    "This view was created inside a custom Function",
    "a leaf Variable that requires grad",
    "don't support automatic differentiation",
    "detached in-place",
    "pack hook is modifying its input",
    "requires dtype",
    "Can't call numpy() on Tensor that requires grad",
]


def _said(program, m):
    """Return the results of a program, or the rule that it breaks."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return program(m)
        except Exception as error:
            return next((rule for rule in RULES if rule in str(error)), f"{type(error).__name__}: {error}")


def _state(t):
    return t.is_inference(), t.requires_grad, t.is_leaf, t._is_view(), list(t.shape)


WRITES = {
    "add_": lambda x: x.add_(2),
    "transpose_": lambda x: x.transpose_(0, 1),
    "t_": lambda x: x.t_(),
    "squeeze_": lambda x: x.squeeze_(0),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "swapdims_": lambda x: x.swapdims_(0, 1),
    "copy_": lambda x: x.copy_(x.detach() * 0),
    "as a view": lambda x: x.view(-1),
    "as a slice": lambda x: x[0],
    "as a result": lambda x: x * x,
    "as out=": lambda x: type(x).__module__ and __import__(type(x).__module__).mul(x.detach(), 2, out=x),
}
MODES = ["grad", "no_grad", "inference"]


def _differs(kind, write, made_in, used_in, requires_grad):
    """Return the differences from PyTorch.

    It refuses writes into one of several views even where nobody records them, and treats a leaf of inference mode that
    requires gradients as any other leaf.
    """
    if kind == "parts" and made_in == "grad" != used_in and requires_grad:
        return write.endswith("_") or write == "as out="
    return kind == "leaf" and (made_in, used_in, requires_grad) == ("inference", "grad", True)


def _mode(m, name):
    return {"grad": m.enable_grad, "no_grad": m.no_grad, "inference": m.inference_mode}[name]()


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("kind", ["leaf", "result", "view", "parts"])
def test_a_tensor_of_one_mode_in_another(kind, write):
    for made_in in MODES:
        for used_in in MODES:
            for requires_grad in (False, True):
                if _differs(kind, write, made_in, used_in, requires_grad):
                    continue

                def program(m):
                    with _mode(m, made_in):  # noqa: B023
                        t = m.ones(2, 3, requires_grad=requires_grad)  # noqa: B023
                        if kind != "leaf":
                            t = t * 1
                    # A view of a tensor that an outer mode created.
                    with _mode(m, made_in):  # noqa: B023
                        if kind == "view":
                            t = t.view(2, 3)
                        elif kind == "parts":
                            t = t[None].unbind()[0]
                    before = _state(t)
                    with _mode(m, used_in):  # noqa: B023
                        got = WRITES[write](t)
                    return before, _state(got), _state(t)

                ours, theirs = _said(program, oneflow), _said(program, torch)
                assert ours == theirs, (made_in, used_in, requires_grad)


def _of_function(m):
    class Same(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return g

    return Same.apply


def _hooked(m, inputs, through):
    """The order in which hooks run, and what arrives, for a backward of a choice of inputs."""
    log = []
    a = m.tensor(1.0, requires_grad=True)
    b = a * 2
    c = b * 2
    accumulator = b.grad_fn.next_functions[0][0]
    b.grad_fn.register_prehook(lambda g: log.append("before b"))
    a.register_hook(lambda g: log.append(("a", g.item())))
    b.register_hook(lambda g: log.append(("b", g.item())) or g * 3)
    b.grad_fn.register_hook(lambda i, o: log.append("after b"))
    accumulator.register_prehook(lambda g: log.append("before a"))
    accumulator.register_hook(lambda i, o: log.append("after a"))
    named = {"a": a, "b": b, "other": m.ones((), requires_grad=True)}
    chosen = [named[i] for i in inputs]
    handle = m.autograd.graph.register_multi_grad_hook(
        (a, b, named["other"]), lambda grads: log.append([g is not None for g in grads])
    )
    if through == "grad":
        log.append([g if g is None else g.item() for g in m.autograd.grad(c, chosen, allow_unused=True)])
    else:
        c.backward(inputs=chosen or None)
    handle.remove()
    return log, [t.grad if t.grad is None else t.grad.item() for t in named.values() if t.is_leaf]


# PyTorch refuses hooks over several tensors if `grad` is called for one of them, a leaf.
PARTIAL = [*((i, "backward") for i in ["", "a", "b", "ab", "a other", "b other"]), ("b", "grad"), ("b other", "grad")]


@pytest.mark.parametrize(("inputs", "through"), PARTIAL)
def test_hooks_of_a_partial_backward(inputs, through):
    names = [name for name in ("a", "b", "other") if name in inputs.replace("other", "") or name in inputs.split()]
    ours, theirs = _hooked(oneflow, names, through), _hooked(torch, names, through)
    assert ours == theirs


PROGRAMS = {
    "detached after it was saved": lambda m: _after(m, lambda x: x.sin(), lambda x: x.detach_()),
    "an output detached": lambda m: _after(m, lambda x: x.exp(), lambda x: x.detach_()),
    "pack hook that writes": lambda m: _packed(m, lambda t: t.add_(1)),
    "pack hook that copies": lambda m: _packed(m, lambda t: t + 0),
    "unsafe parts": lambda m: _parts(m, lambda x: m.unsafe_split(x, 2)),
    "unsafe chunks": lambda m: _parts(m, lambda x: m.unsafe_chunk(x, 2)),
    "parts": lambda m: _parts(m, lambda x: m.split(x, 2)),
    "view of a function": lambda m: _of_function(m)(m.ones(2, requires_grad=True) * 1).add_(1).tolist(),
    "numpy of a tensor with a gradient": lambda m: m.ones(2, requires_grad=True).numpy().tolist(),
    "numpy under no_grad": lambda m: _quiet(m, lambda: m.ones(2, requires_grad=True).numpy().tolist()),
}


def _after(m, op, then):
    x = m.tensor([0.5], requires_grad=True)
    y = x * 1
    z = op(y)
    then(y)
    z.sum().backward()
    return x.grad is not None


def _packed(m, pack):
    x = m.tensor([0.5], requires_grad=True)
    with m.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = x.exp()
    y.backward()
    return round(x.grad.item(), 4)


def _parts(m, split):
    x = m.arange(4.0).requires_grad_()
    a, b = split(x * 1)
    a *= 3
    b.sub_(1)
    (a.sum() * 2 + (b * b).sum()).backward()
    return x.grad.tolist()


def _quiet(m, call):
    with m.no_grad():
        return call()


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    assert _said(PROGRAMS[name], oneflow) == _said(PROGRAMS[name], torch)


POOLS = {
    "max_pool1d": (1, lambda F, x: F.max_pool1d(x, 2)),
    "max_pool2d": (2, lambda F, x: F.max_pool2d(x, 2)),
    "max_pool3d": (3, lambda F, x: F.max_pool3d(x, 2)),
    "avg_pool1d": (1, lambda F, x: F.avg_pool1d(x, 2)),
    "avg_pool2d": (2, lambda F, x: F.avg_pool2d(x, 2)),
    "avg_pool3d": (3, lambda F, x: F.avg_pool3d(x, 2)),
    "adaptive_max_pool2d": (2, lambda F, x: F.adaptive_max_pool2d(x, 3)),
    "adaptive_avg_pool2d": (2, lambda F, x: F.adaptive_avg_pool2d(x, 3)),
    "lp_pool2d": (2, lambda F, x: F.lp_pool2d(x, 2, 2)),
}


@pytest.mark.parametrize("name", POOLS)
def test_second_derivatives_of_pools(name):
    n_dims, pool = POOLS[name]
    values = torch.arange(1.0, 2 * 4**n_dims + 1, dtype=torch.float64).sin().reshape(1, 2, *[4] * n_dims)
    for make in (lambda y: y.sum(), lambda y: (y**3).sum()):
        found = []
        for m, x in ((oneflow, oneflow.tensor(values.numpy())), (torch, values.clone())):
            x.requires_grad_()
            (g,) = m.autograd.grad(make(pool(m.nn.functional, x)), x, create_graph=True)
            (h,) = m.autograd.grad((g**2).sum(), x)
            found.append(h.numpy())
        assert abs(found[0] - found[1]).max() < 1e-9


@pytest.mark.parametrize("name", POOLS)
def test_gradients_of_pools_depend_on_both_of_their_inputs(name):
    """The derivative by the image is zero, but there; that by the incoming gradient goes on to any order."""
    n_dims, pool = POOLS[name]
    values = torch.arange(1.0, 2 * 4**n_dims + 1, dtype=torch.float64).sin().reshape(1, 2, *[4] * n_dims)
    found = []
    for m, x in ((oneflow, oneflow.tensor(values.numpy())), (torch, values.clone())):
        x.requires_grad_()
        y = pool(m.nn.functional, x)
        incoming = y.detach().cos().requires_grad_()
        (g,) = m.autograd.grad(y, x, incoming, create_graph=True)
        first = m.autograd.grad(g, [x, incoming], g.detach().sin(), create_graph=True)
        second = m.autograd.grad((g**3).sum(), [x, incoming], create_graph=True)
        third = m.autograd.grad((second[1] ** 2).sum(), incoming)
        found.append([t.detach().numpy() for t in (g, *first, *second, *third)])
    for ours, theirs in zip(*found, strict=True):
        assert abs(ours - theirs).max() < 1e-9


def test_gradients_of_inference_mode():
    """What backward makes there belongs to the mode: it cannot be added to outside, nor written."""

    def told(lib):
        x, w = lib.ones(3, requires_grad=True), lib.tensor([1.0, 2.0, 3.0])
        y = x * w * 2
        with lib.inference_mode():
            (g,) = lib.autograd.grad(y, x, w, retain_graph=True)
            y.backward(w, retain_graph=True)
            (whole,) = lib.autograd.grad(y, y, w, retain_graph=True)
            y.backward(w, retain_graph=True)
        yield g.is_inference(), x.grad.is_inference(), whole.is_inference(), x.grad.tolist()
        for write in (lambda: (x * 3).sum().backward(), lambda: x.grad.add_(1), lambda: g.mul_(2)):
            with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
                write()
        before = x.grad.clone()
        with lib.inference_mode():
            # PyTorch has added before it raised.
            x.grad.add_(1)
            yield (x.grad - before).tolist()
            given = lib.ones(3)
        other = lib.ones(3, requires_grad=True)
        other.grad = given
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            (other * 3).sum().backward()
        # Recorded gradients are added out of place.
        (g,) = lib.autograd.grad((other**2).sum(), other)
        yield g.is_inference(), g.tolist()

    assert list(told(oneflow)) == list(told(torch))
