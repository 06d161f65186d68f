"""Values that are written into tensors: numbers that a dtype cannot hold, masks, indices, `out=` of a wider dtype.

Each family of functions does with each dtype and value what it does in PyTorch: the same result, or an error.
"""

import itertools
import math

import oneflow
import pytest
import torch
from ops.op_samples import check_equal

pytestmark = pytest.mark.filterwarnings("ignore")

DTYPES = "bool uint8 int8 int16 int32 int64 float16 bfloat16 float32 float64 complex64 complex128".split()
NUMBERS = [0, 1, -1, 0.3, 1.5, -1.5, 127, 128, -128, -129, 255, 256, -255, -256, 300.5, 2**15, 65504.0, 65520.0]
NUMBERS += [
    2**31,
    -(2**31) - 1,
    2**63 - 1,
    1e39,
    3.39e38,
    1e300,
    math.inf,
    -math.inf,
    math.nan,
    1j,
    1 + 0j,
    1e39j,
    True,
]

WRITERS = {
    "fill_": lambda fw, x, v: x.fill_(v),
    "full": lambda fw, x, v: fw.full((2,), v, dtype=x.dtype),
    "full_like": lambda fw, x, v: fw.full_like(x, v),
    "new_full": lambda fw, x, v: x.new_full((2,), v),
    "scatter": lambda fw, x, v: x.scatter(0, fw.tensor([0]), v),
    "index_fill": lambda fw, x, v: x.index_fill(0, fw.tensor([0]), v),
    "masked_fill": lambda fw, x, v: x.masked_fill(fw.tensor([True, False]), v),
    "setitem_mask": lambda fw, x, v: x.__setitem__(fw.tensor([True, False]), v) or x,
}


def outcome(function):
    try:
        return function()
    except Exception as e:
        return e


def check_same(ours, theirs, where):
    """Equal results, or errors of one class."""
    if isinstance(theirs, Exception):
        assert isinstance(ours, type(theirs)), f"{where}: PyTorch raises {theirs!r}, here {ours!r}"
        return
    assert not isinstance(ours, Exception), f"{where}: {ours!r}"
    assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2], where
    check_equal(ours, theirs)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", WRITERS)
def test_numbers(name, dtype):
    for value in NUMBERS:
        results = [
            outcome(lambda fw=fw: WRITERS[name](fw, fw.zeros(2, dtype=getattr(fw, dtype)), value))  # noqa: B023
            for fw in (oneflow, torch)
        ]
        if isinstance(results[1], torch.Tensor) and dtype == "int64" and not abs(value) < 2**63 - 1024:
            continue  # The nearest integer of a float at the limit is the processor's choice.
        check_same(*results, f"{name} of {value!r} into {dtype}")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float8_e4m3fn", "int8"])
def test_one_element(dtype):
    """One element alone of a narrow float dtype becomes infinite where several are refused."""
    writers = {
        "integer": lambda fw, x, v: x.__setitem__(0, v) or x,
        "slice": lambda fw, x, v: x.__setitem__(slice(1), v) or x,
        "slice of two": lambda fw, x, v: x.__setitem__(slice(2), v) or x,
        "fill_": lambda fw, x, v: x[:1].fill_(v),
        "fill_ of no dimension": lambda fw, x, v: x[0].fill_(v),
        "full": lambda fw, x, v: fw.full((1, 1), v, dtype=x.dtype),
        "full_like": lambda fw, x, v: fw.full_like(x[:1], v),
        "new_full": lambda fw, x, v: x.new_full((), v),
    }
    for (name, write), value in itertools.product(writers.items(), [1e6, -1e300, 448.5, math.nan, 300]):
        ours, theirs = (
            outcome(lambda fw=fw: write(fw, fw.zeros(3, dtype=getattr(fw, dtype)), value).double())  # noqa: B023
            for fw in (oneflow, torch)
        )
        check_same(ours, theirs, f"{name} of {value!r} into {dtype}")


