"""Loads and runs damaged model files: each ends in a result or a clear error, in bounded memory, and writes nothing.

``python tests/mutated_files.py KIND [--count N] [--start K]`` with KIND ``onnx``, ``archives`` (``.pt2``) or
``programs`` (directories of compiled programs); by default all three. ``make mutated COUNT=100000`` runs them.

A case is a number: it says which model is damaged, and how. Cases run in worker processes, so that a crash, a hang or
an allocation without bounds is one finding among others. A worker has a limit of memory, and hooks that refuse writes,
processes and sockets. The exit status is 1 if there are findings.
"""

from __future__ import annotations

import argparse
import collections
import io
import json
import os
import random
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

KINDS = ("onnx", "archives", "programs")
# What a file that is wrong may raise. Others (KeyError, AttributeError) say nothing about the file.
CLEAR = (ValueError, RuntimeError, TypeError, IndexError, NotImplementedError, MemoryError)
# Bytes of address space beyond what a worker has after its imports, and seconds for a case.
MEMORY = 3 << 30
SECONDS = 20
CASES_A_WORKER = 10_000


# ---- damage


def of_bytes(draw: random.Random, data: bytes) -> bytes:
    """One to four changes of bytes."""
    made = bytearray(data)
    for _ in range(draw.choice((1, 1, 1, 2, 4))):
        if not made:
            break
        at = draw.randrange(len(made))
        kind = draw.randrange(8)
        if kind == 0:
            made[at] ^= 1 << draw.randrange(8)
        elif kind == 1:
            made[at] = draw.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif kind == 2:
            del made[at : at + draw.choice((1, 1, 2, 8, 100))]
        elif kind == 3:
            made[at:at] = bytes(draw.randrange(256) for _ in range(draw.choice((1, 2, 8))))
        elif kind == 4:
            # A number of ten bytes, the longest there is, or a longer one.
            made[at:at] = b"\xff" * draw.choice((4, 8, 9, 12)) + b"\x01"
        elif kind == 5:
            size = draw.randrange(1, 64)
            source = draw.randrange(len(made))
            made[at:at] = made[source : source + size]
        elif kind == 6:
            width = draw.choice((4, 8))
            made[at : at + width] = draw.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 62, (1 << 64) - 1)).to_bytes(
                8, "little"
            )[:width]
        else:
            del made[at:]
    return bytes(made)


_NUMBERS = (0, 1, 2, 3, 7, 64, -1, -2, 1 << 20, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, -(1 << 63))
_VALUES = (None, -1, 0, 1, 1 << 40, 1 << 70, "", "x", "../../x", [], {}, 0.5, float("inf"), True, [0] * 9)


def of_tree(draw: random.Random, tree: Any) -> Any:
    """A JSON tree with one to three changes: a value is replaced, removed, or stands in another place too."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        spots: list[tuple[Any, Any]] = []
        stack = [tree]
        while stack:
            node = stack.pop()
            for key in list(node) if isinstance(node, dict) else range(len(node)) if isinstance(node, list) else ():
                spots.append((node, key))
                stack.append(node[key])
        if not spots:
            break
        node, key = draw.choice(spots)
        kind = draw.randrange(6)
        if kind == 0:
            del node[key]
        elif kind == 1:
            other, at = draw.choice(spots)
            # A copy: a tree that holds itself is no JSON.
            node[key] = (
                json.loads(json.dumps(other[at])) if at in other or (isinstance(other, list) and at < len(other)) else 0
            )
        elif isinstance(node[key], int) and not isinstance(node[key], bool) and kind < 5:
            node[key] = draw.choice((*_NUMBERS, node[key] + 1, node[key] - 1))
        else:
            node[key] = json.loads(json.dumps(draw.choice(_VALUES)))
    return tree


def of_message(draw: random.Random, message: Any) -> None:
    """One to three changes in a protobuf message: numbers, names, kinds, repeated and missing parts."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        found: list[tuple[Any, Any]] = []
        stack = [message]
        while stack:
            part = stack.pop()
            for field, value in part.ListFields():
                found.append((part, field))
                if field.message_type is not None:
                    stack.extend(value if field.is_repeated else [value])
        if not found:
            return
        part, field = draw.choice(found)
        if field.is_repeated:
            items = getattr(part, field.name)
            at = draw.randrange(len(items))
            kind = draw.randrange(4)
            if kind == 0:
                del items[at]
            elif field.message_type is not None:
                if kind == 1:
                    items.add().CopyFrom(items[at])
                elif kind == 2 and len(items) > 1:
                    items[at].CopyFrom(items[draw.randrange(len(items))])
                else:
                    of_message(draw, items[at])
            else:
                value = _other(draw, field, items[at], message)
                items.append(value) if kind == 1 else items.__setitem__(at, value)
        elif field.message_type is not None:
            part.ClearField(field.name) if draw.randrange(3) == 0 else of_message(draw, getattr(part, field.name))
        elif draw.randrange(4) == 0:
            part.ClearField(field.name)
        else:
            setattr(part, field.name, _other(draw, field, getattr(part, field.name), message))


