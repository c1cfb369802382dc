# Tests: kvedge/client/vm_files/disk_images.py, kvedge/client/vm_files/machine_reader.py
"""Domains of libvirt become VMs; what would not boot is refused, everything else that is lost is told."""

from __future__ import annotations

import errno
import fcntl
import os
import platform
import struct
from pathlib import Path
from typing import Any

import pytest

from kvedge.client.errors import RefusedError
from kvedge.client.vm_files import disk_images
from kvedge.client.vm_files.archive_errors import DamagedFile, NotTrusted, UnknownFile
from kvedge.client.vm_files.libvirt_reader import read_domain
from kvedge.client.vm_files.machine_file import MachineFile
from kvedge.client.vm_files.machine_reader import open_machine
from tests.support.played_vm_api import disk_of

MIB = 1 << 20
DOMAIN = """<domain type='{type}'>
  <name>press line 1</name><uuid>7d2b3a52-6c52-4d8e-9a41-3b1f5d1e0c11</uuid>
  <memory unit='KiB'>1048576</memory><vcpu>{vcpus}</vcpu>
  <os {os}><type arch='{arch}' machine='{machine}'>hvm</type>{boot}</os>
  <cpu mode='host-passthrough'><topology sockets='1' dies='2' cores='2' threads='1'/></cpu>
  <clock offset='{clock}'/>
  <devices>
    <emulator>/usr/bin/qemu-system-x86_64</emulator>
    <disk type='{kind}' device='disk'><driver name='qemu' type='{format}'/><source file='{disk}'/>
      <target dev='vda' bus='virtio'/><serial>press-1</serial><boot order='1'/></disk>
    <disk type='file' device='cdrom'><target dev='sda' bus='sata'/></disk>
    <interface type='network'><mac address='52:54:00:AA:BB:CC'/><model type='virtio'/></interface>
    {devices}
  </devices>
</domain>"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "press.img"
    with path.open("wb") as file:
        file.truncate(40 * MIB)
        file.seek(20 * MIB)
        file.write(b"in the middle")
    return path


def domain(image: Path, **changes: str) -> Path:
    values = {
        "type": "kvm",
        "vcpus": "4",
        "os": "",
        "arch": platform.machine(),
        "machine": "pc-q35-7.2",
        "boot": "",
        "clock": "utc",
        "kind": "file",
        "format": "raw",
        "disk": str(image),
        "devices": "",
    }
    path = image.with_name("domain.xml")
    path.write_text(DOMAIN.format(**(values | changes)))
    return path


def spec_of(machine: MachineFile) -> Any:
    return machine.manifest.vm["spec"]["template"]["spec"]


def test_a_domain_becomes_a_vm(image: Path) -> None:
    machine = read_domain(domain(image))
    assert machine.manifest.vm["metadata"]["name"] == "press-line-1"
    found = spec_of(machine)["domain"]
    assert found["cpu"] == {"sockets": 1, "cores": 4, "threads": 1, "model": "host-passthrough"}
    assert found["memory"] == {"guest": "1024Mi"}
    assert found["firmware"] == {"uuid": "7d2b3a52-6c52-4d8e-9a41-3b1f5d1e0c11"}
    assert found["devices"]["disks"] == [
        {"name": "disk1", "disk": {"bus": "virtio"}, "serial": "press-1", "bootOrder": 1}
    ]
    nic = {"name": "default", "model": "virtio", "bridge": {}, "macAddress": "52:54:00:aa:bb:cc"}
    assert found["devices"]["interfaces"] == [nic]
    assert machine.warnings == []
    assert machine.sent_from == [f"disk vda is sent from {image}"]


def test_its_disk_is_sent_without_its_holes(image: Path) -> None:
    machine = read_domain(domain(image))
    with machine.sources[0].open() as stream:
        content = stream.read()
    assert disk_of(content) == image.read_bytes()
    assert len(content) < 12 * MIB


def test_a_raw_disk_that_looks_like_another_format_stays_raw(image: Path) -> None:
    with image.open("r+b") as file:
        file.write(b"QFI\xfb of the guest's own")
    machine = read_domain(domain(image))
    with machine.sources[0].open() as stream:
        assert disk_of(stream.read()) == image.read_bytes()


@pytest.mark.parametrize(
    "changes",
    [
        {"os": "firmware='efi'"},
        {"boot": "<loader type='pflash'>/usr/share/OVMF/OVMF_CODE.fd</loader>"},
    ],
)
def test_efi_is_kept(image: Path, changes: dict[str, str]) -> None:
    firmware = spec_of(read_domain(domain(image, **changes)))["domain"]["firmware"]
    assert firmware["bootloader"] == {"efi": {"secureBoot": False}}


def test_secure_boot_is_kept(image: Path) -> None:
    boot = "<loader secure='yes' type='pflash'/>"
    found = spec_of(read_domain(domain(image, boot=boot)))["domain"]
    assert found["firmware"]["bootloader"] == {"efi": {"secureBoot": True}}
    assert found["features"] == {"smm": {"enabled": True}}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"machine": "pc-i440fx-7.2"}, "becomes q35"),
        ({"clock": "localtime"}, "its clock shows local time"),
        ({"devices": "<hostdev/>"}, "its device <hostdev> has no equal"),
        ({"devices": "<tpm/>"}, "its TPM begins empty"),
        ({"devices": "<interface type='hostdev'/>"}, "a NIC of its host"),
        ({"devices": "<interface type='bridge'/>"}, "1 of its 2 interfaces are left out"),
        ({"boot": "<nvram>/vars</nvram>"}, "its EFI variables are left out"),
        (
            {"devices": "<disk device='cdrom'><source file='/x.iso'/><target dev='sdb'/></disk>"},
            "cdrom sdb with /x.iso",
        ),
    ],
)
def test_what_is_lost_is_told(image: Path, changes: dict[str, str], says: str) -> None:
    (warning,) = read_domain(domain(image, **changes)).warnings
    assert says in warning


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"type": "xen"}, "of the kind 'xen'"),
        ({"arch": "s390x"}, "architecture s390x"),
        ({"boot": "<kernel>/vmlinuz</kernel>"}, "boots a kernel of its host"),
        ({"kind": "network"}, "lies on network; copy it into a file"),
        ({"disk": "/nowhere/disk.img"}, "is no disk of this computer"),
        ({"disk": "disk.img"}, "is no disk of this computer"),
        ({"format": "vdi"}, "images of kind vdi are not taken"),
        ({"disk": "/etc/passwd"}, "is no raw disk: it has no whole sectors"),
        ({"format": "raw'/><encryption format='luks"}, "is encrypted by libvirt's key"),
    ],
)
def test_what_would_not_boot_is_refused(image: Path, changes: dict[str, str], says: str) -> None:
    with pytest.raises(RefusedError, match=says):
        read_domain(domain(image, **changes))


def test_a_disk_that_a_guest_writes_is_refused(image: Path) -> None:
    with image.open("r+b") as held:
        # As QEMU locks an image that it may write.
        lock = struct.pack("hhqqi4x", fcntl.F_RDLCK, os.SEEK_SET, 101, 1, 0)
        fcntl.fcntl(held.fileno(), fcntl.F_OFD_SETLK, lock)
        with pytest.raises(RefusedError, match="a guest that runs"):
            read_domain(domain(image))
    read_domain(domain(image))


def test_a_link_is_told_by_what_it_leads_to(image: Path, tmp_path: Path) -> None:
    link = tmp_path / "guest.img"
    link.symlink_to(image)
    assert read_domain(domain(image, disk=str(link))).sent_from == [f"disk vda is sent from {image}"]


def test_a_device_that_this_computer_uses_is_refused(image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, flags: int) -> int:
        assert flags & os.O_EXCL
        raise OSError(errno.EBUSY, "busy")

    monkeypatch.setattr(disk_images.stat, "S_ISBLK", lambda mode: True)
    monkeypatch.setattr(disk_images.os, "open", refuse)
    with pytest.raises(RefusedError, match="a device that this computer uses itself"):
        read_domain(domain(image))


def test_a_machine_of_too_many_disks_is_refused(image: Path) -> None:
    disk = f"<disk type='file'><source file='{image}'/><target dev='vdb'/></disk>"
    with pytest.raises(DamagedFile, match="more than 256 disks"):
        read_domain(domain(image, devices=disk * 256))


def test_another_document_is_no_domain(tmp_path: Path) -> None:
    path = tmp_path / "x.xml"
    path.write_text("<network/>")
    with pytest.raises(UnknownFile, match="virsh dumpxml"):
        read_domain(path)


@pytest.mark.parametrize("changes", [{"vcpus": "four"}, {"vcpus": "99999"}])
def test_numbers_that_cannot_be_are_refused(image: Path, changes: dict[str, str]) -> None:
    path = domain(image, **changes)
    path.write_text(path.read_text().replace("topology", "other"))
    with pytest.raises(DamagedFile):
        read_domain(path)


def test_the_kind_of_a_file_is_known_by_its_first_bytes(image: Path, tmp_path: Path) -> None:
    told: list[str] = []
    with open_machine(domain(image), None, lambda done, total: None, told.append) as machine:
        assert machine.manifest.source == "libvirt domain press line 1"
    with (
        pytest.raises(NotTrusted, match="has no signature"),
        open_machine(domain(image), b"key", lambda done, total: None, told.append),
    ):
        pass
    with (
        pytest.raises(UnknownFile, match="`kvedge image-upload`"),
        open_machine(image, None, lambda done, total: None, told.append),
    ):
        pass
