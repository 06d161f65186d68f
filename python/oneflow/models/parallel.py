"""Transformers over several ranks: batches split over some, heads and hidden units over others (Shoeybi et al.,
"Megatron-LM", 2019).

The models' code does not change: their weights become global tensors, and the rules of ops do the rest. What needs more
stands in ``_parallel``, which is imported when it is used: PyTorch, on which the models run too, has nothing like it.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import oneflow as torch
from oneflow import Tensor, nn
from oneflow.models.generation import Generator
from oneflow.models.layers import MLP, Attention, GatedMLP, MoE
from oneflow.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from oneflow.models._parallel.axes import Axes

__all__ = ["ParallelLayout", "tensor_parallel", "vocabulary_parallel_cross_entropy"]

METHODS = ("ring", "allgather", "ulysses")

ModelT = TypeVar("ModelT", bound=nn.Module)


@dataclass(frozen=True)
class ParallelLayout:
    """How a transformer of the library lies over ``pp * dp * ep * cp * tp`` ranks, in one line.

    ``place`` lays the model out, ``batch`` its inputs; the training loop, eager or in an ``nn.Graph``, is that of one
    rank. Neighbouring ranks share a model: with ``dp=2, tp=2`` ranks 0 and 1 have the parts of one copy, 2 and 3 of
    the other.

    Args:
        dp: the number of copies of the model, which divides the batch.
        tp: the number of ranks that share a copy, which divides the heads and the hidden units.
        recompute: keep only the inputs of the blocks, whose backward computes the rest again: less memory for a third
            more work.
        device: the kind of device, "cpu" or "cuda".
        sequence_parallel: split what tensor parallelism leaves whole along the sequence (Korthikanti et al., 2022):
            less memory for activations, as many bytes sent.
        cp: the number of ranks that share a sequence; each runs the whole model on its part.
        context: how they attend: "ring" sends keys and values around, "allgather" gathers them, "ulysses" trades parts
            of the sequence for parts of the heads, whose number ``cp`` divides.
        vocabulary_parallel: split the table of tokens, the head and the loss of a language model over the ``tp`` ranks.
        ep: the number of ranks that share the experts of mixtures, each with some of them; it divides the batch as
            ``dp`` does, and other weights are whole on each.
        pp: the number of pipeline rows, of ``dp * ep * cp * tp`` ranks each, which share the blocks; for language
            models with a head of their own, in an ``nn.Graph`` that ``configure`` prepares.
        virtual: pipeline stages on each of these rows, for interleaved and V-shaped schedules.
        schedule: the name of a pipeline schedule, see ``oneflow.distributed.pipelining.make_table``.
        micro_batches: into how many parts a pipeline cuts a batch; it divides the rows of each copy.
        zero: the stage of ZeRO in a graph that ``configure`` prepares: what copies hold is split over their ranks,
            states of optimizers (1), gradients too (2), parameters too (3).
        async_tp: with ``sequence_parallel``, products work on one part of the sequence while the next one travels.

    Raises:
        ValueError: a number of ranks below 1, or not that of the job; options that do not go together.

    Example::

        >>> from oneflow.models import GPT2, GPT2Config, ParallelLayout
        >>> layout = ParallelLayout(dp=1, tp=1, recompute=True)
        >>> model = layout.place(GPT2(GPT2Config(50, 16, n_layers=1, n_heads=2, width=8)))
        >>> tokens, targets = layout.batch(oneflow.tensor([[1, 2]]), oneflow.tensor([[2, 3]]))
        >>> model(tokens, targets).is_global
        True
    """

    dp: int = 1
    tp: int = 1
    recompute: bool = False
    device: str = "cpu"
    _: KW_ONLY
    sequence_parallel: bool = False
    cp: int = 1
    context: str = "ring"
    vocabulary_parallel: bool = False
    ep: int = 1
    pp: int = 1
    virtual: int = 1
    schedule: str = "1F1B"
    micro_batches: int = 1
    zero: int = 0
    async_tp: bool = False

    def __post_init__(self) -> None:
        for name in ("dp", "tp", "cp", "ep", "pp", "virtual", "micro_batches"):
            if getattr(self, name) < 1:
                raise ValueError(f"ParallelLayout: {name} must be at least 1, got {getattr(self, name)}")
        if self.context not in METHODS:
            raise ValueError(f"ParallelLayout: context must be one of {', '.join(METHODS)}, got {self.context!r}")
        for name in ("sequence_parallel", "vocabulary_parallel"):
            if getattr(self, name) and self.tp == 1:
                raise ValueError(f"ParallelLayout: {name} splits over the ranks of tp, which is 1")

        if self.async_tp and not self.sequence_parallel:
            raise ValueError("ParallelLayout: async_tp overlaps what sequence_parallel sends, which is False")
        if not 0 <= self.zero <= 3:
            raise ValueError(f"ParallelLayout: zero must be 0, 1, 2 or 3, got {self.zero}")
        if self.pp > 1:
            # Names an unknown schedule, or numbers that it does not take.
            self._rows()

    def _rows(self) -> list[int]:
        from oneflow.models._parallel.stages import stage_ranks

        return stage_ranks(self.schedule, self.pp, self.pp * self.virtual, self.micro_batches)

    @property
    def axes(self) -> tuple[str, ...]:
        """The names of the placement's axes, from the outermost: "dp", others of more than one rank, "tp"."""
        return ("dp", *(name for name in ("ep", "cp") if getattr(self, name) > 1), "tp")

    @property
    def placement(self) -> torch.placement:
        """The ranks of the job, as ``dp`` rows of ``tp``; with more axes ``dp`` of ``ep`` of ``cp`` rows of ``tp``."""
        return self._placements()[0]

    def _placements(self) -> list[torch.placement]:
        """The ranks of each pipeline row; of all without pipelines."""
        n_ranks = len(torch.placement.all(self.device).ranks)
        sizes = [getattr(self, name) for name in self.axes]
        if self.pp * math.prod(sizes) != n_ranks:
            numbers = dict(
                zip((*(("pp",) * (self.pp > 1)), *self.axes), (*((self.pp,) * (self.pp > 1)), *sizes), strict=True)
            )
            named = " times ".join(f"{name}={size}" for name, size in numbers.items())
            raise ValueError(f"ParallelLayout: {named} is not the job's {n_ranks} ranks")
        ranks: list[Any] = list(range(n_ranks))
        for size in reversed(sizes):
            ranks = [ranks[first : first + size] for first in range(0, len(ranks), size)]
        return [torch.placement(self.device, row) for row in ranks]

    def place(self, model: ModelT) -> ModelT:
        """Make the weights of ``model`` global, those of rank 0. Make the optimizer afterwards.

        Raises:
            ValueError: heads or hidden units that ``tp`` does not divide, a model without them, or one that does not
                attend along one sequence.
        """
        from oneflow.models._parallel.axes import Axes, blocks_of
        from oneflow.models._parallel.context import split_context
        from oneflow.models._parallel.experts import check_experts
        from oneflow.models._parallel.linear import split_linears
        from oneflow.models._parallel.sequence import one_sequence, split_sequence
        from oneflow.models._parallel.vocabulary import split_vocabulary

        axes = Axes(self.placement, self.axes)
        for name, wanted in (("sequence_parallel", self.sequence_parallel), ("cp", self.cp > 1)):
            if wanted:
                one_sequence(model, f"ParallelLayout({name}=...)")
        check_experts(model, axes)
        if self.zero:
            _only_traced(model, self.zero)
        if self.pp > 1:
            return self._staged(model)
        _tensor_parallel(model, axes)
        if self.sequence_parallel or self.cp > 1:
            split_linears(model, axes)
        if self.vocabulary_parallel:
            split_vocabulary(model, axes, self.sequence_parallel)
        if self.cp > 1:
            split_context(model, [(model, axes)], self.context)
        if self.sequence_parallel:
            split_sequence(model, axes, self.async_tp)
        language_model: Any = model
        if isinstance(language_model, Generator) and (
            self.sequence_parallel or self.vocabulary_parallel or self.cp > 1
        ):
            language_model.loss = vocabulary_parallel_cross_entropy  # type: ignore[method-assign]
        if self.recompute:
            for block in blocks_of(model):
                _recompute(block)
        return model

    def _staged(self, model: ModelT) -> ModelT:
        from oneflow.models._parallel.axes import Axes, blocks_of
        from oneflow.models._parallel.context import split_context
        from oneflow.models._parallel.experts import split_experts
        from oneflow.models._parallel.linear import split_linears
        from oneflow.models._parallel.sequence import split_sequence
        from oneflow.models._parallel.stages import gather_states, split_stages
        from oneflow.models._parallel.vocabulary import split_staged_vocabulary

        rows = self._placements()
        stages = [Axes(rows[row], self.axes) for row in self._rows()]
        parts = split_stages(model, [axes.placement for axes in stages])
        for part, axes in zip(parts, stages, strict=True):
            _tensor_parallel(part, axes, staged=True)
            split_experts(part, axes, stages[-1].placement)
            if self.cp > 1:
                split_linears(part, axes)
        if self.cp > 1:
            split_context(model, list(zip(parts, stages, strict=True)), self.context)
        if self.sequence_parallel:
            for part, axes in zip(parts, stages, strict=True):
                split_sequence(part, axes, self.async_tp)
        if self.cp > 1 or self.ep > 1 or self.async_tp:
            for row in rows:
                # All ranks make the groups of all rows; the programs of a stage run on its own ranks alone.
                Axes(row, self.axes).make_groups()
        if self.sequence_parallel:
            gather_states(model, stages[-1])
        if self.vocabulary_parallel:
            split_staged_vocabulary(model, stages[0], stages[-1], self.sequence_parallel)
        if self.vocabulary_parallel or self.cp > 1:
            language_model: Any = model
            language_model.loss = vocabulary_parallel_cross_entropy
        if self.recompute:
            for block in blocks_of(model):
                _recompute(block)
        return model

    def configure(self, graph: nn.Graph) -> None:
        """Give a graph its stage of ZeRO, and a pipeline's schedule and micro-batches; call it in its ``__init__``.

        With a pipeline its loss has an entry for each micro-batch, on the ranks of the last stage; see ``mean``.
        """
        if self.zero:
            graph.config.enable_zero(stage=self.zero)
        if self.pp > 1:
            graph.config.set_gradient_accumulation_steps(self.micro_batches)
            graph.config.set_pipeline_schedule(self.schedule)

    def mean(self, loss: Tensor) -> float:
        """The mean of a loss as a number, on every rank, whichever ranks it lies on."""
        if not loss.is_global:
            return float(loss.mean())
        everywhere = torch.placement.all(self.device)
        return float(loss.mean().to_global(placement=everywhere, sbp=torch.sbp.broadcast))

    def batch(self, *tensors: Tensor) -> tuple[Tensor, ...]:
        """Make the batch that every rank has read global: its rows split over the copies.

        Args:
            tensors: local, of the same number of rows, the same on all ranks. In a pipeline the first stage reads them,
                but for the last of several, the targets, which the last stage reads.

        Raises:
            ValueError: rows that ``dp`` times ``ep``, or the micro-batches of a pipeline, do not divide.
        """
        named = f"dp={self.dp}" if self.ep == 1 else f"dp={self.dp} times ep={self.ep}"
        for x in tensors:
            if x.dim() == 0 or x.shape[0] % (self.dp * self.ep):
                raise ValueError(f"ParallelLayout: a batch of shape {tuple(x.shape)} does not divide by {named}")
        from oneflow.models._parallel.axes import Axes

        axes = Axes(self.placement, self.axes)
        whole, rows = axes.layout(), axes.layout(dp=torch.sbp.split(0), ep=torch.sbp.split(0))
        places = [axes.placement] * len(tensors)
        if self.pp > 1:
            if tensors and tensors[0].shape[0] % (self.dp * self.ep * self.micro_batches):
                raise ValueError(
                    f"ParallelLayout: a batch of shape {tuple(tensors[0].shape)} does not divide by {named} times "
                    f"micro_batches={self.micro_batches}"
                )
            if len(tensors) > 1:
                places[-1] = self._placements()[self._rows()[-1]]
        return tuple(x.to_global(at, whole).to_global(sbp=rows) for x, at in zip(tensors, places, strict=True))