@pytest.mark.parametrize("value", [2**63, 2**63 + 1, 2**64 - 1, 2**64, -(2**63) - 1])
def test_uint64_beyond_int64(value):
    calls = {
        "fill_": lambda fw, x: x.fill_(value),
        "setitem": lambda fw, x: x.__setitem__(0, value) or x,
        "full": lambda fw, x: fw.full((2,), value, dtype=fw.uint64),
        "full_like": lambda fw, x: fw.full_like(x, value),
        "new_full": lambda fw, x: x.new_full((2,), value),
        "where": lambda fw, x: fw.where(fw.tensor([True, False]), x, value),
        "eq": lambda fw, x: x.fill_(value) == value,
        "int64": lambda fw, x: x.to(fw.int64).fill_(value),
    }
    for name, call in calls.items():
        ours, theirs = (
            outcome(lambda fw=fw: call(fw, fw.zeros(2, dtype=fw.uint64)).tolist())  # noqa: B023
            for fw in (oneflow, torch)
        )
        if isinstance(theirs, Exception):
            assert isinstance(ours, (RuntimeError, OverflowError)), (name, ours, theirs)
        else:
            assert ours == theirs, (name, ours, theirs)


def test_fills_of_expanded_tensors():
    """A fill writes one value, so it may write an expanded tensor, whose elements are one in memory."""
    for fw in (oneflow, torch):
        for base, strides in ((fw.zeros(3), (0, 1)), (fw.zeros(4, 3)[:, 1], (1, 0)), (fw.zeros(2), (0, 0))):
            x = base.as_strided((2, 2), strides, base.storage_offset())
            assert x.fill_(2.0).tolist() == [[2.0, 2.0], [2.0, 2.0]]
            assert x.zero_().tolist() == [[0.0, 0.0], [0.0, 0.0]]
        with pytest.raises(RuntimeError, match="single memory location"):
            fw.zeros(1).expand(3).add_(1.0)


MASKED = {
    "masked_fill": lambda fw, x, m: x.masked_fill(m, 2.0),
    "masked_fill_": lambda fw, x, m: x.masked_fill_(m, 2.0),
    "masked_select": lambda fw, x, m: x.masked_select(m),
    "masked_scatter": lambda fw, x, m: x.masked_scatter(m, fw.ones(3)),
    "where": lambda fw, x, m: fw.where(m, x, 7.0),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", MASKED)
def test_masks(name, dtype):
    def call(fw):
        return MASKED[name](fw, fw.arange(3.0), fw.tensor([0, 1, 3]).to(getattr(fw, dtype)))

    check_same(outcome(lambda: call(oneflow)), outcome(lambda: call(torch)), f"{name} by {dtype}")
    if dtype.startswith(("int", "uint")):
        with oneflow.conventions("oneflow"):
            ours = call(oneflow)
        check_equal(ours, MASKED[name](torch, torch.arange(3.0), torch.tensor([False, True, True])))
        if name != "where":
            with pytest.raises(RuntimeError, match="conventions"):
                call(oneflow)


def test_masks_of_floats_under_oneflows_conventions():
    mask = oneflow.tensor([0.0, 0.5, math.nan])
    with oneflow.conventions("oneflow"):
        assert oneflow.arange(3.0).masked_select(mask).tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="BoolTensor"):
        oneflow.arange(3.0).masked_select(mask)


@pytest.mark.filterwarnings("default")
def test_masks_of_bytes_are_deprecated():
    for fw in (oneflow, torch):
        with pytest.warns(UserWarning, match="uint8 is now deprecated"):
            assert fw.arange(3.0)[fw.tensor([1, 0, 1], dtype=fw.uint8)].tolist() == [0.0, 2.0]


