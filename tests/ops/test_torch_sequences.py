"""The engine mt19937: with a seed every draw is PyTorch's own, bit for bit, and so is the state left behind."""

import copy
import subprocess
import sys

import oneflow
import pytest
import torch


@pytest.fixture(autouse=True)
def engine():
    before = oneflow.random.use("mt19937")
    yield
    oneflow.random.use(before)


def _takes_words(n_words):
    """Return whether this machine's PyTorch draws ``bernoulli_`` with its generator: on Intel's it may not."""
    torch.manual_seed(0)
    torch.empty(20).bernoulli_(0.5)
    after = torch.rand(1)
    torch.manual_seed(0)
    torch.rand(n_words)
    return torch.equal(after, torch.rand(1))


OWN_BERNOULLI = _takes_words(40)
FLOATS = ["float32", "float64", "float16", "bfloat16"]
WHOLE = ["int64", "int32", "int16", "int8", "uint8", "bool"]
SIZES = [0, 1, 2, 5, 15, 16, 17, 31, 32, 100, 1003]


def bits(x):
    x = x.detach()
    # Steps along a single element mean nothing.
    strides = [step for step, size in zip(x.stride(), x.shape, strict=True) if size > 1 and x.numel()]
    return tuple(x.shape), strides, str(x.dtype).split(".")[1], x.double().tolist()


def same(program, seed=0):
    """Run a program of draws with both packages; compare its results, and the states of the generators."""
    results = []
    for package in (oneflow, torch):
        package.manual_seed(seed)
        out = program(package)
        out = [out] if hasattr(out, "shape") else list(out)
        results.append(([bits(x) for x in out], package.get_rng_state().tolist()))
    (ours, state), (theirs, their_state) = results
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert a == b, i
    assert state == their_state


