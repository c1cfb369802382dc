# Tests: kvedge/client/vm_files/safe_xml.py, kvedge/client/vm_files/foreign_vm.py
"""Appliances of other programs become VMs; those that were made to do harm are refused."""

from __future__ import annotations

import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kvedge.client.errors import RefusedError
from kvedge.client.vm_files.archive_errors import DamagedFile, IncompleteFile, UnknownFile
from kvedge.client.vm_files.machine_file import MachineFile
from kvedge.client.vm_files.ova_reader import read_ova
from kvedge.client.vm_files.safe_xml import parse

MIB = 1 << 20
# A VMDK's header with 64 MiB, and its descriptor's place.
VMDK = b"KDMV" + (3).to_bytes(4, "little") + bytes(4) + (64 * MIB // 512).to_bytes(8, "little") + bytes(2000)
ENVELOPE = """<?xml version="1.0"?>
<Envelope xmlns="http://schemas.dmtf.org/ovf/envelope/1" xmlns:ovf="http://schemas.dmtf.org/ovf/envelope/1"
  xmlns:rasd="http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/CIM_ResourceAllocationSettingData"
  xmlns:vmw="http://www.vmware.com/schema/ovf">
  <References><File ovf:id="file1" ovf:href="{href}" {file}/></References>
  <DiskSection><Info/><Disk ovf:diskId="vmdisk1" ovf:fileRef="file1" ovf:capacity="64"
    ovf:capacityAllocationUnits="byte * 2^20" {disk}/></DiskSection>
  <VirtualSystem ovf:id="Shop Floor (old)"><Info/>
    <VirtualHardwareSection><Info/>
      <Item><rasd:ResourceType>3</rasd:ResourceType><rasd:VirtualQuantity>{cpus}</rasd:VirtualQuantity>
        <vmw:CoresPerSocket>2</vmw:CoresPerSocket></Item>
      <Item><rasd:ResourceType>4</rasd:ResourceType><rasd:AllocationUnits>{unit}</rasd:AllocationUnits>
        <rasd:VirtualQuantity>{memory}</rasd:VirtualQuantity></Item>
      <Item><rasd:ResourceType>6</rasd:ResourceType><rasd:ResourceSubType>lsilogic</rasd:ResourceSubType></Item>
      <Item><rasd:ResourceType>17</rasd:ResourceType><rasd:HostResource>{resource}</rasd:HostResource></Item>
      <Item><rasd:ResourceType>10</rasd:ResourceType><rasd:ResourceSubType>VmxNet3</rasd:ResourceSubType>
        <rasd:Address>00-50-56-AB-CD-EF</rasd:Address></Item>
      {items}
    </VirtualHardwareSection>
  </VirtualSystem>
</Envelope>"""


def envelope(**changes: str) -> bytes:
    values = {"href": "disk.vmdk", "file": "", "disk": "", "cpus": "4", "unit": "byte * 2^20", "memory": "2048"}
    return ENVELOPE.format(**(values | {"resource": "ovf:/disk/vmdisk1", "items": ""} | changes)).encode()


def pack(path: Path, *members: tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


def read(tmp_path: Path, descriptor: bytes, image: bytes = VMDK) -> MachineFile:
    return read_ova(pack(tmp_path / "x.ova", ("x.ovf", descriptor), ("disk.vmdk", image)))


def spec_of(machine: MachineFile) -> Any:
    return machine.manifest.vm["spec"]["template"]["spec"]


def test_an_appliance_becomes_a_vm(tmp_path: Path) -> None:
    machine = read(tmp_path, envelope())
    assert machine.manifest.vm["metadata"]["name"] == "shop-floor-old"
    assert machine.manifest.vm["spec"]["runStrategy"] == "Halted"
    domain = spec_of(machine)["domain"]
    assert domain["cpu"] == {"sockets": 2, "cores": 2, "threads": 1}
    assert domain["memory"] == {"guest": "2048Mi"}
    assert domain["devices"]["disks"] == [{"name": "disk1", "disk": {"bus": "sata"}}]
    nic = {"name": "default", "model": "e1000e", "bridge": {}, "macAddress": "00:50:56:ab:cd:ef"}
    assert domain["devices"]["interfaces"] == [nic]
    assert "firmware" not in domain
    (disk,) = machine.manifest.disks
    assert (disk.claim, disk.size) == ("shop-floor-old-disk1", 64 * MIB)
    with machine.sources[0].open() as image:
        assert image.read() == VMDK


def test_efi_is_kept(tmp_path: Path) -> None:
    machine = read(tmp_path, envelope(items='<vmw:Config vmw:key="firmware" vmw:value="efi"/>'))
    assert spec_of(machine)["domain"]["firmware"] == {"bootloader": {"efi": {"secureBoot": False}}}


def test_a_disk_is_as_large_as_its_image_says(tmp_path: Path) -> None:
    image = bytearray(VMDK)
    image[12:20] = (100 * MIB // 512).to_bytes(8, "little")
    assert read(tmp_path, envelope(), bytes(image)).manifest.disks[0].size == 100 * MIB


def test_what_has_no_equal_is_told(tmp_path: Path) -> None:
    usb = "<Item><rasd:ResourceType>23</rasd:ResourceType></Item>"
    odd = "<Item><rasd:ElementName>Floppy</rasd:ElementName><rasd:ResourceType>99</rasd:ResourceType></Item>"
    machine = read(tmp_path, envelope(items=usb + odd))
    assert machine.warnings == [
        "the appliance has no digests: whether it is whole is not known",
        "'Floppy' has no equal here, and is left out",
    ]


@pytest.mark.parametrize(("kind", "line"), [("sha256", "SHA256({})= {}"), ("sha1", "SHA1 ({}) = {}")])
def test_digests_are_compared(tmp_path: Path, kind: str, line: str) -> None:
    digest = hashlib.new(kind, VMDK).hexdigest()
    members = [("x.ovf", envelope()), ("disk.vmdk", VMDK)]
    text = f"{line.format('disk.vmdk', digest)}\n"
    good = text + line.format("x.ovf", hashlib.new(kind, envelope()).hexdigest())
    assert read_ova(pack(tmp_path / "good", *members, ("x.mf", good.encode()))).warnings == []
    assert read_ova(pack(tmp_path / "half", *members, ("x.mf", text.encode()))).warnings == [
        "the appliance has no digest of 'x.ovf': whether it is whole is not known"
    ]
    with pytest.raises(DamagedFile, match=r"name 'disk\.vmdk' twice"):
        read_ova(pack(tmp_path / "twice", *members, ("x.mf", (text * 2).encode())))
    bad = line.format("disk.vmdk", digest[::-1]).encode()
    with pytest.raises(DamagedFile, match=r"'disk\.vmdk' has another digest"):
        read_ova(pack(tmp_path / "bad", *members, ("x.mf", bad)))
    with pytest.raises(IncompleteFile, match=r"lacks 'other\.vmdk'"):
        read_ova(pack(tmp_path / "lacks", *members, ("x.mf", line.format("other.vmdk", digest).encode())))


BOMB = b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><x>&b;</x>'
FILE = b'<!DOCTYPE x [<!ENTITY f SYSTEM "file:///etc/passwd">]><x>&f;</x>'


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(BOMB, "has a document type", id="entities"),
        pytest.param(FILE, "has a document type", id="a-file"),
        pytest.param(b"<a>" * 100, "elements 64 deep", id="deep"),
        pytest.param(b"<a>", "is no XML", id="half"),
        pytest.param(b"", "is no XML", id="empty"),
        pytest.param(bytes(9 << 20), "are the most", id="large"),
        pytest.param(b'<?xml version="1.0" encoding="no-such"?><a/>', "no-such|unknown encoding", id="encoding"),
    ],
)
def test_xml_that_does_harm_is_refused(content: bytes, says: str) -> None:
    with pytest.raises(DamagedFile, match=says):
        parse(content, "it")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        pytest.param({"href": "../../etc/shadow"}, "is not in it", id="a-file-of-the-host"),
        pytest.param({"href": "/etc/shadow"}, "is not in it", id="a-whole-path"),
        pytest.param({"href": "http://example.com/x"}, "is not in it", id="a-url"),
        pytest.param({"file": 'ovf:chunkSize="1"'}, "not in it as one file", id="chunks"),
        pytest.param({"disk": 'ovf:parentRef="other"'}, "its parent", id="parent"),
        pytest.param({"resource": "ovf:/disk/other"}, "is not described", id="another-disk"),
        pytest.param({"cpus": "1000000"}, "number of CPUs that none has", id="cpus"),
        pytest.param({"cpus": "many"}, "is no number", id="no-number"),
        pytest.param({"memory": "9" * 19}, "a memory that none has", id="memory"),
        pytest.param({"unit": "bushels"}, "units that are not known", id="units"),
    ],
)
def test_a_description_that_cannot_be_is_refused(tmp_path: Path, changes: dict[str, str], says: str) -> None:
    with pytest.raises(DamagedFile, match=says):
        read(tmp_path, envelope(**changes))


