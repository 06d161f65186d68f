"""Calls generated from PyTorch's schemas, made in both packages: values, dtypes, shapes, strides, gradients, errors.

``python tests/generated_calls.py [--seconds N] [--seed K] [--only REGEX] [--gradients] [--kinds value,stride]`` draws
arguments by their types for every public function and method that has a schema, and prints what differs, by function
and kind, with an example that can be typed. ``make calls SECONDS=300`` runs it. The same seed draws the same calls.

A call that ends the process, in either package, is listed as `killed`, and its function is left out from there on; an
error that begins with "internal error" is a `panic`, of which a development build sees more (its integers are checked).

It finds families, not verdicts: an error of another class, or a call that PyTorch has no kernel for and this package
has, is listed and need not be a fault.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import random
import re
import signal
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import oneflow
import torch

NAMESPACES = ("", "nn.functional", "special", "linalg", "fft")
DTYPES = "float32 float64 int64 int32 uint8 bool bfloat16 float16 complex64 complex128 int8 int16".split()
USUAL = ("float32", "float32", "float64", "int64")
KINDS = (
    "value dtype shape stride number type count input gradient ours-raises ours-accepts error-class missing "
    "panic killed"
).split()
# `range`, of which a step of zero ends PyTorch's process; draws of random numbers, memory that is not set, settings of
# the process, and what needs objects of other kinds.
LEFT_OUT = re.compile(
    r"_|range$|set_$|empty|new_empty"
    r"|rand|bernoulli|multinomial|normal|uniform|exponential|geometric|cauchy|random|dropout|rrelu|poisson$"
    r"|alpha_dropout|feature_alpha|log_normal|binomial|resize_|quant|mkldnn|cudnn|miopen|sparse|backward|from_file"
    r"|seed|set_num|data$|names|rename|align|share_memory|record_stream|save$|load$|print$|exit|ctc_loss|gru|lstm"
    r"|rnn_|stft|sspaddmm|hspmm|smm$|.*polynomial"
)
TOLERANCE = {
    torch.float16: 2e-3,
    torch.bfloat16: 1.6e-2,
    torch.float32: 2e-5,
    torch.complex64: 2e-5,
    torch.float64: 1e-9,
    torch.complex128: 1e-9,
}
WORDS = "floor trunc mean sum none ij xy prod amax amin linear fro nuc reflect constant".split()
OF_A_DIMENSION = {"dim", "dim0", "dim1", "axis", "axis0", "axis1", "source", "destination", "start_dim", "end_dim"}
FACTORY = {"layout", "device", "pin_memory", "memory_format", "generator", "non_blocking"}


class CannotDraw(Exception):
    """The schema has a type that nothing is drawn for."""


class TooLong(Exception):
    """The call took longer than a call may."""


class Array:
    """A tensor as it is drawn: elements, and how they lie."""

    def __init__(self, draw: random.Random, rank: int, dtype: str) -> None:
        self.shape = [draw.choice((1, 2, 3, 3, 3)) if draw.random() < 0.9 else draw.choice((0, 4)) for _ in range(rank)]
        self.layout = draw.choice(("", "", "", "transposed", "stepped", "expanded"))
        if (rank < 2 and self.layout == "transposed") or rank < 1:
            self.layout = ""
        base = list(self.shape)
        if self.layout == "transposed":
            base[-1], base[-2] = base[-2], base[-1]
        elif self.layout == "stepped":
            base[-1] *= 2
        elif self.layout == "expanded":
            base[0] = 1
        seed = torch.Generator().manual_seed(draw.randrange(1 << 30))
        kind = getattr(torch, dtype)
        if kind.is_floating_point or kind.is_complex:
            wide = torch.randn(base, generator=seed, dtype=torch.complex128 if kind.is_complex else torch.float64)
            if wide.numel() and draw.random() < 0.15:
                wide.view(-1)[draw.randrange(wide.numel())] = draw.choice(
                    (float("nan"), float("inf"), -float("inf"), 0.0)
                )
        else:
            low = 0 if dtype in ("uint8", "bool") or draw.random() < 0.5 else -3
            wide = torch.randint(low, 2 if dtype == "bool" else 4, base, generator=seed)
        self.elements = wide.to(kind)

    def in_both(self, leaves: list[tuple[Any, Any]] | None) -> tuple[Any, Any]:
        theirs, ours = self.elements.clone(), ours_of(self.elements)
        if leaves is not None and (theirs.is_floating_point() or theirs.is_complex()):
            leaves.append((theirs.requires_grad_(), ours.requires_grad_()))
        if self.layout == "transposed":
            return theirs.transpose(-1, -2), ours.transpose(-1, -2)
        if self.layout == "stepped":
            return theirs[..., ::2], ours[..., ::2]
        if self.layout == "expanded":
            return theirs.expand(self.shape), ours.expand(self.shape)
        return theirs, ours

    def __repr__(self) -> str:
        few = f" {self.elements.flatten().tolist()}" if self.elements.numel() < 7 else ""
        return f"<{str(self.elements.dtype)[6:]} {self.shape}{' ' + self.layout if self.layout else ''}{few}>"


class Dtype:
    """A dtype by its name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


