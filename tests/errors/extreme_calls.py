"""Calls of every public op with extreme integers and with empty tensors; a program, which `test_extreme_calls.py` runs.

Prints the number and text of each case before it runs, and a line for each that ends with an internal error.
Memory and the time of a case are limited, so that a hang, a large allocation or a crash ends the process: the last
number names the case.
"""

import faulthandler
import inspect
import random
import resource
import sys
import warnings

import numpy as np
import oneflow
from oneflow import _oneflow
from ops.op_samples import TABLE, build

EXTREMES = [0, -1, 2**31 - 1, 2**31, 2**62, 2**63 - 1, -(2**31), -(2**63)]
SECONDS = 8
MEMORY = 3 << 30
# So many of the extremes at each place, the others at other places.
PER_PLACE = 2


def public_ops():
    """(name, callable, arguments) of the table's samples, as function and as in-place method."""
    for name, op in TABLE.items():
        public, faces = op["public"], op["faces"]
        if "private" in faces or name.endswith(".global") or "global" in name:
            continue
        forms = []
        if "function" in faces and hasattr(oneflow, public):
            forms.append(getattr(oneflow, public))
        elif "nn" in faces and hasattr(_oneflow, public):
            forms.append(getattr(_oneflow, public))
        elif "method" in faces:
            forms.append(method(public))
        elif "inplace" in faces:
            forms.append(method(public + "_"))
        for n, described in enumerate(_oneflow._C._samples(name)[:3]):
            for f in forms:
                yield name, f, lambda d=described, n=n: build(oneflow, d, "float32", "contiguous", n)


def method(name):
    return lambda x, *args, **kwargs: getattr(x, name)(*args, **kwargs)


def x23():
    return oneflow.arange(6.0).reshape(2, 3)


def signal():
    return oneflow.arange(16.0)


def image():
    return oneflow.ones(1, 2, 4, 4)


