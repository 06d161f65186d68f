"""Strides of results beside PyTorch's, for inputs with channels last, in another order of dimensions, or with gaps.

The functions and their samples are those of PyTorch's own table of ops. Programs rely on such strides: `view` refuses
what does not lie as it expects.
"""

import functools
import itertools
import re
import warnings

import oneflow
import pytest
import torch

with warnings.catch_warnings():
    # Its other tests are skipped with the names of their packages.
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

pytestmark = pytest.mark.filterwarnings("ignore")
N_SAMPLES = 6
# Ours lie otherwise, and how.
DIFFERS = {
    "__getitem__": "theirs keep the order of the dimensions that no list indexes; ours are contiguous",
    "__radd__": "operands of different orders: which is first",
    "__rmul__": "operands of different orders: which is first",
    "rsub": "operands of different orders: which is first",
    "conj_physical": "theirs of a real tensor is the tensor itself",
    "float": "theirs ignores a memory format where the dtype stays",
    "histogram": "theirs copies the edges that it is given",
    "igamma": "a composition: which of two operands is first",
    "igammac": "a composition: which of two operands is first",
    "index_fill": "theirs keeps gaps of one dimension",
    "kthvalue": "theirs depends on the copy that it sorts",
    "linalg.eig": "vectors lie by columns in theirs",
    "linalg.eigh": "vectors are signed otherwise",
    "linalg.matrix_power": "the power 0 and 1",
    "linalg.matrix_sqrth": "matrices of one element",
    "max_pool2d_with_indices_backward": "of a gradient that is contiguous",
    "nn.functional.conv1d": "padding on one side makes ours channels-last again",
    "nn.functional.conv_transpose3d": "theirs are contiguous",
    "nn.functional.hinge_embedding_loss": "a composition without reduction",
    "nn.functional.interpolate": "area of sequences",
    "nn.functional.max_pool1d": "theirs depends on whether a gradient is wanted",
    "nn.functional.pixel_shuffle": "sizes of one",
    "nn.functional.pixel_unshuffle": "sizes of one",
    "nn.functional.prelu": "no elements",
    "nn.functional.rms_norm": "no elements",
    "nn.functional.scaled_dot_product_attention": "theirs depends on which kernel is chosen",
}
POLYNOMIALS = re.compile(r"special\..*_polynomial_")


def channels_last(x):
    if x.dim() in (4, 5):
        return x.contiguous(memory_format=torch.channels_last if x.dim() == 4 else torch.channels_last_3d)
    return x.transpose(-1, -2).contiguous().transpose(-1, -2) if x.dim() >= 2 else x


def permuted(x):
    order = list(range(x.dim()))[::-1]
    order = order[1:] + order[:1] if x.dim() >= 3 else order
    return x.permute(order).contiguous().permute([order.index(d) for d in range(x.dim())])


def stepped(x):
    if x.dim() == 0:
        return x
    wide = x.new_zeros((*x.shape[:-1], 2 * x.shape[-1]))
    wide[..., ::2] = x
    return wide[..., ::2]


LAYOUTS = {f.__name__: f for f in (channels_last, permuted, stepped)}


