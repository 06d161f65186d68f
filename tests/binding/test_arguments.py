"""How calls take their arguments, against PyTorch: forms that work, and the classes of errors."""

import inspect

import numpy as np
import oneflow as flow
import pytest
import torch


def x(fw):
    return fw.arange(6, dtype=fw.float32).view(2, 3)


GOOD = {
    "varargs view": lambda fw: x(fw).view(3, 2),
    "tuple view": lambda fw: x(fw).view((3, 2)),
    "list view": lambda fw: x(fw).view([3, 2]),
    "size view": lambda fw: x(fw).view(x(fw).t().shape),
    "one int view": lambda fw: x(fw).view(-1),
    "keyword size": lambda fw: x(fw).reshape(shape=(6,)),
    "permute": lambda fw: x(fw).permute(1, 0),
    "permute tuple": lambda fw: fw.permute(x(fw), (1, 0)),
    "expand": lambda fw: fw.ones(1, 3).expand(2, -1),
    "zeros varargs": lambda fw: fw.zeros(2, 3),
    "zeros tuple": lambda fw: fw.zeros((2, 3)),
    "zeros one": lambda fw: fw.zeros(2),
    "zeros empty": lambda fw: fw.zeros(()),
    "zeros keyword": lambda fw: fw.zeros(size=(2,), dtype=fw.int64),
    "python dtype": lambda fw: fw.zeros(2, dtype=float),
    "layout": lambda fw: fw.zeros(2, layout=fw.strided, pin_memory=False, device="cpu"),
    "device object": lambda fw: fw.zeros(2, device=fw.device("cpu")),
    "numpy sizes": lambda fw: fw.zeros(np.int64(2), np.int32(3)),
    "tensor sizes": lambda fw: fw.zeros(fw.tensor(2), 3),
    "numpy scalar": lambda fw: x(fw) + np.float32(1.5),
    "sum dim": lambda fw: x(fw).sum(1),
    "sum dims": lambda fw: x(fw).sum((0, 1)),
    "sum axis": lambda fw: x(fw).sum(axis=1, keepdims=True),
    "sum dtype": lambda fw: x(fw).sum(dtype=fw.float64),
    "function input keyword": lambda fw: fw.sum(input=x(fw), dim=0),
    "numpy names": lambda fw: fw.sum(x=x(fw), axis=0),
    "alpha": lambda fw: fw.add(x(fw), 1, alpha=2),
    "other keyword": lambda fw: x(fw).add(other=x(fw)),
    "scalar tensor as number": lambda fw: x(fw).sum(fw.tensor(1)),
    "overload max": lambda fw: x(fw).max(),
    "overload max dim": lambda fw: x(fw).max(1).indices,
    "overload max dim keyword": lambda fw: x(fw).max(dim=1, keepdim=True)[0],
    "overload max other": lambda fw: fw.max(x(fw), x(fw) * 0 + 2),
    "radd": lambda fw: 1 + x(fw),
    "rsub": lambda fw: 1.5 - x(fw),
    "rmul": lambda fw: 2 * x(fw),
    "rdiv": lambda fw: 2 / (x(fw) + 1),
    "rpow": lambda fw: 2 ** x(fw),
    "rfloordiv": lambda fw: 7 // (x(fw) + 1),
    "rmod": lambda fw: 7 % (x(fw) + 1),
    "half rdiv": lambda fw: 2.0 / (x(fw) + 1).half(),
    "int rsub": lambda fw: 2.5 - x(fw).long(),
    "number first": lambda fw: fw.mul(2, x(fw)),
    "compare": lambda fw: x(fw) >= 2,
    "reflected compare": lambda fw: 2 > x(fw),
    "matmul": lambda fw: x(fw) @ x(fw).t(),
    "invert": lambda fw: ~(x(fw) > 2),
    "and or xor": lambda fw: ((x(fw) > 1) & (x(fw) < 4)) | (x(fw) == 0) ^ (x(fw) == 5),
    "neg abs pos": lambda fw: abs(-x(fw)) + +x(fw),
    "out": lambda fw: fw.add(x(fw), 1, out=fw.empty(0)),
    "out resizes": lambda fw: fw.matmul(x(fw), x(fw).t(), out=fw.empty(0)),
    "out none": lambda fw: fw.add(x(fw), 1, out=None),
    "cat": lambda fw: fw.cat([x(fw), x(fw)], 1),
    "cat tuple": lambda fw: fw.cat((x(fw), x(fw)), dim=-1),
    "cat axis": lambda fw: fw.cat([x(fw)], axis=0),
    "split ints": lambda fw: x(fw).split(2, 1)[1],
    "split sizes": lambda fw: x(fw).split([1, 2], dim=1)[1],
    "to dtype": lambda fw: x(fw).to(fw.int32),
    "to keyword": lambda fw: x(fw).to(dtype=fw.float64),
    "to device": lambda fw: x(fw).to("cpu", fw.int64),
    "to other": lambda fw: x(fw).to(fw.zeros(1, dtype=fw.float64)),
    "to copy": lambda fw: x(fw).to(fw.float32, copy=True),
    "to flags": lambda fw: x(fw).to(fw.float64, True, False),
    "type": lambda fw: x(fw).type(fw.int64),
    "type_as": lambda fw: x(fw).type_as(fw.zeros(1, dtype=fw.int32)),
    "where": lambda fw: fw.where(x(fw) > 2, x(fw), 0.0),
    "clamp": lambda fw: x(fw).clamp(1, max=3),
    "pow": lambda fw: x(fw) ** 2,
    "iadd": lambda fw: x(fw).__iadd__(2),
    "requires_grad": lambda fw: fw.zeros(2, requires_grad=True).detach(),
    "full": lambda fw: fw.full((2, 2), 3),
    "arange": lambda fw: fw.arange(1, 7, 2),
    "tensor scalar": lambda fw: fw.tensor(3.5),
    "tensor nested": lambda fw: fw.tensor([[1, 2], [3, 4]]),
    "tensor wraps bytes": lambda fw: fw.tensor([-1], dtype=fw.uint8),
    "constructor of tensor": lambda fw: fw.Tensor(fw.ones(2, dtype=fw.int64)),
    "to nothing": lambda fw: x(fw).to(),
    "tensor mixed": lambda fw: fw.tensor([1, 2.5, True]),
    "tensor bools": lambda fw: fw.tensor([True, False]),
    "tensor complex": lambda fw: fw.tensor(True),
    "tensor empty": lambda fw: fw.tensor([[], []]),
    "tensor of tensors": lambda fw: fw.tensor([fw.tensor(1), fw.tensor(2)]),
    "tensor numpy": lambda fw: fw.tensor(np.arange(4, dtype=np.int16).reshape(2, 2)),
    "tensor numpy scalars": lambda fw: fw.tensor([np.float32(1), np.float32(2)]),
    "tensor list of arrays": lambda fw: fw.tensor([1, 2], dtype=fw.float64),
    "as_tensor": lambda fw: fw.as_tensor([1, 2]),
    "constructor": lambda fw: fw.Tensor([1, 2]),
    "constructor sizes": lambda fw: fw.Tensor(2, 3).zero_(),
    "x.count_nonzero(None)": lambda fw: x(fw).count_nonzero(None),
    "x.sum(None)": lambda fw: x(fw).sum(None),
    "x.mean(None, True)": lambda fw: x(fw).mean(None, True),
    "x.std(None, correction=2.0)": lambda fw: x(fw).std(None, correction=2.0),
    "x.var(dim=None, correction=0)": lambda fw: x(fw).var(dim=None, correction=0),
    "x.amax(())": lambda fw: x(fw).amax(()),
    "x.to(None, float64)": lambda fw: x(fw).to(None, fw.float64),
    "x.to(None, None)": lambda fw: x(fw).to(None, None),
    "x.to(None, float64, False, True)": lambda fw: x(fw).to(None, fw.float64, False, True),
    "x.to(device=None, dtype=float64)": lambda fw: x(fw).to(device=None, dtype=fw.float64),
    "(x > 2).all([])": lambda fw: (x(fw) > 2).all([]),
    "(x > 2).any(dim=[], keepdim=True)": lambda fw: (x(fw) > 2).any(dim=[], keepdim=True),
    "x.to(uint8).any(())": lambda fw: x(fw).to(fw.uint8).any(()),
    "rsub(x, 0.5, 2)": lambda fw: fw.rsub(x(fw), 0.5, 2),
    "rsub(x, x, alpha=2)": lambda fw: fw.rsub(x(fw), x(fw), alpha=2),
    "special.softmax(x, -1, float64)": lambda fw: fw.special.softmax(x(fw), -1, fw.float64),
    "fft.fftfreq(0)": lambda fw: fw.fft.fftfreq(0),
    "fft.fftfreq(3, 0.0)": lambda fw: fw.fft.fftfreq(3, 0.0),
    "fft.rfftfreq(0, 2.0)": lambda fw: fw.fft.rfftfreq(0, 2.0),
    "take_along_dim(x, tensor([[1, 2]], dtype=int32))": lambda fw: fw.take_along_dim(
        x(fw), fw.tensor([[1, 2]], dtype=fw.int32)
    ),
    "x[0, 0].adjoint()": lambda fw: x(fw)[0, 0].adjoint(),
    "frobenius_norm(x, [])": lambda fw: fw.frobenius_norm(x(fw), []),
    "frobenius_norm(x, [0], True)": lambda fw: fw.frobenius_norm(x(fw), [0], True),
    "nuclear_norm(x)": lambda fw: fw.nuclear_norm(x(fw)),
    "nuclear_norm(x, True)": lambda fw: fw.nuclear_norm(x(fw), True),
    "norm_except_dim(x, 2, 1)": lambda fw: fw.norm_except_dim(x(fw), 2, 1),
    "as_strided_(x.clone(), (2,), (3,))": lambda fw: fw.as_strided_(x(fw).clone(), (2,), (3,)),
    "convolution(x[None], x[None], None, [1], [1], [1], False, [0], 1)": lambda fw: fw.convolution(
        x(fw)[None], x(fw)[None], None, [1], [1], [1], False, [0], 1
    ),
    "embedding_bag(x, tensor([0, 1, 1]), tensor([0, 1]), False, 1)[0]": lambda fw: fw.embedding_bag(
        x(fw), fw.tensor([0, 1, 1]), fw.tensor([0, 1]), False, 1
    )[0],
    "affine_grid_generator(x[None], (1, 1, 2, 2), False)": lambda fw: fw.affine_grid_generator(
        x(fw)[None], (1, 1, 2, 2), False
    ),
}


