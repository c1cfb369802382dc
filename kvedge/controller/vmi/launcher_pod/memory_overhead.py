"""How much memory one VM costs beyond what its guest sees.

Used for the launcher Pod's memory request, its annotation kubevirt.io/memory-overhead-bytes and the VMI's
status.memory.memoryOverhead, which all show the same number. Pure.

KubeVirt reserves 240 MiB for its monitor, launcher, virtlogd, virtqemud and QEMU, whatever the guest is. Here libvirt
lives in the launcher's own process, so the fixed part is about half of that; the parts that grow with the guest are
KubeVirt's. The numbers are budgets, not averages: memory beyond the request is what gets a Pod killed first.

`tests/bench/overhead_bench` measures them, with guests that use all they have: without translated code, a VM with a
display held 71 MB at the most, one that got 16 disks while it ran 108 MB, for which 161 MB are set aside; UEFI adds
15 MB, a TPM 18 MB. Nothing measured comes nearer to its budget than three quarters. What KVM adds, the page tables and
what the kernel's own devices hold, was not measured: guests were emulated.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kvedge.resources.types.sriov_networks import VFIO_BYTES

_MIB: Final = 1024 * 1024

# Monitor and launcher with libvirt in it hold 30 MB, and as much again the process beside them that prepares a start or
# a disk that is plugged in: 67 MB were seen.
LAUNCHER: Final = 64 * _MIB
# QEMU's own heap, its code that no other process shares, and firmware: 41 MB were seen, 50 with UEFI.
QEMU: Final = 48 * _MIB
# Stack and state of one vCPU thread: 1.3 MB were seen.
PER_VCPU: Final = 4 * _MIB
# Each QEMU has one thread for its disks.
IO_THREAD: Final = 4 * _MIB
# The frame buffer and QEMU's copy of it for VNC.
GRAPHICS: Final = 32 * _MIB
# SPICE's server in QEMU with its channels, 8 MiB of which were seen, and pictures that wait for a slow client.
SPICE: Final = 32 * _MIB
# One byte of page tables for 512 bytes of guest memory, once for the host and the nested ones of KVM alike.
PAGE_TABLE_RATIO: Final = 512
# UEFI's two flash images, which every arm64 guest has.
ARM64_FIRMWARE: Final = 128 * _MIB
# Translated code of a guest that is emulated; the domain caps QEMU's buffer at this size.
TRANSLATION_BUFFER: Final = 128 * _MIB
# A program that asks the guest's agent and lives for one answer: 7 MiB were seen, as it speaks to the launcher without
# loading gRPC. KubeVirt adds 100 MiB once as well, for its own.
PER_EXEC_PROBE: Final = 10 * _MIB
# libvirt's daemon, which takes in a guest that moves: 7 MB were seen. It ends when the guest is there.
INCOMING_DAEMON: Final = 8 * _MIB
# swtpm: 18 MB were seen. KubeVirt has 53 MiB.
TPM: Final = 32 * _MIB
# passt, as KubeVirt has it: 30 MiB were seen, and about 1 KiB of the kernel for each of the sockets of all ports.
PASST: Final = 250 * _MIB
# What QEMU locks of AMD SEV beside the guest's memory, as KubeVirt has it.
SEV: Final = 256 * _MIB
# The page cache of the disk of metrics, as KubeVirt has it.
METRICS_DISK: Final = 1 * _MIB
# Memory that VFIO locks beside the guest's, whatever the number of devices, as KubeVirt has it.
VFIO: Final = VFIO_BYTES
# Spare memory of a Pod that may not have more than it asks for, as KubeVirt has it: it would be killed.
LIMITED: Final = 100 * _MIB


class GuestShape(Struct, frozen=True):
    """What of a guest counts; memory in bytes."""

    memory: int
    vcpus: int
    graphics: bool
    architecture: str = "amd64"
    emulated: bool = False
    # Probes that are asked by a program in the launcher's container.
    exec_probes: int = 0
    # Whether it has devices of the host.
    passes_devices: bool = False
    tpm: bool = False
    metrics_disk: bool = False
    # Whether its Pod may not have more than it asks for, as one with dedicated CPUs.
    is_limited: bool = False
    spice: bool = False
    passt: bool = False
    # Whether AMD SEV encrypts its memory.
    sev: bool = False
    # What the VMI's owner adds to the reckoning.
    added: int = 0


def memory_overhead(guest: GuestShape) -> int:
    """The bytes that one VM costs beyond its guest's memory, in whole MiB."""
    total = LAUNCHER + QEMU + IO_THREAD + PER_VCPU * max(1, guest.vcpus) + guest.memory // PAGE_TABLE_RATIO
    total += PER_EXEC_PROBE * guest.exec_probes
    if guest.graphics:
        total += GRAPHICS
    if guest.spice:
        total += SPICE
    if guest.passt:
        total += PASST
    if guest.sev:
        total += SEV
    if guest.architecture == "arm64":
        total += ARM64_FIRMWARE
    if guest.passes_devices:
        total += VFIO
    if guest.tpm:
        total += TPM
    if guest.metrics_disk:
        total += METRICS_DISK
    if guest.is_limited:
        total += LIMITED
    if guest.emulated:
        total += TRANSLATION_BUFFER
    total += guest.added
    return -(-total // _MIB) * _MIB
