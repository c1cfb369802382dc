"""What a VMI gets that its author left out, in KubeVirt's order.

Called by mutation_plan.py. Pure: works on documents, so that nothing is lost that no type knows, and returns new ones.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.configuration.configuration import Configuration, LiveUpdates
from kvedge.resources.identity import firmware_uuid
from kvedge.resources.instancetypes.default_devices import attach_volumes, items_of, set_default_network
from kvedge.resources.instancetypes.type_application import object_at
from kvedge.resources.names import (
    EVEN_PARITY,
    GRAPHICS,
    GROWTH_ROOM,
    LAUNCHER_UID,
    PCI_TOPOLOGY,
    VM_GENERATION,
    VMI_FINALIZER,
)
from kvedge.resources.types.domain import DomainSpec
from kvedge.resources.values.quantities import QuantityError, format_bytes, parse_bytes
from kvedge.resources.vmi_facts import (
    MOST_VCPUS,
    PLUGS_CPUS,
    UnreadableCpus,
    cpus_of_resources,
    default_pull_policy,
    most_memory_bytes,
)

_PCI_TOPOLOGY_VERSION: Final = "v3"
# Hyper-V features that work only with others.
_HYPERV_NEEDS: Final = (
    ("evmcs", "vapic"),
    ("ipi", "vpindex"),
    ("tlbflush", "vpindex"),
    ("synictimer", "synic"),
    ("synic", "vpindex"),
)
_DEFAULT_SPINLOCKS: Final = 4096
_PROBE_NUMBERS: Final = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
# KubeVirt's own default is never written into a VMI, so that the cluster's CPU ratio goes on to count.
_KUBEVIRTS_CPU_REQUEST: Final = "100m"


def with_platform_defaults(spec: JsonObject, cluster: Cluster) -> JsonObject:
    """Architecture and machine: a VM keeps those that it was made with, whatever later releases prefer."""
    spec = copy.deepcopy(spec)
    _set_platform(spec, cluster)
    return spec


def with_defaults(spec: JsonObject, cluster: Cluster, *, grows: bool = True) -> JsonObject:
    """A VMI's spec with everything that a run needs spelled out; `grows`: it gets room where changes reach it live."""
    spec = copy.deepcopy(spec)
    _set_platform(spec, cluster)
    configuration = cluster.configuration
    for step in _steps(configuration, configuration.live_updates if grows else LiveUpdates(is_on=False)):
        step(spec)
    return spec


def new_vmi(document: JsonObject, cluster: Cluster, now: str, request_uid: str, revision: str = "") -> JsonObject:
    """A VMI as it enters: defaults, finalizer, annotation, and a status of ours whatever the author wrote.

    `now` is an RFC 3339 time; `request_uid` is that of the write, which no other has; `revision` names the spec of the
    VM that the controller has made it from.
    """
    vmi = {**document}
    grows = cluster.configuration.live_updates.is_said or not _has_machine_of_before(vmi)
    vmi["spec"] = with_defaults(object_at(vmi, "spec"), cluster, grows=grows)
    _set_firmware_uuid(vmi["spec"], request_uid)
    vmi["metadata"] = metadata = {**object_at(vmi, "metadata")}
    metadata["annotations"] = {
        PCI_TOPOLOGY: _PCI_TOPOLOGY_VERSION,
        **object_at(metadata, "annotations"),
        **_parity(vmi["spec"], cluster.configuration),
    }
    graphics = cluster.configuration.graphics
    if graphics and object_at(object_at(vmi["spec"], "domain"), "devices").get("autoattachGraphicsDevice") is not False:
        metadata["annotations"].setdefault(GRAPHICS, graphics)
    finalizers = metadata.get("finalizers") or []
    metadata["finalizers"] = [*finalizers, *({VMI_FINALIZER} - {*finalizers})]
    vmi["status"] = _first_status(vmi["spec"], now)
    if revision:
        vmi["status"]["virtualMachineRevisionName"] = revision
    return vmi


