"""The guest's NICs: DHCP answers for each, and the addresses that they have taken.

Kept by `domain_run`. Responders run in threads of their own; leases are kept in the run's record for the next launcher.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from kvedge.launcher.run.dhcp_responders import DhcpResponders
from kvedge.launcher.run.run_record import RunRecord
from kvedge.network.dhcp.dhcp_plan import DhcpLease
from kvedge.rpc.launcher_pb2 import GuestAddress, GuestInterface

log = logging.getLogger(__name__)


class NicLeases:
    """The NICs of one guest; every method may be called from any thread."""

    def __init__(self, record: RunRecord, on_change: Callable[[], None]) -> None:
        """`on_change()` is called in any thread when a NIC has taken another address."""
        self._record = record
        self._on_change = on_change
        self._names: dict[str, str] = {}
        self._leases = record.leases()
        self._responders = DhcpResponders(self._take)

    @property
    def names(self) -> dict[str, str]:
        """The names of the VMI's interfaces by their MACs in lower case."""
        return self._names

    def name(self, interfaces: Iterable[GuestInterface]) -> None:
        """Learn which interface has which MAC."""
        self._names = {entry.mac.lower(): entry.name for entry in interfaces}

    def serve(self, interfaces: Iterable[GuestInterface]) -> None:
        """Answer DHCP on these from now on."""
        self._responders.serve(interfaces)

    def stop(self) -> None:
        """Answer no more."""
        self._responders.stop()

    def addresses(self) -> list[GuestAddress]:
        """What the guest has leased."""
        names = self._names
        return [
            GuestAddress(interface=names.get(mac, ""), mac=mac, addresses=[address], source="lease")
            for mac, address in self._leases.items()
        ]

    def _take(self, lease: DhcpLease) -> None:
        mac = lease.guest_mac.lower()
        if self._leases.get(mac) == lease.address:
            return
        self._leases = {**self._leases, mac: lease.address}
        try:
            self._record.keep_leases(self._leases)
        except OSError as error:
            # The guest has its address; only a launcher started again would have to wait for the next renewal.
            log.warning("the lease was not kept", extra={"facts": {"error": error.strerror}})
        self._on_change()
