"""The table of built-in types, held against the types of the official Python client."""

from __future__ import annotations

from typing import Any

import kubernetes
import kubernetes.client.models as models
import pytest

from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN
from kvedge.standalone.apiserver.kinds.types.builtin_schemas import (
    META_PACKAGE,
    all_types,
    metadata_schema,
    resolve,
    schema_of,
)

# Types that Kubernetes has one for each use of; here they are one.
_SAME = {
    "KeySelector": "V1SecretKeySelector",
    "EnvSource": "V1SecretEnvSource",
    "SecurityProfile": "V1SeccompProfile",
    "StatusCondition": "V1PersistentVolumeClaimCondition",
    "EndpointPort": "CoreV1EndpointPort",
    "ResourceClaim": "CoreV1ResourceClaim",
    "EventSeries": "CoreV1EventSeries",
    "Subject": "RbacV1Subject",
    "WebhookClientConfig": "AdmissionregistrationV1WebhookClientConfig",
    "ServiceReference": "AdmissionregistrationV1ServiceReference",
    "APIServiceReference": "ApiregistrationV1ServiceReference",
}


def model_of(qualified: str) -> Any:
    package, _, name = qualified.rpartition(".")
    if name == "Event":
        return models.EventsV1Event if "events" in package else models.CoreV1Event
    found = _SAME.get(name, f"V1{name}")
    model = getattr(models, found, None)
    if model is None:
        # The client names some types by their group in a way that changes with its version.
        candidates = [one for one in dir(models) if one.endswith(name)]
        assert candidates, f"{qualified} is no type of Kubernetes"
        model = getattr(models, candidates[0])
    return model


WRITTEN_FOR = "37"
# What an aggregated server, or a CRD of Kubernetes' serves: the client has no types of it.
_UNKNOWN = ("io.k8s.metrics.", "io.k8s.storage.snapshot.")


@pytest.mark.skipif(
    not kubernetes.__version__.startswith(f"{WRITTEN_FOR}."),
    reason=f"the table is that of Kubernetes 1.{WRITTEN_FOR}: compare it with kubernetes=={WRITTEN_FOR}.*",
)
@pytest.mark.parametrize("qualified", sorted(name for name in all_types() if not name.startswith(_UNKNOWN)))
def test_a_type_has_the_fields_that_it_has_in_kubernetes(qualified: str) -> None:
    known = set(model_of(qualified).attribute_map.values())
    described = {field.name for field in all_types()[qualified].fields}
    assert described - known == set()
    assert known - described == set()


def test_every_stored_kind_has_a_schema() -> None:
    stored = [kind for kind in BUILT_IN if "list" in kind.verbs]
    assert [kind.qualified for kind in stored if schema_of(kind.group, kind.kind) is None] == []


def test_every_type_that_a_field_names_exists() -> None:
    for one in all_types().values():
        for field in one.fields:
            resolve(field.type, one.package)


def test_a_schema_says_how_its_lists_are_merged() -> None:
    pod = schema_of("", "Pod")
    assert pod is not None
    spec = pod["properties"]["spec"]["properties"]
    assert spec["containers"]["x-kubernetes-list-map-keys"] == ["name"]
    assert spec["containers"]["x-kubernetes-patch-merge-key"] == "name"
    assert spec["volumes"]["x-kubernetes-patch-strategy"] == "merge,retainKeys"
    assert spec["tolerations"]["x-kubernetes-list-type"] == "atomic"
    assert spec["nodeSelector"]["x-kubernetes-map-type"] == "atomic"
    ports = spec["containers"]["items"]["properties"]["ports"]
    assert (ports["x-kubernetes-patch-merge-key"], ports["x-kubernetes-list-map-keys"]) == (
        "containerPort",
        ["containerPort", "protocol"],
    )
    assert ports["items"]["properties"]["protocol"]["default"] == "TCP"
    assert metadata_schema()["properties"]["finalizers"]["x-kubernetes-list-type"] == "set"
    assert metadata_schema()["properties"]["ownerReferences"]["items"]["x-kubernetes-map-type"] == "atomic"


def test_a_group_without_a_table_has_no_schema() -> None:
    assert schema_of("kubevirt.io", "VirtualMachine") is None
    assert schema_of("", "PodSpec") is None
    with pytest.raises(LookupError, match="NoSuchType"):
        resolve("NoSuchType", META_PACKAGE)