def _has_machine_of_before(vmi: JsonObject) -> bool:
    """Whether it is of a VM that was made when guests had no room for CPUs and memory that come while they run.

    Room is one more device, other sockets and another NUMA cell: no guest finds them there after an upgrade of ours.
    """
    annotations = (vmi.get("metadata") or {}).get("annotations") or {}
    return VM_GENERATION in annotations and GROWTH_ROOM not in annotations


def _first_status(spec: JsonObject, now: str) -> JsonObject:
    status: JsonObject = {
        "phase": "Pending",
        "phaseTransitionTimestamps": [{"phase": "Pending", "phaseTransitionTimestamp": now}],
        "runtimeUser": LAUNCHER_UID,
    }
    domain = spec["domain"]
    guest = (domain.get("memory") or {}).get("guest")
    if guest is not None:
        status["memory"] = {"guestAtBoot": guest, "guestCurrent": guest, "guestRequested": guest}
    cpu = domain["cpu"]
    status["currentCPUTopology"] = {name: cpu[name] for name in ("cores", "sockets", "threads")}
    return status


def _set_platform(spec: JsonObject, cluster: Cluster) -> None:
    architecture = spec.get("architecture") or cluster.architecture
    spec["architecture"] = architecture
    machine = object_at(object_at(spec, "domain"), "machine")
    default = cluster.configuration.machine_types.get(architecture)
    if not machine.get("type") and default is not None:
        machine["type"] = default


def _set_cpu_request(spec: JsonObject, configuration: Configuration) -> None:
    """A limit alone is a request, too, as Kubernetes has it."""
    resources = spec["domain"].get("resources") or {}
    limit = (resources.get("limits") or {}).get("cpu")
    if limit is not None:
        object_at(resources, "requests").setdefault("cpu", limit)
    elif (spec["domain"].get("cpu") or {}).get("dedicatedCpuPlacement"):
        # Its vCPUs say how many, and the cluster's request may be a part of one.
        return
    elif configuration.cpu_request not in (None, _KUBEVIRTS_CPU_REQUEST):
        object_at(object_at(spec["domain"], "resources"), "requests").setdefault("cpu", configuration.cpu_request)


def _parity(spec: JsonObject, configuration: Configuration) -> JsonObject:
    """KubeVirt's: the word of the KubeVirt object stays with the VMIs that were made under it."""
    isolated = spec["domain"]["cpu"].get("isolateEmulatorThread")
    return {EVEN_PARITY: ""} if isolated and configuration.even_parity else {}


def _set_guest_memory(spec: JsonObject) -> None:
    domain = spec["domain"]
    memory = domain.get("memory") or {}
    if memory.get("guest") is not None:
        return
    resources = domain.get("resources") or {}
    for amounts in (resources.get("requests"), resources.get("limits")):
        if amounts and amounts.get("memory") is not None:
            object_at(domain, "memory")["guest"] = amounts["memory"]
            return


def _set_cpu_topology(spec: JsonObject) -> None:
    domain = spec["domain"]
    cpu = object_at(domain, "cpu")
    if not any(cpu.get(name) for name in ("cores", "sockets", "threads")):
        cpu["sockets"] = _whole_cpus(domain.get("resources") or {})
    for name in ("cores", "sockets", "threads"):
        cpu[name] = cpu.get(name) or 1


def _set_max_sockets(spec: JsonObject, room: LiveUpdates) -> None:
    """Room for CPUs that come while the guest runs, as far as the machine has it."""
    cpu = spec["domain"]["cpu"]
    if not room.is_on or spec["architecture"] not in PLUGS_CPUS or cpu.get("maxSockets"):
        return
    # Its Pod keeps the CPUs that the node gave it.
    if cpu.get("dedicatedCpuPlacement"):
        return
    sockets, most = cpu["sockets"], MOST_VCPUS // (cpu["cores"] * cpu["threads"])
    if sockets > most:
        # Of resources that no node has: the scheduler says so.
        return
    wanted = room.most_sockets or sockets * room.hotplug_ratio
    cpu["maxSockets"] = max(sockets, min(wanted, most))


