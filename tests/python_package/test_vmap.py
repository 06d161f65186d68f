"""vmap against PyTorch's: ops with a rule and ops that run sample by sample, gradients in and around it, errors."""

import oneflow
import pytest
import torch
from torch_oracle import close

# PyTorch runs some of these sample by sample, and warns.
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")


def ramp(fw, *shape):
    n = 1
    for s in shape:
        n *= s
    return fw.sin(fw.arange(n, dtype=fw.float32).reshape(shape) * 0.7 + 0.3)


# name, function of (fw, *slices), shapes of the inputs, in_dims
OPS = [
    ("add", lambda fw, x, y: x + y, [(3, 4), (3, 4)], 0),
    ("add of ranks", lambda fw, x, y: x + y, [(3, 4), (3, 2, 4)], 0),
    ("mul unbatched", lambda fw, x, y: x * y, [(3, 4), (2, 4)], (0, None)),
    ("scalar", lambda fw, x: x * 2 + 1, [(3,)], 0),
    ("where", lambda fw, x, y: fw.where(x > 0, x, y), [(3, 4), (4,)], (0, None)),
    ("sum", lambda fw, x: x.sum(), [(3, 2, 4)], 0),
    ("sum dim", lambda fw, x: x.sum(-1), [(3, 2, 4)], 1),
    ("sum of number", lambda fw, x: x.sum(), [(3,)], 0),
    ("mean keepdim", lambda fw, x: x.mean(0, keepdim=True), [(3, 2, 4)], 0),
    ("amax", lambda fw, x: x.amax((0, 1)), [(3, 2, 4)], 0),
    ("max dim", lambda fw, x: x.max(0), [(3, 2, 4)], 0),
    ("argmax", lambda fw, x: x.argmax(), [(3, 2, 4)], 0),
    ("std", lambda fw, x: x.std(0), [(3, 2, 4)], 0),
    ("view", lambda fw, x: x.view(-1), [(3, 2, 4)], 0),
    ("reshape", lambda fw, x: x.t().reshape(-1), [(3, 2, 4)], 0),
    ("transpose", lambda fw, x: x.transpose(0, 1), [(3, 2, 4)], 2),
    ("getitem", lambda fw, x: x[0, 1:], [(3, 2, 4)], 0),
    ("unbind", lambda fw, x: x.unbind(0), [(3, 2, 4)], 0),
    ("split", lambda fw, x: x.split(2, -1), [(3, 2, 4)], 0),
    ("expand", lambda fw, x: x.expand(5, 4), [(3, 4)], 0),
    ("squeeze", lambda fw, x: x.unsqueeze(0).squeeze(0), [(3, 4)], 0),
    ("diagonal", lambda fw, x: x.diagonal(), [(3, 4, 4)], 0),
    ("flip", lambda fw, x: x.flip(0), [(3, 2, 4)], 0),
    ("roll", lambda fw, x: x.roll(1, 0), [(3, 2, 4)], 0),
    ("tril", lambda fw, x: x.tril(), [(3, 4, 4)], 0),
    ("softmax", lambda fw, x: x.softmax(-1), [(3, 2, 4)], 0),
    ("log_softmax", lambda fw, x: x.log_softmax(0), [(3, 4)], 0),
    ("cumsum", lambda fw, x: x.cumsum(0), [(3, 2, 4)], 0),
    ("sort", lambda fw, x: x.sort(-1), [(3, 2, 4)], 0),
    ("topk", lambda fw, x: x.topk(2), [(3, 2, 4)], 0),
    ("cat", lambda fw, x, y: fw.cat([x, y], 0), [(3, 2, 4), (2, 4)], (0, None)),
    ("stack", lambda fw, x, y: fw.stack([x, y], -1), [(3, 2, 4), (3, 2, 4)], 0),
    ("dot", lambda fw, x, y: fw.dot(x, y), [(3, 4), (3, 4)], 0),
    ("mv", lambda fw, x, y: fw.mv(x, y), [(3, 2, 4), (3, 4)], 0),
    ("mv weight", lambda fw, x, y: x @ y, [(2, 4), (3, 4)], (None, 0)),
    ("vec mat", lambda fw, x, y: x @ y, [(3, 4), (4, 2)], (0, None)),
    ("vec mats", lambda fw, x, y: x @ y, [(3, 4), (3, 4, 2)], 0),
    ("mm", lambda fw, x, y: x @ y, [(3, 2, 4), (3, 4, 5)], 0),
    ("mm right", lambda fw, x, y: x @ y, [(2, 4), (3, 4, 5)], (None, 0)),
    ("bmm", lambda fw, x, y: fw.bmm(x, y), [(3, 2, 2, 4), (3, 2, 4, 5)], 0),
    ("bmm broadcast", lambda fw, x, y: x @ y, [(3, 2, 4), (5, 4, 2)], (0, None)),
    ("outer", lambda fw, x, y: fw.outer(x, y), [(3, 4), (3, 2)], 0),
    ("einsum", lambda fw, x, y: fw.einsum("ij,jk->ik", x, y), [(3, 2, 4), (3, 4, 5)], 0),
    ("addmm", lambda fw, x, y, z: fw.addmm(x, y, z), [(5,), (3, 2, 4), (4, 5)], (None, 0, None)),
    ("linear", lambda fw, x, w, b: fw.nn.functional.linear(x, w, b), [(3, 4), (5, 4), (5,)], (0, None, None)),
    ("linear own", lambda fw, x, w, b: fw.nn.functional.linear(x, w, b), [(3, 4), (3, 5, 4), (3, 5)], 0),
    ("layer_norm", lambda fw, x: fw.nn.functional.layer_norm(x, (4,)), [(3, 2, 4)], 0),
    ("layer_norm own", lambda fw, x, w: fw.nn.functional.layer_norm(x, (4,), w), [(3, 2, 4), (3, 4)], 0),
    ("rms_norm", lambda fw, x: fw.nn.functional.rms_norm(x, (4,)), [(3, 2, 4)], 0),
    ("gelu", lambda fw, x: fw.nn.functional.gelu(x), [(3, 2, 4)], 0),
    ("conv", lambda fw, x, w: fw.nn.functional.conv2d(x, w, padding=1), [(3, 2, 2, 5, 5), (4, 2, 3, 3)], (0, None)),
    ("conv own", lambda fw, x, w: fw.nn.functional.conv2d(x, w), [(3, 2, 2, 5, 5), (3, 4, 2, 3, 3)], 0),
    ("max_pool", lambda fw, x: fw.nn.functional.max_pool2d(x, 2), [(3, 2, 2, 4, 4)], 0),
    ("pad", lambda fw, x: fw.nn.functional.pad(x, (1, 1)), [(3, 2, 4)], 0),
    ("cross_entropy", lambda fw, x: fw.nn.functional.cross_entropy(x, fw.tensor([1, 0])), [(3, 2, 4)], 0),
    ("mse", lambda fw, x, y: fw.nn.functional.mse_loss(x, y), [(3, 2, 4), (3, 2, 4)], 0),
    ("norm", lambda fw, x: x.norm(), [(3, 2, 4)], 0),
    ("logsumexp", lambda fw, x: x.logsumexp(0), [(3, 2, 4)], 0),
    ("clamp", lambda fw, x: x.clamp(min=0), [(3, 4)], 0),
    ("cast", lambda fw, x: x.double().sum().float(), [(3, 4)], 0),
    ("index list", lambda fw, x: x[fw.tensor([1, 0])], [(3, 2, 4)], 0),
    ("index second", lambda fw, x: x[:, fw.tensor([1, 0])], [(3, 2, 4)], 0),
    ("index two", lambda fw, x: x[fw.tensor([1, 0]), fw.tensor([1, 2])], [(3, 2, 4)], 0),
    ("index apart", lambda fw, x: x[fw.tensor([1, 0]), :, fw.tensor([1, 0])], [(3, 2, 4, 2)], 0),
    ("gather", lambda fw, x: x.gather(0, fw.tensor([[1, 0, 0, 1]])), [(3, 2, 4)], 0),
    ("index_select", lambda fw, x: x.index_select(0, fw.tensor([1, 1])), [(3, 2, 4)], 0),
    ("det", lambda fw, x: fw.linalg.det(x), [(3, 4, 4)], 0),
    ("inplace", lambda fw, x: x.clone().mul_(2).add_(x), [(3, 4)], 0),
    ("zeros_like", lambda fw, x: fw.zeros_like(x).add_(x), [(3, 4)], 0),
    ("new_zeros", lambda fw, x: x.new_zeros(2) + x[:2], [(3, 4)], 0),
    ("out dim", lambda fw, x: x * 2, [(2, 3, 4)], 2),
    ("constant", lambda fw, x: fw.ones(2), [(3, 4)], 0),
    ("one_hot", lambda fw, x: fw.nn.functional.one_hot((x > 0).long(), 2), [(3, 4)], 0),
    ("embedding", lambda fw, x, w: fw.nn.functional.embedding((x > 0).long(), w), [(3, 4), (2, 5)], (0, None)),
    ("embedding own", lambda fw, x, w: fw.nn.functional.embedding((x > 0).long(), w), [(3, 4), (3, 2, 5)], 0),
    ("index_put", lambda fw, x, y: x.index_put((fw.tensor([0, 1]),), y), [(3, 4), (3, 2)], 0),
    ("setitem", lambda fw, x, y: fw.zeros_like(x).index_fill(0, fw.tensor([1]), 2.0) + y, [(3, 4), (3, 4)], 0),
    ("scatter_add", lambda fw, x, y: x.scatter_add(0, fw.tensor([0, 0]), y), [(3, 4), (3, 2)], 0),
    ("group_norm", lambda fw, x: fw.nn.functional.group_norm(x, 2), [(3, 2, 4, 5)], 0),
    ("batch_norm", lambda fw, x: fw.nn.functional.batch_norm(x, None, None, training=True), [(3, 4, 4)], 0),
    ("attention", lambda fw, q: fw.nn.functional.scaled_dot_product_attention(q, q, q), [(3, 2, 4, 5)], 0),
    ("fft", lambda fw, x: fw.fft.fft(x).real, [(3, 2, 4)], 0),
    ("repeat", lambda fw, x: x.repeat(2, 1), [(3, 2, 4)], 0),
    ("unfold", lambda fw, x: x.unfold(0, 2, 1), [(3, 4)], 0),
    ("prod", lambda fw, x: x.prod(0), [(3, 2, 4)], 0),
    ("var_mean", lambda fw, x: fw.var_mean(x, 0), [(3, 2, 4)], 0),
    ("searchsorted", lambda fw, x: fw.searchsorted(x.sort(-1)[0], x), [(3, 4)], 0),
    ("lerp", lambda fw, x, y: fw.lerp(x, y, 0.3), [(3, 4), (4,)], (0, None)),
    ("bce", lambda fw, x, y: fw.nn.functional.binary_cross_entropy_with_logits(x, y), [(3, 4), (3, 4)], 0),
    ("cdist", lambda fw, x, y: fw.cdist(x, y), [(3, 2, 4), (5, 4)], (0, None)),
    ("logcumsumexp", lambda fw, x: x.logcumsumexp(0), [(3, 4)], 0),
    (
        "conv1d transposed",
        lambda fw, x, w: fw.nn.functional.conv_transpose1d(x, w),
        [(3, 1, 2, 5), (2, 3, 2)],
        (0, None),
    ),
    ("avg_pool", lambda fw, x: fw.nn.functional.avg_pool1d(x, 2), [(3, 1, 2, 4)], 0),
    ("interpolate", lambda fw, x: fw.nn.functional.interpolate(x, scale_factor=2), [(3, 1, 2, 4)], 0),
    ("solve", lambda fw, x, y: fw.linalg.solve(x + 3 * fw.eye(4), y), [(3, 4, 4), (3, 4)], 0),
]


