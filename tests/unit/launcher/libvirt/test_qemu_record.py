"""What kvedge reads of libvirt's record of a QEMU, and that nothing odd in its place does harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.launcher.libvirt.qemu_record import has_recorded_device, read_recorded_version, record_path

EMULATOR = "/usr/bin/qemu-system-x86_64"
# As libvirt 9.0 has it.
RECORD = b"""\
<qemuCaps>
  <emulator>/usr/bin/qemu-system-x86_64</emulator>
  <selfvers>9000000</selfvers>
  <flag name='sdl'/>
  <version>7002022</version>
  <kvmVersion>0</kvmVersion>
</qemuCaps>
"""


def test_a_record_has_the_name_that_libvirt_gives_it() -> None:
    name = "926803a9278e445ec919c2b6cbd8c1c449c75b26dcb1686b774314180376c725.xml"
    assert record_path("/r", EMULATOR) == f"/r/cache/qemu/capabilities/{name}"


@pytest.mark.parametrize(
    ("content", "version"),
    [
        (RECORD, 7_002_022),
        (b"", 0),
        (RECORD.replace(b"7002022", b"7" * 20), 0),
        (RECORD.replace(b"7002022", b"new"), 0),
        (None, 0),
    ],
    ids=["right", "empty", "too large", "no number", "missing"],
)
def test_the_version_is_that_of_the_record_or_is_not_known(tmp_path: Path, content: bytes | None, version: int) -> None:
    path = Path(record_path(str(tmp_path), EMULATOR))
    path.parent.mkdir(parents=True)
    if content is not None:
        path.write_bytes(content)
    assert read_recorded_version(str(tmp_path), EMULATOR) == version


def test_another_emulators_record_says_nothing(tmp_path: Path) -> None:
    path = Path(record_path(str(tmp_path), EMULATOR))
    path.parent.mkdir(parents=True)
    path.write_bytes(RECORD)
    assert read_recorded_version(str(tmp_path), "") == 0
    assert read_recorded_version(str(tmp_path), "/usr/bin/qemu-system-i386") == 0


@pytest.mark.parametrize(
    ("content", "there"), [(RECORD, True), (RECORD.replace(b"sdl", b"sdl2"), False), (None, None)],
    ids=["there", "not there", "nothing recorded"],
)  # fmt: skip
def test_a_device_is_there_or_not_or_it_is_not_known(tmp_path: Path, content: bytes | None, there: bool | None) -> None:
    if content is not None:
        path = Path(record_path(str(tmp_path), EMULATOR))
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
    assert has_recorded_device(str(tmp_path), EMULATOR, "sdl") is there
