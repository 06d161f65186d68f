"""Every public function calls `__torch_function__` of its arguments first, with the arguments that PyTorch passes.

The functions are discovered: those that both libraries have under a name, and that call it in PyTorch.
"""

import inspect
import types
import warnings

import oneflow
import pytest
import torch
from oneflow.overrides import TorchFunctionMode
from torch.overrides import get_testing_overrides

SPACES = ("", "nn.functional", "linalg", "special", "fft")
ANSWER = object()
# How arguments are passed on differs: PyTorch's functions, written in Python, add a default, pass one by name or
# forget one, where these are compiled or take any number of tensors.
OTHERWISE = {"l1_loss", "meshgrid", "split", "unravel_index"}
# Python's own functions, which compare or add numbers.
PYTHONS = {"sym_max", "sym_min", "sym_sum"}


def space(library, name):
    for part in filter(None, name.split(".")):
        library = getattr(library, part)
    return library


def duck(log):
    class Duck:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            log.append((func, args, dict(kwargs or {})))
            return ANSWER

    return Duck()


def asked(function, required):
    """Return the call that the class receives when the function gets one of its objects for each required argument."""
    log: list = []
    # One class, as all values of a traced program have.
    kind = type(duck(log))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer = function(*[kind() for _ in range(required)])
        except Exception as error:
            return f"raises {type(error).__name__}: {error}"
    return log, answer


def cases():
    overrides = get_testing_overrides()
    for name in SPACES:
        theirs = space(torch, name)
        for leaf in sorted(dir(theirs)):
            function = getattr(theirs, leaf, None)
            if not callable(function) or leaf.startswith("_"):
                continue
            try:
                dummy = overrides.get(function)
            except TypeError:
                continue
            ours = getattr(space(oneflow, name), leaf, None)
            if dummy is None or ours is None or hasattr(ours, "_instead") or leaf in PYTHONS:
                continue
            parameters = inspect.signature(dummy).parameters.values()
            kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            required = sum(p.default is p.empty and p.kind in kinds for p in parameters)
            if any(p.kind is p.VAR_POSITIONAL for p in parameters):
                required = max(required, 1)
            yield pytest.param(name, leaf, required, id=f"{name}.{leaf}".lstrip("."))


@pytest.mark.parametrize(("place", "leaf", "required"), cases())
def test_torch_function_is_called_once_with_the_public_function(place, leaf, required):
    theirs = asked(getattr(space(torch, place), leaf), required)
    if isinstance(theirs, str) or len(theirs[0]) != 1:
        pytest.skip("PyTorch itself does not ask with these arguments")
    function = getattr(space(oneflow, place), leaf)
    ours = asked(function, required)
    assert not isinstance(ours, str), ours
    log, answer = ours
    assert answer is ANSWER
    assert len(log) == 1
    assert log[0][0] is function or log[0][0].__name__ == function.__name__
    # One function corresponds to two of PyTorch's, of which the other passes arguments on as this one does.
    is_shared = place == "" and function is getattr(oneflow.nn.functional, leaf, None)
    if is_shared or leaf in OTHERWISE:
        return
    assert len(log[0][1]) == len(theirs[0][0][1])
    assert {k: v for k, v in log[0][2].items() if not is_answer(v)} == {
        k: translated(v) for k, v in theirs[0][0][2].items() if not is_answer(v)
    }


def is_answer(value):
    return hasattr(type(value), "__torch_function__")


def translated(value):
    return getattr(oneflow, str(value).removeprefix("torch.")) if isinstance(value, torch.dtype) else value


def test_a_mode_sees_the_public_functions():
    seen = []

    class Names(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            seen.append(func.__name__)
            return func(*args, **(kwargs or {}))

    x = oneflow.ones(2, 2)
    with Names():
        oneflow.nn.functional.relu(x)
        oneflow.einsum("ij->i", x)
        oneflow.linalg.norm(x)
    assert seen == ["relu", "einsum", "norm"]


def test_subclasses_receive_a_function_once_and_keep_their_class():
    seen = []

    class Mine(oneflow.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = oneflow.ones(2, 2).as_subclass(Mine)
    results = [oneflow.nn.functional.silu(x), oneflow.norm(x), x.norm(), oneflow.block_diag(x, x)]
    assert [type(result) for result in results] == [Mine] * 4
    named = [oneflow.nn.functional.silu, oneflow.norm, oneflow.Tensor.norm, oneflow.block_diag]
    assert [f for f in seen if getattr(f, "__name__", "") != "__get__"] == named


def test_wrappers_look_like_the_functions_they_wrap():
    functional = oneflow.nn.functional
    for name in functional.__all__:
        function = getattr(functional, name)
        if isinstance(function, types.FunctionType):
            assert function.__name__ == name or function.__wrapped__.__name__ == function.__name__
            assert function.__doc__ and function.__module__ == "oneflow.nn.functional"
            assert inspect.signature(function) == inspect.signature(inspect.unwrap(function))
    with pytest.raises(TypeError, match=r"relu\(\).*unexpected keyword"):
        functional.relu(oneflow.ones(1), nonsense=True)
