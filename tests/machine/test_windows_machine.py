"""The machine that Windows 11 gets by its preference: as far as a free guest and an emulated processor show it.

No Windows is here. The signed loader of the tests' guest starts on it as Windows' own would, by secure boot; an
emulated processor's system management mode does not survive the kernel's start (QEMU 7.2).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.box import Box
from tests.support.guest_box import guest_box
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(600)]
IMAGE, DRIVERS = "local/loader:11", "local/virtio-win:1"
_PNG = b"\x89PNG"
_MIB = 1 << 20


@pytest.fixture(scope="module")
def box(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Box]:
    directory = tmp_path_factory.mktemp("windows")
    # What is in it only a guest's driver would ask.
    (directory / "drivers.iso").write_bytes(b"drivers" * _MIB)
    with guest_box(directory, "10.98.219.0/24", IMAGE, uefi=True) as found:
        found.import_image(directory / "drivers.iso", DRIVERS)
        yield found


def _qemu_of(name: str) -> list[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode(errors="replace").split("\0")
        except OSError:
            continue
        if any(f"guest=default_{name}," in word for word in words):
            return words
    return []


def test_a_signed_loader_starts_on_windows_11_s_machine_with_the_drivers_in_a_drive(box: Box, tmp_path: Path) -> None:
    box.cli(*("launch", IMAGE, "win", "--os", "windows.11.virtio", "--cpu", "2", "--memory", "4Gi", "--cdrom", DRIVERS))
    vmi = box.wait_phase("win", "Running")
    devices, features = vmi.spec.domain.devices, vmi.spec.domain.features
    assert devices.tpm is not None
    assert devices.tpm.persistent
    assert features is not None
    assert features.hyperv is not None
    assert [disk.name for disk in devices.disks if disk.cdrom is not None] == ["cdrom-1"]
    words = _qemu_of("win")
    line = " ".join(words)
    assert "driver=cfi.pflash01,property=secure,value=on" in line
    assert "tpm-crb" in line
    assert "ide-cd" in line
    # An emulated processor has none of Hyper-V's enlightenments; the golden domains have them.
    wait_until(
        lambda: "Welcome to GRUB!" in box.cli("console", "win", "--log", check=False).stdout, "the signed loader", 90
    )
    picture = tmp_path / "first.png"
    box.cli("vnc", "screenshot", "win", "--file", str(picture))
    assert picture.read_bytes().startswith(_PNG)
    box.remove_vm("win")


def test_an_installer_is_in_a_drive_and_its_disk_is_empty_and_lasts(box: Box) -> None:
    box.cli(
        *("launch", IMAGE, "fresh", "--install", "--disk", "64Mi", "--os", "windows.11", "--cpu", "2"),
        *("--memory", "4Gi", "--cdrom", DRIVERS),
    )
    box.wait_phase("fresh", "Running")
    line = " ".join(_qemu_of("fresh"))
    assert line.count('"driver":"ide-cd"') == 2
    assert '"bootindex":1' in line
    assert '"bootindex":2' in line
    box.remove_vm("fresh")
