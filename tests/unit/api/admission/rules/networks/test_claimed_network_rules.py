"""Networks that are devices of claims (DRA): what is wrong, where, and in KubeVirt's words."""

from __future__ import annotations

from typing import Any, Final

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.spec_verdict import Verdict
from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.configuration_reading import read_configuration
from tests.support.builders import small_vmi
from tests.support.reviews import request

PORT: Final = {"claimName": "nics", "requestName": "port"}
BINDINGS: Final = {"own": {"sidecarImage": "example.com/own:1"}, "link": {"domainAttachmentType": "tap"}}
AT: Final = "spec.networks[1]"


def verdict(
    resource_claim: JsonObject = PORT,
    *more: JsonObject,
    gates: tuple[str, ...] = ("NetworkDevicesWithDRA",),
    **interface: Any,
) -> Verdict:
    """Of a guest with a NIC of a claim beside that of the Pod network; `more` are further networks, of functions."""
    vmi = small_vmi()
    spec = vmi["spec"]
    others = [{"name": f"more{number}", **network} for number, network in enumerate(more)]
    spec["domain"]["devices"]["interfaces"] = [
        {"name": "default", "masquerade": {}},
        {"name": "red", **(interface or {"sriov": {}})},
        *({"name": network["name"], "sriov": {}} for network in others),
    ]
    spec["networks"] = [{"name": "default", "pod": {}}, {"name": "red", "resourceClaim": resource_claim}, *others]
    spec["resourceClaims"] = [{"name": "nics", "resourceClaimName": "nics"}]
    configuration = {"developerConfiguration": {"featureGates": [*gates]}, "network": {"binding": BINDINGS}}
    reading = read_configuration({"configuration": configuration})
    where = Cluster("amd64", reading.configuration)
    return plan_verdict(request(vmi), where)


def causes(
    resource_claim: JsonObject = PORT,
    *more: JsonObject,
    gates: tuple[str, ...] = ("NetworkDevicesWithDRA",),
    **interface: Any,
) -> list[tuple[str, str]]:
    """What is wrong with it, if anything."""
    found = verdict(resource_claim, *more, gates=gates, **interface)
    return [(cause.field, cause.message) for cause in found.causes]


def test_a_function_of_a_claim_and_a_plugins_sidecar_enter() -> None:
    assert causes() == []
    assert causes(PORT, {"resourceClaim": {"claimName": "nics", "requestName": "other"}}) == []
    assert causes(binding={"name": "own"}) == []


def test_it_has_a_gate() -> None:
    said = "vmi.spec.networks contains DRA networks but NetworkDevicesWithDRA feature gate is not enabled"
    assert causes(gates=()) == [("spec.networks", said)]


CASES: Final[dict[str, tuple[list[tuple[str, str]], str, str]]] = {
    "Multus beside it": (
        causes(PORT, {"multus": {"networkName": "fast"}}),
        "spec.networks",
        "mixing Multus and DRA resourceClaim networks in the same VMI is not supported",
    ),
    "a claim that is not there": (
        causes({"claimName": "absent", "requestName": "port"}),
        f"{AT}.resourceClaim.claimName",
        'network references resourceClaim "absent" which is not defined in spec.resourceClaims',
    ),
    "no claim": (
        causes({"requestName": "port"}),
        f"{AT}.resourceClaim.claimName",
        "claimName is required for DRA network",
    ),
    "no request": (
        causes({"claimName": "nics"}),
        f"{AT}.resourceClaim.requestName",
        "requestName is required for DRA network",
    ),
    "a request twice": (
        causes(PORT, {"resourceClaim": PORT}),
        "spec.networks[2]",
        'duplicate claimName/requestName combination "nics/port"',
    ),
    "a bridge": (
        causes(bridge={}),
        "spec.domain.devices.interfaces",
        'DRA network "red" requires an SR-IOV or binding plugin interface',
    ),
    "a plugin of links": (
        causes(binding={"name": "link"}),
        "spec.domain.devices.interfaces[1].binding.name",
        "a claim makes none; use sriov: {}",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_is_refused_by_field(case: str) -> None:
    found, field, message = CASES[case]
    ((at, said),) = found
    assert at == field
    assert message in said


def test_a_nic_of_a_claim_does_not_leave_a_guest() -> None:
    for binding in ({"sriov": {}}, {"binding": {"name": "own"}}):
        fields = {field for field, _ in causes(state="absent", **binding)}
        assert fields == {"spec.domain.devices.interfaces[1].state"}


def test_a_mac_that_nobody_gives_to_the_card_is_warned_of() -> None:
    assert verdict().warnings == ()
    (told,) = verdict(sriov={}, macAddress="02:00:00:00:00:09").warnings
    assert told.startswith("spec.domain.devices.interfaces[1].macAddress: the card of a claim's NIC is not told of it")
