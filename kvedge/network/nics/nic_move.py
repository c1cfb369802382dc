"""Makes a NIC of the host a port of a bridge, waits for somebody's word that the host is still there, or moves it back.

Called as root on the host: `try_nic` by a process of its own, which outlives the session that started it;
`replay_nics` by the node agent at its start and twice a minute; `give_back` by `kvedge network delete` and by whoever
removes everything. Decides by `nic_rules` and `nic_plan`. What a NIC carried is on disk before the first step is made,
and until the last step back: whoever comes next can put it right.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from kvedge.network.apply_step import apply_step
from kvedge.network.errors import NetworkError
from kvedge.network.links import Links
from kvedge.network.nics.nic_edge import NicEdge
from kvedge.network.nics.nic_journal import NicBusyError, NicJournal
from kvedge.network.nics.nic_managers import is_wireless, nic_manager
from kvedge.network.nics.nic_plan import (
    NO_IPV6,
    SETTINGS,
    NicLinks,
    is_bridge_of,
    is_over,
    plan_back,
    plan_over,
    setting_path,
)
from kvedge.network.nics.nic_rules import NicHardware, check_nic, listed
from kvedge.network.nics.nic_state import NicPhase, NicRecord
from kvedge.network.nics.nic_steps import GiveAddress, LeadRoute, NicStep, ReleasePort, TakeAddress
from kvedge.network.sysctls import read_sysctl

# How long somebody has to say that the host is still reached.
CONFIRM_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1


@dataclass(frozen=True)
class NicHealth:
    """What was put right, and what could not be, in words for the operator."""

    healed: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()


def survey_nic(nic: str, bridge: str) -> NicRecord:
    """What there is to move. Raises NetworkError, with the remedy, for a NIC that cannot be moved."""
    with Links() as links, NicEdge() as edge:
        seen = links.list_links()
        found = next((link for link in seen if link.name == nic), None)
        index = found.index if found is not None else 0
        carried = edge.carried(index, nic)
        hardware = NicHardware(is_ethernet=edge.is_ethernet(index), is_wireless=is_wireless(nic))
        check_nic(nic, bridge, seen, carried, hardware, nic_manager(nic, index))
    assert found is not None, "check_nic has looked"
    return NicRecord(
        nic=nic,
        bridge=bridge,
        mac=found.mac,
        mtu=found.mtu,
        boot=_this_boot(),
        addresses=carried.addresses,
        routes=carried.routes,
        settings=_settings_of(nic),
        learns=carried.learns,
    )


def try_nic(
    journal: NicJournal, nic: str, bridge: str, seconds: float, wait: Callable[[float], None] = time.sleep
) -> bool:
    """Move it, and move it back unless it is confirmed in time; whether it stays.

    Raises NetworkError when it cannot be moved; then it is as it was, and its record says why until somebody reads it.
    """
    with journal.hold(bridge):
        _end_earlier(journal, bridge)
        try:
            record = survey_nic(nic, bridge)
        except NetworkError as error:
            _tell_failure(journal, NicRecord(nic=nic, bridge=bridge, mac="", mtu=0, boot=_this_boot()), error)
            raise
        journal.take_word(bridge)
        journal.write(record)
        stays = False
        try:
            _make(plan_over(record, _links_of(record)))
            # Who left word before the move was done had not seen that the host is reached after it.
            journal.take_word(bridge)
            journal.write(record.in_phase(NicPhase.MOVED))
            # A NIC that carries nothing cannot cut the host off.
            stays = not record.carries_host or _is_confirmed(journal, bridge, seconds, wait)
            if stays:
                journal.write(record.in_phase(NicPhase.KEPT))
        except NetworkError as error:
            _put_back(journal, record)
            _tell_failure(journal, record, error)
            raise
        except BaseException:
            # This process is told to end: nobody would wait any more.
            _put_back(journal, record)
            raise
        if not stays:
            _put_back(journal, record)
        return stays


def give_back(journal: NicJournal, bridge: str) -> bool:
    """Move what the NIC carried back to it; whether there was something to move.

    Raises NetworkError when guests are on the bridge, NicBusyError when somebody else is moving the NIC.
    """
    with journal.hold(bridge):
        record = journal.read(bridge)
        if record is None:
            return False
        guests = _links_of(record).guests
        if guests and record.phase is NicPhase.KEPT:
            raise NetworkError(
                "cannot give NIC back", subject=record.nic, why=f"guests are on {bridge}", remedy="stop their VMs first"
            )
        _put_back(journal, record)
        return True


def give_all_back(directory: Path) -> None:
    """Everything of ours, moved or in between. Raises NetworkError."""
    journal = NicJournal(directory)
    for bridge in journal.bridges():
        give_back(journal, bridge)


def replay_nics(directory: Path) -> NicHealth:
    """Put right what a process that was killed, a power cut or somebody else has left; cheap when that is nothing."""
    journal = NicJournal(directory)
    healed: list[str] = []
    troubles: list[str] = []
    for bridge in journal.bridges():
        try:
            with journal.hold(bridge):
                done = _replay(journal, bridge)
        except NicBusyError:
            # Its own process waits for the confirmation.
            continue
        except NetworkError as error:
            troubles.append(str(error))
        else:
            healed += [done] if done else []
    return NicHealth(tuple(healed), tuple(troubles))


def _replay(journal: NicJournal, bridge: str) -> str:
    """What was done for a bridge whose lock is ours; nothing for one that is as it should be."""
    record = journal.read(bridge)
    if record is None or record.phase is NicPhase.FAILED:
        return ""
    if record.phase is not NicPhase.KEPT:
        _put_back(journal, record)
        return f"{record.nic} is itself again: nobody has confirmed {bridge}"
    seen = _links_of(record)
    if seen.nic is None:
        raise NetworkError("NIC is gone", subject=record.nic, why=f"{bridge} was made of it", remedy="see `ip link`")
    if seen.joined and _is_over(record, seen):
        return ""
    if not seen.joined and record.boot != _this_boot():
        record = _seen_at_this_boot(record, seen)
        journal.write(record)
    # Forwarding may have been switched since, on all links; that of a port's IPv6 is what it was before.
    settings = _settings_of(record.nic)
    if NO_IPV6 in record.settings:
        settings[NO_IPV6] = record.settings[NO_IPV6]
    try:
        _make(plan_over(replace(record, settings=settings), seen))
    except NetworkError:
        # The host is reached by the NIC itself until the next look, which finds its record.
        with suppress(NetworkError):
            seen = _links_of(record)
            _make(plan_back(record, seen, keeps_bridge=bool(seen.guests)))
        raise
    return f"{record.nic} was not on {bridge}" if not seen.joined else f"{bridge} had not all that {record.nic} carried"


def _seen_at_this_boot(record: NicRecord, seen: NicLinks) -> NicRecord:
    """The record with what the NIC carries now; raises NetworkError when that is not what was confirmed."""
    # Whoever gave the NIC its addresses at this boot may have given others, or not yet all of its routes.
    now = survey_nic(record.nic, record.bridge) if seen.bridge is None else record
    doing, why = "NIC is not made a port again", ""
    if {each.address for each in now.addresses} != {each.address for each in record.addresses}:
        why = f"it has other addresses than when {record.bridge} was made of it"
    elif lacking := sorted({each.destination for each in set(record.routes) - set(now.routes)}):
        why = f"it lacks the route to {listed(lacking)}, which it had when {record.bridge} was made of it"
    if why:
        remedy = f"`kvedge network delete` the network of {record.bridge}, and create it again"
        raise NetworkError(doing, subject=record.nic, why=why, remedy=remedy)
    return replace(now, phase=NicPhase.KEPT, boot=_this_boot())


def _is_over(record: NicRecord, seen: NicLinks) -> bool:
    if seen.bridge is None or seen.nic is None:
        return False
    with NicEdge() as edge:
        on_bridge = edge.carried(seen.bridge.index, record.bridge)
        return is_over(record, on_bridge, edge.carried(seen.nic.index, record.nic))


def _settings_of(nic: str) -> dict[str, str]:
    values = {name: read_sysctl(setting_path(nic, name)) for name in (*SETTINGS, NO_IPV6)}
    return {name: value for name, value in values.items() if value is not None}


def _end_earlier(journal: NicJournal, bridge: str) -> None:
    """A move that was killed is taken back before the next one; raises NetworkError when the bridge is in use."""
    record = journal.read(bridge)
    if record is None or record.phase is NicPhase.FAILED:
        return
    if record.phase is NicPhase.KEPT:
        raise NetworkError("NIC is moved already", subject=record.nic, why=f"{bridge} was made of it")
    _put_back(journal, record)


def _is_confirmed(journal: NicJournal, bridge: str, seconds: float, wait: Callable[[float], None]) -> bool:
    for _ in range(max(1, round(seconds / _POLL_SECONDS))):
        if journal.take_word(bridge):
            return True
        wait(_POLL_SECONDS)
    return journal.take_word(bridge)


def _put_back(journal: NicJournal, record: NicRecord) -> None:
    seen = _links_of(record)
    if record.phase is NicPhase.FAILED:
        journal.remove(record.bridge)
        return
    # After another boot the NIC has what the host has given it.
    if record.boot == _this_boot() or seen.joined:
        _make(plan_back(record, seen))
    journal.remove(record.bridge)


def _tell_failure(journal: NicJournal, record: NicRecord, error: NetworkError) -> None:
    journal.write(record.in_phase(NicPhase.FAILED, str(error)))


def _links_of(record: NicRecord) -> NicLinks:
    with Links() as links:
        seen = links.list_links()
    by_name = {link.name: link for link in seen}
    bridge = by_name.get(record.bridge)
    if bridge is not None and not is_bridge_of(record, bridge):
        bridge = None
    ports = () if bridge is None else (link.name for link in seen if link.master == bridge.index)
    return NicLinks(by_name.get(record.nic), bridge, tuple(name for name in ports if name != record.nic))


def _make(steps: Iterable[NicStep]) -> None:
    with Links() as links, NicEdge() as edge:
        for step in steps:
            make_step(links, edge, step)


def make_step(links: Links, edge: NicEdge, step: NicStep) -> None:
    """Makes one change. Raises NetworkError."""
    match step:
        case GiveAddress(link, address):
            edge.give_address(links.index(link), link, address)
        case TakeAddress(link, address):
            edge.take_address(links.index(link), link, address)
        case LeadRoute(link, route):
            edge.lead_route(links.index(link), link, route)
        case ReleasePort(link):
            edge.release(links.index(link), link)
        case _:
            apply_step(links, step)


def _this_boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
