"""`oneflow.export`: every op as a program, dimensions that stay open, writes, nests, and what is refused."""

import copy
import dataclasses
import io
import pickle

import oneflow
import pytest
from oneflow import nn
from oneflow.export import Dim, dims, export, load, save
from oneflow.nn import functional as F
from oneflow.utils import _pytree
from ops.op_samples import TABLE, build

# Ops that read a tensor's values for their shape, draw numbers, or have no tensor among their arguments.
_DRAWS = (
    "binomial draw_in_order rand bernoulli dropout normal multinomial poisson exponential geometric cauchy "
    "uniform random empty gamma"
)
_DATA = (
    "nonzero argwhere masked_select unique bincount histc histogram repeat_interleave where.places item combinations"
)


def _loaded(program):
    file = io.BytesIO()
    save(program, file)
    return load(io.BytesIO(file.getvalue()))


def _same(a, b):
    a, b = _pytree.tree_leaves(a), _pytree.tree_leaves(b)
    assert len(a) == len(b)
    for x, y in zip(a, b, strict=True):
        if isinstance(x, oneflow.Tensor):
            assert x.dtype == y.dtype and x.shape == y.shape
            assert oneflow.equal(oneflow.nan_to_num(x), oneflow.nan_to_num(y)), (x - y).abs().max()
        else:
            assert x == y


class _Call(nn.Module):
    def __init__(self, function, structure):
        super().__init__()
        self.function, self.structure = function, structure

    def forward(self, *tensors):
        given = iter(tensors)
        args, kwargs = _pytree.tree_map(lambda v: next(given) if v is _TENSOR else v, self.structure)
        return self.function(*args, **kwargs)


_TENSOR = object()


def test_every_op_is_a_program_that_saves_and_loads():
    skipped, n = {}, 0
    for name in TABLE:
        base = name.partition(".")[0]
        if any(word in name for word in _DRAWS.split()) or any(word in name for word in _DATA.split()):
            continue
        if ".global" in name or "global" in base:
            continue
        function = getattr(oneflow.ops.aten, base)
        for i, sample in enumerate(oneflow._oneflow._C._samples(name)[:2]):
            args, kwargs = build(oneflow, sample, "float32", "contiguous", i)
            leaves = _pytree.tree_leaves((args, kwargs))
            tensors = tuple(v for v in leaves if isinstance(v, oneflow.Tensor))
            try:
                with oneflow.no_grad():
                    expected = function(*args, **kwargs)
            except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError):
                # The sample is one of other arguments than ATen's.
                continue
            structure = _pytree.tree_map(lambda v: _TENSOR if isinstance(v, oneflow.Tensor) else v, (args, kwargs))
            try:
                program = export(_Call(function, structure), tensors)
            except (RuntimeError, TypeError, ValueError) as error:
                skipped[name] = str(error)
                continue
            given = build(oneflow, sample, "float32", "contiguous", i)
            again = tuple(v for v in _pytree.tree_leaves(given) if isinstance(v, oneflow.Tensor))
            _same(program.module()(*again), expected)
            _same(_loaded(program).module()(*again), expected)
            n += 1
    assert n > 650, n
    # What needs a tensor's values cannot be traced.
    assert not {k: v for k, v in skipped.items() if "traced" not in v and "tracing" not in v and "trace" not in v}, (
        skipped
    )


_DRAWN = {
    "dropout": lambda x: F.dropout(x, 0.5),
    "dropout2d": lambda x: F.dropout2d(x, 0.5),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, training=True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.5, training=True),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x, hard=True),
    "bernoulli": lambda x: oneflow.bernoulli(x.sigmoid()),
    "rand_like": oneflow.rand_like,
    "randn_like": oneflow.randn_like,
    "randint_like": lambda x: oneflow.randint_like(x, 9),
    "normal": lambda x: oneflow.normal(x, 2.0),
    "poisson": lambda x: oneflow.poisson(x.exp()),
    "multinomial": lambda x: oneflow.multinomial(x[0, 0].softmax(-1), 3),
    "exponential_": lambda x: oneflow.empty_like(x).exponential_(),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, dropout_p=0.5),
    "transformer": nn.TransformerEncoderLayer(5, 1, 7, batch_first=True),
}


