"""QEMU with nothing but a NIC and its iPXE boot ROM, on the Pod's tap: the smallest guest that asks for an address."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.pod_world import QEMU_USER, PodWorld


@contextmanager
def ipxe_guest(world: PodWorld, model: str) -> Iterator[subprocess.Popen[bytes]]:
    """Runs it as QEMU's user; /dev/net/tun is opened to it meanwhile, as a device plugin would."""
    program = shutil.which("qemu-system-x86_64")
    if program is None or not os.path.isdir("/usr/lib/ipxe/qemu"):
        pytest.skip("QEMU or its boot ROMs are not here: install qemu-system-x86 and ipxe-qemu")
    mode = os.stat("/dev/net/tun").st_mode & 0o777
    os.chmod("/dev/net/tun", 0o666)
    command = [
        program, "-nodefaults", "-no-user-config", "-display", "none", "-accel", "tcg", "-m", "64", "-boot", "n",
        "-netdev", "tap,id=n,ifname=tap0,script=no,downscript=no",
        "-device", f"{model},netdev=n,mac={world.bound.mac}",
    ]  # fmt: skip
    guest = world.in_pod(lambda: subprocess.Popen(command, user=QEMU_USER, group=QEMU_USER, extra_groups=[]))
    try:
        yield guest
    finally:
        guest.terminate()
        guest.wait(10)
        os.chmod("/dev/net/tun", mode)
