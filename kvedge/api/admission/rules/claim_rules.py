"""Rules for GPUs and other devices that claims of the cluster (DRA) have, worded as KubeVirt words them.

Called by admission_plan.py; touches nothing. Claims, templates and the requests in them are Kubernetes' to judge, when
the launcher's Pod comes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kvedge.api.admission.rules.causes import Cause, Field, duplicate, required_cause, unsupported_cause
from kvedge.api.admission.rules.dns_names import dns_label_complaints, dns_subdomain_complaints
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.configuration.feature_gates import GPU_CLAIMS_GATE, HOST_DEVICE_CLAIMS_GATE
from kvedge.resources.host_devices.claimed_devices import ClaimedDevice, claimed_devices
from kvedge.resources.types.core import PodResourceClaim
from kvedge.resources.types.devices import Gpu, HostDevice

_LONGEST_SHOWN: Final = 80
_SPOKEN: Final = {"gpus": "GPUs", "hostDevices": "HostDevices", "networks": "Networks"}


class _List(NamedTuple):
    """GPUs or other devices: the field, KubeVirt's word for one, the gate, and whether all or none are of claims."""

    field: str
    word: str
    gate: str
    is_uniform: bool
    devices: Sequence[Gpu | HostDevice]


def _lists(subject: Subject) -> list[_List]:
    devices = subject.spec.domain.devices
    return [
        _List("gpus", "GPU", GPU_CLAIMS_GATE, True, devices.gpus),
        _List("hostDevices", "HostDevice", HOST_DEVICE_CLAIMS_GATE, False, devices.host_devices),
    ]


def claims_are_allocated(subject: Subject) -> Iterator[Cause]:
    """Only a cluster has a scheduler and drivers for them."""
    spec = subject.spec
    if (spec.resource_claims or claimed_devices(spec)) and not subject.cluster.allocates_claims:
        at = subject.at.at("resourceClaims")
        yield unsupported_cause(
            at,
            f"{at}: one box has nothing that allocates devices to claims (DRA), which Kubernetes does in a cluster;"
            " instead permit the device in permittedHostDevices of the KubeVirt object and name its resource in"
            " deviceName, or use a network multus",
        )


def claims_are_named(subject: Subject) -> Iterator[Cause]:
    """A name of its own, and either a claim or a template of one."""
    at = subject.at.at("resourceClaims")
    seen: set[str] = set()
    for index, claim in enumerate(subject.spec.resource_claims):
        here = at.item(index)
        if not claim.name:
            yield required_cause(here.at("name"), f"{here.at('name')} is a required field")
        elif claim.name in seen:
            yield duplicate(here.at("name"), f'duplicate resourceClaims name "{claim.name[:_LONGEST_SHOWN]}"')
        elif complaints := dns_label_complaints(claim.name):
            said = f"{here.at('name')} does not conform to the kubernetes DNS_LABEL rules: {', '.join(complaints)}"
            yield Cause(here.at("name"), said)
        seen.add(claim.name)
        yield from _source_causes(claim, here)


def _source_causes(claim: PodResourceClaim, at: Field) -> Iterator[Cause]:
    sources = {"resourceClaimName": claim.resource_claim_name}
    sources["resourceClaimTemplateName"] = claim.resource_claim_template_name
    given = {field: name for field, name in sources.items() if name is not None}
    if len(given) > 1:
        yield Cause(at, "at most one of resourceClaimName or resourceClaimTemplateName may be specified")
    if not given:
        yield Cause(at, "must specify one of: resourceClaimName, resourceClaimTemplateName")
    for field, name in given.items():
        for complaint in dns_subdomain_complaints(name):
            yield Cause(at.at(field), complaint)


def devices_are_of_claims_or_plugins(subject: Subject) -> Iterator[Cause]:
    """Of one of the two; GPUs all of the same one."""
    for each in _lists(subject):
        at = subject.devices_at.at(each.field)
        shown = f"vmi.spec.domain.devices.{each.field}"
        claimed = sum(device.is_claimed for device in each.devices)
        if each.is_uniform and 0 < claimed < len(each.devices):
            text = f"{shown} contains both DRA and non-DRA {each.word}s; each {each.word} must be either DRA or non-DRA"
            yield Cause(at, text)
            continue
        if any(device.device_name and (device.claim_name or device.request_name) for device in each.devices):
            yield Cause(at, f"{shown} contains {each.word}s with both deviceName and claimRequest")
        if claimed and not subject.cluster.configuration.gates.is_on(each.gate):
            yield Cause(at, f"{shown} contains DRA enabled {each.word}s but feature gate is not enabled")


def requests_are_named(subject: Subject) -> Iterator[Cause]:
    """Claim and request of each device; the request's name becomes that of a directory in the Pod."""
    words = {each.field: each.word for each in _lists(subject)}
    for device in claimed_devices(subject.spec):
        if device.kind == "networks":
            at, word = subject.at.at("networks").item(device.index).at("resourceClaim"), "network"
        else:
            at, word = subject.devices_at.at(device.kind).item(device.index), words[device.kind]
        for field, name in (("claimName", device.claim), ("requestName", device.request)):
            if not name:
                yield required_cause(at.at(field), f"{field} is required for DRA {word}")
        if device.request and (complaints := dns_label_complaints(device.request)):
            said = f"{at.at('requestName')} does not conform to the kubernetes DNS_LABEL rules: {', '.join(complaints)}"
            yield Cause(at.at("requestName"), said)


def claims_are_there(subject: Subject) -> Iterator[Cause]:
    """Those of GPUs and other devices; networks have a rule of their own."""
    named = {claim.name for claim in subject.spec.resource_claims}
    devices = [each for each in claimed_devices(subject.spec) if each.kind != "networks"]
    if any(each.claim and each.request and each.claim not in named for each in devices):
        yield Cause(
            subject.at.at("resourceClaims"),
            "vmi.spec.resourceClaims must specify all claims used in vmi.spec.domain.devices.gpus and"
            " vmi.spec.domain.devices.hostDevices",
        )


def each_request_is_one_device(subject: Subject) -> Iterator[Cause]:
    """A request is given one device, which is one entry of the guest."""
    seen: dict[str, ClaimedDevice] = {}
    for device in claimed_devices(subject.spec):
        if not device.claim or not device.request:
            continue
        pair = f"{device.claim}/{device.request}"
        first = seen.setdefault(pair, device)
        if first is device:
            continue
        shown = f'"{pair[:_LONGEST_SHOWN]}"'
        at = subject.at.at("networks") if device.kind == "networks" else subject.devices_at.at(device.kind)
        if first.kind != device.kind:
            between = f"{_SPOKEN[first.kind]}[{first.index}] and {_SPOKEN[device.kind]}[{device.index}]"
            yield duplicate(at.item(device.index), f"duplicate claimName/requestName pair {shown} between {between}")
        else:
            word = "combination" if device.kind == "networks" else "pair"
            yield duplicate(at.item(device.index), f"duplicate claimName/requestName {word} {shown}")


RULES: Final[tuple[Rule, ...]] = (
    claims_are_allocated,
    claims_are_named,
    devices_are_of_claims_or_plugins,
    requests_are_named,
    claims_are_there,
    each_request_is_one_device,
)
