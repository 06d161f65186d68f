"""Modes and classes with ``__torch_function__`` hear the calls that PyTorch's hear, under the same names.

Every attribute of a tensor is taken, or called without arguments, and every operator and built-in function of Python is
applied to tensors and numbers.
"""

import copy
import math
import operator
import warnings

import oneflow
import pytest
import torch

LIBRARIES = (torch, oneflow)


class Stop(Exception):
    pass


def hears(library, stops=False):
    """A mode that notes the name of each call and how many arguments it has by position."""

    class Hears(library.overrides.TorchFunctionMode):
        def __init__(self):
            self.calls = []

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.calls.append((func.__name__, len(args)))
            if stops:
                raise Stop
            return func(*args, **(kwargs or {}))

    return Hears()


def noting_class(library, calls):
    class Noting(library.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            calls.append((func.__name__, len(args)))
            return super().__torch_function__(func, types, args, kwargs or {})

    return Noting


# Second names of an op are one function here, and are heard under the op's name.
SECOND_NAMES = """
    absolute arccos arccosh arcsin arcsinh arctan arctan2 arctanh clip divide fix greater greater_equal less less_equal
    multiply ndimension negative nelement not_equal subtract true_divide _dimI _dimV _typed_storage
""".split()
# Python's own of every object, what raises in PyTorch, and what PyTorch does not hear of.
OTHERWISE = "__class__ __dir__ __init__ __init_subclass__ __new__ __reduce__ __subclasshook__ cholesky qr set_".split()


def attributes():
    return [
        name
        for name in sorted(set(dir(torch.Tensor)) & set(dir(oneflow.Tensor)))
        if name not in OTHERWISE and name.rstrip("_") not in SECOND_NAMES and name not in SECOND_NAMES
    ]


def heard_of_attribute(library, name):
    mode = hears(library, stops=True)
    x = library.tensor([[3.0, 2.0], [1.0, 4.0]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with mode:
                value = getattr(x, name)
                if callable(value):
                    value()
        except Stop:
            return mode.calls
        except Exception:
            # Without its arguments a call may be refused before anybody hears of it.
            return mode.calls or None
    return mode.calls


def test_modes_hear_of_every_attribute():
    names = attributes()
    assert len(names) > 500
    differ = {}
    for name in names:
        theirs = heard_of_attribute(torch, name)
        ours = heard_of_attribute(oneflow, name)
        if theirs and ours != theirs and not (ours is None and name.startswith("__")):
            differ[name] = (theirs, ours)
    assert not differ


WHOLE = ("and", "or", "xor", "shift", "invert")
SYMBOLS = """
    add sub mul truediv floordiv mod pow matmul eq ne lt le gt ge and_ or_ xor lshift rshift iadd isub imul itruediv
    ifloordiv imod ipow iand ior ixor ilshift irshift neg pos abs invert
""".split()
OTHERS = {
    "len": len,
    "list": list,
    "reversed": lambda x: list(reversed(x)),
    "in": lambda x: 1.0 in x,
    "bool": lambda x: bool(x[0, 0]),
    "int": lambda x: int(x[0, 0]),
    "float": lambda x: float(x[0, 0]),
    "complex": lambda x: complex(x[0, 0]),
    "index": lambda x: operator.index(x.long()[0, 0]),
    "floor": lambda x: math.floor(x[0, 0]),
    "item": lambda x: x[x > 1],
    "set item": lambda x: operator.setitem(x, 0, 1.0),
    "set grad": lambda x: setattr(x, "grad", None),
    "delete grad": lambda x: delattr(x, "grad"),
    "set data": lambda x: setattr(x, "data", x),
    "set requires_grad": lambda x: setattr(x, "requires_grad", False),
    "set an attribute of its own": lambda x: setattr(x, "note", 1),
    "deepcopy": copy.deepcopy,
    "hash": hash,
    "repr": repr,
    "text": lambda x: f"{x[0, 0]}",
}


def operands(library, symbol, wrap):
    kind = library.int64 if any(part in symbol for part in WHOLE) else library.float32
    x = wrap(library.tensor([[3, 2], [1, 4]], dtype=kind))
    if symbol in ("neg", "pos", "abs", "invert"):
        return [(x,)]
    pairs = [(x, x.clone())]
    if symbol != "matmul":
        pairs.append((x, 2))
        if symbol[0] != "i":
            pairs.append((2, x))
    return pairs


def applied(library, symbol, wrap):
    if symbol in OTHERS:
        return [(OTHERS[symbol], (wrap(library.tensor([[3.0, 2.0], [1.0, 4.0]])),))]
    return [(getattr(operator, symbol), pair) for pair in operands(library, symbol, wrap)]


@pytest.mark.parametrize("symbol", [*SYMBOLS, *OTHERS])
def test_modes_hear_of_operators_and_built_in_functions(symbol):
    heard = []
    for library in LIBRARIES:
        heard.append([])
        for function, args in applied(library, symbol, lambda x: x):
            with hears(library) as mode:
                function(*args)
            heard[-1].append(mode.calls)
    assert heard[0] == heard[1]


@pytest.mark.parametrize(
    "symbol", [name for name in (*SYMBOLS, *OTHERS) if name not in ("complex", "deepcopy", "text")]
)
def test_classes_hear_of_operators_and_built_in_functions(symbol):
    heard = []
    for library in LIBRARIES:
        calls: list = []
        kind = noting_class(library, calls)
        heard.append([])
        for function, args in applied(library, symbol, lambda x, kind=kind: x.as_subclass(kind)):
            calls.clear()
            function(*args)
            heard[-1].append(list(calls))
    assert heard[0] == heard[1]


@pytest.mark.parametrize(
    ("name", "args"), [("uniform_", ()), ("normal_", (1.0,)), ("constant_", (2.0,)), ("kaiming_uniform_", ())]
)
def test_initial_values_are_heard_as_functions_of_init(name, args):
    """Programs skip initial values so, by the function's module."""
    heard = []
    for library in LIBRARIES:
        seen = []

        class Skips(library.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None, seen=seen):
                if getattr(func, "__module__", "").endswith(".nn.init"):
                    seen.append((func.__name__, args, {k: v for k, v in kwargs.items() if k != "tensor"}))
                    return kwargs["tensor"]
                return func(*args, **(kwargs or {}))

        with Skips():
            x = library.full((2, 2), 7.0)
            getattr(library.nn.init, name)(x, *args)
        heard.append((seen, x.tolist()))
    assert heard[0] == heard[1]
    assert heard[0][1] == [[7.0, 7.0], [7.0, 7.0]]


def test_the_answer_of_a_mode_is_what_python_gets():
    class Answers(oneflow.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            answers = {"__len__": 5, "__bool__": False, "__int__": 7, "__float__": 0.5, "__contains__": True, "dim": 9}
            return answers.get(func.__name__, (func.__name__, len(args)))

    x = oneflow.ones(2, 2)
    with Answers():
        assert (len(x), bool(x), int(x), float(x), 3.0 in x, x.dim()) == (5, False, 7, 0.5, True, 9)
        assert x.shape == ("__get__", 1) and x[0] == ("__getitem__", 2) and x.real == ("__get__", 1)
        x.grad = "anything"
    assert x.grad is None
    with Answers(), pytest.raises(TypeError, match="__index__ returned non-int"):
        range(3)[x]


def test_a_mode_inside_a_mode_hears_first():
    order = []

    def named(name):
        class Named(oneflow.overrides.TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                order.append((name, func.__name__))
                return func(*args, **(kwargs or {}))

        return Named()

    x = oneflow.ones(2)
    with named("outer"), named("inner"):
        assert x.shape == (2,)
        assert (2 - x).tolist() == [1.0, 1.0]
    assert order == [(name, call) for call in ("__get__", "__rsub__", "tolist") for name in ("inner", "outer")]
