"""Tensors with a mask: values, masks and gradients as PyTorch's, errors, and what excluded elements must not reach."""

import copy
import io
import itertools

import numpy as np
import oneflow
import pytest
import torch
from oneflow.masked import as_masked_tensor, masked_tensor

pytestmark = pytest.mark.filterwarnings(
    "ignore:The PyTorch API of MaskedTensors",
    "ignore:It is not recommended to create a MaskedTensor",
    "ignore:Sparse CSR tensor support",
    "ignore:.*is not implemented in __torch_dispatch__",
)
BOTH = (oneflow, torch)


def _numbers(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def _keeps(shape, seed=7):
    return np.random.default_rng(seed).random(shape) > 0.4


def _masked(m, shape=(3, 4), seed=0, keep=None, requires_grad=False):
    keep = _keeps(shape) if keep is None else keep
    return m.masked.masked_tensor(m.tensor(_numbers(shape, seed)), m.tensor(keep), requires_grad)


def _dense(x):
    return x if x.layout in (oneflow.strided, torch.strided) else x.to_dense()


def _described(value):
    """Nested lists of (mask, elements that count)."""
    if isinstance(value, (list, tuple)):
        return [_described(v) for v in value]
    if isinstance(value, (oneflow.masked.MaskedTensor, torch.masked.MaskedTensor)):
        data, mask = _dense(value.get_data().detach()).numpy(), _dense(value.get_mask()).numpy()
        return mask, np.where(mask, data, 0)
    value = value.detach().numpy()
    return np.ones_like(value, dtype=bool), value


def _compare(ours, theirs):
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            _compare(a, b)
        return
    np.testing.assert_array_equal(ours[0], theirs[0])
    assert ours[1].dtype == theirs[1].dtype
    np.testing.assert_allclose(ours[1], theirs[1], rtol=1e-9, atol=1e-12)


def _gradients(value, inputs):
    """Gradients of the squares of everything that counts, zero elsewhere."""
    leaves = value if isinstance(value, (list, tuple)) else [value]
    total = sum((leaf * leaf).sum() for leaf in leaves)
    total.backward()
    return [None if x.grad is None else _described(_dense(x.grad).to_tensor(0)) for x in inputs]


def _compare_gradients(results, leaves):
    try:
        theirs = _gradients(results[1], leaves[1])
    except (RecursionError, RuntimeError, TypeError, ValueError):
        # Of some functions that a gradient is made of PyTorch has no masked form.
        return
    _compare(_gradients(results[0], leaves[0]), theirs)


def _check(call, **kinds):
    results = [call(m, _masked(m, **kinds)) for m in BOTH]
    _compare(*map(_described, results))
    leaves = [_masked(m, requires_grad=True, **kinds) for m in BOTH]
    results = [call(m, x) for m, x in zip(BOTH, leaves, strict=True)]
    first = results[1][0] if isinstance(results[1], (list, tuple)) else results[1]
    if first.dtype == torch.float64 and first.requires_grad:
        _compare_gradients(results, [[x] for x in leaves])


UNARY = """
    abs acos acosh angle asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac
    lgamma log log10 log1p log2 logit i0 isnan nan_to_num neg positive rad2deg reciprocal round rsqrt sigmoid sign
    signbit sin sinc sinh sqrt square tan tanh trunc
""".split()
BINARY = (
    "add atan2 div floor_divide fmod logaddexp logaddexp2 mul nextafter remainder sub eq ne le ge gt lt maximum "
    "minimum fmax fmin"
).split()
# Calls in which both packages know what a mask means.
CALLS = {
    "sum": lambda m, x: x.sum(),
    "sum of a dimension": lambda m, x: x.sum(1),
    "sum of both": lambda m, x: m.sum(x, (0, 1)),
    "sum, kept": lambda m, x: x.sum(dim=-1, keepdim=True),
    "mean": lambda m, x: x.mean(),
    "mean of a dimension": lambda m, x: m.mean(x, 0),
    "amax": lambda m, x: x.amax(),
    "amax of a dimension": lambda m, x: x.amax(dim=0),
    "amin of a dimension": lambda m, x: x.amin(1, True),
    "argmax": lambda m, x: x.argmax(),
    "argmin of a dimension": lambda m, x: x.argmin(1),
    "prod": lambda m, x: x.prod(),
    "prod of a dimension": lambda m, x: x.prod(dim=0),
    "var": lambda m, x: x.var(),
    "std of a dimension": lambda m, x: m.std(x, dim=1),
    "all": lambda m, x: (x > 0).all(),
    "all of a dimension": lambda m, x: (x > 0).all(dim=1),
    "softmax": lambda m, x: m.softmax(x, -1),
    "softmax of a layer": lambda m, x: m.nn.functional.softmax(x, 0),
    "clamp": lambda m, x: x.clamp(-0.5, 0.5),
    "power": lambda m, x: x**2,
    "number": lambda m, x: x * 3 + 1,
    "itself": lambda m, x: x * x + x,
    "transpose": lambda m, x: x.transpose(0, 1),
    "t": lambda m, x: x.t(),
    "select": lambda m, x: x.select(1, 2),
    "index": lambda m, x: x[1],
    "slice": lambda m, x: x[1:, ::2],
    "tensor index": lambda m, x: x[m.tensor([0, 2, 2])],
    "split": lambda m, x: x.split(2, 1),
    "chunk": lambda m, x: x.chunk(2, 1),
    "expand": lambda m, x: x.unsqueeze(0).expand(2, 3, 4),
    "view": lambda m, x: x.view(2, 6),
    "reshape": lambda m, x: x.reshape(-1),
    "unfold": lambda m, x: x.unfold(1, 2, 2),
    "unfold of images": lambda m, x: m.nn.functional.unfold(x.view(1, 1, 3, 4), (2, 3)),
    "cat": lambda m, x: m.cat([x, x * 2], 1),
    "stack": lambda m, x: m.stack([x, x * 2]),
    "where": lambda m, x: m.where(m.tensor(_keeps((3, 4), 3)), x, x * 2),
    "contiguous": lambda m, x: x.t().contiguous(),
    "clone": lambda m, x: x.clone(),
    "detach": lambda m, x: x.detach(),
    "cast": lambda m, x: x.to(m.float32),
    "ones_like": lambda m, x: m.ones_like(x),
    "sparse": lambda m, x: x.to_sparse(),
    "sparse and back": lambda m, x: x.to_sparse().to_dense(),
    "csr": lambda m, x: x.to_sparse_csr(),
    "csr and back": lambda m, x: x.to_sparse_csr().to_dense(),
    "data": lambda m, x: (x * 2).get_data(),
    "filled": lambda m, x: (x * 2).to_tensor(-1),
    "softmax of a sum": lambda m, x: m.softmax(m.exp(x) + x, 1).sum(0),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls_are_pytorchs(name):
    if name in ("data", "filled"):
        # The elements that do not count are numbers of PyTorch's too.
        ours, theirs = (CALLS[name](m, _masked(m)) for m in BOTH)
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)
        return
    _check(CALLS[name])


@pytest.mark.parametrize("name", UNARY)
def test_unary_functions(name):
    def call(m, x):
        return getattr(m, name)(x)

    shift = (
        1.5 if name == "acosh" else 0.5 if name in ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "lgamma") else 0
    )
    scale = 0.3 if name in ("acos", "asin", "atanh", "erfinv", "logit") else 1.0
    for m_name in ("plain", "in place"):
        made = []
        for m in BOTH:
            x = _masked(m)
            x = x.abs() * scale + shift
            if m_name == "in place":
                if name in ("angle", "positive", "signbit", "isnan"):
                    return
                returned = getattr(x, name + "_")()
                assert returned is x
            else:
                x = call(m, x)
            made.append(x)
        _compare(*map(_described, made))


