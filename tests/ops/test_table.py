"""Every public op of the table, in all its forms, returns PyTorch's values, dtypes, strides and exception classes."""

import oneflow
import pytest
import torch
from oneflow import _oneflow
from ops.op_samples import DTYPES, LAYOUTS, TABLE, build, check_equal, leaves

# Results that are random, or whatever the memory held.
NO_VALUES = {"empty", "empty_like", "new_empty", "rand", "randn", "randint", "randint.low", "rand_like", "randn_like"}
NO_VALUES |= {"randperm", "normal", "uniform", "exponential", "bernoulli", "multinomial", "native_dropout"}
NO_VALUES |= {"bernoulli.p", "bernoulli.float", "bernoulli.Tensor", "binomial", "poisson", "cauchy", "geometric"}
NO_VALUES |= {"log_normal", "normal.Tensor_Tensor", "normal.Tensor_float", "normal.float_Tensor", "normal.float_float"}
NO_VALUES |= {"randint_like", "randint_like.low", "random", "random.from", "random.to", "_standard_gamma"}
# Ops without a counterpart: layouts over several devices, a conjugate that is a flag, a write in place that casts.
NOT_THEIRS = {"to_global", "global_to_global", "local_to_global", "to_local", "conj", "float_power"}
# Equal elements may come in any order.
ANY_ORDER = {"topk", "sort", "argsort", "kthvalue"}
# Signatures in the op's own order of arguments.
SAME_AS = {"embedding": torch.embedding, "log_sigmoid": torch.nn.functional.logsigmoid}
# Theirs hides the indices behind a flag.
SAME_AS |= {"adaptive_max_pool2d": torch.nn.functional.adaptive_max_pool2d_with_indices}
SAME_AS |= {"adaptive_max_pool3d": torch.nn.functional.adaptive_max_pool3d_with_indices}
# One speaks of the storage itself; a number to the power of a tensor comes as a tensor, and keeps the exponent's order;
# of a real tensor theirs gives the tensor itself, where new memory was asked for; of log_sigmoid theirs is row-major.
ONE_LAYOUT = {"as_strided_scatter", "pow.scalar", "conj_physical", "log_sigmoid"}
# They view where only a copy can have the shape: any layout is allowed.
THEIRS_CANNOT = {("kron", "transposed")}
# `out` of an integer sum cannot be bool: they have no kernel for it, we cannot cast to it.
OTHER_CLASS = {("cumsum", "inplace", "bool"), ("cumprod", "inplace", "bool")}
# Refused for the dtype, which we look at before the shapes.
OTHER_CLASS |= {(name, "inplace", dtype) for name in ("hypot", "nextafter") for dtype in ("int64", "bool")}
OTHER_CLASS |= {("nextafter", "inplace", "bfloat16")}
# Without rows they do not look at the dtype.
OTHER_CLASS |= {("scaled_dot_product_attention", "function", dtype) for dtype in ("int64", "bool")}
# Dtypes that only they take: means of integers that drop the fraction, products of bools in some layouts but not in
# others, linear algebra and neighbours in a half type, which our kernels compute in float.
THEIRS_ALONE = {("avg_pool1d", "int64"), ("avg_pool2d", "int64"), ("avg_pool3d", "int64"), ("inner", "bool")}
THEIRS_ALONE |= {("matrix_exp", "bfloat16"), ("nextafter", "bfloat16")}
# On processors without bfloat16 instructions PyTorch rounds their partial sums.
ROUNDED_SUMS = {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}
pytestmark = pytest.mark.filterwarnings("ignore")


def _forms(op):
    """(form, our callable, PyTorch's)"""
    name = op["public"]
    faces = op["faces"]
    if "private" in faces or op["name"] in NOT_THEIRS:
        return
    if "function" in faces and hasattr(torch, name):
        yield "function", getattr(oneflow, name), getattr(torch, name)
    if "nn" in faces and (name in SAME_AS or hasattr(torch.nn.functional, name)):
        yield "function", getattr(_oneflow, name), SAME_AS.get(name) or getattr(torch.nn.functional, name)
    for face, method in (("method", name), ("inplace", f"{name}_")):
        if face in faces and hasattr(torch.Tensor, method):
            yield face, _method(method), _method(method)


