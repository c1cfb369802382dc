"""The ACPI tables in mounted Secrets, checked before QEMU reads them.

Called by `vmi_preparation`. Reads what the kubelet has mounted, in bounded memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kvedge.launcher.disks.config_files import read_files
from kvedge.launcher.launcher_errors import BadRequest
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.resources.disks.acpi_tables import AcpiTable, acpi_tables
from kvedge.resources.types.vmi import VirtualMachineInstance

# Signature, length, revision, checksum, OEM, creator: without it there is no table.
_HEADER: Final = 36
_LENGTH: Final = slice(4, 8)
# QEMU takes no larger one.
_LARGEST: Final = 65_535


def find_acpi_tables(vmi: VirtualMachineInstance, options: LauncherOptions) -> dict[str, str]:
    """The files with the tables that the VMI asks for, by their type.

    Raises:
        BadRequest: when a Secret is not mounted, lacks the key, or holds no such table.
    """
    return {kind: _find_table(kind, table, options) for kind, table in acpi_tables(vmi.spec.domain).items()}


def _find_table(kind: str, table: AcpiTable, options: LauncherOptions) -> str:
    field = f"spec.domain.firmware.acpi.{table.reference}"
    directory = f"{options.secret_directory}/{table.volume}"
    files: Mapping[str, bytes] = read_files(directory, field)
    if table.key not in files:
        raise BadRequest(field, f"its Secret has no key {table.key}", f"add the table as the key {table.key}")
    content = files[table.key]
    signature = kind.upper().encode()
    length = int.from_bytes(content[_LENGTH], "little")
    if not _HEADER <= len(content) <= _LARGEST or content[:4] != signature or length != len(content):
        text = f"{table.key} is no ACPI table {kind.upper()} of {_HEADER} to {_LARGEST} bytes"
        raise BadRequest(field, text, f"use a copy of /sys/firmware/acpi/tables/{kind.upper()} of the licensed machine")
    return f"{directory}/{table.key}"
