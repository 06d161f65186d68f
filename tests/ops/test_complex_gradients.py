"""Gradients of complex numbers through every function for which PyTorch has them, with PyTorch's own samples."""

import functools
import warnings

import numpy as np
import oneflow
import pytest
import torch
from ops.op_samples import leaves

with warnings.catch_warnings():
    # Its other tests are skipped with the names of their packages.
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

pytestmark = pytest.mark.filterwarnings("ignore")
# Gradients are those of functions that do not depend on the phases of the vectors.
PHASES = ("linalg.svd", "svd", "linalg.eig", "linalg.eigh", "pca_lowrank", "svd_lowrank", "linalg.householder_product")
# The table calls these with their arguments in another order, or as methods.
OTHER_ORDER = ("einsum", "where", "zero_", "bfloat16", "double", "float", "half", "cdouble", "cfloat", "chalf")
# Theirs gives the overwritten element a gradient if the part has no dimension; a phase may differ by whole turns.
NOT_THEIRS = ("as_strided_scatter", "logcumsumexp", "nn.functional.triplet_margin_with_distance_loss")
# Other numbers are drawn.
RANDOM = tuple(f"nn.functional.{name}" for name in ("dropout", "dropout2d", "dropout3d", "alpha_dropout"))
# Not in this package; `masked` is a family of its own.
WITHOUT = ("_", "ops.", "sparse.", "torch.", "masked.", "linalg.ldl", "linalg.tensor", "hash_tensor", "geqrf")
N_SAMPLES = 6


def found(framework, name):
    try:
        return functools.reduce(getattr, name.split("."), framework)
    except AttributeError:
        return None


def table():
    """Each function once, with the entry of the table that has its samples."""
    ops = {}
    for op in op_db:
        if torch.complex128 not in op.supported_backward_dtypes("cpu") or op.name.startswith(WITHOUT):
            continue
        if (
            op.name not in (*PHASES, *OTHER_ORDER, *NOT_THEIRS, *RANDOM)
            and found(torch, op.name) is not None
            and not op.variant_test_name
        ):
            ops.setdefault(op.name, op)
    return ops


OPS = table()


def moved(value, framework):
    """The arguments of a sample for a framework; tensors that want a gradient are new leaves."""
    if isinstance(value, torch.Tensor):
        array = value.detach().resolve_conj().resolve_neg().numpy()
        t = framework.tensor(array.copy(), dtype=getattr(framework, str(value.dtype)[6:]))
        return t.requires_grad_(value.requires_grad)
    if isinstance(value, torch.dtype):
        return getattr(framework, str(value)[6:])
    if isinstance(value, dict):
        return {k: moved(v, framework) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(moved(v, framework) for v in value)
    return value


def gradients(framework, op, sample):
    """The results that are differentiable, and the gradients of their products with fixed numbers."""
    args, kwargs = moved([sample.input, *sample.args], framework), moved(sample.kwargs, framework)
    inputs = [t for t in leaves([args, list(kwargs.values())]) if isinstance(t, framework.Tensor) and t.requires_grad]
    framework.manual_seed(0)
    results = [r for r in leaves(found(framework, op.name)(*args, **kwargs)) if isinstance(r, framework.Tensor)]
    results = [r for r in results if r.requires_grad]
    rng = np.random.default_rng(0)
    weights = []
    for r in results:
        w = rng.normal(size=tuple(r.shape)) + (1j * rng.normal(size=tuple(r.shape)) if r.is_complex() else 0)
        weights.append(framework.tensor(w, dtype=r.dtype))
    if not results or not inputs:
        return [], []
    grads = framework.autograd.grad(results, inputs, weights, allow_unused=True)
    return [r.detach() for r in results], grads


def array(t):
    return t.resolve_conj().resolve_neg().numpy()


@pytest.mark.parametrize("name", OPS)
def test_gradients(name):
    assert found(oneflow, name) is not None, f"there is no {name}"
    op, n_compared = OPS[name], 0
    for sample in op.sample_inputs("cpu", torch.complex128, requires_grad=True):
        theirs, their_grads = gradients(torch, op, sample)
        ours, our_grads = gradients(oneflow, op, sample)
        assert len(ours) == len(theirs)
        for a, b in [*zip(ours, theirs, strict=True), *zip(our_grads, their_grads, strict=True)]:
            # Theirs has none where it would be all zeros.
            a = a if b is None or a is not None else oneflow.zeros_like(b)
            if b is not None:
                np.testing.assert_allclose(array(a), array(b), rtol=1e-6, atol=1e-8, err_msg=str(sample)[:2000])
        n_compared += bool(theirs)
        if n_compared == N_SAMPLES:
            break


@pytest.mark.parametrize("name", ["dropout", "dropout1d", "dropout2d", "dropout3d"])
def test_dropout_keeps_or_drops_whole_numbers(name):
    n_dims = int(name[-2]) if name[-1] == "d" else 1
    x = oneflow.full((40, 50, *[2] * n_dims), 1 + 2j, requires_grad=True)
    oneflow.manual_seed(0)
    y = getattr(oneflow.nn.functional, name)(x, 0.5)
    y.backward(oneflow.full_like(y, 1j))
    kept = y.detach() != 0
    assert 0.3 < kept.double().mean().item() < 0.7
    assert oneflow.equal(y.detach(), oneflow.where(kept, 2 + 4j, 0j)) and oneflow.equal(x.grad != 0, kept)
