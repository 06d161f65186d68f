"""Small sizes of many models of transformers and timm: constructor arguments and inputs. ``packages.py`` runs them."""

from __future__ import annotations

from typing import Any

_SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_WIDE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
_TEXT = {"vocab_size": 64, "max_position_embeddings": 64, **_WIDE, **_SPECIAL}
_GROUPED = {**_TEXT, "num_key_value_heads": 2}
_GPT = {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64, **_SPECIAL}
_EXPERTS = {"moe_intermediate_size": 16, "shared_expert_intermediate_size": 16, "num_experts": 4, "head_dim": 8}
_EXPERTS |= {"num_experts_per_tok": 2}
_SEQ2SEQ = {"vocab_size": 64, "d_model": 32, "decoder_start_token_id": 2, "max_position_embeddings": 64, **_SPECIAL}
for _side in ("encoder", "decoder"):
    _SEQ2SEQ |= {f"{_side}_layers": 1, f"{_side}_attention_heads": 4, f"{_side}_ffn_dim": 48}
_PATCHES = {**_WIDE, "image_size": 32, "patch_size": 8, "num_labels": 5}
_SOUND = {**_WIDE, "vocab_size": 32, "conv_dim": (16, 16), "conv_kernel": (10, 4), "conv_stride": (5, 4)}
_SOUND |= {"num_feat_extract_layers": 2, "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2}
_SOUND |= {"mask_time_prob": 0.0, "layerdrop": 0.0, "pad_token_id": 0}

# Of transformers: "family head", its sizes, what it is fed.
TRANSFORMERS: dict[str, tuple[dict[str, Any], str]] = {
    "Roberta ForMaskedLM": (_TEXT, "masked"),
    "DistilBert ForMaskedLM": ({"vocab_size": 64, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48}, "masked"),
    "Electra ForMaskedLM": ({**_TEXT, "embedding_size": 16}, "masked"),
    "MPNet ForMaskedLM": (_TEXT, "masked"),
    "ConvBert ForMaskedLM": ({**_TEXT, "embedding_size": 32, "conv_kernel_size": 3}, "masked"),
    "FNet ForMaskedLM": (_TEXT, "words"),
    "Deberta ForMaskedLM": ({**_TEXT, "relative_attention": True, "pos_att_type": ["c2p", "p2c"]}, "masked"),
    "Nystromformer ForMaskedLM": ({**_TEXT, "segment_means_seq_len": 8, "num_landmarks": 4}, "words"),
    "Longformer ForMaskedLM": ({**_TEXT, "attention_window": [4, 4], "sep_token_id": 3}, "words"),
    "RoFormer ForMaskedLM": (_TEXT, "masked"),
    "Funnel ForMaskedLM": (
        {"vocab_size": 64, "d_model": 32, "n_head": 4, "d_head": 8, "d_inner": 48, "block_sizes": [1, 1]},
        "masked",
    ),
    "ModernBert ForMaskedLM": ({**_TEXT, "cls_token_id": 1, "sep_token_id": 2}, "masked"),
    "GPTNeo ForCausalLM": (
        {"vocab_size": 64, "hidden_size": 32, "num_layers": 2, "num_heads": 4, "max_position_embeddings": 64}
        | {"attention_types": [[["global", "local"], 1]], "window_size": 4},
        "padded",
    ),
    "GPTJ ForCausalLM": ({**_GPT, "rotary_dim": 4}, "padded"),
    "CodeGen ForCausalLM": ({**_GPT, "rotary_dim": 4}, "padded"),
    "GPTBigCode ForCausalLM": (_GPT, "padded"),
    "OPT ForCausalLM": ({**_TEXT, "ffn_dim": 48, "word_embed_proj_dim": 32}, "padded"),
    "XGLM ForCausalLM": (
        {"vocab_size": 64, "d_model": 32, "num_layers": 2, "attention_heads": 4, "ffn_dim": 48},
        "padded",
    ),
    "Falcon ForCausalLM": (_TEXT, "padded"),
    "Phi ForCausalLM": (_TEXT, "padded"),
    "Phi3 ForCausalLM": (_GROUPED, "padded"),
    "Gemma ForCausalLM": ({**_GROUPED, "head_dim": 8}, "padded"),
    "Qwen2 ForCausalLM": (_GROUPED, "padded"),
    "Qwen2Moe ForCausalLM": ({**_GROUPED, **_EXPERTS}, "padded"),
    "Qwen3Moe ForCausalLM": ({**_GROUPED, **_EXPERTS}, "padded"),
    "StableLm ForCausalLM": (_GROUPED, "padded"),
    "Olmo2 ForCausalLM": (_GROUPED, "padded"),
    "Cohere ForCausalLM": (_GROUPED, "padded"),
    "Starcoder2 ForCausalLM": (_GROUPED, "padded"),
    "Granite ForCausalLM": (_GROUPED, "padded"),
    "Mamba2 ForCausalLM": (
        {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 8, "num_heads": 8, "head_dim": 8}
        | {"n_groups": 2, "chunk_size": 4, **_SPECIAL},
        "words",
    ),
    "Rwkv ForCausalLM": (
        {
            "vocab_size": 64,
            "hidden_size": 32,
            "num_hidden_layers": 2,
            "attention_hidden_size": 32,
            "context_length": 16,
        },
        "words",
    ),
    "Pegasus ForConditionalGeneration": (_SEQ2SEQ, "pairs"),
    "MBart ForConditionalGeneration": (_SEQ2SEQ, "pairs"),
    "M2M100 ForConditionalGeneration": (_SEQ2SEQ, "pairs"),
    "Marian MTModel": (_SEQ2SEQ, "pairs"),
    "Blenderbot ForConditionalGeneration": (_SEQ2SEQ, "pairs"),
    "MT5 ForConditionalGeneration": (
        {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4}
        | {"decoder_start_token_id": 0, **_SPECIAL},
        "pairs",
    ),
    "DeiT ForImageClassification": (_PATCHES, "pictures"),
    "Beit ForImageClassification": ({**_PATCHES, "use_relative_position_bias": True}, "pictures"),
    "Dinov2 ForImageClassification": (_PATCHES, "pictures"),
    "Siglip ForImageClassification": ({"vision_config": _PATCHES, "num_labels": 5}, "pictures"),
    "ConvNext ForImageClassification": (
        {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "num_labels": 5},
        "pictures",
    ),
    "ConvNextV2 ForImageClassification": (
        {"hidden_sizes": [8, 8, 16, 16], "depths": [1, 1, 1, 1], "num_labels": 5},
        "pictures",
    ),
    "ResNet ForImageClassification": (
        {"hidden_sizes": [16, 32], "depths": [1, 1], "embedding_size": 8, "layer_type": "basic", "num_labels": 5},
        "pictures",
    ),
    "RegNet ForImageClassification": (
        {"hidden_sizes": [16, 32], "depths": [1, 1], "embedding_size": 8, "groups_width": 8, "num_labels": 5},
        "pictures",
    ),
    "MobileNetV2 ForImageClassification": ({"depth_multiplier": 0.25, "num_labels": 5}, "pictures"),
    "MobileViT ForImageClassification": (
        {"hidden_sizes": [16, 24, 32], "neck_hidden_sizes": [8, 8, 16, 16, 24, 32, 32], "num_labels": 5}
        | {"num_attention_heads": 2, "patch_size": 2, "image_size": 64},
        "large pictures",
    ),
    "PoolFormer ForImageClassification": (
        {"hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_labels": 5},
        "large pictures",
    ),
    "Swinv2 ForImageClassification": (
        {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2], "num_heads": [2], "window_size": 4}
        | {"num_labels": 5},
        "pictures",
    ),
    "FocalNet ForImageClassification": (
        {"image_size": 32, "patch_size": 4, "embed_dim": 16, "depths": [1, 1], "hidden_sizes": [16, 32]}
        | {"focal_levels": [2, 2], "focal_windows": [3, 3], "num_labels": 5},
        "pictures",
    ),
    "Pvt ForImageClassification": (
        {"image_size": 32, "hidden_sizes": [8, 16, 24, 32], "depths": [1, 1, 1, 1], "num_attention_heads": [1, 2, 2, 4]}
        | {"num_labels": 5},
        "pictures",
    ),
    "Wav2Vec2 ForCTC": (_SOUND, "waves"),
    "Hubert ForCTC": (_SOUND, "waves"),
    "WavLM ForCTC": (_SOUND, "waves"),
    "AST ForAudioClassification": (
        {**_WIDE, "patch_size": 4, "num_mel_bins": 8, "max_length": 16, "num_labels": 5}
        | {"frequency_stride": 4, "time_stride": 4},
        "spectra",
    ),
    "PatchTST ForPrediction": (
        {"context_length": 16, "prediction_length": 4, "patch_length": 4, "patch_stride": 4, "d_model": 16}
        | {"num_attention_heads": 2, "num_hidden_layers": 1, "ffn_dim": 16, "num_input_channels": 2},
        "series",
    ),
    "Llava ForConditionalGeneration": (
        {"text_config": {"model_type": "llama", **_GROUPED}, "image_token_id": 63}
        | {"vision_config": {"model_type": "clip_vision_model", "projection_dim": 16, **_PATCHES, "image_size": 16}},
        "seen pictures",
    ),
    "Blip ForConditionalGeneration": (
        {"text_config": {**_TEXT, "encoder_hidden_size": 32}, "vision_config": _PATCHES},
        "told pictures",
    ),
}

