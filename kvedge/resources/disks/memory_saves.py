"""Of which guests memory cannot be saved: those with state that is neither in their memory nor in the snapshot's disks.

Called by the plan of snapshots, and by the web console, which offers no other. Pure. Each refusal names the field, and
what can be done.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvedge.resources.counters.tsc_frequency import find_clock_field, find_told_frequency
from kvedge.resources.disks.volume_facts import lasting_claim
from kvedge.resources.names import TSC_FREQUENCY
from kvedge.resources.types.devices import Interface
from kvedge.resources.types.domain import is_on
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Volume
from kvedge.resources.values.quantities import Quantity, parse_bytes

_REMEDY: Final = "take the snapshot without memory"


def find_memory_fault(vm: str, vmi: VirtualMachineInstance | None) -> str:
    """Why the memory of this VM's run cannot be saved; empty when it can."""
    if vmi is None or vmi.is_final:
        return f"VM {vm} does not run and has no memory to save: start it, or {_REMEDY}"
    fault = next(_find_faults(vmi), "")
    return f"{fault}: {_REMEDY}" if fault else ""


def _find_faults(vmi: VirtualMachineInstance) -> Iterator[str]:
    yield from _judge_devices(vmi)
    yield from _judge_disks(vmi)
    memory = vmi.status.memory
    if memory is not None and _bytes(memory.guest_at_boot) != _bytes(memory.guest_current):
        yield "spec.domain.memory.guest: it was changed while the guest runs, which cannot be resumed; restart it"
    for entry in vmi.status.volume_status:
        if entry.hotplug_volume is not None and entry.name in {volume.name for volume in vmi.spec.volumes}:
            yield f"volume {entry.name}: it was plugged into the running guest, which cannot be resumed; restart it"


def _bytes(quantity: Quantity | None) -> int:
    return parse_bytes(quantity or 0)


def _judge_devices(vmi: VirtualMachineInstance) -> Iterator[str]:
    domain = vmi.spec.domain
    devices, at = domain.devices, "spec.domain.devices"
    if devices.host_devices:
        yield f"{at}.hostDevices: the state of host devices cannot be saved"
    if devices.gpus:
        yield f"{at}.gpus: the state of GPUs cannot be saved"
    if devices.filesystems:
        yield f"{at}.filesystems: the state of virtiofs cannot be saved"
    if devices.tpm is not None and devices.tpm.is_wanted:
        yield f"{at}.tpm: what is in the TPM is not saved with the memory"
    if devices.autoattach_vsock:
        yield f"{at}.autoattachVSOCK: the guest would be resumed with another CID"
    yield from _judge_clock(vmi)
    if domain.launch_security is not None:
        yield "spec.domain.launchSecurity: nobody can save memory that the host cannot read"
    firmware = domain.firmware
    loader = None if firmware is None else firmware.bootloader
    if loader is not None and loader.efi is not None and loader.efi.persistent:
        yield "spec.domain.firmware.bootloader.efi.persistent: its variables are not put back with the memory"
    for interface in devices.interfaces:
        if binding := _find_binding(interface):
            yield f"{at}.interfaces[{interface.name}].{binding}: the state of this binding cannot be saved"


def _judge_clock(vmi: VirtualMachineInstance) -> Iterator[str]:
    """QEMU saves such memory, or loads it once the guest's system uses this, with a told frequency alone."""
    features = vmi.spec.domain.features
    if features is not None and is_on(features.hyperv_passthrough):
        yield "spec.domain.features.hypervPassthrough: QEMU keeps such a guest on its host"
    clock_field = find_clock_field(vmi.spec.domain)
    if clock_field and find_told_frequency(vmi) is None:
        yield (
            f"{clock_field}: the guest was not told its counter's frequency, without which QEMU does not load its"
            f" memory; restart it where the node has the label {TSC_FREQUENCY}"
        )


def _find_binding(interface: Interface) -> str:
    if interface.sriov is not None:
        return "sriov"
    if interface.passt is not None or interface.passt_binding is not None:
        return "passt" if interface.passt is not None else "passtBinding"
    return "" if interface.binding is None else f"binding.{interface.binding.name}"


def _judge_disks(vmi: VirtualMachineInstance) -> Iterator[str]:
    volumes = {volume.name: volume for volume in vmi.spec.volumes}
    for disk in vmi.spec.domain.devices.disks:
        volume = volumes.get(disk.name)
        if disk.lun is not None:
            yield f"disk {disk.name}: a LUN that is passed through is not in the snapshot"
        elif disk.shareable:
            yield f"disk {disk.name}: a shareable disk may be written by others"
        elif volume is not None and not _stays(volume):
            yield f"volume {disk.name}: it is not in the snapshot, and another one at the next start"


def _stays(volume: Volume) -> bool:
    """Whether the next start finds on it what the memory believes: a copy, or what is made anew of the spec."""
    is_seed = volume.cloud_init_no_cloud is not None or volume.cloud_init_config_drive is not None
    return lasting_claim(volume) is not None or is_seed
