"""The cases that are timed: calls of functions by name, listed here or recorded from a script."""

from __future__ import annotations

import functools
import inspect
import re
import runpy
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import oneflow
from oneflow.overrides import TorchFunctionMode

_DTYPES = {"f32": "float32", "f64": "float64", "bf16": "bfloat16", "f16": "float16", "i64": "int64", "i32": "int32"}
_DTYPES["bool"] = "bool"
# Where a function of this name may be found in either library, and where a call recorded below `nn.functional` is.
_HOMES = ("nn.functional", "", "_C._nn", "linalg", "special", "fft")
_LOW_HOMES = ("_C._nn", "", "nn.functional", "linalg", "special", "fft")
_LOW_NAMES = {"cross_entropy": "cross_entropy_loss"}
# Nobody waits for these, and some of them would disturb the measurement.
_LEFT_OUT = set("backward cpu detach register_hook requires_grad_ retain_grad".split())
# A larger argument is not kept but drawn again.
_KEEP_BYTES = 64 << 20


@dataclass
class Case:
    """One call: the function's name, whether it is a method, and its arguments.

    Attributes:
        name: as Python calls it: ``"add"``, ``"add_"``, ``"softmax"``.
        args: positional arguments, tensors included.
        kwargs: keyword arguments.
        method: whether the first argument is the object of the method ``name``.
        calls: the number of times a script made the call; 1 for the built-in cases.
        text: what the report calls the other arguments.
        function: what was called, of a recorded call.

    Example::

        >>> oneflow.autoprof.Case.parse("sum rows", "sum(x, 1)", x="f32[2,3]").shapes()
        '[2, 3]'
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any] = field(default_factory=dict)
    method: bool = False
    calls: int = 1
    text: str = ""
    function: Callable[..., Any] | None = None

    @staticmethod
    def parse(name: str, call: str, **tensors: str) -> Case:
        """Make a case from text: ``Case.parse("sum", "sum(x, 1)", x="f32[64,64]")``.

        Args:
            name: what the report calls the case.
            call: a function's name, and arguments that are names of tensors or literals.
            tensors: dtype (``f32 f64 f16 bf16 i64 i32 bool``) and sizes. ``i64(10)[4]`` draws from [0, 10).

        Raises:
            ValueError: a text is not of this form.
        """
        function, _, rest = call.partition("(")
        if not rest.endswith(")") or not function.isidentifier():
            raise ValueError(f"autoprof: {call!r} is no call of a function")
        made = {key: make(spec) for key, spec in tensors.items()}
        args, kwargs = eval(f"(lambda *args, **kwargs: (args, kwargs))({rest}", {"__builtins__": {}}, made)
        return Case(function, args, kwargs, text=name if name != function else _describe(args, kwargs))

    def find(self, library: Any) -> list[Callable[..., Any]]:
        """The functions of this name in ``library``, the likeliest first."""
        if self.function is not None and library is oneflow:
            return [self.function]
        if self.method:
            return [getattr(library.Tensor, self.name)] if hasattr(library.Tensor, self.name) else []
        names = (self.name,) if self.function is None else (_LOW_NAMES.get(self.name, self.name), self.name)
        found = []
        for name in names:
            for home in _HOMES if self.function is None else _LOW_HOMES:
                try:
                    function = functools.reduce(getattr, [*filter(None, home.split(".")), name], library)
                except (AttributeError, ImportError):
                    continue
                if callable(function) and function not in found:
                    found.append(function)
        return found

    def named(self) -> dict[str, Any] | None:
        """Return all arguments of a recorded function by name, if its signature has the names."""
        if self.function is None or self.method:
            return None
        try:
            bound = inspect.signature(self.function).bind(*self.args, **self.kwargs)
        except (TypeError, ValueError):
            return None
        kinds = {p.kind for p in bound.signature.parameters.values()}
        if kinds & {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}:
            return None
        return dict(bound.arguments)

    def shapes(self) -> str:
        """The sizes of the tensors among the arguments."""
        return ", ".join(str(list(t.shape)) for t in tensors_of((self.args, self.kwargs)))

    def dtype(self) -> str:
        """The dtype of the first tensor."""
        first = next(iter(tensors_of((self.args, self.kwargs))), None)
        return "" if first is None else str(first.dtype).rpartition(".")[2]


def make(spec: str) -> Any:
    """A tensor of a text like ``f32[2,3]`` or ``i64(10)[4]``, with values that are the same in every run."""
    match = re.fullmatch(r"(\w+?)(?:\((\d+)\))?\[([\d, ]*)\]", spec)
    if match is None or match[1] not in _DTYPES:
        raise ValueError(f"autoprof: {spec!r} is no tensor: write f32[2,3] or i64(10)[4]")
    kind, high, sizes = match[1], int(match[2] or 10), [int(n) for n in match[3].split(",") if n.strip()]
    generator = oneflow.Generator().manual_seed(len(spec))
    dtype = getattr(oneflow, _DTYPES[kind])
    if kind == "bool":
        return oneflow.rand(sizes, generator=generator) < 0.5
    if kind[0] == "i":
        return oneflow.randint(0, high, sizes, generator=generator).to(dtype)
    return oneflow.randn(sizes, generator=generator).to(dtype)


def tensors_of(value: Any) -> list[Any]:
    """The tensors in nested arguments, in order."""
    if isinstance(value, oneflow.Tensor):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    return [tensor for item in value for tensor in tensors_of(item)]


def _describe(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    parts = [_text(value) for value in args] + [f"{key}={_text(value)}" for key, value in kwargs.items()]
    return ", ".join(parts)


def _text(value: Any) -> str:
    if isinstance(value, oneflow.Tensor):
        return "T"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(item) for item in value) + "]"
    return str(value)


class _Recorder(TorchFunctionMode):
    """Records one of every distinct call that Python makes."""

    def __init__(self) -> None:
        super().__init__()
        self.cases: dict[Any, Case] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        is_initial = (getattr(func, "__module__", None) or "").endswith("nn.init")
        if name and not name.startswith("_") and name not in _LEFT_OUT and not is_initial:
            key = (name, _key(args), _key(kwargs))
            case = self.cases.get(key)
            if case is not None:
                case.calls += 1
            elif tensors_of((args, kwargs)):
                is_method = getattr(func, "__module__", None) is None and hasattr(oneflow.Tensor, name)
                kept = tuple(_kept(value) for value in args)
                named = {key: _kept(value) for key, value in kwargs.items()}
                case = Case(name, kept, named, is_method, 1, _describe(args, kwargs), func)
                result = func(*args, **kwargs)
                # What gives no tensor is a question, not work.
                if tensors_of(result):
                    self.cases[key] = case
                return result
        return func(*args, **kwargs)


def _key(value: Any) -> Any:
    if isinstance(value, oneflow.Tensor):
        return ("tensor", tuple(value.shape), value.stride(), value.dtype, _needs_grad(value))
    if isinstance(value, (list, tuple)):
        return tuple(_key(item) for item in value)
    if isinstance(value, dict):
        return tuple((key, _key(item)) for key, item in value.items())
    return repr(value)


def _needs_grad(tensor: Any) -> bool:
    return tensor.requires_grad and oneflow.is_grad_enabled()


def _kept(value: Any) -> Any:
    """The value for a later call: tensors with their own memory, layout and need of a gradient."""
    if isinstance(value, oneflow.Tensor):
        needs_grad = _needs_grad(value)
        with oneflow.no_grad():
            size, strides = tuple(value.shape), value.stride()
            small = value.numel() * value.element_size() <= _KEEP_BYTES
            if value.is_contiguous():
                copy = value.detach().clone() if small else oneflow.ones_like(value.detach())
            else:
                copy = oneflow.empty_strided(size, strides, dtype=value.dtype, device=value.device)
                if all(step > 0 for step in strides) and small:
                    copy.copy_(value.detach())
                else:
                    copy = value.detach().clone()
        return copy.requires_grad_(needs_grad)
    if isinstance(value, (list, tuple)):
        return type(value)(_kept(item) for item in value) if type(value) in (list, tuple) else value
    return value


def calls_of_script(path: str, argv: list[str]) -> list[Case]:
    """Run a script as the main program and return one case for every distinct call that it makes.

    Two calls are the same if name, sizes, strides, dtypes and all other arguments are. Ops inside a graph or a
    backward are no calls from Python and are not seen; :mod:`oneflow.profiler` sees it.

    Args:
        path: the script.
        argv: its arguments.

    Example::

        >>> _ = __import__("pathlib").Path("script.py").write_text("import oneflow; oneflow.ones(2).exp()")
        >>> [case.name for case in oneflow.autoprof.calls_of_script("script.py", [])]
        ['exp']
    """
    recorder = _Recorder()
    before = sys.argv
    sys.argv = [path, *argv]
    try:
        with recorder:
            runpy.run_path(path, run_name="__main__")
    except SystemExit as stop:
        if stop.code not in (None, 0):
            print(f"autoprof: the script ended with {stop.code!r}", file=sys.stderr)  # noqa: T201
    finally:
        sys.argv = before
    return list(recorder.cases.values())


def built_in_cases() -> list[Case]:
    """Return the default cases.

    Example::

        >>> len(oneflow.autoprof.built_in_cases()) > 40
        True
    """
    lines = [
        ("add small", "add(x, y)", "x=f32[16] y=f32[16]"),
        ("add", "add(x, y)", "x=f32[1024,1024] y=f32[1024,1024]"),
        ("add row", "add(x, y)", "x=f32[1024,1024] y=f32[1024]"),
        ("add bf16", "add(x, y)", "x=bf16[1024,1024] y=bf16[1024,1024]"),
        ("mul", "mul(x, y)", "x=f32[1024,1024] y=f32[1024,1024]"),
        ("div", "div(x, y)", "x=f32[512,512] y=f32[512,512]"),
        ("exp", "exp(x)", "x=f32[512,512]"),
        ("tanh", "tanh(x)", "x=f32[512,512]"),
        ("sigmoid", "sigmoid(x)", "x=f32[512,512]"),
        ("gelu", "gelu(x)", "x=f32[512,512]"),
        ("relu", "relu(x)", "x=f32[1024,1024]"),
        ("silu", "silu(x)", "x=f32[512,512]"),
        ("where", "where(m, x, y)", "m=bool[512,512] x=f32[512,512] y=f32[512,512]"),
        ("clamp", "clamp(x, -1, 1)", "x=f32[512,512]"),
        ("sum", "sum(x)", "x=f32[1024,1024]"),
        ("sum rows", "sum(x, 1)", "x=f32[1024,1024]"),
        ("sum columns", "sum(x, 0)", "x=f32[1024,1024]"),
        ("mean", "mean(x, -1)", "x=f32[1024,1024]"),
        ("amax", "amax(x, -1)", "x=f32[1024,1024]"),
        ("argmax", "argmax(x, -1)", "x=f32[1024,1024]"),
        ("cumsum", "cumsum(x, -1)", "x=f32[512,512]"),
        ("softmax", "softmax(x, -1)", "x=f32[512,1024]"),
        ("log_softmax", "log_softmax(x, -1)", "x=f32[512,1024]"),
        ("layer_norm", "layer_norm(x, (768,), w, b)", "x=f32[512,768] w=f32[768] b=f32[768]"),
        ("cross_entropy", "cross_entropy(x, t)", "x=f32[256,1000] t=i64(1000)[256]"),
        ("embedding", "embedding(t, w)", "t=i64(1000)[16,128] w=f32[1000,256]"),
        ("mm 256", "mm(x, y)", "x=f32[256,256] y=f32[256,256]"),
        ("mm 512", "mm(x, y)", "x=f32[512,512] y=f32[512,512]"),
        ("mm bf16", "mm(x, y)", "x=bf16[256,256] y=bf16[256,256]"),
        ("bmm", "bmm(x, y)", "x=f32[16,128,64] y=f32[16,64,128]"),
        ("linear", "linear(x, w, b)", "x=f32[128,768] w=f32[768,768] b=f32[768]"),
        ("matmul vector", "matmul(x, y)", "x=f32[1024,1024] y=f32[1024]"),
        ("attention", "scaled_dot_product_attention(q, k, v)", "q=f32[2,8,128,64] k=f32[2,8,128,64] v=f32[2,8,128,64]"),
        ("conv2d", "conv2d(x, w, padding=1)", "x=f32[4,32,28,28] w=f32[32,32,3,3]"),
        ("max_pool2d", "max_pool2d(x, 2)", "x=f32[4,32,28,28]"),
        ("batch_norm", "batch_norm(x, m, v)", "x=f32[4,32,28,28] m=f32[32] v=f32(2)[32]"),
        ("cat", "cat([x, y], 1)", "x=f32[256,512] y=f32[256,512]"),
        ("stack", "stack([x, y])", "x=f32[256,512] y=f32[256,512]"),
        ("index_select", "index_select(x, 0, i)", "x=f32[1024,256] i=i64(1024)[512]"),
        ("gather", "gather(x, 1, i)", "x=f32[256,256] i=i64(256)[256,256]"),
        ("sort", "sort(x)", "x=f32[128,1024]"),
        ("topk", "topk(x, 10)", "x=f32[128,1024]"),
        ("clone", "clone(x)", "x=f32[1024,1024]"),
        ("rfft", "rfft(x)", "x=f32[64,1024]"),
    ]
    return [Case.parse(name, call, **dict(spec.split("=", 1) for spec in specs.split())) for name, call, specs in lines]
