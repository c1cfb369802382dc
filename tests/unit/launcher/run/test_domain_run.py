"""How a run ended is settled when it ends, whoever asks for what afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from kvedge.launcher.agent.guest_clock import GuestClock
from kvedge.launcher.launcher_errors import Unanswered, WrongState
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why
from kvedge.launcher.migration.migration_record import IncomingRecord, MigrationRecord
from kvedge.launcher.run.domain_run import DomainRun
from kvedge.launcher.run.domain_watch import DomainWatch
from kvedge.launcher.run.run_record import RunRecord
from kvedge.rpc import launcher_pb2 as m

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession


class OneDomain:
    """A libvirt whose one domain is as a test has it."""

    def __init__(self) -> None:
        self.life, self.why = Life.RUNNING, Why.BOOTED

    def facts(self) -> DomainFacts:
        return DomainFacts(uuid="11111111-1111-4111-8111-111111111111", life=self.life, why=self.why)


@pytest.fixture
def options(tmp_path: Path) -> LauncherOptions:
    (tmp_path / "var/run/kubevirt").mkdir(parents=True)
    return LauncherOptions(namespace="n", name="v", uid="u", root=str(tmp_path))


@pytest.mark.parametrize("was_seen", [True, False], ids=["seen", "not seen yet"])
def test_a_crash_stays_one_when_its_run_is_deleted(options: LauncherOptions, *, was_seen: bool) -> None:
    domain, record = OneDomain(), RunRecord(options)
    record.begin()
    run = DomainRun(cast("LibvirtSession", domain), record, None, lambda: None, lambda: False)
    run.view.look()
    domain.life, domain.why = Life.CRASHED, Why.CRASHED
    if was_seen:
        run.view.look()
    run.life.delete()
    assert run.view.verdict().exit_code == 1
    assert run.view.look().state == m.DOMAIN_STATE_CRASHED
    assert run.board.status.reason == m.DOMAIN_REASON_CRASHED
    assert json.loads(Path(options.final_path).read_text())["state"] == "DOMAIN_STATE_CRASHED"


def test_what_a_user_should_hear_of_the_disks_is_in_the_status(options: LauncherOptions) -> None:
    run = DomainRun(cast("LibvirtSession", OneDomain()), RunRecord(options), None, lambda: None, lambda: False)
    run.state.disk_notes, run.state.growth_notes = ("PV size too small",), ("Disk a does not grow",)
    assert list(run.view.look().small_disks) == ["PV size too small"]
    assert list(run.view.look().ungrown_disks) == ["Disk a does not grow"]


def test_a_guest_that_came_says_by_which_migration(options: LauncherOptions) -> None:
    record = RunRecord(options)
    record.begin()
    MigrationRecord(record.directory).keep_incoming(IncomingRecord("m-1", prepared=True, arrived=True))
    run = DomainRun(cast("LibvirtSession", OneDomain()), record, None, lambda: None, lambda: False)
    status = run.view.look()
    assert (status.state, status.incoming.migration_uid) == (m.DOMAIN_STATE_RUNNING, "m-1")
    assert status.incoming.state == m.INCOMING_OWNED
    assert not status.HasField("outgoing")


def test_a_guest_that_came_is_told_the_time_by_the_first_launcher_alone(
    options: LauncherOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    owed: list[Callable[[], None]] = []
    monkeypatch.setattr(GuestClock, "owe", lambda _clock, on_told: owed.append(on_told))
    record = RunRecord(options)

    def start_launcher() -> int:
        DomainRun(cast("LibvirtSession", OneDomain()), record, None, lambda: None, lambda: False)
        return len(owed)

    record.begin()
    assert start_launcher() == 0
    MigrationRecord(record.directory).keep_incoming(IncomingRecord("m-1", prepared=True, arrived=True))
    # One that ends before the guest's agent was told leaves it to the next.
    assert (start_launcher(), start_launcher()) == (1, 2)
    owed[0]()
    assert start_launcher() == 2


class LockedDomain(OneDomain):
    """One that has come; QEMU may not let it run while its image is locked."""

    def __init__(self) -> None:
        super().__init__()
        self.life, self.why = Life.PAUSED, Why.USER
        self.is_locked = True

    def watch(self, _on_event: object) -> None: ...

    def pause(self) -> None: ...

    def unpause(self) -> None:
        if self.is_locked:
            raise Unanswered("the image's lock is not free")
        self.life, self.why = Life.RUNNING, Why.UNPAUSED


@pytest.fixture
def came(options: LauncherOptions, monkeypatch: pytest.MonkeyPatch) -> tuple[DomainRun, LockedDomain]:
    """A run whose guest was released by the launcher before; the test looks in the place of the thread that watches."""
    record, domain = RunRecord(options), LockedDomain()
    record.begin()
    MigrationRecord(record.directory).keep_incoming(IncomingRecord("m-1", prepared=True, arrived=True, goes_on=True))
    monkeypatch.setattr(DomainWatch, "start", lambda *_: None)
    run = DomainRun(cast("LibvirtSession", domain), record, None, lambda: None, lambda: False)
    run.start()
    return run, domain


def test_a_guest_that_came_and_may_not_run_yet_is_let_run_as_soon_as_it_may(
    came: tuple[DomainRun, LockedDomain],
) -> None:
    run, domain = came
    told = run.board.status
    # No user has paused it.
    assert (told.state, told.reason) == (m.DOMAIN_STATE_PAUSED, m.DOMAIN_REASON_UNSPECIFIED)
    assert told.message == "the guest has come, and cannot run yet"
    with pytest.raises(WrongState, match="does not run yet"):
        run.orders.migrate(m.MigrateRequest(migration_uid="m-2"))
    domain.is_locked = False
    run._look()
    assert run.board.status.state == m.DOMAIN_STATE_RUNNING


def test_a_guest_that_came_and_was_paused_by_a_user_before_it_ran_stays_paused(
    came: tuple[DomainRun, LockedDomain],
) -> None:
    run, domain = came
    run.orders.pause()
    domain.is_locked = False
    run._look()
    told = run.board.status
    assert (told.state, told.reason, told.message) == (m.DOMAIN_STATE_PAUSED, m.DOMAIN_REASON_USER, "")
