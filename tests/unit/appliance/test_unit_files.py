"""What the units that ship with the program say of the order in which a host comes up and goes down."""

from __future__ import annotations

import pytest

from kvedge.appliance.unit_files import unit_texts

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
