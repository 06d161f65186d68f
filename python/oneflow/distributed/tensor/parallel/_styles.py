"""How one module is split: by columns, by rows, along the sequence; and what its inputs and outputs become."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from oneflow import Tensor, nn
from oneflow.distributed.device_mesh import DeviceMesh
from oneflow.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_module, distribute_tensor
from oneflow.nn import Module, Parameter

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]


class ParallelStyle(ABC):
    """Base class: ``_apply(module, device_mesh)`` splits a module and returns it.

    Example::

        >>> from oneflow.distributed.tensor.parallel import ColwiseParallel, ParallelStyle
        >>> issubclass(ColwiseParallel, ParallelStyle)
        True
    """

    src_data_rank: int | None = 0

    @abstractmethod
    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module: ...

    def _distribute(self, module: Module, name: str, mesh: DeviceMesh, placement: Placement) -> None:
        param = module._parameters.get(name)
        if param is None or param.is_global:
            return
        spread = distribute_tensor(param.data, mesh, [placement], src_data_rank=self.src_data_rank)
        module._parameters[name] = Parameter(spread, param.requires_grad)


def _laid(value: Tensor, mesh: DeviceMesh, given: Placement, wanted: Placement) -> Tensor:
    """A local tensor in the layout ``given``, or a DTensor, in the layout ``wanted``."""
    if not value.is_global:
        value = DTensor.from_local(value, mesh, (given,))
    return value if value.placements == (wanted,) else value.redistribute(placements=(wanted,))


class ColwiseParallel(ParallelStyle):
    """Split the outputs of ``nn.Linear``, or the dimensions of vectors of ``nn.Embedding``, over the ranks.

    Args:
        input_layouts: how the first input lies over ranks where it is a local tensor; replicated by default.
        output_layouts: what the output becomes; split along its last dimension by default.
        use_local_output: give the rank's part of the output in place of a DTensor.

    Raises:
        NotImplementedError: another module.

    Example::

        >>> from oneflow.distributed.tensor.parallel import ColwiseParallel, parallelize_module
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     return parallelize_module(nn.Linear(3, 4), mesh, ColwiseParallel())(oneflow.ones(1, 3)).shape
        >>> oneflow.testing.run_ranks(2, rank)
        [oneflow.Size([1, 2]), oneflow.Size([1, 2])]
    """

    # The layouts of inputs and outputs for which none is given.
    _defaults: tuple[Placement, Placement] = (Replicate(), Shard(-1))

    def __init__(
        self,
        *,
        input_layouts: Placement | None = None,
        output_layouts: Placement | None = None,
        use_local_output: bool = True,
    ) -> None:
        super().__init__()
        self.input_layouts = (input_layouts or self._defaults[0],)
        self.output_layouts = (output_layouts or self._defaults[1],)
        self.desired_input_layouts: tuple[Placement, ...] = (Replicate(),)
        self.use_local_output = use_local_output
        self._input_is_given = input_layouts is not None

    def _partition(self, name: str, module: Module, mesh: DeviceMesh) -> None:
        if isinstance(module, nn.Linear):
            self._distribute(module, "weight", mesh, Shard(0))
            self._distribute(module, "bias", mesh, Shard(0))
        elif isinstance(module, nn.Embedding):
            self._distribute(module, "weight", mesh, Shard(1))
        else:
            raise NotImplementedError("ColwiseParallel currently only support nn.Linear and nn.Embedding!")

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        return distribute_module(module, device_mesh, self._partition, self._inputs, self._outputs)

    def _inputs(self, module: Module, inputs: Any, mesh: DeviceMesh) -> Any:
        first = _laid(inputs[0], mesh, self.input_layouts[0], self.desired_input_layouts[0])
        return (first, *inputs[1:])

    def _outputs(self, module: Module, outputs: Any, mesh: DeviceMesh) -> Any:
        return _given(outputs, self.output_layouts[0], self.use_local_output)


def _given(output: Tensor, wanted: Placement, local: bool) -> Tensor:
    if isinstance(wanted, Shard) and wanted.dim < 0:
        wanted = Shard(wanted.dim % output.dim())
    if output.placements != (wanted,):
        output = output.redistribute(placements=(wanted,))
    return output.to_local() if local else output


class RowwiseParallel(ColwiseParallel):
    """Split the inputs of ``nn.Linear``, or the words of ``nn.Embedding``, over the ranks.

    Args:
        input_layouts: how the first input lies over ranks where it is a local tensor; split along its last dimension by
            default, and replicated for an embedding.
        output_layouts: what the output becomes; replicated by default.
        use_local_output: give the rank's part of the output in place of a DTensor.

    Raises:
        NotImplementedError: another module.

    Example::

        >>> from oneflow.distributed.tensor.parallel import RowwiseParallel, parallelize_module
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     return parallelize_module(nn.Linear(4, 3), mesh, RowwiseParallel())(oneflow.ones(1, 2)).shape
        >>> oneflow.testing.run_ranks(2, rank)
        [oneflow.Size([1, 3]), oneflow.Size([1, 3])]
    """

    _defaults = (Shard(-1), Replicate())

    def _partition(self, name: str, module: Module, mesh: DeviceMesh) -> None:
        if isinstance(module, nn.Linear):
            self._distribute(module, "weight", mesh, Shard(1))
            self._distribute(module, "bias", mesh, Replicate())
        elif isinstance(module, nn.Embedding):
            self._distribute(module, "weight", mesh, Shard(0))
        else:
            raise NotImplementedError("RowwiseParallel currently only support nn.Linear and nn.Embedding!")

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.desired_input_layouts = (Shard(-1) if isinstance(module, nn.Linear) else Replicate(),)
        return super()._apply(module, device_mesh)

    def _inputs(self, module: Module, inputs: Any, mesh: DeviceMesh) -> Any:
        is_linear = isinstance(module, nn.Linear)
        wanted: Placement = Shard(inputs[0].dim() - 1) if is_linear else Replicate()
        given = self.input_layouts[0] if is_linear or self._input_is_given else Replicate()
        return (_laid(inputs[0], mesh, given, wanted), *inputs[1:])


class SequenceParallel(ParallelStyle):
    """Compute a module without products (norms, dropout) on slices of the sequence; its parameters are replicated.

    Args:
        sequence_dim: the dimension of the input that is split.
        use_local_output: give the rank's part of the output in place of a DTensor.

    Example::

        >>> from oneflow.distributed.tensor.parallel import SequenceParallel, parallelize_module
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     return parallelize_module(nn.LayerNorm(3), mesh, SequenceParallel())(oneflow.ones(1, 2, 3)).shape
        >>> oneflow.testing.run_ranks(2, rank)
        [oneflow.Size([1, 4, 3]), oneflow.Size([1, 4, 3])]
    """

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        super().__init__()
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _replicate(self, name: str, module: Module, mesh: DeviceMesh) -> None:
        for name in list(module._parameters):
            self._distribute(module, name, mesh, Replicate())

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        return distribute_module(module, device_mesh, self._replicate, self._inputs, self._outputs)

    def _inputs(self, module: Module, inputs: Any, mesh: DeviceMesh) -> Any:
        if not isinstance(inputs[0], Tensor):
            raise ValueError(f"expecting input of {module} to be a Tensor or DTensor, but got {inputs[0]}")
        return (_laid(inputs[0], mesh, self.sequence_sharding[0], self.sequence_sharding[0]), *inputs[1:])

    def _outputs(self, module: Module, outputs: Any, mesh: DeviceMesh) -> Any:
        return outputs.to_local() if self.use_local_output else outputs


def _prepared(value: Any, mesh: DeviceMesh, given: Placement | None, wanted: Placement | None, local: bool) -> Any:
    """An input or output in the layout ``wanted``, as this rank's part if ``local``; others than tensors stay."""
    if given is None or not isinstance(value, Tensor):
        return value
    value = _laid(value, mesh, given, wanted or given)
    return value.to_local() if local else value