@pytest.mark.filterwarnings("ignore:at..(frobenius|nuclear)_norm:UserWarning", "ignore:adjoint:UserWarning")
@pytest.mark.parametrize("case", GOOD)
def test_forms(case):
    ours, theirs = GOOD[case](flow), GOOD[case](torch)
    assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
    assert tuple(ours.shape) == tuple(theirs.shape)
    np.testing.assert_allclose(
        np.array(ours.tolist()), np.array(theirs.tolist()), rtol=1e-3 if "half" in case else 1e-6
    )


BAD = {
    "add: str": lambda fw: x(fw).add("a"),
    "add: missing": lambda fw: x(fw).add(),
    "add: too many": lambda fw: fw.add(x(fw), 1, 2, 3),
    "add: unknown": lambda fw: fw.add(x(fw), 1, beta=2),
    "add: twice": lambda fw: fw.add(x(fw), x(fw), other=1),
    "add: none": lambda fw: fw.add(x(fw), None),
    "operator: str": lambda fw: x(fw) + "a",
    "operator: list": lambda fw: x(fw) - [1],
    "operator: none": lambda fw: None * x(fw),
    "matmul: number": lambda fw: x(fw) @ 2,
    "matmul: shapes": lambda fw: x(fw) @ x(fw),
    "view: float": lambda fw: x(fw).view(2.5),
    "view: shape": lambda fw: x(fw).view(4, 2),
    "view: str": lambda fw: x(fw).view("a", "b"),
    "zeros: negative": lambda fw: fw.zeros(-1),
    "zeros: str": lambda fw: fw.zeros("a"),
    "zeros: float": lambda fw: fw.zeros(2.0),
    "zeros: dtype": lambda fw: fw.zeros(2, dtype="float32"),
    "zeros: device": lambda fw: fw.zeros(2, device="toaster"),
    "zeros: requires grad of ints": lambda fw: fw.zeros(2, dtype=fw.int64, requires_grad=True),
    "zeros: huge": lambda fw: fw.zeros(2**40, 2**40),
    "cat: tensor": lambda fw: fw.cat(x(fw)),
    "cat: numbers": lambda fw: fw.cat([1, 2]),
    "cat: missing": lambda fw: fw.cat(),
    "cat: dim": lambda fw: fw.cat([x(fw)], dim=5),
    "sum: dim": lambda fw: x(fw).sum(5),
    "sum: keepdim": lambda fw: x(fw).sum(0, keepdim=1),
    "max: arguments": lambda fw: x(fw).max(1, 2, 3),
    "max: str": lambda fw: x(fw).max("a"),
    "transpose: float": lambda fw: x(fw).transpose(0, 1.0),
    "transpose: range": lambda fw: x(fw).transpose(0, 7),
    "out: not a tensor": lambda fw: fw.matmul(x(fw), x(fw), out=3),
    "out: dtype": lambda fw: fw.add(x(fw), 1, out=fw.empty(2, 3, dtype=fw.int64)),
    "inplace: shape": lambda fw: fw.ones(3).add_(x(fw)),
    "inplace: dtype": lambda fw: fw.ones(3, dtype=fw.int64).add_(1.5),
    "inplace: leaf": lambda fw: fw.ones(3, requires_grad=True).add_(1),
    "item": lambda fw: x(fw).item(),
    "bool": lambda fw: bool(x(fw)),
    "empty bool": lambda fw: bool(fw.ones(0)),
    "int": lambda fw: int(x(fw)),
    "float": lambda fw: float(x(fw)),
    "index": lambda fw: [1, 2][fw.tensor(0.5)],
    "range": lambda fw: range(fw.tensor([1, 2])),
    "int of inf": lambda fw: int(fw.tensor(float("inf"))),
    "to: str": lambda fw: x(fw).to("nowhere"),
    "type: str": lambda fw: x(fw).type("NoTensor"),
    "requires_grad: ints": lambda fw: fw.ones(2).long().requires_grad_(),
    "requires_grad: non-leaf": lambda fw: setattr(fw.ones(2, requires_grad=True) * 1, "requires_grad", False),
    "requires_grad: type": lambda fw: setattr(fw.ones(2), "requires_grad", 1),
    "grad: type": lambda fw: setattr(fw.ones(2), "grad", 1),
    "grad: shape": lambda fw: setattr(fw.ones(2), "grad", fw.ones(3)),
    "grad: dtype": lambda fw: setattr(fw.ones(2), "grad", fw.ones(2, dtype=fw.float64)),
    "data: type": lambda fw: setattr(fw.ones(2), "data", 1),
    "shape: assign": lambda fw: setattr(fw.ones(2), "shape", (1,)),
    "backward: not scalar": lambda fw: fw.ones(2, requires_grad=True).backward(),
    "backward: no grad": lambda fw: fw.ones(2).sum().backward(),
    "backward: gradient": lambda fw: (fw.ones(2, requires_grad=True) * 1).backward(fw.ones(3)),
    "backward: twice": lambda fw: [y.backward() for y in [(fw.ones(2, requires_grad=True) ** 2).sum()] * 2],
    "numpy: requires grad": lambda fw: fw.ones(2, requires_grad=True).numpy(),
    "numpy: bfloat16": lambda fw: fw.ones(2, dtype=fw.bfloat16).numpy(),
    "from_numpy: list": lambda fw: fw.from_numpy([1]),
    "from_numpy: objects": lambda fw: fw.from_numpy(np.array([None])),
    "from_numpy: negative stride": lambda fw: fw.from_numpy(np.arange(4)[::-1]),
    "from_numpy: byte order": lambda fw: fw.from_numpy(np.arange(4, dtype=">i4")),
    "frombuffer: empty": lambda fw: fw.frombuffer(b"", dtype=fw.uint8),
    "frombuffer: offset": lambda fw: fw.frombuffer(bytearray(4), dtype=fw.int32, offset=9),
    "frombuffer: odd": lambda fw: fw.frombuffer(bytearray(5), dtype=fw.int32),
    "frombuffer: no buffer": lambda fw: fw.frombuffer(3, dtype=fw.int32),
    "tensor: ragged": lambda fw: fw.tensor([[1, 2], [3]]),
    "tensor: deep": lambda fw: fw.tensor([[1], 2]),
    "tensor: str": lambda fw: fw.tensor("a"),
    "tensor: object": lambda fw: fw.tensor(object()),
    "tensor: none": lambda fw: fw.tensor(None),
    "tensor: overflow": lambda fw: fw.tensor(2**70),
    "number: overflow": lambda fw: x(fw) + 2**70,
    "int: overflow": lambda fw: x(fw).sum(2**70),
    "tensor: bytes": lambda fw: fw.tensor(b"a"),
    "tensor: byte overflow": lambda fw: fw.tensor([300], dtype=fw.uint8),
    "tensor: nan to int": lambda fw: fw.tensor([float("nan")], dtype=fw.int64),
    "tensor: missing": lambda fw: fw.tensor(),
    "tensor: requires grad of ints": lambda fw: fw.tensor([1], requires_grad=True),
    "size: range": lambda fw: x(fw).size(4),
    "size: str": lambda fw: x(fw).size("a"),
    "stride: range": lambda fw: x(fw).stride(4),
    "hook: no grad": lambda fw: fw.ones(2).register_hook(print),
    "set_default_dtype": lambda fw: fw.set_default_dtype(fw.int64),
    "device: string": lambda fw: fw.device("cpu:x"),
    "device: type": lambda fw: fw.device(1.5),
    "generator: seed": lambda fw: fw.Generator().manual_seed("a"),
    "set_num_threads": lambda fw: fw.set_num_threads(0),
    "dlpack: requires grad": lambda fw: fw.ones(2, requires_grad=True).__dlpack__(),
}


