"""Traced modules and functions: programs of ops in place of Python, which can be saved.

They are :mod:`oneflow.export`'s programs, whose sizes stay open wherever the traced code lets them. That package is
imported when something is traced or loaded: packages ask for :class:`ScriptModule` as they are imported.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import oneflow
from oneflow import Tensor
from oneflow.nn import Module
from oneflow.utils import _pytree

if TYPE_CHECKING:
    from oneflow.export import ExportedProgram

__all__ = ["ScriptFunction", "ScriptModule", "TracedModule", "TracerWarning", "load", "save", "trace", "trace_module"]


class TracerWarning(Warning):
    """A traced program may not do what the Python did that it was made of.

    Example::

        >>> issubclass(oneflow.jit.TracerWarning, Warning)
        True
    """

    @staticmethod
    def ignore_lib_warnings() -> None:
        """Hide such warnings where they come from this package's own lines."""
        warnings.filterwarnings("ignore", category=TracerWarning, module=r"oneflow\.(?!jit)")


class _Traced:
    """What traced modules and functions share."""

    _exported: ExportedProgram

    @property
    def graph(self) -> Any:
        """The program: a graph of calls, an :class:`oneflow.fx.Graph`."""
        return self.__dict__["_exported"].graph

    inlined_graph = graph

    @property
    def code(self) -> str:
        """The program as Python."""
        return str(self.__dict__["_call"].code)

    def save(self, f: Any, _extra_files: Mapping[str, Any] | None = None) -> None:
        """Write the program and its tensors; :func:`oneflow.jit.load` reads them."""
        save(self, f, _extra_files)


class _Scripts(type(Module)):  # type: ignore[misc]
    """Modules that :func:`script` was given, which it returns as they are, count as results of it."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return super().__instancecheck__(instance) or (
            cls is ScriptModule and isinstance(instance, Module) and "_is_scripted" in vars(instance)
        )


class ScriptModule(Module, metaclass=_Scripts):
    """What modules are that :func:`trace` returns, and those that :func:`script` was given. Subclasses run as Python.

    Example::

        >>> isinstance(oneflow.jit.trace(oneflow.nn.ReLU(), oneflow.ones(1)), oneflow.jit.ScriptModule)
        True
    """


class TracedModule(_Traced, ScriptModule):
    """A module that runs a traced program, with the parameters and buffers of the module that was traced.

    :func:`trace` makes one. ``train()`` and ``eval()`` set ``training`` and do not change the program.
    """

    def __init__(self, program: ExportedProgram, name: str = "Module") -> None:
        super().__init__()
        call = program.module()
        self.__dict__["_exported"], self.__dict__["_call"] = program, call
        self.__dict__["original_name"] = name
        # The same tables: what is moved or loaded here is what the program reads.
        self.__dict__["_parameters"] = call._parameters
        self.__dict__["_buffers"] = call._buffers
        self.__dict__["_modules"] = call._modules
        self.__dict__["_non_persistent_buffers_set"] = call._non_persistent_buffers_set

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program."""
        return self.__dict__["_call"].forward(*args, **kwargs)

    def __deepcopy__(self, memo: Any) -> TracedModule:
        import copy

        return TracedModule(copy.deepcopy(self.__dict__["_exported"], memo), self.__dict__["original_name"])

    def __reduce__(self) -> Any:
        from oneflow.export import _archive

        return _module_of, (_archive.to_bytes(self.__dict__["_exported"]), self.__dict__["original_name"])

    def extra_repr(self) -> str:
        return f"original_name={self.__dict__['original_name']}"


def _module_of(data: bytes, name: str) -> TracedModule:
    from oneflow.export import _archive

    return TracedModule(_archive.of_bytes(data), name)


class ScriptFunction(_Traced):
    """A function that runs a traced program; :func:`trace` of a function makes one.

    Example::

        >>> double = oneflow.jit.trace(lambda x: x * 2, oneflow.ones(1))
        >>> double(oneflow.ones(3))
        tensor([2., 2., 2.])
    """

    def __init__(self, program: ExportedProgram, name: str) -> None:
        self.__dict__["_exported"], self.__dict__["_call"] = program, program.module()
        self.__name__ = self.name = name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__dict__["_call"](*args, **kwargs)


def trace(
    func: Callable[..., Any],
    example_inputs: Any = None,
    optimize: Any = None,
    check_trace: bool = True,
    check_inputs: Any = None,
    check_tolerance: float = 1e-5,
    strict: bool = True,
    _force_outplace: bool = False,
    _module_class: Any = None,
    _compilation_unit: Any = None,
    example_kwarg_inputs: Mapping[str, Any] | None = None,
    _store_inputs: bool = True,
) -> Any:
    """Trace a module or a function on example inputs.

    Python runs once or a few times, at several sizes, to find the dimensions that may differ between calls; what it
    decided is fixed. A call with sizes for which Python may have decided otherwise raises an AssertionError.

    Args:
        func: a module, whose parameters and buffers the traced one shares, or a function.
        example_inputs: a tuple of arguments, or one tensor.
        check_trace: compare the program with Python on the example, and warn where they differ.
        check_inputs: more tuples of arguments to compare on.
        check_tolerance: the relative error allowed.
        example_kwarg_inputs: named arguments.
        optimize, strict: without effect.

    Raises:
        RuntimeError: Python reads a tensor's values.

    Example::

        >>> traced = oneflow.jit.trace(oneflow.nn.Linear(3, 2), oneflow.ones(1, 3))
        >>> traced(oneflow.ones(5, 3)).shape
        oneflow.Size([5, 2])
        >>> [node.name for node in traced.graph.nodes]
        ['p_weight', 'p_bias', 'input_1', 'linear', 'output']
    """
    if _module_class is not None or _compilation_unit is not None:
        raise NotImplementedError("jit.trace: classes and units of TorchScript are not provided")
    traced: Any = func
    if isinstance(traced, _Traced):
        return traced
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("example_kwarg_inputs should be a dict, or example_inputs a tuple")
    args = _arguments(example_inputs)
    kwargs = dict(example_kwarg_inputs or {})
    program = _program(func, args, kwargs)
    made: Any
    if isinstance(func, Module):
        made = TracedModule(program, type(func).__name__)
        made.__dict__["training"] = func.training
    else:
        made = ScriptFunction(program, getattr(func, "__name__", "function"))
    if check_trace:
        others = check_inputs or ()
        for given in (args, *(_arguments(more) for more in others)):
            _compare(func, made, given, kwargs, check_tolerance)
    return made


