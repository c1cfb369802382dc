"""The Pod that a guest comes to: its launcher's, on another node, with a launcher that waits for the guest.

Called by the migration's steps. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.migrations.target_cpu import demand_cpu, demand_frequency, near_cpu
from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import launcher_pod
from kvedge.controller.vmi.launcher_pod.launcher_pod_resources import overhead_bytes
from kvedge.controller.vmi.launcher_pod.memory_overhead import INCOMING_DAEMON
from kvedge.controller.vmi.resizing.guest_size import as_large, made_for
from kvedge.resources.codec import JsonObject
from kvedge.resources.counters.tsc_frequency import find_told_frequency
from kvedge.resources.launcher_pod_names import launcher_pod_name
from kvedge.resources.names import CREATED_BY, HOST_NAME, MEMORY_OVERHEAD
from kvedge.resources.types.core import Container, Pod, PodVolume
from kvedge.resources.types.migrations import (
    MIGRATION_JOB_NAME,
    MIGRATION_JOB_UID,
    VirtualMachineInstanceMigration,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.quantities import Quantity, parse_bytes

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")


def target_pod(
    vmi: VirtualMachineInstance,
    migration: VirtualMachineInstanceMigration,
    source: Pod | None,
    config: ClusterConfig,
    claims: Mapping[str, PersistentVolumeClaim],
    avoided: Collection[str] = (),
    source_labels: Mapping[str, str] = MappingProxyType({}),
) -> Pod:
    """The Pod; `source` is the one that the guest leaves, None where it comes from another box.

    `avoided` are host names of nodes that cannot take it, `source_labels` those of the node that the guest leaves.
    """
    # A guest that comes from another box is as large as its VMI here says.
    vmi = vmi if source is None else as_large(vmi)
    made = launcher_pod(vmi, config, claims)
    uid, pins = migration.job, {} if source is None else _find_pins(source)
    metadata = msgspec.structs.replace(
        made.metadata,
        name=launcher_pod_name(vmi, uid),
        labels={**made.metadata.labels, MIGRATION_JOB_UID: uid},
        annotations={
            **made.metadata.annotations,
            MIGRATION_JOB_NAME: migration.metadata.name,
            **made_for(vmi),
            MEMORY_OVERHEAD: str(overhead_bytes(vmi, config) + INCOMING_DAEMON),
        },
    )
    affinity = _away_from(_apart(made.spec.affinity, vmi.metadata.uid), avoided)
    compute, *others = made.spec.containers
    spec = msgspec.structs.replace(
        made.spec,
        containers=[_incoming(vmi, compute, uid), *others],
        init_containers=[_pin_container(container, pins) for container in made.spec.init_containers],
        volumes=[_pin_volume(volume, pins) for volume in made.spec.volumes],
        # On equal keys the VMI's own words win over the migration's, and the CPU that its guest has over both.
        node_selector={
            **migration.spec.added_node_selector,
            **made.spec.node_selector,
            **demand_cpu(vmi, source, source_labels),
        },
        affinity=near_cpu(demand_frequency(affinity, find_told_frequency(vmi)), vmi, source_labels),
    )
    return msgspec.structs.replace(made, metadata=metadata, spec=spec)


def _incoming(vmi: VirtualMachineInstance, compute: Container, uid: str) -> Container:
    asked = compute.resources
    # A guest whose Pod does not ask for the overhead does not ask for the daemon's part either.
    requests = asked.requests if vmi.spec.domain.resources.overcommit_guest_overhead else _with_daemon(asked.requests)
    resources = msgspec.structs.replace(asked, requests=requests, limits=_with_daemon(asked.limits))
    return msgspec.structs.replace(compute, command=[*compute.command, "--incoming", uid], resources=resources)


def _with_daemon(amounts: Mapping[str, Quantity]) -> dict[str, Quantity]:
    if "memory" not in amounts:
        return dict(amounts)
    return {**amounts, "memory": str(parse_bytes(amounts["memory"]) + INCOMING_DAEMON)}


def _apart(affinity: JsonObject | None, uid: str) -> JsonObject:
    """Not on the node of another Pod of the VMI."""
    own = affinity or {}
    apart = own.get("podAntiAffinity") or {}
    term = {"labelSelector": {"matchLabels": {CREATED_BY: uid}}, "topologyKey": HOST_NAME}
    return {**own, "podAntiAffinity": {**apart, _REQUIRED: [*(apart.get(_REQUIRED) or []), term]}}


def _away_from(affinity: JsonObject, hosts: Collection[str]) -> JsonObject:
    if not hosts:
        return affinity
    node = affinity.get("nodeAffinity") or {}
    asked = (node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or []
    # A term without any condition matches no node, and must not come to match some.
    terms = [term for term in asked if term.get("matchExpressions") or term.get("matchFields")]
    if node.get(_REQUIRED) and not terms:
        return affinity
    avoid = {"key": HOST_NAME, "operator": "NotIn", "values": sorted(hosts)}
    made = [{**term, "matchExpressions": [*(term.get("matchExpressions") or []), avoid]} for term in terms or [{}]]
    return {**affinity, "nodeAffinity": {**node, _REQUIRED: {"nodeSelectorTerms": made}}}


def _find_pins(source: Pod) -> dict[str, str]:
    """The digests of the images that the source's containers run, by the containers' names, as far as they are told.

    A tag may name another image by now, and a guest's disk must be the same on both nodes. A runtime that has an image
    from an archive knows no digest by which another node could fetch it.
    """
    statuses = (*source.status.init_container_statuses, *source.status.container_statuses)
    found = ((status.name, status.image_id.rpartition("@")) for status in statuses)
    return {name: digest for name, (repository, _, digest) in found if repository and _DIGEST.fullmatch(digest)}


def _pin_container(container: Container, pins: Mapping[str, str]) -> Container:
    return msgspec.structs.replace(container, image=_pin(container.image, pins.get(container.name)))


def _pin_volume(volume: PodVolume, pins: Mapping[str, str]) -> PodVolume:
    if volume.image is None:
        return volume
    image = msgspec.structs.replace(volume.image, reference=_pin(volume.image.reference, pins.get(volume.name)))
    return msgspec.structs.replace(volume, image=image)


def _pin(image: str, digest: str | None) -> str:
    if digest is None or "@" in image:
        return image
    folder, slash, last = image.rpartition("/")
    # A colon before the last slash is that of the registry's port.
    return f"{folder}{slash}{last.partition(':')[0]}@{digest}"
