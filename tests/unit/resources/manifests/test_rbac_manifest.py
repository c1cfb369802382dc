"""The roles' rights in k3s/rbac are those of the table, and the users' roles are KubeVirt's."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.policy_rules import PolicyRule, policy_rules
from kvedge.resources.manifests.rbac_manifest import rbac_files, role_documents
from kvedge.resources.manifests.role_rights import ROLE_RIGHTS, Right
from kvedge.resources.manifests.user_roles_manifest import user_roles
from kvedge.resources.role_users import (
    API_ACCOUNT,
    API_GROUP,
    CONTROLLER_ACCOUNT,
    CONTROLLER_GROUP,
    HANDLER_ACCOUNT,
    HANDLER_GROUP,
)

ROOT = Path(__file__).parents[4]
SUB = "subresources.kubevirt.io"


def test_the_files_in_k3s_are_those_that_the_table_makes() -> None:
    found = {path.name: list(yaml.safe_load_all(path.read_text())) for path in (ROOT / "k3s/rbac").glob("*.yaml")}
    assert found == dict(rbac_files()), "run packaging/rbac"


@pytest.mark.parametrize("group", list(ROLE_RIGHTS))
def test_a_role_gets_each_of_its_rights_where_it_counts(group: str) -> None:
    documents = role_documents(group)
    found = [
        (document["metadata"].get("namespace", ""), rule)
        for document in documents
        if document["kind"] in ("Role", "ClusterRole")
        for rule in policy_rules(document["rules"])
    ]
    assert sorted(found, key=str) == sorted(((each.namespace, each.rule) for each in ROLE_RIGHTS[group]), key=str)


@pytest.mark.parametrize("group", list(ROLE_RIGHTS))
def test_a_role_is_its_certificates_group_or_its_account(group: str) -> None:
    accounts = set()
    for document in role_documents(group):
        if not document["kind"].endswith("Binding"):
            continue
        *groups, account = document["subjects"]
        # A handler may speak as its node.
        expected = [group, "system:nodes"] if group == HANDLER_GROUP else [group]
        assert [(each["kind"], each["name"]) for each in groups] == [("Group", name) for name in expected]
        accounts.add(f"system:serviceaccount:{account['namespace']}:{account['name']}")
        # A binding in a namespace gives rights there only.
        assert document["kind"] == ("RoleBinding" if document["metadata"].get("namespace") else "ClusterRoleBinding")
    assert len(accounts) == 1
    assert accounts <= {CONTROLLER_ACCOUNT, API_ACCOUNT, HANDLER_ACCOUNT}


@pytest.mark.parametrize(
    "owner",
    [
        "virtualmachines.kubevirt.io",
        "virtualmachineinstances.kubevirt.io",
        "virtualmachineinstancereplicasets.kubevirt.io",
        "virtualmachinepools.pool.kubevirt.io",
        "datavolumes.cdi.kubevirt.io",
    ],
)
def test_the_controller_may_write_the_finalizers_of_owners_whose_deletion_it_blocks(owner: str) -> None:
    plural, _, api_group = owner.partition(".")
    found = [
        each.rule.verbs
        for each in ROLE_RIGHTS[CONTROLLER_GROUP]
        if f"{plural}/finalizers" in each.rule.resources and api_group in each.rule.groups
    ]
    assert found == [("update",)]


def test_no_role_has_a_right_to_everything() -> None:
    for rights in ROLE_RIGHTS.values():
        for each in rights:
            assert "*" not in (*each.rule.verbs, *each.rule.groups, *each.rule.resources), each


def test_the_roles_authority_is_the_api_roles_alone_and_the_controller_reads_that_of_uploads() -> None:
    reading = {
        group: [
            (each.namespace, each.rule.names) for each in rights if "secrets" in each.rule.resources and reads(each)
        ]
        for group, rights in ROLE_RIGHTS.items()
    }
    assert reading == {
        API_GROUP: [("kvedge-system", ("kvedge-ca", "kvedge-upload-ca"))],
        CONTROLLER_GROUP: [("kvedge-system", ("kvedge-upload-ca",)), ("kvedge-system", ("kvedge-alarm-receivers",))],
        # Each is good for one guest, for a day.
        HANDLER_GROUP: [("kvedge-crossings", ())],
    }


def reads(right: Right) -> bool:
    return not {"get", "list", "watch"}.isdisjoint(right.rule.verbs)


def test_a_handler_writes_only_what_is_limited_to_its_node_and_its_own_requests() -> None:
    writes = {"create", "update", "patch", "delete"}
    free = {
        resource
        for each in ROLE_RIGHTS[HANDLER_GROUP]
        if not each.limit and writes & set(each.rule.verbs)
        for resource in each.rule.resources
    }
    assert free == {"events", "certificatesigningrequests"}


def role(name: str) -> tuple[PolicyRule, ...]:
    found: JsonObject = next(
        document
        for document in user_roles()
        if document["metadata"]["name"] == name and document["kind"] == "ClusterRole"
    )
    return policy_rules(found["rules"])


def may(name: str, verb: str, group: str, resource: str) -> bool:
    plural, _, subresource = resource.partition("/")
    return any(rule.means_resource(verb, group, plural, subresource, "x") for rule in role(name))


@pytest.mark.parametrize(
    ("verb", "group", "resource", "who"),
    [
        ("get", SUB, "virtualmachineinstances/console", "admin edit"),
        ("get", SUB, "virtualmachineinstances/vnc", "admin edit"),
        ("get", SUB, "virtualmachineinstances/vnc/screenshot", "admin"),
        ("get", SUB, "virtualmachineinstances/portforward", "admin edit"),
        ("get", SUB, "virtualmachines/portforward", "admin edit"),
        ("get", SUB, "virtualmachineinstances/guestosinfo", "admin edit view"),
        ("get", SUB, "virtualmachineinstances/userlist", "admin edit view"),
        ("get", SUB, "virtualmachineinstances/trace", "admin edit view"),
        ("get", SUB, "virtualmachines/expand-spec", "admin edit view"),
        ("update", SUB, "expand-vm-spec", "admin edit view"),
        ("update", SUB, "virtualmachines/start", "admin edit"),
        ("update", SUB, "virtualmachineinstances/pause", "admin edit"),
        ("update", SUB, "virtualmachineinstances/reset", "admin edit"),
        ("update", SUB, "virtualmachines/migrate", ""),
        ("create", "kubevirt.io", "virtualmachines", "admin edit"),
        ("deletecollection", "kubevirt.io", "virtualmachines", "admin"),
        ("list", "kubevirt.io", "virtualmachineinstancemigrations", "admin edit view"),
        ("create", "kubevirt.io", "virtualmachineinstancemigrations", ""),
        ("list", "kubevirt.io", "kubevirts", "edit"),
        ("update", "kubevirt.io", "virtualmachineinstances/status", ""),
    ],
)
def test_the_roles_of_users_are_kubevirts(verb: str, group: str, resource: str, who: str) -> None:
    found = {name for name in ("admin", "edit", "view") if may(f"kubevirt.io:{name}", verb, group, resource)}
    assert found == set(who.split())


def test_each_role_of_users_is_gathered_where_kubevirt_gathers_it() -> None:
    for document in user_roles():
        labels = document["metadata"]["labels"]
        gathered = [key for key in labels if "aggregate-to" in key]
        short = document["metadata"]["name"].removeprefix("kubevirt.io:")
        wanted = [f"rbac.authorization.k8s.io/aggregate-to-{short}"] if short in ("admin", "edit", "view") else []
        assert gathered == wanted


def test_everybody_may_find_kubevirt_and_nothing_of_a_vm() -> None:
    assert may("kubevirt.io:default", "list", "kubevirt.io", "kubevirts")
    assert may("kubevirt.io:default", "get", SUB, "version")
    assert may("kubevirt.io:default", "list", "cdi.kubevirt.io", "cdiconfigs")
    assert not may("kubevirt.io:default", "update", "cdi.kubevirt.io", "cdiconfigs")
    assert not may("kubevirt.io:default", "get", "kubevirt.io", "virtualmachines")


def test_the_controller_reads_the_namespace_of_a_guest_that_moves_and_lists_none() -> None:
    found = [each.rule.verbs for each in ROLE_RIGHTS[CONTROLLER_GROUP] if "namespaces" in each.rule.resources]
    assert found == [("get",)]
