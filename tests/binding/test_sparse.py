"""Sparse COO tensors: construction, conversion, sums, products and embedding gradients, compared with PyTorch."""

import copy
import pickle

import oneflow as flow
import pytest
import torch
from torch_oracle import both

# PyTorch warns that sparse tensors are in beta.
pytestmark = pytest.mark.filterwarnings("ignore")


def plain(t):
    if isinstance(t, (tuple, list)):
        return [plain(v) for v in t]
    if not hasattr(t, "is_sparse"):
        return t
    t = t.detach()
    if t.is_sparse:
        c = t.coalesce()
        return "sparse", tuple(c.shape), c.indices().tolist(), c.values().tolist()
    return tuple(t.shape), [round(v, 4) for v in t.flatten().tolist()]


def outcome(f):
    try:
        return plain(f())
    except Exception as e:
        return type(e).__name__


def matrix(fw):
    return fw.sparse_coo_tensor([[0, 1, 1, 0], [2, 0, 2, 2]], [3.0, 4.0, 5.0, 1.0], (2, 3))


def rows(fw):
    return fw.sparse_coo_tensor(fw.tensor([[2, 0, 2]]), fw.arange(6.0).view(3, 2), (4, 2))


CALLS = [
    lambda fw, s: s.to_dense(),
    lambda fw, s: s.coalesce(),
    lambda fw, s: (s.is_coalesced(), s.coalesce().is_coalesced()),
    lambda fw, s: s._indices(),
    lambda fw, s: s._values(),
    lambda fw, s: s.indices(),
    lambda fw, s: s.values(),
    lambda fw, s: s.coalesce().indices(),
    lambda fw, s: (s._nnz(), s.coalesce()._nnz()),
    lambda fw, s: (s.sparse_dim(), s.dense_dim()),
    lambda fw, s: (s.is_sparse, s.to_dense().is_sparse, str(s.layout).split(".")[-1]),
    lambda fw, s: (tuple(s.shape), s.dim(), s.numel()),
    lambda fw, s: s * 2,
    lambda fw, s: 2 * s,
    lambda fw, s: s / 2,
    lambda fw, s: s * fw.tensor(3.0),
    lambda fw, s: s + s,
    lambda fw, s: s - s * 3,
    lambda fw, s: s.add(s, alpha=2),
    lambda fw, s: fw.ones(*s.shape) + s,
    lambda fw, s: fw.ones(*s.shape).add_(s, alpha=-0.5),
    lambda fw, s: fw.ones(*s.shape).sub_(s),
    lambda fw, s: s.clone().mul_(2),
    lambda fw, s: s.clone().add_(s),
    lambda fw, s: s.clone().zero_(),
    lambda fw, s: -s,
    lambda fw, s: s.sqrt(),
    lambda fw, s: s.abs(),
    lambda fw, s: s.sum(),
    lambda fw, s: s.double(),
    lambda fw, s: s.to(fw.float64).dtype == fw.float64,
    lambda fw, s: s.clone(),
    lambda fw, s: s.detach(),
    lambda fw, s: fw.zeros_like(s),
    lambda fw, s: s.to_dense().to_sparse(),
    lambda fw, s: s.to_dense().to_sparse(1),
    lambda fw, s: fw.ones(*s.shape).sparse_mask(s.coalesce()),
    lambda fw, s: fw.ones(*s.shape).is_coalesced(),
    lambda fw, s: fw.ones(*s.shape).coalesce(),
    lambda fw, s: s.numpy(),
    lambda fw, s: s.storage_offset() if False else s.untyped_storage(),
    lambda fw, s: copy.deepcopy(s),
    lambda fw, s: copy.copy(s),
    lambda fw, s: pickle.loads(pickle.dumps(s)),
    lambda fw, s: s * s,
    lambda fw, s: s + fw.sparse_coo_tensor([[0]], [1.0], (1,)),
]


@pytest.mark.parametrize("make", [matrix, rows])
@pytest.mark.parametrize("call", CALLS)
def test_calls(make, call):
    both(lambda fw: outcome(lambda: call(fw, make(fw))))


