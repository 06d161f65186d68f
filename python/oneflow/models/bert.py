"""BERT: an encoder that reads in both directions (Devlin et al., "BERT", 2019).

Reads the weights of Hugging Face's ``bert`` family.
"""

from __future__ import annotations

from dataclasses import dataclass

import oneflow as torch
import oneflow.nn.functional as F
from oneflow import Tensor, nn
from oneflow.models.layers import MLP, Attention, init_linear
from oneflow.models.pretrained import Config, Layout, Part, Pretrained

__all__ = ["Bert", "BertClassifier", "BertConfig", "BertForPreTraining"]


@dataclass
class BertConfig(Config):
    """Sizes of a BERT. The defaults are those of the base model.

    Args:
        n_positions: the longest text in tokens.
        n_types: kinds of tokens, such as first and second sentence.
        n_classes: classes of a ``BertClassifier``.

    Example::

        >>> from oneflow.models import BertConfig
        >>> BertConfig.preset("bert-large-uncased").n_layers
        24
    """

    vocabulary: int = 30522
    n_positions: int = 512
    n_types: int = 2
    n_layers: int = 12
    n_heads: int = 12
    width: int = 768
    hidden: int = 3072
    dropout: float = 0.1
    norm_eps: float = 1e-12
    n_classes: int = 2

    presets = {
        "bert-base-uncased": {},
        "bert-large-uncased": {"n_layers": 24, "n_heads": 16, "width": 1024, "hidden": 4096},
        "bert-base-cased": {"vocabulary": 28996},
        "bert-large-cased": {"vocabulary": 28996, "n_layers": 24, "n_heads": 16, "width": 1024, "hidden": 4096},
        "bert-tiny": {"n_layers": 2, "n_heads": 2, "width": 128, "hidden": 512},
    }
    model_type = "bert"
    hugging_face = {
        "vocabulary": "vocab_size",
        "n_positions": "max_position_embeddings",
        "n_types": "type_vocab_size",
        "n_layers": "num_hidden_layers",
        "n_heads": "num_attention_heads",
        "width": "hidden_size",
        "hidden": "intermediate_size",
        "dropout": "hidden_dropout_prob",
        "norm_eps": "layer_norm_eps",
    }
    implemented = {
        "hidden_act": ("gelu",),
        "position_embedding_type": ("absolute", None),
        "is_decoder": (False,),
        "tie_word_embeddings": (True,),
    }


class Block(nn.Module):
    """Attention and a feed-forward network, each added to its input and then normed.

    Input and output: (batch, time, width).
    """

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.attention = Attention(config.width, config.n_heads, dropout=config.dropout)
        self.norm1 = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.mlp = MLP(config.width, config.hidden, nn.GELU(), config.dropout)
        self.norm2 = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.norm1(x + self.dropout(self.attention(x, mask=mask)))
        return self.norm2(x + self.mlp(x))


class _PretrainedBert(Pretrained):
    config_class = BertConfig


def _parts(ours: str) -> tuple[Part, ...]:
    """Hugging Face's names of the encoder, whose weights begin with ``ours`` in the model."""
    layer, block = "encoder.layer.{}.", ours + "blocks.{}."
    both = [
        ("embeddings.word_embeddings", ours + "token"),
        ("embeddings.position_embeddings", ours + "position"),
        ("embeddings.token_type_embeddings", ours + "kind"),
        ("embeddings.LayerNorm", ours + "norm"),
        (layer + "attention.self.query", block + "attention.query"),
        (layer + "attention.self.key", block + "attention.key"),
        (layer + "attention.self.value", block + "attention.value"),
        (layer + "attention.output.dense", block + "attention.out"),
        (layer + "attention.output.LayerNorm", block + "norm1"),
        (layer + "intermediate.dense", block + "mlp.up"),
        (layer + "output.dense", block + "mlp.down"),
        (layer + "output.LayerNorm", block + "norm2"),
        ("pooler.dense", ours + "pooler"),
    ]
    # The first published files call the norms' weights gamma and beta.
    old = [
        (f"{theirs}.{before}", f"{mine}.{now}")
        for theirs, mine in both
        if theirs.endswith("LayerNorm")
        for before, now in (("gamma", "weight"), ("beta", "bias"))
    ]
    return tuple(Part(theirs, mine) for theirs, mine in both + old)


# Buffers, and heads that the model at hand does not have.
_PLACES = r"(bert\.)?embeddings\.position_ids"


