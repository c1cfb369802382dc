"""What a launcher does that finds a guest released by one before it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from kvedge.launcher.launcher_errors import LauncherError, LibvirtFailed, Unanswered
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why
from kvedge.launcher.migration.migration_record import IncomingRecord, MigrationRecord
from kvedge.launcher.migration.released_guest import ReleasedGuest

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

COMING = IncomingRecord("m-1", prepared=True, arrived=True)
RELEASED = COMING._replace(goes_on=True)
PAUSED = DomainFacts(uuid="u", life=Life.PAUSED, why=Why.USER)
RUNS = DomainFacts(uuid="u", life=Life.RUNNING, why=Why.UNPAUSED)
LOCKED = LibvirtFailed("letting the guest run", 1, 10, 'Failed to get "write" lock')


class PlayedLibvirt:
    """Refuses to let the guest run, once for each error."""

    def __init__(self, *errors: LauncherError) -> None:
        self.errors = list(errors)
        self.asked = 0

    def unpause(self) -> None:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)


def new_guest(store: MigrationRecord, libvirt: PlayedLibvirt) -> ReleasedGuest:
    """As a launcher has it that has just started."""
    return ReleasedGuest(cast("LibvirtSession", libvirt), store)


@pytest.mark.parametrize(
    ("record", "found", "held", "asked"),
    [
        pytest.param(RELEASED, PAUSED, False, 1, id="killed before it let the guest run"),
        pytest.param(RELEASED, RUNS, False, 0, id="killed after it let the guest run"),
        pytest.param(RELEASED, None, False, 0, id="the guest has ended"),
        pytest.param(RELEASED, PAUSED, True, 0, id="a user has paused it since"),
        pytest.param(COMING, PAUSED, False, 0, id="the guest came paused by a user"),
        pytest.param(IncomingRecord(), PAUSED, False, 0, id="the guest was started here"),
    ],
)
def test_a_released_guest_is_let_run_once(
    tmp_path: Path, record: IncomingRecord, found: DomainFacts | None, held: bool, asked: int
) -> None:
    store, libvirt = MigrationRecord(str(tmp_path)), PlayedLibvirt()
    store.keep_incoming(record)
    guest = new_guest(store, libvirt)
    for _ in range(2):
        guest.go_on(found, held=held)
    assert (libvirt.asked, guest.is_due) == (asked, False)
    assert not new_guest(store, libvirt).is_due


def test_a_guest_that_may_not_run_yet_is_tried_again_also_by_the_next_launcher(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, libvirt = MigrationRecord(str(tmp_path)), PlayedLibvirt(LOCKED, LOCKED, Unanswered("too slow"))
    store.keep_incoming(RELEASED)
    guest = new_guest(store, libvirt)
    with caplog.at_level(logging.WARNING):
        guest.go_on(PAUSED, held=False)
        guest.go_on(PAUSED, held=False)
    assert guest.is_due
    # One sentence fills no log, however often it is tried.
    assert [record.message for record in caplog.records] == ["the guest does not run yet; trying again"]
    after = new_guest(store, libvirt)
    after.go_on(PAUSED, held=False)
    assert after.is_due
    after.go_on(PAUSED, held=False)
    assert (libvirt.asked, after.is_due, store.incoming().goes_on) == (4, False, False)


def test_a_guest_runs_although_that_cannot_be_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, libvirt = MigrationRecord(str(tmp_path)), PlayedLibvirt()
    store.keep_incoming(RELEASED)

    def keep(_record: IncomingRecord) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(store, "keep_incoming", keep)
    guest = new_guest(store, libvirt)
    guest.go_on(PAUSED, held=False)
    assert (libvirt.asked, guest.is_due) == (1, False)
