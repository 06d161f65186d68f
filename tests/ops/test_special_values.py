"""Every op returns PyTorch's result for NaN, infinities, denormals, signed zeros and limits of each float format."""

import math
import warnings

import numpy as np
import oneflow
import pytest
import torch
from oneflow import _oneflow
from ops.op_samples import dtype_name, leaves
from ops.test_table import CASES, NO_VALUES

FLOATS = ("float32", "float64", "float16", "bfloat16")
NAN, INF = math.nan, math.inf


def _patterns(dtype):
    """Values by name: each fills the float tensors of a sample, over and over."""
    info = torch.finfo(getattr(torch, dtype))
    least = info.smallest_normal * info.eps
    big, normal = info.max, info.smallest_normal
    patterns = {
        "nan": [1.0, 0.5, NAN, -2.0, 3.0],
        "infinities": [INF, -INF, NAN, 0.0, 2.0, -1.0, INF],
        "small": [least, -least, normal, -normal, 0.0, -0.0, least * 3],
        # Of one sign: no order of additions overflows that another does not.
        "large": [big, 1.0, big / 2, 0.5, info.eps],
    }
    if dtype in ("float32", "bfloat16"):
        patterns |= {
            "inf": [1.0, INF, 0.5, -2.0, 0.25],
            "-inf": [-INF, 1.0, 0.5, -2.0, 3.0],
            "zeros": [0.0, -0.0, -0.0, 1.0, 0.0, -1.0, -0.0],
            "all large": [big],
        }
    return patterns


def _filled(described, dtype, values, seed):
    """The arguments of a sample for both frameworks, with the values in every tensor of floats."""
    rng = np.random.default_rng(seed)
    pairs = []

    def make(a):
        if isinstance(a, tuple) and a and a[0] == "tensor":
            _, declared, sizes, low, high = a
            if declared == "float32":
                n = int(np.prod(sizes))
                # Every value at least once, if there is room.
                picked = np.concatenate([np.asarray(values), rng.choice(values, n)])[:n]
                picked = rng.permutation(picked) if n >= len(values) else rng.choice(values, n)
                theirs = torch.tensor(picked, dtype=torch.float64).to(getattr(torch, dtype))
            else:
                picked = np.floor(rng.uniform(low, high, size=sizes))
                theirs = torch.tensor(picked).to(getattr(torch, declared))
            theirs = theirs.reshape(tuple(sizes))
            wide = torch.complex128 if theirs.is_complex() else torch.float64
            ours = oneflow.tensor(theirs.to(wide).numpy()).to(getattr(oneflow, dtype_name(theirs)))
            pairs.append((ours, theirs))
            return ours, theirs
        if isinstance(a, tuple) and a and a[0] == "list":
            made = [make(i) for i in a[1]]
            return [m[0] for m in made], [m[1] for m in made]
        if isinstance(a, tuple) and a and a[0] == "dtype":
            return getattr(oneflow, a[1]), getattr(torch, a[1])
        return a, a

    args, kwargs = described
    made, named = [make(a) for a in args], {k: make(v) for k, v in kwargs.items()}
    return tuple(([m[side] for m in made], {k: m[side] for k, m in named.items()}) for side in (0, 1))


def _plain(t):
    t = t.detach()
    return t.to(
        getattr(__import__(type(t).__module__.split(".")[0]), "complex128" if t.is_complex() else "float64")
    ).numpy()


# Ops that keep the sign of zero. Of both zeros either is the greatest, and a sum of them has the sign of its order.
KEEP_ZEROS = {
    "sin",
    "tan",
    "asin",
    "atan",
    "sinh",
    "asinh",
    "tanh",
    "atanh",
    "expm1",
    "log1p",
    "sqrt",
    "erf",
    "neg",
    "abs",
}
KEEP_ZEROS |= {
    "round",
    "trunc",
    "ceil",
    "floor",
    "mul",
    "div",
    "add",
    "copysign",
    "nan_to_num",
    "where",
    "flip",
    "roll",
}
# Their values are compared; which of equal elements an index names is open.
NAME_ONE_OF_EQUALS = {"topk", "kthvalue"}
ROUNDING = {"float32": 4e-6, "float64": 1e-13, "float16": 4e-3, "bfloat16": 3.2e-2}


def _differs(ours, theirs, pattern, check_zeros):
    """Return the difference of two results, or None."""
    ours, theirs = leaves(ours), leaves(theirs)
    if len(ours) != len(theirs):
        return f"{len(ours)} results for {len(theirs)}"
    for a, b in zip(ours, theirs, strict=True):
        if not isinstance(b, torch.Tensor):
            if a != b and not (a != a and b != b):
                return f"{a} for {b}"
            continue
        if dtype_name(a) != dtype_name(b) or tuple(a.shape) != tuple(b.shape):
            return f"{dtype_name(a)} {tuple(a.shape)} for {dtype_name(b)} {tuple(b.shape)}"
        p, q = _plain(a), _plain(b)
        name = dtype_name(b)
        name = {"complex64": "float32", "complex128": "float64"}.get(name, name)
        for x, y in ((p.real.reshape(-1), q.real.reshape(-1)), (p.imag.reshape(-1), q.imag.reshape(-1))):
            rtol = ROUNDING.get(name, 0)
            atol = 3 * rtol if pattern in ("nan", "inf", "-inf", "infinities", "zeros") else 0
            if name in ROUNDING:
                info = torch.finfo(getattr(torch, name))
                atol = max(atol, 4 * info.smallest_normal * info.eps)
            with np.errstate(all="ignore"):
                same = (
                    (x == y)
                    | (np.isnan(x) & np.isnan(y))
                    | (np.isfinite(x) & np.isfinite(y) & (np.abs(x - y) <= atol + rtol * np.abs(y)))
                )
            if not same.all():
                i = int(np.argmin(same))
                return f"{x[i]!r} for {y[i]!r} ({(~same).sum()} of {same.size})"
            signed = (x != 0) | (y != 0) | (np.signbit(x) == np.signbit(y))
            if check_zeros and not signed.all():
                return f"sign of zero ({(~signed).sum()} of {signed.size})"
    return None


