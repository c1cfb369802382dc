"""The handler's device plugins and a kubelet that comes, goes, and empties its directory: over real sockets."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.handler.node.device_plugin import SharedDevice
from kvedge.handler.node.device_plugins import DevicePlugins
from tests.support.played_kubelet import PlayedKubelet
from tests.support.waiting import wait_until

FIRST, SECOND = "devices.kubevirt.io/first", "devices.kubevirt.io/second"


class _Node:
    """A node's directory of plugins, its devices, and who meets there."""

    def __init__(self, directory: Path, state: Path) -> None:
        self.directory = directory
        self.device = state / "device"
        os.mknod(self.device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
        self.nodes = state / "nodes"
        devices = [SharedDevice(FIRST, str(self.device), self.nodes), SharedDevice(SECOND, "/dev/null")]
        self.plugins = DevicePlugins(directory, devices)
        self.kubelet = PlayedKubelet(directory)

    def start_kubelet(self) -> None:
        self.kubelet = PlayedKubelet(self.directory)
        self.kubelet.start()

    def has_both(self) -> bool:
        return self.kubelet.healthy(FIRST) == self.kubelet.healthy(SECOND) == 1000


@pytest.fixture
def node(tmp_path: Path) -> Iterator[_Node]:
    # Paths of unix sockets end at 108 bytes.
    with tempfile.TemporaryDirectory(prefix="kvt") as directory:
        made = _Node(Path(directory), tmp_path)
        made.start_kubelet()
        made.plugins.start()
        wait_until(made.has_both, "both are registered")
        yield made
        made.plugins.stop()
        made.kubelet.stop()
        assert list(Path(directory).glob("kvedge-*")) == []


def test_a_kubelet_that_is_started_again_gets_its_plugins_though_it_removed_their_sockets(node: _Node) -> None:
    before = (node.directory / "kvedge-first.sock").stat().st_ctime_ns
    node.kubelet.stop()
    node.start_kubelet()

    wait_until(node.has_both, "both are registered again")
    assert (node.directory / "kvedge-first.sock").stat().st_ctime_ns > before
    assert node.kubelet.registrations == [FIRST, SECOND]
    assert node.kubelet.allocate(SECOND, "second0").devices[0].host_path == "/dev/null"


def test_a_kubelet_that_is_away_for_long_is_found_when_it_comes(node: _Node) -> None:
    node.kubelet.stop()
    for path in node.directory.iterdir():
        path.unlink()
    wait_until(lambda: (node.directory / "kvedge-second.sock").exists(), "served anew without a kubelet")
    node.start_kubelet()

    wait_until(node.has_both, "both are registered again")


def test_a_socket_that_somebody_removes_is_served_anew_under_the_same_kubelet(node: _Node) -> None:
    (node.directory / "kvedge-first.sock").unlink()

    wait_until(lambda: node.kubelet.registrations.count(FIRST) >= 2, "registered again")
    wait_until(node.has_both, "both are there")
    assert node.kubelet.registrations.count(SECOND) == 1


def test_a_plugin_that_the_kubelet_has_lost_is_registered_again(node: _Node) -> None:
    node.kubelet.lose(SECOND)

    wait_until(lambda: node.kubelet.registrations.count(SECOND) == 2, "registered again")
    wait_until(node.has_both, "both are there")
    assert node.kubelet.registrations.count(FIRST) == 1


def test_a_kubelet_that_refuses_is_asked_again_ever_less_often(node: _Node, caplog: pytest.LogCaptureFixture) -> None:
    node.kubelet.stop()
    node.kubelet = PlayedKubelet(node.directory)
    node.kubelet.refuse = True
    node.kubelet.start()
    wait_until(lambda: len(_waits(caplog)) >= 2, "two refusals")
    node.kubelet.refuse = False

    wait_until(node.has_both, "both are registered")
    assert _waits(caplog)[:2] == [1.0, 2.0]


def _waits(caplog: pytest.LogCaptureFixture) -> list[float]:
    return [record.facts["again"] for record in caplog.records if record.message.endswith("are not registered")]


def test_a_device_that_goes_and_comes_back_is_told(node: _Node) -> None:
    node.device.unlink()
    wait_until(lambda: node.kubelet.healthy(FIRST) == 0, "it is gone")
    assert node.kubelet.healthy(SECOND) == 1000

    os.mknod(node.device, stat.S_IFCHR | 0o600, os.makedev(1, 3))
    wait_until(node.has_both, "it is back")


def test_a_container_is_given_a_node_that_is_the_launcher_s_already(node: _Node) -> None:
    given = node.kubelet.allocate(FIRST, "first0").devices[0]
    made = os.stat(given.host_path)

    assert (given.container_path, given.permissions) == (str(node.device), "mrw")
    assert Path(given.host_path).parent == node.nodes
    assert (made.st_uid, made.st_gid, stat.filemode(made.st_mode)) == (107, 107, "crw-rw----")
    assert made.st_rdev == os.makedev(1, 3)
    assert stat.S_IMODE(node.nodes.stat().st_mode) == 0o700
    assert os.stat(node.device).st_uid == 0, "the host's own stays as it is"


def test_a_node_that_somebody_changed_is_made_again(node: _Node) -> None:
    path = Path(node.kubelet.allocate(FIRST, "first0").devices[0].host_path)
    path.unlink()
    path.symlink_to("/dev/zero")
    again = Path(node.kubelet.allocate(FIRST, "first1").devices[0].host_path)

    assert again == path
    assert path.lstat().st_rdev == os.makedev(1, 3)
