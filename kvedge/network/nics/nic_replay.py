"""Puts right what a process that was killed, a power cut or somebody else has left of NICs that were moved.

Called as root by the node agent, at its start and twice a minute.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from kvedge.network.errors import NetworkError
from kvedge.network.nics.nic_change import links_of, make_all, put_back, settings_of
from kvedge.network.nics.nic_edge import NicEdge
from kvedge.network.nics.nic_journal import NicBusyError, NicJournal
from kvedge.network.nics.nic_move import survey_nic
from kvedge.network.nics.nic_plan import NO_IPV6, NicLinks, is_over, plan_back, plan_over
from kvedge.network.nics.nic_rules import cut_names
from kvedge.network.nics.nic_state import NicPhase, NicRecord
from kvedge.runtime.linux.boot import read_boot_id


class NicHealth(Struct, frozen=True):
    """What was put right, and what could not be, in words for the operator."""

    healed: tuple[str, ...] = ()
    troubles: tuple[str, ...] = ()


def replay_nics(directory: Path) -> NicHealth:
    """Put right what a process that was killed, a power cut or somebody else has left; cheap when that is nothing."""
    journal = NicJournal(directory)
    healed: list[str] = []
    troubles: list[str] = []
    for bridge in journal.bridges():
        try:
            with journal.hold(bridge), journal.be_alone():
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
        put_back(journal, record)
        return f"{record.nic} is itself again: nobody has confirmed {bridge}"
    seen = links_of(record)
    if seen.nic is None:
        raise NetworkError("NIC is gone", subject=record.nic, why=f"{bridge} was made of it", remedy="see `ip link`")
    if seen.joined and _is_over(record, seen):
        return ""
    if not seen.joined and record.boot != read_boot_id():
        record = _look_at_this_boot(record, seen)
        journal.write(record)
    # Forwarding may have been switched since, on all links; that of a port's IPv6 is what it was before.
    settings = settings_of(record.nic)
    if NO_IPV6 in record.settings:
        settings[NO_IPV6] = record.settings[NO_IPV6]
    try:
        make_all(plan_over(replace(record, settings=settings), seen))
    except NetworkError:
        # The host is reached by the NIC itself until the next look, which finds its record.
        with suppress(NetworkError):
            seen = links_of(record)
            make_all(plan_back(record, seen, keeps_bridge=bool(seen.guests)))
        raise
    return f"{record.nic} was not on {bridge}" if not seen.joined else f"{bridge} had not all that {record.nic} carried"


def _look_at_this_boot(record: NicRecord, seen: NicLinks) -> NicRecord:
    """The record with what the NIC carries now; raises NetworkError when that is not what was confirmed."""
    # The host's configuration may have given the NIC other addresses at this boot, or not yet all of its routes.
    now = survey_nic(record.nic, record.bridge) if seen.bridge is None else record
    doing, why = "NIC is not made a port again", ""
    if {each.address for each in now.addresses} != {each.address for each in record.addresses}:
        why = f"it has other addresses than when {record.bridge} was made of it"
    elif lacking := sorted({each.destination for each in set(record.routes) - set(now.routes)}):
        why = f"it lacks the route to {cut_names(lacking)}, which it had when {record.bridge} was made of it"
    if why:
        remedy = f"`kvedge network delete` the network of {record.bridge}, and create it again"
        raise NetworkError(doing, subject=record.nic, why=why, remedy=remedy)
    return replace(now, phase=NicPhase.KEPT, boot=read_boot_id())


def _is_over(record: NicRecord, seen: NicLinks) -> bool:
    if seen.bridge is None or seen.nic is None:
        return False
    with NicEdge() as edge:
        on_bridge = edge.read_carried(seen.bridge.index, record.bridge)
        return is_over(record, on_bridge, edge.lasting_addresses(seen.nic.index, record.nic))
