# Tests: kvedge/handler/guest/running_nics.py, kvedge/network/lan/lan_nics.py
"""Which networks the handler joins a launcher's Pod to, and what it says of those that it cannot."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from kvedge.handler.guest import lan_joining
from kvedge.handler.guest.lan_joining import LanJoining
from kvedge.handler.guest.nic_plan import nics_of_guest, summarize_nics
from kvedge.handler.guest.running_nics import prepare_running
from kvedge.kube.errors import Forbidden, KubeError, NotFound, Unavailable
from kvedge.network.errors import NetworkError
from kvedge.network.lan.lan_addresses import LanAddresses
from kvedge.network.lan.lan_config import LanConfig, lan_config_text
from kvedge.network.lan.lan_nics import Port, wanted_nic
from kvedge.network.lan.lan_plan import LanPort
from kvedge.network.lan.macvtap_config import MacvtapConfig, macvtap_config_text
from kvedge.network.lan.macvtap_plan import MacvtapPort
from kvedge.resources.codec import JsonObject
from kvedge.resources.lan_reservations import GIVEN, RESERVATIONS
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.attachments import NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec
from kvedge.resources.types.devices import Interface
from kvedge.resources.types.pod_networks import lan_interfaces, pod_nic
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.rpc import launcher_pb2 as pb
from tests.support.builders import vmi_with

LAUNCHER: Any = "the launcher"
LAN = LanConfig(bridge="br0")
MAC = "52:54:00:00:00:07"


def guest(*networks: str, waited: bool = False, rows: tuple[str, ...] = ()) -> VirtualMachineInstance:
    named = {name.rpartition("/")[2]: name for name in networks}
    interfaces = [{"name": "default", "masquerade": {}}]
    interfaces += [{"name": name, "bridge": {}, "macAddress": MAC} for name in named]
    spec: JsonObject = {
        "domain": {"devices": {"interfaces": interfaces}},
        "networks": [
            {"name": "default", "pod": {}},
            *({"name": name, "multus": {"networkName": each}} for name, each in named.items()),
        ],
    }
    status: JsonObject = {"phase": "Running", "interfaces": [{"name": row, "infoSource": "domain"} for row in rows]}
    if waited:
        status["conditions"] = [{"type": "MigrationRequired", "status": "True"}]
    return vmi_with(spec, status, name="web", namespace="shop", uid="uid-web")


class Node:
    """A node whose API, Pods and links a test plays."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.networks = {("shop", "lan"): lan_config_text(LAN), ("default", "all"): lan_config_text(LAN)}
        self.error: KubeError | None = None
        self.refusal: NetworkError | None = None
        # NICs of Pods that others have made.
        self.theirs: set[str] = set()
        # Whether the Pod has the NIC with an address that was reserved before.
        self.is_other = False
        self.joined: list[Port] = []
        self.left: list[tuple[str, ...]] = []
        monkeypatch.setattr(lan_joining, "hold_network", lambda _: nullcontext(7))
        monkeypatch.setattr(lan_joining, "has_nic", lambda netns, owner, nic, index: nic in self.theirs)
        monkeypatch.setattr(lan_joining, "join_nic", self._join)
        monkeypatch.setattr(
            lan_joining, "joined_nics", lambda owner: {each.interface for each in self.joined if each.netns == owner}
        )
        monkeypatch.setattr(lan_joining, "has_other_nic", lambda port: self.is_other)
        monkeypatch.setattr(lan_joining, "leave_nic", lambda netns, owner, nic: self.left.append((owner, nic)))
        monkeypatch.setattr(lan_joining, "leave_all", lambda owner: self.left.append((owner,)))

    def _join(self, netns: int, port: Port) -> None:
        assert netns == 7
        if self.refusal is not None:
            raise self.refusal
        self.joined.append(port)

    def read(self, namespace: str, name: str) -> NetworkAttachmentDefinition:
        if self.error is not None:
            raise self.error
        text = self.networks.get((namespace, name))
        if text is None:
            raise NotFound(404, "NotFound", "no")
        return definition(text)


def released(place: tuple[int, Interface]) -> None:
    raise AssertionError(f"nothing is bound at {place[0]}")


def definition(text: str, reserved: str = "") -> NetworkAttachmentDefinition:
    annotations = {RESERVATIONS: reserved} if reserved else {}
    spec = NetworkAttachmentDefinitionSpec(config=text)
    return NetworkAttachmentDefinition(metadata=ObjectMeta(annotations=annotations), spec=spec)


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(monkeypatch)


