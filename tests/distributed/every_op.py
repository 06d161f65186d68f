"""Every op under every row of its SBP rule, on real processes: values and gradients, eager and in nn.Graph.

``python -m distributed.every_op --ranks 2`` (``make every-op``) starts the processes, which share nothing but a port,
and prints what differs from one process without placements. Inputs of a row lie as the row says; beside the rows, all
inputs of a sample are split along a dimension, or partial, which brings in what the op does when no row fits. Partial
values are uneven shares, so that a rule that only holds for zeros is found; dimensions may be smaller than the mesh.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import oneflow
from distributed.processes import environment, free_port, torchrun
from oneflow import _oneflow
from ops.op_samples import TABLE, build, leaves

# Layouts themselves, and results that are whatever the memory held.
LAYOUTS = {"to_global", "global_to_global", "local_to_global", "to_local", "_box", "_box_axis", "_cross_send"}
LAYOUTS |= {"_cross_receive"}
UNDEFINED = {"empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided"}
# Bits, which change with the rounding of sums of partial values.
BITS = {"view.dtype"}
TOLERANCE = {"float64": 1e-9, "complex128": 1e-9, "float32": 1e-4, "complex64": 1e-4, "bfloat16": 2e-2, "float16": 2e-3}


class Case(NamedTuple):
    """A sample of an op and a layout for each of its tensors."""

    op: str
    sample: int
    layout: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.op} sample {self.sample} [{', '.join(self.layout)}]"


def _sizes(described: Any) -> list[tuple[str, list[int]]]:
    """dtype and sizes of each tensor of a sample."""
    if isinstance(described, tuple) and described and described[0] == "tensor":
        return [(described[1], list(described[2]))]
    if isinstance(described, tuple) and described and described[0] == "list":
        return [t for item in described[1] for t in _sizes(item)]
    return []


def _by_signature(name: str, kwargs: dict[str, Any]) -> list[str]:
    text = TABLE[name]["signature"]
    return sorted(kwargs, key=lambda key: m.start() if (m := re.search(rf"\b{key}\b[=,)]", text)) else 0)


def cases(names: list[str] | None = None) -> Iterator[Case]:
    """All of them, in the order of the table."""
    for name in names or list(TABLE):
        if name in LAYOUTS | UNDEFINED | BITS or caller(name) is None:
            continue
        rows = _oneflow._C._rows(name)
        for i, (args, kwargs) in enumerate(_oneflow._C._samples(name)):
            tensors = [t for a in [*args, *(kwargs[k] for k in _by_signature(name, kwargs))] for t in _sizes(a)]
            if not tensors:
                continue
            found = {tuple(row): None for row in rows[i]}
            for dim in (0, 1):
                found[tuple(f"S({dim})" if len(sizes) > dim else "B" for _, sizes in tensors)] = None
            found[tuple("P" if dtype.startswith("float") else "B" for dtype, _ in tensors)] = None
            for row in found:
                # The public partial value is a sum, and bools have none.
                bools = any(s == "P" and dtype == "bool" for s, (dtype, _) in zip(row, tensors, strict=True))
                if not bools and not any(s.startswith("P(") for s in row):
                    yield Case(name, i, row)


def caller(name: str) -> Callable[..., Any] | None:
    """How a user reaches the op; methods first, since they need no module."""
    op = TABLE[name]
    public, faces = op["public"], op["faces"]
    if "private" in faces:
        return getattr(_oneflow._C, public, None)
    if "nn" in faces or "function" in faces:
        found = getattr(oneflow, public, None) if "function" in faces else None
        return found or getattr(_oneflow, public, None)
    method = f"{public}_" if faces == ["inplace"] or "method" not in faces else public
    if not hasattr(oneflow.Tensor, method):
        return None
    return lambda x, *args, **kwargs: getattr(x, method)(*args, **kwargs)


class _Bound:
    """The arguments of a sample, whose tensors can be replaced."""

    def __init__(self, case: Case, dtype: str) -> None:
        described = _oneflow._C._samples(case.op)[case.sample]
        self.args, kwargs = build(oneflow, described, dtype, "contiguous", seed=case.sample)
        self.kwargs = {key: kwargs[key] for key in _by_signature(case.op, kwargs)}
        self.writes = case.op.endswith("_") or TABLE[case.op]["faces"] == ["inplace"]
        self.function = caller(case.op)

    def tensors(self) -> list[Any]:
        found: list[Any] = []
        self._map(lambda t: found.append(t) or t)
        return found

    def _map(self, change: Callable[[Any], Any]) -> tuple[list[Any], dict[str, Any]]:
        def one(a: Any) -> Any:
            if isinstance(a, oneflow.Tensor):
                return change(a)
            return [one(i) for i in a] if isinstance(a, list) else a

        return [one(a) for a in self.args], {key: one(a) for key, a in self.kwargs.items()}

    def call(self, tensors: list[Any]) -> list[Any]:
        """The results, and what was written, with ``tensors`` in place of the sample's own."""
        if self.writes:
            tensors = [t.clone() for t in tensors]
        left = iter(tensors)
        args, kwargs = self._map(lambda _: next(left))
        results = leaves(self.function(*args, **kwargs))
        return results + (tensors if self.writes else [])


