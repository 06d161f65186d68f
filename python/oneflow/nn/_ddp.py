"""Data parallel training by several processes in PyTorch's way: each has the whole module and averages gradients.

Gradients are reduced in buckets while backward still runs. Global tensors (:meth:`oneflow.Tensor.to_global`) do the
same without a wrapper, and also split parameters.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import oneflow
from oneflow import Tensor
from oneflow._base import conventions
from oneflow._base.purposes import purpose
from oneflow.nn._reducer import (
    _DEFAULT_FIRST_BUCKET_BYTES,
    BUCKET_BYTES,
    BucketReducer,
    GradBucket,
    walk,
)
from oneflow.nn.modules.module import Module

__all__ = ["DistributedDataParallel"]

# Into how many buckets gradients go at least, but for their last ones, of which there are more.
_N_BUCKETS = 8


class DistributedDataParallel(Module):
    """A module whose gradients are averaged over the ranks of a group in every backward.

    All ranks run the same module on their own parts of the batch. At construction parameters and buffers become those
    of the group's first rank; before each forward in training mode buffers do again.

    Args:
        module: a module with all parameters on the CPU, or on one GPU; it is ``self.module``.
        device_ids: none, or the number of that GPU, to which inputs are then moved.
        output_device: accepted; outputs stay where the module makes them.
        dim: accepted, as the batch is split by its readers.
        broadcast_buffers: whether forwards copy the buffers of the first rank to all ranks.
        process_group: the ranks; all of the job if left out.
        bucket_cap_mb: bytes of gradients that are reduced together, in MiB; by default an eighth of all, fewer for the
            last ones, at least 1 and at most 25: little is left to reduce when backward ends. The first backward shows
            in which order gradients come, and from the second one on buckets follow it.
        find_unused_parameters: look through the graph of each output for parameters that it does not use. Without it
            all parameters must get a gradient in each backward: those that a loss does not use count as zero in that
            one, and the next forward raises, unless OneFlow's conventions are followed. If one rank looks, all do.
        check_reduction: accepted; PyTorch has no use for it either.
        gradient_as_bucket_view: gradients are views of the memory that is reduced, which saves their own.
        static_graph: as ``find_unused_parameters``, and every backward reaches what the first one does, as often: with
            ``checkpoint(use_reentrant=True)`` the second one is the first whose buckets are reduced while it runs.
        device_mesh: a mesh of one dimension, whose ranks take the place of ``process_group``.
        broadcast_parameters: whether parameters become those of the first rank.
        bucket_size: how many parameters a bucket has, in place of its bytes.
        use_bucket: ``False`` reduces every gradient alone.

    Raises:
        RuntimeError: no parameter requires a gradient, or a backward left some without one. On all ranks, where their
            models or settings differ.
        NotImplementedError: global parameters, or several devices for one process.
        ValueError: ``device_ids`` names another device than that of the parameters.

    Example::

        >>> def rank():
        ...     model = nn.parallel.DistributedDataParallel(nn.Linear(1, 1, bias=False))
        ...     model(oneflow.full((1, 1), oneflow.distributed.get_rank() + 1.0)).sum().backward()
        ...     return model.module.weight.grad.item()
        >>> oneflow.testing.run_ranks(2, rank)  # Gradients 1 and 2.
        [1.5, 1.5]
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        *,
        device_mesh: Any = None,
        broadcast_parameters: bool = True,
        bucket_size: int | None = None,
        use_bucket: bool = True,
    ) -> None:
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise NotImplementedError("DistributedDataParallel: one device a process; start a process for each")
        if device_mesh is not None:
            process_group = _group_of_mesh(device_mesh, process_group)
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [(name, p) for name, p in module.named_parameters() if p.requires_grad and name not in ignored]
        if not named and not conventions.are_oneflows():
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                f"gradient. {conventions.HINT}"
            )
        for name, p in named:
            if p.is_global or p.device.type not in ("cpu", "cuda") or p.device != named[0][1].device:
                where = p.placement if p.is_global else p.device
                raise NotImplementedError(
                    f"DistributedDataParallel: parameter '{name}' is on {where}; it takes local tensors of the cpu or "
                    "of one GPU"
                )
        self._input_device = None
        if device_ids and named:
            first = device_ids[0]
            wanted = oneflow.device("cuda", first) if isinstance(first, int) else oneflow.device(first)
            if wanted != named[0][1].device:
                raise ValueError(
                    f"DistributedDataParallel: device_ids {device_ids} names {wanted}, but the parameters are on "
                    f"{named[0][1].device}"
                )
            self._input_device = wanted
        if oneflow.distributed.get_world_size(process_group) < 1:
            raise ValueError("DistributedDataParallel: this rank is not part of process_group")
        self.module = module
        self.process_group, self.dim = process_group, dim
        self.device_ids, self.output_device = device_ids, output_device
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters or static_graph
        self.require_backward_grad_sync = True
        self.static_graph, self.gradient_as_bucket_view = static_graph, gradient_as_bucket_view
        self.device_mesh, self.parameters_to_ignore = device_mesh, ignored
        self._is_ddp_module = True
        # What a `Join` around the training loop has said.
        self._join_config: Any = None
        self._names = {id(p): name for name, p in named}
        if init_sync and broadcast_parameters:
            from oneflow.nn._ddp_agreement import agree

            # In OneFlow buffers that forwards do not broadcast stay what each rank gave them.
            keeps = conventions.are_oneflows() and not broadcast_buffers
            buffers = [] if keeps else [pair for pair in module.named_buffers() if pair[0] not in ignored]
            parameters = [pair for pair in module.named_parameters() if pair[0] not in ignored]
            settings = {
                "broadcast_buffers": broadcast_buffers,
                "bucket_cap_mb": bucket_cap_mb,
                "bucket_size": bucket_size,
                "use_bucket": use_bucket,
                "static_graph": static_graph,
            }
            looks = self.find_unused_parameters
            self.find_unused_parameters = agree(parameters, buffers, settings, looks, process_group)
            _broadcast([*parameters, *buffers], process_group)
        cap = None if bucket_cap_mb is None else float(bucket_cap_mb)
        most = 1 if not use_bucket else bucket_size
        sparse = _with_sparse_gradients(module)

        def group(parameters: list[Tensor]) -> list[list[Tensor]]:
            buckets = _buckets([p for p in parameters if id(p) not in sparse], cap, most)
            # A sparse gradient is reduced by itself.
            return buckets + [[p] for p in parameters if id(p) in sparse]

        # Backward reaches the last parameters first, until it shows in which order it does.
        buckets = group([p for _, p in reversed(named)])
        self._reducer = BucketReducer(
            buckets, process_group, gradient_as_bucket_view, sparse, group, lambda p: f"'{self._names[id(p)]}'"
        )

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            # OneFlow's function of this name returns the module itself.
            if name == "module" or not conventions.are_oneflows():
                raise
        return getattr(self.module, name)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Run the module."""
        inputs, kwargs = self._before(inputs, kwargs)
        return self._after(self.module(*inputs, **kwargs))

    def _before(self, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What precedes a forward of the module; returns its inputs, on its device."""
        syncs = oneflow.is_grad_enabled() and self.require_backward_grad_sync
        if self._join_config is not None and self._join_config.enable and oneflow.is_grad_enabled():
            self._tell_joined(syncs)
        if syncs:
            self._check_finished()
        if self.broadcast_buffers and self.training and self.require_backward_grad_sync:
            _broadcast(self._synced_buffers(), self.process_group)
        if self._input_device is not None:
            move = lambda value: value.to(self._input_device) if isinstance(value, Tensor) else value  # noqa: E731
            inputs, kwargs = oneflow.utils._pytree.tree_map(move, (inputs, kwargs))
        return inputs, kwargs

    def _after(self, result: Any) -> Any:
        """What follows a forward of the module, with what it returned."""
        syncs = oneflow.is_grad_enabled() and self.require_backward_grad_sync
        if oneflow.is_grad_enabled():
            # A forward without gradients changes nothing for a backward that is still to come.
            self._reducer.active = syncs
        if syncs:
            joins = self._join_config is not None and self._join_config.enable
            if self.find_unused_parameters:
                used, custom, nested = walk(result)
                hidden = nested or (custom and not self._names.keys() <= used)
                self._reducer.start(
                    used, repeats=not joins, hidden=hidden, repeated_graph=self.static_graph and not joins
                )
            else:
                self._reducer.start(None, learns=not joins, repeats=not joins)
        return result

    def _synced_buffers(self) -> Iterator[tuple[str, Tensor]]:
        return (pair for pair in self.module.named_buffers() if pair[0] not in self.parameters_to_ignore)

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(
        module: Module, params_and_buffers_to_ignore: Iterable[str]
    ) -> None:
        """Leave parameters and buffers of ``module``, by their names, to each rank when it is wrapped."""
        module._ddp_params_and_buffers_to_ignore = list(params_and_buffers_to_ignore)

    def _set_static_graph(self) -> None:
        """As ``static_graph=True``, on all ranks before the first forward."""
        self.static_graph = self.find_unused_parameters = True

    @property
    def device(self) -> Any:
        """The device of the parameters."""
        return next(self.module.parameters()).device

    @property
    def device_type(self) -> str:
        """The kind of that device."""
        return str(self.device.type)

    def _check_finished(self) -> None:
        if (n := self._reducer.n_of_cut_short()) is not None:
            raise RuntimeError(
                "DistributedDataParallel: an exception ended the backward before this, in which the communication hook "
                f"had been called for {n} of {self._reducer.n_buckets()} buckets: other ranks wait for the rest, which "
                "this one cannot make up for"
            )
        missing = [self._names[i] for i in self._reducer.missing()]
        if missing and not conventions.are_oneflows():
            raise RuntimeError(
                "Expected to have finished reduction in the prior iteration before starting a new one: no gradient for "
                f"{', '.join(missing[:5])}{', ...' if len(missing) > 5 else ''}. Parameters that a loss does not use "
                "need find_unused_parameters=True, on all ranks; under OneFlow's conventions "
                '(oneflow.conventions("oneflow")) they are allowed'
            )

    def register_comm_hook(self, state: Any, hook: Callable[[Any, GradBucket], Any]) -> None:
        """Let ``hook(state, bucket)`` reduce each bucket of gradients in place of the average over all ranks.

        Args:
            state: handed to each call.
            hook: returns a :class:`oneflow.futures.Future` of a tensor of the bucket's elements. All ranks register it.

        Raises:
            TypeError: the hook is not callable.
            ValueError: its annotations say that it takes or returns something else.
            RuntimeError: there is one already.

        Example::

            >>> from oneflow.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
            >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
            >>> model.register_comm_hook(None, fp16_compress_hook)
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        _check_annotations(hook)
        if self._reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self._reducer.hook = lambda bucket: hook(state, bucket)

    def _register_builtin_comm_hook(self, comm_hook_type: Any) -> None:
        """Register a hook that PyTorch has in C++: ``BuiltinCommHookType.ALLREDUCE`` or ``FP16_COMPRESS``."""
        algorithms: Any = oneflow.distributed.algorithms
        hooks = algorithms.ddp_comm_hooks.default_hooks
        kinds: Any = oneflow.distributed.BuiltinCommHookType
        found = {kinds.ALLREDUCE: hooks.allreduce_hook, kinds.FP16_COMPRESS: hooks.fp16_compress_hook}
        if comm_hook_type not in found:
            raise TypeError(f"_register_builtin_comm_hook: expected a BuiltinCommHookType, got {comm_hook_type!r}")
        self.register_comm_hook(self.process_group, found[comm_hook_type])

    # ---- uneven inputs

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Any:
        """Inside, ranks may have different numbers of batches: those that are done contribute zeros.

        Args:
            divide_by_initial_world_size: divide sums of gradients by the number of all ranks, or by that of those which
                still have batches.
            enable, throw_on_early_termination: see :class:`oneflow.distributed.algorithms.join.Join`.

        Example::

            >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
            >>> with model.join():
            ...     model(oneflow.ones(1, 2)).sum().backward()
        """
        algorithms: Any = oneflow.distributed.algorithms
        return algorithms.join.Join(
            [self], enable, throw_on_early_termination, divide_by_initial_world_size=divide_by_initial_world_size
        )

    def _tell_joined(self, syncs: bool) -> None:
        """Before a forward: how many ranks have a batch, and whether its backward reduces."""
        algorithms: Any = oneflow.distributed.algorithms
        told = algorithms.join.Join.notify_join_context(self)
        n_active = 0 if told is None else told.n_active
        if n_active:
            self._n_active = n_active
        if self._n_active < oneflow.distributed.get_world_size(self.process_group):
            flag = oneflow.tensor([int(syncs)])
            oneflow.distributed.all_reduce(flag, group=self.process_group)
        divides = self._reducer.divides_by_all
        self._reducer.divisor = None if divides else self._n_active

    _n_active = 1

    def join_hook(self, **kwargs: Any) -> Any:
        """Return what a rank without batches does, for :class:`oneflow.distributed.algorithms.join.Join`."""
        self._reducer.divides_by_all = kwargs.get("divide_by_initial_world_size", True)
        return _JoinHook(self)

    @property
    def join_device(self) -> Any:
        """The device of the parameters."""
        return next(self.module.parameters()).device

    @property
    def join_process_group(self) -> Any:
        """The ranks that average."""
        return self.process_group

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, gradients are accumulated on each rank alone; the first backward outside averages their sums.

        Example::

            >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1))
            >>> with model.no_sync():
            ...     model(oneflow.ones(1, 2)).sum().backward()
            >>> model(oneflow.ones(1, 2)).sum().backward()
            >>> model.module.bias.grad
            tensor([2.])
        """
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before


