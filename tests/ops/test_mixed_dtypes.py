"""Ops of several tensors for every pair of dtypes: PyTorch's result dtype and values, or its error."""

import warnings

import numpy as np
import oneflow
import pytest
import torch
from oneflow import _oneflow
from ops.op_samples import dtype_name, leaves
from ops.test_table import CASES, NO_VALUES

DTYPES = ("bool", "uint8", "int8", "int64", "float16", "bfloat16", "float32", "float64", "complex64")


def _is_tensor(a):
    return isinstance(a, tuple) and a and a[0] == "tensor"


def _made(described, first, others, dims):
    """Arguments for both frameworks: small whole numbers. Without `dims` those behind the first are 0-dim."""
    rng, n = np.random.default_rng(3), 0
    args, kwargs = described

    def make(a):
        nonlocal n
        if not _is_tensor(a):
            return (
                (getattr(oneflow, a[1]), getattr(torch, a[1]))
                if isinstance(a, tuple) and a[:1] == ("dtype",)
                else (a, a)
            )
        sizes = tuple(a[2]) if n == 0 or dims else ()
        values = rng.integers(1, 4, size=sizes) if a[1] == "float32" else np.floor(rng.uniform(a[3], a[4], size=sizes))
        dtype = (first if n == 0 else others) if a[1] == "float32" else a[1]
        n += 1
        theirs = torch.tensor(values, dtype=torch.float64).to(getattr(torch, dtype))
        return oneflow.tensor(np.asarray(values, dtype="float64")).to(getattr(oneflow, dtype)), theirs

    pairs = [make(a) for a in args]
    named = {k: make(v) for k, v in kwargs.items()}
    return tuple(([p[s] for p in pairs], {k: p[s] for k, p in named.items()}) for s in (0, 1))


def differences(name, ours, theirs):
    for described in _oneflow._C._samples(name):
        floats = [a for a in [*described[0], *described[1].values()] if _is_tensor(a) and a[1] == "float32"]
        if len(floats) >= 2 and all(0 not in a[2] for a in floats):
            break
    else:
        return
    for first in DTYPES:
        for others in DTYPES:
            for dims in (True, False):
                mine, reference = _made(described, first, others, dims)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    try:
                        wanted = theirs(*reference[0], **reference[1])
                    except Exception as e:
                        wanted = e
                    try:
                        got = ours(*mine[0], **mine[1])
                    except Exception as e:
                        got = e
                where = f"{first} {others}{'' if dims else ' 0-dim'}"
                if isinstance(wanted, Exception):
                    continue  # More is allowed.
                if isinstance(got, Exception):
                    yield where, f"raises {got!r:.160}"
                    continue
                for a, b in zip(leaves(got), leaves(wanted), strict=True):
                    if not isinstance(b, torch.Tensor):
                        if a != b:
                            yield where, f"{a} for {b}"
                        continue
                    if dtype_name(a) != dtype_name(b):
                        yield where, f"{dtype_name(a)} for {dtype_name(b)}"
                        continue
                    x, y = (t.detach().to(m.complex128).numpy() for t, m in ((a, oneflow), (b, torch)))
                    tol = {"float16": 2e-3, "bfloat16": 1.6e-2}.get(dtype_name(b), 1e-5)
                    if x.shape != y.shape or not np.allclose(x, y, rtol=tol, atol=tol, equal_nan=True):
                        yield where, f"values {x.reshape(-1)[:3]} for {y.reshape(-1)[:3]}"


FORMS = {}
for _case in CASES:
    if _case[0] not in NO_VALUES:
        FORMS.setdefault(_case[0], _case)
# Where results differ for a reason.
JUSTIFIED = {
    "dist": "the difference of a half and a 0-dim complex number is complex32 in theirs",
    "binary_cross_entropy_with_logits": "two half types give theirs the second",
}
JUSTIFIED |= dict.fromkeys(
    ("l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss"), "theirs expands a 0-dim target, which then counts in full"
)


@pytest.mark.parametrize("case", FORMS.values(), ids=list(FORMS))
def test_mixed_dtypes(case):
    name, _, ours, theirs = case
    found = [f"{where}: {what}" for where, what in differences(name, ours, theirs) if "for complex32" not in what]
    if name in JUSTIFIED:
        assert found, f"{JUSTIFIED[name]}: no longer so"
        return
    assert not found, "\n".join(found)


NUMBERS = (True, 2, 2.5, 2j, 1 + 0j)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d != "bfloat16"])
@pytest.mark.parametrize("has_dims", [True, False])
def test_numbers_beside_tensors(dtype, has_dims):
    """The dtype of a tensor and a number, among them complex ones, which make complex32 of float16."""

    def run(fw, number):
        x = fw.ones(2 if has_dims else ()).to(getattr(fw, dtype))
        made = {
            "result_type": fw.result_type(x, number),
            "where": fw.where(x == x, x, number).dtype,
            "mul": (x * number).dtype,
            "add": (number + x).dtype,
            "of a 0-dim tensor": fw.result_type(x, fw.tensor(number)),
        }
        return {key: str(value).rpartition(".")[2] for key, value in made.items()}

    for number in NUMBERS:
        assert run(oneflow, number) == run(torch, number), number


def test_complex_numbers_beside_float16():
    for number in (2j, 1 + 3j):
        for call in (lambda fw, x, n: x * n, lambda fw, x, n: x + n, lambda fw, x, n: n - x):
            ours = call(oneflow, oneflow.tensor([1.0, 2.0], dtype=oneflow.float16), number).to(oneflow.complex64)
            theirs = call(torch, torch.tensor([1.0, 2.0], dtype=torch.float16), number).to(torch.complex64)
            assert ours.tolist() == theirs.tolist()
