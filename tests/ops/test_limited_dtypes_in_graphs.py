"""Ops on the dtypes that few kernels support, in graphs, compiled and on global tensors: eager values or an error."""

from functools import partial

import oneflow as flow
import pytest
from oneflow import nn, sbp
from oneflow.testing import run_ranks
from ops import test_limited_dtypes as limited

NAMES = ("uint16", "uint64", "float8_e4m3fn", "complex32")


def _leaves(x):
    return [t for item in x for t in _leaves(item)] if isinstance(x, (tuple, list)) else [x]


def _plain(x):
    """Tensors of a result by dtype, shape and values; global ones as a whole."""
    found = []
    for t in _leaves(x):
        if isinstance(t, flow.Tensor):
            t = t.to_global(sbp=sbp.broadcast).to_local() if t.is_global else t
            t = (t.dtype, tuple(t.shape), limited.wide(limited.to_torch(t)))
        found.append(t)
    return found


def _differs(ours, theirs, tolerance):
    for a, b in zip(ours, theirs, strict=True):
        if not isinstance(a, tuple):
            if a != b and a == a:
                return f"{a} instead of {b}"
        elif a[:2] != b[:2] or not limited.torch.allclose(a[2], b[2], rtol=tolerance, atol=0, equal_nan=True):
            return f"{a} instead of {b}"
    return None


def _traced(f, args, kwargs):
    class Graph(nn.Graph):
        def build(self, *args):
            return f(*args, **kwargs)

    return Graph()(*args)


def _compiled(f, args, kwargs):
    return flow.compile(partial(f, **kwargs))(*args)


def _global(f, args, kwargs, ranks, split):
    placement = flow.placement("cpu", ranks)

    def lay(a):
        if isinstance(a, list):
            return [lay(x) for x in a]
        if not isinstance(a, flow.Tensor):
            return a
        splits = split and a.ndim > 0 and a.shape[0] >= len(ranks)
        return a.to_global(placement, sbp.broadcast).to_global(sbp=sbp.split(0) if splits else sbp.broadcast)

    return f(*map(lay, args), **{k: lay(v) for k, v in kwargs.items()})


def _eager(name):
    """Every op that has a function or a method: its arguments' maker and the values of eager execution."""
    for op, form, f, _ in limited.CASES:
        described = limited._described(op)
        if form not in ("function", "method") or described is None or op in limited.NO_VALUES:
            continue
        args, kwargs = limited._built(described, name, flow)
        try:
            expected = _plain(f(*args, **kwargs))
        except (RuntimeError, TypeError, ValueError, IndexError):
            continue
        yield f"{op} {form}", f, partial(limited._built, described, name, flow), expected


def _check(name, worlds):
    wrong, n_ran = [], 0
    for what, f, make, expected in _eager(name):
        for world, run in worlds.items():
            try:
                got = _plain(run(f, *make()))
            except (RuntimeError, TypeError, ValueError, IndexError) as error:
                if len(str(error)) < 20 or "no data" in str(error) or "internal error" in str(error):
                    wrong.append(f"{what} {world}: raised {error!r}")
                continue
            n_ran += 1
            if difference := _differs(got, expected, 2e-3 if name == "complex32" else 1e-6):
                wrong.append(f"{what} {world}: {difference}")
    assert not wrong, "\n".join(wrong)
    return n_ran


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_one_rank(name):
    worlds = {"graph": _traced, "compile": _compiled}
    worlds |= {f"global, split {split}": partial(_global, ranks=[0], split=split) for split in (False, True)}
    assert _check(name, worlds) > 500


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_two_ranks(name):
    worlds = {"split": partial(_global, ranks=[0, 1], split=True)}
    assert min(run_ranks(2, _check, name, worlds)) > 130
