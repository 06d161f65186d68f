"""Ops that a program defines: functions with a name in ``oneflow.ops``, kernels for devices and a backward.

>>> import oneflow
>>> from oneflow import Tensor
>>> @oneflow.library.custom_op("demo::twice", mutates_args=())
... def twice(x: Tensor) -> Tensor:
...     return x * 2
>>> twice.register_autograd(lambda ctx, grad: grad * 2)
>>> x = oneflow.ones(2, requires_grad=True)
>>> oneflow.ops.demo.twice(x).sum().backward()
>>> x.grad
tensor([2., 2.])

An op defined here is a Python function: a graph traces what it calls, and it is split over devices as these are.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable
from typing import Any

from oneflow import _ops
from oneflow.autograd import Function

__all__ = [
    "CustomOpDef",
    "Library",
    "Tag",
    "custom_op",
    "define",
    "impl",
    "impl_abstract",
    "infer_schema",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
]

# Dispatch keys that serve every device.
_EVERY = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "BackendSelect", "default", "")
_KEYS = {"CPU": "cpu", "CUDA": "cuda"}
_FAKE = ("Meta", "meta")


class Tag(enum.Enum):
    """What may be said of an op when it is defined. It is kept for who reads it; nothing here acts on it.

    Example::

        >>> oneflow.library.Tag.pt2_compliant_tag.name
        'pt2_compliant_tag'
    """

    core = enum.auto()
    cudagraph_unsafe = enum.auto()
    data_dependent_output = enum.auto()
    dynamic_output_shape = enum.auto()
    flexible_layout = enum.auto()
    generated = enum.auto()
    inplace = enum.auto()
    inplace_view = enum.auto()
    maybe_aliasing_or_mutating = enum.auto()
    needs_contiguous_strides = enum.auto()
    needs_exact_strides = enum.auto()
    needs_fixed_stride_order = enum.auto()
    nondeterministic_bitwise = enum.auto()
    nondeterministic_seeded = enum.auto()
    out = enum.auto()
    out_variant = enum.auto()
    pointwise = enum.auto()
    pt2_compliant_tag = enum.auto()
    reduction = enum.auto()
    view_copy = enum.auto()


class Library:
    """Definitions below one namespace.

    Args:
        ns: the namespace.
        kind: "DEF" (or "FRAGMENT") to define ops, "IMPL" to register kernels for ops of others.
        dispatch_key: of the kernels, unless ``impl`` names another.

    Example::

        >>> library = oneflow.library.Library("docs_a", "DEF")
        >>> library.define("triple(Tensor x) -> Tensor")
        'triple'
        >>> library.impl("triple", lambda x: x * 3, "CPU")
        >>> oneflow.ops.docs_a.triple(oneflow.ones(1))
        tensor([3.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}; use 'DEF', 'FRAGMENT' or 'IMPL'")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._mine: list[str] = []

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define the op of a schema such as ``"twice(Tensor x) -> Tensor"``; return its name."""
        name = schema.partition("(")[0].strip()
        _ops.define(f"{self.ns}::{name}", schema[len(name) :].strip()).tags = _tags(tags)
        self._mine.append(f"{self.ns}::{name}")
        return name

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **_: Any) -> None:
        """Give ``fn`` as the kernel of an op for a dispatch key, such as "CPU"."""
        name = op_name if isinstance(op_name, str) else op_name._qualname
        qualname = name if "::" in name else f"{self.ns}::{name}"
        _give(qualname.partition(".")[0], dispatch_key or self.dispatch_key, fn)

    def fallback(self, fn: Callable[..., Any], dispatch_key: str = "", **_: Any) -> None:
        """Refuse: every op has its own kernels.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("library.Library.fallback is not provided: register a kernel for each op with impl")

    def _destroy(self) -> None:
        for qualname in self._mine:
            _ops.forget(qualname)
        self._mine.clear()


def _tags(tags: Any) -> tuple[Any, ...]:
    return tuple(tags) if isinstance(tags, (list, tuple, set, frozenset)) else () if tags is None else (tags,)


def _give(qualname: str, key: str, fn: Callable[..., Any]) -> None:
    op = _ops.define(qualname)
    if key in _FAKE:
        op.fake = fn
    elif key in _EVERY:
        op.kernels[""] = fn
    elif key.startswith("Autograd"):
        # Such a kernel computes its own gradient, by calls or by a Function: it takes the place of the others.
        op.kernels[_KEYS.get(key.removeprefix("Autograd"), "")] = fn
    else:
        op.kernels[_KEYS.get(key, key.lower())] = fn


def define(qualname: Any, schema: str, alias_analysis: str = "", *, lib: Any = None, tags: Any = ()) -> Any:
    """Define an op: ``define("demo::twice", "(Tensor x) -> Tensor")``.

    The older form ``@define(library, "twice(Tensor x) -> Tensor")`` decorates the op's kernel for every device.

    Example::

        >>> oneflow.library.define("docs_b::half", "(Tensor x) -> Tensor")
        >>> _ = oneflow.library.impl("docs_b::half", "default", lambda x: x / 2)
        >>> oneflow.ops.docs_b.half(oneflow.ones(1))
        tensor([0.5000])
    """
    if not isinstance(qualname, Library):
        _ops.define(qualname, schema).tags = _tags(tags)
        return None
    library, name = qualname, qualname.define(schema, alias_analysis, tags=tags)

    def give(fn: Callable[..., Any]) -> Callable[..., Any]:
        library.impl(name.rpartition("::")[2], fn)
        return fn

    return give


def impl(qualname: Any, types: Any, func: Any = None, *, lib: Any = None, dispatch_key: str = "") -> Callable[..., Any]:
    """Give a kernel for devices of ``types`` ("cpu", "cuda" or "default"); a decorator without ``func``.

    The older form ``@impl(library, "next", "CPU")`` names a library, one of its ops and a dispatch key.

    Example::

        >>> oneflow.library.define("docs_c::next", "(Tensor x) -> Tensor")
        >>> @oneflow.library.impl("docs_c::next", "cpu")
        ... def next_of(x):
        ...     return x + 1
        >>> oneflow.ops.docs_c.next(oneflow.ones(1))
        tensor([2.])
    """

    if isinstance(qualname, Library):
        library, key_of_library = qualname, func or dispatch_key

        def implement(fn: Callable[..., Any]) -> Callable[..., Any]:
            library.impl(types, fn, key_of_library)
            return fn

        return implement

    def give(fn: Callable[..., Any]) -> Callable[..., Any]:
        for key in [types] if isinstance(types, str) else types:
            _give(qualname, key, fn)
        return fn

    return give if func is None else give(func)


def register_kernel(
    op: Any, device_types: str | Iterable[str] | None, func: Callable[..., Any] | None = None, /, *, lib: Any = None
) -> Callable[..., Any]:
    """Give a kernel for devices of ``device_types``; None is every device. A decorator without ``func``.

    Example::

        >>> @oneflow.library.custom_op("docs_d::same", mutates_args=(), device_types="cuda")
        ... def same(x: oneflow.Tensor) -> oneflow.Tensor:
        ...     return x.clone()
        >>> _ = oneflow.library.register_kernel("docs_d::same", "cpu", lambda x: x.clone())
        >>> same(oneflow.ones(1))
        tensor([1.])
    """
    return impl(_name_of(op), "default" if device_types is None else device_types, func)


def register_fake(
    op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None, _stacklevel: int = 1, **_: Any
) -> Callable[..., Any]:
    """Give what runs on meta tensors: shapes without data. A decorator without ``func``.

    Example::

        >>> @oneflow.library.custom_op("docs_e::twice", mutates_args=())
        ... def twice(x: oneflow.Tensor) -> oneflow.Tensor:
        ...     return x * 2
        >>> @oneflow.library.register_fake("docs_e::twice")
        ... def _(x):
        ...     return oneflow.empty_like(x)
        >>> twice(oneflow.ones(2, device="meta")).shape
        oneflow.Size([2])
    """

    def give(fn: Callable[..., Any]) -> Callable[..., Any]:
        _ops.define(_name_of(op)).fake = fn
        return fn

    return give if func is None else give(func)


impl_abstract = register_fake


def register_autograd(
    op: Any, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None, lib: Any = None
) -> None:
    """Give an op a backward.

    Args:
        op: its name, or the op.
        backward: called with a context and the gradient of each output; returns one gradient for each input.
        setup_context: called with the context, the tuple of inputs and the output, to save what ``backward`` reads.

    Example::

        >>> @oneflow.library.custom_op("docs_f::twice", mutates_args=())
        ... def twice(x: oneflow.Tensor) -> oneflow.Tensor:
        ...     return x * 2
        >>> oneflow.library.register_autograd("docs_f::twice", lambda ctx, grad: grad * 2)
        >>> x = oneflow.ones(1, requires_grad=True)
        >>> twice(x).backward()
        >>> x.grad
        tensor([2.])
    """
    found = _ops.define(_name_of(op))
    found.backward, found.setup_context = backward, setup_context


def register_vmap(op: Any, func: Callable[..., Any] | None = None, /, *, lib: Any = None) -> Callable[..., Any]:
    """Give an op a rule for :func:`oneflow.func.vmap`; without one its kernel runs on tensors of a sample.

    Args:
        op: its name, or the op.
        func: called with ``info`` (``batch_size`` and ``randomness``), the batch dimension of each argument (None
            for one that has none) and the arguments of all samples; returns the output and its batch dimension. A
            decorator without it.

    Example::

        >>> @oneflow.library.custom_op("docs_h::twice", mutates_args=())
        ... def twice(x: oneflow.Tensor) -> oneflow.Tensor:
        ...     return oneflow.tensor(x.numpy() * 2)
        >>> @oneflow.library.register_vmap("docs_h::twice")
        ... def _(info, in_dims, x):
        ...     return twice(x), in_dims[0]
        >>> oneflow.func.vmap(twice)(oneflow.ones(3))
        tensor([2., 2., 2.])
    """

    def give(fn: Callable[..., Any]) -> Callable[..., Any]:
        _ops.define(_name_of(op)).vmap = fn
        return fn

    return give if func is None else give(func)


def _name_of(op: Any) -> str:
    return op.partition(".")[0] if isinstance(op, str) else op._qualname


class CustomOpDef:
    """An op defined by :func:`custom_op`: callable, with methods that register its kernels and rules.

    Example::

        >>> @oneflow.library.custom_op("docs_g::twice", mutates_args=())
        ... def twice(x: oneflow.Tensor) -> oneflow.Tensor:
        ...     return x * 2
        >>> twice
        <CustomOpDef(docs_g::twice)>
    """

    def __init__(self, qualname: str, fn: Callable[..., Any], schema: str | None) -> None:
        self._qualname = qualname
        self._op = _ops.define(qualname, schema)
        self.__name__, self.__doc__, self.__wrapped__ = fn.__name__, fn.__doc__, fn

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._op(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    @property
    def _opoverload(self) -> _ops.OpOverload:
        """The op as graphs name it; PyTorch's tools read it."""
        return self._op.default

    def register_kernel(self, device_types: Any, fn: Callable[..., Any] | None = None, /) -> Callable[..., Any]:
        """As :func:`register_kernel`."""
        return register_kernel(self, device_types, fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """As :func:`register_fake`."""
        return register_fake(self, fn)

    def register_autograd(
        self, backward: Callable[..., Any], /, *, setup_context: Callable[..., Any] | None = None
    ) -> None:
        """As :func:`register_autograd`."""
        register_autograd(self, backward, setup_context=setup_context)

    def register_vmap(self, func: Callable[..., Any] | None = None, /) -> Callable[..., Any]:
        """As :func:`register_vmap`."""
        return register_vmap(self, func)


def custom_op(
    name: str,
    fn: Callable[..., Any] | None = None,
    /,
    *,
    mutates_args: str | Iterable[str] = (),
    device_types: Any = None,
    schema: str | None = None,
    tags: Any = None,
) -> Any:
    """Make a function an op: a decorator, or with ``fn`` at once.

    Without :meth:`CustomOpDef.register_autograd` its gradient is that of what it calls.

    Args:
        name: "namespace::op".
        fn: the function, with annotated arguments and result, or with ``schema``.
        mutates_args: names of the arguments it writes.
        device_types: devices it is for; None is every device.
        schema: PyTorch's text, read from the annotations where it is left out.
        tags: what is said of the op, see :class:`Tag`.

    Returns:
        A :class:`CustomOpDef`.

    Example::

        >>> @oneflow.library.custom_op("doc::twice", mutates_args=())
        ... def twice(x: oneflow.Tensor) -> oneflow.Tensor:
        ...     return x * 2
        >>> twice(oneflow.ones(1))
        tensor([2.])
    """

    def make(function: Callable[..., Any]) -> CustomOpDef:
        made = CustomOpDef(name, function, schema or infer_schema(function, mutates_args=mutates_args))
        made.register_kernel(device_types, function)
        made._op.tags = _tags(tags)
        return made

    return make if fn is None else make(fn)


_WORDS = {"Tensor": "Tensor", "int": "SymInt", "float": "float", "bool": "bool", "str": "str", "None": "()"}


def infer_schema(
    prototype_function: Callable[..., Any], /, *, mutates_args: str | Iterable[str] = (), op_name: str | None = None
) -> str:
    """The schema of an annotated function, such as ``"(Tensor x, float scale=2.0) -> Tensor"``.

    Example::

        >>> def scaled(x: oneflow.Tensor, by: float = 2.0) -> oneflow.Tensor: ...
        >>> oneflow.library.infer_schema(scaled, mutates_args=())
        '(Tensor x, float by=2.0) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    parts, keyword_only = [], False
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and not keyword_only:
            parts.append("*")
            keyword_only = True
        word = _word(parameter.annotation)
        if mutates_args == "unknown" or parameter.name in mutates_args:
            word = word.replace("Tensor", f"Tensor(a{len(parts)}!)", 1)
        default = "" if parameter.default is parameter.empty else f"={parameter.default}"
        parts.append(f"{word} {parameter.name}{default}")
    return f"{op_name or ''}({', '.join(parts)}) -> {_word(signature.return_annotation)}"


def _word(annotation: Any) -> str:
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = text.replace("typing.", "").replace("oneflow.", "").replace("torch.", "").replace("_oneflow.", "")
    for optional in ("Optional[", " | None"):
        if optional in text:
            inner = text.removesuffix("]") if optional == "Optional[" else text
            return _word(inner.replace(optional, "")) + "?"
    for many in ("Sequence[", "List[", "list["):
        if text.startswith(many):
            return _word(text[len(many) : -1]) + "[]"
    for group in ("Tuple[", "tuple["):
        if text.startswith(group):
            return "(" + ", ".join(_word(part.strip()) for part in text[len(group) : -1].split(",")) + ")"
    return _WORDS.get(text, text)


def differentiable(op: Any, kernel: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run ``kernel`` under a node whose gradient is the one registered for ``op``."""
    bound = inspect.signature(kernel).bind(*args, **kwargs)
    bound.apply_defaults()
    inputs, named = bound.args, bound.kwargs

    class Node(Function):
        @staticmethod
        def forward(ctx: Any, *values: Any) -> Any:
            given = values[: len(inputs)]
            keywords = dict(zip(named, values[len(inputs) :], strict=True))
            output = kernel(*given, **keywords)
            if op.setup_context is not None:
                # Keyword arguments are passed only by an op that has keyword-only ones.
                extra = {"keyword_only_inputs": keywords} if keywords else {}
                op.setup_context(ctx=ctx, inputs=given, output=output, **extra)
            return output

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            found = op.backward(ctx, *grads)
            found = found if isinstance(found, tuple) else (found,)
            return (*found, *([None] * (len(inputs) + len(named) - len(found))))

    return Node.apply(*inputs, *named.values())


def get_ctx() -> Any:
    """The context of a fake kernel.

    Raises:
        NotImplementedError: sizes that depend on data have no fake here.
    """
    raise NotImplementedError("oneflow.library.get_ctx is not provided: sizes that depend on data are not traced")
