# Tests: kvedge/standalone/agent/pod/network_following.py
"""Which networks a Pod of one box joins and leaves, and why it cannot."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kvedge.kube.work_queue import Key
from kvedge.network.errors import NetworkError
from kvedge.network.lan.lan_addresses import LanAddresses
from kvedge.network.lan.lan_config import LanConfig, lan_config_text
from kvedge.network.lan.lan_plan import LanPort, lan_port, number_of
from kvedge.network.lan.macvtap_config import MacvtapConfig, macvtap_config_text
from kvedge.network.lan.macvtap_plan import MacvtapPort, macvtap_port
from kvedge.network.pods.attachments import Attachment, NodeNetworkConfig
from kvedge.resources.lan_reservations import RESERVATIONS
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import SWITCHES_NETWORKS
from kvedge.resources.types.attachments import NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec
from kvedge.resources.types.core import Pod
from kvedge.resources.types.pod_networks import NETWORK_STATUS, NETWORKS, JoinedNetwork, network_status
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.pod.local_pods import LocalPod
from kvedge.standalone.agent.pod.network_following import follow, tell_networks
from kvedge.standalone.agent.pod.place import pod_networks
from kvedge.standalone.agent.pod.place.pod_networks import PodNetworkError, follow_networks, join_networks
from kvedge.standalone.agent.pod.pod_record import new_record
from tests.support.values import replace

CONFIG = NodeNetworkConfig(bridge="kvedge0", cidr="10.99.0.0/24", table="kvedge0", netns_prefix="kvedge0-")
OWN = Attachment(netns="kvedge0-u", port="v1", address="10.99.0.7", mac="02:00:00:00:00:07")
LAN = LanConfig(bridge="br0")


def pod(networks: str) -> Pod:
    return Pod(metadata=ObjectMeta(name="p", namespace="shop", annotations={NETWORKS: networks} if networks else {}))


def definition(text: str, reserved: str = "") -> NetworkAttachmentDefinition:
    meta = ObjectMeta(annotations={RESERVATIONS: reserved} if reserved else {})
    return NetworkAttachmentDefinition(metadata=meta, spec=NetworkAttachmentDefinitionSpec(config=text))


class Host:
    """What a Pod has already, and what it is given."""

    def __init__(self) -> None:
        self.has: list[LanPort] = []
        self.has_macvtaps: list[MacvtapPort] = []
        self.given: list[LanPort | MacvtapPort] = []
        # What a Pod kept when it left others.
        self.kept: list[set[str]] = []
        self.reserved = ""
        self.networks = {("shop", "red"): lan_config_text(LAN), ("default", "all"): lan_config_text(LAN)}

    def read(self, namespace: str, name: str) -> NetworkAttachmentDefinition | None:
        text = self.networks.get((namespace, name))
        return None if text is None else definition(text, self.reserved)

    def join(self, networks: str) -> str:
        return join_networks(CONFIG, pod(networks), OWN, self.read)

    def follow(self, networks: str) -> tuple[str, str]:
        return follow_networks(CONFIG, pod(networks), OWN, self.read)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host()
    monkeypatch.setattr(pod_networks, "lan_ports", lambda config, netns: found.has)
    monkeypatch.setattr(pod_networks, "attach_nic", lambda config, port: found.given.append(port))
    monkeypatch.setattr(pod_networks, "detach_nics", lambda config, netns, kept: found.kept.append(set(kept)))
    monkeypatch.setattr(pod_networks, "macvtap_ports", lambda netns: found.has_macvtaps)
    return found


def test_a_pod_joins_the_networks_that_it_names_and_says_so(host: Host) -> None:
    told = host.join(
        '[{"name": "red", "interface": "pod1", "mac": "02:00:00:00:00:01"}, {"name": "all", "namespace": "default"}]'
    )
    assert [(port.interface, port.network) for port in host.given] == [("pod1", LAN), ("net2", LAN)]
    first, second, third = json.loads(told)
    assert first == {
        "name": "kvedge0",
        "interface": "eth0",
        "ips": ["10.99.0.7"],
        "mac": "02:00:00:00:00:07",
        "default": True,
    }
    assert second == {"name": "shop/red", "interface": "pod1", "mac": "02:00:00:00:00:01"}
    assert (third["name"], third["mac"]) == ("default/all", host.given[1].mac)


def test_a_pod_joins_a_nic_of_the_host_by_a_macvtap(host: Host) -> None:
    host.networks["shop", "nic"] = macvtap_config_text(MacvtapConfig(nic="eth0"))
    told = host.join('[{"name": "nic", "interface": "pod1", "mac": "02:00:00:00:00:01"}]')
    assert host.given == [macvtap_port(OWN.netns, "pod1", "02:00:00:00:00:01", MacvtapConfig(nic="eth0"))]
    assert json.loads(told)[1] == {"name": "shop/nic", "interface": "pod1", "mac": "02:00:00:00:00:01"}
    host.has_macvtaps = [port for port in host.given if isinstance(port, MacvtapPort)]
    host.networks.clear()
    assert host.follow('[{"name": "nic", "interface": "pod1"}]')[1] == ""
    assert host.follow("") == ("", "")
    assert host.kept == [set()]


def test_a_pod_has_the_address_that_is_reserved_for_it_and_waits_for_one_without(host: Host) -> None:
    addresses = LanAddresses(subnet="192.0.2.0/24", first="192.0.2.50", last="192.0.2.99")
    host.networks["shop", "red"] = lan_config_text(LanConfig(bridge="br0", addresses=addresses))
    wish = '[{"name": "red", "interface": "pod1", "mac": "02:00:00:00:00:01"}]'
    with pytest.raises(PodNetworkError, match=r"shop/red: .*no address is reserved for 02:00:00:00:00:01"):
        host.join(wish)
    host.reserved = '{"02:00:00:00:00:01": "192.0.2.77"}'
    assert json.loads(host.join(wish))[1]["ips"] == ["192.0.2.77"]
    assert [port.address for port in host.given if isinstance(port, LanPort)] == ["192.0.2.77/24"]


def test_a_macvtap_that_no_box_can_make_is_refused_by_its_key(host: Host) -> None:
    host.networks["shop", "nic"] = '{"type": "macvtap", "master": "eth0", "mode": "passthru"}'
    with pytest.raises(PodNetworkError, match=r"shop/nic: spec\.config\.mode: 'passthru' is not supported"):
        host.join("nic")


def test_a_pod_on_its_own_network_alone_has_nothing_to_say(host: Host) -> None:
    assert host.join("") == ""


def test_what_a_pod_has_joined_it_keeps_whatever_becomes_of_the_definition(host: Host) -> None:
    host.has = [lan_port(OWN.netns, "pod1", "02:00:00:00:00:01", LAN)]
    host.networks.clear()
    host.join('[{"name": "red", "interface": "pod1"}]')
    assert host.given == host.has


@pytest.mark.parametrize(
    ("networks", "text", "said"),
    [
        ("blue", "", "there is no network shop/blue: `kvedge network create blue -n shop` makes one"),
        ("other/red", "", "network other/red is another namespace's: use one of shop, or one of default"),
        ("red", '{"type": "macvlan"}', "network shop/red: spec.config.type: 'macvlan' is not supported here"),
        ("red@eth0", "", f"metadata.annotations[{NETWORKS}]: the interface 'eth0'"),
        ('[{"name": "red", "mac": "x"}]', "", "network shop/red: "),
    ],
    ids=["not there", "another namespace's", "another plugin", "the Pod's own NIC", "no MAC"],
)
def test_a_pod_is_on_all_of_its_networks_or_on_none(host: Host, networks: str, text: str, said: str) -> None:
    if text:
        host.networks["shop", "red"] = text
    joined = f"all,{networks}" if not networks.startswith("[") else networks
    joined = joined.replace("all,", "default/all,")
    with pytest.raises(PodNetworkError) as caught:
        host.join(joined)
    assert said in str(caught.value)
    assert host.given == []


def test_a_pod_that_runs_leaves_what_it_names_no_longer(host: Host) -> None:
    host.has = [lan_port(OWN.netns, name, "02:00:00:00:00:01", LAN) for name in ("pod1", "pod2")]
    told, complaint = host.follow('[{"name": "red", "interface": "pod2"}]')
    assert host.kept == [{"pod2"}]
    assert ([each["interface"] for each in json.loads(told)], complaint) == (["eth0", "pod2"], "")
    assert host.follow("[]") == ("", "")
    assert host.kept[1:] == [set()]


def test_a_network_that_a_running_pod_cannot_join_holds_up_no_other(host: Host) -> None:
    told, complaint = host.follow('[{"name": "blue", "interface": "pod1"}, {"name": "red", "interface": "pod2"}]')
    assert [each["interface"] for each in json.loads(told)] == ["eth0", "pod2"]
    assert "there is no network shop/blue" in complaint


def test_a_nic_is_taken_to_the_network_that_its_pod_names_by_now(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    switched: list[LanConfig] = []
    refused: list[str] = []

    def switch(_config: object, _present: object, wanted: LanPort) -> None:
        if refused:
            raise NetworkError("cannot move a NIC", why=refused[0])
        switched.append(wanted.network)

    monkeypatch.setattr(pod_networks, "switch_nic", switch)
    host.networks["shop", "blue"] = lan_config_text(LanConfig(bridge="br1"))
    host.has = [lan_port(OWN.netns, "pod1", "02:00:00:00:00:01", LAN)]
    before = JoinedNetwork(name="shop/red", interface="pod1")
    running = pod('[{"name": "blue", "interface": "pod1"}]')
    running.metadata.annotations[NETWORK_STATUS] = network_status([before])

    def follow_now() -> tuple[str, str]:
        told, complaint = follow_networks(CONFIG, running, OWN, host.read)
        return json.loads(told)[1]["name"], complaint

    refused = ["its MTU is too small"]
    assert follow_now() == ("shop/red", "network shop/blue: cannot move a NIC: its MTU is too small")
    del host.networks["shop", "blue"]
    assert follow_now()[0] == "shop/red"
    host.networks["shop", "blue"] = lan_config_text(LanConfig(bridge="br1"))
    refused.clear()
    assert follow_now() == ("shop/blue", "")
    assert switched == [LanConfig(bridge="br1")]
    assert host.given == []


def test_a_nic_whose_switch_was_taken_back_before_it_was_told_of_comes_back(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Pod was told of the first network only; the kernel knows better."""
    switched: list[LanPort] = []
    monkeypatch.setattr(pod_networks, "switch_nic", lambda _config, _present, wanted: switched.append(wanted))
    there = lan_port(OWN.netns, "pod1", "02:00:00:00:00:01", LanConfig(bridge="br1"))
    host.has = [replace(there, number=number_of("shop/blue"))]
    running = pod('[{"name": "red", "interface": "pod1"}]')
    running.metadata.annotations[NETWORK_STATUS] = network_status([JoinedNetwork(name="shop/red", interface="pod1")])
    told, complaint = follow_networks(CONFIG, running, OWN, host.read)
    assert (json.loads(told)[1]["name"], complaint) == ("shop/red", "")
    assert [(port.network, port.number) for port in switched] == [(LAN, number_of("shop/red"))]
    host.has = list(switched)
    follow_networks(CONFIG, running, OWN, host.read)
    assert len(switched) == 1
    assert host.given == switched


