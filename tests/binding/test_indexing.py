"""Reading and writing by index, against PyTorch."""

import oneflow as flow
import pytest
import torch
from torch_oracle import outcome, same

# PyTorch warns of lists of lists; they are read as it reads them.
pytestmark = pytest.mark.filterwarnings("ignore:Using a non-tuple sequence")

CASES = {
    "int": lambda fw: 1,
    "negative": lambda fw: -1,
    "slice": lambda fw: slice(1, 3),
    "step": lambda fw: slice(0, 4, 2),
    "open slice": lambda fw: slice(None),
    "empty slice": lambda fw: slice(3, 1),
    "out of range slice": lambda fw: slice(-10, 10),
    "ellipsis": lambda fw: ...,
    "none": lambda fw: None,
    "empty tuple": lambda fw: (),
    "two ints": lambda fw: (1, 2),
    "int slice": lambda fw: (1, slice(1, 3)),
    "slice int": lambda fw: (slice(None), 2),
    "slices": lambda fw: (slice(1, 3), slice(None, None, 2)),
    "ellipsis int": lambda fw: (..., 1),
    "int ellipsis int": lambda fw: (0, ..., 1),
    "none ellipsis slice": lambda fw: (None, ..., slice(1, 2)),
    "nones": lambda fw: (slice(None), None, 1, None),
    "all ints": lambda fw: (1, 2, 1),
    "list": lambda fw: [0, 2],
    "list beside slice": lambda fw: (slice(None), [0, 2]),
    "tensor": lambda fw: fw.tensor([0, 2, 1]),
    "int32 tensor": lambda fw: fw.tensor([0, 2], dtype=fw.int32),
    "negative in tensor": lambda fw: fw.tensor([-1, 0]),
    "2-d tensor": lambda fw: fw.tensor([[0, 2], [1, 1]]),
    "0-d tensor": lambda fw: fw.tensor(1),
    "tensors": lambda fw: (fw.tensor([0, 1]), fw.tensor([2, 0])),
    "tensors apart": lambda fw: (fw.tensor([0, 1]), slice(None), fw.tensor([1, 0])),
    "broadcast tensors": lambda fw: (fw.tensor([[0], [1]]), fw.tensor([2, 0])),
    "int and tensor": lambda fw: (0, fw.tensor([1, 2])),
    "tensor then none": lambda fw: (fw.tensor([0, 1]), None),
    "list of lists": lambda fw: [[0, 1], [1, 2]],
    "slice then tensor": lambda fw: (slice(1, 3), fw.tensor([1, 2])),
    "mask": lambda fw: fw.tensor([True, False, True, False]),
    "mask list": lambda fw: [True, False, True, False],
    "2-d mask": lambda fw: fw.tensor([[True, False, True]] * 4),
    "3-d mask": lambda fw: fw.arange(24).view(4, 3, 2) > 7,
    "mask behind slice": lambda fw: (slice(None), fw.tensor([True, False, True])),
    "true": lambda fw: True,
    "false": lambda fw: False,
    "empty list": lambda fw: [],
    "range": lambda fw: range(2),
    "range and list": lambda fw: (range(3), [2, 0, 1]),
    "range behind slice": lambda fw: (slice(None), range(1, 3)),
}


def fresh(fw, dtype="float32"):
    return fw.arange(24, dtype=getattr(fw, dtype)).view(4, 3, 2)


@pytest.mark.parametrize("case", CASES)
def test_read(case):
    ours, theirs = fresh(flow)[CASES[case](flow)], fresh(torch)[CASES[case](torch)]
    same(ours, theirs)


@pytest.mark.parametrize("case", CASES)
def test_basic_indexing_is_a_view_exactly_where_torch_has_one(case):
    x, y = fresh(flow), fresh(torch)
    a, b = x[CASES[case](flow)], y[CASES[case](torch)]
    shares = b.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    assert (a.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) == shares
    if shares and b.numel():
        assert a.stride() == b.stride() and a.storage_offset() == b.storage_offset()


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("transposed", [False, True])
def test_gradient_of_a_read(case, transposed):
    def run(fw):
        x = fresh(fw).requires_grad_()
        base = x.transpose(0, 2).contiguous().transpose(0, 2) if transposed else x
        y = base[CASES[case](fw)]
        (y * fw.arange(float(y.numel())).view(y.shape)).sum().backward()
        return x.grad

    same(run(flow), run(torch))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("value", ["number", "tensor", "broadcast"])
def test_write(case, value):
    def run(fw):
        x = fresh(fw)
        index = CASES[case](fw)
        if value == "number":
            x[index] = -1
        elif value == "tensor":
            part = x[index]
            x[index] = -fw.arange(float(part.numel())).view(part.shape) - 1
        else:
            x[index] = fw.tensor([-5.0])
        return x

    same(run(flow), run(torch))


