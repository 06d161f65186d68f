"""Nested tensors: values, gradients and errors as PyTorch's, and as those of the parts where PyTorch has no answer."""

import copy
import io

import numpy as np
import oneflow
import pytest
import torch

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")

LENGTHS = (3, 5, 1)


def _arrays(dims=4, seed=0):
    numbers = np.random.default_rng(seed)
    return [numbers.standard_normal((n, dims)).astype(np.float32) for n in LENGTHS]


def _nested(m, layout="jagged", dims=4, seed=0, requires_grad=False):
    parts = [m.tensor(a) for a in _arrays(dims, seed)]
    return m.nested.nested_tensor(parts, layout=getattr(m, layout), requires_grad=requires_grad)


def _forms(m):
    """The same parts as they may lie: packed, with gaps between them, along a later dimension."""
    dense = m.tensor(np.random.default_rng(1).standard_normal((3, 6, 4)).astype(np.float32))
    yield "packed", _nested(m)
    yield "gaps", m.nested.narrow(dense, 1, m.tensor([0, 1, 2]), m.tensor(LENGTHS), layout=m.jagged)


def _described(value):
    if isinstance(value, (torch.Tensor, oneflow.Tensor)):
        parts = value.unbind() if value.is_nested else [value]
        return value.is_nested, [p.detach().numpy() for p in parts]
    if isinstance(value, (tuple, list)):
        return [_described(v) for v in value]
    return value


def _compare(ours, theirs):
    if isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for a, b in zip(ours, theirs, strict=True):
            _compare(a, b)
    elif isinstance(theirs, tuple):
        assert ours[0] == theirs[0] and len(ours[1]) == len(theirs[1])
        for a, b in zip(ours[1], theirs[1], strict=True):
            assert a.shape == b.shape
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    else:
        assert ours == theirs


def _weight(m, *shape):
    numbers = np.random.default_rng(len(shape)).standard_normal(shape)
    return m.tensor(numbers.tolist(), dtype=m.get_default_dtype())


