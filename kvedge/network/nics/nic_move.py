"""Makes a NIC of the host a port of a bridge, waits for somebody's word that the host is still there, or moves it back.

Called as root on the host by a process of its own, which outlives the session that started it. Decides by `nic_rules`
and `nic_plan`. What a NIC carried is on disk before the first step is made, and until the last step back: the next
process can put it right (`nic_replay`, `nic_back`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from kvedge.network.errors import NetworkError
from kvedge.network.links import Links
from kvedge.network.nics.nic_change import links_of, make_all, put_back, settings_of
from kvedge.network.nics.nic_edge import NicEdge
from kvedge.network.nics.nic_journal import NicJournal
from kvedge.network.nics.nic_managers import is_wireless, nic_manager
from kvedge.network.nics.nic_plan import plan_over
from kvedge.network.nics.nic_rules import NicHardware, check_nic
from kvedge.network.nics.nic_state import NicPhase, NicRecord
from kvedge.runtime.linux.boot import read_boot_id

# How long somebody has to say that the host is still reached.
CONFIRM_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1


def survey_nic(nic: str, bridge: str) -> NicRecord:
    """What there is to move. Raises NetworkError, with the remedy, for a NIC that cannot be moved."""
    with Links() as links, NicEdge() as edge:
        seen = links.list_links()
        found = next((link for link in seen if link.name == nic), None)
        index = found.index if found is not None else 0
        carried = edge.read_carried(index, nic)
        hardware = NicHardware(is_ethernet=edge.is_ethernet(index), is_wireless=is_wireless(nic))
        check_nic(nic, bridge, seen, carried, hardware, nic_manager(nic, index))
    assert found is not None, "check_nic has looked"
    return NicRecord(
        nic=nic,
        bridge=bridge,
        mac=found.mac,
        mtu=found.mtu,
        boot=read_boot_id(),
        addresses=carried.addresses,
        routes=carried.routes,
        settings=settings_of(nic),
        learns=carried.learns,
    )


def try_nic(
    journal: NicJournal, nic: str, bridge: str, seconds: float, wait: Callable[[float], None] = time.sleep
) -> bool:
    """Move it, and move it back unless it is confirmed in time; whether it stays.

    Raises NetworkError when it cannot be moved; then it is as it was, and its record says why until somebody reads it.
    """
    with journal.hold(bridge):
        with journal.be_alone():
            record = _first_record(journal, nic, bridge)
        try:
            with journal.be_alone():
                make_all(plan_over(record, links_of(record)))
                # A confirmation from before the end of the move does not say that the host is reached after it.
                journal.take_word(bridge)
                journal.write(record.in_phase(NicPhase.MOVED))
            # A NIC that carries nothing cannot cut the host off.
            stays = not record.carries_host or _is_confirmed(journal, bridge, seconds, wait)
            if stays:
                journal.write(record.in_phase(NicPhase.KEPT))
        except NetworkError as error:
            _go_back(journal, record)
            _tell_failure(journal, record, error)
            raise
        except BaseException:
            # This process is told to end: nobody would wait any more.
            if not _is_kept(journal, bridge):
                _go_back(journal, record)
            raise
        if not stays:
            _go_back(journal, record)
        return stays


def _first_record(journal: NicJournal, nic: str, bridge: str) -> NicRecord:
    """The record of a move that may begin; it is on disk then. Raises NetworkError."""
    _end_earlier(journal, bridge)
    try:
        _refuse_moved(journal, nic, bridge)
        record = survey_nic(nic, bridge)
    except NetworkError as error:
        _tell_failure(journal, NicRecord(nic=nic, bridge=bridge, mac="", mtu=0, boot=read_boot_id()), error)
        raise
    journal.write(record)
    return record


def _refuse_moved(journal: NicJournal, nic: str, bridge: str) -> None:
    """Raises NetworkError when the NIC is another bridge's, or just becomes it."""
    for other in journal.bridges():
        record = journal.read(other) if other != bridge else None
        if record is not None and record.nic == nic and record.phase is not NicPhase.FAILED:
            raise NetworkError(
                "NIC is moved already",
                subject=nic,
                why=f"{other} was made of it",
                remedy=f"say --bridge {other}, or `kvedge network delete` its network first",
            )


def _is_kept(journal: NicJournal, bridge: str) -> bool:
    record = journal.read(bridge)
    return record is not None and record.phase is NicPhase.KEPT


def _go_back(journal: NicJournal, record: NicRecord) -> None:
    with journal.be_alone():
        put_back(journal, record)


def _end_earlier(journal: NicJournal, bridge: str) -> None:
    """A move that was killed is taken back before the next one; raises NetworkError when the bridge is in use."""
    record = journal.read(bridge)
    if record is None or record.phase is NicPhase.FAILED:
        return
    if record.phase is NicPhase.KEPT:
        raise NetworkError("NIC is moved already", subject=record.nic, why=f"{bridge} was made of it")
    put_back(journal, record)


def _is_confirmed(journal: NicJournal, bridge: str, seconds: float, wait: Callable[[float], None]) -> bool:
    for _ in range(max(1, round(seconds / _POLL_SECONDS))):
        if journal.take_word(bridge):
            return True
        wait(_POLL_SECONDS)
    return journal.take_word(bridge)


def _tell_failure(journal: NicJournal, record: NicRecord, error: NetworkError) -> None:
    journal.write(record.in_phase(NicPhase.FAILED, str(error)))
