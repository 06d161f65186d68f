"""Mixtures of experts: each token goes through a few of many feed-forward networks (Shazeer et al., "Outrageously Large
Neural Networks", 2017; Fedus et al., "Switch Transformers", 2022; Dai et al., "DeepSeekMoE", 2024).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import Tensor, nn
from oneflow.compiler import is_compiling, is_exporting
from oneflow.models.layers.mlp import GatedMLP

__all__ = ["MoE", "Routing", "balance_experts", "run_experts", "run_places"]


@dataclass
class Routing:
    """Where tokens go.

    Args:
        scores: (n_tokens, n_experts), of all experts.
        chosen: int64 (n_tokens, top_k), the experts of each token.
        weights: (n_tokens, top_k), by which their results are multiplied.
        kept: bool (n_tokens, top_k), False where an expert has no place left; None if all have.
    """

    scores: Tensor
    chosen: Tensor
    weights: Tensor
    kept: Tensor | None = None


class MoE(nn.Module):
    """SwiGLU experts, of which a router chooses ``top_k`` for each token. Input and output: (..., time, width).

    Without ``capacity_factor`` no token is dropped. Experts without tokens are fine.

    Args:
        width: of input and output.
        hidden: of each expert.
        n_experts: how many there are.
        top_k: how many a token goes through.
        shared: hidden units of a network that every token goes through as well; none by default.
        score: how the router's logits become scores: "softmax" over the experts, or "sigmoid" of each.
        normalized: the weights of a token's experts sum to one.
        scale: of these weights.
        capacity_factor: an expert takes at most ``ceil(capacity_factor * time * top_k / n_experts)`` tokens of a
            sequence; first choices come before second ones, earlier tokens before later ones. Tokens without a place
            pass by.
        dense: every expert reads every token, and what was not chosen is multiplied by zero: the same results for
            ``n_experts / top_k`` times the work. Exported programs (ONNX, ``export``) are dense in any case. Compiled
            ones (``nn.Graph``), where no shape depends on values, have places for the tokens of each expert: as many as
            ``capacity_factor`` says, and without it one for each token, which is as much work.
        balance: weight of the loss that keeps experts equally busy (Fedus et al.), in ``auxiliary_loss`` after a
            forward.

    Attributes:
        bias: (n_experts,), added to the scores when experts are chosen, not to the weights. ``balance_experts`` moves
            it (Wang et al., "Auxiliary-Loss-Free Load Balancing", 2024).
        load: int64 (n_experts,), how many tokens each expert got in the last forward.
        auxiliary_loss: 0-dim, of the last forward; None where ``balance`` is 0.

    Raises:
        ValueError: more experts for a token than there are, or an unknown score.

    Example::

        >>> from oneflow.models.layers import MoE
        >>> layer = MoE(width=8, hidden=16, n_experts=4, top_k=2, balance=0.01)
        >>> layer(oneflow.ones(2, 3, 8)).shape, layer.load.sum().item()
        (oneflow.Size([2, 3, 8]), 12)
    """

    bias: Tensor

    def __init__(
        self,
        width: int,
        hidden: int,
        n_experts: int,
        top_k: int = 2,
        shared: int | None = None,
        score: str = "softmax",
        normalized: bool = True,
        scale: float = 1.0,
        capacity_factor: float | None = None,
        balance: float = 0.0,
        dense: bool = False,
    ) -> None:
        super().__init__()
        if not 1 <= top_k <= n_experts:
            raise ValueError(f"MoE: a token goes through top_k={top_k} of {n_experts} experts")
        if score not in ("softmax", "sigmoid"):
            raise ValueError(f"MoE: score must be 'softmax' or 'sigmoid', got {score!r}")
        if capacity_factor is not None and capacity_factor <= 0:
            raise ValueError(f"MoE: capacity_factor must be positive, got {capacity_factor}")
        self.width, self.hidden, self.n_experts, self.top_k = width, hidden, n_experts, top_k
        self.score, self.normalized, self.scale = score, normalized, scale
        self.capacity_factor, self.balance, self.dense = capacity_factor, balance, dense
        self.router = nn.Linear(width, n_experts, bias=False)
        self.gate = nn.Parameter(torch.empty(n_experts, hidden, width))
        self.up = nn.Parameter(torch.empty(n_experts, hidden, width))
        self.down = nn.Parameter(torch.empty(n_experts, width, hidden))
        self.shared = None if shared is None else GatedMLP(width, shared, nn.SiLU())
        self.register_buffer("bias", torch.zeros(n_experts))
        self.load: Tensor | None = None
        self.auxiliary_loss: Tensor | None = None
        for weight in (self.gate, self.up, self.down):
            nn.init.normal_(weight, std=0.02)

    def forward(self, x: Tensor) -> Tensor:
        y = self.routed(x)
        return y if self.shared is None else y + self.shared(x)

    def routed(self, x: Tensor) -> Tensor:
        """The part of the routed experts: what expert parallelism replaces."""
        routing = self.route(x, self.router.weight, self.bias)
        self.load = self.counts(routing)
        if self.balance:
            share = self.load.to(routing.scores.dtype) / routing.chosen.numel()
            self.auxiliary_loss = self.balance * self.n_experts * (share * routing.scores.mean(0)).sum()

        if self.dense or is_exporting():
            return self.masked(x, routing, self.gate, self.up, self.down)

        if is_compiling():
            return self.placed(x, routing, x.shape[-2], lambda held: run_places(held, self.gate, self.up, self.down))

        def run(rows: Tensor, counts: Tensor) -> Tensor:
            return run_experts(rows, counts.tolist(), self.gate, self.up, self.down)

        return self.dispatch(x, routing, run)

    def route(self, x: Tensor, weight: Tensor, bias: Tensor) -> Routing:
        """Choose the experts of tokens (..., time, width) by the router's ``weight`` and ``bias``."""
        logits = F.linear(x.reshape(-1, self.width), weight)
        scores = logits.softmax(-1) if self.score == "softmax" else logits.sigmoid()
        chosen = (scores.detach() + bias).topk(self.top_k, -1).indices
        weights = scores.gather(-1, chosen)
        if self.normalized:
            weights = weights / weights.sum(-1, keepdim=True)
        routing = Routing(scores, chosen, weights * self.scale)
        if self.capacity_factor is not None:
            routing.kept = self.turns(chosen.view(-1, x.shape[-2], self.top_k)) < self.capacity(x.shape[-2])
        return routing

    def capacity(self, time: int) -> int:
        """How many tokens of a sequence of ``time`` an expert takes at most."""
        if self.capacity_factor is None:
            return time
        return min(time, -int(-self.capacity_factor * time * self.top_k // self.n_experts))

    def turns(self, chosen: Tensor) -> Tensor:
        """For each choice of (sequences, time, top_k) how many of its sequence come before it to the same expert.

        First choices come before second ones, earlier tokens before later ones. (sequences * time, top_k).
        """
        n, time, k = chosen.shape
        order = chosen.transpose(1, 2).reshape(n, k * time)
        numbers = F.one_hot(order, self.n_experts).cumsum(1).gather(-1, order.unsqueeze(-1)).squeeze(-1)
        return (numbers - 1).view(n, k, time).transpose(1, 2).reshape(n * time, k)

    def counts(self, routing: Routing) -> Tensor:
        """How many tokens each expert gets, int64 (n_experts,)."""
        taken = routing.chosen.unsqueeze(-1) == torch.arange(self.n_experts, device=routing.chosen.device)
        if routing.kept is not None:
            taken = taken & routing.kept.unsqueeze(-1)
        return taken.sum((0, 1))

    def masked(self, x: Tensor, routing: Routing, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        """The results of tokens (..., width) by all experts, those that were not chosen times zero."""
        rows = x.reshape(-1, self.width)
        weights = routing.weights if routing.kept is None else routing.weights * routing.kept.to(rows.dtype)
        weights = torch.zeros_like(routing.scores).scatter(1, routing.chosen, weights)
        y = torch.zeros_like(rows)
        for weight, g, u, d in zip(weights.unbind(1), gate, up, down, strict=True):
            y = y + F.linear(F.silu(F.linear(rows, g)) * F.linear(rows, u), d) * weight.unsqueeze(-1)
        return y.view(x.shape)

    def dispatch(self, x: Tensor, routing: Routing, run: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Bring tokens (..., width) into the order of experts, and their weighted results back.

        Args:
            run: called with rows (n, width) in the order of experts, and how many each has, int64 (n_experts,); returns
                as many rows.
        """
        rows = x.reshape(-1, self.width)
        order = routing.chosen.reshape(-1).argsort(stable=True)
        if routing.kept is not None:
            order = order[routing.kept.reshape(-1)[order]]
        tokens = torch.div(order, self.top_k, rounding_mode="floor")
        found = run(rows[tokens], self.counts(routing)) * routing.weights.reshape(-1)[order].unsqueeze(-1)
        return torch.zeros_like(rows).index_add(0, tokens, found).view(x.shape)

    def placed(self, x: Tensor, routing: Routing, longest: int, run: Callable[[Tensor], Tensor]) -> Tensor:
        """Results of tokens (..., time, width) by shapes that no value changes, as compiled programs need them.

        Every expert has as many places for the tokens of a sequence; those that stay empty hold zeros.

        Args:
            longest: the time for which there are places, at least that of ``x``.
            run: called with what the places of each expert hold, (n_experts, places, width); returns results.
        """
        time, capacity = x.shape[-2], self.capacity(longest)
        rows = x.reshape(-1, self.width)
        n = rows.shape[0] // time
        n_places = self.n_experts * n * capacity
        sequences = torch.arange(n, device=x.device).repeat_interleave(time).unsqueeze(1)
        places = (routing.chosen * n + sequences) * capacity + self.turns(routing.chosen.view(n, time, self.top_k))
        if routing.kept is not None:
            # One place more, for all that have none.
            places = torch.where(routing.kept, places, n_places)
        numbers = torch.arange(n * time, device=x.device).repeat_interleave(self.top_k)
        holders = torch.full((n_places + 1,), n * time, device=x.device).scatter(0, places.reshape(-1), numbers)
        zeros = rows.new_zeros(1, self.width)
        held = torch.cat([rows, zeros]).index_select(0, holders[:n_places])
        found = run(held.view(self.n_experts, n * capacity, self.width)).reshape(-1, self.width)
        found = torch.cat([found, zeros]).index_select(0, places.reshape(-1)).view(n * time, self.top_k, self.width)
        return (found * routing.weights.unsqueeze(-1)).sum(1).to(x.dtype).view(x.shape)

    def extra_repr(self) -> str:
        return f"n_experts={self.n_experts}, top_k={self.top_k}, hidden={self.hidden}"


def run_experts(rows: Tensor, counts: list[int], gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """``down(silu(gate(x)) * up(x))`` of runs of rows, one run for each expert.

    Args:
        rows: (n, width), those of the first expert first.
        counts: the length of each run; may be 0.
        gate, up: (n_experts, hidden, width). ``down``: (n_experts, width, hidden).

    Example::

        >>> from oneflow.models.layers.moe import run_experts
        >>> up, down = oneflow.ones(2, 3, 4), oneflow.ones(2, 4, 3)
        >>> run_experts(oneflow.ones(5, 4), [5, 0], up, up, down).shape
        oneflow.Size([5, 4])
    """
    parts = [
        F.linear(F.silu(F.linear(run, g)) * F.linear(run, u), d)
        for run, g, u, d in zip(rows.split(counts), gate, up, down, strict=True)
    ]
    return torch.cat(parts)


def run_places(held: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
    """``down(silu(gate(x)) * up(x))`` of equally many rows for each expert, (n_experts, places, width).

    Example::

        >>> from oneflow.models.layers.moe import run_places
        >>> up, down = oneflow.ones(2, 3, 4), oneflow.ones(2, 4, 3)
        >>> run_places(oneflow.ones(2, 5, 4), up, up, down).shape
        oneflow.Size([2, 5, 4])
    """
    gate, up, down = (weight.transpose(1, 2) for weight in (gate, up, down))
    return (F.silu(held @ gate) * (held @ up)) @ down


@torch.no_grad()
def balance_experts(model: nn.Module, rate: float = 0.001) -> None:
    """Make busy experts less likely and idle ones more, by the load of the last forward; call it after each step.

    Each ``MoE.bias`` moves by ``rate``, up for experts with less than the mean load and down for those with more (Wang
    et al., "Auxiliary-Loss-Free Load Balancing Strategy for Mixture-of-Experts", 2024). No gradient is involved.

    Example::

        >>> from oneflow.models.layers import MoE, balance_experts
        >>> layer = MoE(width=4, hidden=8, n_experts=2, top_k=1)
        >>> _ = layer(oneflow.ones(1, 3, 4))
        >>> balance_experts(layer, rate=0.1)
        >>> sorted(layer.bias.tolist()) == [-layer.bias.max().item(), layer.bias.max().item()]
        True
    """
    for module in model.modules():
        if isinstance(module, MoE) and module.load is not None:
            load = module.load.to(module.bias.dtype)
            module.bias.add_(rate * torch.sign(load.mean() - load))
