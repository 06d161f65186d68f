"""`oneflow.ops.aten`: each call that PyTorch's own samples make of ATen, under its overload and with its arguments.

Programs that PyTorch exports are made of such calls: of ATen's core functions, and of those that Python reaches first.
"""

import collections
import contextlib
import itertools
import signal
import warnings

import oneflow
import pytest
import torch
from oneflow.utils import _pytree
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map

with warnings.catch_warnings():
    # PyTorch's samples ask for packages that are needed elsewhere.
    warnings.simplefilter("ignore")
    from torch.testing._internal.common_methods_invocations import op_db

# Functions that draw, whose values are undefined or whose sign is free.
_FREE = "rand empty dropout bernoulli multinomial normal rrelu poisson uniform eig svd qr as_strided hash".split()
# Without a counterpart here.
_MISSING = {
    "_chunk_cat", "_lu_with_info", "_scaled_mm", "_scaled_mm_v2", "_softmax_backward_data", "_unsafe_masked_index",
    "_unsafe_masked_index_put_accumulate", "linalg_ldl_factor", "linalg_ldl_factor_ex", "linalg_ldl_solve",
}  # fmt: skip
# The other results serve backwards alone.
_FIRST_ALONE = {"_embedding_bag", "embedding_bag", "_embedding_bag_forward_only"}
_OTHER_FORMS = {"stft", "to_sparse", "_unique2", "unique_consecutive"}


def _converted(x):
    if isinstance(x, torch.Tensor):
        x = x.detach().resolve_conj().resolve_neg()
        dtype = getattr(oneflow, str(x.dtype)[6:])
        if x.numel() == 0:
            return oneflow.empty(tuple(x.shape), dtype=dtype)
        if x.dtype == torch.bool:
            return oneflow.from_dlpack(x.clone().view(torch.uint8)).view(dtype)
        return oneflow.from_dlpack(x.clone(memory_format=torch.preserve_format))
    for kind, of in ((torch.dtype, oneflow), (torch.memory_format, oneflow), (torch.layout, oneflow)):
        if isinstance(x, kind):
            return getattr(of, str(x)[6:])
    return oneflow.device(str(x)) if isinstance(x, torch.device) else x


def _difference(theirs, ours):
    theirs, ours = tree_flatten(theirs)[0], _pytree.tree_leaves(ours)
    if len(theirs) != len(ours):
        return f"{len(ours)} results, not {len(theirs)}"
    for x, y in zip(theirs, ours, strict=True):
        if not isinstance(x, torch.Tensor):
            if x != y and x == x:
                return f"{y}, not {x}"
            continue
        if (
            not isinstance(y, oneflow.Tensor)
            or str(x.dtype)[6:] != str(y.dtype)[8:]
            or tuple(x.shape) != tuple(y.shape)
        ):
            return f"{y!r:.60}, not {x.dtype} {tuple(x.shape)}"
        x, y = x.detach().resolve_conj().resolve_neg(), y.resolve_conj()
        if x.is_complex():
            x, y = torch.view_as_real(x), oneflow.view_as_real(y)
        y = torch.tensor(y.double().tolist(), dtype=torch.float64).reshape(x.shape)
        scale = x.double().abs().nan_to_num(0, 0, 0).max().item() if x.numel() else 0.0
        if not torch.allclose(y, x.double(), rtol=1e-3, atol=1e-4 * (1 + scale), equal_nan=True):
            return f"values differ by {(y - x).abs().max()}"
    return None


class _Record:
    """What calls gave here and in PyTorch."""

    def __init__(self, limit):
        self.limit, self.right, self.wrong = limit, collections.Counter(), {}

    def takes(self, f, arguments):
        name = f._schema.name.partition("::")[2]
        return (
            f.namespace == "aten"
            and not f._schema.is_mutable
            and self.right[str(f)] < self.limit
            and str(f) not in self.wrong
            and name not in _MISSING | _OTHER_FORMS
            and not any(word in name for word in _FREE)
            and all(not isinstance(a, torch.Tensor) or a.layout == torch.strided for a in arguments)
        )

    def call(self, f, args, kwargs):
        converted = tree_map(_converted, (args, kwargs))
        expected = f(*args, **kwargs)
        try:
            name = f._schema.name.partition("::")[2]
            made = getattr(getattr(oneflow.ops.aten, name), f._overloadname)(*converted[0], **converted[1])
            if name in _FIRST_ALONE:
                made, expected_ = made[0], expected[0]
            else:
                expected_ = expected
            why = _difference(expected_, made)
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        if why is None:
            self.right[str(f)] += 1
        else:
            shown = [tuple(a.shape) if isinstance(a, torch.Tensor) else a for a in args]
            self.wrong[str(f)] = f"{why} (arguments {shown}, {kwargs})"
        return expected


class _Core(TorchDispatchMode):
    def __init__(self, record):
        super().__init__()
        self.record = record

    def __torch_dispatch__(self, f, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if torch.Tag.core in f.tags and self.record.takes(f, tree_flatten((args, kwargs))[0]):
            return self.record.call(f, args, kwargs)
        return f(*args, **kwargs)


class _First(torch.fx.Interpreter):
    def __init__(self, graph, record):
        super().__init__(graph)
        self.record = record

    def call_function(self, target, args, kwargs):
        if isinstance(target, torch._ops.OpOverload) and self.record.takes(target, tree_flatten((args, kwargs))[0]):
            return self.record.call(target, args, kwargs)
        return super().call_function(target, args, kwargs)


def _samples(n):
    for op in op_db:
        if op.name.startswith(("masked", "signal", "_refs")):
            continue
        found = []
        made = op.sample_inputs("cpu", torch.float32)
        with contextlib.suppress(Exception):
            found = list(itertools.islice(made, 0, 4 * n, 4))
        # Not when it is forgotten, which may be inside of a trace.
        with contextlib.suppress(Exception):
            made.close()
        for sample in found:
            yield op, sample


@pytest.fixture(autouse=True)
def _quiet():
    torch.manual_seed(0)
    # What is interrupted in PyTorch must not leave the mode of gradients to the tests that follow.
    with warnings.catch_warnings(), torch.enable_grad():
        warnings.simplefilter("ignore")
        yield


def test_core_functions():
    record = _Record(6)
    for op, sample in _samples(4):
        # What a sample of PyTorch's does not take is no matter here.
        with contextlib.suppress(Exception), _Core(record):
            op(sample.input, *sample.args, **sample.kwargs)
    assert not record.wrong, "\n".join(f"{k}: {v}" for k, v in record.wrong.items())
    assert len(record.right) >= 140, len(record.right)


def _called(op):
    def function(x, args, kwargs):
        return op(x, *args, **kwargs)

    return function


@contextlib.contextmanager
def _at_most(seconds):
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def test_functions_that_python_reaches_first():
    record = _Record(4)

    def late(*_):
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    try:
        for op, sample in _samples(2):
            call = (sample.input, sample.args, sample.kwargs)
            with contextlib.suppress(Exception), _at_most(20):
                graph = make_fx(_called(op), pre_dispatch=True)(*call)
                with torch.no_grad():
                    _First(graph, record).run(*tree_flatten(call)[0])
    finally:
        signal.signal(signal.SIGALRM, before)
    assert not record.wrong, "\n".join(f"{k}: {v}" for k, v in record.wrong.items())
    assert len(record.right) >= 480, len(record.right)
