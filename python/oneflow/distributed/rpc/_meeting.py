"""How workers meet: a store, a group of their own, and a secret that the workers of one user share.

Whoever is in the group may have this process call any function, so nobody gets in without proof: the job's secret or
its
certificates, or else the right to read a file that only the user of rank 0 can read. Without a secret of the job all
workers therefore run on one machine, as one user.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import tempfile
from collections.abc import Iterator
from typing import Any

from oneflow.distributed._process_group_gloo import ProcessGroupGloo
from oneflow.distributed._stores import PrefixStore, Store
from oneflow.distributed.rendezvous import rendezvous

_SECRET = "ONEFLOW_JOB_SECRET"
_SECRET_BYTES = 32
_HOW = (
    "set ONEFLOW_JOB_SECRET (or ONEFLOW_JOB_SECRET_FILE) to the same random text on all workers, as "
    "python -m oneflow.distributed.launch does on one machine"
)

# Stores stay open: a worker that is started again may look for them before rank 0 does.
_stores: dict[tuple[str, int, int], Store] = {}
_n_meetings = 0


def meet(init_method: str, rank: int, world_size: int, timeout: float) -> Any:
    """Return the group of all workers."""
    global _n_meetings
    check_trust()
    store = _store(init_method, rank, world_size, timeout)
    _n_meetings += 1
    store = PrefixStore(f"rpc/{_n_meetings}", store)
    store.set_timeout(timeout)
    with _secret(store, rank, world_size):
        return ProcessGroupGloo(store, rank, world_size, timeout)


def check_trust() -> None:
    """Refuse to run functions for whoever reaches a port, or against the user's word."""
    said = os.environ.get("ONEFLOW_TRUST_RANKS", "")
    if said == "0":
        raise RuntimeError(
            "init_rpc: workers run functions that other workers name, and ONEFLOW_TRUST_RANKS=0 says that they are not "
            "trusted"
        )
    if not _has_secret() and os.environ.get("ONEFLOW_INSECURE") == "1" and said != "1":
        raise RuntimeError(
            "init_rpc: with ONEFLOW_INSECURE=1 whoever reaches this process's port could run functions in it; "
            f"{_HOW}, or also set ONEFLOW_TRUST_RANKS=1"
        )


def _has_secret() -> bool:
    names = (_SECRET, "ONEFLOW_JOB_SECRET_FILE", "ONEFLOW_TLS_CERT")
    return any(os.environ.get(name) for name in names)


def _store(init_method: str, rank: int, world_size: int, timeout: float) -> Store:
    place = (init_method, rank, world_size)
    if world_size > 1 and place not in _stores:
        _stores[place] = (
            _of_job(init_method, timeout)
            or next(rendezvous(init_method, rank=rank, world_size=world_size, timeout=timeout))[0]
        )
    if world_size > 1:
        return _stores[place]
    from oneflow.distributed._stores import HashStore

    return HashStore()


def _of_job(init_method: str, timeout: float) -> Store | None:
    """The job's own store where it was joined at the same place, whose port is taken then."""
    from oneflow.distributed import _joining

    met = _joining._meeting
    host, port = os.environ.get("MASTER_ADDR"), os.environ.get("MASTER_PORT")
    address = f"tcp://{host}:{port}" if init_method == "env://" else init_method.partition("?")[0]
    if isinstance(met, tuple) and address == f"tcp://{met[0]}:{met[1]}":
        return _joining._default_store(timeout)
    return None


@contextlib.contextmanager
def _secret(store: Store, rank: int, world_size: int) -> Iterator[None]:
    """While the group forms there is a secret: the job's, or one in a file of the user."""
    if world_size == 1 or _has_secret() or os.environ.get("ONEFLOW_INSECURE") == "1":
        yield
        return
    path = ""
    try:
        if rank == 0:
            # mkstemp's file is its owner's alone.
            descriptor, path = tempfile.mkstemp(prefix="oneflow-rpc-")
            text = secrets.token_hex(_SECRET_BYTES)
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
            store.set("secret", path)
        else:
            text = _read(store.get("secret"))
        os.environ[_SECRET] = text
        try:
            yield
        finally:
            del os.environ[_SECRET]
    finally:
        if path:
            os.unlink(path)


def _read(said: bytes) -> str:
    """The secret in the file that rank 0 names, which anybody may have named."""
    path = said[:4096].decode(errors="replace")

    def fail(why: str) -> RuntimeError:
        return RuntimeError(
            f"init_rpc: the workers have no job secret, and the file of rank 0 ({path!r}) {why}: without a secret all "
            f"workers run on one machine, as one user; {_HOW}"
        )

    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, ValueError) as error:
        raise fail(f"cannot be opened: {error}") from None
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
            raise fail("is not a file of this user alone")
        text = os.read(descriptor, 2 * _SECRET_BYTES + 1)
    finally:
        os.close(descriptor)
    if len(text) != 2 * _SECRET_BYTES or not text.isalnum():
        raise fail("holds no secret")
    return text.decode()