@pytest.mark.parametrize("name", _DRAWN)
def test_a_program_draws_what_the_module_draws(name):
    x = oneflow.randn(2, 3, 4, 5, generator=oneflow.Generator().manual_seed(1))
    x = x[0] if name == "transformer" else x
    program = export(_Call(_DRAWN[name], ((_TENSOR,), {})), (x,))
    for module in (program.module(), _loaded(program).module()):
        oneflow.manual_seed(3)
        expected = _DRAWN[name](x)
        oneflow.manual_seed(3)
        _same(module(x), expected.detach())


class _Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU())
        self.register_buffer("calls", oneflow.zeros(1))
        self.register_buffer("scale", oneflow.tensor(2.0), persistent=False)
        self.shift = oneflow.ones(4)

    def forward(self, x, more, *, factor=2):
        self.calls.add_(1)
        y = self.body(x) * self.scale + self.shift
        return {"view": y.view(x.shape[0] * 2, 2), "pair": (more["u"] * factor, 5)}, x.shape[0]


def test_a_module_with_buffers_constants_nests_and_an_open_batch():
    model = _Model()
    twin = copy.deepcopy(model)
    batch = Dim("batch", max=64)
    args, kwargs = (oneflow.randn(5, 3), {"u": oneflow.ones(2)}), {"factor": 3}
    program = export(model, args, kwargs, dynamic_shapes={"x": {0: batch}, "more": {"u": None}, "factor": None})
    assert float(model.calls) == 0, "the trace writes nothing"
    signature = program.graph_signature
    assert signature.parameters == ("body.0.weight", "body.0.bias", "body.1.weight", "body.1.bias")
    assert set(signature.buffers_to_mutate.values()) == {
        "calls", "body.1.num_batches_tracked", "body.1.running_mean", "body.1.running_var",
    }  # fmt: skip
    assert signature.non_persistent_buffers == ("scale",) and signature.lifted_tensor_constants == ("shift",)
    assert signature.user_inputs == ("x", "more_u", 3) and signature.user_outputs[2] == 5
    assert "scale" not in program.state_dict and set(program.constants) == {"scale", "shift"}
    assert str(program.range_constraints) == "{'batch': [0, 64]}"
    assert program.graph.find_nodes(op="placeholder")[0].name == "p_body_0_weight"
    for made in (program.module(), _loaded(program).module(), pickle.loads(pickle.dumps(program)).module()):
        twin.load_state_dict(made.state_dict())
        for n in (2, 7, 64):
            x = oneflow.randn(n, 3)
            _same(made(x, {"u": oneflow.ones(2)}, factor=3), twin(x, {"u": oneflow.ones(2)}, factor=3))
            _same(dict(made.state_dict()), dict(twin.state_dict()))
    made = program.module()
    made(oneflow.ones(4, 3), {"u": oneflow.ones(2)}, factor=3)[0]["view"].sum().backward()
    assert model.body[0].weight.grad is not None, "the module of a program shares its parameters"
    small = copy.deepcopy(made)
    assert small.body is not made.body and list(small.state_dict()) == list(made.state_dict())
    for wrong, text in (
        ((oneflow.ones(4, 2), {"u": oneflow.ones(2)}, 3), r"x.size\(\)\[1\] == 3 \(it is 2\)"),
        ((oneflow.ones(65, 3), {"u": oneflow.ones(2)}, 3), r"x.size\(\)\[0\] <= 64 \(it is 65\)"),
        ((oneflow.ones(4, 3), {"u": oneflow.ones(2)}, 4), r"factor == 3 \(it is 4\)"),
        ((oneflow.ones(4, 3).double(), {"u": oneflow.ones(2)}, 3), r"x.dtype == "),
        ((oneflow.ones(4, 3, 1), {"u": oneflow.ones(2)}, 3), r"x.dim\(\) == 2 \(it is 3\)"),
    ):
        with pytest.raises(AssertionError, match=f"Guard failed: {text}"):
            made(wrong[0], wrong[1], factor=wrong[2])
    with pytest.raises(ValueError, match="exported input tree spec"):
        made(oneflow.ones(4, 3), {"v": oneflow.ones(2)}, factor=3)
    with pytest.raises(RuntimeError, match=r"exported_program\.module"):
        program(oneflow.ones(4, 3))


