"""nn.Graph: a module, its loss, backward and optimizer as one compiled program.

``build`` is traced once for each meta of the inputs. What it did becomes a static program with planned memory;
calling the graph runs that program. Nothing of Python runs between its ops.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.nn import _feeding, _report
from oneflow.nn.modules.module import Module
from oneflow.nn.structure import Modules, flatten, modes_key, unflatten, user_stack

# Entries of a parameter group that a program reads from memory, or not at all; the others are constants in it.
_NOT_TRACED = frozenset(("params", "param_names", "lr", "initial_lr"))


# Tracing changes the parameters' gradients for a while: one thread at a time.
_COMPILING = threading.RLock()

# Programs that a graph keeps unless it is told otherwise.
_KEPT = 16
_STRAIGHTEN = ("Disable", "MemoryFirst", "SpeedFirst", "OverlapCpuGpu", "DelayShortGpu")


class GraphConfig:
    """Options of a graph, under OneFlow's names. Set them before the first call.

    Options that are accepted but change nothing yet say so; options that would change results and are not supported
    raise NotImplementedError.
    """

    def __init__(self) -> None:
        self._fuse = True
        self._amp: Any = None
        self._micro_batches = 1
        self._straighten = "MemoryFirst"
        self._compress = False
        self._all_orders = True
        self._fuse_update = self._fuse_add = self._fuse_cast = True
        self._multi_tensor = True
        self._update_cast = False
        self._outputs = 2
        self._accepted: dict[str, Any] = {}

    def allow_fuse_elementwise(self, mode: bool = True) -> None:
        """Whether chains of elementwise ops and activations after linear layers become one kernel (default: yes).

        Without fusion a graph gives the bits of the eager program.
        """
        self._fuse = bool(mode)

    def enable_amp(self, mode: bool = True, *, dtype: Any = None) -> None:
        """Run ``build`` under autocast: matrix products and convolutions in ``dtype``, losses in float32.

        Args:
            mode: whether to.
            dtype: float16 or bfloat16; by default float16.

        Raises:
            TypeError: another dtype.
        """
        dtype = oneflow.float16 if dtype is None else dtype
        if dtype not in (oneflow.float16, oneflow.bfloat16):
            raise TypeError(f"enable_amp(): dtype must be oneflow.float16 or oneflow.bfloat16, got {dtype}")
        self._amp = dtype if mode else None

    def set_gradient_accumulation_steps(self, value: int) -> None:
        """Let one call take a mini-batch of ``value`` micro-batches.

        Inputs are split along their first dimension, ``build`` works on one part after another, gradients add up and
        the optimizers step once. Results are concatenated along the first dimension; 0-dim ones (losses) become a
        vector.

        Raises:
            ValueError: it is not a positive integer.
        """
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"set_gradient_accumulation_steps(): expected a positive integer, got {value!r}")
        self._micro_batches = value

    def enable_straighten_algorithm(self, mode: str = "MemoryFirst") -> None:
        """Choose the order of independent ops.

        "Disable" keeps the program's order, "MemoryFirst" (default) takes what frees memory first where that lowers the
        peak, "SpeedFirst" what the result waits for longest, "OverlapCpuGpu" and "DelayShortGpu" order work of several
        devices.

        Raises:
            ValueError: another mode.
        """
        if mode not in _STRAIGHTEN:
            raise ValueError(f"enable_straighten_algorithm(): expected one of {', '.join(_STRAIGHTEN)}, got {mode!r}")
        self._straighten = mode

    def enable_compress_memory(self, mode: bool = True) -> None:
        """Whether the memory planner goes on improving its best layout (default: no; compiling takes longer)."""
        self._compress = bool(mode)

    def enable_choose_best_memory_allocation(self, mode: bool = True) -> None:
        """Whether the memory planner tries all of its orders, or the first alone (default: all)."""
        self._all_orders = bool(mode)

    def allow_fuse_model_update_ops(self, mode: bool = True) -> None:
        """Whether what is done to gradients last becomes part of the update of their parameters (default: yes).

        The factor of a clipped norm is then never multiplied into memory, and plain gradient descent changes only those
        rows of an embedding that a step has looked up.
        """
        self._fuse_update = bool(mode)

    def allow_fuse_add_to_output(self, mode: bool = True) -> None:
        """Whether what is added to a matrix product is added by the product itself (default: yes)."""
        self._fuse_add = bool(mode)

    def allow_fuse_cast_scale(self, mode: bool = True) -> None:
        """Whether casts between float32 and half types join the elementwise ops beside them (default: yes)."""
        self._fuse_cast = bool(mode)

    def enable_multi_tensor_update(self, mode: bool = True) -> None:
        """Whether one launch updates all parameters of a group, or each has its own (default: one).

        With one each, a parameter is updated as soon as its gradient is there, and the gradient's memory is free again.
        """
        self._multi_tensor = bool(mode)

    def enable_fused_model_update_cast(self, mode: bool = True) -> None:
        """Whether parameters that a step reads in a half type (``enable_amp``) are kept in that type too (default: no).

        The cast then follows the update, it does not begin the next step. Writes to a parameter from outside are seen.
        """
        self._update_cast = bool(mode)

    def set_outputs_buffer_size(self, value: int = 2) -> None:
        """Let ``value`` runs be finished whose results nobody has read yet, each with memory of its own.

        Raises:
            ValueError: it is not a positive integer.
        """
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1024:
            raise ValueError(f"set_outputs_buffer_size(): expected a positive integer, got {value!r}")
        self._outputs = value

    def _options(self) -> dict[str, Any]:
        return {
            "fuse": self._fuse,
            "fuse_update": self._fuse_update,
            "fuse_add": self._fuse_add,
            "fuse_cast": self._fuse_cast,
            "multi_tensor_update": self._multi_tensor,
            "update_cast": self._update_cast,
            "outputs_buffer_size": self._outputs,
            "straighten": self._straighten,
            "compress": self._compress,
            "all_orders": self._all_orders,
        }

    def enable_auto_parallel(self, mode: bool = True) -> None:
        """Search of layouts. Not supported."""
        _refuse(mode, "enable_auto_parallel")

    def set_zero_redundancy_optimizer_mode(self, mode: Any = None) -> None:
        """Renamed: use enable_zero."""
        raise RuntimeError("set_zero_redundancy_optimizer_mode() was renamed: use enable_zero()")

    def __repr__(self) -> str:
        options = {
            "allow_fuse_elementwise": self._fuse,
            "enable_amp": self._amp,
            "set_gradient_accumulation_steps": self._micro_batches,
            "enable_straighten_algorithm": self._straighten,
            "enable_compress_memory": self._compress,
            "enable_choose_best_memory_allocation": self._all_orders,
            "allow_fuse_model_update_ops": self._fuse_update,
            "allow_fuse_add_to_output": self._fuse_add,
            "allow_fuse_cast_scale": self._fuse_cast,
            "enable_multi_tensor_update": self._multi_tensor,
            "enable_fused_model_update_cast": self._update_cast,
            "set_outputs_buffer_size": self._outputs,
            **self._accepted,
        }
        return "\n".join(f"    {name}: {value}" for name, value in options.items())


def _refuse(wanted: Any, name: str) -> None:
    if wanted:
        raise NotImplementedError(f"GraphConfig.{name}() is not supported")


def _accept(name: str, default: Any, why: str) -> Any:
    def method(self: GraphConfig, value: Any = default, **options: Any) -> None:
        self._accepted[name] = value

    method.__name__ = name
    method.__qualname__ = f"GraphConfig.{name}"
    method.__doc__ = f"Accepted for compatibility and changes nothing: {why}."
    return method


_SOLVER = "layouts are those that the eager rule chooses; there is no search whose costs it could weigh"
for _name, _default, _why in (
    ("enable_zero", True, "parameters stay as they are laid out; split them with to_global() to shard them"),
    ("enable_cudnn_conv_heuristic_search_algo", True, "convolutions run our own kernels, not cuDNN's"),
    ("enable_auto_parallel_ignore_user_sbp_config", True, _SOLVER),
    ("set_auto_parallel_computation_cost_ratio", 0.05, _SOLVER),
    ("set_auto_parallel_wait_time", 1.65e4, _SOLVER),
    ("enable_auto_parallel_trunk_algo", True, _SOLVER),
    ("enable_auto_parallel_sbp_collector", True, _SOLVER),
    ("enable_auto_memory", "AdaptiveMemory", _SOLVER),
):
    setattr(GraphConfig, _name, _accept(_name, _default, _why))


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
        self._compiled: OrderedDict[Any, _Program] = OrderedDict()
        self._modules: dict[str, Module] = {}
        self._flat = Modules(())
        self._most = _KEPT
        self.debug(
            debug_v_level,
            ranks=debug_ranks,
            max_py_stack_depth=debug_max_py_stack_depth,
            only_user_py_stack=debug_only_user_py_stack,
            op_repr_with_py_stack=debug_op_repr_with_py_stack,
        )

    # ---- what it is made of

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Module):
            if "_modules" not in self.__dict__:
                raise AttributeError("call super().__init__() before assigning modules")
            self._modules[name] = value
            self._flat = Modules(())
        object.__setattr__(self, name, value)

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
        return bool(self._compiled)

    def build(self, *args: Any, **kwargs: Any) -> Any:
        """The computation. Defined by subclasses."""
        raise NotImplementedError("nn.Graph: a subclass must define build()")

    def add_optimizer(self, optim: Any, *, lr_sch: Any = None, is_sparse: bool = False) -> None:
        """Let every call end with a step of this optimizer, and of this schedule after it.

        Raises:
            TypeError: it is no optimizer, or no schedule.
        """
        from oneflow.optim import Optimizer

        if not isinstance(optim, Optimizer):
            raise TypeError(f"add_optimizer(): expected an Optimizer, got {type(optim).__name__}")
        if lr_sch is not None and not hasattr(lr_sch, "step"):
            raise TypeError(f"add_optimizer(): expected a learning-rate schedule, got {type(lr_sch).__name__}")
        if is_sparse:
            raise NotImplementedError("add_optimizer(is_sparse=True) is not supported")
        if self._compiled:
            raise RuntimeError("add_optimizer() comes before the first call")
        self._optimizers.append((optim, lr_sch))

    def set_grad_scaler(self, grad_scaler: Any = None) -> None:
        """Multiply losses by the scaler's scale before backward, and let it step the optimizers and adjust its scale.

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

    def with_dynamic_input_shape(self, *, size: int = 10, enable_shared: bool = True) -> Graph:
        """Keep the programs of the ``size`` input shapes used last, and forget older ones. Returns the graph itself.

        Without it sixteen are kept: each has working memory of its own. ``enable_shared`` is accepted: programs share
        parameters anyway.
        """
        if not isinstance(size, int) or size < 1:
            raise ValueError(f"with_dynamic_input_shape(): size must be a positive integer, got {size!r}")
        self._most = size
        return self

    def trace(self, *args: Any, **kwargs: Any) -> Graph:
        """Compile for inputs like these, without running. Returns the graph itself."""
        tensors: list[Tensor] = []
        self._program(args, kwargs, tensors)
        return self

    def _program(self, args: Any, kwargs: Any, tensors: list[Tensor]) -> _Program:
        structure = flatten((args, kwargs), tensors, "input")
        inputs = (structure, *[(t.shape, t.dtype, t.device, *_layout(t)) for t in tensors], *self._modes())
        key = (inputs, self._flat.key())
        program = self._compiled.get(key)
        if program is None:
            # A module may have got another child: list them again.
            self._flat = Modules(self._modules.values())
            key = (inputs, self._flat.key())
            program = self._compiled.get(key)
        if program is None or program.is_stale():
            with _COMPILING:
                program = self._compiled[key] = self._compile(args, kwargs, tensors)
            if len(self._compiled) > self._most:
                self._compiled.popitem(last=False)
        else:
            self._compiled.move_to_end(key)
        return program

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tensors: list[Tensor] = []
        program = self._program(args, kwargs, tensors)
        for optimizer, _ in self._optimizers:
            optimizer.refresh_lr()
        results = program.compiled.run(tensors)
        self._stepped()
        return unflatten(program.structure, iter(results))

    def _stepped(self) -> None:
        for optimizer, schedule in self._optimizers:
            optimizer._opt_called = True
            if schedule is not None:
                schedule.step()

    def over(self, loader: Any, *, prefetch: int = 2) -> Iterator[Any]:
        """Run on every batch of a loader, which a thread of its own reads ahead while a step runs.

        Args:
            loader: an iterable of batches, such as a DataLoader: tuples and lists are the positional arguments of
                ``build``, dicts its keyword arguments. Readers of ``oneflow.utils.data.readers`` run without Python.
            prefetch: how many batches may wait for their step. When so many do, the loader waits.

        Yields:
            The results of each step. What the loader raises is raised here, once, after the steps of the batches before
            it; the graph can be used afterwards.

        Example::

            >>> class Twice(oneflow.nn.Graph):
            ...     def build(self, x):
            ...         return x * 2
            >>> [y.item() for y in Twice().over([oneflow.tensor(1.0), oneflow.tensor(2.0)])]
            [2.0, 4.0]
        """
        if not isinstance(prefetch, int) or not 1 <= prefetch <= 1024:
            raise ValueError(f"Graph.over(): prefetch must be a positive integer, got {prefetch!r}")
        if hasattr(loader, "source") and hasattr(loader, "empty"):
            yield from self._over_reader(loader, prefetch)
            return
        rest = iter(loader)
        batch = next(rest, _feeding.END)
        while batch is not _feeding.END:
            batches = _feeding.Batches(batch, rest)
            args, kwargs = _feeding.arguments(batch)
            tensors: list[Tensor] = []
            program = self._program(args, kwargs, tensors)
            if not tensors or any(t.is_global or t.device.type != "cpu" for t in tensors):
                raise NotImplementedError("Graph.over(): batches are local tensors of the host")
            program.compiled.feed(batches, list(range(len(tensors))), prefetch)
            fits = True
            try:
                while fits:
                    for optimizer, _ in self._optimizers:
                        optimizer.refresh_lr()
                    results = program.compiled.run_fed()
                    if results is None:
                        break
                    batches.ran()
                    self._stepped()
                    yield unflatten(program.structure, iter(results))
                    # The caller may have changed what the program was made for.
                    fits = self._program(args, kwargs, []) is program
            finally:
                program.compiled.end_feed()
            for waiting in batches.waiting:
                args, kwargs = _feeding.arguments(waiting)
                yield self(*args, **kwargs)
            batch = batches.odd if batches.odd is not _feeding.END else next(rest, _feeding.END)

    def _over_reader(self, reader: Any, prefetch: int) -> Iterator[Any]:
        tensors: list[Tensor] = []
        program = self._program(tuple(reader.empty()), {}, tensors)
        program.compiled.feed(reader.source, list(range(len(tensors))), prefetch)
        try:
            for _ in range(len(reader)):
                for optimizer, _ in self._optimizers:
                    optimizer.refresh_lr()
                results = program.compiled.run_fed()
                self._stepped()
                yield unflatten(program.structure, iter(results))
        finally:
            program.compiled.end_feed()

    def _modes(self) -> tuple[Any, ...]:
        settings = [
            (name, value if not isinstance(value, (list, dict)) else repr(value))
            for optimizer, _ in self._optimizers
            for group in optimizer.param_groups
            for name, value in group.items()
            if name not in _NOT_TRACED
        ]
        return (*modes_key(), *settings)

    def _parameters(self) -> Iterator[tuple[str, Tensor]]:
        for name, module in self._modules.items():
            for child, parameter in module.named_parameters():
                yield f"{name}.{child}", parameter
            for child, buffer in module.named_buffers():
                yield f"{name}.{child}", buffer

    def _compile(self, args: Any, kwargs: Any, tensors: list[Tensor]) -> _Program:
        if oneflow._oneflow._is_tracing():
            raise RuntimeError("an nn.Graph is called inside the build of another one")
        for optimizer, _ in self._optimizers:
            optimizer.prepare()
        groups = [group["params"] for optimizer, _ in self._optimizers for group in optimizer.param_groups]
        leaves: dict[int, Tensor] = {id(p): p for group in groups for p in group}
        leaves.update((id(p), p) for _, p in self._parameters() if p.is_leaf)
        grads = [(p, p.grad) for p in leaves.values()]
        for p, grad in grads:
            if grad is not None:
                p.grad = None
        if self._scaler is not None:
            self._scaler._start(next(iter(leaves.values())).device if leaves else "cpu")
        start = time.perf_counter()
        trace = _oneflow._GraphTrace(self._name, self._stack)
        try:
            for name, tensor in self._parameters():
                trace.name(tensor, name)
            for i, (optimizer, _) in enumerate(self._optimizers):
                _name_state(trace, f"optimizer_{i}", optimizer, dict(self._parameters()))
            placeholders = [trace.input(t) for t in tensors]
            with self._precision(tensors), self._scaled():
                structure, outputs = self._build(flatten((args, kwargs), [], "input"), placeholders)
            for optimizer, _ in self._optimizers:
                _traced_step(optimizer, self._scaler)
            if self._scaler is not None:
                self._scaler.update()
            traced = time.perf_counter()
            compiled = trace.finish(outputs, **self.config._options())
        finally:
            trace.abort()
            for p, grad in grads:
                p.grad = grad
        memory = [t for _, t in self._parameters()] + [t for g in groups for t in g]
        optimizers = [optimizer for optimizer, _ in self._optimizers]
        program = _Program(compiled, structure, self._flat, memory, optimizers)
        self._print(program, traced - start, time.perf_counter() - traced)
        return program

    def _stack(self) -> str | None:
        return user_stack(sys._getframe(1), self._stack_depth, self._only_user)

    def _precision(self, tensors: list[Tensor]) -> Any:
        if self.config._amp is None:
            return contextlib.nullcontext()
        owners = [*tensors, *[t for _, t in self._parameters()]]
        kind = owners[0].device.type if owners else "cpu"
        return oneflow.autocast(kind, dtype=self.config._amp)

    @contextlib.contextmanager
    def _scaled(self) -> Iterator[None]:
        """Inside, backward passes of this thread start from losses multiplied by the scaler's scale."""
        before = _oneflow._C._set_loss_scale(None if self._scaler is None else self._scaler.scale)
        try:
            yield
        finally:
            _oneflow._C._set_loss_scale(before)

    def _build(self, structure: Any, inputs: list[Tensor]) -> tuple[Any, list[Tensor]]:
        """Run ``build`` on the traced inputs; return the structure of its results and the tensors in them."""
        n = self.config._micro_batches
        parts: list[list[Tensor]] = []
        result: Any = None
        for i in range(n):
            args, kwargs = unflatten(structure, iter(inputs if n == 1 else [_micro(t, i, n) for t in inputs]))
            outputs: list[Tensor] = []
            result = flatten(self.build(*args, **kwargs), outputs, "output")
            parts.append(outputs)
        if n == 1:
            return result, parts[0]
        together = [
            oneflow.stack(p) if p[0].dim() == 0 else oneflow.cat(p) for p in map(list, zip(*parts, strict=True))
        ]
        return result, together

    def _print(self, program: _Program, traced: float, compiled: float) -> None:
        rank = oneflow.distributed.get_rank() if oneflow.distributed.is_initialized() else 0
        level = self._debug_level
        if level < 0 or not (rank in self._debug_ranks or -1 in self._debug_ranks):
            return
        text = program.compiled.text
        lines = [f"{self._name}: traced in {traced:.3f} s, compiled in {compiled:.3f} s"]
        memory = {k: v for k, v in program.compiled.memory().items() if k != "holders"}
        lines.append(f"{self._name}: {program.compiled.n_launches()} launches a run, memory {memory}")
        if level >= 1:
            lines += [f"{self._name}: module {name}: {module!r}" for name, module in self._modules.items()]
        if level >= 2:
            lines += ["as it runs:", self._without_stack(text(False))]
        if level >= 3:
            rows = self._timeline(program)
            lines += ["as it was traced:", self._without_stack(text(True)), "steps, and bytes in use during each:"]
            lines += [f"  {row['bytes']:>12} {row['name']}({row['reads']}) -> {row['writes']}" for row in rows]
        sys.stdout.write("\n".join(lines) + "\n")

    def _without_stack(self, text: str) -> str:
        return text if self._show_stack else "\n".join(line.partition("  # ")[0] for line in text.split("\n"))

    @staticmethod
    def _timeline(program: _Program) -> list[dict[str, Any]]:
        rows, held = program.compiled.rows()
        change = [0] * (len(rows) + 1)
        for _, size, first, last in held:
            change[first] += size
            change[last + 1] -= size
        live = itertools.accumulate(change)
        names = ("name", "origin", "reads", "writes", "bytes")
        parts = [(name, origin, ", ".join(ins), ", ".join(outs)) for name, origin, _, ins, outs, _ in rows]
        return [dict(zip(names, (*part, size), strict=True)) for part, size in zip(parts, live, strict=False)]

    def memory_timeline(self) -> list[dict[str, Any]]:
        """Return for each step of the latest program its name, its origin with the lines of Python it comes from, what
        it reads and writes, and the bytes in use while it runs (parameters, inputs and results not counted).

        Raises:
            RuntimeError: the graph has not been called yet.
        """
        if not self._compiled:
            raise RuntimeError("Graph.memory_timeline(): call the graph first, so that it is compiled")
        return self._timeline(next(reversed(self._compiled.values())))

    def report(self, path: Any) -> None:
        """Write the latest program as one page for a browser: its graph, its schedule and its memory over time.

        Args:
            path: the file to write, ``"graph.html"`` for instance. It needs no other file and no network.

        Raises:
            RuntimeError: the graph has not been called yet.
        """
        if not self._compiled:
            raise RuntimeError("Graph.report(): call the graph first, so that it is compiled")
        _report.write(next(reversed(self._compiled.values())).compiled, self._name, path)

    def memory(self) -> dict[str, Any]:
        """Return what the memory planner reached for the latest program, in bytes."""
        if not self._compiled:
            raise RuntimeError("Graph.memory(): call the graph first, so that it is compiled")
        return next(reversed(self._compiled.values())).compiled.memory()

    def __repr__(self) -> str:
        lines = [f"{self._name}("]
        lines.append(f"  (config):\n{self.config!r}")
        for name, module in self._modules.items():
            lines.append(f"  ({name}): " + repr(module).replace("\n", "\n  "))
        for program in self._compiled.values():
            lines.append("  " + program.compiled.text(False).rstrip().replace("\n", "\n  "))
        return "\n".join([*lines, ")"])


