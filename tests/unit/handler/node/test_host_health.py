# Tests: kvedge/resources/alarms/node_health.py
"""What the handler says of its host: each file system once, none of a network, and nothing that it cannot read."""

from __future__ import annotations

from pathlib import Path

import pytest

from kvedge.handler.node.host_health import HostHealth, find_kvm
from kvedge.handler.node.kvm_check import Accelerator
from kvedge.handler.node.node_manifest import NodeCapabilities, node_patch
from kvedge.resources.alarms.node_health import HOST_HEALTH, NodeHealth, read_health
from kvedge.resources.meta import ObjectMeta
from tests.support.clocks import FakeClock

CSI = "pods/{uid}/volumes/kubernetes.io~csi/{name}/mount"


def a_table(*mounts: tuple[Path, str]) -> str:
    """A kernel's table of mounts."""
    return "".join(f"1 2 0:1 / {target} rw - {kind} none rw\n" for target, kind in mounts)


def a_host(tmp_path: Path, *mounts: tuple[Path, str], places: tuple[Path, ...] = ()) -> NodeHealth:
    table = a_table(*mounts)
    return HostHealth(places, tmp_path / "pods", tmp_path / "kubeconfig", lambda: "yes", lambda: table).read()


def test_a_file_system_counts_once_however_many_directories_are_on_it(tmp_path: Path) -> None:
    found = a_host(tmp_path, (Path("/"), "ext4"), places=(tmp_path, Path("/")))
    assert list(found.disks) == ["/"]
    assert 0 <= found.disks["/"] <= 100


def test_a_claim_on_a_file_system_of_its_own_is_known_by_its_volume(tmp_path: Path) -> None:
    volume = tmp_path / CSI.format(uid="u1", name="pvc-7")
    volume.mkdir(parents=True)
    found = a_host(tmp_path, (volume, "xfs"), (tmp_path / "pods/u1/volumes/elsewhere", "xfs"))
    assert list(found.volumes) == ["pvc-7"]
    # One that lies on a file system of the host is told of with that.
    found = a_host(tmp_path, (Path("/"), "ext4"), (volume, "ext4"), places=(tmp_path,))
    assert found.volumes == {}


def test_a_file_system_of_a_network_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touched = list[Path]()
    monkeypatch.setattr("kvedge.handler.node.host_health._measure", touched.append)
    volume = tmp_path / CSI.format(uid="u1", name="pvc-7")
    found = a_host(tmp_path, (Path("/srv"), "nfs4"), (volume, "fuse.sshfs"), places=(Path("/srv/kvedge"),))
    assert (found.disks, found.volumes, touched) == ({}, {}, [])


def test_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    def fail() -> str:
        raise OSError("no /proc")

    found = HostHealth((tmp_path / "none",), tmp_path, tmp_path / "none", lambda: "", fail).read()
    assert (found.disks, found.volumes, found.certificate_end) == ({}, {}, "")
    assert found.memory is not None
    assert 0 < found.memory <= 100


def test_kvm_is_lost_only_where_nobody_wanted_emulation() -> None:
    assert find_kvm(emulation=True, is_wanted=True) == "off"
    assert find_kvm(emulation=True, is_wanted=False) == "no"
    assert find_kvm(emulation=False, is_wanted=False) == ("yes" if Path("/dev/kvm").exists() else "no")


def test_the_node_says_it_in_one_annotation() -> None:
    health = NodeHealth(disks={"/": 47}, memory=30, clock=True, kvm="yes", certificate_end="2027-01-01T00:00:00Z")
    patch = node_patch(
        ObjectMeta(),
        NodeCapabilities(),
        Accelerator(emulation=False, detail="KVM"),
        "a:1",
        FakeClock().now(),
        schedulable=True,
        health=health,
    )
    assert read_health(patch["metadata"]["annotations"]) == health
    assert HOST_HEALTH.startswith("kvedge.io/")
