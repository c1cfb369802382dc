"""A launcher finds the copy of one that was killed: it goes on with it, as long as QEMU keeps its moment."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from kvedge.launcher.copies import copy_process
from kvedge.launcher.copies.copy_record import CopyRecord, CopyStore
from kvedge.launcher.copies.disk_copies import DiskCopies
from kvedge.launcher.libvirt.domain_facts import DomainDisk, DomainFacts, Life, Why
from kvedge.resources.disks.hotplug_places import hotplug_path
from kvedge.rpc.launcher_pb2 import DISK_COPY_ACTIVE, DISK_COPY_COMPLETE, DISK_COPY_FAILED
from tests.support.needs import NEEDS_LIBVIRT

ROOT = DomainDisk(name="root", target="vda", source="/root.img")
OPEN = CopyRecord("c-1", started_ms=5, quiesce="GuestAgent", frozen_ms=7, disks=(("root", "root-copy", False),))


class PlayedJob:
    """libvirt's backup job; `active` says whether QEMU still serves what was."""

    def __init__(self) -> None:
        self.active, self.begun = True, 0

    def is_active(self) -> bool:
        return self.active

    def begin(self, socket: str, disks: object) -> None:
        self.begun += 1

    def end(self) -> None:
        self.active = False

    def sizes(self, target: str) -> tuple[int, int]:
        return 1 << 20, 4096


class PlayedCopy:
    """qemu-img, which has copied all at the first look."""

    sources: ClassVar[list[str]] = []
    percent = 100

    def __init__(self, source: copy_process.Source, target: str, *, block: bool) -> None:
        self.sources.append(source.options)

    def look(self) -> bool:
        return True

    def check(self) -> None: ...

    def end(self) -> None: ...


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch) -> PlayedJob:
    PlayedCopy.sources.clear()
    monkeypatch.setattr(copy_process, "CopyProcess", PlayedCopy)
    return PlayedJob()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = Path(f"{tmp_path}{hotplug_path('root-copy', block=False)}")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half of it")
    return path


def restart(directory: Path, job: PlayedJob, record: CopyRecord) -> Any:
    """A launcher begins where one has left this; the job's state once nothing goes on any more."""
    (directory / "layers" / "copy-scratch").mkdir(parents=True, exist_ok=True)
    CopyStore(str(directory)).keep(record)
    facts = DomainFacts(uuid="u", life=Life.RUNNING, why=Why.BOOTED, pid=1, disks=(ROOT,))
    session = SimpleNamespace(backup=job, facts=lambda: facts)
    freezer = SimpleNamespace(is_on=False, thaw_soon=lambda: None)
    places = (str(directory), str(directory / "layers"), str(directory))
    copies = DiskCopies(cast("Any", session), cast("Any", freezer), places, lambda: None, lambda: None)
    before = copies.describe()
    assert before is not None
    copies.take_over()
    deadline = time.monotonic() + 10
    while copies.is_active and time.monotonic() < deadline:
        time.sleep(0.01)
    found = copies.describe()
    assert found is not None
    # What another launcher would find.
    assert CopyStore(str(directory)).read().complete == (found.state == DISK_COPY_COMPLETE)
    assert not (directory / "layers" / "copy-scratch").exists()
    return before, found


def test_it_reads_once_more_what_qemu_has_kept(tmp_path: Path, job: PlayedJob, target: Path) -> None:
    before, found = restart(tmp_path, job, OPEN)
    assert before.state == DISK_COPY_ACTIVE
    assert (found.state, found.message, found.started_unix_ms) == (DISK_COPY_COMPLETE, "", 5)
    assert (found.quiesce, found.frozen_ms) == ("GuestAgent", 7)
    # No other moment was fixed, and nothing is left of what was half written.
    assert job.begun == 0
    assert "file.export=root" in PlayedCopy.sources[0]
    assert target.read_bytes() == bytes(1 << 20)


def test_a_moment_that_qemu_has_lost_fails_the_copy(tmp_path: Path, job: PlayedJob, target: Path) -> None:
    job.active = False
    _, found = restart(tmp_path, job, OPEN)
    assert found.state == DISK_COPY_FAILED
    assert "QEMU no longer keeps them as they were" in found.message
    assert PlayedCopy.sources == []


def test_a_job_that_ends_while_it_is_read_fails_the_copy(
    tmp_path: Path, job: PlayedJob, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlayedCopy, "check", lambda _self: job.end())
    _, found = restart(tmp_path, job, OPEN)
    assert found.state == DISK_COPY_FAILED


@pytest.mark.parametrize(
    "record",
    [
        pytest.param(OPEN._replace(started_ms=0, froze=True), id="before its moment"),
        pytest.param(OPEN._replace(disks=()), id="of an older launcher"),
        pytest.param(OPEN._replace(adopted=3), id="that takes launchers with it"),
    ],
)
def test_others_end(tmp_path: Path, job: PlayedJob, target: Path, record: CopyRecord) -> None:
    _, found = restart(tmp_path, job, record)
    assert found.state == DISK_COPY_FAILED
    assert found.message == "the launcher was started again while the disks were copied"
    assert PlayedCopy.sources == []
    assert not job.active


def test_state_that_was_packed_at_the_moment_is_written_by_the_next_launcher(
    tmp_path: Path, job: PlayedJob, target: Path
) -> None:
    state = target.with_name("state-copy.img")
    state.write_bytes(b"half of it, and longer than that")
    (tmp_path / "state-copy").write_bytes(b"an archive")
    _, found = restart(tmp_path, job, OPEN._replace(state="state-copy"))
    assert (found.state, found.message) == (DISK_COPY_COMPLETE, "")
    assert state.read_bytes() == b"an archive"
    # It has secrets in it.
    assert not (tmp_path / "state-copy").exists()


def test_without_what_was_packed_there_is_no_copy(tmp_path: Path, job: PlayedJob, target: Path) -> None:
    target.with_name("state-copy.img").write_bytes(b"")
    _, found = restart(tmp_path, job, OPEN._replace(state="state-copy"))
    assert found.state == DISK_COPY_FAILED


@NEEDS_LIBVIRT
@pytest.mark.parametrize(("thaws", "quiesce"), [(False, "GuestAgent"), (True, "QuiesceTimeout")])
def test_a_freeze_of_somebody_elses_counts_if_it_lasts_past_the_moment(
    tmp_path: Path, job: PlayedJob, thaws: bool, quiesce: str
) -> None:
    """As Velero's does, whose own thaw may come at any time."""
    (tmp_path / "layers").mkdir()
    CopyStore(str(tmp_path)).keep(OPEN._replace(started_ms=0, disks=()))
    freezer = SimpleNamespace(is_on=True, thaw_soon=lambda: None)
    session = SimpleNamespace(backup=job, facts=lambda: None)
    places = (str(tmp_path), str(tmp_path / "layers"), str(tmp_path))
    copies = DiskCopies(cast("Any", session), cast("Any", freezer), places, lambda: None, lambda: None)

    def begin_job(_served: object) -> tuple[int, int]:
        freezer.is_on = not thaws
        return 5, 0

    copies._begin_job = begin_job  # type: ignore[method-assign]
    copies._fix_moment(())
    found = copies.describe()
    assert found is not None
    assert found.quiesce == quiesce
    # It is thawed by whoever had frozen it.
    assert found.frozen_ms == 0