# Each writes by index into `x` and reads `i` and `s`.
INDEXED = {
    "scatter_": lambda x, i, s: x.scatter_(0, i, s),
    "scatter_add_": lambda x, i, s: x.scatter_add_(0, i, s),
    "scatter_reduce_": lambda x, i, s: x.scatter_reduce_(0, i, s, "amax"),
    "index_add_": lambda x, i, s: x.index_add_(0, i, s),
    "index_copy_": lambda x, i, s: x.index_copy_(0, i, s),
    "index_reduce_": lambda x, i, s: x.index_reduce_(0, i, s, "prod"),
    "index_put_": lambda x, i, s: x.index_put_((i,), s),
    "index_fill_": lambda x, i, s: x.index_fill_(0, i, 0),
    "put_": lambda x, i, s: x.put_(i, s),
    "setitem": lambda x, i, s: x.__setitem__(i, s) or x,
}


def _operands(fw):
    """Name, destination, index and source: separate, or in one memory."""
    y, i = fw.arange(6) * 10, fw.tensor([2, 1, 0])
    yield "apart", y.clone(), i, fw.tensor([7, 8, 9])
    yield "source inside", (z := y.clone()), i, z[:3]
    yield "source beside", (z := y.clone())[3:], i, z[:3]
    yield "interleaved", (z := y.clone())[::2], i, z[1::2]
    yield "index written", (z := i.clone()), z, fw.tensor([7, 8, 9])
    yield "both", (z := i.clone()), z, z
    yield "source written", (z := i.clone()), i, z


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", INDEXED)
def test_indexed_writes_from_overlapping_operands(name, grad):
    for (where, *ours), (_, *theirs) in zip(_operands(oneflow), _operands(torch), strict=True):
        if grad:
            if where.startswith(("index", "both")):
                continue
            # The composition that autograd records writes in the end, too.
            share = ours[2].untyped_storage().data_ptr() == ours[0].untyped_storage().data_ptr()
            ours, theirs = ([t.double() if k != 1 else t for k, t in enumerate(ts)] for ts in (ours, theirs))
            if share:
                continue
            for ts in (ours, theirs):
                ts[2].requires_grad_()
        check_same(outcome(lambda o=ours: INDEXED[name](*o)), outcome(lambda t=theirs: INDEXED[name](*t)), where)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "maximum", "exp", "sigmoid", "neg", "square"])
def test_a_wider_out_gets_the_result_in_its_own_dtype(name):
    values = {"float16": 33000.0, "bfloat16": 3e38, "float32": 3e38, "int8": 100, "uint8": 200, "int32": 2**30}
    for (dtype, value), wide in itertools.product(values.items(), ["float32", "float64", "int64", "complex128"]):
        if name in ("exp", "sigmoid") and "int" in dtype:
            continue

        def call(fw, dtype=dtype, value=value, wide=wide):
            x = fw.tensor([value, 3], dtype=getattr(fw, dtype))
            args = (x, x) if name in ("add", "sub", "mul", "div", "pow", "maximum") else (x,)
            return getattr(fw, name)(*args, out=fw.empty(2, dtype=getattr(fw, wide)))

        check_same(outcome(lambda: call(oneflow)), outcome(lambda: call(torch)), f"{name} of {dtype} into {wide}")


@pytest.mark.parametrize("dtype", DTYPES)
def test_bernoulli_writes_any_dtype(dtype):
    p = oneflow.tensor([0.0, 1.0, 1.0])
    out = oneflow.bernoulli(p, out=oneflow.empty(3, dtype=getattr(oneflow, dtype)))
    assert out.tolist() == [0, 1, 1]
    assert str(out.dtype).rpartition(".")[2] == dtype


@pytest.mark.parametrize("n", [-1, 3, -4])
def test_index_copy_counts_from_the_front(n):
    for fw in (oneflow, torch):
        with pytest.raises(IndexError):
            fw.zeros(2, 3).index_copy_(1, fw.tensor([n]), fw.ones(2, 1))
