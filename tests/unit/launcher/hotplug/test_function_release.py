# Tests: kvedge/launcher/hotplug/nic_keeper.py, kvedge/launcher/migration/outgoing_guest.py
"""Virtual functions and a guest that moves: given back before, plugged in again where it stays, or where it came to.

The keeper, the release and the way out are the launcher's; libvirt and the guest are played.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from kvedge.launcher.hotplug.attempts import ASK_AGAIN_SECONDS
from kvedge.launcher.hotplug.document_process import DiskDocument
from kvedge.launcher.hotplug.function_release import RELEASE_SECONDS, FunctionRelease
from kvedge.launcher.hotplug.nic_keeper import NicKeeper
from kvedge.launcher.launcher_errors import LibvirtFailed
from kvedge.launcher.libvirt.domain_facts import DomainFacts, DomainNic, Life, Why
from kvedge.launcher.migration.migration_record import MigrationRecord
from kvedge.launcher.migration.outgoing_guest import OutgoingGuest
from kvedge.rpc import launcher_pb2 as m
from tests.support.needs import NEEDS_LIBVIRT

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

pytestmark = NEEDS_LIBVIRT
FUNCTIONS = ("fast", "slow")


def function(name: str) -> DomainNic:
    return DomainNic(name, "", "", queues=0, is_function=True)


class PlayedLibvirt:
    """A domain with functions, which refuses to move with one, as libvirt does."""

    libvirt_version = 9_000_000

    def __init__(self) -> None:
        self.nics = {name: function(name) for name in FUNCTIONS}
        self.life, self.why = Life.RUNNING, Why.BOOTED
        # The functions that the guest does not release; after so many seconds from being asked it does the others.
        self.kept: set[str] = set()
        self.asked: list[str] = []
        self.releasing: set[str] = set()
        self.failure = ""
        self.moved = 0
        self.on_move: Callable[[], None] = lambda: None

    @property
    def migration(self) -> PlayedLibvirt:
        return self

    def facts(self) -> DomainFacts:
        found = DomainFacts(uuid="u", life=self.life, why=self.why, nics=tuple(self.nics.values()))
        # Gone at the look after.
        for name in self.releasing - self.kept:
            self.nics.pop(name, None)
        return found

    def detach_device(self, name: str) -> None:
        self.asked.append(name)
        self.releasing.add(name.removeprefix("sriov-"))

    def attach_device(self, xml: str) -> None:
        self.releasing.discard(xml)
        self.nics[xml] = function(xml)

    def move(self, _wish: object) -> None:
        self.moved += 1
        self.on_move()
        if self.nics:
            raise LibvirtFailed("moving the guest", 1, 10, "cannot migrate a domain with <hostdev mode='subsystem'>")
        if self.failure:
            raise LibvirtFailed("moving the guest", 1, 10, self.failure)
        self.life, self.why = Life.SHUTOFF, Why.MIGRATED

    def abort(self) -> None:
        raise LibvirtFailed("ending the migration", 1, 10, "no job is under way")


class Play:
    """One launcher, whose threads are the test's own but for that of the migration."""

    def __init__(self, directory: Path) -> None:
        self.libvirt = PlayedLibvirt()
        self.now = 1000.0
        session = cast("LibvirtSession", self.libvirt)
        self.keeper = NicKeeper(
            session, lambda: None, self._make, lambda: self.now, is_leaving=lambda: self.outgoing.is_moving
        )
        self.keeper._thread = cast("Any", "none")
        self.over = threading.Event()
        release = FunctionRelease(session, self.keeper, lambda: self.now, self._pass)
        self.on_pass: Callable[[], None] = lambda: None
        record = MigrationRecord(str(directory))
        self.outgoing = OutgoingGuest(session, record, self.over.set, leave=release.release)
        interfaces = [{"name": name, "sriov": {}} for name in FUNCTIONS]
        self.vmi = json.dumps({"spec": {"domain": {"devices": {"interfaces": interfaces}}}}).encode()

    def _make(self, question: dict[str, Any]) -> dict[str, DiskDocument]:
        return {name: DiskDocument(name) for name in question["functions"]}

    def _pass(self, seconds: float) -> None:
        self.now += seconds
        self.on_pass()

    def follow(self) -> None:
        self.keeper.follow(m.SyncRequest(vmi_json=self.vmi), self.libvirt.facts())

    def migrate(self) -> m.OutgoingMigration:
        self.outgoing.begin(m.MigrateRequest(migration_uid="m-1"), self.libvirt.facts())
        assert self.over.wait(30)
        word = self.outgoing.look(self.libvirt.facts(), killed=False)
        said = self.outgoing.describe(word)
        assert said is not None
        return said


@pytest.fixture
def play(tmp_path: Path) -> Play:
    return Play(tmp_path)


def test_a_guest_gives_its_functions_back_and_moves(play: Play) -> None:
    play.follow()
    said = play.migrate()
    assert (said.state, said.message) == (m.OUTGOING_GONE, "")
    assert sorted(play.libvirt.asked) == ["sriov-fast", "sriov-slow"]


def test_nothing_is_plugged_in_while_it_leaves_and_all_once_it_stays(play: Play) -> None:
    play.follow()
    play.libvirt.failure = "no route to host"

    def look() -> None:
        play.keeper.look()

    play.on_pass = play.libvirt.on_move = look
    said = play.migrate()
    assert (said.state, play.libvirt.moved) == (m.OUTGOING_KEPT, 1)
    assert "no route" in said.message
    assert play.libvirt.nics == {}
    play.keeper.look()
    assert set(play.libvirt.nics) == set(FUNCTIONS)
    assert play.keeper.troubles() == []


def test_a_launcher_that_is_killed_on_the_way_leaves_it_to_the_next_one(play: Play) -> None:
    play.libvirt.nics = {"slow": function("slow")}
    play.follow()
    play.keeper.look()
    assert set(play.libvirt.nics) == set(FUNCTIONS)


def test_a_guest_that_keeps_a_function_stays_with_all_of_them(play: Play) -> None:
    play.follow()
    play.libvirt.kept = {"slow"}
    began = play.now
    said = play.migrate()
    assert (said.state, play.libvirt.moved) == (m.OUTGOING_KEPT, 0)
    assert "interface slow" in said.message
    assert "PCI hotplug" in said.message
    assert RELEASE_SECONDS <= play.now - began < RELEASE_SECONDS + 1
    assert play.libvirt.asked.count("sriov-slow") == RELEASE_SECONDS / ASK_AGAIN_SECONDS
    assert play.libvirt.asked.count("sriov-fast") == 1
    play.keeper.look()
    assert set(play.libvirt.nics) == set(FUNCTIONS)


def test_a_migration_that_is_given_up_meanwhile_does_not_begin(play: Play) -> None:
    play.follow()
    play.libvirt.kept = {"slow"}
    play.on_pass = lambda: play.outgoing.abort("m-1")
    said = play.migrate()
    assert (said.state, play.libvirt.moved, said.message) == (
        m.OUTGOING_KEPT,
        0,
        "the migration was ended before it began",
    )


def test_a_paused_guest_can_release_nothing_and_says_so(play: Play) -> None:
    play.follow()
    play.libvirt.life, play.libvirt.why = Life.PAUSED, Why.USER
    said = play.migrate()
    assert (said.state, play.libvirt.moved, play.libvirt.asked) == (m.OUTGOING_KEPT, 0, [])
    assert "unpause it first" in said.message


def test_a_guest_without_functions_is_not_touched(play: Play) -> None:
    play.libvirt.nics = {}
    assert play.migrate().state == m.OUTGOING_GONE
    assert play.libvirt.asked == []
