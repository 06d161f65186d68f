"""A stage: a part of a model on its rank, run for one micro-batch at a time."""

from __future__ import annotations

from typing import Any

import oneflow
from oneflow import Tensor, _oneflow
from oneflow.distributed import _groups
from oneflow.nn.modules.module import Module

__all__ = ["PipelineStage", "build_stage"]


class PipelineStage:
    """A part of a model, as a schedule runs it.

    Args:
        submodule: takes what the stage before returns (tensors, one or a tuple), the first stage the arguments of
            ``step``.
        stage_index: its place among ``num_stages``.
        device: of the tensors that it receives.
        input_args: tensors like those that it takes, ``output_args`` like those that it returns: shapes and dtypes are
            checked against them. They are not needed: what is sent says its shapes.
        group: the ranks of the pipeline; by default all.

    Raises:
        ValueError: the index is none of so many stages.
        NotImplementedError: ``output_grads``, ``input_grads``, ``dw_builder`` or ``get_mesh`` is given.

    Example::

        >>> stage = oneflow.distributed.pipelining.PipelineStage(oneflow.nn.Linear(2, 2), 0, 1, "cpu")
        >>> stage.is_first, stage.is_last
        (True, True)
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any,
        input_args: Tensor | tuple[Tensor, ...] | None = None,
        output_args: Tensor | tuple[Tensor, ...] | None = None,
        output_grads: Any = None,
        input_grads: Any = None,
        group: Any = None,
        dw_builder: Any = None,
        get_mesh: Any = None,
    ) -> None:
        for name, given in (
            ("output_grads", output_grads),
            ("input_grads", input_grads),
            ("dw_builder", dw_builder),
            ("get_mesh", get_mesh),
        ):
            if given is not None:
                raise NotImplementedError(f"PipelineStage({name}=) is not supported")
        if not isinstance(submodule, Module):
            raise TypeError(f"PipelineStage: expected a module, got {type(submodule).__name__}")
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"PipelineStage: stage_index must be in [0, {num_stages}), got {stage_index}")
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device, self.group = oneflow.device(device), group
        self._like = (_as_list(input_args), _as_list(output_args))
        self.has_backward = False
        # By micro-batch: inputs and outputs until the backward, and what is left of a backward.
        self._kept: dict[int, tuple[list[Tensor], list[Tensor]]] = {}
        self._rest: dict[int, Any] = {}

    @property
    def is_first(self) -> bool:
        """Whether no stage comes before."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether no stage comes after."""
        return self.stage_index == self.num_stages - 1

    @property
    def group_rank(self) -> int:
        """This rank's number in the group."""
        return int(_groups.get_rank(self.group))

    @property
    def group_size(self) -> int:
        """The ranks of the group."""
        return int(_groups.get_world_size(self.group))

    # ---- work on a micro-batch

    def forward(self, micro_batch: int, inputs: list[Any], kwargs: dict[str, Any]) -> Any:
        """Run the module; keep what its backward needs."""
        self._check(0, "takes", inputs, micro_batch)
        result = self.submod(*inputs, **kwargs)
        outputs = _as_list(result)
        if not self.is_last and not all(isinstance(t, Tensor) for t in outputs):
            kinds = sorted({type(t).__name__ for t in outputs if not isinstance(t, Tensor)})
            raise TypeError(
                f"pipeline stage {self.stage_index} returns {', '.join(kinds)}: expected a tensor or a tuple of them"
            )
        self._check(1, "returns", outputs, micro_batch)
        if self.has_backward:
            received = [] if self.is_first else [t for t in inputs if t.requires_grad]
            self._kept[micro_batch] = (received, [t for t in outputs if isinstance(t, Tensor) and t.requires_grad])
        return result

    def outputs(self, micro_batch: int) -> list[Tensor]:
        """Return the kept outputs that require gradients."""
        return self._kept[micro_batch][1]

    def backward(self, micro_batch: int, roots: list[Tensor], grads: list[Tensor | None], split: bool) -> list[Tensor]:
        """Return the gradients of the inputs; leave those of parameters to :meth:`backward_weights` if ``split``."""
        inputs, _ = self._kept.pop(micro_batch)
        if split:
            found, self._rest[micro_batch] = _oneflow._C._backward_inputs(roots, grads, inputs)
        else:
            if roots:
                oneflow.autograd.backward(roots, grads)
            found = [t.grad for t in inputs]
        return [oneflow.zeros_like(t) if g is None else g for t, g in zip(inputs, found, strict=True)]

    def backward_weights(self, micro_batch: int) -> None:
        """Add the gradients of the parameters."""
        self._rest.pop(micro_batch).run()

    def forget(self) -> None:
        """Drop what is kept of micro-batches."""
        self._kept.clear()
        self._rest.clear()

    def _check(self, which: int, verb: str, tensors: list[Any], micro_batch: int) -> None:
        like = self._like[which]
        if not like:
            return
        want = [(tuple(t.shape), t.dtype) for t in like]
        have = [(tuple(t.shape), t.dtype) if isinstance(t, Tensor) else type(t).__name__ for t in tensors]
        if want != have:
            raise RuntimeError(
                f"pipeline stage {self.stage_index} {verb} {have} for micro-batch {micro_batch}; it was made for {want}"
            )


def build_stage(
    stage_module: Module, stage_index: int, pipe_info: Any, device: Any, group: Any = None
) -> PipelineStage:
    """Return the stage of a module that :func:`pipeline` has cut.

    Args:
        pipe_info: the :class:`Pipe` that the module belongs to, or what its ``info`` returns.

    Example::

        >>> from oneflow.distributed.pipelining import build_stage, pipeline
        >>> pipe = pipeline(oneflow.nn.Sequential(oneflow.nn.Linear(2, 3)), (oneflow.ones(1, 2),))
        >>> build_stage(pipe.get_stage_module(0), 0, pipe.info(), "cpu").is_last
        True
    """
    return PipelineStage(stage_module, stage_index, pipe_info.num_stages, device, group=group)


def _as_list(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, (tuple, list)) else [value]
