"""Parametrizations, norms of weights, pruning, fusion, lazy modules and dropout, compared with PyTorch."""

import copy

import oneflow
import pytest
import torch
from torch_oracle import close


def linear(fw, n_in=3, n_out=4):
    layer = fw.nn.Linear(n_in, n_out)
    with fw.no_grad():
        layer.weight.copy_(fw.arange(n_in * n_out).reshape(n_out, n_in) * 0.1 + 0.1)
        layer.bias.fill_(0.5)
    return layer


@pytest.mark.parametrize("dim", [0, 1, None])
@pytest.mark.parametrize("form", ["parametrization", "hook"])
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
def test_weight_norm_equals_torch(dim, form):
    results = []
    for fw in (oneflow, torch):
        utils = fw.nn.utils.parametrizations if form == "parametrization" else fw.nn.utils
        layer = utils.weight_norm(linear(fw), dim=dim)
        layer(fw.ones(2, 3)).square().sum().backward()
        results.append((list(layer.state_dict()), [p.grad for p in layer.parameters()], layer.weight))
    (names, grads, weight), (their_names, their_grads, their_weight) = results
    assert names == their_names
    close(weight, their_weight)
    for a, b in zip(grads, their_grads, strict=True):
        close(a, b, 1e-4)


@pytest.mark.parametrize("form", ["parametrization", "hook"])
def test_spectral_norm_bounds_the_greatest_singular_value(form):
    utils = oneflow.nn.utils.parametrizations if form == "parametrization" else oneflow.nn.utils
    layer = utils.spectral_norm(linear(oneflow, 5, 4))
    theirs = getattr(torch.nn.utils, "parametrizations" if form == "parametrization" else "spectral_norm")
    theirs = theirs.spectral_norm if form == "parametrization" else theirs
    assert list(layer.state_dict()) == list(theirs(linear(torch, 5, 4)).state_dict())
    for _ in range(20):
        layer(oneflow.ones(1, 5))
    assert torch.linalg.matrix_norm(torch.tensor(layer.weight.tolist()), 2).item() == pytest.approx(1.0, abs=1e-3)
    layer(oneflow.ones(1, 5)).sum().backward()
    remove = oneflow.nn.utils.parametrize.remove_parametrizations
    if form == "parametrization":
        remove(layer, "weight")
    else:
        oneflow.nn.utils.remove_spectral_norm(layer)
    assert sorted(layer.state_dict()) == ["bias", "weight"]