@pytest.mark.parametrize("case", BAD)
def test_errors_are_of_the_class_torch_raises(case):
    with pytest.raises(Exception) as theirs:
        BAD[case](torch)
    with pytest.raises(Exception) as ours:
        BAD[case](flow)
    assert ours.type is not Exception
    assert issubclass(ours.type, theirs.type) or issubclass(theirs.type, ours.type), (ours.value, theirs.value)
    assert str(ours.value)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: flow.cat([flow.ones(1), 2]), ["cat()", "'tensors'", "position 1", "int", "pos 1"]),
        (
            lambda: flow.transpose(flow.ones(2, 2), 0, "b"),
            ["transpose()", "'dim1'", "position 3", "must be int", "str"],
        ),
        (lambda: flow.ones(2).permute(1, "b"), ["permute()", "'dims'", "tuple of ints", "str"]),
        (lambda: flow.transpose(flow.ones(2, 2)), ["transpose()", "missing 2", '"dim0"', '"dim1"']),
        (lambda: flow.ones(2).exp(2), ["exp()", "0 positional arguments", "1 was given"]),
        (lambda: flow.ones(2).exp(foo=2), ["exp()", "unexpected keyword argument 'foo'"]),
        (lambda: flow.ones(2, 2).transpose(0, 1, dim0=0), ["transpose()", "multiple values", "'dim0'"]),
        (lambda: flow.ones(2).max("a"), ["max()", "invalid combination", "(str)", "int dim"]),
        (lambda: flow.ones(2, 3).add(flow.ones(4)), ["add()", "3", "4", "dimension 1"]),
    ],
)
def test_texts_name_op_and_argument(call, words):
    with pytest.raises((TypeError, RuntimeError)) as e:
        call()
    for w in words:
        assert w in str(e.value)


