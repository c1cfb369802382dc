"""KubeVirt's own examples, asked of the server as a user does: what applies, and for the others what they lack.

They are KubeVirt's and not in this repository: KVEDGE_TEST_EXAMPLES names the directory `examples` of a checkout.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvedge.api.api_service import ApiRole
from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import SYSTEM_NAMESPACE
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.contract, pytest.mark.usefixtures("subresources_answer")]
KUBEVIRTS = f"/apis/kubevirt.io/v1/namespaces/{SYSTEM_NAMESPACE}/kubevirts"
DIRECTORY = Path(os.environ.get("KVEDGE_TEST_EXAMPLES") or "/none")
# By file, in words of the refusal.
LACKS = {
    "migration-job.yaml": 'the VMI "default/vmi-migratable" does not exist',
    "pgpu-resource-claim-tmpl.yaml": "could not find the requested resource",
    "vm-cirros-with-sidecar-hook-configmap.yaml": "sidecar feature gate is not enabled",
    "vmi-host-disk.yaml": "HostDisk feature gate is not enabled",
    "vmi-usb.yaml": "Host Devices feature gate is not enabled",
    "vmi-with-sidecar-hook-configmap.yaml": "sidecar feature gate is not enabled",
    "vmi-with-sidecar-hook.yaml": "sidecar feature gate is not enabled",
}
# Of these, the gates; with them open, the file applies.
GATES = ("HostDevices", "HostDisk", "Sidecar")
# Kinds of Kubernetes that not every server has.
OPTIONAL = {"pgpu-resource-claim-tmpl.yaml"}
# Where each kind of theirs is asked for.
PLURALS = {
    "ConfigMap": "configmaps",
    "MigrationPolicy": "migrationpolicies",
    "PersistentVolumeClaim": "persistentvolumeclaims",
    "PriorityClass": "priorityclasses",
    "Service": "services",
}
EVERYWHERE = {
    "MigrationPolicy",
    "PriorityClass",
    "VirtualMachineClusterInstancetype",
    "VirtualMachineClusterPreference",
}


def documents(path: Path) -> Iterator[JsonObject]:
    """What a file holds; a list is taken apart."""
    for document in yaml.safe_load_all(path.read_text()):
        if document:
            yield from document.get("items", [document])


def path_of(document: JsonObject) -> str:
    """Where it is created."""
    version, kind = document["apiVersion"], document["kind"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    plural = PLURALS.get(kind, f"{kind.lower()}s")
    return f"{root}/{plural}" if kind in EVERYWHERE else f"{root}/namespaces/default/{plural}"


def refusals(admin: KubeClient, path: Path) -> list[str]:
    """What the server says of those that it does not take."""
    found = []
    for document in documents(path):
        try:
            admin.request("POST", f"{path_of(document)}?dryRun=All", document)
        except KubeError as error:
            found.append(f"{document['kind']} {document['metadata'].get('name')}: {error}")
    return found


@pytest.fixture(params=[(), GATES], ids=["gates closed", "gates open"])
def gates(request: pytest.FixtureRequest, admin: KubeClient, api_role: ApiRole) -> Iterator[Sequence[str]]:
    """The feature gates that are open."""
    configuration = {"developerConfiguration": {"featureGates": list(request.param)}}
    body = {"apiVersion": "kubevirt.io/v1", "kind": "KubeVirt", "metadata": {"name": "kubevirt"}}
    made = admin.request("POST", KUBEVIRTS, {**body, "spec": {"configuration": configuration}})
    generation = made["metadata"]["generation"]
    wait_until(lambda: api_role.configuration.in_force.generation == generation, "the api role follows")
    yield request.param
    admin.request("DELETE", f"{KUBEVIRTS}/kubevirt")


@pytest.mark.skipif(not DIRECTORY.is_dir(), reason="KVEDGE_TEST_EXAMPLES names no directory of KubeVirt's examples")
def test_each_example_applies_or_is_refused_for_what_it_lacks(admin: KubeClient, gates: Sequence[str]) -> None:
    wrong: dict[str, Any] = {}
    files = sorted(DIRECTORY.glob("*.yaml"))
    assert len(files) > 40
    for path in files:
        said = refusals(admin, path)
        lack = LACKS.get(path.name)
        if gates and lack is not None and lack.endswith("gate is not enabled"):
            lack = None
        if lack is None and said:
            wrong[path.name] = said
        elif lack is not None and not any(lack in each for each in said) and (said or path.name not in OPTIONAL):
            wrong[path.name] = f"is not refused for {lack!r} but {said}"
    assert not wrong, "\n".join(f"{name}: {why}" for name, why in wrong.items())
