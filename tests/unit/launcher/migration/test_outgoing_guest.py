"""What a launcher says and does about a guest that is to leave, with libvirt played."""

from __future__ import annotations

import errno
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from kvedge.launcher.launcher_errors import LibvirtFailed, WrongState
from kvedge.launcher.libvirt.domain_facts import DomainDisk, DomainFacts, Life, Why
from kvedge.launcher.migration import migration_record
from kvedge.launcher.migration.migration_record import MigrationRecord
from kvedge.launcher.migration.outgoing_guest import OutgoingGuest
from kvedge.launcher.migration.outgoing_plan import Outgoing
from kvedge.rpc import launcher_pb2 as m
from tests.support.needs import NEEDS_LIBVIRT
from tests.support.values import replace

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

pytestmark = NEEDS_LIBVIRT

DISKS = (
    DomainDisk("root", "vda", "disk", "/var/run/kubevirt-ephemeral-disks/disk-data/root/disk.qcow2"),
    DomainDisk("data", "vdb", "disk", "/var/run/kubevirt-private/vmi-disks/data/disk.img"),
)


def facts(life: Life, why: Why = Why.OTHER) -> DomainFacts:
    return DomainFacts(uuid="u", life=life, why=why, disks=DISKS)


RUNS = facts(Life.RUNNING, Why.BOOTED)
HELD = facts(Life.PAUSED, Why.MIGRATING)
PAUSED = facts(Life.PAUSED, Why.USER)
CANCELLED = facts(Life.RUNNING, Why.CANCELLED)
LEFT = facts(Life.SHUTOFF, Why.MIGRATED)


class PlayedLibvirt:
    """Moves for as long as the test wants; `failure` is how it ends."""

    def __init__(self) -> None:
        self.migration = self
        self.wishes: list[Any] = []
        self.go = threading.Event()
        self.failure = ""
        self.unpaused = 0
        self.paused = 0

    def move(self, wish: Any) -> None:
        self.wishes.append(wish)
        assert self.go.wait(30)
        if self.failure:
            raise LibvirtFailed("moving the guest", 1, 7, self.failure)

    def progress(self) -> None:
        return None

    def abort(self) -> None:
        self.failure = "canceled by client"
        self.go.set()

    def unpause(self) -> None:
        self.unpaused += 1

    def pause(self) -> None:
        self.paused += 1


@pytest.fixture
def libvirt() -> Iterator[PlayedLibvirt]:
    played = PlayedLibvirt()
    yield played
    played.go.set()


def new_guest(libvirt: PlayedLibvirt, directory: Path, done: threading.Event | None = None) -> OutgoingGuest:
    """As a launcher has it that has just started."""
    on_change = (lambda: None) if done is None else done.set
    return OutgoingGuest(cast("LibvirtSession", libvirt), MigrationRecord(str(directory)), on_change)


