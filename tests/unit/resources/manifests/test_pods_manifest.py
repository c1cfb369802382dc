"""kvedge as Pods: what each may, and that they fit the rest of k3s/."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.pods_manifest import control_plane, daemonset, image_name
from kvedge.resources.manifests.rbac_manifest import rbac_files
from kvedge.resources.names import LAUNCHER_IMAGE
from kvedge.runtime.settings import setting_facts

HANDLER = daemonset("0.1.0")
CONTROL = control_plane("0.1.0")
DEPLOYMENTS = [item for item in CONTROL if item["kind"] == "Deployment"]
EVERY = [HANDLER, *DEPLOYMENTS]


def pod(workload: JsonObject) -> Any:
    return workload["spec"]["template"]["spec"]


@pytest.mark.parametrize("workload", EVERY, ids=lambda item: item["metadata"]["name"])
def test_each_speaks_as_an_account_that_has_rights(workload: JsonObject) -> None:
    documents = [document for documents in rbac_files().values() for document in documents]
    accounts = [item["metadata"]["name"] for item in documents if item["kind"] == "ServiceAccount"]
    assert pod(workload)["serviceAccountName"] in accounts
    assert pod(workload)["containers"][0]["imagePullPolicy"] == "Never"


@pytest.mark.parametrize("workload", EVERY, ids=lambda item: item["metadata"]["name"])
def test_what_they_are_told_are_settings(workload: JsonObject) -> None:
    # A Service named kvedge-api would put variables of this form beside them.
    assert pod(workload)["enableServiceLinks"] is False
    names = {entry["name"] for entry in pod(workload)["containers"][0]["env"]}
    assert {name for name in names if name.startswith("KVEDGE_")} <= {facts.variable for facts in setting_facts()}


@pytest.mark.parametrize("workload", DEPLOYMENTS, ids=lambda item: item["metadata"]["name"])
def test_the_control_plane_has_no_privileges_and_may_lose_a_pod(workload: JsonObject) -> None:
    spec, (container,) = pod(workload), pod(workload)["containers"]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    from_host = [volume for volume in spec["volumes"] if "hostPath" in volume]
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert [volume["hostPath"]["path"] for volume in from_host] == ["/usr"]
    assert all(mounts[volume["name"]]["readOnly"] for volume in from_host)
    assert workload["spec"]["replicas"] == 2
    (budget,) = [
        item
        for item in CONTROL
        if item["kind"] == "PodDisruptionBudget" and item["metadata"]["name"] == workload["metadata"]["name"]
    ]
    assert budget["spec"] == {"minAvailable": 1, "selector": workload["spec"]["selector"]}


def test_a_container_without_rights_keeps_the_launchers_image_on_each_node() -> None:
    (kept,) = pod(HANDLER)["initContainers"]
    assert (kept["image"], kept["imagePullPolicy"]) == (LAUNCHER_IMAGE, "Never")
    may = kept["securityContext"]
    assert (may["privileged"], may["runAsNonRoot"], may["capabilities"]) == (False, True, {"drop": ["ALL"]})
    assert all(mount["readOnly"] for mount in kept["volumeMounts"])


def test_launchers_find_the_program_where_the_handler_unpacks_it() -> None:
    mounts = {mount["name"]: mount["mountPath"] for mount in pod(HANDLER)["containers"][0]["volumeMounts"]}
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in pod(HANDLER)["volumes"]}
    # The link that it makes must mean the same on the host.
    assert mounts["data"] == paths["data"] == "/var/lib/kvedge"
    assert mounts["kubelet"] == paths["kubelet"]
    assert mounts == paths


def test_the_api_is_reached_through_a_service_that_selects_its_pods() -> None:
    (service,) = [item for item in CONTROL if item["kind"] == "Service"]
    (api,) = [item for item in DEPLOYMENTS if item["metadata"]["name"] == "kvedge-api"]
    assert service["spec"]["selector"].items() <= api["spec"]["template"]["metadata"]["labels"].items()
    (port,) = pod(api)["containers"][0]["ports"]
    assert service["spec"]["ports"][0]["targetPort"] == port["containerPort"]
    assert {"name": "KVEDGE_API_ADDRESS", "value": f"0.0.0.0:{port['containerPort']}"} in pod(api)["containers"][0][
        "env"
    ]


def test_a_build_of_ones_own_has_a_tag_too() -> None:
    assert image_name("0.2.0+dev.1") == "kvedge.local/kvedge:0.2.0_dev.1"
