# Tests: kvedge/launcher/hotplug/amount_keeper.py
"""The keeper of CPUs, with a libvirt that is played."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from kvedge.launcher.hotplug.cpu_keeper import CpuKeeper
from kvedge.launcher.launcher_errors import LibvirtFailed
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why
from kvedge.rpc.launcher_pb2 import SyncRequest

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession


class PlayedDomain:
    """libvirt with one domain that may get four vCPUs."""

    def __init__(self) -> None:
        self.vcpus = 1
        self.refuses = False
        self.asked: list[int] = []

    def facts(self) -> DomainFacts:
        return DomainFacts(uuid="u", life=Life.RUNNING, why=Why.BOOTED, vcpus=self.vcpus, most_vcpus=4)

    def set_vcpus(self, count: int) -> None:
        self.asked.append(count)
        if self.refuses:
            raise LibvirtFailed("plugging CPUs in", 1, 10, "no thread is left")
        self.vcpus = count


class Kept:
    """A keeper without its thread, and the clock."""

    def __init__(self) -> None:
        self.domain, self.now, self.leaving = PlayedDomain(), 1000.0, False
        session = cast("LibvirtSession", self.domain)
        self.keeper = CpuKeeper(session, lambda: None, lambda: self.now, lambda: self.leaving)
        # No thread is started: the test looks by itself.
        self.keeper._thread = cast("Any", "none")

    def want(self, sockets: int) -> None:
        vmi = {"spec": {"domain": {"cpu": {"sockets": sockets}}}}
        self.keeper.follow(SyncRequest(vmi_json=json.dumps(vmi).encode()), self.domain.facts())

    def look(self, seconds: float = 0.0) -> list[int]:
        self.now += seconds
        self.domain.asked.clear()
        self.keeper.look()
        return self.domain.asked


def test_a_guest_gets_its_cpus_once() -> None:
    kept = Kept()
    kept.want(3)
    assert kept.look() == [3]
    assert kept.look(60) == []
    assert kept.keeper.trouble() == ""


def test_a_refusal_is_told_tried_again_and_forgotten_once_it_works() -> None:
    kept = Kept()
    kept.domain.refuses = True
    kept.want(2)
    assert kept.look() == [2]
    assert "no thread is left" in kept.keeper.trouble()
    assert kept.look() == [], "not before its time"
    kept.domain.refuses = False
    assert kept.look(60) == [2]
    assert kept.keeper.trouble() == ""


def test_what_there_is_no_room_for_is_told_and_not_tried() -> None:
    kept = Kept()
    kept.want(5)
    assert kept.look() == []
    assert kept.keeper.trouble() == "the guest was started with room for 4 vCPUs, and is to have 5"


def test_a_guest_that_leaves_gets_nothing_before_it_stays() -> None:
    kept = Kept()
    kept.leaving = True
    kept.want(2)
    assert kept.look() == []
    kept.leaving = False
    assert kept.look(10) == [2]
