"""Where a VM's own state is in its launcher's Pod: UEFI's variables and what is in the TPM, on a claim where they last.

Called by `vmi_preparation`. Makes directories on the claim, and the link by which libvirt finds a TPM's state there.
"""

from __future__ import annotations

import os
from typing import Final

from kvedge.launcher.disks.state_return import return_state
from kvedge.launcher.disks.tpm_directories import make_tpm_directory
from kvedge.launcher.domain.elements.identity_xml import domain_uuid
from kvedge.launcher.launcher_errors import ClaimUnusable
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.resources.disks.claim_places import IMAGE_FILE, STATE_VOLUME, claim_directory
from kvedge.resources.disks.state_claims import keeps_firmware, keeps_state, keeps_tpm, state_claim_of
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.storage.state_archive import BadState
from kvedge.storage.state_files import NVRAM_DIRECTORY, VARIABLES

_TPM: Final = "swtpm"


def nvram_path(vmi: VirtualMachineInstance, options: LauncherOptions) -> str:
    """The file of UEFI's variables; libvirt makes it of the firmware's template where there is none."""
    place = f"{_directory(options)}/{NVRAM_DIRECTORY}" if keeps_firmware(vmi.spec) else options.run_directory
    return f"{place}/{vmi.metadata.name}{VARIABLES}"


def prepare_state(vmi: VirtualMachineInstance, options: LauncherOptions) -> None:
    """Have the directories there.

    Raises:
        ClaimUnusable: when the claim cannot be written.
    """
    if not keeps_state(vmi.spec):
        return
    try:
        if not options.incoming:
            return_state(_directory(options), vmi.metadata.name)
        if keeps_firmware(vmi.spec):
            os.makedirs(f"{_directory(options)}/{NVRAM_DIRECTORY}", mode=0o700, exist_ok=True)
        if keeps_tpm(vmi.spec):
            link = f"{options.libvirt_root}/lib/{_TPM}/{domain_uuid(vmi)}"
            # Once only: the guest of this Pod may run.
            if not os.path.islink(link):
                _link(link, make_tpm_directory(_directory(options), options.incoming))
    except (OSError, BadState) as error:
        field = "spec.domain.devices.tpm" if keeps_tpm(vmi.spec) else "spec.domain.firmware.bootloader.efi"
        detail = f"cannot be written, and keeps the state of TPM and UEFI firmware: {_word(error)}"
        if isinstance(error, BadState):
            detail = (
                f"its {IMAGE_FILE}, from which a restore brings the state of TPM and UEFI firmware, is damaged: {error}"
            )
        raise ClaimUnusable(field, state_claim_of(vmi.metadata), detail) from error


def _word(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


def _link(link: str, target: str) -> None:
    """libvirt keeps a TPM's state by the domain's UUID, which may change from run to run."""
    os.makedirs(os.path.dirname(link), mode=0o700, exist_ok=True)
    os.symlink(target, link)


def _directory(options: LauncherOptions) -> str:
    return f"{options.root}{claim_directory(STATE_VOLUME)}"
