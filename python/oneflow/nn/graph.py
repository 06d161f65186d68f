"""nn.Graph: a module, its loss, backward and optimizer as one compiled program.

``build`` is traced once for each meta of the inputs, or at several sizes where dimensions stay open
(``config.set_dynamic_shapes``). The trace becomes a program with planned memory; calling the graph runs that program.
No Python runs between its ops.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow._trace import feeding, report, runtime_state
from oneflow._trace.building import Building, GraphModule, name_paths
from oneflow._trace.config import GraphConfig
from oneflow._trace.decorators import Either, keeping_shapes
from oneflow._trace.dynamic import MARKED, opened
from oneflow._trace.named_sizes import SizeError
from oneflow._trace.program import Program, wants
from oneflow._trace.source_locations import user_depth
from oneflow._trace.structure import Modules, flatten_call, modes_key, names_in
from oneflow._trace.tracing import slices, trace_at_sizes, trace_program
from oneflow._trace.zero import Zero
from oneflow.nn.modules.module import Module

__all__ = ["Graph", "GraphConfig", "GraphModule"]


# Tracing changes the parameters' gradients for a while: one thread at a time.
_COMPILING = threading.RLock()

# The number of programs that a graph keeps by default.
_KEPT = 16
# The number of changes of optimizer settings before a graph warns of their cost.
_MANY_CHANGES = 5


class Graph:
    """Base class of graphs.

    Subclasses set modules in ``__init__``, add optimizers with :meth:`add_optimizer` and define ``build``, which takes
    and returns tensors, None, and lists, tuples and dicts of them. ``build`` may call ``loss.backward()``; the steps of
    the optimizers and of their learning-rate schedules follow it by themselves.

    Inside ``build`` tensors have no values: ``item()``, ``numpy()`` and ops whose shape depends on data raise. Tensors
    from outside become variables of the program: it reads and writes their memory.

    Example::

        >>> class Twice(oneflow.nn.Graph):
        ...     def build(self, x):
        ...         return x * 2
        >>> Twice()(oneflow.ones(2))
        tensor([2., 2.])
    """

    _counts: dict[str, int] = {}
    # Programs that were compiled elsewhere.
    _loaded: list[Any] = []

    def __init__(
        self,
        *,
        enable_get_runtime_state_dict: bool = False,
        debug_v_level: int = -1,
        debug_ranks: Any = None,
        debug_max_py_stack_depth: int = 2,
        debug_only_user_py_stack: bool = True,
        debug_op_repr_with_py_stack: bool = False,
    ) -> None:
        kind = type(self).__name__
        number = Graph._counts.get(kind, 0)
        Graph._counts[kind] = number + 1
        self._name = f"{kind}_{number}"
        self.config = GraphConfig()
        self._optimizers: list[tuple[Any, Any]] = []
        self._scaler: Any = None
        self._most = _KEPT
        # The plan of `enable_auto_parallel` with the device type; and of the plan that is applied, the sizes of inputs
        # and the layouts of calls.
        self._plan: Any = None
        self._pins: Any = None
        self._forget()
        self._modules: dict[str, Module] = {}
        self.debug(
            debug_v_level,
            ranks=debug_ranks,
            max_py_stack_depth=debug_max_py_stack_depth,
            only_user_py_stack=debug_only_user_py_stack,
            op_repr_with_py_stack=debug_op_repr_with_py_stack,
        )

    def _forget(self) -> None:
        """Start without programs."""
        self._compiled: OrderedDict[Any, Program] = OrderedDict()
        self._flat = Modules(())
        # Modules and optimizers that build uses without registering them, and attributes of modules that traces write.
        self._others: dict[int, Module] = {}
        self._steppers: dict[int, Any] = {}
        self._moved: frozenset[tuple[int, str]] = frozenset()
        # The inputs that the latest program was compiled for, and how often settings have changed.
        self._last: tuple[Any, ...] | None = None
        self._changes = 0
        # The named dimensions of calls, by the structure and the ranks of their inputs.
        self._open: dict[Any, list[Any]] = {}
        self._configured = self.config.changes

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles compile their own programs."""
        made = ("_compiled", "_flat", "_loaded", "_others", "_steppers", "_moved", "_last", "_open")
        return {name: value for name, value in self.__dict__.items() if name not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    # ---- contents

    def __setattr__(self, name: str, value: Any) -> None:
        modules = self.__dict__.get("_modules")
        if isinstance(value, Module):
            if modules is None:
                raise AttributeError("call super().__init__() before assigning modules")
            modules[name] = value
            self._flat = Modules(())
            name_paths(name, value)
        elif modules is not None:
            self._drop(name)
            if self.__dict__.get("_compiled") and not _oneflow._is_tracing() and self._decides(name, value):
                self._compiled.clear()
        object.__setattr__(self, name, value)

    def _decides(self, name: str, value: Any) -> bool:
        """Return whether programs depend on an attribute: they read tensors' memory, and treat numbers as constants."""
        if isinstance(value, Tensor):
            return True
        constant = type(value) in (bool, int, float, str) and name in names_in(self.build)
        return constant and value != self.__dict__.get(name)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self._drop(name)

    def _drop(self, name: str) -> None:
        if self._modules.pop(name, None) is not None:
            self._flat = Modules(())

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__") and "_modules" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__}: call super().__init__() in its __init__")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def name(self) -> str:
        """Class name and number."""
        return self._name

    @property
    def training(self) -> bool:
        """Whether the graph has an optimizer."""
        return bool(self._optimizers)

    @property
    def is_compiled(self) -> bool:
        """Whether ``build`` has been traced."""
        return bool(self._compiled or self._loaded)

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """The computation. Defined by subclasses."""
        raise NotImplementedError("nn.Graph: a subclass must define build()")

    def add_optimizer(self, optim: Any, *, lr_sch: Any = None, is_sparse: bool = False) -> None:
        """Let every call end with a step of this optimizer, and of this schedule after it.

        A learning rate that depends on a result, as that of ``ReduceLROnPlateau`` does, is set between calls: call the
        schedule's ``step`` yourself.

        Raises:
            TypeError: it is no optimizer, or no schedule; or one whose step needs arguments, such as LBFGS.
            ValueError: it was added before, or the schedule is that of another optimizer.
            RuntimeError: the graph is compiled already.
        """
        from oneflow.optim import Optimizer

        if not isinstance(optim, Optimizer):
            raise TypeError(f"add_optimizer(): expected an Optimizer, got {type(optim).__name__}")
        if lr_sch is not None and not hasattr(lr_sch, "step"):
            raise TypeError(f"add_optimizer(): expected a learning-rate schedule, got {type(lr_sch).__name__}")
        if wants(optim.step):
            raise TypeError(
                f"add_optimizer(): {type(optim).__name__}.step() needs {', '.join(wants(optim.step))}, which calls the "
                "model again as often as data wants: step eagerly, with a graph of the loss alone or none"
            )
        if lr_sch is not None and wants(lr_sch.step):
            raise TypeError(
                f"add_optimizer(): {type(lr_sch).__name__}.step() needs {', '.join(wants(lr_sch.step))}: call it "
                "yourself after the graph, which reads learning rates in every call"
            )
        if any(optim is known for known, _ in self._optimizers):
            raise ValueError(f"add_optimizer(): this {type(optim).__name__} was added already")
        # An optimizer may wrap another, whose groups are its own.
        if getattr(lr_sch, "optimizer", optim) not in (optim, getattr(optim, "optimizer", optim)):
            raise ValueError(f"add_optimizer(): this {type(lr_sch).__name__} is the schedule of another optimizer")
        if is_sparse:
            raise NotImplementedError("add_optimizer(is_sparse=True) is not supported")
        if self._compiled:
            raise RuntimeError("add_optimizer() comes before the first call")
        self._optimizers.append((optim, lr_sch))

    def set_grad_scaler(self, grad_scaler: Any = None) -> None:
        """Multiply losses by the scaler's scale before backward; the scaler steps the optimizers and adjusts its scale.

        Args:
            grad_scaler: an ``amp.GradScaler`` or ``amp.StaticGradScaler``; its scale lives in the program.

        Raises:
            TypeError: it is no gradient scaler.
            RuntimeError: the graph is compiled already.
        """
        from oneflow.amp import GradScaler

        if grad_scaler is not None and not isinstance(grad_scaler, GradScaler):
            raise TypeError(f"set_grad_scaler(): expected a GradScaler, got {type(grad_scaler).__name__}")
        if self._compiled:
            raise RuntimeError("set_grad_scaler() comes before the first call")
        self._scaler = grad_scaler if grad_scaler is not None and grad_scaler.is_enabled() else None

    def debug(
        self,
        v_level: int = -1,
        *,
        ranks: Any = None,
        max_py_stack_depth: int = 2,
        only_user_py_stack: bool = True,
        op_repr_with_py_stack: bool = False,
    ) -> None:
        """Choose what to print when the graph compiles.

        Args:
            v_level: -1 nothing; 0 the stages of compilation and what the program takes; 1 also the modules; 2 also the
                ops as they run; 3 also the graph as it was traced, each step's operands and the memory in use then.
            ranks: ranks that print: a number, a list, -1 for all; by default rank 0.
            max_py_stack_depth: how many lines of Python are kept for each op.
            only_user_py_stack: leave lines of this package out.
            op_repr_with_py_stack: print those lines behind the ops of levels 2 and 3.
        """
        if not isinstance(v_level, int) or not -1 <= v_level <= 3:
            raise ValueError(f"Graph.debug(): v_level must be -1, 0, 1, 2 or 3, got {v_level!r}")
        if not isinstance(max_py_stack_depth, int) or max_py_stack_depth < 1:
            raise ValueError(
                f"Graph.debug(): max_py_stack_depth must be a positive integer, got {max_py_stack_depth!r}"
            )
        self._debug_level = v_level
        self._debug_ranks = [0] if ranks is None else [ranks] if isinstance(ranks, int) else list(ranks)
        self._stack_depth, self._only_user = max_py_stack_depth, only_user_py_stack
        self._show_stack = op_repr_with_py_stack

    # ---- state

    def state_dict(self) -> OrderedDict[str, Any]:
        """Return the states of modules by attribute name, of optimizers and of their schedules."""
        state: OrderedDict[str, Any] = OrderedDict()
        for name, module in self._modules.items():
            state[name] = module.state_dict()
        for i, (optimizer, schedule) in enumerate(self._optimizers):
            state[f"optimizer_{i}"] = optimizer.state_dict()
            if schedule is not None:
                state[f"lr_scheduler_{i}"] = schedule.state_dict()
        return state

    def load_state_dict(self, state_dict: dict[str, Any], strict: bool = True) -> None:
        """Take over what :meth:`state_dict` returned. Before the first call.

        Raises:
            RuntimeError: the graph is compiled already, or (with ``strict``) parts are missing or unknown.
        """
        if self._compiled:
            raise RuntimeError("Graph.load_state_dict() comes before the first call")
        known = set(self.state_dict())
        if strict and known != set(state_dict):
            raise RuntimeError(
                f"Graph.load_state_dict(): missing parts {sorted(known - set(state_dict))}, "
                f"unknown parts {sorted(set(state_dict) - known)}"
            )
        for name, module in self._modules.items():
            if name in state_dict:
                module.load_state_dict(state_dict[name], strict=strict)
        for i, (optimizer, schedule) in enumerate(self._optimizers):
            if f"optimizer_{i}" in state_dict:
                optimizer.load_state_dict(state_dict[f"optimizer_{i}"])
            if schedule is not None and f"lr_scheduler_{i}" in state_dict:
                schedule.load_state_dict(state_dict[f"lr_scheduler_{i}"])

    # ---- running

    def _with_dynamic_input_shape(self, *, size: int = 10, enable_shared: bool = True) -> Graph:
        """Keep the programs of the ``size`` input shapes used last, and forget older ones. Returns the graph itself.

        Without it sixteen are kept: each has its own working memory. ``enable_shared`` is accepted: programs share
        parameters anyway. On the class it is a decorator of ``__init__``, as in OneFlow:
        ``@nn.Graph.with_dynamic_input_shape(size=4)``.

        Raises:
            ValueError: ``size`` is not a positive integer.
        """
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"with_dynamic_input_shape(): size must be a positive integer, got {size!r}")
        self._most = size
        return self

    def _trace(self, *args: Any, **kwargs: Any) -> Graph:
        """Compile for inputs like these, without running. Returns the graph itself.

        On the class it is a decorator, as in OneFlow, that turns a function into a graph.

        Example::

            >>> @oneflow.nn.Graph.trace
            ... def twice(x):
            ...     return x * 2
            >>> twice(oneflow.ones(2))
            tensor([2., 2.])
        """
        tensors: list[Tensor] = []
        self._program(args, kwargs, tensors)
        return self

    with_dynamic_input_shape = Either(_with_dynamic_input_shape, keeping_shapes)
    trace = Either(_trace, lambda function: _graph_of(function))

    # ---- sharing and moving programs

    def enable_shared(self, mode: bool = True) -> None:
        """Allow other graphs to :meth:`share_from` this one, which is always allowed; False forbids it."""
        self._shareable = bool(mode)

    def share_from(self, shared_graph: Graph) -> None:
        """Take over the modules' weights of a compiled graph: both read and write the same memory from now on.

        Raises:
            TypeError: it is no graph.
            RuntimeError: it is not compiled or forbids sharing, this one is compiled, or their modules differ.
        """
        if not isinstance(shared_graph, Graph):
            raise TypeError(f"share_from(): expected an nn.Graph, got {type(shared_graph).__name__}")
        if not shared_graph.is_compiled or not shared_graph.__dict__.get("_shareable", True):
            raise RuntimeError(f"share_from(): {shared_graph.name} must be compiled, and enable_shared")
        if self._compiled:
            raise RuntimeError("share_from() comes before the first call")
        own, others = dict(self._parameters()), dict(shared_graph._parameters())
        form = [{name: (tuple(t.shape), t.dtype) for name, t in part.items()} for part in (own, others)]
        if form[0] != form[1]:
            names = sorted(name for name in {**own, **others} if form[0].get(name) != form[1].get(name))
            raise RuntimeError(f"share_from(): the modules differ from those of {shared_graph.name} in {names[:5]}")
        for name, tensor in own.items():
            tensor.data = others[name].data

    def enable_save_runtime_state_dict(self, mode: bool = True) -> None:
        """Allow :meth:`runtime_state_dict`, which is always allowed; False forbids it."""
        self._saves_programs = bool(mode)

    def runtime_state_dict(self, destination: Any = None, with_eager: bool = False) -> OrderedDict[str, Any]:
        """Return the compiled programs with the weights as they are now: tensors and strings that ``save`` writes.

        Args:
            destination: a dictionary to put them into.
            with_eager: accepted: weights belong to the programs.

        Raises:
            RuntimeError: the graph has not been called yet.
        """
        if not self._compiled:
            raise RuntimeError("runtime_state_dict(): call the graph first (or trace it), so that it is compiled")
        if not self.__dict__.get("_saves_programs", True):
            raise RuntimeError("runtime_state_dict(): it is forbidden by enable_save_runtime_state_dict(False)")
        state = runtime_state.write(self)
        if destination is not None:
            destination.update(state)
            return destination
        return state

    def load_runtime_state_dict(self, state_dict: dict[str, Any], *, warmup_with_run: bool = True) -> None:
        """Run the programs of :meth:`runtime_state_dict` from now on, without tracing: ``build`` is not called.

        They have their own weights. Inputs that none was compiled for are traced as usual.

        Args:
            state_dict: what :meth:`runtime_state_dict` returned, here or in another process.
            warmup_with_run: accepted: nothing has to be warm.

        Raises:
            ValueError: it is something else, or of another version.
        """
        self._loaded = runtime_state.read(state_dict)

    @staticmethod
    def runtime_state_dict_to(state_dict: dict[str, Any], device: Any) -> dict[str, Any]:
        """Return a runtime state for a device: the one it was compiled for.

        Raises:
            NotImplementedError: another device.
        """
        return runtime_state.to_device(state_dict, device)

    @property
    def parallel_plan(self) -> Any:
        """The plan (``oneflow.auto_parallel.Plan``) that ``enable_auto_parallel`` made in the first call, or None."""
        return None if self._plan is None else self._plan[0]

    def _program(self, args: Any, kwargs: Any, tensors: list[Tensor]) -> Program:
        if self.config._auto_parallel is not None:
            planner: Any = oneflow.auto_parallel
            args, kwargs = planner._laid_out(self, args, kwargs)
        if self.config.changes != self._configured:
            self._forget()
        structure = flatten_call(args, kwargs, tensors)
        if MARKED or self.config._dynamic_shapes is not None:
            known = self._at_sizes(structure, args, kwargs, tensors)
            if known is not None:
                return known
        metas = tuple([(t.shape, t.dtype, t.device, t.requires_grad, *_layout(t)) for t in tensors])
        inputs = (structure, metas, modes_key(), self._settings())
        if len(self._compiled) == 1:
            known = self._compiled.get((inputs, self._flat.key()))
            if known is not None and not known.is_stale():
                return known
        return self._made(inputs, None, args, kwargs, tensors)

    def _at_sizes(self, structure: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> Program | None:
        """The program for many sizes that takes these inputs; None where they have a program of their own.

        Sizes at which Python decides otherwise than in the programs so far get another one.
        """
        all_dims = self._named_dims(structure, args, kwargs, tensors)
        for dims in all_dims:
            inputs = (structure, dims.key(tensors), modes_key(), self._settings())
            known = self._compiled.get((inputs, self._flat.key())) if len(self._compiled) == 1 else None
            if known is None or known.is_stale():
                known = self._made(inputs, dims, args, kwargs, tensors)
            if known.takes(tensors):
                return known
            if not known.fitting.is_restricted:
                return None
        dims = all_dims[0].again(tensors, len(all_dims)) if 0 < len(all_dims) < self._most else None
        if dims is None:
            return None
        inputs = (structure, dims.key(tensors), modes_key(), self._settings())
        try:
            known = self._made(inputs, dims, args, kwargs, tensors)
        except SizeError:
            # Python decides so at these sizes alone.
            all_dims[0].alone.add(tuple(dims.example.values()))
            return None
        all_dims.append(dims)
        return known if known.takes(tensors) else None

    def _named_dims(self, structure: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> list[Any]:
        """The named dimensions of a call, those of the first call of its kind first; none where sizes are fixed."""
        key = (structure, tuple([t.dim() for t in tensors]))
        found = self._open.get(key)
        if found is None or (not found and MARKED):
            spec = self.config._dynamic_shapes
            made = opened(self.build, args, kwargs, spec, tensors)
            if made is not None and any(t.is_global for t in tensors):
                raise NotImplementedError(f"{self._name}: global tensors have a program for each size")
            found = self._open[key] = [] if made is None else [made]
        return found

    def _made(self, inputs: tuple[Any, ...], dims: Any, args: Any, kwargs: Any, tensors: list[Tensor]) -> Program:
        """The program for such inputs; it is compiled if there is none yet."""
        key = (inputs, self._flat.key())
        program = self._compiled.get(key)
        if program is None:
            # A module may have got another child: list them again.
            self._flat = self._all_modules()
            key = (inputs, self._flat.key())
            program = self._compiled.get(key)
        if program is None or program.is_stale():
            # A launcher's job begins with the first graph, where nothing else has asked for it.
            oneflow.distributed._join_launched()
            zero = slices(self)
            with _COMPILING:
                self._tell_why(inputs)
                _oneflow._record_global_calls(True)
                try:
                    program = self._compile(args, kwargs, tensors, zero, dims)
                except BaseException:
                    _oneflow._record_global_calls(False)
                    raise
            # Ranks may be threads that share the lock.
            _oneflow._compare_global_calls(self._name)
            with _COMPILING:
                # Tracing may have met other modules and optimizers.
                inputs = (*inputs[:3], self._settings())
                self._compiled[inputs, self._flat.key()] = program
                if len(self._compiled) > self._most:
                    self._compiled.popitem(last=False)
        else:
            # Another thread may have dropped it meanwhile.
            with contextlib.suppress(KeyError):
                self._compiled.move_to_end(key)
        return program

    def _tell_why(self, inputs: tuple[Any, ...]) -> None:
        """Warn, once, where numbers that a program takes for constants change again and again."""
        parts = {part for part in self._flat.key()[-1] if isinstance(part, tuple)}
        last, self._last = self._last, (inputs, parts)
        if last is None or last[0][:2] != inputs[:2]:
            return
        settings = {new[0] for new, old in zip(inputs[3], last[0][3], strict=False) if new != old} - {None}
        attributes = {name for name, _ in parts ^ last[1]}
        self._changes += bool(settings or attributes)
        if (settings or attributes) and self._changes == _MANY_CHANGES:
            names = ", ".join(map(repr, sorted(settings or attributes)))
            of, free = (
                ("optimizers", "learning rates and such of the rules here") if settings else ("modules", "tensors")
            )
            text = f"{self._name} is compiled again whenever {names} of its {of} changes, {_MANY_CHANGES} times so far"
            warnings.warn(f"{text}: {free} may change freely", stacklevel=user_depth())

    def _all_modules(self) -> Modules:
        return Modules([*self._modules.values(), *self._others.values()], self._moved, names_in(self.build))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._loaded and (found := runtime_state.run(self._loaded, args, kwargs)) is not None:
            return found[0]
        tensors: list[Tensor] = []
        program = self._program(args, kwargs, tensors)
        results = program.run(tensors)
        self._stepped()
        return program.unpack(results)

    def _stepped(self) -> None:
        for optimizer, schedule in self._optimizers:
            optimizer._opt_called = True
            if schedule is not None:
                schedule.step()

    def over(self, loader: Any, *, prefetch: int | None = None) -> Iterator[Any]:
        """Run on every batch of a loader, which a separate thread reads ahead while a step runs.

        Args:
            loader: an iterable of batches, such as a DataLoader: tuples and lists are the positional arguments of
                ``build``, dicts its keyword arguments. Readers of ``oneflow.utils.data.readers`` run without Python.
            prefetch: how many batches may wait for their step. When so many do, the loader waits. By default four, or
                two where they are large.

        Yields:
            The results of each step. An error of the loader is raised here, once, after the steps of the batches before
            it; the graph can be used afterwards.

        Example::

            >>> class Twice(oneflow.nn.Graph):
            ...     def build(self, x):
            ...         return x * 2
            >>> [y.item() for y in Twice().over([oneflow.tensor(1.0), oneflow.tensor(2.0)])]
            [2.0, 4.0]
        """
        if prefetch is not None and not (isinstance(prefetch, int) and 1 <= prefetch <= 1024):
            raise ValueError(f"Graph.over(): prefetch must be a positive integer, got {prefetch!r}")
        if hasattr(loader, "source") and hasattr(loader, "empty"):
            yield from self._over_reader(loader, prefetch)
            return
        yield from self._over_batches(iter(loader), prefetch)

    def _over_batches(self, rest: Iterator[Any], prefetch: int | None) -> Iterator[Any]:
        batch = next(rest, feeding.END)
        while batch is not feeding.END:
            args, kwargs = feeding.arguments(batch)
            tensors: list[Tensor] = []
            program = self._program(args, kwargs, tensors)
            lookups = program.lookups
            batches = feeding.Batches(batch, rest, None if lookups is None else lookups.prepare)
            if not tensors or any(t.is_global or t.device.type != "cpu" for t in tensors):
                raise NotImplementedError("Graph.over(): batches are local tensors of the host")
            fits = True
            with feeding.fed(program, batches, tensors, prefetch) as feed:
                while fits:
                    self._settings()
                    prepared, rows = None, None
                    if lookups is not None:
                        if not feed.wait():
                            break
                        prepared = batches.prepared()
                        rows = lookups.rows(prepared)
                    results = feed.run(rows)
                    if results is None:
                        break
                    batches.ran()
                    results = program.settle(results, prepared)
                    self._stepped()
                    yield program.unpack(results)
                    # The caller may have changed what the program depends on.
                    fits = self._program(args, kwargs, []) is program
            for waiting, _ in batches.waiting:
                args, kwargs = feeding.arguments(waiting)
                yield self(*args, **kwargs)
            if batches.error is not None:
                raise batches.error
            batch = batches.odd if batches.odd is not feeding.END else next(rest, feeding.END)

    def _over_reader(self, reader: Any, prefetch: int | None) -> Iterator[Any]:
        inputs, end = tuple(reader.empty()), reader.position + len(reader)
        if self._program(inputs, {}, []).lookups is not None:
            # The host has to see the ids of each batch.
            for results in self._over_batches(_batches_of(reader), prefetch):
                reader.position += 1
                yield results
            return
        while reader.position < end:
            tensors: list[Tensor] = []
            program, fits = self._program(inputs, {}, tensors), True
            with feeding.fed(program, reader.source.at(reader.position), tensors, prefetch) as feed:
                while fits and reader.position < end:
                    self._settings()
                    results = feed.run()
                    reader.position += 1
                    self._stepped()
                    yield program.unpack(results)
                    fits = self._program(inputs, {}, []) is program

    def _settings(self) -> tuple[Any, ...]:
        """Return the optimizer values that a program treats as constants; update the numbers that its steps read."""
        if not self._optimizers and not self._steppers:
            return ()
        return tuple([setting for optimizer in self._stepping() for setting in optimizer._constants()])

    def _stepping(self) -> list[Any]:
        """The optimizers that step in every call."""
        return [*[optimizer for optimizer, _ in self._optimizers], *self._steppers.values()]

    def _parameters(self) -> Iterator[tuple[str, Tensor]]:
        for name, module in self._modules.items():
            for child, parameter in module.named_parameters():
                yield f"{name}.{child}", parameter
            for child, buffer in module.named_buffers():
                yield f"{name}.{child}", buffer

    def _compile(self, args: Any, kwargs: Any, tensors: list[Tensor], zero: Zero | None, dims: Any) -> Program:
        if dims is None:
            program, traced, compiled = trace_program(self, args, kwargs, tensors, zero)
        else:
            program, traced, compiled = trace_at_sizes(self, args, kwargs, tensors, dims)
        self._print(program, traced, compiled)
        return program

    def _has_met(self, building: Building) -> Modules:
        """Take note of the modules that a trace has called and written; return all that programs are about."""
        own = {id(m) for m in Modules(self._modules.values()).all}
        self._others.update((i, m) for i, m in building.called.items() if i not in own)
        self._moved |= building.moved
        self._flat = self._all_modules()
        return self._flat

    def _print(self, program: Program, traced: float, compiled: float) -> None:
        lines: list[str] = []
        rank = oneflow.distributed.get_rank() if oneflow.distributed.is_initialized() else 0
        level = self._debug_level
        if level >= 0 and (rank in self._debug_ranks or -1 in self._debug_ranks):
            memory = {k: v for k, v in program.compiled.memory().items() if k != "holders"}
            lines = [
                f"{self._name}: traced in {traced:.3f} s, compiled in {compiled:.3f} s",
                f"{self._name}: {program.compiled.n_launches()} launches a run, memory {memory}",
                *program.describe(self._name, level, self._modules, self._show_stack),
            ]
        for name, module in self._modules.items():
            for child, part in module.named_modules():
                lines += program.describe_module(self._name, f"{name}.{child}".rstrip("."), part)
        if lines:
            sys.stdout.write("\n".join(lines) + "\n")

    def memory_timeline(self) -> list[dict[str, Any]]:
        """Return for each step of the latest program its name, its origin with the lines of Python it comes from, what
        it reads and writes, and the bytes in use while it runs (parameters, inputs and results not counted).

        Raises:
            RuntimeError: the graph has not been called yet.
        """
        return self._latest("memory_timeline").timeline()

    def report(self, path: Any) -> None:
        """Write the latest program as one page for a browser: its graph, its schedule and its memory over time.

        Args:
            path: the file to write, ``"graph.html"`` for instance. It needs no other file and no network.

        Raises:
            RuntimeError: the graph has not been called yet.
        """
        report.write(self._latest("report").compiled, self._name, path)

    def memory(self) -> dict[str, Any]:
        """Return what the memory planner reached for the latest program, in bytes."""
        return self._latest("memory").compiled.memory()

    def _latest(self, asked: str) -> Program:
        if not self._compiled:
            raise RuntimeError(f"Graph.{asked}(): call the graph first, so that it is compiled")
        return next(reversed(self._compiled.values()))

    def __repr__(self) -> str:
        lines = [f"{self._name}("]
        lines.append(f"  (config):\n{self.config!r}")
        for name, module in self._modules.items():
            lines.append(f"  ({name}): " + repr(module).replace("\n", "\n  "))
        for program in self._compiled.values():
            lines.append("  " + program.compiled.text(False).rstrip().replace("\n", "\n  "))
        return "\n".join([*lines, ")"])


def _batches_of(reader: Any) -> Iterator[Any]:
    """A reader's batches as arguments of ``build``; its position stays."""
    source = reader.source.at(reader.position)
    for _ in range(len(reader)):
        tensors = reader.empty()
        source.fill(tensors)
        yield tuple(tensors)


def _layout(tensor: Tensor) -> tuple[Any, ...]:
    return (tensor.placement, tensor.sbp) if tensor.is_global else ()


def _graph_of(function: Callable[..., Any]) -> Any:
    """Return a graph whose ``build`` is a function."""
    if not inspect.isfunction(function):
        raise TypeError(f"nn.Graph.trace(): expected a function, got {type(function).__name__}")

    def build(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    functools.update_wrapper(build, function)
    return type(f"{function.__name__}_graph", (Graph,), {"build": build, "__doc__": function.__doc__})()
