"""``FullyShardedDataParallel``: the wrapper of PyTorch's first FSDP, over
:func:`~oneflow.distributed.fsdp.fully_shard`.

The wrapped module and the submodules that ``auto_wrap_policy`` chooses are sharded in place: they keep their names and
classes, and parameters are DTensors whatever ``use_orig_params`` says.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import oneflow
from oneflow import Tensor, distributed
from oneflow.distributed.device_mesh import DeviceMesh, init_device_mesh
from oneflow.distributed.fsdp import api
from oneflow.distributed.fsdp._fully_shard import FSDPModule, fully_shard
from oneflow.distributed.fsdp._optim_states import OptimStates
from oneflow.distributed.fsdp._params import device_of, device_type_of
from oneflow.distributed.fsdp._policies import CPUOffloadPolicy, MixedPrecisionPolicy
from oneflow.distributed.fsdp._state import state_of
from oneflow.distributed.fsdp.api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    OptimStateDictConfig,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictConfig,
    StateDictSettings,
    StateDictType,
)
from oneflow.distributed.tensor import _layouts
from oneflow.distributed.tensor._api import shard_of_whole
from oneflow.nn import Module
from oneflow.nn.utils import clip_grad_norm_

__all__ = ["FullyShardedDataParallel"]
__all__ += api.__all__

_PREFIX = "_fsdp_wrapped_module."
_HYBRID = (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
_KEEPS = (ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy._HYBRID_SHARD_ZERO2, ShardingStrategy.NO_SHARD)
_CONFIGS = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}


class FullyShardedDataParallel(OptimStates, Module):
    """A module whose parameters, gradients and optimizer states are kept in slices.

    Args:
        module: what is wrapped; it is ``self.module``.
        process_group: the ranks; all of the job by default. For the hybrid strategies a pair: those that share slices,
            and those that replicate them.
        sharding_strategy: see :class:`ShardingStrategy`; ``FULL_SHARD`` by default.
        cpu_offload: see :class:`CPUOffload`.
        auto_wrap_policy: which submodules are gathered separately; see :mod:`oneflow.distributed.fsdp.wrap`.
        backward_prefetch: ``None`` gathers nothing ahead in the backward.
        mixed_precision: see :class:`MixedPrecision`.
        ignored_modules, ignored_states: modules and parameters that stay as they are.
        param_init_fn: called with each module that has parameters on the meta device, to give them memory and values.
            By default they get memory, and ``reset_parameters`` is called.
        device_id: the GPU to shard on, which is the current one; by default where the module's parameters are.
        forward_prefetch, limit_all_gathers: accepted; they change no result.
        sync_module_states: make parameters and buffers those of the first rank before they are cut.
        use_orig_params: accepted; parameters keep their names and shapes, as DTensors, either way.
        device_mesh: in place of ``process_group``; of two dimensions for the hybrid strategies.

    Example::

        >>> from oneflow.distributed.fsdp import FullyShardedDataParallel as FSDP
        >>> def rank():
        ...     model = FSDP(nn.Linear(4, 2))
        ...     model(oneflow.ones(1, 4)).sum().backward()
        ...     return list(model.state_dict()), model.module.weight.to_local().shape
        >>> oneflow.testing.run_ranks(2, rank)[0]
        (['weight', 'bias'], oneflow.Size([1, 4]))
    """

    def __init__(
        self,
        module: Module,
        process_group: Any = None,
        sharding_strategy: ShardingStrategy | None = None,
        cpu_offload: CPUOffload | None = None,
        auto_wrap_policy: Any = None,
        backward_prefetch: BackwardPrefetch | None = BackwardPrefetch.BACKWARD_PRE,
        mixed_precision: MixedPrecision | None = None,
        ignored_modules: Iterable[Module] | None = None,
        param_init_fn: Callable[[Module], None] | None = None,
        device_id: Any = None,
        sync_module_states: bool = False,
        forward_prefetch: bool = False,
        limit_all_gathers: bool = True,
        use_orig_params: bool = False,
        ignored_states: Iterable[Any] | None = None,
        device_mesh: DeviceMesh | None = None,
    ) -> None:
        super().__init__()
        if process_group is not None and device_mesh is not None:
            raise ValueError(
                "Cannot pass both process_group and device_mesh at the same time. Please just pass only one."
            )
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        where = _device_type(device_id, module)
        mesh = _mesh(process_group, device_mesh, strategy, where)
        mixed = mixed_precision or MixedPrecision()
        if mixed.keep_low_precision_grads or mixed._module_classes_to_ignore:
            raise NotImplementedError(
                "FullyShardedDataParallel: gradients have the dtype of the parameters (keep_low_precision_grads), and "
                "one precision serves all modules (_module_classes_to_ignore)"
            )
        ignored = _ignored(ignored_modules, ignored_states)
        if sync_module_states:
            _materialise(module, param_init_fn, device_of(mesh))
            _synchronise(module, mesh, ignored)
        self.sharding_strategy, self.mixed_precision, self.device_mesh = strategy, mixed, mesh

        def shard(target: Module, is_root: bool, **own: Any) -> None:
            precision = own.get("mixed_precision") or mixed
            casts = precision.cast_root_forward_inputs if is_root else precision.cast_forward_inputs
            policy = MixedPrecisionPolicy(
                param_dtype=precision.param_dtype,
                reduce_dtype=precision.reduce_dtype or precision.param_dtype,
                cast_forward_inputs=casts,
            )
            _materialise(target, param_init_fn, device_of(mesh))
            keeps = own.get("sharding_strategy", strategy) in _KEEPS
            fully_shard(
                target,
                mesh=mesh,
                reshard_after_forward=False if keeps else None,
                mp_policy=policy,
                offload_policy=CPUOffloadPolicy() if cpu_offload is not None and cpu_offload.offload_params else None,
                ignored_params=ignored,
            )
            if strategy is ShardingStrategy.NO_SHARD:
                target.set_reshard_after_backward(True, recurse=False)
            if own.get("backward_prefetch", backward_prefetch) is None:
                target.set_modules_to_backward_prefetch([])

        if auto_wrap_policy is not None:
            _auto_wrap(module, auto_wrap_policy, {id(p) for p in ignored}, shard, is_root=True)
        shard(module, is_root=True)
        if mixed.buffer_dtype is not None:
            for owner in module.modules():
                for name, buffer in owner._buffers.items():
                    if buffer is not None and buffer.is_floating_point():
                        owner._buffers[name] = buffer.to(mixed.buffer_dtype)
        self._fsdp_wrapped_module = module
        self._settings = StateDictSettings(StateDictType.FULL_STATE_DICT)
        self.register_state_dict_post_hook(_given_state_dict)
        self.register_load_state_dict_pre_hook(_taken_state_dict)

    @property
    def module(self) -> Module:
        """The wrapped module."""
        return self._fsdp_wrapped_module

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_fsdp_wrapped_module"), name)

    def __getitem__(self, key: Any) -> Any:
        return self._fsdp_wrapped_module[key]  # type: ignore[index]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the module."""
        return self._fsdp_wrapped_module(*args, **kwargs)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Tensor]]:  # type: ignore[override]
        """Parameters under the names that they have in the wrapped module."""
        for name, param in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), param

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Tensor]]:
        """Buffers under the names that they have in the wrapped module."""
        for name, buffer in super().named_buffers(*args, **kwargs):
            yield name.replace(_PREFIX, ""), buffer

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Tensor:
        """Clip the norm of all gradients, and return what it was."""
        norm = clip_grad_norm_(self.parameters(), max_norm, norm_type)
        return _layouts.full_tensor(norm) if norm.is_global else norm

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside, backwards keep the gradients of this rank; the first one outside reduces their sums."""
        with _sharded(self.module)._no_sync():
            yield

    # ---- state dictionaries

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """Return the wrappers at and below a module."""
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        return found[:1] if root_only else found

    @staticmethod
    def set_state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> StateDictSettings:
        """Set what ``state_dict`` of the wrappers at and below a module holds; return what was set.

        Raises:
            RuntimeError: options of another type.
        """
        kinds = _CONFIGS[state_dict_type]
        given = [state_dict_config or kinds[0](), optim_state_dict_config or kinds[1]()]
        for config, kind in zip(given, kinds, strict=True):
            if type(config) is not kind:
                raise RuntimeError(f"Expected a {kind} for {state_dict_type} but got {type(config)}")
        before = None
        for one in FullyShardedDataParallel.fsdp_modules(module):
            before = before or one._settings
            one._settings = StateDictSettings(state_dict_type, *given)  # type: ignore[arg-type]
        return before or StateDictSettings(StateDictType.FULL_STATE_DICT)

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """Return what ``state_dict`` of the first wrapper at or below a module holds."""
        return FullyShardedDataParallel.fsdp_modules(module)[0]._settings

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(
        module: Module,
        state_dict_type: StateDictType,
        state_dict_config: StateDictConfig | None = None,
        optim_state_dict_config: OptimStateDictConfig | None = None,
    ) -> Iterator[None]:
        """:meth:`set_state_dict_type` inside the block."""
        set_type = FullyShardedDataParallel.set_state_dict_type
        before = set_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            set_type(module, before.state_dict_type, before.state_dict_config, before.optim_state_dict_config)

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module,
        recurse: bool = True,
        writeback: bool = True,
        rank0_only: bool = False,
        offload_to_cpu: bool = False,
        with_grads: bool = False,
    ) -> Iterator[None]:
        """Inside, modules have the whole of their parameters.

        Args:
            recurse: those of wrapped submodules too.
            writeback: keep what was written to them, and to gradients.
            rank0_only: accepted; all ranks have them. ``offload_to_cpu`` too.
            with_grads: they have the whole of their gradients too.

        Raises:
            NotImplementedError: ``with_grads`` where tensor parallelism has split the parameters already.
        """
        states = {}
        for one in module.modules() if recurse else [module, *module.children()]:
            if (state := state_of(one)) is not None and state.group is not None:
                states[id(state)] = state
        for state in states.values():
            state.group.unshard()  # type: ignore[union-attr]
        try:
            for state in states.values() if with_grads else ():
                state.group.show_grads()  # type: ignore[union-attr]
            yield
        finally:
            for state in states.values():
                assert state.group is not None
                state.group.hide_grads(writeback)
                if writeback:
                    state.group.write_back()
                state.group.reshard()

    @staticmethod
    def optim_state_dict(model: Module, optim: Any, optim_state_dict: Any = None, group: Any = None) -> dict[str, Any]:
        """Return the state of an optimizer by the names of parameters, as the state dictionary's type says."""
        from oneflow.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

        settings = FullyShardedDataParallel.get_state_dict_type(model)
        config = settings.optim_state_dict_config
        is_full = settings.state_dict_type is StateDictType.FULL_STATE_DICT
        # Of one rank alone where the options say so: others get an empty dictionary.
        alone = isinstance(config, FullOptimStateDictConfig) and config.rank0_only
        return get_optimizer_state_dict(
            model, optim, options=StateDictOptions(full_state_dict=is_full, cpu_offload=alone)
        )

    @staticmethod
    def optim_state_dict_to_load(
        model: Module,
        optim: Any,
        optim_state_dict: dict[str, Any],
        is_named_optimizer: bool = False,
        load_directly: bool = False,
        group: Any = None,
    ) -> dict[str, Any]:
        """Return what ``optim.load_state_dict`` takes, from what :meth:`optim_state_dict` returned."""
        from oneflow.distributed.checkpoint.state_dict import _numbered

        numbered = _numbered(model, optim, optim_state_dict, strict=False)
        if load_directly:
            optim.load_state_dict(numbered)
        return numbered


