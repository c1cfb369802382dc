"""Which of the host's UEFI firmware files a VM gets.

Called by `vmi_preparation`. Looks whether files are there, nothing else.
"""

from __future__ import annotations

import os
from typing import Final

from kvedge.launcher.domain.context import OvmfFiles
from kvedge.resources.names import FIRMWARE_DIRECTORIES

# (code, template of the variables) in order of preference; the 4 MB builds are what current guests expect.
SECURE: Final = (
    ("OVMF_CODE_4M.ms.fd", "OVMF_VARS_4M.ms.fd"),
    ("OVMF_CODE_4M.secboot.fd", "OVMF_VARS_4M.ms.fd"),
    ("OVMF_CODE.secboot.fd", "OVMF_VARS.secboot.fd"),
    ("OVMF_CODE.ms.fd", "OVMF_VARS.ms.fd"),
)
PLAIN: Final = (
    ("OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd"),
    ("OVMF_CODE.fd", "OVMF_VARS.fd"),
    ("AAVMF_CODE.fd", "AAVMF_VARS.fd"),
)


def find_ovmf(directory: str, nvram: str, *, secure: bool) -> OvmfFiles | None:
    """The firmware in `directory`, or in the usual places when it is empty; None when there is none of this kind.

    `nvram` is where the VM's own variables will live; libvirt copies the template there at the first start.
    """
    for place in (directory,) if directory else FIRMWARE_DIRECTORIES:
        for code, template in SECURE if secure else PLAIN:
            if os.path.isfile(f"{place}/{code}") and os.path.isfile(f"{place}/{template}"):
                return OvmfFiles(
                    code=f"{place}/{code}", vars_template=f"{place}/{template}", nvram=nvram, secure=secure
                )
    return None
