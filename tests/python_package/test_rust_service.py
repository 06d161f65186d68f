"""A model that the example trained, served by the Rust service: the text that Python writes, without Python."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import oneflow
import pytest

pytestmark = pytest.mark.cargo

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "gpt"


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    # Of the whole workspace, so that the crates have the features, and are the objects, of its other tests.
    subprocess.run(["cargo", "build", "--quiet", "--workspace", "--bin", "rust_service"], cwd=ROOT, check=True)
    out = tmp_path_factory.mktemp("service")
    env = os.environ | {"PYTHONPATH": str(ROOT / "python")}
    for call in (
        ["train.py", "--steps", "20", "--batch-size", "4", "--held-out-bytes", "2000", "--out", str(out)],
        ["export.py", str(out / "checkpoint.pt"), str(out / "program"), "--batch-size", "3"],
    ):
        subprocess.run([sys.executable, EXAMPLE / call[0], *call[1:]], env=env, check=True, capture_output=True)
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    child = subprocess.Popen(
        [target / "debug" / "rust_service", out / "program", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True
    )
    try:
        yield out / "checkpoint.pt", child.stderr.readline().split()[-1]
        child.send_signal(signal.SIGTERM)
        assert child.wait(timeout=60) == 0
    finally:
        child.kill()
        child.communicate()


def ask(url, **wish):
    request = urllib.request.Request(url + "/generate", json.dumps(wish).encode())
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)["text"]


def test_texts_are_those_of_python(service, monkeypatch):
    checkpoint, url = service
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from model import GPT, GPTConfig

    state = oneflow.load(checkpoint)
    model = GPT(GPTConfig(**state["config"]))
    model.load_state_dict(state["model"])
    model.eval()

    def likeliest(prompt, n_bytes):
        text = list(prompt.encode())
        for _ in range(n_bytes):
            with oneflow.no_grad():
                text.append(int(model(oneflow.tensor([text[-model.config.block_size :]]))[0, -1].argmax()))
        return bytes(text).decode(errors="replace")

    prompts = ["def ", "import oneflow", "class A:\n    ", "x" * 130, "é", "return "]
    with ThreadPoolExecutor(6) as threads:
        texts = list(threads.map(lambda p: ask(url, prompt=p, bytes=12, temperature=0), prompts))
    assert texts == [likeliest(p, 12) for p in prompts]
    drawn = ask(url, prompt="def ", bytes=8, temperature=1.5, seed=3)
    assert drawn == ask(url, prompt="def ", bytes=8, temperature=1.5, seed=3) and drawn.startswith("def ")