@pytest.mark.parametrize(("function", "shapes", "in_dims"), [row[1:] for row in OPS], ids=[row[0] for row in OPS])
def test_ops_equal_pytorch(function, shapes, in_dims):
    def run(fw):
        return fw.vmap(lambda *xs: function(fw, *xs), in_dims=in_dims)(*[ramp(fw, *s) for s in shapes])

    close(run(oneflow), run(torch))


@pytest.mark.parametrize(("function", "shapes", "in_dims"), [row[1:] for row in OPS], ids=[row[0] for row in OPS])
def test_gradients_around_it_equal_pytorch(function, shapes, in_dims):
    def run(fw):
        xs = [ramp(fw, *s).requires_grad_() for s in shapes]
        out = fw.vmap(lambda *xs: function(fw, *xs), in_dims=in_dims)(*xs)
        outs = [t for t in (out if isinstance(out, (tuple, list)) else [out]) if t.requires_grad]
        if not outs:
            return []
        sum((t * ramp(fw, *t.shape)).sum() for t in outs).backward()
        return [fw.zeros_like(x) if x.grad is None else x.grad for x in xs]

    close(run(oneflow), run(torch))


def network(fw):
    layers = fw.nn.Sequential(fw.nn.Linear(4, 5), fw.nn.Tanh(), fw.nn.Linear(5, 3))
    with fw.no_grad():
        for p in layers.parameters():
            p.copy_(ramp(fw, *p.shape))
    return layers


