"""Each forward op of the table on real numbers, exported from its own samples and run in ONNX Runtime.

An op counts as exported if all of its samples agree with eager execution. Not counted are private ops, ops that draw
random numbers, those that take or return complex numbers, and those of several devices.
"""

from __future__ import annotations

import numpy as np
import oneflow as flow
import pytest
from oneflow import _oneflow
from oneflow._trace.structure import flatten, unflatten
from ops.op_samples import TABLE, build

LEAST = 0.94
_DRAWS = (
    "rand dropout bernoulli multinomial normal uniform exponential cauchy geometric poisson rrelu gamma binomial random"
)
# Results that are not defined, and functions that need several devices.
_LEFT_OUT = ("empty", "global", "to_local", "backward")


def _callable(op):
    name = op["public"]
    if "function" in op["faces"]:
        return getattr(flow, name)
    if "nn" in op["faces"]:
        return getattr(_oneflow, name)
    if "method" in op["faces"]:
        return getattr(flow.Tensor, name)
    return None


def _cases():
    for name, op in TABLE.items():
        words = f"{_DRAWS} {_LEFT_OUT}".split()
        if "private" in op["faces"] or any(word in name for word in words) or _callable(op) is None:
            continue
        samples = _oneflow._C._samples(name)
        if samples:
            yield name, op, samples


def _is_complex(tensors):
    return any(t.is_complex() for t in tensors)


def outcome(op, described, number, session):
    """None for a sample that agrees, False for one that is not counted, else its error."""
    args, kwargs = build(flow, described, "float32", "contiguous", number)
    call, inputs, expected = _callable(op), [], []
    structure = flatten((args, kwargs), inputs, None)

    class Call(flow.nn.Module):
        def forward(self, *tensors):
            given, named = unflatten(structure, iter(tensors))
            return call(*given, **named)

    try:
        with flow.no_grad():
            flatten(Call()(*inputs), expected, None)
    except Exception:
        return False  # An error is what the sample is for.
    if not expected or _is_complex(inputs) or _is_complex(expected):
        return False
    try:
        program = flow.onnx.export(Call(), tuple(inputs))
        made = session(program.to_bytes())({n: t.numpy() for n, t in zip(program.input_names, inputs, strict=True)})
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    for want, have in zip(expected, made, strict=True):
        want = want.numpy()
        if want.dtype != have.dtype or want.shape != have.shape:
            return f"{have.dtype} {have.shape}, not {want.dtype} {want.shape}"
        if not np.allclose(want, have, rtol=1e-3, atol=1e-4, equal_nan=True):
            return f"differs: {np.ravel(have)[:4]}, not {np.ravel(want)[:4]}"
    return None


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ops_of_the_table(session):
    counted, failed = 0, {}
    for name, op, samples in _cases():
        outcomes = [outcome(op, described, i, session) for i, described in enumerate(samples)]
        outcomes = [o for o in outcomes if o is not False]
        counted += bool(outcomes)
        if errors := [o for o in outcomes if o is not None]:
            failed[name] = errors[0].splitlines()[0][:150]
    share = 1 - len(failed) / counted
    text = "\n".join(f"{name}: {error}" for name, error in failed.items())
    print(f"{counted - len(failed)} of {counted} ops ({share:.1%}); the others:\n{text}")
    assert counted > 380
    assert share >= LEAST, text
