"""Launcher Pods with what others mount into them, on both servers: kvedge's webhooks see each Pod that has some."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Final

import pytest

from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.shares.container_paths import PATH_DIRECTORY, PATH_VARIABLE

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("webhooks_are_called")]
PODS: Final = "/api/v1/namespaces/default/pods"
NAME: Final = "virt-launcher-cloudy-aaaaa"
TOKEN: Final = "/var/run/secrets/cloud"


def a_launcher(mounts: list[JsonObject], app: str = "virt-launcher", **volume: Any) -> JsonObject:
    """As it is after the webhook of somebody else."""
    served = {
        "name": "virtiofs-cloud",
        "image": "x",
        "env": [{"name": PATH_VARIABLE, "value": TOKEN}],
        "volumeMounts": [{"name": "meeting", "mountPath": "/var/run/kubevirt/virtiofs-containers"}],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": NAME, "labels": {"kubevirt.io": app}},
        "spec": {
            "nodeName": "nowhere",
            "terminationGracePeriodSeconds": 0,
            "automountServiceAccountToken": False,
            "containers": [{"name": "compute", "image": "x", "volumeMounts": mounts}, served],
            "volumes": [{"name": "meeting", "emptyDir": {}}, {"name": "identity", **(volume or {"emptyDir": {}})}],
        },
    }


@pytest.fixture(autouse=True)
def _gone(admin: KubeClient) -> Iterator[None]:
    yield
    with contextlib.suppress(NotFound):
        admin.request("DELETE", f"{PODS}/{NAME}", {"gracePeriodSeconds": 0})


def test_what_is_mounted_in_the_launcher_is_mounted_where_it_is_served(admin: KubeClient) -> None:
    made = admin.request("POST", PODS, a_launcher([{"name": "identity", "mountPath": "/var/run/secrets"}]))
    (found,) = (each for each in made["spec"]["containers"][1]["volumeMounts"] if each["name"] == "identity")
    assert found == {"name": "identity", "mountPath": PATH_DIRECTORY, "readOnly": True, "subPath": "cloud"}


@pytest.mark.parametrize(
    ("mounts", "volume", "why"),
    [
        ([], {}, f"no volume is mounted at {TOKEN} in the container compute"),
        ([{"name": "identity", "mountPath": TOKEN}], {"hostPath": {"path": "/etc"}}, "is none of configMap, secret"),
    ],
    ids=["nothing", "the host's"],
)
def test_a_launcher_in_which_nothing_of_the_kind_is_mounted_is_refused(
    admin: KubeClient, mounts: list[JsonObject], volume: JsonObject, why: str
) -> None:
    with pytest.raises(KubeError) as refused:
        admin.request("POST", PODS, a_launcher(mounts, **volume))
    assert "pod is missing virtiofs containers for ContainerPath volumes: [virtiofs-cloud]: " in refused.value.message
    assert why in refused.value.message


def test_pods_that_are_no_launchers_are_none_of_ours(admin: KubeClient) -> None:
    made = admin.request("POST", PODS, a_launcher([], app="else"))
    assert PATH_DIRECTORY not in {each["mountPath"] for each in made["spec"]["containers"][1]["volumeMounts"]}
