"""Classes of tensors that answer ops below autograd (``__torch_dispatch__``), beside PyTorch."""

import copy
import functools
import gc
import io
import math
import pickle
import weakref

import oneflow
import pytest
import torch
import torch.utils._mode_utils
import torch.utils._python_dispatch
import torch.utils._pytree
import torch.utils.checkpoint
from oneflow import _oneflow
from oneflow.utils import _aten_names
from oneflow.utils._python_dispatch import TorchDispatchMode
from ops.op_samples import TABLE, build, leaves

# PyTorch's own name of the mark; the package's stands in a private module.
DISABLED = {torch: torch._C._disabled_torch_function_impl, oneflow: _oneflow._C._disabled_torch_function_impl}
BOTH = (torch, oneflow)


def two_of(fw):
    """A class of two tensors that take every op together."""
    of_both = fw.utils._pytree.tree_map
    aliasing = fw.utils._python_dispatch.return_and_correct_aliasing

    class Two(fw.Tensor):
        __torch_function__ = DISABLED[fw]
        heard: list = []

        @staticmethod
        def __new__(cls, a, b, requires_grad=False):
            made = fw.Tensor._make_wrapper_subclass(
                cls,
                a.size(),
                strides=a.stride(),
                storage_offset=a.storage_offset(),
                dtype=a.dtype,
                device=a.device,
                requires_grad=requires_grad,
            )
            made.a, made.b = a, b
            return made

        def __tensor_flatten__(self):
            return ["a", "b"], None

        @staticmethod
        def __tensor_unflatten__(inner, meta, size, stride):
            return Two(inner["a"], inner["b"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            Two.heard.append(str(func))
            results = []
            for part in ("a", "b"):
                inner = of_both(lambda x, p=part: getattr(x, p) if isinstance(x, Two) else x, (args, kwargs or {}))
                results.append(func(*inner[0], **inner[1]))
            first, second = results
            if isinstance(first, fw.Tensor):
                made = Two(first, second)
            elif isinstance(first, (tuple, list)):
                pairs = zip(first, second, strict=True)
                made = type(first)(Two(x, y) if isinstance(x, fw.Tensor) else x for x, y in pairs)
            else:
                made = first
            return aliasing(func, args, kwargs, made)

    return Two


CLASSES = {fw: two_of(fw) for fw in BOTH}


def two(fw, requires_grad=False):
    a, b = (fw.tensor([[x, x + 1], [x + 2, x + 3]], dtype=fw.float64) for x in (1.0, 5.0))
    return CLASSES[fw](a, b, requires_grad)


def parameter(fw):
    return fw.nn.Parameter(two(fw))


def described(fw, x):
    if isinstance(x, CLASSES[fw]):
        return "two", described(fw, x.a), described(fw, x.b), tuple(x.shape), x.stride(), x.requires_grad
    if isinstance(x, fw.Tensor):
        return type(x).__name__, str(x.dtype).rpartition(".")[2], x.tolist(), x.requires_grad
    if isinstance(x, (tuple, list)):
        return [described(fw, y) for y in x]
    return pytest.approx(x, 1e-12) if isinstance(x, float) else x


def close(ours, theirs):
    """Equal but for the last bits of numbers."""
    if isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs), (ours, theirs)
        for a, b in zip(ours, theirs, strict=True):
            close(a, b)
    else:
        assert ours == (pytest.approx(theirs, 1e-12) if isinstance(theirs, float) else theirs)


def _in_place(fw):
    x = two(fw)
    y = x.add_(1)
    x.mul_(2)
    z = two(fw)
    z.copy_(x)
    z[0, 1] = 9
    z[:, 0] = two(fw)[:, 1]
    return [x, y is x, z, two(fw).zero_()]


def _out(fw):
    y = two(fw)
    fw.add(two(fw), two(fw), out=y)
    return y


def _gradients(fw):
    x = two(fw, True)
    for _ in range(2):
        ((x.sin() * x.t()).exp().sum() + (x[0] * 3).mean()).backward()
    return [x.grad, x.is_leaf]


def _second_gradients(fw):
    x = two(fw, True)
    (g,) = fw.autograd.grad((x**3).sum(), x, create_graph=True)
    (h,) = fw.autograd.grad(g.sum(), x)
    return [g.detach(), h]


def _product(fw):
    w, x = two(fw, True), fw.tensor([[1.0, -1.0]], dtype=fw.float64, requires_grad=True)
    (x @ w).sum().backward()
    return [w.grad, x.grad]


def _linear(fw, bias):
    layer = fw.nn.Linear(2, 2, bias, dtype=fw.float64)
    if bias:
        layer.bias.data.fill_(1.0)
    layer.weight = parameter(fw)
    y = layer(fw.ones(3, 2, dtype=fw.float64))
    y.sum().backward()
    moved = copy.deepcopy(layer).to(fw.float32).weight
    return [
        y.detach(),
        layer.weight.grad,
        isinstance(layer.weight, fw.nn.Parameter),
        layer.state_dict()["weight"],
        moved.a,
    ]


def _optimizers(fw):
    found = []
    for make in (
        lambda q: fw.optim.SGD(q, lr=0.1),
        lambda q: fw.optim.SGD(q, lr=0.1, momentum=0.9),
        lambda q: fw.optim.AdamW(q, lr=0.1),
        lambda q: fw.optim.RMSprop(q, lr=0.1),
    ):
        q = parameter(fw)
        optimizer = make([q])
        for _ in range(3):
            optimizer.zero_grad()
            (q * q).sum().backward()
            optimizer.step()
        found.append(q.detach())
    return found


def _copies(fw):
    x = two(fw)
    same, deep = copy.copy(x), copy.deepcopy(x)
    deep.a.add_(1)
    q = copy.deepcopy(parameter(fw))
    return [same, deep, x, q, isinstance(q, fw.nn.Parameter), isinstance(x, fw.nn.Parameter)]


def _functions(fw):
    F, x = fw.nn.functional, two(fw)
    return [F.relu(x), F.softmax(x, -1), F.gelu(x), F.layer_norm(x, (2,)), F.dropout(x, 0.5, False), F.pad(x, (1, 1))]


def _hooks(fw):
    x, seen = two(fw, True), []
    x.register_hook(lambda g: seen.append(isinstance(g, CLASSES[fw])))
    (x * 2).sum().backward()
    return seen


PROGRAMS = {
    "arithmetic": lambda fw: [f(two(fw)) for f in (lambda x: x + 1, lambda x: x * x, lambda x: 2 - x, lambda x: x / 3)],
    "elementwise": lambda fw: [
        getattr(two(fw), n)() for n in ("sin", "exp", "log", "abs", "neg", "relu", "sqrt", "sign")
    ],
    "products": lambda fw: [
        two(fw) @ two(fw),
        fw.ones(2, 2, dtype=fw.float64) @ two(fw),
        fw.einsum("ij,jk", two(fw), two(fw)),
    ],
    "views": lambda fw: [
        f(two(fw))
        for f in (
            lambda x: x.t(),
            lambda x: x[0],
            lambda x: x[:, 1],
            lambda x: x.view(4),
            lambda x: x.reshape(-1),
            lambda x: x.unsqueeze(0),
            lambda x: x.transpose(0, 1),
            lambda x: x.expand(2, 2, 2),
            lambda x: list(x),
            lambda x: x.split(1),
            lambda x: x.chunk(2),
            lambda x: x.unbind(),
            lambda x: x.flatten(),
        )
    ],
    "reductions": lambda fw: [
        two(fw).sum(),
        two(fw).mean(0),
        two(fw).max(),
        list(two(fw).max(1)),
        two(fw).argmax(),
        two(fw).std(),
    ],
    "lists": lambda fw: [fw.cat([two(fw), two(fw)]), fw.stack([two(fw), two(fw)]), fw.where(two(fw) > 2, two(fw), 0.0)],
    "made like it": lambda fw: [
        fw.zeros_like(two(fw)),
        fw.ones_like(two(fw)),
        two(fw).new_zeros(3),
        fw.full_like(two(fw), 2.0),
    ],
    "conversions": lambda fw: [
        two(fw).to(fw.float32),
        two(fw).half(),
        two(fw).clone(),
        two(fw).contiguous(),
        two(fw).cpu(),
    ],
    "in place": _in_place,
    "out=": _out,
    "gradients": _gradients,
    "second gradients": _second_gradients,
    "gradients of a product": _product,
    "linear": lambda fw: _linear(fw, False),
    "linear with bias": lambda fw: _linear(fw, True),
    "functions": _functions,
    "optimizers": _optimizers,
    "copies": _copies,
    "hooks": _hooks,
    "detach": lambda fw: [two(fw, True).detach(), parameter(fw), parameter(fw).is_leaf, two(fw, True).data],
    "func": lambda fw: [fw.func.grad(lambda v: (v * v).sum())(two(fw)), fw.vmap(lambda r: r * 2)(two(fw))],
    "checkpoint": lambda fw: (
        lambda x: [
            fw.utils.checkpoint.checkpoint(lambda v: (v * v).sin(), x, use_reentrant=False).sum().backward(),
            x.grad,
        ]
    )(two(fw, True)),
    "says what it is": lambda fw: [
        fw.utils._python_dispatch.is_traceable_wrapper_subclass(two(fw)),
        fw.utils._python_dispatch.is_traceable_wrapper_subclass(fw.ones(1)),
        two(fw).storage_offset(),
        two(fw).layout is fw.strided,
        two(fw).element_size(),
    ],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    theirs, ours = (described(fw, PROGRAMS[name](fw)) for fw in BOTH)
    close(ours, theirs)


HEARD = {
    "views": lambda x: [x.t(), x.view(4), x[0], x.unsqueeze(1), x.transpose(0, 1)],
    "values": lambda x: [x.clone(), x.sum(0), x.mean(), x.softmax(0), x @ x, x * 2 + x, x.exp_()],
    "conversions": lambda x: [x.detach(), x.float()],
}


@pytest.mark.parametrize("name", HEARD)
def test_ops_have_pytorchs_names(name):
    heard = []
    for fw in BOTH:
        x = two(fw)
        CLASSES[fw].heard.clear()
        HEARD[name](x)
        heard.append(list(CLASSES[fw].heard))
    assert heard[0] == heard[1]


def _calls():
    """Every op of the table that a program can call, with its samples."""
    for name in TABLE:
        function = _aten_names._callable(name, False)
        if isinstance(function, functools.partial):
            # It writes what it is called on.
            continue
        for described_sample in _oneflow._C._samples(name):
            yield name, function, described_sample


def _run(function, sample, around=lambda x: x):
    arguments = oneflow.utils._pytree.tree_map(around, build(oneflow, sample, "float32", "contiguous", 1))
    oneflow.manual_seed(1)
    return leaves(function(*arguments[0], **arguments[1]))


def _equal(a, b):
    if not isinstance(b, oneflow.Tensor) or not b.layout == oneflow.strided:
        return isinstance(b, oneflow.Tensor) or a == b
    return a.shape == b.shape and a.dtype == b.dtype and oneflow.allclose(a, b, 1e-4, 1e-5, equal_nan=True)


def test_every_op_may_be_called_anew():
    """A mode that calls each op with copies of its operands gives the results of the op itself."""

    class Anew(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            copied = oneflow.utils._pytree.tree_map(
                lambda x: x.clone() if isinstance(x, oneflow.Tensor) else x, (args, kwargs or {})
            )
            return func(*copied[0], **copied[1])

    n, wrong = 0, []
    for name, function, sample in _calls():
        try:
            wanted = _run(function, sample)
        except (RuntimeError, TypeError, NotImplementedError, ValueError):
            continue
        with Anew():
            found = _run(function, sample)
        n += 1
        if len(found) != len(wanted) or not all(map(_equal, found, wanted)):
            wrong.append(name)
    assert n > 1000 and not wrong


def test_every_op_is_answered():
    """Operands of a class of two equal tensors give, in each, what the op gives."""
    kind = CLASSES[oneflow]
    n, wrong = 0, []
    for name, function, sample in _calls():
        try:
            wanted = _run(function, sample)
        except (RuntimeError, TypeError, NotImplementedError, ValueError):
            continue
        if not wanted or not all(isinstance(t, oneflow.Tensor) and t.layout == oneflow.strided for t in wanted):
            continue
        has_operands = []

        def answering(x, has_operands=has_operands):
            if not isinstance(x, oneflow.Tensor):
                return x
            has_operands.append(x)
            return kind(x, x.clone())

        try:
            found = _run(function, sample, answering)
        except Exception as error:
            wrong.append(f"{name}: {type(error).__name__} {error}"[:200])
            continue
        if not has_operands:
            continue
        n += 1
        # Random numbers of the second are the next ones.
        n_parts = 1 if "Generator" in TABLE[name]["signature"] else 2
        parts = [(x.a, x.b)[:n_parts] if isinstance(x, kind) else (x,) for x in found]
        same = len(found) == len(wanted)
        if not same or not all(_equal(p, w) for part, w in zip(parts, wanted, strict=True) for p in part):
            wrong.append(name)
    assert n > 1000 and not wrong, wrong


class Scaled(oneflow.Tensor):
    """Whole numbers and a scale for each row, as a float weight."""

    __torch_function__ = DISABLED[oneflow]

    @staticmethod
    def __new__(cls, whole, scale):
        made = oneflow.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=scale.dtype)
        made.whole, made.scale = whole, scale
        return made

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        aten = oneflow.ops.aten
        if func in (aten.detach.default, aten.clone.default):
            return cls(args[0].whole, args[0].scale)
        if func is aten.t.default:
            return cls(args[0].whole.t(), args[0].scale.t())
        dense = oneflow.utils._pytree.tree_map(
            lambda x: x.whole.to(x.scale.dtype) * x.scale if isinstance(x, cls) else x, (args, kwargs or {})
        )
        return func(*dense[0], **dense[1])


def scaled(weight):
    scale = weight.abs().amax(1, keepdim=True) / 127
    return Scaled((weight / scale).round().to(oneflow.int8), scale)


def test_a_quantized_layer_runs_and_is_saved():
    oneflow.manual_seed(0)
    model = oneflow.nn.Sequential(oneflow.nn.Linear(8, 16), oneflow.nn.ReLU(), oneflow.nn.Linear(16, 4))
    x = oneflow.randn(3, 8)
    exact = model(x)
    for layer in (model[0], model[2]):
        layer.weight = oneflow.nn.Parameter(scaled(layer.weight.detach()), requires_grad=False)
    y = model(x)
    assert 0 < (y - exact).abs().max() < 0.02
    file = io.BytesIO()
    oneflow.save(model.state_dict(), file)
    with pytest.raises(pickle.UnpicklingError, match="Scaled"):
        oneflow.load(io.BytesIO(file.getvalue()))
    with oneflow.serialization.safe_globals([Scaled]):
        state = oneflow.load(io.BytesIO(file.getvalue()))
    assert type(state["0.weight"]) is Scaled and state["0.weight"].whole.dtype is oneflow.int8
    other = oneflow.nn.Sequential(oneflow.nn.Linear(8, 16), oneflow.nn.ReLU(), oneflow.nn.Linear(16, 4))
    other.load_state_dict(state, assign=True)
    assert oneflow.equal(other(x), y)
    again = pickle.loads(pickle.dumps(model[0].weight))
    assert type(again) is Scaled and oneflow.equal(again.whole, model[0].weight.whole)
    # Compiled it runs as it is, and says so; a graph cannot hold it.
    with pytest.warns(UserWarning, match="cannot be traced"):
        assert oneflow.equal(oneflow.compile(model)(x), y)

    class Graph(oneflow.nn.Graph):
        def __init__(self):
            super().__init__()
            self.model = model

        def build(self, x):
            return self.model(x)

    with pytest.raises(
        NotImplementedError, match=r"linear\(\): tensors of classes with __torch_dispatch__ cannot be traced"
    ):
        Graph()(x)


def halved_of(fw):
    """A class that answers all ops with dense tensors, views too."""

    class Halved(fw.Tensor):
        __torch_function__ = DISABLED[fw]

        @staticmethod
        def __new__(cls, double):
            made = fw.Tensor._make_wrapper_subclass(cls, double.shape, dtype=double.dtype)
            made.double = double
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            dense = fw.utils._pytree.tree_map(
                lambda x: x.double * 0.5 if isinstance(x, cls) else x, (args, kwargs or {})
            )
            return func(*dense[0], **dense[1])

    def numbers(*shape):
        return fw.arange(1.0, 1 + math.prod(shape), dtype=fw.float64).reshape(shape) / 10

    return numbers, lambda *shape: Halved(numbers(*shape))


# Layers that are put together of views and products.
LAYERS = {
    "linear": lambda F, x, h: F.linear(x(2, 3, 4), h(5, 4)),
    "linear with bias": lambda F, x, h: F.linear(x(2, 4), h(5, 4), h(5)),
    "batches": lambda F, x, h: h(2, 2, 3, 4) @ x(4, 5),
    "addmm": lambda F, x, h: h(5).addmm(x(2, 4), h(4, 5)),
    "bilinear": lambda F, x, h: F.bilinear(x(2, 3), x(2, 4), h(5, 3, 4)),
    "attention": lambda F, x, h: F.scaled_dot_product_attention(*(h(1, 2, 3, 4) for _ in range(3))),
}


@pytest.mark.parametrize("name", LAYERS)
def test_views_of_a_class_may_be_ordinary_tensors(name):
    theirs, ours = (LAYERS[name](fw.nn.functional, *halved_of(fw)) for fw in BOTH)
    assert type(theirs) is torch.Tensor and type(ours) is oneflow.Tensor
    assert ours.reshape(-1).tolist() == pytest.approx(theirs.reshape(-1).tolist(), 1e-12)


def test_a_class_with_memory_is_asked_too():
    for fw in BOTH:
        heard = []

        class Heard(fw.Tensor):
            __torch_function__ = DISABLED[fw]

            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None, fw=fw, heard=heard):
                heard.append((str(func), [t.__name__ for t in types]))
                with fw.utils._mode_utils.no_dispatch():
                    return fw.Tensor._make_subclass(cls, func(*args, **(kwargs or {})))

        x = fw.Tensor._make_subclass(Heard, fw.tensor([1.0, 2.0]))
        y = (x + 1) * 2
        assert type(y) is Heard and heard == [("aten.add.Tensor", ["Heard"]), ("aten.mul.Tensor", ["Heard"])]
        with fw.utils._mode_utils.no_dispatch():
            assert (y.as_subclass(fw.Tensor) == fw.tensor([4.0, 6.0])).all()


def test_classes_that_derive_from_others_come_first():
    for fw in BOTH:
        asked = []

        class Base(fw.Tensor):
            __torch_function__ = DISABLED[fw]

            @staticmethod
            def __new__(cls, fw=fw):
                return fw.Tensor._make_wrapper_subclass(cls, (2,))

            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None, fw=fw, asked=asked):
                asked.append((cls.__name__, [t.__name__ for t in types]))
                return NotImplemented if cls.__name__ == "Derived" else fw.zeros(2)

        class Derived(Base):
            pass

        _ = Base() + Derived()
        _ = Derived() + Base()
        _ = Base() + Base()
        with pytest.raises(TypeError, match=r"Multiple dispatch failed|unsupported operand"):
            _ = Derived() + 1
        assert [kind for kind, _ in asked[:5]] == ["Derived", "Base", "Derived", "Base", "Base"]
        assert asked[4][1] == ["Base"] and set(asked[0][1]) == {"Base", "Derived"}


