"""`kvedge network create --nic` and `delete`, with an API and a NIC that are played: what is done, in which order."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kvedge.cli.exits import Refused
from kvedge.cli.objects import network_verbs, nic_moves
from kvedge.client.session import Session
from kvedge.kube.errors import KubeError, NotFound
from kvedge.resources.codec import decode
from kvedge.resources.lan_bridges import ONLY_WITH_BRIDGE
from kvedge.resources.lan_reservations import Reservation, reservations_of
from kvedge.resources.types.attachments import NetworkAttachmentDefinition

NETWORKS = f"/apis/{NetworkAttachmentDefinition.KIND.api_version}"


class Box:
    """The networks of a box, its NIC, and what was done to both."""

    host = "https://127.0.0.1:6443"

    def __init__(self) -> None:
        self.done: list[str] = []
        self.networks: list[NetworkAttachmentDefinition] = []
        self.refuses = False
        self.has_kind = True
        self.version: dict[str, str] = {"kvedgeVersion": "1"}
        self.keeps = True

    def list(self, cls: type, namespace: str | None) -> list[Any]:
        del namespace
        return self.networks if cls is NetworkAttachmentDefinition else []

    def request(self, method: str, path: str, document: Any = None) -> Any:
        if method == "GET":
            if path == NETWORKS and not self.has_kind:
                raise NotFound(404, "NotFound", "no")
            return self.version if path == "/version" else {}
        if self.refuses:
            raise KubeError(403, "Forbidden", "no")
        if document["kind"] == "CustomResourceDefinition":
            self.has_kind = True
            self.done.append(f"{method} {document['metadata']['name']}")
            return None
        self.done.append(f"{method} {document['metadata']['name']}")
        self.networks.append(decode(NetworkAttachmentDefinition, document))
        return None

    def delete(self, cls: type, namespace: str, name: str) -> None:
        del cls, namespace
        self.done.append(f"DELETE {name}")

    def refuse(self) -> None:
        if not self.keeps:
            raise Refused("--nic: no box runs here")

    def run(self, *words: str) -> Result:
        return CliRunner().invoke(network_verbs.network, list(words))


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> Box:
    made = Box()
    session = Session(made, None, None, "n")  # type: ignore[arg-type]
    monkeypatch.setattr(network_verbs, "open_session", lambda *_: session)
    monkeypatch.setattr(nic_moves, "open_nic_journal", lambda config, data_dir: "journal")
    monkeypatch.setattr(nic_moves, "refuse_unkept", lambda client, config, data_dir: made.refuse())

    def move(journal: str, nic: str, bridge: str) -> bool:
        made.done.append(f"move {nic} to {bridge}")
        return True

    monkeypatch.setattr(nic_moves, "make_bridge", move)
    monkeypatch.setattr(nic_moves, "give_nic_back", lambda journal, bridge: made.done.append(f"back from {bridge}"))
    return made


def test_the_nic_is_moved_before_there_is_a_network(box: Box) -> None:
    assert box.run("create", "lan", "--nic", "eth0").exit_code == 0
    assert box.done == ["move eth0 to kvb-eth0", "POST lan"]
    config = json.loads(box.networks[0].spec.config)
    assert (config["bridge"], config["kvedge"]) == ("kvb-eth0", {"nic": "eth0"})


def test_a_cluster_that_has_no_networks_gets_the_kind_with_the_first(box: Box) -> None:
    box.has_kind = False
    assert "network lan created" in box.run("create", "lan", "--bridge", "br0").output
    box.run("create", "lan2", "--bridge", "br0")
    assert box.done == ["POST network-attachment-definitions.k8s.cni.cncf.io", "POST lan", "POST lan2"]


def test_in_a_cluster_guests_go_to_nodes_with_the_bridge(box: Box) -> None:
    box.run("create", "lan", "--bridge", "br0")
    box.version = {"gitVersion": "v1.33.0"}
    box.run("create", "other", "--bridge", "br0")
    box.run("create", "own")
    marked = [ONLY_WITH_BRIDGE in each.metadata.annotations for each in box.networks]
    assert marked == [False, True, False], "one box; a cluster; a bridge that each node makes by itself"


def test_a_network_with_addresses_and_reservations(box: Box) -> None:
    options = ("--dhcp", "192.0.2.50-192.0.2.99/24", "--gateway", "192.0.2.1", "--filter-addresses")
    done = box.run("create", "lan", "--bridge", "br0", *options, "--reserve", "52-54-00-00-00-0A=192.0.2.7")
    assert done.exit_code == 0, done.output
    own = json.loads(box.networks[0].spec.config)["kvedge"]
    addresses = {"subnet": "192.0.2.0/24", "first": "192.0.2.50", "last": "192.0.2.99", "gateway": "192.0.2.1"}
    assert own == {"addresses": addresses, "filterAddresses": True}
    assert reservations_of(box.networks[0]) == {"52:54:00:00:00:0a": Reservation("192.0.2.7")}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--gateway", "192.0.2.1"), "are of --dhcp: name its range"),
        (("--filter-addresses",), "are of --dhcp: name its range"),
        (("--dhcp", "192.0.2.50"), "--dhcp: '192.0.2.50' is no range such as"),
        (("--dhcp", "192.0.2.50-192.0.2.99/24", "--reserve", "x"), "--reserve 'x': it is no MAC=ADDRESS"),
        (
            ("--dhcp", "192.0.2.50-192.0.2.99/24", "--reserve", "52:54:00:00:00:0a=10.0.0.1"),
            "10.0.0.1 is no address for a guest of 192.0.2.0/24",
        ),
    ],
)
def test_addresses_that_cannot_be_given_are_refused(box: Box, options: tuple[str, ...], said: str) -> None:
    done = box.run("create", "lan", "--bridge", "br0", *options)
    assert done.exit_code != 0
    assert said in f"{done.output}{done.exception}"
    assert box.networks == []


def test_the_bridge_has_the_name_that_is_asked_for(box: Box) -> None:
    box.run("create", "lan", "--nic", "eth0", "--bridge", "br0")
    assert box.done == ["move eth0 to br0", "POST lan"]


def test_a_network_that_the_server_refuses_leaves_the_nic_as_it_was(box: Box) -> None:
    box.refuses = True
    assert isinstance(box.run("create", "lan", "--nic", "eth0").exception, KubeError)
    assert box.done == ["move eth0 to kvb-eth0", "back from kvb-eth0"]


def test_a_name_that_is_taken_moves_nothing(box: Box) -> None:
    box.run("create", "lan", "--nic", "eth0")
    del box.done[:]
    assert "there is a network lan already" in str(box.run("create", "lan", "--nic", "eth1").exception)
    assert box.done == []


def test_where_nobody_keeps_the_bridge_nothing_is_moved(box: Box) -> None:
    box.keeps = False
    assert str(box.run("create", "lan", "--nic", "eth0").exception) == "--nic: no box runs here"
    assert box.done == []


def test_a_manifest_alone_moves_nothing(box: Box) -> None:
    assert '"nic": "eth0"' in box.run("create", "lan", "--nic", "eth0", "--dry-run").output
    assert box.done == []


def test_a_vlan_is_of_a_bridge_of_the_host(box: Box) -> None:
    found = box.run("create", "lan", "--nic", "eth0", "--vlan", "7").exception
    assert isinstance(found, Refused)
    assert "name that with --bridge" in found.text


def test_a_trunk_is_written_as_cnis_plugin_has_it(box: Box) -> None:
    options = ("--bridge", "br0", "--trunk", "10,20-30", "--native", "5", "--dry-run")
    printed = box.run("create", "lan", *options).output
    assert '"vlanTrunk": [{"id": 10}, {"minID": 20, "maxID": 30}]' in printed
    assert '"kvedge": {"nativeVlan": 5}' in printed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--trunk", "7"), "--trunk is VLANs of a bridge of the host's own: name that with --bridge"),
        (("--bridge", "br0", "--trunk", "7,4095"), "--trunk: 4095-4095 is no range of VLANs"),
        (("--bridge", "br0", "--trunk", "7", "--vlan", "7"), "either --vlan or --trunk"),
        (("--bridge", "br0", "--trunk", "7", "--native", "7"), "--native: 7 is in --trunk"),
        (("--bridge", "br0", "--native", "7"), "--native is of a trunk"),
    ],
)
def test_what_is_no_trunk_is_refused_by_its_option(box: Box, options: tuple[str, ...], said: str) -> None:
    found = box.run("create", "lan", *options).exception
    assert isinstance(found, Refused)
    assert said in found.text
    assert box.done == []


def test_the_last_network_of_a_nic_gives_it_back(box: Box) -> None:
    box.run("create", "lan", "--nic", "eth0")
    box.run("create", "lan2", "--nic", "eth0")
    del box.done[:]
    box.run("delete", "lan")
    box.networks.pop(0)
    box.run("delete", "lan2")
    assert box.done == ["DELETE lan", "back from kvb-eth0", "DELETE lan2"]


def test_a_nics_bridge_stays_while_a_network_is_a_vlan_of_it(box: Box) -> None:
    box.run("create", "lan", "--nic", "eth0")
    assert box.run("create", "seventh", "--bridge", "kvb-eth0", "--vlan", "7").exit_code == 0
    del box.done[:]
    refused = box.run("delete", "lan")
    assert "network lan is kept: bridge kvb-eth0" in f"{refused.output}{refused.exception}"
    assert box.done == []
    box.run("delete", "seventh")
    box.networks.pop()
    box.run("delete", "lan")
    assert box.done == ["DELETE seventh", "back from kvb-eth0", "DELETE lan"]


def test_macvtaps_on_a_nic_change_nothing_of_the_host(box: Box) -> None:
    assert box.run("create", "lan", "--type", "macvtap", "--nic", "eth0", "--isolate-ports").exit_code == 0
    assert box.done == ["POST lan"]
    config = json.loads(box.networks[0].spec.config)
    assert (config["type"], config["master"], config["mode"]) == ("macvtap", "eth0", "private")
    assert "macvtap" in box.run("create", "lan2", "--type", "macvtap", "--nic", "eth0", "--dry-run").output
    assert box.done == ["POST lan"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name that with --nic"),
        (("--bridge", "br0", "--nic", "eth0"), "takes --nic alone"),
        (("--nic", "eth0", "--vlan", "7"), "such as eth0.7"),
    ],
    ids=["no nic", "a bridge", "a vlan"],
)
def test_what_makes_no_macvtap_is_refused(box: Box, words: tuple[str, ...], said: str) -> None:
    refused = box.run("create", "lan", "--type", "macvtap", *words)
    assert said in str(refused.exception)
    assert box.done == []
