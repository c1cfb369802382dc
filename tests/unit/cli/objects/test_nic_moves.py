"""Who may move a NIC, on which host, and what is said when it goes back: with a journal on disk and a played guard."""

from __future__ import annotations

import os
import select
import socket
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from kvedge.appliance.host.layout import Role
from kvedge.appliance.install import installed
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.objects import nic_moves
from kvedge.kube.kube_client import KubeClient
from kvedge.network.nics.nic_journal import NicJournal
from kvedge.network.nics.nic_state import KeptAddress, NicPhase, NicRecord
from kvedge.resources.types.core import Node, NodeStatus
from kvedge.runtime.linux.boot import read_boot_id
from kvedge.standalone.box_lock import BoxLock

RECORD = NicRecord(nic="eth0", bridge="kvb-eth0", mac="", mtu=1500, boot="b", addresses=(KeptAddress("192.0.2.2", 24),))


@pytest.fixture
def journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> NicJournal:
    """A journal, and a NIC that can be moved."""
    made = NicJournal(tmp_path)
    monkeypatch.setattr(nic_moves, "survey_nic", lambda nic, bridge: RECORD)
    monkeypatch.setattr(nic_moves, "filters_of_nic", lambda nic, index: [])
    monkeypatch.setattr(nic_moves.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(nic_moves.sys, "stdin", SimpleNamespace(isatty=lambda: False))
    return made


def guard_that(journal: NicJournal, monkeypatch: pytest.MonkeyPatch, *, ends: NicRecord | None) -> None:
    """A guard that has moved the NIC, and then ends so."""
    told = iter([None, ends is not None])

    def start(*_: object) -> subprocess.Popen[bytes] | None:
        journal.write(RECORD.in_phase(NicPhase.MOVED))
        return None

    monkeypatch.setattr(nic_moves, "start_guard", start)
    monkeypatch.setattr(nic_moves, "outcome", lambda journal, bridge: next(told))


def test_only_root_moves_a_nic(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Refused, match="by root alone") as refused:
        nic_moves.open_nic_journal(None, str(tmp_path))
    assert refused.value.code is Exit.HOST
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert nic_moves.open_nic_journal(None, str(tmp_path)).directory == tmp_path / "nics"


def test_another_host_s_api_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    nic_moves.refuse_elsewhere("https://127.0.0.1:6443")
    there = [(socket.AF_INET, socket.SOCK_DGRAM, 0, "", ("192.0.2.77", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: there)
    with pytest.raises(Refused, match="https://box:6443 is another host's API"):
        nic_moves.refuse_elsewhere("https://box:6443")


class Api:
    """Of a box whose Node is of that boot."""

    host = "https://127.0.0.1:6443"

    def __init__(self, boot: str) -> None:
        self._nodes = [Node(status=NodeStatus(node_info={"bootID": boot}))]

    def list(self, kind: type[Node], namespace: None) -> list[Node]:
        return self._nodes


def test_a_nic_is_moved_where_a_box_runs_that_keeps_its_bridge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(boot: str) -> str:
        with pytest.raises(Refused) as told:
            nic_moves.refuse_unkept(cast("KubeClient", Api(boot)), None, str(tmp_path))
        assert told.value.code is Exit.HOST
        return told.value.text

    role: list[Role | None] = ["server"]
    monkeypatch.setattr(installed, "role_here", lambda settings: role[0])
    assert refused(read_boot_id()).startswith("--nic: this host is a node of a cluster, installed as server")
    role[0] = None
    assert refused(read_boot_id()).startswith(f"--nic: no kvedge standalone runs in {tmp_path}")
    assert list(tmp_path.iterdir()) == []
    lock = BoxLock(tmp_path)
    lock.start()
    try:
        assert "is not the API of this host's box" in refused("another")
        nic_moves.refuse_unkept(cast("KubeClient", Api(read_boot_id())), None, str(tmp_path))
    finally:
        lock.stop()
    assert "no kvedge standalone runs" in refused(read_boot_id())


def test_a_move_that_was_confirmed_stays(
    journal: NicJournal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    guard_that(journal, monkeypatch, ends=RECORD)
    assert nic_moves.make_bridge(journal, "eth0", "kvb-eth0")
    said = capsys.readouterr().out
    assert "eth0 is a port of kvb-eth0 now, which has 192.0.2.2." in said
    assert "moved back in 30 s" in said
    assert "open a second connection first" in said
    assert "firewall rules that name eth0" in said
    assert "`kvedge network confirm`" in said


def test_a_move_that_nobody_confirmed_makes_no_network(journal: NicJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    guard_that(journal, monkeypatch, ends=None)
    with pytest.raises(Refused, match=r"kvb-eth0 is gone, and the NIC as it was. No network was created") as refused:
        nic_moves.make_bridge(journal, "eth0", "kvb-eth0")
    assert refused.value.code is Exit.TIMED_OUT


def test_what_an_earlier_guard_left_is_put_right_before_the_next_one_starts(
    journal: NicJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def left(journal: NicJournal, bridge: str) -> NicRecord:
        done.append("taken back")
        return RECORD.in_phase(NicPhase.FAILED, "of yesterday")

    def start(*_: object) -> None:
        done.append("started")
        journal.write(RECORD.in_phase(NicPhase.KEPT))

    monkeypatch.setattr(nic_moves, "take_back", left)
    monkeypatch.setattr(nic_moves, "start_guard", start)
    assert nic_moves.make_bridge(journal, "eth0", "kvb-eth0")
    assert done == ["taken back", "started"]


def test_a_second_network_shares_the_bridge_of_a_nic(journal: NicJournal) -> None:
    journal.write(RECORD.in_phase(NicPhase.KEPT))
    assert not nic_moves.make_bridge(journal, "eth0", "kvb-eth0")
    with pytest.raises(Refused, match="kvb-eth0 is a bridge of eth0: name another one with --bridge"):
        nic_moves.make_bridge(journal, "eth1", "kvb-eth0")


def test_a_word_without_a_move_is_refused(journal: NicJournal) -> None:
    journal.write(RECORD.in_phase(NicPhase.KEPT))
    with pytest.raises(Refused, match="no NIC waits for a word") as refused:
        nic_moves.confirm_moves(journal)
    assert refused.value.code is Exit.NOT_FOUND


def test_a_word_that_comes_too_late_is_told(journal: NicJournal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nic_moves, "waiting_bridges", lambda journal: ["kvb-eth0"])
    with pytest.raises(Refused, match="kvb-eth0 was taken back before"):
        nic_moves.confirm_moves(journal)


@pytest.mark.parametrize(("typed", "confirmed"), [("\n", True), ("", False)], ids=["Enter", "a session that was lost"])
def test_enter_is_a_word_and_the_end_of_a_session_is_none(
    journal: NicJournal, monkeypatch: pytest.MonkeyPatch, typed: str, confirmed: bool
) -> None:
    guard_that(journal, monkeypatch, ends=RECORD if confirmed else None)
    monkeypatch.setattr(nic_moves.sys, "stdin", SimpleNamespace(isatty=lambda: True, readline=lambda: typed))
    monkeypatch.setattr(nic_moves.select, "select", lambda read, *_: (read, [], []))
    monkeypatch.setattr(nic_moves.termios, "tcflush", lambda *_: None)
    if confirmed:
        assert nic_moves.make_bridge(journal, "eth0", "kvb-eth0")
    else:
        with pytest.raises(Refused, match="nobody has confirmed it"):
            nic_moves.make_bridge(journal, "eth0", "kvb-eth0")
    assert journal.take_word("kvb-eth0") is confirmed


def test_enter_that_was_typed_before_the_question_is_no_word(
    journal: NicJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyboard, terminal = os.openpty()
    try:
        os.write(keyboard, b"\n")
        with os.fdopen(terminal) as stdin:
            select.select([stdin], [], [])
            guard_that(journal, monkeypatch, ends=None)
            monkeypatch.setattr(nic_moves.sys, "stdin", stdin)
            monkeypatch.setattr(nic_moves, "_POLL_SECONDS", 0)
            with pytest.raises(Refused, match="nobody has confirmed it"):
                nic_moves.make_bridge(journal, "eth0", "kvb-eth0")
    finally:
        os.close(keyboard)
    assert not journal.take_word("kvb-eth0")


def test_a_move_that_is_not_done_waits_for_no_word(journal: NicJournal) -> None:
    with journal.hold("kvb-eth0"):
        journal.write(RECORD)
        with pytest.raises(Refused, match="no NIC waits for a word"):
            nic_moves.confirm_moves(journal)
    assert not journal.take_word("kvb-eth0")


def test_enter_is_no_word_where_a_filter_knows_the_nic(
    journal: NicJournal, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    guard_that(journal, monkeypatch, ends=None)
    monkeypatch.setattr(nic_moves, "filters_of_nic", lambda nic, index: ["inet/fw"])
    monkeypatch.setattr(nic_moves.sys, "stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(nic_moves.termios, "tcflush", lambda *_: None)
    with pytest.raises(Refused, match="nobody has confirmed it"):
        nic_moves.make_bridge(journal, "eth0", "kvb-eth0")
    said = capsys.readouterr().out
    assert "rules of inet/fw (nftables) are about eth0" in said
    assert "Enter" not in said
