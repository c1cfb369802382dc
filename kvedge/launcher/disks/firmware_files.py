"""Which of the host's UEFI firmware files a VM gets.

Called by `vmi_preparation`. Looks whether files are there, nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Final

from kvedge.launcher.domain.context import OvmfFiles
from kvedge.launcher.domain.platform import Platform
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
)
# arm64's, beside which a host may have amd64's: it is in a package for all architectures.
ARM64: Final = (("AAVMF_CODE.fd", "AAVMF_VARS.fd"),)

# Of guests whose memory AMD SEV encrypts; the first is built for them alone, and any without SMM can start them.
ENCRYPTED: Final = (("OVMF_CODE.cc.fd", "OVMF_VARS.fd"), *PLAIN)
# For SEV-SNP, and for TDX without and with secure boot: one file, which is measured, and no variables.
ROMS: Final[Mapping[tuple[str, bool], tuple[str, ...]]] = {
    ("snp", False): ("OVMF.amdsev.fd",),
    ("tdx", False): ("OVMF.inteltdx.fd",),
    ("tdx", True): ("OVMF.inteltdx.secboot.fd", "OVMF.inteltdx.ms.fd"),
}


def find_ovmf(directory: str, nvram: str, platform: Platform) -> OvmfFiles | None:
    """The firmware in `directory`, or in the usual places when it is empty; None when there is none of this kind.

    `nvram` is where the VM's own variables will live; libvirt copies the template there at the first start.
    """
    secure, places = platform.secure_boot, (directory,) if directory else FIRMWARE_DIRECTORIES
    if platform.encryption in ("snp", "tdx"):
        return _find_rom(places, ROMS.get((platform.encryption, secure), ()), secure=secure)
    for place in places:
        for code, template in _names(platform):
            if os.path.isfile(f"{place}/{code}") and os.path.isfile(f"{place}/{template}"):
                return OvmfFiles(
                    code=f"{place}/{code}", vars_template=f"{place}/{template}", nvram=nvram, secure=secure
                )
    return None


def _names(platform: Platform) -> tuple[tuple[str, str], ...]:
    if platform.architecture == "aarch64":
        return ARM64
    if platform.encryption:
        return ENCRYPTED
    return SECURE if platform.secure_boot else PLAIN


def _find_rom(places: Iterable[str], names: Iterable[str], *, secure: bool) -> OvmfFiles | None:
    files = (f"{place}/{name}" for place in places for name in names)
    found = next((file for file in files if os.path.isfile(file)), None)
    return None if found is None else OvmfFiles(code=found, secure=secure, rom=True)
