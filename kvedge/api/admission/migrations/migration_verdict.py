"""Whether a VirtualMachineInstanceMigration may enter; worded as KubeVirt words it, in KubeVirt's order.

Called by migration_admission.py, which finds out what else there is, and by admission_plan.py for updates. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.migrations.crossing_rules import crossing_causes
from kvedge.api.admission.rules.causes import Cause, Field, invalid_value, required_cause, unsupported_cause
from kvedge.api.admission.rules.scheduling_rules import labels_are_labels
from kvedge.api.admission.rules.size_rules import parts_to_judge, size_is_sane
from kvedge.api.admission.rules.unknown_field_rules import unknown_fields
from kvedge.api.admission.spec_verdict import Verdict, body_of, distinct, member_of
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.evacuation import LIVE_MIGRATABLE, STORAGE_LIVE_MIGRATABLE
from kvedge.resources.label_selectors import is_label_value
from kvedge.resources.meta import condition
from kvedge.resources.types.migrations import (
    FINAL_MIGRATION_PHASES,
    MIGRATION_FINALIZER,
    VMI_NAME_LABEL,
    VirtualMachineInstanceMigration,
)
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.label_values import as_label_value

_SPEC: Final = Field("spec")
_LONGEST_NAME: Final = 253
# The nodes that have them are asked for in one URL, of which a server takes 8 KiB.
_MOST_LABELS: Final = 16


class Around(Struct, frozen=True):
    """What else there is when a migration is made.

    `nodes` are some nodes of the cluster, two at least where it has so many; `suitable` are some that take VMs and have
    the labels that the migration asks for, likewise.
    """

    vmi: VirtualMachineInstance | None
    others: Sequence[VirtualMachineInstanceMigration]
    nodes: Sequence[str]
    suitable: Sequence[str]


def label_migration(document: JsonObject) -> JsonObject:
    """The migration with the label and the finalizer that each one has."""
    metadata, name = member_of(document, "metadata"), member_of(document, "spec").get("vmiName")
    made = dict(metadata)
    if isinstance(name, str) and name and is_label_value(as_label_value(name)):
        made["labels"] = {**_labels(document), VMI_NAME_LABEL: as_label_value(name)}
    finalizers = _finalizers(document)
    if MIGRATION_FINALIZER not in finalizers:
        made["finalizers"] = [*finalizers, MIGRATION_FINALIZER]
    return {**document, "metadata": made}


def judge_spec(request: AdmissionRequest, document: JsonObject) -> tuple[Cause, ...]:
    """What is wrong with a new migration, whatever else there is."""
    if too_large := tuple(size_is_sane(parts_to_judge(document))):
        return too_large
    causes = list(unknown_fields(VirtualMachineInstanceMigration, body_of(document), Field("")))
    try:
        migration = decode(VirtualMachineInstanceMigration, document)
    except DecodeError as error:
        return tuple(distinct([*causes, Cause(error.path, str(error), "FieldValueTypeInvalid")]))
    spec, at = migration.spec, _SPEC.at("vmiName")
    if not spec.vmi_name:
        causes.append(required_cause(at, "vmiName is missing"))
    elif len(spec.vmi_name) > _LONGEST_NAME or not is_label_value(as_label_value(spec.vmi_name)):
        text = f"it is no name of a VMI, which has at most {_LONGEST_NAME} characters"
        causes.append(invalid_value(at, spec.vmi_name, text))
    causes += added_labels_causes(migration)
    if spec.priority is not None and not request.user.is_controller:
        text = "Migration priority queue, only virt-controller is allowed to set priority field"
        causes.append(Cause("spec.migrationPriority", text, "FieldValueForbidden"))
    causes += crossing_causes(migration)
    return tuple(distinct(causes))


def added_labels_causes(migration: VirtualMachineInstanceMigration) -> Iterator[Cause]:
    """A node has labels, so that what is selected by must be one."""
    at, wanted = _SPEC.at("addedNodeSelector"), migration.spec.added_node_selector
    if len(wanted) > _MOST_LABELS:
        yield Cause(at, f"{at}: must have no more than {_MOST_LABELS} labels")
        return
    yield from labels_are_labels(wanted, at)


def refusal_words(migration: VirtualMachineInstanceMigration, around: Around) -> str:
    """Why this VMI cannot be moved now; empty when it can."""
    namespace, name = migration.metadata.namespace, migration.spec.vmi_name
    vmi = around.vmi
    if vmi is None:
        return f'the VMI "{namespace}/{name}" does not exist'
    if vmi.is_final:
        return "Cannot migrate VMI in finalized state."
    # With its disks a guest may move that without them may not.
    wanted = LIVE_MIGRATABLE if migration.spec.send_to is None else STORAGE_LIVE_MIGRATABLE
    migratable = condition(vmi.status.conditions, wanted)
    if migratable is not None and migratable.status == "False":
        return f"Cannot migrate VMI, Reason: {migratable.reason}, Message: {migratable.message}"
    active = next((other for other in around.others if not other.is_final), None)
    if active is not None:
        return (
            f"in-flight migration detected. Active migration job ({active.metadata.uid}) is currently already in "
            f"progress for VMI {name}."
        )
    return ""


def judge_surroundings(migration: VirtualMachineInstanceMigration, around: Around) -> Verdict:
    """What else keeps it out, and what its author should know."""
    if migration.spec.shared_id:
        return Verdict()
    if len(around.nodes) < 2:
        return Verdict((_no_other_node(migration, around),))
    return Verdict((), tuple(_warnings(migration, around)))


def _no_other_node(migration: VirtualMachineInstanceMigration, around: Around) -> Cause:
    only = f"node {around.nodes[0]} is the only one" if around.nodes else "there are no nodes"
    text = (
        f'VMI "{migration.metadata.namespace}/{migration.spec.vmi_name}" has no other node to go to: {only}. A guest '
        "moves between the nodes of one cluster: join another node, or move it to another box by"
        f" `kvedge migrate {migration.spec.vmi_name} --to KUBECONFIG`."
    )
    return Cause(_SPEC.at("vmiName"), text, "FieldValueInvalid")


def _warnings(migration: VirtualMachineInstanceMigration, around: Around) -> Iterator[str]:
    assert around.vmi is not None
    wanted, own = migration.spec.added_node_selector, around.vmi.spec.node_selector
    at = _SPEC.at("addedNodeSelector")
    for key in [key for key, value in wanted.items() if own.get(key, value) != value][:1]:
        yield f"{at.key(key)}: the VMI's own nodeSelector says {own[key]}, which wins"
    if any(name != around.vmi.status.node_name for name in around.suitable):
        return
    which = f"{at}: no other node that takes VMs has these labels" if wanted else "no other node takes VMs now"
    yield f"{which}: the migration waits for one, and fails when none comes"


def judge_update(document: JsonObject, old: JsonObject) -> Iterator[Cause]:
    """A migration does what it was made for: another one is made for anything else."""
    if old.get("spec") != document.get("spec"):
        yield unsupported_cause("spec", "update of Migration object's spec is restricted")
        return
    before, after = _labels(old), _labels(document)
    if str(member_of(document, "status").get("phase")) in FINAL_MIGRATION_PHASES:
        return
    if MIGRATION_FINALIZER in _finalizers(old) and MIGRATION_FINALIZER not in _finalizers(document):
        text = f"{MIGRATION_FINALIZER} can't be removed from an in-flight migration: delete it, which cancels it"
        yield unsupported_cause("metadata.finalizers", text)
    if VMI_NAME_LABEL not in before:
        return
    at = Field("metadata.labels").key(VMI_NAME_LABEL)
    if not after:
        yield unsupported_cause(at, "selector label can't be removed from an in-flight migration")
    elif after.get(VMI_NAME_LABEL) != before[VMI_NAME_LABEL]:
        yield unsupported_cause(at, "selector label can't be modified on an in-flight migration")


def _finalizers(document: JsonObject) -> list[object]:
    found = member_of(document, "metadata").get("finalizers")
    return found if isinstance(found, list) else []


def _labels(document: JsonObject) -> JsonObject:
    return member_of(member_of(document, "metadata"), "labels")
