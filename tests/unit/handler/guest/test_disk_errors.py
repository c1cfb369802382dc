"""What is told of a guest that was paused by I/O errors names the disks, and says what brings it on again."""

from __future__ import annotations

from kvedge.handler.guest.disk_errors import describe_disk_errors, tell_disk_errors
from kvedge.rpc.launcher_pb2 import DiskError, DomainStatus

FULL, FAILED = DiskError(name="data", no_space=True), DiskError(name="logs")


def test_the_condition_names_each_volume_and_what_helps() -> None:
    told = describe_disk_errors(DomainStatus(disk_errors=[FULL, FAILED]))
    assert told == (
        " (volume data: its place is full, and the guest goes on when there is room; "
        "volume logs: its storage fails, and the guest goes on when it works again)"
    )


def test_events_have_the_words_of_kubevirt() -> None:
    assert list(tell_disk_errors(DomainStatus(disk_errors=[FULL, FAILED]))) == [
        "VM Paused due to not enough space on volume: data",
        "VM Paused due to IO error at the volume: logs",
    ]


def test_a_pause_of_unknown_disks_adds_nothing() -> None:
    assert (describe_disk_errors(DomainStatus()), list(tell_disk_errors(DomainStatus()))) == ("", [])


def test_a_launcher_that_tells_of_thousands_of_disks_is_cut() -> None:
    many = DomainStatus(disk_errors=[DiskError(name="x" * 4000, no_space=True)] * 5000)
    assert len(describe_disk_errors(many)) < 3000
    assert len(list(tell_disk_errors(many))) == 16