def test_signatures_and_help():
    assert str(inspect.signature(flow.transpose)) == "(input, dim0, dim1)"
    assert str(inspect.signature(flow.Tensor.transpose)) == "(self, /, dim0, dim1)"
    assert str(inspect.signature(flow.add)) == "(input, other, *, alpha=1, out=None)"
    assert "broadcasting" in flow.add.__doc__
    assert flow.add.__name__ == "add" and flow.Tensor.add_.__name__ == "add_"


def test_named_results():
    r = flow.tensor([[1.0, 3.0], [4.0, 2.0]]).max(1)
    assert type(r).__name__ == "max" and isinstance(r, tuple)
    values, indices = r
    assert r.values is values and r.indices is indices and r[1] is indices
    assert isinstance(flow.ones(4).split(2), tuple)


def test_subclass_of_int_and_float_as_numbers():
    class Whole(int):
        pass

    class Real(float):
        pass

    assert flow.zeros(Whole(2)).shape == (2,)
    assert (flow.ones(1) * Real(2.5)).item() == 2.5


def test_reflected_operators_of_other_classes_get_their_turn():
    class Other:
        def __radd__(self, t):
            return "mine"

        def __eq__(self, t):
            return "equal"

        __hash__ = None

    assert flow.ones(1) + Other() == "mine"
    assert (flow.ones(1) == Other()) == "equal"
    assert (flow.ones(1) == None) is False  # noqa: E711
    assert (flow.ones(1) != None) is True  # noqa: E711