def _other(draw: random.Random, field: Any, value: Any, message: Any) -> Any:
    """Another value of a scalar field."""
    if isinstance(value, float):
        return draw.choice((0.0, -1.0, 1e30, float("nan"), float("inf"), value * 2))
    if isinstance(value, bytes):
        return of_bytes(draw, value) if len(value) < 1 << 16 else value[: draw.randrange(len(value))]
    if isinstance(value, str):
        texts = ["", "x", "../x", value + "x", "a" * 300, *_texts(message)]
        return draw.choice(texts)
    if field.enum_type is not None:
        return draw.choice([v.number for v in field.enum_type.values])
    low, high = (-(1 << 31), (1 << 31) - 1) if "32" in _NAMES.get(field.type, "32") else (-(1 << 63), (1 << 63) - 1)
    low = 0 if _NAMES.get(field.type, "").startswith("u") else low
    return min(max(draw.choice((*_NUMBERS, int(value) + 1, int(value) - 1, int(value) * 2)), low), high)


# The kinds of whole numbers that ONNX has, by the number that protobuf gives a field's type.
_NAMES = {3: "int64", 4: "uint64", 5: "int32", 13: "uint32"}


def _texts(message: Any) -> list[str]:
    graph = getattr(message, "graph", None)
    if graph is None:
        return []
    found = [n for node in graph.node for n in (*node.input, *node.output, node.op_type)]
    return found[:50] + [i.name for i in graph.initializer[:20]]


# ---- models


class Onnx:
    """Models of ONNX's own suite with their inputs, damaged as bytes or as messages."""

    def __init__(self, folder: Path) -> None:
        sys.path.insert(0, str(Path(__file__).parent))
        from interchange import conftest

        conftest.pytest_configure()
        import oneflow.onnx.backend  # noqa: F401  (imports while writes are allowed)
        from onnx_backend_suite import _data, cases

        self.models: list[tuple[str, bytes, list[Any]]] = []
        for kind in ("node", "pytorch-converted", "pytorch-operator", "simple"):
            for case in cases(kind):
                model = self._of(case)
                if model is not None and len(model.SerializeToString()) < 1 << 18:
                    try:
                        inputs = [value for value, _ in _data(case, model)[:1]]
                    except Exception:
                        inputs = []
                    self.models.append((case.name, model.SerializeToString(), inputs[0] if inputs else []))
        self.folder = folder

    @staticmethod
    def _of(case: Any) -> Any:
        import onnx

        if case.model is not None:
            return case.model
        path = os.path.join(case.model_dir, "model.onnx")
        return onnx.load(path) if os.path.exists(path) else None

    def run(self, draw: random.Random) -> None:
        import oneflow
        import onnx

        _, data, inputs = draw.choice(self.models)
        if draw.randrange(2):
            data = of_bytes(draw, data)
        else:
            model = onnx.ModelProto.FromString(data)
            of_message(draw, model)
            data = model.SerializeToString()
        model = oneflow.onnx.load(data).eval()
        with oneflow.no_grad():
            model(*[oneflow.from_numpy(a) if hasattr(a, "dtype") and a.dtype.kind in "biufc" else a for a in inputs])


class Archives:
    """Exported programs of several kinds as ``.pt2`` files, damaged as bytes or in their JSON."""

    def __init__(self, folder: Path) -> None:
        self.archives = list(_programs())

    def run(self, draw: random.Random) -> None:
        import oneflow

        data, args = draw.choice(self.archives)
        if draw.randrange(3) == 0:
            data = of_bytes(draw, data)
        else:
            source = zipfile.ZipFile(io.BytesIO(data))
            names = source.namelist()
            target = draw.choice([n for n in names if n.endswith(".json")] * 3 + names)
            out = io.BytesIO()
            with zipfile.ZipFile(out, "w") as made:
                for name in names:
                    content = source.read(name)
                    if name == target and name.endswith(".json") and draw.randrange(5):
                        content = json.dumps(of_tree(draw, json.loads(content))).encode()
                    elif name == target:
                        content = of_bytes(draw, content)
                    made.writestr(name, content)
            data = out.getvalue()
        program = oneflow.export.load(io.BytesIO(data)).module()
        with oneflow.no_grad():
            program(*args)