@pytest.mark.parametrize("name", BINARY)
def test_binary_functions(name):
    def call(m, other):
        x = _masked(m, requires_grad=True)
        y = _masked(m, seed=1, requires_grad=True) if other == "masked" else m.tensor(_numbers((3, 4), 1))
        return getattr(m, name)(x, y), [x, y] if other == "masked" else [x]

    for other in ("masked", "plain"):
        (ours, our_leaves), (theirs, their_leaves) = (call(m, other) for m in BOTH)
        _compare(_described(ours), _described(theirs))
        if theirs.requires_grad:
            _compare_gradients([ours, theirs], [our_leaves, their_leaves])
    if name not in ("logaddexp", "logaddexp2", "maximum", "minimum", "fmax", "fmin"):
        made = []
        for m in BOTH:
            x = _masked(m)
            assert getattr(x, name + "_")(_masked(m, seed=1)) is x
            made.append(x)
        _compare(*map(_described, made))


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_sparse_layouts(layout):
    """Functions of the values, and reductions of all of them."""
    move = "to_sparse" if layout == "coo" else "to_sparse_csr"

    def made(m, seed=0, requires_grad=False):
        keep = getattr(m.tensor(_keeps((3, 4))), move)()
        keep = keep.coalesce() if layout == "coo" else keep
        data = m.tensor(_numbers((3, 4), seed)).sparse_mask(keep)
        return m.masked.masked_tensor(data, keep, requires_grad)

    calls = {
        "exp": lambda m, x: m.exp(x),
        "number": lambda m, x: x * 2,
        "both": lambda m, x: x * made(m, 1),
        "sum": lambda m, x: x.sum(),
        "prod": lambda m, x: x.prod(),
        "mean": lambda m, x: x.mean(),
        "dense": lambda m, x: x.to_dense(),
    }
    for name, call in calls.items():
        _compare(*(_described(call(m, made(m))) for m in BOTH))
        if name == "dense":
            leaves = [made(m, requires_grad=True) for m in BOTH]
            for m, x in zip(BOTH, leaves, strict=True):
                call(m, x).sum().backward()
            _compare(*(_described(x.grad) for x in leaves))
    x = made(oneflow)
    assert (x.is_sparse, x.is_sparse_coo(), x.is_sparse_csr()) == (True, layout == "coo", layout == "csr")
    for call in (lambda: x.contiguous(), lambda: x.is_contiguous()):
        with pytest.raises(ValueError, match="MaskedTensors with sparse data do not have"):
            call()
    with pytest.raises(TypeError, match="only all elements are reduced"):
        x.sum(0)