def refuse_to_write(_path: str, _document: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


def begin(guest: OutgoingGuest, uid: str = "m-1", found: DomainFacts = RUNS) -> None:
    guest.begin(m.MigrateRequest(migration_uid=uid), found)


def end(libvirt: PlayedLibvirt, done: threading.Event) -> None:
    """libvirt's call returns."""
    libvirt.go.set()
    assert done.wait(30)


def test_only_the_pods_own_disks_are_copied(libvirt: PlayedLibvirt, tmp_path: Path) -> None:
    done = threading.Event()
    begin(new_guest(libvirt, tmp_path, done))
    end(libvirt, done)
    assert libvirt.wishes[0].copied == ("vda",)
    assert libvirt.wishes[0].control == "/var/run/kubevirt/migration/libvirt-sock"


def test_a_guest_that_left_is_gone_also_for_the_next_launcher(libvirt: PlayedLibvirt, tmp_path: Path) -> None:
    done = threading.Event()
    guest = new_guest(libvirt, tmp_path, done)
    begin(guest)
    assert guest.look(RUNS, killed=False) is Outgoing.ACTIVE
    assert guest.look(HELD, killed=False) is Outgoing.ACTIVE
    end(libvirt, done)
    assert guest.look(LEFT, killed=False) is Outgoing.GONE
    # Its launcher is told to go, and removes the domain.
    assert guest.look(None, killed=True) is Outgoing.GONE
    assert not MigrationRecord(str(tmp_path)).outgoing().kept
    assert new_guest(libvirt, tmp_path).look(None, killed=False) is Outgoing.GONE
    assert libvirt.unpaused == 0


def test_a_failure_of_libvirt_keeps_the_guest_and_says_why(libvirt: PlayedLibvirt, tmp_path: Path) -> None:
    done = threading.Event()
    guest = new_guest(libvirt, tmp_path, done)
    libvirt.failure = "no route"
    begin(guest)
    end(libvirt, done)
    word = guest.look(RUNS, killed=False)
    told = guest.describe(word)
    assert told is not None
    assert (word, told.state, told.message) == (Outgoing.KEPT, m.OUTGOING_KEPT, "moving the guest: no route")
    assert told.ended_unix_ms >= told.started_unix_ms > 0
    # Whatever becomes of it later is no move.
    assert guest.look(None, killed=False) is Outgoing.KEPT


def test_a_new_launcher_lets_a_stopped_guest_go_on(libvirt: PlayedLibvirt, tmp_path: Path) -> None:
    begin(new_guest(libvirt, tmp_path))
    after = new_guest(libvirt, tmp_path)
    assert after.look(HELD, killed=False) is Outgoing.RESUMING
    assert libvirt.unpaused == 1
    assert MigrationRecord(str(tmp_path)).outgoing().kept


def test_a_guest_that_libvirt_let_go_on_is_kept_before_its_call_returns(libvirt: PlayedLibvirt, tmp_path: Path) -> None:
    guest = new_guest(libvirt, tmp_path)
    begin(guest)
    guest.look(HELD, killed=False)
    assert guest.look(CANCELLED, killed=False) is Outgoing.KEPT


def test_a_guest_is_stopped_on_its_way_once_and_leaves(libvirt: PlayedLibvirt, tmp_path: Path) -> None:
    done = threading.Event()
    guest = new_guest(libvirt, tmp_path, done)
    with pytest.raises(WrongState, match="does not move the guest"):
        guest.hold("m-1")
    begin(guest)
    with pytest.raises(WrongState, match="does not move the guest"):
        guest.hold("m-2")
    guest.hold("m-1")
    guest.hold("m-1")
    assert libvirt.paused == 1
    told = guest.describe(guest.look(HELD, killed=False))
    assert told is not None
    assert (told.state, told.held, told.paused) == (m.OUTGOING_ACTIVE, True, False)
    end(libvirt, done)
    assert guest.look(LEFT, killed=False) is Outgoing.GONE
    assert libvirt.unpaused == 0


@pytest.mark.parametrize("found", [HELD, PAUSED], ids=["by the migration", "just when libvirt had given up"])
@pytest.mark.parametrize("is_new", [False, True], ids=["the same launcher", "the next launcher"])
def test_a_guest_that_was_stopped_and_stays_goes_on_and_may_be_paused_again(
    libvirt: PlayedLibvirt, tmp_path: Path, found: DomainFacts, is_new: bool
) -> None:
    done = threading.Event()
    guest = new_guest(libvirt, tmp_path, done)
    begin(guest)
    guest.hold("m-1")
    if is_new:
        guest = new_guest(libvirt, tmp_path)
    else:
        libvirt.failure = "no route"
        end(libvirt, done)
    with pytest.raises(WrongState, match="try again"):
        guest.refuse_while_moving()
    with pytest.raises(WrongState, match="try again"):
        begin(guest, "m-2", found)
    assert guest.look(found, killed=False) is Outgoing.RESUMING
    assert libvirt.unpaused == 1
    assert guest.look(RUNS, killed=False) is Outgoing.KEPT
    guest.refuse_while_moving()
    assert guest.look(PAUSED, killed=False) is Outgoing.KEPT
    assert libvirt.unpaused == 1


def test_a_guest_that_libvirt_let_go_on_is_held_no_more(libvirt: PlayedLibvirt, tmp_path: Path) -> None:
    done = threading.Event()
    guest = new_guest(libvirt, tmp_path, done)
    libvirt.failure = "no route"
    begin(guest)
    guest.hold("m-1")
    end(libvirt, done)
    assert guest.look(RUNS, killed=False) is Outgoing.KEPT
    assert guest.is_unsettled
    assert guest.look(RUNS, killed=False) is Outgoing.KEPT
    assert guest.look(PAUSED, killed=False) is Outgoing.KEPT
    assert (libvirt.unpaused, MigrationRecord(str(tmp_path)).outgoing().held) == (0, False)
    assert not guest.is_unsettled


def test_a_guest_that_is_stopped_just_after_it_was_seen_to_stay_goes_on(libvirt: PlayedLibvirt, tmp_path: Path) -> None:
    done = threading.Event()
    guest = new_guest(libvirt, tmp_path, done)
    libvirt.failure = "no route"
    begin(guest)
    guest.hold("m-1")
    end(libvirt, done)
    # What was read before libvirt had stopped it.
    assert guest.look(RUNS, killed=False) is Outgoing.KEPT
    assert guest.look(PAUSED, killed=False) is Outgoing.RESUMING
    assert libvirt.unpaused == 1


@pytest.mark.parametrize("is_by_user", [False, True])
def test_an_order_to_stop_a_guest_that_comes_too_late_is_taken_back(
    libvirt: PlayedLibvirt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_by_user: bool
) -> None:
    done = threading.Event()
    guest = new_guest(libvirt, tmp_path, done)
    libvirt.failure = "no route"
    begin(guest, found=PAUSED if is_by_user else RUNS)
    pause = libvirt.pause

    def be_slow() -> None:
        end(libvirt, done)
        for _ in range(2):
            guest.look(PAUSED if is_by_user else RUNS, killed=False)
        pause()

    monkeypatch.setattr(libvirt, "pause", be_slow)
    guest.hold("m-1")
    assert (libvirt.paused, libvirt.unpaused) == (1, 0 if is_by_user else 1)


def test_a_guest_runs_on_when_it_cannot_be_written_that_it_is_stopped(
    libvirt: PlayedLibvirt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = new_guest(libvirt, tmp_path)
    begin(guest)
    monkeypatch.setattr(migration_record, "replace_json", refuse_to_write)
    with pytest.raises(OSError, match="No space"):
        guest.hold("m-1")
    assert libvirt.paused == 0


def test_the_cancelled_move_before_says_nothing_of_the_next(libvirt: PlayedLibvirt, tmp_path: Path) -> None:
    guest = new_guest(libvirt, tmp_path)
    begin(guest, "m-2", CANCELLED)
    assert guest.look(CANCELLED, killed=False) is Outgoing.ACTIVE


@pytest.mark.parametrize(
    ("found", "killed"),
    [
        pytest.param(facts(Life.SHUTOFF, Why.SHUTDOWN), False, id="shut down"),
        pytest.param(facts(Life.SHUTOFF, Why.CRASHED), False, id="crashed"),
        pytest.param(facts(Life.SHUTOFF), True, id="killed"),
    ],
)
def test_an_end_on_the_way_is_no_move(
    libvirt: PlayedLibvirt, tmp_path: Path, found: DomainFacts, *, killed: bool
) -> None:
    guest = new_guest(libvirt, tmp_path)
    begin(guest)
    assert guest.look(found, killed=killed) is Outgoing.KEPT
    assert new_guest(libvirt, tmp_path).look(None, killed=False) is Outgoing.KEPT


def test_a_migration_begins_once_and_no_second_one_beside_it(libvirt: PlayedLibvirt, tmp_path: Path) -> None:
    done = threading.Event()
    guest = new_guest(libvirt, tmp_path, done)
    begin(guest)
    begin(guest)
    with pytest.raises(WrongState, match="m-1 moves the guest already"):
        begin(guest, "m-2")
    with pytest.raises(WrongState, match="try again"):
        guest.refuse_while_moving()
    end(libvirt, done)
    assert len(libvirt.wishes) == 1
    begin(guest)
    assert not guest.is_moving


def test_a_migration_that_was_given_up_never_begins(libvirt: PlayedLibvirt, tmp_path: Path) -> None:
    guest = new_guest(libvirt, tmp_path)
    guest.abort("m-1")
    begin(guest)
    assert not guest.is_moving
    assert guest.look(RUNS, killed=False) is Outgoing.KEPT


def test_a_late_abort_does_not_forget_that_another_migration_has_taken_the_guest(
    libvirt: PlayedLibvirt, tmp_path: Path
) -> None:
    done = threading.Event()
    guest = new_guest(libvirt, tmp_path, done)
    begin(guest)
    end(libvirt, done)
    # Before and after a look has found it gone, and by the next launcher.
    for late in (guest, guest, new_guest(libvirt, tmp_path)):
        with pytest.raises(WrongState, match="m-1 has taken the guest away"):
            late.abort("m-0")
        assert late.look(LEFT, killed=False) is Outgoing.GONE
    assert MigrationRecord(str(tmp_path)).outgoing().uid == "m-1"


def test_a_full_disk_keeps_no_guest_from_staying(
    libvirt: PlayedLibvirt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = threading.Event()
    guest = new_guest(libvirt, tmp_path, done)
    libvirt.failure = "no route"
    begin(guest)
    monkeypatch.setattr(migration_record, "replace_json", refuse_to_write)
    end(libvirt, done)
    word = guest.look(HELD, killed=False)
    told = guest.describe(word)
    assert told is not None
    assert (word, told.message) == (Outgoing.RESUMING, "moving the guest: no route")
    assert libvirt.unpaused == 1
    # It ends now: also the next launcher knows that it did not leave.
    after = new_guest(libvirt, tmp_path)
    assert after.look(None, killed=False) is Outgoing.KEPT
    told = after.describe(Outgoing.KEPT)
    assert told is not None
    assert told.ended_unix_ms > 0


def test_a_guest_does_not_move_when_that_cannot_be_written_down(
    libvirt: PlayedLibvirt, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guest = new_guest(libvirt, tmp_path)
    monkeypatch.setattr(migration_record, "replace_json", refuse_to_write)
    with pytest.raises(OSError, match="No space"):
        begin(guest)
    assert (guest.is_moving, libvirt.wishes) == (False, [])
    assert guest.look(RUNS, killed=False) is Outgoing.NONE


def test_a_frozen_guest_does_not_move_and_a_move_that_is_over_is_told_all_the_same(
    libvirt: PlayedLibvirt, tmp_path: Path
) -> None:
    done = threading.Event()
    guest = new_guest(libvirt, tmp_path, done)
    request = m.MigrateRequest(migration_uid="m-1")
    with pytest.raises(WrongState, match="file systems are frozen"):
        guest.begin(request, RUNS, lambda: True)
    assert guest.look(RUNS, killed=False) is Outgoing.NONE
    libvirt.failure = "no route"
    guest.begin(request, RUNS, lambda: False)
    end(libvirt, done)
    guest.look(RUNS, killed=False)
    guest.begin(request, RUNS, lambda: True)


def test_something_that_cannot_wait_ends_the_migration_first(libvirt: PlayedLibvirt, tmp_path: Path) -> None:
    guest = new_guest(libvirt, tmp_path)
    begin(guest)
    guest.give_way()
    assert not guest.is_moving
    assert guest.look(RUNS, killed=False) is Outgoing.KEPT


def test_a_guest_is_not_gone_while_its_qemu_is_there(libvirt: PlayedLibvirt, tmp_path: Path) -> None:
    guest = new_guest(libvirt, tmp_path)
    with subprocess.Popen(["sleep", "60"]) as qemu:
        guest.begin(m.MigrateRequest(migration_uid="m-1"), replace(RUNS, pid=qemu.pid))
        assert guest.look(LEFT, killed=False) is Outgoing.ACTIVE
        after = new_guest(libvirt, tmp_path)
        assert after.look(None, killed=False) is Outgoing.ACTIVE
        assert after.is_unsettled
        qemu.kill()
        qemu.wait()
    assert after.look(None, killed=False) is Outgoing.GONE
    assert not after.is_unsettled
    assert libvirt.unpaused == 0


def test_a_guest_that_is_not_there_does_not_move(libvirt: PlayedLibvirt, tmp_path: Path) -> None:
    guest = new_guest(libvirt, tmp_path)
    for found in (None, facts(Life.SHUTOFF, Why.SHUTDOWN)):
        with pytest.raises(WrongState, match="no guest to move"):
            guest.begin(m.MigrateRequest(migration_uid="m-1"), found)
    assert guest.describe(guest.look(None, killed=False)) is None