MATRIX = [
    lambda fw, s: s @ fw.arange(6.0).view(3, 2),
    lambda fw, s: fw.mm(s, fw.ones(3, 2)),
    lambda fw, s: fw.sparse.mm(s, fw.ones(3, 2)),
    lambda fw, s: s @ fw.arange(3.0),
    lambda fw, s: s.t(),
    lambda fw, s: s.transpose(0, 1),
    lambda fw, s: fw.sparse.sum(s),
    lambda fw, s: s @ fw.ones(2, 2),
    lambda fw, s: [f(s, fw.arange(6.0).view(3, 2)) for f in (fw.spmm, fw.dsmm, fw.smm, fw.hspmm, fw.hsmm)],
    lambda fw, s: s.smm(fw.arange(6.0).view(3, 2)).is_coalesced(),
    lambda fw, s: fw.smm(fw.ones(2, 3), fw.ones(3, 2)),
    lambda fw, s: fw.sspaddmm(fw.eye(2).to_sparse(), s, fw.arange(6.0).view(3, 2), beta=2, alpha=3),
    lambda fw, s: fw.saddmm(fw.eye(2).to_sparse(), s, fw.arange(6.0).view(3, 2)),
    lambda fw, s: fw.eye(2).to_sparse().sspaddmm(s, fw.ones(3, 2))._nnz(),
    lambda fw, s: fw.sspaddmm(fw.eye(3).to_sparse(), s, fw.ones(3, 2)),
    lambda fw, s: fw.sparse.addmm(fw.ones(2, 2), s, fw.arange(6.0).view(3, 2), beta=2, alpha=3),
]


@pytest.mark.parametrize("call", MATRIX)
def test_matrices(call):
    both(lambda fw: outcome(lambda: call(fw, matrix(fw))))


MAKING = [
    lambda fw: fw.sparse_coo_tensor([[0, 1]], [1.0, 2.0]),
    lambda fw: fw.sparse_coo_tensor([[0, 1], [1, 1]], [1, 2]),
    lambda fw: fw.sparse_coo_tensor([[0, 1]], [1.0, 2.0], dtype=fw.float64).dtype == fw.float64,
    lambda fw: fw.sparse_coo_tensor((2, 3)),
    lambda fw: fw.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,), check_invariants=True),
    lambda fw: fw.sparse_coo_tensor([[0, -1]], [1.0, 2.0], (3,), check_invariants=True),
    lambda fw: fw.sparse_coo_tensor([[0, 1]], [1.0], (3,)),
    lambda fw: fw.sparse_coo_tensor([0, 1], [1.0, 2.0], (3,)),
    lambda fw: fw.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3, 4)),
    lambda fw: fw.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), requires_grad=True).requires_grad,
    lambda fw: fw.sparse_coo_tensor(fw.zeros(1, 0, dtype=fw.int64), fw.zeros(0), (3,)).to_dense(),
]


@pytest.mark.parametrize("f", MAKING)
def test_making(f):
    both(lambda fw: outcome(lambda: f(fw)))


@pytest.mark.parametrize("padding", [None, 1])
def test_embedding(padding):
    def run(fw):
        e = fw.nn.Embedding(5, 2, sparse=True, padding_idx=padding)
        with fw.no_grad():
            e.weight.copy_(fw.arange(10.0).view(5, 2))
        at = fw.tensor([[1, 3], [3, 0]])
        (e(at) * fw.arange(8.0).view(2, 2, 2)).sum().backward()
        first = plain(e.weight.grad)
        e(at).sum().backward()
        second = plain(e.weight.grad)
        e.weight.grad.mul_(0.5)
        third = plain(e.weight.grad)
        e.zero_grad(set_to_none=False)
        return first, second, third, plain(e.weight.grad.to_dense())

    both(run)


def test_tied_weights():
    """A sparse and a dense gradient of one leaf give a dense one."""

    def run(fw):
        w = fw.arange(6.0).view(3, 2).requires_grad_()
        F = fw.nn.functional
        (F.embedding(fw.tensor([0, 2]), w, sparse=True).sum() + (w * w).sum()).backward()
        return plain(w.grad)

    both(run)


@pytest.mark.parametrize("name", ["SGD", "SparseAdam"])
def test_optimizers(name):
    def run(fw):
        e = fw.nn.Embedding(4, 2, sparse=True)
        with fw.no_grad():
            e.weight.copy_(fw.arange(8.0).view(4, 2))
        optimizer = getattr(fw.optim, name)(e.parameters(), lr=0.1)
        for at in ([0, 1, 1], [3, 1], [0]):
            optimizer.zero_grad()
            (e(fw.tensor(at)) ** 2).sum().backward()
            optimizer.step()
        return plain(e.weight)

    both(run)


