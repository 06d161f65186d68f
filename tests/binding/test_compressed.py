"""Compressed sparse tensors (CSR, CSC, BSR, BSC) of every form beside PyTorch."""

import copy
import io
import pickle
import warnings

import numpy as np
import oneflow as flow
import pytest
import torch

# PyTorch warns that these layouts are in beta.
pytestmark = pytest.mark.filterwarnings("ignore")

LAYOUTS = ("csr", "csc", "bsr", "bsc")
# sizes, number of dense dimensions, size of a block
FORMS = {
    "matrix": ((4, 6), 0, (2, 3)),
    "wide": ((2, 9), 0, (1, 3)),
    "empty rows": ((0, 6), 0, (1, 2)),
    "batch": ((3, 4, 6), 0, (2, 2)),
    "batches": ((2, 3, 4, 2), 0, (4, 1)),
    "dense": ((4, 6, 2), 1, (2, 3)),
}


def dense(fw, form, dtype="float64", share=0.4, seed=0):
    """A tensor with zeros; every matrix of a batch has its entries at the same places."""
    sizes, n_dense, _ = FORMS[form]
    rng = np.random.default_rng(seed)
    first = len(sizes) - n_dense - 2
    places = rng.random(sizes[first : first + 2]) < share
    values = rng.integers(1, 9, sizes).astype(dtype)
    if dtype.startswith("complex"):
        values = values + 1j * rng.integers(1, 9, sizes)
    return fw.tensor(values * places.reshape(*places.shape, *[1] * n_dense), dtype=getattr(fw, dtype))


def converted(x, layout, form):
    _, n_dense, block = FORMS[form]
    args = (block,) if layout in ("bsr", "bsc") else ()
    return getattr(x, f"to_sparse_{layout}")(*args, **({"dense_dim": n_dense} if n_dense else {}))


def made(fw, layout, form="matrix", **kw):
    return converted(dense(fw, form, **kw), layout, form)


def described(t):
    if isinstance(t, (tuple, list)):
        return [described(v) for v in t]
    if not isinstance(t, (flow.Tensor, torch.Tensor)):
        return t
    t = t.detach()
    kind = tuple(t.shape), str(t.dtype).rpartition(".")[2], str(t.layout).rpartition(".")[2]
    if kind[2] == "strided":
        return *kind, np.round(t.resolve_conj().numpy(), 10).tolist() if t.dtype not in (
            flow.bool,
            torch.bool,
        ) else t.tolist()
    if kind[2] == "sparse_coo":
        c = t.coalesce()
        return *kind, c.indices().tolist(), described(c.values())
    by_row = kind[2] in ("sparse_csr", "sparse_bsr")
    parts = (t.crow_indices(), t.col_indices()) if by_row else (t.ccol_indices(), t.row_indices())
    return *kind, [p.tolist() for p in parts], str(parts[0].dtype).rpartition(".")[2], described(t.values())


def both(f):
    """What a function gives in both packages: described, or the class of what it raises."""
    found = []
    for fw in (flow, torch):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append(described(f(fw)))
        except Exception as error:
            found.append(type(error).__name__ if fw is torch else error)
    return found


def same(f):
    ours, theirs = both(f)
    assert not isinstance(theirs, str), f"PyTorch raises {theirs}"
    assert ours == theirs


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex128"])
def test_conversion_from_dense_and_back(layout, form, dtype):
    def f(fw):
        x = made(fw, layout, form, dtype=dtype)
        return x, x.to_dense(), x._nnz(), x.sparse_dim(), x.dense_dim(), x.is_sparse, x.is_sparse_csr, x.numel()

    same(f)
    x = dense(flow, form, dtype)
    assert flow.equal(converted(x, layout, form).to_dense(), x)