def layouts(fw, dtype):
    """Fresh tensors in many layouts, to be filled in place."""
    dtype = getattr(fw, dtype)
    yield fw.zeros(5, 7, dtype=dtype)
    yield fw.zeros(7, 5, dtype=dtype).t()
    yield fw.zeros(2, 3, 4, 5, dtype=dtype).to(memory_format=fw.channels_last)
    yield fw.zeros(4, 3, 6, dtype=dtype).permute(1, 2, 0)
    yield fw.zeros(6, 8, dtype=dtype)[::2, 1::3]
    yield fw.zeros(40, dtype=dtype)[3:]
    yield fw.zeros(1, 20, 1, dtype=dtype).transpose(0, 1)
    yield fw.zeros((), dtype=dtype)
    yield fw.zeros(0, 3, dtype=dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_creation(dtype):
    def program(fw):
        d = getattr(fw, dtype)
        for n in SIZES:
            yield fw.rand(n, dtype=d)
            yield fw.randn(n, dtype=d)
            yield fw.randint(-3, 40, (n,), dtype=d)
            yield fw.normal(0.25, 1.75, (n,), dtype=d)
        yield fw.rand(3, 4, 5, dtype=d)
        yield fw.randn(3, 4, 5, dtype=d)
        like = fw.zeros(4, 6, dtype=d).t()
        yield fw.rand_like(like)
        yield fw.randn_like(like)
        yield fw.randint_like(like, 9)

    same(program)


def test_complex_numbers():
    def program(fw):
        for d in (fw.complex64, fw.complex128):
            for n in (3, 8, 21):
                yield fw.view_as_real(fw.rand(n, dtype=d))
                yield fw.view_as_real(fw.randn(n, dtype=d))

    same(program)


@pytest.mark.parametrize("dtype", FLOATS)
def test_fills(dtype):
    fills = [
        lambda x: x.uniform_(),
        lambda x: x.uniform_(-0.3, 0.7),
        lambda x: x.normal_(),
        lambda x: x.normal_(1.5, 0.3),
        lambda x: x.exponential_(),
        lambda x: x.exponential_(0.3),
        lambda x: x.random_(),
        lambda x: x.random_(17),
        lambda x: x.random_(-5, 90),
        lambda x: x.log_normal_(0.1, 0.5),
        lambda x: x.cauchy_(0.5, 2.0),
        lambda x: x.geometric_(0.3),
    ]
    for i, fill in enumerate(fills):
        if dtype == "bfloat16" and i in (9, 10):
            continue
        for seed in (1, 2**40 + 3):
            same(lambda fw, fill=fill: [fill(x) for x in layouts(fw, dtype)], seed)


@pytest.mark.parametrize("dtype", WHOLE)
def test_integers(dtype):
    def program(fw):
        d = getattr(fw, dtype)
        for x in layouts(fw, dtype):
            yield x.random_()
        if dtype != "bool":
            for high in (2, 100):
                yield fw.randint(high, (50,), dtype=d)
                yield fw.zeros(50, dtype=d).random_(3, 90)
            yield fw.zeros(9, dtype=d).geometric_(0.4)

    same(program)


def test_ranges_of_integers():
    def program(fw):
        for high in (1, 2**24, 2**28 - 1, 2**28, 2**31, 2**32 - 1, 2**32, 2**40, 2**63 - 1):
            yield fw.randint(high, (9,))
            yield fw.randint(-high, high // 2 + 1, (9,))
        for n in (0, 1, 2, 10, 1000):
            yield fw.randperm(n)
        yield fw.randperm(20, dtype=fw.int32)
        yield fw.randperm(20, dtype=fw.float32)

    same(program)


@pytest.mark.parametrize("dtype", FLOATS)
def test_probabilities(dtype):
    def program(fw):
        d = getattr(fw, dtype)
        p = fw.tensor([i / 39 for i in range(40)], dtype=d).reshape(5, 8)
        yield fw.bernoulli(p)
        yield fw.bernoulli(p.t())
        yield fw.zeros(5, 8, dtype=d).bernoulli_(p)
        yield fw.zeros(5, 8, dtype=d).bernoulli_(p[0].float())
        for q in (p, p[1:3, :3], p[2]):
            yield fw.multinomial(q + 0.1, 1)
            yield fw.multinomial(q + 0.1, 3)
            if dtype != "bfloat16":
                # Its few digits make the order in which weights are summed choose other indices.
                yield fw.multinomial(q + 0.1, 30, replacement=True)
        if dtype != "bfloat16":
            yield fw.poisson(p * 30)
        yield fw.normal(p, 0.5)
        yield fw.normal(0.5, p)
        if dtype in ("float32", "float64"):
            # Halves are rounded between the product and the sum on their own.
            yield fw.normal(p, p + 0.1)

    same(program)


@pytest.mark.skipif(not OWN_BERNOULLI, reason="PyTorch draws bernoulli_ with another library on this processor")
@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout(dtype):
    def program(fw):
        F = fw.nn.functional
        d = getattr(fw, dtype)
        for x in layouts(fw, dtype):
            yield x.bernoulli_(0.3)
        for p in (0.1, 0.5, 0.8, 0.0, 1.0):
            for x in layouts(fw, dtype):
                x = (x + 1.25).requires_grad_()
                y = F.dropout(x, p)
                yield y
                yield fw.autograd.grad(y.sum(), x)[0].contiguous()
        x = fw.ones(4, 6, 5, 3, dtype=d)
        yield F.dropout2d(x, 0.4)
        for f in (F.alpha_dropout, F.feature_alpha_dropout):
            # Which elements are kept; the last bit of the affine map after it is free.
            yield f(x, 0.4, training=True) > 0
        yield F.dropout1d(x[0], 0.4)
        yield fw.bernoulli(x, 0.4)

    same(program)


MODULES = {
    "linear": lambda nn: nn.Linear(20, 30),
    "bilinear": lambda nn: nn.Bilinear(5, 6, 7),
    "conv": lambda nn: nn.Conv2d(3, 8, 3),
    "conv transpose": lambda nn: nn.ConvTranspose1d(3, 8, 3),
    "embedding": lambda nn: nn.Embedding(11, 5, padding_idx=2),
    "embedding bag": lambda nn: nn.EmbeddingBag(11, 5),
    "lstm": lambda nn: nn.LSTM(5, 6, num_layers=2, bidirectional=True, proj_size=3),
    "gru cell": lambda nn: nn.GRUCell(5, 6),
    "attention": lambda nn: nn.MultiheadAttention(8, 2, kdim=6, add_bias_kv=True),
    "transformer": lambda nn: nn.Transformer(8, 2, 1, 1, 16),
    "norms": lambda nn: nn.Sequential(nn.LayerNorm(4), nn.BatchNorm1d(4), nn.PReLU(), nn.Linear(4, 4, bias=False)),
    "softmax with loss": lambda nn: nn.AdaptiveLogSoftmaxWithLoss(8, 20, [5, 10]),
}


@pytest.mark.filterwarnings("ignore:enable_nested_tensor", "ignore:Initializing zero-element")
@pytest.mark.parametrize("name", MODULES)
def test_new_modules_have_torchs_weights(name):
    def program(fw):
        state = MODULES[name](fw.nn).state_dict()
        return [state[key] for key in sorted(state)]

    same(program)


LAYERS = {
    "attention": lambda fw, x: fw.nn.MultiheadAttention(16, 2, dropout=0.3, batch_first=True)(x, x, x)[0],
    "bare attention": lambda fw, x: fw.nn.functional.scaled_dot_product_attention(
        x[None], x[None], x[None], dropout_p=0.3
    ),
    "encoder": lambda fw, x: fw.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)(x),
    "lstm": lambda fw, x: fw.nn.functional.dropout(fw.nn.LSTM(16, 5, 3, dropout=0.3, batch_first=True)(x)[0]),
    "gru": lambda fw, x: fw.nn.GRU(16, 5, 2, dropout=0.3, bidirectional=True)(x)[0],
    "rrelu": lambda fw, x: fw.nn.functional.rrelu(x, training=True),
    "gumbel": lambda fw, x: fw.nn.functional.gumbel_softmax(x),
}


@pytest.mark.skipif(not OWN_BERNOULLI, reason="PyTorch draws dropout with another library on this processor")
@pytest.mark.parametrize("name", LAYERS)
def test_layers_drop_what_torchs_drop(name):
    found = []
    x = torch.randn(3, 6, 16, generator=torch.Generator().manual_seed(1)).tolist()
    for package in (oneflow, torch):
        package.manual_seed(0)
        y = LAYERS[name](package, package.tensor(x))
        found.append((torch.tensor(y.tolist()), package.get_rng_state().tolist()))
    # Sums round in another order.
    assert torch.allclose(found[0][0], found[1][0], atol=1e-5)
    assert found[0][1] == found[1][1]


INITS = {
    "uniform_": {"a": -0.5},
    "normal_": {"mean": 0.1, "std": 0.02},
    "trunc_normal_": {"std": 0.02},
    "trunc_normal_ ": {"mean": 1.0, "a": 2.5, "b": 3.0},
    "xavier_uniform_": {"gain": 1.5},
    "xavier_normal_": {},
    "kaiming_uniform_": {"a": 5**0.5},
    "kaiming_normal_": {"mode": "fan_out", "nonlinearity": "relu"},
    "sparse_": {"sparsity": 0.3},
}


@pytest.mark.parametrize("name", INITS)
def test_init(name):
    def program(fw):
        for shape in ((7, 9), (64, 33)):
            yield getattr(fw.nn.init, name.strip())(fw.empty(shape), **INITS[name])

    same(program)


def test_orthogonal_init_draws_the_same():
    for package in (oneflow, torch):
        package.manual_seed(3)
    ours, theirs = (p.nn.init.orthogonal_(p.empty(7, 9)) for p in (oneflow, torch))
    # The factorization rounds on its own.
    assert torch.allclose(torch.tensor(ours.tolist()), theirs, atol=1e-5)
    assert oneflow.get_rng_state().tolist() == torch.get_rng_state().tolist()


@pytest.mark.skipif(not OWN_BERNOULLI, reason="PyTorch draws dropout with another library on this processor")
def test_a_training_run_has_torchs_losses():
    def losses(fw):
        fw.manual_seed(7)
        nn = fw.nn
        layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)
        model = nn.Sequential(nn.Embedding(20, 16), layer, nn.Flatten(), nn.Linear(16 * 6, 20))
        optimizer = fw.optim.AdamW(model.parameters(), lr=3e-3)
        data = fw.utils.data.TensorDataset(fw.randint(20, (64, 6)), fw.randint(20, (64,)))
        found = []
        for _ in range(2):
            for x, y in fw.utils.data.DataLoader(data, batch_size=16, shuffle=True):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                found.append(loss.item())
        return found

    # The same masks, weights and orders; products round in another order.
    assert losses(oneflow) == pytest.approx(losses(torch), rel=2e-4)


