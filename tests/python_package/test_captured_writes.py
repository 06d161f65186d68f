"""Functions that are differentiated write nothing but their inputs and what they make, as in PyTorch's transforms."""

import itertools

import oneflow
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore")
BOTH = (oneflow, torch)
CAPTURED = "would mutate a captured Tensor"

# Each calls a function of a vector by one transform.
TRANSFORMS = {
    "grad": lambda fw, f: fw.func.grad(lambda x: f(x).sum())(vector(fw)),
    "grad_and_value": lambda fw, f: fw.func.grad_and_value(lambda x: f(x).sum())(vector(fw))[0],
    "vjp": lambda fw, f: fw.func.vjp(f, vector(fw))[1](vector(fw))[0],
    "jvp": lambda fw, f: fw.func.jvp(f, (vector(fw),), (vector(fw),))[1],
    "jacrev": lambda fw, f: fw.func.jacrev(f)(vector(fw)),
    "jacfwd": lambda fw, f: fw.func.jacfwd(f)(vector(fw)),
    "vmap of grad": lambda fw, f: fw.func.vmap(fw.func.grad(lambda x: f(x).sum()))(vector(fw).expand(2, 3)),
    "grad of grad": lambda fw, f: fw.func.grad(lambda y: fw.func.grad(lambda x: (f(x) * x).sum())(y.clone()).sum())(
        vector(fw)
    ),
}

# Each writes to `c`.
WRITES = {
    "copy_": lambda fw, c, x: c.copy_(x),
    "of a number": lambda fw, c, x: c.add_(1),
    "without history": lambda fw, c, x: c.copy_(x.detach()),
    "a view": lambda fw, c, x: c[1:].mul_(2),
    "assigned": lambda fw, c, x: c.__setitem__(0, 2.0),
    "data": lambda fw, c, x: c.data.add_(1),
    "fill_": lambda fw, c, x: c.fill_(3.0),
    "random": lambda fw, c, x: c.uniform_(),
    "where indexed": lambda fw, c, x: c.index_add_(0, fw.tensor([0]), fw.ones(1)),
    "a mask": lambda fw, c, x: c.masked_fill_(fw.tensor([True, False, True]), 0.0),
    "under no_grad": lambda fw, c, x: without_grad(fw, c),
}

# Tensors that a function may write, and those it may not.
OWN = {
    "made": lambda fw, x: fw.zeros(3),
    "a copy of the input": lambda fw, x: x.detach().clone(),
    "like the input": lambda fw, x: fw.zeros_like(x),
}


def vector(fw):
    return fw.tensor([0.5, -1.0, 2.0])


def without_grad(fw, c):
    with fw.no_grad():
        c.add_(1)


@pytest.mark.parametrize(("transform", "write"), itertools.product(TRANSFORMS, WRITES))
def test_a_captured_tensor_is_not_written(transform, write):
    for fw in BOTH:
        c = vector(fw)

        def f(x, fw=fw, c=c):
            WRITES[write](fw, c, x)
            return x.sin()

        # A write of all samples into a tensor of one may be refused for that first.
        refusal = f"{CAPTURED}|^vmap: " if transform == "vmap of grad" else CAPTURED
        with pytest.raises(RuntimeError, match=refusal):
            TRANSFORMS[transform](fw, f)
        assert c.tolist() == vector(fw).tolist()
        assert not c.requires_grad
        # The refusal ends with the transform.
        c.add_(1)


@pytest.mark.parametrize(("transform", "write", "own"), itertools.product(TRANSFORMS, WRITES, OWN))
def test_what_the_function_makes_is_written(transform, write, own):
    if write == "random":
        pytest.skip("draws differ")
    results = []
    for fw in BOTH:

        def f(x, fw=fw):
            c = OWN[own](fw, x)
            if transform == "vmap of grad" and own == "made" and write in ("copy_", "without history"):
                c = c + x.detach()
            WRITES[write](fw, c, x)
            return x.sin() * c

        try:
            results.append(torch.tensor(TRANSFORMS[transform](fw, f).tolist()))
        except (RuntimeError, NotImplementedError) as error:
            results.append(error)
    ours, theirs = results
    if isinstance(theirs, Exception):
        assert isinstance(ours, Exception) or CAPTURED not in str(theirs), theirs
        return
    torch.testing.assert_close(ours, theirs)


def test_inner_transforms_do_not_write_what_outer_ones_made():
    for fw in BOTH:

        def outer(y, fw=fw):
            c = fw.zeros(3)
            c.add_(y)  # its own
            with pytest.raises(RuntimeError, match=CAPTURED):
                fw.func.grad(lambda x: (c.mul_(2), x.sum())[1])(y.clone())
            c.add_(1)
            return (c * y).sum()

        found = fw.func.grad(outer)(vector(fw))
        assert found.tolist() == (2 * vector(fw) + 1).tolist()


def test_running_statistics_are_captured_unless_they_are_given():
    for fw in BOTH:
        norm = fw.nn.BatchNorm1d(3)
        state = {**dict(norm.named_parameters()), **dict(norm.named_buffers())}
        state = {name: t.detach().clone() for name, t in state.items()}
        x = fw.arange(12.0).reshape(4, 3)
        with pytest.raises(RuntimeError, match=CAPTURED):
            fw.func.grad(lambda x, norm=norm: norm(x).square().sum())(x)
        norm.eval()
        assert fw.func.grad(lambda x, norm=norm: norm(x).square().sum())(x).shape == (4, 3)


@pytest.mark.parametrize(("outside", "pulled"), itertools.product((True, False), (True, False)))
def test_results_of_vjp_are_recorded_where_recording_is_on(outside, pulled):
    recorded = []
    for fw in BOTH:
        x = fw.tensor(3.0, requires_grad=True)
        with fw.set_grad_enabled(outside):
            out, pull = fw.func.vjp(lambda t: t**2, x)
        with fw.set_grad_enabled(pulled):
            (y,) = pull(fw.tensor(1.0))
        assert y.item() == 6.0
        again = fw.autograd.grad(y, x)[0].item() if y.requires_grad else None
        recorded.append((out.requires_grad, y.requires_grad, again))
    assert recorded[0] == recorded[1]


def test_jacobians_refuse_what_has_no_real_derivative():
    for fw in BOTH:
        for name in ("jacrev", "jacfwd"):
            transform = getattr(fw.func, name)
            with pytest.raises(RuntimeError, match=f"{name}: Expected all inputs to be real"):
                transform(lambda z: z.real)(fw.tensor([1j, 2.0]))
            with pytest.raises(RuntimeError, match=f"{name}: Expected all outputs to be real"):
                transform(lambda x: x * 1j)(fw.tensor([1.0, 2.0]))


def test_strict_products_refuse_independent_results():
    for fw in BOTH:
        x = vector(fw)
        assert fw.func.jvp(lambda t: (t.sin(), t * 2), (x,), (x,), strict=True)[1][1].tolist() == (2 * x).tolist()
        with pytest.raises(RuntimeError, match="strict"):
            fw.func.jvp(lambda t, x=x: (t.sin(), x), (x,), (x,), strict=True)


def test_rows_of_a_jacobian_one_by_one_may_depend_on_data():
    for fw in BOTH:

        class Identity(fw.autograd.Function):
            @staticmethod
            def forward(x):
                return x.clone()

            @staticmethod
            def setup_context(ctx, inputs, output):
                pass

            @staticmethod
            def backward(ctx, grad):
                return grad * len(grad.nonzero())

        found = fw.func.jacrev(Identity.apply, chunk_size=1)(vector(fw))
        assert found.tolist() == fw.eye(3).tolist()
