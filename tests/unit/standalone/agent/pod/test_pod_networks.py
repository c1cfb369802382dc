"""Which networks a Pod of one box joins, and why it cannot."""

from __future__ import annotations

import json

import pytest

from kvedge.network.lan.lan_config import LanConfig, lan_config_text
from kvedge.network.lan.lan_plan import LanPort, lan_port
from kvedge.network.pods.pod_network_plan import Attachment, NodeNetworkConfig
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.attachments import NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec
from kvedge.resources.types.core import Pod
from kvedge.resources.types.pod_networks import NETWORKS
from kvedge.standalone.agent.pod import pod_networks
from kvedge.standalone.agent.pod.pod_networks import PodNetworkError, join_networks

CONFIG = NodeNetworkConfig(bridge="kvedge0", cidr="10.99.0.0/24", table="kvedge0", netns_prefix="kvedge0-")
OWN = Attachment(netns="kvedge0-u", port="v1", address="10.99.0.7", mac="02:00:00:00:00:07")
LAN = LanConfig(bridge="br0")


def pod(networks: str) -> Pod:
    return Pod(metadata=ObjectMeta(name="p", namespace="shop", annotations={NETWORKS: networks} if networks else {}))


def definition(text: str) -> NetworkAttachmentDefinition:
    return NetworkAttachmentDefinition(spec=NetworkAttachmentDefinitionSpec(config=text))


class Host:
    """What a Pod has already, and what it is given."""

    def __init__(self) -> None:
        self.has: list[LanPort] = []
        self.given: list[LanPort] = []
        self.networks = {("shop", "red"): lan_config_text(LAN), ("default", "all"): lan_config_text(LAN)}

    def read(self, namespace: str, name: str) -> NetworkAttachmentDefinition | None:
        text = self.networks.get((namespace, name))
        return None if text is None else definition(text)

    def join(self, networks: str) -> str:
        return join_networks(CONFIG, pod(networks), OWN, self.read)


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host()
    monkeypatch.setattr(pod_networks, "lan_ports", lambda config, netns: found.has)
    monkeypatch.setattr(pod_networks, "attach_lan", lambda config, port: found.given.append(port))
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
        ("red", '{"type": "macvlan"}', "network shop/red: spec.config.type: 'macvlan' is not supported on one box"),
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
