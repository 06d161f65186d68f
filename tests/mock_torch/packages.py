"""Trains small models of well-known packages with whatever is called ``torch``, and writes what came out.

Run as a program, once where PyTorch is installed (``theirs``) and once where it is not and the mock is on (``ours``)::

    packages.py theirs|ours GROUP FOLDER [PATH...]

``theirs`` also writes the weights each model begins with, in ``FOLDER``, and ``ours`` begins with these. Paths are
appended to ``sys.path``.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Callable, Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np

WHO, GROUP, FOLDER = sys.argv[1], sys.argv[2], Path(sys.argv[3])
sys.path.extend(sys.argv[4:])
if WHO == "ours":
    import oneflow.mock_torch

    oneflow.mock_torch.enable()

import torch  # noqa: E402
from safetensors.torch import load_file, save_file  # noqa: E402

STEPS = 2
rng = np.random.default_rng(0)


def array(x: Any) -> np.ndarray:
    if not torch.is_tensor(x):
        return np.asarray(x)
    return (x.float() if x.dtype in (torch.float16, torch.bfloat16) else x).detach().numpy()


def tensors(*arrays: np.ndarray) -> list[Any]:
    return [torch.from_numpy(np.ascontiguousarray(a)) for a in arrays]


def tokens(vocabulary: int, *shape: int) -> Any:
    return tensors(rng.integers(1, vocabulary, shape))[0]


def images(size: int, channels: int = 3, n: int = 4) -> Any:
    return tensors(rng.standard_normal((n, channels, size, size)).astype("f4"))[0]


def labels(classes: int, n: int = 4) -> Any:
    return tensors(rng.integers(0, classes, (n,)))[0]


def sgd(parameters: Any) -> Any:
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-4)


def adamw(parameters: Any) -> Any:
    # Some gradients are zero but for rounding, which a small eps would make steps of.
    return torch.optim.AdamW(parameters, lr=1e-3, eps=1e-4)


def same_weights(name: str, model: Any) -> None:
    """Write the weights, or read those that were written."""
    file = FOLDER / f"{name}.safetensors"
    if WHO == "theirs":
        save_file({key: value.detach().clone().contiguous() for key, value in model.state_dict().items()}, file)
    else:
        model.load_state_dict(load_file(file), strict=True)


def trained(
    name: str, model: Any, loss_of: Callable[[Any, int], Any], optimizer: Callable[[Any], Any], steps: int = STEPS
) -> dict[str, Any]:
    """Outputs, gradients of each step, and the weights after the last.

    ``loss_of`` takes the model and the number of the step and returns the loss and the output.
    """
    same_weights(name, model)
    model.train()
    made = optimizer(model.parameters())
    results = {}
    for step in range(steps):
        made.zero_grad()
        loss, output = loss_of(model, step)
        loss.backward()
        results[f"{name}/loss {step}"], results[f"{name}/output {step}"] = array(loss), array(output)
        for key, parameter in model.named_parameters():
            if parameter.grad is not None:
                results[f"{name}/gradient {step} {key}"] = array(parameter.grad)
        made.step()
    for key, value in model.state_dict().items():
        results[f"{name}/weight {key}"] = array(value)
    return results


def classified(name: str, model: Any, size: int, classes: int = 5, double: bool = False) -> dict[str, Any]:
    """A step on random images; in double precision if rounding alone would show in the gradients."""
    x, y = images(size), labels(classes)
    if double:
        model, x = model.double(), x.double()

    def loss_of(model: Any, step: int) -> Any:
        output = model(x)
        return torch.nn.functional.cross_entropy(output, y), output

    return trained(name, model, loss_of, sgd)


class Absent(MetaPathFinder, Loader):
    """Finds modules of packages that are not installed, and of which nothing is used."""

    def __init__(self, *packages: str) -> None:
        self.packages = packages
        sys.meta_path.append(self)

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] in self.packages else None

    def create_module(self, spec: ModuleSpec) -> Any:
        return MagicMock(name=spec.name)

    def exec_module(self, module: Any) -> None:
        pass


# ---- the packages


def transformers() -> Iterator[dict[str, Any]]:
    import transformers as hf

    small = {"vocab_size": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    wide = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}

    def fed(*names: str) -> Callable[[Any, int], Any]:
        batches = [{name: tokens(64, 2, 10) for name in names} for _ in range(STEPS)]

        def loss_of(model: Any, step: int) -> Any:
            output = model(**batches[step])
            return output.loss, output.logits

        return loss_of

    no_dropout = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    gpt2 = hf.GPT2LMHeadModel(hf.GPT2Config(n_embd=32, n_layer=2, n_head=4, n_positions=32, **no_dropout, **small))
    yield trained("gpt2", gpt2, fed("input_ids", "labels"), adamw)
    gpt2.eval()
    written = gpt2.generate(tokens(64, 1, 4), max_new_tokens=8, do_sample=False)
    yield {"gpt2/generated": array(written)}

    bert = hf.BertForSequenceClassification(
        hf.BertConfig(max_position_embeddings=32, num_labels=3, **wide, **off, **small)
    )
    words, mask, y = tokens(64, 4, 10), torch.ones(4, 10, dtype=torch.long), labels(3)
    mask[0, 6:] = 0

    def bert_loss(model: Any, step: int) -> Any:
        output = model(input_ids=words, attention_mask=mask, labels=y)
        return output.loss, output.logits

    yield trained("bert", bert, bert_loss, adamw)

    llama = hf.LlamaForCausalLM(hf.LlamaConfig(num_key_value_heads=2, max_position_embeddings=32, **wide, **small))
    yield trained("llama", llama, fed("input_ids", "labels"), adamw)
    llama.eval()
    yield {"llama/generated": array(llama.generate(tokens(64, 2, 4), max_new_tokens=6, do_sample=False))}

    t5 = hf.T5Config(d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4, dropout_rate=0.0, **small)
    t5.decoder_start_token_id = 0
    yield trained("t5", hf.T5ForConditionalGeneration(t5), fed("input_ids", "labels"), adamw)

    folder = FOLDER / f"saved_{WHO}"
    llama.save_pretrained(folder)
    again = hf.AutoModelForCausalLM.from_pretrained(folder)
    words = tokens(64, 2, 6)
    assert torch.equal(again.eval()(words).logits, llama(words).logits)

    vit = hf.ViTForImageClassification(hf.ViTConfig(image_size=16, patch_size=4, num_labels=5, **wide, **off))
    x, y = images(16), labels(5)

    def vit_loss(model: Any, step: int) -> Any:
        output = model(pixel_values=x, labels=y)
        return output.loss, output.logits

    yield trained("hf_vit", vit, vit_loss, adamw)


def without_dropout(config: Any) -> None:
    for part in (config, *(getattr(config, key, None) for key in ("text_config", "vision_config"))):
        for key in vars(part) if part is not None else ():
            if "drop" in key and isinstance(getattr(part, key), float):
                setattr(part, key, 0.0)


def families() -> Iterator[dict[str, Any]]:
    """Further models of transformers, two steps each: what an architecture does that no other here does."""
    import transformers as hf

    base = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    base |= {"intermediate_size": 48, "max_position_embeddings": 64}
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    grouped = {**base, **special, "num_key_value_heads": 2}
    seq2seq = {"vocab_size": 64, "d_model": 32, "decoder_start_token_id": 2, "max_position_embeddings": 64, **special}
    for side in ("encoder", "decoder"):
        seq2seq |= {f"{side}_layers": 1, f"{side}_attention_heads": 4, f"{side}_ffn_dim": 48}
    vision = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
    vision |= {"image_size": 32, "patch_size": 8}
    text = {**vision, "vocab_size": 64, "max_position_embeddings": 16, **special}
    audio = {**seq2seq, "num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 16}
    words, pictures = tokens(64, 2, 8), images(32, n=2)
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[0, :3] = 0
    told = {"input_ids": words, "attention_mask": mask, "labels": words}
    sound = tensors(rng.standard_normal((1, 8, 20)).astype("f4"))[0]
    models = {
        "Mistral ForCausalLM": ({**grouped, "sliding_window": 4}, told),
        "Qwen3 ForCausalLM": ({**grouped, "head_dim": 8}, told),
        "Gemma2 ForCausalLM": ({**grouped, "head_dim": 8}, told),
        "Mixtral ForCausalLM": ({**grouped, "num_local_experts": 4}, told),
        "GPTNeoX ForCausalLM": (base, told),
        "Bloom ForCausalLM": ({"vocab_size": 64, "hidden_size": 32, "n_layer": 2, "n_head": 4}, told),
        "Mamba ForCausalLM": ({"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}, told),
        "DebertaV2 ForMaskedLM": ({**base, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]}, told),
        "Albert ForMaskedLM": ({**base, "embedding_size": 16}, told),
        "Bart ForConditionalGeneration": (seq2seq, {"input_ids": words, "labels": words}),
        "Whisper ForConditionalGeneration": (audio, {"input_features": sound, "labels": words[:1]}),
        "CLIP Model": (
            {"text_config": text, "vision_config": vision, "projection_dim": 16},
            {"input_ids": words, "pixel_values": pictures, "return_loss": True},
        ),
        "Swin ForImageClassification": (
            {"image_size": 32, "patch_size": 2, "embed_dim": 16, "depths": [2], "num_heads": [2], "window_size": 4},
            {"pixel_values": pictures, "labels": labels(2, 2)},
        ),
        "Segformer ForImageClassification": (
            {"num_encoder_blocks": 1, "depths": [1], "sr_ratios": [2], "hidden_sizes": [16], "patch_sizes": [7]}
            | {"strides": [4], "num_attention_heads": [2], "mlp_ratios": [2]},
            {"pixel_values": pictures, "labels": labels(2, 2)},
        ),
    }
    for name, (options, inputs) in models.items():
        family, task = name.split()
        config = getattr(hf, family + "Config")(**options)
        without_dropout(config)
        model = getattr(hf, family + task)(config)
        for layer in model.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.p = 0.0

        def loss_of(model: Any, step: int, inputs: Any = inputs) -> Any:
            output = model(**inputs)
            return output.loss, output.loss if "return_loss" in inputs else output.logits

        yield trained(f"hf_{family}", model, loss_of, adamw)


def once(name: str, model: Any, loss_of: Callable[[Any], Any], dtype: str = "float64") -> dict[str, Any]:
    """The loss, and all gradients as one row of each parameter's norm and sum with a fixed pattern."""
    for layer in model.modules():
        if isinstance(layer, torch.nn.Dropout):
            layer.p = 0.0
    same_weights(name, model)
    loss = loss_of(model.to(getattr(torch, dtype)).train())
    loss.backward()
    rows = {}
    for key, parameter in model.named_parameters():
        if parameter.grad is not None:
            gradient = array(parameter.grad).ravel()
            pattern = np.sin(np.arange(gradient.size))
            rows[key] = (np.linalg.norm(gradient), gradient @ pattern)
    return {f"{name}/loss": array(loss), f"{name}/gradients": np.array([rows[key] for key in sorted(rows)])}


