"""A wire in user space between two network namespaces: it delays packets, lets some overtake others, and loses some.

Systems without the kernel's own emulation (netem) have TUN devices all the same: one in each namespace, and this
process carries packets from each to the other. `python wire.py A B --delay 0.02 --jitter 0.01 --loss 0.01`
prints a line when both devices are up, and how many packets it carried and lost when it is told to end.
"""

from __future__ import annotations

import argparse
import ctypes
import fcntl
import heapq
import os
import random
import select
import signal
import struct
import subprocess
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000
CLONE_NEWNET = 0x40000000
# As an Ethernet's, so that a message is several packets.
MTU = 1500
DEVICE = "wire"


def device_in(namespace: str, address: str) -> int:
    """Make a TUN device in a namespace, with this address; returns its descriptor."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open(f"/var/run/netns/{namespace}") as there, open("/proc/self/ns/net") as here:
        if libc.setns(there.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {namespace}")
        try:
            device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
            fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", DEVICE.encode(), IFF_TUN | IFF_NO_PI))
        finally:
            libc.setns(here.fileno(), CLONE_NEWNET)
    for words in (["addr", "add", f"{address}/24", "dev", DEVICE], ["link", "set", DEVICE, "mtu", str(MTU), "up"]):
        subprocess.run(["ip", "-n", namespace, *words], check=True)
    return device


def carry(devices: list[int], delay: float, jitter: float, loss: float, draw: random.Random) -> tuple[int, int]:
    """Carry packets both ways until a signal comes; returns how many were carried and lost."""
    ends: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ends.append(1))
    # Each with its time, its number, where it goes, and its bytes.
    held: list[tuple[float, int, int, bytes]] = []
    n_carried = n_lost = 0
    while not ends:
        wait = max(0.0, held[0][0] - time.monotonic()) if held else 0.1
        for device in select.select(devices, [], [], wait)[0]:
            try:
                packet = os.read(device, MTU + 100)
            except BlockingIOError:
                continue
            n_carried += 1
            if draw.random() < loss:
                n_lost += 1
                continue
            other = devices[1 - devices.index(device)]
            heapq.heappush(held, (time.monotonic() + delay + draw.random() * jitter, n_carried, other, packet))
        while held and held[0][0] <= time.monotonic():
            _, _, device, packet = heapq.heappop(held)
            try:
                os.write(device, packet)
            except BlockingIOError:
                # Its queue is full, as a switch's may be.
                n_lost += 1
    return n_carried, n_lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("namespaces", nargs=2)
    parser.add_argument("--network", default="10.77.0", help="the first three numbers of both addresses")
    parser.add_argument("--delay", type=float, default=0.0, help="seconds, one way")
    parser.add_argument("--jitter", type=float, default=0.0, help="seconds more, at most")
    parser.add_argument("--loss", type=float, default=0.0, help="the share of packets that are lost")
    args = parser.parse_args()
    devices = [device_in(name, f"{args.network}.{place + 1}") for place, name in enumerate(args.namespaces)]
    print("up", flush=True)
    carried, lost = carry(devices, args.delay, args.jitter, args.loss, random.Random(0))
    print(carried, lost, flush=True)


if __name__ == "__main__":
    main()
