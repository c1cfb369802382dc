"""A guest that has come from another node loses its link for a moment, once, and only where its plugin says so."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

from kvedge.launcher.launcher_errors import LibvirtFailed
from kvedge.launcher.libvirt.domain_facts import DOWN_SECONDS, DomainFacts, DomainNic, Life, Why
from kvedge.launcher.migration.link_refresh import LinkRefresh
from kvedge.launcher.migration.migration_record import IncomingRecord, MigrationRecord
from kvedge.rpc import launcher_pb2 as m

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

NICS = (
    DomainNic("default", "m0", "tap0"),
    DomainNic("other", "m1", "tap1"),
    DomainNic("dark", "m2", "tap2", is_down=True),
)
ASKED = m.SyncRequest(
    interfaces=[
        m.GuestInterface(name="default", refresh_link=True),
        m.GuestInterface(name="other"),
        m.GuestInterface(name="dark", refresh_link=True),
    ]
)


def facts(life: Life = Life.RUNNING) -> DomainFacts:
    return DomainFacts(uuid="u", life=life, why=Why.OTHER, nics=NICS)


class Guest:
    """A launcher's guest, with what is done to its links."""

    def __init__(self, directory: Path, *, came: bool = True, switched: str = "") -> None:
        self.done: list[str] = []
        self.refused = ""
        self.looks = 0
        self.record = MigrationRecord(str(directory))
        if came:
            self.record.keep_incoming(IncomingRecord("uid", prepared=True, arrived=True, switched=switched))
        self.links = self.start()

    def start(self) -> LinkRefresh:
        self.links = LinkRefresh(
            cast("LibvirtSession", self), self.record, self._ask, lambda seconds: self.done.append(f"wait {seconds}")
        )
        return self.links

    def set_link(self, name: str, *, down: bool) -> None:
        word = f"{name} {'down' if down else 'up'}"
        if word == self.refused:
            raise LibvirtFailed("changing the NIC's link", 1, 10, "no")
        self.done.append(word)

    def _ask(self) -> None:
        self.looks += 1


REFRESHED = ["default down", f"wait {DOWN_SECONDS}", "default up"]


def test_a_link_that_is_up_goes_down_and_up_once(tmp_path: Path) -> None:
    guest = Guest(tmp_path)
    guest.links.look(facts())
    assert guest.done == []
    guest.links.follow(ASKED, facts())
    assert guest.looks == 1
    for _ in range(2):
        guest.links.look(facts())
    guest.start().follow(ASKED, facts())
    guest.links.look(facts())
    assert guest.done == REFRESHED


def test_a_guest_that_does_not_run_yet_is_waited_for(tmp_path: Path) -> None:
    guest = Guest(tmp_path)
    guest.links.follow(ASKED, facts())
    guest.links.look(facts(Life.PAUSED))
    guest.links.look(None)
    assert guest.done == []
    guest.links.look(facts())
    assert guest.done == REFRESHED


def test_a_guest_that_came_to_another_network_asks_for_its_address_there(tmp_path: Path) -> None:
    guest = Guest(tmp_path, switched="dark,other")
    for _ in range(2):
        guest.links.follow(m.SyncRequest(), facts())
        guest.links.look(facts())
    assert guest.done == ["other down", f"wait {DOWN_SECONDS}", "other up"]


def test_a_guest_that_was_started_here_keeps_its_link(tmp_path: Path) -> None:
    guest = Guest(tmp_path, came=False)
    guest.links.follow(ASKED, facts())
    guest.links.look(facts())
    assert (guest.done, guest.looks) == ([], 0)


def test_what_libvirt_refuses_is_left(tmp_path: Path) -> None:
    guest = Guest(tmp_path)
    guest.refused = "default down"
    guest.links.follow(ASKED, facts())
    for _ in range(2):
        guest.links.look(facts())
    assert guest.done == []