def more_transformers() -> Iterator[dict[str, Any]]:
    """Forward and backward of many families of transformers, in double precision."""
    import transformers as hf
    from architectures import SINGLE, TRANSFORMERS

    words, y = tokens(64, 2, 8), labels(5, 2)
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[0, 6:] = 0
    small, large = (images(side, n=2).double() for side in (32, 64))
    seen = words.clamp(max=62)
    seen[:, 2:6] = 63  # Four places of an image of four patches.
    series = tensors(rng.standard_normal((2, 20, 2)))[0]
    fed = {
        "words": {"input_ids": words, "labels": words},
        "masked": {"input_ids": words, "attention_mask": mask, "labels": words},
        "padded": {"input_ids": words, "attention_mask": mask.flip(1), "labels": words},
        "pairs": {"input_ids": words, "attention_mask": mask, "labels": tokens(64, 2, 5)},
        "pictures": {"pixel_values": small, "labels": y},
        "large pictures": {"pixel_values": large, "labels": y},
        "seen pictures": {"pixel_values": small[:, :, :16, :16], "input_ids": seen, "labels": words},
        "told pictures": {"pixel_values": small, "input_ids": words, "labels": words},
        "waves": {"input_values": tensors(rng.standard_normal((2, 400)))[0], "labels": tokens(32, 2, 4)},
        "spectra": {"input_values": tensors(rng.standard_normal((2, 16, 8)))[0], "labels": y},
        "series": {"past_values": series[:, :16], "future_values": series[:, 16:]},
    }
    for name, (sizes, kind) in TRANSFORMERS.items():
        family, head = name.split()
        config = getattr(hf, family + "Config")(**sizes)
        without_dropout(config)
        model = getattr(hf, family + head)(config)
        dtype = "float32" if family in SINGLE else "float64"
        results = once(f"hf_{family}", model, lambda model, kind=kind: model(**fed[kind]).loss, dtype)
        # Many compute rotations, norms and softmax in single precision whatever their weights are.
        yield {key: value.astype("f4") for key, value in results.items()}


