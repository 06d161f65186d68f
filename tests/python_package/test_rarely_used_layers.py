"""Layers that few programs use, compared with PyTorch's."""

import itertools

import numpy as np
import oneflow
import pytest
import torch
from torch_oracle import close

BOTH = (oneflow, torch)


def tensor(fw, *shape, seed=0, grad=False):
    values = torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).tolist()
    return fw.tensor(values, requires_grad=grad)


POOLS = [
    (2, (2, 3, 9, 8), {"kernel_size": 2, "output_size": (4, 5)}),
    (2, (3, 9, 8), {"kernel_size": (3, 2), "output_ratio": 0.5}),
    (2, (1, 2, 7, 7), {"kernel_size": 2, "output_size": 1}),
    (3, (2, 2, 7, 6, 8), {"kernel_size": 2, "output_size": (3, 4, 5)}),
    (3, (2, 2, 7, 6, 8), {"kernel_size": (2, 3, 2), "output_ratio": (0.5, 0.4, 0.6)}),
]


@pytest.mark.parametrize("n, shape, options", POOLS)
def test_fractional_pooling(n, shape, options):
    results = []
    for fw in BOTH:
        x = tensor(fw, *shape, grad=True)
        batch = shape[:2] if len(shape) == n + 2 else (1, shape[0])
        samples = fw.tensor(torch.rand(*batch, n, generator=torch.Generator().manual_seed(1)).tolist())
        layer = getattr(fw.nn, f"FractionalMaxPool{n}d")(**options, return_indices=True, _random_samples=samples)
        y, where = layer(x)
        y.square().sum().backward()
        results.append((y, where, x.grad))
    for a, b in zip(*results, strict=True):
        close(a, b)
    free = getattr(oneflow.nn, f"FractionalMaxPool{n}d")(**options)(tensor(oneflow, *shape))
    assert tuple(free.shape) == tuple(results[1][0].shape)


def test_fractional_pooling_of_bad_sizes():
    for fw in BOTH:
        with pytest.raises(ValueError):
            fw.nn.FractionalMaxPool2d(2)
        with pytest.raises(ValueError):
            fw.nn.FractionalMaxPool2d(2, output_ratio=1.5)
        with pytest.raises(RuntimeError):
            fw.nn.functional.fractional_max_pool2d(fw.ones(1, 1, 4, 4), 3, output_size=4)


@pytest.mark.parametrize("head_bias", [False, True])
def test_adaptive_softmax(head_bias):
    results = []
    for fw in BOTH:
        layer = fw.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10, 15], div_value=2.0, head_bias=head_bias)
        with fw.no_grad():
            for i, p in enumerate(layer.parameters()):
                p.copy_(tensor(fw, *p.shape, seed=i))
        x = tensor(fw, 7, 16, grad=True)
        target = fw.tensor([0, 3, 4, 9, 12, 19, 1])
        output, loss = layer(x, target)
        loss.backward()
        grads = [x.grad, *(p.grad for p in layer.parameters())]
        assert list(layer.state_dict()) == list(
            torch.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [4, 10, 15], div_value=2.0, head_bias=head_bias).state_dict()
        )
        results.append([output, loss, layer.log_prob(x), layer.predict(x), layer(x[0], target[0]).output, *grads])
        with pytest.raises(RuntimeError, match="Target values should be"):
            layer(x, target + 9)
        with pytest.raises(ValueError, match="cutoffs"):
            fw.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [10, 4])
    for a, b in zip(*results, strict=True):
        close(a, b, 1e-4)


CASES = {
    "Unflatten": lambda fw: fw.nn.Unflatten(1, (3, -1))(tensor(fw, 2, 12)),
    "Unflatten of the last": lambda fw: fw.nn.Unflatten(-1, [2, 6])(tensor(fw, 12)),
    "CrossMapLRN2d": lambda fw: fw.nn.CrossMapLRN2d(3, 0.1, 0.5, 2.0)(tensor(fw, 2, 5, 4, 4)),
    "conv_tbc": lambda fw: fw.conv_tbc(tensor(fw, 6, 2, 3), tensor(fw, 3, 3, 4, seed=1), tensor(fw, 4, seed=2), 1),
    "native_channel_shuffle": lambda fw: fw.nn.functional.native_channel_shuffle(tensor(fw, 2, 6, 3, 3), 3),
}


@pytest.mark.parametrize("case", CASES)
def test_equals_torch(case):
    close(*(CASES[case](fw) for fw in BOTH))


