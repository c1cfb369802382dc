"""Saved memory is taken before the guest runs, by one run alone, and never on disks that were written since."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.launcher.launcher_errors import WrongState
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why
from kvedge.launcher.run.memory_resume import MemoryResume
from kvedge.resources.disks.claim_places import claim_directory
from kvedge.resources.values.saved_memory import MEMORY_VOLUME

DISK = claim_directory("root") + "/disk.img"
DOCUMENT = f"<domain><devices><disk><source file='{DISK}'/></disk></devices></domain>"


class Guest:
    """A session with a guest, in a Pod below a directory; `kill_at` ends the launcher at that step."""

    def __init__(self, root: Path) -> None:
        self.root, self.done, self.kill_at = root, list[str](), ""
        self.life: Life | None = None
        self.times: list[Callable[[], None]] = []
        self.failure = ""
        self.memory = self
        for name in ("run", claim_directory("root").lstrip("/"), claim_directory(MEMORY_VOLUME).lstrip("/")):
            (root / name).mkdir(parents=True)
        (root / DISK.lstrip("/")).write_bytes(b"disk")
        self.image.write_bytes(b"memory")

    @property
    def place(self) -> Path:
        return self.root / claim_directory(MEMORY_VOLUME).lstrip("/")

    @property
    def image(self) -> Path:
        return self.place / "disk.img"

    def launcher(self, uid: str = "run-1") -> MemoryResume:
        record: Any = SimpleNamespace(directory=str(self.root / "run"), vmi_uid=uid)
        state: Any = SimpleNamespace(remember=lambda failure: setattr(self, "failure", failure))
        return MemoryResume(cast(Any, self), state, record, self.times.append, str(self.root))

    def step(self, name: str) -> None:
        if self.kill_at == name:
            self.kill_at = ""
            raise SystemExit
        self.done.append(name)

    def resume(self, path: str, document: str) -> None:
        assert path == str(self.image)
        assert document == DOCUMENT
        self.step("load")
        self.life = Life.PAUSED

    def unpause(self) -> None:
        self.step("run")
        assert not self.image.exists(), "the guest would run while its memory can be loaded again"
        self.life = Life.RUNNING

    def destroy(self, *, graceful: bool) -> None:
        self.done.append("end")
        self.life = None

    def facts(self) -> DomainFacts | None:
        return None if self.life is None else DomainFacts(uuid="u", life=self.life, why=Why.USER, pid=7)


@pytest.fixture
def guest(tmp_path: Path) -> Guest:
    return Guest(tmp_path)


def start(guest: Guest, uid: str = "run-1", *, paused: bool = False) -> None:
    guest.launcher(uid).start(MEMORY_VOLUME, DOCUMENT, paused=paused)


def test_the_memory_is_taken_between_the_load_and_the_first_step_of_the_guest(guest: Guest) -> None:
    assert guest.launcher().is_due(MEMORY_VOLUME)
    start(guest)
    assert guest.done == ["load", "run"]
    assert [each.name for each in guest.place.iterdir()] == ["resumed-run-1"]
    assert (guest.place / "resumed-run-1").stat().st_size == 0
    assert len(guest.times) == 1


def test_the_next_run_boots(guest: Guest) -> None:
    start(guest)
    assert not guest.launcher("run-2").is_due(MEMORY_VOLUME)


def test_memory_that_is_not_there_is_told_of_and_the_guest_does_not_boot(guest: Guest) -> None:
    guest.image.unlink()
    with pytest.raises(WrongState, match="not in its claim"):
        guest.launcher().is_due(MEMORY_VOLUME)


def test_a_claim_that_is_not_there_is_told_of(guest: Guest) -> None:
    guest.image.unlink()
    guest.place.rmdir()
    with pytest.raises(WrongState, match="cannot be read"):
        guest.launcher().is_due(MEMORY_VOLUME)


def test_a_disk_that_is_not_there_is_told_of(guest: Guest) -> None:
    (guest.root / DISK.lstrip("/")).unlink()
    with pytest.raises(WrongState, match="does not go on"):
        start(guest)
    assert guest.done == []


def test_of_two_runs_one_goes_on(guest: Guest) -> None:
    def other_was_first(path: str, document: str) -> None:
        os.rename(guest.image, guest.place / "resumed-run-2")
        guest.life = Life.PAUSED

    guest.resume = other_was_first  # type: ignore[method-assign]
    with pytest.raises(WrongState):
        start(guest)
    assert guest.done == ["end"]


def test_a_guest_that_is_started_paused_has_its_memory_taken_too(guest: Guest) -> None:
    start(guest, paused=True)
    assert guest.done == ["load"]
    assert not guest.image.exists()


def test_memory_is_not_loaded_on_a_disk_that_was_written_after_it(guest: Guest) -> None:
    newer = guest.image.stat().st_mtime_ns + 1
    os.utime(guest.root / DISK.lstrip("/"), ns=(newer, newer))
    with pytest.raises(WrongState, match="was written after the memory"):
        start(guest)
    assert guest.done == []
    assert guest.image.exists()


def test_a_launcher_killed_before_the_mark_leaves_the_memory_to_the_next_run(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(MemoryResume, "_take", lambda *_: guest.step("take"))
        guest.kill_at = "take"
        with pytest.raises(SystemExit):
            start(guest)
    guest.launcher().take_over()
    assert guest.done == ["load", "end"]
    assert "killed before the guest went on" in guest.failure
    assert guest.launcher("run-2").is_due(MEMORY_VOLUME)


def test_a_guest_that_runs_unmarked_has_its_memory_taken_all_the_same(
    guest: Guest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(MemoryResume, "_take", lambda *_: guest.step("take"))
        guest.kill_at = "take"
        with pytest.raises(SystemExit):
            start(guest)
    guest.life = Life.RUNNING
    guest.launcher().take_over()
    assert guest.done == ["load"]
    assert not guest.launcher("run-2").is_due(MEMORY_VOLUME)


def test_a_launcher_killed_after_the_mark_has_its_guest_go_on(guest: Guest) -> None:
    guest.kill_at = "run"
    with pytest.raises(SystemExit):
        start(guest)
    guest.launcher().take_over()
    assert guest.done == ["load", "run"]
    assert guest.failure == ""
    assert len(guest.times) == 1
    # And is not let go on once more when a user pauses it.
    guest.life = Life.PAUSED
    guest.launcher().take_over()
    assert guest.done == ["load", "run"]


def test_the_time_is_owed_until_the_agent_has_it(guest: Guest) -> None:
    start(guest)
    guest.times[0]()
    guest.launcher().take_over()
    assert len(guest.times) == 1