def more_timm() -> Iterator[dict[str, Any]]:
    """Forward and backward of many families of timm, in double precision."""
    import timm
    from architectures import TIMM

    y = labels(5, 2)
    for name, (sizes, side) in TIMM.items():
        x = images(side, n=2).double()

        def loss_of(model: Any, x: Any = x) -> Any:
            output = model(x)
            output = sum(output) if isinstance(output, tuple) else output
            return torch.nn.functional.cross_entropy(output, y)

        is_class = name[0].isupper()
        make = getattr(timm.models, name) if is_class else functools.partial(timm.create_model, name)
        yield once(f"timm_{name}", make(num_classes=5, **sizes), loss_of)


def more_torchvision() -> Iterator[dict[str, Any]]:
    """Forward and backward of many models of torchvision, in double precision: of images, videos, pixels and boxes."""
    from architectures import TORCHVISION
    from torchvision import models

    y = labels(5, 2)
    for name, (sizes, shape) in TORCHVISION.items():
        x = tensors(rng.standard_normal((2, *shape)))[0]

        def loss_of(model: Any, x: Any = x) -> Any:
            output = model(x)
            outputs = output.values() if isinstance(output, dict) else output
            outputs = outputs if isinstance(outputs, tuple | type({}.values())) else [outputs]
            return sum(
                torch.nn.functional.cross_entropy(
                    out, y[:, None, None].expand(2, *out.shape[2:]) if out.ndim == 4 else y
                )
                for out in outputs
            )

        make = (
            models.get_model if name in models.list_models() else lambda name, **sizes: getattr(models, name)(**sizes)
        )
        yield once(f"tv_{name}", make(name, num_classes=5, **sizes), loss_of)