def test_an_exception_inside_an_argument_comes_through():
    class Bad:
        def __index__(self):
            raise KeyError("mine")

    with pytest.raises((KeyError, TypeError)):
        flow.zeros(Bad())


def test_size():
    s = flow.ones(2, 3).shape
    assert s == (2, 3) and isinstance(s, tuple) and type(s) is flow.Size
    assert repr(s) == "oneflow.Size([2, 3])"
    assert s.numel() == 6 and s[1] == 3 and type(s[:1]) is flow.Size and type(s + (1,)) is flow.Size
    assert type(s * 2) is flow.Size and hash(s) == hash((2, 3))
    assert flow.Size([1, 2]) == (1, 2)
    with pytest.raises(TypeError):
        flow.Size([1.5])


def test_dtypes_and_devices():
    for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool", "complex64"):
        a, b = getattr(flow, name), getattr(torch, name)
        assert repr(a) == repr(b).replace("torch", "oneflow")
        for q in ("is_floating_point", "is_complex", "is_signed", "itemsize"):
            assert getattr(a, q) == getattr(b, q)
    assert flow.ones(1).dtype is flow.float32 and flow.float is flow.float32 and flow.long is flow.int64
    for text in ("cpu", "cuda", "cuda:1", "meta"):
        a, b = flow.device(text), torch.device(text)
        assert (repr(a), str(a), a.type, a.index) == (repr(b), str(b), b.type, b.index)
    assert flow.device("cuda", 1) == flow.device("cuda:1") != flow.device("cuda:0")
    assert len({flow.device("cpu"), flow.ones(1).device}) == 1
    assert flow.promote_types(flow.int32, flow.float16) is flow.float16
    assert flow.can_cast(flow.int32, flow.float32) and not flow.can_cast(flow.float32, flow.int32)