class _Program:
    """One compiled program, the structure of its results, and the modules and the memory it is about."""

    __slots__ = ("compiled", "modules", "states", "structure")

    def __init__(
        self, compiled: Any, structure: Any, modules: Modules, memory: list[Tensor], optimizers: list[Any]
    ) -> None:
        self.compiled = compiled
        self.structure = structure
        self.modules = modules
        compiled.watch([t for t in {id(t): t for t in memory}.values() if not t.is_global])
        self.states = [(optimizer, optimizer.state) for optimizer in optimizers]

    def is_stale(self) -> bool:
        """Whether a parameter, buffer or optimizer state has got other memory since (``x.data = y``, loading)."""
        return self.compiled.is_stale() or any(o.state is not s for o, s in self.states)


def _micro(tensor: Tensor, index: int, count: int) -> Tensor:
    if tensor.dim() == 0 or tensor.size(0) % count:
        raise ValueError(
            f"nn.Graph: {count} gradient accumulation steps need inputs whose first dimension is a multiple of "
            f"{count}, got one of shape {tuple(tensor.shape)}"
        )
    size = tensor.size(0) // count
    return tensor.narrow(0, index * size, size)


def _layout(tensor: Tensor) -> tuple[Any, ...]:
    return (tensor.placement, tensor.sbp) if tensor.is_global else ()


def _traced_step(optimizer: Any, scaler: Any) -> None:
    called = optimizer._opt_called
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)
    optimizer._opt_called = called


def _name_state(trace: Any, prefix: str, optimizer: Any, named: dict[str, Tensor]) -> None:
    """Name the optimizer's tensors after the parameters they belong to."""
    names = {id(tensor): name for name, tensor in named.items()}
    for i, (param, state) in enumerate(optimizer.state.items()):
        for key, value in state.items():
            if isinstance(value, Tensor):
                trace.name(value, f"{prefix}.{names.get(id(param), i)}.{key}")
    for i, (_, lr) in optimizer._lr_tensors.items():
        trace.name(lr, f"{prefix}.lr.{i}")