def test_gradients_of_samples_and_of_their_sum():
    def run(fw):
        net = network(fw)
        params = dict(net.named_parameters())

        def loss(params, x, y):
            out = fw.func.functional_call(net, params, (x.unsqueeze(0),))
            return fw.nn.functional.cross_entropy(out, y.unsqueeze(0)) + 0.1 * (params["0.weight"] ** 2).sum()

        detached = {k: v.detach() for k, v in params.items()}
        x, y = ramp(fw, 6, 4), fw.tensor([0, 1, 2, 0, 1, 2])
        own = fw.func.vmap(fw.func.grad(loss), in_dims=(None, 0, 0))(detached, x, y)
        net.zero_grad()
        fw.func.vmap(loss, in_dims=(None, 0, 0))(params, x, y).sum().backward()
        return own, [p.grad for p in net.parameters()]

    ours, theirs = run(oneflow), run(torch)
    close(ours, theirs)
    # The parameters are the same for all samples: their gradient is the sum over the samples.
    for total, own in zip(ours[1], ours[0].values(), strict=True):
        close(total, own.sum(0))


def test_nested_and_closed_over():
    def run(fw):
        x, y, table = ramp(fw, 3), ramp(fw, 4), ramp(fw, 3, 4)
        pairs = fw.vmap(lambda a: fw.vmap(lambda b: a * b + a)(y))(x)
        picked = fw.vmap(lambda i: fw.vmap(lambda j: table[i, j])(fw.arange(4)))(fw.arange(3))
        outer = fw.vmap(lambda a, b: fw.func.grad(lambda c: (c * b).sin().sum())(a), in_dims=(0, None))(table, y)
        return pairs, picked, outer

    close(run(oneflow), run(torch))


