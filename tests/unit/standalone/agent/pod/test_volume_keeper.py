"""Running Pods have what their Secrets and ConfigMaps hold now."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any, cast

import pytest

from kvedge.kube.errors import Unavailable
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.core import ConfigMap, ConfigMapVolume, PodVolume, Secret, SecretVolume
from kvedge.standalone.agent.container.atomic_files import FileContent, write_files
from kvedge.standalone.agent.pod.local_pods import LocalPods
from kvedge.standalone.agent.pod.pod_record import new_record
from kvedge.standalone.agent.pod.volume_keeper import VolumeKeeper
from tests.support.builders import plain_pod


class PlayedReader:
    """The API's Secrets and ConfigMaps."""

    def __init__(self) -> None:
        self.secrets: dict[str, dict[str, str]] = {"words": {"a": "1"}}
        self.maps: dict[str, dict[str, str]] = {"site": {"b": "2"}}
        self.is_away = False

    def secret(self, namespace: str, name: str) -> Secret | None:
        if self.is_away:
            raise Unavailable(503, "ServiceUnavailable", "nobody answers")
        found = self.secrets.get(name)
        data = {key: base64.b64encode(value.encode()).decode() for key, value in (found or {}).items()}
        return None if found is None else Secret(data=data)

    def config_map(self, namespace: str, name: str) -> ConfigMap | None:
        found = self.maps.get(name)
        return None if found is None else ConfigMap(data=found)


class Scene:
    """One Pod with a Secret and a ConfigMap."""

    def __init__(self, directory: Path) -> None:
        self.reader, self.pods = PlayedReader(), LocalPods(directory)
        self.keeper = VolumeKeeper(self.pods, cast("Any", self.reader))
        pod = plain_pod()
        pod.metadata = ObjectMeta(name="p", namespace="ns", uid="00000000-0000-0000-0000-000000000001")
        pod.spec.volumes = [
            PodVolume(name="s", secret=SecretVolume(secret_name="words")),
            PodVolume(name="c", config_map=ConfigMapVolume(name="site")),
        ]
        self.local = self.pods.take_on(pod, new_record(pod))
        # Its network is made.
        self.local.released = False
        self.secret, self.map = self.local.files.volume("secret", "s"), self.local.files.volume("configmap", "c")
        for target, files in ((self.secret, {"a": "1"}), (self.map, {"b": "2"})):
            target.mkdir(parents=True)
            write_files(target, {name: FileContent(text.encode(), 0o644) for name, text in files.items()}, None)

    def look(self) -> tuple[dict[str, str], dict[str, str]]:
        """What the Pod has after a look."""
        self.keeper.look()
        first, second = (
            {path.name: path.read_text() for path in target.iterdir() if not path.name.startswith("..")}
            for target in (self.secret, self.map)
        )
        return first, second


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    # A mount is root's to make.
    monkeypatch.setattr(Path, "is_mount", lambda path: path.is_dir())
    return Scene(tmp_path)


def test_what_changes_in_the_api_changes_in_the_pod_as_a_whole(scene: Scene) -> None:
    scene.reader.secrets["words"] = {"a": "3", "x": "4"}
    scene.reader.maps["site"] = {"y": "5"}
    assert scene.look() == ({"a": "3", "x": "4"}, {"y": "5"})


def test_what_stays_is_not_written_again(scene: Scene) -> None:
    before = [(target / "..data").readlink() for target in (scene.secret, scene.map)]
    scene.look()
    assert [(target / "..data").readlink() for target in (scene.secret, scene.map)] == before


def test_what_is_gone_and_an_api_that_is_away_leave_the_pod_what_it_has(scene: Scene) -> None:
    scene.reader.secrets.clear()
    scene.reader.maps.clear()
    assert scene.look() == ({"a": "1"}, {"b": "2"})
    scene.reader.is_away = True
    assert scene.look() == ({"a": "1"}, {"b": "2"})


def test_a_secret_is_never_written_to_a_disk(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    scene.reader.secrets["words"] = {"a": "3"}
    monkeypatch.setattr(Path, "is_mount", lambda path: False)
    assert scene.look()[0] == {"a": "1"}


def test_a_pod_that_is_to_end_is_left_alone(scene: Scene) -> None:
    scene.reader.secrets["words"] = {"a": "3"}
    scene.local.stop_asked_at = 1.0
    assert scene.look()[0] == {"a": "1"}
