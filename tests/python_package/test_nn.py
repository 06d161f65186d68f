"""Layers, functionals, losses, initialisation and clipping agree with PyTorch."""

import math

import oneflow
import pytest
import torch
from torch_oracle import close


def data(fw, *shape, seed=0, dtype="float32", grad=False):
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).tolist()
    return fw.tensor(values, dtype=getattr(fw, dtype), requires_grad=grad)


def check_values_and_gradients(function, n_inputs, *shapes, tolerance=1e-5):
    """Check values and the gradients of all inputs of ``function(fw, *inputs)``."""
    results = []
    for fw in (oneflow, torch):
        inputs = [data(fw, *shape, seed=i, grad=True) for i, shape in enumerate(shapes)]
        assert len(inputs) == n_inputs
        output = function(fw, *inputs)
        if output.requires_grad:
            (output * output).sum().backward()
        results.append((output.detach(), [x.grad for x in inputs]))
    (ours, our_grads), (theirs, their_grads) = results
    close(ours, theirs, tolerance)
    for a, b in zip(our_grads, their_grads, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            close(a, b, tolerance * 10)


FUNCTIONALS = {
    "linear": (lambda fw, x, w, b: fw.nn.functional.linear(x, w, b), [(2, 3, 4), (5, 4), (5,)]),
    "linear without bias": (lambda fw, x, w: fw.nn.functional.linear(x, w), [(3, 4), (5, 4)]),
    "linear 1-D": (lambda fw, x, w, b: fw.nn.functional.linear(x, w, b), [(4,), (5, 4), (5,)]),
    "relu": (lambda fw, x: fw.nn.functional.relu(x), [(3, 4)]),
    "gelu": (lambda fw, x: fw.nn.functional.gelu(x), [(3, 4)]),
    "gelu tanh": (lambda fw, x: fw.nn.functional.gelu(x, approximate="tanh"), [(3, 4)]),
    "silu": (lambda fw, x: fw.nn.functional.silu(x), [(3, 4)]),
    "tanh": (lambda fw, x: fw.nn.functional.tanh(x), [(3, 4)]),
    "sigmoid": (lambda fw, x: fw.nn.functional.sigmoid(x), [(3, 4)]),
    "softmax": (lambda fw, x: fw.nn.functional.softmax(x, dim=1), [(3, 4, 2)]),
    "log_softmax": (lambda fw, x: fw.nn.functional.log_softmax(x, dim=-1), [(3, 4)]),
    "layer_norm": (lambda fw, x, w, b: fw.nn.functional.layer_norm(x, (4,), w, b), [(2, 3, 4), (4,), (4,)]),
    "layer_norm 2-D": (lambda fw, x: fw.nn.functional.layer_norm(x, (3, 4)), [(2, 3, 4)]),
    "rms_norm": (lambda fw, x, w: fw.nn.functional.rms_norm(x, (4,), w), [(2, 3, 4), (4,)]),
    "attention": (lambda fw, q, k, v: fw.nn.functional.scaled_dot_product_attention(q, k, v), [(2, 3, 4, 5)] * 3),
    "attention causal": (
        lambda fw, q, k, v: fw.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(2, 3, 4, 5), (2, 3, 6, 5), (2, 3, 6, 7)],
    ),
    "attention scale": (
        lambda fw, q, k, v: fw.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.3),
        [(2, 4, 5)] * 3,
    ),
    "attention float mask": (
        lambda fw, q, k, v, m: fw.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=m),
        [(2, 4, 5), (2, 6, 5), (2, 6, 5), (4, 6)],
    ),
    "attention bool mask": (
        lambda fw, q, k, v: fw.nn.functional.scaled_dot_product_attention(
            q, k, v, attn_mask=fw.tensor([[True, False, True], [False, False, False]])
        ),
        [(2, 2, 5), (2, 3, 5), (2, 3, 5)],
    ),
    "attention grouped": (
        lambda fw, q, k, v: fw.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True),
        [(2, 4, 3, 5), (2, 2, 6, 5), (2, 2, 6, 5)],
    ),
    "pad": (lambda fw, x: fw.nn.functional.pad(x, (1, 2, 0, 1), value=3.0), [(2, 3)]),
    "pad negative": (lambda fw, x: fw.nn.functional.pad(x, (-1, 2)), [(2, 3)]),
    "mse": (lambda fw, x, y: fw.nn.functional.mse_loss(x, y), [(3, 4), (3, 4)]),
    "mse sum": (lambda fw, x, y: fw.nn.functional.mse_loss(x, y, reduction="sum"), [(3, 4), (3, 4)]),
    "mse none": (lambda fw, x, y: fw.nn.functional.mse_loss(x, y, reduction="none"), [(3, 4), (3, 4)]),
    "l1": (lambda fw, x, y: fw.nn.functional.l1_loss(x, y), [(3, 4), (3, 4)]),
}


