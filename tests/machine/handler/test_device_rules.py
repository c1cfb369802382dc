# Tests: kvedge/handler/volumes/device_rules.py, kvedge/runtime/linux/cgroup_devices.py
"""Devices of a cgroup of version 2 that programs confine: real cgroups, programs of the kernel's, and processes."""

from __future__ import annotations

import errno
import os
import stat
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import pytest

from kvedge.handler.volumes.device_rules import DeviceNotAllowed, allow_in_cgroup, deny_in_cgroup
from kvedge.runtime.linux.cgroup_devices import attach_program, find_attached_programs, load_program
from kvedge.runtime.mount_table import mount_table, parse_mounts

# Of no driver: a process that may open it is told that there is none.
DISK: Final = os.makedev(240, 7)
OTHER: Final = os.makedev(240, 8)
NULL: Final = os.makedev(1, 3)
ALONE, MULTI = 0, 2
_OPEN: Final = """
import os, sys
open(sys.argv[1], "w").write(str(os.getpid()))
for path in sys.argv[2:]:
    try:
        os.close(os.open(path, os.O_RDWR))
        print(0)
    except OSError as error:
        print(error.errno)
"""


def _instructions(*instructions: tuple[int, int, int, int]) -> bytes:
    return b"".join(struct.pack("<BBhi", *each) for each in instructions)


# As a runtime attaches it: what has the numbers 1:3 may be opened, and nothing else.
_RUNTIME: Final = _instructions(
    (0x61, 0x12, 4, 0),
    (0x55, 0x02, 4, 1),
    (0x61, 0x12, 8, 0),
    (0x55, 0x02, 2, 3),
    (0xB7, 0x00, 0, 1),
    (0x95, 0, 0, 0),
    (0xB7, 0x00, 0, 0),
    (0x95, 0, 0, 0),
)
# It asks the kernel for the time first.
_WITH_A_CALL: Final = _instructions((0x85, 0, 0, 5), (0xB7, 0, 0, 1), (0x95, 0, 0, 0))


class _Cgroup:
    """A cgroup, perhaps with one inside, and device nodes for its processes to open."""

    def __init__(self, root: Path, path: str, nodes: Path) -> None:
        self.path = (root, path)
        self.folder = root / path
        self._nodes = {
            number: nodes / f"{kind}-{os.minor(number)}"
            for number, kind in ((DISK, stat.S_IFBLK), (OTHER, stat.S_IFBLK), (NULL, stat.S_IFCHR))
        }
        for number, node in self._nodes.items():
            os.mknod(node, (stat.S_IFCHR if number == NULL else stat.S_IFBLK) | 0o600, number)

    def attach(self, flags: int, instructions: bytes = _RUNTIME, below: str = ".") -> None:
        """Confine it as a container's runtime does."""
        opened = os.open(self.folder / below, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with load_program(instructions) as program:
                attach_program(opened, program, flags)
        finally:
            os.close(opened)

    def programs(self) -> list[int]:
        """The programs that are attached to it."""
        opened = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return find_attached_programs(opened)[0]
        finally:
            os.close(opened)

    def opened(self, *devices: int, below: str = ".") -> list[int]:
        """Which error a process of it meets at each device."""
        paths = [str(self._nodes[device]) for device in devices]
        command = [sys.executable, "-c", _OPEN, str(self.folder / below / "cgroup.procs"), *paths]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
        return [int(word) for word in said.stdout.split()]


@pytest.fixture
def cgroup(tmp_path: Path) -> Iterator[_Cgroup]:
    root = next((mount.target for mount in parse_mounts(mount_table()) if mount.kind == "cgroup2"), None)
    if root is None:
        pytest.skip("cgroup version 2 is not mounted here")
    with ExitStack() as stack:
        path = f"kvedge-test-devices-{os.getpid()}"
        for folder in (root / path, root / path / "container"):
            folder.mkdir()
            stack.callback(folder.rmdir)
        yield _Cgroup(root, path, tmp_path)


@pytest.mark.parametrize("flags", [ALONE, MULTI])
def test_a_device_is_allowed_and_taken_back_without_a_moment_of_anything_else(cgroup: _Cgroup, flags: int) -> None:
    cgroup.attach(flags)
    assert cgroup.opened(DISK, OTHER, NULL) == [errno.EPERM, errno.EPERM, 0]
    allow_in_cgroup(cgroup.path, DISK)
    assert cgroup.opened(DISK, OTHER, NULL) == [errno.ENXIO, errno.EPERM, 0]
    allow_in_cgroup(cgroup.path, OTHER)
    assert cgroup.opened(DISK, OTHER, NULL) == [errno.ENXIO, errno.ENXIO, 0]
    deny_in_cgroup(cgroup.path, DISK)
    assert cgroup.opened(DISK, OTHER, NULL) == [errno.EPERM, errno.ENXIO, 0]
    deny_in_cgroup(cgroup.path, OTHER)
    assert cgroup.opened(DISK, OTHER, NULL) == [errno.EPERM, errno.EPERM, 0]


def test_a_rule_that_is_there_replaces_nothing(cgroup: _Cgroup) -> None:
    cgroup.attach(MULTI)
    allow_in_cgroup(cgroup.path, DISK)
    programs = cgroup.programs()
    allow_in_cgroup(cgroup.path, DISK)
    deny_in_cgroup(cgroup.path, OTHER)
    assert cgroup.programs() == programs


def test_all_programs_of_a_cgroup_get_the_rule_as_all_must_agree(cgroup: _Cgroup) -> None:
    cgroup.attach(MULTI)
    cgroup.attach(MULTI)
    allow_in_cgroup(cgroup.path, DISK)
    assert len(cgroup.programs()) == 2
    assert cgroup.opened(DISK, NULL) == [errno.ENXIO, 0]


def test_a_container_in_a_cgroup_below_the_confined_one_gets_its_device(cgroup: _Cgroup) -> None:
    cgroup.attach(MULTI)
    root, path = cgroup.path
    allow_in_cgroup((root, f"{path}/container"), DISK)
    assert cgroup.opened(DISK, OTHER, below="container") == [errno.ENXIO, errno.EPERM]


def test_a_program_around_the_container_s_is_left_alone(cgroup: _Cgroup) -> None:
    cgroup.attach(MULTI)
    cgroup.attach(MULTI, below="container")
    root, path = cgroup.path
    with pytest.raises(DeviceNotAllowed, match="a cgroup around that of the launcher's container decides"):
        allow_in_cgroup((root, f"{path}/container"), DISK)
    deny_in_cgroup((root, f"{path}/container"), DISK)
    assert cgroup.opened(DISK, NULL, below="container") == [errno.EPERM, 0]


def test_a_program_that_cannot_be_loaded_again_is_refused_in_words(cgroup: _Cgroup) -> None:
    cgroup.attach(MULTI)
    cgroup.attach(MULTI, _WITH_A_CALL)
    with pytest.raises(DeviceNotAllowed, match=r"cannot extend .*use a claim of mode Filesystem"):
        allow_in_cgroup(cgroup.path, DISK)
    deny_in_cgroup(cgroup.path, DISK)
    assert cgroup.opened(DISK, NULL) == [errno.EPERM, 0]


def test_a_cgroup_without_programs_needs_no_rule(cgroup: _Cgroup) -> None:
    allow_in_cgroup(cgroup.path, DISK)
    deny_in_cgroup(cgroup.path, DISK)
    assert cgroup.programs() == []
    assert cgroup.opened(DISK) == [errno.ENXIO]
