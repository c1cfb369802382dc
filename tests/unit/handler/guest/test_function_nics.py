"""Functions of the node's cards in a VMI's status."""

from __future__ import annotations

from datetime import UTC, datetime

from kvedge.handler.guest.function_nics import function_nics
from kvedge.handler.guest.vmi_status import Observation, status_patch
from kvedge.resources.codec import JsonObject
from kvedge.resources.types.pod_networks import pod_nic
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import ClaimRequest
from kvedge.rpc import launcher_pb2 as pb
from tests.support.builders import vmi_with

NOW = datetime(2026, 1, 1, tzinfo=UTC)
CARDS_MAC = "02:00:00:00:00:09"


def guest(mac: str = "", **row: object) -> VirtualMachineInstance:
    interfaces = [{"name": "red", "sriov": {}, **({"macAddress": mac} if mac else {})}]
    networks = [{"name": "red", "multus": {"networkName": "fast"}}]
    rows = [{"name": "red", "podInterfaceName": pod_nic("red"), "infoSource": "multus-status", **row}]
    spec = {"domain": {"devices": {"interfaces": interfaces}}, "networks": networks}
    return vmi_with(spec, {"phase": "Running", "interfaces": rows}, name="web")


def shown(vmi: VirtualMachineInstance, *agents: pb.GuestAddress) -> list[JsonObject]:
    status = pb.DomainStatus(
        state=pb.DOMAIN_STATE_RUNNING, nics=[pb.DomainNic(name="red")], follows_nics=True, addresses=agents
    )
    patch = status_patch(vmi, Observation("Running", status=status, nics=function_nics(vmi)), NOW)
    assert patch is not None
    rows: list[JsonObject] = patch["status"]["interfaces"]
    return rows


def test_a_function_has_the_mac_that_was_asked_for_and_else_that_of_its_card() -> None:
    assert [nic.mac for nic in function_nics(guest("02-00-00-00-00-0A"))] == ["02:00:00:00:00:0a"]
    vmi = guest()
    vmi.status.interfaces[0].mac = CARDS_MAC
    assert [nic.mac for nic in function_nics(vmi)] == [CARDS_MAC]


def test_its_row_pairs_with_the_guests_agent_by_mac_and_says_nothing_of_link_and_queues() -> None:
    vmi = guest("02:00:00:00:00:09")
    said = pb.GuestAddress(mac=CARDS_MAC, addresses=["192.0.2.9"], source="guest-agent", guest_name="ens12")
    (row,) = shown(vmi, said)
    assert row == {
        "name": "red",
        "mac": CARDS_MAC,
        "ipAddress": "192.0.2.9",
        "ipAddresses": ["192.0.2.9"],
        "interfaceName": "ens12",
        "podInterfaceName": pod_nic("red"),
        "infoSource": "domain, guest-agent, multus-status",
    }


def test_one_of_a_claim_has_the_mac_that_was_asked_for_and_else_none() -> None:
    vmi = guest()
    vmi.spec.networks[0].multus = None
    vmi.spec.networks[0].resource_claim = ClaimRequest(claim_name="nics", request_name="port")
    vmi.status.interfaces.clear()
    said = pb.GuestAddress(mac=CARDS_MAC, addresses=["192.0.2.9"], source="guest-agent", guest_name="ens12")
    nameless = pb.GuestAddress(mac="", addresses=["192.0.2.10"], source="guest-agent", guest_name="tun0")
    row, *others = shown(vmi, said, nameless)
    assert row == {"name": "red", "infoSource": "domain"}
    assert [other["ipAddress"] for other in others] == ["192.0.2.9", "192.0.2.10"]
    vmi.spec.domain.devices.interfaces[0].mac_address = CARDS_MAC
    row, *others = shown(vmi, said)
    assert (row["name"], row["mac"], row["ipAddress"], others) == ("red", CARDS_MAC, "192.0.2.9", [])