@pytest.mark.parametrize("to", [*LAYOUTS, "coo"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", ["matrix", "batch", "batches"])
def test_conversion_between_layouts(layout, to, form):
    x = made(flow, layout, form)
    back = x.to_sparse() if to == "coo" else converted(x, to, form)
    assert flow.equal(back.to_dense(), x.to_dense())
    whole = x.to_dense()
    straight = whole.to_sparse() if to == "coo" else converted(whole, to, form)
    assert described(back) == described(straight) or {layout, to} & {"bsr", "bsc"}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_constructors(layout, index):
    def f(fw):
        x = made(fw, layout)
        by_row = layout in ("csr", "bsr")
        parts = (x.crow_indices(), x.col_indices()) if by_row else (x.ccol_indices(), x.row_indices())
        parts = [p.to(getattr(fw, index)) for p in parts]
        one = getattr(fw, f"sparse_{layout}_tensor")
        of = getattr(fw, f"sparse_{layout}")
        return (
            one(*parts, x.values()),
            one(*parts, x.values(), x.shape, dtype=fw.float32),
            fw.sparse_compressed_tensor(*parts, x.values(), x.shape, layout=of, check_invariants=True),
        )

    same(f)


OPS = {
    "clone": lambda fw, x: x.clone(),
    "detach": lambda fw, x: x.detach(),
    "double": lambda fw, x: x.to(fw.float32),
    "transpose": lambda fw, x: x.transpose(-2, -1),
    "mT": lambda fw, x: x.mT,
    "neg": lambda fw, x: -x,
    "abs": lambda fw, x: x.abs(),
    "sin": lambda fw, x: x.sin(),
    "sqrt": lambda fw, x: x.sqrt(),
    "sign": lambda fw, x: x.sign(),
    "isnan": lambda fw, x: x.isnan(),
    "relu": lambda fw, x: fw.relu(x),
    "log1p": lambda fw, x: x.log1p(),
    "times a number": lambda fw, x: 2 * x,
    "times itself": lambda fw, x: x * x,
    "plus itself": lambda fw, x: x + x,
    "minus": lambda fw, x: x - x * 3,
    "add with alpha": lambda fw, x: fw.add(x, x, alpha=2),
    "sum": lambda fw, x: x.sum(),
    "zeros_like": lambda fw, x: fw.zeros_like(x),
    "zeros_like in a dtype": lambda fw, x: fw.zeros_like(x, dtype=fw.float32),
    "zeros_like in its layout": lambda fw, x: fw.zeros_like(x, layout=x.layout),
    "zeros_like by coordinates": lambda fw, x: fw.zeros_like(x, layout=fw.sparse_coo)._values().shape[1:],
    "len": lambda fw, x: len(x),
}


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", ["matrix", "batch", "dense"])
def test_ops(op, layout, form):
    ours, theirs = both(lambda fw: OPS[op](fw, made(fw, layout, form)))
    if isinstance(ours, Exception):
        assert isinstance(theirs, str) and isinstance(ours, (NotImplementedError, RuntimeError))
        return
    assert ours == theirs or isinstance(theirs, str)
    # What PyTorch refuses too has the numbers of the dense op.
    x = made(flow, layout, form)
    found = OPS[op](flow, x)
    if isinstance(found, flow.Tensor):
        np.testing.assert_allclose(found.to_dense().numpy(), OPS[op](flow, x.to_dense()).numpy(), rtol=1e-6)


MATRIX_OPS = {
    "mm": lambda fw, x: x @ ordered(fw, 6, 3),
    "mm of one column": lambda fw, x: x @ ordered(fw, 6, 1),
    "mv": lambda fw, x: x @ ordered(fw, 6, 1)[:, 0],
    "dense times it": lambda fw, x: ordered(fw, 3, 4) @ x,
    "its transpose": lambda fw, x: x.t() @ ordered(fw, 4, 3),
    "addmm": lambda fw, x: fw.addmm(fw.ones(4, 3, dtype=x.dtype), x, ordered(fw, 6, 3), beta=2, alpha=3),
    "sparse.mm": lambda fw, x: fw.sparse.mm(x, ordered(fw, 6, 3)),
    "times dense": lambda fw, x: x * ordered(fw, 4, 6),
    "dense times": lambda fw, x: ordered(fw, 4, 6) * x,
    "plus dense": lambda fw, x: x + ordered(fw, 4, 6),
    "dense plus": lambda fw, x: ordered(fw, 4, 6) + x,
    "plus another": lambda fw, x: x + made(fw, "csr", seed=1),
    "sum of rows": lambda fw, x: x.sum(1, keepdim=True),
    "sum of columns": lambda fw, x: x.sum(0, keepdim=True),
    "row": lambda fw, x: x[1],
    "column": lambda fw, x: x[:, 2],
    "element": lambda fw, x: [x[i, j] for i in range(4) for j in range(-6, 6)],
    "rows": lambda fw, x: list(x),
    "mask": lambda fw, x: ordered(fw, 4, 6).sparse_mask(x),
    "mask of another": lambda fw, x: made(fw, "csr", seed=1).sparse_mask(x),
    "in place": lambda fw, x: x.mul_(2).add_(x.clone()),
    "zero_": lambda fw, x: x.zero_(),
    "copy_": lambda fw, x: x.clone().zero_().copy_(x),
    "into dense": lambda fw, x: ordered(fw, 4, 6).add_(x),
    "empty_like": lambda fw, x: fw.empty_like(x)._nnz() * 0,
}


def ordered(fw, *sizes):
    return fw.arange(int(np.prod(sizes)), dtype=fw.float64).reshape(sizes)


@pytest.mark.parametrize("op", MATRIX_OPS)
@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_ops_of_matrices(op, layout):
    ours, theirs = both(lambda fw: MATRIX_OPS[op](fw, made(fw, layout)))
    if isinstance(theirs, str):
        assert layout == "csc" or op == "copy_"
        return
    assert ours == theirs


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "complex128"])
@pytest.mark.parametrize("index", ["int32", "int64"])
def test_products_of_matrices_beside_dense_ones(layout, dtype, index):
    whole = dense(flow, "matrix", dtype)
    x = converted(whole, layout, "matrix")
    if index == "int32" and layout in ("csr", "csc"):
        parts = flow._oneflow._C._sparse_compressed_parts(x)
        one = getattr(flow, f"sparse_{layout}_tensor")
        x = one(parts[0].int(), parts[1].int(), parts[2], x.shape)
    y = dense(flow, "matrix", dtype, seed=3).t()
    close = lambda a, b: np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)  # noqa: E731
    close(x @ y, whole @ y)
    close(y @ x, y @ whole)
    close(x @ y[:, 0], whole @ y[:, 0])
    for other in LAYOUTS:
        block = (3, 2) if other in ("bsr", "bsc") else ()
        z = getattr(y, f"to_sparse_{other}")(*([block] if block else []))
        product = x @ z
        assert product.layout is x.layout
        close(product.to_dense(), whole @ y)
    wide = y.to_sparse()
    close((x @ wide).to_dense(), whole @ y)


