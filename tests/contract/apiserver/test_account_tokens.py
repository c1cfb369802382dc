"""Tokens of service accounts: asked for, used, and worthless once the account is gone; the same on both servers."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from kvedge.resources.codec import JsonObject
from tests.contract.apiserver.conftest import Server
from tests.contract.apiserver.test_rbac import give, rule, subject
from tests.support.api_client import JSON, Answer, ApiClient, eventually
from tests.support.widgets import config_maps, pods

pytestmark = pytest.mark.contract
ISSUER = "https://kubernetes.default.svc.cluster.local"
REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"


def accounts(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/serviceaccounts"


def ask(client: ApiClient, namespace: str, **spec: Any) -> Answer:
    """A token for the account `robot`."""
    return client.post(f"{accounts(namespace)}/robot/token", {"spec": spec})


def use(server: Server, token: str, path: str) -> Answer:
    """A GET with a token and without a certificate."""
    nobody = server.log_in("", [])
    headers = {"Accept": JSON, "Authorization": f"Bearer {token}"}
    response = nobody.pool.request("GET", server.url + path, headers=headers)
    nobody.close()
    return Answer(response.status, response.headers, response.data)


@pytest.fixture
def token(api_server: Server, namespace: str) -> str:
    """Of an account that may list ConfigMaps."""
    api_server.admin.made(accounts(namespace), {"metadata": {"name": "robot"}})
    give(
        api_server.admin,
        namespace,
        [rule("list", "core", "configmaps")],
        subject("ServiceAccount", "robot", namespace),
    )
    answer = ask(api_server.admin, namespace)
    assert answer.status == 201, answer.body
    found: str = answer.json["status"]["token"]
    return found


def test_a_token_has_the_rights_of_its_account(api_server: Server, namespace: str, token: str) -> None:
    eventually(lambda: use(api_server, token, config_maps(namespace)).status == 200)
    refused = use(api_server, token, f"/api/v1/namespaces/{namespace}/secrets")
    assert refused.status == 403
    assert f'User "system:serviceaccount:{namespace}:robot" cannot list resource "secrets"' in refused.message
    assert use(api_server, token, config_maps("default")).status == 403


def test_a_token_is_reviewed(api_server: Server, namespace: str, token: str) -> None:
    status = api_server.admin.made(REVIEWS, {"spec": {"token": token}})["status"]
    assert status["authenticated"] is True
    assert status["audiences"] == [ISSUER]
    assert status["user"]["username"] == f"system:serviceaccount:{namespace}:robot"
    assert set(status["user"]["groups"]) == {
        "system:serviceaccounts",
        f"system:serviceaccounts:{namespace}",
        "system:authenticated",
    }
    other = api_server.admin.made(REVIEWS, {"spec": {"token": token, "audiences": ["somebody"]}})["status"]
    assert not other.get("authenticated")


def test_the_token_of_an_account_that_is_gone_is_nobodys(api_server: Server, namespace: str, token: str) -> None:
    if api_server.is_real:
        pytest.skip("a kube-apiserver remembers a token for ten seconds, which is all that this would test")
    eventually(lambda: use(api_server, token, config_maps(namespace)).status == 200)
    assert api_server.admin.delete(f"{accounts(namespace)}/robot").status == 200
    eventually(lambda: use(api_server, token, config_maps(namespace)).status == 401)
    # Another one of its name does not inherit it.
    api_server.admin.made(accounts(namespace), {"metadata": {"name": "robot"}})
    fresh = ask(api_server.admin, namespace).json["status"]["token"]
    eventually(lambda: use(api_server, fresh, config_maps(namespace)).status == 200)
    assert use(api_server, token, config_maps(namespace)).status == 401


def a_pod(name: str, account: str) -> JsonObject:
    spec = {"serviceAccountName": account, "containers": [{"name": "c", "image": "x"}]}
    return {"metadata": {"name": name}, "spec": spec}


def bound_to(name: str, **more: str) -> JsonObject:
    return {"kind": "Pod", "apiVersion": "v1", "name": name, **more}


def test_a_token_that_is_bound_to_a_pod_ends_with_it(api_server: Server, namespace: str, token: str) -> None:
    pod = api_server.admin.made(pods(namespace), a_pod("p", "robot"))
    answer = ask(api_server.admin, namespace, boundObjectRef=bound_to("p"))
    assert answer.status == 201, answer.body
    bound = answer.json["status"]["token"]
    status = api_server.admin.made(REVIEWS, {"spec": {"token": bound}})["status"]
    assert status["user"]["extra"]["authentication.kubernetes.io/pod-name"] == ["p"]
    assert status["user"]["extra"]["authentication.kubernetes.io/pod-uid"] == [pod["metadata"]["uid"]]
    assert api_server.admin.delete(f"{pods(namespace)}/p?gracePeriodSeconds=0").status == 200
    # A kube-apiserver remembers a token that was used for ten seconds.
    other = ask(api_server.admin, namespace).json["status"]["token"]
    if not api_server.is_real:
        eventually(lambda: use(api_server, bound, config_maps(namespace)).status == 401)
    assert use(api_server, other, config_maps(namespace)).status == 200, "that of the account goes on"


def test_the_node_agent_gets_a_token_of_a_pod_and_none_of_an_account_alone(
    api_server: Server, namespace: str, token: str
) -> None:
    if api_server.is_real:
        pytest.skip("the kubelet gets them there, and NodeRestriction looks")
    pod, other = a_pod("p", "robot"), a_pod("other", "robot")
    pod["spec"]["nodeName"] = "box"
    uid = api_server.admin.made(pods(namespace), pod)["metadata"]["uid"]
    other_uid = api_server.admin.made(pods(namespace), other)["metadata"]["uid"]
    agent = api_server.log_in("system:node:box", ["kvedge:agents"])
    assert ask(agent, namespace, boundObjectRef=bound_to("p", uid=uid)).status == 201
    for reference in (bound_to("p"), bound_to("other", uid=other_uid)):
        assert ask(agent, namespace, boundObjectRef=reference).status == 403
    refused = ask(agent, namespace)
    assert (refused.status, "the node agent gets tokens of Pods alone" in refused.message) == (403, True)
    agent.close()


@pytest.mark.parametrize(
    ("reference", "status"),
    [
        (bound_to("absent"), 404),
        (bound_to("p", uid="another"), 409),
        (bound_to("stranger"), 400),
    ],
    ids=["no such Pod", "another Pod of its name", "a Pod of another account"],
)
def test_a_token_is_bound_to_a_pod_of_its_account_alone(
    api_server: Server, namespace: str, token: str, reference: JsonObject, status: int
) -> None:
    api_server.admin.made(accounts(namespace), {"metadata": {"name": "human"}})
    api_server.admin.made(pods(namespace), a_pod("p", "robot"))
    api_server.admin.made(pods(namespace), a_pod("stranger", "human"))
    answer = ask(api_server.admin, namespace, boundObjectRef=reference)
    assert answer.status == status, answer.body


def test_a_token_for_somebody_else_opens_nothing_here(api_server: Server, namespace: str, token: str) -> None:
    foreign = ask(api_server.admin, namespace, audiences=["vault"]).json["status"]["token"]
    assert use(api_server, foreign, config_maps(namespace)).status == 401
    review = api_server.admin.made(REVIEWS, {"spec": {"token": foreign, "audiences": ["vault"]}})["status"]
    assert review["authenticated"] is True
    assert review["audiences"] == ["vault"]


def part(token: str, index: int, **changes: Any) -> str:
    """The token with a changed header or body and its old signature."""
    pieces = token.split(".")
    document = json.loads(base64.urlsafe_b64decode(pieces[index] + "=="))
    pieces[index] = base64.urlsafe_b64encode(json.dumps({**document, **changes}).encode()).decode().rstrip("=")
    return ".".join(pieces)


def test_a_forged_token_is_nobodys(api_server: Server, namespace: str, token: str) -> None:
    header, claims, signature = token.split(".")
    forged = [
        part(token, 1, sub="system:serviceaccount:kube-system:admin"),
        part(token, 1, exp=9999999999),
        part(token, 0, alg="none"),
        part(part(token, 0, alg="none"), 1, exp=9999999999).rpartition(".")[0] + ".",
        part(token, 0, alg="HS256"),
        part(token, 0, kid="other"),
        f"{header}.{claims}.",
        f"{header}.{claims}",
        f"{header}.{claims}.{signature[:-8]}AAAAAAAA",
        f"..{signature}",
        "",
        "x",
        "." * 5000,
        "é.é.é".encode().decode("latin-1"),
    ]
    for each in forged:
        assert use(api_server, each, config_maps(namespace)).status in (400, 401, 403), each
    assert use(api_server, token, "/version").status == 200


@pytest.mark.parametrize(
    ("spec", "field"),
    [({"expirationSeconds": 599}, "spec.expirationSeconds"), ({"expirationSeconds": -1}, "spec.expirationSeconds")],
)
def test_a_token_lasts_ten_minutes_at_least(
    api_server: Server, namespace: str, token: str, spec: dict[str, Any], field: str
) -> None:
    answer = ask(api_server.admin, namespace, **spec)
    assert answer.status == 422, answer.body
    assert [cause["field"] for cause in answer.causes] == [field]


def test_there_is_no_token_for_an_account_that_is_not_there(api_server: Server, namespace: str) -> None:
    assert ask(api_server.admin, namespace).status == 404


def test_each_namespace_has_an_account_for_pods_that_name_none(api_server: Server, namespace: str) -> None:
    if api_server.is_real:
        pytest.skip("kube-controller-manager makes it there, which does not run here")
    default = f"{accounts(namespace)}/default"
    assert api_server.admin.post(f"{default}/token", {"spec": {"expirationSeconds": 1}}).status == 422
    assert api_server.admin.post(f"{default}/token?dryRun=All", {"spec": {}}).status == 404
    assert api_server.admin.get(default).status == 404, "nobody has got a token yet"
    for _ in range(2):
        assert api_server.admin.post(f"{default}/token", {"spec": {}}).status == 201
    assert api_server.admin.get(default).status == 200
    assert api_server.admin.post(f"{accounts('absent')}/default/token", {"spec": {}}).status == 404


def test_to_make_a_token_is_a_right_of_its_own(api_server: Server, namespace: str, token: str) -> None:
    user = [subject("User", f"maker-{namespace}")]
    give(api_server.admin, namespace, [rule("create get", "core", "serviceaccounts")], *user)
    maker = api_server.log_in(f"maker-{namespace}", [])
    eventually(lambda: maker.get(f"{accounts(namespace)}/robot").status == 200)
    assert ask(maker, namespace).status == 403
    give(api_server.admin, namespace, [rule("create", "core", "serviceaccounts/token", "robot")], *user)
    eventually(lambda: ask(maker, namespace).status == 201)
    maker.close()
