"""Which unpacked versions may go: real processes, mounts and locks where they decide."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kvedge.appliance.host.launcher_link import point_link
from kvedge.appliance.host.tree_users import find_used_trees
from kvedge.appliance.install.install_steps import RemoveTrees, carry_out
from kvedge.appliance.install.unpacked_trees import remove_all_trees, remove_unused_trees
from tests.support.needs import NEEDS_ROOT
from tests.support.waiting import wait_until

OLD, OLDER, OWN = (hashlib.sha256(name).hexdigest() for name in (b"old", b"older", b"own"))


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = tmp_path / "data"
    for name in (OLD, OLDER, OWN):
        (directory / name / "lib").mkdir(parents=True)
        shutil.copy("/usr/bin/sleep", directory / name / "kvedge")
    return directory


@contextmanager
def running(*command: str) -> Iterator[int]:
    process = subprocess.Popen(command)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def test_trees_that_nobody_uses_are_removed_and_the_own_one_stays(data: Path) -> None:
    assert remove_unused_trees(data, None, OWN) == [OLD, OLDER]
    assert set(os.listdir(data)) == {".lock", ".starts", OWN}


def test_uninstalling_removes_all_trees_and_nothing_else_of_that_name(data: Path) -> None:
    for name in (".part-x", "database"):
        (data / name).mkdir()
    (data / ".lock").touch()
    carry_out([RemoveTrees(data)], lambda _: None)
    assert os.listdir(data) == ["database"]
    (data / "database").rmdir()
    remove_all_trees(data)
    assert not data.exists()


def test_a_tree_from_which_a_process_runs_stays(data: Path) -> None:
    with running(str(data / OLD / "kvedge"), "60"):
        assert remove_unused_trees(data, None, OWN) == [OLDER]
    assert (data / OLD / "kvedge").exists()
    assert remove_unused_trees(data, None, OWN) == [OLD]


@NEEDS_ROOT
def test_a_tree_stays_while_it_is_mounted_under_a_name_without_a_version(data: Path) -> None:
    """As a runtime mounts a hostPath that is a link: from where it points, at the link's own path in the Pod."""
    place, link = data.parent / "seen-in-the-pod", data.parent / "launcher"
    place.mkdir()
    point_link(link, data / OLD)
    script = 'mount --bind "$(realpath "$1")" "$2" && exec "$2/kvedge" 60'
    with running("unshare", "--mount", "sh", "-c", script, "sh", str(link), str(place)) as pid:
        wait_until(lambda: os.readlink(f"/proc/{pid}/exe") == str(place / "kvedge"), "it runs from its mount")
        point_link(link, data / OWN)
        assert OLD not in Path(f"/proc/{pid}/cmdline").read_text() + Path(f"/proc/{pid}/maps").read_text()
        assert remove_unused_trees(data, None, OWN) == [OLDER]
    assert remove_unused_trees(data, None, OWN) == [OLD]


def test_a_tree_that_a_pod_which_is_written_down_mounts_stays(data: Path, tmp_path: Path) -> None:
    pod = tmp_path / "pods" / "11111111-2222-3333-4444-555555555555"
    pod.mkdir(parents=True)
    (pod / "pod.json").write_text(
        f'{{"pod": {{"spec": {{"volumes": [{{"hostPath": {{"path": "{data / OLDER}"}}}}]}}}}}}'
    )
    assert remove_unused_trees(data, tmp_path / "pods", OWN) == [OLD]


def test_nothing_goes_while_somebody_is_about_to_start(data: Path) -> None:
    with (data / ".starts").open("w") as starts:
        fcntl.flock(starts, fcntl.LOCK_SH)
        assert remove_unused_trees(data, None, OWN) == []
    assert remove_unused_trees(data, None, OWN) == [OLD, OLDER]


def test_what_was_left_half_made_is_swept_but_not_while_somebody_unpacks(data: Path) -> None:
    (data / ".part-x").mkdir()
    with (data / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        remove_unused_trees(data, None, OWN)
        assert (data / ".part-x").exists()
    remove_unused_trees(data, None, OWN)
    assert not (data / ".part-x").exists()


def test_other_files_in_the_directory_are_left_alone(data: Path) -> None:
    (data / "notes").write_text("mine")
    remove_unused_trees(data, None, OWN)
    assert (data / "notes").read_text() == "mine"


def test_a_directory_that_does_not_exist_holds_nothing(tmp_path: Path) -> None:
    assert remove_unused_trees(tmp_path / "nowhere", None, "") == []


def process(proc: Path, pid: int, *, maps: str = "", mounts: str = "", space: str = "mnt:[1]") -> Path:
    """What /proc shows of a process."""
    entry = proc / str(pid)
    (entry / "ns").mkdir(parents=True)
    (entry / "cmdline").write_text("sleep\0infinity\0")
    (entry / "exe").symlink_to("/usr/bin/sleep")
    (entry / "maps").write_text(maps)
    (entry / "mountinfo").write_text(mounts)
    (entry / "ns/mnt").symlink_to(space)
    return entry


def test_a_library_that_is_mapped_and_a_mount_in_another_namespace_count(tmp_path: Path) -> None:
    process(tmp_path, 1, maps=f"7f00-7f01 r-xp 0 fe:00 12 /srv/data/{OLD}/lib/x.so\n")
    process(tmp_path, 2, mounts=f"9 8 254:0 /srv/data/{OLDER} /srv/data/{OLDER} ro - ext4 /dev/vda ro\n")
    assert find_used_trees({OLD, OLDER, OWN}, None, tmp_path) == {OLD, OLDER}


def test_a_process_that_vanishes_or_is_hidden_from_root_counts_by_its_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = process(tmp_path, 7, maps=OLDER)
    (entry / "exe").unlink()
    (entry / "cmdline").write_text(f"/srv/data/{OLD}/kvedge\0launcher\0")
    read = Path.read_bytes

    def refuse(path: Path) -> bytes:
        if path == entry / "maps":
            raise PermissionError(1, "Operation not permitted", str(path))
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", refuse)
    assert find_used_trees({OLD, OLDER}, None, tmp_path) == {OLD}


def test_a_process_that_ends_while_its_mounts_are_asked_for_has_none(tmp_path: Path) -> None:
    entry = process(tmp_path, 7, maps=f"7f00-7f01 r-xp 0 fe:00 12 /srv/data/{OLD}/lib/x.so\n")
    with subprocess.Popen(["true"]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        (entry / "mountinfo").unlink()
        (entry / "mountinfo").symlink_to(f"/proc/{ended.pid}/mountinfo")
        assert find_used_trees({OLD, OLDER}, None, tmp_path) == {OLD}
