"""Gives kvedge's roles their rights on a real API server, as k3s/rbac does; the embedded one knows them by itself.

And tells which of them nobody has used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from kvedge.kube.errors import AlreadyExists
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.rbac_manifest import rbac_files
from kvedge.resources.manifests.role_rights import ROLE_RIGHTS, Right
from tests.support.kube_apiserver import RoleCall
from tests.support.waiting import wait_until

_PLURALS = {
    "Namespace": "namespaces",
    "ServiceAccount": "serviceaccounts",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
    "Role": "roles",
    "RoleBinding": "rolebindings",
}


def give_roles_their_rights(admin: KubeClient) -> None:
    """Create every document of k3s/rbac."""
    for documents in rbac_files().values():
        for document in documents:
            try:
                admin.request("POST", collection(document), document)
            except AlreadyExists:
                continue


@contextmanager
def everything_by_rbac(
    admin: KubeClient, group: str, user: str, groups: list[str], resources: list[str]
) -> Iterator[None]:
    """All rights on some kinds, for a role's group and its service account: what it may not do then, policies say."""
    name, api = {"name": "test-everything"}, "rbac.authorization.k8s.io"
    root = f"/apis/{api}/v1"
    rules = [{"apiGroups": groups, "resources": resources, "verbs": ["*"]}]
    subjects = [{"kind": kind, "name": who, "apiGroup": api} for kind, who in (("Group", group), ("User", user))]
    role = {"kind": "ClusterRole", "apiGroup": api, **name}
    admin.request("POST", f"{root}/clusterroles", {"metadata": name, "rules": rules})
    admin.request("POST", f"{root}/clusterrolebindings", {"metadata": name, "roleRef": role, "subjects": subjects})
    spec = {
        "user": user,
        "groups": [group],
        "resourceAttributes": {"verb": "*", "group": groups[0], "resource": resources[0]},
    }
    asked = ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", {"spec": spec})
    # A server needs a moment to follow its rights, too.
    wait_until(lambda: admin.request(*asked)["status"]["allowed"], "the rights are in force")
    yield
    for kind in ("clusterrolebindings", "clusterroles"):
        admin.request("DELETE", f"{root}/{kind}/{name['name']}")


def collection(document: JsonObject) -> str:
    """The path that a document is created at."""
    version = document["apiVersion"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    namespace = document["metadata"].get("namespace")
    where = f"/namespaces/{namespace}" if namespace else ""
    return f"{root}{where}/{_PLURALS[document['kind']]}"


# Each of them shows the same; `get` goes with what a role follows, and a watch is told of only when it ends.
_READS = ("get", "list", "watch")


def unused_rights(calls: Iterable[RoleCall]) -> set[str]:
    """What no role has made use of, one by one: `role: verb resource.group in namespace`, or `read` of any kind."""
    made = [call for call in calls if call.code not in (401, 403)]
    return {
        spelled
        for group, rights in ROLE_RIGHTS.items()
        for right in rights
        for spelled, asking in _parts(group, right)
        if not any(asking == _asked(call, right) for call in made)
    }


def _parts(group: str, right: Right) -> Iterator[tuple[str, tuple[str, ...]]]:
    rule = right.rule
    where = f" in {right.namespace}" if right.namespace else ""
    for verb in dict.fromkeys(map(_verb, rule.verbs)):
        for api_group in rule.groups:
            for resource in rule.resources:
                for name in rule.names or ("",):
                    spelled = (
                        f"{verb} {resource}{'.' if api_group else ''}{api_group}{f' {name}' if name else ''}{where}"
                    )
                    yield f"{group}: {spelled}", (group, verb, api_group, resource, right.namespace, name)


def _asked(call: RoleCall, right: Right) -> tuple[str, ...]:
    """A call in the words of a right, with what that does not ask for left out."""
    return (
        call.group,
        _verb(call.verb),
        call.api_group,
        call.resource,
        call.namespace if right.namespace else "",
        call.name if right.rule.names else "",
    )


def _verb(verb: str) -> str:
    return "read" if verb in _READS else verb