# Models that cannot run in double precision.
SINGLE = {"XGLM", "Qwen2Moe", "Qwen3Moe"}

# timm's models by name and classes: constructor arguments, and the side of the images.
TIMM: dict[str, tuple[dict[str, Any], int]] = {
    "test_byobnet": ({}, 64),
    "test_efficientnet": ({}, 64),
    "test_efficientnet_gn": ({}, 64),
    "test_efficientnet_ln": ({}, 64),
    "test_mambaout": ({}, 64),
    "test_nfnet": ({}, 64),
    "test_resnet": ({}, 64),
    "test_vit": ({"img_size": 64}, 64),
    "test_vit2": ({"img_size": 64}, 64),
    "test_vit3": ({"img_size": 64}, 64),
    "test_vit4": ({"img_size": 64}, 64),
    "test_convnext": ({}, 64),
    "test_convnext2": ({}, 64),
    "test_convnext3": ({}, 64),
    "deit_tiny_distilled_patch16_224": ({"img_size": 32, "embed_dim": 48, "depth": 2, "num_heads": 3}, 32),
    "beit_base_patch16_224": ({"img_size": 32, "embed_dim": 48, "depth": 2, "num_heads": 3}, 32),
    "eva02_tiny_patch14_224": ({"img_size": 28, "embed_dim": 48, "depth": 2, "num_heads": 3}, 28),
    "cait_xxs24_224": ({"img_size": 32, "embed_dim": 48, "depth": 2, "num_heads": 4}, 32),
    "xcit_nano_12_p16_224": ({"img_size": 32, "embed_dim": 32, "depth": 2, "num_heads": 2}, 32),
    "pit_ti_distilled_224": ({"img_size": 64}, 64),
    "levit_128s": ({}, 224),
    "mobilenetv3_small_050": ({}, 64),
    "mobilenetv4_conv_small_050": ({}, 64),
    "lcnet_035": ({}, 64),
    "tinynet_e": ({}, 64),
    "mnasnet_small": ({}, 64),
    "ghostnet_050": ({"drop_rate": 0.0}, 64),
    "efficientvit_m0": ({"img_size": 64}, 64),
    "edgenext_xx_small": ({}, 64),
    "mobilevit_xxs": ({}, 64),
    "repghostnet_050": ({"drop_rate": 0.0}, 64),
    "fastvit_t8": ({}, 64),
    "starnet_s050": ({}, 64),
    "swiftformer_xs": ({}, 64),
    "pvt_v2_b0": ({}, 64),
    "densenet121": ({"growth_rate": 8, "block_config": (2, 2)}, 64),
    "regnetx_002": ({}, 64),
    "regnety_002": ({}, 64),
    "rexnetr_100": ({"width_mult": 0.3}, 64),
    "skresnet18": ({"layers": (1, 1, 1, 1)}, 64),
    "resnest14d": ({}, 64),
    "gcvit_xxtiny": ({"img_size": 64, "window_size": 2}, 64),
    "inception_next_atto": ({}, 64),
    "hgnetv2_b0": ({}, 64),
    "MlpMixer": ({"img_size": 32, "patch_size": 8, "embed_dim": 32, "num_blocks": 2}, 32),
    "MetaFormer": ({"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32)}, 64),
    "ConvMixer": ({"dim": 32, "depth": 2, "kernel_size": 5, "patch_size": 4}, 32),
}

# torchvision's models by name and classes: constructor arguments, and one input.
_BARE: dict[str, Any] = {"weights": None, "weights_backbone": None}
TORCHVISION: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "squeezenet1_1": ({}, (3, 64, 64)),
    "shufflenet_v2_x0_5": ({}, (3, 64, 64)),
    "mobilenet_v2": ({"width_mult": 0.25}, (3, 64, 64)),
    "regnet_y_400mf": ({}, (3, 64, 64)),
    "efficientnet_b0": ({"stochastic_depth_prob": 0.0}, (3, 64, 64)),
    "googlenet": ({"init_weights": False}, (3, 64, 64)),
    "DenseNet": ({"growth_rate": 8, "block_config": (2, 2), "num_init_features": 16}, (3, 64, 64)),
    "SwinTransformer": (
        {"patch_size": [4, 4], "embed_dim": 16, "depths": [2, 2], "num_heads": [2, 4], "window_size": [4, 4]}
        | {"stochastic_depth_prob": 0.0},
        (3, 64, 64),
    ),
    "MaxVit": (
        {"input_size": (64, 64), "stem_channels": 8, "partition_size": 2, "block_channels": [8, 16]}
        | {"block_layers": [1, 1], "head_dim": 4, "stochastic_depth_prob": 0.0},
        (3, 64, 64),
    ),
    "lraspp_mobilenet_v3_large": (_BARE, (3, 64, 64)),
    "r3d_18": ({}, (3, 4, 16, 16)),
}
