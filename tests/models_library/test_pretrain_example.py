"""examples/pretrain: one loss curve under every layout, checkpoints that any layout continues, checked settings."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "pretrain"
SMALL = {
    "data.time": 64,
    "model.n_layers": 2,
    "model.width": 32,
    "train.steps": 6,
    "train.batch_size": 4,
    "train.threads": 1,
    "output.evaluate_batches": 1,
    "output.sample": 4,
}


def run(folder: Path, *arguments: str, ranks: int = 1, **settings: object) -> subprocess.CompletedProcess[str]:
    launch = [] if ranks == 1 else ["-m", "oneflow.distributed.launch", "--nproc-per-node", str(ranks)]
    named = {name.replace("__", "."): value for name, value in settings.items()}
    changes = [
        part
        for name, value in {**SMALL, "output.folder": folder, **named}.items()
        # A Swin has layers by stage.
        if name != "model.n_layers" or named.get("model.kind") != "swin"
        for part in ("--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}")
    ]
    command = [sys.executable, *launch, str(FOLDER / "train.py"), *arguments, *changes]
    return subprocess.run(command, capture_output=True, text=True, timeout=250)


def losses(folder: Path, *arguments: str, **settings: object) -> list[float]:
    done = run(folder, *arguments, **settings)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stdout + done.stderr
    assert "held-out loss" in done.stdout and "[====" in done.stderr
    return [json.loads(line)["loss"] for line in (folder / "losses.jsonl").read_text().splitlines()]


LAYOUTS: list[tuple[str, dict[str, object]]] = [
    ("gpt2", {"ranks": 4, "layout__cp": 2, "layout__tp": 2, "layout__sequence_parallel": True}),
    ("llama", {"ranks": 4, "layout__dp": 2, "layout__tp": 2, "layout__zero": 2, "train__graph": True}),
    ("moe_llama", {"ranks": 2, "layout__ep": 2, "train__bias_rate": 0.001}),
    ("bert", {"ranks": 2, "layout__cp": 2, "layout__context": "ulysses"}),
    (
        "llama",
        {
            "ranks": 4,
            "layout__pp": 2,
            "layout__tp": 2,
            "layout__sequence_parallel": True,
            "layout__vocabulary_parallel": True,
            "layout__micro_batches": 2,
            "train__graph": True,
        },
    ),
    ("moe_llama", {"ranks": 4, "layout__pp": 2, "layout__ep": 2, "layout__micro_batches": 2, "train__graph": True}),
    ("llama", {"ranks": 4, "layout__pp": 2, "layout__cp": 2, "layout__micro_batches": 4, "train__graph": True}),
    ("t5", {"ranks": 2, "layout__tp": 2, "layout__sequence_parallel": True}),
    ("gpt2", {"ranks": 2, "layout__cp": 2, "train__graph": True}),
    ("vit", {"ranks": 4, "layout__cp": 2, "layout__tp": 2, "layout__sequence_parallel": True}),
    ("swin", {"ranks": 4, "layout__dp": 2, "layout__tp": 2, "layout__zero": 2, "train__graph": True}),
]


@pytest.mark.parametrize(("kind", "layout"), LAYOUTS, ids=str)
def test_layouts_give_the_losses_of_one_process(kind: str, layout: dict[str, object], tmp_path: Path) -> None:
    rest = {name: value for name, value in layout.items() if name.startswith("train__bias")}
    alone = losses(tmp_path / "alone", model__kind=kind, **rest)
    assert alone[-1] != alone[0]
    assert losses(tmp_path / "ranks", model__kind=kind, **layout) == pytest.approx(alone, rel=1e-5)


SPLIT: dict[str, dict[str, object]] = {
    "gpt2": {"ranks": 2, "layout__tp": 2, "layout__vocabulary_parallel": True},
    "llama": {"ranks": 2, "layout__pp": 2, "layout__micro_batches": 2, "train__graph": True},
    "moe_llama": {"ranks": 2, "layout__ep": 2},
}


@pytest.mark.parametrize("kind", SPLIT)
def test_any_layout_goes_on_from_any_other(kind: str, tmp_path: Path) -> None:
    alone = losses(tmp_path / "alone", model__kind=kind)
    split = SPLIT[kind]
    assert losses(tmp_path / "a", model__kind=kind, train__stop=3) == pytest.approx(alone[:3], rel=1e-6)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for folder, how in (("a", split), ("b", {})):
        found = losses(tmp_path / folder, "--resume", model__kind=kind, **how)
        assert found == pytest.approx(alone, rel=1e-5)
    losses(tmp_path / "c", model__kind=kind, train__stop=3, **split)
    assert losses(tmp_path / "c", "--resume", model__kind=kind) == pytest.approx(alone, rel=1e-5)


def test_configs_are_read_and_event_files_written(tmp_path: Path) -> None:
    small = {"model__width": 32, "model__n_layers": 2, "train__steps": 2}
    done = run(tmp_path, str(FOLDER / "configs" / "moe.toml"), output__tensorboard=True, **small)  # type: ignore[arg-type]
    assert done.returncode == 0, done.stderr
    assert "moe_llama: " in done.stdout and list((tmp_path / "tensorboard").glob("events*"))
    # Eight ranks are not there.
    done = run(tmp_path, str(FOLDER / "configs" / "llama.toml"))
    assert done.returncode == 2
    assert "dp=2 times cp=2 times tp=2 is not the job's 1 ranks" in done.stderr


REFUSED = [
    ({"train__stesp": 3}, "unknown key train.stesp; there are steps,"),
    ({"trian__steps": 3}, "unknown table 'trian'; there are model, layout, data, train, output"),
    ({"train__steps": "many"}, "train.steps must be of type int, got 'many'"),
    ({"model__kind": "gpt5"}, "model.kind must be one of gpt2, llama, moe_llama, bert, t5, vit, swin, got 'gpt5'"),
    ({"model__widht": 8}, "widht"),
    ({"layout__zero": 2}, "layout.zero needs train.graph = true"),
    ({"layout__dp": 3}, "train.batch_size=4 does not divide by dp * ep = 3"),
    ({"model__kind": "moe_llama", "train__graph": True, "train__bias_rate": 0.1}, "the load of experts is not seen"),
    ({"data__path": "nowhere"}, "nowhere"),
    ({"model__kind": "vit", "data__path": "nowhere"}, "vit is trained on the digits"),
    ({"model__kind": "vit", "model__image": 4}, "the digits have 8 pixels a side, got 4"),
]


@pytest.mark.parametrize(("settings", "said"), REFUSED, ids=[said for _, said in REFUSED])
def test_wrong_settings_are_named_before_the_first_step(settings: dict[str, object], said: str, tmp_path: Path) -> None:
    done = run(tmp_path / "out", **settings)  # type: ignore[arg-type]
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()