def test_numbers_are_asked_for():
    for fw in BOTH:

        class Seven(fw.Tensor):
            __torch_function__ = DISABLED[fw]

            @staticmethod
            def __new__(cls, fw=fw):
                return fw.Tensor._make_wrapper_subclass(cls, ())

            @classmethod
            def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
                return 7.0 if str(func) == "aten._local_scalar_dense.default" else NotImplemented

        assert Seven().item() == 7.0 and float(Seven()) == 7.0 and int(Seven()) == 7


def test_modes_come_before_classes():
    order = []

    class Mode(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            order.append(str(func))
            return func(*args, **(kwargs or {}))

    kind = CLASSES[oneflow]
    x = two(oneflow)
    kind.heard.clear()
    with Mode():
        y = x + 1
    assert isinstance(y, kind) and order[0] == "aten.add.Tensor" and kind.heard == ["aten.add.Tensor"]


def test_swapped_tensors_change_class_and_attributes():
    x, y = two(oneflow), oneflow.ones(3)
    a = x.a
    oneflow.utils.swap_tensors(x, y)
    assert type(x) is oneflow.Tensor and x.tolist() == [1.0, 1.0, 1.0]
    assert isinstance(y, CLASSES[oneflow]) and y.a is a and (y * 2).a.tolist() == (a * 2).tolist()
    assert oneflow.equal(y.detach().a, a)


class NoMemory(oneflow.Tensor):
    __torch_function__ = DISABLED[oneflow]

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def without_memory(*sizes, **options):
    return oneflow.Tensor._make_wrapper_subclass(NoMemory, sizes, **options)


REFUSED = {
    "the op on itself": (lambda x: x + 1, NotImplementedError, r"add\(\): a tensor of .*NoMemory.* has no memory"),
    "numpy": (lambda x: x.numpy(), NotImplementedError, "has no memory"),
    "tolist": (lambda x: x.tolist(), NotImplementedError, "has no memory"),
    "item": (
        lambda x: without_memory().item(),
        (NotImplementedError, TypeError),
        "has no memory|must return a number|_local_scalar",
    ),
    "storage": (lambda x: x.untyped_storage(), NotImplementedError, "storage"),
    "dlpack": (lambda x: oneflow.from_dlpack(x), ValueError, "without data"),
    "resize_": (lambda x: x.resize_(3), NotImplementedError, "resize_"),
    "set_": (lambda x: x.set_(oneflow.ones(2)), RuntimeError, "incompatible tensor type"),
    "data": (lambda x: setattr(x, "data", oneflow.ones(2)), RuntimeError, "incompatible tensor type"),
    "another layout": (lambda x: without_memory(2, layout=oneflow.sparse_coo), NotImplementedError, "layout=strided"),
    "a shape that the class computes": (
        lambda x: without_memory(2, dispatch_sizes_strides_policy="sizes"),
        NotImplementedError,
        "dispatch_sizes_strides_policy",
    ),
    "strides of other dimensions": (lambda x: without_memory(2, strides=(1, 1)), RuntimeError, "strides"),
    "negative sizes": (lambda x: without_memory(-2), RuntimeError, "negative dimension"),
    "sizes beyond all memory": (lambda x: without_memory(2**62, 2**62), RuntimeError, "overflow"),
    "no class that answers": (
        lambda x: oneflow.Tensor._make_wrapper_subclass(oneflow.nn.Parameter, (2,)),
        TypeError,
        "must define __torch_dispatch__",
    ),
    "a sparse tensor": (lambda x: oneflow.eye(2).to_sparse().as_subclass(NoMemory), NotImplementedError, "strided"),
    "a result that is no tensor": (
        lambda x: type("Odd", (NoMemory,), {"__torch_dispatch__": classmethod(lambda *a, **k: [1])}),
        None,
        "",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    call, error, text = REFUSED[name]
    if error is None:
        odd = oneflow.Tensor._make_wrapper_subclass(call(None), (2,))
        with pytest.raises(TypeError, match=r"add\(\): the results of __torch_dispatch__ must be Tensors"):
            odd + 1
        return
    with pytest.raises(error, match=text):
        call(without_memory(2))


def test_it_prints_and_shows_its_layout():
    x = without_memory(2, 3, memory_format=None, dtype=oneflow.float64)
    assert repr(x).startswith("NoMemory(...") and "size=(2, 3)" in repr(x) and x.stride() == (3, 1)
    assert without_memory(1, 2, 3, 4, memory_format=oneflow.channels_last).stride() == (24, 1, 8, 2)


def test_cycles_through_attributes_are_collected():
    kind = CLASSES[oneflow]
    x = two(oneflow, True)
    x.itself, x.more = x, [x.a, x]
    gone = weakref.ref(x)
    del x
    kind.heard.clear()
    gc.collect()
    assert gone() is None


def slotted(fw):
    """A class that holds its tensor in a slot, as PyTorch's own tests do."""
    tree_map = fw.utils._pytree.tree_map

    class Slotted(fw.Tensor):
        __slots__ = ["elem"]

        @staticmethod
        def __new__(cls, elem, requires_grad=False):
            made = fw.Tensor._make_wrapper_subclass(
                cls, elem.size(), strides=elem.stride(), dtype=elem.dtype, requires_grad=requires_grad
            )
            made.elem = elem
            return made

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            args, kwargs = tree_map(lambda x: x.elem if isinstance(x, cls) else x, (args, kwargs or {}))
            return tree_map(lambda x: cls(x) if isinstance(x, fw.Tensor) else x, func(*args, **kwargs))

    return Slotted


@pytest.mark.parametrize(
    "function",
    [
        lambda fw, x: [fw.autograd.functional.jacobian(lambda x: x.exp(), x)],
        lambda fw, x: [fw.autograd.functional.jacobian(lambda x: x.exp().sum(), x, create_graph=True)],
        lambda fw, x: [fw.autograd.functional.hessian(lambda x: x.pow(3).sum(), x, create_graph=True)],
        lambda fw, x: fw.autograd.functional.vjp(lambda x: x.exp(), x, x),
        lambda fw, x: fw.autograd.functional.hvp(lambda x: x.pow(3).sum(), x, x),
        lambda fw, x: fw.autograd.grad((x.requires_grad_() * 2).sum(), x),
        lambda fw, x: [x.zero_().add_(1).t()],
    ],
)
def test_slots_of_a_class_outlive_the_objects(function):
    found = []
    for fw in BOTH:
        kind = slotted(fw)
        x = kind(fw.tensor([[0.5, 1.0], [1.5, 2.0]]))
        results = function(fw, x)
        gc.collect()
        assert all(type(r) is kind for r in results)
        found.append([r.elem.tolist() for r in results])
    for theirs, ours in zip(*found, strict=True):
        assert torch.allclose(torch.tensor(theirs), torch.tensor(ours), rtol=1e-5)


def test_gradients_that_no_class_made_are_plain_inside_a_jacobian():
    x = slotted(oneflow)(oneflow.rand(2, 2, generator=oneflow.Generator().manual_seed(1)))
    whole = oneflow.autograd.functional.jacobian(lambda x: x.sum(), x, vectorize=True)
    assert whole.tolist() == [[1, 1], [1, 1]]


@pytest.mark.parametrize("name", ["copy", "zero", "cauchy", "exponential", "normal", "random", "uniform"])
def test_ops_that_write_have_functions_for_new_results(name):
    call = _aten_names._callable(name, False)
    x = oneflow.ones(2, 3)
    result = call(x, oneflow.full((3,), 7.0)) if name == "copy" else call(x)
    assert x.tolist() == [[1] * 3] * 2 and result.shape == x.shape
    if name in ("copy", "zero"):
        assert result.unique().tolist() == [7.0 if name == "copy" else 0.0]