def ours_of(t: torch.Tensor) -> Any:
    if t.dtype == torch.bfloat16:
        return oneflow.tensor(t.float().numpy(), dtype=oneflow.bfloat16)
    return oneflow.tensor(t.numpy().copy(), dtype=getattr(oneflow, str(t.dtype)[6:]))


def theirs_of(t: Any) -> torch.Tensor:
    t = t.detach().resolve_conj().resolve_neg()
    return torch.from_numpy(np.array((t.float() if t.dtype == oneflow.bfloat16 else t).numpy(), copy=True))


# ---- arguments


def value(draw: random.Random, type_: Any, name: str, rank: int, dtype: str) -> Any:
    """An argument of a schema's type. Most tensors of a call have one rank and dtype, so that they fit together."""
    text = str(type_)
    if text.startswith("Optional["):
        return None if draw.random() < 0.5 else value(draw, type_.getElementType(), name, rank, dtype)
    if text == "Tensor":
        kind = draw.random()
        other = draw.choice(DTYPES) if draw.random() < 0.5 else draw.choice(USUAL)
        return Array(
            draw, rank if kind < 0.75 else draw.choice((0, 1, 1, 2, 2, 2, 3, 3, 4)), dtype if kind < 0.9 else other
        )
    if text == "List[Tensor]":
        return [Array(draw, rank, dtype) for _ in range(draw.choice((0, 1, 2, 3)))]
    if text == "List[Optional[Tensor]]":
        return [Array(draw, draw.choice((0, 1, 2)), draw.choice(("int64", "bool"))) for _ in range(draw.choice((1, 2)))]
    if text in ("int", "SymInt"):
        if name in OF_A_DIMENSION:
            return draw.randint(-3, 3) if draw.random() < 0.95 else 7
        return draw.choice((0, 1, 1, 2, 2, 3, -1, 5))
    if text in ("number", "Scalar"):
        unusual = (1 + 2j, float("nan"), float("inf"), 300, 1e10) if draw.random() < 0.2 else ()
        return draw.choice((0, 1, 2, -1, 0.5, -1.5, 2.0, True, *unusual))
    if text == "float":
        return draw.choice((0.0, 0.5, 1.0, -1.0, 2.0, 1e-5))
    if text == "bool":
        return draw.random() < 0.5
    if text in ("List[int]", "List[SymInt]"):
        return [draw.choice((0, 1, 1, 2, 3, -1)) for _ in range(draw.choice((0, 1, 1, 2, 2, 3)))]
    if text == "List[float]":
        return [draw.choice((0.5, 1.0, 2.0)) for _ in range(draw.choice((1, 2)))]
    if text == "str":
        return draw.choice(WORDS)
    raise CannotDraw(text)


def arguments(draw: random.Random, schema: Any) -> tuple[list[Any], dict[str, Any]]:
    rank = draw.choice((0, 1, 2, 2, 3, 3, 4))
    dtype = draw.choice(DTYPES) if draw.random() < 0.6 else draw.choice(USUAL)
    placed: list[Any] = []
    named: dict[str, Any] = {}
    for i, a in enumerate(schema.arguments):
        if a.name in FACTORY or (a.has_default_value() and draw.random() < 0.5):
            continue
        if a.name in ("dtype", "out_dtype"):
            drawn = None if draw.random() < 0.6 else Dtype(draw.choice(DTYPES))
        else:
            drawn = value(draw, a.type, a.name, rank, dtype)
        if a.kwarg_only or len(placed) != i or (a.has_default_value() and draw.random() < 0.3):
            named[a.name] = drawn
        else:
            placed.append(drawn)
    return placed, named


def in_both(drawn: Any, leaves: list[tuple[Any, Any]] | None) -> tuple[Any, Any]:
    if isinstance(drawn, Array):
        return drawn.in_both(leaves)
    if isinstance(drawn, Dtype):
        return getattr(torch, drawn.name), getattr(oneflow, drawn.name)
    if isinstance(drawn, list):
        pairs = [in_both(d, leaves) for d in drawn]
        return [p[0] for p in pairs], [p[1] for p in pairs]
    return drawn, drawn


# ---- comparison