def test_sparse_extremes_are_positions_of_the_dense_tensor():
    x = _masked(oneflow, (3, 4))
    for name in ("argmax", "argmin"):
        assert getattr(x.to_sparse(), name)().get_data().item() == getattr(x, name)().get_data().item()


BEYOND = {
    "number first": lambda x: 1 - x,
    "reshape": lambda x: x.t().reshape(-1),
    "log_softmax": lambda x: x.log_softmax(1),
    "logsumexp": lambda x: x.logsumexp(1),
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(0),
    "norm": lambda x: x.norm(1.0, 1),
    "unbiased": lambda x: x.var(1, False),
    "any": lambda x: (x > 0.5).any(1),
    "permute": lambda x: x.permute(1, 0),
    "flip": lambda x: x.flip(0),
    "gelu": lambda x: oneflow.nn.functional.gelu(x),
    "unbind": lambda x: x.unbind()[1],
    "addcmul": lambda x: oneflow.addcmul(x, x, x, value=0.5),
}


@pytest.mark.parametrize("name", BEYOND)
def test_further_functions_leave_excluded_elements_out(name):
    """Whatever stands in the place of excluded elements, elements that count do not change."""
    results = []
    for noise in (0.0, 1e3, float("nan")):
        keep = oneflow.tensor(_keeps((3, 4)))
        data = oneflow.where(keep, oneflow.tensor(_numbers((3, 4))), noise)
        x = masked_tensor(data, keep, requires_grad=True)
        value = BEYOND[name](x)
        gradients = _gradients(value, [x]) if value.requires_grad else []
        results.append([_described(value), *gradients])
    for result in results[1:]:
        _compare(result, results[0])


