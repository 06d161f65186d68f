"""The GPT example: its helpers, and a resumed run with the results of an uninterrupted one."""

import math
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import oneflow
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "gpt"


@pytest.fixture(autouse=True)
def example_path(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLE))


def test_corpus_is_split_by_files():
    import corpus

    train, held_out, names = corpus.read_corpus()
    assert len(train) > 5 * len(held_out) > 100_000
    assert names == sorted(names) and all(name.endswith(".py") for name in names)
    assert held_out[:1000] not in train


def test_batches_depend_on_seed_and_step_only():
    import corpus

    text = bytes(range(256)) * 4
    a = corpus.batch_at(text, 3, 0, 4, 16)
    assert a == corpus.batch_at(text, 3, 0, 4, 16)
    assert a != corpus.batch_at(text, 4, 0, 4, 16) and a != corpus.batch_at(text, 3, 1, 4, 16)
    assert [len(window) for window in a] == [17] * 4


def test_counting_baseline():
    import corpus

    # "ab" repeated: after one byte the next is almost certain.
    assert corpus.counting_baseline(b"ab" * 5000, b"ab" * 100, 2) < 0.01
    uniform = bytes(i * i * 7 % 251 for i in range(20_000))
    assert corpus.counting_baseline(uniform, uniform, 2) < math.log(256)


def test_own_png_writer():
    import plot

    data = plot._draw({"a": [(0, 5.0), (10, 2.0)], "b": [(5, 3.0)]}, 60, 40)
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", data[16:24])
    start = data.index(b"IDAT")
    (size,) = struct.unpack(">I", data[start - 4 : start])
    pixels = zlib.decompress(data[start + 4 : start + 4 + size])
    assert (width, height) == (60, 40) and len(pixels) == 40 * (1 + 3 * 60)
    assert bytes(plot._COLOURS[0]) in pixels


def test_model_shapes_and_loss():
    from model import GPT, GPTConfig

    oneflow.manual_seed(0)
    model = GPT(GPTConfig(block_size=16, n_layers=2, n_heads=2, width=32))
    tokens = oneflow.tensor([list(b"import oneflow"), list(b"import os, sys")])
    assert tuple(model(tokens).shape) == (2, 14, 256)
    loss = model(tokens, tokens)
    assert loss.item() == pytest.approx(math.log(256), abs=0.3)
    loss.backward()
    assert all(p.grad is not None for p in model.parameters())
    assert len(model.generate(b"de", 5)) == 7


def test_model_is_causal():
    from model import GPT, GPTConfig

    model = GPT(GPTConfig(block_size=8, n_layers=2, n_heads=2, width=16)).eval()
    a = model(oneflow.tensor([[1, 2, 3, 4]])).tolist()[0]
    b = model(oneflow.tensor([[1, 2, 3, 9]])).tolist()[0]
    for row_a, row_b in zip(a[:3], b[:3], strict=True):
        assert row_a == pytest.approx(row_b, abs=1e-6)
    assert a[3] != pytest.approx(b[3], abs=1e-6)


def run(out, *args):
    command = [sys.executable, EXAMPLE / "train.py", "--out", out, "--batch-size", "2", "--sample-bytes", "5"]
    command += ["--held-out-bytes", "4000", *args]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return oneflow.load(out / "checkpoint.pt")


@pytest.mark.slow
def test_a_resumed_run_equals_an_uninterrupted_one(tmp_path):
    whole = run(tmp_path / "a", "--steps", "4", "--checkpoint-every", "2")
    # The schedule depends on the number of steps, so the first half is cut out of a run of the same length.
    half = tmp_path / "b"
    half.mkdir()
    code = (
        f"import sys; sys.argv = ['train.py', '--out', {str(half)!r}, '--batch-size', '2', '--steps', '4',"
        " '--checkpoint-every', '2']; sys.path.insert(0, "
        f"{str(EXAMPLE)!r}); import train\n"
        "save = train.save_checkpoint\n"
        "def stop(path, **state):\n    save(path, **state)\n    raise SystemExit(0)\n"
        "train.save_checkpoint = stop\ntrain.main()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    assert oneflow.load(half / "checkpoint.pt")["step"] == 2
    resumed = run(half, "--steps", "4", "--checkpoint-every", "2", "--resume")
    assert resumed["losses"] == whole["losses"]
    for name, value in whole["model"].items():
        assert value.tolist() == resumed["model"][name].tolist()
    assert (half / "loss.png").read_bytes()[:4] == b"\x89PNG"