def _sharded(module: Module) -> FSDPModule:
    assert isinstance(module, FSDPModule)
    return module


def _materialise(target: Module, param_init_fn: Callable[[Module], None] | None, device: oneflow.device) -> None:
    """Give memory and values to parameters on the meta device that no call has sharded yet."""
    for module in target.modules():
        own = [t for t in (*module._parameters.values(), *module._buffers.values()) if t is not None]
        if not any(t.is_meta for t in own):
            continue
        if param_init_fn is not None:
            param_init_fn(module)
        else:
            reset = getattr(module, "reset_parameters", None)
            if reset is None:
                raise ValueError(
                    f"FullyShardedDataParallel: {type(module).__name__} is on the meta device and has no "
                    "reset_parameters(); give param_init_fn"
                )
            module.to_empty(device=device, recurse=False)
            with oneflow.no_grad():
                reset()
        left = [name for name, t in module._parameters.items() if t is not None and t.is_meta]
        if left:
            raise ValueError(
                f"FullyShardedDataParallel: param_init_fn has left {left} of {type(module).__name__} on meta"
            )


def _device_type(device_id: Any, module: Module) -> str:
    """Where to shard: on the device that is named, which is the current one of its type, or where the module is."""
    if device_id is None:
        return device_type_of([module])
    device = oneflow.device("cuda", device_id) if isinstance(device_id, int) else oneflow.device(device_id)
    if device.type == "cuda" and device.index != oneflow.cuda.current_device():
        raise ValueError(
            f"FullyShardedDataParallel: device_id {device} is not the current device, "
            f"cuda:{oneflow.cuda.current_device()}: call cuda.set_device({device.index}) first"
        )
    return device.type


