# Tests: kvedge/handler/guest/running_nics.py
"""Which NICs of a guest that runs are prepared, which have gone, and what is told of the others."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kvedge.handler.guest.guest_network import GuestNetwork, Resolver
from kvedge.handler.guest.nic_plan import (
    NicsOfGuest,
    find_released_nics,
    nic_troubles,
    nics_of_guest,
    summarize_nics,
    unserved_nics,
)
from kvedge.handler.guest.running_nics import prepare_running
from kvedge.network.errors import NetworkError
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2 as pb
from tests.support.builders import vmi_with

JOINED = {"one": "multus-status", "two": "domain, multus-status"}


def guest(sources: dict[str, str], **states: str) -> VirtualMachineInstance:
    """On the Pod network and two others; `sources` is what the status says of these."""
    names = ("one", "two")
    spec = {
        "domain": {
            "devices": {
                "interfaces": [
                    {"name": "default", "masquerade": {}},
                    *({"name": name, "bridge": {}, "state": states.get(name, "")} for name in names),
                ]
            }
        },
        "networks": [
            {"name": "default", "pod": {}},
            *({"name": name, "multus": {"networkName": "red"}} for name in names),
        ],
    }
    rows = [{"name": name, "infoSource": source} for name, source in sources.items()]
    return vmi_with(spec, {"phase": "Running", "interfaces": rows})


def domain(*names: str, follows: bool = True) -> pb.DomainStatus:
    return pb.DomainStatus(nics=[pb.DomainNic(name=name) for name in names], follows_nics=follows)


@pytest.mark.parametrize(
    ("sources", "status", "expected"),
    [
        (JOINED, domain("default", "two"), (("default", "two"), ("one",))),
        ({"two": "domain, multus-status"}, domain("default", "two"), (("default", "two"), ())),
        (JOINED, domain("default", "one", "two"), (("default", "one", "two"), ())),
        (JOINED, domain(follows=False), (("default", "one", "two"), ())),
    ],
    ids=["one comes", "its Pod has not joined yet", "all are there", "a launcher of an earlier version"],
)
def test_a_nic_comes_once_its_pod_has_joined_the_network(
    sources: dict[str, str], status: pb.DomainStatus, expected: tuple[tuple[str, ...], tuple[str, ...]]
) -> None:
    assert nics_of_guest(guest(sources), status) == NicsOfGuest(frozenset(expected[0]), frozenset(expected[1]))


def test_a_nic_has_gone_once_the_domain_has_it_no_more() -> None:
    vmi = guest(JOINED, two="absent")
    assert find_released_nics(vmi, domain("default", "two")) == []
    assert [(index, item.name) for index, item in find_released_nics(vmi, domain("default"))] == [(2, "two")]
    assert find_released_nics(vmi, domain(follows=False)) == []


def test_the_launcher_is_told_anew_when_a_pod_joins_or_a_state_changes() -> None:
    before = summarize_nics(guest({"two": "domain, multus-status"}))
    assert summarize_nics(guest({"two": "domain"})) == before
    others = [guest(JOINED), guest({"two": "domain"}, two="down"), guest({"two": "domain"}, two="absent")]
    assert before not in [summarize_nics(other) for other in others]


def test_troubles_are_sentences() -> None:
    troubles = [
        pb.NicTrouble(name="lan", action=pb.NIC_ACTION_ATTACH, message="no slot"),
        pb.NicTrouble(name="lan", action=pb.NIC_ACTION_DETACH, message="busy"),
        pb.NicTrouble(name="lan", action=pb.NIC_ACTION_DETACH),
        pb.NicTrouble(name="lan", action=pb.NIC_ACTION_LINK, message="no"),
    ]
    assert list(nic_troubles(pb.DomainStatus(nic_troubles=troubles))) == [
        "interface lan cannot be plugged in: no slot",
        "interface lan cannot be unplugged: busy",
        "interface lan is not unplugged: the guest does not release it",
        "the link of interface lan cannot be changed: no",
    ]
    assert list(nic_troubles(None)) == []


def test_a_nic_that_nobody_serves_any_more_is_no_nic_that_comes_or_goes() -> None:
    trouble = pb.NicTrouble(name="default", action=pb.NIC_ACTION_SERVE, message="passt has ended")
    status = pb.DomainStatus(nic_troubles=[trouble])
    assert list(nic_troubles(status)) == []
    assert list(unserved_nics(status)) == ["interface default has no network: passt has ended; restart the VM"]
    assert list(unserved_nics(None)) == []


class PlayedNetwork:
    """Prepares what it is asked for, but for those that fail."""

    def __init__(self, *failing: str) -> None:
        self.failing = failing

    def prepare(self, _vmi: object, _launcher: object, _resolver: object, names: Any) -> list[str]:
        for name in names:
            if name in self.failing:
                raise NetworkError(f"cannot bind {name}")
        return sorted(names)


def prepared(network: PlayedNetwork, status: pb.DomainStatus) -> tuple[list[Any], str]:
    of = (cast("Any", "launcher"), Resolver())
    done = prepare_running(cast("GuestNetwork", network), guest(JOINED), of, status)
    return cast("list[Any]", done.prepared), str(done.failed or "")


def test_a_nic_that_cannot_come_holds_up_no_other() -> None:
    assert prepared(PlayedNetwork("one"), domain("default")) == (["default", "two"], "cannot bind one")
    assert prepared(PlayedNetwork(), domain("default", "two")) == (["default", "two", "one"], "")


def test_a_nic_of_the_lan_that_is_lost_holds_up_no_other_and_keeps_its_row() -> None:
    vmi = guest({"two": "domain", "one": "multus-status"})
    of = (cast("Any", "launcher"), Resolver())
    network = cast("GuestNetwork", PlayedNetwork("two"))
    done = prepare_running(network, vmi, of, domain("default", "two"))
    assert (cast("list[Any]", done.prepared), done.failed) == (["default", "one"], None)
    (field,) = [f"spec.networks[{index}] (two)" for index, each in enumerate(vmi.spec.networks) if each.name == "two"]
    assert list(done.lost_sentences(vmi)) == [f"{field}: the guest is cut off: cannot bind two"]
    (row,) = [row for row in vmi.status.interfaces if row.name == "two"]
    assert [(nic.name, nic.mac, nic.pod_interface) for nic in done.lost_nics(vmi)] == [
        ("two", row.mac, row.pod_interface_name)
    ]


def test_the_nic_that_the_guest_has_on_the_pod_network_must_be_prepared() -> None:
    with pytest.raises(NetworkError, match="cannot bind default"):
        prepared(PlayedNetwork("default"), domain("default", "two"))
