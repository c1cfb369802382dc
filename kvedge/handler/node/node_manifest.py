"""What the handler says of its node: labels, annotations, the accelerator (KubeVirt's node labels).

Called by the node loop. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

import msgspec

from kvedge import __version__
from kvedge.handler.node.kvm_check import Accelerator
from kvedge.resources.alarms.node_health import HOST_HEALTH, NodeHealth, health_text
from kvedge.resources.codec import JsonObject
from kvedge.resources.lan_bridges import BRIDGE_PREFIX, bridge_labels
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.names import (
    CPU_FEATURE_PREFIX,
    CPU_MANAGER,
    CPU_MIGRATION_PREFIX,
    CPU_MODEL_PREFIX,
    CPU_VENDOR_PREFIX,
    EMULATION,
    HANDLER_ADDRESS,
    HEARTBEAT,
    HOST_DEVICES,
    HOST_MODEL_FEATURE_PREFIX,
    HOST_MODEL_OBSOLETE,
    HOST_MODEL_PREFIX,
    MACHINE_TYPE_PREFIX,
    OLD_CPU_MANAGER,
    REALTIME,
    REFUSAL,
    SCHEDULABLE,
    SEV,
    SEV_ES,
    SEV_SNP,
    SKIP_NODE,
    TDX,
    TSC_FREQUENCY,
    TSC_SCALABLE,
    VERSION,
)
from kvedge.runtime.clock import rfc3339

# Labels that tell of the host's CPU and its machines begin with these.
_HOST_PREFIXES: Final = (
    *(CPU_MODEL_PREFIX, CPU_FEATURE_PREFIX, CPU_MIGRATION_PREFIX, CPU_VENDOR_PREFIX),
    *(MACHINE_TYPE_PREFIX, HOST_MODEL_PREFIX, HOST_MODEL_FEATURE_PREFIX),
)
# Labels under these are ours: those that no longer hold are taken away.
OWN_PREFIXES: Final = (*_HOST_PREFIXES, BRIDGE_PREFIX)
# The label of each way to encrypt a guest's memory, by libvirt's word for it; SEV-ES has none.
ENCRYPTION_LABELS: Final = {"sev": SEV, "sev-es": SEV_ES, "sev-snp": SEV_SNP, "tdx": TDX}
OWN_LABELS: Final = (
    *(CPU_MANAGER, OLD_CPU_MANAGER, REALTIME, HOST_MODEL_OBSOLETE, TSC_FREQUENCY, TSC_SCALABLE),
    *ENCRYPTION_LABELS.values(),
)
# Those that tell what the host can do. An operator who writes them by hand keeps us away by an annotation.
_ABILITY_PREFIXES: Final = (
    *(*_HOST_PREFIXES, HOST_MODEL_OBSOLETE, TSC_FREQUENCY, TSC_SCALABLE),
    *ENCRYPTION_LABELS.values(),
)
# And these annotations.
OWN_ANNOTATIONS: Final = (HEARTBEAT, HANDLER_ADDRESS, EMULATION, VERSION, REFUSAL, HOST_HEALTH, HOST_DEVICES)


class NodeCapabilities(msgspec.Struct, frozen=True):
    """What the launcher's probe found that this host's QEMU and libvirt can do."""

    host_cpu_model: str = ""
    cpu_models: Sequence[str] = ()
    cpu_features: Sequence[str] = ()
    machine_types: Sequence[str] = ()
    # What the host's model requires beyond the model that it is named by; all models that libvirt knows.
    host_model_features: Sequence[str] = ()
    known_models: Sequence[str] = ()
    cpu_vendor: str = ""
    # In Hz; 0 for none that a guest could count on.
    tsc_frequency: int = 0
    tsc_scalable: bool = False
    # The cluster means to give up the host's model: it is for no new guests.
    is_obsolete: bool = False
    # The ways to encrypt a guest's memory, as `ENCRYPTION_LABELS` has them.
    launch_security: Sequence[str] = ()
    libvirt_version: str = ""
    qemu_version: str = ""
    # Of the machine types those that QEMU means to give up.
    deprecated_machines: Sequence[str] = ()


def is_own_label(key: str) -> bool:
    """Whether the handler writes a label of this name, and takes it away."""
    return key in OWN_LABELS or key.startswith(OWN_PREFIXES)


def node_labels(
    capabilities: NodeCapabilities,
    bridges: Iterable[str] = (),
    cpus: Mapping[str, str] | None = None,
    *,
    schedulable: bool,
) -> dict[str, str]:
    """All labels that should be there; `cpus` are those on CPUs for guests alone."""
    labels = {SCHEDULABLE: "true" if schedulable else "false"}
    labels |= {CPU_MODEL_PREFIX + model: "true" for model in capabilities.cpu_models}
    labels |= {CPU_FEATURE_PREFIX + feature: "true" for feature in capabilities.cpu_features}
    labels |= {MACHINE_TYPE_PREFIX + machine: "true" for machine in capabilities.machine_types}
    labels |= {CPU_MIGRATION_PREFIX + model: "true" for model in capabilities.known_models}
    labels |= {HOST_MODEL_FEATURE_PREFIX + feature: "true" for feature in capabilities.host_model_features}
    if capabilities.host_cpu_model:
        labels[HOST_MODEL_PREFIX + capabilities.host_cpu_model] = "true"
    if capabilities.cpu_vendor:
        labels[CPU_VENDOR_PREFIX + capabilities.cpu_vendor] = "true"
    if capabilities.tsc_frequency:
        labels[TSC_FREQUENCY] = str(capabilities.tsc_frequency)
        labels[TSC_SCALABLE] = "true" if capabilities.tsc_scalable else "false"
    if capabilities.is_obsolete:
        labels[HOST_MODEL_OBSOLETE] = "true"
    labels |= {label: "true" for way, label in ENCRYPTION_LABELS.items() if way in capabilities.launch_security}
    return labels | dict(cpus or {}) | bridge_labels(bridges)


def node_patch(
    present: ObjectMeta,
    capabilities: NodeCapabilities,
    accelerator: Accelerator,
    relay_address: str,
    now: datetime,
    *,
    schedulable: bool,
    refusal: str = "",
    bridges: Iterable[str] = (),
    health: NodeHealth | None = None,
    devices: str = "",
    cpus: Mapping[str, str] | None = None,
) -> JsonObject:
    """A merge patch that makes the Node, whose metadata are `present`, say what is so.

    Labels of ours that no longer hold are removed. With KubeVirt's annotation `skip-node` the labels of CPUs and
    machines stay as they are.
    `refusal` is why no VM should come here, whatever else holds; `bridges` are this
    node's, by which its guests join the LAN; `health` is how its host is, for alarms; `devices` tells of those that
    may go to guests; `cpus` are the labels on CPUs for guests alone.
    """
    wanted = node_labels(capabilities, bridges, cpus, schedulable=schedulable and not refusal)
    there = present.labels
    labels: dict[str, str | None] = {key: None for key in there if is_own_label(key) and key not in wanted}
    labels |= {key: value for key, value in wanted.items() if there.get(key) != value}
    if SKIP_NODE in present.annotations:
        labels = {key: value for key, value in labels.items() if not key.startswith(_ABILITY_PREFIXES)}
    annotations: dict[str, str | None] = {
        HEARTBEAT: rfc3339(now),
        HANDLER_ADDRESS: relay_address,
        EMULATION: accelerator.detail,
        VERSION: __version__,
        REFUSAL: refusal or None,
        HOST_HEALTH: None if health is None else health_text(health),
        HOST_DEVICES: devices or None,
    }
    return {"metadata": {"labels": labels, "annotations": annotations}}
