"""Optimizer states in shares: each rank updates some of the parameters and sends them to the others.

Source: Rajbhandari, Rasley, Ruwase and He, ZeRO: Memory Optimizations Toward Training Trillion Parameter Models
(arXiv:1910.02054), its first stage, by whole parameters.
"""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, distributed
from oneflow.distributed.algorithms.join import Joinable, JoinHook
from oneflow.optim import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Another optimizer, of which each rank keeps the states of its share of the parameters.

    Gradients must be the same on all ranks, as ``DistributedDataParallel`` makes them.

    Args:
        params: tensors, or groups.
        optimizer_class: the optimizer that updates.
        process_group: the ranks that share; all by default.
        parameters_as_bucket_view: accepted; parameters keep their memory.
        overlap_with_ddp: refused if true.
        defaults: options of the optimizer.

    Raises:
        NotImplementedError: ``overlap_with_ddp``.

    Example::

        >>> from oneflow.distributed.optim import ZeroRedundancyOptimizer
        >>> def rank():
        ...     model = nn.parallel.DistributedDataParallel(nn.Linear(4, 4))
        ...     optimizer = ZeroRedundancyOptimizer(model.parameters(), oneflow.optim.Adam, lr=0.1)
        ...     model(oneflow.ones(1, 4)).sum().backward()
        ...     optimizer.step()
        ...     return len(optimizer.optim.state)
        >>> oneflow.testing.run_ranks(2, rank)
        [1, 1]
    """

    def __init__(
        self,
        params: Any,
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer: overlap_with_ddp is not supported; updates follow backward"
            )
        self.process_group = process_group
        self.world_size, self.rank = distributed.get_world_size(process_group), distributed.get_rank(process_group)
        self._optimizer_class, self._own_defaults = optimizer_class, defaults
        self._whole: list[dict[str, Any]] | None = None
        self._owner: dict[int, int] = {}
        self._sizes = [0] * self.world_size
        self._ready = False
        super().__init__(params, dict(defaults))
        self._ready = True
        self._make()

    # ---- shares

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group, whose parameters are shared out too."""
        super().add_param_group(param_group)
        # The largest first, each to the rank that has least.
        for p in sorted(self.param_groups[-1]["params"], key=lambda p: -p.numel()):
            owner = min(range(self.world_size), key=lambda r: (self._sizes[r], r))
            self._owner[id(p)] = owner
            self._sizes[owner] += p.numel()
        if self._ready:
            own = [p for p in self.param_groups[-1]["params"] if self._owner[id(p)] == self.rank]
            group = {k: v for k, v in self.param_groups[-1].items() if k != "params"}
            self.optim.add_param_group({**group, "params": own or [_nothing()]})

    def _make(self) -> None:
        groups = []
        for group in self.param_groups:
            own = [p for p in group["params"] if self._owner[id(p)] == self.rank]
            # A group may be another rank's altogether.
            groups.append({**{k: v for k, v in group.items() if k != "params"}, "params": own or [_nothing()]})
        self.optim = self._optimizer_class(groups, **self._own_defaults)
        for mine, inner in zip(self.param_groups, self.optim.param_groups, strict=True):
            for key, value in inner.items():
                if key != "params":
                    mine.setdefault(key, value)

    def _copy_options(self, source: list[dict[str, Any]], target: list[dict[str, Any]]) -> None:
        for a, b in zip(source, target, strict=True):
            b.update({key: value for key, value in a.items() if key not in ("params", "param_names")})

    # ---- steps

    def step(self, closure: Any = None, **kwargs: Any) -> Any:
        """Update this rank's share, and send it to the others."""
        from oneflow.distributed.algorithms.join import Join

        Join.notify_join_context(self)
        loss = self._step_share(closure, **kwargs)
        self._send_shares()
        return loss

    def _step_share(self, closure: Any = None, **kwargs: Any) -> Any:
        self._copy_options(self.param_groups, self.optim.param_groups)
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        self._copy_options(self.optim.param_groups, self.param_groups)
        self._whole = None
        return loss

    @oneflow.no_grad()
    def _send_shares(self) -> None:
        for owner in range(self.world_size):
            by_dtype: dict[Any, list[Tensor]] = {}
            for group in self.param_groups:
                for p in group["params"]:
                    if self._owner[id(p)] == owner:
                        by_dtype.setdefault(p.dtype, []).append(p)
            for params in by_dtype.values():
                flat = oneflow.cat([p.detach().reshape(-1) for p in params])
                distributed.broadcast(flat, distributed.get_global_rank(self.process_group, owner), self.process_group)
                if owner != self.rank:
                    for p, part in zip(params, flat.split([p.numel() for p in params]), strict=True):
                        p.copy_(part.view(p.shape))

    # ---- state dictionaries

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the states of all ranks on rank ``to``, where :meth:`state_dict` can then be called."""
        self._copy_options(self.param_groups, self.optim.param_groups)
        own = self._numbered_states()
        told: list[Any] | None = [None] * self.world_size if self.rank == to else None
        distributed.gather_object(own, told, distributed.get_global_rank(self.process_group, to), self.process_group)
        self._whole = told

    def _numbered_states(self) -> dict[str, Any]:
        number = {id(p): i for i, p in enumerate(p for group in self.param_groups for p in group["params"])}
        return {
            str(number[id(p)]): {k: v.detach() if isinstance(v, Tensor) else v for k, v in state.items()}
            for p, state in self.optim.state.items()
            if id(p) in number
        }

    def state_dict(self) -> dict[str, Any]:
        """The states of all ranks, on the rank that :meth:`consolidate_state_dict` named.

        Raises:
            RuntimeError: they were not collected here since the last step.
        """
        if self._whole is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to="
                f"{self.rank})` on all ranks beforehand if you meant to save the global state."
            )
        state = {int(i): values for part in self._whole for i, values in part.items()}
        groups, at = [], 0
        for group in self.param_groups:
            numbers = list(range(at, at + len(group["params"])))
            groups.append({**{k: v for k, v in group.items() if k != "params"}, "params": numbers})
            at += len(numbers)
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over the states of all ranks; each keeps those of its share."""
        params = [p for group in self.param_groups for p in group["params"]]
        groups, state, number = [], {}, 0
        for group, inner in zip(state_dict["param_groups"], self.optim.param_groups, strict=True):
            numbers = []
            for p in inner["params"]:
                found = next((i for i, known in enumerate(params) if known is p), None)
                if found is not None and found in state_dict["state"]:
                    state[number] = state_dict["state"][found]
                numbers.append(number)
                number += 1
            groups.append({**group, "params": numbers})
        self.optim.load_state_dict({"state": state, "param_groups": groups})
        self._copy_options(self.optim.param_groups, self.param_groups)

    # ---- uneven inputs

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a rank that is done does: its share of the updates."""
        return _ZeroJoinHook(self)

    @property
    def join_device(self) -> Any:
        """The device of the parameters."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """The ranks that share."""
        return self.process_group


def _nothing() -> Tensor:
    return oneflow.nn.Parameter(oneflow.empty(0))


class _ZeroJoinHook(JoinHook):
    def __init__(self, zero: ZeroRedundancyOptimizer) -> None:
        self._zero = zero

    def main_hook(self) -> None:
        self._zero._step_share()
        self._zero._send_shares()
