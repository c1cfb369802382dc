"""Queues of a guest's NICs."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.codec import decode
from kvedge.resources.types.guest_nics import nic_queues
from kvedge.resources.types.vmi import VirtualMachineInstance


@pytest.mark.parametrize(
    ("multiqueue", "cpu", "model", "queues"),
    [
        (True, {"sockets": 2, "cores": 2, "threads": 2}, "virtio", 8),
        (True, {"cores": 4}, "", 4),
        (False, {"cores": 4}, "virtio", 1),
        (None, {"cores": 4}, "virtio", 1),
        (True, {"cores": 4}, "e1000", 1),
        (True, None, "virtio", 1),
        (True, {"cores": 1}, "virtio", 1),
        (True, {"cores": 500}, "virtio", 256),
    ],
    ids=[
        "one for each CPU",
        "virtio is the model of who says none",
        "not wanted",
        "not said",
        "virtio only",
        "no topology",
        "one CPU",
        "as many as a tap can have",
    ],
)
def test_a_nic_has_a_queue_for_each_cpu_when_the_vmi_wants_it(
    multiqueue: bool | None, cpu: dict[str, Any] | None, model: str, queues: int
) -> None:
    devices = {"networkInterfaceMultiqueue": multiqueue, "interfaces": [{"name": "n", "bridge": {}, "model": model}]}
    vmi = decode(VirtualMachineInstance, {"spec": {"domain": {"cpu": cpu, "devices": devices}}})
    assert nic_queues(vmi, vmi.spec.domain.devices.interfaces[0]) == queues
