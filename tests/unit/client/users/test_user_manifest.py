"""The documents behind `kvedge user create`."""

from __future__ import annotations

import base64

import pytest

from kvedge.client.errors import UsageError
from kvedge.client.users.user_manifest import (
    NewUser,
    at_server,
    binding_manifest,
    check_user,
    cluster_of,
    kubeconfig_manifest,
    list_given_roles,
    request_manifest,
    role_user,
)
from kvedge.kube.kubeconfigs.own_kubeconfig import with_ca

KUBECONFIG = {
    "clusters": [{"name": "c", "cluster": {"server": "https://box:6443", "certificate-authority": "/ca"}}],
    "contexts": [{"name": "k", "context": {"cluster": "c"}}, {"name": "lost", "context": {"cluster": "other"}}],
}


@pytest.mark.parametrize(
    ("user", "words"),
    [
        (NewUser("system:admin"), "are taken"),
        (NewUser("kvedge:handler:n1"), "are taken"),
        (NewUser("dan", groups=("system:masters",)), "are taken"),
        (NewUser("dan", groups=("ops", "kvedge:apis")), "are taken"),
        (NewUser("a/b"), "may have no '/'"),
        (NewUser("a%b"), "may have no '/'"),
        (NewUser(".."), "may have no '/'"),
        (NewUser(" dan"), "without blanks"),
        (NewUser("dan\n"), "without blanks"),
        (NewUser(""), "without blanks"),
        (NewUser("dan", groups=("",)), "--group"),
        (NewUser("d" * 65), "64 characters"),
    ],
    ids=lambda value: repr(value.name) if isinstance(value, NewUser) else None,
)
def test_who_is_somebody_else_already_or_nobody_is_not_made(user: NewUser, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        check_user(user)


@pytest.mark.parametrize("name", ["ann", "ann@example.com", "Ann Example", "björn", "a:b"])
def test_people_have_many_kinds_of_names(name: str) -> None:
    assert check_user(NewUser(name, groups=("ops",))).name == name


def test_a_request_is_for_a_client_and_as_long_as_asked() -> None:
    document = request_manifest(NewUser("Ann@Example", days=2), b"pem")
    assert document["metadata"] == {"generateName": "kvedge-user-ann-example-"}
    assert document["spec"] == {
        "request": base64.b64encode(b"pem").decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "expirationSeconds": 172800,
        "usages": ["client auth"],
    }
    assert request_manifest(NewUser("ö"), b"")["metadata"] == {"generateName": "kvedge-user-"}


def test_a_role_counts_in_its_namespace_or_everywhere() -> None:
    collection, document = binding_manifest(NewUser("ann", namespace="shop"), "kubevirt.io:view")
    assert collection == "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings"
    assert (document["kind"], document["metadata"]["namespace"]) == ("RoleBinding", "shop")
    assert document["metadata"]["name"] == "ann:kubevirt.io:view"
    assert document["roleRef"]["kind"] == "ClusterRole"
    collection, document = binding_manifest(NewUser("ann"), "kubevirt.io:view")
    assert collection == "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    assert (document["kind"], "namespace" in document["metadata"]) == ("ClusterRoleBinding", False)
    assert [subject["name"] for subject in document["subjects"]] == ["ann"]


def test_the_file_leads_to_the_administrators_server_and_can_be_carried_away() -> None:
    cluster = with_ca(cluster_of(KUBECONFIG, "k"), b"ca")
    document = kubeconfig_manifest(NewUser("ann", namespace="shop"), cluster, b"crt", b"key")
    assert document["clusters"][0]["cluster"] == {
        "server": "https://box:6443",
        "certificate-authority-data": base64.b64encode(b"ca").decode(),
    }
    user = document["users"][0]
    assert user["name"] == "ann"
    assert base64.b64decode(user["user"]["client-certificate-data"]) == b"crt"
    assert document["contexts"][0]["context"] == {"cluster": "kvedge", "user": "ann", "namespace": "shop"}


def test_a_context_without_its_cluster_is_told() -> None:
    with pytest.raises(UsageError, match="names no cluster"):
        cluster_of(KUBECONFIG, "lost")


@pytest.mark.parametrize(
    ("role", "node", "name", "group"),
    [
        ("controller", "", "kvedge:controller", "kvedge:controllers"),
        ("api", "", "kvedge:api", "kvedge:apis"),
        ("handler", "n1.example", "kvedge:handler:n1.example", "kvedge:handlers"),
    ],
)
def test_a_role_is_made_under_the_name_that_it_is_known_by(role: str, node: str, name: str, group: str) -> None:
    made = role_user(role, node, 30)
    assert (made.name, made.groups, made.roles) == (name, (group,), ())


@pytest.mark.parametrize(
    ("role", "node"), [("handler", ""), ("api", "n1"), ("handler", "N1"), ("handler", "n1/x"), ("handler", "a" * 60)]
)
def test_a_role_that_makes_no_sense_is_refused(role: str, node: str) -> None:
    with pytest.raises(UsageError, match="--node"):
        role_user(role, node, 30)


def test_only_what_was_given_by_user_create_is_listed_and_can_be_taken() -> None:
    _, own = binding_manifest(NewUser("ann", namespace="shop"), "kubevirt.io:view")
    _, wide = binding_manifest(NewUser("ann"), "view")
    foreign = {**own, "metadata": {"name": "ann:kubevirt.io:view", "namespace": "shop"}}
    two = {**own, "subjects": [*own["subjects"], {"kind": "User", "name": "bob"}]}
    found = list_given_roles([own, foreign, two, wide])
    assert [(given.user, given.role, given.namespace) for given in found] == [
        ("ann", "view", ""),
        ("ann", "kubevirt.io:view", "shop"),
    ]
    base = "/apis/rbac.authorization.k8s.io/v1"
    assert [given.path for given in found] == [
        f"{base}/clusterrolebindings/ann%3Aview",
        f"{base}/namespaces/shop/rolebindings/ann%3Akubevirt.io%3Aview",
    ]


def test_a_role_on_another_node_reaches_the_server_elsewhere() -> None:
    cluster = {"server": "https://127.0.0.1:6443", "certificate-authority-data": "x"}
    assert at_server(cluster, "") == cluster
    assert at_server(cluster, "https://192.0.2.1:6443") == {**cluster, "server": "https://192.0.2.1:6443"}
    with pytest.raises(UsageError, match="--server http://x"):
        at_server(cluster, "http://x")