# What both packages do with nested tensors of layout jagged.
CALLS = {
    "add a number": lambda m, x: x + 1,
    "subtract from a number": lambda m, x: 1 - x,
    "power": lambda m, x: x**2,
    "itself": lambda m, x: x * x,
    "a vector": lambda m, x: x * _weight(m, 4),
    "a row a part": lambda m, x: x * _weight(m, 3, 1, 4),
    "a number a part": lambda m, x: x + _weight(m, 3, 1, 1),
    "a row for all": lambda m, x: x + _weight(m, 1, 1, 4),
    "relu": lambda m, x: x.relu(),
    "gelu": lambda m, x: m.nn.functional.gelu(x),
    "silu": lambda m, x: m.nn.functional.silu(x),
    "exp": lambda m, x: m.exp(x),
    "clamp": lambda m, x: x.clamp(-0.5, 0.5),
    "compare": lambda m, x: x > 0,
    "where": lambda m, x: m.where(x > 0, x, 0.0),
    "masked_fill": lambda m, x: x.masked_fill(x > 0, 7.0),
    "sum": lambda m, x: x.sum(),
    "sum last": lambda m, x: x.sum(-1),
    "sum last, kept": lambda m, x: x.sum(-1, keepdim=True),
    "sum ragged": lambda m, x: x.sum(1),
    "sum ragged, kept": lambda m, x: x.sum(1, keepdim=True),
    "sum of both": lambda m, x: x.sum((0, 1)),
    "mean": lambda m, x: x.mean(),
    "mean ragged": lambda m, x: x.mean(1),
    "mean last": lambda m, x: x.mean(-1),
    "amax ragged": lambda m, x: x.amax(1),
    "amin ragged": lambda m, x: x.amin(1),
    "amax last": lambda m, x: x.amax(-1),
    "max last": lambda m, x: x.max(-1),
    "argmax last": lambda m, x: x.argmax(-1),
    "prod last": lambda m, x: x.prod(-1),
    "any ragged": lambda m, x: (x > 1).any(1),
    "all ragged": lambda m, x: (x > 0).all(1),
    "softmax last": lambda m, x: x.softmax(-1),
    "softmax ragged": lambda m, x: x.softmax(1),
    "transpose": lambda m, x: x.transpose(1, 2),
    "permute": lambda m, x: x.permute(0, 2, 1),
    "unsqueeze": lambda m, x: x.unsqueeze(1),
    "unsqueeze last": lambda m, x: x.unsqueeze(-1),
    "view": lambda m, x: x.view(3, -1, 2, 2),
    "reshape": lambda m, x: x.reshape(3, -1, 2, 2),
    "view with its size": lambda m, x: x.view(3, x.size(1), 2, 2),
    "unflatten": lambda m, x: x.unflatten(-1, (2, 2)),
    "flatten": lambda m, x: x.unflatten(-1, (2, 2)).flatten(2, 3),
    "heads and back": lambda m, x: (
        x.unflatten(-1, (2, 2)).transpose(1, 2).mul(2).transpose(1, 2).contiguous().flatten(2)
    ),
    "chunk": lambda m, x: x.chunk(2, -1),
    "split": lambda m, x: x.split([1, 3], -1),
    "cat": lambda m, x: m.cat([x, x * 2], -1),
    "stack": lambda m, x: m.stack([x, x], -1),
    "select": lambda m, x: x.select(-1, 1),
    "narrow": lambda m, x: x.narrow(-1, 1, 2),
    "index": lambda m, x: x[..., 1],
    "slice": lambda m, x: x[..., 1:3],
    "part": lambda m, x: x[1],
    "unbind": lambda m, x: x.unbind(),
    "repeat_interleave": lambda m, x: x.repeat_interleave(2, -1),
    "matmul": lambda m, x: x @ _weight(m, 4, 3),
    "matmul a part": lambda m, x: m.matmul(x, _weight(m, 3, 4, 2)),
    "linear": lambda m, x: m.nn.functional.linear(x, _weight(m, 3, 4), _weight(m, 3)),
    "layer_norm": lambda m, x: m.nn.functional.layer_norm(x, (4,), _weight(m, 4)),
    "rms_norm": lambda m, x: m.nn.functional.rms_norm(x, (4,)),
    "padded": lambda m, x: x.to_padded_tensor(-1.0),
    "padded longer": lambda m, x: m.nested.to_padded_tensor(x, 0.0, (3, 7, 4)),
    "double": lambda m, x: x.double(),
    "to": lambda m, x: x.to(m.float16),
    "clone": lambda m, x: x.clone(),
    "detach": lambda m, x: x.detach(),
    "zeros_like": lambda m, x: m.zeros_like(x),
    "full_like": lambda m, x: m.full_like(x, 3.0),
    "in place": lambda m, x: x.clone().mul_(2).add_(1),
}
_NO_GAPS = {"a row a part", "a number a part", "sum of both", "view", "reshape", "view with its size"}


@pytest.mark.parametrize("name", CALLS)
def test_jagged_as_pytorch(name):
    _compare(_described(CALLS[name](oneflow, _nested(oneflow))), _described(CALLS[name](torch, _nested(torch))))


@pytest.mark.parametrize("name", sorted(CALLS.keys() - _NO_GAPS))
def test_parts_with_gaps_as_parts_without(name):
    """PyTorch refuses many functions of such tensors; the parts alone decide."""
    x = dict(_forms(oneflow))["gaps"]
    _compare(_described(CALLS[name](oneflow, x)), _described(CALLS[name](oneflow, x.contiguous())))


def _floats(value):
    leaves = [value] if isinstance(value, (torch.Tensor, oneflow.Tensor)) else list(value)
    return [v for v in leaves if v.requires_grad]


def _total(m, value):
    """A number that weighs each element of the results differently."""
    total = 0.0
    for leaf in _floats(value):
        for k, part in enumerate(leaf.unbind() if leaf.is_nested else [leaf]):
            weights = m.arange(1, part.numel() + 1, dtype=part.dtype).reshape(part.shape)
            total = total + (part * weights).sum() * (k + 1)
    return total


@pytest.fixture
def double():
    oneflow.set_default_dtype(oneflow.float64)
    yield
    oneflow.set_default_dtype(oneflow.float32)


@pytest.mark.parametrize("name", CALLS)
def test_gradients(name, double):
    """Against differences: PyTorch has no gradient of many of these functions, or ends the process."""
    leaves = [oneflow.tensor(a.astype(np.float64), requires_grad=True) for a in _arrays()]

    def total(*leaves):
        made = CALLS[name](oneflow, oneflow.nested.as_nested_tensor(list(leaves), layout=oneflow.jagged))
        return _total(oneflow, made if isinstance(made, (list, tuple)) else [made])

    if isinstance(total(*leaves), oneflow.Tensor) and name != "to":
        assert oneflow.autograd.gradcheck(total, leaves)