GRADIENTS = {
    "mm": lambda fw, x, y: x @ y,
    "sparse.mm": lambda fw, x, y: fw.sparse.mm(x, y),
    "to_dense": lambda fw, x, y: x.to_dense() * 3,
    "values": lambda fw, x, y: x.values() ** 2,
    "relu": lambda fw, x, y: fw.relu(x).to_dense(),
    "times": lambda fw, x, y: (x * 2).to_dense(),
    "times dense": lambda fw, x, y: (x * ordered(fw, 4, 6)).to_dense(),
    "plus": lambda fw, x, y: (x + x).to_dense(),
    "sum": lambda fw, x, y: x.sum(),
    "to_sparse": lambda fw, x, y: x.to_sparse().to_dense() * ordered(fw, 4, 6),
    "neg": lambda fw, x, y: (-x).to_dense(),
}


@pytest.mark.parametrize("op", GRADIENTS)
@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_gradients(op, layout):
    def f(fw):
        x, y = made(fw, layout).requires_grad_(), ordered(fw, 6, 2).requires_grad_()
        out = GRADIENTS[op](fw, x, y)
        (out * out).sum().backward()
        return x.grad, None if y.grad is None else y.grad

    ours, theirs = both(f)
    if isinstance(theirs, str):
        assert layout == "csc"
        return
    assert ours == theirs


def test_gradients_of_values_and_dense_tensors():
    def f(fw):
        x = made(fw, "csr")
        v = x.values().clone().requires_grad_()
        y = ordered(fw, 6, 2).requires_grad_()
        (fw.sparse_csr_tensor(x.crow_indices(), x.col_indices(), v, x.shape) @ y).square().sum().backward()
        w = dense(fw, "matrix").requires_grad_()
        (w.to_sparse_csr() @ ordered(fw, 6, 2)).square().sum().backward()
        return v.grad, y.grad, w.grad

    same(f)


def test_gradients_of_blocks():
    x = made(flow, "bsr").requires_grad_()
    y = ordered(flow, 6, 2).requires_grad_()
    flow.sparse.mm(x, y).square().sum().backward()
    whole, z = x.detach().to_dense().requires_grad_(), ordered(flow, 6, 2).requires_grad_()
    (whole @ z).square().sum().backward()
    assert flow.equal(x.grad.to_dense(), whole.grad.sparse_mask(x.detach()).to_dense()) and flow.equal(y.grad, z.grad)


@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_reduced_products(reduce):
    def f(fw):
        x, y = made(fw, "csr", seed=2).requires_grad_(), (ordered(fw, 6, 3) * 1.37 - 7).requires_grad_()
        out = fw.sparse.mm(x, y, reduce)
        out.square().sum().backward()
        return out, x.grad, y.grad

    same(f)