@pytest.mark.parametrize("name", FUNCTIONALS)
def test_functionals(name):
    function, shapes = FUNCTIONALS[name]
    check_values_and_gradients(function, len(shapes), *shapes)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.2])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 4, 3)])
@pytest.mark.parametrize("probabilities", [False, True])
def test_cross_entropy(reduction, label_smoothing, weighted, shape, probabilities):
    def loss(fw, x):
        weight = fw.tensor([0.5, 1.0, 2.0, 0.25]) if weighted else None
        if probabilities:
            target = fw.softmax(data(fw, *shape, seed=9), 0 if len(shape) == 1 else 1)
        else:
            target = fw.tensor({1: 2, 2: [1, -100, 3], 3: [[0, 1, -100], [3, 3, 2]]}[len(shape)])
        return fw.nn.functional.cross_entropy(x, target, weight, reduction=reduction, label_smoothing=label_smoothing)

    check_values_and_gradients(loss, 1, shape)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("ignore_index", [-100, 1])
def test_nll_loss(reduction, ignore_index):
    def loss(fw, x):
        return fw.nn.functional.nll_loss(
            x, fw.tensor([0, 1, 2]), fw.tensor([0.5, 1.0, 2.0]), ignore_index=ignore_index, reduction=reduction
        )

    check_values_and_gradients(loss, 1, (3, 3))


def test_cross_entropy_of_nothing_is_nan():
    for fw in (oneflow, torch):
        loss = fw.nn.functional.cross_entropy(data(fw, 2, 3), fw.tensor([-100, -100]))
        assert math.isnan(loss.item())


def test_one_hot():
    for args in [([0, 2, 1],), ([[0, 2], [1, 1]], 4)]:
        a = oneflow.nn.functional.one_hot(oneflow.tensor(args[0]), *args[1:])
        b = torch.nn.functional.one_hot(torch.tensor(args[0]), *args[1:])
        close(a, b)


LAYERS = {
    "Linear(4, 5)": lambda nn: nn.Linear(4, 5),
    "Linear no bias": lambda nn: nn.Linear(4, 5, bias=False),
    "LayerNorm": lambda nn: nn.LayerNorm(4),
    "LayerNorm plain": lambda nn: nn.LayerNorm((3, 4), elementwise_affine=False),
    "LayerNorm no bias": lambda nn: nn.LayerNorm([4], bias=False),
    "RMSNorm": lambda nn: nn.RMSNorm(4),
    "GELU": lambda nn: nn.GELU("tanh"),
    "ReLU": lambda nn: nn.ReLU(),
    "SiLU": lambda nn: nn.SiLU(),
    "Tanh": lambda nn: nn.Tanh(),
    "Sigmoid": lambda nn: nn.Sigmoid(),
    "Softmax": lambda nn: nn.Softmax(dim=-1),
    "LogSoftmax": lambda nn: nn.LogSoftmax(1),
    "Identity": lambda nn: nn.Identity(1, a=2),
    "Flatten": lambda nn: nn.Flatten(),
    "Dropout": lambda nn: nn.Dropout(0.3),
    "Sequential": lambda nn: nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.GELU(), nn.Linear(8, 2)), nn.Dropout()),
    "ModuleList": lambda nn: nn.Sequential(*nn.ModuleList([nn.Linear(4, 4) for _ in range(3)])),
}