class Bert(_PretrainedBert):
    """The encoder: tokens in, one state for each out, and one for the whole text.

    ``forward(tokens, types, padding_mask)`` with int64 tokens (batch, time) returns the states (batch, time, width) and
    the pooled state of the first token (batch, width).

    Example::

        >>> from oneflow.models import Bert, BertConfig
        >>> model = Bert(BertConfig(50, n_positions=16, n_layers=1, n_heads=2, width=8, hidden=16))
        >>> states, pooled = model(oneflow.tensor([[1, 2, 3]]))
        >>> states.shape, pooled.shape
        (oneflow.Size([1, 3, 8]), oneflow.Size([1, 8]))
    """

    layouts = (Layout("hugging_face", _parts(""), prefix="bert.", skipped=(_PLACES, r"cls\..*", r"classifier\..*")),)

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.token = nn.Embedding(config.vocabulary, config.width)
        self.position = nn.Embedding(config.n_positions, config.width)
        self.kind = nn.Embedding(config.n_types, config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.dropout = nn.Dropout(config.dropout)
        self.blocks = nn.ModuleList([Block(config) for _ in range(config.n_layers)])
        self.pooler = nn.Linear(config.width, config.width)
        self.register_buffer("places", torch.arange(config.n_positions), persistent=False)
        init_linear(self)

    def forward(
        self, tokens: Tensor, types: Tensor | None = None, padding_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Encode.

        Args:
            types: kind of each token, int64 (batch, time); all 0 by default.
            padding_mask: (batch, time), True for tokens; all by default.
        """
        time = tokens.shape[1]
        if time > self.config.n_positions:
            raise ValueError(f"a text of {time} tokens: this BERT reads at most {self.config.n_positions}")
        types = torch.zeros_like(tokens) if types is None else types
        x = self.token(tokens) + self.position(self.places[:time]) + self.kind(types)
        x = self.dropout(self.norm(x))
        mask = None if padding_mask is None else padding_mask.bool()[:, None, None, :]
        for block in self.blocks:
            x = block(x, mask)
        return x, torch.tanh(self.pooler(x[:, 0]))


class BertForPreTraining(_PretrainedBert):
    """The encoder with the two heads it is trained with: masked tokens, and whether the second sentence follows.

    ``forward(tokens, types, padding_mask)`` returns logits (batch, time, vocabulary) and (batch, 2).

    Example::

        >>> from oneflow.models import BertConfig, BertForPreTraining
        >>> model = BertForPreTraining(BertConfig(50, n_positions=16, n_layers=1, n_heads=2, width=8, hidden=16))
        >>> [out.shape for out in model(oneflow.tensor([[1, 2, 3]]))]
        [oneflow.Size([1, 3, 50]), oneflow.Size([1, 2])]
    """

    layouts = (
        Layout(
            "hugging_face",
            (
                *(Part("bert." + part.theirs, part.ours) for part in _parts("bert.")),
                Part("cls.predictions.transform.dense", "transform"),
                Part("cls.predictions.transform.LayerNorm", "norm"),
                Part("cls.predictions.transform.LayerNorm.gamma", "norm.weight"),
                Part("cls.predictions.transform.LayerNorm.beta", "norm.bias"),
                Part("cls.predictions.bias", "bias"),
                Part("cls.seq_relationship", "follows"),
            ),
            skipped=(_PLACES,),
            tied=(("cls.predictions.decoder.weight", "bert.token.weight"), ("cls.predictions.decoder.bias", "bias")),
        ),
    )

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = Bert(config)
        self.transform = nn.Linear(config.width, config.width)
        self.norm = nn.LayerNorm(config.width, eps=config.norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        self.follows = nn.Linear(config.width, 2)
        init_linear(self)

    def forward(
        self, tokens: Tensor, types: Tensor | None = None, padding_mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        states, pooled = self.bert(tokens, types, padding_mask)
        states = self.norm(F.gelu(self.transform(states)))
        return F.linear(states, self.bert.token.weight, self.bias), self.follows(pooled)


class BertClassifier(_PretrainedBert):
    """The encoder with a linear layer over the pooled state: tokens (batch, time) to logits (batch, n_classes).

    Example::

        >>> from oneflow.models import BertClassifier, BertConfig
        >>> config = BertConfig(50, n_positions=16, n_layers=1, n_heads=2, width=8, hidden=16, n_classes=3)
        >>> BertClassifier(config)(oneflow.tensor([[1, 2, 3]])).shape
        oneflow.Size([1, 3])
    """

    layouts = (
        Layout(
            "hugging_face",
            (*(Part("bert." + part.theirs, part.ours) for part in _parts("bert.")), Part("classifier", "head")),
            skipped=(_PLACES,),
        ),
    )

    def __init__(self, config: BertConfig) -> None:
        super().__init__()
        self.config = config
        self.bert = Bert(config)
        self.dropout = nn.Dropout(config.dropout)
        self.head = nn.Linear(config.width, config.n_classes)
        init_linear(self)

    def forward(self, tokens: Tensor, types: Tensor | None = None, padding_mask: Tensor | None = None) -> Tensor:
        return self.head(self.dropout(self.bert(tokens, types, padding_mask)[1]))
