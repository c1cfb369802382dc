"""What a custom kind may say of itself, and what its users are told: old versions, metadata."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.contract.apiserver.test_crd_life import Kind, kind
from tests.support.api_client import ApiClient, eventually

pytestmark = pytest.mark.contract
__all__ = ["kind"]
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def older(kind: Kind, **words: Any) -> None:
    """Serve v1alpha1 beside v1."""
    version = copy.deepcopy(kind.version) | {"name": "v1alpha1", "storage": False, "deprecated": True, **words}
    kind.crd["spec"]["versions"] = [kind.version, version]
    kind.update()
    eventually(lambda: kind.admin.get(kind.path(version="v1alpha1")).status == 200)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"deprecationWarning": "use v1, really"}, "use v1, really"),
        ({}, "example.org/v1alpha1 {kind} is deprecated; use example.org/v1 {kind}"),
    ],
    ids=["own words", "usual words"],
)
def test_users_of_an_old_version_are_warned_whatever_they_do(
    admin: ApiClient, kind: Kind, words: dict[str, str], expected: str
) -> None:
    older(kind, **words)
    expected = f'299 - "{expected.format(kind=kind.kind)}"'
    old = kind.path(version="v1alpha1")
    thing = kind.thing("a") | {"apiVersion": "example.org/v1alpha1"}
    answers = [
        admin.post(old, thing),
        admin.get(f"{old}/a"),
        admin.get(old),
        admin.patch(f"{old}/a", {"metadata": {"labels": {"a": "b"}}}),
        admin.delete(f"{old}/a"),
    ]
    assert [answer.headers.get("Warning") for answer in answers] == [expected] * 5


def test_users_of_the_present_version_are_not(admin: ApiClient, kind: Kind) -> None:
    older(kind)
    assert "Warning" not in admin.get(kind.path()).headers


def test_metadata_is_described_by_the_server_alone(admin: ApiClient, kind: Kind) -> None:
    crd = copy.deepcopy(kind.crd)
    crd["metadata"]["name"], crd["spec"]["names"] = "others.example.org", {"plural": "others", "kind": "Other"}
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["metadata"] = {"type": "object", "description": "Mine."}
    answer = admin.post(_CRDS, crd)
    assert answer.status == 422
    assert "must not specify anything other than name and generateName, but metadata is implicitly" in answer.message