@pytest.mark.parametrize("orthogonal_map", [None, "matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5)])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal_weights_are_orthogonal(orthogonal_map, shape, trivial):
    layer = oneflow.nn.Linear(shape[1], shape[0])
    layer = oneflow.nn.utils.parametrizations.orthogonal(
        layer, orthogonal_map=orthogonal_map, use_trivialization=trivial
    )

    def check():
        w = torch.tensor(layer.weight.tolist())
        gram = w.T @ w if shape[0] >= shape[1] else w @ w.T
        torch.testing.assert_close(gram, torch.eye(min(shape)), rtol=1e-4, atol=1e-4)

    check()
    optimizer = oneflow.optim.SGD(layer.parameters(), lr=0.1)
    layer(oneflow.ones(2, shape[1])).square().sum().backward()
    optimizer.step()
    check()


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("orthogonal_map", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (3, 5), (2, 4, 4)])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal_weights_are_those_of_pytorch(dtype, orthogonal_map, shape, trivial):
    """A checkpoint of one holds the same weight in the other; where free columns are drawn, the first ones agree."""
    if dtype == "complex128" and orthogonal_map == "householder":
        pytest.skip("refused: test_householder_refuses_complex")
    generator = torch.Generator().manual_seed(3)
    value = torch.randn(shape, dtype=getattr(torch, dtype), generator=generator)
    weights, states, grads = [], [], []
    for fw in (oneflow, torch):
        layer = fw.nn.Module()
        layer.weight = fw.nn.Parameter(fw.tensor(value.tolist(), dtype=getattr(fw, dtype)))
        fw.nn.utils.parametrizations.orthogonal(layer, orthogonal_map=orthogonal_map, use_trivialization=trivial)
        weight = layer.weight
        (weight * fw.tensor(value.tolist(), dtype=getattr(fw, dtype))).abs().sum().backward()
        weights.append(torch.tensor(weight.tolist()))
        state = {key: tuple(t.shape) for key, t in layer.state_dict().items()}
        states.append(state)
        square = shape[-1] == shape[-2]
        grads.append(torch.tensor(layer.parametrizations.weight.original.grad.tolist()) if square else None)
    assert states[0] == states[1]
    torch.testing.assert_close(weights[0], weights[1], rtol=1e-6, atol=1e-6)
    w = weights[0]
    gram = w.mH @ w if shape[-2] >= shape[-1] else w @ w.mH
    torch.testing.assert_close(gram, torch.eye(gram.shape[-1], dtype=w.dtype).expand(gram.shape), rtol=0, atol=1e-6)
    if grads[0] is not None:
        torch.testing.assert_close(grads[0], grads[1], rtol=1e-5, atol=1e-6)


def test_householder_refuses_complex():
    with pytest.raises(ValueError, match="does not support complex"):
        oneflow.nn.utils.parametrizations.orthogonal(
            oneflow.nn.Linear(3, 3, dtype=oneflow.complex64), orthogonal_map="householder"
        )


def test_spectral_norm_of_complex_weights():
    layer = oneflow.nn.Linear(4, 3, dtype=oneflow.complex64)
    oneflow.nn.utils.parametrizations.spectral_norm(layer, n_power_iterations=30)
    layer(oneflow.ones(1, 4, dtype=oneflow.complex64))
    weight = torch.tensor(layer.weight.tolist())
    assert torch.linalg.matrix_norm(weight, 2).item() == pytest.approx(1.0, abs=1e-3)


def test_parametrize_is_torchs_interface():
    class Double(oneflow.nn.Module):
        def forward(self, x):
            return x * 2

        def right_inverse(self, x):
            return x / 2

    P = oneflow.nn.utils.parametrize
    layer = linear(oneflow)
    before = layer.weight.tolist()
    weight = layer.weight
    P.register_parametrization(layer, "weight", Double())
    assert P.is_parametrized(layer) and P.is_parametrized(layer, "weight") and not P.is_parametrized(layer, "bias")
    assert layer.weight.tolist() == before and layer.parametrizations.weight.original is weight
    assert type(layer).__name__ == "ParametrizedLinear" and P.type_before_parametrizations(layer) is oneflow.nn.Linear
    layer.weight = oneflow.ones(4, 3)
    assert layer.parametrizations.weight.original.tolist() == [[0.5] * 3] * 4
    P.register_parametrization(layer, "weight", Double())
    # A further one leaves the original as it is.
    assert layer.weight.tolist() == [[2.0] * 3] * 4
    with P.cached():
        assert layer.weight is layer.weight
    twin = copy.deepcopy(layer)
    assert twin.weight.tolist() == layer.weight.tolist() and twin.weight is not layer.weight
    P.remove_parametrizations(layer, "weight")
    assert type(layer) is oneflow.nn.Linear and isinstance(layer.weight, oneflow.nn.Parameter)
    with pytest.raises(ValueError, match="does not have a parametrization"):
        P.remove_parametrizations(layer, "weight")

    class Shrink(oneflow.nn.Module):
        def forward(self, x):
            return x[:1]

    with pytest.raises(ValueError, match="may not change the shape"):
        P.register_parametrization(layer, "weight", Shrink())


def test_pruning_equals_torch():
    for name, args in [
        ("l1_unstructured", {"amount": 0.4}),
        ("ln_structured", {"amount": 2, "n": 2, "dim": 0}),
        ("identity", {}),
    ]:
        ours, theirs = linear(oneflow), linear(torch)
        from oneflow.nn.utils import prune
        from torch.nn.utils import prune as their_prune

        for _ in range(1 if name == "identity" else 2):
            getattr(prune, name)(ours, "weight", **args)
            getattr(their_prune, name)(theirs, "weight", **args)
        close(ours.weight_mask, theirs.weight_mask)
        assert list(ours.state_dict()) == list(theirs.state_dict()) and prune.is_pruned(ours)
        close(ours(oneflow.ones(1, 3)), theirs(torch.ones(1, 3)))
        prune.remove(ours, "weight")
        assert sorted(ours.state_dict()) == ["bias", "weight"] and not prune.is_pruned(ours)
    a, b = linear(oneflow), linear(oneflow, 2, 2)
    prune.global_unstructured([(a, "weight"), (b, "weight")], prune.L1Unstructured, amount=5)
    assert int((a.weight == 0).sum()) + int((b.weight == 0).sum()) == 5
    with pytest.raises(ValueError, match="should either be a float"):
        prune.random_unstructured(a, "weight", amount=-1)


@pytest.mark.parametrize("transpose", [False, True])
def test_fused_convolution_is_both(transpose):
    kind = oneflow.nn.ConvTranspose2d if transpose else oneflow.nn.Conv2d
    conv, norm = kind(2, 3, 3).eval(), oneflow.nn.BatchNorm2d(3).eval()
    with oneflow.no_grad():
        norm.running_mean.copy_(oneflow.tensor([0.1, 0.2, 0.3]))
        norm.running_var.copy_(oneflow.tensor([0.5, 1.5, 2.5]))
        norm.weight.copy_(oneflow.tensor([1.0, 2.0, 3.0]))
    x = oneflow.randn(2, 2, 6, 6)
    fused = oneflow.nn.utils.fuse_conv_bn_eval(conv, norm, transpose)
    assert (fused(x) - norm(conv(x))).abs().max().item() < 1e-5
    layer, norm = oneflow.nn.Linear(3, 4).eval(), oneflow.nn.BatchNorm1d(4).eval()
    x = oneflow.randn(5, 3)
    fused = oneflow.nn.utils.fuse_linear_bn_eval(layer, norm)
    assert (fused(x) - norm(layer(x))).abs().max().item() < 1e-5


LAZY = [
    ("LazyLinear", {"out_features": 4}, (2, 3)),
    ("LazyConv1d", {"out_channels": 4, "kernel_size": 2}, (2, 3, 5)),
    ("LazyConv2d", {"out_channels": 4, "kernel_size": 2, "groups": 2, "bias": False}, (2, 4, 5, 5)),
    ("LazyConvTranspose2d", {"out_channels": 4, "kernel_size": 2}, (2, 3, 5, 5)),
    ("LazyBatchNorm2d", {}, (2, 3, 5, 5)),
    ("LazyInstanceNorm1d", {"affine": True, "track_running_stats": True}, (2, 3, 5)),
]


@pytest.mark.parametrize("name, options, shape", LAZY)
def test_lazy_modules_become_ordinary_ones(name, options, shape):
    ours, theirs = getattr(oneflow.nn, name)(**options), getattr(torch.nn, name)(**options)
    assert ours.has_uninitialized_params()
    with pytest.raises(RuntimeError, match="uninitialized"):
        next(ours.parameters()).shape
    ours(oneflow.ones(*shape)), theirs(torch.ones(*shape))
    assert type(ours) is getattr(oneflow.nn, name.removeprefix("Lazy"))
    mine, other = ours.state_dict(), theirs.state_dict()
    assert {k: tuple(v.shape) for k, v in mine.items()} == {k: tuple(v.shape) for k, v in other.items()}
    fresh = getattr(oneflow.nn, name)(**options)
    fresh.load_state_dict(mine)
    x = oneflow.randn(*shape)
    assert (fresh(x) - ours(x)).abs().max().item() < 1e-6
    optimizer = oneflow.optim.SGD(ours.parameters(), lr=0.1)
    ours(x).square().sum().backward()
    optimizer.step()


def test_dropout_of_channels():
    x = oneflow.ones(4, 50, 3, 3)
    y = oneflow.nn.Dropout2d(0.4)(x)
    flat = y.flatten(2)
    assert bool((flat == flat[..., :1]).all()) and float(y.max()) == pytest.approx(1 / 0.6)
    assert 0.2 < float((flat[..., 0] == 0).float().mean()) < 0.6
    assert oneflow.nn.Dropout1d(0.5)(oneflow.ones(6, 4)).shape == (6, 4)
    assert oneflow.nn.Dropout3d(0.5).eval()(x.unsqueeze(-1)).equal(x.unsqueeze(-1))
    z = oneflow.nn.AlphaDropout(0.3)(oneflow.randn(200, 200))
    assert abs(z.mean().item()) < 0.05 and abs(z.std().item() - 1) < 0.05
    assert oneflow.nn.FeatureAlphaDropout(0.3)(x).shape == x.shape
    with pytest.raises(ValueError, match="between 0 and 1"):
        oneflow.nn.functional.dropout2d(x, 1.5)


def test_bilinear_equals_torch():
    ours, theirs = oneflow.nn.Bilinear(3, 4, 5), torch.nn.Bilinear(3, 4, 5)
    theirs.load_state_dict({k: torch.tensor(v.tolist()) for k, v in ours.state_dict().items()})
    a, b = torch.randn(2, 6, 3), torch.randn(2, 6, 4)
    close(ours(oneflow.tensor(a.tolist()), oneflow.tensor(b.tolist())), theirs(a, b))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("n", [1, 2, float("inf")])
def test_structured_pruning_ranks_what_is_left(n, dim):
    """Elements that an earlier pruning removed do not count in the norms, as in PyTorch."""
    from oneflow.nn.utils import prune
    from torch.nn.utils import prune as their_prune

    for _ in range(20):
        ours, theirs = oneflow.nn.Linear(6, 5), torch.nn.Linear(6, 5)
        theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
        for library, module in ((prune, ours), (their_prune, theirs)):
            library.l1_unstructured(module, "weight", amount=12)
            library.ln_structured(module, "weight", amount=2, n=n, dim=dim)
        assert ours.weight_mask.tolist() == theirs.weight_mask.tolist()