def test_gradients_through():
    def run(fw):
        s = matrix(fw)
        d = fw.arange(6.0).view(3, 2).requires_grad_()
        (s @ d * fw.tensor([1.0, 2.0])).sum().backward()
        t = fw.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,), requires_grad=True)
        (t.to_dense() * fw.tensor([3.0, 4.0, 5.0])).sum().backward()
        return plain(d.grad), plain(t.grad)

    both(run)


def test_print():
    text = repr(matrix(flow))
    assert text.startswith("tensor(indices=tensor([[0, 1, 1, 0],") and "nnz=4, layout=oneflow.sparse_coo" in text


def test_what_has_no_sparse_form():
    with pytest.raises(NotImplementedError, match=r"exp\(\): has no form for sparse tensors"):
        matrix(flow).exp()
    with pytest.raises(TypeError, match="to_dense"):
        matrix(flow).tolist()


@pytest.mark.filterwarnings("ignore")
def test_files(tmp_path):
    for first, second in ((flow, torch), (torch, flow), (flow, flow)):
        first.save({"m": matrix(first), "r": rows(first).coalesce()}, tmp_path / "s.pt")
        found = second.load(tmp_path / "s.pt")
        assert plain(found["m"]) == plain(matrix(torch)) and plain(found["r"]) == plain(rows(torch))
        assert found["r"].is_coalesced() and not found["m"].is_coalesced()


def test_hostile_files(tmp_path):
    bad = flow._oneflow._C._sparse_coo(flow.tensor([[7]]), flow.ones(1), [3], True)
    flow.save(bad, tmp_path / "s.pt")
    with pytest.raises(RuntimeError, match="size is inconsistent with indices"):
        flow.load(tmp_path / "s.pt")


@pytest.mark.parametrize("mode", ["sum", "mean"])
@pytest.mark.parametrize("padding", [None, 2])
@pytest.mark.parametrize("flat", [False, True])
def test_bags_give_sparse_gradients_and_descend(mode, padding, flat):
    def f(m):
        table = m.arange(24, dtype=m.float32).reshape(6, 4)
        bag = m.nn.EmbeddingBag(6, 4, mode=mode, _weight=table, sparse=True, padding_idx=padding)
        optimizer = m.optim.SGD(bag.parameters(), lr=0.5)
        ids = m.tensor([5, 0, 2, 2, 1, 5])
        out = bag(ids, m.tensor([0, 3])) if flat else bag(ids.reshape(2, 3))
        out.mul(m.tensor([[1.0], [3.0]])).sum().backward()
        assert bag.weight.grad.is_sparse
        optimizer.step()
        return plain(out), plain(bag.weight.grad.to_dense()), plain(bag.weight)

    both(f)


def test_rows_are_added_in_place_where_source_and_result_share_memory():
    def f(m):
        x = m.arange(12, dtype=m.float32).reshape(4, 3)
        address = x.data_ptr()
        x.index_add_(0, m.tensor([3, 3, 0]), m.ones(3, 3), alpha=2)
        x.t().index_add_(1, m.tensor([1]), m.full((3, 1), 5.0))
        x.scatter_add_(0, m.tensor([[0, 1, 2], [0, 3, 2]]), m.ones(2, 3))
        assert x.data_ptr() == address
        x[m.tensor([1, 2])] = x[2:].clone()
        return plain(x)

    both(f)


@pytest.mark.parametrize("sparse_dim", [1, 2])
@pytest.mark.parametrize("name", ["to_dense", "square", "sum", "mm", "mul"])
def test_gradients_through_to_sparse(name, sparse_dim):
    programs = {
        "to_dense": lambda m, s, w: (s.to_dense() * w).sum(),
        "square": lambda m, s, w: (s.to_dense() ** 2).sum(),
        "sum": lambda m, s, w: m.sparse.sum(s),
        "mm": lambda m, s, w: m.sparse.mm(s, w).sum(),
        "mul": lambda m, s, w: (s.coalesce() * 3).to_dense().mul(w).sum(),
    }
    if name == "mm" and sparse_dim == 1:
        pytest.skip("PyTorch multiplies matrices that are sparse in both dimensions")
    grads = []
    for m in (flow, torch):
        x = m.tensor([[1.0, 0.0], [2.0, 3.0]], dtype=m.float64).requires_grad_()
        programs[name](m, x.to_sparse(sparse_dim), m.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=m.float64)).backward()
        grads.append(x.grad.tolist())
    assert grads[0] == grads[1]


