"""Each model of the library in a small size, with the model of another library that it must equal, and what to feed.

The reference is the well-known model of transformers or torchvision; if there is none, the library's own
source run by PyTorch. Weights go from the reference through a file into ours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import oneflow as flow
import oneflow.models as ours
import torch
import torchvision
import transformers

from benches.twin import models_on

# More threads than the machine has to spare make PyTorch's small steps slow.
torch.set_num_threads(1)
twins = models_on(torch)


@dataclass
class Case:
    """``reference`` creates PyTorch's model; ``save`` writes it, ``load`` reads the file as ours.

    ``call`` and ``our_call`` convert NumPy arrays to tensors and return a list of outputs.
    """

    reference: Callable[[], Any]
    load: Callable[[Path], Any]
    inputs: Callable[[np.random.Generator], list[np.ndarray]]
    call: Callable[..., Any] = lambda model, *given: model(*given)
    our_call: Callable[..., Any] = lambda model, *given: model(*given)
    folder: bool = True
    dtype: str = "float32"

    def save(self, model: Any, folder: Path) -> Path:
        """Write the reference's weights as its library does; return what to load."""
        if self.folder:
            model.save_pretrained(folder)
            return folder
        torch.save(model.state_dict(), folder / "weights.pth")
        return folder / "weights.pth"


def hugging_face(
    model: str,
    config: str,
    sizes: dict[str, Any],
    our_model: type,
    inputs: Any,
    call: Any,
    our_call: Any,
    **changes: Any,
) -> Case:
    def reference() -> Any:
        return getattr(transformers, model)(getattr(transformers, config)(**sizes))

    return Case(reference, lambda path: our_model.from_pretrained(path, **changes), inputs, call, our_call)


def vision(reference: Callable[[], Any], our_model: type, config: Any, inputs: Any) -> Case:
    # Batch norms and ReLU: an activation that rounding moves over the kink changes gradients by all it has.
    exact = isinstance(config, ours.ResNetConfig)

    def load(path: Path) -> Any:
        return our_model.from_pretrained(path, config, dtype=flow.float64 if exact else None)

    return Case(reference, load, inputs, folder=False, dtype="float64" if exact else "float32")


def twin(model: str, config: str, sizes: dict[str, Any], inputs: Any, call: Any = None) -> Case:
    """Our own source on PyTorch."""

    def reference() -> Any:
        return getattr(twins, model)(getattr(twins, config)(**sizes))

    same = call or (lambda model, *given: model(*given))
    load = getattr(ours, model).from_pretrained
    return Case(reference, lambda path: load(path), inputs, same, same)


def tokens(vocabulary: int, batch: int, time: int) -> Callable[[np.random.Generator], list[np.ndarray]]:
    return lambda rng: [rng.integers(3, vocabulary, (batch, time))]


def images(*shape: int) -> Callable[[np.random.Generator], list[np.ndarray]]:
    return lambda rng: [rng.standard_normal(shape).astype("f4")]


def padded(n_types: int) -> Callable[[np.random.Generator], list[np.ndarray]]:
    def make(rng: np.random.Generator) -> list[np.ndarray]:
        mask = np.ones((3, 10), dtype=bool)
        mask[0, 6:] = False
        return [rng.integers(3, 50, (3, 10)), rng.integers(0, n_types, (3, 10)), mask]

    return make


def _bert(*wanted: str) -> Any:
    def call(model: Any, words: Any, types: Any, mask: Any) -> list[Any]:
        out = model(words, attention_mask=mask.long(), token_type_ids=types)
        return [getattr(out, name) for name in wanted]

    return call


def _t5(model: Any, target: Any, source: Any, mask: Any) -> Any:
    return model(input_ids=source, attention_mask=mask.long(), decoder_input_ids=target).logits


def _t5_inputs(rng: np.random.Generator) -> list[np.ndarray]:
    source, _, mask = padded(2)(rng)
    return [rng.integers(2, 50, (3, 17)), source, mask]


def _unet_inputs(timed: bool) -> Callable[[np.random.Generator], list[np.ndarray]]:
    def make(rng: np.random.Generator) -> list[np.ndarray]:
        image = rng.standard_normal((2, 3, 16, 16)).astype("f4")
        return [image, rng.integers(0, 1000, (2,)), rng.integers(0, 5, (2,))] if timed else [image]

    return make


def _dlrm_inputs(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.standard_normal((6, 5)).astype("f4"), rng.integers(0, 20, (6, 3, 4))]


