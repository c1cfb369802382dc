"""GPUs and other devices of claims (DRA): what is wrong, where, and in KubeVirt's words."""

from __future__ import annotations

from typing import Any, Final

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.configuration_reading import read_configuration
from tests.support.builders import put, small_vmi, vm_of
from tests.support.reviews import request
from tests.support.values import replace

DEVICES: Final = "spec.domain.devices"
CARDS: Final = [{"name": "cards", "resourceClaimTemplateName": "cards"}]


def cluster(*, disabled: tuple[str, ...] = (), permitted: JsonObject | None = None) -> Cluster:
    developer = {"featureGates": ["HostDevices"], "disabledFeatureGates": [*disabled]}
    configuration: JsonObject = {"developerConfiguration": developer}
    if permitted is not None:
        configuration["permittedHostDevices"] = permitted
    reading = read_configuration({"configuration": configuration})
    assert reading.findings == ()
    return Cluster("amd64", reading.configuration)


def a_device(name: str, claim: str = "cards", **rest: Any) -> JsonObject:
    return {"name": name, "claimName": claim, "requestName": name, **rest}


def spec_of(claims: list[JsonObject] = CARDS, **devices: Any) -> JsonObject:
    vmi = small_vmi()
    for name, value in devices.items():
        put(vmi["spec"], f"domain.devices.{name}", value)
    if claims:
        vmi["spec"]["resourceClaims"] = claims
    return vmi


def causes(vmi: JsonObject, where: Cluster | None = None) -> list[tuple[str, str]]:
    return [(cause.field, cause.message) for cause in plan_verdict(request(vmi), where or cluster()).causes]


def test_devices_of_claims_enter_whatever_device_plugins_are_permitted() -> None:
    permitted = {"pciHostDevices": [{"pciVendorSelector": "8086:4940", "resourceName": "intel.com/qat"}]}
    others = [a_device("c"), {"name": "d", "deviceName": "intel.com/qat"}]
    vmi = spec_of(gpus=[a_device("a"), a_device("b")], hostDevices=others)
    assert causes(vmi, cluster(permitted=permitted)) == []
    # A claim that no device is of is its Pod's alone.
    assert causes(spec_of([*CARDS, {"name": "licence", "resourceClaimName": "one"}])) == []


ONE: Final = spec_of(gpus=[a_device("a")])
WRONG: Final[dict[str, tuple[JsonObject, str, str]]] = {
    "a claim without a name": (
        spec_of([{"name": "", "resourceClaimName": "one"}]),
        "spec.resourceClaims[0].name",
        "spec.resourceClaims[0].name is a required field",
    ),
    "a claim's name twice": (
        spec_of(CARDS * 2),
        "spec.resourceClaims[1].name",
        'duplicate resourceClaims name "cards"',
    ),
    "a claim's name that is none": (
        spec_of([{"name": "A_b", "resourceClaimName": "one"}]),
        "spec.resourceClaims[0].name",
        "does not conform to the kubernetes DNS_LABEL rules: ",
    ),
    "a claim of nothing": (
        spec_of([{"name": "cards"}]),
        "spec.resourceClaims[0]",
        "must specify one of: resourceClaimName, resourceClaimTemplateName",
    ),
    "a claim of both": (
        spec_of([{**CARDS[0], "resourceClaimName": "one"}]),
        "spec.resourceClaims[0]",
        "at most one of resourceClaimName or resourceClaimTemplateName may be specified",
    ),
    "a claim with a path": (
        spec_of([{"name": "cards", "resourceClaimName": "../one"}]),
        "spec.resourceClaims[0].resourceClaimName",
        "a lowercase RFC 1123 subdomain must consist of",
    ),
    "GPUs of both": (
        spec_of(gpus=[a_device("a"), {"name": "b", "deviceName": "n.com/b"}]),
        f"{DEVICES}.gpus",
        "vmi.spec.domain.devices.gpus contains both DRA and non-DRA GPUs; each GPU must be either DRA or non-DRA",
    ),
    "a GPU that is both": (
        spec_of(gpus=[a_device("a", deviceName="n.com/a")]),
        f"{DEVICES}.gpus",
        "vmi.spec.domain.devices.gpus contains GPUs with both deviceName and claimRequest",
    ),
    "a device that is both": (
        spec_of(hostDevices=[a_device("a", deviceName="n.com/a")]),
        f"{DEVICES}.hostDevices",
        "vmi.spec.domain.devices.hostDevices contains HostDevices with both deviceName and claimRequest",
    ),
    "no claim": (
        spec_of(gpus=[{"name": "a", "requestName": "a"}]),
        f"{DEVICES}.gpus[0].claimName",
        "claimName is required for DRA GPU",
    ),
    "no request": (
        spec_of(hostDevices=[{"name": "a", "claimName": "cards"}]),
        f"{DEVICES}.hostDevices[0].requestName",
        "requestName is required for DRA HostDevice",
    ),
    "a request with a path": (
        spec_of(gpus=[{"name": "a", "claimName": "cards", "requestName": "../a"}]),
        f"{DEVICES}.gpus[0].requestName",
        "does not conform to the kubernetes DNS_LABEL rules: ",
    ),
    "a claim that is not there": (
        spec_of([], gpus=[a_device("a")]),
        "spec.resourceClaims",
        "vmi.spec.resourceClaims must specify all claims used in vmi.spec.domain.devices.gpus and"
        " vmi.spec.domain.devices.hostDevices",
    ),
    "a request twice": (
        spec_of(gpus=[a_device("a"), a_device("b", requestName="a")]),
        f"{DEVICES}.gpus[1]",
        'duplicate claimName/requestName pair "cards/a"',
    ),
    "a request of two lists": (
        spec_of(gpus=[a_device("a")], hostDevices=[a_device("x"), a_device("y", requestName="a")]),
        f"{DEVICES}.hostDevices[1]",
        'duplicate claimName/requestName pair "cards/a" between GPUs[0] and HostDevices[1]',
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_is_refused_by_field(case: str) -> None:
    vmi, field, message = WRONG[case]
    ((at, said),) = causes(vmi)
    assert (at, said) == (field, message) or (at == field and message in said)


def test_each_list_has_a_gate_that_can_be_closed() -> None:
    vmi = spec_of(gpus=[a_device("a")], hostDevices=[a_device("b")])
    assert causes(vmi, cluster(disabled=("GPUsWithDRA", "HostDevicesWithDRA"))) == [
        (f"{DEVICES}.gpus", "vmi.spec.domain.devices.gpus contains DRA enabled GPUs but feature gate is not enabled"),
        (
            f"{DEVICES}.hostDevices",
            "vmi.spec.domain.devices.hostDevices contains DRA enabled HostDevices but feature gate is not enabled",
        ),
    ]


@pytest.mark.parametrize("vmi", [ONE, spec_of(), vm_of(ONE)], ids=["a device", "a claim alone", "a VM"])
def test_one_box_refuses_claims_with_what_to_do_instead(vmi: JsonObject) -> None:
    ((at, said),) = causes(vmi, replace(cluster(), allocates_claims=False))
    assert at.endswith("spec.resourceClaims")
    assert "permittedHostDevices of the KubeVirt object and name its resource in deviceName" in said
