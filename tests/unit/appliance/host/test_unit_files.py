"""What the units that ship with the program say: the order in which a host comes up and goes down, and who goes first
when its memory runs out.
"""

from __future__ import annotations

import pytest

from kvedge.appliance.host.unit_files import unit_texts
from kvedge.standalone.agent.pod.pull_queue import AT_ONCE
from kvedge.storage.decompress import ZSTD_MEMORY
from kvedge.storage.disk_file import QEMU_IMG_MEMORY
from kvedge.storage.images.image_worker import MEMORY

KUBERNETES = {
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
    "k0scontroller.service",
    "k0sworker.service",
    "kubelet.service",
    "snap.microk8s.daemon-kubelite.service",
}
# What ends containers when it stops, or cannot be asked for them any more.
RUNTIMES = {
    "containerd.service",
    "docker.service",
    "cri-docker.service",
    "crio.service",
    "snap.microk8s.daemon-containerd.service",
}


DAEMONS = ("kvedge.service", "kvedge-node.service")
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def setting(unit: str, name: str) -> str:
    """What a unit sets a name to, once; empty when it does not."""
    lines = unit_texts((unit,))[unit].decode().splitlines()
    found = [line.removeprefix(f"{name}=") for line in lines if line.startswith(f"{name}=")]
    assert len(found) <= 1, f"{unit} sets {name} {len(found)} times"
    return found[0] if found else ""


def size(text: str) -> int:
    """The bytes of a setting such as 640M."""
    return int(text[:-1]) * UNITS[text[-1]]


def after(unit: str) -> set[str]:
    """What a unit starts after, and stops before."""
    lines = unit_texts((unit,))[unit].decode().splitlines()
    found = [line.removeprefix("After=").split() for line in lines if line.startswith("After=")]
    return {name for names in found for name in names}


@pytest.mark.parametrize("unit", ["kvedge-guests.service", "kvedge-node.service"])
def test_guests_and_kvedge_stop_before_whatever_runs_a_node_s_pods(unit: str) -> None:
    assert after(unit) >= KUBERNETES | RUNTIMES


def test_the_guests_go_after_kvedge_so_that_nobody_starts_them_again() -> None:
    for unit in ("kvedge.service", "kvedge-node.service"):
        assert "kvedge-guests.service" in after(unit)


@pytest.mark.parametrize("unit", DAEMONS)
def test_the_daemon_s_memory_ends_before_that_of_the_host_does(unit: str) -> None:
    high, most = size(setting(unit, "MemoryHigh")), size(setting(unit, "MemoryMax"))
    # Two pulls and a drop-in of hostile images, beside the largest control plane that was measured; a child of a worker
    # is zstd or qemu-img, and pulls have no disks to look at.
    images = AT_ONCE * (MEMORY + ZSTD_MEMORY) + MEMORY + max(ZSTD_MEMORY, QEMU_IMG_MEMORY)
    assert images + (120 << 20) <= high
    # The worst that clients may send comes on top, and the smallest host has 2 GB.
    assert images + (480 << 20) <= most <= 1664 << 20
    assert setting(unit, "Restart") == "always"
    # A child that is killed for its memory does not stop the daemon.
    assert setting(unit, "OOMPolicy") == "continue"


@pytest.mark.parametrize("unit", ["kvedge.slice", "kvedge-guests.service"])
def test_what_holds_the_guests_has_no_limit_of_kvedge_s_own(unit: str) -> None:
    assert not setting(unit, "MemoryHigh")
    assert not setting(unit, "MemoryMax")
