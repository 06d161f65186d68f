"""A Slurm cluster of four nodes on one host. Needs root: daemons in a mount namespace, all files in one folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

N_NODES = 4
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun")

CONFIGURATION = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
MpiDefault=none
ReturnToService=2
{nodes}
PartitionName=all Nodes=n[1-{n}] Default=YES MaxTime=INFINITE State=UP
"""


def missing() -> str | None:
    """Why there can be no cluster here."""
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    absent = [name for name in PROGRAMS if shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin") is None]
    return (
        f"not installed: {', '.join(absent)} (apt-get install slurmctld slurmd slurm-client munge)" if absent else None
    )


def free_ports(n: int) -> list[int]:
    sockets = [socket.socket() for _ in range(n)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


class Cluster:
    """Runs commands where the nodes' names are known."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def command(self, *words: str) -> list[str]:
        hosts = f'mount --bind {self.folder}/hosts /etc/hosts && exec "$@"'
        return ["unshare", "--mount", "bash", "-c", hosts, "bash", *words]

    def environment(self, **own: str) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "OMPI_", "PMI"))}
        path = kept["PATH"] + ":/usr/sbin"
        return {**kept, "PATH": path, "SLURM_CONF": str(self.folder / "slurm.conf"), **own}

    def run(self, *words: str, seconds: float = 120, **own: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            env=self.environment(**own),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    folder.chmod(0o755)
    host = socket.gethostname().split(".")[0]
    ports = free_ports(1 + N_NODES)
    names = [f"n{i + 1}" for i in range(N_NODES)]
    nodes = [
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=2 State=UNKNOWN"
        for name, port in zip(names, ports[1:], strict=True)
    ]
    text = CONFIGURATION.format(host=host, port=ports[0], folder=folder, nodes="\n".join(nodes), n=N_NODES)
    (folder / "slurm.conf").write_text(text)
    (folder / "hosts").write_text(f"127.0.0.1 localhost {host} {' '.join(names)}\n")
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    (folder / "state").mkdir()
    place = Cluster(folder)
    munge = [
        f"--{what}={folder}/munge.{what.split('-')[0]}" for what in ("socket", "log-file", "pid-file", "seed-file")
    ]
    commands = [["munged", "--foreground", "--force", f"--key-file={folder}/munge.key", *munge], ["slurmctld", "-D"]]
    commands += [["slurmd", "-D", "-N", name] for name in names]
    daemons = []
    try:
        for words in commands:
            with (folder / f"{words[0]}-{len(daemons)}.out").open("w") as log:
                command, nothing = place.command(*words), subprocess.DEVNULL
                daemon = subprocess.Popen(command, env=place.environment(), stdout=log, stderr=log, stdin=nothing)
            daemons.append(daemon)
            if words[0] == "munged":
                time.sleep(0.5)
        deadline = time.monotonic() + 60
        while place.run("sinfo", "--noheader", "--states=idle", "--format=%D").stdout.strip() != str(N_NODES):
            if time.monotonic() > deadline:
                said = [path.read_text()[-500:] for path in sorted(folder.glob("*.log")) + sorted(folder.glob("*.out"))]
                raise RuntimeError("the nodes did not come up:\n" + "\n".join(said))
            time.sleep(0.3)
        yield place
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
