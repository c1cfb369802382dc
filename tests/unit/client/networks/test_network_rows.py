# Tests: kvedge/client/networks/network_calls.py
"""The lines of `kvedge network list`, and the manifests of `kvedge network create`."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from kvedge.client.errors import UsageError
from kvedge.client.networks.network_calls import make_bridge_name, network_document, nic_bridge_of, refuse_known
from kvedge.client.networks.network_rows import network_rows, users_of
from kvedge.client.session import Session
from kvedge.network.lan.lan_config import LanConfig, parse_lan_config
from kvedge.network.lan.macvtap_config import MacvtapConfig, parse_macvtap_config
from kvedge.resources.codec import decode
from kvedge.resources.types.attachments import NetworkAttachmentDefinition
from kvedge.resources.types.vm import VirtualMachine
from tests.support.builders import vmi_with

NOW = datetime(2026, 1, 2, 12, 0, 0, tzinfo=UTC)


def network(name: str, config: LanConfig | MacvtapConfig | None) -> NetworkAttachmentDefinition:
    document = network_document(name, "n", config or LanConfig(bridge="x"))
    if config is None:
        document["spec"]["config"] = '{"type": "macvlan", "master": "eno1"}'
    document["metadata"]["creationTimestamp"] = "2026-01-02T11:58:30Z"
    return decode(NetworkAttachmentDefinition, document)


def on(network_name: str) -> dict[str, object]:
    return {"domain": {}, "networks": [{"name": "lan", "multus": {"networkName": network_name}}]}


def test_a_row_says_what_the_network_is_and_who_is_on_it() -> None:
    vm = decode(
        VirtualMachine, {"metadata": {"name": "web", "namespace": "n"}, "spec": {"template": {"spec": on("lan")}}}
    )
    bare = vmi_with(on("lan"), name="bare", namespace="n")
    far = vmi_with(on("n/lan"), name="far", namespace="other")
    elsewhere = vmi_with(on("lan"), name="elsewhere", namespace="other")
    found = [network("own", LanConfig(bridge="kvn-1", made=True)), network("lan", LanConfig(bridge="br0", vlan=7))]
    trunk = network("trunk", LanConfig(bridge="br0", vlan=5, trunk=((7, 9),)))
    (row,) = network_rows([trunk], {}, NOW)
    assert row.cells(with_namespace=False)[3] == "7-9, native 5"
    lan, own, strange = network_rows([*found, network("strange", None)], users_of([vm], [bare, far, elsewhere]), NOW)
    assert lan.cells(with_namespace=True) == ["n", "lan", "bridge", "br0", "7", "bare,other/far,web", "1m30s"]
    assert own.cells(with_namespace=False) == ["own", "isolated", "kvn-1", "-", "-", "1m30s"]
    assert strange.cells(with_namespace=False) == ["strange", "other", "-", "-", "-", "1m30s"]
    assert lan.document() == {
        "namespace": "n",
        "name": "lan",
        "kind": "bridge",
        "bridge": "br0",
        "nic": None,
        "vlan": 7,
        "vlans": "7",
        "usedBy": ["bare", "other/far", "web"],
        "created": "2026-01-02T11:58:30Z",
    }


def test_a_bridge_of_a_nic_is_told_as_such() -> None:
    (row,) = network_rows([network("lan", LanConfig(bridge="kvb-eth0", nic="eth0"))], {}, NOW)
    assert row.cells(with_namespace=False) == ["lan", "nic", "kvb-eth0", "-", "-", "1m30s"]


def test_a_network_without_a_bridge_says_on_which_nic_it_is() -> None:
    (row,) = network_rows([network("lan", MacvtapConfig(nic="eth0"))], {}, NOW)
    assert row.cells(with_namespace=False) == ["lan", "macvtap", "eth0", "-", "-", "1m30s"]
    assert (row.document()["bridge"], row.document()["nic"]) == ("", "eth0")


def test_the_bridge_of_a_nic_is_needed_until_its_last_network_goes() -> None:
    found = [network(name, LanConfig(bridge="kvb-eth0", nic="eth0")) for name in ("lan", "lan2")]
    found += [network("br", LanConfig(bridge="br0")), network("strange", None)]
    asked: list[str | None] = []

    def listed(cls: type, namespace: str | None) -> list[NetworkAttachmentDefinition]:
        asked.append(namespace)
        return found

    session = Session(SimpleNamespace(list=listed), None, None, "n")  # type: ignore[arg-type]
    assert nic_bridge_of(session, "br") is None
    # A tenant, who may see no other namespace, can delete a network of its own.
    assert asked == ["n"]
    assert nic_bridge_of(session, "lan") is None
    del found[1]
    assert nic_bridge_of(session, "lan") == "kvb-eth0"
    with pytest.raises(UsageError, match="there is a network lan already"):
        refuse_known(session, "lan")
    refuse_known(session, "lan3")


def test_a_manifest_is_multus_own_kind() -> None:
    document = network_document("lan", "n", LanConfig(bridge="br0", vlan=7))
    assert (document["apiVersion"], document["kind"]) == ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition")
    assert parse_lan_config(document["spec"]["config"]) == LanConfig(bridge="br0", vlan=7)


def test_a_manifest_of_macvtaps_has_the_words_of_cni() -> None:
    wanted = MacvtapConfig(nic="eth0", mode="private", mtu=1400, servers=True)
    config = network_document("lan", "n", wanted)["spec"]["config"]
    assert parse_macvtap_config(config) == wanted
    assert '"type": "macvtap", "master": "eth0", "mode": "private"' in config


def test_a_bridge_of_ours_is_called_after_its_network_alone() -> None:
    assert make_bridge_name("n", "lan") == make_bridge_name("n", "lan")
    assert len({make_bridge_name("n", "lan"), make_bridge_name("n", "lan2"), make_bridge_name("n2", "lan")}) == 3
    assert len(make_bridge_name("n" * 63, "x" * 200)) <= 15


@pytest.mark.parametrize(
    ("config", "said"),
    [
        (MacvtapConfig(nic="eth 0"), "master: 'eth 0' is no name of a link; name a NIC of this host"),
        (LanConfig(bridge="br0", vlan=4095), "vlan: '4095' is out of range; use 0 to 4094"),
        (LanConfig(bridge="br 0"), "bridge: 'br 0' is no name of a link"),
    ],
)
def test_what_no_box_could_use_is_refused_before_it_is_written(config: LanConfig | MacvtapConfig, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        network_document("lan", "n", config)