def trace_module(mod: Module, inputs: Mapping[str, Any], **options: Any) -> TracedModule:
    """:func:`trace` of a module's ``forward``, with the arguments ``inputs["forward"]``.

    Raises:
        NotImplementedError: other methods are to be traced.

    Example::

        >>> made = oneflow.jit.trace_module(oneflow.nn.ReLU(), {"forward": oneflow.ones(2)})
        >>> made(oneflow.tensor([-1.0, 1.0]))
        tensor([0., 1.])
    """
    if not isinstance(inputs, Mapping):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    if set(inputs) != {"forward"}:
        raise NotImplementedError(f"jit.trace_module: the methods {sorted(inputs)} are given; forward alone is traced")
    return trace(mod, inputs["forward"], **options)


def _arguments(given: Any) -> tuple[Any, ...]:
    if given is None:
        return ()
    if isinstance(given, (Tensor, dict)):
        return (given,)
    return tuple(given)


def _program(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ExportedProgram:
    from oneflow._trace.open_dims import AUTO, OpenDims
    from oneflow.export._exporting import exported

    found = OpenDims()
    tensors = [leaf for leaf in _pytree.tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    for i, tensor in enumerate(tensors):
        for axis, size in enumerate(tensor.shape):
            found.add((i, axis), AUTO, size, f"input {i}")
    return exported(func, args, kwargs, found, ())


def _compare(func: Any, made: Any, args: tuple[Any, ...], kwargs: dict[str, Any], tolerance: float) -> None:
    saved = [(t, t.clone()) for t in func.buffers()] if isinstance(func, Module) else []
    state = oneflow.get_rng_state()
    with oneflow.no_grad():
        results = []
        for call in (func, made):
            oneflow.set_rng_state(state)
            copies = _pytree.tree_map(lambda v: v.clone() if isinstance(v, Tensor) else v, (args, kwargs))
            results.append(_pytree.tree_leaves(call(*copies[0], **copies[1])))
            for tensor, before in saved:
                tensor.copy_(before)
    oneflow.set_rng_state(state)
    for i, (expected, got) in enumerate(zip(*results, strict=False)):
        if isinstance(expected, Tensor) and not _close(expected, got, tolerance):
            warnings.warn(
                f"Output nr {i + 1}. of the traced function does not match the corresponding output of the Python "
                f"function. Sizes {list(got.shape)} and {list(expected.shape)}; values differ by more than {tolerance}",
                TracerWarning,
                stacklevel=3,
            )


def _close(expected: Tensor, got: Any, tolerance: float) -> bool:
    if not isinstance(got, Tensor) or got.shape != expected.shape:
        return False
    if not (expected.is_floating_point() or expected.is_complex()):
        return bool((expected == got).all())
    return oneflow.allclose(expected, got, rtol=tolerance, atol=tolerance, equal_nan=True)


def save(m: Any, f: Any, _extra_files: Mapping[str, Any] | None = None) -> None:
    """Write a traced module or function to a path or an open file, as :func:`oneflow.export.save` does.

    Raises:
        TypeError: ``m`` was not traced.

    Example::

        >>> import io
        >>> file = io.BytesIO()
        >>> oneflow.jit.save(oneflow.jit.trace(oneflow.nn.ReLU(), oneflow.ones(2)), file)
        >>> oneflow.jit.load(io.BytesIO(file.getvalue()))(oneflow.tensor([-2.0, 2.0]))
        tensor([0., 2.])
    """
    if not isinstance(m, _Traced):
        raise TypeError(
            f"jit.save: a {type(m).__name__} has no program (jit.script leaves it as it is); trace it with example "
            "inputs first, by oneflow.jit.trace"
        )
    from oneflow.export import _archive

    with warnings.catch_warnings():
        # TorchScript's files have other endings.
        warnings.filterwarnings("ignore", "Expect archive file")
        _archive.save(m.__dict__["_exported"], f, extra_files=_extra_files)


def load(
    f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None, _restore_shapes: bool = False
) -> TracedModule:
    """Read what :func:`save` has written.

    Args:
        f: a path or an open file.
        map_location: the device to move parameters and buffers to.

    Raises:
        ValueError: the file is something else, such as an archive of TorchScript, whose program is not read.

    Example::

        >>> import io
        >>> file = io.BytesIO()
        >>> oneflow.jit.save(oneflow.jit.trace(oneflow.nn.Tanh(), oneflow.ones(2)), file)
        >>> oneflow.jit.load(io.BytesIO(file.getvalue())).code.count("tanh")
        3
    """
    from oneflow.export import _archive

    if not hasattr(f, "read") and not os.path.exists(os.fspath(f)):
        raise ValueError(f"The provided filename {os.fspath(f)} does not exist")
    made = TracedModule(_archive.load(f, extra_files=_extra_files))
    return made if map_location is None else made.to(map_location)
