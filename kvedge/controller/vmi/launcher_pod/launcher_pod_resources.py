"""What a launcher Pod asks of its node: CPU, memory and devices.

Called by the Pod's manifest and for the VMI's status. Pure. The base of the memory request follows KubeVirt: a request
is taken as it is, else a limit, else the guest's memory by the cluster's overcommit.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Final

from kvedge.controller.kubevirt.cluster_config import ClusterConfig
from kvedge.controller.vmi.launcher_pod.memory_overhead import GuestShape, memory_overhead
from kvedge.resources.configuration.configuration_bindings import plugins_of
from kvedge.resources.disks.metrics_disk import has_metrics_disk
from kvedge.resources.host_devices.claimed_devices import container_claims
from kvedge.resources.host_devices.cpu_placement import dedicated_cpu_count, has_dedicated_cpus
from kvedge.resources.host_devices.passed_devices import device_counts, passes_devices
from kvedge.resources.names import (
    DEVICE_KVM,
    DEVICE_PR_HELPER,
    DEVICE_SEV,
    DEVICE_TDX,
    DEVICE_TUN,
    DEVICE_VHOST_NET,
    DEVICE_VHOST_VSOCK,
)
from kvedge.resources.types.core import ResourceRequirements
from kvedge.resources.types.guest_nics import speaks_by_passt
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.huge_pages import page_resource
from kvedge.resources.values.quantities import Quantity, format_milli, parse_bytes, parse_quantity
from kvedge.resources.vmi_facts import (
    guest_memory_field,
    has_screen,
    page_bytes,
    reserved_disks,
    vcpu_count,
    wants_spice,
)

# Logs and the overlay's metadata, as KubeVirt has it.
_EPHEMERAL_STORAGE: Final = "50M"
_BYTES: Final = frozenset({"memory", "ephemeral-storage"})


def overhead_bytes(vmi: VirtualMachineInstance, config: ClusterConfig) -> int:
    """The memory overhead of this VMI, by the cluster's ratio."""
    tpm, security = vmi.spec.domain.devices.tpm, vmi.spec.domain.launch_security
    overhead = memory_overhead(
        GuestShape(
            memory=_guest_memory(vmi),
            # The Pod grows with its guest: nothing is set aside for CPUs that may come.
            vcpus=vcpu_count(vmi.spec.domain),
            graphics=has_screen(vmi.spec.domain.devices),
            architecture=vmi.spec.architecture or config.default_architecture,
            emulated=config.use_emulation,
            exec_probes=_exec_probes(vmi),
            passes_devices=passes_devices(vmi),
            tpm=tpm is not None and tpm.is_wanted,
            metrics_disk=has_metrics_disk(vmi.spec.volumes),
            is_limited=has_dedicated_cpus(vmi.spec.domain),
            spice=wants_spice(vmi),
            passt=speaks_by_passt(vmi),
            sev=security is not None and security.uses_sev,
            added=_added_overhead(vmi),
        )
    )
    return math.ceil(overhead * config.memory_overhead_ratio)


def _added_overhead(vmi: VirtualMachineInstance) -> int:
    memory = vmi.spec.domain.memory
    reserved = memory.reserved_overhead if memory is not None else None
    return parse_bytes(reserved.added_overhead) if reserved is not None and reserved.added_overhead is not None else 0


def _exec_probes(vmi: VirtualMachineInstance) -> int:
    probes = (vmi.spec.liveness_probe, vmi.spec.readiness_probe)
    return sum(probe is not None and probe.asks_agent for probe in probes)


