"""What is a backup in restic's list, and what is somebody else's."""

from __future__ import annotations

import pytest

from kvedge.storage.backups.restic_client import KeptFile
from kvedge.storage.backups.stored_backups import find_backups, list_catalog, moment_of

TIME = "2026-01-02T03:04:05.123456789Z"


def file(number: str, *tags: str, host: str = "kvedge-default", time: str = TIME) -> KeptFile:
    return KeptFile(number, time, frozenset({"kvedge", "vm=web", "id=1", "uid=u", *tags}), host)


def test_disks_and_a_record_are_one_backup() -> None:
    (found,) = find_backups([file("a", "volume=root"), file("b", "volume=data"), file("c", "record", "size=7")])
    assert (found.namespace, found.vm, found.uid, found.id) == ("default", "web", "u", "1")
    assert (found.is_complete, found.size) == (True, 7)
    assert [each.number for each in found.disks] == ["a", "b"]


def test_without_its_record_it_is_not_complete() -> None:
    (found,) = find_backups([file("a", "volume=root")])
    assert (found.is_complete, found.size) == (False, None)


@pytest.mark.parametrize(
    "stranger",
    [
        pytest.param(file("x", "record", host="laptop"), id="of another host"),
        pytest.param(KeptFile("x", TIME, frozenset({"vm=web", "id=1", "record"}), "kvedge-default"), id="without mark"),
        pytest.param(file("x", "record", "id=2"), id="of two backups"),
        pytest.param(file("x", "record", "vm=other"), id="of two VMs"),
        pytest.param(file("x", "record", "uid=other"), id="of two UIDs"),
        pytest.param(file("x", "record", "volume=root"), id="a record and a disk"),
        pytest.param(file("x"), id="neither a record nor a disk"),
    ],
)
def test_what_is_not_clearly_a_backups_is_nobodys(stranger: KeptFile) -> None:
    assert find_backups([stranger]) == []


def test_vms_of_one_name_are_told_apart_by_uid_and_namespace() -> None:
    other = KeptFile("b", TIME, frozenset({"kvedge", "vm=web", "id=1", "uid=v", "record"}), "kvedge-default")
    found = find_backups([file("a", "record"), other, file("c", "record", host="kvedge-shop")])
    assert {(each.namespace, each.uid) for each in found} == {("default", "u"), ("default", "v"), ("shop", "u")}


def test_the_newest_are_listed_first_and_the_list_ends() -> None:
    times = [f"2026-01-0{day}T00:00:00Z" for day in (1, 3, 2)]
    files = [
        KeptFile(time, time, frozenset({"kvedge", "vm=web", f"id={time}", "record"}), "kvedge-default")
        for time in times
    ]
    catalog = list_catalog(find_backups(files), most=2)
    assert [each.time for each in catalog.backups] == [times[1], times[2]]
    assert catalog.left_out == 1


@pytest.mark.parametrize("text", [TIME, "2026-01-02T04:04:05.1+01:00", "2026-01-02T03:04:05Z"])
def test_restics_times_are_read(text: str) -> None:
    assert moment_of(KeptFile("a", text, frozenset())).strftime("%s") == moment_of(
        KeptFile("a", "2026-01-02T03:04:05Z", frozenset())
    ).strftime("%s") or text.endswith("+01:00")
