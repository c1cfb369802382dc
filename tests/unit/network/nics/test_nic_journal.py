# Tests: kvedge/network/nics/nic_state.py
"""What is on disk of a NIC, and who may write it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.network.errors import NetworkError
from kvedge.network.nics.nic_journal import NicBusyError, NicJournal
from kvedge.network.nics.nic_state import KeptAddress, KeptRoute, NicPhase, NicRecord, bridge_of_nic
from tests.support.values import replace

RECORD = NicRecord(
    nic="eth0",
    bridge="kvb-eth0",
    mac="52:54:00:00:00:01",
    mtu=1500,
    boot="b",
    addresses=(KeptAddress("192.0.2.2", 24, label="eth0:1"), KeptAddress("2001:db8::2", 64)),
    routes=(KeptRoute("::/0", "2001:db8::1", metric=1024),),
    settings={"ipv4/rp_filter": "1"},
)


@pytest.fixture
def journal(tmp_path: Path) -> NicJournal:
    made = NicJournal(tmp_path / "nics")
    with made.hold("kvb-eth0"):
        made.write(RECORD)
    return made


def test_a_record_is_read_as_it_was_written(journal: NicJournal) -> None:
    assert journal.read("kvb-eth0") == RECORD
    journal.write(RECORD.in_phase(NicPhase.KEPT))
    assert journal.read("kvb-eth0") == RECORD.in_phase(NicPhase.KEPT)
    assert journal.bridges() == ["kvb-eth0"]
    journal.remove("kvb-eth0")
    assert (journal.read("kvb-eth0"), journal.bridges()) == (None, [])


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"addresses": [{"x": 1}], "routes": [], "phase": "Kept"}', "[" * 9000]
)
def test_a_damaged_record_is_told_with_the_remedy(journal: NicJournal, text: str) -> None:
    (journal.directory / "kvb-eth0.json").write_text(text)
    with pytest.raises(NetworkError, match=r"cannot read the record of bridge kvb-eth0.*then remove"):
        journal.read("kvb-eth0")


def test_a_host_that_routers_tell_its_address_is_on_the_nic_too(journal: NicJournal) -> None:
    bare = replace(RECORD, addresses=(), routes=())
    assert not bare.carries_host
    assert replace(bare, learns=True).carries_host
    journal.write(replace(bare, learns=True))
    assert journal.read("kvb-eth0") == replace(bare, learns=True)


def test_one_at_a_time_moves_a_nic(journal: NicJournal) -> None:
    assert not journal.is_held("kvb-eth0")
    with journal.hold("kvb-eth0"):
        assert journal.is_held("kvb-eth0")
        with pytest.raises(NicBusyError), journal.hold("kvb-eth0"):
            pass
    assert not journal.is_held("kvb-eth0")


def test_one_at_a_time_compares_records_of_whichever_bridge(journal: NicJournal) -> None:
    waited: list[float] = []
    with journal.hold("kvb-eth0"), journal.be_alone():
        with journal.hold("br0"), pytest.raises(NicBusyError), journal.be_alone(waited.append):
            pass
        assert sum(waited) == pytest.approx(10)
    with journal.be_alone(waited.append):
        assert len(waited) == 200
    assert journal.bridges() == ["kvb-eth0"]


def test_a_word_is_taken_once(journal: NicJournal) -> None:
    assert not journal.take_word("kvb-eth0")
    journal.confirm("kvb-eth0")
    assert journal.take_word("kvb-eth0")
    assert not journal.take_word("kvb-eth0")


def test_where_no_nic_was_ever_moved_there_is_nothing(tmp_path: Path) -> None:
    assert NicJournal(tmp_path / "none").bridges() == []


def test_a_long_name_of_a_nic_still_makes_one_of_a_bridge() -> None:
    assert bridge_of_nic("eth0") == "kvb-eth0"
    assert len(bridge_of_nic("enp0s31f6np0np1")) == 15