def _wide_deep_inputs(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.standard_normal((6, 5)).astype("f4"), rng.integers(0, 60, (6, 4)), rng.integers(0, 20, (6, 3))]


def _categories_inputs(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.standard_normal((6, 5)).astype("f4"), rng.integers(0, 20, (6, 3))]


def _two_tower_inputs(rng: np.random.Generator) -> list[np.ndarray]:
    users, items = rng.integers(0, 20, (6, 1)), rng.integers(0, 20, (6, 2))
    return [users, items, rng.standard_normal((6, 3)).astype("f4")]


def _logits(model: Any, *given: Any) -> Any:
    return model(*given).logits


def _plain(model: Any, *given: Any) -> Any:
    return model(*given)


_GPT2 = {"n_layer": 2, "n_embd": 32, "n_head": 4, "vocab_size": 50, "n_positions": 64, "bos_token_id": 1}
_GPT2 |= {"eos_token_id": None, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
_LLAMA = {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 4, "num_key_value_heads": 2}
_LLAMA |= {"intermediate_size": 48, "vocab_size": 50, "max_position_embeddings": 64, "eos_token_id": None}
_LLAMA3 = {"rope_type": "llama3", "rope_theta": 1000.0, "factor": 8.0, "low_freq_factor": 1.0}
_LLAMA3 |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 16}
_MOE: dict[str, Any] = {"vocabulary": 50, "n_positions": 32, "n_layers": 2, "n_heads": 4, "n_kv_heads": 2, "width": 16}
_MOE |= {"hidden": 24, "expert_hidden": 12, "n_experts": 4}
_BERT = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
_BERT |= {"max_position_embeddings": 16, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
_T5 = {"vocab_size": 50, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4, "dropout_rate": 0.0}
_T5 |= {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 12, "decoder_start_token_id": 0}
_VIT = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
_VIT |= {"image_size": 32, "patch_size": 8, "num_labels": 5}
_SWIN = {"image_size": 56, "patch_size": 2, "embed_dim": 8, "depths": [2, 2, 2], "num_heads": [1, 2, 4]}
_SWIN |= {"num_labels": 5, "drop_path_rate": 0.0}


def _untied() -> Any:
    sizes = {**_T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
    model = transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes))
    model.config.tie_word_embeddings = False
    model.lm_head.weight = torch.nn.Parameter(torch.randn(50, 32))
    return model


def _vit() -> Any:
    model = torchvision.models.VisionTransformer(32, 8, 2, 4, 32, 48, num_classes=5)
    torch.nn.init.normal_(model.heads.head.weight)  # Zeros would hide everything below.
    return model


def _swin() -> Any:
    sizes = ([4, 4], 8, [2, 2, 2, 2], [1, 2, 4, 8], [7, 7])
    return torchvision.models.SwinTransformer(*sizes, stochastic_depth_prob=0.0, num_classes=5)


def _resnet(block: Any, **changes: Any) -> Case:
    """One block a stage: what there is to compare, in a second."""
    sizes = {"groups": changes.get("groups", 1), "width_per_group": changes.get("group_width", 64)}
    return vision(
        lambda: torchvision.models.ResNet(block, [1, 1, 1, 1], num_classes=5, **sizes),
        ours.ResNet,
        ours.ResNetConfig(depths=(1, 1, 1, 1), n_classes=5, **changes),
        images(2, 3, 40, 40),
    )


