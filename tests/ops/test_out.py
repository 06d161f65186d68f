"""``out=`` of every function that has it in PyTorch, into any layout, with PyTorch's resizes and errors.

The functions and their samples are those of PyTorch's own table of ops, and those of ours that its table lacks.
"""

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
# Ours has no such argument, and why.
WITHOUT = {
    "hash_tensor": "there is no such function",
    "linspace": "below, in the form that a factory has",
    "logspace": "below, in the form that a factory has",
    "native_batch_norm": "results of which a part is written",
    "split_with_sizes_copy": "a list of any length",
    "unbind_copy": "a list of any length",
    "linalg.lstsq": "of four results theirs fills those that the driver has",
    "narrow_copy": "theirs reads its input as if it were contiguous",
}
# The rows of a decomposition are unique only up to a sign; a draw is a draw; whatever the memory held.
NO_VALUES = ("linalg.eig", "linalg.eigh", "svd", "linalg.svd", "qr", "geqrf", "lobpcg", "empty")
NO_VALUES += ("multinomial", "normal", "randn", "rand", "randint", "bernoulli")


# Four numbers each.
RANGES = {
    "arange": lambda fw, out: fw.arange(4, out=out),
    "arange start": lambda fw, out: fw.arange(1, 9, 2, out=out),
    "linspace": lambda fw, out: fw.linspace(0, 3, 4, out=out),
    "logspace": lambda fw, out: fw.logspace(0, 3, 4, base=2, out=out),
    "range": lambda fw, out: fw.range(0, 3, out=out),
}


def found(framework, name):
    try:
        return functools.reduce(getattr, name.split("."), framework)
    except AttributeError:
        return None


class Call:
    """One function with arguments for either framework."""

    def __init__(self, name, args, kwargs):
        self.name, self.args, self.kwargs = name, args, kwargs

    def run(self, framework, **out):
        move = moved if framework is oneflow else lambda v: v
        function = found(framework, self.name)
        framework.manual_seed(0)
        return function(*move(list(self.args)), **move(self.kwargs), **out)