@pytest.mark.parametrize("name", LAYERS)
def test_layers(name):
    theirs = LAYERS[name](torch.nn).eval()
    ours = LAYERS[name](oneflow.nn).eval()
    assert repr(ours) == repr(theirs)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert ours.state_dict()._metadata == theirs.state_dict()._metadata
    state = {key: oneflow.tensor(value.tolist()) for key, value in theirs.state_dict().items()}
    assert repr(ours.load_state_dict(state)) == "<All keys matched successfully>"
    close(ours(data(oneflow, 2, 3, 4)).detach(), theirs(data(torch, 2, 3, 4)).detach())


def test_embedding():
    theirs, ours = torch.nn.Embedding(10, 3, padding_idx=-1), oneflow.nn.Embedding(10, 3, padding_idx=-1)
    assert repr(ours) == repr(theirs)
    assert ours.weight[9].tolist() == [0, 0, 0]
    ours.load_state_dict({"weight": oneflow.tensor(theirs.weight.tolist())})
    grads = []
    for fw, layer in ((oneflow, ours), (torch, theirs)):
        output = layer(fw.tensor([[1, 9], [1, 4]]))
        (output * output).sum().backward()
        grads.append((output.detach(), layer.weight.grad))
    close(grads[0][0], grads[1][0])
    close(grads[0][1], grads[1][1])


def test_dropout_keeps_the_mean_and_scales():
    x = oneflow.ones(10000)
    y = oneflow.nn.functional.dropout(x, 0.25)
    values = set(y.tolist())
    assert len(values) == 2 and 0.0 in values and max(values) == pytest.approx(4 / 3)
    assert y.mean().item() == pytest.approx(1.0, abs=0.05)
    assert oneflow.nn.functional.dropout(x, 0.25, training=False).tolist() == x.tolist()


LOSSES = {
    "CrossEntropyLoss": lambda fw: fw.nn.CrossEntropyLoss(label_smoothing=0.1),
    "NLLLoss": lambda fw: fw.nn.NLLLoss(weight=fw.tensor([1.0, 2.0, 3.0])),
}


@pytest.mark.parametrize("name", LOSSES)
def test_class_losses(name):
    check_values_and_gradients(lambda fw, x: LOSSES[name](fw)(x, fw.tensor([0, 2])), 1, (2, 3))


def test_regression_losses():
    for name in ("MSELoss", "L1Loss"):
        check_values_and_gradients(lambda fw, x, y, name=name: getattr(fw.nn, name)()(x, y), 2, (2, 3), (2, 3))


@pytest.mark.parametrize("norm_type", [2.0, 1.0, 3.0, math.inf])
@pytest.mark.parametrize("max_norm", [0.5, 1e6])
def test_clip_grad_norm(norm_type, max_norm):
    results = []
    for fw in (oneflow, torch):
        params = [fw.nn.Parameter(data(fw, 3, seed=1)), fw.nn.Parameter(data(fw, 2, 2, seed=2))]
        sum((p * p).sum() for p in params).backward()
        norm = fw.nn.utils.clip_grad_norm_(params, max_norm, norm_type)
        results.append([norm, *(p.grad for p in params)])
    for a, b in zip(*results, strict=True):
        close(a, b)


def test_clip_grad_value_and_vectors():
    results = []
    for fw in (oneflow, torch):
        params = [fw.nn.Parameter(data(fw, 3, seed=1)), fw.nn.Parameter(data(fw, 2, 2, seed=2))]
        sum((p * p).sum() for p in params).backward()
        fw.nn.utils.clip_grad_value_(params, 0.7)
        vector = fw.nn.utils.parameters_to_vector(params).detach()
        fw.nn.utils.vector_to_parameters(vector * 2, params)
        results.append([vector, *(p.grad for p in params), *(p.detach() for p in params)])
    for a, b in zip(*results, strict=True):
        close(a, b)


MOMENTS = {
    "uniform_": (lambda init, t: init.uniform_(t, -2.0, 4.0), 1.0, math.sqrt(3)),
    "normal_": (lambda init, t: init.normal_(t, 1.0, 3.0), 1.0, 3.0),
    "xavier_uniform_": (lambda init, t: init.xavier_uniform_(t, 2.0), 0.0, 2 * math.sqrt(2 / 500)),
    "xavier_normal_": (lambda init, t: init.xavier_normal_(t), 0.0, math.sqrt(2 / 500)),
    "kaiming_uniform_": (lambda init, t: init.kaiming_uniform_(t, nonlinearity="relu"), 0.0, math.sqrt(2 / 300)),
    "kaiming_normal_": (lambda init, t: init.kaiming_normal_(t, mode="fan_out"), 0.0, math.sqrt(2 / 200)),
    "trunc_normal_": (lambda init, t: init.trunc_normal_(t, 0.0, 1.0, -2.0, 2.0), 0.0, 0.8796),
}


