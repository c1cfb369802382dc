"""Which kinds the server has, and what a user may call them: plural, singular, short name, kind, group-qualified.

Called by the verbs that take a kind. Asks the server's discovery documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvedge.client.errors import NotFoundError, RefusedError
from kvedge.kube.errors import KubeError
from kvedge.resources.codec import JsonObject
from kvedge.resources.kinds import Kind
from kvedge.runtime.nearest_names import or_nearest

if TYPE_CHECKING:
    from kvedge.kube.kube_client import KubeClient


@dataclass(frozen=True, slots=True)
class ServedKind:
    """One kind with the names it answers to."""

    kind: Kind
    names: frozenset[str]


def list_served_kinds(client: KubeClient) -> list[ServedKind]:
    """All kinds of all groups, core first, each in its preferred version first."""
    found = _kinds_of(client, "", "v1", "/api/v1")
    for group in client.request("GET", "/apis")["groups"]:
        versions = sorted(group["versions"], key=lambda item: item != group.get("preferredVersion"))
        for version in versions:
            try:
                found += _kinds_of(client, group["name"], version["version"], f"/apis/{version['groupVersion']}")
            except KubeError:
                # An aggregated group whose server is away must not keep the others from being used.
                continue
    return found


def find_kind(client: KubeClient, name: str) -> Kind:
    """The kind that a user means by `name`.

    Raises:
        NotFoundError: when the server has none of that name.
    """
    wanted = name.lower()
    known = list_served_kinds(client)
    for served in known:
        if wanted in served.names:
            return served.kind
    alike = or_nearest(wanted, sorted({called for served in known for called in served.names if "." not in called}))
    raise NotFoundError(f'the server doesn\'t have a resource type "{name}".{alike}')


def kind_of_document(kinds: list[ServedKind], document: JsonObject) -> Kind:
    """The served kind of a manifest.

    Raises:
        RefusedError: when apiVersion or kind is missing or unknown.
    """
    api_version, kind = document.get("apiVersion"), document.get("kind")
    if not api_version or not kind:
        raise RefusedError("a manifest needs apiVersion and kind")
    for served in kinds:
        if served.kind.api_version == api_version and served.kind.kind == kind:
            return served.kind
    raise RefusedError(f'no matches for kind "{kind}" in version "{api_version}"')


def _kinds_of(client: KubeClient, group: str, version: str, path: str) -> list[ServedKind]:
    found = []
    for resource in client.request("GET", path)["resources"]:
        if "/" in resource["name"]:
            continue
        kind = Kind(group, version, resource["kind"], resource["name"], resource["namespaced"])
        plain = {kind.plural, resource.get("singularName") or kind.kind.lower(), kind.kind.lower()}
        plain |= set(resource.get("shortNames") or ())
        qualified = {f"{name}.{group}" for name in plain if group}
        found.append(ServedKind(kind, frozenset(plain | qualified)))
    return found