def test_gradient_of_a_leaf_is_nested():
    for layout in ("jagged", "strided"):
        x = _nested(oneflow, layout, requires_grad=True)
        (x * x).values().sum().backward()
        assert x.is_leaf and x.grad.is_nested and x.grad.layout == x.layout
        _compare(_described(x.grad), _described(x.detach() * 2))
    y = _nested(oneflow, requires_grad=True)
    (grad,) = oneflow.autograd.grad((y * 3).sum(), y)
    assert grad.is_nested and grad.values().unique().tolist() == [3.0]
    y.sin().backward(oneflow.ones_like(y))
    _compare(_described(y.grad), _described(y.detach().cos()))
    y.grad = None
    assert y.grad is None


@pytest.mark.parametrize(("is_causal", "key_lengths"), [(False, LENGTHS), (True, LENGTHS), (False, (2, 1, 4))])
def test_attention(is_causal, key_lengths):
    """Beside PyTorch's attention of each part alone: on nested tensors it has gradients on GPUs only."""
    numbers, results = np.random.default_rng(3), []
    arrays = [[numbers.standard_normal((n, 8)) for n in lengths] for lengths in (LENGTHS, key_lengths, key_lengths)]
    for m in (oneflow, torch):
        leaves = [[m.tensor(a, requires_grad=True) for a in row] for row in arrays]
        attend = m.nn.functional.scaled_dot_product_attention
        if m is oneflow:
            q, k, v = (m.nested.as_nested_tensor(row, layout=m.jagged) for row in leaves)
            q, k, v = (x.unflatten(-1, (2, 4)).transpose(1, 2) for x in (q, k, v))
            out = attend(q, k, v, is_causal=is_causal).transpose(1, 2).flatten(2).unbind()
        else:
            rows = [[x.unflatten(-1, (2, 4)).transpose(0, 1) for x in row] for row in leaves]
            out = [attend(*part, is_causal=is_causal).transpose(0, 1).flatten(1) for part in zip(*rows, strict=True)]
        _total(m, out).backward()
        results.append([_described(list(out)), *[[_described(leaf.grad) for leaf in row] for row in leaves]])
    _compare(*results)


class _Block:
    """A transformer's block over sequences of several lengths, as programs write it."""

    def __init__(self, m):
        numbers = np.random.default_rng(7)

        def layer(rows, columns):
            made = m.nn.Linear(columns, rows)
            with m.no_grad():
                for p in made.parameters():
                    p.copy_(m.tensor(numbers.standard_normal(tuple(p.shape)).astype(np.float32) * 0.3))
            return made

        self.m, self.norm, self.project, self.out = m, m.nn.LayerNorm(8), layer(24, 8), layer(8, 8)
        self.up, self.down = layer(16, 8), layer(8, 16)

    def parameters(self):
        return [p for layer in (self.norm, self.project, self.out, self.up, self.down) for p in layer.parameters()]

    def __call__(self, x):
        """Of a nested tensor, or of one sequence."""
        m, at = self.m, x.dim() - 2
        q, k, v = (h.unflatten(-1, (2, 4)).transpose(at, at + 1) for h in self.project(self.norm(x)).chunk(3, -1))
        h = m.nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(h.transpose(at, at + 1).flatten(at + 1))
        return x + self.down(m.nn.functional.gelu(self.up(m.nn.functional.dropout(x, 0.0))))


def test_a_block_trains_as_in_pytorch():
    """Beside PyTorch's training on the sequences one by one."""
    made = []
    for m in (oneflow, torch):
        block = _Block(m)
        optimizer = m.optim.SGD(block.parameters(), lr=0.01, momentum=0.9)
        losses = []
        for _ in range(3):
            if m is oneflow:
                loss = (block(_nested(m, dims=8)).mean(1) ** 2).sum()
            else:
                loss = sum((block(m.tensor(a)).mean(0) ** 2).sum() for a in _arrays(8))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        made.append((losses, [(False, [p.detach().numpy()]) for p in block.parameters()]))
    np.testing.assert_allclose(made[0][0], made[1][0], rtol=1e-4)
    _compare(made[0][1], made[1][1])


