"""Machines, CPU model and firmware of the KubeVirt object.

Part of configuration_reading.py. Pure. Keys that name no architecture win over those of one, as in KubeVirt; a machine
type or pattern without an architecture belongs to the one that has such machines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from kvedge.resources.configuration.configuration import DEFAULT_MACHINE, MACHINES, Configuration, Smbios, is_among
from kvedge.resources.configuration.configuration_checks import Checks
from kvedge.resources.types.kubevirt_configuration import (
    ArchConfiguration,
    ArchSpecificConfiguration,
    KubeVirtConfiguration,
    SmbiosConfiguration,
)

_AT: Final = "spec.configuration"
_ARCHITECTURES: Final = f"{_AT}.architectureConfiguration"
_CPU_MODEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_PATTERN: Final = re.compile(r"[A-Za-z0-9*][A-Za-z0-9._*-]{0,62}")
# What libvirt takes for one field.
_LONGEST_SMBIOS: Final = 64


def with_platform(made: Configuration, given: KubeVirtConfiguration, checks: Checks) -> Configuration:
    """What a VM's machine is when it does not say."""
    by_architecture = _by_architecture(given.architecture_configuration or ArchConfiguration())
    machines = {
        architecture: _patterns(architecture, given.emulated_machines, own, checks)
        for architecture, own in by_architecture.items()
    }
    return replace(
        made,
        machines=machines,
        machine_types=_machine_types(given.machine_type, by_architecture, machines, checks),
        default_architecture=_architecture(given, checks),
        ovmf_paths=_ovmf_paths(given.ovmf_path, by_architecture, checks),
        cpu_model=_cpu_model(given.cpu_model, checks),
        obsolete_cpu_models=frozenset(model for model, is_obsolete in given.obsolete_cpu_models.items() if is_obsolete),
        smbios=_smbios(given.smbios or SmbiosConfiguration(), checks),
    )


def _by_architecture(given: ArchConfiguration) -> dict[str, ArchSpecificConfiguration]:
    empty = ArchSpecificConfiguration()
    return {"amd64": given.amd64 or empty, "arm64": given.arm64 or empty}


def _patterns(
    architecture: str, of_none: Sequence[str], own: ArchSpecificConfiguration, checks: Checks
) -> tuple[str, ...]:
    for path, patterns in (
        (f"{_AT}.emulatedMachines", [item for item in of_none if _belongs(item, architecture)]),
        (f"{_ARCHITECTURES}.{architecture}.emulatedMachines", own.emulated_machines),
    ):
        good = [item for item in patterns if _PATTERN.fullmatch(item)]
        for item in patterns:
            if item not in good:
                checks.note_invalid(path, f"'{item}' is no machine type")
        if good:
            return tuple(good)
    return MACHINES[architecture]


def _belongs(machine: str, architecture: str) -> bool:
    """arm64 has the machines called virt, amd64 all others."""
    return is_among(machine, MACHINES["arm64"]) == (architecture == "arm64")


def _machine_types(
    of_none: str,
    by_architecture: Mapping[str, ArchSpecificConfiguration],
    machines: Mapping[str, Sequence[str]],
    checks: Checks,
) -> dict[str, str]:
    types = {}
    for architecture, own in by_architecture.items():
        path, machine = f"{_ARCHITECTURES}.{architecture}.machineType", own.machine_type
        if of_none and _belongs(of_none, architecture):
            path, machine = f"{_AT}.machineType", of_none
        types[architecture] = machine or DEFAULT_MACHINE[architecture]
        if machine and ("*" in machine or not is_among(machine, machines[architecture])):
            allowed = " ".join(machines[architecture])
            checks.note_invalid(path, f"{machine} is not supported (allowed values: [{allowed}])")
            types[architecture] = DEFAULT_MACHINE[architecture]
    return types


def _architecture(given: KubeVirtConfiguration, checks: Checks) -> str:
    own = given.architecture_configuration
    architecture = "" if own is None else own.default_architecture
    if not architecture or architecture in MACHINES:
        return architecture
    checks.note_invalid(f"{_ARCHITECTURES}.defaultArchitecture", f"{architecture} is neither amd64 nor arm64")
    return ""


def _ovmf_paths(
    of_none: str, by_architecture: Mapping[str, ArchSpecificConfiguration], checks: Checks
) -> dict[str, str]:
    found = {}
    for architecture, own in by_architecture.items():
        path, place = f"{_ARCHITECTURES}.{architecture}.ovmfPath", own.ovmf_path
        if of_none:
            path, place = f"{_AT}.ovmfPath", of_none
        if place.startswith("/") and ".." not in place.split("/"):
            found[architecture] = place
        elif place:
            checks.note_invalid(path, f"'{place}' is no absolute path")
    return found


def _cpu_model(model: str, checks: Checks) -> str:
    if not model or _CPU_MODEL.fullmatch(model):
        return model
    checks.note_invalid(f"{_AT}.cpuModel", f"'{model}' is no CPU model")
    return ""


def _smbios(given: SmbiosConfiguration, checks: Checks) -> Smbios:
    made = Smbios()
    for name in ("family", "manufacturer", "product", "version", "sku"):
        value = getattr(given, name)
        if len(value) > _LONGEST_SMBIOS or not value.isprintable():
            checks.note_invalid(f"{_AT}.smbios.{name}", f"must be at most {_LONGEST_SMBIOS} printable characters")
        elif value:
            made = replace(made, **{name: value})
    return made
