"""Files of weights: both ways with the reference libraries, hostile headers, and errors that list every key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import oneflow as flow
import pytest
import safetensors.torch
import torch
import torchvision
import transformers
from models_library.cases import CASES
from oneflow.models import (
    GPT2,
    Bert,
    BertConfig,
    DLRMConfig,
    GPT2Config,
    Llama,
    LlamaConfig,
    ResNet,
    ResNetConfig,
    Swin,
    SwinConfig,
    T5Config,
    UNetConfig,
    ViT,
    ViTConfig,
)
from oneflow.models.safetensors import SafetensorsFile, load_file, save_file

SMALL = GPT2Config(50, n_positions=16, n_layers=2, n_heads=2, width=8)
DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64"]


def equal(a: Any, b: Any) -> bool:
    left, right = a.state_dict(), b.state_dict()
    return left.keys() == right.keys() and all(flow.equal(left[name], right[name]) for name in left)


# ---- the format


@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 4)])
@pytest.mark.parametrize("name", DTYPES)
def test_files_go_both_ways(name: str, shape: tuple[int, ...], tmp_path: Path) -> None:
    theirs = (torch.randn(shape) * 3).to(getattr(torch, name))
    ours = (flow.randn(shape) * 3).to(getattr(flow, name))
    safetensors.torch.save_file({"x": theirs, "odd": torch.ones(3, dtype=torch.uint8)}, tmp_path / "theirs")
    save_file({"x": ours, "odd": flow.ones(3, dtype=flow.uint8)}, tmp_path / "ours", {"format": "pt"})
    read, written = load_file(tmp_path / "theirs")["x"], safetensors.torch.load_file(tmp_path / "ours")["x"]
    assert read.tolist() == theirs.tolist() and str(read.dtype)[8:] == name
    assert written.tolist() == ours.tolist() and str(written.dtype)[6:] == name


def test_strided_tensors_are_written_in_order_and_the_file_is_left_alone(tmp_path: Path) -> None:
    x = flow.arange(6).view(2, 3)
    save_file({"t": x.t(), "part": x[:, 1:]}, tmp_path / "f")
    assert load_file(tmp_path / "f")["t"].tolist() == x.t().tolist()
    load_file(tmp_path / "f")["part"].zero_()
    assert load_file(tmp_path / "f")["part"].tolist() == [[1, 2], [4, 5]]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    save_file({"x": flow.ones(2)}, tmp_path / "f")
    with pytest.raises(TypeError, match="complex128"):
        save_file({"x": flow.ones(2, dtype=flow.complex128)}, tmp_path / "f")
    assert load_file(tmp_path / "f")["x"].tolist() == [1, 1]
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


def entry(dtype: Any = "F32", shape: Any = (2,), offsets: Any = (0, 8)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HOSTILE = {
    "no object": [1],
    "outside": {"x": entry(offsets=[0, 1 << 62], shape=[1 << 60])},
    "product overflows": {"x": entry(shape=[1 << 62, 1 << 62, 0], offsets=[0, 0])},
    "gap": {"x": entry(shape=[1], offsets=[4, 8])},
    "overlap": {"x": entry(), "y": entry()},
    "unused": {"x": entry(shape=[1], offsets=[0, 4])},
    "reversed": {"x": entry(offsets=[8, 0])},
    "negative": {"x": entry(shape=[-2])},
    "fraction": {"x": entry(shape=[2.0])},
    "truth": {"x": entry(shape=[True, 2])},
    "size": {"x": entry(shape=[3])},
    "dtype": {"x": entry(dtype="F33")},
    "dtype is a list": {"x": entry(dtype=["F32"])},
    "no list": {"x": entry(shape=2)},
    "missing field": {"x": {"dtype": "F32", "shape": [2]}},
    "not described": {"x": 7},
    "too many dimensions": {"x": entry(shape=[1] * 5000 + [2])},
    "metadata": {"__metadata__": {"a": 1}, "x": entry()},
    "metadata is a list": {"__metadata__": [], "x": entry()},
}
RAW = {
    "empty": b"",
    "short": b"\x01\x00",
    "huge header": (1 << 63).to_bytes(8, "little") + b"{}",
    "header beyond the file": (100).to_bytes(8, "little") + b"{}",
    "no JSON": (4).to_bytes(8, "little") + b"{..}",
    "no UTF-8": (4).to_bytes(8, "little") + b"\xff\xfe\xfd\xfc",
    "deep": (200_000).to_bytes(8, "little") + b"[" * 200_000,
    "twice": (48).to_bytes(8, "little") + b'{"a":{"dtype":1},"a":{"dtype":1}}'.ljust(48),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_headers_are_refused(case: str, tmp_path: Path) -> None:
    header = HOSTILE[case]
    if case == "product overflows":
        # Nothing there and nothing claimed: large sizes beside a zero are odd, but true.
        header = {"x": entry(shape=[1 << 62, 1 << 62, 0], offsets=[0, 8])}
    text = json.dumps(header).encode()
    (tmp_path / "f.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(8))
    with pytest.raises(ValueError, match=r"f\.safetensors is not a valid safetensors file: "):
        SafetensorsFile(tmp_path / "f.safetensors")


@pytest.mark.parametrize("case", RAW)
def test_hostile_bytes_are_refused(case: str, tmp_path: Path) -> None:
    (tmp_path / "f.safetensors").write_bytes(RAW[case])
    with pytest.raises(ValueError, match="is not a valid safetensors file: "):
        SafetensorsFile(tmp_path / "f.safetensors")


def test_every_cut_of_a_file_is_refused(tmp_path: Path) -> None:
    save_file({"x": flow.ones(2, 3), "y": flow.ones(4, dtype=flow.int8)}, tmp_path / "whole")
    whole = (tmp_path / "whole").read_bytes()
    for n in range(len(whole)):
        (tmp_path / "cut").write_bytes(whole[:n])
        with pytest.raises(ValueError, match="is not a valid safetensors file"):
            SafetensorsFile(tmp_path / "cut")


def test_unaligned_data_is_read(tmp_path: Path) -> None:
    header = json.dumps({"a": entry("U8", [1], [0, 1]), "x": entry("F32", [2], [1, 9])}).encode()
    header += b" " * (-len(header) % 8)
    data = b"\x05" + np.array([1.5, -2.0], dtype="<f4").tobytes()
    (tmp_path / "f").write_bytes(len(header).to_bytes(8, "little") + header + data)
    assert load_file(tmp_path / "f")["x"].tolist() == [1.5, -2.0]


# ---- models


@pytest.mark.parametrize("name", [n for n, c in CASES.items() if n not in ("bert classifier",)])
def test_saved_models_come_back(name: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    case = CASES[name]
    model = case.load(case.save(case.reference(), tmp_path)).float()
    model.save_pretrained(tmp_path / "a")
    assert equal(type(model).from_pretrained(tmp_path / "a"), model)
    model.save_pretrained(tmp_path / "b", "oneflow", max_shard_bytes=2000)
    assert len(list((tmp_path / "b").glob("model-*.safetensors"))) > 1
    assert equal(type(model).from_pretrained(tmp_path / "b"), model)


@pytest.mark.parametrize("shards", [5_000_000_000, 9000])
@pytest.mark.parametrize("name", ["gpt2", "llama", "llama3", "t5", "t5 1.1", "bert", "vit", "swin"])
def test_the_reference_reads_what_we_write(name: str, shards: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    case = CASES[name]
    reference = case.reference().eval()
    model = case.load(case.save(reference, tmp_path))
    model.save_pretrained(tmp_path / "ours", max_shard_bytes=shards)
    again = type(reference).from_pretrained(tmp_path / "ours").eval()
    given = [torch.tensor(a) for a in case.inputs(np.random.default_rng(0))]
    a, b = case.call(again, *given), case.call(reference, *given)
    for x, y in zip(a, b, strict=True) if isinstance(a, list) else [(a, b)]:
        assert torch.allclose(x, y, atol=1e-6)


@pytest.mark.parametrize("name", ["vit torchvision", "swin torchvision", "resnet basic", "resnet bottleneck"])
def test_torchvision_reads_what_we_write(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    reference = case.reference()
    model = case.load(case.save(reference, tmp_path))
    model.save_pretrained(tmp_path / "ours", "torchvision" if model.layouts else "oneflow")
    weights = safetensors.torch.load_file(tmp_path / "ours" / "model.safetensors")
    state = {k: v for k, v in reference.state_dict().items() if not k.endswith("relative_position_index")}
    assert weights.keys() == state.keys()
    for key, value in state.items():
        assert torch.equal(weights[key].float(), value.float()), key


def test_shards_of_the_reference_and_of_torch_are_read(tmp_path: Path) -> None:
    reference = CASES["gpt2"].reference()
    reference.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
    assert (tmp_path / "shards" / "model.safetensors.index.json").exists()
    reference.save_pretrained(tmp_path / "whole")
    whole = GPT2.from_pretrained(tmp_path / "whole")
    assert equal(GPT2.from_pretrained(tmp_path / "shards"), whole)
    old = tmp_path / "old"
    old.mkdir()
    (old / "config.json").write_text((tmp_path / "whole" / "config.json").read_text())
    state = {k: v for k, v in reference.state_dict().items() if k != "lm_head.weight"}
    state["transformer.h.0.attn.bias"] = torch.ones(1, 1, 4, 4)  # Files once held the causal mask.
    torch.save(state, old / "pytorch_model.bin")
    assert equal(GPT2.from_pretrained(old), whole)
    # The first files name no transformer.
    bare = {k.removeprefix("transformer."): v for k, v in state.items()}
    torch.save({"state_dict": bare, "epoch": 3}, tmp_path / "training.pth")
    assert equal(GPT2.from_pretrained(tmp_path / "training.pth", whole.config), whole)
    assert GPT2.from_pretrained(old, dtype=flow.bfloat16).norm.weight.dtype is flow.bfloat16


def test_an_encoder_is_read_from_a_model_with_heads_and_from_old_names(tmp_path: Path) -> None:
    case = CASES["bert pretraining"]
    reference = case.reference()
    reference.save_pretrained(tmp_path)
    new = Bert.from_pretrained(tmp_path)
    state = {
        k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v
        for k, v in reference.state_dict().items()
    }
    torch.save(state, tmp_path / "old.bin")
    assert equal(Bert.from_pretrained(tmp_path / "old.bin"), new)


def test_every_wrong_key_is_listed(tmp_path: Path) -> None:
    model = GPT2(SMALL)
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    del weights["transformer.h.1.ln_2.bias"], weights["transformer.ln_f.weight"]
    weights["transformer.wte.weight"] = flow.zeros(51, 8)
    weights["transformer.h.0.attn.c_attn.weight"] = flow.zeros(8, 23)
    weights["transformer.h.9.ln_1.bias"] = flow.zeros(8)
    weights["stray"] = flow.zeros(1)
    save_file(weights, tmp_path / "model.safetensors")
    with pytest.raises(RuntimeError) as caught:
        GPT2.from_pretrained(tmp_path)
    text = str(caught.value)
    assert text.startswith("Error(s) in loading state_dict for GPT2:\n\t")
    assert 'Unexpected key(s) in state_dict: "stray", "transformer.h.9.ln_1.bias". ' in text
    assert 'Missing key(s) in state_dict: "blocks.1.norm2.bias", "norm.weight". ' in text
    assert (
        "size mismatch for transformer.wte.weight: copying a param with shape oneflow.Size([51, 8]) from checkpoint, "
        "the shape in current model is oneflow.Size([50, 8])."
    ) in text
    assert "size mismatch for transformer.h.0.attn.c_attn.weight" in text


def test_a_head_that_is_not_the_table_is_refused(tmp_path: Path) -> None:
    model = GPT2(SMALL)
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    save_file({**weights, "lm_head.weight": flow.zeros(50, 8)}, tmp_path / "model.safetensors")
    with pytest.raises(RuntimeError, match=r'"lm_head.weight" is not "token.weight"'):
        GPT2.from_pretrained(tmp_path)


CONFIGS = [
    ({"model_type": "llama"}, ValueError, "describes a 'llama' model, expected 'gpt2'"),
    ({"activation_function": "relu"}, NotImplementedError, "activation_function = 'relu'"),
    ({"n_layer": "2"}, ValueError, "n_layer = '2'"),
    ({"n_layer": True}, ValueError, "n_layer = True"),
]


@pytest.mark.parametrize(("change", "error", "text"), CONFIGS)
def test_configurations_that_cannot_be_read(change: Any, error: Any, text: str, tmp_path: Path) -> None:
    GPT2(SMALL).save_pretrained(tmp_path)
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, **change}))
    with pytest.raises(error, match=text):
        GPT2.from_pretrained(tmp_path)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"config\.json is missing"):
        GPT2.from_pretrained(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"neither model\.safetensors"):
        GPT2.from_pretrained(tmp_path, SMALL)
    for arguments in ((tmp_path / "nowhere", SMALL), ("gpt2",), ("gpt2", "gpt2")):
        with pytest.raises(FileNotFoundError, match=r"there is no file or folder .* Nothing is downloaded"):
            GPT2.from_pretrained(*arguments)
    with pytest.raises(ValueError, match="has no preset 'gpt3'; it has gpt2, "):
        GPT2.from_pretrained(tmp_path, "gpt3")
    torch.save([1, 2], tmp_path / "list.pth")
    with pytest.raises(ValueError, match="holds no state_dict"):
        GPT2.from_pretrained(tmp_path / "list.pth", SMALL)
    for weight_map in ({"a": "../a.safetensors"}, {"a": 3}, None):
        (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
        with pytest.raises(ValueError, match=r"weight_map|no such file next to it"):
            GPT2.from_pretrained(tmp_path, SMALL)
    with pytest.raises(ValueError, match="has no layout 'keras'"):
        GPT2(SMALL).save_pretrained(tmp_path, "keras")


# ---- presets


def count(model: Any) -> int:
    return sum(p.numel() for p in model.parameters())


@pytest.mark.parametrize("name", ["resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "resnext50_32x4d"])
def test_resnets_have_the_published_sizes(name: str) -> None:
    with flow.device("meta"):
        ours = ResNet(ResNetConfig.preset(name))
    with torch.device("meta"):
        theirs = getattr(torchvision.models, name)()
    expected = {key: tuple(value.shape) for key, value in theirs.state_dict().items()}
    assert {key: tuple(value.shape) for key, value in ours.state_dict().items()} == expected


@pytest.mark.parametrize("name", ["vit_b_16", "vit_b_32", "vit_l_16", "vit_l_32", "swin_t", "swin_s", "swin_b"])
def test_vision_transformers_have_the_published_sizes(name: str) -> None:
    model, config = (ViT, ViTConfig) if name.startswith("vit") else (Swin, SwinConfig)
    with flow.device("meta"):
        ours = model(config.preset(name))
    with torch.device("meta"):
        theirs = getattr(torchvision.models, name)()
    assert count(ours) == count(theirs)


# Parameters as the authors or the publishers count them, the table of tokens once.
@pytest.mark.parametrize(
    ("model", "config", "n"),
    [
        (GPT2, GPT2Config.preset("gpt2"), 124_439_808),
        (GPT2, GPT2Config.preset("gpt2-medium"), 354_823_168),
        (GPT2, GPT2Config.preset("gpt2-xl"), 1_557_611_200),
        (Llama, LlamaConfig.preset("llama2-7b"), 6_738_415_616),
        (Llama, LlamaConfig.preset("llama3-8b"), 8_030_261_248),
        (Llama, LlamaConfig.preset("llama3.2-1b"), 1_235_814_400),
        (Llama, LlamaConfig.preset("tinyllama-1.1b"), 1_100_048_384),
        (Bert, BertConfig.preset("bert-base-uncased"), 109_482_240),
        (Bert, BertConfig.preset("bert-large-uncased"), 335_141_888),
    ],
)
def test_language_models_have_the_published_sizes(model: Any, config: Any, n: int) -> None:
    with flow.device("meta"):
        assert count(model(config)) == n


def test_unknown_presets_are_named() -> None:
    for config in (T5Config, UNetConfig, DLRMConfig):
        with pytest.raises(ValueError, match=f"{config.__name__} has no preset 'nothing'"):
            config.preset("nothing")


def test_configurations_are_read_from_old_and_new_files() -> None:
    old = {"model_type": "llama", "rope_theta": 500.0, "rope_scaling": None}
    assert LlamaConfig.from_hugging_face(old).rotary_base == 500.0
    new = {"model_type": "llama", "rope_parameters": {"rope_type": "default", "rope_theta": 700.0}}
    assert LlamaConfig.from_hugging_face(new).rotary_base == 700.0
    with pytest.raises(NotImplementedError, match="'yarn'"):
        LlamaConfig.from_hugging_face({"model_type": "llama", "rope_scaling": {"rope_type": "yarn"}})
    config = transformers.LlamaConfig(**LlamaConfig.preset("llama3.1-8b").to_hugging_face())
    assert config.rope_parameters["factor"] == 8.0 and config.rope_parameters["rope_theta"] == 500000.0
