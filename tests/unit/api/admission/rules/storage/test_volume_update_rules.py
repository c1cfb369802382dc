"""Which volumes and disks of a VMI a role may change while its guest runs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from kvedge.api.admission.rules.vmi_update_rules import update_is_allowed
from kvedge.resources.codec import JsonObject
from kvedge.resources.role_users import API_ACCOUNT, CONTROLLER_ACCOUNT, UserInfo
from tests.support.builders import small_vmi

CONTROLLER = UserInfo(CONTROLLER_ACCOUNT)
HOT = {"name": "data", "persistentVolumeClaim": {"claimName": "data", "hotpluggable": True}}
DISK = {"name": "data", "disk": {"bus": "scsi"}}
DRIVE = {"name": "cd", "cdrom": {"bus": "sata"}}
MEDIUM = {"name": "cd", "persistentVolumeClaim": {"claimName": "iso", "hotpluggable": True}}

DUMP = {"name": "dumps", "memoryDump": {"claimName": "dumps", "hotpluggable": True}}


def a_vmi(*added: tuple[dict[str, Any] | None, dict[str, Any] | None]) -> JsonObject:
    vmi = small_vmi()
    for volume, disk in added:
        if volume is not None:
            vmi["spec"]["volumes"].append(copy.deepcopy(volume))
        if disk is not None:
            vmi["spec"]["domain"]["devices"]["disks"].append(copy.deepcopy(disk))
    return vmi


def causes(old: JsonObject, new: JsonObject, user: UserInfo = CONTROLLER) -> list[str]:
    return [cause.message for cause in update_is_allowed(old, new, user)]


ALLOWED = {
    "a volume comes with its disk": (a_vmi(), a_vmi((HOT, DISK))),
    "a volume goes with its disk": (a_vmi((HOT, DISK)), a_vmi()),
    "a medium comes into a drive": (a_vmi((None, DRIVE)), a_vmi((MEDIUM, DRIVE))),
    "a medium leaves its drive": (a_vmi((MEDIUM, DRIVE)), a_vmi((None, DRIVE))),
    "a dump's claim comes without a disk": (a_vmi((HOT, DISK)), a_vmi((HOT, DISK), (DUMP, None))),
    "a dump's claim goes": (a_vmi((DUMP, None)), a_vmi()),
}


@pytest.mark.parametrize("case", ALLOWED)
@pytest.mark.parametrize("account", [CONTROLLER_ACCOUNT, API_ACCOUNT])
def test_roles_bring_volumes_and_take_them_away(case: str, account: str) -> None:
    assert causes(*ALLOWED[case], user=UserInfo(account)) == []


def changed(vmi: JsonObject, change: Callable[[JsonObject], object]) -> JsonObject:
    new = copy.deepcopy(vmi)
    change(new["spec"])
    return new


def disks(spec: JsonObject) -> list[JsonObject]:
    found: list[JsonObject] = spec["domain"]["devices"]["disks"]
    return found


REFUSED: dict[str, tuple[JsonObject, Callable[[JsonObject], object], str]] = {
    "a permanent volume goes": (
        a_vmi(),
        lambda spec: (spec["volumes"].pop(0), disks(spec).pop(0)),
        "Number of permanent volumes has changed",
    ),
    "a permanent volume comes": (
        a_vmi(),
        lambda spec: (
            spec["volumes"].append({"name": "data", "persistentVolumeClaim": {"claimName": "data"}}),
            disks(spec).append(DISK),
        ),
        "Number of permanent volumes has changed",
    ),
    "a container disk comes": (
        a_vmi(),
        lambda spec: (
            spec["volumes"].append({"name": "data", "containerDisk": {"image": "demo:2"}}),
            disks(spec).append(DISK),
        ),
        "volume data is not a PVC or DataVolume",
    ),
    "a permanent volume is another": (
        a_vmi(),
        lambda spec: spec["volumes"][0].update(containerDisk={"image": "demo:2"}),
        "permanent volume root, changed",
    ),
    "a permanent volume has another name": (
        a_vmi(),
        lambda spec: (spec["volumes"][0].update(name="boot"), disks(spec)[0].update(name="boot")),
        "permanent volume boot, not found",
    ),
    "a permanent disk is another": (
        a_vmi(),
        lambda spec: disks(spec)[0].update(disk={"bus": "sata"}),
        "permanent disk root, changed",
    ),
    "a hotplugged volume is another": (
        a_vmi((HOT, DISK)),
        lambda spec: spec["volumes"][1]["persistentVolumeClaim"].update(claimName="other"),
        "hotplug volume data, changed",
    ),
    "a hotplugged disk is another": (
        a_vmi((HOT, DISK)),
        lambda spec: disks(spec)[1].update(serial="x"),
        "hotplug disk data, changed",
    ),
    "a hotplugged disk goes and its volume stays": (
        a_vmi((HOT, DISK)),
        lambda spec: disks(spec).pop(1),
        "volume data doesn't have a matching disk",
    ),
    "a volume comes without a disk": (a_vmi(), lambda spec: spec["volumes"].append(HOT), "disk data does not exist"),
    "a disk comes without a volume": (
        a_vmi(),
        lambda spec: disks(spec).append(DISK),
        "mismatch between volumes declared (1) and required (2)",
    ),
    "a disk comes on a bus that keeps it": (
        a_vmi(),
        lambda spec: (spec["volumes"].append(HOT), disks(spec).append({"name": "data", "disk": {"bus": "sata"}})),
        "Hotplug configuration for disk [data] requires bus to be 'scsi' or 'virtio'. [sata] is not permitted.",
    ),
    "a volume is no volume": (a_vmi(), lambda spec: spec.update(volumes=[3]), "volumes[0]"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_guest_cannot_take_while_it_runs_is_refused_in_kubevirts_words(case: str) -> None:
    old, change, told = REFUSED[case]
    assert any(told in message for message in causes(old, changed(old, change)))


def test_what_was_wrong_before_keeps_no_volume_away() -> None:
    old = a_vmi((HOT, {"name": "data", "disk": {"bus": "sata"}}), (None, {"name": "gone", "disk": {}}))
    assert causes(old, old) == []
    more = {"name": "more", "dataVolume": {"name": "more", "hotpluggable": True}}
    new = changed(
        old, lambda spec: (spec["volumes"].append(more), disks(spec).append({"name": "more", "disk": {"bus": "scsi"}}))
    )
    assert causes(old, new) == []


def test_a_dump_s_claim_is_no_disk_and_stays_the_same() -> None:
    disk = {"name": "dumps", "disk": {"bus": "scsi"}}
    assert "memory dump volume dumps has a disk" in causes(a_vmi(), a_vmi((DUMP, disk)))
    other = {"name": "dumps", "memoryDump": {"claimName": "another", "hotpluggable": True}}
    assert "hotplug volume dumps, changed" in causes(a_vmi((DUMP, None)), a_vmi((other, None)))