def test_a_disk_of_an_impossible_size_is_refused(tmp_path: Path) -> None:
    image = bytearray(VMDK)
    image[12:20] = b"\xff" * 8
    with pytest.raises(DamagedFile, match="of a size that none has"):
        read(tmp_path, envelope(), bytes(image))


def test_a_qcow2_that_needs_another_file_is_refused(tmp_path: Path) -> None:
    name = b"/etc/shadow"
    head = b"QFI\xfb" + (3).to_bytes(4, "big") + (200).to_bytes(8, "big") + len(name).to_bytes(4, "big")
    with pytest.raises(RefusedError, match="needs its backing file '/etc/shadow'"):
        read(tmp_path, envelope(), head.ljust(200, b"\0") + name + bytes(2000))


def test_a_descriptor_that_names_other_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="in other files"):
        read(tmp_path, envelope(), b'# Disk DescriptorFile\nRW 1 FLAT "/etc/shadow" 0\n'.ljust(2000))


def test_a_vmdk_that_has_no_size_of_its_own_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="whose data may be in other files"):
        read(tmp_path, envelope(), VMDK[:12] + bytes(8) + VMDK[20:])
    with pytest.raises(RefusedError, match="images of kind vmdk are not taken"):
        read(tmp_path, envelope(), VMDK[:10])