def test_a_pod_is_joined_to_what_nobody_has_joined_it_to(node: Node) -> None:
    node.theirs = {pod_nic("all")}
    LanJoining(node.read).join(guest("lan", "default/all"), LAUNCHER, released)
    (port,) = node.joined
    assert isinstance(port, LanPort)
    assert (port.netns, port.interface, port.mac, port.network) == ("uid-web", pod_nic("lan"), MAC, LAN)


def test_a_nic_of_the_node_is_joined_by_a_macvtap() -> None:
    found = wanted_nic("uid-web", "pod1", MAC, definition(macvtap_config_text(MacvtapConfig(nic="eth0"))))
    assert isinstance(found, MacvtapPort)
    assert (found.netns, found.interface, found.mac, found.network.nic) == ("uid-web", "pod1", MAC, "eth0")


def test_a_nic_has_the_address_that_is_reserved_for_its_mac_and_is_not_made_without_one() -> None:
    addresses = LanAddresses(subnet="192.0.2.0/24", first="192.0.2.50", last="192.0.2.99", gateway="192.0.2.1")
    text = lan_config_text(LanConfig(bridge="br0", addresses=addresses))
    found = wanted_nic("uid-web", "pod1", MAC, definition(text, f'{{"{MAC}": "192.0.2.77"}}'))
    assert isinstance(found, LanPort)
    assert (found.address, found.gateway) == ("192.0.2.77/24", "192.0.2.1")
    for reserved in ("", '{"52:54:00:00:00:99": "192.0.2.77"}'):
        with pytest.raises(ValueError, match=f"no address is reserved for {MAC}"):
            wanted_nic("uid-web", "pod1", MAC, definition(text, reserved))


def test_on_one_box_the_handler_leaves_it_to_the_node_agent(node: Node) -> None:
    joining = LanJoining()
    joining.join(guest("lan"), LAUNCHER, released)
    joining.leave(guest("lan"), LAUNCHER, lan_interfaces(guest("lan"))[0][1])
    joining.forget("uid-web")
    assert not joining.joins(guest("lan", waited=True))
    assert (node.joined, node.left) == ([], [])


@pytest.mark.parametrize(
    ("network", "config", "error", "said"),
    [
        ("gone", None, None, "there is no network shop/gone: `kvedge network create gone -n shop` makes one"),
        ("other/lan", None, None, "network other/lan is another namespace's: use one of shop, or one of default"),
        (
            "lan",
            '{"type": "macvlan"}',
            None,
            "kvedge cannot: spec.config.type: 'macvlan' is not supported here; use br",
        ),
        (
            "lan",
            "no",
            None,
            "nobody has joined the Pod to network shop/lan: the node has no Multus, and kvedge cannot: ",
        ),
        ("lan", None, Forbidden(403, "Forbidden", "may not"), "shop/lan: may not; apply k3s/rbac again"),
        (
            "lan",
            None,
            Unavailable(503, "Unavailable", "not now"),
            "shop/lan: the node has no Multus, and kvedge cannot",
        ),
    ],
)
def test_what_cannot_be_joined_is_told_with_its_name_and_remedy(
    node: Node, network: str, config: str | None, error: KubeError | None, said: str
) -> None:
    if config is not None:
        node.networks["shop", "lan"] = config
    node.error = error
    with pytest.raises(NetworkError) as caught:
        LanJoining(node.read).join(guest(network), LAUNCHER, released)
    assert said in str(caught.value)
    assert node.joined == []


def test_a_bridge_that_the_node_lacks_is_told_with_the_networks_name(node: Node) -> None:
    node.refusal = NetworkError("there is no bridge", subject="br0", errno=19, remedy="make it")
    with pytest.raises(NetworkError, match=r"network shop/lan: .*there is no bridge br0: ENODEV; make it") as caught:
        LanJoining(node.read).join(guest("lan"), LAUNCHER, released)
    assert caught.value.errno == 19


def test_a_pod_that_runs_is_joined_where_it_was_before_or_nobody_else_has_come(node: Node) -> None:
    joining = LanJoining(node.read)
    assert not joining.joins(guest("lan", "default/all", rows=("lan",)))
    assert joining.joins(guest("lan", "default/all", rows=("lan",), waited=True))
    joining.join(guest("lan"), LAUNCHER, released)
    assert joining.joins(guest("lan", "default/all", rows=("lan",)))
    assert not joining.joins(guest("lan", rows=("lan",))), "nothing is to come"