class PlayedPlaces:
    """Answers as a test wants."""

    def __init__(self, *answers: tuple[str, str]) -> None:
        self.answers = list(answers)

    def follow_networks(self, _pod: Pod, _files: object, _address: str) -> tuple[str, str]:
        return self.answers.pop(0)


def a_local(networks: str) -> LocalPod:
    made = pod(networks)
    return LocalPod(Key("shop", "p"), made, PodFiles(Path("/nowhere")), new_record(made))


def test_a_change_is_followed_once_and_a_failure_is_told_and_tried_again() -> None:
    said: list[tuple[str, str]] = []
    events = SimpleNamespace(record=lambda _pod, _kind, reason, text: said.append((reason, text)))
    places, local = PlayedPlaces(("", "no blue"), ("told", "")), a_local("blue")
    wait = follow(places, events, local)  # type: ignore[arg-type]
    assert wait is not None
    assert said == [("FailedJoinNetwork", "no blue")]
    assert (follow(places, events, local) or 0) <= wait  # type: ignore[arg-type]
    local.next_network_try = 0.0
    assert follow(places, events, local) is None  # type: ignore[arg-type]
    assert (local.joined_for, local.network_status) == ("blue", "told")
    assert follow(places, events, local) is None  # type: ignore[arg-type]
    assert places.answers == []


