"""One program of several processes, run by PyTorch and by this package: what its ranks say must be the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from distributed.processes import environment, free_port, torchrun

# ``torch`` is either package; ``say`` collects what is compared, ``meeting`` is a path that all ranks have.
HEAD = """
import json, sys
torch = __import__(sys.argv[1])
if sys.argv[1] == "oneflow":
    import oneflow.mock_torch
    oneflow.mock_torch.enable()
import torch.distributed as dist
rank, n, meeting = int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
out = []
def say(*tensors):
    out.append([t.tolist() if hasattr(t, "tolist") else t for t in tensors])
"""
TAIL = "\nprint(json.dumps(out))\n"


def both(body: str, folder: Path, n: int) -> dict[str, list[list[Any]]]:
    """What each rank says, by package. Ranks have torchrun's environment."""
    found: dict[str, list[list[Any]]] = {}
    for package in ("torch", "oneflow"):
        command, port = [sys.executable, "-c", HEAD + body + TAIL, package], free_port()
        processes = [
            subprocess.Popen(
                [*command, str(rank), str(n), str(folder / package)],
                env=environment(GLOO_SOCKET_IFNAME="lo", **torchrun(rank, n, port)),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(n)
        ]
        try:
            results = [process.communicate(timeout=180) for process in processes]
        finally:
            for process in processes:
                process.kill()
        # PyTorch's processes may break off while they take their group down, after they have said all.
        assert all(said for said, _ in results), (package, [error[-1500:] for _, error in results])
        found[package] = [json.loads(said.splitlines()[-1]) for said, _ in results]
    return found
