"""Rules for networks besides the Pod's, worded as KubeVirt words them.

Called by admission_plan.py; touches nothing. What a network is, its NetworkAttachmentDefinition says, which may come
later than the VM: whether it is there is seen when the VM starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.api.admission.rules.causes import Cause, required
from kvedge.api.admission.rules.dns_names import dns_subdomain_complaints
from kvedge.api.admission.rules.subject import Rule, Subject

_LONGEST_SHOWN: Final = 80


def attachments_have_names(subject: Subject) -> Iterator[Cause]:
    """`networkName` names an object: of the VM's own namespace, or of another one that is named as well."""
    for index, network in enumerate(subject.spec.networks):
        if network.multus is None:
            continue
        here = subject.at.at("networks").item(index)
        name = network.multus.network_name
        if not name:
            yield required(here, "CNI delegating plugin must have a networkName")
            continue
        parts = name.split("/", 2)
        if len(parts) > 2 or any(dns_subdomain_complaints(part) for part in parts):
            at = here.at("multus", "networkName")
            yield Cause(at, f"{at} {name[:_LONGEST_SHOWN]!r} is neither a name nor namespace/name")


RULES: Final[tuple[Rule, ...]] = (attachments_have_names,)
