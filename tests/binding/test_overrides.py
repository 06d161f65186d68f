"""__torch_function__: call order, arguments and the types of results for subclasses, compared with PyTorch."""

import copy
import pickle

import oneflow as flow
import pytest
import torch
from torch_oracle import both


def name(func):
    return getattr(func, "__name__", str(func))


def logging_class(fw, log):
    class Logged(fw.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append((name(func), len(args), sorted(kwargs or {}), [t.__name__ for t in types]))
            return super().__torch_function__(func, types, args, kwargs or {})

    return Logged


CALLS = [
    lambda fw, x: x + 1,
    lambda fw, x: 1 + x,
    lambda fw, x: x * fw.ones(2, 2),
    lambda fw, x: fw.ones(2, 2) * x,
    lambda fw, x: fw.add(x, x, alpha=2),
    lambda fw, x: x.add(fw.ones(2, 2)),
    lambda fw, x: fw.cat([fw.ones(2, 2), x]),
    lambda fw, x: fw.stack((x, x), dim=1),
    lambda fw, x: x.sum(dim=0, keepdim=True),
    lambda fw, x: fw.max(x, 0),
    lambda fw, x: x.view(4),
    lambda fw, x: x.reshape(-1),
    lambda fw, x: x[0],
    lambda fw, x: x[x > 0],
    lambda fw, x: x.T,
    lambda fw, x: x.detach(),
    lambda fw, x: x.split(1),
    lambda fw, x: -x,
    lambda fw, x: x @ x,
    lambda fw, x: x.float(),
    lambda fw, x: x.to(fw.float64),
    lambda fw, x: fw.relu(x),
    lambda fw, x: fw.nn.functional.softmax(x, dim=-1),
    lambda fw, x: x.clone(),
    lambda fw, x: x.exp_(),
    lambda fw, x: fw.where(x > 0, x, fw.zeros(())),
    lambda fw, x: x.item() if x.numel() == 1 else x.tolist(),
    lambda fw, x: list(x),
    lambda fw, x: len(x),
    lambda fw, x: x.data,
    lambda fw, x: fw.ones_like(x),
]


def shape_of(value):
    if isinstance(value, (tuple, list)):
        return [shape_of(v) for v in value]
    return (type(value).__name__, tuple(value.shape)) if hasattr(value, "shape") else type(value).__name__


@pytest.mark.parametrize("call", CALLS)
def test_subclasses_stay_themselves(call):
    def run(fw):
        class Mine(fw.Tensor):
            pass

        x = fw.ones(2, 2).as_subclass(Mine)
        return shape_of(call(fw, x))

    both(run)


@pytest.mark.parametrize("call", [c for i, c in enumerate(CALLS) if i not in (25,)])
def test_calls_are_seen(call):
    """As many public calls are handed to the class as PyTorch hands it; names agree where they are one function."""

    def run(fw):
        log = []
        x = fw.ones(2, 2).as_subclass(logging_class(fw, log))
        log.clear()
        call(fw, x)
        return bool(log), log[0][3][:1] if log else None

    both(run)


@pytest.mark.parametrize("call", CALLS[4:13])
def test_the_function_is_named(call):
    def run(fw):
        log = []
        x = fw.ones(2, 2).as_subclass(logging_class(fw, log))
        log.clear()
        call(fw, x)
        return log[0][:3]

    both(run)


def duck(fw, log):
    class Duck:
        shape = (2, 2)

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append((name(func), len(args), sorted(kwargs or {})))
            return "answered"

    return Duck()


def test_ducks():
    def run(fw):
        log = []
        d = duck(fw, log)
        x = fw.ones(2, 2)
        found = [
            fw.add(d, 1),
            fw.add(x, d),
            fw.cat([x, d]),
            fw.mean(d, dim=0),
            x.mul(d),
            x + d,
            x @ d,
            fw.matmul(x, other=d),
            fw.nn.functional.linear(x, d),
        ]
        return found, log

    both(run)


def test_ducks_that_decline():
    def run(fw):
        class Duck:
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return NotImplemented

        with pytest.raises(TypeError, match="all __torch_function__ handlers returned NotImplemented") as e:
            fw.add(Duck(), 1)
        return "tensor subclass" in str(e.value)

    both(run)


def test_torch_function_of_subclasses_comes_before_their_bases():
    def run(fw):
        order = []

        class A(fw.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                order.append(cls.__name__)
                return NotImplemented

        class B(A):
            pass

        a, b = fw.ones(1).as_subclass(A), fw.ones(1).as_subclass(B)
        with pytest.raises(TypeError):
            fw.add(a, b)
        return order

    both(run)


def test_helpers():
    def run(fw):
        class Mine(fw.Tensor):
            pass

        o = fw.overrides
        d, x, m = duck(fw, []), fw.ones(1), fw.ones(1).as_subclass(Mine)
        p = fw.nn.Parameter(fw.ones(1))
        return [
            o.has_torch_function((x, 1)),
            o.has_torch_function((x, d)),
            o.has_torch_function((m,)),
            o.has_torch_function((p,)),
            o.has_torch_function_unary(m),
            o.has_torch_function_variadic(x, d),
            o.is_tensor_like(d),
            o.is_tensor_like(x),
            o.is_tensor_like(3),
            o.handle_torch_function(fw.add, (d,), d, 1),
            o.is_tensor_method_or_property(fw.Tensor.add),
            o.is_tensor_method_or_property(fw.add),
        ]

    both(run)


def test_functions_in_python():
    def run(fw):
        def double(x):
            if fw.overrides.has_torch_function((x,)):
                return fw.overrides.handle_torch_function(double, (x,), x)
            return x * 2

        return double(duck(fw, []))

    both(run)


def test_modes():
    def run(fw):
        log = []

        class Mode(fw.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                log.append(name(func))
                return func(*args, **(kwargs or {}))

        with Mode():
            y = fw.ones(2).add(1)
            fw.cat([y, y])
        y.add(2)
        return log

    both(run)


def test_parameters_are_plain():
    def run(fw):
        p = fw.nn.Parameter(fw.ones(2))
        return type(p * 2).__name__, type(p.detach()).__name__, type(p.data).__name__, type(p[0]).__name__

    both(run)


class Flow(flow.Tensor):
    pass


class Torch(torch.Tensor):
    pass


def test_copies_and_pickles_of_subclasses():
    def run(fw, cls):
        x = fw.arange(4.0).as_subclass(cls)
        x.note = "here"
        found = []
        for y in (copy.copy(x), pickle.loads(pickle.dumps(x))):
            found.append((type(y) is cls, y.note, y.tolist(), y.data_ptr() == x.data_ptr()))
        return found

    assert run(flow, Flow) == run(torch, Torch)
    x = flow.arange(4.0).as_subclass(Flow)
    x.note = ["here"]
    y = copy.deepcopy(x)
    assert type(y) is Flow and y.note == ["here"] and y.note is not x.note and y.data_ptr() != x.data_ptr()


def test_saved_subclasses(tmp_path):
    x = flow.arange(4.0).as_subclass(Flow)
    x.note = [1, 2]
    flow.save({"x": x}, tmp_path / "x.pt")
    y = flow.load(tmp_path / "x.pt", weights_only=False)["x"]
    assert type(y) is Flow and y.note == [1, 2] and y.tolist() == x.tolist()
    with flow.serialization.safe_globals([Flow]):
        assert type(flow.load(tmp_path / "x.pt")["x"]) is Flow
    with pytest.raises(pickle.UnpicklingError, match="Flow"):
        flow.load(tmp_path / "x.pt")
    plain = flow.arange(3)
    plain.note = "kept"
    flow.save(plain, tmp_path / "p.pt")
    assert flow.load(tmp_path / "p.pt").note == "kept"
    assert torch.load(tmp_path / "p.pt", weights_only=False).note == "kept"


def test_gradients_of_subclasses():
    def run(fw):
        class Mine(fw.Tensor):
            pass

        x = fw.ones(3).as_subclass(Mine).requires_grad_()
        y = (x * x).sum()
        y.backward()
        return type(y).__name__, type(x.grad).__name__, x.grad.tolist()

    both(run)


def test_make_subclass():
    def run(fw):
        class Mine(fw.Tensor):
            def __new__(cls, data, extra):
                self = fw.Tensor._make_subclass(cls, data, True)
                self.extra = extra
                return self

        base = fw.zeros(2)
        x = Mine(base, 7)
        base.add_(1)
        return x.tolist(), x.extra, x.requires_grad, x.is_leaf

    both(run)


def test_a_length_below_zero():
    """What a class answers for ``len`` is checked as Python checks it."""
    texts = []
    for fw in (flow, torch):

        class Answers(fw.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                return -1

        with pytest.raises(ValueError) as error:
            len(fw.ones(3).as_subclass(Answers))
        texts.append(str(error.value))
    assert texts[0] == texts[1]
