"""What is wrong with a VMI's spec, wherever it stands: in a VMI, or in the template of a VM or of a set of VMIs.

Called by admission_plan.py and by what judges other kinds. Pure. Some rules judge the raw document: unknown fields,
fields that are not supported yet. All others judge the decoded type.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec import Struct

from kvedge.api.admission.rules import (
    access_rules,
    claim_rules,
    compute_rules,
    cpu_placement_rules,
    device_rules,
    hook_rules,
    host_device_rules,
    launch_security_rules,
    platform_rules,
    probe_rules,
    run_rules,
    scheduling_rules,
)
from kvedge.api.admission.rules.causes import Cause, Field
from kvedge.api.admission.rules.networks import (
    bandwidth_rules,
    claimed_network_rules,
    multus_rules,
    network_rules,
    passt_rules,
    port_range_rules,
)
from kvedge.api.admission.rules.not_yet_rules import VMI_NOT_YET, not_yet
from kvedge.api.admission.rules.storage import (
    container_path_rules,
    disk_rules,
    file_volume_rules,
    filesystem_rules,
    volume_rules,
)
from kvedge.api.admission.rules.subject import Cluster, Rule, Subject
from kvedge.api.admission.rules.text_rules import texts_fit_into_xml
from kvedge.resources.codec import JsonObject
from kvedge.resources.host_devices.claimed_devices import claimed_networks
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.pod_annotations import find_kept_back
from kvedge.resources.role_users import UserInfo
from kvedge.resources.types.vm import VirtualMachineInstanceTemplate
from kvedge.resources.types.vmi import VirtualMachineInstanceSpec

SPEC_RULES: Final[tuple[Rule, ...]] = (
    *compute_rules.RULES,
    *cpu_placement_rules.RULES,
    *platform_rules.RULES,
    *disk_rules.RULES,
    disk_rules.reservations_are_allowed,
    *volume_rules.RULES,
    *file_volume_rules.RULES,
    *filesystem_rules.RULES,
    *container_path_rules.RULES,
    *access_rules.RULES,
    *network_rules.RULES,
    *multus_rules.RULES,
    *claimed_network_rules.RULES,
    *passt_rules.RULES,
    *port_range_rules.RULES,
    *bandwidth_rules.RULES,
    *device_rules.RULES,
    *host_device_rules.RULES,
    *claim_rules.RULES,
    *launch_security_rules.RULES,
    *run_rules.RULES,
    *hook_rules.RULES,
    *probe_rules.RULES,
    *scheduling_rules.RULES,
)
# The API server itself checks these members of a document.
_ENVELOPE: Final = frozenset({"apiVersion", "kind", "metadata", "status"})
# A client shows each warning by itself.
MOST_WARNINGS: Final = 15
TEMPLATE: Final = Field("spec").at("template")


class Verdict(Struct, frozen=True):
    """The faults for which a write is refused, and warnings to the author of one that is accepted."""

    causes: tuple[Cause, ...] = ()
    warnings: tuple[str, ...] = ()


def annotation_warnings(metadata: ObjectMeta, at: Field) -> list[str]:
    """Warn of annotations without effect; they are accepted because many manifests have them."""
    names = find_kept_back(metadata.annotations)
    told = [f"{at.at('annotations')}: {name} is not handed on to the VM's pod" for name in names[:MOST_WARNINGS]]
    more = len(names) - MOST_WARNINGS
    return [*told, f"{at.at('annotations')}: nor are {more} more"] if more > 0 else told


def disk_warnings(spec: VirtualMachineInstanceSpec, at: Field) -> list[str]:
    """Warn of what disks say in vain; KubeVirt accepts it and says nothing."""
    disks = at.at("domain", "devices", "disks")
    told = []
    for index, disk in enumerate(spec.domain.devices.disks):
        here = disks.item(index)
        if disk.cdrom is not None and disk.cdrom.readonly is False:
            told.append(f"{here.at('cdrom', 'readonly')}: false has no effect, as no guest writes to a CD-ROM")
        if disk.changed_block_tracking:
            # No part of KubeVirt reads it.
            text = "has no effect: changedBlockTrackingLabelSelectors of the KubeVirt object select VMs by their labels"
            told.append(f"{here.at('changedBlockTracking')}: {text}")
    return told[:MOST_WARNINGS]


def nic_warnings(spec: VirtualMachineInstanceSpec, at: Field) -> list[str]:
    """Warn of a MAC that nobody gives to a card; KubeVirt accepts it and says nothing."""
    claimed, interfaces = claimed_networks(spec), at.at("domain", "devices", "interfaces")
    told = [
        f"{interfaces.item(index).at('macAddress')}: the card of a claim's NIC is not told of it; see that it has it"
        for index, interface in enumerate(spec.domain.devices.interfaces)
        if interface.mac_address and interface.name in claimed
    ]
    return told[:MOST_WARNINGS]


def template_subject(template: VirtualMachineInstanceTemplate, cluster: Cluster, user: UserInfo) -> Subject:
    """What rules look at of a template."""
    spec_at, metadata_at = TEMPLATE.at("spec"), TEMPLATE.at("metadata")
    return Subject(template.spec, template.metadata, spec_at, metadata_at, cluster, user.is_role, is_template=True)


def template_warnings(template: VirtualMachineInstanceTemplate) -> list[str]:
    """Warn of what a template lacks or has in vain."""
    missing = compute_rules.find_missing_memory(template.spec, TEMPLATE.at("spec", "domain"))
    told = [f"{missing}, unless a preset gives the VMIs memory"] if missing else []
    told += disk_warnings(template.spec, TEMPLATE.at("spec")) + nic_warnings(template.spec, TEMPLATE.at("spec"))
    return told + annotation_warnings(template.metadata, TEMPLATE.at("metadata"))


def document_causes(spec: JsonObject, at: Field) -> Iterator[Cause]:
    """What is wrong with a VMI's spec as it came."""
    yield from not_yet(VMI_NOT_YET, spec, at)
    yield from texts_fit_into_xml(spec.get("domain"), at.at("domain"))


def spec_causes(subject: Subject) -> Iterator[Cause]:
    """What all rules find wrong with a VMI's spec."""
    for rule in SPEC_RULES:
        yield from rule(subject)


def body_of(document: JsonObject) -> JsonObject:
    """What of a document the API server does not check itself."""
    return {name: value for name, value in document.items() if name not in _ENVELOPE}


def member_of(document: JsonObject, name: str) -> JsonObject:
    """A member that is an object; empty for anything else, which decoding refuses."""
    member = document.get(name)
    return member if isinstance(member, dict) else {}


def distinct(causes: Iterable[Cause]) -> Iterator[Cause]:
    """Each field and message once, in order, and cut to a readable length."""
    return iter(dict.fromkeys(cause.shorten() for cause in causes))