def _mesh(group: Any, mesh: DeviceMesh | None, strategy: ShardingStrategy, where: str) -> DeviceMesh:
    if strategy in _HYBRID:
        if mesh is not None:
            if mesh.ndim != 2:
                raise ValueError(f"{strategy} needs a device_mesh of two dimensions, got {mesh}")
            return mesh
        if isinstance(group, (tuple, list)):
            shares = distributed.get_process_group_ranks(group[0])
            replicas = distributed.get_process_group_ranks(group[1])
            columns: list[Any] = [None] * len(replicas)
            distributed.all_gather_object(columns, shares, group[1])
            names = ("replicate", "shard")
            return DeviceMesh(where, columns, mesh_dim_names=names, _groups_of_dims=[group[1], group[0]])
        n, own = distributed.get_world_size(), max(oneflow._oneflow._launch()[3], 1)
        own = own if n % own == 0 else n
        return init_device_mesh(where, (n // own, own), mesh_dim_names=("replicate", "shard"))
    if mesh is None:
        mesh = (
            init_device_mesh(where, (distributed.get_world_size(),))
            if group is None
            else DeviceMesh.from_group(group, where)
        )
    if mesh.ndim != 1:
        raise ValueError(f"{strategy} needs a device_mesh of one dimension, got {mesh}")
    if strategy is ShardingStrategy.NO_SHARD:
        # Slices of one rank, replicated.
        ranks = [[r] for r in mesh._ranks]
        return DeviceMesh(mesh.device_type, ranks, mesh_dim_names=("replicate", "shard"))
    return mesh


def _ignored(modules: Iterable[Module] | None, states: Iterable[Any] | None) -> set[Tensor]:
    found: set[Tensor] = {p for m in modules or () for p in m.parameters()}
    for one in states or ():
        found |= set(one.parameters()) if isinstance(one, Module) else {one}
    return found


def _synchronise(module: Module, mesh: DeviceMesh, ignored: set[Tensor]) -> None:
    left = {id(p) for p in ignored}
    with oneflow.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            if id(tensor) in left or tensor.is_global:
                continue
            whole = tensor.detach().to(device_of(mesh)).contiguous()
            for axis in range(mesh.ndim):
                group = mesh.get_group(axis)
                distributed.broadcast(whole, distributed.get_global_rank(group, 0), group)
            tensor.copy_(whole)


def _auto_wrap(
    module: Module, policy: Any, ignored: set[int], shard: Callable[..., None], is_root: bool = False
) -> int:
    """Shard the submodules that a policy chooses, the innermost first; return the elements that are taken."""
    if isinstance(policy, (set, frozenset)):
        from oneflow.distributed.fsdp.wrap import ModuleWrapPolicy

        policy = ModuleWrapPolicy(policy)
    own = sum(p.numel() for p in module.parameters() if id(p) not in ignored)
    taken = 0
    if _ask(policy, module, True, own):
        for child in module.children():
            if state_of(child) is None and not isinstance(child, FullyShardedDataParallel):
                taken += _auto_wrap(child, policy, ignored, shard)
    if not is_root:
        chosen = _ask(policy, module, False, own - taken)
        if chosen and any(True for _ in module.parameters()):
            shard(module, is_root=False, **(chosen if isinstance(chosen, dict) else {}))
            return own
    return taken


def _ask(policy: Any, module: Module, recurse: bool, numel: int) -> Any:
    names = inspect.signature(policy).parameters
    if "nonwrapped_numel" in names or any(p.kind is p.VAR_KEYWORD for p in names.values()):
        return policy(module=module, recurse=recurse, nonwrapped_numel=numel)
    return policy(module, recurse, numel)


# ---- hooks of state dictionaries


def _given_state_dict(own: Any, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    settings = own._settings
    for key in [k for k in state_dict if k.startswith(prefix + _PREFIX)]:
        state_dict[prefix + key.removeprefix(prefix + _PREFIX)] = state_dict.pop(key)
    for key in [k for k in state_dict if k.startswith(prefix)]:
        value = state_dict[key]
        if not isinstance(value, Tensor) or not value.is_global:
            continue
        if settings.state_dict_type is StateDictType.FULL_STATE_DICT:
            state_dict[key] = _layouts.full_tensor(value.detach())
        elif settings.state_dict_type is StateDictType.LOCAL_STATE_DICT:
            state_dict[key] = _layouts.local_part(value)
    config = settings.state_dict_config
    if isinstance(config, FullStateDictConfig) and config.rank0_only and distributed.get_rank() != 0:
        for key in [k for k in state_dict if k.startswith(prefix)]:
            del state_dict[key]


def _taken_state_dict(own: Any, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    for key in [k for k in state_dict if k.startswith(prefix) and not k.startswith(prefix + _PREFIX)]:
        state_dict[prefix + _PREFIX + key.removeprefix(prefix)] = state_dict.pop(key)
    for one in own.modules():
        if (state := state_of(one)) is not None:
            state.reshard()
    for name, param in Module.named_parameters(own):
        value = state_dict.get(prefix + name)
        if not isinstance(value, Tensor) or value.is_global or not param.is_global:
            continue
        layout = list(param.sbp)
        if own._settings.state_dict_type is StateDictType.LOCAL_STATE_DICT:
            state_dict[prefix + name] = _layouts.assemble(value, param.placement, layout, list(param.shape))
        elif value.shape == param.shape:
            state_dict[prefix + name] = shard_of_whole(value.detach(), param.placement, layout)
