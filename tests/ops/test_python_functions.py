"""Functions written in Python hold what ops hold: PyTorch's values and gradients, traced as eager, on ranks as alone.

The samples are those of PyTorch's own table of ops. Which functions these are is found, not listed: everything public
that is a Python function and has samples there.
"""

import ast
import functools
import sys
import types
import warnings
from pathlib import Path

import numpy as np
import oneflow
import pytest
import torch
from oneflow import sbp
from oneflow.testing import run_ranks

with warnings.catch_warnings():
    # It says which packages its other tests would need.
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

pytestmark = pytest.mark.filterwarnings("ignore:.*deprecated", "ignore:A window was not provided")


def found(name):
    place = oneflow
    for part in name.split("."):
        place = getattr(place, part, None)
    return place if isinstance(place, types.FunctionType) else None


OPS = {op.name: op for op in op_db if found(op.name) is not None and not op.variant_test_name}
# Functions without a tensor that answers or takes tensors' places, or whose answer is drawn.
NO_TENSOR = {"broadcast_shapes", "allclose", "equal", "slice", "zero_", "resize_as_"}
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
# What reads values of tensors, and why: a trace refuses it and says so.
READS = {
    "histogram": "the bounds of the data",
    "histogramdd": "the bounds of the data",
    "igamma": "series end where all elements have converged",
    "igammac": "series end where all elements have converged",
    "linalg.lstsq": "there are residuals where all matrices have full rank",
    "nn.functional.one_hot": "the number of classes, where it is not given",
    "nonzero": "the size of the result",
    "unique": "the size of the result",
    "unique_consecutive": "the size of the result",
    **{n: "the largest degree of a tensor of degrees" for n in NAMES if "_polynomial_" in n},
}


@functools.cache
def samples(name):
    op = OPS[name]
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


def close(a, b, tolerance=1e-9):
    np.testing.assert_allclose(np.asarray(a.tolist()), np.asarray(b.tolist()), rtol=tolerance, atol=tolerance)


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
            close(a, b)
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
                close(a, b)

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
            if b is not None:
                close(a if a is not None else oneflow.zeros(b.shape), b, 1e-6)


def modules():
    """Files of the functions above, and of what OneFlow alone has."""
    named = {Path(sys.modules[found(name).__module__].__file__) for name in OPS}
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