def pod_resources(vmi: VirtualMachineInstance, config: ClusterConfig) -> ResourceRequirements:
    """Requests and limits of the compute container."""
    wanted = vmi.spec.domain.resources
    overhead = overhead_bytes(vmi, config)
    requests: dict[str, Quantity] = {"cpu": _cpu_request(vmi, config), "ephemeral-storage": _EPHEMERAL_STORAGE}
    added = 0 if wanted.overcommit_guest_overhead else overhead
    pages = _huge_pages(vmi)
    # Huge pages are set aside on the node: they are none of the memory that the Pod has beside them.
    requests["memory"] = str(max(0, _memory_base(vmi, config) - sum(pages.values())) + added)
    # Kubernetes wants the same amount for both.
    requests |= {name: str(amount) for name, amount in pages.items()}
    limits: dict[str, Quantity] = {name: str(amount) for name, amount in pages.items()}
    if "cpu" in wanted.limits:
        limits["cpu"] = str(wanted.limits["cpu"])
    if "memory" in wanted.limits:
        limits["memory"] = str(parse_bytes(wanted.limits["memory"]) + overhead)
    # A plugin costs the same for one interface and for many.
    for plugin in plugins_of(vmi, config.bindings).values():
        _add(requests, plugin.requests)
        _add(limits, plugin.limits)
    if has_dedicated_cpus(vmi.spec.domain):
        # Guaranteed, with whole CPUs: a kubelet gives CPUs alone to such Pods only.
        requests["cpu"] = str(math.ceil(parse_quantity(requests["cpu"])))
        limits |= {name: requests[name] for name in ("cpu", "memory")}
    return ResourceRequirements(requests=requests, limits=limits | _devices(vmi, config), claims=container_claims(vmi))


def _add(amounts: dict[str, Quantity], more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        total = parse_quantity(amounts.get(name, 0)) + parse_quantity(amount)
        amounts[name] = str(math.ceil(total)) if name in _BYTES else format_milli(total)


def _devices(vmi: VirtualMachineInstance, config: ClusterConfig) -> dict[str, Quantity]:
    devices: dict[str, Quantity] = {name: str(count) for name, count in device_counts(vmi).items()}
    if not config.use_emulation:
        devices[DEVICE_KVM] = "1"
    security = vmi.spec.domain.launch_security
    if security is not None and security.uses_sev:
        devices[DEVICE_SEV] = "1"
    if security is not None and security.tdx is not None:
        devices[DEVICE_TDX] = "1"
    if reserved_disks(vmi.spec):
        devices[DEVICE_PR_HELPER] = "1"
    hardware = vmi.spec.domain.devices
    if hardware.autoattach_vsock:
        devices[DEVICE_VHOST_VSOCK] = "1"
    if not hardware.interfaces and hardware.autoattach_pod_interface is False:
        return devices
    devices[DEVICE_TUN] = "1"
    # The kernel's virtio back end serves KVM guests; emulated ones run without, and their hosts often lack it.
    if config.use_emulation or not config.use_vhost_net:
        return devices
    # virtio is the default model, also of the interface that is attached when none is named.
    if not hardware.interfaces or any(nic.model in ("", "virtio") for nic in hardware.interfaces):
        devices[DEVICE_VHOST_NET] = "1"
    return devices


def _cpu_request(vmi: VirtualMachineInstance, config: ClusterConfig) -> str:
    if has_dedicated_cpus(vmi.spec.domain):
        return str(dedicated_cpu_count(vmi))
    wanted = vmi.spec.domain.resources.requests.get("cpu")
    if wanted is not None:
        return format_milli(parse_quantity(wanted))
    return format_milli(Fraction(vcpu_count(vmi.spec.domain), config.cpu_allocation_ratio))


def _memory_base(vmi: VirtualMachineInstance, config: ClusterConfig) -> int:
    base = _asked_memory(vmi, config)
    # Its Pod may not have more than it asks for: with less than its guest sees it would be killed.
    return max(base, _guest_memory(vmi)) if has_dedicated_cpus(vmi.spec.domain) else base


def _asked_memory(vmi: VirtualMachineInstance, config: ClusterConfig) -> int:
    wanted = vmi.spec.domain.resources
    for source in (wanted.requests, wanted.limits):
        if "memory" in source:
            return parse_bytes(source["memory"])
    return _guest_memory(vmi) * 100 // config.memory_overcommit_percent


def _guest_memory(vmi: VirtualMachineInstance) -> int:
    asked = guest_memory_field(vmi.spec.domain)
    # A guest of which huge pages alone are known has one of them.
    return parse_bytes(asked[1]) if asked is not None else page_bytes(vmi.spec.domain)


def _huge_pages(vmi: VirtualMachineInstance) -> dict[str, int]:
    """All of the guest's memory, also of a VMI that requests less: QEMU takes the pages before the guest starts."""
    page = page_bytes(vmi.spec.domain)
    return {page_resource(page): _guest_memory(vmi)} if page else {}