def _programs() -> Iterator[tuple[bytes, tuple[Any, ...]]]:
    """Archives with their example inputs: layers, dimensions and guards, writes, nests, constants."""
    import oneflow as flow
    from oneflow import nn

    class Guarded(nn.Module):
        def forward(self, x: Any) -> Any:
            return x[: x.shape[0] // 2].sum(0) if x.shape[0] > 3 else x

    class Nested(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("seen", flow.zeros(1))
            self.table = flow.arange(6)

        def forward(self, x: Any, more: Any, n: int) -> Any:
            self.seen += 1
            return {"a": x.reshape(-1, 2)[:, 0] * n, "b": [more["y"] + self.table, self.seen.clone()]}

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.qkv, self.norm = nn.Linear(8, 24), nn.LayerNorm(8)

        def forward(self, x: Any) -> Any:
            b, n, _ = x.shape
            q, k, v = self.qkv(self.norm(x)).view(b, n, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
            return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, 8)

    image = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 3)
    )
    both = ({0: "batch", 1: "length"},)
    cases: list[tuple[Any, tuple[Any, ...], Any]] = [
        (nn.Linear(3, 2), (flow.ones(4, 3),), ({0: "batch"},)),
        (Guarded(), (flow.ones(8, 2),), ({0: "n"},)),
        (Nested(), (flow.ones(2, 4), {"y": flow.arange(6)}, 3), None),
        (Attention(), (flow.ones(2, 5, 8),), both),
        (image.eval(), (flow.ones(2, 3, 8, 8),), ({0: "batch"},)),
        (nn.Sequential(nn.Embedding(9, 4), nn.GRU(4, 3, batch_first=True)), (flow.ones(2, 5, dtype=flow.int64),), None),
    ]
    for model, args, shapes in cases:
        out = io.BytesIO()
        flow.export.save(flow.export.export(model.eval(), args, dynamic_shapes=shapes), out)
        yield out.getvalue(), args


class Programs:
    """Directories of compiled programs: plan, weights and structure, damaged as bytes or in their JSON."""

    def __init__(self, folder: Path) -> None:
        import oneflow

        self.folder = folder
        self.programs: list[tuple[dict[str, bytes], tuple[Any, ...]]] = []
        for i, (data, args) in enumerate(_programs()):
            made = folder / f"whole{i}"
            oneflow.export.save_program(oneflow.export.load(io.BytesIO(data)), made, args)
            self.programs.append(({p.name: p.read_bytes() for p in made.iterdir()}, args))

    def run(self, draw: random.Random) -> None:
        import oneflow

        files, args = draw.choice(self.programs)
        target = draw.choice(["plan.bin"] * 4 + list(files))
        for name, content in files.items():
            if name == target and name.endswith(".json") and draw.randrange(2):
                content = json.dumps(of_tree(draw, json.loads(content))).encode()
            elif name == target:
                content = of_bytes(draw, content)
            (self.folder / name).write_bytes(content)
        Watch.on = True
        oneflow.load(self.folder)(*args)


# ---- a worker


class Watch:
    """Refuses what no model file may do."""

    on = False
    seen: str | None = None
    _REFUSED = (
        "os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
        "os.system", "os.exec", "os.fork", "os.posix_spawn", "subprocess.Popen", "socket.connect", "socket.bind",
        "shutil.", "ctypes.dlopen",
    )  # fmt: skip

    @classmethod
    def hook(cls, event: str, args: tuple[Any, ...]) -> None:
        if not cls.on:
            return
        writes = event == "open" and isinstance(args[1], str) and set(args[1]) & set("wax+")
        flags = (
            event == "open"
            and args[1] is None
            and isinstance(args[2], int)
            and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        )
        if writes or flags or event.startswith(cls._REFUSED):
            cls.seen = f"{event}{args}"[:200]
            raise PermissionError(f"a model file does {cls.seen}")


class TooLong(BaseException):
    pass