def detection() -> Iterator[dict[str, Any]]:
    """torchvision's ops on boxes, which it brings compiled for PyTorch, and what a detector learns and finds."""
    from torchvision import models, ops

    corners = tensors(rng.random((40, 2, 2)) * 20)[0]
    found = torch.cat([corners[:, 0], corners[:, 0] + 2 + corners[:, 1]], dim=1)
    scores, kinds = tensors(rng.random(40), rng.integers(0, 3, 40))
    yield {
        "boxes/nms": array(ops.nms(found, scores, 0.3)),
        "boxes/of kinds": array(ops.batched_nms(found, scores, kinds, 0.3)),
    }
    x, weight, offset = (
        t.requires_grad_()
        for t in tensors(*(rng.standard_normal(s) for s in ((2, 4, 9, 9), (6, 2, 3, 3), (2, 18, 9, 9))))
    )
    mask = tensors(rng.random((2, 9, 9, 9)))[0]
    regions = torch.cat([kinds[:5, None].clamp(max=1).double(), found[:5] / 3], dim=1)
    parts = [ops.roi_align(x, regions, 3, 0.8, ratio, aligned) for ratio, aligned in ((2, True), (-1, False))]
    parts += [
        ops.deform_conv2d(x, offset, weight, padding=1, mask=mask),
        ops.deform_conv2d(x, offset, weight, padding=1),
    ]
    sum(part.square().sum() for part in parts).backward()
    for name, part in zip(("aligned", "adaptive", "masked", "deformed"), parts, strict=True):
        yield {f"boxes/{name}": array(part)}
    yield {f"boxes/gradient {i}": array(t.grad) for i, t in enumerate((x, weight, offset))}

    # The samples drawn for the losses are all there are, so that which numbers are drawn does not matter.
    all_of = {"rpn_batch_size_per_image": 20_000, "box_batch_size_per_image": 20_000, "min_size": 64, "max_size": 64}
    bare = {"weights": None, "weights_backbone": None, "num_classes": 3}
    model = models.detection.fasterrcnn_mobilenet_v3_large_320_fpn(**bare, **all_of)
    pictures = list(images(64, n=2).double())
    truth = [{"boxes": found[k : k + 3].detach() * 2, "labels": kinds[k : k + 3] % 2 + 1} for k in (0, 3)]
    results = once("faster_rcnn", model, lambda model: sum(model(pictures, truth).values()))
    yield {key: value.astype("f4") for key, value in results.items()}  # Boxes are coded in single precision.
    for i, seen in enumerate(model.eval()(pictures)):
        yield {f"faster_rcnn/{key} {i}": array(value) for key, value in seen.items()}