def _group_of_mesh(mesh: Any, process_group: Any) -> Any:
    if process_group is not None:
        raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
    if mesh.ndim != 1:
        raise RuntimeError(f"Only 1D device mesh is supported, but got {mesh}.")
    return mesh.get_group(0)


def _check_annotations(hook: Callable[..., Any]) -> None:
    """A hook without annotations, or with some that are strings, is taken as it is."""
    try:
        signature = inspect.signature(hook)
    except (TypeError, ValueError):
        return
    bucket, returns = signature.parameters.get("bucket"), signature.return_annotation
    if bucket is not None and isinstance(bucket.annotation, type):
        if bucket.annotation not in (inspect.Parameter.empty, GradBucket):
            raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
    of = getattr(returns, "__origin__", returns)
    if isinstance(of, type) and of is not inspect.Signature.empty and of is not oneflow.futures.Future:
        raise ValueError("Communication hook: return annotation should be torch.futures.Future[torch.Tensor].")


class _JoinHook:
    """What a rank without batches does for its model."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self._ddp = ddp

    def main_hook(self) -> None:
        ddp = self._ddp
        flag = oneflow.tensor([0])
        oneflow.distributed.all_reduce(flag, group=ddp.process_group)
        if not int(flag.item()):
            # The others accumulate.
            return
        if ddp.broadcast_buffers and ddp.training:
            _broadcast(ddp._synced_buffers(), ddp.process_group)
        ddp._reducer.reduce_nothing(ddp.find_unused_parameters)

    def post_hook(self, is_last_joiner: bool) -> None:
        """Parameters become those of a rank that has seen the last batches."""
        ddp, dist = self._ddp, oneflow.distributed
        rank = dist.get_rank(ddp.process_group)
        source = oneflow.tensor([rank if is_last_joiner else -1])
        dist.all_reduce(source, dist.ReduceOp.MAX, ddp.process_group)
        _broadcast(ddp.module.named_parameters(), ddp.process_group, int(source.item()))


def _with_sparse_gradients(module: Module) -> set[int]:
    """The weights, by identity, of embeddings that make sparse gradients."""
    kinds = (oneflow.nn.Embedding, oneflow.nn.EmbeddingBag)
    return {id(m.weight) for m in module.modules() if isinstance(m, kinds) and m.sparse}


def _buckets(parameters: list[Tensor], cap_mb: float | None, most: int | None) -> list[list[Tensor]]:
    """Neighbours of one dtype, as many as ``most`` or as fit the bytes: without ``cap_mb`` ever fewer at the end."""
    left = sum(p.numel() * p.element_size() for p in parameters) / 2**20
    even = min(BUCKET_BYTES / 2**20, left / _N_BUCKETS)
    buckets: list[list[Tensor]] = []
    room = 0.0
    for p in parameters:
        size = p.numel() * p.element_size() / 2**20
        same = bool(buckets) and buckets[-1][0].dtype == p.dtype
        fits = len(buckets[-1]) < most if same and most is not None else size <= room
        if not (same and fits):
            # What comes last is reduced after backward.
            cap = max(1.0, min(even, left / 2)) if cap_mb is None else cap_mb
            room = cap if buckets else min(_DEFAULT_FIRST_BUCKET_BYTES / 2**20, cap)
            buckets.append([])
        buckets[-1].append(p)
        room -= size
        left -= size
    return buckets


def _broadcast(named: Iterable[tuple[str, Tensor]], group: Any, source: int = 0) -> None:
    first = oneflow.distributed.get_global_rank(group, source)
    with oneflow.no_grad():
        for name, tensor in named:
            whole = tensor.detach() if tensor.is_contiguous() else tensor.contiguous()
            with purpose(f"'{name}'"):
                oneflow.distributed.broadcast(whole, first, group)
            if not tensor.is_contiguous():
                tensor.copy_(whole)
