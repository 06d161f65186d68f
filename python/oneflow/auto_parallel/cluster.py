"""Descriptions of clusters: devices, and the links between them."""

from __future__ import annotations

import importlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Cluster", "Link"]

_FOLDER = Path(__file__).parent / "clusters"
# What a description of a device may have besides what it needs.
_OTHERS = ("launch", "call", "peak_flops", "disk")


@dataclass(frozen=True)
class Link:
    """The time of a message between devices: ``latency`` seconds, plus its bytes over ``bandwidth`` (bytes a second).

    ``shared`` says that the bandwidth is that of all devices of a host together, not of each.

    Example::

        >>> oneflow.auto_parallel.Link(1e-6, 1e9).bandwidth
        1000000000.0
    """

    latency: float
    bandwidth: float
    shared: bool = False


@dataclass(frozen=True)
class Cluster:
    """Devices and links.

    Args:
        name: the name in reports.
        hosts: the number of machines, each with ``devices_per_host`` devices.
        flops: operations a second of a device in matrix products: a measured rate rather than the peak.
        memory_bandwidth: bytes a second of a device's memory, which has ``memory`` bytes.
        inside: the link between devices of one host; ``between`` is the link between devices of two hosts.
        launch: seconds that any op takes at least.
        peak_flops: operations a second that utilisation is measured against; ``flops`` by default.
        cores: of hosts whose devices are processes, the cores that they share; 0 where each device works by itself.
        disk: bytes a second between the memory of a device and a disk; 0 where nothing can be offloaded to one.
        host: the link between a device's memory and that of its host, each direction by itself; None where there is
            none, as for devices that are processes on a CPU.
        call: seconds that a program takes between two steps.

    Raises:
        ValueError: a number is not positive.

    Example::

        >>> oneflow.auto_parallel.Cluster.load("8xh100").n_devices
        8
    """

    name: str
    hosts: int
    devices_per_host: int
    flops: float
    memory_bandwidth: float
    memory: float
    inside: Link
    between: Link
    launch: float = 0.0
    peak_flops: float = 0.0
    cores: int = 0
    disk: float = 0.0
    host: Link | None = None
    call: float = 0.0

    def __post_init__(self) -> None:
        for key in ("hosts", "devices_per_host"):
            value = getattr(self, key)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"cluster {self.name!r}: {key} must be a positive integer, got {value!r}")
        numbers = {key: getattr(self, key) for key in ("flops", "memory_bandwidth", "memory")}
        for key in ("launch", "call", "peak_flops", "cores", "disk"):
            value = getattr(self, key)
            if not _is_number(value) or value < 0:
                raise ValueError(f"cluster {self.name!r}: {key} must be a number of at least 0, got {value!r}")
        for where in ("inside", "between", "host"):
            link = getattr(self, where)
            if link is None and where == "host":
                continue
            numbers[f"{where}.bandwidth"] = link.bandwidth
            if not _is_number(link.latency) or link.latency < 0:
                raise ValueError(f"cluster {self.name!r}: {where}.latency must be seconds, got {link.latency!r}")
            if not isinstance(link.shared, bool):
                raise ValueError(f"cluster {self.name!r}: {where}.shared must be true or false, got {link.shared!r}")
        for key, value in numbers.items():
            if not _is_number(value) or value <= 0:
                raise ValueError(f"cluster {self.name!r}: {key} must be a positive number, got {value!r}")

    @property
    def n_devices(self) -> int:
        """The number of devices of all hosts."""
        return self.hosts * self.devices_per_host

    @staticmethod
    def names() -> list[str]:
        """Return the clusters that the package describes.

        Example::

            >>> "8xh100" in oneflow.auto_parallel.Cluster.names()
            True
        """
        return sorted(path.stem for path in _FOLDER.glob("*.toml"))

    @classmethod
    def load(cls, source: str | Path) -> Cluster:
        """Return one of the package's clusters by name, or the cluster that a toml file describes.

        Raises:
            ValueError: the file does not describe a cluster.
            FileNotFoundError: neither a name nor a file.
            NotImplementedError: Python 3.10 cannot read toml.
        """
        path = _FOLDER / f"{source}.toml"
        if not path.is_file():
            path = Path(source)
            if not path.is_file():
                raise FileNotFoundError(
                    f"there is no cluster and no file {str(source)!r}: known are {', '.join(cls.names())}"
                )
        try:
            toml = importlib.import_module("tomllib")
        except ImportError:
            raise NotImplementedError(
                "Cluster.load() needs Python 3.11 or later: make a Cluster(...) instead"
            ) from None
        try:
            return cls.from_dict(toml.loads(path.read_text(encoding="utf-8")), path.stem)
        except toml.TOMLDecodeError as error:
            raise ValueError(f"{path}: {error}") from None

    @classmethod
    def from_dict(cls, text: dict[str, Any], name: str = "cluster") -> Cluster:
        """Return the cluster of a description as toml files have it.

        Raises:
            ValueError: an entry is missing or unknown.
        """
        known = {"name", "hosts", "devices_per_host", "cores", "device", "inside", "between", "host"}
        unknown = sorted(set(text) - known)
        if unknown:
            raise ValueError(f"cluster {name!r}: unknown entry {unknown[0]!r}")
        device, inside = _table(name, text, "device"), _table(name, text, "inside")
        between = _table(name, text, "between") if "between" in text else inside
        links = [("inside", inside), ("between", between)]
        if "host" in text:
            links.append(("host", _table(name, text, "host")))
        fields = _fields(name, "device", device, ("flops", "memory_bandwidth", "memory"), _OTHERS)
        fields |= {
            where: Link(**_fields(name, where, table, ("latency", "bandwidth"), ("shared",))) for where, table in links
        }
        sizes = (text.get("hosts", 1), text.get("devices_per_host", 1))
        return cls(text.get("name", name), *sizes, cores=text.get("cores", 0), **fields)


def _table(name: str, text: dict[str, Any], key: str) -> dict[str, Any]:
    table = text.get(key)
    if not isinstance(table, dict):
        raise ValueError(f"cluster {name!r}: the table [{key}] is missing")
    return table


def _fields(
    name: str, where: str, table: dict[str, Any], keys: tuple[str, ...], others: tuple[str, ...]
) -> dict[str, Any]:
    if not set(keys) <= set(table) <= {*keys, *others}:
        raise ValueError(
            f"cluster {name!r}: [{where}] needs {', '.join(keys)}, and has {', '.join(sorted(table)) or 'nothing'} "
            f"({', '.join(others)} may be given too)"
        )
    return dict(table)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