def work(kind: str, start: int, end: int, folder: Path) -> None:
    """Run cases; print ``case outcome`` lines."""
    warnings.simplefilter("ignore")
    import oneflow

    oneflow.set_num_threads(1)
    cases = {"onnx": Onnx, "archives": Archives, "programs": Programs}[kind](folder)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    sys.addaudithook(Watch.hook)

    def late(*_: Any) -> None:
        raise TooLong

    signal.signal(signal.SIGALRM, late)
    for case in range(start, end):
        print(case, "begins", flush=True)
        draw = random.Random(f"{kind} {case}")
        Watch.seen, Watch.on = None, kind != "programs"
        signal.alarm(SECONDS)
        try:
            cases.run(draw)
            outcome = "runs"
        except TooLong:
            outcome = "finding it takes longer than 20 seconds"
        except CLEAR as error:
            text = str(error).strip()
            outcome = f"refused {type(error).__name__}" if text else f"finding {type(error).__name__} without a text"
        except BaseException as error:
            if isinstance(error, AssertionError) and str(error).startswith("Guard failed"):
                # What an exported program says of inputs that it was not made for.
                outcome = "refused AssertionError"
            else:
                frame = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{os.path.basename(frame.filename)}:{frame.lineno}"
                outcome = f"finding {type(error).__name__}: {error} ({place})".replace("\n", " ")[:300]
        finally:
            signal.alarm(0)
            Watch.on = False
        if Watch.seen is not None:
            outcome = f"finding it does {Watch.seen}"
        print(case, outcome, flush=True)


# ---- the parent


def _environment() -> dict[str, str]:
    """The paths of modules from any folder."""
    return os.environ | {"PYTHONPATH": os.pathsep.join(os.path.abspath(p) for p in sys.path if p)}


def outcomes(
    kind: str, start: int, count: int, tell: Callable[[str], None] = lambda text: None
) -> tuple[collections.Counter[str], list[str]]:
    """How many cases end in which way, and what was found, with the number of the case."""
    counts: collections.Counter[str] = collections.Counter()
    findings: list[str] = []
    case, end = start, start + count
    while case < end:
        last, done = case, False
        with tempfile.TemporaryDirectory() as folder:
            upto = min(end, case + CASES_A_WORKER)
            command = [sys.executable, os.path.abspath(__file__), kind, "--worker", str(case), str(upto), folder]
            # A pipe for errors could fill up and stop the worker.
            errors = open(os.path.join(folder, "errors"), "w+b")
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, cwd=folder, env=_environment())
            assert process.stdout is not None
            pipe, rest, began, hung = process.stdout.fileno(), b"", False, False
            # A loop in compiled code does not hear the alarm.
            while not hung:
                ready, _, _ = select.select([pipe], [], [], 180)
                read = os.read(pipe, 1 << 16) if ready else b""
                if not read:
                    hung = not ready
                    break
                *lines, rest = (rest + read).split(b"\n")
                for line in lines:
                    number, outcome = line.decode().split(" ", 1)
                    last, began = int(number), outcome == "begins"
                    if not began:
                        counts["finding" if outcome.startswith("finding") else outcome] += 1
                        if outcome.startswith("finding"):
                            findings.append(f"{kind} {number}: {outcome[8:]}")
                            tell(findings[-1])
                        done = last == upto - 1
            process.kill() if hung else None
            process.wait()
            process.stdout.close()
            errors.seek(0)
            said = errors.read().decode(errors="replace")[-1500:]
            errors.close()
            if not done:
                if not began:
                    raise RuntimeError(f"the worker does not go on: {said}")
                how = "it hangs" if hung else f"the process ends with {process.returncode}: {said}"
                findings.append(f"{kind} {last}: {how}")
                tell(findings[-1])
                counts["crash"] += 1
            case = last + 1
        tell(f"{kind}: {case - start} of {count}, {dict(counts)}")
    return counts, findings


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("kind", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--worker", nargs=3, metavar=("START", "END", "FOLDER"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        start, end, folder = given.worker
        work(given.kind[0], int(start), int(end), Path(folder))
        return 0
    found: list[str] = []
    for kind in given.kind:
        began = time.monotonic()
        counts, findings = outcomes(kind, given.start, given.count, lambda text: print(text, flush=True))
        found += findings
        print(
            f"{kind}: {given.count} files in {time.monotonic() - began:.0f} s: {dict(counts)}, {len(findings)} findings"
        )
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
