"""Which devices the kubelet gave to a Pod: by links and by nodes, and never by what others may write."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from kvedge.handler.volumes.given_devices import find_given_devices

FIRST, SECOND = os.makedev(7, 77), os.makedev(7, 78)


def entries(kubelet: Path, pod: str = "pod-1", plugin: str = "kubernetes.io~csi") -> Path:
    path = kubelet / "pods" / pod / "volumeDevices" / plugin
    path.mkdir(parents=True)
    return path


def node(path: Path, device: int) -> Path:
    try:
        os.mknod(path, stat.S_IFBLK | 0o600, device)
    except PermissionError:
        pytest.skip("only root makes device nodes")
    return path


def test_links_and_nodes_of_all_drivers_count_and_another_pod_s_do_not(tmp_path: Path) -> None:
    (entries(tmp_path) / "pv-1").symlink_to(node(tmp_path / "device", FIRST))
    node(entries(tmp_path, plugin="kubernetes.io~local-volume") / "pv-2", SECOND)
    node(entries(tmp_path, pod="pod-2") / "pv-3", os.makedev(7, 79))
    assert find_given_devices(tmp_path, "pod-1") == {FIRST, SECOND}


def test_what_is_no_block_device_counts_for_nothing(tmp_path: Path) -> None:
    place = entries(tmp_path)
    (place / "a-file").touch()
    (place / "a-character-device").symlink_to("/dev/null")
    (place / "nowhere").symlink_to("/nowhere")
    assert find_given_devices(tmp_path, "pod-1") == frozenset()
    assert find_given_devices(tmp_path, "pod-without-devices") == frozenset()


@pytest.mark.parametrize("uid", ["", "..", "../pods/pod-1", "pod-1/"])
def test_a_uid_that_is_a_way_leads_nowhere(tmp_path: Path, uid: str) -> None:
    node(entries(tmp_path) / "pv-1", FIRST)
    assert find_given_devices(tmp_path, uid) == frozenset()


@pytest.mark.parametrize("kind", ["everybody's", "another user's", "a link"])
def test_a_directory_that_others_may_fill_is_not_believed(tmp_path: Path, kind: str) -> None:
    place = entries(tmp_path)
    node(place / "pv-1", FIRST)
    if kind == "everybody's":
        place.chmod(0o777)
    elif kind == "another user's":
        os.chown(place, 107, 107)
    else:
        moved = place.rename(tmp_path / "moved")
        place.symlink_to(moved)
    assert find_given_devices(tmp_path, "pod-1") == frozenset()
