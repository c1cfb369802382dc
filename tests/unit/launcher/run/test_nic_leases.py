"""Which addresses the guest's NICs have, and what is kept of them for the next launcher."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.launcher.run.nic_leases import NicLeases
from kvedge.launcher.run.run_record import RunRecord
from kvedge.network.dhcp.dhcp_plan import DhcpLease
from kvedge.rpc.launcher_pb2 import GuestInterface

MAC = "02:00:00:00:00:0A"


def lease(address: str) -> DhcpLease:
    return DhcpLease(guest_mac=MAC, address=address, prefix_length=24, server="10.0.2.1")


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    return RunRecord(LauncherOptions(namespace="n", name="v", uid="u", root=str(tmp_path)))


def told(nics: NicLeases) -> list[tuple[str, str, list[str]]]:
    return [(entry.interface, entry.mac, list(entry.addresses)) for entry in nics.addresses()]


def test_an_address_has_the_name_of_its_interface_once_that_is_known(record: RunRecord) -> None:
    nics = NicLeases(record, lambda: None)
    nics._take(lease("10.0.2.2"))
    assert told(nics) == [("", MAC.lower(), ["10.0.2.2"])]
    nics.name([GuestInterface(name="default", mac=MAC)])
    assert nics.names == {MAC.lower(): "default"}
    assert told(nics) == [("default", MAC.lower(), ["10.0.2.2"])]


def test_only_another_address_is_news_and_the_next_launcher_knows_it(record: RunRecord) -> None:
    changes: list[int] = []
    nics = NicLeases(record, lambda: changes.append(1))
    for address in ("10.0.2.2", "10.0.2.2", "10.0.2.3"):
        nics._take(lease(address))
    assert len(changes) == 2
    assert told(NicLeases(record, lambda: None)) == [("", MAC.lower(), ["10.0.2.3"])]


def test_a_lease_that_cannot_be_kept_is_told_all_the_same(record: RunRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(leases: dict[str, str]) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(record, "keep_leases", refuse)
    changes: list[int] = []
    nics = NicLeases(record, lambda: changes.append(1))
    nics._take(lease("10.0.2.2"))
    assert told(nics) == [("", MAC.lower(), ["10.0.2.2"])]
    assert changes == [1]
