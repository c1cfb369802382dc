# Tests: kvedge/launcher/hotplug/device_keeper.py
"""The keeper of NICs, with a libvirt that is played: what it does, what it repeats, and what it tells."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

from kvedge.launcher.hotplug.attempts import ASK_AGAIN_SECONDS, PATIENCE_SECONDS
from kvedge.launcher.hotplug.document_process import DiskDocument
from kvedge.launcher.hotplug.nic_keeper import NicKeeper
from kvedge.launcher.launcher_errors import LibvirtFailed, Unanswered
from kvedge.launcher.libvirt.domain_facts import DomainFacts, DomainNic, Life, Why
from kvedge.resources.names import SWITCHED_NETWORKS
from kvedge.rpc import launcher_pb2 as m

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession


class PlayedDomain:
    """libvirt with one domain, whose guest releases NICs unless it is told not to."""

    libvirt_version = 9_000_000

    def __init__(self) -> None:
        self.nics: dict[str, DomainNic] = {"default": DomainNic("default", "m0", "tap0")}
        self.refused: set[str] = set()
        self.kept: set[str] = set()
        self.done: list[str] = []

    def facts(self) -> DomainFacts:
        return DomainFacts(uuid="u", life=Life.RUNNING, why=Why.BOOTED, nics=tuple(self.nics.values()))

    def attach_device(self, xml: str) -> None:
        self.done.append(f"attach {xml}")
        if xml in self.refused:
            raise LibvirtFailed("attaching the device", 1, 10, "no more PCI slots")
        self.nics[xml] = DomainNic(xml, "m", f"tap-{xml}")

    def detach_device(self, name: str) -> None:
        self.done.append(f"detach {name}")
        if name not in self.kept:
            del self.nics[name]

    def set_link(self, name: str, *, down: bool) -> None:
        self.done.append(f"{name} {'down' if down else 'up'}")
        self.nics[name] = self.nics[name]._replace(is_down=down)


class Kept:
    """A keeper without its thread, and the clock."""

    def __init__(self, told: Iterable[str] = ()) -> None:
        self.domain = PlayedDomain()
        self.now = 1000.0
        self.questions: list[dict[str, Any]] = []
        self.unanswered = False
        session = cast("LibvirtSession", self.domain)
        self.keeper = NicKeeper(session, lambda: None, self._make, lambda: self.now, told=told)
        # No thread is started: the test looks by itself.
        self.keeper._thread = cast("Any", "none")

    def _make(self, question: dict[str, Any]) -> dict[str, DiskDocument]:
        self.questions.append(question)
        if self.unanswered:
            raise Unanswered("the devices' documents were not made: killed")
        return {name: DiskDocument(name) for name in question["nics"]}

    def want(self, switched: str = "", **states: str) -> None:
        interfaces = [{"name": name, "state": state} for name, state in states.items()]
        marks = {SWITCHED_NETWORKS: switched} if switched else {}
        vmi = {"metadata": {"annotations": marks}, "spec": {"domain": {"devices": {"interfaces": interfaces}}}}
        prepared = [
            m.GuestInterface(name=name, tap=f"tap-{name}", mac="m", mtu=1400)
            for name, state in states.items()
            if state != "absent"
        ]
        request = m.SyncRequest(vmi_json=json.dumps(vmi).encode(), interfaces=prepared)
        self.keeper.follow(request, self.domain.facts())

    def look(self, seconds: float = 0.0) -> list[str]:
        self.now += seconds
        self.domain.done.clear()
        self.keeper.look()
        return list(self.domain.done)


def test_a_nic_comes_changes_its_link_and_goes() -> None:
    kept = Kept()
    kept.want(default="up", lan="up")
    assert kept.look() == ["attach lan"]
    (question,) = kept.questions
    assert question["nics"] == {"lan": {"tap": "tap-lan", "mac": "m", "mtu": 1400}}
    assert kept.look() == []
    kept.want(default="up", lan="down")
    assert kept.look() == ["lan down"]
    kept.want(default="up", lan="absent")
    assert kept.look() == ["detach lan"]
    assert kept.look() == []
    assert kept.keeper.troubles() == []


def test_a_guest_hears_that_its_nic_was_taken_to_another_network_once() -> None:
    kept = Kept()
    kept.want(default="up")
    kept.want(default="up", switched='{"default":""}')
    assert kept.look() == []
    kept.want(default="up", switched='{"default":"shop/blue"}')
    assert kept.look() == ["default down"]
    assert kept.look() == ["default up"]
    kept.want(default="up", switched='{"default":"shop/blue"}')
    assert kept.look() == []
    # And back while nobody looked.
    kept.want(default="up", switched='{"default":"shop/red"}')
    assert [kept.look(), kept.look(), kept.look()] == [["default down"], ["default up"], []]


def test_a_guest_that_came_to_its_new_network_by_a_migration_hears_of_later_ones_alone() -> None:
    kept = Kept(told=["default"])
    kept.want(default="up", switched='{"default":""}')
    kept.want(default="up", switched='{"default":"shop/blue"}')
    assert kept.look() == []
    kept.want(default="up", switched='{"default":"shop/red"}')
    assert kept.look() == ["default down"]


def test_a_link_that_is_down_stays_down_on_another_network() -> None:
    kept = Kept()
    kept.want(default="down")
    assert kept.look() == ["default down"]
    kept.want(default="down", switched='{"default":"shop/blue"}')
    assert kept.look() == []
    kept.want(default="up", switched='{"default":"shop/blue"}')
    assert [kept.look(), kept.look()] == [["default up"], []]


def test_a_launcher_that_is_started_again_disturbs_nobody() -> None:
    kept = Kept()
    kept.want(default="up", switched='{"default":"shop/blue"}')
    assert kept.look() == []


def test_what_a_sidecar_has_made_is_not_plugged_in_again() -> None:
    kept = Kept()
    interfaces = {"spec": {"domain": {"devices": {"interfaces": [{"name": "made"}]}}}}
    prepared = [m.GuestInterface(name="made", mac="m", mtu=1400)]
    request = m.SyncRequest(vmi_json=json.dumps(interfaces).encode(), interfaces=prepared)
    kept.keeper.follow(request, kept.domain.facts())
    assert kept.look() == []


def test_a_guest_that_keeps_its_nic_is_asked_again_and_told_of_after_a_while() -> None:
    kept = Kept()
    kept.domain.nics["lan"] = DomainNic("lan", "m", "tap-lan")
    kept.domain.kept.add("lan")
    kept.want(default="up", lan="absent")
    assert kept.look() == ["detach lan"]
    assert kept.look() == []
    assert kept.look(ASK_AGAIN_SECONDS) == ["detach lan"]
    assert kept.keeper.troubles() == []
    kept.look(PATIENCE_SECONDS)
    (trouble,) = kept.keeper.troubles()
    assert (trouble.name, trouble.action, trouble.message) == ("lan", m.NIC_ACTION_DETACH, "")


def test_what_libvirt_refuses_is_told_at_once_and_holds_up_no_other() -> None:
    kept = Kept()
    kept.domain.refused.add("one")
    kept.want(default="up", one="up", two="up")
    assert kept.look() == ["attach one", "attach two"]
    (trouble,) = kept.keeper.troubles()
    assert trouble.message == "attaching the device: no more PCI slots"
    kept.domain.refused.clear()
    assert kept.look(1.0) == ["attach one"]
    assert kept.keeper.troubles() == []


def test_documents_that_are_not_made_are_a_trouble_of_their_nics() -> None:
    kept = Kept()
    kept.unanswered = True
    kept.want(default="up", lan="up")
    assert kept.look() == []
    assert [trouble.message for trouble in kept.keeper.troubles()] == ["the devices' documents were not made: killed"]


def test_what_is_wanted_no_longer_is_no_trouble_any_more() -> None:
    kept = Kept()
    kept.domain.refused.add("lan")
    kept.want(default="up", lan="up")
    kept.look()
    kept.want(default="up", lan="absent")
    assert kept.look() == []
    assert kept.keeper.troubles() == []
