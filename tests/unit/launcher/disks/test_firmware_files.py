"""Which firmware of the host a guest gets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.launcher.disks.firmware_files import find_ovmf
from kvedge.launcher.domain.platform import Platform, platform_of
from tests.support.values import replace
from tests.unit.launcher.domain.vmis import vmi


def platform(security: dict[str, Any] | None = None, *, secure: bool = False) -> Platform:
    firmware = {"bootloader": {"efi": {"secureBoot": secure}}}
    more = {} if security is None else {"launchSecurity": security}
    return platform_of(vmi({"firmware": firmware, "features": {"acpi": {}, "smm": {}}, **more}), "x86_64")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """Debian's, and those that a few distributions have for encrypted guests."""
    debian = [f"OVMF_{part}.fd" for part in ("CODE_4M", "VARS_4M", "CODE_4M.ms", "VARS_4M.ms", "CODE", "VARS")]
    for name in (*debian, "OVMF_CODE.cc.fd", "OVMF.amdsev.fd", "OVMF.inteltdx.fd", "OVMF.inteltdx.ms.fd"):
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize(
    ("asked", "code", "template"),
    [
        (platform(), "OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd"),
        (platform(secure=True), "OVMF_CODE_4M.ms.fd", "OVMF_VARS_4M.ms.fd"),
        (platform({"sev": {}}), "OVMF_CODE.cc.fd", "OVMF_VARS.fd"),
        (platform({"snp": {}}), "OVMF.amdsev.fd", ""),
        (platform({"tdx": {}}), "OVMF.inteltdx.fd", ""),
        (platform({"tdx": {}}, secure=True), "OVMF.inteltdx.ms.fd", ""),
    ],
    ids=["plain", "secure", "SEV", "SNP", "TDX", "secure TDX"],
)
def test_each_guest_has_what_it_can_start(asked: Platform, code: str, template: str, files: Path) -> None:
    found = find_ovmf(str(files), "/nvram", asked)
    assert found is not None
    assert (Path(found.code).name, Path(found.vars_template).name) == (code, template)
    assert found.rom == (not template)
    assert found.nvram == ("/nvram" if template else "")


def test_without_a_build_for_it_sev_starts_any_firmware_without_smm(files: Path) -> None:
    (files / "OVMF_CODE.cc.fd").unlink()
    found = find_ovmf(str(files), "/nvram", platform({"sev": {}}))
    assert found is not None
    assert Path(found.code).name == "OVMF_CODE_4M.fd"


def test_a_guest_of_arm64_gets_its_own_where_amd64s_lies_beside_it(files: Path) -> None:
    asked = replace(platform(), architecture="aarch64", machine="virt")
    assert find_ovmf(str(files), "/nvram", asked) is None
    for name in ("AAVMF_CODE.fd", "AAVMF_VARS.fd"):
        (files / name).touch()
    found = find_ovmf(str(files), "/nvram", asked)
    assert found is not None
    assert (Path(found.code).name, Path(found.vars_template).name) == ("AAVMF_CODE.fd", "AAVMF_VARS.fd")


@pytest.mark.parametrize("kind", ["snp", "tdx"])
def test_firmware_of_another_kind_is_none_for_it(kind: str, tmp_path: Path) -> None:
    for name in ("OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd"):
        (tmp_path / name).touch()
    assert find_ovmf(str(tmp_path), "/nvram", platform({kind: {}})) is None
