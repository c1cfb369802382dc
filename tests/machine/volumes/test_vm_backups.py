"""KubeVirt's backups of a VM on one box: all of its disks, what has changed, and all again once that is not known.

The guest writes numbered blocks to its disks in turn, so that what a chain holds tells of the moment.
"""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kvedge.kube.errors import NotFound
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.exports import exporter_name
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.kubevirt import KubeVirt
from kvedge.resources.types.protection.exports import VirtualMachineExport
from kvedge.resources.types.protection.vm_backups import VirtualMachineBackup, VirtualMachineBackupTracker
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from tests.support.box import Box
from tests.support.guest_box import guest_box
from tests.support.hotplug_guest import HotplugGuest, a_claim, hotplug_vm
from tests.support.numbered_writes import check_one_moment, writer_script
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(500)]

IMAGE = "local/guest:1"
NAME = "writer"
DISKS = ("one", "two")
GROUP = "backup.kubevirt.io"
TOKEN = "the token of this test"


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HotplugGuest]:
    """The VM, which writes to an image and to a device."""
    with guest_box(tmp_path_factory.mktemp("box"), "10.98.73.0/24", IMAGE, agent=True) as box:
        selector = {"virtualMachineLabelSelector": {"matchLabels": {"backed": "up"}}}
        wanted = {
            "developerConfiguration": {"featureGates": ["IncrementalBackup", "UtilityVolumes"]},
            "changedBlockTrackingLabelSelectors": selector,
        }
        wait_until(lambda: has_kubevirt(box), "the controller makes the KubeVirt object")
        box.client.patch(KubeVirt, SYSTEM_NAMESPACE, "kubevirt", MergePatch({"spec": {"configuration": wanted}}))
        generation = box.client.get(KubeVirt, SYSTEM_NAMESPACE, "kubevirt").metadata.generation
        wait_until(
            lambda: box.client.get(KubeVirt, SYSTEM_NAMESPACE, "kubevirt").status.observed_generation == generation,
            "the gates are seen",
        )
        box.apply(a_claim("one"))
        box.apply(a_claim("two", volumeMode="Block"))
        box.apply(a_claim("target"))
        made_vm: Any = hotplug_vm(NAME, IMAGE)
        made_vm["metadata"].setdefault("labels", {})["backed"] = "up"
        spec = made_vm["spec"]["template"]["spec"]
        for name in DISKS:
            spec["domain"]["devices"]["disks"].append({"name": name, "disk": {"bus": "virtio"}, "serial": name})
            spec["volumes"].append({"name": name, "persistentVolumeClaim": {"claimName": name}})
        box.apply(made_vm)
        vm = source("kubevirt.io", "VirtualMachine", NAME)
        box.apply(an_object("VirtualMachineBackupTracker", "chain", source=vm))
        made = HotplugGuest(box, NAME)
        box.wait_answer(NAME)
        begin_to_write(made)
        yield made


def has_kubevirt(box: Box) -> bool:
    try:
        box.client.get(KubeVirt, SYSTEM_NAMESPACE, "kubevirt")
    except NotFound:
        return False
    return True


def an_object(kind: str, name: str, **spec: Any) -> JsonObject:
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": f"{GROUP}/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}


def source(group: str, kind: str, name: str) -> JsonObject:
    return {"apiGroup": group, "kind": kind, "name": name}


def begin_to_write(guest: HotplugGuest) -> None:
    def has_agent() -> bool:
        return any(each.type == "AgentConnected" and each.status == "True" for each in guest.vmi().status.conditions)

    wait_until(has_agent, "the agent is there", seconds=90)
    guest.run(writer_script(*(guest.disk(name) for name in DISKS)))
    wait_until(lambda: number(guest) > 3, "the guest writes", seconds=60)


def number(guest: HotplugGuest) -> int:
    """The last block that the guest knows to be on all disks."""
    return int(guest.run("cat /run/number 2>/dev/null || echo 0"))


def ask(guest: HotplugGuest, name: str, **spec: Any) -> None:
    chain = source(GROUP, "VirtualMachineBackupTracker", "chain")
    guest.box.apply(an_object("VirtualMachineBackup", name, **{"source": chain, "pvcName": "target", **spec}))


def backup(guest: HotplugGuest, name: str) -> VirtualMachineBackup:
    return guest.box.client.get(VirtualMachineBackup, "default", name)


def ended(guest: HotplugGuest, name: str) -> VirtualMachineBackup:
    def over() -> VirtualMachineBackup | None:
        found = backup(guest, name)
        return found if found.is_final else None

    return wait_until(over, f"backup {name} is over", seconds=120)


def words(found: VirtualMachineBackup, type_: str) -> tuple[str, str]:
    return next(((each.status, each.reason) for each in found.status.conditions if each.type == type_), ("", ""))


def checkpoint(guest: HotplugGuest) -> str:
    return guest.box.client.get(VirtualMachineBackupTracker, "default", "chain").checkpoint


def images(guest: HotplugGuest, found: VirtualMachineBackup, disk: str) -> Path:
    claim = guest.box.client.get(PersistentVolumeClaim, "default", "target")
    volume = guest.box.client.request("GET", PersistentVolume.KIND.path("", claim.spec.volume_name))
    path = Path((volume["spec"].get("local") or volume["spec"].get("hostPath"))["path"])
    directory = path / NAME / (found.status.checkpoint_name or "")
    assert json.loads((directory / "backup.json").read_text())["type"] == found.status.type
    return directory / f"{found.metadata.name}-{disk}.qcow2"