# Arguments that are numbers alone, functions written by hand, and functions in Python: a call that works.
CALLS = {
    **dict.fromkeys(("empty", "zeros", "ones", "rand", "randn"), ((2, 3),)),
    "full": ((2, 3), 1.0),
    "arange": (1, 5, 2),
    "range": (1, 5, 2),
    "linspace": (0, 5, 3),
    "logspace": (0, 2, 3),
    "eye": (3, 2),
    "randint": (0, 5, (2, 3)),
    "randperm": (4,),
    "tril_indices": (3, 3, 1),
    "triu_indices": (3, 3, 1),
    "empty_strided": ((2, 3), (3, 1)),
    "empty_permuted": ((2, 3), (1, 0)),
    "hann_window": (8,),
    "hamming_window": (8,),
    "bartlett_window": (8,),
    "blackman_window": (8,),
    "kaiser_window": (8,),
    "vander": (oneflow.arange(3.0), 3),
    "combinations": (oneflow.arange(3.0), 2),
    "chunk": (x23(), 2, 1),
    "split": (x23(), 2, 1),
    "tensor_split": (x23(), 2, 1),
    "narrow": (x23(), 1, 0, 2),
    "unflatten": (x23(), 1, (3, 1)),
    "roll": (x23(), 1, 0),
    "rot90": (x23(), 1, (0, 1)),
    "movedim": (x23(), 0, 1),
    "repeat_interleave": (x23(), 2, 1),
    "tile": (x23(), (2, 1)),
    "bincount": (oneflow.arange(3), None, 4),
    "histc": (x23(), 3, 0, 5),
    "histogram": (x23(), 3),
    "histogramdd": (x23(), [2, 2, 2]),
    "diff": (x23(), 1, 1),
    "cdist": (x23(), x23()),
    "gradient": (signal(),),
    "trapezoid": (x23(),),
    "matrix_power": (oneflow.eye(3), 2),
    "mvlgamma": (x23() + 10, 2),
    "polygamma": (1, x23()),
    "stft": (signal(), 8, 4, 8, oneflow.ones(8), True, "reflect", False, True, True),
    "istft": (oneflow.ones(5, 5, dtype=oneflow.complex64), 8, 4, 8, oneflow.ones(8)),
    "multinomial": (x23() + 1, 2),
    "nn.functional.one_hot": (oneflow.arange(3), 4),
    "nn.functional.pad": (x23(), (1, 1)),
    "nn.functional.unfold": (image(), 2, 1, 0, 1),
    "nn.functional.fold": (oneflow.ones(1, 8, 9), (4, 4), 2, 1, 0, 1),
    "nn.functional.interpolate": (image(), (3, 3)),
    "nn.functional.avg_pool1d": (image()[0], 2, 1, 0),
    "nn.functional.avg_pool2d": (image(), 2, 1, 0),
    "nn.functional.max_pool1d": (image()[0], 2, 1, 0, 1),
    "nn.functional.max_pool2d": (image(), 2, 1, 0, 1),
    "nn.functional.lp_pool2d": (image(), 2.0, 2, 1),
    "nn.functional.adaptive_avg_pool2d": (image(), (2, 2)),
    "nn.functional.adaptive_max_pool2d": (image(), (2, 2)),
    "nn.functional.conv1d": (image()[0], oneflow.ones(2, 2, 3), None, 1, 0, 1, 1),
    "nn.functional.conv2d": (image(), oneflow.ones(2, 2, 3, 3), None, 1, 0, 1, 1),
    "nn.functional.conv_transpose2d": (image(), oneflow.ones(2, 2, 3, 3), None, 1, 0, 0, 1, 1),
    "nn.functional.pixel_shuffle": (oneflow.ones(1, 4, 2, 2), 2),
    "nn.functional.pixel_unshuffle": (image(), 2),
    "nn.functional.channel_shuffle": (image(), 2),
    "nn.functional.local_response_norm": (image(), 2),
    "nn.functional.affine_grid": (oneflow.ones(1, 2, 3), (1, 2, 3, 3)),
    "nn.functional.gumbel_softmax": (x23(),),
    "nn.functional.embedding": (oneflow.arange(3), x23().t().contiguous(), 1),
    "nn.functional.embedding_bag": (oneflow.arange(3), x23().t().contiguous(), oneflow.tensor([0, 1])),
    "nn.functional.fractional_max_pool2d": (image(), 2, (2, 2)),
    **{f"fft.{f}": (signal(), 8, 0) for f in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")},
    **{f"fft.{f}": (image(), (4, 4), (2, 3)) for f in ("fft2", "ifft2", "rfft2", "irfft2", "fftn", "rfftn")},
    "fft.fftfreq": (8,),
    "fft.rfftfreq": (8,),
    "linalg.matrix_power": (oneflow.eye(3), 2),
    "linalg.vander": (oneflow.arange(3.0),),
    "linalg.matrix_norm": (x23(), 2, (0, 1)),
    "linalg.norm": (x23(), 2, (0, 1)),
    "linalg.tensorinv": (oneflow.eye(4).reshape(2, 2, 2, 2), 2),
    **{
        f"special.{kind}_polynomial_{which}": (x23(), 3)
        for kind, letters in {"chebyshev": "tuvw", "shifted_chebyshev": "tuvw", "hermite": ("h", "he")}.items()
        for which in letters
    },
    "special.legendre_polynomial_p": (x23(), 3),
    "special.laguerre_polynomial_l": (x23(), 3),
    "special.multigammaln": (x23() + 10, 2),
    "special.polygamma": (1, x23()),
    "signal.windows.gaussian": (8,),
    "signal.windows.exponential": (8,),
    "signal.windows.cosine": (8,),
    "signal.windows.general_cosine": (8,),
    "Tensor.resize_": (x23(), 2, 2),
    "Tensor.as_strided": (x23(), (2, 2), (1, 1), 0),
    "Tensor.as_strided_": (x23(), (2, 2), (1, 1), 0),
    "Tensor.view": (x23(), 3, 2),
    "Tensor.reshape": (x23(), 3, 2),
    "Tensor.expand": (x23(), 4, 2, 3),
    "Tensor.repeat": (x23(), 2, 2),
    "Tensor.unfold": (x23(), 1, 2, 1),
    "Tensor.new_empty": (x23(), (2, 3)),
    "Tensor.new_zeros": (x23(), (2, 3)),
    "Tensor.new_full": (x23(), (2, 3), 1.0),
    "Tensor.new_empty_strided": (x23(), (2, 3), (3, 1)),
    "Tensor.random_": (x23(), 0, 5),
    "Tensor.select": (x23(), 0, 1),
    "Tensor.size": (x23(), 0),
    "Tensor.stride": (x23(), 0),
    "Tensor.transpose": (x23(), 0, 1),
    "Tensor.permute": (x23(), 1, 0),
    "Tensor.squeeze": (x23(), 0),
    "Tensor.unsqueeze": (x23(), 0),
    "Tensor.flatten": (x23(), 0, 1),
    "Tensor.fill_diagonal_": (x23(), 1),
    "Tensor.set_": (x23(), signal().untyped_storage(), 0, (2, 2), (1, 1)),
    "Tensor.__getitem__": (x23(), (slice(0, 2, 1), 1)),
    "Tensor.__setitem__": (x23(), (slice(0, 2, 1), 1), 0.0),
    "Tensor.index_add_": (x23(), 0, oneflow.tensor([0]), oneflow.ones(1, 3)),
    "UntypedStorage": (4,),
    "FloatStorage": (4,),
    "Tensor": (2, 3),
    "nn.init.dirac_": (oneflow.ones(2, 2, 3),),
    "nn.functional.dropout1d": (image()[0],),
    "block_diag": (x23(), x23()),
    "cartesian_prod": (oneflow.arange(2), oneflow.arange(2)),
    "tensordot": (x23(), x23().t(), 1),
    "cat": ((oneflow.ones(6, 3), oneflow.ones(6, 3)), 1),
    "stack": ((x23(), x23()), 0),
    "broadcast_to": (x23(), (4, 2, 3)),
    "renorm": (x23(), 2, 0, 1.0),
    "topk": (x23(), 2, 1),
    "kthvalue": (x23(), 2, 1),
    "unique_consecutive": (x23(), False, False, 0),
    "searchsorted": (signal(), x23()),
    "quantile": (x23(), 0.5, 1),
    "bitwise_left_shift": (oneflow.arange(3), 2),
    "cov": (x23(),),
    "svd_lowrank": (x23(), 2, 2),
    "pca_lowrank": (x23(), 2, True, 2),
    "lobpcg": (oneflow.eye(9), 2),
    "slice_scatter": (x23(), oneflow.ones(1, 3), 0, 0, 1, 1),
    "select_scatter": (x23(), oneflow.ones(3), 0, 1),
    "diag_embed": (x23(), 0, 0, 1),
    "diagonal": (x23(), 0, 0, 1),
    "diagflat": (x23(), 1),
    "logcumsumexp": (x23(), 1),
}


ITERATIONS = {("svd_lowrank", (0, 2)), ("pca_lowrank", (0, 3))}


def listed_calls():
    for name, args in CALLS.items():
        f = found(name)
        yield name, f, lambda args=args: ([copied(a) for a in args], {})


def found(name):
    place = oneflow
    for part in name.split("."):
        place = getattr(place, part, None)
    return place


def copied(a):
    if isinstance(a, oneflow.Tensor):
        return a.clone()
    return type(a)(copied(v) for v in a) if type(a) in (list, tuple) else a


def is_int(v):
    return isinstance(v, int) and not isinstance(v, bool)


def places(v, at=()):
    """Paths to the integers in nested arguments."""
    if is_int(v):
        yield at
    elif isinstance(v, (list, tuple)):
        for i, item in enumerate(v):
            yield from places(item, (*at, i))
    elif isinstance(v, dict):
        for k, item in v.items():
            yield from places(item, (*at, k))
    elif isinstance(v, slice):
        for k in ("start", "stop", "step"):
            yield from places(getattr(v, k), (*at, k))


def changed(v, at, to):
    if not at:
        return to
    first, *rest = at
    if isinstance(v, slice):
        parts = {k: getattr(v, k) for k in ("start", "stop", "step")}
        parts[first] = to
        return slice(*parts.values())
    if isinstance(v, dict):
        return {**v, first: changed(v[first], rest, to)}
    return type(v)(changed(item, rest, to) if i == first else item for i, item in enumerate(v))


def emptied(v, dim):
    """Tensors with one dimension (all of them: None) set to 0."""
    if isinstance(v, oneflow.Tensor):
        if v.dim() == 0:
            return v
        return v.narrow(dim % v.dim(), 0, 0).clone() if dim is not None else v.new_empty([0] * v.dim())
    if type(v) in (list, tuple):
        return type(v)(emptied(item, dim) for item in v)
    return v


def cases(everything):
    """(text, callable, function that creates its arguments)"""
    rng = random.Random(0)
    for name, f, make in [*public_ops(), *listed_calls()]:
        args, kwargs = make()
        for at in places([list(args), kwargs]):
            # How often something is repeated is the caller's own affair.
            if (name, at) in ITERATIONS:
                continue
            for extreme in EXTREMES if everything else rng.sample(EXTREMES, PER_PLACE):
                yield f"{name} {at} = {extreme}", f, lambda m=make, at=at, e=extreme: changed(list(m()), at, e)
        for dim in (0, 1, -1, None) if args else ():
            yield f"{name} empty {dim}", f, lambda m=make, d=dim: all_emptied(*m(), d)
            yield f"{name} first empty {dim}", f, lambda m=make, d=dim: first_emptied(*m(), d)


def all_emptied(args, kwargs, dim):
    return emptied(list(args), dim), {k: emptied(v, dim) for k, v in kwargs.items()}


def first_emptied(args, kwargs, dim):
    return [emptied(args[0], dim), *args[1:]], kwargs


def run(number, text, f, make):
    print(f"CASE {number} {text}", flush=True)
    faulthandler.dump_traceback_later(SECONDS, exit=True, file=sys.stderr)
    try:
        args, kwargs = make()
        result = f(*args, **kwargs)
        if inspect.isgenerator(result):
            next(result, None)
    except RecursionError as e:
        print(f"FAULT {number} {text}: {e!r}", flush=True)
    except Exception as e:
        if "internal error" in str(e):
            print(f"FAULT {number} {text}: {e!r}", flush=True)
    finally:
        faulthandler.cancel_dump_traceback_later()


if __name__ == "__main__":
    start, everything = int(sys.argv[1]), "all" in sys.argv
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for number, (text, f, make) in enumerate(cases(everything)):
        if number >= start:
            run(number, text, f, make)
    print("END", flush=True)