CASES: dict[str, Case] = {
    "gpt2": hugging_face("GPT2LMHeadModel", "GPT2Config", _GPT2, ours.GPT2, tokens(50, 2, 12), _logits, _plain),
    "llama": hugging_face("LlamaForCausalLM", "LlamaConfig", _LLAMA, ours.Llama, tokens(50, 2, 12), _logits, _plain),
    "llama3": hugging_face(
        "LlamaForCausalLM",
        "LlamaConfig",
        {**_LLAMA, "rope_parameters": _LLAMA3, "tie_word_embeddings": True, "attention_bias": True},
        ours.Llama,
        tokens(50, 2, 40),
        _logits,
        _plain,
    ),
    "bert": hugging_face(
        "BertModel", "BertConfig", _BERT, ours.Bert, padded(2), _bert("last_hidden_state", "pooler_output"), _plain
    ),
    "bert pretraining": hugging_face(
        "BertForPreTraining",
        "BertConfig",
        _BERT,
        ours.BertForPreTraining,
        padded(2),
        _bert("prediction_logits", "seq_relationship_logits"),
        _plain,
    ),
    "bert classifier": hugging_face(
        "BertForSequenceClassification",
        "BertConfig",
        {**_BERT, "num_labels": 3},
        ours.BertClassifier,
        padded(2),
        _bert("logits"),
        _plain,
        n_classes=3,
    ),
    "t5": hugging_face(
        "T5ForConditionalGeneration",
        "T5Config",
        _T5,
        ours.T5,
        _t5_inputs,
        _t5,
        lambda model, target, source, mask: model(source, target, mask),
    ),
    "t5 1.1": Case(
        _untied,
        ours.T5.from_pretrained,
        _t5_inputs,
        _t5,
        lambda model, target, source, mask: model(source, target, mask),
    ),
    "vit": hugging_face(
        "ViTForImageClassification", "ViTConfig", _VIT, ours.ViT, images(2, 3, 32, 32), _logits, _plain, dropout=0.0
    ),
    "vit torchvision": vision(
        _vit,
        ours.ViT,
        ours.ViTConfig(image=32, patch=8, n_layers=2, n_heads=4, width=32, hidden=48, n_classes=5),
        images(2, 3, 32, 32),
    ),
    "swin": hugging_face(
        "SwinForImageClassification", "SwinConfig", _SWIN, ours.Swin, images(2, 3, 56, 56), _logits, _plain
    ),
    "swin torchvision": vision(
        _swin,
        ours.Swin,
        ours.SwinConfig(width=8, depths=(2, 2, 2, 2), n_heads=(1, 2, 4, 8), drop_path=0.0, n_classes=5),
        images(2, 3, 72, 100),
    ),
    "resnet basic": _resnet(torchvision.models.resnet.BasicBlock, bottleneck=False),
    "resnet bottleneck": _resnet(torchvision.models.resnet.Bottleneck),
    "resnext": _resnet(torchvision.models.resnet.Bottleneck, groups=32, group_width=4),
    "unet": twin("UNet", "UNetConfig", {"width": 8, "multipliers": (1, 2)}, _unet_inputs(False)),
    "unet diffusion": twin(
        "UNet",
        "UNetConfig",
        {"width": 8, "multipliers": (1, 2, 2), "attention": (1,), "timed": True, "n_classes": 5, "n_out": 3},
        _unet_inputs(True),
    ),
    "lstm": twin(
        "LSTMLM",
        "LSTMLMConfig",
        {"vocabulary": 50, "width": 16, "hidden": 16, "dropout": 0.0, "tied": True},
        tokens(50, 2, 12),
        lambda model, words: [model(words)[0], *model(words)[1]],
    ),
    "moe llama": twin("MoELlama", "MoELlamaConfig", _MOE, tokens(50, 2, 12)),
    "moe llama capacity": twin(
        "MoELlama",
        "MoELlamaConfig",
        {**_MOE, "capacity_factor": 0.75, "shared_hidden": 8, "score": "sigmoid", "n_dense": 1},
        tokens(50, 2, 12),
    ),
    "moe llama dense": twin(
        "MoELlama", "MoELlamaConfig", {**_MOE, "capacity_factor": 0.75, "dense": True}, tokens(50, 2, 12)
    ),
    "dlrm": twin(
        "DLRM", "DLRMConfig", {"n_dense": 5, "rows": (30, 20, 25), "bottom": (16,), "top": (16,)}, _dlrm_inputs
    ),
    "wide deep": twin(
        "WideDeep",
        "WideDeepConfig",
        {"n_dense": 5, "wide_rows": 60, "rows": (30, 20, 25), "width": 8, "hidden": (16, 8)},
        _wide_deep_inputs,
    ),
    "deepfm": twin(
        "DeepFM",
        "DeepFMConfig",
        {"n_dense": 5, "rows": (30, 20, 25), "width": 4, "hidden": (16, 8)},
        _categories_inputs,
    ),
    "dcn": twin(
        "DCN", "DCNConfig", {"n_dense": 5, "rows": (30, 20, 25), "width": 4, "hidden": (16, 8)}, _categories_inputs
    ),
    "dcn parallel": twin(
        "DCN",
        "DCNConfig",
        {"n_dense": 5, "rows": (30, 20, 25), "width": 4, "rank": 6, "hidden": (16, 8), "stacked": False},
        _categories_inputs,
    ),
    "two tower": twin(
        "TwoTower",
        "TwoTowerConfig",
        {"user_rows": (20,), "item_rows": (20, 30), "n_user_dense": 3, "width": 4, "hidden": (16,), "output": 8},
        _two_tower_inputs,
    ),
}