@pytest.mark.parametrize(
    "index",
    [
        lambda fw: 4,
        lambda fw: -5,
        lambda fw: (0, 3),
        lambda fw: (0, 0, 0, 0),
        lambda fw: slice(0, 3, -1),
        lambda fw: slice(0, 3, 0),
        lambda fw: "a",
        lambda fw: 1.5,
        lambda fw: fw.tensor([1.5]),
        lambda fw: fw.tensor([4]),
        lambda fw: fw.tensor([[True, False]]),
        lambda fw: (fw.tensor([0, 1]), fw.tensor([0, 1, 2])),
        lambda fw: [[0, 1], [0, 1, 2]],
    ],
)
@pytest.mark.parametrize("write", [False, True])
def test_bad_index_raises_what_torch_raises(index, write):
    def attempt(fw):
        x = fresh(fw)
        if write:
            x[index(fw)] = 1.0
        else:
            x[index(fw)]

    with pytest.raises(Exception) as theirs:
        attempt(torch)
    with pytest.raises(theirs.type):
        attempt(flow)


def test_bad_values():
    x = flow.zeros(3, 4)
    with pytest.raises(RuntimeError):
        x[0] = flow.ones(5)
    with pytest.raises(TypeError):
        x[0] = "a"
    with pytest.raises(TypeError):
        del x[0]
    with pytest.raises(IndexError):
        flow.tensor(1.0)[0]


@pytest.mark.parametrize("index", [slice(0.5, 2), slice(None, 1.5), slice(0, 2, "a"), (0, slice(1.0, 2))])
def test_bounds_of_a_slice_are_integers(index):
    for read in (lambda x: x[index], lambda x: x.__setitem__(index, 1.0)):
        assert (
            outcome(lambda read=read: read(fresh(flow))) == outcome(lambda read=read: read(fresh(torch))) == "TypeError"
        )
        with flow.conventions("oneflow"), pytest.raises(RuntimeError, match="slice indices must be integers"):
            read(fresh(flow))


INDICES = {
    "int": lambda fw: 0,
    "slice": lambda fw: slice(0, 2),
    "tensor": lambda fw: fw.tensor([0, 1]),
    "mask": lambda fw: fw.arange(4) > 1,
    "list": lambda fw: [0, 1],
}


@pytest.mark.parametrize(
    "dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "int8", "uint8", "int64", "bool"]
)
@pytest.mark.parametrize("kind", INDICES)
def test_numbers_that_a_dtype_cannot_hold_are_refused(kind, dtype):
    def write(fw, number):
        x = fw.zeros(4, dtype=getattr(fw, dtype))
        x[INDICES[kind](fw)] = number
        return x

    for number in (1e39, -1e39, 70000.0, 300, -3, -300, 2**40, float("inf"), float("nan"), 0.5, 1e308, 3 + 0j, 1j):
        if dtype in ("int8", "uint8", "int64") and (number != number or abs(number) > 1e300):
            continue  # what a cast of these gives depends on the processor
        if dtype in ("float16", "bfloat16") and kind in ("int", "slice") and abs(number) < float("inf"):
            continue  # where PyTorch copies a number, it writes infinity
        ours, theirs = outcome(lambda n=number: write(flow, n)), outcome(lambda n=number: write(torch, n))
        assert ours == theirs or repr(ours) == repr(theirs), number


def test_write_in_place_is_recorded():
    def run(fw):
        x = fw.ones(4, 3, requires_grad=True)
        y = x * 2
        y[1] = 0.0
        y[:, 2] = fw.tensor([1.0, 2.0, 3.0, 4.0])
        y[fw.tensor([True, False, False, True])] = 5.0
        (y * y).sum().backward()
        return x.grad

    same(run(flow), run(torch))


def test_list_values():
    x, y = flow.zeros(2, 3), torch.zeros(2, 3)
    x[0] = flow.tensor([1, 2, 3])
    y[0] = torch.tensor([1, 2, 3])
    x[:, 1:] = flow.ones(1, 1, 2, 2)
    y[:, 1:] = torch.ones(1, 1, 2, 2)
    same(x, y)


def test_iteration_and_length():
    x = flow.arange(6).view(3, 2)
    assert len(x) == 3
    assert [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
    *_, c = x
    assert c.tolist() == [4, 5]
    for f in (len, iter, list):
        with pytest.raises(TypeError):
            f(flow.tensor(1))
    assert 4 in x and 9 not in x
    assert list(range(flow.tensor(3))) == [0, 1, 2]
    assert "abc"[flow.tensor(1)] == "b"
