# Tests: kvedge/cli/host/install_verbs.py
"""A host does not change its role, nor leave its cluster, while it has guests that nobody would look after."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from kvedge.appliance.host import running_launchers
from kvedge.appliance.host.layout import Role
from kvedge.cli.exits import Exit, Refused
from kvedge.cli.host import install_verbs
from kvedge.cli.host.install_verbs import install, uninstall
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import Pod
from kvedge.standalone.agent.container.container_files import PodFiles
from kvedge.standalone.agent.pod.pod_record import new_record, write_pod_record

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="the verbs are root's")

UID = "0d2b9d9c-4d1f-4d53-9b3c-6f1b3a0a8f6e"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings with a data directory that the one file has not unpacked itself to: no launcher's path names it."""
    path = tmp_path / "config.yaml"
    path.write_text(f"data-dir: {tmp_path}/data\nkubelet-dir: {tmp_path}/kubelet\n")
    monkeypatch.setenv("KVEDGE_CONFIG", str(path))
    return path


@pytest.fixture
def box_pod(tmp_path: Path) -> Iterator[None]:
    """A Pod of the box, by its record, of which a container lives."""
    files = PodFiles(tmp_path / "data/kubelet/pods" / UID)
    write_pod_record(files, new_record(Pod(metadata=ObjectMeta(name="virt-launcher-web", namespace="shop", uid=UID))))
    lock = files.container("compute").lock
    lock.parent.mkdir()
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def refused(verb: click.Command, *words: str) -> Refused:
    error = CliRunner().invoke(verb, words, standalone_mode=False).exception
    assert isinstance(error, Refused), error
    return error


@pytest.mark.usefixtures("box_pod", "settings")
def test_a_box_whose_program_lies_elsewhere_keeps_its_role_while_a_pod_of_it_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(install_verbs, "role_here", lambda _: "standalone")
    error = refused(install, "--role", "server", "--dry-run")
    assert error.text == (
        "this host is installed as standalone, and VMs run on it: shop/virt-launcher-web;"
        " stop them before it becomes server"
    )
    assert error.code == Exit.HOST


@pytest.mark.usefixtures("box_pod", "settings")
def test_a_pod_that_runs_counts_though_its_record_is_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data/kubelet/pods" / UID / "pod.json").write_text("{")
    monkeypatch.setattr(install_verbs, "role_here", lambda _: "standalone")
    assert f"VMs run on it: {UID};" in refused(install, "--role", "agent", "--dry-run").text


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize(
    ("verb", "words"),
    [
        pytest.param(install, ("--role", "standalone", "--dry-run"), id="becomes a box"),
        pytest.param(uninstall, (), id="is uninstalled"),
    ],
)
@pytest.mark.parametrize("role", ["server", "agent"])
def test_a_node_is_asked_for_launchers_in_the_pods_of_its_kubelet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: Role, verb: click.Command, words: tuple[str, ...]
) -> None:
    asked = []

    def found(data_dir: Path, kubelet: Path) -> list[str]:
        asked.append((data_dir, kubelet))
        return ["shop/web"]

    monkeypatch.setattr(install_verbs, "role_here", lambda _: role)
    monkeypatch.setattr(running_launchers, "running_launchers", found)
    error = refused(verb, *words)
    assert ("shop/web" in error.text, error.code) == (True, Exit.HOST)
    assert asked == [(tmp_path / "data", tmp_path / "kubelet")]
