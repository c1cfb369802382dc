"""Which directories without a record are swept, and which may be a kubelet's and stay."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.pod.local_pods import LocalPods
from kvedge.standalone.agent.pod.place import pod_remains
from kvedge.standalone.agent.pod.place.pod_remains import foreign_part, remove_pod_directory
from kvedge.standalone.agent.pod.pod_record import new_record, write_pod_record
from tests.support.builders import plain_pod as pod

UID = "0d2b9d9c-4d1f-4d53-9b3c-6f1b3a0a8f6e"


def made(top: Path, *paths: str) -> PodFiles:
    """A Pod's directory with these files, and with directories for those that end with a slash."""
    files = PodFiles(top / UID)
    files.path.mkdir()
    for path in paths:
        place = files.path / path
        (place if path.endswith("/") else place.parent).mkdir(parents=True, exist_ok=True)
        if not path.endswith("/"):
            place.write_text("data")
    return files


@pytest.mark.parametrize(
    "paths",
    [
        pytest.param((), id="nothing yet"),
        pytest.param(("pod.json.new",), id="a record that was being written"),
        pytest.param(("volumes/",), id="no volume yet"),
        pytest.param(("etc-hosts", "resolv.conf.new"), id="files of its containers"),
        pytest.param(("volumes/kubernetes.io~empty-dir/d/f", "volumes/kubernetes.io~secret/s/"), id="volumes"),
        pytest.param(("volumeDevices/kubernetes.io~local-volume/d",), id="what led to its devices"),
        pytest.param(("containers/c.json", "containers/c.root/", "containers/c.lock", "logs/c.log"), id="containers"),
    ],
)
def test_what_an_agent_left_without_a_record_is_swept(tmp_path: Path, paths: tuple[str, ...]) -> None:
    files = made(tmp_path, *paths)
    assert foreign_part(files) is None
    assert LocalPods(tmp_path).adopt() == []
    assert not files.path.exists()


@pytest.mark.parametrize(
    ("paths", "part"),
    [
        pytest.param(("etc-hosts", "plugins/", "volumes/"), "plugins", id="what each kubelet makes"),
        pytest.param(("volume-subpaths/pv/app/0/",), "volume-subpaths", id="parts of volumes"),
        pytest.param(("volumes/kubernetes.io~csi/pv/mount/",), "volumes/kubernetes.io~csi", id="a volume of a driver"),
        pytest.param(
            ("volumeDevices/kubernetes.io~csi/pv",), "volumeDevices/kubernetes.io~csi", id="a driver's device"
        ),
        pytest.param(("containers/app/1c2d3e",), "containers/app", id="a container's last words"),
        pytest.param(("notes",), "notes", id="somebody's file"),
        pytest.param(("etc-hosts/",), "etc-hosts", id="a directory where a file should be"),
    ],
)
def test_what_no_agent_of_ours_makes_stays_and_is_told(
    tmp_path: Path, paths: tuple[str, ...], part: str, caplog: pytest.LogCaptureFixture
) -> None:
    files = made(tmp_path, *paths)
    before = sorted(files.path.rglob("*"))
    assert foreign_part(files) == files.path / part
    with caplog.at_level(logging.WARNING):
        assert LocalPods(tmp_path).adopt() == []
    assert sorted(files.path.rglob("*")) == before
    [told] = caplog.records
    assert str(files.path / part) in vars(told)["facts"]["note"]


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    files = PodFiles(tmp_path / "pods" / UID)
    files.path.parent.mkdir()
    (tmp_path / "elsewhere").mkdir()
    files.path.symlink_to(tmp_path / "elsewhere")
    assert foreign_part(files) == files.path
    LocalPods(files.path.parent).adopt()
    assert files.path.is_symlink()


def test_the_record_goes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = made(tmp_path, "etc-hosts", "resolv.conf", "logs/c.log", "containers/c.json")
    write_pod_record(files, new_record(pod()))
    there: list[bool] = []
    unlink, rmtree = Path.unlink, pod_remains.shutil.rmtree
    monkeypatch.setattr(
        Path, "unlink", lambda path, **rest: (there.append(files.record.exists()), unlink(path, **rest))
    )
    monkeypatch.setattr(pod_remains.shutil, "rmtree", lambda path: (there.append(files.record.exists()), rmtree(path)))
    remove_pod_directory(files)
    assert (there, files.path.exists()) == ([True] * 5, False)
    remove_pod_directory(files)
