"""`testing.assert_close` and `make_tensor` beside PyTorch's: layouts, None, meta tensors, texts of mismatches."""

import itertools
import re

import numpy as np
import oneflow
import pytest
import torch

BOTH = (torch, oneflow)
LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc")


def outcome(lib, call):
    try:
        call(lib)
    except Exception as error:
        text = re.sub(r"\b(torch|oneflow)\.", "", str(error))
        return type(error).__name__, text
    return "passes"


def same(call):
    theirs, ours = (outcome(lib, call) for lib in BOTH)
    assert theirs == ours
    return ours


pytestmark = pytest.mark.filterwarnings("ignore:Sparse .* tensor support is in beta")


def in_layout(x, layout):
    if layout == "strided":
        return x
    kind = layout.removeprefix("sparse_")
    if kind == "coo":
        return x.to_sparse()
    make = getattr(x, f"to_sparse_{kind}")
    return make((2, 2)) if kind.startswith("bs") else make()


@pytest.mark.parametrize(("a", "b"), itertools.product(LAYOUTS, LAYOUTS))
def test_layouts(a, b):
    results = set()
    for change in (1.0, 2.0, 1.0 + 1e-6):
        for check in (True, False):

            def call(lib, change=change, check=check):
                x = lib.tensor([[1.0, 0, 0, 2], [0, 3, 0, 0], [0, 0, 0, 0], [0, 0, 4, 0]])
                lib.testing.assert_close(in_layout(x, a), in_layout(x * change, b), check_layout=check)

            results.add(same(call) == "passes")
    assert results == {True, False}


def test_sparse_tensors_that_store_other_places():
    def places(lib, *values):
        return lib.tensor(values).to_sparse()

    same(lambda lib: lib.testing.assert_close(places(lib, 1.0, 0, 2), places(lib, 1.0, 2, 0)))
    same(lambda lib: lib.testing.assert_close(places(lib, 1.0, 0, 2), places(lib, 1.0, 1, 2)))

    def twice(lib):
        x = lib.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (2,))
        lib.testing.assert_close(x, lib.tensor([3.0, 0.0]).to_sparse())

    same(twice)


@pytest.mark.parametrize(
    "call",
    [
        lambda lib: lib.testing.assert_close(None, lib.tensor(1.0)),
        lambda lib: lib.testing.assert_close(lib.tensor(1.0), None),
        lambda lib: lib.testing.assert_close([None], [1.0]),
        lambda lib: lib.testing.assert_close(None, None),
        lambda lib: lib.testing.assert_close(lib.ones(2, device="meta"), lib.ones(2, device="meta")),
        lambda lib: lib.testing.assert_close(lib.ones(2, device="meta"), lib.zeros(2, device="meta")),
        lambda lib: lib.testing.assert_close(lib.ones(2, device="meta"), lib.ones(3, device="meta")),
        lambda lib: lib.testing.assert_close(lib.ones(2), lib.ones(2, device="meta")),
        lambda lib: lib.testing.assert_close(lib.ones(2), lib.ones(2, device="meta"), check_device=False),
        lambda lib: lib.testing.assert_close(lib.ones(2), lib.ones(2, dtype=lib.float64), check_dtype=False),
        lambda lib: lib.testing.assert_close(lib.ones(2), lib.ones(2, dtype=lib.float64)),
        lambda lib: lib.testing.assert_close(lib.ones(2, 3), lib.ones(3, 2).t(), check_stride=True),
        lambda lib: lib.testing.assert_close(lib.ones(2, 3), lib.ones(3, 2).t()),
        lambda lib: lib.testing.assert_close(lib.tensor(300), lib.tensor(7, dtype=lib.uint8), check_dtype=False),
        lambda lib: lib.testing.make_tensor((2,), dtype=lib.int64, device="cpu", requires_grad=True),
    ],
)
def test_what_is_compared_besides_values(call):
    same(call)


@pytest.mark.parametrize("dtype", "float32 float64 float16 bfloat16 int32 uint8 bool complex64".split())
def test_texts_of_mismatches(dtype):
    numbers = np.random.default_rng(1)
    failed = 0
    for shape in ((), (1,), (4,), (2, 3), (2, 0, 3), (2, 2, 2)):
        for special in (False, True):
            x = numbers.standard_normal(shape)
            y = np.where(numbers.random(shape) < 0.5, x, x + numbers.standard_normal(shape))
            if special and x.size and dtype[0] in "fbc" and dtype != "bool":
                x.flat[0], y.flat[-1] = np.nan, np.inf
            if dtype in ("int32", "uint8", "bool"):
                x, y = (v > 0 if dtype == "bool" else 3 * abs(v) for v in (x, y))
            for options in ({}, {"rtol": 0.0, "atol": 0.5}, {"equal_nan": True}, {"rtol": 0.0, "atol": 0.0}):

                def call(lib, x=x, y=y, options=options):
                    kind = getattr(lib, dtype)
                    a, b = (lib.tensor(v).to(kind) for v in (x, y))
                    lib.testing.assert_close(a, b, **options)

                failed += same(call) != "passes"
    assert failed > 10


def test_tensors_of_one_byte_are_drawn():
    for kind in ("float8_e4m3fn", "float8_e5m2"):
        x = oneflow.testing.make_tensor((50,), dtype=getattr(oneflow, kind), device="cpu")
        assert str(x.dtype).endswith(kind) and x.float().unique().numel() > 10
        oneflow.testing.assert_close(x, x.clone())


def test_large_tensors_are_compared_as_tensors():
    x = oneflow.rand(1000, 1000, generator=oneflow.Generator().manual_seed(1))
    oneflow.testing.assert_close(x, x + 1e-7)
    with pytest.raises(AssertionError, match=r"Mismatched elements: 1000000 / 1000000 \(100.0%\)"):
        oneflow.testing.assert_close(x, x + 1)
