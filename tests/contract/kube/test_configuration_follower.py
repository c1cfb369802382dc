"""The configuration in force follows the KubeVirt object on an API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.kube.configuration_follower import ConfigurationFollower
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.patches import MergePatch
from kvedge.resources.configuration.configuration import DEFAULTS
from kvedge.resources.meta import ObjectMeta
from kvedge.resources.types.kubevirt import KubeVirt
from tests.support.either_server import EitherServer
from tests.support.scripted_api import refusing, scripted_api
from tests.support.waiting import wait_until


@pytest.fixture
def follower(either_server: EitherServer) -> Iterator[ConfigurationFollower]:
    found = ConfigurationFollower(either_server.admin, "test")
    found.start()
    assert found.wait(60)
    yield found
    found.stop()


def test_an_object_that_comes_changes_and_goes_is_followed(
    either_server: EitherServer, namespace: str, follower: ConfigurationFollower
) -> None:
    told = []
    follower.on_change(lambda found: told.append(found.cpu_model))
    assert follower.current == DEFAULTS
    spec = {"configuration": {"cpuModel": "A"}}
    either_server.admin.create(KubeVirt(metadata=ObjectMeta(name="kv", namespace=namespace), spec=spec))
    wait_until(lambda: follower.current.cpu_model == "A", "the object is followed")
    patch = MergePatch({"spec": {"configuration": {"cpuModel": "B"}}})
    either_server.admin.patch(KubeVirt, namespace, "kv", patch)
    wait_until(lambda: follower.current.cpu_model == "B", "the change is followed")
    bad = MergePatch({"spec": {"configuration": {"cpuModel": "a b"}}})
    either_server.admin.patch(KubeVirt, namespace, "kv", bad)
    wait_until(lambda: follower.in_force.is_earlier, "the bad value is seen")
    assert follower.current.cpu_model == "B"
    either_server.admin.patch(KubeVirt, namespace, "kv", MergePatch({"status": {"phase": "Deployed"}}), "status")
    either_server.admin.delete(KubeVirt, namespace, "kv")
    wait_until(lambda: follower.current == DEFAULTS, "defaults hold again")
    assert told == ["", "A", "B", ""]
    assert follower.failure() is None


def test_without_the_kind_defaults_hold(tmp_path: Path) -> None:
    with scripted_api(refusing(404, "NotFound", "the server could not find the requested resource")) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        follower = ConfigurationFollower(client, "test")
        follower.start()
        assert not follower.wait(0.3)
        assert follower.current == DEFAULTS
        assert follower.failure() is None
        follower.stop()
        client.close()
