"""Images' trees that the handler hands from their containers to the launcher, with real namespaces and mounts."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.handler.held_process import HeldProcess
from kvedge.handler.pod_errors import PodNotReady
from kvedge.storage.container_disk import ContainerDiskError, find_disk
from tests.machine.agent.containers import host_mounts
from tests.machine.handler.disk_pod import POD_UID, DiskPod, disk_pod, image, mounts_of
from tests.support.waiting import wait_until


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[DiskPod]:
    with disk_pod(tmp_path, ["root", "data"]) as made:
        yield made
    assert host_mounts(tmp_path) == [], "something is left on the host"


@pytest.fixture
def root_image(tmp_path: Path) -> Path:
    return image(tmp_path / "root-image", b"the root disk")


@pytest.fixture
def data_image(tmp_path: Path) -> Path:
    return image(tmp_path / "data-image", b"QFI\xfb the data disk")


def test_the_launcher_finds_each_disk_where_an_image_volume_would_be(
    pod: DiskPod, tree: Path, root_image: Path, data_image: Path
) -> None:
    pod.start_disk("root", root_image)
    pod.start_disk("data", data_image)
    launcher = pod.start_launcher(tree)
    pod.prepare(launcher)

    assert find_disk(pod.seen(launcher, "root")).format == "raw"
    assert find_disk(pod.seen(launcher, "data")).format == "qcow2"
    assert (pod.seen(launcher, "root") / "disk/disk.img").read_bytes() == b"the root disk"
    assert os.listdir(pod.volume("root")) == [], "the volume on the host stays empty"


def test_nothing_of_the_host_comes_with_the_image_and_nothing_can_be_done_with_it(
    pod: DiskPod, tree: Path, root_image: Path, data_image: Path
) -> None:
    pod.start_disk("root", root_image)
    pod.start_disk("data", data_image)
    launcher = pod.start_launcher(tree)
    pod.prepare(launcher)

    seen = pod.seen(launcher, "root")
    assert [os.listdir(seen / name) for name in ("usr", "lib", "proc", "dev")] == [[], [], [], []]
    handed = mounts_of(launcher, "/run/kubevirt-image-volume/disk_0")[-1]
    assert {"ro", "nosuid", "nodev", "noexec"} <= set(handed[5].split(","))
    assert not [field for field in handed if field.startswith(("shared:", "master:"))]
    with pytest.raises(OSError, match="Read-only"):
        (seen / "disk/disk.img").open("r+b")


def test_a_second_pass_changes_nothing(pod: DiskPod, tree: Path, root_image: Path, data_image: Path) -> None:
    pod.start_disk("root", root_image)
    pod.start_disk("data", data_image)
    launcher = pod.start_launcher(tree)
    pod.prepare(launcher)
    before = mounts_of(launcher, "/")
    pod.prepare(launcher)

    assert mounts_of(launcher, "/") == before


def test_a_launcher_that_comes_after_another_one_gets_the_disks_again(
    pod: DiskPod, tree: Path, root_image: Path, data_image: Path
) -> None:
    pod.start_disk("root", root_image)
    pod.start_disk("data", data_image)
    pod.prepare(pod.start_launcher(tree))
    pod.end("compute")
    launcher = pod.start_launcher(tree, "compute-again")
    assert os.listdir(pod.seen(launcher, "root")) == []
    pod.prepare(launcher)

    assert find_disk(pod.seen(launcher, "root")).size == len(b"the root disk")


def test_a_guest_keeps_its_disk_when_the_image_s_container_ends_or_is_started_again(
    pod: DiskPod, tree: Path, root_image: Path, data_image: Path
) -> None:
    pod.start_disk("root", root_image)
    pod.start_disk("data", data_image)
    launcher = pod.start_launcher(tree)
    pod.prepare(launcher)
    opened = (pod.seen(launcher, "root") / "disk/disk.img").open("rb")
    pod.end("root")
    pod.prepare(launcher)
    pod.start_disk("root", root_image, container="root-again")
    pod.prepare(launcher)

    with opened:
        assert opened.read() == b"the root disk"
    assert len(mounts_of(launcher, "/run/kubevirt-image-volume/disk_0")) == 2


def test_a_disk_whose_container_has_not_started_is_waited_for_with_its_name(
    pod: DiskPod, tree: Path, root_image: Path, data_image: Path
) -> None:
    pod.start_disk("root", root_image)
    launcher = pod.start_launcher(tree)
    with pytest.raises(PodNotReady) as waiting:
        pod.prepare(launcher)
    assert str(waiting.value) == (
        "the container volumedata with container disk data (registry/data:1) is not running (yet)"
    )

    pod.start_disk("data", data_image)
    pod.prepare(launcher)
    assert find_disk(pod.seen(launcher, "data")).path == "disk/disk.img"


def test_a_launcher_that_has_ended_is_tried_again_later(pod: DiskPod, tree: Path) -> None:
    with HeldProcess.of(pod.start_launcher(tree)) as launcher:
        pod.end("compute")
        with pytest.raises(PodNotReady, match=rf"cannot hand over .* process {launcher.pid} has ended"):
            pod.disks.prepare(pod.vmi, launcher, POD_UID)


def test_a_process_of_the_pod_that_has_left_the_node_s_users_is_no_image_s_container(
    pod: DiskPod, tree: Path, root_image: Path, data_image: Path
) -> None:
    pod.start_disk("root", root_image)
    inside = pod.start_disk("data", data_image)
    launcher = pod.start_launcher(tree)
    # In the container's namespaces, with the volume where the container has it: only its users are others.
    enter = ["nsenter", "--target", str(inside), "--mount", "--net"]
    liar = subprocess.Popen([*enter, "/usr/bin/unshare", "--user", "--mount", "/usr/bin/sleep", "1000"])
    try:
        wait_until(lambda: _runs(liar.pid, "sleep"), "a process in its own user namespace")
        pod.end("data")
        with pytest.raises(PodNotReady, match="container disk data"):
            pod.prepare(launcher)
    finally:
        liar.kill()
        liar.wait()


def _runs(pid: int, program: str) -> bool:
    return Path(f"/proc/{pid}/comm").read_text().strip() == program


def test_a_pod_with_image_volumes_is_left_alone(pod: DiskPod, tree: Path) -> None:
    launcher = pod.start_launcher(tree)
    for name in ("root", "data"):
        pod.volume(name).rmdir()
    before = mounts_of(launcher, "/")
    pod.prepare(launcher)

    assert mounts_of(launcher, "/") == before


def test_a_container_that_only_says_that_it_holds_a_disk_is_not_believed(
    pod: DiskPod, tree: Path, root_image: Path, data_image: Path
) -> None:
    pod.start_disk("root", root_image)
    pod.start_other("liar", tree, {"KVEDGE_CONTAINER_DISK": "disk_1", "NAME": "volumedata"})
    launcher = pod.start_launcher(tree)
    with pytest.raises(PodNotReady, match="container disk data"):
        pod.prepare(launcher)


def test_an_image_that_has_links_in_the_volume_s_way_shows_its_own_root_and_no_more(
    pod: DiskPod, tree: Path, root_image: Path, data_image: Path
) -> None:
    (root_image / "var").symlink_to("/elsewhere")
    (data_image / "var").mkdir()
    (data_image / "var/run").symlink_to("../../../../../../disk")
    pod.start_disk("root", root_image)
    pod.start_disk("data", data_image)
    launcher = pod.start_launcher(tree)
    pod.prepare(launcher)

    assert (pod.seen(launcher, "root") / "disk/disk.img").read_bytes() == b"the root disk"
    assert (pod.seen(launcher, "data") / "disk/disk.img").read_bytes().startswith(b"QFI")


@pytest.mark.parametrize(
    ("target", "words"),
    [
        pytest.param("/usr/share", "symbolic link", id="the folder is a link to the host's files"),
        pytest.param("../../../../../../../etc", "symbolic link", id="the folder is a link upwards"),
    ],
)
def test_a_disk_folder_that_is_a_link_is_refused(
    pod: DiskPod, tree: Path, root_image: Path, data_image: Path, target: str, words: str
) -> None:
    shutil.rmtree(root_image / "disk")
    (root_image / "disk").symlink_to(target)
    pod.start_disk("root", root_image)
    pod.start_disk("data", data_image)
    launcher = pod.start_launcher(tree)
    pod.prepare(launcher)

    with pytest.raises(ContainerDiskError, match=words):
        find_disk(pod.seen(launcher, "root"))


def test_a_disk_that_is_a_link_to_a_file_of_the_host_is_refused(
    pod: DiskPod, tree: Path, root_image: Path, data_image: Path
) -> None:
    (root_image / "disk/disk.img").unlink()
    (root_image / "disk/disk.img").symlink_to("/etc/passwd")
    pod.start_disk("root", root_image)
    pod.start_disk("data", data_image)
    launcher = pod.start_launcher(tree)
    pod.prepare(launcher)

    with pytest.raises(ContainerDiskError, match="links are not followed"):
        find_disk(pod.seen(launcher, "root"))


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(lambda top: shutil.rmtree(top / "disk"), "no folder /disk found in the image", id="no folder"),
        pytest.param(
            lambda top: (top / "disk/disk.img").unlink(), "no file found in folder /disk, no disk present", id="no file"
        ),
        pytest.param(
            lambda top: (top / "disk/more.img").touch(),
            "more than one file found in folder /disk, only one disk is allowed",
            id="two files",
        ),
        pytest.param(lambda top: (top / "disk/disk.img").chmod(0o600), "not readable by user 107", id="root's only"),
    ],
)
def test_an_image_without_a_usable_disk_gives_kubevirts_words(
    pod: DiskPod, tree: Path, root_image: Path, data_image: Path, spoil, words: str
) -> None:
    spoil(root_image)
    pod.start_disk("root", root_image)
    pod.start_disk("data", data_image)
    launcher = pod.start_launcher(tree)
    pod.prepare(launcher)

    with pytest.raises(ContainerDiskError, match=words):
        find_disk(pod.seen(launcher, "root"))


def test_a_disk_container_ends_at_once_when_it_is_asked_to(pod: DiskPod, root_image: Path) -> None:
    pod.start_disk("root", root_image)

    assert pod.stop("root") == 0