def trainer() -> Iterator[dict[str, Any]]:
    """The training loop of transformers, with evaluation and a checkpoint from which another one continues."""
    import transformers as hf
    from torch.utils.data import Dataset

    rows = tokens(64, 16, 8)

    class Rows(Dataset):
        def __len__(self) -> int:
            return 16

        def __getitem__(self, i: int) -> Any:
            return {"input_ids": rows[i], "labels": rows[i]}

    class InOrder(hf.Trainer):
        def _get_train_sampler(self, *_: Any) -> Any:
            return torch.utils.data.SequentialSampler(self.train_dataset)

    off = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    small = {"vocab_size": 64, "n_embd": 32, "n_layer": 1, "n_head": 2, "n_positions": 16, "eos_token_id": 2}
    model = hf.GPT2LMHeadModel(hf.GPT2Config(**small, **off))
    same_weights("trainer", model)
    for steps in (4, 6):
        arguments = hf.TrainingArguments(
            FOLDER / f"trainer_{WHO}",
            per_device_train_batch_size=4,
            max_steps=steps,
            learning_rate=1e-3,
            adam_epsilon=1e-4,
            warmup_steps=1,
            gradient_accumulation_steps=2,
            logging_steps=1,
            save_steps=2,
            use_cpu=True,
            disable_tqdm=True,
            report_to=[],
        )
        loop = InOrder(model, arguments, train_dataset=Rows(), eval_dataset=Rows())
        loop.train(resume_from_checkpoint=steps == 6)
        logged = [entry["loss"] for entry in loop.state.log_history if "loss" in entry]
        yield {f"trainer/losses {steps}": np.array(logged, "f4")}
        yield {f"trainer/evaluated {steps}": np.array(loop.evaluate()["eval_loss"], "f4")}


def lightning() -> Iterator[dict[str, Any]]:
    """Lightning's loop with validation, a schedule and a checkpoint that another model begins with."""
    import pytorch_lightning as pl

    x, y = tensors(rng.standard_normal((32, 4)).astype("f4"))[0], labels(3, 32)

    class Small(pl.LightningModule):
        def __init__(self, width: int = 8) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.net = torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 3))
            self.losses: list[float] = []

        def training_step(self, batch: Any, number: int) -> Any:
            loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.losses.append(loss.item())
            self.log("loss", loss)
            return loss

        def validation_step(self, batch: Any, number: int) -> None:
            self.log("validated", torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

        def configure_optimizers(self) -> Any:
            optimizer = adamw(self.parameters())
            return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 5)}

    model = Small(width=6)
    same_weights("lightning", model)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=8)
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
    folder = FOLDER / f"lightning_{WHO}"
    loop = pl.Trainer(max_epochs=2, accelerator="cpu", default_root_dir=folder, gradient_clip_val=1.0, **quiet)
    loop.fit(model, loader, loader)
    yield {"lightning/losses": np.array(model.losses, "f4")}
    loop.save_checkpoint(folder / "last.ckpt")
    again = Small.load_from_checkpoint(folder / "last.ckpt", weights_only=True)
    assert again.hparams.width == 6
    found = loop.validate(again, loader, verbose=False)
    yield {"lightning/validated": np.array(found[0]["validated"], "f4")}
    for key, value in again.state_dict().items():
        yield {f"lightning/weight {key}": array(value)}


