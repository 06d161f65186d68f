"""Modes below autograd: which ops they hear, beside PyTorch, and that a program goes on with what they return."""

import oneflow
import pytest
import torch
import torch.utils._python_dispatch
from oneflow.utils._python_dispatch import TorchDispatchMode

BOTH = (torch, oneflow)


def _heard(lib, program, *shapes, grad=False):
    """The names of the ops of a program, the shapes of their tensors, and its result."""
    names = []

    class Names(lib.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            shapes = [tuple(x.shape) for x in args if isinstance(x, lib.Tensor)]
            shape = tuple(result.shape) if isinstance(result, lib.Tensor) else None
            names.append((str(func), shapes, shape))
            return result

    tensors = [(lib.arange(1.0, 1 + _numel(s)).reshape(s) / 10).requires_grad_(grad) for s in shapes]
    with Names():
        result = program(lib, *tensors)
    return names, result


def _numel(shape):
    n = 1
    for size in shape:
        n *= size
    return n


# Programs whose ops are the same in both.
SAME = {
    "elementwise": (lambda lib, x: (x * 2).relu().exp() + x, [(3,)]),
    "matrix product": (lambda lib, x, y: x.mm(y), [(2, 3), (3, 4)]),
    "batch of products": (lambda lib, x, y: lib.bmm(x, y), [(2, 2, 3), (2, 3, 4)]),
    "addmm": (lambda lib, b, x, y: lib.addmm(b, x, y), [(4,), (2, 3), (3, 4)]),
    "reduction": (lambda lib, x: x.sum(0).mean(), [(2, 3)]),
    "in place": (lambda lib, x: x.clone().add_(1).mul_(x), [(3,)]),
    "views": (lambda lib, x: x.unsqueeze(0).expand(2, 3).permute(1, 0), [(3,)]),
    "cat": (lambda lib, x: lib.cat([x, x]), [(3,)]),
}


@pytest.mark.parametrize("name", SAME)
def test_ops_have_pytorchs_names(name):
    program, shapes = SAME[name]
    theirs, ours = (_heard(lib, program, *shapes) for lib in BOTH)
    assert ours[0] == theirs[0]
    assert ours[1].reshape(-1).tolist() == pytest.approx(theirs[1].reshape(-1).tolist())


LAYERS = {
    "linear": ("addmm", lambda lib, x, w, b: lib.nn.functional.linear(x, w, b), [(2, 3, 4), (5, 4), (5,)]),
    "linear without bias": ("mm", lambda lib, x, w: lib.nn.functional.linear(x, w), [(2, 3, 4), (5, 4)]),
    "batch times matrix": ("mm", lambda lib, x, y: x @ y, [(2, 3, 4), (4, 5)]),
    "batches": ("bmm", lambda lib, x, y: x @ y, [(2, 2, 3, 4), (2, 2, 4, 5)]),
    "convolution": (
        "convolution",
        lambda lib, x, w, b: lib.nn.functional.conv2d(x, w, b, 2, 1),
        [(2, 3, 6, 6), (4, 3, 3, 3), (4,)],
    ),
    "transposed": (
        "convolution",
        lambda lib, x, w: lib.nn.functional.conv_transpose2d(x, w, stride=2),
        [(2, 3, 6, 6), (3, 4, 3, 3)],
    ),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers_are_products(name):
    """The op that computes, and the shapes of its operands; a mode that calls it anew gives the program's result."""
    op, program, shapes = LAYERS[name]
    heard = []
    for lib in BOTH:
        entries = [e for e in _heard(lib, program, *shapes)[0] if e[0] == f"aten.{op}.default"]
        assert len(entries) == 1
        heard.append(entries[0][1])
    assert heard[0] == heard[1]

    class Anew(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            return func(*(a.clone() if isinstance(a, oneflow.Tensor) else a for a in args), **(kwargs or {}))

    tensors = [(oneflow.arange(1.0, 1 + _numel(s)).reshape(s) / 10) for s in shapes]
    with Anew():
        result = program(oneflow, *tensors)
    oneflow.testing.assert_close(result, program(oneflow, *tensors))


def test_results_are_those_without_a_mode():
    """Models forward and backward, with a mode that only listens: bit for bit the same."""
    oneflow.manual_seed(0)
    models = [
        (oneflow.nn.Sequential(oneflow.nn.Conv2d(3, 4, 3), oneflow.nn.BatchNorm2d(4), oneflow.nn.ReLU()), (2, 3, 8, 8)),
        (oneflow.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0), (2, 5, 8)),
        (oneflow.nn.LSTM(4, 5, 2), (3, 2, 4)),
        (oneflow.nn.Sequential(oneflow.nn.Linear(4, 4), oneflow.nn.LayerNorm(4), oneflow.nn.GELU()), (3, 4)),
    ]
    for model, shape in models:
        x = oneflow.randn(shape)
        results = []
        for listens in (False, True):
            model.zero_grad()
            before = {key: value.clone() for key, value in model.state_dict().items()}

            def run(lib, model=model, x=x):
                out = model(x)
                out = out[0] if isinstance(out, tuple) else out
                (out * out).sum().backward()
                return out

            out = _heard(oneflow, run)[1] if listens else run(oneflow)
            results.append([out, *(p.grad.clone() for p in model.parameters())])
            model.load_state_dict(before)
        assert all(oneflow.equal(a, b) for a, b in zip(*results, strict=True))


def test_ops_of_backward_are_heard():
    def program(lib, x):
        return (x.exp() * x).sum().backward()

    names = [name for name, _, _ in _heard(oneflow, program, (3,), grad=True)[0]]
    assert names[:3] == ["aten.exp.default", "aten.mul.Tensor", "aten.sum.default"]
    assert names[3:].count("aten.mul.Tensor") >= 3


def test_what_a_mode_returns_counts():
    class Doubled(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is oneflow.ops.aten.exp.default:
                return func(args[0] * 2)
            return func(*args, **(kwargs or {}))

    x = oneflow.tensor([0.5, 1.0], requires_grad=True)
    with Doubled():
        y = x.exp()
    assert y.tolist() == oneflow.tensor([1.0, 2.0]).exp().tolist() and y.requires_grad
    weight = oneflow.ones(3, 2)

    class Negated(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.overloadpacket is oneflow.ops.aten.mm:
                return func(-args[0], args[1])
            return func(*args, **(kwargs or {}))

    with Negated():
        y = oneflow.nn.functional.linear(oneflow.ones(2, 4, 2), weight)
    assert y.shape == (2, 4, 3) and bool((y == -2).all())


def test_modes_nest():
    """The inner one is asked first; what it calls the outer one hears."""
    order = []

    class Named(TorchDispatchMode):
        def __init__(self, name):
            self.name = name

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            order.append((self.name, func.__name__))
            return func(*args, **(kwargs or {}))

    x = oneflow.ones(2)
    with Named("outer"), Named("inner"):
        x.exp()
    assert order == [("inner", "exp.default"), ("outer", "exp.default")]
    order.clear()
    x.exp()
    assert not order


def test_errors_come_through():
    class Refuses(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            raise LookupError(str(func))

    x = oneflow.ones(2)
    with pytest.raises(LookupError, match=r"aten\.exp\.default"), Refuses():
        x.exp()
    assert oneflow.equal(x.exp(), x.exp())

    class Twice(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            func(*args, **(kwargs or {}))
            return func(*args, **(kwargs or {}))

    with Twice():
        y = x + 1
        z = x.clone().add_(1)
    assert y.tolist() == [2.0, 2.0] and z.tolist() == [3.0, 3.0]


def test_the_kernel_of_an_op_of_a_program_is_not_heard():
    for package, mode in ((torch, torch.utils._python_dispatch.TorchDispatchMode), (oneflow, TorchDispatchMode)):

        def twice(x):
            return (x * 2).exp()

        twice.__annotations__ = {"x": package.Tensor, "return": package.Tensor}
        package.library.custom_op("heard_once::twice", twice, mutates_args=())

        class Names(mode):
            def __init__(self, name, heard):
                super().__init__()
                self.name, self.heard = name, heard

            def __torch_dispatch__(self, func, types, args=(), kwargs=None):
                assert func._overloadpacket is func.overloadpacket
                self.heard.append((self.name, str(func)))
                return func(*args, **(kwargs or {}))

        x, heard = package.ones(2), []
        with Names("outer", heard), Names("inner", heard):
            package.ops.heard_once.twice(x).neg()
        assert heard == [
            (name, op) for op in ("heard_once.twice.default", "aten.neg.default") for name in ("inner", "outer")
        ]