def _set_max_guest(spec: JsonObject, room: LiveUpdates) -> None:
    """Room for memory that comes while the guest runs, where the guest can get any."""
    memory = spec["domain"].get("memory") or {}
    if not room.is_on or memory.get("guest") is None or memory.get("maxGuest") is not None:
        return
    try:
        guest = parse_bytes(memory["guest"])
        most = format_bytes(max(guest, room.most_memory or guest * room.hotplug_ratio))
        wanted = decode(DomainSpec, {**spec["domain"], "memory": {**memory, "maxGuest": most}})
    except (QuantityError, DecodeError):
        return  # A rule refuses it.
    if most_memory_bytes(wanted, spec["architecture"]):
        memory["maxGuest"] = most


def _whole_cpus(resources: JsonObject) -> int:
    try:
        return cpus_of_resources(resources.get("limits") or {}, resources.get("requests") or {})
    except UnreadableCpus:
        return 1  # A rule refuses it.


def _set_pull_policies(spec: JsonObject) -> None:
    for volume in items_of(spec, "volumes"):
        disk = volume.get("containerDisk")
        if isinstance(disk, dict) and not disk.get("imagePullPolicy"):
            disk["imagePullPolicy"] = default_pull_policy(str(disk.get("image", "")))


def _set_eviction_strategy(spec: JsonObject, configuration: Configuration) -> None:
    spec.setdefault("evictionStrategy", configuration.eviction_strategy)


def _is_hotpluggable(volume: JsonObject) -> bool:
    sources = (volume.get(kind) for kind in ("persistentVolumeClaim", "dataVolume"))
    return any(isinstance(source, dict) and source.get("hotpluggable") is True for source in sources)


def _set_disk_targets(spec: JsonObject) -> None:
    """A disk that says nothing is a hard disk, on the bus that every guest of its architecture knows."""
    bus = "virtio" if spec["architecture"] == "arm64" else "sata"
    coming = {volume.get("name") for volume in items_of(spec, "volumes") if _is_hotpluggable(volume)}
    metrics = {volume.get("name") for volume in items_of(spec, "volumes") if "downwardMetrics" in volume}
    for disk in items_of(object_at(spec["domain"], "devices"), "disks"):
        if disk.get("name") in coming and not isinstance(disk.get("cdrom"), dict):
            # The one bus that lets go of a disk and has room for many.
            target = disk.setdefault("lun" if isinstance(disk.get("lun"), dict) else "disk", {})
            target.setdefault("bus", "scsi")
        if not any(isinstance(disk.get(target), dict) for target in ("disk", "cdrom", "lun")):
            disk["disk"] = {}
        if disk.get("name") in metrics and isinstance(disk.get("disk"), dict):
            # The one bus that it may be on. KubeVirt puts it on the guest's usual one, and then refuses that.
            disk["disk"].setdefault("bus", "virtio")
        for target in ("disk", "cdrom", "lun"):
            if isinstance(disk.get(target), dict) and not disk[target].get("bus"):
                disk[target]["bus"] = "scsi" if target != "disk" and bus == "virtio" else bus
        if isinstance(disk.get("cdrom"), dict):
            disk["cdrom"].setdefault("readonly", True)
            disk["cdrom"].setdefault("tray", "closed")


def _set_devices(spec: JsonObject) -> None:
    devices = object_at(spec["domain"], "devices")
    for interface in items_of(devices, "interfaces"):
        if not interface.get("model"):
            interface["model"] = "virtio"
        for port in items_of(interface, "ports"):
            port.setdefault("protocol", "TCP")
    for tablet in items_of(devices, "inputs"):
        tablet.setdefault("bus", "usb")
        tablet.setdefault("type", "tablet")
    watchdog = devices.get("watchdog")
    if isinstance(watchdog, dict) and spec["architecture"] == "amd64" and not watchdog.get("diag288"):
        object_at(watchdog, "i6300esb").setdefault("action", "reset")


