"""The document of a disk's copy, and how much QEMU says is left."""

from __future__ import annotations

from xml.etree import ElementTree

from kvedge.launcher.libvirt.copy_document import count_dirty_bytes, render_copy
from kvedge.launcher.libvirt.domain_disks import read_disks

DOMAIN = """<domain><devices>
<disk type='file' device='disk'><driver name='qemu' type='raw' cache='none' discard='unmap' io='native'/>
<source file='/old/disk.img'/><mirror type='file' job='copy' ready='yes'><format type='raw'/>
<source file='/new/disk.img'/></mirror><target dev='vda'/><alias name='ua-root'/></disk>
<disk type='file' device='disk'><source file='/other'/><target dev='vdb'/></disk>
</devices></domain>"""


def test_a_copy_is_opened_as_its_disk_is() -> None:
    found = render_copy(ElementTree.fromstring(DOMAIN), "vda", "/new/disk.img", block=False)
    driver = '<driver name="qemu" type="raw" cache="none" discard="unmap" />'
    assert found == f'<disk type="file" device="disk">{driver}<source file="/new/disk.img" /></disk>'
    found = render_copy(ElementTree.fromstring(DOMAIN), "vdb", "/dev/new", block=True)
    driver = '<driver name="qemu" type="raw" />'
    assert found == f'<disk type="block" device="disk">{driver}<source dev="/dev/new" /></disk>'


def test_a_disk_tells_of_its_copy() -> None:
    disk, other = read_disks(ElementTree.fromstring(DOMAIN))
    assert (disk.source, disk.mirror, disk.is_mirrored) == ("/old/disk.img", "/new/disk.img", True)
    assert (other.mirror, other.is_mirrored) == ("", False)


def test_bitmaps_of_others_do_not_count() -> None:
    nodes = [{"node-name": "a"}, {"dirty-bitmaps": [{"count": 65536}, {"name": "backup", "count": 9}]}]
    assert count_dirty_bytes(nodes) == 65536