def _is_float(t: Any) -> bool:
    return isinstance(t, oneflow.Tensor) and (t.is_floating_point() or t.is_complex())


def _weights(results: list[Any]) -> list[Any]:
    """One for each result that has a gradient, as real numbers; ``None`` for the others."""
    out = []
    for i, t in enumerate(results):
        if not _is_float(t) or not t.requires_grad:
            out.append(None)
            continue
        shape = (*t.shape, 2) if t.is_complex() else tuple(t.shape)
        values = np.random.default_rng(i).uniform(0.5, 1.5, shape)
        real = {oneflow.complex64: oneflow.float32, oneflow.complex128: oneflow.float64}.get(t.dtype, t.dtype)
        out.append(oneflow.tensor(values, dtype=oneflow.float64).to(real))
    return out


def values_and_gradients(bound: _Bound, tensors: list[Any], weigh: Callable[[list[Any]], list[Any]]) -> Any:
    """Results, and the gradients of their weighted sum for each float input; ``None`` if nothing has one."""
    inputs = [t for t in tensors if _is_float(t)]
    results = bound.call(tensors)
    total = None
    for t, w in zip(results, weigh(results), strict=True):
        if w is not None:
            term = ((oneflow.view_as_real(t.resolve_conj()) if t.is_complex() else t) * w).sum()
            total = term if total is None else total + term
    gradients = None
    if total is not None and inputs and total.requires_grad:
        gradients = list(oneflow.autograd.grad(total, inputs, allow_unused=True))
    return results, gradients


def _leaf(t: Any) -> Any:
    return t.detach().requires_grad_() if _is_float(t) else t


def _constant(t: Any) -> Any:
    return t.detach()


