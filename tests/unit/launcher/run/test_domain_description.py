"""What the launcher says of its domain to people, and how much of it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

import pytest

from kvedge.launcher.launcher_errors import DomainMissing, LibvirtFailed, Unanswered
from kvedge.launcher.libvirt.domain_facts import DomainLook, Life, VcpuPlace, Why
from kvedge.launcher.run.domain_description import (
    LARGEST_DOCUMENT,
    MOST_DESCRIPTIONS,
    Descriptions,
    describe,
    ranges,
)
from kvedge.launcher.run.status_board import StatusBoard
from kvedge.rpc import launcher_pb2 as m
from tests.support.values import replace

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

LOOK = DomainLook(
    name="n_v",
    uuid="u",
    id=1,
    life=Life.PAUSED,
    why=Why.USER,
    document="<domain/>",
    vcpus=(VcpuPlace(0, False, 3, 7, (0, 1, 3)),),
    libvirt=11_003_000,
    qemu=10_000_002,
)


class PlayedSession:
    """Shows the look that it has."""

    def __init__(self, look: DomainLook | None) -> None:
        self.look = look
        self.asked = threading.Semaphore(0)
        self.release = threading.Event()
        self.release.set()
        self.is_going = False

    def look_closely(self) -> DomainLook | None:
        self.asked.release()
        self.release.wait(10)
        if self.is_going:
            raise DomainMissing("it went")
        return self.look


def descriptions(session: PlayedSession) -> Descriptions:
    board = StatusBoard()
    board.publish(m.DomainStatus(addresses=[m.GuestAddress(interface="default", addresses=["10.0.0.2"])]))
    return Descriptions(cast("LibvirtSession", session), board)


def test_a_domain_is_told_in_virshs_words_with_the_addresses_that_are_known() -> None:
    made = descriptions(PlayedSession(LOOK)).describe()
    assert (made.name, made.state, made.reason, made.document) == ("n_v", "paused", "paused by request", "<domain/>")
    assert list(made.vcpus) == [m.VcpuPlace(number=0, host_cpu=3, run_ns=7, may_use="0-1,3")]
    assert [list(address.addresses) for address in made.addresses] == [["10.0.0.2"]]


@pytest.mark.parametrize("life", Life)
def test_every_state_has_a_word(life: Life) -> None:
    assert describe(replace(LOOK, life=life), 1).state


def test_no_domain_has_no_name_also_when_it_goes_meanwhile() -> None:
    assert descriptions(PlayedSession(None)).describe() == m.DomainDescription()
    session = PlayedSession(LOOK)
    session.is_going = True
    assert descriptions(session).describe() == m.DomainDescription()


def test_a_document_without_end_is_not_handed_out() -> None:
    found = descriptions(PlayedSession(replace(LOOK, document="ü" * (LARGEST_DOCUMENT // 2 + 1))))
    with pytest.raises(LibvirtFailed, match="longer than 768 KiB"):
        found.describe()


def test_only_so_many_wait_for_libvirt_and_the_next_is_served_again() -> None:
    session = PlayedSession(LOOK)
    session.release.clear()
    found = descriptions(session)
    waiting = [threading.Thread(target=found.describe) for _ in range(MOST_DESCRIPTIONS)]
    for thread in waiting:
        thread.start()
        assert session.asked.acquire(timeout=10)
    with pytest.raises(Unanswered):
        found.describe()
    session.release.set()
    for thread in waiting:
        thread.join(10)
    assert found.describe().name == "n_v"


@pytest.mark.parametrize(
    ("numbers", "text"), [((), ""), ((0,), "0"), ((0, 1, 2), "0-2"), ((1, 3, 4, 9), "1,3-4,9")], ids=str
)
def test_cpus_are_listed_as_linux_does(numbers: tuple[int, ...], text: str) -> None:
    assert ranges(numbers) == text
