"""`<tpm>`: a TPM 2.0 that swtpm plays, a process of its own beside QEMU.

Touches nothing.
"""

from __future__ import annotations

from typing import Final
from xml.etree.ElementTree import Element

from kvedge.launcher.domain.context import DomainContext
from kvedge.launcher.domain.conversion_error import ConversionError
from kvedge.launcher.domain.xml_tree import add
from kvedge.resources.types.devices import TpmDevice

_FIELD: Final = "spec.domain.devices.tpm"


def add_tpm(devices: Element, tpm: TpmDevice | None, context: DomainContext) -> None:
    """A TPM that begins empty with each run, or one that lasts; the two models are KubeVirt's.

    Raises:
        ConversionError: where the node has no swtpm.
    """
    if tpm is None or not tpm.is_wanted:
        return
    if not context.has_tpm_emulator:
        raise ConversionError(_FIELD, "this node has no swtpm", "install the packages swtpm and swtpm-tools")
    lasts = bool(tpm.persistent)
    element = add(devices, "tpm", model="tpm-crb" if lasts else "tpm-tis")
    add(element, "backend", type="emulator", version="2.0", persistent_state="yes" if lasts else None)
