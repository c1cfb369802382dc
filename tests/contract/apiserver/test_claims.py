"""Claims, volumes and classes: what servers add to them, what may change, and what is refused, in the same words."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.contract.apiserver.conftest import Server
from tests.support.api_client import ApiClient

pytestmark = pytest.mark.contract

CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES = "/api/v1/persistentvolumes"


def claims(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"


def claim(size: str = "2Gi", **spec: Any) -> dict[str, Any]:
    wanted = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    return {"metadata": {"name": "data"}, "spec": wanted}


def volume(name: str, **spec: Any) -> dict[str, Any]:
    wanted = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/srv"},
        **spec,
    }
    return {"metadata": {"name": name}, "spec": wanted}


@pytest.fixture
def classes(admin: ApiClient, namespace: str) -> Any:
    """A class whose claims grow and one whose claims do not; the namespace's name makes them the test's own."""
    names = f"grows-{namespace}", f"fixed-{namespace}"
    for name, may_grow in zip(names, (True, False), strict=True):
        document = {"metadata": {"name": name}, "provisioner": "example.com/x", "allowVolumeExpansion": may_grow}
        admin.made(CLASSES, document)
    yield names
    for name in names:
        admin.delete(f"{CLASSES}/{name}")


def bound(admin: ApiClient, namespace: str, size: str = "2Gi", **spec: Any) -> str:
    """The path of a claim that has its volume."""
    admin.made(claims(namespace), claim(size, **spec))
    path = f"{claims(namespace)}/data"
    assert admin.patch(path, {"spec": {"volumeName": "pv"}}).status == 200
    status = {"phase": "Bound", "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"]}
    assert admin.patch(f"{path}/status", {"status": status}).status == 200
    return path


def test_claims_and_volumes_are_protected_from_the_beginning(admin: ApiClient, namespace: str) -> None:
    made = admin.made(claims(namespace), claim())
    assert made["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert (made["spec"]["volumeMode"], made["status"]) == ("Filesystem", {"phase": "Pending"})
    name = f"pv-{namespace}"
    kept = admin.made(VOLUMES, volume(name))
    assert kept["metadata"]["finalizers"] == ["kubernetes.io/pv-protection"]
    assert kept["spec"]["persistentVolumeReclaimPolicy"] == "Retain"
    admin.patch(f"{VOLUMES}/{name}", {"metadata": {"finalizers": None}})
    admin.delete(f"{VOLUMES}/{name}")


def test_a_claim_without_a_class_gets_the_default_one_and_the_empty_class_stays(
    admin: ApiClient, namespace: str
) -> None:
    name = f"default-{namespace}"
    notes = {"storageclass.kubernetes.io/is-default-class": "true"}
    admin.made(CLASSES, {"metadata": {"name": name, "annotations": notes}, "provisioner": "example.com/x"})
    try:
        assert admin.made(claims(namespace), claim())["spec"]["storageClassName"] == name
        other = {**claim(storageClassName=""), "metadata": {"name": "static"}}
        assert admin.made(claims(namespace), other)["spec"]["storageClassName"] == ""
    finally:
        admin.delete(f"{CLASSES}/{name}")


@pytest.mark.parametrize(
    ("size", "kind", "code", "text"),
    [
        pytest.param("3Gi", 0, 200, "", id="growth"),
        pytest.param("3Gi", 1, 403, "must support resize", id="growth in a class without"),
        pytest.param("1Gi", 0, 422, "field can not be less than status.capacity", id="shrinking"),
    ],
)
def test_a_bound_claim_grows_where_its_class_lets_it_and_never_shrinks(
    size: str, kind: int, code: int, text: str, admin: ApiClient, namespace: str, classes: tuple[str, str]
) -> None:
    path = bound(admin, namespace, storageClassName=classes[kind])
    answer = admin.patch(path, {"spec": {"resources": {"requests": {"storage": size}}}})
    assert answer.status == code, answer.body
    assert text in str(answer.body)


def test_a_growth_that_was_not_done_yet_may_be_taken_back_in_part(
    admin: ApiClient, namespace: str, classes: tuple[str, str]
) -> None:
    path = bound(admin, namespace, storageClassName=classes[0])
    for size, code in (("5Gi", 200), ("3Gi", 200), ("2Gi", 422)):
        answer = admin.patch(path, {"spec": {"resources": {"requests": {"storage": size}}}})
        assert answer.status == code, answer.body


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"accessModes": ["ReadWriteMany"]}, id="access modes"),
        pytest.param({"storageClassName": "other"}, id="class"),
        pytest.param({"volumeName": "other"}, id="volume"),
        pytest.param({"volumeMode": "Block"}, id="mode"),
        pytest.param({"selector": {"matchLabels": {"a": "b"}}}, id="selector"),
    ],
)
def test_a_bound_claim_keeps_its_spec(
    change: dict[str, Any], admin: ApiClient, namespace: str, classes: tuple[str, str]
) -> None:
    path = bound(admin, namespace, storageClassName=classes[0])
    answer = admin.patch(path, {"spec": change})
    assert answer.status == 422
    assert "spec is immutable after creation except resources.requests" in str(answer.body)


def test_a_claim_that_waits_keeps_its_size_and_gets_a_class_once(admin: ApiClient, namespace: str) -> None:
    admin.made(claims(namespace), claim())
    path = f"{claims(namespace)}/data"
    assert admin.patch(path, {"spec": {"resources": {"requests": {"storage": "3Gi"}}}}).status == 422
    assert admin.patch(path, {"spec": {"storageClassName": "late"}}).status == 200
    assert admin.patch(path, {"spec": {"storageClassName": "later"}}).status == 422


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param({"accessModes": ["ReadWriteSometimes"]}, "supported values", id="unknown access mode"),
        pytest.param(
            {"accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}, "may not use ReadWriteOncePod", id="alone"
        ),
        pytest.param({"volumeMode": "Tape"}, "supported values", id="unknown mode"),
        pytest.param({"resources": {"requests": {"storage": "0"}}}, "must be greater than zero", id="no size"),
        pytest.param({"resources": {}}, "Required value", id="no request"),
        pytest.param({"storageClassName": "Not_A_Name"}, "RFC 1123", id="a class that is no name"),
    ],
)
def test_a_claim_that_says_nonsense_is_refused(
    spec: dict[str, Any], text: str, admin: ApiClient, namespace: str
) -> None:
    answer = admin.post(claims(namespace), claim(**spec))
    assert answer.status == 422
    assert text in str(answer.body)


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        pytest.param({"hostPath": None}, "must specify a volume type", id="no source"),
        pytest.param({"hostPath": None, "local": {"path": "/x"}}, "requires node affinity", id="local anywhere"),
        pytest.param({"hostPath": {"path": "/srv/../etc"}}, "must not contain", id="a path with dots"),
        pytest.param({"accessModes": []}, "Required value", id="no access mode"),
        pytest.param({"nfs": {"server": "a", "path": "/"}}, "may not specify more than 1", id="two sources"),
    ],
)
def test_a_volume_that_says_nonsense_is_refused(spec: dict[str, Any], text: str, admin: ApiClient) -> None:
    document = volume("nonsense", **spec)
    document["spec"] = {key: value for key, value in document["spec"].items() if value is not None}
    answer = admin.post(VOLUMES, document)
    assert answer.status == 422, answer.body
    assert text in str(answer.body)


def test_a_volume_and_a_class_keep_what_they_are(
    admin: ApiClient, namespace: str, classes: tuple[str, str], api_server: Server
) -> None:
    name = f"pv-{namespace}"
    admin.made(VOLUMES, volume(name))
    for change in ({"hostPath": {"path": "/other"}}, {"volumeMode": "Block"}):
        assert admin.patch(f"{VOLUMES}/{name}", {"spec": change}).status == 422
    assert admin.patch(f"{VOLUMES}/{name}", {"spec": {"persistentVolumeReclaimPolicy": "Delete"}}).status == 200
    for changed in ({"parameters": {"a": "b"}}, {"provisioner": "x"}, {"volumeBindingMode": "WaitForFirstConsumer"}):
        assert admin.patch(f"{CLASSES}/{classes[0]}", copy.deepcopy(changed)).status == 422
    assert admin.patch(f"{CLASSES}/{classes[0]}", {"allowVolumeExpansion": False}).status == 200
    admin.patch(f"{VOLUMES}/{name}", {"metadata": {"finalizers": None}})
    admin.delete(f"{VOLUMES}/{name}")
