"""States of optimizers of ``FullyShardedDataParallel`` by PyTorch's older functions, which no settings change."""

from __future__ import annotations

from typing import Any

from oneflow import distributed
from oneflow.distributed.fsdp.api import OptimStateKeyType
from oneflow.nn import Module

__all__ = ["OptimStates"]


class OptimStates:
    """The functions, as static methods of the wrapper."""

    @staticmethod
    def full_optim_state_dict(
        model: Module, optim: Any, optim_input: Any = None, rank0_only: bool = True, group: Any = None
    ) -> dict[str, Any]:
        """Return the whole state of an optimizer by the names of parameters, on the first rank alone or on all.

        Args:
            optim_input: accepted; the optimizer knows its parameters.
            rank0_only: other ranks get an empty dictionary.
            group: accepted; the ranks of the model take part.
        """
        from oneflow.distributed.checkpoint.state_dict import StateDictOptions, get_optimizer_state_dict

        options = StateDictOptions(full_state_dict=True, cpu_offload=rank0_only)
        return get_optimizer_state_dict(model, optim, options=options)

    @staticmethod
    def sharded_optim_state_dict(model: Module, optim: Any, group: Any = None) -> dict[str, Any]:
        """Return the state of an optimizer by the names of parameters, as DTensors."""
        from oneflow.distributed.checkpoint.state_dict import get_optimizer_state_dict

        return get_optimizer_state_dict(model, optim)

    @staticmethod
    def shard_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any], model: Module, optim_input: Any = None, optim: Any = None
    ) -> dict[str, Any]:
        """Return what ``optim.load_state_dict`` takes, from what :meth:`full_optim_state_dict` returned on all ranks.

        Raises:
            ValueError: no optimizer is given.
        """
        from oneflow.distributed.checkpoint.state_dict import _numbered

        if optim is None:
            raise ValueError("shard_full_optim_state_dict: give the optimizer as `optim`")
        return _numbered(model, optim, full_optim_state_dict, strict=False)

    @staticmethod
    def flatten_sharded_optim_state_dict(
        sharded_optim_state_dict: dict[str, Any], model: Module, optim: Any
    ) -> dict[str, Any]:
        """Return what ``optim.load_state_dict`` takes, from what :meth:`sharded_optim_state_dict` returned."""
        return OptimStates.shard_full_optim_state_dict(sharded_optim_state_dict, model, optim=optim)

    @staticmethod
    def scatter_full_optim_state_dict(
        full_optim_state_dict: dict[str, Any] | None,
        model: Module,
        optim_input: Any = None,
        optim: Any = None,
        group: Any = None,
    ) -> dict[str, Any]:
        """As :meth:`shard_full_optim_state_dict`, with the dictionary of the group's first rank."""
        given = [full_optim_state_dict]
        distributed.broadcast_object_list(given, distributed.get_global_rank(group, 0), group)
        return OptimStates.shard_full_optim_state_dict(given[0] or {}, model, optim=optim)

    @staticmethod
    def rekey_optim_state_dict(
        optim_state_dict: dict[str, Any],
        optim_state_key_type: OptimStateKeyType,
        model: Module,
        optim_input: Any = None,
        optim: Any = None,
    ) -> dict[str, Any]:
        """Return a state dictionary with names in place of numbers, or numbers in place of names.

        Args:
            model: the module without wrapper whose parameters, in the order of the optimizer's, have those names.
            optim: the optimizer, if its parameters have another order than the model's.

        Raises:
            ValueError: a name or number that no parameter has.
        """
        names = {id(p): name for name, p in model.named_parameters()}
        order = list(names.values())
        if optim is not None:
            order = [names[id(p)] for group in optim.param_groups for p in group["params"]]
        new: dict[Any, Any] = dict(enumerate(order))
        if optim_state_key_type is OptimStateKeyType.PARAM_ID:
            new = {name: number for number, name in new.items()}

        def key(old: Any) -> Any:
            if old in new:
                return new[old]
            if old in new.values():
                return old
            raise ValueError(f"rekey_optim_state_dict: no parameter of the model is {old!r}")

        return {
            "state": {key(old): state for old, state in optim_state_dict["state"].items()},
            "param_groups": [
                {**group, "params": [key(old) for old in group["params"]]} for group in optim_state_dict["param_groups"]
            ],
        }