def differences(name, ours, theirs, dtype):
    """(pattern, sample, difference) of an op in one dtype."""
    for n, described in enumerate(_oneflow._C._samples(name)[:2]):
        if not any(isinstance(a, tuple) and a and a[0] in ("tensor", "list") for a in described[0]):
            continue
        for pattern, values in _patterns(dtype).items():
            mine, reference = _filled(described, dtype, values, n)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    wanted = theirs(*reference[0], **reference[1])
                except Exception:
                    continue
                try:
                    got = ours(*mine[0], **mine[1])
                except Exception as e:
                    yield pattern, n, f"raised {e!r:.200}"
                    continue
                if name in NAME_ONE_OF_EQUALS:
                    got, wanted = got[0], wanted[0]
                found = _differs(got, wanted, pattern, pattern == "zeros" and name in KEEP_ZEROS)
            if found:
                yield pattern, n, found


FORMS = {}
for _case in CASES:
    FORMS.setdefault(_case[0], _case)
FORMS = [c for c in FORMS.values() if c[0] not in NO_VALUES]

# Where results differ for a reason: (reason, ops, patterns that are left out; all of them where there are none).
NOT_FINITE = ("nan", "infinities", "inf", "-inf", "large", "all large")
RANGE_ENDS = ("small", "large", "all large")
INFINITE = ("infinities", "inf", "-inf", "all large")
CONVOLUTIONS = [n for n in (c[0] for c in FORMS) if n.startswith("conv")]
JUSTIFIED = [
    ("which products with zeros of the padding are formed is each algorithm's own", CONVOLUTIONS, NOT_FINITE),
    (
        "a factorisation of what is not finite, or nearly singular, has no meaning",
        ["det", "geqrf", "slogdet"],
        ("infinities", "inf", "-inf", *RANGE_ENDS),
    ),
    ("sequences that are not sorted", ["bucketize", "bucketize.scalar", "searchsorted", "searchsorted.scalar"], None),
    ("complex32 is not supported", ["complex", "polar", "view_as_complex"], None),
    ("half types are not supported", ["nextafter"], None),
    (
        "theirs is NaN at infinity, where the function is its argument, and rounds products below the normal numbers",
        ["gelu"],
        ("infinities", "inf", *RANGE_ENDS),
    ),
    ("theirs rounds numbers below the normal ones to zero", ["erf"], ("small",)),
    ("theirs hides NaN of a row; ours shows it", ["scaled_dot_product_attention"], NOT_FINITE),
    ("theirs subtracts the ends from the sum, which is infinity minus infinity", ["trapezoid", "trapz"], INFINITE),
    ("theirs takes the exponential of a matrix that is not finite for one", ["matrix_exp"], None),
    ("the pole at zero is infinite; theirs is a large number", ["polygamma"], ("nan", "zeros", "large", *INFINITE)),
    ("the square root's branch in half precision is theirs alone", ["pow"], ("-inf",)),
    ("theirs adds in half precision", ["adaptive_avg_pool3d"], ("large",)),
    ("squares overflow in the statistics; ours are of double width", ["layer_norm"], ("large", "all large")),
    ("squares overflow in the statistics; ours are of double width", ["group_norm"], ("large", *INFINITE)),
    ("infinity times a weight: theirs starts from the nearer end by the weight alone", ["lerp"], INFINITE),
    (
        "the order in which a smoothed or weighted loss overflows",
        ["cross_entropy", "binary_cross_entropy_with_logits", "nll_loss"],
        ("large", "all large"),
    ),
    (
        "their means beside a variance are running ones: NaN for infinity, finite where a sum overflows",
        [f"{n}{form}" for n in ("var_mean", "std_mean") for form in ("", ".dim", ".unbiased")],
        ("large", *INFINITE),
    ),
    (
        "ours is the root of a variance in the input's format",
        [f"{n}{form}" for n in ("std", "std_mean") for form in ("", ".dim", ".unbiased")],
        RANGE_ENDS,
    ),
    ("half types go through a sum in single precision", ["var", "var.unbiased"], ("all large",)),
]
LEFT_OUT = {(name, p) for _, names, patterns in JUSTIFIED for name in names for p in patterns or [None]}


@pytest.mark.parametrize("case", FORMS, ids=[c[0] for c in FORMS])
def test_special_values(case):
    name, _, ours, theirs = case
    if (name, None) in LEFT_OUT:
        pytest.skip("see JUSTIFIED")
    found = [
        f"{dtype}, {pattern}, sample {n}: {what}"
        for dtype in FLOATS
        for pattern, n, what in differences(name, ours, theirs, dtype)
        if (name, pattern) not in LEFT_OUT
    ]
    assert not found, "\n".join(found)


def test_reasons_name_ops():
    """No reason outlives its op."""
    assert {name for _, names, _ in JUSTIFIED for name in names} <= {c[0] for c in FORMS}