def test_grouped_products():
    a, b = tensor(oneflow, 6, 4), tensor(oneflow, 2, 4, 3, seed=1)
    ends = oneflow.tensor([2, 6], dtype=oneflow.int32)
    F = oneflow.nn.functional
    close(
        F.grouped_mm(a, b, offs=ends),
        torch.cat(
            [
                torch.tensor(a[:2].tolist()) @ torch.tensor(b[0].tolist()),
                torch.tensor(a[2:].tolist()) @ torch.tensor(b[1].tolist()),
            ]
        ),
    )
    close(F.grouped_mm(a.reshape(2, 3, 4), b), torch.tensor(a.reshape(2, 3, 4).tolist()) @ torch.tensor(b.tolist()))
    assert F.grouped_mm(a.t(), a, offs=ends).shape == (2, 4, 4)
    with pytest.raises(RuntimeError, match="offsets"):
        F.grouped_mm(a, b)


def test_linear_and_cross_entropy_in_one():
    layer = oneflow.nn.LinearCrossEntropyLoss(5, 4, bias=True, label_smoothing=0.1)
    x, target = tensor(oneflow, 6, 5), oneflow.tensor([0, 1, 2, 3, 1, 0])
    plain = oneflow.nn.functional.cross_entropy(layer.linear(x), target, label_smoothing=0.1)
    assert layer(x, target).item() == pytest.approx(plain.item(), rel=1e-5)
    assert list(layer.state_dict()) == list(torch.nn.LinearCrossEntropyLoss(5, 4, bias=True).state_dict())


CASES_OF_CHUNKS = {
    "mean": {},
    "sum": {"reduction": "sum"},
    "none": {"reduction": "none"},
    "weights": {"weight": [0.1, 0.5, 1.0, 2.0, 0.3, 0.7, 1.5]},
    "ignored": {"ignore_index": 2},
    "weights and ignored": {"ignore_index": 0, "weight": [0.1, 0.5, 1.0, 2.0, 0.3, 0.7, 1.5]},
    "smoothing": {"label_smoothing": 0.2},
    "smoothing and weights": {"label_smoothing": 0.2, "weight": [0.1, 0.5, 1.0, 2.0, 0.3, 0.7, 1.5]},
    "probabilities": {"probabilities": True},
    "probabilities and weights": {"probabilities": True, "weight": [0.1, 0.5, 1.0, 2.0, 0.3, 0.7, 1.5]},
}
CHUNKS = [{}, {"batch_chunk_size": 2}, {"chunking_method": None}, {"chunking_method": "aspect_ratio:2"}]


@pytest.mark.parametrize("case", CASES_OF_CHUNKS)
def test_linear_and_cross_entropy_in_chunks(case):
    """Losses and gradients of PyTorch's plain form, however rows are divided."""
    given = dict(CASES_OF_CHUNKS[case])
    has_probabilities = given.pop("probabilities", False)

    def run(fw, options):
        x, w, b = (tensor(fw, *sizes).double().requires_grad_() for sizes in ((5, 3), (7, 3), (7,)))
        target = fw.tensor([0, 2, 6, -100 if "ignore_index" not in given else 2, 3])
        if has_probabilities:
            target = tensor(fw, 5, 7).double().softmax(1)
        rest = {k: fw.tensor(v, dtype=fw.float64) if k == "weight" else v for k, v in given.items()}
        y = fw.nn.functional.linear_cross_entropy(x, w, target, linear_bias=b, options=options, **rest)
        y.sin().sum().backward()
        return [t.detach().tolist() for t in (y, x.grad, w.grad, b.grad)]

    want = run(torch, None)
    for options in CHUNKS:
        got = run(oneflow, oneflow.nn.LinearCrossEntropyOptions(**options))
        for one, right in zip(got, want, strict=True):
            assert np.allclose(one, right, rtol=1e-10, atol=1e-12), options


def test_chunks_keep_no_logits():
    rows, classes, kept = 64, 256, []
    x, w = oneflow.ones(rows, 4, requires_grad=True), oneflow.ones(classes, 4, requires_grad=True)
    target = oneflow.zeros(rows, dtype=oneflow.int64)
    for options in (
        None,
        oneflow.nn.LinearCrossEntropyOptions(),
        oneflow.nn.LinearCrossEntropyOptions(acc_dtype=x.dtype),
    ):
        sizes = []
        with oneflow.autograd.graph.saved_tensors_hooks(lambda t, to=sizes: to.append(t.numel()) or t, lambda t: t):
            oneflow.nn.functional.linear_cross_entropy(x, w, target, options=options)
        kept.append(max(sizes, default=0))
    assert kept[0] == rows * classes > max(kept[1:])