def test_states_travel_between_the_packages():
    torch.manual_seed(9)
    torch.randn(5)
    oneflow.set_rng_state(oneflow.tensor(torch.get_rng_state().tolist(), dtype=oneflow.uint8))
    assert oneflow.randn(7).tolist() == torch.randn(7).tolist()
    assert oneflow.initial_seed() == 9
    torch.set_rng_state(torch.tensor(oneflow.get_rng_state().tolist(), dtype=torch.uint8))
    assert oneflow.rand(3).tolist() == torch.rand(3).tolist()


def test_generators_are_independent():
    def program(fw):
        a, b = fw.Generator().manual_seed(5), fw.Generator()
        yield fw.randn(3, generator=a)
        yield fw.rand(3)
        state = a.get_state()
        yield fw.randn(3, generator=a)
        yield fw.randn(3, generator=b)
        a.set_state(state)
        yield fw.randn(20, generator=a)
        yield fw.randperm(5, generator=a.clone_state())
        yield fw.randperm(5, generator=a)
        with fw.random.fork_rng():
            yield fw.rand(2)
        yield fw.rand(2)

    same(program)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_draws_by_rejection(dtype):
    """Draws that take as many numbers as they need: each value and the state after it. Values agree to rounding."""
    results = []
    for fw in (oneflow, torch):
        fw.manual_seed(3)
        d, kind = fw.distributions, getattr(fw, dtype)
        shapes = fw.tensor([0.05, 0.5, 0.99, 1.0, 1.5, 4.0, 30.0, 0.0], dtype=kind)
        ones = fw.ones(3, dtype=kind)
        counts = fw.tensor([5.0, 40.0, 400.0], dtype=kind)
        draws = [
            fw._standard_gamma(shapes.repeat(20)),
            fw._standard_gamma(shapes[1:7].reshape(2, 3).t()),
            fw._sample_dirichlet(shapes[1:7].expand(4, 6)),
            fw.binomial(counts.repeat(20), ones.repeat(20) * 0.3),
            fw.binomial(counts.repeat(20), ones.repeat(20) * 0.8),
            d.Gamma(ones * 0.7, ones * 2).sample((5,)),
            d.Beta(ones * 0.7, ones * 2).sample((5,)),
            d.Dirichlet(ones * 0.7).sample((5,)),
            d.StudentT(ones * 3).sample((5,)),
            d.Chi2(ones * 3).sample((5,)),
            d.FisherSnedecor(ones * 3, ones * 4).sample((5,)),
            d.NegativeBinomial(ones * 3, ones * 0.4).sample((5,)),
            d.Binomial(ones * 9, ones * 0.4).sample((5,)),
            d.InverseGamma(ones * 3, ones).sample((5,)),
            fw.rand(3),
        ]
        results.append(([x.double().tolist() for x in draws], fw.get_rng_state().tolist()))
    (ours, state), (theirs, their_state) = results
    for i, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        assert torch.allclose(torch.tensor(a), torch.tensor(b), rtol=1e-5, atol=1e-30, equal_nan=True), i
    assert state == their_state


