"""GraphConfig: the options of a graph, under OneFlow's names. The passes and nn.Graph read them."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import _settings
from oneflow._base.refusals import without_effect
from oneflow._schedules.generators import find
from oneflow._schedules.table import PipelineTable
from oneflow._trace import offload

_STRAIGHTEN = ("Disable", "MemoryFirst", "SpeedFirst", "OverlapCpuGpu", "DelayShortGpu")


class GraphConfig:
    """Options of a graph, under OneFlow's names. After a change the next call compiles again.

    Options that promise memory or a layout and are not supported raise NotImplementedError; hints for speed with
    no effect here are accepted and warn once.
    """

    # How often options were set.
    changes: int

    def __init__(self) -> None:
        self._fuse = self._fuse_attention = True
        self._amp: Any = None
        self._micro_batches = 1
        self._straighten = "MemoryFirst"
        self._compress = False
        self._all_orders = True
        self._fuse_update = self._fuse_add = self._fuse_cast = True
        self._multi_tensor = True
        self._update_cast = False
        self._precompute = True
        self._outputs = 2
        self._cudnn_search = True
        # Stage, least elements and level of `enable_zero`.
        self._zero: tuple[int, int, int] | None = None
        # What `enable_offload` asks for.
        self._offload: Any = None
        self._searches = False
        # What the search of `enable_auto_parallel` is about.
        self._search: dict[str, Any] = {
            "cluster": None,
            "memory": None,
            "zero": None,
            "recompute": None,
            "stages": None,
            "schedules": None,
            "micro_batches": None,
            "ignore": False,
            "ratio": 1.0,
            "wait": 0.0,
        }
        # The name of a pipeline schedule, or a table.
        self._schedule: str | PipelineTable | None = None
        # The dimensions of inputs that stay open, as exports take them.
        self._dynamic_shapes: Any = None

    def __setattr__(self, name: str, value: Any) -> None:
        self.__dict__.update({name: value, "changes": self.__dict__.get("changes", 0) + 1})

    def allow_fuse_elementwise(self, mode: bool = True) -> None:
        """Fuse chains of elementwise ops, and activations after linear layers, into one kernel (default: yes).

        Without fusion a graph returns the same bits as the eager program.
        """
        self._fuse = bool(mode)

    def allow_fuse_attention(self, mode: bool = True) -> None:
        """Replace ``softmax(q @ k.T * scale + mask) @ v`` written by hand by the fused attention (default: yes).

        Scores and probabilities are not stored then, nor in backward. Nothing changes where something else reads
        them. A row whose keys are all masked by minus infinity gives zeros, not NaN.
        """
        self._fuse_attention = bool(mode)

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

    def enable_zero(
        self, mode: bool = True, *, stage: int = 2, shard_min_size: int = 1024, shard_restore_level: int = 1
    ) -> None:
        """Keep a slice of what is replicated over ranks, in place of all of it.

        Args:
            mode: whether to.
            stage: 1 splits the states of optimizers and what is updated, and a step gathers each parameter once, for
                its forward and backward; 2 also reduce-scatters gradients; 3 gathers a parameter when a module is
                called, and again in the backward, and holds it no longer.
            shard_min_size: parameters of fewer elements stay whole.
            shard_restore_level: with stage 3, 1 and 2 gather parameters for their modules; 0 lets ops use slices where
                that moves fewer bytes.

        The first call of the graph changes the layout of the states and of the parameters: between steps each rank
        holds its slices. Parameters must be global tensors, replicated over the axis that splits the batch.

        Raises:
            ValueError: another stage or level, or a negative size.
        """
        if stage not in (1, 2, 3):
            raise ValueError(f"enable_zero(): stage must be 1, 2 or 3, got {stage!r}")
        if shard_restore_level not in (0, 1, 2):
            raise ValueError(f"enable_zero(): shard_restore_level must be 0, 1 or 2, got {shard_restore_level!r}")
        if not isinstance(shard_min_size, int) or shard_min_size < 0:
            raise ValueError(f"enable_zero(): shard_min_size must be a number of elements, got {shard_min_size!r}")
        self._zero = (stage, shard_min_size, shard_restore_level) if mode else None

    def enable_offload(
        self,
        mode: bool = True,
        *,
        optimizer_states: bool = True,
        parameters: bool = False,
        to: Any = "disk",
        window: int = 256 << 20,
    ) -> None:
        """Keep states of optimizers, or parameters, in files, and in memory only around the ops that need them.

        Pages come from the disk before an op needs them and go back when the next need is far, beside the work of other
        ops. Each parameter is then updated by itself. On a GPU they lie in pinned memory of the host, where updates
        read and write them; modules work on copies of parameters, which are made while the module before is computed,
        and again for their backward. Results have the same bits. With :meth:`enable_zero` each rank offloads slices.
        ``memory()["offloaded"]`` says how many bytes lie elsewhere, ``"offloaded_resident"`` how many of those in files
        are in memory. Tensors of less than 64 KiB stay.

        Args:
            mode: whether to, from the next compilation on; what lies elsewhere stays there.
            optimizer_states: whether states are offloaded.
            parameters: whether parameters are, and on a disk buffers.
            to: ``"disk"``, the system's folder for temporary files; or the path of a folder, which must not lie in
                memory. The files have no names and go with the process. ``"host"`` for a model on a GPU.
            window: bytes of files that may stay in memory between the ops that need them; what is under way from and to
                the disk comes beside it.

        Raises:
            ValueError: nothing is to be offloaded, there is no such folder, or ``window`` is negative.
            NotImplementedError: by the first call, for tensors on a GPU that are to go to a disk, and for tensors on
                the host that are to go to the host.

        Example::

            >>> class Step(oneflow.nn.Graph):
            ...     def __init__(self):
            ...         super().__init__()
            ...         self.model = oneflow.nn.Linear(256, 256)
            ...         self.add_optimizer(oneflow.optim.Adam(self.model.parameters()))
            ...         self.config.enable_offload(to=".")
            ...     def build(self, x):
            ...         loss = self.model(x).square().mean()
            ...         loss.backward()
            ...         return loss
            >>> step = Step()
            >>> _ = step(oneflow.ones(2, 256))
            >>> step.memory()["offloaded"]
            524288
        """
        self._offload = offload.checked(mode, optimizer_states, parameters, to, window)

    def set_gradient_accumulation_steps(self, value: int) -> None:
        """Let one call take a mini-batch of ``value`` micro-batches.

        Inputs are split along their first dimension, ``build`` works on one part after another, gradients are averaged
        (each backward starts from its loss divided by ``value``), and clipped once all are there if ``build`` clips
        them, and the optimizers step once. Results are concatenated along the first dimension; 0-dim ones (losses)
        become a vector.

        Inputs that ranks share by rows (``split(0)``) are cut on each rank, as in OneFlow, and replicated ones beside
        them alike: a micro-batch has a part of each rank's rows, and no row moves. Results whose first dimension is
        that of a micro-batch come back in the order of the inputs' rows. Where the rows of a rank do not divide,
        micro-batches are consecutive rows, which are gathered.

        Raises:
            ValueError: it is not a positive integer.
        """
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"set_gradient_accumulation_steps(): expected a positive integer, got {value!r}")
        self._micro_batches = value

    def set_pipeline_schedule(self, schedule: str | PipelineTable | None = None) -> None:
        """Choose the order in which pipeline stages work on micro-batches; by default one forward for one backward.

        Args:
            schedule: ``"GPipe"``, ``"1F1B"``, ``"Interleaved1F1B"``, ``"InterleavedZeroBubble"``, ``"LoopedBFS"``,
                ``"ZB-H1"``, ``"ZB-V"``, ``"DualPipeV"``, or a table (``distributed.pipelining.PipelineTable``).

        Modules name their stages with ``set_stage(stage_id, placement)``; a rank of the schedule is a placement, in
        the order of their first stages, and may hold several stages. The number of micro-batches is that of
        :meth:`set_gradient_accumulation_steps`. Where a table has ``"W"``, gradients of parameters are computed
        there, and a backward only what other stages wait for. The first call of the graph checks the table.

        Raises:
            ValueError: there is no schedule of this name.
            TypeError: it is no name and no table.
        """
        if schedule is not None and not isinstance(schedule, (str, PipelineTable)):
            raise TypeError(
                f"set_pipeline_schedule(): expected a name or a PipelineTable, got {type(schedule).__name__}"
            )
        self._schedule = find(schedule) if isinstance(schedule, str) else schedule

    def enable_auto_parallel(
        self,
        mode: bool = True,
        *,
        cluster: Any = None,
        memory: float | None = None,
        zero: Any = None,
        recompute: Any = None,
        stages: Any = None,
        micro_batches: Any = None,
        schedules: Any = None,
    ) -> None:
        """Let the first call of the graph search the layouts of parameters, inputs and ops over all ranks of the job.

        Modules may be local, with the same values on all ranks, or global; inputs of the whole batch too. Layouts of
        tensors that are global already are kept (see :meth:`enable_auto_parallel_ignore_user_sbp_config`), all others
        are chosen by ``oneflow.auto_parallel.plan``: rank 0 searches, and all ranks lay their parameters and states
        out. The plan is ``graph.parallel_plan``. On one rank nothing changes.

        Args:
            mode: whether to.
            cluster: an ``auto_parallel.Cluster``, or the name of one; by default the ranks of the job as devices of the
                kind that the package describes for their type.
            memory: bytes that a device may hold; by default what the cluster's devices have.
            zero: the stages of ZeRO to try; by default 1 to 3 where the fastest plan does not fit in the memory.
            recompute: whether blocks may run again in the backward; by default where the fastest plan does not fit.

            stages: the numbers of pipeline stages to try; by default all that divide the ranks, where modules are local
                and a call has several micro-batches. Results then lie on the ranks of the last stage, or of the one
                that makes them.
            micro_batches: the numbers of micro-batches to try; by default that of
                :meth:`set_gradient_accumulation_steps`.
            schedules: the pipeline schedules to try; by default ``"1F1B"``, ``"ZB-H1"`` and ``"GPipe"``.
        """
        options = {"cluster": cluster, "memory": memory, "zero": zero, "recompute": recompute}
        self._search = {
            **self._search,
            **options,
            "stages": stages,
            "micro_batches": micro_batches,
            "schedules": schedules,
        }
        self._searches = bool(mode)

    def enable_auto_parallel_ignore_user_sbp_config(self, mode: bool = True) -> None:
        """Let the search choose the layouts of tensors that are global already, too (default: they are kept)."""
        self._search = {**self._search, "ignore": bool(mode)}

    def set_auto_parallel_computation_cost_ratio(self, ratio: float = 1.0) -> None:
        """Multiply the seconds of ops, but not those of moves, in the search's cost model (default: 1).

        OneFlow's numbers, such as 0.05, weigh operations against bytes; here both are seconds on the described cluster.

        Raises:
            ValueError: it is not a positive number.
        """
        if not isinstance(ratio, (int, float)) or not 0 < ratio < float("inf"):
            raise ValueError(f"set_auto_parallel_computation_cost_ratio(): expected a positive number, got {ratio!r}")
        self._search = {**self._search, "ratio": float(ratio)}

    def set_auto_parallel_wait_time(self, cost: float = 0.0) -> None:
        """Let each move cost the time of so many bytes more in the search's cost model (default: none).

        Raises:
            ValueError: it is negative.
        """
        if not isinstance(cost, (int, float)) or not 0 <= cost < float("inf"):
            raise ValueError(f"set_auto_parallel_wait_time(): expected a number of bytes, got {cost!r}")
        self._search = {**self._search, "wait": float(cost)}

    @property
    def _auto_parallel(self) -> dict[str, Any] | None:
        return self._search if self._searches else None

    def set_dynamic_shapes(self, dynamic_shapes: Any = None) -> None:
        """Let one program serve all sizes of some dimensions of the inputs; by default each size has its own.

        Args:
            dynamic_shapes: as :func:`oneflow.export.export` takes them, by the names of ``build``'s arguments or in
                their order: ``{"x": {0: "batch"}}``, or with a range ``{"x": {0: export.Dim("batch", max=64)}}``. None
                ends it.

        The step is traced at several sizes, and each number that differs must follow from the named dimensions. A new
        size is then planned without a trace. Sizes outside of a range are refused; 0, and 1 where the program is
        another one there, have programs of their own.

        The first call raises ValueError where the program does not follow, with the line of Python that it comes from.

        Example::

            >>> class Double(oneflow.nn.Graph):
            ...     def build(self, x):
            ...         return x * 2
            >>> graph = Double()
            >>> graph.config.set_dynamic_shapes({"x": {0: "batch"}})
            >>> [graph(oneflow.ones(n, 3)).shape[0] for n in (4, 1, 9)]
            [4, 1, 9]
        """
        if dynamic_shapes is not None and not isinstance(dynamic_shapes, (dict, list, tuple)):
            raise TypeError(
                f"set_dynamic_shapes(): expected a dict, a list or a tuple, got {type(dynamic_shapes).__name__}"
            )
        self._dynamic_shapes = dynamic_shapes

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
        """Return whether the memory planner goes on improving its best layout (default: no; compiling takes longer)."""
        self._compress = bool(mode)

    def enable_choose_best_memory_allocation(self, mode: bool = True) -> None:
        """Return whether the memory planner tries all of its orders, or the first alone (default: all)."""
        self._all_orders = bool(mode)

    def allow_fuse_model_update_ops(self, mode: bool = True) -> None:
        """Return whether what is done to gradients last becomes part of the update of their parameters (default: yes).

        The factor of a clipped norm is then never multiplied into memory, and plain gradient descent changes only those
        rows of an embedding that a step has looked up.
        """
        self._fuse_update = bool(mode)

    def allow_fuse_add_to_output(self, mode: bool = True) -> None:
        """Return whether what is added to a matrix product is added by the product itself (default: yes)."""
        self._fuse_add = bool(mode)

    def allow_fuse_cast_scale(self, mode: bool = True) -> None:
        """Return whether casts between float32 and half types join the elementwise ops beside them (default: yes)."""
        self._fuse_cast = bool(mode)

    def enable_multi_tensor_update(self, mode: bool = True) -> None:
        """Return whether a launch updates many parameters of a group, or each has its own (default: many).

        An update runs as soon as its gradients are there, which frees their memory: of many small parameters when a
        group's last gradient is ready, of large ones after each, unless something needs all gradients first (clipping
        does) or the program's order is asked for.
        """
        self._multi_tensor = bool(mode)

    def enable_fused_model_update_cast(self, mode: bool = True) -> None:
        """Keep parameters that a step reads in a half type (``enable_amp``) in that type too (default: no).

        The cast then follows the update, it does not begin the next step. Writes to a parameter from outside are seen.
        """
        self._update_cast = bool(mode)

    def allow_precompute(self, mode: bool = True) -> None:
        """Whether what depends on parameters alone is computed when they change, not in every run (default: yes).

        Batch norms of evaluation become part of the convolutions before them, and convolutions of images run channels
        last. It concerns parameters that the graph does not train. The results take as much memory again as the
        parameters they come from. Writes to a parameter from outside are seen.
        """
        self._precompute = bool(mode)

    def set_outputs_buffer_size(self, value: int = 2) -> None:
        """Let up to ``value`` runs finish before their results are read; each run has its own memory for results.

        Raises:
            ValueError: it is not a positive integer.
        """
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= 1024:
            raise ValueError(f"set_outputs_buffer_size(): expected a positive integer, got {value!r}")
        self._outputs = value

    def enable_cudnn_conv_heuristic_search_algo(self, mode: bool = True) -> None:
        """Accepted with a warning: convolutions run this package's kernels, for which no algorithm is searched."""
        without_effect("GraphConfig.enable_cudnn_conv_heuristic_search_algo()", "convolutions run kernels of their own")
        self._cudnn_search = bool(mode)

    def _options(self) -> dict[str, Any]:
        return {
            "fuse": self._fuse,
            "fuse_attention": self._fuse_attention,
            "fuse_update": self._fuse_update,
            "fuse_add": self._fuse_add,
            "fuse_cast": self._fuse_cast,
            # An update of all parameters needs all states at once.
            "multi_tensor_update": self._multi_tensor and (self._offload is None or self._offload.on_host),
            "update_cast": self._update_cast,
            "precompute": self._precompute,
            "outputs_buffer_size": self._outputs,
            "straighten": self._straighten,
            "compress": self._compress,
            "all_orders": self._all_orders,
            **_settings.collectives,
        }

    def set_zero_redundancy_optimizer_mode(self, mode: Any = None) -> None:
        """Renamed: use enable_zero."""
        raise RuntimeError("set_zero_redundancy_optimizer_mode() was renamed: use enable_zero()")

    def __repr__(self) -> str:
        options = {
            "allow_fuse_elementwise": self._fuse,
            "allow_fuse_attention": self._fuse_attention,
            "enable_amp": self._amp,
            "set_gradient_accumulation_steps": self._micro_batches,
            "set_pipeline_schedule": self._schedule,
            "set_dynamic_shapes": self._dynamic_shapes,
            "enable_straighten_algorithm": self._straighten,
            "enable_compress_memory": self._compress,
            "enable_choose_best_memory_allocation": self._all_orders,
            "allow_fuse_model_update_ops": self._fuse_update,
            "allow_fuse_add_to_output": self._fuse_add,
            "allow_fuse_cast_scale": self._fuse_cast,
            "enable_multi_tensor_update": self._multi_tensor,
            "enable_fused_model_update_cast": self._update_cast,
            "allow_precompute": self._precompute,
            "enable_zero": self._zero,
            "enable_offload": self._offload,
            "enable_auto_parallel": self._searches,
            "set_outputs_buffer_size": self._outputs,
            "enable_cudnn_conv_heuristic_search_algo": self._cudnn_search,
        }
        return "\n".join(f"    {name}: {value}" for name, value in options.items())