class Rank:
    """What one process does."""

    def __init__(self, modes: list[str], parts: str = "balanced") -> None:
        self.n, self.rank = oneflow.distributed.get_world_size(), oneflow.distributed.get_rank()
        self.placement = oneflow.placement("cpu", list(range(self.n)), parts=parts)
        self.modes = modes
        self.n_checked = dict.fromkeys(["value", "gradient", "graph value", "graph gradient"], 0)
        self.skipped: dict[str, str] = {}

    def spread(self, t: Any, layout: str) -> Any:
        """A leaf whose value is ``t``, in a layout."""
        if layout == "B":
            return t.to_global(placement=self.placement, sbp=oneflow.sbp.broadcast)
        if layout == "P":
            noise = [oneflow.tensor(self._noise(t, r)).to(t.dtype) for r in range(1, self.n)]
            local = t - sum(noise) if self.rank == 0 else noise[self.rank - 1]
            return local.to_global(placement=self.placement, sbp=oneflow.sbp.partial_sum)
        dim = int(layout[2:-1])
        local = t.narrow(dim, *self.placement._part(t.shape[dim], 0, self.rank)).clone()
        return local.to_global(placement=self.placement, sbp=oneflow.sbp.split(dim))

    def _noise(self, t: Any, rank: int) -> Any:
        """Whole numbers, exact in every dtype."""
        return ((np.arange(t.numel()) * 7 + rank * 3) % 5 - 1.0).reshape(tuple(t.shape))

    def whole(self, t: Any) -> Any:
        """The logical value of a result."""
        if not isinstance(t, oneflow.Tensor) or not t.is_global:
            return t
        return t.detach().to_global(placement=self.placement, sbp=oneflow.sbp.broadcast).to_local()

    def check(self, case: Case) -> list[str]:
        """What is wrong with a case."""
        dtype, local, expected, error, leaf = self._reference(case)
        if expected is None:
            self.skipped[case.op] = f"one process: {error}"
            return []
        wrong = []
        weights = [w if w is None else self.spread(w, "B") for w in _weights(expected[0])]
        for mode in self.modes:
            bound = _Bound(case, dtype)
            spread = [self.spread(t, s) for t, s in zip(bound.tensors(), case.layout, strict=True)]
            prefix = "graph " if mode == "graph" else ""
            oneflow.manual_seed(7)
            try:
                if mode == "graph":
                    found = self._in_graph(bound, spread, lambda _: weights, leaf)
                else:
                    found = values_and_gradients(bound, [leaf(t) for t in spread], lambda _: weights)
                wrong += self._compare(prefix, found, expected, local)
            except Exception as e:
                if mode == "graph" and (reason := self._no_graph(case, dtype, _weights(expected[0]), leaf)):
                    self.skipped[f"{case.op} (graph)"] = reason
                    continue
                wrong.append(f"{prefix}raises {type(e).__name__}: {str(e)[:300]}")
        return [f"{case} on {self.n} ranks: {text}" for text in wrong]

    def _reference(self, case: Case) -> tuple[str, list[Any], Any, Any, Callable[[Any], Any]]:
        """A dtype, inputs and results of one process, and how leaves are made: with gradients where the op has them."""
        error: Any = None
        for dtype, leaf in [("float64", _leaf), ("float32", _leaf), ("float64", _constant), ("float32", _constant)]:
            bound = _Bound(case, dtype)
            tensors = [leaf(t) for t in bound.tensors()]
            oneflow.manual_seed(7)
            try:
                return dtype, tensors, values_and_gradients(bound, tensors, _weights), None, leaf
            except Exception as e:
                error = error or f"{type(e).__name__}: {str(e)[:120]}"
        return "", [], None, error, _constant

    def _in_graph(
        self,
        bound: _Bound,
        tensors: list[Any],
        weigh: Callable[[list[Any]], list[Any]],
        leaf: Callable[[Any], Any],
    ) -> Any:
        plain: dict[int, Any] = {}
        shape: dict[str, Any] = {}

        class Program(oneflow.nn.Graph):  # type: ignore[misc]
            def build(self, *given: Any) -> Any:
                results, gradients = values_and_gradients(bound, [leaf(t) for t in given], weigh)
                # What is no tensor cannot come out of a program.
                plain.update({i: t for i, t in enumerate(results) if not isinstance(t, oneflow.Tensor)})
                shape.update(n=len(results), gradients=gradients and [g is not None for g in gradients])
                there = [t for t in results if isinstance(t, oneflow.Tensor)]
                return (*there, *[g for g in gradients or [] if g is not None])

        out = iter(leaves(Program()(*tensors)))
        results = [plain[i] if i in plain else next(out) for i in range(shape["n"])]
        known = shape["gradients"]
        return results, known and [next(out) if there else None for there in known]

    def _no_graph(self, case: Case, dtype: str, weights: list[Any], leaf: Callable[[Any], Any]) -> str | None:
        """Why one process cannot trace it either."""
        bound = _Bound(case, dtype)
        try:
            self._in_graph(bound, bound.tensors(), lambda _: weights, leaf)
        except Exception as e:
            return f"{type(e).__name__}: {str(e)[:120]}"
        return None

    def _compare(self, prefix: str, found: Any, expected: Any, local: list[Any]) -> list[str]:
        wrong = []
        (results, gradients), (their_results, their_gradients) = found, expected
        # Shares of a partial input are rounded to its dtype, whatever the result's is.
        rounding = max([TOLERANCE.get(str(t.dtype).rpartition(".")[2], 0.0) for t in local], default=0.0)
        pairs = [(f"{prefix}value", i, a, b) for i, (a, b) in enumerate(zip(results, their_results, strict=True))]
        if (gradients is None) != (their_gradients is None):
            return [f"{prefix}gradient: {gradients} against {their_gradients}"]
        for i, (a, b) in enumerate(zip(gradients or [], their_gradients or [], strict=True)):
            if (a is None) != (b is None):
                # No gradient at all is a gradient of zeros.
                there = a if b is None else b
                if oneflow.count_nonzero(self.whole(there)):
                    wrong.append(f"{prefix}gradient {i}: {a} against {b}")
            elif a is not None:
                pairs.append((f"{prefix}gradient", i, a, b))
        for what, i, a, b in pairs:
            self.n_checked[what] += 1
            a = self.whole(a)
            if not isinstance(b, oneflow.Tensor):
                if a != b:
                    wrong.append(f"{what} {i}: {a!r} against {b!r}")
                continue
            if a.dtype != b.dtype or a.shape != b.shape:
                wrong.append(f"{what} {i}: {a.dtype} {tuple(a.shape)} against {b.dtype} {tuple(b.shape)}")
                continue
            x, y = _numbers(a), _numbers(b)
            name = str(b.dtype).rpartition(".")[2]
            tolerance = max(TOLERANCE.get(name, 0.0), rounding if name in TOLERANCE else 0.0)
            if not np.allclose(x, y, rtol=tolerance, atol=tolerance, equal_nan=True):
                wrong.append(f"{what} {i}: {x.ravel()[:6]} against {y.ravel()[:6]}")
        return wrong