@pytest.mark.parametrize("shape", [(3, 4), (4,), (3, 1), (1, 4), ()])
def test_gradients_of_ordinary_operands(shape):
    """An operand that excluded elements share gets nothing from them, though they are not finite."""
    keep = _keeps((3, 4))
    numbers = np.where(keep, np.abs(_numbers((3, 4))), np.inf)
    plain = oneflow.tensor(np.abs(_numbers(shape, 3)), requires_grad=True)
    x = masked_tensor(oneflow.tensor(numbers), oneflow.tensor(keep), requires_grad=True)
    (x.log() * plain / x).sum().backward()
    wanted_plain = torch.tensor(plain.detach().numpy(), requires_grad=True)
    inner = torch.tensor(np.where(keep, numbers, 1.0), requires_grad=True)
    (inner.log() * wanted_plain / inner)[torch.tensor(keep)].sum().backward()
    np.testing.assert_allclose(plain.grad.numpy(), wanted_plain.grad.numpy(), rtol=1e-12)
    np.testing.assert_allclose(x.grad.to_tensor(0).numpy(), inner.grad.numpy(), rtol=1e-12)


def test_masks_that_broadcast():
    """A masked operand with one row for several of another gets the sum of what counts."""
    keep = np.array([[True], [False], [True]])
    leaves = []
    for m in BOTH:
        x = m.masked.masked_tensor(m.tensor(_numbers((3, 1))), m.tensor(keep), True)
        y = m.tensor(_numbers((3, 4), 1))
        value = x * y
        value.sum().backward()
        leaves.append((_described(value), _described(x.grad)))
    _compare(list(leaves[0]), list(leaves[1]))


def test_gradients_through_as_masked_tensor():
    for m in BOTH:
        x = m.tensor([[0.0, 1, 2], [3, 4, 5]], requires_grad=True)
        y = m.masked.as_masked_tensor(x, m.tensor([[True, False, False], [False, True, False]]))
        y.mean().backward()
        grad = x.grad.to_tensor(0) if m is torch else x.grad
        assert grad.tolist() == [[0.5, 0, 0], [0, 0.5, 0]]
    x = oneflow.tensor([1.0, 2.0, 3.0], requires_grad=True)
    mask = oneflow.tensor([True, False, True])
    (grad,) = oneflow.autograd.grad(as_masked_tensor(x, mask).exp().get_data().sum(), x)
    assert grad[1] == 0 and grad[0] == x.exp()[0]
    x = masked_tensor(x.detach(), mask, True)
    (grad,) = oneflow.autograd.grad((x * x).sum(), x, create_graph=True)
    assert grad.to_tensor(0).tolist() == [2.0, 0.0, 6.0]
    (second,) = oneflow.autograd.grad((grad * grad).sum(), x)
    assert second.to_tensor(0).tolist() == [8.0, 0.0, 24.0]


REDUCTIONS = "sum prod mean amax amin argmax argmin norm var std logsumexp".split()


@pytest.mark.parametrize("name", REDUCTIONS)
def test_functions_of_the_module_take_masked_tensors(name):
    """They read the mask of the tensor and give an ordinary one."""
    x = _masked(oneflow)
    for dim, keepdim in itertools.product((None, 0, 1), (False, True)):
        if dim is None and name.startswith("arg"):
            continue
        ours = getattr(oneflow.masked, name)(x, dim=dim, keepdim=keepdim)
        wanted = getattr(oneflow.masked, name)(x.get_data(), dim=dim, keepdim=keepdim, mask=x.get_mask())
        assert type(ours) is oneflow.Tensor and oneflow.equal(ours.nan_to_num(), wanted.nan_to_num())


def test_texts():
    for data, keep in (
        (np.arange(6.0).reshape(2, 3), [[True, False, False], [True, True, False]]),
        (np.arange(6).reshape(2, 3), [[True, False, False], [True, True, False]]),
        (np.arange(3.0) * 1000.123, [True, False, True]),
        (np.arange(4).reshape(1, 2, 2) > 1, [[[True, False], [True, True]]]),
        (np.array(2.5), True),
        (np.array(3), False),
    ):
        ours, theirs = (m.masked.masked_tensor(m.tensor(data), m.tensor(keep)) for m in BOTH)
        assert repr(ours) == repr(theirs)
        if data.ndim == 2:
            assert repr(ours.to_sparse()) == repr(theirs.to_sparse())