def _refuse(name: str, off: tuple[Any, ...], why: str) -> Any:
    """An option that promises memory, speed or a layout, and cannot be turned on."""

    def method(self: GraphConfig, *args: Any, **kwargs: Any) -> None:
        value = args[0] if args else next(iter(kwargs.values()), True)
        if off and value in off:
            return
        raise NotImplementedError(f"GraphConfig.{name}() is not supported: {why}")

    method.__name__ = name
    method.__qualname__ = f"GraphConfig.{name}"
    words = f"; {' or '.join(repr(v) for v in off)} is accepted, which changes nothing" if off else ""
    method.__doc__ = f"Raises NotImplementedError: {why}{words}."
    return method


_TRUNK = "the cost model knows no overlap of moves with the work of other ops, which OneFlow's algorithm subtracts"
_COLLECTOR = "moves of one tensor to several consumers are not shared"
_MEMORY = (
    "memory is saved by module.to(nn.graph.GraphModule).activation_checkpointing and by "
    'enable_straighten_algorithm("MemoryFirst")'
)
for _name, _off, _why in (
    ("enable_auto_parallel_trunk_algo", (False,), _TRUNK),
    ("enable_auto_parallel_mainstem_algo", (False,), _TRUNK),
    ("enable_auto_parallel_sbp_collector", (False,), _COLLECTOR),
    ("enable_auto_memory", ("Disable",), _MEMORY),
):
    setattr(GraphConfig, _name, _refuse(_name, _off, _why))