@pytest.mark.filterwarnings("ignore:.*jit:FutureWarning")
def test_jacobians():
    def run(fw):
        x = ramp(fw, 2, 3)

        def f(x):
            return fw.tanh(x @ ramp(fw, 3, 2)).flatten()

        rows = fw.eye(4).reshape(4, 4)
        y = x.clone().requires_grad_()
        batched = fw.autograd.grad(f(y), y, rows, is_grads_batched=True)
        return (
            fw.func.jacrev(f)(x),
            fw.func.jacfwd(f)(x),
            fw.func.hessian(lambda x: f(x).pow(2).sum())(x),
            fw.func.jacrev(f, chunk_size=3)(x),
            batched,
            fw.autograd.functional.jacobian(f, x, vectorize=True),
            fw.vmap(fw.func.jacrev(fw.sin))(x),
        )

    close(run(oneflow), run(torch))


def test_dims_and_chunks():
    def run(fw):
        x = ramp(fw, 5, 4)
        nest = fw.vmap(lambda t: (t["x"] * 2, t["x"].sum()), in_dims=({"x": 1},), out_dims=(1, 0))({"x": x})
        return nest, fw.vmap(lambda x: (x * 2, x.sum()), chunk_size=2)(x), fw.vmap(lambda x: x, 1, 1)(x)

    close(run(oneflow), run(torch))


