"""Gives a NIC what it carried before its bridge was made.

Called as root on the host: by `kvedge network delete`, by whoever waits for a guard that has ended, and by whoever
removes everything.
"""

from __future__ import annotations

from pathlib import Path

from kvedge.network.errors import NetworkError
from kvedge.network.nics.nic_change import links_of, put_back
from kvedge.network.nics.nic_journal import NicJournal
from kvedge.network.nics.nic_state import NicPhase, NicRecord


def give_back(journal: NicJournal, bridge: str) -> bool:
    """Move what the NIC carried back to it; whether there was something to move.

    Raises NetworkError when guests are on the bridge, NicBusyError when somebody else is moving the NIC.
    """
    with journal.hold(bridge), journal.be_alone():
        record = journal.read(bridge)
        if record is None:
            return False
        guests = links_of(record).guests
        if guests and record.phase is NicPhase.KEPT:
            raise NetworkError(
                "cannot give NIC back", subject=record.nic, why=f"guests are on {bridge}", remedy="stop their VMs first"
            )
        put_back(journal, record)
        return True


def take_back(journal: NicJournal, bridge: str) -> NicRecord | None:
    """Put right what a guard has left that has ended: move back what nobody has confirmed, and forget a failure.

    What is kept stays. Returns the record as it was found. Raises NicBusyError while somebody is moving the NIC.
    """
    with journal.hold(bridge), journal.be_alone():
        record = journal.read(bridge)
        if record is not None and record.phase is not NicPhase.KEPT:
            put_back(journal, record)
        return record


def give_all_back(directory: Path, *, keeps_confirmed: bool) -> list[str]:
    """Everything of ours, moved or in between; those that are confirmed only unless they are kept.

    Returns what could not be given back, and why: one bridge does not hold up the others.
    """
    journal = NicJournal(directory)
    left = []
    for bridge in journal.bridges():
        try:
            if keeps_confirmed:
                take_back(journal, bridge)
            else:
                give_back(journal, bridge)
        except NetworkError as error:
            left.append(str(error))
    return left
