"""Tensors from Python data: which nests are data, their shapes and dtypes, numbers of any size, buffers."""

import itertools
import warnings

import numpy as np
import oneflow
import pytest
import torch
from torch_oracle import same

LEAVES = {
    "int": lambda fw: 3,
    "float": lambda fw: 1.5,
    "bool": lambda fw: True,
    "complex": lambda fw: 1 + 2j,
    "numpy float32": lambda fw: np.float32(2.5),
    "numpy int8": lambda fw: np.int8(-3),
    "array of no dimension": lambda fw: np.array(5.0),
    "array of one": lambda fw: np.array([2]),
    "tensor": lambda fw: fw.tensor(7),
    "tensor of one": lambda fw: fw.tensor([1.25]),
    "tensor of one, twice nested": lambda fw: fw.tensor([[4]]),
    "tensor of two": lambda fw: fw.tensor([4, 5]),
    "text": lambda fw: "3",
    "none": lambda fw: None,
    "list of one": lambda fw: [6],
    "empty list": lambda fw: [],
}
NESTS = {
    "alone": lambda a, b: a,
    "in a list": lambda a, b: [a],
    "both in a tuple": lambda a, b: (a, b),
    "in two lists": lambda a, b: [[a, b], [b, a]],
    "one deeper": lambda a, b: [a, [b]],
}
PAIRS = list(itertools.product(LEAVES, repeat=2))
# What PyTorch takes by an accident of its order of checks, or refuses as a list without a length.
ODD_FIRST = {"empty list", "array of no dimension"}


def outcome(fw, call):
    """The tensor, or whether it is refused; classes of refusals differ by which of several faults is seen first."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(fw)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def agree(call, what):
    ours, theirs = outcome(oneflow, call), outcome(torch, call)
    if theirs is None and "array of one" in what:
        # NumPy is about to refuse arrays of one element as numbers, and PyTorch asks it.
        return
    assert (ours is None) == (theirs is None), f"{what}: {ours} and {theirs}"
    if theirs is not None:
        same(ours, theirs, what)


@pytest.mark.parametrize("nest", NESTS)
def test_every_nest_of_every_leaf(nest):
    for a, b in PAIRS:
        if a in ODD_FIRST and nest != "alone":
            continue
        agree(lambda fw, a=a, b=b: fw.tensor(NESTS[nest](LEAVES[a](fw), LEAVES[b](fw))), f"{nest}: {a}, {b}")


NUMBERS = [0, 1, -1, 2**24 + 1, 2**53 + 1, 2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, 10**40, -(10**40), 10**400]


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128", "bool", "int8", "int64", None]
)
def test_integers_of_any_size(dtype):
    for n in NUMBERS:
        if dtype in ("float16", "int8") and abs(n) > 2**15:
            # PyTorch refuses some of these and wraps or overflows others.
            continue
        for data in (n, [n, 0], [[0.5], [n]]):
            of = (lambda fw: getattr(fw, dtype)) if dtype else (lambda fw: None)
            agree(lambda fw, data=data, of=of: fw.tensor(data, dtype=of(fw)), f"{data} as {dtype}")


def test_a_list_inside_itself():
    own = [0]
    own.append(own)
    for data in (own, [[1, 2], own]):
        with pytest.raises(TypeError, match="self-referential lists are incompatible"):
            oneflow.tensor(data)


def test_sequences_of_users():
    class Sequence:
        def __init__(self, values, fails=False):
            self.values, self.fails = values, fails

        def __len__(self):
            return len(self.values)

        def __getitem__(self, index):
            if self.fails:
                raise TypeError
            return self.values[index]

    same(oneflow.tensor(Sequence([1.0, 2.0])), torch.tensor(Sequence([1.0, 2.0])))
    with pytest.raises(ValueError, match="could not determine the shape of object type 'Sequence'"):
        oneflow.tensor(Sequence([1.0], fails=True))


@pytest.mark.parametrize("convert", [int, float, complex, bool])
def test_numbers_of_tensors_that_are_none(convert):
    for shape in ((0,), (2,), (2, 2)):
        for fw in (oneflow, torch):
            with pytest.raises((ValueError, RuntimeError)) as raised:
                convert(fw.ones(shape))
            if fw is oneflow:
                ours = raised.type
        assert ours is raised.type, (convert, shape)
    assert convert(oneflow.ones(1, 1)) == convert(torch.ones(1, 1))


def test_read_only_buffers_warn():
    for make in (
        lambda: oneflow.frombuffer(b"abcd", dtype=oneflow.uint8),
        lambda: oneflow.asarray(b"abcd", dtype=oneflow.uint8),
    ):
        with pytest.warns(UserWarning, match="not writable"):
            assert make().tolist() == [97, 98, 99, 100]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        oneflow.frombuffer(bytearray(b"abcd"), dtype=oneflow.uint8)
    with pytest.raises(ValueError, match="does not implement Python buffer protocol"):
        oneflow.frombuffer([1, 2], dtype=oneflow.uint8)


def test_what_cannot_be_aliased():
    with pytest.raises(RuntimeError, match="can't alias NumPy scalars"):
        oneflow.asarray(np.float64(0.5), copy=False)
    with pytest.raises(ValueError, match=r"with dtype .* into dtype"):
        oneflow.asarray(oneflow.ones(2), dtype=oneflow.float64, copy=False)
    with pytest.raises(ValueError, match="arbitrary sequence"):
        oneflow.asarray([1, 2], copy=False)
