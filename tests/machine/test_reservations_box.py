"""One box whose KubeVirt object lets guests reserve LUNs: the helper comes, is offered, and goes again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.handler.node.reservation_helper import PROGRAM
from kvedge.kube.errors import KubeError
from kvedge.kube.patches import MergePatch
from kvedge.resources.meta import condition
from kvedge.resources.names import DEVICE_PR_HELPER, SYSTEM_NAMESPACE
from kvedge.resources.types.core import Node
from kvedge.resources.types.kubevirt import KubeVirt
from tests.support.box import Box, processes, small_vm
from tests.support.guest_box import guest_box
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.machine,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not PROGRAM.exists(), reason="needs qemu-pr-helper"),
]
IMAGE = "local/guest:1"


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    (tmp_path / "box").mkdir()
    with guest_box(tmp_path / "box", "10.98.84.0/24", IMAGE) as found:
        wait_until(lambda: found.client.list(KubeVirt), "the KubeVirt object is made")
        yield found


def allow(box: Box, *, allowed: bool) -> None:
    switch = {"persistentReservationConfiguration": {"enabled": allowed}}
    box.client.patch(KubeVirt, SYSTEM_NAMESPACE, "kubevirt", MergePatch({"spec": {"configuration": switch}}))


def offered(box: Box) -> str:
    (node,) = box.client.list(Node)
    return str(node.status.allocatable.get(DEVICE_PR_HELPER, "0"))


def helpers(box: Box) -> list[int]:
    """The processes whose lock is in the box's state."""
    locks = {(found.stat().st_dev, found.stat().st_ino) for found in box.data_dir.rglob("pr-helper/helper.lock")}
    found = []
    for pid, command in processes():
        if Path(command[0]).name != PROGRAM.name:
            continue
        status = Path(f"/proc/{pid}/fd/4").stat()
        found += [pid] if (status.st_dev, status.st_ino) in locks else []
    return found


def reserving_vm() -> Any:
    vm = small_vm("cluster", IMAGE)
    spec: Any = vm["spec"]["template"]["spec"]
    lun = {"name": "quorum", "shareable": True, "lun": {"bus": "scsi", "reservation": True}}
    spec["domain"]["devices"]["disks"].append(lun)
    spec["volumes"].append({"name": "quorum", "persistentVolumeClaim": {"claimName": "quorum"}})
    return vm


def test_the_helper_runs_while_the_kubevirt_object_allows_it(box: Box) -> None:
    with pytest.raises(KubeError, match="persistent reservation is not enabled in kubevirt config"):
        box.apply(reserving_vm())
    assert helpers(box) == []

    allow(box, allowed=True)
    wait_until(lambda: offered(box) == "1000", "the node offers it", 30)
    (first,) = helpers(box)

    # A box that is killed and started again finds its helper.
    box.end(9)
    box.start()
    wait_until(lambda: offered(box) == "1000", "the node offers it again", 30)
    assert helpers(box) == [first]

    box.apply(reserving_vm())

    def waits() -> str:
        vmi = box.vmi("cluster")
        found = condition(vmi.status.conditions, "Synchronized") if vmi is not None else None
        vm = condition(box.vm("cluster").status.conditions, "Ready")
        return found.message if found is not None else vm.message if vm is not None else ""

    assert wait_until(lambda: "quorum" in waits() and waits(), "it waits for its claim", 30)
    box.remove_vm("cluster")

    allow(box, allowed=False)
    wait_until(lambda: offered(box) == "0", "no more is offered", 30)
    wait_until(lambda: helpers(box) == [], "the helper has ended", 30)
