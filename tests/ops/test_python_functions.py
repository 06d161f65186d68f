"""Functions written in Python pass the tests of ops: PyTorch's values and gradients, tracing, several ranks.

The samples are those of PyTorch's own table of ops. Which functions these are is found, not listed: everything public
that is a Python function and has samples there.
"""

import ast
import functools
import inspect
import types
import warnings
from pathlib import Path

import oneflow
import pytest
import torch
from oneflow import sbp
from oneflow.testing import run_ranks
from torch_oracle import close

with warnings.catch_warnings():
    # Its other tests are skipped with the names of their packages.
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*deprecated", "ignore:A window was not provided", "ignore:Sparse CSR tensor support"
)


def found(name):
    place = oneflow
    for part in name.split("."):
        place = getattr(place, part, None)
    return place if isinstance(place, types.FunctionType) else None


OPS = {}
for op in op_db:
    if found(op.name) is not None:
        OPS.setdefault(op.name, op)


def real(*shape, grad=True):
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_(grad)


class Entry:
    """Functions without an entry in PyTorch's table: a name, PyTorch's function of that name, and its arguments."""

    variant_test_name, supports_autograd = "", True

    def __init__(self, name, *args, reference=None, **kwargs):
        self.name, self.args, self.kwargs = name, args, kwargs
        self.op = reference or functools.reduce(getattr, name.split("."), torch)