def diffusers() -> Iterator[dict[str, Any]]:
    """A network that learns to remove noise, and the loop that generates images with it."""
    from diffusers import DDIMScheduler, DDPMScheduler, UNet2DModel

    shape = {"sample_size": 16, "in_channels": 1, "out_channels": 1, "block_out_channels": (8, 16)}
    blocks = {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
    model = UNet2DModel(layers_per_block=1, norm_num_groups=4, attention_head_dim=4, **shape, **blocks)
    schedule = DDPMScheduler(num_train_timesteps=20)
    x, noise = images(16, 1), images(16, 1)
    times = tensors(np.array([1, 5, 9, 18]))[0]

    def loss_of(model: Any, step: int) -> Any:
        output = model(schedule.add_noise(x, noise, times), times).sample
        return torch.nn.functional.mse_loss(output, noise), output

    yield trained("diffusers", model, loss_of, sgd)
    model.eval()
    sampler, image = DDIMScheduler(num_train_timesteps=20), noise
    sampler.set_timesteps(3)
    with torch.no_grad():
        for time in sampler.timesteps:
            image = sampler.step(model(image, time).sample, time, image).prev_sample
    yield {"diffusers/image": array(image)}


def timm() -> Iterator[dict[str, Any]]:
    import timm

    yield classified("timm_resnet", timm.create_model("resnet10t", num_classes=5), 64, double=True)
    flat = {"num_classes": 5, "img_size": 32}
    vit = timm.create_model("vit_tiny_patch16_224", patch_size=8, embed_dim=48, depth=2, num_heads=3, **flat)
    yield classified("timm_vit", vit, 32)
    convnext = timm.create_model("convnext_atto", depths=(1, 1, 1, 1), dims=(8, 16, 24, 32), num_classes=5)
    yield classified("timm_convnext", convnext, 64)
    swin = timm.create_model(
        "swin_tiny_patch4_window7_224",
        drop_path_rate=0.0,
        window_size=4,
        embed_dim=24,
        depths=(2, 2),
        num_heads=(2, 4),
        **flat,
    )
    yield classified("timm_swin", swin, 32)
    from timm.optim import create_optimizer_v2

    for name in (
        "sgd",
        "adamw",
        "lamb",
        "lion",
        "adafactor",
        "nadam",
        "adopt",
        "novograd",
        "adabelief",
        "lars",
        "muon",
    ):
        layers = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.GELU(), torch.nn.Linear(8, 5))
        x, y = tensors(rng.random((4, 6)).astype("f4"))[0], labels(5)

        def loss_of(model: Any, step: int, x: Any = x, y: Any = y) -> Any:
            output = model(x)
            return torch.nn.functional.cross_entropy(output, y), output

        def optimizer(parameters: Any, name: str = name, layers: Any = layers) -> Any:
            return create_optimizer_v2(layers, opt=name, lr=1e-2, weight_decay=0.01)

        yield trained(f"timm_{name}", layers, loss_of, optimizer)


def torchvision() -> Iterator[dict[str, Any]]:
    from torchvision import models

    yield classified("tv_resnet18", models.resnet18(num_classes=5), 48, double=True)
    yield classified("tv_mobilenet", models.mobilenet_v3_small(num_classes=5, dropout=0.0), 48)
    vit = models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=2, hidden_dim=32, mlp_dim=64, num_classes=5
    )
    torch.nn.init.normal_(vit.heads.head.weight, std=0.02)
    yield classified("tv_vit", vit, 32)
    from torchvision.transforms import v2

    pipeline = v2.Compose([v2.Resize(24, antialias=True), v2.CenterCrop(16), v2.Normalize([0.5] * 3, [0.25] * 3)])
    yield {"tv_transforms/image": array(pipeline(images(32)))}


def torchmetrics() -> Iterator[dict[str, Any]]:
    import torchmetrics

    of_classes = {"task": "multiclass", "num_classes": 4}
    metrics = {
        "accuracy": torchmetrics.Accuracy(**of_classes),
        "f1": torchmetrics.F1Score(average="macro", **of_classes),
        "auroc": torchmetrics.AUROC(**of_classes),
        "confusion": torchmetrics.ConfusionMatrix(**of_classes),
        "collection": torchmetrics.MetricCollection(
            [torchmetrics.Precision(**of_classes), torchmetrics.Recall(**of_classes)]
        ),
    }
    for _ in range(3):
        scores = tensors(rng.standard_normal((16, 4)).astype("f4"))[0].softmax(-1)
        y = labels(4, 16)
        for metric in metrics.values():
            metric.update(scores, y)
    for name, metric in metrics.items():
        value = metric.compute()
        for key, part in value.items() if isinstance(value, dict) else [("value", value)]:
            yield {f"torchmetrics/{name} {key}": array(part)}
    error = torchmetrics.MeanSquaredError()
    a, b = tensors(*rng.standard_normal((2, 8)).astype("f4"))
    yield {"torchmetrics/mean squared error": array(error(a, b))}


