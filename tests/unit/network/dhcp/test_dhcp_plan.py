"""What the responder says to each kind of request; requests and answers go through scapy."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.network.dhcp.dhcp_plan import BadLease, DhcpLease, Route
from tests.unit.network.dhcp.leases import (
    ADDRESS,
    LEASE,
    SERVER,
    XID,
    lease,
    message_type,
    options_of,
    planned_for,
    raw_options,
    reply_to,
    request,
)

OTHER = "10.99.0.8"
BROADCAST = "255.255.255.255"


def test_a_discover_gets_an_offer_of_the_reserved_address() -> None:
    reply = reply_to(request("discover"))
    assert message_type(reply) == "offer"
    assert (reply.yiaddr, reply.xid, reply.op) == (ADDRESS, XID, 2)


def test_a_lease_tells_the_guest_all_it_needs() -> None:
    options = options_of(reply_to(request("discover")))
    assert options.pop(119).startswith(b"\x04prod\x03svc\x07cluster\x05local\x00")
    assert list(options.pop("classless_static_routes")) == ["169.254.75.10/32:0.0.0.0", "0.0.0.0/0:10.99.0.1"]
    assert options == {
        "message-type": 2,
        "server_id": SERVER,
        "lease_time": 3600,
        "renewal_time": 1800,
        "rebinding_time": 3150,
        "subnet_mask": "255.255.255.0",
        "router": "10.99.0.1",
        "name_server": ("192.0.2.53", "192.0.2.54"),
        "interface-mtu": 1400,
        "hostname": b"edge-vm",
        "domain": b"prod.svc.cluster.local",
    }


REQUESTS = [
    pytest.param([("requested_addr", ADDRESS), ("server_id", SERVER)], {}, id="selecting"),
    pytest.param([("requested_addr", ADDRESS)], {}, id="after a reboot"),
    pytest.param([], {"ciaddr": ADDRESS}, id="renewing or rebinding"),
    pytest.param([("requested_addr", ADDRESS)], {"ciaddr": ADDRESS}, id="both, as some old clients do"),
]


@pytest.mark.parametrize(("options", "header"), REQUESTS)
def test_a_request_for_the_reserved_address_is_acknowledged(options: list[Any], header: dict[str, str]) -> None:
    reply = reply_to(request("request", *options, **header))
    assert message_type(reply) == "ack"
    assert reply.yiaddr == ADDRESS


WRONG_REQUESTS = [
    pytest.param([("requested_addr", OTHER), ("server_id", SERVER)], {}, id="selecting"),
    pytest.param([("requested_addr", OTHER)], {}, id="after a reboot"),
    pytest.param([], {"ciaddr": OTHER}, id="renewing or rebinding"),
    pytest.param([("requested_addr", ADDRESS)], {"ciaddr": OTHER}, id="two different ones"),
    pytest.param([("requested_addr", OTHER)], {"ciaddr": ADDRESS}, id="two different ones, the other way round"),
    pytest.param([("requested_addr", BROADCAST)], {}, id="the broadcast address"),
]


@pytest.mark.parametrize(("options", "header"), WRONG_REQUESTS)
def test_a_request_for_another_address_is_refused_to_the_whole_link(options: list[Any], header: dict[str, str]) -> None:
    packet = request("request", *options, **header)
    reply = reply_to(packet)
    assert message_type(reply) == "nak"
    assert planned_for(packet).unicast_to is None
    assert (reply.yiaddr, reply.ciaddr, int(reply.flags)) == ("0.0.0.0", "0.0.0.0", 0x8000)
    assert set(options_of(reply)) == {"message-type", "server_id", "error_message"}


@pytest.mark.parametrize("kind", ["discover", "request", "inform", "release", "decline"])
def test_another_client_is_not_heard(kind: str) -> None:
    assert reply_to(request(kind, ("requested_addr", ADDRESS), mac="52:54:00:aa:bb:cd", ciaddr=ADDRESS)) is None


def test_a_request_to_another_server_is_not_heard() -> None:
    assert reply_to(request("request", ("requested_addr", OTHER), ("server_id", "10.99.0.1"))) is None


def test_a_request_for_nothing_is_not_heard() -> None:
    assert reply_to(request("request")) is None
    assert reply_to(request("request", ("requested_addr", "0.0.0.0"))) is None


@pytest.mark.parametrize("kind", ["release", "decline"])
def test_giving_an_address_back_is_not_answered_and_leaves_it_reserved(kind: str) -> None:
    packet = request(kind, ("requested_addr", ADDRESS), ("server_id", SERVER), ciaddr=ADDRESS)
    assert reply_to(packet) is None
    assert reply_to(request("discover")).yiaddr == ADDRESS


def test_an_inform_gets_the_options_without_a_lease() -> None:
    packet = request("inform", ciaddr=ADDRESS)
    reply = reply_to(packet)
    options = options_of(reply)
    assert message_type(reply) == "ack"
    assert (reply.yiaddr, reply.ciaddr) == ("0.0.0.0", ADDRESS)
    assert not {"lease_time", "renewal_time", "rebinding_time"} & set(options)
    assert options["router"] == "10.99.0.1"


def test_an_inform_from_an_address_that_is_not_the_guests_is_not_heard() -> None:
    assert reply_to(request("inform", ciaddr=OTHER)) is None
    assert reply_to(request("inform")) is None


def test_a_client_with_an_address_is_answered_there_and_one_without_on_the_link() -> None:
    renewing = planned_for(request("request", ciaddr=ADDRESS))
    selecting = planned_for(request("request", ("requested_addr", ADDRESS)))
    discovering = planned_for(request("discover", ciaddr=ADDRESS))
    assert renewing.unicast_to == bytes([10, 99, 0, 7])
    assert selecting.unicast_to is None
    assert discovering.unicast_to is None


def test_the_client_identifier_comes_back_as_it_was_sent() -> None:
    identifier = b"\xff\x00\x01\x02\x03" + bytes(range(10))
    assert options_of(reply_to(request("discover", ("client_id", identifier))))["client_id"] == identifier


def routes_of(given: DhcpLease) -> list[str]:
    found = options_of(reply_to(request("discover"), given))["classless_static_routes"]
    return list(found) if isinstance(found, (tuple, list)) else [found]


def test_a_renewal_finds_the_server_on_the_link() -> None:
    assert routes_of(LEASE)[0] == f"{SERVER}/32:0.0.0.0"


def test_a_gateway_outside_the_subnet_is_reached_on_the_link_first() -> None:
    given = lease(prefix_length=32, gateway="169.254.1.1")
    assert routes_of(given) == ["169.254.1.1/32:0.0.0.0", f"{SERVER}/32:0.0.0.0", "0.0.0.0/0:169.254.1.1"]
    assert options_of(reply_to(request("discover"), given))["subnet_mask"] == "255.255.255.255"


def test_routes_of_the_pod_come_before_the_default_one() -> None:
    given = lease(routes=(Route("10.50.0.0/16", "10.99.0.9"), Route("192.168.7.0/24")))
    assert routes_of(given) == [
        f"{SERVER}/32:0.0.0.0",
        "192.168.7.0/24:0.0.0.0",
        "10.50.0.0/16:10.99.0.9",
        "0.0.0.0/0:10.99.0.1",
    ]


def test_a_default_route_among_the_routes_is_not_said_twice() -> None:
    given = lease(routes=(Route("0.0.0.0/0", "10.99.0.2"),))
    assert routes_of(given)[-1] == "0.0.0.0/0:10.99.0.2"
    assert len(routes_of(given)) == 2


def test_a_pod_without_a_gateway_gives_no_router() -> None:
    given = lease(gateway="")
    assert "router" not in options_of(reply_to(request("discover"), given))
    assert routes_of(given) == [f"{SERVER}/32:0.0.0.0"]


def test_options_of_the_interface_are_given_as_written() -> None:
    given = lease(
        ntp=("192.0.2.123",),
        tftp_server="192.0.2.69",
        boot_file="boot.ipxe",
        private_options={224: "first", 254: "last"},
    )
    reply = reply_to(request("discover"), given)
    raw = raw_options(request("discover"), given)
    assert (raw[42], raw[66], raw[67]) == (bytes([192, 0, 2, 123]), b"192.0.2.69", b"boot.ipxe")
    assert (raw[224], raw[254]) == (b"first", b"last")
    assert (reply.siaddr, reply.file.rstrip(b"\0")) == ("192.0.2.69", b"boot.ipxe")


def test_a_tftp_server_with_a_name_is_in_its_option_alone() -> None:
    assert reply_to(request("discover"), lease(tftp_server="boot.example.com")).siaddr == "0.0.0.0"


def test_a_small_reply_loses_what_a_guest_can_do_without() -> None:
    given = lease(private_options=dict.fromkeys(range(224, 230), "x" * 200))
    small = raw_options(request("discover"), given)
    large = raw_options(request("discover", ("max_dhcp_size", 1500)), given)
    needed = {1, 3, 6, 12, 26, 51, 53, 54, 121}
    assert needed <= set(small)
    assert not set(small) & {225, 226, 227, 228, 229}
    assert needed <= set(large)
    assert {224, 225, 226, 227} <= set(large)


def test_a_search_list_is_cut_to_what_one_option_holds() -> None:
    given = lease(search=tuple(f"{letter * 40}.example{letter}.com" for letter in "abcdefgh"))
    raw = raw_options(request("discover", ("max_dhcp_size", 1500)), given)
    assert 0 < len(raw[119]) <= 255
    assert raw[119].startswith(b"\x28" + b"a" * 40)


def test_a_changed_lease_reaches_a_renewing_guest() -> None:
    renewal = request("request", ciaddr=ADDRESS)
    assert options_of(reply_to(renewal, lease(dns=("192.0.2.99",))))["name_server"] == "192.0.2.99"
    assert message_type(reply_to(renewal, lease(address=OTHER))) == "nak"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"guest_mac": "52:54:00:aa:bb"}, id="a MAC of five bytes"),
        pytest.param({"guest_mac": "52:54:00:aa:bb:zz"}, id="a MAC of letters"),
        pytest.param({"address": "10.99.0.300"}, id="no address"),
        pytest.param({"prefix_length": 33}, id="no prefix"),
        pytest.param({"server": ""}, id="no server"),
        pytest.param({"gateway": "gateway"}, id="a gateway with a name"),
        pytest.param({"routes": (Route("10.50.0.1/16", "10.99.0.9"),)}, id="a route with host bits"),
        pytest.param({"dns": ("dns.example.com",)}, id="a DNS server with a name"),
        pytest.param({"private_options": {223: "x"}}, id="an option below 224"),
        pytest.param({"private_options": {255: "x"}}, id="the end mark as an option"),
        pytest.param({"private_options": {224: "x" * 256}}, id="a value longer than an option"),
        pytest.param({"hostname": "bücher"}, id="a host name that is not ASCII"),
        pytest.param({"search": ("x" * 64,)}, id="a label of 64 letters"),
        pytest.param({"lease_seconds": 59}, id="a lease of less than a minute"),
    ],
)
def test_a_lease_that_cannot_be_given_is_refused_when_it_is_made(changes: dict[str, Any]) -> None:
    with pytest.raises(BadLease):
        lease(**changes)
