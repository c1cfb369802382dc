# Tests: kvedge/launcher/disks/lasting_state.py
"""UEFI's variables and the TPM's state are on the claim where they last, and in the Pod where they do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.launcher.disks.lasting_state import nvram_path, prepare_state
from kvedge.launcher.launcher_errors import ClaimUnusable
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import vmi_with

UUID = "5d307ca9-b3ef-428c-8861-06e72d69f223"
CLAIM = "var/run/kubevirt-private/vmi-disks/persistent-state-for-this-vm"


def lasting(*, firmware: bool = True, tpm: bool = True) -> VirtualMachineInstance:
    domain: dict[str, Any] = {
        "firmware": {"uuid": UUID, "bootloader": {"efi": {"persistent": firmware}}},
        "devices": {"tpm": {"persistent": tpm}},
    }
    return vmi_with({"domain": domain}, name="web", uid="u")


@pytest.fixture
def options(tmp_path: Path) -> LauncherOptions:
    (tmp_path / CLAIM).mkdir(parents=True)
    return LauncherOptions(namespace="default", name="web", uid="u", root=str(tmp_path))


def test_both_are_on_the_claim_and_libvirt_finds_the_tpm_s_by_the_domain_s_uuid(
    tmp_path: Path, options: LauncherOptions
) -> None:
    for _ in range(2):
        # Also of a preparation that is made again.
        prepare_state(lasting(), options)
    assert nvram_path(lasting(), options) == f"{tmp_path}/{CLAIM}/nvram/web_VARS.fd"
    (tmp_path / CLAIM / "swtpm" / "tpm2").mkdir()
    found = Path(options.libvirt_root) / "lib" / "swtpm" / UUID / "tpm2"
    assert found.is_dir()


def test_what_does_not_last_stays_in_the_pod(tmp_path: Path, options: LauncherOptions) -> None:
    prepare_state(lasting(firmware=False, tpm=False), options)
    assert nvram_path(lasting(firmware=False), options) == f"{options.run_directory}/web_VARS.fd"
    assert list((tmp_path / CLAIM).iterdir()) == []
    assert not Path(options.libvirt_root, "lib").exists()


def test_a_claim_that_cannot_be_written_is_told_by_its_name(tmp_path: Path, options: LauncherOptions) -> None:
    (tmp_path / CLAIM).rmdir()
    (tmp_path / CLAIM).touch()
    with pytest.raises(ClaimUnusable, match="PVC persistent-state-for-web: cannot be written"):
        prepare_state(lasting(), options)
