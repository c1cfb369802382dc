"""The guest of the measurements: no disk, no operating system, as little memory as firmware needs.

Its firmware finds nothing to boot from and halts the CPU: 70 ms of a core at the start, then some 5 ms a second,
without KVM as well. So nothing had to be done to keep the guests quiet, such as starting them paused or booting a
kernel that halts. Otherwise it is a VMI like any other: serial console, screen and all that is attached by default.
"""

from __future__ import annotations

from kvedge.resources.codec import JsonObject

MEMORY = "32Mi"


def bench_vmi(name: str, *, network: bool = False) -> JsonObject:
    """A VMI of that name; with `network` it has the default interface, a bridge on the pod network."""
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": name, "namespace": "default"},
        "spec": _spec(network=network),
    }


def bench_vm(name: str) -> JsonObject:
    """A VM that runs such a guest with the default interface."""
    return {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"runStrategy": "Always", "template": {"spec": _spec(network=True)}},
    }


def _spec(*, network: bool) -> JsonObject:
    return {
        "terminationGracePeriodSeconds": 0,
        "domain": {
            "memory": {"guest": MEMORY},
            # As many as the machine bears, whatever its number of CPUs and what QEMU may come to need.
            "resources": {"requests": {"cpu": "1m"}, "overcommitGuestOverhead": True},
            "devices": {"autoattachPodInterface": network},
        },
    }