def test_random_numbers():
    x = oneflow.ones(4, 50)
    with pytest.raises(RuntimeError, match="randomness error mode"):
        oneflow.vmap(oneflow.rand_like)(x)
    for draw in (
        lambda x: oneflow.rand(5),
        lambda x: oneflow.randn_like(x),
        lambda x: oneflow.nn.functional.dropout(x),
        lambda x: oneflow.randperm(9),
        lambda x: oneflow.bernoulli(x * 0.5),
    ):
        same = oneflow.vmap(draw, randomness="same")(x)
        assert all(oneflow.equal(same[0], row) for row in same)
        other = oneflow.vmap(draw, randomness="different")(x)
        assert not oneflow.equal(other[0], other[1])


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda fw: fw.vmap(lambda x: x)(3), ValueError, "in_dim=0 for an input but the input is of type"),
        (lambda fw: fw.vmap(lambda x, y: x + y)(fw.ones(2), fw.ones(3)), ValueError, "same size in the mapped"),
        (lambda fw: fw.vmap(lambda x: x, in_dims=2)(fw.ones(2)), ValueError, "dimensionality 1"),
        (lambda fw: fw.vmap(lambda x: x, in_dims=(0, 0))(fw.ones(2)), ValueError, "not compatible"),
        (lambda fw: fw.vmap(lambda: 1)(), ValueError, "got no inputs"),
        (lambda fw: fw.vmap(lambda x: x.item())(fw.ones(2)), RuntimeError, "item"),
        (lambda fw: fw.vmap(lambda x: x if x > 0 else -x)(fw.ones(2)), RuntimeError, "data-dependent control flow"),
        (lambda fw: fw.vmap(lambda x: 3)(fw.ones(2)), ValueError, "must only return Tensors"),
        (lambda fw: fw.vmap(lambda x: x, randomness="q")(fw.ones(2)), RuntimeError, "randomness"),
        (lambda fw: fw.vmap(lambda x, y: y.add_(x), (0, None))(fw.ones(2), fw.ones(1)), RuntimeError, "inplace"),
        (lambda fw: fw.vmap(lambda x: x, out_dims=None)(fw.ones(2)), ValueError, "BatchedTensor when out_dim is None"),
        (lambda fw: fw.vmap(lambda x: x @ fw.ones(3))(fw.ones(2, 4)), RuntimeError, "shape|size"),
        (lambda fw: fw.vmap(lambda x: x.view(3))(fw.ones(2, 4)), RuntimeError, "invalid for input of size"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call(oneflow)
    with pytest.raises(kind):
        call(torch)


def test_a_batch_ends_with_an_error():
    with pytest.raises(ZeroDivisionError):
        oneflow.vmap(lambda x: 1 // 0)(oneflow.ones(2))
    assert oneflow.rand(2).shape == (2,)


def test_traced():
    @oneflow.compile
    def f(x):
        return oneflow.vmap(lambda row: (row * row).sum())(x)

    assert f(oneflow.ones(2, 3)).tolist() == [3.0, 3.0]


@pytest.mark.parametrize("out_dims", ["lol", (0, "lol"), (0, 1, 0), {"a": 0}])
def test_out_dims_that_do_not_fit(out_dims):
    texts = []
    for fw in (oneflow, torch):
        with pytest.raises(ValueError) as error:
            fw.vmap(lambda x: (x, x), out_dims=out_dims)(fw.ones(2, 3))
        texts.append(str(error.value))
    ours, theirs = (text.partition("`out_dims` must be") or text for text in texts)
    assert ours[1:] == theirs[1:] or "is not compatible with the structure of `outputs`" in texts[0]


VIEWS = {
    "movedim": lambda x: x.movedim(0, 1),
    "transpose": lambda x: x.transpose(0, 1),
    "select": lambda x: x.select(0, 1),
    "unsqueeze": lambda x: x.unsqueeze(0),
    "narrow": lambda x: x.narrow(0, 0, 1),
    "expand": lambda x: x.unsqueeze(0).expand(3, 2, 5),
    "diagonal": lambda x: x.diagonal(),
    "index": lambda x: x[0],
    "unbind": lambda x: x.unbind(0)[1],
    "as_strided": lambda x: x.as_strided((2,), (1,)),
    "twice": lambda x: x.t()[1:],
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("is_nested", [False, True])
def test_views_of_samples_are_views_of_all(name, dim, is_nested):
    """A view under vmap is a view of the argument, and a write into it reaches the argument's gradient."""

    def run(fw):
        shape = [2, 5]
        shape.insert(dim, 4)
        shape = [6, *shape] if is_nested else shape
        f = fw.vmap(VIEWS[name], in_dims=dim)
        f = fw.vmap(f) if is_nested else f
        plain = fw.ones(shape)
        x = fw.ones(shape, requires_grad=True)
        of = x * 1.0
        view = f(of)
        # Neither package writes into one of several views, or says what overlapping elements get.
        if name not in ("expand", "unbind", "as_strided"):
            view.mul_(3.0)
        (of * of).sum().backward()
        return f(plain)._base is plain, view._base is of, x.grad.tolist()

    assert run(oneflow) == run(torch)