def test_sampled_product():
    def f(fw):
        x, a, b = (
            made(fw, "csr").requires_grad_(),
            ordered(fw, 4, 2).requires_grad_(),
            ordered(fw, 2, 6).requires_grad_(),
        )
        out = fw.sparse.sampled_addmm(x, a, b, beta=2, alpha=3)
        out.to_dense().square().sum().backward()
        return out, x.grad, a.grad, b.grad

    same(f)


@pytest.mark.parametrize("shape", [(4, 4), (3, 5), (6, 4)])
def test_diagonals(shape):
    def f(fw):
        rows = ordered(fw, 3, 4) + 1
        made = fw.sparse.spdiags(rows, fw.tensor([0, -1, 2]), shape)
        return made.to_dense(), fw.sparse.spdiags(rows, fw.tensor([0, -1, 2]), shape, layout=fw.sparse_csr)

    same(f)


def test_indices_between_layouts():
    def f(fw):
        rows = fw._convert_indices_from_coo_to_csr(fw.tensor([0, 0, 1, 3]), 5)
        pairs = fw._convert_indices_from_csr_to_coo(rows, fw.tensor([1, 3, 0, 2]), transpose=True, out_int32=True)
        return rows, pairs, fw._convert_indices_from_coo_to_csr(fw.tensor([0, 0, 1, 3]), 5, out_int32=True)

    same(f)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("form", ["matrix", "batch", "dense"])
def test_text(layout, form):
    for dtype in ("float32", "float64", "int64"):
        ours, theirs = (repr(made(fw, layout, form, dtype=dtype)) for fw in (flow, torch))
        assert ours.replace("oneflow", "torch") == theirs
    ours, theirs = (repr(made(fw, layout, dtype="float32").requires_grad_()) for fw in (flow, torch))
    assert ours.replace("oneflow", "torch") == theirs


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_and_files(layout, tmp_path):
    x = made(flow, layout)
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert described(y) == described(x)
    buffer = io.BytesIO()
    flow.save({"x": x}, buffer)
    buffer.seek(0)
    assert described(flow.load(buffer)["x"]) == described(x)
    # PyTorch reads our file, and we read its.
    flow.save(x, tmp_path / "ours.pt")
    assert described(torch.load(tmp_path / "ours.pt")) == described(x)
    torch.save(made(torch, layout), tmp_path / "theirs.pt")
    assert described(flow.load(tmp_path / "theirs.pt")) == described(x)


