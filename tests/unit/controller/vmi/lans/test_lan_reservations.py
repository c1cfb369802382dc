# Tests: kvedge/controller/vmi/lans/reservation_plan.py
"""Which addresses the controller reserves, for whom, and which it takes back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from kvedge.controller.vmi.lans.lan_reservations import LanReservations, NoAddress
from kvedge.kube.errors import Conflict, Forbidden, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.network.lan.lan_addresses import LanAddresses
from kvedge.network.lan.lan_config import LanConfig, lan_config_text
from kvedge.resources.codec import decode
from kvedge.resources.identity import guest_mac
from kvedge.resources.lan_reservations import (
    GIVEN,
    RESERVATIONS,
    Reservation,
    encode_reservations,
    reservations_of,
)
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.attachments import NetworkAttachmentDefinition, NetworkAttachmentDefinitionSpec
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import a_pod, vmi_with

RANGE = LanAddresses(subnet="192.0.2.0/24", first="192.0.2.50", last="192.0.2.51")
MAC, OTHER, THIRD = "52:54:00:00:00:01", "52:54:00:00:00:02", "52:54:00:00:00:03"


def guest(
    binding: str = "bridge", *, name: str = "web", mac: str = MAC, told: tuple[str, ...] = (), network: str = "lan"
) -> VirtualMachineInstance:
    bound: Any = {"binding": {"name": "macvtap"}} if binding == "binding" else {"bridge": {}}
    interfaces = [{"name": "default", "masquerade": {}}, {"name": "lan", "macAddress": mac, **bound}]
    networks = [{"name": "default", "pod": {}}, {"name": "lan", "multus": {"networkName": network}}]
    spec = {"domain": {"devices": {"interfaces": interfaces}}, "networks": networks}
    rows = [{"name": "lan", "ipAddress": told[0], "ipAddresses": list(told)}] if told else []
    return vmi_with(spec, {"phase": "Pending", "interfaces": rows}, name=name, namespace="shop")


def vm(uid: str = "uid-1", **lan: str) -> VirtualMachine:
    interfaces = [{"name": "default", "masquerade": {}}, {"name": "lan", "bridge": {}, **lan}]
    document = {
        "metadata": {"name": "there", "namespace": "shop", "uid": uid},
        "spec": {"template": {"spec": {"domain": {"devices": {"interfaces": interfaces}}}}},
    }
    return decode(VirtualMachine, document)


class Known:
    """An informer of what a test has put there."""

    def __init__(self) -> None:
        self.there: dict[str, Any] = {}
        self.values: Callable[[Any], Iterable[str]] = lambda _: ()

    def add_index(self, index: str, values: Callable[[Any], Iterable[str]]) -> None:
        assert index == "lan"
        self.values = values

    def get(self, namespace: str, name: str) -> Any:
        return self.there.get(f"{namespace}/{name}")

    def find_indexed(self, index: str, value: str) -> list[Any]:
        assert index == "lan"
        return [each for each in self.there.values() if value in self.values(each)]


class Api:
    """An API with one network, and what the informers know of VMs and VMIs."""

    def __init__(self, config: LanConfig, **reserved: Reservation) -> None:
        self.text = lan_config_text(config)
        self.annotations = {GIVEN: encode_reservations(reserved)} if reserved else {}
        self.vms, self.vmis = Known(), Known()
        self.error: KubeError | None = None
        self.gets: list[str] = []
        self.patches = 0
        self.now = 0.0
        known: Any = (self.vmis, self.vms)
        self.reservations = LanReservations(cast(KubeClient, self), *known, lambda: self.now)

    def get(self, cls: type, namespace: str, name: str) -> Any:
        assert cls is NetworkAttachmentDefinition
        self.gets.append(f"{namespace}/{name}")
        if self.error is not None:
            raise self.error
        version = str(7 + self.patches)
        meta = ObjectMeta(name=name, namespace=namespace, resource_version=version, annotations=self.annotations)
        return NetworkAttachmentDefinition(metadata=meta, spec=NetworkAttachmentDefinitionSpec(config=self.text))

    def patch(self, cls: type, namespace: str, name: str, patch: MergePatch) -> None:
        assert (cls, namespace, name) == (NetworkAttachmentDefinition, "shop", "lan")
        metadata = patch.body["metadata"]
        assert metadata["resourceVersion"] == str(7 + self.patches), "whoever edits it meanwhile wins"
        self.annotations = {**self.annotations, **metadata["annotations"]}
        self.patches += 1

    def reserve(self, vmi: VirtualMachineInstance | None = None) -> dict[str, Reservation]:
        self.reservations.reserve(vmi or guest())
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
    api.vms.there = {"shop/there": vm(macAddress=THIRD.upper().replace(":", "-"))}
    assert api.reserve() == {THIRD: held[THIRD], MAC: Reservation("192.0.2.50", "shop/web")}


def test_a_vm_that_was_made_anew_gives_back_what_the_one_before_had() -> None:
    before, now = (guest_mac(uid, "lan") for uid in ("uid-1", "uid-2"))
    held = {before: Reservation("192.0.2.50", "shop/there"), now: Reservation("192.0.2.51", "shop/there")}
    api = Api(LanConfig(bridge="br0", addresses=RANGE), **held)
    api.vms.there = {"shop/there": vm("uid-2")}
    assert api.reserve() == {now: held[now], MAC: Reservation("192.0.2.50", "shop/web")}


def test_a_full_network_is_told_with_the_field_and_nothing_of_an_operators_is_taken() -> None:
    held = {OTHER: Reservation("192.0.2.50"), THIRD: Reservation("192.0.2.51", "shop/alone")}
    api = Api(LanConfig(bridge="br0", addresses=RANGE), **held)
    api.vmis.there = {"shop/alone": guest(name="alone", mac=THIRD)}
    with pytest.raises(NoAddress) as caught:
        api.reserve()
    said = (
        "spec.domain.devices.interfaces[1] (lan): network shop/lan: all addresses of 192.0.2.50-192.0.2.51 are reserved"
    )
    assert str(caught.value).startswith(said)
    assert api.patches == 0


def test_an_annotation_that_cannot_be_read_is_told() -> None:
    api = api_of_range()
    api.annotations = {RESERVATIONS: "no"}
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
    api.reservations.reserve(guest())
    assert api.patches == 0


def test_a_change_by_others_is_met_by_another_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(LanConfig(bridge="br0", addresses=RANGE))

    def overtaken(*_: object) -> None:
        raise Conflict(409, "Conflict", "another version")

    monkeypatch.setattr(api, "patch", overtaken)
    with pytest.raises(Conflict):
        api.reserve()


def test_an_operators_manifest_that_is_applied_again_takes_nothing_from_guests() -> None:
    api = api_of_range()
    api.annotations = {RESERVATIONS: encode_reservations({OTHER: Reservation("192.0.2.51")})}
    assert api.reserve()[MAC] == Reservation("192.0.2.50", "shop/web")
    api.annotations = {**api.annotations, RESERVATIONS: encode_reservations({OTHER: Reservation("192.0.2.9")})}
    found = api.reserve(guest(name="third", mac=THIRD))
    assert {mac: each.address for mac, each in found.items()} == {
        MAC: "192.0.2.50",
        OTHER: "192.0.2.9",
        THIRD: "192.0.2.51",
    }
    assert OTHER not in api.annotations[GIVEN], "each annotation has one writer"


def test_a_guest_that_runs_keeps_its_address_when_somebody_has_erased_its_entry() -> None:
    api = api_of_range()
    api.vmis.there = {"shop/old": guest(name="old", mac=OTHER, told=("fe80::1", "192.0.2.50"))}
    assert api.reserve() == {
        OTHER: Reservation("192.0.2.50", "shop/old"),
        MAC: Reservation("192.0.2.51", "shop/web"),
    }
    mine = api_of_range()
    assert mine.reserve(guest(told=("192.0.2.51",))) == {MAC: Reservation("192.0.2.51", "shop/web")}


def test_an_address_with_which_a_guest_is_seen_is_not_given_away_though_another_is_reserved_for_it() -> None:
    api = Api(LanConfig(bridge="br0", addresses=RANGE), **{OTHER: Reservation("192.0.2.51", "shop/old")})
    api.vmis.there = {"shop/old": guest(name="old", mac=OTHER, told=("192.0.2.50",))}
    with pytest.raises(NoAddress, match="all addresses"):
        api.reserve()


def test_a_guest_that_tells_many_addresses_does_not_use_up_the_network() -> None:
    wide = LanAddresses(subnet="192.0.2.0/24", first="192.0.2.50", last="192.0.2.60")
    api = Api(LanConfig(bridge="br0", addresses=wide), **{OTHER: Reservation("192.0.2.50", "shop/old")})
    told = tuple(f"192.0.2.{number}" for number in range(50, 61))
    api.vmis.there = {"shop/old": guest(name="old", mac=OTHER, told=told)}
    assert api.reserve()[MAC] == Reservation("192.0.2.54", "shop/web")


def test_a_mac_of_another_vm_that_is_still_there_is_refused_with_the_field_and_the_remedy() -> None:
    api = Api(LanConfig(bridge="br0", addresses=RANGE), **{MAC: Reservation("192.0.2.50", "shop/there")})
    api.vms.there = {"shop/there": vm(macAddress=MAC)}
    with pytest.raises(NoAddress) as caught:
        api.reserve()
    assert str(caught.value) == (
        f"spec.domain.devices.interfaces[1].macAddress (lan): network shop/lan: {MAC} is that of VM shop/there, which"
        " has 192.0.2.50 there; give one of the VMs another macAddress, or delete the one that is not needed"
    )
    api.vms.there = {}
    assert api.reserve() == {MAC: Reservation("192.0.2.50", "shop/web")}, "its VM is gone"


def test_a_mac_of_a_guest_that_runs_without_an_entry_is_refused_too() -> None:
    api = api_of_range()
    api.vmis.there = {"shop/old": guest(name="old", told=("192.0.2.50",))}
    with pytest.raises(NoAddress, match=r"\.macAddress .*is that of VM shop/old"):
        api.reserve()


def test_a_network_of_another_namespace_is_not_even_read() -> None:
    api = api_of_range()
    api.reservations.reserve(guest(network="bank/lan"))
    assert api.gets == []
    api.text = lan_config_text(LanConfig(bridge="br0"))
    api.reservations.reserve(guest(network="default/all"))
    assert api.gets == ["default/all"], "those of default are everybody's"


def test_a_full_network_is_planned_again_after_a_minute_or_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    held = {OTHER: Reservation("192.0.2.50", "shop/a"), THIRD: Reservation("192.0.2.51", "shop/b")}
    api = Api(LanConfig(bridge="br0", addresses=RANGE), **held)
    api.vms.there = {"shop/a": vm(macAddress=OTHER), "shop/b": vm(macAddress=THIRD)}
    asked = []
    look = api.vms.get
    monkeypatch.setattr(api.vms, "get", lambda *key: asked.append(key) or look(*key))
    for _ in range(3):
        with pytest.raises(NoAddress, match="all addresses"):
            api.reserve()
    assert len(asked) == 2, "each holder was looked for once"
    assert api.reserve(guest(mac=OTHER, name="a")) == held, "whoever has one is not refused"
    api.vms.there.clear()
    api.now = 60.0
    assert api.reserve()[MAC] == Reservation("192.0.2.50", "shop/web")


def test_an_annotation_that_would_be_too_long_is_refused_before_it_is_written() -> None:
    api = api_of_range()
    api.annotations = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 261_100}
    with pytest.raises(NoAddress, match=r"\[kvedge\.io/reserved-addresses\]: there is no room for 1 reservations"):
        api.reserve()
    assert api.patches == 0


def test_a_nic_that_waits_has_an_address_soon_after_the_network_has_one() -> None:
    api, told = Api(LanConfig(bridge="br0")), list[str]()
    vmi = guest()
    pods = [a_pod(vmi)]
    assert api.reservations.follow(vmi, pods, told.append) == 10.0
    assert api.annotations == {}, "it gives no addresses yet"
    api.text = lan_config_text(LanConfig(bridge="br0", addresses=RANGE))
    api.annotations = {
        RESERVATIONS: encode_reservations({OTHER: Reservation("192.0.2.50"), THIRD: Reservation("192.0.2.51")})
    }
    assert api.reservations.follow(vmi, pods, told.append) == 10.0
    assert [text.partition(";")[0] for text in told] == [
        "spec.domain.devices.interfaces[1] (lan): network shop/lan: all addresses of 192.0.2.50-192.0.2.51 are reserved"
    ]
    api.annotations, api.now = {}, 60.0
    assert api.reservations.follow(vmi, pods, told.append) == 10.0
    assert GIVEN in api.annotations
    assert len(told) == 1


def test_nothing_is_asked_for_a_vmi_whose_nics_are_there_or_that_has_none_or_no_pod() -> None:
    api, told = api_of_range(), list[str]()
    there, ending, over, vmi = guest(told=("192.0.2.50",)), guest(), guest(), guest()
    there.status.interfaces[0].info_source = "domain"
    ending.metadata.deletion_timestamp = "2026-01-02T03:04:05Z"
    over.status.phase = "Failed"
    alone = guest()
    alone.spec.networks = alone.spec.networks[:1]
    for each in (there, ending, over, alone):
        assert api.reservations.follow(each, [a_pod(each)], told.append) is None
    assert api.reservations.follow(vmi, [], told.append) is None
    assert api.reservations.follow(vmi, [a_pod(vmi, "Failed")], told.append) is None
    assert (api.gets, told) == ([], [])


def test_an_entry_that_no_longer_fits_the_subnet_is_made_anew() -> None:
    held = {MAC: Reservation("198.51.100.7", "shop/web"), OTHER: Reservation("192.0.2.9", "shop/there")}
    api = Api(LanConfig(bridge="br0", addresses=RANGE), **held)
    assert api.reserve() == {MAC: Reservation("192.0.2.50", "shop/web"), OTHER: held[OTHER]}
