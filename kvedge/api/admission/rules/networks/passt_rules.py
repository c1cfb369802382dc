"""Rules for interfaces that passt speaks for, worded as KubeVirt words them.

Called by admission_plan.py; touches nothing. Whether a node has passt is seen when the VM starts there.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause, unsupported_cause
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.configuration.feature_gates import PASST_GATE


def passt_is_possible(subject: Subject) -> Iterator[Cause]:
    """passt speaks from the Pod's own addresses, and answers DHCP by itself."""
    on_pod_network = {network.name for network in subject.spec.networks if network.pod is not None}
    for index, interface in enumerate(subject.spec.domain.devices.interfaces):
        if interface.passt_binding is None:
            continue
        at = subject.devices_at.at("interfaces").item(index)
        if not subject.cluster.configuration.gates.is_on(PASST_GATE):
            yield unsupported_cause(at.at("name"), "PasstBinding feature gate is not enabled")
        if interface.name not in on_pod_network:
            yield Cause(at.at("name"), "PasstBinding interface only implemented with pod network")
        if interface.dhcp_options is not None:
            here = at.at("dhcpOptions")
            yield Cause(here, f"{here} has no effect with passtBinding; remove it, as passt answers the guest's DHCP")


RULES: Final[tuple[Rule, ...]] = (passt_is_possible,)
