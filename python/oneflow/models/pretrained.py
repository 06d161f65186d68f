"""Configurations with presets, and weights under other libraries' names.

A model lists in ``layouts`` how Hugging Face or torchvision call its weights; reading renames, writing renames back.
The layout of a file is recognised by its names. This file is independent of models, and downloads nothing.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import oneflow as torch
from oneflow import Tensor, nn
from oneflow.models.safetensors import SafetensorsFile, save_file

__all__ = ["Config", "Layout", "Part", "Pretrained"]

ConfigT = TypeVar("ConfigT", bound="Config")
ModelT = TypeVar("ModelT", bound="Pretrained")


@dataclass
class Config:
    """Base of the models' configurations: dataclasses with published sizes and Hugging Face's names of the fields.

    Example::

        >>> from oneflow.models import GPT2Config
        >>> GPT2Config.from_hugging_face({"model_type": "gpt2", "n_layer": 3}).n_layers
        3
    """

    # Published sizes: name -> fields that differ from the defaults.
    presets: ClassVar[dict[str, dict[str, Any]]] = {}
    # `model_type` of Hugging Face's config.json, and its names of the fields; without such a model, the fields' own.
    model_type: ClassVar[str] = ""
    hugging_face: ClassVar[dict[str, str]] = {}
    # Other keys of config.json, with the only values that this code implements.
    implemented: ClassVar[dict[str, tuple[Any, ...]]] = {}

    @classmethod
    def preset(cls: type[ConfigT], name: str, **changes: Any) -> ConfigT:
        """The published sizes called ``name``, with ``changes`` applied."""
        if name not in cls.presets:
            raise ValueError(f"{cls.__name__} has no preset {name!r}; it has {', '.join(cls.presets)}")
        return cls(**{**cls.presets[name], **changes})

    @classmethod
    def from_hugging_face(cls: type[ConfigT], values: Mapping[str, Any], **changes: Any) -> ConfigT:
        """Read the content of a ``config.json``.

        Raises:
            ValueError: it describes another kind of model, or a field has a value of another type.
            NotImplementedError: the configuration needs a variant that this code does not have.
        """
        if values.get("model_type", cls.model_type) != cls.model_type:
            raise ValueError(f"config.json describes a {values['model_type']!r} model, expected {cls.model_type!r}")
        for key, known in cls.implemented.items():
            if key in values and values[key] not in known:
                raise NotImplementedError(f"config.json has {key} = {values[key]!r}; implemented is {known}")
        fields = {}
        for ours, theirs in cls._names().items():
            value = values.get(theirs)
            if value is None:
                continue
            default = next(field.default for field in dataclasses.fields(cls) if field.name == ours)
            if isinstance(default, int | float) and (
                not isinstance(value, int | float) or isinstance(value, bool) != isinstance(default, bool)
            ):
                raise ValueError(f"config.json has {theirs} = {value!r}, expected a value like {default!r}")
            fields[ours] = tuple(value) if isinstance(value, list) else value
        return cls(**{**fields, **changes})

    def to_hugging_face(self) -> dict[str, Any]:
        """The content of a ``config.json``."""
        fixed = {key: known[0] for key, known in self.implemented.items()}
        values = {theirs: getattr(self, ours) for ours, theirs in self._names().items()}
        return {"model_type": self.model_type, **fixed, **values}

    @classmethod
    def _names(cls) -> dict[str, str]:
        return cls.hugging_face or {field.name: field.name for field in dataclasses.fields(cls)}


@dataclass(frozen=True)
class Part:
    """One name in a file, and where it belongs in the model.

    Args:
        theirs: a weight, or a module whose weights keep their last names; ``{}`` matches a number.
        ours: the same in the model; several names take equal parts along dimension 0 (a fused projection).
        transposed: matrices are stored as (inputs, outputs).

    Example::

        >>> from oneflow.models import Layout, Part
        >>> Layout("a library", (Part("h.{}.ln", "blocks.{}.norm"),)).find("h.3.ln.weight")[1]
        ['blocks.3.norm.weight']
    """

    theirs: str
    ours: str | tuple[str, ...]
    transposed: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return (self.ours,) if isinstance(self.ours, str) else self.ours


@dataclass(frozen=True)
class Layout:
    """How a library names the weights of a model.

    Args:
        name: of the library.
        parts: every name it uses.
        prefix: an optional prefix of all names.
        skipped: regular expressions of names that hold no weight of this model, such as constant buffers.
        tied: names that repeat a weight under the model's name given; a file in which they differ is refused.

    Example::

        >>> from oneflow.models import Layout, Part
        >>> layout = Layout("a library", (Part("fc", "head"),), prefix="model.")
        >>> list(layout.rename({"head.bias": oneflow.zeros(1)}))
        ['model.fc.bias']
    """

    name: str
    parts: tuple[Part, ...]
    prefix: str = ""
    skipped: tuple[str, ...] = ()
    tied: tuple[tuple[str, str], ...] = ()

    def find(self, name: str) -> tuple[Part, list[str]] | None:
        """The part that a name of the file belongs to, and the model's names it fills."""
        name = name.removeprefix(self.prefix)
        module, _, leaf = name.rpartition(".")
        for whole, suffix in ((name, ""), (module, f".{leaf}")):
            for part in self.parts:
                if match := re.fullmatch(_pattern(part.theirs), whole):
                    return part, [ours.format(*match.groups()) + suffix for ours in part.names]
        return None

    def skips(self, name: str) -> bool:
        return any(re.fullmatch(pattern, name) for pattern in self.skipped)

    def rename(self, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """The model's ``state`` under the library's names."""
        state = dict(state)
        renamed = {}
        for name in list(state):
            if name not in state:
                continue
            for part in self.parts:
                if (filled := _fill(part, name)) is not None:
                    theirs, names = filled
                    tensors = [state.pop(ours).detach() for ours in names]
                    tensor = tensors[0] if len(tensors) == 1 else torch.cat(tensors)
                    renamed[self.prefix + theirs] = tensor.t() if part.transposed and tensor.dim() == 2 else tensor
                    break
            else:
                raise KeyError(f"{name} has no name in the layout of {self.name}")
        return renamed


# A model's own names, as `state_dict` has them.
OWN = Layout("oneflow", (Part("{}", "{}"),))


def _fill(part: Part, name: str) -> tuple[str, list[str]] | None:
    """``theirs`` and all of ``ours`` if ``name`` is the first of the model's names of a part."""
    module, _, leaf = name.rpartition(".")
    for whole, suffix in ((name, ""), (module, f".{leaf}")):
        if match := re.fullmatch(_pattern(part.names[0]), whole):
            numbers = match.groups()
            return part.theirs.format(*numbers) + suffix, [ours.format(*numbers) + suffix for ours in part.names]
    return None


def _pattern(name: str) -> str:
    return re.escape(name).replace(r"\{\}", r"(\d+)")


class Pretrained(nn.Module):
    """Base of the models: reading and writing of weights in the layouts it lists.

    Example::

        >>> from oneflow.models import DLRM, DLRMConfig
        >>> model = DLRM(DLRMConfig(n_dense=4, rows=(10, 20), width=8, bottom=(16,), top=(16,)))
        >>> model.save_pretrained("clicks")
        >>> type(DLRM.from_pretrained("clicks")).__name__
        'DLRM'
    """

    config_class: ClassVar[type[Config]]
    layouts: tuple[Layout, ...] = ()

    config: Any

    @classmethod
    def from_pretrained(
        cls: type[ModelT],
        path: str | os.PathLike[str],
        config: Config | str | None = None,
        dtype: torch.dtype | None = None,
        **changes: Any,
    ) -> ModelT:
        """Make a model with the weights of a folder or file, in evaluation mode.

        Args:
            path: a folder with ``config.json`` and ``model.safetensors`` (or its shards with their index, or
                ``pytorch_model.bin``), or a ``.safetensors``, ``.pth``, ``.pt`` or ``.bin`` file.
            config: the sizes, or the name of a preset; read from ``config.json`` by default.
            dtype: of the parameters; by default the model's own.
            changes: fields of the configuration to replace.

        Raises:
            FileNotFoundError: there is no such file (nothing is downloaded), or no ``config.json`` where it is needed.
            RuntimeError: weights are missing, unexpected or of another shape; the text lists all of them.
        """
        path = Path(path)
        if not path.exists():
            raise FileNotFoundError(
                f"{cls.__name__}.from_pretrained: there is no file or folder {str(path)!r}. Nothing is downloaded: "
                "save the published weights first (a folder with config.json and model.safetensors) and give its path"
            )
        if isinstance(config, str):
            config = cls.config_class.preset(config, **changes)
        elif config is None:
            config = cls._read_config(path, changes)
        elif changes:
            config = dataclasses.replace(config, **changes)
        model = cls(config)
        if dtype is not None:
            model = model.to(dtype)
        model.load_weights(_read_weights(path))
        return model.eval()

    @classmethod
    def _read_config(cls, path: Path, changes: Mapping[str, Any]) -> Config:
        file = (path if path.is_dir() else path.parent) / "config.json"
        if not file.is_file():
            raise FileNotFoundError(f"{file} is missing: give {cls.__name__}.from_pretrained a config or a preset")
        values = json.loads(file.read_text(encoding="utf-8"))
        if not isinstance(values, dict):
            raise ValueError(f"{file} holds no object")
        return cls.config_class.from_hugging_face(values, **changes)

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Copy ``weights`` into the model, under the names of whichever layout they have."""
        layout = max((OWN, *self.layouts), key=lambda known: sum(_knows(self, known, name) for name in weights))
        state = self.state_dict()
        seen: set[str] = set()
        unexpected, wrong, differing = [], [], []
        with torch.no_grad():
            # Repeated weights come last.
            for name in sorted(weights, key=lambda name: name in dict(layout.tied)):
                if layout is OWN:
                    found: tuple[Part, list[str]] | None = (OWN.parts[0], [name])
                else:
                    found = layout.find(name)
                if found is None or not all(ours in state for ours in found[1]):
                    tied = dict(layout.tied).get(name)
                    if tied is not None and not torch.equal(weights[name].to(state[tied].dtype), state[tied]):
                        differing.append((name, tied))
                    elif tied is None and not layout.skips(name):
                        unexpected.append(name)
                    continue
                part, names = found
                seen.update(names)
                wrong += _copy(part, [state[ours] for ours in names], weights[name], name)
        missing = [name for name in state if name not in seen]
        problems = [
            f"{kind} key(s) in state_dict: " + ", ".join(f'"{name}"' for name in names) + ". "
            for kind, names in (("Unexpected", unexpected), ("Missing", missing))
            if names
        ]
        problems += wrong
        problems += [f'"{name}" is not "{tied}", to which the configuration ties it.' for name, tied in differing]
        if problems:
            name = type(self).__name__
            raise RuntimeError(f"Error(s) in loading state_dict for {name}:\n\t" + "\n\t".join(problems))

    def save_pretrained(
        self, folder: str | os.PathLike[str], layout: str | None = None, max_shard_bytes: int = 5_000_000_000
    ) -> None:
        """Write ``config.json`` and ``model.safetensors``, in shards with an index where the weights are larger.

        Args:
            layout: whose names to write, ``"hugging_face"`` or another that the model lists, or ``"oneflow"``; the
                first that it lists by default.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        known = {one.name: one for one in (*self.layouts, OWN)}
        name = next(iter(known)) if layout is None else layout
        if name not in known:
            raise ValueError(f"{type(self).__name__} has no layout {name!r}; it has {', '.join(known)}")
        state = self.state_dict()
        weights = dict(state) if known[name] is OWN else known[name].rename(state)
        (folder / "config.json").write_text(json.dumps(self.config.to_hugging_face(), indent=2) + "\n")
        shards = list(_shards(weights, max_shard_bytes))
        if len(shards) == 1:
            save_file(weights, folder / "model.safetensors", {"format": "pt"})
            return
        index: dict[str, Any] = {"metadata": {"total_size": sum(map(_n_bytes, weights.values()))}, "weight_map": {}}
        for i, shard in enumerate(shards, 1):
            file = f"model-{i:05d}-of-{len(shards):05d}.safetensors"
            save_file(shard, folder / file, {"format": "pt"})
            index["weight_map"].update(dict.fromkeys(shard, file))
        (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")


def _knows(model: Pretrained, layout: Layout, name: str) -> bool:
    if layout is OWN:
        return name in model.state_dict()
    return layout.find(name) is not None


def _copy(part: Part, targets: list[Tensor], tensor: Tensor, name: str) -> list[str]:
    """Copy ``tensor`` into ``targets``; return what is wrong with its shape."""
    if part.transposed and tensor.dim() == 2:
        tensor = tensor.t()
    expected = (len(targets) * targets[0].shape[0], *targets[0].shape[1:]) if len(targets) > 1 else targets[0].shape
    if tuple(tensor.shape) != tuple(expected):
        return [
            f"size mismatch for {name}: copying a param with shape {torch.Size(tensor.shape)} from checkpoint, "
            f"the shape in current model is {torch.Size(expected)}."
        ]
    pieces = tensor.chunk(len(targets)) if len(targets) > 1 else (tensor,)
    for target, piece in zip(targets, pieces, strict=True):
        target.copy_(piece)
    return []


def _n_bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.dtype.itemsize


def _shards(weights: Mapping[str, Tensor], limit: int) -> Iterator[dict[str, Tensor]]:
    shard: dict[str, Tensor] = {}
    size = 0
    for name, tensor in weights.items():
        if shard and size + _n_bytes(tensor) > limit:
            yield shard
            shard, size = {}, 0
        shard[name] = tensor
        size += _n_bytes(tensor)
    yield shard


def _read_weights(path: Path) -> Mapping[str, Tensor]:
    if path.is_file():
        return _read_file(path)
    for name in ("model.safetensors", "pytorch_model.bin"):
        if (path / name).is_file():
            return _read_file(path / name)
        if (path / f"{name}.index.json").is_file():
            return _read_shards(path / f"{name}.index.json")
    raise FileNotFoundError(f"{path} holds neither model.safetensors nor pytorch_model.bin, nor an index of shards")


def _read_file(path: Path) -> Mapping[str, Tensor]:
    if path.suffix == ".safetensors":
        return SafetensorsFile(path)
    weights = torch.load(path, map_location="cpu")
    # Training scripts keep the weights among other things.
    for key in ("state_dict", "model"):
        if isinstance(weights, Mapping) and isinstance(weights.get(key), Mapping):
            weights = weights[key]
    if not isinstance(weights, Mapping) or not all(torch.is_tensor(value) for value in weights.values()):
        raise ValueError(f"{path} holds no state_dict")
    return weights


def _read_shards(index: Path) -> Mapping[str, Tensor]:
    table = json.loads(index.read_text(encoding="utf-8"))
    places = table.get("weight_map") if isinstance(table, dict) else None
    if not isinstance(places, dict) or not all(isinstance(file, str) for file in places.values()):
        raise ValueError(f"{index} has no weight_map from names to files")
    weights: dict[str, Tensor] = {}
    for file in sorted(set(places.values())):
        # A name, not a way out of the folder.
        if Path(file).name != file:
            raise ValueError(f"{index} names {file!r}, but there is no such file next to it")
        weights.update(_read_file(index.parent / file))
    if absent := sorted(set(places) - set(weights)):
        raise ValueError(f"{index} places {', '.join(absent)} in files that do not hold them")
    return weights