SQUARE = torch.tensor([[4.0, 1.0], [1.0, 3.0]], dtype=torch.float64, requires_grad=True)
LSTM = [real(16, 3), real(16, 4), real(16), real(16)]
GRU = [real(12, 3), real(12, 4), real(12), real(12)]
RNN = [real(4, 3), real(4, 4), real(4), real(4)]
OWN = [
    Entry("batch_norm", real(4, 3), real(3), real(3), None, None, True, 0.1, 1e-5, False),
    Entry("instance_norm", real(2, 3, 5), real(3), real(3), None, None, True, 0.1, 1e-5, False),
    Entry("bilinear", real(4, 3), real(4, 2), real(5, 3, 2), real(5)),
    Entry("chain_matmul", real(4, 3), real(3, 5), real(5, 2)),
    Entry("cholesky", SQUARE, reference=torch.linalg.cholesky),
    Entry("inverse", SQUARE),
    Entry("matrix_power", SQUARE, 3),
    Entry("linalg.matrix_exp", SQUARE),
    Entry("linalg.matmul", real(4, 3), real(3, 5)),
    Entry("qr", real(4, 3), reference=torch.linalg.qr),
    Entry("orgqr", real(4, 3), real(3)),
    Entry("ger", real(4), real(3)),
    Entry("conv_tbc", real(5, 4, 3), real(2, 3, 6), real(6), 1),
    Entry("embedding", real(5, 3), torch.tensor([[0, 2], [4, 2]])),
    Entry("grid_sampler", real(2, 3, 4, 4), real(2, 2, 2, 2), 0, 0, True),
    Entry("view_as_complex_copy", real(3, 2, grad=False)),
    Entry("view_as_real_copy", torch.complex(real(3), real(3))),
    Entry("native_channel_shuffle", real(2, 6, 3, 3, grad=False), 3),
    Entry("lstm_cell", real(2, 3), (real(2, 4), real(2, 4)), *LSTM),
    Entry("gru_cell", real(2, 3), real(2, 4), *GRU),
    Entry("rnn_tanh_cell", real(2, 3), real(2, 4), *RNN),
    Entry("rnn_relu_cell", real(2, 3), real(2, 4), *RNN),
    Entry("lstm", real(5, 2, 3), (real(1, 2, 4), real(1, 2, 4)), LSTM, True, 1, 0.0, False, False, False),
    Entry("gru", real(5, 2, 3), real(1, 2, 4), GRU, True, 1, 0.0, False, False, False),
    Entry("rnn_tanh", real(5, 2, 3), real(1, 2, 4), RNN, True, 1, 0.0, False, False, False),
    Entry("rnn_relu", real(5, 2, 3), real(1, 2, 4), RNN, True, 1, 0.0, False, False, False),
    Entry("nn.functional.affine_grid", real(2, 2, 3), [2, 1, 3, 4], False),
    Entry("nn.functional.fold", real(2, 12, 9), [4, 4], [2, 2]),
    Entry("nn.functional.adaptive_max_pool2d_with_indices", real(2, 3, 5, 5), [2, 3]),
    Entry("nn.functional.max_pool1d_with_indices", real(2, 3, 7), 3, 2),
    Entry("nn.functional.max_pool3d_with_indices", real(2, 3, 4, 4, 4), 2),
    Entry("nn.functional.lp_pool1d", real(2, 3, 7), 2.0, 3, 2),
    Entry("nn.functional.lp_pool2d", real(2, 3, 7, 6), 2.0, 3, 2),
    Entry("nn.functional.lp_pool3d", real(2, 3, 4, 4, 4), 2.0, 2),
    Entry("nn.functional.upsample", real(2, 3, 4, 4), scale_factor=2, mode="bilinear"),
    Entry("nn.functional.sigmoid", real(4, 3)),
    Entry("nn.functional.tanh", real(4, 3)),
    Entry("nn.functional.softmax", real(4, 3), 1),
    Entry("nn.functional.log_softmax", real(4, 3), 1),
    Entry("special.softmax", real(4, 3), 1),
    Entry("special.log_softmax", real(4, 3), 1),
    Entry("special.logsumexp", real(4, 3), 1),
]
OPS.update({entry.name: entry for entry in OWN})
# Public Python functions that compute no tensor of tensors, or are held elsewhere: why, by name or the end of a name.
ELSEWHERE = {
    "_": "the in-place form of a function above",
    "_window": "tests/python_package/test_windows.py",
    "freq": "a range of numbers, in tests/ops of fft",
    "dequantize": "tests/python_package/test_rarely_used_names.py",
    "detach": "a tensor without its history",
    "detach_copy": "a tensor without its history",
    "grouped_mm": "tests/python_package/test_rarely_used_names.py",
    "scaled_mm": "tests/ops/test_scaled_products.py",
    "scaled_grouped_mm": "tests/ops/test_scaled_products.py",
    "adaptive_max_pool1d_with_indices": "the pooling of two dimensions",
    "adaptive_max_pool3d_with_indices": "the pooling of two dimensions",
    "max_pool2d_with_indices": "the pooling of one dimension",
    "dropout": "drawn",
    "dropout1d": "drawn",
    "gumbel_softmax": "drawn",
    "fractional_max_pool2d_with_indices": "drawn",
    "fractional_max_pool3d_with_indices": "drawn",
    "range": "a range of numbers",
    "sparse_coo_tensor": "tests of sparse tensors",
    "vmap": "a function of functions",
    "as_masked_tensor": "tests/ops/test_masked_tensors.py",
    "is_masked_tensor": "tests/ops/test_masked_tensors.py",
    "masked_tensor": "tests/ops/test_masked_tensors.py",
}
# Functions without a tensor that could override, of sparse ones, or of places to write to; and functions that draw.
NO_TENSOR = {"broadcast_shapes", "allclose", "equal", "slice", "sparse.mm", "zero_", "resize_as_"}
DRAWN = {
    "nn.functional.alpha_dropout",
    "nn.functional.dropout",
    "nn.functional.dropout2d",
    "nn.functional.dropout3d",
    "nn.functional.feature_alpha_dropout",
    "nn.functional.fractional_max_pool2d",
    "nn.functional.fractional_max_pool3d",
    "nn.functional.multi_head_attention_forward",
    "nn.functional.rrelu",
    "pca_lowrank",
    "svd_lowrank",
}
NAMES = sorted(set(OPS) - NO_TENSOR - DRAWN)
# Functions that read values of tensors, and why: a trace refuses them with that reason.
READS = {
    "histogram": "the bounds of the data",
    "histogramdd": "the bounds of the data",
    "igamma": "series end where all elements have converged",
    "igammac": "series end where all elements have converged",
    "linalg.ldl_factor": "pivots are chosen by numbers",
    "linalg.ldl_factor_ex": "pivots are chosen by numbers",
    "linalg.ldl_solve": "pivots are chosen by numbers",
    "linalg.lstsq": "there are residuals where all matrices have full rank",
    "nn.functional.one_hot": "the number of classes, where it is not given",
    "nonzero": "the size of the result",
    "_segment_reduce": "whether the lengths add up",
    "segment_reduce": "whether the lengths add up",
    "unique": "the size of the result",
    "unique_consecutive": "the size of the result",
    **{n: "the largest degree of a tensor of degrees" for n in NAMES if "_polynomial_" in n},
}