@pytest.mark.parametrize("name", MOMENTS)
def test_init_moments(name):
    fill, mean, std = MOMENTS[name]
    oneflow.manual_seed(0)
    t = oneflow.empty(200, 300)
    assert fill(oneflow.nn.init, t) is t
    values = torch.tensor(t.tolist())
    assert values.mean().item() == pytest.approx(mean, abs=4 * std / math.sqrt(60000))
    assert values.std().item() == pytest.approx(std, rel=0.02)


def test_init_fixed_values():
    init = oneflow.nn.init
    t = oneflow.empty(2, 3)
    assert init.ones_(t).tolist() == [[1, 1, 1]] * 2
    assert init.zeros_(t).tolist() == [[0, 0, 0]] * 2
    assert init.constant_(t, 2.5).tolist() == [[2.5] * 3] * 2
    assert init.eye_(t).tolist() == [[1, 0, 0], [0, 1, 0]]
    for name, param in [("relu", None), ("tanh", None), ("linear", None), ("leaky_relu", 0.2), ("selu", None)]:
        assert init.calculate_gain(name, param) == torch.nn.init.calculate_gain(name, param)


BAD = [
    (ValueError, lambda fw: fw.nn.functional.dropout(data(fw, 2), 1.5)),
    (ValueError, lambda fw: fw.nn.Dropout(-0.1)),
    (ValueError, lambda fw: fw.nn.functional.cross_entropy(data(fw, 2, 3), fw.tensor([0, 1, 2]))),
    (RuntimeError, lambda fw: fw.nn.functional.cross_entropy(data(fw, 2, 3, 4), fw.tensor([[0], [1]]))),
    (IndexError, lambda fw: fw.nn.functional.cross_entropy(data(fw, 2, 3), fw.tensor([0, 3]))),
    (RuntimeError, lambda fw: fw.nn.functional.cross_entropy(data(fw, 1, 3), fw.tensor([0]), label_smoothing=2.0)),
    (ValueError, lambda fw: fw.nn.functional.mse_loss(data(fw, 2), data(fw, 2), reduction="average")),
    (RuntimeError, lambda fw: fw.nn.functional.linear(data(fw, 2, 3), data(fw, 5, 4))),
    (RuntimeError, lambda fw: fw.nn.functional.layer_norm(data(fw, 2, 3), (4,))),
    (IndexError, lambda fw: fw.nn.functional.embedding(fw.tensor([5]), data(fw, 5, 2))),
    (AssertionError, lambda fw: fw.nn.Embedding(3, 2, padding_idx=3)),
    (RuntimeError, lambda fw: fw.nn.functional.one_hot(fw.tensor([-1]))),
    (RuntimeError, lambda fw: fw.nn.functional.pad(data(fw, 2), (1, 2, 3))),
    (ValueError, lambda fw: fw.nn.init.xavier_uniform_(data(fw, 3))),
    (ValueError, lambda fw: fw.nn.init.calculate_gain("nothing")),
    (TypeError, lambda fw: fw.nn.Linear(2, 3)()),
    (NotImplementedError, lambda fw: fw.nn.Module()(1)),
]


@pytest.mark.parametrize("i", range(len(BAD)))
def test_errors_are_torchs(i):
    kind, make = BAD[i]
    for fw in (oneflow, torch):
        with pytest.raises(kind):
            make(fw)


@pytest.mark.parametrize("eps", [None, 1e-6])
def test_rms_norm_of_half_types_rounds_once(eps):
    x = torch.randn(64, 96, generator=torch.Generator().manual_seed(0))
    want = torch.nn.functional.rms_norm(x.bfloat16(), (96,), torch.ones(96).bfloat16(), eps)
    weight = oneflow.ones(96, dtype=oneflow.bfloat16)
    have = oneflow.nn.functional.rms_norm(oneflow.tensor(x.numpy()).bfloat16(), (96,), weight, eps)
    assert have.float().tolist() == want.float().tolist()
