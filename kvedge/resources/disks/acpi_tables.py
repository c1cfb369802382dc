"""ACPI tables with licences of Windows: which volumes of a VMI bring them, and under which key.

Called by admission, by the controller, which mounts their Secrets into the launcher Pod, and by the launcher's
preparation. Pure. The keys are KubeVirt's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from kvedge.resources.types.domain import DomainSpec

# libvirt's words for the types of tables.
SLIC: Final = "slic"
MSDM: Final = "msdm"


class AcpiTable(Struct, frozen=True):
    """A table that is in the Secret of a volume; `reference` is the field that names the volume."""

    volume: str
    reference: str
    key: str


def acpi_tables(domain: DomainSpec) -> Mapping[str, AcpiTable]:
    """The tables that the guest gets, by their type."""
    asked = domain.firmware.acpi if domain.firmware is not None else None
    if asked is None:
        return {}
    named = {SLIC: (asked.slic_name_ref, "slicNameRef"), MSDM: (asked.msdm_name_ref, "msdmNameRef")}
    return {kind: AcpiTable(volume, field, f"{kind}.bin") for kind, (volume, field) in named.items() if volume}
