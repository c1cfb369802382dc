# Tests: kvedge/standalone/apiserver/access/authorizer_rules.py, kvedge/standalone/apiserver/access/bootstrap_roles.py
# Tests: kvedge/standalone/apiserver/access/rbac_index.py, kvedge/standalone/apiserver/loops/role_aggregation_loop.py
"""Stored rights: who has which, what a gathering role is, and what the first start writes; against a naive oracle."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import PolicyRule
from kvedge.standalone.apiserver.access.authorizer_rules import AUTHENTICATED, Authorizer
from kvedge.standalone.apiserver.access.bootstrap_roles import cluster_roles, current
from kvedge.standalone.apiserver.access.rbac_index import BINDINGS, CLUSTER_BINDINGS, CLUSTER_ROLES, ROLES, RbacIndex
from kvedge.standalone.apiserver.loops.role_aggregation_loop import gather_rules
from kvedge.standalone.apiserver.requests.request_context import Caller
from kvedge.standalone.apiserver.requests.request_target import RequestTarget
from kvedge.standalone.apiserver.store.object_cache import ObjectCache
from kvedge.standalone.apiserver.store.stored import Change, ChangeType, ObjectKey, Stored

GET = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}


def stored(resource: str, namespace: str, name: str, **content: Any) -> Stored:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    body = msgspec.json.encode({"metadata": metadata, **content})
    return Stored(ObjectKey(resource, namespace, name), 1, body)


def binding(namespace: str, name: str, role: tuple[str, str], *subjects: JsonObject) -> Stored:
    resource = BINDINGS if namespace else CLUSTER_BINDINGS
    reference = {"kind": role[0], "name": role[1]}
    return stored(resource, namespace, name, roleRef=reference, subjects=list(subjects))


def user(name: str) -> JsonObject:
    return {"kind": "User", "name": name}


def may(index: RbacIndex, caller: Caller, namespace: str) -> bool:
    target = RequestTarget("get", "", "", "v1", namespace, "pods", "p")
    return Authorizer(lambda *where: None, index).allows(caller, target)


@pytest.fixture
def cache() -> ObjectCache:
    return ObjectCache([stored(CLUSTER_ROLES, "", "pods", rules=[GET]), stored(ROLES, "a", "pods", rules=[GET])], 1)


def put(cache: ObjectCache, change: ChangeType, current: Stored) -> None:
    cache.publish([Change(change, current, None)])


def test_a_binding_counts_from_its_write_to_its_end(cache: ObjectCache) -> None:
    index, joe = RbacIndex(cache), Caller("joe")
    assert not may(index, joe, "a")
    bound = binding("a", "b", ("Role", "pods"), user("joe"))
    put(cache, ChangeType.ADDED, bound)
    assert may(index, joe, "a")
    assert not may(index, joe, "b")
    put(cache, ChangeType.MODIFIED, binding("a", "b", ("Role", "pods"), user("ann")))
    assert not may(index, joe, "a")
    assert may(index, Caller("ann"), "a")
    put(cache, ChangeType.DELETED, binding("a", "b", ("Role", "pods"), user("ann")))
    assert not may(index, Caller("ann"), "a")


def test_what_a_role_says_counts_as_it_changes(cache: ObjectCache) -> None:
    put(cache, ChangeType.ADDED, binding("", "b", ("ClusterRole", "pods"), user("joe")))
    index, joe = RbacIndex(cache), Caller("joe")
    assert may(index, joe, "a")
    put(cache, ChangeType.MODIFIED, stored(CLUSTER_ROLES, "", "pods", rules=[]))
    assert not may(index, joe, "a")
    put(cache, ChangeType.DELETED, stored(CLUSTER_ROLES, "", "pods"))
    assert not may(index, joe, "a")
    put(cache, ChangeType.ADDED, stored(CLUSTER_ROLES, "", "pods", rules=[GET]))
    assert may(index, joe, "a")


def test_a_role_of_another_namespace_is_not_reached(cache: ObjectCache) -> None:
    put(cache, ChangeType.ADDED, binding("b", "x", ("Role", "pods"), user("joe")))
    assert not may(RbacIndex(cache), Caller("joe"), "b")
    assert not may(RbacIndex(cache), Caller("joe"), "a")


def test_an_account_without_a_namespace_is_one_of_the_bindings_own(cache: ObjectCache) -> None:
    put(cache, ChangeType.ADDED, binding("a", "x", ("Role", "pods"), {"kind": "ServiceAccount", "name": "robot"}))
    put(cache, ChangeType.ADDED, binding("", "x", ("ClusterRole", "pods"), {"kind": "ServiceAccount", "name": "robot"}))
    index = RbacIndex(cache)
    assert may(index, Caller("system:serviceaccount:a:robot"), "a")
    assert not may(index, Caller("system:serviceaccount::robot"), "a")
    assert not may(index, Caller("system:serviceaccount:b:robot"), "a")


NAMES = st.sampled_from(["a", "b"])
SUBJECTS = st.fixed_dictionaries(
    {"kind": st.sampled_from(["User", "Group", "ServiceAccount", "Robot"]), "name": NAMES},
    optional={"namespace": NAMES},
)
WORLDS = st.lists(
    st.tuples(st.sampled_from(["", "a", "b"]), st.sampled_from(["Role", "ClusterRole"]), NAMES, st.lists(SUBJECTS)),
    max_size=5,
)
CALLERS = st.builds(
    Caller,
    st.sampled_from(["a", "b", "system:serviceaccount:a:a", "system:serviceaccount:b:a"]),
    st.lists(NAMES, unique=True).map(tuple),
)


def naive(world: list[Any], caller: Caller, namespace: str) -> bool:
    """The documentation's words: is there a binding of this caller, of a role that is there, that counts here?"""
    roles = {("Role", "a", "a"), ("ClusterRole", "", "b")}
    for where, kind, role, subjects in world:
        if (kind, where if kind == "Role" else "", role) not in roles or where not in ("", namespace):
            continue
        for subject in subjects:
            account = f"system:serviceaccount:{subject.get('namespace') or where}:{subject['name']}"
            if (
                (subject["kind"] == "User" and subject["name"] == caller.user)
                or (subject["kind"] == "Group" and subject["name"] in caller.groups)
                or (subject["kind"] == "ServiceAccount" and account == caller.user)
            ):
                return True
    return False