def einops() -> Iterator[dict[str, Any]]:
    from einops import einsum, pack, rearrange, reduce, repeat, unpack
    from einops.layers.torch import EinMix, Rearrange, Reduce

    x = images(8)
    yield {
        "einops/rearrange": array(rearrange(x, "b c (h p) (w q) -> b (h w) (c p q)", p=4, q=4)),
        "einops/reduce": array(reduce(x, "b c h w -> b c", "mean")),
        "einops/repeat": array(repeat(x, "b c h w -> b c h (w n)", n=2)),
        "einops/einsum": array(einsum(x, x, "b c h w, b c h v -> b w v")),
    }
    packed, shapes = pack([x, x[:, 0]], "b *")
    yield {"einops/unpack": array(unpack(packed, shapes, "b *")[0])}
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        Rearrange("b c (h p) (w q) -> b (h w) (c p q)", p=2, q=2),
        EinMix("b t c -> b t d", weight_shape="c d", bias_shape="d", c=32, d=16),
        nn.GELU(),
        Reduce("b t d -> b d", "mean"),
        nn.Linear(16, 5),
    )
    yield classified("einops_layers", model, 8)


def captum() -> Iterator[dict[str, Any]]:
    """Attributions of a result to its input: hooks on modules, gradients of gradients' inputs, replaced backwards."""
    Absent("matplotlib", "mpl_toolkits")  # It draws with them; nothing is drawn.
    from captum import attr

    nn = torch.nn
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)).double()
    same_weights("captum", model)
    x, baseline = tensors(*rng.standard_normal((2, 5, 4)))
    for name in (
        "IntegratedGradients",
        "Saliency",
        "DeepLift",
        "InputXGradient",
        "GuidedBackprop",
        "Deconvolution",
        "FeatureAblation",
        "LRP",
    ):
        yield {f"captum/{name}": array(getattr(attr, name)(model).attribute(x, target=1))}
    yield {"captum/layer": array(attr.LayerConductance(model, model[0]).attribute(x, baseline, target=1))}
    yield {"captum/neuron": array(attr.NeuronConductance(model, model[0]).attribute(x, 1, baseline, target=1))}
    hidden = attr.Occlusion(model).attribute(x, target=1, sliding_window_shapes=(2,))
    yield {"captum/hidden": array(hidden)}
    network = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    same_weights("captum_network", network)
    yield {"captum/map": array(attr.LayerGradCam(network, network[0]).attribute(images(8), target=0))}


def safetensors() -> Iterator[dict[str, Any]]:
    from safetensors import safe_open
    from safetensors.torch import load, load_model, save, save_model

    values = {"f": images(4), "i": tokens(9, 3), "h": images(2).half(), "b": images(2).bfloat16(), "t": images(2) > 0}
    file = FOLDER / f"values_{WHO}.safetensors"
    save_file(values, file, metadata={"format": "pt"})
    # The files are the same, byte by byte, and each reads the other's.
    yield {"safetensors/file": np.frombuffer(file.read_bytes(), "u1")}
    for key, value in load_file(FOLDER / "values_theirs.safetensors").items():
        assert value.dtype == values[key].dtype and torch.equal(value, values[key]), key
    assert torch.equal(load(save(values))["b"], values["b"])
    with safe_open(file, framework="pt", device="cpu") as opened:
        assert sorted(opened.keys()) == sorted(values) and opened.metadata() == {"format": "pt"}
        part = opened.get_slice("f")
        yield {"safetensors/part": array(part[1:3, :, :2]), "safetensors/shape": np.array(part.get_shape())}
    tied = torch.nn.ModuleList([torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)])
    tied[1].weight = tied[0].weight
    save_model(tied, str(FOLDER / f"tied_{WHO}.safetensors"))
    missing, unexpected = load_model(tied, FOLDER / "tied_theirs.safetensors")
    assert not missing and not unexpected
    yield {"safetensors/tied": array(tied[1].weight)}


