"""Devices in a launcher's container, and whether its user can open them: real nodes in a container's own /dev."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.node.device_claims import DEVICE_NUMBERS, DeviceClaims, block_volumes
from kvedge.handler.pod_errors import PodNotReady
from kvedge.standalone.agent.container.container_state import Running
from tests.machine.agent.containers import Containers, containers
from tests.support.builders import vmi_with, with_volumes

# The kernel's null device, under another name: it opens everywhere.
NUMBERS = {"kvm": os.makedev(1, 3), "net/tun": os.makedev(1, 5)}
CLAIMS = DeviceClaims(NUMBERS)
CLAIMS_OF_NONE = DeviceClaims({})


class _Launcher:
    """A container, its process, and its /dev looked at from the host."""

    def __init__(self, made: Containers) -> None:
        script = "while ! [ -e /dev/shm/go ]; do sleep 0.1; done; echo hello > /dev/kvm && echo opened"
        self.files = made.start("compute", script)
        state = made.state(self.files)
        assert isinstance(state, Running)
        self.pid = state.pid
        self.dev = Path(f"/proc/{state.pid}/root/dev")
        self._made = made

    def node(self, name: str, number: int, mode: int = 0o600, owner: int = 0) -> Path:
        path = self.dev / name
        path.parent.mkdir(exist_ok=True)
        os.mknod(path, stat.S_IFCHR, number)
        path.chmod(mode)
        os.chown(path, owner, owner)
        return path

    def claim(self, claims: DeviceClaims = CLAIMS, blocks: Sequence[str] = (), *, passes: bool = False) -> None:
        """What the handler does before it starts the guest."""
        with HeldProcess.of(self.pid) as held:
            claims.claim(held, blocks, passes=passes)

    def says(self) -> str:
        (self.dev / "shm/go").touch()
        self._made.ended(self.files)
        return self.files.log.read_text()


@pytest.fixture
def launcher(tmp_path: Path, tree: Path) -> Iterator[_Launcher]:
    with containers(tmp_path, tree) as made:
        yield _Launcher(made)


def owner_of(path: Path) -> tuple[int, int, str]:
    found = path.lstat()
    return found.st_uid, found.st_gid, stat.filemode(found.st_mode)


def test_a_node_of_root_s_becomes_the_launcher_s_and_opens(launcher: _Launcher) -> None:
    kvm, tun = launcher.node("kvm", NUMBERS["kvm"]), launcher.node("net/tun", NUMBERS["net/tun"])
    launcher.claim()

    assert owner_of(kvm) == owner_of(tun) == (107, 107, "crw-rw----")
    assert launcher.says() == "opened\n"


@pytest.mark.parametrize(
    ("mode", "owner"),
    [
        pytest.param(0o600, 107, id="the launcher's own, as on one box"),
        pytest.param(0o666, 0, id="everybody's"),
    ],
)
def test_a_node_that_opens_already_stays_as_it_is(launcher: _Launcher, mode: int, owner: int) -> None:
    kvm = launcher.node("kvm", NUMBERS["kvm"], mode, owner)
    before = kvm.lstat()
    launcher.claim()

    assert kvm.lstat().st_ctime_ns == before.st_ctime_ns


def test_a_pod_without_devices_has_nothing_to_claim(launcher: _Launcher) -> None:
    launcher.claim()

    assert not (launcher.dev / "kvm").exists()


def test_the_host_s_own_node_is_left_alone_and_the_remedy_named(launcher: _Launcher) -> None:
    kvm = launcher.node("kvm", NUMBERS["kvm"])
    with pytest.raises(PodNotReady, match=r"host's own node, which user 107 cannot open; let .* udev"):
        launcher.claim(DeviceClaims(NUMBERS, host_dev=launcher.dev))

    assert owner_of(kvm) == (0, 0, "crw-------")


def test_the_host_s_own_node_is_used_when_it_opens(launcher: _Launcher) -> None:
    launcher.node("kvm", NUMBERS["kvm"], 0o666)
    launcher.claim(DeviceClaims(NUMBERS, host_dev=launcher.dev))


def test_another_device_under_the_name_is_refused(launcher: _Launcher) -> None:
    # A disk would be the worst: 107 could write to all of it.
    kvm = launcher.node("kvm", os.makedev(1, 1))
    with pytest.raises(PodNotReady, match="/dev/kvm of the launcher's Pod is not the device of that name"):
        launcher.claim()

    assert owner_of(kvm) == (0, 0, "crw-------")


def test_a_file_under_the_name_is_refused(launcher: _Launcher) -> None:
    (launcher.dev / "kvm").write_text("")
    with pytest.raises(PodNotReady, match="not the device"):
        launcher.claim()


@pytest.mark.parametrize("target", ["/etc/passwd", "null", "../../../../../../etc/passwd"])
def test_a_link_under_the_name_is_not_followed(launcher: _Launcher, target: str) -> None:
    (launcher.dev / "kvm").symlink_to(target)
    before = os.stat("/etc/passwd")
    with pytest.raises(PodNotReady, match="cannot look at the devices"):
        launcher.claim()

    assert os.stat("/etc/passwd") == before


def test_a_folder_that_is_a_link_is_not_followed(launcher: _Launcher) -> None:
    (launcher.dev / "elsewhere").mkdir()
    node = launcher.node("elsewhere/tun", NUMBERS["net/tun"])
    (launcher.dev / "net").symlink_to("elsewhere")
    with pytest.raises(PodNotReady, match="cannot look at the devices"):
        launcher.claim()

    assert owner_of(node) == (0, 0, "crw-------")


def test_a_launcher_that_has_ended_is_tried_again_later(launcher: _Launcher) -> None:
    with HeldProcess.of(launcher.pid) as held:
        launcher.says()
        with pytest.raises(PodNotReady, match=f"process {launcher.pid} has ended"):
            CLAIMS.claim(held)


@pytest.mark.parametrize("name", DEVICE_NUMBERS)
def test_the_numbers_are_those_that_this_host_s_kernel_gives(name: str) -> None:
    path = Path("/dev") / name
    if path.exists():
        assert path.stat().st_rdev == DEVICE_NUMBERS[name]
    else:
        assert os.major(DEVICE_NUMBERS[name]) == 10, "all of them are of the kernel's miscellaneous devices"


def test_the_block_device_of_a_claim_becomes_the_launcher_s_whatever_its_number(launcher: _Launcher) -> None:
    disk = launcher.dev / "data"
    os.mknod(disk, stat.S_IFBLK | 0o600, os.makedev(7, 200))
    launcher.claim(blocks=["data", "not-there"])

    assert owner_of(disk) == (107, 107, "brw-rw----")


@pytest.mark.parametrize("kind", ["a link", "a character device"])
def test_what_is_no_block_device_is_not_given_away_as_one(launcher: _Launcher, kind: str) -> None:
    if kind == "a link":
        (launcher.dev / "data").symlink_to("kvm")
    else:
        launcher.node("data", NUMBERS["kvm"])
    kvm = launcher.node("kvm", NUMBERS["net/tun"])
    with pytest.raises(PodNotReady):
        launcher.claim(CLAIMS_OF_NONE, ["data"])

    assert owner_of(kvm) == (0, 0, "crw-------")


def test_the_block_volumes_of_a_vmi_are_those_that_its_pod_has_from_the_start() -> None:
    def volume(name: str, **source: object) -> dict[str, object]:
        return {"name": name, "persistentVolumeClaim": {"claimName": name, **source}}

    modes = {"raw": "Block", "files": "Filesystem", "later": "Block"}
    status = [
        {"name": name, "target": "", "persistentVolumeClaimInfo": {"claimName": name, "volumeMode": mode}}
        for name, mode in modes.items()
    ]
    spec = with_volumes(volume("raw"), volume("files"), volume("later", hotpluggable=True))
    assert block_volumes(vmi_with(spec, {"volumeStatus": status})) == ["raw"]


def test_the_groups_of_vfio_become_the_launchers_when_its_guest_has_devices_of_the_node(
    launcher: _Launcher, tmp_path: Path
) -> None:
    hosts = tmp_path / "dev"
    (hosts / "vfio").mkdir(parents=True)
    for name in ("vfio", "42"):
        os.mknod(hosts / "vfio" / name, stat.S_IFCHR, NUMBERS["kvm"])
    vfio, group = launcher.node("vfio/vfio", NUMBERS["kvm"]), launcher.node("vfio/42", NUMBERS["kvm"])
    claims = DeviceClaims({}, hosts)
    launcher.claim(claims)
    assert owner_of(group) == (0, 0, "crw-------")
    launcher.claim(claims, passes=True)
    assert owner_of(vfio) == owner_of(group) == (107, 107, "crw-rw----")


def test_what_only_has_the_name_of_a_group_is_refused(launcher: _Launcher, tmp_path: Path) -> None:
    hosts = tmp_path / "dev"
    (hosts / "vfio").mkdir(parents=True)
    os.mknod(hosts / "vfio" / "42", stat.S_IFCHR, NUMBERS["kvm"])
    claims = DeviceClaims({}, hosts)
    launcher.claim(claims, passes=True)
    node = launcher.node("vfio/42", NUMBERS["net/tun"])
    with pytest.raises(PodNotReady, match="vfio/42 of the launcher's Pod is not the device of that name"):
        launcher.claim(claims, passes=True)
    node.unlink()
    launcher.node("vfio/7", NUMBERS["kvm"])
    with pytest.raises(PodNotReady, match="the node has no /dev/vfio/7"):
        launcher.claim(claims, passes=True)