class _Words(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(11, 8), nn.Embedding(32, 8)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, ids, mask):
        x = self.words(ids) + self.places(oneflow.arange(ids.shape[1]))
        x = self.layer(x, src_key_padding_mask=mask)
        return oneflow.cat([x.mean(1), x.amax(1)], -1), x.flatten(1)[:, : 4 * ids.shape[1]]


def test_two_open_dimensions_of_a_transformer():
    model = _Words().eval()
    batch, length = dims("batch", "length", max=32)
    ids, mask = oneflow.randint(0, 11, (2, 5)), oneflow.zeros(2, 5, dtype=oneflow.bool)
    shapes = ({0: batch, 1: length}, (batch, length))
    program = _loaded(export(model, (ids, mask), dynamic_shapes=shapes))
    for b, n in ((1, 1), (3, 9), (4, 32)):
        ids = oneflow.randint(0, 11, (b, n))
        mask = oneflow.arange(n).expand(b, n) >= max(1, n - 1)
        with oneflow.no_grad():
            for made, expected in zip(program.module()(ids, mask), model(ids, mask), strict=True):
                assert oneflow.allclose(made, expected, atol=1e-6)
    with pytest.raises(AssertionError, match=r"mask.size\(\)\[0\] == ids.size\(\)\[0\]"):
        program.module()(oneflow.zeros(2, 5, dtype=oneflow.int64), oneflow.zeros(3, 5, dtype=oneflow.bool))


def test_dimensions_that_follow_from_others_and_those_left_to_the_program():
    class Pairs(nn.Module):
        def forward(self, x, y):
            return x.view(-1, 2, x.shape[1]) + y[:, None]

    n = Dim("n", min=2, max=20)
    program = export(Pairs(), (oneflow.ones(6, 3), oneflow.ones(3, 3)), dynamic_shapes=({0: 2 * n}, {0: n}))
    assert program.module()(oneflow.ones(8, 3), oneflow.ones(4, 3)).shape == (4, 2, 3)
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(oneflow.ones(9, 3), oneflow.ones(4, 3))
    program = export(
        nn.Linear(3, 2), (oneflow.ones(4, 5, 3),), dynamic_shapes=({0: Dim.AUTO, 1: Dim.AUTO, 2: Dim.AUTO},)
    )
    assert program.module()(oneflow.ones(7, 1, 3)).shape == (7, 1, 2)
    with pytest.raises(AssertionError, match=r"size\(\)\[2\] == 3"):
        program.module()(oneflow.ones(7, 1, 4))
    program = export(nn.ReLU(), (oneflow.ones(3, 3),), dynamic_shapes={"input": (Dim.DYNAMIC(max=9), Dim.STATIC)})
    assert program.module()(oneflow.ones(9, 3)).shape == (9, 3)
    with pytest.raises(AssertionError, match="<= 9"):
        program.module()(oneflow.ones(10, 3))