def test_a_machine_of_too_many_parts_is_refused(tmp_path: Path) -> None:
    disk = (
        "<Item><rasd:ResourceType>17</rasd:ResourceType><rasd:HostResource>ovf:/disk/vmdisk1</rasd:HostResource></Item>"
    )
    with pytest.raises(DamagedFile, match="more than 256 disks"):
        read(tmp_path, envelope(items=disk * 300))
    with pytest.raises(DamagedFile, match="1000 are the most"):
        read(tmp_path, envelope(items=disk * 1000))


def test_a_link_in_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.ova"
    with tarfile.open(path, "w") as archive:
        link = tarfile.TarInfo("disk.vmdk")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/shadow"
        archive.addfile(link)
    with pytest.raises(DamagedFile, match="a member that no appliance has"):
        read_ova(path)


def test_one_that_was_cut_is_refused(tmp_path: Path) -> None:
    path = pack(tmp_path / "x.ova", ("x.ovf", envelope()), ("disk.vmdk", VMDK * 100))
    path.write_bytes(path.read_bytes()[:20_000])
    with pytest.raises(IncompleteFile, match="ends in the middle of"):
        read_ova(path)


def test_a_tar_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnknownFile, match=r"no description that ends in \.ovf"):
        read_ova(pack(tmp_path / "x.tar", ("readme", b"hello")))