# Layout strided: what PyTorch does, and more, part by part.
STRIDED = {
    "add": lambda m, x: x + x,
    "mul": lambda m, x: x * 3,
    "relu": lambda m, x: x.relu(),
    "sum last": lambda m, x: x.sum(-1, keepdim=True),
    "softmax": lambda m, x: x.softmax(-1),
    "transpose": lambda m, x: x.transpose(1, 2),
    "matmul": lambda m, x: m.matmul(x, x.transpose(1, 2)),
    "chunk": lambda m, x: x.chunk(2, -1),
    "cat": lambda m, x: m.cat([x, x]),
    "linear": lambda m, x: m.nn.functional.linear(x, _weight(m, 3, 4)),
    "padded": lambda m, x: x.to_padded_tensor(0.5),
    "padded longer": lambda m, x: x.to_padded_tensor(0.5, (4, 6, 5)),
    "unsqueeze": lambda m, x: x.unsqueeze(1),
    "reshape": lambda m, x: x.reshape(3, -1, 2, 2),
    "masked_fill": lambda m, x: x.masked_fill(x > 0, 1.0),
    "part": lambda m, x: x[2],
    "sizes": lambda m, x: (x.size(0), x.size(2), x.dim(), x.numel(), x._nested_tensor_size()),
}


@pytest.mark.parametrize("name", STRIDED)
def test_strided_as_pytorch(name):
    _compare(
        _described(STRIDED[name](oneflow, _nested(oneflow, "strided"))),
        _described(STRIDED[name](torch, _nested(torch, "strided"))),
    )


def test_strided_parts_differ_in_all_dimensions():
    sizes = [(2, 3), (4, 1), (0, 2)]
    made = []
    for m in (oneflow, torch):
        leaves = [m.arange(float(a * b)).reshape(a, b).requires_grad_() for a, b in sizes]
        x = m.nested.as_nested_tensor(leaves)
        padded = (x * 2).to_padded_tensor(-1.0)
        (padded * padded).sum().backward()
        made.append([_described(x), _described(padded), *((False, [leaf.grad.numpy()]) for leaf in leaves)])
    _compare(*made)


def test_part_by_part_functions():
    x = _nested(oneflow)
    for name, call in {
        "cumsum": lambda p, d: p.cumsum(d),
        "std": lambda p, d: p.std(d),
        "norm": lambda p, d: p.norm(2, d),
        "sort": lambda p, d: p.sort(d).values,
    }.items():
        for dim in (1, 2):
            want = [call(part, dim - 1) for part in x.unbind()]
            got = call(x, dim).unbind()
            for a, b in zip(got, want, strict=True):
                assert oneflow.allclose(a, b, equal_nan=True), (name, dim)


def test_metadata_and_text():
    x = _nested(oneflow)
    assert (x.dim(), len(x), x.numel(), x.size(0), x.size(-1), x.is_contiguous()) == (3, 3, 36, 3, 4, True)
    assert x.offsets().tolist() == [0, 3, 8, 9] and x.lengths() is None
    assert x.values().shape == (9, 4) and x.values().data_ptr() == x.data_ptr()
    assert isinstance(x.shape[1], oneflow.SymInt)
    assert x.shape[1] == (x * 2).shape[1] != _nested(oneflow).shape[1]
    assert repr(x).startswith("NestedTensor(size=(3, j") and repr(x).endswith(
        "offsets=tensor([0, 3, 8, 9]), contiguous=True)"
    )
    strided = oneflow.nested.nested_tensor([oneflow.ones(1), oneflow.zeros(2)])
    assert repr(strided) == repr(torch.nested.nested_tensor([torch.ones(1), torch.zeros(2)]))
    assert repr(x.shape) == f"oneflow.Size([3, {x.size(1)}, 4])"


def test_copies_and_files():
    for layout in ("jagged", "strided"):
        x = _nested(oneflow, layout, requires_grad=True)
        buffer = io.BytesIO()
        oneflow.save({"x": x}, buffer)
        buffer.seek(0)
        for other in (copy.deepcopy(x), oneflow.load(buffer)["x"]):
            assert other.layout == x.layout and other.requires_grad
            _compare(_described(other), _described(x))