def _tuple(value: Any) -> tuple[Any, ...] | None:
    return None if value is None else (value,) if isinstance(value, Placement) else tuple(value)


class PrepareModuleInput(ParallelStyle):
    """Make the inputs of a module DTensors, and redistribute them.

    Args:
        input_layouts: one for each positional input: what a local tensor is a part of; None leaves an input alone.
        desired_input_layouts: one for each: what it becomes.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same for inputs by name.
        use_local_output: give the module the rank's part in place of a DTensor.

    Raises:
        AssertionError: layouts without those that are desired, or another number of them.

    Example::

        >>> from oneflow.distributed.tensor import Replicate, Shard
        >>> from oneflow.distributed.tensor.parallel import PrepareModuleInput, parallelize_module
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     style = PrepareModuleInput(
        ...         input_layouts=Shard(0), desired_input_layouts=Replicate(), use_local_output=True
        ...     )
        ...     return parallelize_module(nn.Identity(), mesh, style)(oneflow.ones(1)).shape
        >>> oneflow.testing.run_ranks(2, rank)
        [oneflow.Size([2]), oneflow.Size([2])]
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_output: bool = False,
    ) -> None:
        self.input_layouts = _tuple(input_layouts)
        self.desired_input_layouts = _tuple(desired_input_layouts)
        self.use_local_output = use_local_output
        if self.input_layouts is not None:
            assert self.desired_input_layouts is not None, "desired module inputs should not be None!"
            assert len(self.input_layouts) == len(self.desired_input_layouts), (
                "input_layouts and desired_input_layouts should have same length!"
            )
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        if self.input_kwarg_layouts:
            assert len(self.input_kwarg_layouts) == len(self.desired_input_kwarg_layouts), (
                "input_kwarg_layouts and desired_input_kwarg_layouts should have same length!"
            )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        def prepare(own: Module, inputs: Any, kwargs: dict[str, Any]) -> Any:
            return self._prepared(inputs, device_mesh), self._prepared_kwargs(kwargs, device_mesh)

        module.register_forward_pre_hook(prepare, with_kwargs=True)
        return module

    def _prepared(self, inputs: Any, mesh: DeviceMesh) -> Any:
        if self.input_layouts is None:
            return inputs
        inputs = inputs if isinstance(inputs, tuple) else (inputs,)
        if len(inputs) != len(self.input_layouts):
            raise ValueError("module inputs and input_layouts should have same length!")
        layouts = zip(self.input_layouts, self.desired_input_layouts or (), strict=True)
        local = self.use_local_output
        return tuple(_prepared(x, mesh, *pair, local) for x, pair in zip(inputs, layouts, strict=True))

    def _prepared_kwargs(self, kwargs: dict[str, Any], mesh: DeviceMesh) -> dict[str, Any]:
        given, wanted = self.input_kwarg_layouts, self.desired_input_kwarg_layouts
        local = self.use_local_output
        return {name: _prepared(x, mesh, given.get(name), wanted.get(name), local) for name, x in kwargs.items()}


class PrepareModuleOutput(ParallelStyle):
    """Make the outputs of a module DTensors, redistribute them, and give the rank's parts.

    Args:
        output_layouts: one for each output: what a local tensor is a part of; None leaves it alone.
        desired_output_layouts: one for each: what it becomes.
        use_local_output: give the rank's part in place of a DTensor.

    Raises:
        AssertionError: another number of desired layouts.

    Example::

        >>> from oneflow.distributed.tensor import Replicate, Shard
        >>> from oneflow.distributed.tensor.parallel import PrepareModuleOutput, parallelize_module
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     style = PrepareModuleOutput(output_layouts=Shard(0), desired_output_layouts=Replicate())
        ...     return parallelize_module(nn.Identity(), mesh, style)(oneflow.ones(1)).shape
        >>> oneflow.testing.run_ranks(2, rank)
        [oneflow.Size([2]), oneflow.Size([2])]
    """

    def __init__(self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True) -> None:
        self.output_layouts = _tuple(output_layouts) or ()
        self.desired_output_layouts = _tuple(desired_output_layouts) or ()
        self.use_local_output = use_local_output
        assert len(self.output_layouts) == len(self.desired_output_layouts), (
            "output_layouts and desired_output_layouts should have same length!"
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        module.register_forward_hook(lambda own, inputs, outputs: self._prepared(outputs, device_mesh))
        return module

    def _prepared(self, outputs: Any, mesh: DeviceMesh) -> Any:
        several = isinstance(outputs, tuple)
        outputs = outputs if several else (outputs,)
        if len(outputs) != len(self.output_layouts):
            raise ValueError("module outputs and output_layouts should have same length!")
        layouts = zip(outputs, self.output_layouts, self.desired_output_layouts, strict=True)
        made = tuple(_prepared(x, mesh, given, wanted, self.use_local_output) for x, given, wanted in layouts)
        return made if several else made[0]


class PrepareModuleInputOutput(ParallelStyle):
    """:class:`PrepareModuleInput` and :class:`PrepareModuleOutput` of one module.

    Args:
        use_local_input: give the module the rank's parts of its inputs in place of DTensors.
        use_local_output: give the rank's parts of its outputs.

    Example::

        >>> from oneflow.distributed.tensor import Replicate, Shard
        >>> from oneflow.distributed.tensor.parallel import PrepareModuleInputOutput, parallelize_module
        >>> def rank():
        ...     mesh = oneflow.distributed.init_device_mesh("cpu", (2,))
        ...     style = PrepareModuleInputOutput(
        ...         input_layouts=Shard(0), desired_input_layouts=Replicate(),
        ...         output_layouts=Replicate(), desired_output_layouts=Shard(0),
        ...     )
        ...     return parallelize_module(nn.Identity(), mesh, style)(oneflow.ones(1)).shape
        >>> oneflow.testing.run_ranks(2, rank)
        [oneflow.Size([1]), oneflow.Size([1])]
    """

    def __init__(
        self,
        *,
        input_layouts: Any = None,
        desired_input_layouts: Any = None,
        input_kwarg_layouts: dict[str, Placement] | None = None,
        desired_input_kwarg_layouts: dict[str, Placement] | None = None,
        use_local_input: bool = False,
        output_layouts: Any,
        desired_output_layouts: Any,
        use_local_output: bool = True,
    ) -> None:
        self.prepare_module_input = PrepareModuleInput(
            input_layouts=input_layouts,
            desired_input_layouts=desired_input_layouts,
            input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts,
            use_local_output=use_local_input,
        )
        self.prepare_module_output = PrepareModuleOutput(
            output_layouts=output_layouts,
            desired_output_layouts=desired_output_layouts,
            use_local_output=use_local_output,
        )

    def _apply(self, module: Module, device_mesh: DeviceMesh) -> Module:
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)