def test_generators():
    g = flow.Generator().manual_seed(3)
    state = g.get_state()
    a = flow.randn(4, generator=g)
    b = flow.randn(4, generator=g)
    g.set_state(state)
    assert flow.randn(4, generator=g).tolist() == a.tolist() != b.tolist()
    assert g.initial_seed() == 3
    flow.manual_seed(7)
    c = flow.randn(3)
    flow.manual_seed(7)
    assert flow.randn(3).tolist() == c.tolist()
    # A call that fails draws nothing.
    flow.manual_seed(7)
    with pytest.raises(TypeError):
        flow.randn("a")
    assert flow.randn(3).tolist() == c.tolist()


NUMPYS_NAMES = {
    "linalg.norm": lambda fw, **names: fw.linalg.norm(x(fw), **names),
    "linalg.vector_norm": lambda fw, **names: fw.linalg.vector_norm(x(fw), **names),
    "sum": lambda fw, **names: fw.sum(x(fw), **names),
    "amax": lambda fw, **names: x(fw).amax(**names),
    "std_mean": lambda fw, **names: fw.std_mean(x(fw), **names)[0],
    "logsumexp": lambda fw, **names: fw.logsumexp(x(fw), **names),
}


@pytest.mark.parametrize("name", NUMPYS_NAMES)
def test_numpys_names_of_arguments(name):
    """``axis`` and ``keepdims``, also where a function is compiled in PyTorch and written in Python here."""
    call = NUMPYS_NAMES[name]
    for names in ({"axis": 1}, {"axis": (0, 1)}, {"axis": 0, "keepdims": True}, {"dim": 1, "keepdims": True}):
        ours, theirs = call(flow, **names), call(torch, **names)
        assert tuple(ours.shape) == tuple(theirs.shape)
        assert ours.flatten().tolist() == pytest.approx(theirs.flatten().tolist())
    for fw in (flow, torch):
        with pytest.raises(TypeError):
            call(fw, axis=1, dim=1)
        with pytest.raises(TypeError):
            call(fw, axes=1)
