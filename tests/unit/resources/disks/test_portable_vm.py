"""What is of a VM's place and history alone is left behind."""

from __future__ import annotations

import copy
from typing import Any

from kvedge.resources.disks.portable_vm import without_history, without_memory_dumps, without_place

NOTES = {
    "kubectl.kubernetes.io/last-applied-configuration": "{}",
    "restore.kubevirt.io/lastRestoreUID": "r-uid",
    "kubevirt.io/latest-observed-api-version": "v1",
    "site": "north",
}


def test_a_twin_in_the_same_cluster_has_no_history() -> None:
    assert set(without_history(NOTES)) == {"kubevirt.io/latest-observed-api-version", "site"}


def test_one_elsewhere_has_no_notes_of_controllers_either() -> None:
    assert without_place(NOTES) == {"site": "north"}


def test_a_dump_of_its_memory_is_no_disk() -> None:
    dump = {"name": "d", "memoryDump": {"claimName": "d", "hotpluggable": True}}
    spec: dict[str, Any] = {"template": {"spec": {"volumes": [{"name": "root", "dataVolume": {"name": "r"}}, dump]}}}
    before = copy.deepcopy(spec)
    assert without_memory_dumps(spec)["template"]["spec"]["volumes"] == [{"name": "root", "dataVolume": {"name": "r"}}]
    assert spec == before
    for empty in ({}, {"template": None}, {"template": {"spec": {"volumes": None}}}):
        assert without_memory_dumps(empty) == empty