def _set_features(spec: JsonObject) -> None:
    features = object_at(spec["domain"], "features")
    object_at(features, "acpi").setdefault("enabled", True)
    for name in ("apic", "smm", "pvspinlock", "hypervPassthrough"):
        if isinstance(features.get(name), dict):
            features[name].setdefault("enabled", True)
    hyperv = features.get("hyperv")
    if isinstance(hyperv, dict):
        _set_hyperv(hyperv)


def _set_hyperv(hyperv: JsonObject) -> None:
    for feature in hyperv.values():
        if isinstance(feature, dict):
            feature.setdefault("enabled", True)
    if _is_on(hyperv.get("spinlocks")):
        hyperv["spinlocks"].setdefault("spinlocks", _DEFAULT_SPINLOCKS)
    for name, needed in _HYPERV_NEEDS:
        if _is_on(hyperv.get(name)) and needed not in hyperv:
            hyperv[needed] = {"enabled": True}


def _set_timers(spec: JsonObject) -> None:
    clock = spec["domain"].get("clock") or {}
    for timer in (clock.get("timer") or {}).values():
        if isinstance(timer, dict):
            timer.setdefault("present", True)


def _set_probes(spec: JsonObject) -> None:
    for name in ("readinessProbe", "livenessProbe"):
        probe = spec.get(name)
        if not isinstance(probe, dict):
            continue
        for number, default in _PROBE_NUMBERS.items():
            probe[number] = probe.get(number) or default
        page = probe.get("httpGet")
        if isinstance(page, dict):
            page["path"] = page.get("path") or "/"
            page["scheme"] = page.get("scheme") or "HTTP"


def _set_bootloader(spec: JsonObject) -> None:
    """arm64 has no BIOS and no secure boot."""
    if spec["architecture"] != "arm64":
        return
    firmware = object_at(spec["domain"], "firmware")
    if not firmware.get("bootloader"):
        firmware["bootloader"] = {"efi": {}}
    efi = object_at(firmware, "bootloader").get("efi")
    if isinstance(efi, dict) and efi.get("secureBoot") is None:
        efi["secureBoot"] = False


def _set_firmware_uuid(spec: JsonObject, request_uid: str) -> None:
    """A VM gives its VMIs one for good; a VMI without a VM has one of its own, as clients of KubeVirt's read it."""
    firmware = object_at(spec["domain"], "firmware")
    firmware["uuid"] = firmware.get("uuid") or firmware_uuid(request_uid)


def _set_serial_console_log(spec: JsonObject, configuration: Configuration) -> None:
    if not configuration.serial_console_log:
        object_at(spec["domain"], "devices").setdefault("logSerialConsole", False)


def _set_cpu_model(spec: JsonObject, configuration: Configuration) -> None:
    cpu = spec["domain"]["cpu"]
    if not cpu.get("model"):
        cpu["model"] = configuration.default_cpu_model(spec["architecture"])
    for feature in items_of(cpu, "features"):
        feature["policy"] = feature.get("policy") or "require"


def _steps(configuration: Configuration, room: LiveUpdates) -> tuple[Callable[[JsonObject], None], ...]:
    """All defaults, in KubeVirt's order."""
    return (
        partial(_set_cpu_request, configuration=configuration),
        _set_guest_memory,
        _set_cpu_topology,
        partial(_set_max_sockets, room=room),
        partial(_set_max_guest, room=room),
        _set_pull_policies,
        partial(_set_eviction_strategy, configuration=configuration),
        partial(set_default_network, binding=configuration.default_interface),
        attach_volumes,
        _set_disk_targets,
        _set_devices,
        partial(_set_serial_console_log, configuration=configuration),
        _set_features,
        _set_timers,
        _set_probes,
        _set_bootloader,
        partial(_set_cpu_model, configuration=configuration),
    )


def _is_on(feature: Any) -> bool:
    return isinstance(feature, dict) and feature.get("enabled") is not False