def moved(value):
    if isinstance(value, torch.Tensor):
        t = oneflow.tensor(value.detach().resolve_conj().numpy(), dtype=getattr(oneflow, str(value.dtype)[6:]))
        return t
    if isinstance(value, torch.dtype):
        return getattr(oneflow, str(value)[6:])
    if isinstance(value, dict):
        return {k: moved(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(moved(v) for v in value)
    return value


FACTORIES = [
    Call("arange", (6,), {}),
    Call("arange", (1, 6, 2), {}),
    Call("eye", (3, 4), {}),
    Call("full", ((3, 4), 1.5), {}),
    Call("linspace", (0, 1, 5), {}),
    Call("logspace", (0, 1, 5), {}),
    Call("ones", (3, 4), {}),
    Call("zeros", (3, 4), {}),
    Call("empty", (3, 4), {}),
    Call("range", (1, 5), {}),
    Call("float_power", (2.0, torch.ones(3)), {}),
    Call("pow", (2.0, torch.ones(3)), {}),
    Call("xlogy", (2.0, torch.ones(3)), {}),
    Call("special.xlog1py", (2.0, torch.ones(3)), {}),
    Call("remainder", (2.0, torch.full((3,), 1.5)), {}),
    Call("prod", (torch.rand(3, 4), 1), {}),
    Call("threshold", (torch.rand(3, 4), 0.5, 2.0), {}),
    Call("softmax", (torch.rand(3, 4), 1), {}),
    Call("log_softmax", (torch.rand(3, 4), 1), {}),
]
DRAWS = [
    Call("rand", (3, 4), {}),
    Call("randn", (3, 4), {}),
    Call("randint", (0, 9, (3, 4)), {}),
    Call("randperm", (7,), {}),
    Call("normal", (0.0, 1.0, (3, 4)), {}),
    Call("normal", (torch.zeros(3, 4), 1.0), {}),
    Call("bernoulli", (torch.full((3, 4), 0.5),), {}),
    Call("multinomial", (torch.ones(7), 3), {}),
]


def table():
    seen = set()
    for op in op_db:
        if (
            not op.supports_out
            or op.name in seen
            or op.name in WITHOUT
            or op.name.startswith(("_", "ops.", "sparse.", "torch."))
        ):
            continue
        if found(torch, op.name) is None or op.name.startswith("nn.functional"):
            continue
        seen.add(op.name)
        yield op


OPS = {op.name: op for op in table()}


@functools.cache
def sample(name, dtype=None):
    """Return the first sample whose tensors have elements, preferring one that has several dimensions."""
    op = OPS[name]
    dtype = dtype or next(
        d for d in (torch.float32, torch.int64, torch.complex64, torch.bool) if d in op.supported_dtypes("cpu")
    )
    best = None
    for i, s in enumerate(op.sample_inputs("cpu", dtype)):
        call = Call(name, (s.input, *s.args), s.kwargs)
        try:
            results = leaves(call.run(torch))
            if not all(isinstance(r, torch.Tensor) for r in results):
                continue
            call.run(torch, out=outs(call.run(torch), empty_like))
        except Exception:
            continue
        if best is None:
            best = call
        if i > 5 or (results[0].dim() >= 2 and results[0].numel() > 1):
            return call
    return best


def outs(results, make):
    """Places for results: one, or a tuple."""
    if isinstance(results, (tuple, list)):
        return tuple(make(r) for r in results)
    return make(results)


def framework_of(t):
    return oneflow if isinstance(t, oneflow.Tensor) else torch


def empty_like(t):
    return framework_of(t).empty(tuple(t.shape), dtype=t.dtype)


def stepped(t):
    """Every second element of the last dimension of a longer tensor."""
    return framework_of(t).zeros((*t.shape, 2), dtype=t.dtype)[..., 0]


def transposed(t):
    dims = tuple(range(t.dim()))[::-1]
    return framework_of(t).zeros(tuple(t.shape)[::-1], dtype=t.dtype).permute(dims)


def in_the_middle(t):
    """Return a part of a longer tensor, not at its ends."""
    whole = framework_of(t).zeros((t.numel() + 4,), dtype=t.dtype)
    return whole[2 : 2 + t.numel()].reshape(tuple(t.shape))


def longer(t):
    return framework_of(t).zeros((*t.shape, 3), dtype=t.dtype)


def expanded(t):
    return framework_of(t).zeros((), dtype=t.dtype).expand(tuple(t.shape))


def integer(t):
    return framework_of(t).zeros(tuple(t.shape), dtype=framework_of(t).int32)


def narrower(t):
    """As precise as half of it: a result of double precision would be rounded."""
    half = {"float64": "float32", "complex128": "complex64"}.get(str(t.dtype).rpartition(".")[2])
    return framework_of(t).zeros(tuple(t.shape), dtype=getattr(framework_of(t), half) if half else t.dtype)


def double(t):
    kind = "complex128" if t.dtype.is_complex else "float64"
    return framework_of(t).zeros(tuple(t.shape), dtype=getattr(framework_of(t), kind))


LAYOUTS = [empty_like, stepped, transposed, in_the_middle, longer]
# Known differences of theirs: their kernels support other dtypes than ours.
DTYPES = [integer, double]


def outcome(call, framework, make):
    """Return the error's class, or the results and all their memory."""
    places = outs(call.run(framework), make)
    try:
        call.run(framework, out=places)
    except Exception as e:
        return e, None, None
    values = leaves(places)
    memory = [framework.empty(0, dtype=p.dtype).set_(p.untyped_storage()) for p in values]
    return None, values, memory


def array(t):
    return (t.float() if str(t.dtype).endswith("bfloat16") else t.detach().resolve_conj()).numpy()


def check(call, make, values):
    error, theirs, their_memory = outcome(call, torch, make)
    mistake, ours, our_memory = outcome(call, oneflow, make)
    if error is not None:
        # No such form or no kernel of theirs: more is allowed.
        assert mistake is not None or isinstance(error, TypeError) or make is double, f"{make.__name__}: {error!r}"
        return
    if make is expanded and isinstance(mistake, RuntimeError):
        return  # Theirs looks in some families only.
    if make is integer and isinstance(mistake, RuntimeError):
        return  # As in other reductions, a float is not cast to an integer.
    assert mistake is None, f"{make.__name__}: {mistake!r}"
    for a, b in zip(ours, theirs, strict=True):
        assert tuple(a.shape) == tuple(b.shape), make.__name__
        assert str(a.dtype).rpartition(".")[2] == str(b.dtype).rpartition(".")[2]
        if values:
            np.testing.assert_allclose(array(a), array(b), rtol=1e-4, atol=1e-5, err_msg=make.__name__)
    if make is not longer:
        for a, b in zip(our_memory, their_memory, strict=True):
            # The gaps between the elements are unchanged.
            assert a.numel() == b.numel()
            if values:
                np.testing.assert_allclose(array(a), array(b), rtol=1e-4, atol=1e-5, err_msg=make.__name__)


@pytest.mark.parametrize("name", OPS)
def test_layouts(name):
    assert found(oneflow, name) is not None, f"there is no {name}"
    call = sample(name)
    if call is None:
        pytest.skip("PyTorch's table has no sample that works")
    # Each op into strides, and into one of the others, in turn: all of them would take minutes.
    others = [transposed, in_the_middle, longer, expanded]
    for make in (stepped, others[list(OPS).index(name) % len(others)]):
        check(call, make, values=name not in NO_VALUES)


# Theirs rounds a number of two vectors, and refuses to round in two of the Fourier transforms.
ROUNDS = ("inner", "fft.ifft", "fft.ihfft")
IN_DOUBLE = [n for n, op in OPS.items() if torch.float64 in op.supported_dtypes("cpu") and n not in ROUNDS]


@pytest.mark.parametrize("name", IN_DOUBLE)
def test_a_narrower_dtype_is_refused_where_it_is_in_pytorch(name):
    """Elementwise functions and sums round into ``out``, all others take the result's own dtype only."""
    call = sample(name, torch.float64)
    if call is None or not any(r.dtype in (torch.float64, torch.complex128) for r in leaves(call.run(torch))):
        return  # No result in double precision.
    error, theirs, _ = outcome(call, torch, narrower)
    mistake, ours, _ = outcome(call, oneflow, narrower)
    assert isinstance(mistake, RuntimeError) == isinstance(error, RuntimeError), (mistake, error)
    if error is None and name not in NO_VALUES:
        for a, b in zip(ours, theirs, strict=True):
            np.testing.assert_allclose(array(a), array(b), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("call", FACTORIES, ids=lambda c: c.name)
def test_factories(call):
    for make in [*LAYOUTS, *DTYPES]:
        check(call, make, values=call.name != "empty")


@pytest.mark.parametrize("call", DRAWS, ids=lambda c: c.name)
def test_draws(call):
    fresh = call.run(oneflow)
    for make in LAYOUTS:
        place = make(fresh)
        assert call.run(oneflow, out=place) is place
        assert place.tolist() == fresh.tolist(), make.__name__


@pytest.mark.parametrize("shape", [(2, 2), (4,), (1, 4), (4, 1, 1), (2, 3), (0,)])
@pytest.mark.parametrize("call", RANGES)
def test_ranges_fill_any_shape(call, shape):
    """A range keeps an ``out`` that has as many elements as it, in its shape and layout; it resizes others."""
    results = []
    for fw in (oneflow, torch):
        whole = fw.zeros([n + 1 for n in shape])
        out = whole[tuple(slice(1, None) for _ in shape)]
        again = RANGES[call](fw, out)
        results.append((tuple(again.shape), again.stride(), again.tolist(), whole.tolist(), again is out))
    assert results[0] == results[1]


def test_the_neighbours_of_a_column_stay():
    x, y = oneflow.arange(6.0).reshape(2, 3), oneflow.zeros(2, 3)
    oneflow.sum(x, 1, out=y[:, 1])
    assert y.tolist() == [[0, 3, 0], [0, 12, 0]]
    a, b, c = oneflow.arange(2.0), oneflow.arange(6.0).reshape(2, 3), oneflow.arange(6.0).reshape(3, 2)
    out = oneflow.zeros(2, 2)
    oneflow.addmm(a, b, c, out=out.t())
    assert out.t().tolist() == oneflow.addmm(a, b, c).tolist()


def test_a_factory_refuses_another_dtype():
    out = oneflow.empty(3, dtype=oneflow.float32)
    with pytest.raises(RuntimeError, match="does not match dtype of out"):
        oneflow.zeros(3, dtype=oneflow.int64, out=out)
    assert oneflow.arange(3, out=out).dtype is oneflow.float32 and out.tolist() == [0, 1, 2]


def test_results_that_overlap_are_refused():
    whole = oneflow.zeros(6)
    with pytest.raises((RuntimeError, ValueError), match="must not overlap"):
        oneflow.aminmax(oneflow.ones(4, 3), dim=1, out=(whole[:4], whole[2:]))


WIDER = {
    "cholesky_inverse": lambda fw, x, out: fw.cholesky_inverse(x, out=out),
    "cholesky_solve": lambda fw, x, out: fw.cholesky_solve(x, x, out=out),
    "kron": lambda fw, x, out: fw.kron(x, x, out=out),
    "logsumexp": lambda fw, x, out: fw.logsumexp(x, 0, out=out),
    "std": lambda fw, x, out: fw.std(x, 0, out=out),
    "add": lambda fw, x, out: fw.add(x, 1, out=out),
    "cumsum": lambda fw, x, out: fw.cumsum(x, 0, out=out),
    "pinv": lambda fw, x, out: fw.linalg.pinv(x, out=out),
}


@pytest.mark.parametrize("name", WIDER)
def test_a_wider_out_of_meta_tensors(name):
    """Ops that cast into ``out=`` do so for tensors without data, too."""

    def run(fw):
        shape = WIDER[name](fw, fw.eye(3), None).shape if name != "add" else (3, 3)
        out = fw.empty(shape, dtype=fw.float64, device="meta")
        made = WIDER[name](fw, fw.eye(3, device="meta"), out)
        return made is out, str(out.dtype).rpartition(".")[2], tuple(out.shape), str(out.device)

    assert run(oneflow) == run(torch)


@pytest.mark.parametrize("name", ["addmm", "addmv", "addr", "baddbmm", "addbmm", "addcmul", "addcdiv"])
def test_complex_factors_of_real_results_are_refused(name):
    shapes = {
        "addmm": ((3, 3), (3, 3), (3, 3)),
        "addmv": ((3,), (3, 3), (3,)),
        "addr": ((3, 3), (3,), (3,)),
        "baddbmm": ((1, 3, 3),) * 3,
        "addbmm": ((3, 3), (1, 3, 3), (1, 3, 3)),
    }.get(name, ((3,), (3,), (3,)))
    for key in ("value",) if name.startswith("addc") else ("beta", "alpha"):
        for fw in (oneflow, torch):
            with pytest.raises(RuntimeError, match="value cannot be converted to type float without overflow"):
                getattr(fw, name)(*(fw.ones(s) for s in shapes), **{key: 1j})
