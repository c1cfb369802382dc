"""A guest on one box that reads what a webhook of others has mounted into its launcher, by virtiofs."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import condition
from kvedge.resources.names import SYSTEM_NAMESPACE
from kvedge.resources.types.kubevirt import KubeVirt
from tests.machine.test_shared_directories import USER_DATA, in_guest_at
from tests.support.box import Box, small_vm
from tests.support.guest_box import guest_box
from tests.support.https_backend import HttpsBackend
from tests.support.waiting import wait_until

pytestmark = [
    pytest.mark.machine,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        not any(os.access(path, os.X_OK) for path in ("/usr/libexec/virtiofsd", "/usr/lib/qemu/virtiofsd")),
        reason="needs a virtiofsd",
    ),
]

IMAGE, NAME = "local/guest:1", "cloudy"
PLACE = "/var/run/secrets/cloud"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


def cloudy_vm(name: str = NAME, path: str = PLACE) -> JsonObject:
    vm = small_vm(name, IMAGE)
    spec: Any = vm["spec"]["template"]["spec"]
    spec["domain"]["devices"]["disks"].append({"name": "seed", "disk": {"bus": "virtio"}})
    spec["domain"]["devices"]["filesystems"] = [{"name": "cloud", "virtiofs": {}}]
    user_data = USER_DATA.replace("data settings words", "cloud")
    spec["serviceAccountName"] = "cloud"
    spec["volumes"] += [
        {"name": "seed", "cloudInitNoCloud": {"userData": user_data}},
        {"name": "cloud", "containerPath": {"path": path}},
    ]
    return vm


async def mount_identity(request: web.BaseRequest) -> web.StreamResponse:
    """The webhook of a cloud: a token of the Pod's account, and a file, in all containers."""
    review = await request.json()
    sources = [
        {"serviceAccountToken": {"path": "token", "audience": "cloud", "expirationSeconds": 3600}},
        {"configMap": {"name": "region", "items": [{"key": "region", "path": "region"}]}},
    ]
    patch = [
        {"op": "add", "path": "/spec/volumes/-", "value": {"name": "identity", "projected": {"sources": sources}}},
        *(
            {
                "op": "add",
                "path": f"/spec/containers/{index}/volumeMounts/-",
                "value": {"name": "identity", "mountPath": PLACE, "readOnly": True},
            }
            for index, _ in enumerate(review["request"]["object"]["spec"]["containers"])
        ),
    ]
    response = {
        "uid": review["request"]["uid"],
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": base64.b64encode(json.dumps(patch).encode()).decode(),
    }
    return web.json_response({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response})


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[JsonObject]:
    """Its configuration: called after kvedge's own, by its name."""
    backend = HttpsBackend(tmp_path / "cloud", mount_identity, "127.0.0.1", ["127.0.0.1"])
    port = backend.start()
    webhook = {
        "name": "identity.cloud.example",
        "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": backend.ca_bundle},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
        "objectSelector": {"matchLabels": {"kubevirt.io": "virt-launcher"}},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    yield {"metadata": {"name": "z-cloud"}, "webhooks": [webhook]}
    backend.stop()


@pytest.fixture
def box(tmp_path: Path) -> Iterator[Box]:
    (tmp_path / "box").mkdir()
    with guest_box(tmp_path / "box", "10.98.83.0/24", IMAGE) as found:
        wait_until(lambda: found.client.list(KubeVirt), "the KubeVirt object is made")
        gates = {"developerConfiguration": {"featureGates": ["ContainerPathVolumes"]}}
        found.client.patch(KubeVirt, SYSTEM_NAMESPACE, "kubevirt", MergePatch({"spec": {"configuration": gates}}))
        generation = found.client.get(KubeVirt, SYSTEM_NAMESPACE, "kubevirt").metadata.generation
        wait_until(
            lambda: found.client.get(KubeVirt, SYSTEM_NAMESPACE, "kubevirt").status.observed_generation == generation,
            "the gate is seen",
        )
        account = {"metadata": {"name": "cloud"}}
        found.client.request("POST", "/api/v1/namespaces/default/serviceaccounts", account)
        region = {"metadata": {"name": "region"}, "data": {"region": "edge-1"}}
        found.client.request("POST", "/api/v1/namespaces/default/configmaps", region)
        yield found


def test_a_guest_reads_what_a_webhook_mounts_into_its_launcher(box: Box, cloud: JsonObject) -> None:
    box.apply(cloudy_vm())

    def told() -> str:
        vmi = box.vmi(NAME)
        found = condition(vmi.status.conditions, "Synchronized") if vmi is not None else None
        return found.message if found is not None else ""

    words = f"ContainerPath volumes: [virtiofs-cloud]: no volume is mounted at {PLACE} in the container compute"
    wait_until(lambda: words in told(), "a launcher in which nothing is mounted is refused", 30)

    box.client.request("POST", CONFIGURATIONS, cloud)
    vmi = box.wait_phase(NAME, "Running")
    assert [item.type for item in vmi.status.conditions if item.type == "Synchronized"] == []
    box.wait_answer(NAME)
    address = box.wait_phase(NAME, "Running").status.interfaces[0].ip_address
    assert in_guest_at(address, "cat /cloud/region") == "edge-1"
    claims = in_guest_at(address, "cut -d. -f2 /cloud/token")
    assert json.loads(base64.urlsafe_b64decode(claims.strip() + "=="))["aud"] == ["cloud"]
    assert "Read-only file system" in in_guest_at(address, "echo mine >/cloud/region")
    assert "cannot" in in_guest_at(address, "touch /cloud/new 2>&1 | sed s/touch/cannot/")
    box.remove_vm(NAME)