def test_what_does_not_fit_is_refused_as_in_pytorch():
    def cases(m):
        x, keep = m.tensor(_numbers((3, 4))), m.tensor(_keeps((3, 4)))
        made = m.masked.masked_tensor
        y = made(x, keep)
        yield "data is masked", lambda: made(y, keep)
        yield "data is a number", lambda: made(0, keep)
        yield "mask is masked", lambda: made(x, y)
        yield "mask is a number", lambda: made(x, 0)
        yield "mask of floats", lambda: made(x, x)
        yield "layouts", lambda: made(x.to_sparse(), keep)
        yield "an unknown layout", lambda: made(x.to_sparse_csc(), keep.to_sparse_csc())
        yield "dimensions", lambda: made(m.stack([x, x]), keep)
        yield "sizes", lambda: made(x, keep[:, :3])
        yield "integers that require gradients", lambda: made(keep, keep, True)
        indices = [m.tensor([[0, 1, 1], [2, last, 2]]) for last in (0, 1)]
        parts = [m.sparse_coo_tensor(i, m.tensor([1.0, 2.0, 3.0]), (2, 4)) for i in indices]
        yield "indices", lambda: made(parts[0], parts[1].bool())
        yield "other masks", lambda: y + made(x, ~keep)
        yield "other masks in place", lambda: y.clone().add_(made(x, ~keep))
        yield "no rule", lambda: y.max()
        yield "an excluded element", lambda: made(x, m.zeros_like(keep))[0, 0].item()
        yield "csr of a vector", lambda: y[0].to_sparse_csr()
        yield "no gradient", lambda: y.sum().backward()

    for (_, ours), (_, theirs) in zip(cases(oneflow), cases(torch), strict=True):
        with pytest.raises(Exception) as wanted:
            theirs()
        with pytest.raises(wanted.type):
            ours()
    with pytest.raises(TypeError, match=r"max\(\): not implemented for masked tensors"):
        _masked(oneflow).max()
    for write in (lambda x, y: x.add_(y), lambda x, y: x.copy_(y)):
        with pytest.raises(TypeError, match="cannot be written into an ordinary one"):
            write(oneflow.ones(3, 4, dtype=oneflow.float64), _masked(oneflow))
    x = oneflow.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="not recommended"):
        masked_tensor(x, x > 0)


def test_copies_and_files():
    x = _masked(oneflow, requires_grad=True)
    buffer = io.BytesIO()
    oneflow.save(x, buffer)
    buffer.seek(0)
    for made in (copy.deepcopy(x), oneflow.load(buffer, weights_only=False)):
        assert oneflow.masked.is_masked_tensor(made) and made.requires_grad
        _compare(_described(made), _described(x))
    data, keep = oneflow.ones(2), oneflow.tensor([True, False])
    made = masked_tensor(data, keep)
    data.zero_(), keep.fill_(True)
    assert made.to_tensor(5).tolist() == [1.0, 5.0]


def test_traces_take_none():
    x = _masked(oneflow)

    class Twice(oneflow.nn.Graph):
        def build(self, x):
            return x * 2

    for call in (Twice(), lambda x: oneflow.export.export(oneflow.nn.ReLU(), (x,)), oneflow.vmap(lambda row: row * 2)):
        with pytest.raises(NotImplementedError, match="masked tensor"):
            call(x)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3,), (2, 0)])
@pytest.mark.parametrize("keep", [False, True])
def test_sparse_masks_of_any_number_of_entries(shape, keep):
    mask = oneflow.full(shape, keep)
    sparse = mask.to_sparse().coalesce()
    data = oneflow.tensor(_numbers(shape))
    made = masked_tensor(data.sparse_mask(sparse), sparse)
    wanted = masked_tensor(data, mask)
    _compare(_described((made + made).exp()), _described((wanted + wanted).exp()))
    assert made.to_dense().get_data().shape == shape
