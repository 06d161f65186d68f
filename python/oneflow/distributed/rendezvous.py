"""How ranks find their store by an address: PyTorch's ``torch.distributed.rendezvous``."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from oneflow.distributed._groups import _seconds
from oneflow.distributed._stores import FileStore, PrefixStore, Store, TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

# A scheme to the function that makes an iterator of a store, a rank and the number of ranks.
_handlers: dict[str, Callable[..., Iterator[tuple[Store, int, int]]]] = {}


def register_rendezvous_handler(scheme: str, handler: Callable[..., Iterator[tuple[Any, int, int]]]) -> None:
    """Let addresses of a scheme be served by ``handler``, also those that ``init_process_group`` gets.

    Args:
        scheme: what stands before ``://``.
        handler: called with the address, and keyword arguments such as ``timeout``; it yields
            ``(store, rank, world_size)``.

    Raises:
        RuntimeError: the scheme is served already.

    Example::

        >>> def alone(url, **kwargs):
        ...     yield oneflow.distributed.HashStore(), 0, 1
        >>> oneflow.distributed.register_rendezvous_handler("alone", alone)
        >>> next(oneflow.distributed.rendezvous("alone://"))[1:]
        (0, 1)
    """
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = handler


def rendezvous(url: str, rank: int = -1, world_size: int = -1, **kwargs: Any) -> Iterator[tuple[Store, int, int]]:
    """Yield the store at an address, this process's rank and the number of ranks.

    Args:
        url: ``env://``, ``tcp://host:port`` or ``file:///path``, each perhaps with ``?rank=0&world_size=2``; or an
            address of a scheme that :func:`register_rendezvous_handler` was given.
        kwargs: ``timeout``, of the store.

    Raises:
        RuntimeError: nobody serves such addresses.
        ValueError: rank or number of ranks are missing.

    Example::

        >>> store, rank, size = next(oneflow.distributed.rendezvous("tcp://127.0.0.1:0?rank=0&world_size=1"))
        >>> rank, size, store.add("n", 2)
        (0, 1, 2)
    """
    if not isinstance(url, str):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    for name, value in (("rank", rank), ("world_size", world_size)):
        if not isinstance(value, int):
            raise RuntimeError(f"`{name}` must be an integer. {value}")
    parts = urlsplit(url)
    said = dict(parse_qsl(parts.query))
    if parts.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parts.scheme}://")
    for name, value in (("rank", rank), ("world_size", world_size)):
        if value != -1:
            if name in said:
                raise AssertionError(f"The url: {url} has node-specific arguments(rank, world_size) already.")
            said[name] = str(value)
    query = "&".join(f"{name}={value}" for name, value in said.items())
    return _handlers[parts.scheme](parts._replace(query=query).geturl() if query else url, **kwargs)


def _said(url: str, scheme: str, known: dict[str, str | None]) -> tuple[Any, list[str]]:
    """The parts of an address, and the values of its query or the environment."""
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    values = []
    for name, fallback in known.items():
        value = query.get(name) or (os.environ.get(fallback) if fallback else None)
        if value is None:
            what = f"environment variable {fallback} expected, but not set" if fallback else f"{name} parameter missing"
            if name == "world_size" and not fallback:
                what = "world size parameter missing"
            raise ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {what}")
        values.append(value)
    return parts, values


def _timeout(kwargs: dict[str, Any]) -> float:
    given = kwargs.get("timeout")
    return 300.0 if given is None else _seconds(given) or 0.0


def _from_environment(url: str, **kwargs: Any) -> Iterator[tuple[Store, int, int]]:
    names: dict[str, str | None] = {"rank": "RANK", "world_size": "WORLD_SIZE"}
    _, (rank, size) = _said(url, "env", names)
    _, (host, port) = _said(url, "env", {"master_addr": "MASTER_ADDR", "master_port": "MASTER_PORT"})
    is_agents = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    timeout = datetime.timedelta(seconds=_timeout(kwargs))
    store: Store = TCPStore(host, int(port), int(size), int(rank) == 0 and not is_agents, timeout, False)
    if is_agents:
        store = PrefixStore(f"/worker/attempt_{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    yield store, int(rank), int(size)
    raise RuntimeError("Unable to perform re-rendezvous using env:// method")


def _at_address(url: str, **kwargs: Any) -> Iterator[tuple[Store, int, int]]:
    parts, (rank, size) = _said(url, "tcp", {"rank": None, "world_size": None})
    if parts.port is None:
        raise ValueError("Error initializing torch.distributed using tcp:// rendezvous: port number missing")
    timeout = datetime.timedelta(seconds=_timeout(kwargs))
    yield TCPStore(parts.hostname or "", parts.port, int(size), rank == "0", timeout, False), int(rank), int(size)
    raise RuntimeError("Unable to perform re-rendezvous using tcp:// method")


def _in_file(url: str, **kwargs: Any) -> Iterator[tuple[Store, int, int]]:
    parts, (rank, size) = _said(url, "file", {"rank": None, "world_size": None})
    path = parts.netloc + parts.path
    if not path:
        raise ValueError("Error initializing torch.distributed using file:// rendezvous: path missing")
    store = FileStore(path, int(size))
    store.set_timeout(_timeout(kwargs))
    yield store, int(rank), int(size)
    raise RuntimeError("Unable to perform rerendezvous using file:// method")


register_rendezvous_handler("env", _from_environment)
register_rendezvous_handler("tcp", _at_address)
register_rendezvous_handler("file", _in_file)