FAULTS = {
    "other lengths": (lambda m, x: x + m.nested.nested_tensor([m.ones(2, 4)] * 3, layout=m.jagged), RuntimeError),
    "batch with ragged": (lambda m, x: x.transpose(0, 1), (RuntimeError, ValueError)),
    "sum of the batch": (lambda m, x: x.sum(0), RuntimeError),
    "ragged and another": (lambda m, x: x.sum((1, 2)), RuntimeError),
    "flatten the ragged": (lambda m, x: x.flatten(1, 2), RuntimeError),
    "squeeze the ragged": (lambda m, x: x.squeeze(1), RuntimeError),
    "index of a part": (lambda m, x: x[7], (IndexError, RuntimeError)),
    "rows of all parts": (lambda m, x: x[:, 0], RuntimeError),
    "cat with a dense one": (lambda m, x: m.cat([x, m.ones(3, 1, 4)], -1), RuntimeError),
    "a list": (lambda m, x: x.tolist(), RuntimeError),
    "an array": (lambda m, x: x.numpy(), RuntimeError),
    "no function": (lambda m, x: m.linalg.svd(x), (NotImplementedError, RuntimeError)),
    "two ragged dimensions": (
        lambda m, x: m.nested.nested_tensor([m.ones(1, 2), m.ones(2, 1)], layout=m.jagged),
        RuntimeError,
    ),
    "other dims": (lambda m, x: m.nested.nested_tensor([m.ones(1, 2), m.ones(2)]), RuntimeError),
    "no list": (lambda m, x: m.nested.nested_tensor(3), TypeError),
    "no lengths": (lambda m, x: m.nested.nested_tensor_from_jagged(m.ones(3)), RuntimeError),
}


@pytest.mark.parametrize("name", FAULTS)
def test_refused_as_by_pytorch(name):
    call, error = FAULTS[name]
    for m in (oneflow, torch):
        with pytest.raises(error):
            call(m, _nested(m))


def test_refused_beyond_pytorch():
    x = _nested(oneflow)
    for call, text in {
        lambda: oneflow.nested.nested_tensor_from_jagged(
            oneflow.ones(3), oneflow.tensor([0, 4])
        ): "reach outside the 3 rows",
        lambda: oneflow.nested.narrow(oneflow.ones(2, 3), 1, 1, 3, layout=oneflow.jagged): "reach outside",
        lambda: x.size(1) + 1: "no single number",
        lambda: x.view(3, 4, -1): "does not keep the ragged dimension",
        lambda: x * oneflow.ones(3, 2, 4): "does not fit a ragged dimension",
        lambda: oneflow.nn.functional.scaled_dot_product_attention(x, x, x, oneflow.ones(1)): "no mask",
    }.items():
        with pytest.raises((RuntimeError, ValueError), match=text):
            call()


class _Twice(oneflow.nn.Graph):
    def build(self, x):
        return x * 2


def test_traces_take_none():
    x = _nested(oneflow)
    for call in (_Twice(), lambda x: oneflow.export.export(oneflow.nn.ReLU(), (x,)), oneflow.vmap(lambda row: row * 2)):
        with pytest.raises(NotImplementedError, match="nested tensor"):
            call(x)
    with pytest.warns(UserWarning, match="runs eagerly"):
        total = oneflow.compile(lambda x: (x * 2).sum(1))(x)
    assert oneflow.equal(total, (x * 2).sum(1))


def test_equal_lengths_combine():
    """PyTorch asks for one tensor of offsets."""
    x, y = _nested(oneflow), _nested(oneflow, seed=1)
    assert x.shape != y.shape
    wanted = [a + b for a, b in zip(x.unbind(), y.unbind(), strict=True)]
    assert all(oneflow.equal(a, b) for a, b in zip((x + y).unbind(), wanted, strict=True))


def test_a_padded_size_cuts_longer_parts_as_pytorch_does():
    results = [m.nested.to_padded_tensor(_nested(m), 0.5, (3, 2, 9)) for m in (oneflow, torch)]
    _compare(*map(_described, results))


def test_names_that_programs_read():
    x = _nested(oneflow)
    assert x._values.shape == (9, 4) and x._offsets.tolist() == [0, 3, 8, 9]
    assert (x._lengths, x._ragged_idx, x._max_seqlen, x._min_seqlen) == (None, 1, 5, 1)
    assert oneflow.nested.nested_tensor_from_jagged(x.values() * 2, x.offsets()).shape == x.shape
    dense = oneflow.arange(12.0).reshape(2, 3, 2)
    view = oneflow.nested.as_nested_tensor(dense, layout=oneflow.jagged)
    assert view.values().data_ptr() == dense.data_ptr() and oneflow.nested.as_nested_tensor(view) is view
    with pytest.raises(RuntimeError, match="Expected tensor argument to have dim"):
        oneflow.nested.as_nested_tensor(oneflow.ones(2))
