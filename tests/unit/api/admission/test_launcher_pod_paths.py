"""The webhooks of launcher Pods with containerPath volumes."""

from __future__ import annotations

from typing import Any

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.mutation_plan import plan_mutation
from kvedge.api.admission.rules.subject import Cluster
from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import launcher_pod
from kvedge.resources.codec import JsonObject, encode
from kvedge.resources.shares.container_paths import PATH_DIRECTORY
from tests.support.builders import CONFIG, put, small_vmi, vmi_of
from tests.support.reviews import request

TOKEN = "/var/run/secrets/cloud"
NOW = "2026-01-01T00:00:00Z"


def a_pod(path: str = TOKEN) -> JsonObject:
    """As the controller makes it."""
    vmi = small_vmi()
    vmi["metadata"].update(name="web", namespace="default", uid="u-1")
    put(vmi, "spec.volumes[1]", {"name": "cloud", "containerPath": {"path": path}})
    put(vmi, "spec.domain.devices.filesystems", [{"name": "cloud", "virtiofs": {}}])
    made: JsonObject = encode(launcher_pod(vmi_of(vmi), CONFIG))
    return made


def mount(pod: JsonObject, path: str, volume: dict[str, Any]) -> None:
    """What a webhook of others does."""
    pod["spec"]["volumes"].append({"name": "cloud-token", **volume})
    for container in pod["spec"]["containers"]:
        container["volumeMounts"].append({"name": "cloud-token", "mountPath": path, "readOnly": True})


def of_pods(pod: JsonObject) -> Any:
    return request({"metadata": {}, **pod, "apiVersion": "v1", "kind": "Pod"})


def refusals(pod: JsonObject) -> list[str]:
    return [cause.message for cause in plan_verdict(of_pods(pod), Cluster("amd64")).causes]


def test_what_others_mount_is_mounted_where_it_is_served() -> None:
    pod = a_pod()
    assert plan_mutation(of_pods(pod), Cluster("amd64"), NOW) == []
    mount(pod, "/var/run/secrets", {"projected": {"sources": []}})
    (step,) = plan_mutation(of_pods(pod), Cluster("amd64"), NOW)
    assert step == {
        "op": "add",
        "path": "/spec/containers/1/volumeMounts/-",
        "value": {"name": "cloud-token", "mountPath": PATH_DIRECTORY, "readOnly": True, "subPath": "cloud"},
    }
    pod["spec"]["containers"][1]["volumeMounts"].append(step["value"])
    # Called again, it has nothing more to do.
    assert plan_mutation(of_pods(pod), Cluster("amd64"), NOW) == []
    assert refusals(pod) == []


def test_a_pod_in_which_nothing_is_mounted_there_is_refused_in_kubevirts_words() -> None:
    (said,) = refusals(a_pod("/elsewhere"))
    assert said == (
        "pod is missing virtiofs containers for ContainerPath volumes: [virtiofs-cloud]: no volume is mounted at"
        " /elsewhere in the container compute"
    )
    pod = a_pod()
    mount(pod, TOKEN, {"hostPath": {"path": "/etc"}})
    (said,) = refusals(pod)
    assert "volume cloud-token at /var/run/secrets/cloud is none of configMap, secret" in said


def test_a_pod_that_the_last_webhook_has_changed_behind_us_is_refused() -> None:
    pod = a_pod()
    mount(pod, TOKEN, {"emptyDir": {}})
    (said,) = refusals(pod)
    assert said.endswith("kvedge's webhook was not asked after the last change")


def test_all_other_pods_and_what_is_none_pass() -> None:
    for pod in ({"spec": {"containers": [{"name": "a"}]}}, {"spec": {"containers": 5}}, {}):
        assert plan_mutation(of_pods(pod), Cluster("amd64"), NOW) == []
        assert refusals(pod) == []