def _numbers(t: Any) -> Any:
    t = t.detach().resolve_conj()
    return (t.float() if t.dtype in (oneflow.bfloat16, oneflow.float16) else t).numpy()


def chosen(names: list[str] | None, seed: int | None, a_op: int) -> list[Case]:
    """All cases, or with a seed ``a_op`` of each op."""
    every = list(cases(names))
    if seed is None:
        return every
    draw = random.Random(seed)
    by_op: dict[str, list[Case]] = {}
    for case in every:
        by_op.setdefault(case.op, []).append(case)
    return [case for found in by_op.values() for case in draw.sample(found, min(a_op, len(found)))]


def _rank(options: argparse.Namespace) -> None:
    """The program of each process: it writes what it found to a file."""
    warnings.simplefilter("ignore")
    oneflow.distributed.init_process_group("gloo", timeout=60)
    rank, done, failures = Rank(options.modes, options.parts), -1, []
    every = chosen(options.names or None, options.seed, options.a_op)
    for done, case in enumerate(every):
        if done < options.start:
            continue
        try:
            failures += rank.check(case)
            # Ranks that go apart are found at the case where they do.
            oneflow.distributed.barrier()
        except Exception as e:
            failures.append(f"{case} on {rank.n} ranks: out of step: {type(e).__name__}: {str(e)[:300]}")
            break
    else:
        done = len(every)
    found = {"next": done + (done < len(every)), "n_cases": len(every), "checked": rank.n_checked}
    Path(f"{options.out}.{rank.rank}").write_text(json.dumps({**found, "skipped": rank.skipped, "failures": failures}))


def run(folder: Path, ranks: int, *arguments: str, seconds: float = 3600) -> dict[str, Any]:
    """Run the cases on ``ranks`` processes, and start them again where they went apart."""
    result: dict[str, Any] = {"n_cases": 0, "checked": {}, "skipped": {}, "failures": []}
    start = 0
    while True:
        port = free_port()
        out = folder / f"found-{start}"
        command = [sys.executable, "-m", "distributed.every_op", *arguments, "--start", str(start), "--out", str(out)]
        paths = os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
        own = [environment(**torchrun(rank, ranks, port), EVERY_OP_RANK=1, PYTHONPATH=paths) for rank in range(ranks)]
        processes = [subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) for env in own]
        try:
            errors = [process.communicate(timeout=seconds)[1] for process in processes]
        finally:
            for process in processes:
                process.kill()
        codes = [process.returncode for process in processes]
        if any(codes):
            raise RuntimeError(f"processes ended with {codes}:\n" + "\n".join(e[-2000:] for e in errors))
        found = [json.loads(Path(f"{out}.{rank}").read_text()) for rank in range(ranks)]
        result["n_cases"] = found[0]["n_cases"]
        result["skipped"] |= found[0]["skipped"]
        for key, n in found[0]["checked"].items():
            result["checked"][key] = result["checked"].get(key, 0) + n
        result["failures"] += list(dict.fromkeys(text for f in found for text in f["failures"]))
        start = max(f["next"] for f in found)
        if start >= result["n_cases"]:
            return result


def main() -> int:
    parser = argparse.ArgumentParser("make every-op", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="ops by their names in the table; all of them if none")
    parser.add_argument("--ranks", type=int, default=2, help="processes (2)")
    parser.add_argument("--seed", type=int, help="a random choice in place of all cases")
    parser.add_argument("--a-op", type=int, default=1, help="with a seed: how many cases of each op (1)")
    parser.add_argument("--modes", nargs="*", default=["eager", "graph"], help="eager, graph or both")
    parser.add_argument("--parts", default="balanced", choices=["balanced", "chunks"], help="of dimensions (balanced)")
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_intermixed_args()
    if os.environ.get("EVERY_OP_RANK"):
        _rank(options)
        return 0
    import tempfile

    given = [*options.names, "--a-op", str(options.a_op), "--modes", *options.modes, "--parts", options.parts]
    given += [] if options.seed is None else ["--seed", str(options.seed)]
    with tempfile.TemporaryDirectory() as folder:
        found = run(Path(folder), options.ranks, *given)
    for name, reason in found["skipped"].items():
        print(f"skipped {name}: {reason}")
    print("\n".join(found["failures"]))
    print(
        f"{found['n_cases']} cases on {options.ranks} processes ({options.parts}), checked {found['checked']}: "
        f"{len(found['failures'])} failures"
    )
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