def weights(m):
    return m.arange(1.0, 7.0, dtype=m.float64).reshape(2, 3)


# Programs over a sparse matrix that is made of values which want a gradient.
OVER_VALUES = {
    "to_dense": lambda m, x: (x.to_dense() * weights(m)).sum(),
    "sum": lambda m, x: m.sparse.sum(x * 2),
    "sum of a dimension": lambda m, x: (m.sparse.sum(x, 1).to_dense() ** 2).sum(),
    "mm": lambda m, x: (m.sparse.mm(x, weights(m).t()) * weights(m)[:, :2]).sum(),
    "matmul": lambda m, x: ((x @ weights(m).t()) ** 2).sum(),
    "addmm": lambda m, x: (m.sparse.addmm(m.ones(2, 2, dtype=m.float64), x, weights(m).t()) ** 2).sum(),
    "values": lambda m, x: (x.coalesce().values() ** 2).sum(),
    "made again of its parts": lambda m, x: (
        (m.sparse_coo_tensor(x.coalesce().indices(), x.coalesce().values() ** 2, (2, 3)).to_dense() * weights(m)).sum()
    ),
    "softmax": lambda m, x: (m.sparse.softmax(x, 1).to_dense() * weights(m)).sum(),
    "log_softmax": lambda m, x: (m.sparse.log_softmax(x, 0).coalesce().values() * x.coalesce().values()).sum(),
    "add": lambda m, x: ((x + x).to_dense() * weights(m)).sum(),
    "mul": lambda m, x: (x * x).to_dense().sum(),
    "neg": lambda m, x: ((-x).to_dense() * weights(m)).sum(),
    "t": lambda m, x: (x.t().to_dense() * weights(m).t()).sum(),
    "sparse_mask": lambda m, x: (weights(m).sparse_mask(x.coalesce()) * x.coalesce()).to_dense().sum(),
}


@pytest.mark.parametrize("repeats", [False, True])
@pytest.mark.parametrize("name", OVER_VALUES)
def test_gradients_of_values(name, repeats):
    """The values that a sparse tensor is made of get their gradients, also where several make up one entry."""
    results = []
    for m in (flow, torch):
        values = m.tensor([1.0, 2.0, 3.0, 4.0], dtype=m.float64, requires_grad=True)
        at = m.tensor([[0, 1, 1, 0], [2, 0, 2, 2]] if repeats else [[0, 0, 1, 1], [0, 2, 0, 2]])
        result = OVER_VALUES[name](m, m.sparse_coo_tensor(at, values, (2, 3)))
        result.backward()
        results.append((result.item(), values.grad.tolist()))
    assert results[0][0] == pytest.approx(results[1][0])
    assert results[0][1] == pytest.approx(results[1][1])


def test_values_of_blocks_get_gradients():
    def run(m):
        values = m.arange(6.0).view(3, 2).requires_grad_()
        x = m.sparse_coo_tensor(m.tensor([[2, 0, 2]]), values, (4, 2))
        (x.coalesce().values() * m.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
        return plain(values.grad)

    both(run)
    with flow.no_grad():
        assert not flow.sparse_coo_tensor([[0]], flow.ones(1, requires_grad=True), (2,)).requires_grad


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_softmax(name, dim):
    def run(m):
        x = m.sparse_coo_tensor(m.tensor([[0, 0, 1, 2, 2], [0, 2, 2, 1, 1]]), m.arange(15.0).view(5, 3) % 7, (3, 3, 3))
        result = getattr(m.sparse, name)(x, dim).coalesce()
        return result.indices().tolist(), [round(v, 5) + 0.0 for v in result.values().flatten().tolist()]

    both(run)
    with pytest.raises(IndexError):
        getattr(flow.sparse, name)(matrix(flow), 2)
    with pytest.raises(TypeError, match="must be a sparse tensor"):
        getattr(flow.sparse, name)(flow.ones(2, 2), 0)
