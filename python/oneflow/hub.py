"""Models published by a folder with a ``hubconf.py``, and files of weights by URL.

Folders are local: the package fetches no repository. Weights come from any URL that Python's own library opens, and are
kept in a cache: ``$ONEFLOW_HOME/hub``, by default ``~/.cache/oneflow/hub``.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import urllib.parse
import urllib.request
import zipfile
from pathlib import Path
from types import ModuleType
from typing import Any

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

# "resnet18-5c106cde.pth": eight or more digits of the file's SHA-256.
HASH_REGEX = re.compile(r"-([a-f0-9]{8,})\.")
_CHUNK = 1 << 17
_dir: str | None = None


def get_dir() -> str:
    """Return the folder of the cache: the one set by :func:`set_dir`, else as the module's docstring says.

    Example::

        >>> isinstance(oneflow.hub.get_dir(), str)
        True
    """
    if _dir is not None:
        return _dir
    cache = os.environ.get("XDG_CACHE_HOME", os.path.join("~", ".cache"))
    home = os.environ.get("ONEFLOW_HOME", os.path.join(cache, "oneflow"))
    return os.path.join(os.path.expanduser(home), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Keep downloads in the folder ``d`` from now on.

    Example::

        >>> before = oneflow.hub.get_dir()
        >>> oneflow.hub.set_dir("models")
        >>> oneflow.hub.get_dir()
        'models'
        >>> oneflow.hub.set_dir(before)
    """
    global _dir
    _dir = os.path.expanduser(d)