def test_what_only_a_cni_plugin_can_join_is_left_to_another_pod(node: Node) -> None:
    node.networks["shop", "lan"] = '{"type": "macvlan"}'
    assert not LanJoining(node.read).joins(guest("lan", waited=True))
    assert not LanJoining(node.read).joins(guest("gone", waited=True))
    assert LanJoining(node.read).joins(guest("lan", "default/all", waited=True))


def test_a_nic_that_the_handler_joins_comes_to_a_guest_which_runs(node: Node) -> None:
    joining, vmi = LanJoining(node.read), guest("lan", waited=True)
    status = pb.DomainStatus(state=pb.DOMAIN_STATE_RUNNING, follows_nics=True, nics=[pb.DomainNic(name="default")])
    assert nics_of_guest(vmi, status).coming == frozenset()
    assert nics_of_guest(vmi, status, joins=True).coming == {"lan"}
    assert summarize_nics(vmi, joins=True) - summarize_nics(vmi) == {("lan", "")}
    asked: list[tuple[str, int]] = []

    class Network:
        def prepare(self, _vmi: object, _launcher: object, _resolver: object, names: Any) -> list[Any]:
            asked.extend((name, len(node.joined)) for name in sorted(names))
            return []

    of: Any = (LAUNCHER, None)
    network: Any = Network()
    done = prepare_running(network, vmi, of, status, (), lambda name: joining.join(vmi, LAUNCHER, released, {name}))
    assert (done.failed, done.lost) == (None, {})
    assert asked == [("default", 0), ("lan", 1)], "a NIC is there before it is prepared"


def test_what_a_guest_has_released_and_what_a_guest_that_is_gone_had_is_taken_away(node: Node) -> None:
    joining = LanJoining(node.read)
    joining.leave(guest("lan"), LAUNCHER, lan_interfaces(guest("lan"))[0][1])
    joining.forget("uid-web")
    assert node.left == [("uid-web", pod_nic("lan")), ("uid-web",)]


def test_a_nic_with_an_address_that_was_reserved_before_is_made_anew(node: Node) -> None:
    node.is_other = True
    done: list[tuple[int, bool]] = []
    LanJoining(node.read).join(guest("lan"), LAUNCHER, lambda place: done.append((place[0], bool(node.left))))
    assert done == [(1, False)], "its binding is undone while the NIC is there"
    assert node.left == [("uid-web", pod_nic("lan"))]
    assert len(node.joined) == 1


def test_a_network_that_is_to_give_addresses_is_told_where_multus_has_joined_the_pod(node: Node) -> None:
    node.theirs = {pod_nic("lan")}
    addresses = LanAddresses(subnet="192.0.2.0/24", first="192.0.2.50", last="192.0.2.99")
    node.networks["shop", "lan"] = lan_config_text(LanConfig(bridge="br0", addresses=addresses))
    with pytest.raises(NetworkError) as caught:
        LanJoining(node.read).join(guest("lan"), LAUNCHER, released)
    assert str(caught.value).startswith(
        "cannot give addresses on network shop/lan: spec.domain.devices.interfaces[1]: "
    )
    assert "take spec.config.kvedge.addresses out of the network" in str(caught.value)
    node.error = Unavailable(503, "Unavailable", "not now")
    LanJoining(node.read).join(guest("lan"), LAUNCHER, released)
    assert node.joined == [], "it is Multus' all the same"


def test_a_network_of_which_kvedge_knows_nothing_is_multus_alone(node: Node) -> None:
    node.theirs = {pod_nic("lan"), pod_nic("gone")}
    node.networks["shop", "lan"] = '{"type": "macvlan"}'
    LanJoining(node.read).join(guest("lan", "gone"), LAUNCHER, released)
    assert node.joined == []


def test_a_reservation_that_does_not_fit_is_told_with_its_annotation_and_mac() -> None:
    addresses = LanAddresses(subnet="192.0.2.0/24", first="192.0.2.50", last="192.0.2.99")
    text = lan_config_text(LanConfig(bridge="br0", addresses=addresses))
    operators, given = definition(text, f'{{"{MAC}": "198.51.100.7"}}'), definition(text)
    given.metadata.annotations[GIVEN] = f'{{"{MAC}": "198.51.100.7"}}'
    for network, annotation in ((operators, RESERVATIONS), (given, GIVEN)):
        with pytest.raises(ValueError, match="no address for a guest") as caught:
            wanted_nic("uid-web", "pod1", MAC, network)
        assert str(caught.value) == (
            f"metadata.annotations[{annotation}]: {MAC}: 198.51.100.7 is no address for a guest of 192.0.2.0/24;"
            " reserve another for it, such as one of 192.0.2.50-192.0.2.99"
        )