def test_tensors_made_of_open_sizes():
    class Spans(nn.Module):
        def forward(self, x):
            n, both = oneflow.tensor(x.shape[1]), oneflow.tensor([[x.shape[0] * 2, 3, x.shape[1] - 1]])
            if oneflow.ones(x.shape[1]).all():
                x = x[:, : int(n // 1) - 1]
            return x[..., 0].clamp(max=n / 4), both + oneflow.arange(x.shape[1])[:, None], n.to(oneflow.int32)

    batch, length = dims("batch", "length")
    model = Spans()
    program = export(model, (oneflow.randn(2, 5, 3),), dynamic_shapes=({0: batch, 1: length},))
    for made in (program, _loaded(program)):
        for b, n in ((2, 5), (3, 9), (1, 4)):
            x = oneflow.randn(b, n, 3)
            _same(made.module()(x), model(x))
    assert not program.constants


@dataclasses.dataclass
class _Pair:
    left: oneflow.Tensor
    right: oneflow.Tensor


def test_data_classes_and_written_inputs():
    oneflow.export.register_dataclass(_Pair)

    class Swap(nn.Module):
        def forward(self, pair):
            pair.left.mul_(2)
            return _Pair(pair.right, pair.left + 1)

    program = export(Swap(), (_Pair(oneflow.ones(2), oneflow.zeros(2)),))
    x = oneflow.tensor([1.0, 3.0])
    made = program.module()(_Pair(x, oneflow.zeros(2)))
    assert made.right.tolist() == [3.0, 7.0] and x.tolist() == [2.0, 6.0]
    assert list(program.graph_signature.user_inputs_to_mutate.values()) == ["pair_left"]
    with pytest.raises(TypeError, match="not a dataclass"):
        oneflow.export.register_dataclass(int)


def test_programs_are_taken_apart_and_change_with_the_tools_of_fx():
    model = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.LayerNorm(4)).eval()
    batch = Dim("batch")
    program = export(model, (oneflow.randn(2, 4),), dynamic_shapes=({0: batch},))
    apart = program.run_decompositions()
    x = oneflow.randn(6, 4)
    assert oneflow.allclose(apart.module()(x), model(x), atol=1e-6)
    assert apart.graph_signature.parameters == program.graph_signature.parameters
    assert len(apart.graph.nodes) >= len(program.graph.nodes)
    (gelu,) = program.graph.find_nodes(op="call_function", target=oneflow.ops.aten.gelu.default)
    gelu.target, gelu.kwargs = oneflow.ops.aten.relu.default, {}
    gelu.args = gelu.args[:1]
    assert oneflow.allclose(program.module()(x), model[2](model[0](x).relu()), atol=1e-6)
    assert repr(gelu.target) == "<OpOverload(op='aten.relu', overload='default')>"


class _Branch(nn.Module):
    def forward(self, x):
        return x * 2 if len(range(x.shape[0])) > 4 else x + 1


class _Value(nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda: export(F.relu, (oneflow.ones(2),)), TypeError, "instance of `torch.nn.Module`"),
        (lambda: export(nn.ReLU(), oneflow.ones(2)), TypeError, "tuple of example positional inputs"),
        (
            lambda: export(_Branch(), (oneflow.ones(4, 2),), dynamic_shapes=({0: Dim("n")},)),
            ValueError,
            r"depends on a named dimension: it runs add\(\) at .*test_programs.py:\d+",
        ),
        (
            lambda: export(nn.Linear(3, 4), (oneflow.ones(5, 3),), dynamic_shapes=({1: Dim("z")},)),
            ValueError,
            r"does not run with z=\d+: linear\(\)",
        ),
        (lambda: export(_Value(), (oneflow.ones(2),)), RuntimeError, "trac"),
        (lambda: export(nn.ReLU(), (object(),)), TypeError, "an argument has a object"),
        (lambda: export(nn.ReLU(), (oneflow.ones(2),), dynamic_shapes={"x": None}), ValueError, "names 'x'"),
        (lambda: export(nn.ReLU(), (oneflow.ones(2),), dynamic_shapes=({1: Dim("n")},)), ValueError, "dimension 1"),
        (lambda: export(nn.ReLU(), (oneflow.ones(2),), dynamic_shapes=({0: Dim("n", min=3)},)), ValueError, "range"),
        (lambda: export(nn.ReLU(), (oneflow.ones(2),), dynamic_shapes=({0: 3},)), ValueError, "gives 3"),
        (lambda: Dim("n", min=4, max=4), ValueError, "max=4"),
        (lambda: Dim("not a name"), ValueError, "identifier"),
        (lambda: Dim("n") * 0, ValueError, "positive"),
        (lambda: export(nn.ReLU(), (oneflow.ones(2),)).module().eval(), NotImplementedError, "eval"),
        (lambda: oneflow.export.unflatten(None), TypeError, "ExportedProgram is expected, got NoneType"),
        (lambda: oneflow.export.draft_export(None), NotImplementedError, "draft_export"),
    ],
)
def test_what_cannot_be_exported_says_why(call, kind, text):
    with pytest.raises(kind, match=text):
        call()