def tensor_parallel(model: ModelT, placement: torch.placement) -> ModelT:
    """Make the weights of ``model`` global over ``placement``, those of rank 0.

    Each rank has its part of the heads and of the hidden units; everything else is whole on each. Make the optimizer
    afterwards.

    Each block then sums activations over ranks twice forward and twice backward, and moves no weight.

    Args:
        model: with attention and networks of ``oneflow.models.layers``, the same sizes on each rank.
        placement: ranks, whose number along the last axis divides the heads and the hidden units. Over other axes the
            weights are whole, and batches may be split.

    Raises:
        ValueError: the heads or hidden units do not divide, or the model has none.

    Example::

        >>> from oneflow.models import GPT2, GPT2Config, tensor_parallel
        >>> placement = oneflow.placement("cpu", [0])
        >>> model = tensor_parallel(GPT2(GPT2Config(50, 16, 1, n_heads=2, width=8)), placement)
        >>> model.blocks[0].mlp.up.weight.sbp
        (oneflow.sbp.split(dim=0),)
    """
    from oneflow.models._parallel.axes import Axes

    others = placement.ranks.ndim - 1
    return _tensor_parallel(model, Axes(placement, (*(f"data{i}" for i in range(others)), "tp")))


def _tensor_parallel(model: ModelT, axes: Axes, staged: bool = False) -> ModelT:
    """Split a model, or a pipeline stage, over the axis "tp" of a mesh, and its experts over "ep"."""
    from oneflow.models._parallel.experts import split_experts
    from oneflow.models._parallel.heads import own_heads
    from oneflow.models._parallel.windows import place_seams

    placement = axes.placement
    *others, n_ranks = placement.ranks.shape
    whole = [torch.sbp.broadcast] * len(others)
    for name, module in model.named_modules():
        sizes: tuple[int, ...] = ()
        if isinstance(module, Attention):
            sizes = (module.n_heads, module.n_kv_heads)
        elif isinstance(module, MLP | GatedMLP):
            sizes = (module.up.out_features,)
        if any(size % n_ranks for size in sizes):
            raise ValueError(f"{name}: {' and '.join(map(str, sizes))} do not divide by {n_ranks} ranks")
    if (
        n_ranks > 1
        and not staged
        and not any(isinstance(module, Attention | MLP | GatedMLP | MoE) for module in model.modules())
    ):
        kind = type(model).__name__
        raise ValueError(f"{kind} has no attention or feed-forward network to split over {n_ranks} ranks")
    model.to_global(placement, [*whole, torch.sbp.broadcast])
    rows, columns = [*whole, torch.sbp.split(0)], [*whole, torch.sbp.split(1)]
    for module in model.modules():
        first: tuple[Any, ...] = ()
        if isinstance(module, Attention):
            first, second = (module.query, module.key, module.value), module.out
        elif isinstance(module, MLP):
            first, second = (module.up,), module.down
        elif isinstance(module, GatedMLP):
            first, second = (module.gate, module.up), module.down
        # Rows of outputs in the first, columns of inputs in the second: one sum over ranks for the pair.
        for linear in first:
            linear.to_global(sbp=rows)
        if first:
            second.weight = nn.Parameter(second.weight.detach().to_global(sbp=columns))
    if not staged:
        own_heads(model)
        split_experts(model, axes)
        place_seams(model, axes)
    return model


