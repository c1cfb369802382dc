"""What a purge takes, and what it leaves: other people's files, in a directory of kvedge's or in a wrong one."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.appliance.install.data_directory import (
    holds_box,
    purge,
    purge_settings,
    strangers,
)

TREE = "data/" + "a" * 64
UID = "0d2b9d9c-4d1f-4d53-9b3c-6f1b3a0a8f6e"
OURS = (
    "state/layout", "state/pki/ca.key", "state/handler/x", "backup/kvedge-20260102T030405Z-r1234-0.1.0.db",
    "images/images/0a/tree/disk.img", "images/names/0b.json", "images/users/0a/u", "images/staging/new-1/f",
    "images/lock", "manifests/below/a.yaml", "qemu-capabilities/capabilities.json", "previous/kvedge", "kubeconfig",
    "bundle/kvedge", "kvedge-launcher.tar", f"kubelet/pods/{UID}/pod.json",
    f"kubelet/pods/{UID}/volumes/kubernetes.io~empty-dir/d/disk",
    "kubelet/cpu_manager_state", "nics/lock", "nics/kvb-eth0.lock", "nics/kvb-eth0.confirmed",
    f"kubelet/lost/{UID}/pod.json", f"kubelet/lost/{UID}/disks/disk",
    f"{TREE}/kvedge", "data/.lock", "data/.starts", "data/.part-x/f",
)  # fmt: skip
FOREIGN = (
    "notes", "images/fedora.qcow2", "backup/of-the-site.tar", "data/database/f", "music/song",
    f"kubelet/pods/{UID.replace('0d', '1d')}/volumes/f", "bundle/of-the-site",
    "nics/kvb-eth0.json",
)  # fmt: skip
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounting is root's")


def fill(directory: Path, *paths: str) -> None:
    for path in paths:
        (directory / path).parent.mkdir(parents=True, exist_ok=True)
        (directory / path).write_text("data")


def files(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if not path.is_dir()}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """The data directory of a box."""
    fill(tmp_path / "data", *OURS)
    (tmp_path / "data/launcher").symlink_to("nowhere")
    (tmp_path / "data/kubelet/device-plugins").mkdir()
    # Made without binding: the path of a socket must be short.
    os.mknod(tmp_path / "data/kubelet/device-plugins/kubelet.sock", stat.S_IFSOCK | 0o600)
    return tmp_path / "data"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    """Where somebody else's disk is; whatever it is mounted on is released at the end."""
    fill(tmp_path / "site", "names/file")
    yield tmp_path / "site"
    table = Path("/proc/self/mountinfo").read_text().splitlines()
    for target in [line.split()[4] for line in table if line.split()[4].startswith(f"{tmp_path}/")]:
        subprocess.run(["umount", target], check=True)


def test_all_of_a_box_goes_and_its_directory_with_it(data: Path) -> None:
    assert purge(data) == []
    assert not data.exists()
    assert purge(data) == []


def test_what_others_have_put_there_stays_and_is_told(data: Path) -> None:
    fill(data, *FOREIGN)
    left = purge(data)
    assert files(data) == set(FOREIGN)
    assert [str(path.relative_to(data)) for path in left] == [
        "backup/of-the-site.tar", "bundle/of-the-site", "data/database", "images/fedora.qcow2", "kubelet/pods", "music",
        "nics/kvb-eth0.json", "notes",
    ]  # fmt: skip


@needs_root
@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("images", "images/names"),
        ("images/names", "images/names"),
        ("state/handler/disk", "state"),
        ("manifests", "manifests"),
        ("data", "data/names"),
    ],
)
def test_other_mounts_are_left_as_they_are(data: Path, site: Path, where: str, told: str) -> None:
    (data / where).mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "--bind", site, data / where], check=True)
    left = purge(data)
    assert files(site) == {"names/file"}
    assert left == [data / told]


def test_links_are_not_followed(data: Path, site: Path) -> None:
    purge(data)
    fill(data, "state/layout")
    for name in ("images", "manifests"):
        (data / name).symlink_to(site)
    assert purge(data) == [data / "images"]
    assert files(site) == {"names/file"}


def test_a_directory_that_is_a_link_is_purged_where_it_is(data: Path) -> None:
    link = data.parent / "link"
    link.symlink_to(data)
    assert (purge(link), data.exists()) == ([], False)


@needs_root
def test_settings_go_but_nothing_that_is_mounted_among_them(tmp_path: Path, site: Path) -> None:
    fill(tmp_path / "etc", "config.yaml", "roles/api", "on-failure")
    (tmp_path / "etc/site").mkdir()
    subprocess.run(["mount", "--bind", site, tmp_path / "etc/site"], check=True)
    assert purge_settings(tmp_path / "etc") == [tmp_path / "etc/site"]
    assert files(tmp_path / "etc") == {"site/names/file"}


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param(("state/layout", "notes"), id="of a box"),
        pytest.param(("state/handler/x", "notes"), id="of a node"),
        pytest.param((f"kubelet/pods/{UID}/pod.json", "notes"), id="with Pods alone"),
        pytest.param((f"{TREE}/kvedge", "data/.lock", "lost+found/x"), id="empty until kvedge was called with it"),
        pytest.param((), id="not there"),
    ],
)
def test_kvedges_own_directories_are_known(tmp_path: Path, paths: tuple[str, ...]) -> None:
    fill(tmp_path / "data", *paths)
    assert strangers(tmp_path / "data") == []


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        pytest.param(("music/song", f"{TREE}/kvedge", "data/.lock"), ["music"], id="a wrong directory"),
        pytest.param(("data/database", f"{TREE}/kvedge"), ["data"], id="with a name of ours"),
        pytest.param(("state/lock",), ["state"], id="in which only the lock was taken"),
        pytest.param((f"kubelet/pods/{UID}/volumes/f",), ["kubelet"], id="of a kubelet"),
    ],
)
def test_other_directories_are_told_by_what_is_in_them(
    tmp_path: Path, paths: tuple[str, ...], names: list[str]
) -> None:
    fill(tmp_path, *paths)
    assert (strangers(tmp_path), holds_box(tmp_path)) == (names, False)


def test_a_purge_leaves_the_volumes_of_claims_which_go_by_a_call_of_their_own(tmp_path: Path) -> None:
    fill(tmp_path, "state/layout", f"volumes/{UID}/disk.img", f"volumes/.records/{UID}")
    assert purge(tmp_path) == [tmp_path / "volumes"]
    assert (tmp_path / "volumes" / UID / "disk.img").exists()


def test_a_purge_takes_a_place_for_volumes_that_never_held_one(tmp_path: Path) -> None:
    fill(tmp_path, "state/layout", "volumes/.kvedge-place", "volumes/.records/x")
    assert purge(tmp_path) == []
    assert not (tmp_path / "volumes").exists()