def restore(guest: HotplugGuest, into: Path, *chain: VirtualMachineBackup) -> list[Path]:
    made = []
    for disk in DISKS:
        below = ""
        for count, found in enumerate(chain):
            link = into / f"{count}-{disk}.qcow2"
            link.write_bytes(images(guest, found, disk).read_bytes())
            if below:
                subprocess.run(["qemu-img", "rebase", "-u", "-b", below, "-F", "qcow2", str(link)], check=True)
            below = str(link)
        made.append(into / f"{disk}.img")
        subprocess.run(["qemu-img", "convert", "-O", "raw", below, str(made[-1])], check=True, timeout=60)
    return made


def is_let_go(guest: HotplugGuest) -> bool:
    vmi = guest.vmi()
    entries = [entry.name for entry in vmi.status.volume_status if entry.name.startswith("kvedge-backup-")]
    return not vmi.spec.utility_volumes and vmi.status.disk_copy is None and not entries


def test_a_backup_has_all_disks_and_the_next_one_has_what_has_changed(guest: HotplugGuest, tmp_path: Path) -> None:
    ask(guest, "first")
    first = ended(guest, "first")
    assert words(first, "Complete") == ("True", "Completed"), first.status
    assert words(first, "Quiesced") == ("True", "QuiesceSucceeded")
    assert first.status.type == "Full"
    assert [each.volume_name for each in first.status.included_volumes] == list(DISKS)
    assert checkpoint(guest) == first.status.checkpoint_name
    wait_until(lambda: is_let_go(guest), "the VM is let go", seconds=60)
    before = number(guest)
    wait_until(lambda: number(guest) > before, "the guest writes on", seconds=30)
    ask(guest, "second")
    second = ended(guest, "second")
    assert words(second, "Complete") == ("True", "Completed"), second.status
    assert second.status.type == "Incremental"
    moment = check_one_moment(*restore(guest, tmp_path, first, second))
    assert before <= moment <= number(guest)
    assert guest.box.vm(NAME).status.changed_block_tracking.state == "Enabled"  # type: ignore[union-attr]


def test_a_backup_is_pulled_by_its_map_and_its_data(guest: HotplugGuest, tmp_path: Path) -> None:
    secret = {"metadata": {"name": "pull", "namespace": "default"}, "stringData": {"token": TOKEN}}
    guest.box.apply({"apiVersion": "v1", "kind": "Secret", **secret})
    ask(guest, "pulled", mode="Pull", tokenSecretRef="pull", forceFullBackup=True)

    def ready() -> VirtualMachineBackup | None:
        found = backup(guest, "pulled")
        return found if words(found, "Progressing")[1] == "ExportReady" else None

    found = wait_until(ready, "it is ready to be pulled", seconds=120)
    assert found.status.type == "Full"
    export = next(each for each in guest.box.client.list(VirtualMachineExport, "default"))
    pod = guest.box.client.request("GET", f"/api/v1/namespaces/default/pods/{exporter_name(export.metadata.name)}")
    host = pod["status"]["podIP"]
    pulled = []
    for disk in DISKS:
        listed = json.loads(fetch(host, f"/exports/{disk}/map"))
        assert listed["next_offset"] is None
        made = tmp_path / f"{disk}.img"
        with made.open("wb") as file:
            file.truncate(sum(each["length"] for each in listed["extents"]))
            for each in (each for each in listed["extents"] if each["description"] == "data"):
                file.seek(each["offset"])
                file.write(fetch(host, f"/exports/{disk}/data?offset={each['offset']}&length={each['length']}"))
        assert made.stat().st_size == 64 << 20
        pulled.append(made)
    check_one_moment(*pulled)
    guest.box.client.delete(VirtualMachineBackup, "default", "pulled")
    wait_until(lambda: checkpoint(guest) == found.status.checkpoint_name, "the tracker goes on from it", seconds=60)


def fetch(host: str, path: str) -> bytes:
    # By its address: its name is one of the cluster's.
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(f"https://{host}:8443{path}", headers={"x-kubevirt-export-token": TOKEN})
    with urllib.request.urlopen(request, timeout=30, context=context) as answer:
        return bytes(answer.read())


def test_after_a_kill_of_qemu_all_is_taken_and_it_is_said_why(guest: HotplugGuest, tmp_path: Path) -> None:
    run = guest.vmi().metadata.uid
    assert isinstance(guest.box, Box)
    for pid in guest.box.qemu_pids(run):
        os.kill(pid, signal.SIGKILL)

    def runs_again() -> bool:
        found = guest.box.vmi(NAME)
        return found is not None and found.metadata.uid != run and found.status.phase == "Running"

    wait_until(runs_again, "the VM runs again", seconds=120)
    guest.box.wait_answer(NAME)
    begin_to_write(guest)
    ask(guest, "third")
    third = ended(guest, "third")
    assert words(third, "Complete") == ("True", "CompletedWithWarning"), third.status
    assert third.status.type == "Full"
    check_one_moment(*restore(guest, tmp_path, third))