def _method(name):
    def call(x, *args, **kwargs):
        return getattr(x, name)(*args, **kwargs)

    return call


CASES = [(name, *f) for name, op in TABLE.items() for f in _forms(op)]


def _outcome(f, args, kwargs):
    try:
        return f(*args, **kwargs), None
    except Exception as e:
        return None, e


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name, form, ours, theirs", CASES, ids=[f"{c[0]}-{c[1]}" for c in CASES])
def test_op(name, form, ours, theirs, dtype):
    for n, described in enumerate(_oneflow._C._samples(name)):
        for layout in LAYOUTS[:1] if name in ONE_LAYOUT else LAYOUTS:
            mine = build(oneflow, described, dtype, layout, n)
            reference = build(torch, described, dtype, layout, n)
            wanted, error = _outcome(theirs, *reference)
            if error is not None:
                got, mistake = _outcome(ours, *mine)
                if mistake is None:
                    # They have no kernel: more is allowed, another result is not.
                    assert "not implemented" in str(error) or (name, layout) in THEIRS_CANNOT, repr(error)
                elif (name, form, dtype) not in OTHER_CLASS:
                    assert type(mistake).__name__ == type(error).__name__, f"{mistake!r} for {error!r}"
                continue
            got, mistake = _outcome(ours, *mine)
            empty = any(isinstance(t, oneflow.Tensor) and t.numel() == 0 for t in mine[0])
            if empty and (isinstance(mistake, NotImplementedError) or (name, form, dtype) in OTHER_CLASS):
                continue  # They look for a kernel only once there are elements.
            if (name, dtype) in THEIRS_ALONE and isinstance(mistake, NotImplementedError):
                continue
            assert mistake is None, repr(mistake)
            if TABLE[name]["public"] in ANY_ORDER and dtype in ("int64", "bool"):
                got, wanted = leaves(got)[0], leaves(wanted)[0]
                check_equal(got, wanted, values="argsort" not in name)
            else:
                looser = 4 if dtype == "bfloat16" and name in ROUNDED_SUMS else 1
                check_equal(got, wanted, values=name not in NO_VALUES, looser=looser)
            if form == "inplace":
                assert got is mine[0][0] if isinstance(got, oneflow.Tensor) else leaves(got)[0] is mine[0][0]


OUT = [name for name, op in TABLE.items() if "out" in op["faces"] and hasattr(torch, op["public"])]


@pytest.mark.parametrize("name", OUT)
def test_out(name):
    public = TABLE[name]["public"]
    for n, described in enumerate(_oneflow._C._samples(name)):
        args, kwargs = build(oneflow, described, "float32", "contiguous", n)
        fresh = getattr(oneflow, public)(*args, **kwargs)
        if not isinstance(fresh, oneflow.Tensor):
            continue
        # `out` takes the size it needs, and is the very object that comes back.
        out = oneflow.empty(0, dtype=fresh.dtype)
        assert getattr(oneflow, public)(*args, **kwargs, out=out) is out
        check_equal(out, fresh, values=name not in NO_VALUES, strides=False)


def test_the_whole_table_is_here():
    """No public op is untested without a name: those that PyTorch lacks are listed."""
    tested = {c[0] for c in CASES}
    public = {name for name, op in TABLE.items() if "private" not in op["faces"]} - NOT_THEIRS
    # Those with a placement are the same ops over several devices.
    without_samples = {n for n in public if not _oneflow._C._samples(n) and not n.endswith(".global")}
    assert public - tested == set()
    assert without_samples <= {"empty", "empty_like", "new_empty", "arange", "arange.start"} | {
        "empty_strided",
        "empty_permuted",
        "new_empty_strided",
    }
