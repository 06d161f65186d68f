"""A module cut into the stages of a pipeline, at submodules or where its forward says so.

The module is traced with proxies (`oneflow.fx`), so its forward must not branch on tensors. A stage is a graph
module whose parameters keep their names. What a later stage needs of an earlier one passes through those between.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from oneflow import fx
from oneflow.distributed.pipelining.stage import PipelineStage
from oneflow.nn import Module, Parameter

__all__ = ["Pipe", "SplitPoint", "pipe_split", "pipeline"]

_local = threading.local()


class SplitPoint(Enum):
    """Where a submodule is cut: a new stage begins with it, or after its end.

    Example::

        >>> oneflow.distributed.pipelining.SplitPoint.BEGINNING.value
        1
    """

    BEGINNING = 1
    END = 2


def pipe_split() -> None:
    """Begin a new stage here, in the forward of a module that :func:`pipeline` cuts. Does nothing elsewhere.

    Example::

        >>> oneflow.distributed.pipelining.pipe_split()
    """
    tracer = getattr(_local, "tracer", None)
    if tracer is not None:
        tracer.create_node("call_function", pipe_split, (), {})


class _Tracer(fx.Tracer):
    """Records cuts at submodules; modules with cuts inside are traced through."""

    def __init__(self, cuts: dict[str, SplitPoint]) -> None:
        super().__init__()
        self._cuts = cuts
        self.met: set[str] = set()

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        inside = any(name.startswith(module_qualified_name + ".") for name in self._cuts)
        return not inside and super().is_leaf_module(m, module_qualified_name)

    def call_module(self, m: Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        path = self.path_of_module(m)
        cut = self._cuts.get(path)
        self.met.add(path)
        if cut is SplitPoint.BEGINNING:
            pipe_split()
        result = super().call_module(m, forward, args, kwargs)
        if cut is SplitPoint.END:
            pipe_split()
        return result


@contextlib.contextmanager
def _recording(tracer: _Tracer) -> Iterator[None]:
    _local.tracer = tracer
    try:
        yield
    finally:
        _local.tracer = None


class Pipe(Module):
    """A module cut into stages; called, it runs them one after the other.

    Made by :func:`pipeline`.

    Example::

        >>> model = oneflow.nn.Sequential(oneflow.nn.Linear(2, 3), oneflow.nn.ReLU())
        >>> cut = {"1": oneflow.distributed.pipelining.SplitPoint.BEGINNING}
        >>> oneflow.distributed.pipelining.pipeline(model, (oneflow.ones(1, 2),), split_spec=cut).num_stages
        2
    """

    def __init__(self, split_gm: Any, stages: list[Any]) -> None:
        super().__init__()
        self.split_gm = split_gm
        self._stages = stages
        for i, stage in enumerate(stages):
            self.add_module(f"stage_{i}", stage)

    @property
    def num_stages(self) -> int:
        """The number of stages."""
        return len(self._stages)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run all stages here. The result is a tuple, of one tensor where the whole module gives that alone."""
        value = self._stages[0](*args, **kwargs)
        for stage in self._stages[1:]:
            value = stage(*value) if isinstance(value, tuple) else stage(value)
        return value if isinstance(value, tuple) else (value,)

    def get_stage_module(self, stage_idx: int) -> Any:
        """Return the module of a stage.

        Raises:
            ValueError: there is no such stage.
        """
        if not 0 <= stage_idx < self.num_stages:
            raise ValueError(f"Invalid stage index {stage_idx}: the pipe has {self.num_stages} stages")
        return self._stages[stage_idx]

    def info(self) -> Pipe:
        """Return what :func:`build_stage` needs of the pipe: the pipe itself."""
        return self

    def build_stage(self, stage_index: int, device: Any, group: Any = None) -> PipelineStage:
        """Return a stage for a schedule; its module is moved to ``device``.

        Raises:
            ValueError: there is no such stage.
        """
        module = self.get_stage_module(stage_index).to(device)
        return PipelineStage(module, stage_index, self.num_stages, device, group=group)

    @staticmethod
    def from_tracing(
        mod: Module,
        example_args: tuple[Any, ...],
        example_kwargs: dict[str, Any] | None = None,
        split_policy: Callable[[Any], Any] | None = None,
    ) -> Pipe:
        """Cut a module where its forward calls :func:`pipe_split`, or where a policy puts such calls into its graph."""
        return pipeline(mod, example_args, example_kwargs, split_policy=split_policy)