@functools.cache
def samples(name):
    op = OPS[name]
    if isinstance(op, Entry):
        return [(op.args, op.kwargs)]
    dtype = torch.float64 if torch.float64 in op.supported_dtypes("cpu") else torch.int64
    dtype = torch.complex128 if name == "istft" else dtype
    given = []
    for sample in op.sample_inputs("cpu", dtype, requires_grad=op.supports_autograd and dtype != torch.int64):
        given.append(((sample.input, *sample.args), sample.kwargs))
        if len(given) == 40:
            break
    # The first, and one from the middle, where options are.
    return [given[i] for i in sorted({0, len(given) // 2})]


def converted(value, move):
    if isinstance(value, torch.Tensor):
        if value.layout != torch.strided:
            pytest.skip("a sample of sparse tensors")
        t = oneflow.tensor(value.detach().numpy(), dtype=getattr(oneflow, str(value.dtype)[6:]))
        return move(t, value)
    if isinstance(value, torch.dtype):
        return getattr(oneflow, str(value)[6:])
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(converted(v, move) for v in value)
    if callable(value) and getattr(value, "__module__", "").startswith("torch"):
        pytest.skip("a sample with a function of PyTorch")
    return value


@functools.cache
def function(name):
    """Ours; where an entry of the table wraps its function, that wrapper around ours."""
    op = OPS[name].op
    if not isinstance(op, types.FunctionType) or not op.__module__.startswith("torch.testing"):
        return found(name)
    return types.FunctionType(op.__code__, {**op.__globals__, "torch": oneflow}, name, op.__defaults__, op.__closure__)


def called(name, sample, move=lambda t, _: t):
    args, kwargs = sample
    args, kwargs = converted(args, move), {k: converted(v, move) for k, v in kwargs.items()}
    return leaves(function(name)(*args, **kwargs))


def leaves(value):
    if isinstance(value, (tuple, list)):
        return [leaf for v in value for leaf in leaves(v)]
    return [value] if isinstance(value, (torch.Tensor, oneflow.Tensor)) else []


@pytest.mark.parametrize("name", NAMES)
def test_traced_is_eager(name):
    refused = False
    for sample in samples(name):
        eager = called(name, sample)
        tensors = []

        def held(t, _, tensors=tensors):
            tensors.append(t)
            return len(tensors) - 1, tensors

        args, kwargs = sample
        places = converted(args, held), {k: converted(v, held) for k, v in kwargs.items()}

        def again(*given, places=places, tensors=tensors):
            def put(value):
                if isinstance(value, tuple) and len(value) == 2 and value[1] is tensors:
                    return given[value[0]]
                return type(value)(put(v) for v in value) if isinstance(value, (list, tuple)) else value

            return leaves(function(name)(*put(places[0]), **{k: put(v) for k, v in places[1].items()}))

        compiled = oneflow.compile(again, fullgraph=True)
        try:
            traced = compiled(*tensors)
        except RuntimeError as error:
            assert name in READS and ("data-dependent" in str(error) or "depends on data" in str(error)), error
            refused = True
            continue
        for a, b in zip(traced, eager, strict=True):
            close(a, b, 1e-9)
    assert refused == (name in READS), "take it out of READS"


@pytest.mark.parametrize("layout", ["broadcast", "split"])
@pytest.mark.parametrize("name", NAMES)
def test_on_two_ranks(name, layout):
    for sample in samples(name):
        wanted = called(name, sample)

        def check(sample=sample, wanted=wanted):
            place = oneflow.placement.all("cpu")

            def move(t, _):
                whole = t.to_global(place, sbp.broadcast)
                is_whole = layout == "broadcast" or t.dim() == 0 or t.shape[0] < 2
                return whole if is_whole else whole.to_global(sbp=sbp.split(0))

            for a, b in zip(called(name, sample, move), wanted, strict=True):
                close(a, b, 1e-9)

        run_ranks(2, check)


@pytest.mark.parametrize("name", [n for n in NAMES if OPS[n].supports_autograd])
def test_gradients_are_pytorchs(name):
    for args, kwargs in samples(name):
        pairs = []

        def track(t, original, pairs=pairs):
            if original.requires_grad:
                t.requires_grad_()
                pairs.append((t, original))
            return t

        ours = [t for t in called(name, (args, kwargs), track) if t.requires_grad]
        theirs = [t for t in leaves(OPS[name].op(*args, **kwargs)) if t.requires_grad]
        if not theirs or not pairs:
            continue
        for a, b in zip(ours, theirs, strict=True):
            # Of an eigenvector any multiple is one.
            close(*((a.abs(), b.abs()) if name in ("linalg.eig", "linalg.eigh") else (a.detach(), b.detach())), 1e-6)
        real = [t.abs() if t.is_complex() else t for t in theirs]
        expected = torch.autograd.grad(sum(t.square().sum() for t in real), [o for _, o in pairs], allow_unused=True)
        real = [t.abs() if t.is_complex() else t for t in ours]
        got = oneflow.autograd.grad(sum(t.square().sum() for t in real), [t for t, _ in pairs], allow_unused=True)
        for a, b in zip(got, expected, strict=True):
            if a is None:
                assert b is None or not b.any()
            elif b is not None:
                close(a, b, 1e-6)


def modules():
    """Files of the functions above, and of what OneFlow alone has."""
    named = {Path(inspect.unwrap(found(name)).__code__.co_filename) for name in NAMES}
    return sorted(named | set((Path(oneflow.__file__).parent / "_extra").glob("*.py")))


@pytest.mark.parametrize("file", modules(), ids=lambda file: file.stem)
def test_no_numpy_and_no_loop_over_elements(file):
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            named = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            assert not any(name.partition(".")[0] == "numpy" for name in named), f"line {node.lineno} imports numpy"
        if isinstance(node, (ast.For, ast.comprehension)):
            calls = [c.func.attr for c in ast.walk(node.iter) if isinstance(c, ast.Call) and hasattr(c.func, "attr")]
            assert not {"tolist", "numel", "item", "flatten"} & set(calls), (
                f"line {node.iter.lineno} loops over elements"
            )


def test_every_function_has_samples():
    known = {id(found(name)) for name in OPS}
    places = ("nn.functional", "linalg", "special", "fft", "masked", "signal.windows")
    left = []
    for place in places:
        module = functools.reduce(getattr, place.split("."), oneflow)
        for name, function in vars(module).items():
            is_own = isinstance(function, types.FunctionType) and function.__module__.startswith("oneflow")
            # Functions of OneFlow alone are covered by test_compositions.
            is_own = is_own and not inspect.unwrap(function).__module__.startswith("oneflow._extra")
            if is_own and not name.startswith("_") and name != "replicate_like" and id(function) not in known:
                left.append(name)
    ends = tuple(end for end in ELSEWHERE if end in ("_", "_window", "freq"))
    assert [name for name in left if name not in ELSEWHERE and not name.endswith(ends)] == []
