"""Who is let in, who may do what, and how one asks."""

from __future__ import annotations

import pytest

from tests.contract.apiserver.conftest import Server
from tests.support.api_client import ApiClient
from tests.support.widgets import config_maps, widgets

pytestmark = pytest.mark.contract

_AUTHORIZATION = "/apis/authorization.k8s.io/v1"
_AUTHENTICATION = "/apis/authentication.k8s.io/v1"


def test_without_a_certificate_nobody_is_let_to_an_object(api_server: Server, namespace: str) -> None:
    nobody = api_server.log_in("", [])
    answer = nobody.get(config_maps(namespace))
    # A kube-apiserver knows such a caller as system:anonymous, who may do nothing; here there is no such user.
    assert answer.status == (403 if api_server.is_real else 401)
    assert answer.json["kind"] == "Status"
    nobody.close()


def test_who_has_no_role_is_forbidden_to_do_anything(api_server: Server, namespace: str) -> None:
    joe = api_server.log_in("joe", ["friends"])
    answer = joe.get(widgets(namespace))
    assert answer.status == 403
    assert answer.json["reason"] == "Forbidden"
    assert answer.message == (
        'widgets.example.com is forbidden: User "joe" cannot list resource "widgets" in API group "example.com"'
        f' in the namespace "{namespace}"'
    )
    named = joe.get("/api/v1/nodes/x")
    assert (
        named.message
        == 'nodes "x" is forbidden: User "joe" cannot get resource "nodes" in API group "" at the cluster scope'
    )
    status = joe.patch(f"/api/v1/namespaces/{namespace}/pods/p/status", {})
    assert 'cannot patch resource "pods/status"' in status.message
    assert joe.get("/version").status == 200
    assert joe.get("/apis").status == 200
    joe.close()


def test_one_may_ask_who_one_is(api_server: Server) -> None:
    joe = api_server.log_in("joe", ["friends"])
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    found = joe.made(f"{_AUTHENTICATION}/selfsubjectreviews", review)["status"]["userInfo"]
    assert found["username"] == "joe"
    assert set(found["groups"]) == {"friends", "system:authenticated"}
    joe.close()


@pytest.mark.parametrize(("user", "groups", "allowed"), [("joe", [], False), ("ann", ["system:masters"], True)])
def test_one_may_ask_what_one_may(api_server: Server, user: str, groups: list[str], allowed: bool) -> None:
    client = api_server.log_in(user, groups)
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}},
    }
    assert client.made(f"{_AUTHORIZATION}/selfsubjectaccessreviews", review)["status"]["allowed"] is allowed
    client.close()


def test_what_others_may_can_be_asked(admin: ApiClient) -> None:
    def allowed(groups: list[str]) -> bool:
        review = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": "x",
                "groups": groups,
                "resourceAttributes": {"verb": "update", "group": "example.com", "resource": "widgets"},
            },
        }
        answer: bool = admin.made(f"{_AUTHORIZATION}/subjectaccessreviews", review)["status"]["allowed"]
        return answer

    assert allowed(["system:masters"])
    assert not allowed([])


def test_a_token_is_nobodys(admin: ApiClient) -> None:
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "abc"}}
    status = admin.made(f"{_AUTHENTICATION}/tokenreviews", review)["status"]
    assert not status.get("authenticated")


def test_reviews_cannot_be_read(admin: ApiClient) -> None:
    assert admin.get(f"{_AUTHORIZATION}/subjectaccessreviews").status == 405


def test_an_administrator_may_act_as_somebody_else(api_server: Server, namespace: str) -> None:
    pool, url = api_server.admin.pool, api_server.url
    as_joe = pool.request("GET", url + config_maps(namespace), headers={"Impersonate-User": "joe"})
    assert as_joe.status == 403
    joe = api_server.log_in("joe", [])
    as_ann = joe.pool.request("GET", url + config_maps(namespace), headers={"Impersonate-User": "ann"})
    assert as_ann.status == 403
    joe.close()
