"""Every op of the table returns the same on a GPU as on the CPU: values, dtypes, strides, gradients, errors."""

import numpy as np
import oneflow
import pytest
from oneflow import _oneflow
from op_samples import DTYPES, LAYOUTS, TABLE, build, dtype_name, leaves

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore")]

# Whatever the memory held.
NO_VALUES = {"empty", "empty_like", "new_empty"}
# Equal elements may come in any order.
ANY_ORDER = {"topk", "sort", "argsort"}
# One step of the format; for float32 the device's own exp, log and tanh differ from the CPU's in the last places.
TOLERANCE = {"float32": (1e-4, 1e-5), "float64": (1e-9, 1e-10), "bfloat16": (1.6e-2, 1e-2)}
# Singular vectors are free in their signs: libraries choose differently.
FREE_SIGNS = {"linalg_svd"}
# Made by fusion, of floats only.
FLOATS_ONLY = {"fused_linear"}
# Layouts over several ranks: a process has one GPU here.
OPS = [
    name
    for name, op in TABLE.items()
    if not name.endswith(".global") and "to_global" not in name and name != "to_local"
]


def _call(name, args, kwargs):
    """The op in whatever public form it has: function, method, in-place."""
    op = TABLE[name]
    public, faces = op["public"], op["faces"]
    if "function" in faces or "nn" in faces:
        where = oneflow if "function" in faces else _oneflow
        return getattr(where, public)(*args, **kwargs)
    if "private" in faces:
        return getattr(_oneflow._C, public)(*args, **kwargs)
    method = public if "method" in faces else f"{public}_"
    return getattr(args[0], method)(*args[1:], **kwargs)


def _move(x, device):
    if isinstance(x, oneflow.Tensor):
        # Strides travel along: a dense copy is laid out again.
        there = x.detach().to(device)
        if there.stride() != x.stride():
            span = 1 + sum((n - 1) * s for n, s in zip(x.shape, x.stride(), strict=True)) if x.numel() else 0
            there = (
                oneflow.zeros(span, dtype=x.dtype, device=device).as_strided(tuple(x.shape), x.stride()).copy_(there)
            )
        return there
    return [_move(i, device) for i in x] if isinstance(x, list) else x


def _on(device, name, args, kwargs):
    """Move arguments to a device; ops that create tensors get a `device=`."""
    moved = [_move(a, device) for a in args], {k: _move(v, device) for k, v in kwargs.items()}
    if "Device? device" in TABLE[name]["signature"]:
        moved[1]["device"] = device
    return moved


def _outcome(name, args, kwargs):
    oneflow.manual_seed(7)
    try:
        result = [t for t in leaves(_call(name, args, kwargs)) if isinstance(t, oneflow.Tensor)]
        # Values that are wrong are reported at the next synchronisation.
        if any(t.is_cuda for t in result):
            oneflow.cuda.synchronize()
        return result, None
    except Exception as e:
        return None, e


def _numpy(t):
    t = t.detach().cpu()
    return (t.float() if t.dtype == oneflow.bfloat16 else t).numpy()


def _signed(name, results):
    """Of U, S, Vh those singular vectors whose largest element in U is positive; other results as they are."""
    if name.partition(".")[0] not in FREE_SIGNS or len(results) != 3:
        return results
    u, s, vh = results
    largest = u.detach().gather(-2, u.detach().abs().argmax(-2, keepdim=True)).sign()
    k = s.shape[-1]
    # Vectors of the null space, where there are more than singular values, have signs of their own.
    own = vh.detach().gather(-1, vh.detach().abs().argmax(-1, keepdim=True)).sign()
    rows = oneflow.cat([largest[..., :k].mT, own[..., k:, :]], -2)
    return [u * largest, s, vh * rows]


def check_same(got, wanted, values=True, name=""):
    """Equal dtypes, shapes and strides, on a GPU, with equal values."""
    assert len(got) == len(wanted)
    for g, w in zip(got, wanted, strict=True):
        assert g.is_cuda and not w.is_cuda
        assert (g.dtype, tuple(g.shape), g.stride()) == (w.dtype, tuple(w.shape), w.stride())
    if values:
        for g, w in zip(_signed(name, got), _signed(name, wanted), strict=True):
            rtol, atol = TOLERANCE.get(dtype_name(w), (0, 0))
            np.testing.assert_allclose(_numpy(g), _numpy(w), rtol=rtol, atol=atol, equal_nan=True)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", OPS)
def test_results_are_the_cpus(name, dtype, gpu):
    if name in FLOATS_ONLY and dtype in ("int64", "bool"):
        return
    for n, described in enumerate(_oneflow._C._samples(name)):
        for layout in LAYOUTS:
            here = build(oneflow, described, dtype, layout, n)
            there = _on(gpu, name, *here)
            wanted, error = _outcome(name, *here)
            got, mistake = _outcome(name, *there)
            # A kernel the CPU lacks may be there; a GPU does not look for integer divisors of zero, as in PyTorch.
            free = isinstance(error, NotImplementedError) or "ZeroDivisionError" in str(error)
            assert type(mistake) is type(error) or (free and mistake is None), f"{mistake!r} for {error!r}"
            if error is None and name != "to_copy":
                unordered = name.partition(".")[0] in ANY_ORDER and dtype in ("int64", "bool")
                first = slice(0, 1) if unordered else slice(None)
                check_same(
                    got[first],
                    wanted[first],
                    values=name not in NO_VALUES and not (unordered and "arg" in name),
                    name=name,
                )


def _gradients(name, args, kwargs):
    tensors = [t for t in leaves([*args, *kwargs.values()]) if isinstance(t, oneflow.Tensor) and t.is_floating_point()]
    tensors = [t.detach() for t in tensors]
    chosen = iter(tensors)

    def swap(x):
        if isinstance(x, list):
            return [swap(i) for i in x]
        return next(chosen).requires_grad_() if isinstance(x, oneflow.Tensor) and x.is_floating_point() else x

    args = [swap(a) for a in args]
    kwargs = {k: swap(v) for k, v in kwargs.items()}
    oneflow.manual_seed(7)
    results = [t for t in leaves(_call(name, args, kwargs)) if isinstance(t, oneflow.Tensor)]
    outputs = [t for t in _signed(name, results) if t.requires_grad]
    if not outputs or not tensors:
        return []
    # Weights that hide nothing behind a symmetry.
    total = sum((t.double() * (oneflow.arange(t.numel(), device=t.device).reshape(t.shape) + 1)).sum() for t in outputs)
    return [g for g in oneflow.autograd.grad(total, tensors, allow_unused=True) if g is not None]


@pytest.mark.parametrize("name", [n for n in OPS if "(a!)" not in TABLE[n]["signature"]])
def test_gradients_are_the_cpus(name, gpu):
    for n, described in enumerate(_oneflow._C._samples(name)):
        here = build(oneflow, described, "float64", "contiguous", n)
        try:
            wanted = _gradients(name, *here)
        except (RuntimeError, TypeError, NotImplementedError):
            # In place only, or without a gradient: the test of values has it.
            continue
        check_same(_gradients(name, *_on(gpu, name, *here)), wanted)


def test_the_checks_can_fail(gpu):
    """Planted: a wrong value, dtype and stride."""
    x = oneflow.arange(6.0).reshape(2, 3)
    for wrong in (x + 1, x.double(), x.t().contiguous().t()):
        with pytest.raises(AssertionError):
            check_same([wrong.to(gpu) if wrong.is_contiguous() else _move(wrong, gpu)], [x])
    check_same([x.to(gpu)], [x])
