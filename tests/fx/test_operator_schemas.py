"""Signatures of ops and types of arguments, as ``fx.operator_schemas`` has them, beside PyTorch."""

import inspect
import itertools
import numbers
import types
import typing

import oneflow
import oneflow.fx.operator_schemas as ours
import pytest
import torch
import torch.fx.operator_schemas as theirs


def test_every_op_has_a_signature():
    """The forms of each op can be bound to positional and named arguments."""
    n_ops = 0
    for name in dir(oneflow):
        op = getattr(oneflow, name)
        if name.startswith(("_", "sym_")) or not isinstance(op, types.BuiltinFunctionType):
            continue
        signatures, texts = ours.get_signature_for_torch_op(op, return_schemas=True)
        assert signatures and len(signatures) == len(texts), name
        assert all(isinstance(s, inspect.Signature) for s in signatures), name
        n_ops += 1
    assert n_ops > 400


@pytest.mark.parametrize("name", ["add", "sum", "split", "clamp", "where", "matmul", "topk", "cat", "norm", "div"])
def test_calls_bind(name):
    """What PyTorch's signatures of an op bind to a call, ours bind too, by the same names of parameters."""
    calls = {
        "add": lambda fw: ((fw.ones(2), fw.ones(2)), {"alpha": 2}),
        "sum": lambda fw: ((fw.ones(2, 2),), {"dim": [0]}),
        "split": lambda fw: ((fw.ones(4), 2), {}),
        "clamp": lambda fw: ((fw.ones(2), 0, 1), {}),
        "where": lambda fw: ((fw.ones(2) > 0, fw.ones(2), fw.ones(2)), {}),
        "matmul": lambda fw: ((fw.ones(2, 2), fw.ones(2, 2)), {}),
        "topk": lambda fw: ((fw.ones(4), 2), {"largest": False}),
        "cat": lambda fw: (([fw.ones(2)],), {"dim": 0}),
        "norm": lambda fw: ((fw.ones(2),), {}),
        "div": lambda fw: ((fw.ones(2), 2.0), {"rounding_mode": "floor"}),
    }
    args, kwargs = calls[name](oneflow)
    results = []
    for signature in ours.get_signature_for_torch_op(getattr(oneflow, name)) or [
        inspect.signature(getattr(oneflow, name))
    ]:
        try:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
            results.append(getattr(oneflow, name)(*bound.args, **bound.kwargs))
        except TypeError:
            continue
    assert results


def test_functions_that_are_no_ops():
    assert ours.get_signature_for_torch_op(lambda x: x) is None
    assert ours.get_signature_for_torch_op(oneflow.nn.Linear, return_schemas=True) == (None, None)


TYPES = [int, float, bool, str, numbers.Number, typing.Any, type(None)]
NESTED = [
    list[int],
    typing.List[int],  # noqa: UP006
    typing.List[float],  # noqa: UP006
    typing.Tuple[int, ...],  # noqa: UP006
    typing.Tuple[int, bool],  # noqa: UP006
    typing.Optional[int],  # noqa: UP045
    typing.Union[int, str],  # noqa: UP007
]


def test_type_matches():
    for signature, argument in itertools.product(TYPES + NESTED[1:], TYPES + NESTED[1:]):
        expected = theirs.type_matches(signature, argument)
        assert ours.type_matches(signature, argument) == bool(expected), (signature, argument)
    assert ours.type_matches(typing.List[oneflow.Tensor], typing.Tuple[oneflow.nn.Parameter, ...])  # noqa: UP006


def test_create_type_hint():
    for x in ([int, bool], (int, bool), [int, str], [], (), int, [bool, int], [oneflow.Tensor]):
        if x == [oneflow.Tensor]:
            assert ours.create_type_hint(x) == list[oneflow.Tensor]
        else:
            assert ours.create_type_hint(x) == theirs.create_type_hint(x), x


def test_torch_is_the_reference():
    assert theirs.get_signature_for_torch_op(torch.split)