@pytest.mark.parametrize(
    ("joined_for", "told", "before", "written"),
    [
        (None, "", "old", False),
        ("", "", "old", True),
        ("red", "new", "old", True),
        ("red", "same", "same", False),
        ("", "", None, False),
    ],
    ids=["nobody has looked yet", "it has left all", "it has joined", "it is told already", "there is nothing to tell"],
)
def test_what_a_pod_has_joined_is_told_on_it(
    joined_for: str | None, told: str, before: str | None, written: bool
) -> None:
    local = a_local("")
    local.joined_for, local.network_status = joined_for, told
    local.pod.metadata.annotations = {} if before is None else {NETWORK_STATUS: before, SWITCHES_NETWORKS: "true"}
    patches: list[Any] = []

    def patch(_kind: object, _namespace: str, _name: str, body: Any) -> Pod:
        patches.append(body)
        return local.pod

    tell_networks(SimpleNamespace(patch=patch), SimpleNamespace(observe=lambda _: None), local)  # type: ignore[arg-type]
    assert [each.body["metadata"]["annotations"] for each in patches] == (
        [{NETWORK_STATUS: told or None, SWITCHES_NETWORKS: "true" if told else None}] if written else []
    )


def test_one_box_has_no_network_in_place_of_its_own(host: Host) -> None:
    wanted = pod("")
    wanted.metadata.annotations["v1.multus-cni.io/default-network"] = "red"
    with pytest.raises(PodNetworkError, match="one box has no network in place of its Pod network; take `default: tr"):
        join_networks(CONFIG, wanted, OWN, host.read)
