"""Sparse tensors of every form through ops that move entries or work on values, beside PyTorch."""

import numpy as np
import oneflow as flow
import pytest
import torch

# PyTorch warns that sparse tensors are in beta.
pytestmark = pytest.mark.filterwarnings("ignore")

# sizes, number of sparse dimensions: entries twice, none at all, dense dimensions behind.
FORMS = {
    "matrix": ((4, 5), 2),
    "vector": ((6,), 1),
    "cube": ((3, 4, 2), 3),
    "rows": ((5, 3), 1),
    "blocks": ((3, 4, 2, 2), 2),
}


def made(fw, form, n_entries, dtype="float64", seed=0, requires_grad=False):
    sizes, n = FORMS[form]
    rng = np.random.default_rng(seed)
    at = np.stack([rng.integers(0, size, n_entries) for size in sizes[:n]]) if n_entries else np.zeros((n, 0), int)
    values = rng.normal(size=(n_entries, *sizes[n:]))
    if dtype.startswith("complex"):
        values = values + 1j * rng.normal(size=values.shape)
    return fw.sparse_coo_tensor(
        fw.tensor(at, dtype=fw.int64), fw.tensor(values, dtype=getattr(fw, dtype)), sizes, requires_grad=requires_grad
    )


def numbers(t):
    return t.tolist() if str(t.dtype).endswith("bool") else np.round(t.numpy(), 10).tolist()


def described(t):
    if isinstance(t, (tuple, list)):
        return [described(v) for v in t]
    t = t.detach()
    if not t.is_sparse:
        return "dense", tuple(t.shape), str(t.dtype).rpartition(".")[2], numbers(t)
    c = t.coalesce()
    kinds = str(t.dtype).rpartition(".")[2], t.sparse_dim(), t.dense_dim()
    return "sparse", tuple(t.shape), *kinds, c.indices().tolist(), numbers(c.values())


MOVES = {
    "select": lambda fw, x: [x.select(d, i) for d in range(x.dim()) for i in (0, -1)],
    "item": lambda fw, x: x[1],
    "iteration": lambda fw, x: list(x),
    "unbind": lambda fw, x: [x.unbind(d) for d in range(x.dim())],
    "unsqueeze": lambda fw, x: [x.unsqueeze(d) for d in range(-x.dim() - 1, x.dim() + 1)],
    "index_select": lambda fw, x: [x.index_select(d, fw.tensor([1, 0, 1])) for d in range(x.dim())],
    "index_select none": lambda fw, x: x.index_select(0, fw.tensor([], dtype=fw.int64)),
    "narrow_copy": lambda fw, x: [x.narrow_copy(d, 1, x.shape[d] - 1) for d in range(x.dim())],
    "cat": lambda fw, x: [fw.cat([x, x * 2, x], d) for d in range(x.dim())],
    "stack": lambda fw, x: [fw.stack([x, x * 2], d) for d in range(x.sparse_dim() + 1)],
    "permute": lambda fw, x: x.permute(*reversed(range(x.sparse_dim())), *reversed(range(x.sparse_dim(), x.dim()))),
    "broadcast": lambda fw, x: x * fw.arange(x.shape[-1], dtype=fw.float64),
    "sum": lambda fw, x: [fw.sparse.sum(x, d) for d in range(x.dim())],
    "sum of two": lambda fw, x: fw.sparse.sum(x, (0, x.dim() - 1)) if x.dim() > 1 else fw.sparse.sum(x),
    "add": lambda fw, x: [x.coalesce() + (x * 2).coalesce(), (x.coalesce() + (x * 2).coalesce())._values()],
    "power": lambda fw, x: [x**2, x.abs() ** 0.5],
    "floor_divide": lambda fw, x: fw.floor_divide(x * 10, 3),
    "any": lambda fw, x: x.any(),
    "norm": lambda fw, x: [x.norm(), x.norm(1), x.norm(3)],
}


@pytest.mark.parametrize("n_entries", [7, 1, 0])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", MOVES)
def test_moves(name, form, n_entries):
    results = []
    for fw in (flow, torch):
        try:
            results.append(described(MOVES[name](fw, made(fw, form, n_entries))))
        except (RuntimeError, NotImplementedError, IndexError) as e:
            results.append(type(e).__name__)
    assert results[0] == results[1]


UNARY = (
    "abs asin asinh atan atanh ceil conj_physical deg2rad erf erfinv expm1 floor frac isinf isnan isneginf isposinf "
    "log1p neg nan_to_num positive rad2deg relu round sgn sign signbit sin sinh sqrt square tan tanh trunc"
).split()


@pytest.mark.parametrize("form", ["matrix", "rows"])
@pytest.mark.parametrize("name", UNARY)
def test_values(name, form):
    ours, theirs = (getattr(fw, name)(made(fw, form, 7).abs() * 0.2) for fw in (flow, torch))
    assert described(ours) == described(theirs)


@pytest.mark.parametrize("name", ["conj", "real", "imag", "sgn", "neg", "sin"])
def test_complex_values(name):
    ours, theirs = (getattr(fw, name)(made(fw, "matrix", 7, "complex128")) for fw in (flow, torch))
    assert described(ours) == described(theirs)