def call(function: Any, *args: Any, **kwargs: Any) -> tuple[bool, Any]:
    signal.alarm(10)
    try:
        return True, function(*args, **kwargs)
    except Exception as error:
        return False, error
    finally:
        signal.alarm(0)


def flat(result: Any) -> list[Any]:
    return [x for item in result for x in flat(item)] if isinstance(result, (list, tuple)) else [result]


def difference(theirs: Any, ours: Any) -> tuple[str, str] | None:
    """The kind of a difference between two results, and what it is."""
    if isinstance(theirs, torch.Tensor):
        if not isinstance(ours, oneflow.Tensor):
            return "type", f"a tensor, ours {type(ours).__name__}"
        if theirs.layout != torch.strided or theirs.dtype == torch.complex32:
            return None
        if str(theirs.dtype)[6:] != str(ours.dtype).rpartition(".")[2]:
            return "dtype", f"{theirs.dtype}, ours {ours.dtype}"
        if tuple(theirs.shape) != tuple(ours.shape):
            return "shape", f"{tuple(theirs.shape)}, ours {tuple(ours.shape)}"
        tolerance = TOLERANCE.get(theirs.dtype, 0)
        a, b = theirs.detach().resolve_conj().resolve_neg(), theirs_of(ours)
        if not torch.allclose(
            a.to(b.dtype), b, rtol=tolerance, atol=tolerance, equal_nan=b.dtype.is_floating_point or b.is_complex()
        ):
            return "value", f"{a.flatten()[:6].tolist()}, ours {b.flatten()[:6].tolist()}"
        if theirs.numel() > 1 and theirs.stride() != tuple(ours.stride()):
            return "stride", f"{tuple(theirs.shape)}: {theirs.stride()}, ours {tuple(ours.stride())}"
        return None
    if isinstance(theirs, torch.Size):
        return None if tuple(theirs) == tuple(ours) else ("shape", f"{theirs}, ours {ours}")
    if theirs is None or isinstance(theirs, (bool, int, float, complex, str)):
        if type(theirs) is not type(ours):
            return "type", f"{theirs!r}, ours {ours!r}"
        near = isinstance(theirs, float) and abs(theirs - ours) <= 1e-4 * max(1, abs(theirs))
        if theirs != ours and theirs == theirs and not near:
            return "number", f"{theirs!r}, ours {ours!r}"
    return None


def gradients(theirs: list[Any], ours: list[Any], leaves: list[tuple[Any, Any]]) -> tuple[str, str] | None:
    pairs = [(t, o) for t, o in zip(theirs, ours, strict=True) if isinstance(t, torch.Tensor) and t.requires_grad]

    # What PyTorch marks and has no derivative for has none here.
    def has_both(t: torch.Tensor, o: Any) -> bool:
        return o.requires_grad and t.layout == torch.strided and t.dtype != torch.complex32

    if not pairs or not all(has_both(t, o) for t, o in pairs):
        return None
    ones = [torch.ones_like(t) * 0.75 for t, _ in pairs]
    fine, expected = call(torch.autograd.grad, [t for t, _ in pairs], [x for x, _ in leaves], ones, allow_unused=True)
    if not fine:
        return None
    given = [ours_of(g) for g in ones]
    fine, found = call(oneflow.autograd.grad, [o for _, o in pairs], [x for _, x in leaves], given, allow_unused=True)
    if not fine:
        return "gradient", f"raises {type(found).__name__}: {found}"
    for t, o in zip(expected, found, strict=True):
        if t is not None and o is not None:
            if (what := difference(t, o)) and what[0] != "stride":
                return "gradient", f"{what[0]} {what[1]}"
        elif (t if t is not None else o) is not None and bool((t if t is not None else theirs_of(o)).ne(0).any()):
            return "gradient", "one of them has none"
    return None


def compared(
    theirs: Any, ours: Any, placed: list[Any], named: dict[str, Any], leaves: list[Any] | None
) -> tuple[str, str] | None:
    pairs = [in_both(d, leaves) for d in placed]
    words = {k: in_both(d, leaves) for k, d in named.items()}
    fine, a = call(theirs, *[p[0] for p in pairs], **{k: p[0] for k, p in words.items()})
    if isinstance(a, TooLong):
        return None
    works, b = call(ours, *[p[1] for p in pairs], **{k: p[1] for k, p in words.items()})
    if not fine and not works and "internal error" not in str(b):
        return None if type(a).__name__.strip("_") == type(b).__name__ else ("error-class", f"{a!r}, ours {b!r}")
    if not works:
        return "panic" if "internal error" in str(b) else "ours-raises", repr(b)
    if not fine:
        return "ours-accepts", repr(a)
    theirs_flat, ours_flat = flat(a), flat(b)
    if len(theirs_flat) != len(ours_flat):
        return "count", f"{len(theirs_flat)}, ours {len(ours_flat)}"
    for t, o in zip(theirs_flat, ours_flat, strict=True):
        if what := difference(t, o):
            return what
    for t, o in pairs:
        if isinstance(t, torch.Tensor) and (what := difference(t, o)):
            return "input", f"afterwards: {what[0]} {what[1]}"
    return gradients(theirs_flat, ours_flat, leaves) if leaves else None