def _hubconf(repo_or_dir: Any, source: str) -> ModuleType:
    """The module ``hubconf.py`` of a folder, loaded with the folder first on the path."""
    if source not in ("local", "github"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    folder = Path(repo_or_dir)
    if source == "github":
        if not folder.is_dir():
            raise NotImplementedError(
                f"oneflow.hub fetches no repository: clone {repo_or_dir!s} and give its folder with source='local'"
            )
    path = folder / "hubconf.py"
    if not path.is_file():
        raise FileNotFoundError(f"oneflow.hub: {folder} has no hubconf.py")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"oneflow.hub: cannot load {path}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    missing = [name for name in getattr(module, "dependencies", ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _entry(module: ModuleType, name: Any) -> Any:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    entry = getattr(module, name, None)
    if not callable(entry):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return entry


def list(repo_or_dir: Any, force_reload: bool = False, source: str = "local", **ignored: Any) -> Any:
    """The names of the models in a folder: public functions of its ``hubconf.py``.

    Args:
        repo_or_dir: the folder.
        source: "local".

    Raises:
        FileNotFoundError: the folder has no ``hubconf.py``.
        NotImplementedError: it names a repository that would have to be fetched.

    Example::

        >>> import pathlib
        >>> _ = pathlib.Path("hubconf.py").write_text("def tiny(): return 3")
        >>> oneflow.hub.list(".", source="local")
        ['tiny']
    """
    module = _hubconf(repo_or_dir, source)
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(repo_or_dir: Any, model: str, force_reload: bool = False, source: str = "local", **ignored: Any) -> str | None:
    """The docstring of a model's function. Arguments as for :func:`list`.

    Raises:
        RuntimeError: there is no such function.

    Example::

        >>> import pathlib
        >>> _ = pathlib.Path("hubconf.py").write_text('def tiny(): "A small one."')
        >>> oneflow.hub.help(".", "tiny", source="local")
        'A small one.'
    """
    return _entry(_hubconf(repo_or_dir, source), model).__doc__


def load(
    repo_or_dir: Any,
    model: str,
    *args: Any,
    source: str = "local",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Call the function ``model`` of a folder's ``hubconf.py`` and return its result. It runs the folder's code.

    Args:
        repo_or_dir: the folder.
        source: "local".
        trust_repo, force_reload, verbose, skip_validation: accepted.

    Raises:
        RuntimeError: there is no such function, or a package that ``hubconf.dependencies`` names is not installed.

    Example::

        >>> import pathlib
        >>> _ = pathlib.Path("hubconf.py").write_text("def tiny(): return 3")
        >>> oneflow.hub.load(".", "tiny", source="local")
        3
    """
    return _entry(_hubconf(repo_or_dir, source), model)(*args, **kwargs)


def download_url_to_file(url: str, dst: Any, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Copy what a URL holds to the file ``dst``, which appears when it is whole.

    Args:
        url: http, https, ftp or file.
        dst: a path; its folder exists.
        hash_prefix: how the SHA-256 of the file begins, in hexadecimal digits.
        progress: show a bar on the standard error if it is a terminal.

    Raises:
        RuntimeError: the hash differs.
        urllib.error.URLError: the URL cannot be read.

    Example::

        >>> import pathlib
        >>> _ = pathlib.Path("weights.bin").write_bytes(b"abc")
        >>> url = pathlib.Path("weights.bin").resolve().as_uri()
        >>> oneflow.hub.download_url_to_file(url, "copy.bin", hash_prefix="ba7816bf")
        >>> pathlib.Path("copy.bin").read_bytes()
        b'abc'
    """
    target = Path(dst).expanduser()
    digest = hashlib.sha256()
    request = urllib.request.Request(url, headers={"User-Agent": "oneflow.hub"})
    handle, partial = tempfile.mkstemp(dir=target.parent, prefix=f"{target.name}.", suffix=".partial")
    try:
        with urllib.request.urlopen(request) as source, os.fdopen(handle, "wb") as out:
            size = int(source.headers.get("Content-Length") or 0)
            done = 0
            while chunk := source.read(_CHUNK):
                out.write(chunk)
                digest.update(chunk)
                done += len(chunk)
                if progress and size and sys.stderr.isatty():
                    sys.stderr.write(f"\r{target.name}: {100 * done // size:3d}%")
        if progress and sys.stderr.isatty():
            sys.stderr.write("\n")
        found = digest.hexdigest()
        if hash_prefix and not found.startswith(hash_prefix):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{found[: len(hash_prefix)]}")')
        os.chmod(partial, 0o644)
        os.replace(partial, target)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def load_state_dict_from_url(
    url: str,
    model_dir: Any = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """Load the file behind a URL, downloaded once: a later call finds it in the cache.

    Args:
        url: of a file that :func:`oneflow.load` reads, or of a ZIP archive that holds one such file.
        model_dir: the folder to keep it in; by default ``checkpoints`` in :func:`get_dir`.
        map_location, weights_only: as for :func:`oneflow.load`.
        progress: show a bar while downloading.
        check_hash: the file's name ends with digits of its hash ("name-<sha256>.ext"): compare them.
        file_name: the name to keep it under; by default the URL's.

    Example::

        >>> import pathlib
        >>> oneflow.save({"weight": oneflow.ones(2)}, "model.pt")
        >>> url = pathlib.Path("model.pt").resolve().as_uri()
        >>> oneflow.hub.load_state_dict_from_url(url, model_dir="cache")
        {'weight': tensor([1., 1.])}
    """
    import oneflow

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else os.fspath(model_dir)
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urllib.parse.unquote(urllib.parse.urlparse(url).path))
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found[1] if found else None, progress)
    if _is_plain_archive(path):
        path = _unpacked(path, folder)
    return oneflow.load(path, map_location=map_location, weights_only=weights_only)


def _is_plain_archive(path: str) -> bool:
    """Return whether a file is a ZIP of one file; a checkpoint is a ZIP of several."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return len(archive.infolist()) == 1


def _unpacked(path: str, folder: str) -> str:
    with zipfile.ZipFile(path) as archive:
        member = archive.infolist()[0]
        target = os.path.join(folder, os.path.basename(member.filename))
        with archive.open(member) as source, open(target, "wb") as out:
            shutil.copyfileobj(source, out)
    return target
