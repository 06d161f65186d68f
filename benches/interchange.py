"""`python -m benches.interchange`: time and memory to export BERT-base as an ONNX file, and to import the file.

Each measurement has a process of its own, which has the model loaded before it starts (the export), or nothing but
the package (the import). Memory is what the process held at most beyond that, over the bytes of the weights; an import
has to hold the weights themselves, which are taken off. Where PyTorch's exporter runs (it needs onnxscript, of which
`--packages` names the folder), its export of the same model is measured between ours, and the ratio is printed.
"""

from __future__ import annotations

import argparse
import importlib
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Any

from benches.memory import high_water_mark
from benches.twin import models_on

# What the project holds itself to: seconds, and memory over the weights.
AIMS = {"export": (3.0, 0.2), "import": (1.0, 0.2)}


def bert(torch: Any) -> Any:
    models = models_on(torch)
    torch.manual_seed(0)
    return models.BertClassifier(models.BertConfig.preset("bert-base-uncased")).eval()


def forget_peak() -> int:
    """Start to count the most bytes again; return those that are held now."""
    pathlib.Path("/proc/self/clear_refs").write_text("5")
    return high_water_mark()


def child(package: str, task: str, path: str) -> None:
    torch = importlib.import_module(package)
    torch.set_num_threads(1)
    ids = torch.ones(2, 16, dtype=torch.int64)
    if task == "export":
        model = bert(torch)
        weights = sum(p.numel() * p.element_size() for p in model.parameters())
        before = forget_peak()
        start = time.perf_counter()
        if package == "oneflow":
            torch.onnx.export(model, (ids,), path, dynamic_shapes=({0: "batch", 1: "length"},))
        else:
            Dim = torch.export.Dim
            shapes = ({0: Dim("batch"), 1: Dim("length")},)
            torch.onnx.export(model, (ids,), path, dynamo=True, dynamic_shapes=shapes, verbose=False)
        seconds, over = time.perf_counter() - start, high_water_mark() - before
    else:
        # Importing the importer is not what is measured.
        importlib.import_module("oneflow.onnx")
        before = forget_peak()
        start = time.perf_counter()
        model = torch.onnx.load(path)
        seconds, over = time.perf_counter() - start, high_water_mark() - before
        weights = sum(t.numel() * t.element_size() for t in model.state_dict().values())
        over -= weights
    print(json.dumps({"seconds": seconds, "memory": over / weights}))


def measured(package: str, task: str, path: pathlib.Path, packages: list[str]) -> dict[str, float] | None:
    """The answer of a process; None if it failed."""
    code = f"import sys; sys.path += {packages!r}; from benches import interchange as i; i.child(*sys.argv[1:])"
    done = subprocess.run([sys.executable, "-c", code, package, task, path], capture_output=True, text=True)
    if done.returncode:
        print(f"{package} cannot {task}: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return None
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--packages", nargs="*", default=[], help="folders with onnx and onnxscript")
    given = parser.parse_args()
    ours: dict[str, list[dict[str, float]]] = {task: [] for task in AIMS}
    theirs: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        path, their_path = pathlib.Path(folder, "ours.onnx"), pathlib.Path(folder, "theirs.onnx")
        for _ in range(given.rounds):
            for task in AIMS:
                found = measured("oneflow", task, path, given.packages)
                if found is None:
                    raise SystemExit(1)
                ours[task].append(found)
            if (found := measured("torch", "export", their_path, given.packages)) is not None:
                theirs.append(found)
    for task, (most_seconds, most_memory) in AIMS.items():
        seconds, memory = (statistics.median(m[key] for m in ours[task]) for key in ("seconds", "memory"))
        print(f"{task}: {seconds:.2f} s (aim {most_seconds}), {memory:.2f} of the weights (aim {most_memory})")
    if theirs:
        ratio = statistics.median(m["seconds"] for m in ours["export"]) / statistics.median(
            m["seconds"] for m in theirs
        )
        print(f"export: {ratio:.3f} of PyTorch's time")


if __name__ == "__main__":
    main()