def ours_of(x):
    """The same elements in the same strides."""
    n = 1 + sum((size - 1) * stride for size, stride in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
    flat = torch.empty(0, dtype=x.dtype).set_(x.untyped_storage())[x.storage_offset() : x.storage_offset() + n]
    return oneflow.from_numpy(flat.numpy().copy()).as_strided(tuple(x.shape), x.stride())


class CannotTranslate(Exception):
    pass


def both(value, layout):
    """The value for PyTorch and for us, its tensors in the layout."""
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided or value.dtype in (torch.bfloat16, torch.complex32):
            raise CannotTranslate
        theirs = layout(value.detach().resolve_conj().resolve_neg())
        return theirs, ours_of(theirs)
    if isinstance(value, (list, tuple)) and not isinstance(value, torch.Size):
        pairs = [both(v, layout) for v in value]
        return type(value)(p[0] for p in pairs), type(value)(p[1] for p in pairs)
    if isinstance(value, dict):
        pairs = {k: both(v, layout) for k, v in value.items()}
        return {k: p[0] for k, p in pairs.items()}, {k: p[1] for k, p in pairs.items()}
    if isinstance(value, (torch.dtype, torch.memory_format)):
        return value, getattr(oneflow, str(value).rpartition(".")[2])
    if value is None or isinstance(value, (bool, int, float, complex, str, slice, torch.Size)):
        return value, tuple(value) if isinstance(value, torch.Size) else value
    raise CannotTranslate


def found(name):
    """Our function of the name that PyTorch's table has; None if it is not one function of that name in both."""
    try:
        place = functools.reduce(getattr, name.split("."), torch)
        return (place, functools.reduce(getattr, name.split("."), oneflow)) if callable(place) else None
    except AttributeError:
        return None


def layouts_of(result):
    if isinstance(result, (tuple, list)):
        return [s for item in result for s in layouts_of(item)]
    return [(tuple(result.shape), tuple(result.stride()))] if hasattr(result, "stride") else []


def cases():
    seen = set()
    for op in op_db:
        if op.name in seen or op.name in DIFFERS or POLYNOMIALS.match(op.name) or op.name.startswith("_"):
            continue
        if torch.float32 in op.supported_dtypes("cpu") and found(op.name) is not None:
            seen.add(op.name)
            yield op


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("op", cases(), ids=lambda op: op.name)
def test_results_lie_as_in_pytorch(op, layout):
    theirs, ours = found(op.name)
    compared = 0
    for sample in op.sample_inputs("cpu", torch.float32):
        if compared == N_SAMPLES:
            break
        try:
            arguments, mine = both((sample.input, *sample.args), LAYOUTS[layout])
            named, my_named = both(sample.kwargs, LAYOUTS[layout])
            expected = layouts_of(theirs(*arguments, **named))
        except Exception:
            # What PyTorch refuses, or what is not made of tensors and numbers.
            continue
        assert layouts_of(ours(*mine, **my_named)) == expected, (arguments, named)
        compared += 1


BINARY = (
    "add sub mul div fmod remainder eq lt ge maximum fmax copysign xlogy atan2 hypot logical_and heaviside nextafter "
    "where clamp_min"
).split()
OTHERS = {
    "number": lambda package: 2.0,
    "0-dim": lambda package: package.tensor(2.0),
    "one element": lambda package: package.full((1,), 2.0),
    "a row": lambda package: package.full((1, 1, 3), 2.0),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("op", BINARY)
def test_dimensions_of_size_one_beside_another_size(op, other):
    # Beside an operand of another size the strides of dimensions of size one decide too.
    for shape in ((3, 1, 3), (1, 3, 3), (3, 3, 1), (1, 1, 3), (1, 3, 1), (3, 1, 1)):
        for a, b in ((0, 1), (1, 2), (0, 2)):
            results = []
            for package in (torch, oneflow):
                x = package.ones(shape).transpose(a, b)
                y = OTHERS[other](package)
                try:
                    result = package.where(x > 2, x, y) if op == "where" else getattr(package, op)(x, y)
                except TypeError:
                    result = None
                results.append(result if result is None else (tuple(result.shape), result.stride()))
            if results[0] is not None:
                assert results[1] == results[0], (shape, a, b)


def test_pictures_stack_to_a_contiguous_batch():
    # What a data loader makes of pictures that were read row by row with the channels last.
    pictures = [oneflow.rand(4, 5, 3).permute(2, 0, 1) for _ in range(2)]
    batch = oneflow.stack(pictures)
    assert batch.is_contiguous()
    assert batch.view(2, -1).shape == (2, 60)
    assert oneflow.equal(batch[1], pictures[1])


def test_sequences_with_features_last_stay_so_in_a_convolution():
    x = oneflow.rand(2, 7, 3)
    y = oneflow.nn.Conv1d(3, 4, 3, padding=1)(x.transpose(1, 2)).transpose(1, 2)
    assert y.view(2, -1).shape == (2, 28)


def test_gradients_of_stacked_tensors():
    for dim in range(-4, 4):
        parts = [torch.randn(2, 3, 4).permute(2, 0, 1).double().requires_grad_() for _ in range(3)]
        mine = [oneflow.from_numpy(p.detach().numpy()).requires_grad_() for p in parts]
        weight = torch.randn(torch.stack(parts, dim).shape, dtype=torch.float64)
        (torch.stack(parts, dim) * weight).sum().backward()
        (oneflow.stack(mine, dim) * oneflow.from_numpy(weight.numpy())).sum().backward()
        for p, m in zip(parts, mine, strict=True):
            assert (p.grad.numpy() == m.grad.numpy()).all()


@pytest.mark.parametrize(
    "sizes",
    [
        (2, 1, 3, 4),
        (2, 3, 1, 1),
        (1, 1, 1, 1),
        (1, 3, 1, 4),
        (2, 3, 4, 5),
        (2, 1, 3, 3, 3),
        (2, 3, 1, 1, 1),
        (2, 3),
        (3, 2, 4),
    ],
)
def test_to_a_memory_format(sizes):
    """The format that strides speak of: of one channel or one pixel, of views, and of another dtype."""
    formats = ["contiguous_format", *{4: ["channels_last"], 5: ["channels_last_3d"]}.get(len(sizes), [])]

    def strides(fw, start, target, view):
        x = fw.empty(sizes, memory_format=getattr(fw, start))
        x = {"whole": x, "part": x[..., :1], "transposed": x.transpose(-1, -2)}[view]
        to = {"memory_format": getattr(fw, target)}
        made = [
            x.to(**to),
            x.to(fw.float64, **to),
            x.to(copy=True, **to),
            x.double(**to),
            x.contiguous(**to),
            x.clone(**to),
        ]
        return [t.stride() for t in made] + [x.to(**to) is x]

    for case in itertools.product(formats, formats, ("whole", "part", "transposed")):
        assert strides(oneflow, *case) == strides(torch, *case), case
    layers = [fw.nn.Conv2d(1, 1, 1).to(memory_format=fw.channels_last) for fw in (oneflow, torch)]
    assert layers[0].weight.stride() == layers[1].weight.stride()
