"""Discovery: what clients read before they read anything else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.api_client import ApiClient

pytestmark = pytest.mark.contract

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


def by_name(resources: list[dict[str, Any]], key: str = "name") -> dict[str, dict[str, Any]]:
    """The entries by their names."""
    return {entry[key]: entry for entry in resources}


def test_the_core_group_has_version_one(admin: ApiClient) -> None:
    found = admin.get("/api").json
    assert found["kind"] == "APIVersions"
    assert found["versions"] == ["v1"]


def test_a_custom_group_is_listed_with_its_best_version_first(admin: ApiClient) -> None:
    groups = by_name(admin.get("/apis").json["groups"])
    assert groups["example.com"]["preferredVersion"] == {"groupVersion": "example.com/v1", "version": "v1"}
    assert [item["version"] for item in groups["example.com"]["versions"]] == ["v1", "v1alpha1"]
    group = admin.get("/apis/example.com").json
    assert group["kind"] == "APIGroup"
    assert group["name"] == "example.com"


def test_the_core_resources_are_as_in_kubernetes(admin: ApiClient) -> None:
    found = admin.get("/api/v1").json
    assert (found["kind"], found["groupVersion"]) == ("APIResourceList", "v1")
    resources = by_name(found["resources"])
    pods = resources["pods"]
    assert pods["kind"] == "Pod"
    assert pods["namespaced"] is True
    assert pods["shortNames"] == ["po"]
    assert pods["singularName"] == "pod"
    assert set(pods["verbs"]) == {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
    assert resources["pods/log"]["verbs"] == ["get"]
    assert resources["pods/eviction"]["kind"] == "Eviction"
    assert resources["pods/eviction"]["group"] == "policy"
    assert resources["pods/resize"]["verbs"] == ["get", "patch", "update"]
    assert resources["nodes"]["namespaced"] is False
    assert "deletecollection" not in resources["namespaces"]["verbs"]


def test_every_kind_that_is_served_here_is_described_as_there(admin: ApiClient) -> None:
    expected = {
        "/api/v1": {"configmaps": "cm", "endpoints": "ep", "events": "ev", "namespaces": "ns", "nodes": "no"},
        "/apis/apiextensions.k8s.io/v1": {"customresourcedefinitions": "crd"},
        "/apis/networking.k8s.io/v1": {"ipaddresses": "ip"},
        "/apis/scheduling.k8s.io/v1": {"priorityclasses": "pc"},
        "/apis/storage.k8s.io/v1": {"storageclasses": "sc"},
    }
    for path, short_names in expected.items():
        resources = by_name(admin.get(path).json["resources"])
        for plural, short in short_names.items():
            assert resources[plural]["shortNames"][0] == short, plural


def test_a_custom_kind_is_described(admin: ApiClient) -> None:
    resources = by_name(admin.get("/apis/example.com/v1").json["resources"])
    assert resources["widgets"]["kind"] == "Widget"
    assert resources["widgets"]["singularName"] == "widget"
    assert resources["widgets"]["shortNames"] == ["wg"]
    assert resources["widgets"]["categories"] == ["all"]
    assert set(resources["widgets/status"]["verbs"]) == {"get", "patch", "update"}
    scale = resources["widgets/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


def test_all_groups_come_in_one_document_when_asked(admin: ApiClient) -> None:
    answer = admin.get("/apis", accept=_AGGREGATED)
    assert answer.headers["Content-Type"] == "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    found = answer.json
    assert (found["kind"], found["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    groups = {item["metadata"]["name"]: item for item in found["items"]}
    version: dict[str, Any] = groups["example.com"]["versions"][0]
    assert (version["version"], version["freshness"]) == ("v1", "Current")
    widgets = by_name(version["resources"], "resource")["widgets"]
    assert widgets["responseKind"] == {"group": "example.com", "version": "v1", "kind": "Widget"}
    assert widgets["scope"] == "Namespaced"
    assert widgets["singularResource"] == "widget"
    assert {sub["subresource"] for sub in widgets["subresources"]} == {"status", "scale"}
    core = admin.get("/api", accept=_AGGREGATED).json
    assert by_name(core["items"][0]["versions"][0]["resources"], "resource")["pods"]["shortNames"] == ["po"]


def test_a_crd_is_established_and_says_so(admin: ApiClient) -> None:
    found = admin.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com").json
    conditions = {item["type"]: item["status"] for item in found["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert found["status"]["acceptedNames"]["plural"] == "widgets"
    assert found["status"]["storedVersions"] == ["v1"]
    assert found["spec"]["names"]["listKind"] == "WidgetList"
    assert found["spec"]["conversion"] == {"strategy": "None"}


def test_a_crd_that_cannot_be_served_is_refused_with_every_cause(admin: ApiClient) -> None:
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "wrong.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "gadgets", "kind": "Gadget"},
            "scope": "Everywhere",
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }
    answer = admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    assert answer.status == 422
    fields = {cause["field"] for cause in answer.causes}
    assert {"metadata.name", "spec.scope"} <= fields