@given(WORLDS, CALLERS, st.sampled_from(["", "a", "b"]))
def test_the_index_and_the_naive_reading_agree(world: list[Any], caller: Caller, namespace: str) -> None:
    roles = [stored(ROLES, "a", "a", rules=[GET]), stored(CLUSTER_ROLES, "", "b", rules=[GET])]
    bindings = [
        binding(where, f"b{number}", (kind, role), *subjects)
        for number, (where, kind, role, subjects) in enumerate(world)
    ]
    assert may(RbacIndex(ObjectCache([*roles, *bindings], 1)), caller, namespace) is naive(world, caller, namespace)
    # The same when they come one after the other.
    cache = ObjectCache([], 1)
    index = RbacIndex(cache)
    for each in (*bindings, *roles):
        put(cache, ChangeType.ADDED, each)
    assert may(index, caller, namespace) is naive(world, caller, namespace)


def role(name: str, rules: list[JsonObject], **labels: str) -> JsonObject:
    return {"metadata": {"name": name, "labels": labels}, "rules": rules}


def test_a_gathering_role_is_the_union_of_what_is_labelled_for_it() -> None:
    other = {"verbs": ["list"], "apiGroups": [""], "resources": ["pods"]}
    selectors = [{"matchLabels": {"into": "view"}}, {"matchLabels": {"into": "edit"}}]
    gathering = {
        **role("all", [{"verbs": ["old"]}], into="view"),
        "aggregationRule": {"clusterRoleSelectors": selectors},
    }
    roles = [role("z", [GET], into="view"), role("b", [GET, other], into="edit"), role("c", [{"verbs": ["x"]}])]
    assert gather_rules(gathering, [*roles, gathering]) == [GET, other]
    assert gather_rules(role("plain", [GET]), roles) is None
    assert gather_rules({**gathering, "aggregationRule": {"clusterRoleSelectors": []}}, roles) == []


def bootstrap(name: str) -> JsonObject:
    return next(item for item in cluster_roles() if item["metadata"]["name"] == name and item["kind"] == "ClusterRole")


def test_a_later_release_adds_what_its_roles_need_and_takes_nothing_away() -> None:
    wanted = bootstrap("kubevirt.io:view")
    mine = {"verbs": ["get"], "apiGroups": ["mine.io"], "resources": ["things"]}
    live = {**wanted, "metadata": {**wanted["metadata"], "labels": {"mine": "x"}}, "rules": [mine, wanted["rules"][0]]}
    kept = current(msgspec.json.decode(msgspec.json.encode(live)), wanted)
    assert kept["rules"][:2] == [mine, wanted["rules"][0]]
    assert all(rule in kept["rules"] for rule in wanted["rules"])
    assert kept["metadata"]["labels"] == {"mine": "x", **wanted["metadata"]["labels"]}
    assert current(msgspec.json.decode(msgspec.json.encode(wanted)), wanted) == wanted


def test_a_role_that_is_not_to_be_updated_is_left_alone() -> None:
    wanted = bootstrap("cluster-admin")
    live = {"metadata": {"name": "cluster-admin", "annotations": {}}, "rules": []}
    assert current(dict(live), wanted) == live


def test_gathered_rules_are_not_the_starts_to_write() -> None:
    wanted = bootstrap("view")
    live = {**wanted, "rules": [GET]}
    assert current(dict(live), wanted)["rules"] == [GET]


def test_everybody_who_is_known_gets_the_default_roles_only() -> None:
    everybody = [
        document["roleRef"]["name"]
        for document in cluster_roles()
        if document["kind"] == "ClusterRoleBinding" and document["subjects"][0]["name"] == AUTHENTICATED
    ]
    assert everybody == ["kubevirt.io:default", "instancetype.kubevirt.io:view"]
    bound = [document for document in cluster_roles() if document["kind"] == "ClusterRoleBinding"]
    nobody = {"system:unauthenticated", "system:anonymous"}
    assert not [item for item in bound if nobody & {subject["name"] for subject in item["subjects"]}]


def test_the_rules_that_may_be_handed_on_are_those_without_a_limit() -> None:
    handler = Caller("kvedge:handler:n1", ("kvedge:handlers", AUTHENTICATED))
    rules = list(Authorizer(lambda *where: None).rules_of(handler, "default"))
    assert PolicyRule(("get",), ("",), ("nodes",)) in rules
    assert not [rule for rule in rules if "patch" in rule.verbs and "nodes" in rule.resources]
