"""A Llama whose feed-forward networks are mixtures of experts (Jiang et al., "Mixtral of Experts", 2024; DeepSeek-AI,
"DeepSeek-V3 Technical Report", 2024).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from oneflow import Tensor
from oneflow.models.layers import MoE
from oneflow.models.layers.rotary import RotaryScaling
from oneflow.models.llama import Block, Llama, LlamaConfig
from oneflow.models.pretrained import Layout

__all__ = ["MoELlama", "MoELlamaConfig"]


@dataclass
class MoELlamaConfig(LlamaConfig):
    """Sizes of a Llama with experts. The defaults are those of Mixtral 8x7B.

    Args:
        hidden: of the networks of the first ``n_dense`` layers, which have no experts.
        expert_hidden: of each expert.
        n_experts, top_k: how many there are, and how many a token goes through.
        shared_hidden: of a network that every token goes through as well; none by default.
        score, normalized, routed_scale, capacity_factor, dense: see ``oneflow.models.layers.MoE``.
        balance: weight of the loss that keeps experts equally busy, which is part of the model's loss.

    Example::

        >>> from oneflow.models import MoELlamaConfig
        >>> MoELlamaConfig.preset("mixtral-8x7b").n_experts
        8
    """

    n_positions: int = 32768
    n_kv_heads: int | None = 8
    hidden: int = 14336
    rotary_base: float = 1e6
    n_dense: int = 0
    expert_hidden: int = 14336
    n_experts: int = 8
    top_k: int = 2
    shared_hidden: int | None = None
    score: str = "softmax"
    normalized: bool = True
    routed_scale: float = 1.0
    capacity_factor: float | None = None
    balance: float = 0.0
    dense: bool = False

    presets = {
        "mixtral-8x7b": {},
        "mixtral-8x22b": {
            "vocabulary": 32768,
            "n_positions": 65536,
            "n_layers": 56,
            "n_heads": 48,
            "width": 6144,
            "hidden": 16384,
            "expert_hidden": 16384,
        },
    }
    model_type = "oneflow_moe_llama"
    # Files have our own names.
    hugging_face: ClassVar[dict[str, str]] = {}
    implemented: ClassVar[dict[str, tuple[Any, ...]]] = {}

    @classmethod
    def from_hugging_face(cls, values: Mapping[str, Any], **changes: Any) -> MoELlamaConfig:
        if values.get("rotary_scaling") is not None and "rotary_scaling" not in changes:
            changes["rotary_scaling"] = RotaryScaling(**values["rotary_scaling"])
        return super(LlamaConfig, cls).from_hugging_face({**values, "rotary_scaling": None}, **changes)

    def to_hugging_face(self) -> dict[str, Any]:
        values = super(LlamaConfig, self).to_hugging_face()
        return {**values, "rotary_scaling": None if self.rotary_scaling is None else asdict(self.rotary_scaling)}


class MoELlama(Llama):
    """A language model with experts: tokens in, logits of the next token out.

    ``forward(tokens)`` with int64 tokens (batch, time) returns logits (batch, time, vocabulary);
    ``forward(tokens, targets)`` returns the mean cross entropy in nats per token, 0-dim, and with ``balance`` the loss
    of the routers added to it. ``oneflow.models.layers.balance_experts(model)`` balances without a loss.

    Example::

        >>> from oneflow.models import MoELlama, MoELlamaConfig
        >>> sizes = {"n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "width": 16, "expert_hidden": 24, "n_experts": 4}
        >>> MoELlama(MoELlamaConfig(50, n_positions=16, **sizes))(oneflow.tensor([[1, 2, 3]])).shape
        oneflow.Size([1, 3, 50])
    """

    config_class = MoELlamaConfig
    layouts: tuple[Layout, ...] = ()

    def make_block(self, index: int) -> Block:
        config = self.config
        assert isinstance(config, MoELlamaConfig)
        if index < config.n_dense:
            return Block(config)
        experts = MoE(
            config.width,
            config.expert_hidden,
            config.n_experts,
            config.top_k,
            shared=config.shared_hidden,
            score=config.score,
            normalized=config.normalized,
            scale=config.routed_scale,
            capacity_factor=config.capacity_factor,
            balance=config.balance,
            dense=config.dense,
        )
        return Block(config, experts)

    def forward(self, tokens: Tensor, targets: Tensor | None = None) -> Tensor:
        out = super().forward(tokens, targets)
        if targets is None:
            return out
        for module in self.modules():
            if isinstance(module, MoE) and module.auxiliary_loss is not None:
                out = out + module.auxiliary_loss
        return out