BROKEN = {
    "first start": ([1, 2, 3, 5], [1, 3, 0, 2, 3], (3, 4)),
    "last start": ([0, 2, 3, 4], [1, 3, 0, 2, 3], (3, 4)),
    "order of starts": ([0, 3, 2, 5], [1, 3, 0, 2, 3], (3, 4)),
    "column": ([0, 2, 3, 5], [1, 9, 0, 2, 3], (3, 4)),
    "negative column": ([0, 2, 3, 5], [1, -1, 0, 2, 3], (3, 4)),
    "number of starts": ([0, 2, 5], [1, 3, 0, 2, 3], (3, 4)),
    "number of columns": ([0, 2, 3, 5], [1, 3, 0, 2], (3, 4)),
    "size": ([0, 2, 3, 5], [1, 3, 0, 2, 3], (3,)),
    "types": ([0.0, 2.0, 3.0, 5.0], [1, 3, 0, 2, 3], (3, 4)),
    "rank": ([[0, 2, 3, 5]], [1, 3, 0, 2, 3], (3, 4)),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_parts_are_refused(what):
    starts, columns, size = BROKEN[what]
    # PyTorch asks for these only if told to; memory is never trusted here.
    with pytest.raises(RuntimeError):
        torch.sparse_csr_tensor(starts, columns, [1.0, 2, 3, 4, 5], size, check_invariants=True)
    with pytest.raises(RuntimeError, match=r"indices|dimension"):
        flow.sparse_csr_tensor(starts, columns, [1.0, 2, 3, 4, 5], size)


def test_entries_out_of_order_are_refused_if_asked():
    parts = [0, 2, 3], [3, 1, 0], [1.0, 2.0, 3.0], (2, 4)
    x = flow.sparse_csr_tensor(*parts)
    assert x.to_dense().tolist() == [[0, 2, 0, 1], [3, 0, 0, 0]]
    assert (x @ flow.eye(4)).tolist() == x.to_dense().tolist()
    with pytest.raises(RuntimeError, match="sorted and distinct"):
        flow.sparse_csr_tensor(*parts, check_invariants=True)
    with flow.sparse.check_sparse_tensor_invariants(), pytest.raises(RuntimeError, match="sorted and distinct"):
        flow.sparse_csr_tensor(*parts)


def test_errors():
    x = made(flow, "csr")
    for call, text in (
        (lambda: x.ccol_indices(), "column compressed tensor layout but got SparseCsr"),
        (lambda: made(flow, "csc").crow_indices(), "row compressed tensor layout but got SparseCsc"),
        (lambda: x.indices(), "coordinate tensor layout but got SparseCsr"),
        (lambda: x.coalesce(), "coordinate tensor layout but got SparseCsr"),
        (lambda: x.sum(1), "keepdim=True"),
        (lambda: flow.ones(4, 6).to_sparse_bsr((3, 3)), "divisible by given blocksize"),
        (lambda: flow.ones(3).to_sparse_csr(), "rows and columns"),
        (lambda: flow.stack([flow.eye(2), flow.ones(2, 2)]).to_sparse_csr(), "same number of specified elements"),
        (lambda: x + made(flow, "csr", "wide"), "sizes"),
        (lambda: x @ flow.ones(4, 2, dtype=flow.float64), "cannot be multiplied"),
        (lambda: flow.sparse.sampled_addmm(flow.ones(2, 2), flow.ones(2, 2), flow.ones(2, 2)), "csr layout"),
        (lambda: flow.sparse.mm(x, flow.ones(6, 2, dtype=flow.float64), "median"), "reduce must be"),
        (lambda: flow.sparse_compressed_tensor([0, 1], [0], [1.0]), "sparse compressed tensor layout"),
        (lambda: flow.ones(2, 2).to_sparse(layout=flow.sparse_bsr), "blocksize"),
        (lambda: flow.ones(2, 2).sparse_mask(flow.ones(2, 2)), "mask must be sparse"),
    ):
        with pytest.raises(RuntimeError, match=text):
            call()
    with pytest.raises(NotImplementedError, match="no form for sparse"):
        x.exp()
    with pytest.raises(TypeError, match="to_dense"):
        x.tolist()


@pytest.mark.parametrize("seed", range(12))
def test_random_matrices_agree_with_dense_ones(seed):
    # Sums of at most 40 products of a few units: some 1e-5 in float32; the product with the transpose has larger terms.
    rng = np.random.default_rng(seed)
    n, m, k = rng.integers(1, 40, 3)
    whole = rng.normal(size=(n, m)) * (rng.random((n, m)) < rng.choice([0.0, 0.05, 0.5, 1.0]))
    y = rng.normal(size=(m, k))
    for layout in ("csr", "csc"):
        for dtype, tolerance in ((flow.float32, 1e-4), (flow.float64, 1e-12)):
            x = getattr(flow.tensor(whole, dtype=dtype), f"to_sparse_{layout}")()
            right = flow.tensor(y, dtype=dtype)
            np.testing.assert_allclose((x @ right).numpy(), whole @ y, atol=tolerance)
            np.testing.assert_allclose((right.t() @ x.t()).numpy(), (whole @ y).T, atol=tolerance)
            np.testing.assert_allclose(
                (x + x.to_sparse().to_sparse_csr()).to_dense().numpy(), 2 * whole, atol=tolerance
            )
            np.testing.assert_allclose((x @ x.t()).to_dense().numpy(), whole @ whole.T, atol=tolerance * 10)


@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("target", ["sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
@pytest.mark.parametrize("source", ["sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"])
def test_indices_keep_their_dtype_in_another_layout(source, target, kind):
    found = []
    for lib in (torch, flow):

        def in_layout(x, name, lib=lib):
            return x.to_sparse(layout=getattr(lib, name), **({"blocksize": (2, 2)} if name[7] == "b" else {}))

        def indices(x, name):
            return (x.crow_indices(), x.col_indices()) if name[9] == "r" else (x.ccol_indices(), x.row_indices())

        dense = lib.tensor([[1.0, 0, 0, 2], [0, 3, 0, 0], [0, 0, 0, 0], [0, 0, 4, 0]])
        x = in_layout(dense, source)
        parts = [i.to(getattr(lib, kind)) for i in indices(x, source)]
        x = lib.sparse_compressed_tensor(*parts, x.values(), (4, 4), layout=getattr(lib, source))
        try:
            y = in_layout(x, target)
        except RuntimeError:
            # PyTorch does not convert from blocks to all layouts.
            assert lib is torch
            return
        found.append([(str(i.dtype).rpartition(".")[2], i.tolist()) for i in indices(y, target)])
    assert found[0] == found[1]
