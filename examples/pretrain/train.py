#!/usr/bin/env python3
"""Train any of the library's transformers under any layout.

    python examples/pretrain/train.py                                a small GPT-2 on Python's library, a minute or two
    python examples/pretrain/train.py examples/pretrain/configs/moe.toml
    python examples/pretrain/train.py --set model.kind=llama --set train.graph=true
    python examples/pretrain/train.py --resume                       go on, also under another layout
    python -m oneflow.distributed.launch --nproc-per-node 4 examples/pretrain/train.py \\
        --set layout.dp=2 --set layout.tp=2 --set layout.sequence_parallel=true

Settings are described in settings.py. The output folder gets checkpoints, ``losses.jsonl`` and files for TensorBoard.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).parent), *(str(Path(__file__).parents[1] / name) for name in ("gpt", "digits"))]

import oneflow as torch
import oneflow.distributed.checkpoint as dcp
import oneflow.nn.functional as F
from oneflow import Tensor, models, nn
from oneflow.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from oneflow.models.layers import balance_experts
from pictures import N_CLASSES, Pictures
from progress import Progress
from settings import PICTURES, Settings, read
from texts import MASK, SPAN, Texts


def build(settings: Settings) -> Any:
    """A model of the settings, on this rank alone."""
    kind, time = settings.model.kind, settings.data.time
    small: dict[str, Any] = {"n_layers": 3, "n_heads": 4, "width": 128}
    if kind == "gpt2":
        config: Any = models.GPT2Config(
            **{"vocabulary": 256, "n_positions": time, "dropout": 0.0, **small, **settings.model.sizes}
        )
        return models.GPT2(config)
    if kind == "llama":
        sizes = {
            "vocabulary": 256,
            "n_positions": time,
            "n_kv_heads": 2,
            "hidden": 344,
            **small,
            **settings.model.sizes,
        }
        return models.Llama(models.LlamaConfig(**sizes))
    if kind == "moe_llama":
        experts = {"n_experts": 8, "top_k": 2, "expert_hidden": 128, "hidden": 344, "n_kv_heads": 2}
        sizes = {"vocabulary": 256, "n_positions": time, **experts, **small, **settings.model.sizes}
        return models.MoELlama(models.MoELlamaConfig(**sizes))
    if kind == "bert":
        sizes = {"vocabulary": 257, "n_positions": time, "hidden": 512, "dropout": 0.0, **small, **settings.model.sizes}
        return models.BertForPreTraining(models.BertConfig(**sizes))
    if kind == "vit":
        sizes = {"image": 8, "patch": 2, "channels": 1, "n_classes": N_CLASSES, "hidden": 256, **small}
        return models.ViT(models.ViTConfig(**{**sizes, "width": 64, **settings.model.sizes}))
    if kind == "swin":
        sizes = {"image": 16, "patch": 2, "channels": 1, "n_classes": N_CLASSES, "window": 4, "drop_path": 0.0}
        sizes |= {"width": 32, "depths": (2, 2), "n_heads": (2, 4)}
        return models.Swin(models.SwinConfig(**{**sizes, **settings.model.sizes}))
    sizes = {"n_layers": 2, "n_heads": 4, "head_dim": 32, "width": 128, "hidden": 384, "gated": True, "dropout": 0.0}
    return models.T5(models.T5Config(**{"vocabulary": 257, "start": MASK, **sizes, **settings.model.sizes}))


class Loss(nn.Module):
    """Mean nats per byte, or per picture, of a batch."""

    def __init__(self, model: nn.Module, settings: Settings) -> None:
        super().__init__()
        self.model = model
        self.kind, self.bf16 = settings.model.kind, settings.train.bf16

    def forward(self, *batch: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            if self.kind not in ("bert", "t5", *PICTURES):
                return self.model(*batch)
            out = self.model(*batch[:-1])
            logits = out[0] if self.kind == "bert" else out
        if logits.is_global:
            return models.vocabulary_parallel_cross_entropy(logits, batch[-1])
        return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), batch[-1].reshape(-1))


def rate(step: int, settings: Settings) -> float:
    """Linear warm-up, then half a cosine down to a twentieth."""
    if step < settings.train.warmup:
        return (step + 1) / settings.train.warmup
    share = (step - settings.train.warmup) / max(settings.train.steps - settings.train.warmup, 1)
    return 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(share, 1.0)))


class Run:
    """A model with its optimizer under a layout."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.layout = settings.layout.parallel()
        n_ranks = len(torch.placement.all("cpu").ranks)
        # Also says if the layout is for another number of ranks.
        self.is_alone = self.layout.placement is not None and n_ranks == 1 and not self.layout.recompute
        torch.manual_seed(settings.train.seed)
        self.model = build(settings)
        if not self.is_alone:
            self.layout.place(self.model)
        self.loss = Loss(self.model, settings)
        # Norms and biases are not decayed.
        matrices = [p for p in self.model.parameters() if p.dim() >= 2]
        vectors = [p for p in self.model.parameters() if p.dim() < 2]
        groups = [{"params": matrices, "weight_decay": settings.train.weight_decay}]
        groups += [{"params": vectors, "weight_decay": 0.0}] if vectors else []
        self.optimizer = torch.optim.AdamW(groups, lr=settings.train.lr, betas=(0.9, 0.95))
        self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: rate(step, settings))
        self.step = 0

    def update(self) -> Callable[..., Tensor]:
        """A function that trains by one batch and returns the loss; made after a checkpoint is loaded."""
        settings = self.settings
        if settings.train.graph:
            return Program(self)

        def eager(*batch: Tensor) -> Tensor:
            loss = self.loss(*batch)
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.model.parameters(), settings.train.max_norm)
            self.optimizer.step()
            self.schedule.step()
            if settings.train.bias_rate:
                balance_experts(self.model, settings.train.bias_rate)
            return loss

        return eager

    def placed(self, batch: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        return batch if self.is_alone else self.layout.batch(*batch)

    @torch.no_grad()
    def held_out(self, data: Texts | Pictures) -> float:
        """Mean nats per byte, or per picture, over held-out batches, the same in every run."""
        settings, total = self.settings, 0.0
        self.model.eval()
        for i in range(settings.output.evaluate_batches):
            batch = data.batch(settings.model.kind, 0, i, settings.train.batch_size, held_out=True)
            total += self.layout.mean(self.loss(*self.placed(batch)))
        self.model.train()
        return total / settings.output.evaluate_batches

    def save(self, folder: Path, losses: list[Any]) -> None:
        """Write what each rank holds; the last checkpoint stays until this one is complete."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        rest = {
            "step": self.step,
            "schedule": self.schedule.state_dict(),
            "losses": losses,
            "kind": asdict(self.settings.model),
        }
        dcp.save({"model": model, "optimizer": optimizer, "rest": json.dumps(rest)}, checkpoint_id=folder)

    def load(self, folder: Path) -> list[Any]:
        """Go on from a checkpoint of any layout; return its losses."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        state = {"model": model, "optimizer": optimizer, "rest": ""}
        dcp.load(state, checkpoint_id=folder)
        rest = json.loads(state["rest"])
        if rest["kind"] != asdict(self.settings.model):
            raise ValueError(f"{folder} holds another model: {rest['kind']}")
        set_state_dict(self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
        self.schedule.load_state_dict(rest["schedule"])
        self.step = rest["step"]
        return rest["losses"]


class Program(nn.Graph):
    """The whole step, compiled."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.loss = run.loss
        self.max_norm = run.settings.train.max_norm
        self.add_optimizer(run.optimizer, lr_sch=run.schedule)
        run.layout.configure(self)

    def build(self, *batch: Tensor) -> Tensor:
        loss = self.loss(*batch)
        loss.backward()
        nn.utils.clip_grad_norm_(self.loss.parameters(), self.max_norm)
        return loss


class Log:
    """Losses in a file and in TensorBoard, by the first rank."""

    def __init__(self, settings: Settings, first: bool) -> None:
        self.folder = Path(settings.output.folder)
        self.writer: Any = None
        if not first:
            return
        wanted = settings.output.tensorboard
        if wanted is not False:
            try:
                from oneflow.utils.tensorboard import SummaryWriter

                self.writer = SummaryWriter(str(self.folder / "tensorboard"))
            except ImportError:
                if wanted:
                    raise

    def add(self, name: str, value: float, step: int) -> None:
        if self.writer is not None:
            self.writer.add_scalar(name, value, step)

    def close(self, losses: list[Any], first: bool) -> None:
        if first:
            lines = [json.dumps({"step": step, "loss": loss}) for step, loss in losses]
            (self.folder / "losses.jsonl").write_text("\n".join(lines) + "\n")
        if self.writer is not None:
            self.writer.close()


def sample(run: Run, length: int) -> str:
    """A text that the model continues; all ranks write it together."""
    prompt = torch.tensor([list(b"def ")])
    if not run.is_alone:
        whole = [torch.sbp.broadcast] * len(run.layout.axes)
        prompt = prompt.to_global(run.layout.placement, whole)
    length = min(length, run.settings.data.time - 4)
    tokens = run.model.eval().generate(prompt, length, temperature=0)
    return bytes(min(int(token), 255) for token in tokens[0].tolist()).decode("utf-8", "replace")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", nargs="?", type=Path, help="a TOML file; defaults without one")
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE", help="change a setting")
    parser.add_argument("--resume", action="store_true", help="go on from the checkpoint in the output folder")
    args = parser.parse_args()
    try:
        settings = read(args.config, args.set)
        if settings.train.threads:
            torch.set_num_threads(settings.train.threads)
        run = Run(settings)
        pictures = settings.model.kind in PICTURES
        side = int(settings.model.sizes.get("image", 16 if settings.model.kind == "swin" else 8))
        data: Texts | Pictures = Pictures(side) if pictures else Texts(settings.data.path, settings.data.time)
    except (ValueError, TypeError, OSError) as e:
        print(f"train.py: {e}", file=sys.stderr)
        return 2
    first = torch.env.get_rank() == 0
    if not first:
        # One voice for the job.
        sys.stdout = sys.stderr = open(os.devnull, "w")
    folder = Path(settings.output.folder)
    folder.mkdir(parents=True, exist_ok=True)
    losses = run.load(folder / "checkpoint") if args.resume else []
    log, kind, step = Log(settings, first), settings.model.kind, run.update()
    n_parameters = sum(p.numel() for p in run.model.parameters())
    each = 1 if pictures else SPAN if kind == "t5" else settings.data.time
    print(f"{kind}: {n_parameters:,} parameters, {data.about}, {settings.layout.parallel()}")
    bar = Progress(settings.train.steps, run.step, unit="pictures" if pictures else "bytes")
    unit = "nats per picture" if pictures else "nats per byte"
    end = min(settings.train.steps, settings.train.stop or settings.train.steps)
    while run.step < end:
        batch = data.batch(kind, settings.train.seed, run.step, settings.train.batch_size)
        loss = run.layout.mean(step(*run.placed(batch)))
        run.step += 1
        losses.append((run.step, loss))
        log.add("loss/train", loss, run.step)
        bar.advance(settings.train.batch_size * each, f"loss {loss:.3f}")
        is_last = run.step == end
        if run.step % settings.output.evaluate_every == 0 or is_last:
            held_out = run.held_out(data)
            log.add("loss/held_out", held_out, run.step)
            bar.note(f"step {run.step}: held-out loss {held_out:.4f} {unit}")
        if run.step % settings.output.checkpoint_every == 0 or is_last:
            run.save(folder / "checkpoint", losses)
    seconds = bar.close()
    log.close(losses, first)
    print(f"{kind}: held-out loss {run.held_out(data):.4f} {unit} after {seconds:.0f} s; see {folder}")
    if kind not in ("bert", "t5", *PICTURES) and settings.layout.pp == 1 and settings.output.sample:
        print(sample(run, settings.output.sample))
    return 0


if __name__ == "__main__":
    sys.exit(main())
