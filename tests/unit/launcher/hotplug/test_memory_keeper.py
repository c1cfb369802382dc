"""The keeper of memory, with a libvirt that is played."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kvedge.launcher.hotplug.memory_keeper import MemoryKeeper, read_free_memory
from kvedge.launcher.launcher_errors import LibvirtFailed
from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, MemoryFacts, Why
from kvedge.rpc.launcher_pb2 import SyncRequest

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

GIB = 1 << 30


class PlayedDomain:
    """libvirt with one domain of 1 GiB that may get three more."""

    def __init__(self) -> None:
        self.requested = 0
        self.refuses = False
        self.asked: list[int] = []

    def facts(self) -> DomainFacts:
        memory = MemoryFacts(GIB, 3 * GIB, self.requested, self.requested)
        return DomainFacts(uuid="u", life=Life.RUNNING, why=Why.BOOTED, memory=memory)

    def request_memory(self, size: int) -> None:
        self.asked.append(size)
        if self.refuses:
            raise LibvirtFailed("changing the guest's memory", 1, 10, "QEMU does not want to")
        self.requested = size


class Kept:
    """A keeper without its thread, the clock, and the node's memory."""

    def __init__(self) -> None:
        self.domain, self.now, self.leaving, self.free = PlayedDomain(), 1000.0, False, 8 * GIB
        session = cast("LibvirtSession", self.domain)
        self.keeper = MemoryKeeper(session, lambda: None, lambda: self.now, lambda: self.leaving, lambda: self.free)
        # No thread is started: the test looks by itself.
        self.keeper._thread = cast("Any", "none")

    def want(self, size: int) -> None:
        self.keeper.follow(SyncRequest(memory_bytes=size), self.domain.facts())

    def look(self, seconds: float = 0.0) -> list[int]:
        self.now += seconds
        self.domain.asked.clear()
        self.keeper.look()
        return self.domain.asked


def test_memory_grows_and_shrinks_each_asked_for_once() -> None:
    kept = Kept()
    kept.want(3 * GIB)
    assert kept.look() == [2 * GIB]
    assert kept.look(60) == []
    kept.want(GIB)
    assert kept.look() == [0]
    assert kept.keeper.trouble() == ""


def test_a_refusal_is_told_tried_again_and_forgotten_once_it_works() -> None:
    kept = Kept()
    kept.domain.refuses = True
    kept.want(2 * GIB)
    assert kept.look() == [GIB]
    assert "QEMU does not want to" in kept.keeper.trouble()
    assert kept.look() == [], "not before its time"
    kept.domain.refuses = False
    assert kept.look(60) == [GIB]
    assert kept.keeper.trouble() == ""


def test_a_guest_waits_for_memory_that_its_node_has_not_got() -> None:
    kept = Kept()
    kept.free = GIB // 2
    kept.want(2 * GIB)
    assert kept.look() == []
    assert kept.keeper.trouble() == ("the node has 512 MiB of memory to spare, and the guest is to have 1024 MiB more")
    kept.free = 2 * GIB
    assert kept.look(60) == [GIB]


def test_a_guest_that_leaves_is_asked_for_nothing_before_it_stays() -> None:
    kept = Kept()
    kept.leaving = True
    kept.want(2 * GIB)
    assert kept.look() == []
    kept.leaving = False
    assert kept.look(10) == [GIB]


def test_the_kernel_says_what_the_node_has_to_spare() -> None:
    free = read_free_memory()
    assert free is not None
    assert free > 0
