"""Exports small models of timm and transformers, and compares ONNX Runtime with eager execution at three sizes.

``published.py FOLDER ONNX_PACKAGES [NAME...]``, in the environment of ``.ci/mock-venv`` with ``tests/mock_torch`` on
the path. Writes ``published.json``: for each model None, or what went wrong.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(sys.argv[1])
sys.path.append(sys.argv[2])
warnings.simplefilter("ignore")
import oneflow.mock_torch  # noqa: E402

oneflow.mock_torch.enable()

import architectures  # noqa: E402
import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnxruntime  # noqa: E402
import timm  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402

MORE_TIMM = {
    name: ({}, 64)
    for name in ("resnet18", "vgg11_bn", "repvgg_a0", "poolformer_s12", "convnext_atto", "mobilenetv2_100", "resnet50")
} | {"swin_tiny_patch4_window7_224": ({"img_size": 56, "embed_dim": 24, "depths": (2, 2), "num_heads": (2, 4)}, 56)}
# What each kind of input is made of: its name, and whether its second dimension is open.
TEXT = {"input_ids": True, "attention_mask": True}
FED: dict[str, dict[str, bool]] = {
    "words": {"input_ids": True},
    "masked": TEXT,
    "padded": TEXT,
    "pairs": TEXT | {"decoder_input_ids": True},
    "pictures": {"pixel_values": False},
    "large pictures": {"pixel_values": False},
    "waves": {"input_values": False},
    "spectra": {"input_values": False},
}
# Their sequence has to be a multiple of a block, or of a window that is cut by its length.
FIXED_LENGTH = {"Longformer", "Nystromformer", "Funnel", "Mamba2", "Rwkv"}
# Their tables of positions are made anew for longer sequences, which is another program.
LONGEST = {"M2M100": 64, "XGLM": 2048}
# Mixtures of experts read counts of tokens, unless each token gathers the weights of its experts.
EXPERTS = "batched_mm"


class Answer(torch.nn.Module):  # type: ignore[name-defined, misc]
    """A model of transformers, with tensors in and its answer alone out."""

    def __init__(self, model: Any, names: list[str]) -> None:
        super().__init__()
        self.model, self.names = model, names

    def forward(self, *inputs: Any) -> Any:
        return self.model(**dict(zip(self.names, inputs, strict=True))).logits


def numbers(*shape: int) -> Any:
    return torch.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape).astype("f4"))


def words(batch: int, length: int) -> Any:
    return torch.from_numpy(np.random.default_rng(batch * length).integers(3, 60, (batch, length)))


def inputs_of(kind: str, batch: int, length: int) -> list[Any]:
    if "pictures" in kind:
        side = 64 if kind == "large pictures" else 32
        return [numbers(batch, 3, side, side)]
    if kind in ("waves", "spectra"):
        return [numbers(batch, *((400,) if kind == "waves" else (16, 8)))]
    mask = torch.ones(batch, length, dtype=torch.int64)
    mask[0, -2:] = 0
    made = {"input_ids": words(batch, length), "attention_mask": mask.flip(1) if kind == "padded" else mask}
    made["decoder_input_ids"] = words(batch, length - 1)
    return [made[name] for name in FED[kind]]


def cases() -> Iterator[tuple[str, Callable[[], Any], Callable[[int, int], list[Any]], list[dict[int, Any]], bool]]:
    """(name, constructor, inputs by batch and length, open dimensions, whether the length is open)."""
    for name, (sizes, side) in {**architectures.TIMM, **MORE_TIMM}.items():
        is_class = name[0].isupper()

        def make(name: str = name, sizes: Any = sizes, is_class: bool = is_class) -> Any:
            if is_class:
                return getattr(timm.models, name)(num_classes=5, **sizes)
            return timm.create_model(name, num_classes=5, **sizes)

        yield f"timm {name}", make, lambda n, _, side=side: [numbers(n, 3, side, side)], [{0: "batch"}], False
    for name, (sizes, kind) in architectures.TRANSFORMERS.items():
        if kind not in FED:
            continue
        family, head = name.split()

        def make_hf(family: str = family, head: str = head, sizes: Any = sizes, kind: str = kind) -> Any:
            config = getattr(transformers, family + "Config")(**sizes)
            config.use_cache, config._experts_implementation = False, EXPERTS if "Moe" in family else None
            return Answer(getattr(transformers, family + head)(config), list(FED[kind]))

        is_open = any(FED[kind].values()) and family not in FIXED_LENGTH
        length, out = (oneflow.export.Dim(n, max=LONGEST.get(family)) for n in ("length", "out"))
        dims = [{0: "batch"} | ({1: length if x != "decoder_input_ids" else out} if is_open else {}) for x in FED[kind]]
        yield f"transformers {name}", make_hf, lambda n, m, kind=kind: inputs_of(kind, n, m), dims, is_open


def check(name: str, make: Any, inputs: Any, dims: list[dict[int, Any]], is_open: bool) -> str | None:
    torch.manual_seed(0)
    model = make().eval()
    sizes = [(2, 8), (3, 10), (5, 12)] if is_open else [(2, 8), (3, 8), (5, 8)]
    args = tuple(inputs(*sizes[0]))
    path = FOLDER / "model.onnx"
    oneflow.onnx.export(model, args, path, dynamic_shapes=tuple(dims))
    onnx.checker.check_model(str(path), full_check=True)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for size in sizes:
        given = inputs(*size)
        with torch.no_grad():
            wanted = model(*given)
        wanted = wanted if isinstance(wanted, (tuple, list)) else [wanted]
        feed = {i.name: x.numpy() for i, x in zip(session.get_inputs(), given, strict=True)}
        for want, have in zip(wanted, session.run(None, feed), strict=True):
            want = want.numpy()
            if want.shape != have.shape:
                return f"at {size}: {have.shape}, not {want.shape}"
            distance = float(np.abs(want - have).max()) / max(1.0, float(np.abs(want).max()))
            if not distance <= 1e-4:
                return f"at {size}: differs by {distance:.1e}"
    return None


def main() -> None:
    torch.set_num_threads(1)
    found: dict[str, str | None] = {}
    for name, *case in cases():
        if sys.argv[3:] and not any(part in name for part in sys.argv[3:]):
            continue
        began = time.perf_counter()
        try:
            found[name] = check(name, *case)
        except Exception as error:
            found[name] = f"{type(error).__name__}: {str(error).strip()[:300]}"
        print(f"{name} ({time.perf_counter() - began:.1f} s): {found[name] or 'agrees'}", flush=True)
    (FOLDER / "published.json").write_text(json.dumps(found))
    good = sum(error is None for error in found.values())
    print(f"{good} of {len(found)}")


if __name__ == "__main__":
    main()
