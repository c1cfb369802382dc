"""Nodes of macvtaps in a launcher's /dev: those of its guest, and no others. Needs root, and no macvtap."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

import pytest

from kvedge.handler.guest import tap_nodes
from kvedge.handler.guest.tap_nodes import keep_tap_nodes
from kvedge.handler.held_process import HeldProcess
from kvedge.handler.volumes import device_rules
from kvedge.network.binding.macvtap_binding import TapDevice
from kvedge.network.errors import NetworkError
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID
from kvedge.runtime.linux.cgroup_devices import ForeignProgram
from kvedge.storage.beneath import hold_directory

pytestmark = pytest.mark.machine

ONE, OTHER = TapDevice(3, os.makedev(246, 1)), TapDevice(4, os.makedev(246, 2))


class Launcher:
    """A process whose root is a directory."""

    def __init__(self, root: Path) -> None:
        self.dev = root / "dev"
        self.dev.mkdir()

    @contextmanager
    def root(self) -> Iterator[int]:
        with hold_directory(self.dev.parent) as opened:
            yield opened

    def text(self, name: str) -> str:
        """In no cgroup that confines it."""
        assert name == "cgroup"
        return "0::/\n"

    def keep(self, *devices: TapDevice) -> None:
        keep_tap_nodes(cast(HeldProcess, self), devices)

    def nodes(self) -> dict[str, int]:
        """The devices by their names, all of them the launcher's."""
        found = {}
        for path in self.dev.iterdir():
            facts = path.lstat()
            assert stat.S_ISCHR(facts.st_mode), path
            assert (facts.st_uid, facts.st_gid, stat.S_IMODE(facts.st_mode)) == (LAUNCHER_UID, LAUNCHER_GID, 0o660)
            found[path.name] = facts.st_rdev
        return found


@pytest.fixture
def launcher(tmp_path: Path) -> Launcher:
    return Launcher(tmp_path)


def test_a_launcher_has_the_devices_of_its_guest_alone(launcher: Launcher) -> None:
    launcher.keep(ONE, OTHER)
    assert launcher.nodes() == {"tap3": ONE.number, "tap4": OTHER.number}
    inode = (launcher.dev / "tap4").stat().st_ino
    launcher.keep(OTHER)
    assert launcher.nodes() == {"tap4": OTHER.number}
    assert (launcher.dev / "tap4").stat().st_ino == inode
    launcher.keep()
    assert launcher.nodes() == {}


def test_a_number_that_the_kernel_gave_to_another_link_is_no_longer_the_launchers(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied: list[int] = []
    monkeypatch.setattr(tap_nodes, "deny_device", lambda _launcher, number, _kind: denied.append(number))
    launcher.keep(ONE)
    launcher.keep(TapDevice(ONE.index, OTHER.number))
    assert launcher.nodes() == {"tap3": OTHER.number}
    assert denied == [ONE.number]


def test_what_a_killed_handler_left_is_taken_on(launcher: Launcher) -> None:
    os.mknod(launcher.dev / ".tap3", stat.S_IFCHR | 0o600, ONE.number)
    launcher.keep(ONE)
    assert launcher.nodes() == {"tap3": ONE.number}


def test_a_node_that_a_container_runtime_made_becomes_the_launchers(launcher: Launcher) -> None:
    os.mknod(launcher.dev / "tap3", stat.S_IFCHR | 0o600, ONE.number)
    launcher.keep(ONE)
    assert launcher.nodes() == {"tap3": ONE.number}


def test_nodes_of_the_hosts_own_are_left_alone(launcher: Launcher, tmp_path: Path) -> None:
    launcher.keep(OTHER)
    with pytest.raises(NetworkError, match="its /dev is the host's own"):
        keep_tap_nodes(cast(HeldProcess, launcher), [ONE], tmp_path)
    keep_tap_nodes(cast(HeldProcess, launcher), [], tmp_path)
    assert launcher.nodes() == {"tap4": OTHER.number}


def foreign(cgroup: int, change: object) -> None:
    raise ForeignProgram(errno.EPERM, "it uses maps")


def test_a_container_that_a_program_confines_says_who_can_give_it_the_device(
    launcher: Launcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device_rules, "devices_folder", lambda cgroups, mounts: None)
    monkeypatch.setattr(device_rules, "find_unified_path", lambda cgroups, mounts: (Path("/"), "."))
    monkeypatch.setattr(device_rules, "change_rules", foreign)
    monkeypatch.setattr(device_rules, "device_programs", lambda cgroup: 1)
    monkeypatch.setattr(device_rules, "find_attached_programs", lambda cgroup: ([1], 0))
    with pytest.raises(NetworkError, match=r"it uses maps\); have the device plugin of macvtap-cni give it") as refused:
        launcher.keep(ONE)
    assert "claim" not in str(refused.value)
    os.mknod(launcher.dev / "tap3", stat.S_IFCHR | 0o600, ONE.number)
    launcher.keep(ONE)
    assert launcher.nodes() == {"tap3": ONE.number}
