"""Rules for architecture, machine, firmware, clock and hypervisor features, worded as KubeVirt words them.

Called by admission_plan.py; touches nothing.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field, required_cause, unsupported_cause
from kvedge.api.admission.rules.subject import Rule, Subject
from kvedge.resources.disks.acpi_tables import acpi_tables
from kvedge.resources.types.domain import Bootloader, Features, KernelBoot, Timer, is_on

_ARCHITECTURES: Final = ("amd64", "arm64")
# What libvirt takes for ticks that the guest missed; clock_xml.py of the launcher has the same.
_TICK_POLICIES: Final[Mapping[str, tuple[str, ...]]] = {
    "hpet": ("delay", "catchup", "merge", "discard"),
    "kvm": (),
    "pit": ("delay", "catchup", "discard"),
    "rtc": ("delay", "catchup"),
    "hyperv": (),
}
_TRACKS: Final = ("guest", "wall")
_LONGEST_VENDOR: Final = 12
_LONGEST_SERIAL: Final = 256
# SMBIOS has one line of text for it, in which blanks and slashes of real machines' serial numbers have their place.
_SERIAL: Final = re.compile(r"[^\x00-\x1f\x7f]*")
# libvirt takes no fewer retries than this.
_LEAST_SPINLOCKS: Final = 4095


def architecture_and_machine_exist(subject: Subject) -> Iterator[Cause]:
    """Both are among those that kvedge runs."""
    spec = subject.spec
    if subject.architecture not in _ARCHITECTURES:
        yield unsupported_cause(subject.at.at("architecture"), f"unsupported architecture: {subject.architecture}")
        return
    machine = spec.domain.machine.type if spec.domain.machine is not None else ""
    if machine and not subject.cluster.allows_machine(subject.architecture, machine):
        at = subject.domain_at.at("machine", "type")
        allowed = " ".join(subject.cluster.machines[subject.architecture])
        yield unsupported_cause(at, f"{at} is not supported: {machine} (allowed values: [{allowed}])")


def firmware_identity_is_valid(subject: Subject) -> Iterator[Cause]:
    """UUID and serial."""
    firmware, at = subject.spec.domain.firmware, subject.domain_at.at("firmware")
    if firmware is None:
        return
    if firmware.uuid and not _is_uuid(firmware.uuid):
        yield Cause(at.at("uuid"), f"{at.at('uuid')} '{firmware.uuid}' is not a UUID")
    if len(firmware.serial) > _LONGEST_SERIAL:
        yield Cause(at.at("serial"), f"{at.at('serial')} must be less than or equal to 256 in length, if specified")
    if not _SERIAL.fullmatch(firmware.serial):
        text = f"{at.at('serial')} must be one line of text: remove control characters and line breaks"
        yield Cause(at.at("serial"), text)


def bootloader_is_possible(subject: Subject) -> Iterator[Cause]:
    """BIOS or UEFI, and secure boot only with SMM."""
    domain = subject.spec.domain
    loader = domain.firmware.bootloader if domain.firmware is not None else None
    if loader is None:
        return
    at = subject.domain_at.at("firmware", "bootloader")
    if loader.bios is not None and loader.efi is not None:
        yield Cause(at, f"{at} has both EFI and BIOS configured, but they are mutually exclusive.")
    if loader.bios is not None and subject.architecture == "arm64":
        yield unsupported_cause(
            at.at("bios"), f"{at.at('bios')}: there is no BIOS on arm64; use efi: {{secureBoot: false}}"
        )
    if loader.efi is not None:
        yield from _secure_boot(subject, loader, at.at("efi"))


def _secure_boot(subject: Subject, loader: Bootloader, at: Field) -> Iterator[Cause]:
    if loader.efi is None or loader.efi.secure_boot is False:
        return
    if subject.architecture == "arm64":
        if loader.efi.secure_boot is True:
            yield unsupported_cause(
                at.at("secureBoot"), f"{at.at('secureBoot')}: there is no secure boot on arm64; set it to false"
            )
        return
    machine = subject.spec.domain.machine.type if subject.spec.domain.machine is not None else ""
    if machine.startswith("pc") and not machine.startswith("pc-q35"):
        here = at.at("secureBoot")
        yield unsupported_cause(here, f"{here}: the machine {machine} has no secure boot; use q35, or set it to false")
    security = subject.spec.domain.launch_security
    if security is not None and security.tdx is not None:
        # Its firmware is read only, the keys within: there are no variables for SMM to guard.
        return
    features = subject.spec.domain.features
    smm = features.smm if features is not None else None
    if smm is None or smm.enabled is False:
        yield Cause(at, f"{at} has EFI SecureBoot enabled. SecureBoot requires SMM, which is currently disabled.")


def kernel_boot_is_complete(subject: Subject) -> Iterator[Cause]:
    """An image with a kernel, at absolute paths."""
    firmware = subject.spec.domain.firmware
    if firmware is None or firmware.kernel_boot is None:
        return
    at = subject.domain_at.at("firmware", "kernelBoot")
    boot = firmware.kernel_boot
    if boot.container is None:
        if boot.kernel_args:
            yield required_cause(at, "kernel arguments cannot be provided without an external kernel")
        return
    yield from _kernel_container(boot, at)


def _kernel_container(boot: KernelBoot, at: Field) -> Iterator[Cause]:
    container = boot.container
    assert container is not None
    if not container.image:
        yield required_cause(at.at("container", "image"), f"{at.at('container')} must be defined with an image")
    if not container.kernel_path and not container.initrd_path:
        text = f"{at.at('container')} must be defined with at least one of the following: kernelPath, initrdPath"
        yield required_cause(at.at("container"), text)
    if boot.kernel_args and not container.kernel_path:
        yield required_cause(at, "kernel arguments cannot be provided without an external kernel")
    for name, path in (("kernelPath", container.kernel_path), ("initrdPath", container.initrd_path)):
        if path:
            yield from path_in_image(path, at.at("container", name))


def acpi_tables_are_in_secrets(subject: Subject) -> Iterator[Cause]:
    """Each names a volume with a Secret, for a guest that reads such tables."""
    domain, at = subject.spec.domain, subject.domain_at.at("firmware", "acpi")
    if domain.firmware is None or domain.firmware.acpi is None:
        return
    tables = acpi_tables(domain)
    if not tables:
        yield Cause(at, "ACPI was set but no SLIC nor MSDM volume reference was set")
    if subject.architecture == "arm64":
        yield unsupported_cause(at, f"{at}: QEMU has no such tables on arm64; remove it")
    if domain.features is not None and domain.features.acpi.enabled is False:
        yield Cause(at, f"{at}: the guest has no ACPI; remove it, or features.acpi.enabled: false")
    volumes = {volume.name: volume for volume in subject.spec.volumes}
    for table in tables.values():
        if table.volume not in volumes:
            yield Cause(at.at(table.reference), f"{at} does not have a matching Volume.")
        elif volumes[table.volume].secret is None:
            yield Cause(at.at(table.reference), f"{at} refers to Volume of unsupported type.")


def path_in_image(path: str, at: Field) -> Iterator[Cause]:
    """A file inside an image is named from its root, without detours."""
    pure = PurePosixPath(path)
    if str(pure) == "/":
        yield Cause(at, f"{at} must not point to root")
    elif not pure.is_absolute() or ".." in pure.parts or str(pure) != path.rstrip("/"):
        yield Cause(at, f"{at} must be an absolute path to a file without relative components")


def clock_is_possible(subject: Subject) -> Iterator[Cause]:
    """UTC or a time zone; timers with the policies that QEMU has."""
    clock, at = subject.spec.domain.clock, subject.domain_at.at("clock")
    if clock is None:
        return
    if clock.utc is not None and clock.timezone:
        yield Cause(at, f"{at} has both utc and timezone configured, but they are mutually exclusive.")
    for name, policies in _TICK_POLICIES.items():
        timer: Timer | None = getattr(clock.timer, name) if clock.timer is not None else None
        if timer is None:
            continue
        here = at.at("timer", name)
        if timer.tick_policy and timer.tick_policy not in policies:
            allowed = f"allowed values: [{' '.join(policies)}]" if policies else "this timer has none"
            yield unsupported_cause(
                here.at("tickPolicy"), f"{here.at('tickPolicy')} is not supported: {timer.tick_policy} ({allowed})"
            )
        if timer.track and (name != "rtc" or timer.track not in _TRACKS):
            yield unsupported_cause(
                here.at("track"), f"{here.at('track')} is not supported: {timer.track} (rtc has guest and wall)"
            )
        if subject.architecture == "arm64":
            yield unsupported_cause(here, f"{here}: there is no such timer on arm64")


def features_are_possible(subject: Subject) -> Iterator[Cause]:
    """Hyper-V's settings, and what arm64 lacks."""
    features, at = subject.spec.domain.features, subject.domain_at.at("features")
    if features is None:
        return
    if subject.architecture == "arm64":
        yield from _absent_on_arm(features, at)
    hyperv = features.hyperv
    if hyperv is None:
        return
    if is_on(features.hyperv_passthrough):
        yield Cause(
            at.at("hypervPassthrough"), f"{at.at('hypervPassthrough')} and {at.at('hyperv')} are mutually exclusive."
        )
    vendor = hyperv.vendorid
    if vendor is not None and vendor.enabled is not False:
        here = at.at("hyperv", "vendorid", "vendorid")
        if not 0 < len(vendor.vendorid) <= _LONGEST_VENDOR or "," in vendor.vendorid:
            yield Cause(here, f"{here} must be 1 to {_LONGEST_VENDOR} characters long, without a comma")
    retries = hyperv.spinlocks.spinlocks if hyperv.spinlocks is not None else None
    if retries is not None and retries < _LEAST_SPINLOCKS:
        here = at.at("hyperv", "spinlocks", "spinlocks")
        yield Cause(here, f"{here} '{retries}': must be greater than or equal to 4095.")


def _absent_on_arm(features: Features, at: Field) -> Iterator[Cause]:
    asked = {
        "apic.endOfInterrupt": features.apic is not None and features.apic.end_of_interrupt,
        "hyperv": features.hyperv is not None,
        "hypervPassthrough": features.hyperv_passthrough is not None,
        "kvm.hidden": features.kvm is not None and features.kvm.hidden,
        "pvspinlock": features.pvspinlock is not None,
        "smm": features.smm is not None,
    }
    for name, wanted in asked.items():
        if wanted:
            yield unsupported_cause(at.at(name), f"{at.at(name)}: there is no such feature on arm64")


def _is_uuid(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


RULES: Final[tuple[Rule, ...]] = (
    architecture_and_machine_exist,
    firmware_identity_is_valid,
    bootloader_is_possible,
    kernel_boot_is_complete,
    acpi_tables_are_in_secrets,
    clock_is_possible,
    features_are_possible,
)