GRADIENTS = {
    "mm": lambda fw, x: fw.sparse.mm(x, fw.arange(15.0, dtype=fw.float64).reshape(5, 3)),
    "sum": lambda fw, x: fw.sparse.sum(x) * 2,
    "sum 0": lambda fw, x: fw.sparse.sum(x, 0),
    "sum 1": lambda fw, x: fw.sparse.sum(x, 1),
    "power": lambda fw, x: x.coalesce() ** 2,
}


@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients_have_entries_where_the_tensor_has(name):
    results = []
    for fw in (flow, torch):
        x = made(fw, "matrix", 7, requires_grad=True)
        y = GRADIENTS[name](fw, x)
        (y.to_dense() if y.is_sparse else y).sum().backward()
        results.append(described(x.grad))
    assert results[0] == results[1]


REFUSED = {
    "outside": lambda x: x.select(0, 9),
    "index outside": lambda x: x.index_select(0, flow.tensor([9])),
    "other sizes": lambda x: flow.cat([x, x.transpose(0, 1)]),
    "dense among them": lambda x: flow.cat([x, x.to_dense()]),
    "no order": lambda x: x.permute(0, 0),
    "zeroth power": lambda x: x**0,
    "power of a tensor": lambda x: x ** flow.ones(4, 5),
    "any along": lambda x: x.any(0),
    "steps": lambda x: x[::2],
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    with pytest.raises((RuntimeError, IndexError, NotImplementedError), match=r"\w+\(|pow"):
        REFUSED[name](made(flow, "matrix", 7))


@pytest.mark.parametrize("value", [3.0, 0.0])
def test_a_number_without_dimensions(value):
    for call in (lambda x: x, lambda x: x.to_dense(), lambda x: x * 2, lambda x: x.unsqueeze(0), lambda x: x.sin()):
        ours, theirs = (call(fw.tensor(value, dtype=fw.float64).to_sparse()) for fw in (flow, torch))
        assert described(ours) == described(theirs)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int32", "float32"])
@pytest.mark.parametrize("rest", [(), (2,)])
def test_entries_without_sparse_dimensions_add_up_in_their_dtype(dtype, rest):
    def run(fw):
        values = fw.tensor([[1, 0], [100, 0], [100, 0]]).to(getattr(fw, dtype))
        values = values if rest else values[:, 0]
        sparse = fw.sparse_coo_tensor(fw.ones(0, 3, dtype=fw.int64), values, rest)
        entries = sparse.coalesce()
        return [t.tolist() for t in (sparse.to_dense(), entries.values(), entries.indices())], str(values.dtype)[-4:]

    assert run(flow) == run(torch)


def test_kinds_of_conversion():
    for arguments in ({}, {"sparse_dim": 1}, {"dense_dim": 1}, {"dense_dim": 0}):
        ours, theirs = (fw.eye(3, dtype=fw.float64).to_sparse(**arguments) for fw in (flow, torch))
        assert described(ours) == described(theirs)
    assert not flow.eye(3).to_sparse().to_sparse(layout=flow.strided).is_sparse
    with pytest.raises(RuntimeError, match="sparse_dim"):
        flow.eye(3).to_sparse(0)
    with pytest.raises(RuntimeError, match="jagged is no layout"):
        flow.eye(3).to_sparse(layout=flow.jagged)


@pytest.mark.parametrize("name", ["sin_", "sqrt_", "erf_", "log1p_"])
def test_results_in_place_keep_the_dtype(name):
    x = made(flow, "matrix", 3, "int64")
    with pytest.raises(RuntimeError, match="can't be cast"):
        getattr(x, name)()
    assert x.dtype is flow.int64


SUMS = [(), (0,), (1,), (-1,), ((0, 1),), ((-1, 0),), (None,)]


@pytest.mark.parametrize("dtype", ["float64", "int32", "complex128", "bool"])
@pytest.mark.parametrize("n_entries", [0, 1, 9])
@pytest.mark.parametrize("form", FORMS)
def test_sums_over_dimensions(form, n_entries, dtype):
    """Sparse where dimensions with indices are left."""
    for dims in SUMS:
        n = len(FORMS[form][0])
        given = [d for d in np.atleast_1d(dims[0] if dims else ()) if d is not None]
        if any(not -n <= d < n for d in given) or len({d % n for d in given}) < len(given):
            continue
        for options in ({}, {"keepdim": True}, {"dtype": "float32"}):
            if (not dims or dims[0] is None) and "keepdim" in options:
                continue
            found = []
            for fw in (flow, torch):
                # Whole numbers, whose sums are exact in every dtype.
                x = made(fw, form, n_entries)
                x = fw.sparse_coo_tensor(x._indices(), (x._values() * 4).round(), x.shape).to(getattr(fw, dtype))
                given = {k: getattr(fw, v) if k == "dtype" else v for k, v in options.items()}
                if dtype == "complex128" and "dtype" in given:
                    given["dtype"] = fw.complex64
                found.append(described(x.sum(*dims, **given)))
            assert found[0] == found[1], (dims, options)


def test_sums_of_what_does_not_fit_the_memory():
    n = 2**30
    x = flow.sparse_coo_tensor([[0, 5, n - 1], [7, 7, 3]], [1.0, 2.0, 3.0], (n, n))
    rows = x.sum(1)
    assert (
        rows.shape == (n,) and rows.indices().tolist() == [[0, 5, n - 1]] and rows.values().tolist() == [1.0, 2.0, 3.0]
    )
    assert x.sum(0, keepdim=True).coalesce().indices().tolist() == [[0, 0], [3, 7]]


@pytest.mark.parametrize("form", FORMS)
def test_gradients_of_sums_over_dimensions(form):
    found = []
    for fw in (flow, torch):
        gradients = []
        for d in range(len(FORMS[form][0])):
            x = made(fw, form, 9, requires_grad=True)
            # PyTorch's method has no gradient, its function has.
            y = x.sum(d) if fw is flow else fw.sparse.sum(x, d)
            y = y.to_dense() if y.is_sparse else y
            (y * y).sum().backward()
            gradients.append(x.grad.to_dense().tolist())
        found.append(np.array([v for g in gradients for v in np.ravel(g)]))
    at = np.array([v for _ in FORMS[form][0] for v in np.ravel((made(torch, form, 9).to_dense() != 0).numpy())])
    # PyTorch's gradients have entries where the input has; here they may have others besides.
    np.testing.assert_allclose(found[0][at], found[1][at])


def test_dimensions_of_sums_that_do_not_fit():
    for fw in (flow, torch):
        x = made(fw, "matrix", 3)
        with pytest.raises(IndexError):
            x.sum(2)
        with pytest.raises(RuntimeError, match="appears multiple times"):
            x.sum((0, -2))


LAYOUTS = ["sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "strided"]


def in_layout(fw, layout):
    x = fw.tensor([[1.0, 0, 2, 0], [0, 3, 0, 0]], dtype=fw.float64)
    blocks = {"blocksize": (1, 2)} if layout == "sparse_bsr" else {}
    return x if layout == "strided" else x.to_sparse(layout=getattr(fw, layout), **blocks)


FILLED = {
    "zeros_like": lambda fw, x, **o: fw.zeros_like(x, **o),
    "ones_like": lambda fw, x, **o: fw.ones_like(x, **o),
    "full_like": lambda fw, x, **o: fw.full_like(x, 2.5, **o),
    "empty_like": lambda fw, x, **o: fw.empty_like(x, **o),
    "randn_like": lambda fw, x, **o: fw.randn_like(x, **o),
    "new_zeros": lambda fw, x, **o: x.new_zeros((3, 4), **o),
    "new_empty": lambda fw, x, **o: x.new_empty((3, 4), **o),
    "new_zeros of three": lambda fw, x, **o: x.new_zeros((2, 3, 4), **o),
    "new_zeros of none": lambda fw, x, **o: x.new_zeros((), **o),
    "fill_": lambda fw, x: x.fill_(7),
    "fill": lambda fw, x: fw.fill(x, 7),
    "normal_": lambda fw, x: x.normal_(),
    "zero_": lambda fw, x: x.zero_(),
}
RANDOM = ("empty_like", "randn_like", "new_empty", "normal_")


@pytest.mark.parametrize("options", [{}, {"dtype": "int32"}, {"layout": "strided"}, {"layout": "sparse_coo"}], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", FILLED)
def test_makers_and_fills(name, layout, options):
    """Layout, dtype, number of entries and, where it is defined, values. What PyTorch refuses may be given."""
    if (options and name.endswith(("_", "fill"))) or (name == "randn_like" and "dtype" in options):
        return

    def run(fw):
        made = FILLED[name](fw, in_layout(fw, layout), **{k: getattr(fw, v) for k, v in options.items()})
        facts = [str(made.layout).rpartition(".")[2], str(made.dtype).rpartition(".")[2], tuple(made.shape)]
        if made.layout is not fw.strided:
            facts.append(made._nnz())
        if name not in RANDOM:
            facts.append(made.to_dense().tolist())
        return facts

    try:
        wanted = run(torch)
    except (RuntimeError, NotImplementedError):
        return
    assert run(flow) == wanted


@pytest.mark.parametrize("name", ["ones_like", "full_like", "randn_like", "fill_", "normal_"])
def test_fills_by_coordinates_are_refused(name):
    with pytest.raises(NotImplementedError, match=r"has no form for sparse tensors|is not implemented"):
        FILLED[name](flow, in_layout(flow, "sparse_coo"))


def test_a_new_tensor_in_a_compressed_layout_has_rows_and_columns():
    for layout, size in (("sparse_csr", (3,)), ("sparse_csc", ()), ("sparse_bsr", (2, 4))):
        with pytest.raises(RuntimeError, match=f"new_zeros.*{layout} layout"):
            in_layout(flow, layout).new_zeros(size)