def accelerate() -> Iterator[dict[str, Any]]:
    """A loop as people write it: a loader, accumulation, clipping, a schedule."""
    from accelerate import Accelerator
    from torch.utils.data import DataLoader, TensorDataset

    nn = torch.nn
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 3))
    same_weights("accelerate", model)
    loader = DataLoader(TensorDataset(*tensors(rng.random((24, 6)).astype("f4")), labels(3, 24)), batch_size=4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    losses = []
    for _ in range(2):
        for x, y in loader:
            with accelerator.accumulate(model):
                loss = nn.functional.cross_entropy(model(x), y)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss.detach()).mean().item())
    yield {"accelerate/losses": np.array(losses, "f4"), "accelerate/rate": np.array(schedule.get_last_lr())}
    for key, value in accelerator.unwrap_model(model).state_dict().items():
        yield {f"accelerate/weight {key}": array(value)}


def graphs() -> Iterator[dict[str, Any]]:
    """Models of packages as static graphs: what PyTorch runs eagerly, one compiled step does here."""
    import timm
    import torchvision
    import transformers as hf

    small = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    llama = hf.LlamaForCausalLM(hf.LlamaConfig(intermediate_size=48, max_position_embeddings=32, **small))
    flat = {"img_size": 32, "patch_size": 8, "embed_dim": 48, "depth": 2, "num_heads": 3, "num_classes": 5}
    mobilenet = torchvision.models.mobilenet_v3_small(num_classes=5, dropout=0.0)

    def of_words(model: Any, x: Any) -> Any:
        return model(input_ids=x, labels=x).loss

    def of_images(model: Any, x: Any, y: Any) -> Any:
        return torch.nn.functional.cross_entropy(model(x), y)

    models = {
        "llama": (llama, of_words, lambda: (tokens(64, 2, 8),)),
        "vit": (timm.create_model("vit_tiny_patch16_224", **flat), of_images, lambda: (images(32), labels(5))),
        "mobilenet": (mobilenet, of_images, lambda: (images(48), labels(5))),
    }
    for name, (model, loss_of, fed) in models.items():
        same_weights(f"graph_{name}", model)
        optimizer = sgd(model.parameters())

        def step(*batch: Any, model: Any = model, optimizer: Any = optimizer, loss_of: Any = loss_of) -> Any:
            optimizer.zero_grad()
            loss = loss_of(model, *batch)
            loss.backward()
            optimizer.step()
            return loss

        if WHO == "ours":
            step = compiled_step(model, optimizer, loss_of)
        yield {f"graph_{name}/losses": np.array([step(*fed()).item() for _ in range(4)], "f4")}


def compiled_step(model: Any, optimizer: Any, loss_of: Callable[..., Any]) -> Any:
    class Step(torch.nn.Graph):
        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.add_optimizer(optimizer)

        def build(self, *batch: Any) -> Any:
            loss = loss_of(self.model, *batch)
            loss.backward()
            return loss

    return Step()


def zoo() -> Iterator[dict[str, Any]]:
    """The models that are also tested under ``import oneflow as torch`` and as graphs."""
    sys.path.append(str(Path(__file__).parents[1]))
    from models.zoo import define

    for name, case in define(torch).items():
        batches = [tensors(*case.inputs(rng)) for _ in range(3)]

        def loss_of(model: Any, step: int, batches: Any = batches, case: Any = case) -> Any:
            output = model(*batches[step][:-1])
            return case.loss(output, *batches[step]), output

        yield trained(f"zoo_{name}", case.model(), loss_of, case.optimizer, steps=3)


def main() -> None:
    # More threads than a busy machine has to spare make small steps slow.
    torch.set_num_threads(1)
    torch.manual_seed(0)
    results: dict[str, Any] = {}
    homes = (sys.modules[__name__], *map(importlib.import_module, ("tasks", "toolkits")))
    group = next(getattr(home, GROUP) for home in homes if hasattr(home, GROUP))
    for part in group():
        results.update(part)
    np.savez(FOLDER / f"{WHO}.npz", **{key.replace("/", "|"): value for key, value in results.items()})
    with contextlib.suppress(FileNotFoundError):
        # Lines of a file of the kernel that lists the memory maps of a process.
        mapped = Path("/proc/self/maps").read_text()
        assert (WHO == "theirs") == ("libtorch" in mapped or "/torch/lib/" in mapped)
    assert torch.Tensor.__module__.partition(".")[0] == ("torch" if WHO == "theirs" else "oneflow")


if __name__ == "__main__":
    main()
