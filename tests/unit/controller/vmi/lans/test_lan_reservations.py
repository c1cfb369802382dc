"""Which addresses the controller reserves, for whom, and which it takes back."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kvedge.controller.vmi.lans.lan_reservations import NoAddress, reserve_addresses
from kvedge.kube.errors import Conflict, Forbidden, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.network.lan.lan_addresses import LanAddresses
from kvedge.network.lan.lan_config import LanConfig, lan_config_text
from kvedge.resources.codec import decode
from kvedge.resources.identity import guest_mac
from kvedge.resources.lan_reservations import RESERVATIONS, Reservation, encode_reservations, reservations_of
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.attachments import NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import vmi_with

RANGE = LanAddresses(subnet="192.0.2.0/24", first="192.0.2.50", last="192.0.2.51")
MAC, OTHER, THIRD = "52:54:00:00:00:01", "52:54:00:00:00:02", "52:54:00:00:00:03"


def guest(binding: str = "bridge") -> VirtualMachineInstance:
    bound: Any = {"binding": {"name": "macvtap"}} if binding == "binding" else {"bridge": {}}
    interfaces = [{"name": "default", "masquerade": {}}, {"name": "lan", "macAddress": MAC, **bound}]
    networks = [{"name": "default", "pod": {}}, {"name": "lan", "multus": {"networkName": "lan"}}]
    spec = {"domain": {"devices": {"interfaces": interfaces}}, "networks": networks}
    return vmi_with(spec, {"phase": "Pending"}, name="web", namespace="shop")


def vm(uid: str = "uid-1", **lan: str) -> VirtualMachine:
    interfaces = [{"name": "default", "masquerade": {}}, {"name": "lan", "bridge": {}, **lan}]
    document = {
        "metadata": {"name": "there", "namespace": "shop", "uid": uid},
        "spec": {"template": {"spec": {"domain": {"devices": {"interfaces": interfaces}}}}},
    }
    return decode(VirtualMachine, document)


class Api:
    """An API with one network, and the VMs that there are."""

    def __init__(self, config: LanConfig, **reserved: Reservation) -> None:
        self.text = lan_config_text(config)
        self.reserved = encode_reservations(reserved) if reserved else ""
        self.there: dict[tuple[type, str], Any] = {}
        self.error: KubeError | None = None
        self.patches = 0

    def get(self, cls: type, namespace: str, name: str) -> Any:
        if cls is not NetworkAttachmentDefinition:
            if (cls, f"{namespace}/{name}") not in self.there:
                raise NotFound(404, "NotFound", "no")
            return self.there[cls, f"{namespace}/{name}"]
        if self.error is not None:
            raise self.error
        annotations = {RESERVATIONS: self.reserved} if self.reserved else {}
        meta = ObjectMeta(name=name, namespace=namespace, resource_version="7", annotations=annotations)
        return NetworkAttachmentDefinition(metadata=meta, spec=NetworkAttachmentDefinitionSpec(config=self.text))

    def patch(self, cls: type, namespace: str, name: str, patch: MergePatch) -> None:
        assert (cls, namespace, name) == (NetworkAttachmentDefinition, "shop", "lan")
        metadata = patch.body["metadata"]
        assert metadata["resourceVersion"] == "7", "whoever edits it meanwhile wins"
        self.reserved = metadata["annotations"][RESERVATIONS]
        self.patches += 1

    def reserve(self, vmi: VirtualMachineInstance | None = None) -> dict[str, Reservation]:
        reserve_addresses(vmi or guest(), cast(KubeClient, self))
        return reservations_of(self.get(NetworkAttachmentDefinition, "shop", "lan"))


def api_of_range() -> Api:
    return Api(LanConfig(bridge="br0", addresses=RANGE))


def test_a_guest_gets_the_first_address_that_nobody_has_and_keeps_it() -> None:
    api = Api(LanConfig(bridge="br0", addresses=RANGE), **{OTHER: Reservation("192.0.2.50")})
    found = api.reserve()
    assert found == {OTHER: Reservation("192.0.2.50"), MAC: Reservation("192.0.2.51", "shop/web")}
    assert api.reserve() == found
    assert api.patches == 1


def test_a_full_network_gives_away_what_vms_had_that_are_gone() -> None:
    held = {OTHER: Reservation("192.0.2.50", "shop/gone"), THIRD: Reservation("192.0.2.51", "shop/there")}
    api = Api(LanConfig(bridge="br0", addresses=RANGE), **held)
    api.there = {(VirtualMachine, "shop/there"): vm(macAddress=THIRD.upper().replace(":", "-"))}
    assert api.reserve() == {THIRD: held[THIRD], MAC: Reservation("192.0.2.50", "shop/web")}


def test_a_vm_that_was_made_anew_gives_back_what_the_one_before_had() -> None:
    before, now = (guest_mac(uid, "lan") for uid in ("uid-1", "uid-2"))
    held = {before: Reservation("192.0.2.50", "shop/there"), now: Reservation("192.0.2.51", "shop/there")}
    api = Api(LanConfig(bridge="br0", addresses=RANGE), **held)
    api.there = {(VirtualMachine, "shop/there"): vm("uid-2")}
    assert api.reserve() == {now: held[now], MAC: Reservation("192.0.2.50", "shop/web")}


def test_a_full_network_is_told_with_the_field_and_nothing_of_an_operators_is_taken() -> None:
    held = {OTHER: Reservation("192.0.2.50"), THIRD: Reservation("192.0.2.51", "shop/alone")}
    api = Api(LanConfig(bridge="br0", addresses=RANGE), **held)
    alone = guest()
    alone.spec.domain.devices.interfaces[1].mac_address = THIRD
    api.there = {(VirtualMachineInstance, "shop/alone"): alone}
    with pytest.raises(NoAddress) as caught:
        api.reserve()
    said = (
        "spec.domain.devices.interfaces[1] (lan): network shop/lan: all addresses of 192.0.2.50-192.0.2.51 are reserved"
    )
    assert str(caught.value).startswith(said)
    assert api.patches == 0


def test_an_annotation_that_cannot_be_read_is_told() -> None:
    api = Api(LanConfig(bridge="br0", addresses=RANGE))
    api.reserved = "no"
    with pytest.raises(NoAddress, match=r"\[kvedge\.io/addresses\]: .*write it as"):
        api.reserve()


@pytest.mark.parametrize(
    "text",
    [lan_config_text(LanConfig(bridge="br0")), '{"type": "macvtap", "master": "eth0"}', '{"type": "ptp"}', "no JSON"],
)
def test_a_network_that_gives_no_addresses_is_left_as_it_is(text: str) -> None:
    api = Api(LanConfig(bridge="br0"))
    api.text = text
    assert api.reserve() == {}
    assert api.patches == 0


def test_a_plugins_guest_is_on_the_network_at_an_address_too() -> None:
    assert api_of_range().reserve(guest("binding")) == {MAC: Reservation("192.0.2.50", "shop/web")}


@pytest.mark.parametrize("error", [NotFound(404, "NotFound", "no"), Forbidden(403, "Forbidden", "may not")])
def test_a_network_that_cannot_be_read_is_told_by_who_joins_the_pod(error: KubeError) -> None:
    api = Api(LanConfig(bridge="br0", addresses=RANGE))
    api.error = error
    reserve_addresses(guest(), cast(KubeClient, api))
    assert api.patches == 0


def test_a_change_by_others_is_met_by_another_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(LanConfig(bridge="br0", addresses=RANGE))

    def overtaken(*_: object) -> None:
        raise Conflict(409, "Conflict", "another version")

    monkeypatch.setattr(api, "patch", overtaken)
    with pytest.raises(Conflict):
        api.reserve()