def pipeline(
    module: Module,
    mb_args: tuple[Any, ...],
    mb_kwargs: dict[str, Any] | None = None,
    split_spec: dict[str, SplitPoint] | None = None,
    split_policy: Callable[[Any], Any] | None = None,
) -> Pipe:
    """Cut a module into stages.

    Args:
        module: its forward must not branch on tensors.
        mb_args: arguments of a micro-batch, ``mb_kwargs`` those by name: arguments that are not among them keep their
            defaults. Their values are not looked at.
        split_spec: by the path of a submodule, whether a stage begins with it or after it.
        split_policy: takes the traced graph module and returns it with calls of :func:`pipe_split` in its graph.

    Raises:
        ValueError: both ways of cutting are given, a path is no submodule that the forward calls, the arguments are not
            those of the forward, or a stage would have nothing to do.
        NotImplementedError: two stages use one parameter.

    Example::

        >>> from oneflow.distributed.pipelining import SplitPoint, pipeline
        >>> model = oneflow.nn.Sequential(oneflow.nn.Linear(2, 3), oneflow.nn.ReLU(), oneflow.nn.Linear(3, 1))
        >>> pipe = pipeline(model, (oneflow.ones(1, 2),), split_spec={"2": SplitPoint.BEGINNING})
        >>> pipe.num_stages, [name for name, _ in pipe.get_stage_module(1).named_parameters()]
        (2, ['2.weight', '2.bias'])
    """
    if split_spec is not None and split_policy is not None:
        raise ValueError("Cannot specify both `split_spec` and `split_policy`. Please use only one of them.")
    cuts = dict(split_spec or {})
    for path, cut in cuts.items():
        if not isinstance(cut, SplitPoint):
            raise TypeError(f"pipeline(): split_spec[{path!r}] must be a SplitPoint, got {cut!r}")
    tracer = _Tracer(cuts)
    with _recording(tracer):
        graph = tracer.trace(module, concrete_args=_defaults(module, mb_args, mb_kwargs or {}) or None)
    unknown = sorted(set(cuts) - tracer.met)
    if unknown:
        raise ValueError(f"pipeline(): the forward calls no submodule {unknown[0]!r}")
    for node in graph.find_nodes(op="placeholder"):
        # A tensor as default is a node, of which a signature knows nothing: the input is given, or not used.
        if node.args and isinstance(node.args[0], fx.Node):
            node.args = () if node.users else (None,)
    traced = fx.GraphModule(module, graph)
    if split_policy is not None:
        traced = split_policy(traced)
        graph = traced.graph
    stages = _stages(module, graph)
    return Pipe(traced, stages)


def _defaults(module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments that are not given, which have defaults."""
    signature = inspect.signature(module.forward)
    try:
        given = signature.bind(*args, **kwargs).arguments
    except TypeError as error:
        raise ValueError(
            f"pipeline(): mb_args and mb_kwargs do not fit {type(module).__name__}.forward: {error}"
        ) from None
    usual = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {n: p.default for n, p in signature.parameters.items() if n not in given and p.kind in usual}


def _stages(module: Module, graph: Any) -> list[Any]:
    """A graph module for each part of a graph between cuts."""
    part, parts = 0, {}
    for node in graph.nodes:
        if node.op == "call_function" and node.target is pipe_split:
            part += 1
        elif node.op != "output":
            parts[node] = 0 if node.op == "placeholder" else part
    n = part + 1
    # Parameters are read where they are used first.
    for node in parts:
        if node.op == "get_attr" and node.users:
            parts[node] = min(parts.get(user, n - 1) for user in node.users)
    last_use = {node: max([parts.get(user, n - 1) for user in node.users], default=at) for node, at in parts.items()}
    result = next(node for node in graph.nodes if node.op == "output").args[0]
    made = []
    for k in range(n):
        own = [node for node, at in parts.items() if at == k]
        if not any(node.op.startswith("call_") for node in own):
            raise ValueError(f"pipeline(): stage {k} of {n} has nothing to do: two cuts are next to each other")
        before = [node for node, at in parts.items() if at < k <= last_use[node]]
        after = [node for node, at in parts.items() if at <= k < last_use[node]]
        made.append(_stage(module, graph, own, before, after if k + 1 < n else None, result))
    _refuse_shared(made)
    return made


def _stage(module: Module, graph: Any, own: list[Any], before: list[Any], after: list[Any] | None, result: Any) -> Any:
    """One part: it takes ``before``, and returns ``after`` (of the last part: the result)."""
    part = fx.Graph()
    values = {node: part.placeholder(node.name) for node in before}
    for node in own:
        values[node] = part.node_copy(node, values.__getitem__)
    if after is None:
        part.output(fx.node.map_arg(result, values.__getitem__))
    else:
        part.output(values[after[0]] if len(after) == 1 else tuple(values[node] for node in after))
    part.lint()
    return fx.GraphModule(module, part)


def _refuse_shared(stages: list[Any]) -> None:
    seen: dict[int, tuple[int, str]] = {}
    for k, stage in enumerate(stages):
        for name, value in stage.named_parameters():
            if not isinstance(value, Parameter):
                continue
            other, known = seen.setdefault(id(value), (k, name))
            if other != k:
                raise NotImplementedError(
                    f"pipeline(): stages {other} and {k} share the parameter {known!r}, whose gradients nothing would "
                    "add up: cut elsewhere, or give each stage its own"
                )
