"""Who has KubeVirt's roles: rows of bindings, subjects of names, and what is left of a binding."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.client.errors import FlagError
from kvedge.web.site.access_view import given_view, is_of_role, new_binding, subject_of, without

_GROUP = "rbac.authorization.k8s.io"
_VIEW = "kubevirt.io:view"


def user(name: str) -> dict[str, str]:
    return {"kind": "User", "apiGroup": _GROUP, "name": name}


def account(name: str, namespace: str) -> dict[str, str]:
    return {"kind": "ServiceAccount", "name": name, "namespace": namespace}


def binding(*subjects: Any, name: str = "team", role: str = _VIEW, kind: str = "ClusterRole") -> dict[str, Any]:
    about = {"name": name, "namespace": "shop"}
    return {"metadata": about, "roleRef": {"kind": kind, "name": role}, "subjects": list(subjects) or None}


@pytest.mark.parametrize(
    ("kind", "name", "subject"),
    [
        ("User", "ann", user("ann")),
        ("Group", "system:authenticated", {**user("system:authenticated"), "kind": "Group"}),
        ("ServiceAccount", "robot", account("robot", "shop")),
        ("ServiceAccount", "mill/robot.v2", account("robot.v2", "mill")),
    ],
)
def test_a_subject_is_as_the_server_stores_it(kind: str, name: str, subject: Any) -> None:
    assert subject_of(kind, name, "shop") == subject


@pytest.mark.parametrize(
    ("kind", "name", "field"),
    [
        ("Robot", "ann", "kind"),
        ("User", "", "name"),
        ("User", " ann", "name"),
        ("User", "a\u202eb", "name"),
        ("User", "a" * 254, "name"),
        ("User", "system:admin", "name"),
        ("User", "kvedge:controller", "name"),
        ("ServiceAccount", "Robot", "name"),
        ("ServiceAccount", "mill/", "name"),
        ("ServiceAccount", "a/b/c", "name"),
        ("ServiceAccount", "mi.ll/robot", "name"),
    ],
)
def test_what_is_no_name_is_told_at_its_field(kind: str, name: str, field: str) -> None:
    with pytest.raises(FlagError) as refused:
        subject_of(kind, name, "shop")
    assert refused.value.flag == field


def test_a_binding_of_a_user_is_the_one_that_user_create_makes() -> None:
    made = new_binding("shop", _VIEW, user("ann"))
    assert made["metadata"] == {"name": f"ann:{_VIEW}", "namespace": "shop", "labels": {"kvedge.io/user": "ann"}}
    assert made["roleRef"] == {"apiGroup": _GROUP, "kind": "ClusterRole", "name": _VIEW}


@pytest.mark.parametrize("name", ["https://issuer/#ann", "50%", "a" * 100])
def test_names_that_no_binding_can_have_get_one_by_their_digest(name: str) -> None:
    made = new_binding("shop", _VIEW, user(name))
    assert made["metadata"]["name"].startswith("user-")
    assert len(made["metadata"]["name"]) < 64
    assert made["subjects"] == [user(name)]
    assert made["metadata"]["name"] != new_binding("shop", _VIEW, user(f"{name}x"))["metadata"]["name"]


def test_no_other_role_is_given() -> None:
    with pytest.raises(FlagError, match="role"):
        new_binding("shop", "cluster-admin", user("ann"))
    assert not is_of_role(binding(user("ann"), role="cluster-admin"))
    assert not is_of_role(binding(user("ann"), kind="Role"))


def test_rows_name_each_subject_of_bindings_of_the_roles() -> None:
    bindings = [
        binding(user("bob"), account("robot", "mill"), account("robot", "shop")),
        binding(user("ann"), name="alone"),
        binding(user("eve"), role="cluster-admin"),
        binding(name="empty"),
    ]
    rows = given_view(bindings)["rows"]
    assert [(row["kind"], row["name"], row["binding"], row["isShared"]) for row in rows] == [
        ("ServiceAccount", "mill/robot", "team", True),
        ("ServiceAccount", "robot", "team", True),
        ("User", "ann", "alone", False),
        ("User", "bob", "team", True),
    ]


def test_what_a_page_cannot_name_is_shown_and_not_offered() -> None:
    rows = given_view([binding(user("a\u202eb")), binding(user("ann"), name="te\u202eam"), binding(user("bob"))])[
        "rows"
    ]
    assert {row["isPlain"] for row in rows if row["name"] != "bob"} == {False}
    assert [row["isPlain"] for row in rows if row["name"] == "bob"] == [True]
    assert not any("\u202e" in row["name"] + row["binding"] for row in rows)


def test_rows_have_an_end() -> None:
    view = given_view([binding(*(user(f"u{number}") for number in range(1001)))])
    assert (len(view["rows"]), view["more"]) == (1000, True)


def test_the_others_of_a_binding_stay() -> None:
    found = binding(user("ann"), account("ann", "shop"), account("ann", "mill"))
    assert without(found, "User", "ann") == [account("ann", "shop"), account("ann", "mill")]
    assert without(found, "ServiceAccount", "ann") == [user("ann"), account("ann", "mill")]
    assert without(found, "ServiceAccount", "mill/ann") == [user("ann"), account("ann", "shop")]
    assert len(without(found, "User", "bob")) == 3