# ---- the run


def functions(only: str) -> Iterator[tuple[Any, str, Any, Any]]:
    """The schemas, each with a public name of it in both packages."""
    for schema in torch._C._jit_get_all_schemas():
        base = schema.name.removeprefix("aten::")
        if (
            base == schema.name
            or LEFT_OUT.match(base)
            or any(a.is_out for a in schema.arguments)
            or "Dimname" in str(schema)
        ):
            continue
        for space in (*NAMESPACES, "Tensor"):
            theirs, ours = torch, oneflow
            for part in space.split(".") if space else ():
                theirs, ours = getattr(theirs, part), getattr(ours, part)
            name = base.removeprefix(f"{space}_") if space in ("special", "linalg", "fft") else base
            full = f"{space}.{name}" if space else name
            if callable(getattr(theirs, name, None)) and re.search(only, full):
                yield schema, full, getattr(theirs, name), getattr(ours, name, None)


def calls(draw: random.Random, only: str) -> Iterator[tuple[str, Any, Any, list[Any], dict[str, Any]]]:
    """Calls without end: a name, the function of either package (ours may be None), and what it is called with."""
    work = list(functions(only))
    draw.shuffle(work)
    while work:
        for schema, name, theirs, ours in work:
            try:
                placed, named = arguments(draw, schema)
            except CannotDraw:
                continue
            if not name.startswith("Tensor.") or (placed and isinstance(placed[0], Array)):
                yield name, theirs, ours, placed, named


def run_child(to: Any, options: argparse.Namespace, start: int, end: float, killers: set[str]) -> None:
    """Makes calls from number `start` on, and sends each before it is made and its difference after it."""
    signal.signal(signal.SIGALRM, too_long)
    for i, (name, theirs, ours, placed, named) in enumerate(calls(random.Random(options.seed), options.only)):
        if time.monotonic() > end:
            break
        if i < start or name in killers:
            continue
        text = f"({', '.join([*map(repr, placed), *(f'{k}={v!r}' for k, v in named.items())])})"
        to.send((i, name, text))
        leaves: list[Any] | None = [] if options.gradients and not name.endswith("_") else None
        what = compared(theirs, ours, placed, named, leaves) if ours else ("missing", "")
        if what:
            to.send((what[0], f"{text}  {what[1][:300]}"))
    to.send(None)


def run(options: argparse.Namespace) -> tuple[int, dict[tuple[str, str], list[str]]]:
    """Makes the calls in a child; where a call ends that process, another goes on without this function."""
    found: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    made, start, killers, end = 0, 0, set[str](), time.monotonic() + options.seconds
    forked = multiprocessing.get_context("fork")
    while True:
        source, to = forked.Pipe(duplex=False)
        child = forked.Process(target=run_child, args=(to, options, start, end, killers), daemon=True)
        child.start()
        to.close()
        name = text = ""
        try:
            while message := source.recv():
                if len(message) == 3:
                    start, name, text = message
                    made += 1
                else:
                    found[name, message[0]].append(message[1])
            child.join()
            return made, found
        except EOFError:
            child.join()
            found[name, "killed"].append(f"{text}  exit code {child.exitcode}")
            killers.add(name)
            start += 1


def too_long(*_: Any) -> None:
    raise TooLong


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="functions whose name has a match")
    parser.add_argument("--gradients", action="store_true", help="compare gradients too")
    parser.add_argument("--kinds", default="", help=f"what to print of {','.join(KINDS)}; all by default")
    options = parser.parse_args()
    wanted = options.kinds.split(",") if options.kinds else KINDS
    if unknown := set(wanted) - set(KINDS):
        parser.error(f"unknown kinds {sorted(unknown)}: known are {KINDS}")
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    made, found = run(options)
    for (name, kind), examples in sorted(found.items()):
        if kind in wanted:
            print(f"{name} [{kind}, {len(examples)} times]\n    {examples[0]}")
    counts = collections.Counter(kind for _, kind in found)
    print(
        f"{made} calls; functions that differ: " + ", ".join(f"{kind} {counts[kind]}" for kind in KINDS if counts[kind])
    )


if __name__ == "__main__":
    main()
