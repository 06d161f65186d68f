"""A recurrent language model (Zaremba et al., "Recurrent Neural Network Regularization", 2014; tied as in Press and
Wolf, "Using the Output Embedding to Improve Language Models", 2017).
"""

from __future__ import annotations

from dataclasses import dataclass

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import Tensor, nn
from oneflow.models.generation import sample
from oneflow.models.pretrained import Config, Pretrained

__all__ = ["LSTMLM", "LSTMLMConfig"]

State = tuple[Tensor, Tensor]


@dataclass
class LSTMLMConfig(Config):
    """Sizes of an LSTM language model. The defaults are those of the "medium" one of the paper.

    Args:
        width: of the embeddings.
        hidden: of the LSTM; equal to ``width`` where ``tied``.
        tied: logits come from the table of tokens.

    Example::

        >>> from oneflow.models import LSTMLMConfig
        >>> LSTMLMConfig.preset("large").hidden
        1500
    """

    vocabulary: int = 10000
    n_layers: int = 2
    width: int = 650
    hidden: int = 650
    dropout: float = 0.5
    tied: bool = False
    init_range: float = 0.05

    presets = {
        "small": {"width": 200, "hidden": 200, "dropout": 0.0, "init_range": 0.1},
        "medium": {},
        "large": {"width": 1500, "hidden": 1500, "dropout": 0.65, "init_range": 0.04},
    }
    model_type = "oneflow_lstm_lm"


class LSTMLM(Pretrained):
    """Tokens and a state in, logits of the next token and the next state out.

    ``forward(tokens, state)`` with int64 tokens (batch, time) returns logits (batch, time, vocabulary) and the state
    after the last token, two tensors (layers, batch, hidden). Without a state, the text begins.

    Example::

        >>> from oneflow.models import LSTMLM, LSTMLMConfig
        >>> model = LSTMLM(LSTMLMConfig(vocabulary=50, width=8, hidden=8))
        >>> logits, state = model(oneflow.tensor([[1, 2, 3]]))
        >>> logits.shape
        oneflow.Size([1, 3, 50])
    """

    config_class = LSTMLMConfig

    def __init__(self, config: LSTMLMConfig) -> None:
        super().__init__()
        self.config = config
        if config.tied and config.width != config.hidden:
            raise ValueError(f"tied weights need one width, not {config.width} and {config.hidden}")
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.lstm = nn.LSTM(
            config.width,
            config.hidden,
            config.n_layers,
            batch_first=True,
            dropout=config.dropout if config.n_layers > 1 else 0.0,
        )
        self.dropout = nn.Dropout(config.dropout)
        self.head = None if config.tied else nn.Linear(config.hidden, config.vocabulary)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -config.init_range, config.init_range)

    def forward(self, tokens: Tensor, state: State | None = None) -> tuple[Tensor, State]:
        x, state = self.lstm(self.dropout(self.token(tokens)), state)
        x = self.dropout(x)
        return F.linear(x, self.token.weight) if self.head is None else self.head(x), state

    @torch.no_grad()
    def generate(
        self, tokens: Tensor, max_new_tokens: int, temperature: float = 1.0, top_k: int | None = None
    ) -> Tensor:
        """Continue ``tokens``, int64 (batch, time), by ``max_new_tokens``; returns both together."""
        rows, state = [tokens], None
        for _ in range(max_new_tokens):
            logits, state = self(rows[-1], state)
            rows.append(sample(logits[:, -1], temperature, top_k)[:, None])
        return torch.cat(rows, dim=1)