def test_options_of_chunks():
    kind = oneflow.nn.LinearCrossEntropyOptions
    assert repr(kind()) == repr(torch.nn.LinearCrossEntropyOptions())
    for fw in BOTH:
        kind = fw.nn.LinearCrossEntropyOptions
        for bad in (
            {"batch_chunk_size": 0},
            {"chunking_method": "x"},
            {"chunking_method": "aspect_ratio:0"},
            {"acc_policy": "y"},
            {"acc_dtype": fw.int32},
        ):
            with pytest.raises(ValueError, match=next(iter(bad))):
                kind(**bad)
        x, w = fw.ones(6, 3), fw.ones(5, 3)
        with pytest.raises(ValueError, match="pass only one"):
            options = kind(batch_chunk_size=2, chunking_method="aspect_ratio")
            fw.nn.functional.linear_cross_entropy(x, w, fw.tensor([0] * 6), options=options)
        layer = fw.nn.LinearCrossEntropyLoss(3, 5, options=kind(batch_chunk_size=4), dtype=fw.bfloat16)
        assert layer(x.bfloat16(), fw.tensor([0] * 6)).dtype == fw.bfloat16
    for n, features, classes in itertools.product((1, 5, 64, 1000), (1, 3, 64), (2, 64, 5000)):
        for given in ({}, {"chunking_method": "aspect_ratio:4"}, {"batch_chunk_size": 7}):
            theirs = torch.nn.LinearCrossEntropyOptions(**given)._adjust(n, features, classes, torch.float32)
            rows = oneflow.nn.LinearCrossEntropyOptions(**given)._rows(n, features, classes, False)
            assert rows == theirs.batch_chunk_size, (n, features, classes, given)
    with pytest.raises(TypeError, match="LinearCrossEntropyOptions"):
        oneflow.nn.functional.linear_cross_entropy(
            oneflow.ones(2, 3), oneflow.ones(5, 3), oneflow.tensor([0, 1]), options=3
        )


def test_unflatten_of_bad_sizes():
    for fw in BOTH:
        for size in (3, (2, "a")):
            with pytest.raises(TypeError):
                fw.nn.Unflatten(1, size)


def test_a_module_compiles_in_place():
    layer = oneflow.nn.Sequential(oneflow.nn.Linear(3, 4), oneflow.nn.ReLU())
    x = tensor(oneflow, 2, 3)
    eager = layer(x)
    seen = []
    layer.register_forward_hook(lambda m, args, out: seen.append(1))
    layer.compile(fullgraph=True)
    assert (layer(x) - eager).abs().max().item() < 1e-6 and seen == [1]
    layer(x).sum().backward()
    assert layer[0].weight.grad is not None
    import copy
    import pickle

    twin = copy.deepcopy(layer)
    twin[0].weight.data.zero_()
    twin[0].bias.data.fill_(1.0)
    assert twin(x).tolist() == [[1.0] * 4] * 2 and (layer(x) - eager).abs().max().item() < 1e-6
    plain = oneflow.nn.Linear(3, 4)
    plain.compile()
    again = pickle.loads(pickle.dumps(plain))
    assert (again(x) - plain(x)).abs().max().item() < 1e-6


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("options", [{}, {"stride": 2, "padding": 1}, {"groups": 2, "dilation": 2}], ids=str)
def test_gradients_of_convolutions_equal_torch(n, options):
    groups = options.get("groups", 1)
    shape, weight_shape = (2, 4, *[7] * n), (6, 4 // groups, *[3] * n)
    results = []
    for fw in (oneflow, torch):
        x = fw.sin(fw.arange(8 * 7**n, dtype=fw.float32)).reshape(shape)
        w = fw.cos(fw.arange(24 // groups * 3**n, dtype=fw.float32)).reshape(weight_shape)
        y = getattr(fw.nn.functional, f"conv{n}d")(x, w, **options)
        g = fw.sin(fw.arange(y.numel(), dtype=fw.float32) * 0.3).reshape(y.shape)
        results.append(
            [
                getattr(fw.nn.grad, f"conv{n}d_input")(shape, w, g, **options),
                getattr(fw.nn.grad, f"conv{n}d_weight")(x, weight_shape, g, **options),
            ]
        )
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(torch.tensor(ours.tolist()), theirs, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(2, 8, 4, 6), (1, 8, 6, 4), (8, 4, 2)])
@pytest.mark.parametrize("name", ["pixel_shuffle", "pixel_unshuffle", "channel_shuffle"])
def test_shuffles_keep_the_memory_format(name, shape):
    if name == "channel_shuffle" and len(shape) == 3:
        return  # Its channels are the second dimension of any number.
    for order in ("contiguous_format", "channels_last"):
        results = []
        for fw in BOTH:
            x = tensor(fw, *shape)
            if len(shape) == 4:
                x = x.to(memory_format=getattr(fw, order))
            results.append(getattr(fw.nn.functional, name)(x, 2))
        ours, theirs = results
        close(ours, theirs)
        assert ours.stride() == theirs.stride(), order