def test_what_needs_positions_is_refused():
    class Drawn(oneflow.nn.Graph):
        def build(self, x):
            return oneflow.nn.functional.dropout(x, 0.5)

    with pytest.raises(NotImplementedError, match=r"mt19937.*graph"):
        Drawn()(oneflow.ones(4))
    with pytest.raises(NotImplementedError, match=r"mt19937.*vmap"):
        oneflow.vmap(lambda x: oneflow.nn.functional.dropout(x, 0.5), randomness="same")(oneflow.ones(3, 4))
    with pytest.raises(RuntimeError, match="no position"):
        oneflow.default_generator.get_offset()
    with pytest.raises(RuntimeError, match="RNG state"):
        oneflow.set_rng_state(oneflow.zeros(16, dtype=oneflow.uint8))
    with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
        oneflow.set_rng_state(oneflow.zeros(5056, dtype=oneflow.uint8))
    with pytest.raises(ValueError, match="philox"):
        oneflow.random.use("xorshift")


def test_a_compiled_program_that_drew_by_position_is_refused():
    class Drawn(oneflow.nn.Graph):
        def build(self, x):
            return oneflow.nn.functional.dropout(x, 0.5)

    oneflow.random.use("philox")
    graph = Drawn()
    graph(oneflow.ones(4))
    oneflow.random.use("mt19937")
    with pytest.raises(NotImplementedError, match="mt19937"):
        graph(oneflow.ones(4))
    oneflow.random.use("philox")
    graph(oneflow.ones(4))


def test_switching_starts_over_from_the_seed():
    oneflow.random.use("philox")
    oneflow.manual_seed(11)
    first = oneflow.rand(3)
    assert oneflow.random.use("mt19937") == "philox"
    assert oneflow.initial_seed() == 11 and oneflow.default_generator.engine == "mt19937"
    torch.manual_seed(11)
    assert oneflow.rand(3).tolist() == torch.rand(3).tolist()
    oneflow.random.use("philox")
    assert oneflow.equal(oneflow.rand(3), first)


def test_checkpoints_draw_again_what_they_drew():
    def program(fw):
        x = fw.ones(50, requires_grad=True)
        F = fw.nn.functional
        y = fw.utils.checkpoint.checkpoint(lambda x: F.dropout(F.rrelu(x * 2), 0.0), x, use_reentrant=False)
        yield y
        yield fw.autograd.grad(y.sum(), x)[0]
        yield fw.rand(2)

    if hasattr(torch.utils, "checkpoint"):
        same(program)
    g = oneflow.Generator().manual_seed(3)
    assert copy.deepcopy(g).engine == "mt19937"


def test_the_environment_chooses_too():
    code = "import oneflow; oneflow.manual_seed(0); print(oneflow.default_generator.engine, oneflow.rand(1).item())"
    import os

    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "ONEFLOW_RANDOM": "mt19937"}, capture_output=True, text=True
    )
    torch.manual_seed(0)
    assert done.stdout.split() == ["mt19937", str(torch.rand(1).item())], done.stderr
