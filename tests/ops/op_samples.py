"""The op table's own samples as arguments for either framework, in several dtypes and memory layouts."""

import numpy as np
from oneflow import _oneflow

TABLE = {op["name"]: op for op in _oneflow._C._ops()}
DTYPES = ("float32", "float64", "bfloat16", "int64", "bool")
LAYOUTS = ("contiguous", "transposed", "stepped")


def _array(kind, dtype, rng):
    _, declared, sizes, low, high = kind
    wanted = dtype if declared == "float32" else declared
    values = rng.uniform(low, high, size=sizes)
    if wanted == "bool":
        values = values > (low + high) / 2
    elif wanted == "int64":
        values = np.floor(values)
    return np.asarray(values), wanted


def _laid_out(t, layout):
    """The same values in other strides."""
    if layout == "transposed" and t.ndim >= 2:
        return t.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "stepped" and t.ndim >= 1 and t.shape[-1] > 0:
        wide = t.new_zeros((*t.shape[:-1], 2 * t.shape[-1]))
        wide[..., ::2] = t
        return wide[..., ::2]
    return t


def build(fw, described, dtype, layout, seed):
    """Arguments of one sample for a framework: equal for both, since they come from one seed."""
    rng = np.random.default_rng(seed)

    def make(a):
        if isinstance(a, tuple) and a and a[0] == "tensor":
            values, wanted = _array(a, dtype, rng)
            t = fw.tensor(values.tolist(), dtype=fw.float64 if wanted not in ("bool", "int64") else getattr(fw, wanted))
            t = t.reshape(tuple(a[2])).to(getattr(fw, wanted))
            return _laid_out(t, layout)
        if isinstance(a, tuple) and a and a[0] == "list":
            return [make(i) for i in a[1]]
        if isinstance(a, tuple) and a and a[0] == "dtype":
            return getattr(fw, a[1])
        return a

    args, kwargs = described
    return [make(a) for a in args], {k: make(v) for k, v in kwargs.items()}


def leaves(x):
    """Tensors of a result, in order."""
    return [t for item in x for t in leaves(item)] if isinstance(x, (tuple, list)) else [x]


def to_numpy(t):
    """Values; bfloat16 as float32."""
    t = t.detach()
    return (t.float() if str(t.dtype).endswith("bfloat16") else t).numpy()


def dtype_name(t):
    return str(t.dtype).rpartition(".")[2]


# Sums of a few elements and transcendental functions: some units in the last place of the format.
TOLERANCE = {"float32": (2e-5, 2e-6), "float64": (1e-9, 1e-10), "bfloat16": (1.6e-2, 1e-2)}
TOLERANCE |= {"complex64": TOLERANCE["float32"], "complex128": TOLERANCE["float64"]}


def check_equal(ours, theirs, values=True, strides=True, looser=1):
    """Equal structure, shapes, dtypes, strides and values, these within `looser` times the tolerance of the dtype."""
    ours, theirs = leaves(ours), leaves(theirs)
    assert len(ours) == len(theirs), f"{len(ours)} results, {len(theirs)} expected"
    for a, b in zip(ours, theirs, strict=True):
        assert tuple(a.shape) == tuple(b.shape)
        assert dtype_name(a) == dtype_name(b)
        if strides:
            assert a.stride() == b.stride(), f"strides of shape {tuple(a.shape)}"
        if values:
            rtol, atol = TOLERANCE.get(dtype_name(b), (0, 0))
            np.testing.assert_allclose(to_numpy(a), to_numpy(b), rtol=looser * rtol, atol=looser * atol, equal_nan=True)
