"""Pods learn of the host's name servers when it does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.resources.meta import ObjectMeta
from kvedge.standalone.agent.pod.local_pods import LocalPod, LocalPods
from kvedge.standalone.agent.pod.place import pod_place
from kvedge.standalone.agent.pod.place.resolv_conf import refresh_resolv_conf
from kvedge.standalone.agent.pod.pod_record import new_record
from kvedge.standalone.agent.pod.resolv_conf_keeper import ResolvConfKeeper
from tests.support.builders import plain_pod as pod

HOME = "nameserver 192.0.2.1\nsearch lan\n"
SHORTER = "nameserver 9.9.9.9\n"


class Scene:
    """One Pod with a place, and a host whose resolv.conf a test writes."""

    def __init__(self, directory: Path) -> None:
        self.host = ""
        self.pods = LocalPods(directory)
        self.keeper = ResolvConfKeeper(self.pods, lambda: self.host)
        self.local = self.take_on("00000000-0000-0000-0000-000000000001")
        self.local.files.path.mkdir()
        self.local.files.resolv.touch()
        # As its container has it mounted.
        self.mounted = self.local.files.resolv.open()

    def take_on(self, uid: str) -> LocalPod:
        made = pod()
        made.metadata = ObjectMeta(name="p", namespace="ns", uid=uid)
        return self.pods.take_on(made, new_record(made))

    def seen(self, host: str) -> str:
        """What the container reads once the host says this."""
        self.host = host
        self.keeper.look()
        self.mounted.seek(0)
        return self.mounted.read()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    yield made
    made.mounted.close()


def test_a_pod_that_was_made_before_the_network_was_there_learns_of_its_name_servers(scene: Scene) -> None:
    assert scene.seen("") == ""
    assert scene.seen(HOME) == HOME
    assert scene.seen(SHORTER) == SHORTER


def test_a_pod_keeps_its_name_servers_while_the_host_has_none_that_it_can_reach(scene: Scene) -> None:
    scene.seen(HOME)
    assert scene.seen("") == HOME
    assert scene.seen("nameserver 2001:db8::1\n") == HOME


def test_a_pod_without_a_place_is_made_none_and_keeps_no_other_from_its_own(scene: Scene) -> None:
    waiting = scene.take_on("00000000-0000-0000-0000-000000000000")
    assert scene.seen(HOME) == HOME
    assert not waiting.files.path.exists()


def test_a_place_that_is_made_again_leaves_its_containers_the_file_that_they_have_mounted(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pod_place, "host_resolv_conf", lambda: HOME)
    places = pod_place.Places(None, None, None, 0, None)  # type: ignore[arg-type]
    places._write_files(scene.local.pod, scene.local.files, "10.99.0.2")
    assert scene.mounted.read() == HOME


def test_who_reads_while_it_is_written_finds_nothing_of_the_old_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "resolv.conf"
    path.write_text(HOME)
    between: list[str] = []
    real = os.truncate

    def truncate(target: int, length: int) -> None:
        between.append(path.read_text())
        real(target, length)

    monkeypatch.setattr(os, "truncate", truncate)
    assert refresh_resolv_conf(path, SHORTER)
    assert between[0].rstrip("\n") == SHORTER.rstrip("\n")
    assert path.read_text() == SHORTER
    assert not refresh_resolv_conf(path, SHORTER)
