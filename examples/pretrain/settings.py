"""The settings of a run: a TOML file, changes on the command line, and defaults for whatever neither names."""

from __future__ import annotations

import ast
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from oneflow.models import ParallelLayout

KINDS = ("gpt2", "llama", "moe_llama", "bert", "t5", "vit", "swin")
PICTURES = ("vit", "swin")


@dataclass
class Model:
    """``kind`` is one of KINDS; all other keys are fields of its config in ``oneflow.models``."""

    kind: str = "gpt2"
    sizes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Layout:
    """The arguments of ``oneflow.models.ParallelLayout``."""

    dp: int = 1
    tp: int = 1
    cp: int = 1
    ep: int = 1
    recompute: bool = False
    sequence_parallel: bool = False
    vocabulary_parallel: bool = False
    async_tp: bool = False
    context: str = "ring"
    pp: int = 1
    virtual: int = 1
    schedule: str = "1F1B"
    micro_batches: int = 1
    zero: int = 0

    def parallel(self) -> ParallelLayout:
        return ParallelLayout(**asdict(self))


@dataclass
class Data:
    """Bytes of a file, or of the files of a folder by name; Python's standard library without a path. Models of
    pictures see handwritten digits.

    ``time`` is the length of a text in bytes; every tenth part of the text is held out.
    """

    path: str = ""
    time: int = 128


@dataclass
class Train:
    """``graph`` compiles the step, ``bias_rate`` moves the biases of routers (``balance_experts``).

    The learning rate falls over ``steps``; ``stop`` ends earlier, to go on with ``--resume``.
    """

    steps: int = 2500
    stop: int = 0
    batch_size: int = 16
    lr: float = 2e-3
    warmup: int = 100
    weight_decay: float = 0.1
    max_norm: float = 1.0
    seed: int = 0
    graph: bool = False
    bf16: bool = False
    bias_rate: float = 0.0
    threads: int = 0


@dataclass
class Output:
    """Where results go. ``tensorboard`` writes event files; by default where the package is installed."""

    folder: str = "target/pretrain"
    evaluate_every: int = 250
    evaluate_batches: int = 8
    checkpoint_every: int = 500
    tensorboard: bool | None = None
    sample: int = 200


@dataclass
class Settings:
    """All of a run, a table of the file each."""

    model: Model = field(default_factory=Model)
    layout: Layout = field(default_factory=Layout)
    data: Data = field(default_factory=Data)
    train: Train = field(default_factory=Train)
    output: Output = field(default_factory=Output)

    def __post_init__(self) -> None:
        if self.model.kind not in KINDS:
            raise ValueError(f"model.kind must be one of {', '.join(KINDS)}, got {self.model.kind!r}")
        for name, least in (("steps", 1), ("batch_size", 1), ("warmup", 0)):
            if getattr(self.train, name) < least:
                raise ValueError(f"train.{name} must be at least {least}, got {getattr(self.train, name)}")
        if self.layout.zero and not self.train.graph:
            raise ValueError("layout.zero needs train.graph = true")
        if self.model.kind in PICTURES and self.data.path:
            raise ValueError(f"data.path: {self.model.kind} is trained on the digits beside examples/digits")
        if self.train.graph and self.train.bias_rate:
            raise ValueError("train.bias_rate: in a graph the load of experts is not seen; set model.balance")
        if self.layout.pp > 1 and not self.train.graph:
            raise ValueError("layout.pp needs train.graph = true")
        if self.layout.micro_batches > 1 and self.layout.pp == 1:
            raise ValueError("layout.micro_batches cuts the batches of a pipeline; layout.pp is 1")
        n_parts = self.layout.dp * self.layout.ep
        if self.train.batch_size % n_parts:
            raise ValueError(f"train.batch_size={self.train.batch_size} does not divide by dp * ep = {n_parts}")
        self.layout.parallel()


def read(path: Path | None, changes: list[str]) -> Settings:
    """Read a file and apply changes like ``train.steps=20``.

    Raises:
        ValueError: an unknown table or key, a value of another type, or settings that do not go together.
    """
    tables: dict[str, Any] = {}
    if path is not None:
        try:
            import tomllib
        except ImportError as e:
            raise ValueError(f"{path}: reading TOML needs Python 3.11; give settings with --set") from e
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    for change in changes:
        name, equals, text = change.partition("=")
        table, dot, key = name.partition(".")
        if not equals or not dot:
            raise ValueError(f"--set {change}: expected TABLE.KEY=VALUE")
        tables.setdefault(table, {})[key] = _value(text)
    kinds = {f.name: f.default_factory for f in fields(Settings)}
    made: dict[str, Any] = {}
    for table, values in tables.items():
        if table not in kinds or not isinstance(values, dict):
            raise ValueError(f"unknown table {table!r}; there are {', '.join(kinds)}")
        made[table] = _table(table, kinds[table], values)
    return Settings(**made)


def _value(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _table(name: str, kind: Any, values: dict[str, Any]) -> Any:
    if kind is Model:
        return Model(values.get("kind", "gpt2"), {key: value for key, value in values.items() if key != "kind"})
    known = {f.name: f.type for f in fields(kind)}
    made = kind()
    for key, value in values.items():
        if key not in known:
            raise ValueError(f"unknown key {name}.{key}; there are {', '.join(known)}")
        wanted = str(known[key]).split(" |")[0]
        value = float(value) if wanted == "float" and type(value) is int else value
        if type(value).__name__ != wanted:
            raise ValueError(f"{name}.{key} must be of type {wanted}, got {value!r}")
        setattr(made, key, value)
    return made
