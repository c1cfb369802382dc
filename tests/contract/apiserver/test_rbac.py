"""Roles and bindings: the same questions to both servers, and the same answers."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.apiserver.conftest import Server
from tests.support.api_client import JSON, Answer, ApiClient, eventually
from tests.support.widgets import config_maps

pytestmark = pytest.mark.contract

RBAC = "/apis/rbac.authorization.k8s.io/v1"
AUTHORIZATION = "/apis/authorization.k8s.io/v1"
GROUP = "rbac.authorization.k8s.io"
_numbers = itertools.count(1)


def roles(namespace: str) -> str:
    return f"{RBAC}/namespaces/{namespace}/roles"


def bindings(namespace: str) -> str:
    return f"{RBAC}/namespaces/{namespace}/rolebindings"


def rule(verbs: str, groups: str, resources: str, names: str = "") -> dict[str, Any]:
    """A rule of words; `core` is the group without a name."""
    spelled = ["" if group == "core" else group for group in groups.split()]
    document = {"verbs": verbs.split(), "apiGroups": spelled, "resources": resources.split()}
    return {**document, "resourceNames": names.split()} if names else document


def role_ref(kind: str, name: str) -> dict[str, str]:
    return {"apiGroup": GROUP, "kind": kind, "name": name}


def subject(kind: str, name: str, namespace: str = "") -> dict[str, str]:
    document = {"kind": kind, "name": name}
    return {**document, "namespace": namespace} if namespace else document


def give(admin: ApiClient, namespace: str, rules: list[dict[str, Any]], *subjects: dict[str, str]) -> None:
    """Give rights in a namespace; in the whole cluster when there is none."""
    name = f"given-{next(_numbers)}"
    meta = {"metadata": {"name": name}}
    if namespace:
        admin.made(roles(namespace), {**meta, "rules": rules})
        admin.made(bindings(namespace), {**meta, "roleRef": role_ref("Role", name), "subjects": list(subjects)})
    else:
        admin.made(f"{RBAC}/clusterroles", {**meta, "rules": rules})
        body = {**meta, "roleRef": role_ref("ClusterRole", name), "subjects": list(subjects)}
        admin.made(f"{RBAC}/clusterrolebindings", body)


def may(client: ApiClient, user: str, groups: list[str], spec: dict[str, Any]) -> bool:
    """What the server answers of a user."""
    review = {"spec": {"user": user, "groups": groups, **spec}}
    answer: bool = client.made(f"{AUTHORIZATION}/subjectaccessreviews", review)["status"]["allowed"]
    return answer


def asked(verb: str, group: str, resource: str, namespace: str = "", name: str = "") -> dict[str, Any]:
    plural, _, part = resource.partition("/")
    attributes = {"verb": verb, "group": group, "resource": plural, "namespace": namespace}
    attributes |= {"subresource": part, "name": name}
    return {"resourceAttributes": {key: value for key, value in attributes.items() if value}}


def path(verb: str, url: str) -> dict[str, Any]:
    return {"nonResourceAttributes": {"verb": verb, "path": url}}


HERE = "rbac-here"
# Who, with which groups, asks what, and whether it is allowed; a kube-apiserver must say the same.
QUESTIONS = [
    ("ann", [], asked("get", "", "pods", HERE, "p"), True),
    ("ann", [], asked("list", "", "pods", HERE), True),
    ("ann", [], asked("list", "", "pods"), False),
    ("ann", [], asked("get", "", "pods", "default", "p"), False),
    ("ann", [], asked("get", "", "pods/log", HERE, "p"), True),
    ("ann", [], asked("get", "", "pods/exec", HERE, "p"), False),
    ("ann", [], asked("watch", "", "pods", HERE), False),
    ("ann", [], asked("get", "x.io", "pods", HERE), False),
    ("ann", [], asked("get", "", "secrets", HERE, "mine"), True),
    ("ann", [], asked("get", "", "secrets", HERE, "yours"), False),
    ("ann", [], asked("list", "", "secrets", HERE), False),
    ("ann", [], asked("get", "subresources.kubevirt.io", "virtualmachineinstances/vnc", HERE, "v"), True),
    ("ann", [], asked("get", "subresources.kubevirt.io", "virtualmachineinstances/vnc/screenshot", HERE, "v"), False),
    ("ann", [], asked("get", "subresources.kubevirt.io", "virtualmachineinstances/console", HERE, "v"), False),
    ("ann", [], asked("get", "subresources.kubevirt.io", "virtualmachineinstances", HERE, "v"), False),
    ("ann", [], asked("update", "g.io", "things/scale", HERE, "t"), True),
    ("ann", [], asked("update", "g.io", "others/scale", HERE, "t"), True),
    ("ann", [], asked("update", "g.io", "others/status", HERE, "t"), False),
    ("ann", [], asked("update", "g.io", "others", HERE, "t"), False),
    ("Ann", [], asked("get", "", "pods", HERE, "p"), False),
    ("bob", [], asked("get", "", "pods", HERE, "p"), False),
    ("bob", ["crew"], asked("create", "", "configmaps", HERE), True),
    ("bob", ["crew"], asked("create", "", "configmaps", "default"), True),
    ("bob", ["crew"], asked("create", "", "configmaps"), True),
    ("bob", ["crew "], asked("create", "", "configmaps", HERE), False),
    ("crew", [], asked("create", "", "configmaps", HERE), False),
    (f"system:serviceaccount:{HERE}:robot", [], asked("delete", "", "pods", HERE, "p"), True),
    ("system:serviceaccount:default:robot", [], asked("delete", "", "pods", HERE, "p"), False),
    ("robot", [], asked("delete", "", "pods", HERE, "p"), False),
    ("x", [f"system:serviceaccounts:{HERE}"], asked("get", "", "endpoints", HERE), True),
    ("carl", [], asked("*", "*", "*"), False),
    ("carl", [], asked("get", "a.io", "everything/of/it", "default"), True),
    ("carl", [], path("get", "/metrics/cadvisor"), True),
    ("carl", [], path("get", "/metrics"), False),
    ("carl", [], path("post", "/metrics/cadvisor"), False),
    ("carl", [], path("get", "/logs"), True),
    ("carl", [], path("get", "/logs/x"), False),
    ("boss", ["system:masters"], asked("*", "*", "*"), True),
    ("nobody", [], path("get", "/version"), False),
    ("somebody", ["system:authenticated"], path("get", "/version"), True),
    ("somebody", ["system:authenticated"], path("get", "/apis/apps/v1"), True),
    ("somebody", ["system:authenticated"], path("get", "/metrics"), False),
    ("somebody", ["system:authenticated"], path("get", "/versions"), False),
    ("system:anonymous", ["system:unauthenticated"], asked("list", "", "pods", HERE), False),
    ("system:anonymous", ["system:unauthenticated"], path("get", "/apis"), False),
]


@pytest.fixture(scope="module")
def given(api_server: Server) -> ApiClient:
    """The rights that the questions are about."""
    admin = api_server.admin
    admin.made("/api/v1/namespaces", {"metadata": {"name": HERE}})
    ann = subject("User", "ann")
    vnc = rule("get", "subresources.kubevirt.io", "virtualmachineinstances/vnc")
    give(
        admin,
        HERE,
        [
            rule("get list", "core", "pods pods/log"),
            rule("get", "core", "secrets", "mine"),
            vnc,
            rule("update", "g.io", "*/scale"),
        ],
        ann,
    )
    give(admin, "", [rule("create", "core", "configmaps")], subject("Group", "crew"))
    give(admin, HERE, [rule("delete", "core", "pods")], subject("ServiceAccount", "robot", HERE))
    give(admin, HERE, [rule("get", "core", "endpoints")], subject("Group", f"system:serviceaccounts:{HERE}"))
    urls = {"verbs": ["get"], "nonResourceURLs": ["/metrics/*", "/logs"]}
    give(admin, "", [rule("get", "*", "*"), urls], subject("User", "carl"))
    # A cluster's role, bound in one namespace, counts there only.
    return admin


@pytest.mark.parametrize(
    ("user", "groups", "spec", "allowed"),
    QUESTIONS,
    ids=[f"{user} {next(iter(spec.values()))}" for user, _, spec, _ in QUESTIONS],
)
def test_both_servers_give_the_same_answer(
    given: ApiClient, user: str, groups: list[str], spec: dict[str, Any], allowed: bool
) -> None:
    eventually(lambda: may(given, user, groups, spec) is allowed)


def test_a_cluster_role_that_is_bound_in_a_namespace_counts_there_only(api_server: Server, namespace: str) -> None:
    admin = api_server.admin
    admin.made(f"{RBAC}/clusterroles", {"metadata": {"name": namespace}, "rules": [rule("get", "core", "pods nodes")]})
    dan = [subject("User", "dan")]
    body = {"metadata": {"name": "dan"}, "roleRef": role_ref("ClusterRole", namespace), "subjects": dan}
    admin.made(bindings(namespace), body)
    eventually(lambda: may(admin, "dan", [], asked("get", "", "pods", namespace, "p")))
    assert not may(admin, "dan", [], asked("get", "", "pods", "default", "p"))
    assert not may(admin, "dan", [], asked("get", "", "nodes", "", "n"))
    # The binding ends, and with it the right.
    assert admin.delete(f"{bindings(namespace)}/dan").status == 200
    eventually(lambda: not may(admin, "dan", [], asked("get", "", "pods", namespace, "p")))


def test_rights_open_what_they_name_and_nothing_beside_it(api_server: Server, namespace: str) -> None:
    admin = api_server.admin
    admin.made(config_maps(namespace), {"metadata": {"name": "mine"}})
    admin.made(config_maps(namespace), {"metadata": {"name": "yours"}})
    give(admin, namespace, [rule("get list watch", "core", "configmaps", "mine")], subject("User", "eve"))
    eve = api_server.log_in("eve", [])
    eventually(lambda: eve.get(f"{config_maps(namespace)}/mine").status == 200)
    assert eve.get(f"{config_maps(namespace)}/yours").status == 403
    assert eve.get(config_maps(namespace)).status == 403
    listed = eve.get(config_maps(namespace), fieldSelector="metadata.name=mine")
    assert [item["metadata"]["name"] for item in listed.json["items"]] == ["mine"]
    for selector in ("metadata.name=yours", "metadata.name!=mine", "metadata.namespace=x"):
        assert eve.get(config_maps(namespace), fieldSelector=selector).status == 403, selector
    assert eve.delete(f"{config_maps(namespace)}/mine").status == 403
    eve.close()


TRICKS = [
    ("GET", "/api/v1/namespaces/{ns}/configmaps/mine/../../secrets/s"),
    ("GET", "/api/v1/namespaces/{ns}/configmaps/%2e%2e/secrets/s"),
    ("GET", "/api/v1/namespaces/{ns}/configmaps/mine%2F..%2F..%2Fsecrets%2Fs"),
    ("GET", "//api/v1/namespaces/{ns}/secrets/s"),
    ("GET", "/api//v1/namespaces/{ns}/secrets/s"),
    ("GET", "/api/v1/namespaces//{ns}/secrets/s"),
    ("GET", "/version/../api/v1/namespaces/{ns}/secrets/s"),
    ("GET", "/apis/../api/v1/namespaces/{ns}/secrets/s"),
    ("GET", "/healthz/..%2fapi/v1/namespaces/{ns}/secrets/s"),
    ("HEAD", "/api/v1/namespaces/{ns}/secrets/s"),
    ("OPTIONS", "/api/v1/namespaces/{ns}/secrets/s"),
    ("TRACE", "/api/v1/namespaces/{ns}/secrets/s"),
    ("PROPFIND", "/api/v1/namespaces/{ns}/secrets/s"),
    ("get", "/api/v1/namespaces/{ns}/secrets/s"),
    ("GET", "/api/v1/namespaces/{ns}/Secrets/s"),
    ("GET", "/api/v1/namespaces/{ns}/secrets/s/"),
    ("GET", "/api/v1/watch/namespaces/{ns}/secrets/s"),
    ("GET", "/api/v1/proxy/namespaces/{ns}/secrets/s"),
    ("GET", "/api/v1/secrets?fieldSelector=metadata.name=s"),
    ("GET", "/api/v1/namespaces/{ns}/secrets?fieldSelector=metadata.name%3Ds"),
    ("POST", "/api/v1/namespaces/{ns}/secrets?dryRun=All"),
]


@pytest.mark.parametrize(("method", "trick"), TRICKS, ids=[f"{method} {trick}" for method, trick in TRICKS])
def test_no_trick_with_the_path_or_the_method_opens_a_secret(
    api_server: Server, namespace: str, method: str, trick: str
) -> None:
    secret = {"metadata": {"name": "s"}, "stringData": {"key": "c2VjcmV0"}}
    api_server.admin.made(f"/api/v1/namespaces/{namespace}/secrets", secret)
    fay = api_server.log_in("fay", ["friends"])
    give(api_server.admin, namespace, [rule("*", "core", "configmaps")], subject("Group", "friends"))
    eventually(lambda: fay.get(config_maps(namespace)).status == 200)
    answer = fay.pool.request(method, api_server.url + trick.format(ns=namespace), redirect=False)
    assert answer.status in (301, 307, 400, 403, 404, 405, 501), answer.data
    assert b"YzJWalpYWQ" not in answer.data
    fay.close()


class Hand:
    """A user who may write roles and bindings in one namespace, and hold a few rights themselves."""

    def __init__(self, server: Server, namespace: str, *more: dict[str, Any]) -> None:
        self.user = f"hand-{next(_numbers)}"
        self.namespace = namespace
        self.client = server.log_in(self.user, ["hands"])
        write = rule("create update patch delete get list", GROUP, "roles rolebindings")
        own = rule("get list", "core", "pods")
        give(server.admin, namespace, [write, own, *more], subject("User", self.user))
        eventually(lambda: self.client.get(roles(namespace)).status == 200)

    def writes_role(self, name: str, *rules: dict[str, Any]) -> Answer:
        return self.client.post(roles(self.namespace), {"metadata": {"name": name}, "rules": list(rules)})

    def binds(self, name: str, kind: str, role: str) -> Answer:
        someone = [subject("User", "someone")]
        body = {"metadata": {"name": name}, "roleRef": role_ref(kind, role), "subjects": someone}
        return self.client.post(bindings(self.namespace), body)


@pytest.fixture
def hand(api_server: Server, namespace: str) -> Iterator[Hand]:
    hand = Hand(api_server, namespace)
    yield hand
    hand.client.close()


def test_a_role_hands_on_no_more_than_its_writer_has(hand: Hand) -> None:
    assert hand.writes_role("some", rule("get", "core", "pods")).status == 201
    refused = hand.writes_role("more", rule("get delete", "core", "pods"))
    assert refused.status == 403
    assert f'roles.{GROUP} "more" is forbidden: user "{hand.user}"' in refused.message
    assert "is attempting to grant RBAC permissions not currently held:" in refused.message
    assert '{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}' in refused.message
    for wider in (rule("*", "core", "pods"), rule("get", "*", "pods"), rule("get", "core", "*")):
        assert hand.writes_role("wider", wider).status == 403, wider
    path = f"{roles(hand.namespace)}/some"
    widened = hand.client.patch(path, {"rules": [rule("get delete", "core", "pods")]})
    assert widened.status == 403
    assert hand.client.patch(path, {"metadata": {"labels": {"a": "b"}}}).status == 200


def test_a_role_with_more_can_be_let_go_by_who_has_less(api_server: Server, hand: Hand) -> None:
    strong = {"metadata": {"name": "strong"}, "rules": [rule("*", "*", "*")]}
    api_server.admin.made(roles(hand.namespace), strong)
    path = f"{roles(hand.namespace)}/strong"
    assert hand.client.patch(path, {"metadata": {"labels": {"a": "b"}}}).status == 403
    assert hand.client.patch(path, {"metadata": {"finalizers": ["example.com/x"]}}).status == 200
    assert hand.client.patch(path, {"metadata": {"finalizers": None}}).status == 200
    assert hand.client.delete(path).status == 200


def test_a_binding_hands_on_no_more_than_its_writer_has(api_server: Server, hand: Hand) -> None:
    assert hand.writes_role("some", rule("get", "core", "pods")).status == 201
    assert hand.binds("some", "Role", "some").status == 201
    refused = hand.binds("boss", "ClusterRole", "cluster-admin")
    assert refused.status == 403
    assert "is attempting to grant RBAC permissions not currently held:" in refused.message
    missing = hand.binds("none", "Role", "none")
    assert missing.status == 404
    assert missing.message == f'rolebindings.{GROUP} "none" not found'


def test_who_may_bind_a_role_needs_not_have_its_rights(api_server: Server, namespace: str) -> None:
    hand = Hand(api_server, namespace, rule("bind", GROUP, "clusterroles", "cluster-admin"))
    assert hand.binds("boss", "ClusterRole", "cluster-admin").status == 201
    api_server.admin.made(roles(namespace), {"metadata": {"name": "x"}, "rules": [rule("*", "core", "secrets")]})
    assert hand.binds("other", "Role", "x").status == 403
    hand.client.close()


def test_who_may_escalate_writes_any_role(api_server: Server, namespace: str) -> None:
    hand = Hand(api_server, namespace, rule("escalate", GROUP, "roles"))
    assert hand.writes_role("all", rule("*", "*", "*")).status == 201
    # To write a role is not to bind it.
    assert hand.binds("all", "Role", "all").status == 403
    hand.client.close()


def test_a_role_that_gathers_others_is_written_by_who_has_everything(api_server: Server, namespace: str) -> None:
    user = f"hand-{next(_numbers)}"
    client = api_server.log_in(user, [])
    give(api_server.admin, "", [rule("create", GROUP, "clusterroles")], subject("User", user))
    plain = {"metadata": {"name": f"{namespace}-plain"}, "rules": []}
    eventually(lambda: client.post(f"{RBAC}/clusterroles", plain).status in (201, 409))
    selectors = {"clusterRoleSelectors": [{"matchLabels": {"x": "y"}}]}
    gathering = {"metadata": {"name": f"{namespace}-all"}, "aggregationRule": selectors, "rules": []}
    assert client.post(f"{RBAC}/clusterroles", gathering).status == 403
    client.close()


@pytest.mark.parametrize(
    ("plural", "body", "fields"),
    [
        ("roles", {"rules": [{"apiGroups": [""], "resources": ["pods"]}]}, {"rules[0].verbs"}),
        ("roles", {"rules": [{"verbs": ["get"]}]}, {"rules[0].apiGroups", "rules[0].resources"}),
        ("roles", {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]}, {"rules[0].nonResourceURLs"}),
        ("rolebindings", {"roleRef": {"apiGroup": "x", "kind": "Pod", "name": ""}},
         {"roleRef.apiGroup", "roleRef.kind", "roleRef.name"}),
        ("rolebindings", {"roleRef": role_ref("Role", "r"), "subjects": [{"kind": "User", "name": ""}]},
         {"subjects[0].name"}),
        ("rolebindings", {"roleRef": role_ref("Role", "r"), "subjects": [{"kind": "Robot", "name": "x"}]},
         {"subjects[0].kind"}),
        ("rolebindings", {"roleRef": role_ref("Role", "r"), "subjects": [
            {"kind": "ServiceAccount", "name": "x", "apiGroup": GROUP}]}, {"subjects[0].apiGroup"}),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused_with_its_fields(
    api_server: Server, namespace: str, plural: str, body: dict[str, Any], fields: set[str]
) -> None:
    if plural == "rolebindings":
        api_server.admin.made(roles(namespace), {"metadata": {"name": "r"}, "rules": []})
    answer = api_server.admin.post(f"{RBAC}/namespaces/{namespace}/{plural}", {"metadata": {"name": "x"}, **body})
    assert answer.status == 422, answer.body
    assert {cause["field"] for cause in answer.causes} == fields


def test_a_binding_keeps_its_role_and_its_subjects_get_their_group(api_server: Server, namespace: str) -> None:
    admin = api_server.admin
    for name in ("a", "b"):
        admin.made(roles(namespace), {"metadata": {"name": name}, "rules": []})
    reference = {"kind": "Role", "name": "a"}
    made = admin.made(
        bindings(namespace), {"metadata": {"name": "x"}, "roleRef": reference, "subjects": [subject("User", "ann")]}
    )
    assert made["roleRef"]["apiGroup"] == GROUP
    assert made["subjects"] == [{"kind": "User", "apiGroup": GROUP, "name": "ann"}]
    changed = admin.patch(f"{bindings(namespace)}/x", {"roleRef": {"name": "b"}})
    assert changed.status == 422
    assert "cannot change roleRef" in changed.message


def test_who_may_act_as_one_user_may_not_act_as_another(api_server: Server, namespace: str) -> None:
    admin, user = api_server.admin, f"deputy-{next(_numbers)}"
    give(admin, "", [rule("impersonate", "core", "users", "gus")], subject("User", user))
    give(admin, namespace, [rule("list", "core", "configmaps")], subject("User", "gus"))
    deputy = api_server.log_in(user, [])
    url = api_server.url + config_maps(namespace)

    def as_(**headers: str) -> int:
        spelled = {f"Impersonate-{name.title().replace('_', '-')}": value for name, value in headers.items()}
        return int(deputy.pool.request("GET", url, headers={"Accept": JSON, **spelled}).status)

    eventually(lambda: as_(user="gus") == 200)
    assert as_(user="ann") == 403
    assert as_(user="gus", group="system:masters") == 403
    assert as_(user="gus", uid="1") == 403
    assert as_(user="gus", extra_scopes="all") == 403
    assert as_(user="system:serviceaccount:default:default") == 403
    assert as_(group="system:masters") >= 400
    deputy.close()


def test_one_may_list_ones_own_rights(api_server: Server, namespace: str) -> None:
    give(api_server.admin, namespace, [rule("get", "core", "secrets", "mine")], subject("User", "ike"))
    ike = api_server.log_in("ike", [])
    review = {"spec": {"namespace": namespace}}

    def has_it() -> bool:
        found = ike.made(f"{AUTHORIZATION}/selfsubjectrulesreviews", review)["status"]
        wanted = {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["mine"]}
        return wanted in found["resourceRules"]

    eventually(has_it)
    assert ike.post(f"{AUTHORIZATION}/selfsubjectrulesreviews", {"spec": {}}).status == 400
    ike.close()


def test_a_question_about_one_namespace_is_not_answered_for_another(api_server: Server, namespace: str) -> None:
    local = f"{AUTHORIZATION}/namespaces/{namespace}/localsubjectaccessreviews"
    good = {"metadata": {"namespace": namespace}, "spec": {"user": "ann", **asked("get", "", "pods", namespace)}}
    assert api_server.admin.made(local, good)["status"]["allowed"] is False
    bad = {"metadata": {"namespace": namespace}, "spec": {"user": "ann", **asked("get", "", "pods", "default")}}
    answer = api_server.admin.post(local, bad)
    assert answer.status in (400, 422)


def test_the_roles_of_every_cluster_gather_kubevirts(embedded_server: Server) -> None:
    admin = embedded_server.admin
    vnc = asked("get", "subresources.kubevirt.io", "virtualmachineinstances/vnc", "default", "v")
    shot = asked("get", "subresources.kubevirt.io", "virtualmachineinstances/vnc/screenshot", "default", "v")
    start = asked("update", "subresources.kubevirt.io", "virtualmachines/start", "default", "v")
    info = asked("get", "subresources.kubevirt.io", "virtualmachineinstances/guestosinfo", "default", "v")
    migrate = asked("update", "subresources.kubevirt.io", "virtualmachines/migrate", "default", "v")
    secrets = asked("get", "", "secrets", "default", "s")
    expected = {
        "view": {"info"},
        "edit": {"info", "vnc", "start", "secrets"},
        "admin": {"info", "vnc", "start", "secrets", "shot"},
        "kubevirt.io:view": {"info"},
        "kubevirt.io:edit": {"info", "vnc", "start"},
        "kubevirt.io:admin": {"info", "vnc", "start", "shot"},
        "kubevirt.io:migrate": {"migrate"},
        "cluster-admin": {"info", "vnc", "start", "secrets", "shot", "migrate"},
    }
    questions = {"vnc": vnc, "shot": shot, "start": start, "info": info, "migrate": migrate, "secrets": secrets}
    for role, wanted in expected.items():
        user = f"has-{role.replace(':', '-')}"
        body = {
            "metadata": {"name": user},
            "roleRef": role_ref("ClusterRole", role),
            "subjects": [subject("User", user)],
        }
        admin.made(bindings("default"), body)
        found = {name for name, spec in questions.items() if may(admin, user, [], spec)}
        assert found == wanted, role
    everybody = ["system:authenticated"]
    assert may(admin, "x", everybody, asked("list", "kubevirt.io", "kubevirts"))
    assert not may(admin, "x", everybody, asked("list", "kubevirt.io", "virtualmachines"))


def test_a_role_grows_by_what_is_labelled_for_it(embedded_server: Server) -> None:
    admin = embedded_server.admin
    label = {"rbac.authorization.k8s.io/aggregate-to-view": "true"}
    grown = {"metadata": {"name": "widgets-view", "labels": label}, "rules": [rule("get", "example.com", "widgets")]}
    admin.made(f"{RBAC}/clusterroles", grown)

    def has_widgets(role: str) -> bool:
        return rule("get", "example.com", "widgets") in [
            {key: held[key] for key in ("verbs", "apiGroups", "resources")}
            for held in admin.get(f"{RBAC}/clusterroles/{role}").json["rules"]
        ]

    # What may be viewed may be edited, and what may be edited administered.
    for role in ("view", "edit", "admin"):
        eventually(lambda role=role: has_widgets(role))
    assert admin.delete(f"{RBAC}/clusterroles/widgets-view").status == 200
    for role in ("view", "edit", "admin"):
        eventually(lambda role=role: not has_widgets(role))
