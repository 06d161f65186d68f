"""The forty models: twenty of timm on images, twenty of transformers on tokens, images and sounds.

Those of timm have the sizes they were published with, on 224x224 images. Those of transformers have their own layers at
a width of 256 and four layers, on 128 tokens, apart from BERT-base. Weights are random; nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TIMM = (
    "resnet18",
    "resnet50",
    "resnext50_32x4d",
    "seresnet50",
    "wide_resnet50_2",
    "densenet121",
    "vgg11_bn",
    "mobilenetv2_100",
    "mobilenetv3_small_100",
    "efficientnet_b0",
    "regnety_002",
    "ghostnet_100",
    "convnext_atto",
    "repvgg_a0",
    "vit_tiny_patch16_224",
    "deit_tiny_patch16_224",
    "swin_tiny_patch4_window7_224",
    "mixer_s32_224",
    "resmlp_12_224",
    "poolformer_s12",
)
WIDTH = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 1000}
INNER = {"intermediate_size": 1024}
DECODER = WIDTH | INNER | {"num_key_value_heads": 2, "pad_token_id": 0}
BOTH = {"d_model": 256, "vocab_size": 1000, "pad_token_id": 0, "decoder_start_token_id": 1}
HEADS = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_layers": 4, "decoder_layers": 4}
FEED = {"encoder_ffn_dim": 1024, "decoder_ffn_dim": 1024}
PICTURE = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}
# The name of a model here: its class in transformers, its kind of input, and what its configuration is told.
TRANSFORMERS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert-base": ("BertForSequenceClassification", "labels", {}),
    "bert": ("BertForMaskedLM", "tokens", WIDTH | INNER),
    "roberta": ("RobertaForMaskedLM", "tokens", WIDTH | INNER),
    "distilbert": ("DistilBertForMaskedLM", "tokens", {"dim": 256, "hidden_dim": 1024, "n_layers": 4, "n_heads": 4}),
    "albert": ("AlbertForMaskedLM", "tokens", WIDTH | INNER | {"embedding_size": 128}),
    "electra": ("ElectraForMaskedLM", "tokens", WIDTH | INNER | {"embedding_size": 128}),
    "deberta-v2": ("DebertaV2ForMaskedLM", "tokens", WIDTH | INNER),
    "gpt2": ("GPT2LMHeadModel", "tokens", {"n_embd": 256, "n_layer": 4, "n_head": 4, "vocab_size": 1000}),
    "gpt-neox": ("GPTNeoXForCausalLM", "tokens", WIDTH | INNER),
    "opt": (
        "OPTForCausalLM",
        "tokens",
        WIDTH | {"ffn_dim": 1024, "word_embed_proj_dim": 256},
    ),
    "bloom": ("BloomForCausalLM", "tokens", {"hidden_size": 256, "n_layer": 4, "n_head": 4, "vocab_size": 1000}),
    "llama": ("LlamaForCausalLM", "tokens", DECODER),
    "mistral": ("MistralForCausalLM", "tokens", DECODER),
    "qwen2": ("Qwen2ForCausalLM", "tokens", DECODER),
    "gemma": ("GemmaForCausalLM", "tokens", DECODER | {"head_dim": 64}),
    "phi": ("PhiForCausalLM", "tokens", DECODER),
    "t5": (
        "T5ForConditionalGeneration",
        "pairs",
        BOTH | {"num_layers": 4, "num_heads": 4, "d_kv": 64, "d_ff": 1024},
    ),
    "bart": ("BartForConditionalGeneration", "pairs", BOTH | HEADS | FEED),
    "vit": ("ViTForImageClassification", "images", PICTURE),
    "whisper": ("WhisperForConditionalGeneration", "sounds", BOTH | HEADS | FEED | {"max_source_positions": 500}),
}
NAMES = (*TIMM, *TRANSFORMERS)
TOKENS = 128

Loss = Callable[[], Any]


def quiet(config: Any) -> Any:
    """The same model without dropout, so that two packages compute the same numbers."""
    for name in list(vars(config)):
        if "dropout" in name or name.endswith("_pdrop") or name in ("layerdrop", "encoder_layerdrop"):
            value = getattr(config, name)
            if isinstance(value, float):
                setattr(config, name, 0.0)
    return config


def build(torch: Any, name: str, batch: int) -> tuple[Any, dict[str, Any]]:
    """A model and its inputs by name; the loss of its outputs is ``loss``."""
    import numpy as np

    rng = np.random.default_rng(batch)

    def integers(high: int, *shape: int) -> Any:
        return torch.from_numpy(rng.integers(1, high, shape))

    def numbers(*shape: int) -> Any:
        return torch.from_numpy(rng.standard_normal(shape, dtype="f4"))

    torch.manual_seed(0)
    if name in TIMM:
        import timm

        model = timm.create_model(name, num_classes=1000, drop_rate=0.0)
        return model, {"x": numbers(batch, 3, 224, 224), "labels": integers(1000, batch)}
    import transformers

    kind, given, told = TRANSFORMERS[name]
    cls = getattr(transformers, kind)
    model = cls(quiet(cls.config_class(**told)))
    if given == "tokens":
        ids = integers(1000, batch, TOKENS)
        return model, {"input_ids": ids, "labels": ids}
    if given == "labels":
        return model, {"input_ids": integers(1000, batch, TOKENS), "labels": integers(2, batch) - 1}
    if given == "pairs":
        return model, {"input_ids": integers(1000, batch, TOKENS), "labels": integers(1000, batch, TOKENS)}
    if given == "images":
        return model, {"pixel_values": numbers(batch, 3, 224, 224), "labels": integers(2, batch) - 1}
    return model, {"input_features": numbers(batch, 80, 1000), "labels": integers(1000, batch, 32)}


def loss(torch: Any, model: Any, inputs: dict[str, Any]) -> Any:
    """The model's training loss, as one 0-dim tensor."""
    if "x" in inputs:
        return torch.nn.functional.cross_entropy(model(inputs["x"]), inputs["labels"])
    return model(**inputs).loss


def output(torch: Any, model: Any, inputs: dict[str, Any]) -> Any:
    """What the model answers, without a loss."""
    if "x" in inputs:
        return model(inputs["x"])
    given = {name: x for name, x in inputs.items() if name != "labels"}
    if "decoder" in str(type(model.config)) or getattr(model.config, "is_encoder_decoder", False):
        given["decoder_input_ids"] = inputs["labels"]
    return model(**given).logits