def vocabulary_parallel_cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """Mean cross entropy in nats of logits whose classes, or rows, are split over ranks; no logits travel.

    Args:
        logits: global (..., classes), in any layout of splits and copies.
        targets: int64 (...), global over the same ranks: the class of each row.
        ignore_index: rows of this target do not count.

    Returns:
        0-dim, global. It is not a number where no row counts.

    Raises:
        ValueError: tensors that are not global, or shapes that do not fit.
        IndexError: a target that is no class.

    Example::

        >>> from oneflow.models import vocabulary_parallel_cross_entropy
        >>> def rank():
        ...     place, sbp = oneflow.placement.all("cpu"), oneflow.sbp
        ...     logits = oneflow.zeros(3, 4, placement=place, sbp=sbp.split(1))
        ...     targets = oneflow.tensor([0, 1, 3]).to_global(place, sbp.broadcast)
        ...     return vocabulary_parallel_cross_entropy(logits, targets).to_local()
        >>> oneflow.testing.run_ranks(2, rank)
        [tensor(1.3863), tensor(1.3863)]
    """
    from oneflow.models._parallel.vocabulary import cross_entropy

    return cross_entropy(logits, targets, ignore_index)


def _only_traced(model: nn.Module, stage: int) -> None:
    forward = model.forward

    def traced(*args: Any, **kwargs: Any) -> Any:
        if model.training and torch.is_grad_enabled() and not torch._oneflow._is_tracing():
            raise RuntimeError(
                f"ParallelLayout: zero={stage} works in an nn.Graph that layout.configure(graph) has prepared; eagerly "
                "oneflow.distributed.fsdp.fully_shard splits parameters"
            )
        return forward(*args, **kwargs)

    model.forward = traced  # type: ignore[method-assign]


def _recompute(block: nn.Module) -> None:
    forward = block.forward

    def again(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return forward(*args, **kwargs)
        return checkpoint(forward, *args, use_reentrant=False, **kwargs)

    block.forward = again  # type: ignore[method-assign]
