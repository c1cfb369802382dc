"""Rules for networks that are devices of claims (DRA), worded as KubeVirt words them.

Called by admission_plan.py; touches nothing. What claims and requests are called, claim_rules.py judges.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause, not_found_cause
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.configuration.feature_gates import NETWORK_CLAIMS_GATE
from kvedge.resources.host_devices.claimed_devices import claimed_networks
from kvedge.resources.types.devices import ABSENT

_LONGEST_SHOWN: Final = 80


def networks_of_claims_are_switched_on(subject: Subject) -> Iterator[Cause]:
    """By their gate, and in a VM without networks of Multus."""
    if not claimed_networks(subject.spec):
        return
    at = subject.at.at("networks")
    if not subject.cluster.configuration.gates.is_on(NETWORK_CLAIMS_GATE):
        yield Cause(
            at, f"vmi.spec.networks contains DRA networks but {NETWORK_CLAIMS_GATE} feature gate is not enabled"
        )
    elif any(network.multus is not None for network in subject.spec.networks):
        yield Cause(at, "mixing Multus and DRA resourceClaim networks in the same VMI is not supported")


def claims_of_networks_are_there(subject: Subject) -> Iterator[Cause]:
    """Each names one of the VMI's claims."""
    named = {claim.name for claim in subject.spec.resource_claims}
    for index, network in enumerate(subject.spec.networks):
        request = network.resource_claim
        if request is None or not request.claim_name or not request.request_name or request.claim_name in named:
            continue
        at = subject.at.at("networks").item(index).at("resourceClaim", "claimName")
        shown = request.claim_name[:_LONGEST_SHOWN]
        yield not_found_cause(
            at, f'network references resourceClaim "{shown}" which is not defined in spec.resourceClaims'
        )


def claimed_networks_are_functions(subject: Subject) -> Iterator[Cause]:
    """The guest has the device itself, or a plugin's sidecar makes a NIC of it; nothing in the Pod leads to it."""
    claimed = claimed_networks(subject.spec)
    plugins = subject.cluster.configuration.bindings
    for index, interface in enumerate(subject.spec.domain.devices.interfaces):
        if interface.name not in claimed:
            continue
        at = subject.devices_at.at("interfaces").item(index)
        plugin = plugins.get(interface.binding.name) if interface.binding is not None else None
        if interface.sriov is None and interface.binding is None:
            shown = interface.name[:_LONGEST_SHOWN]
            interfaces = subject.devices_at.at("interfaces")
            yield Cause(interfaces, f'DRA network "{shown}" requires an SR-IOV or binding plugin interface')
        elif plugin is not None and plugin.attachment:
            here = at.at("binding", "name")
            yield Cause(
                here, f"{here}: the plugin joins guests by a link of their Pod, and a claim makes none; use sriov: {{}}"
            )
        if interface.state == ABSENT:
            yield Cause(at.at("state"), f'{at.at("state")}: "{ABSENT}" is not supported on networks of claims')


RULES: Final[tuple[Rule, ...]] = (
    networks_of_claims_are_switched_on,
    claims_of_networks_are_there,
    claimed_networks_are_functions,
)
