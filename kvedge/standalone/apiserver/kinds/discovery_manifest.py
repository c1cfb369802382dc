"""The discovery documents: which groups, versions and resources are served.

Rendered for the REST routes from the served kinds and from what aggregated API servers say of theirs. Pure.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field

from kvedge import __version__
from kvedge.resources.codec import JsonObject
from kvedge.runtime.architecture import host_architecture
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind

# The Kubernetes release whose behaviour is followed, which the contract tests hold against its kube-apiserver. Clients
# compare it with their own.
_MINOR = "36"

# The kind of what is read or written at a subresource, where it is not the object itself: (group, version, kind),
# verbs.
_SUBRESOURCES: Mapping[str, tuple[tuple[str, str, str] | None, tuple[str, ...]]] = {
    "status": (None, ("get", "patch", "update")),
    "approval": (None, ("get", "patch", "update")),
    "token": (("authentication.k8s.io", "v1", "TokenRequest"), ("create",)),
    "scale": (("autoscaling", "v1", "Scale"), ("get", "patch", "update")),
    "finalize": (None, ("update",)),
    "resize": (None, ("get", "patch", "update")),
    "log": (None, ("get",)),
    "exec": (("", "v1", "PodExecOptions"), ("create", "get")),
    "attach": (("", "v1", "PodAttachOptions"), ("create", "get")),
    "portforward": (("", "v1", "PodPortForwardOptions"), ("create", "get")),
    "binding": (("", "v1", "Binding"), ("create",)),
    "eviction": (("policy", "v1", "Eviction"), ("create",)),
}


class AggregatedVersion(Struct, frozen=True):
    """One version of a group that another server serves. `resources` is its last known metav1 resource list."""

    group: str
    version: str
    group_priority: int = 0
    version_priority: int = 0
    available: bool = True
    resources: Sequence[JsonObject] = field(default_factory=tuple)


def version_info() -> JsonObject:
    """The document at /version."""
    return {
        "major": "1",
        "minor": _MINOR,
        "gitVersion": f"v1.{_MINOR}.0+kvedge{__version__}",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "",
        "platform": f"linux/{host_architecture()}",
    }


def core_versions(address: str) -> JsonObject:
    """The document at /api."""
    by_client = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": by_client}


def group_list(versions: Mapping[str, Sequence[str]]) -> JsonObject:
    """The document at /apis."""
    groups = [_group(name, served) for name, served in versions.items()]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(name: str, versions: Sequence[str]) -> JsonObject:
    """The document at /apis/<group>."""
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, versions)}


def resource_list(group_version: str, kinds: Iterable[ServedKind]) -> JsonObject:
    """The document at /api/v1 and /apis/<group>/<version>."""
    resources = [entry for kind in sorted(kinds, key=lambda kind: kind.plural) for entry in _entries(kind)]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources}


def discovery_document(
    versions: Mapping[str, Sequence[str]], kinds: Sequence[ServedKind], remote: Sequence[AggregatedVersion], api: str
) -> JsonObject:
    """All groups with their resources in one document, of the version `api` of apidiscovery.k8s.io."""
    foreign = {(item.group, item.version): item for item in remote}
    items = []
    for name, served in versions.items():
        entries = []
        for version in served:
            known = foreign.get((name, version))
            if known is not None:
                resources = _regroup(name, version, known.resources)
            else:
                resources = [_resource(kind) for kind in kinds if (kind.group, kind.version) == (name, version)]
            fresh = "Stale" if known is not None and not known.available else "Current"
            entries.append({"version": version, "resources": resources, "freshness": fresh})
        metadata = {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None}
        items.append({"metadata": metadata, "versions": entries})
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": f"apidiscovery.k8s.io/{api}",
        "metadata": {},
        "items": items,
    }


def storage_version_hash(kind: ServedKind) -> str:
    """A short text that changes when the stored version does."""
    digest = hashlib.sha256(f"{kind.group}/{kind.storage_api_version}/{kind.kind}".encode())
    return digest.hexdigest()[:11] + "="


def _group(name: str, versions: Sequence[str]) -> JsonObject:
    entries = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": entries, "preferredVersion": entries[0]}


def _entries(kind: ServedKind) -> list[JsonObject]:
    main: JsonObject = {
        "name": kind.plural,
        "singularName": _singular(kind),
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        main["shortNames"] = list(kind.short_names)
    if kind.categories:
        main["categories"] = list(kind.categories)
    if "list" in kind.verbs:
        main["storageVersionHash"] = storage_version_hash(kind)
    entries = [main]
    for name in kind.subresources:
        shown, verbs = _SUBRESOURCES[name]
        entry: JsonObject = {"name": f"{kind.plural}/{name}", "singularName": "", "namespaced": kind.namespaced}
        if shown is not None:
            group_name, version, shown_kind = shown
            entry.update({"version": version, "kind": shown_kind})
            if group_name:
                entry["group"] = group_name
        else:
            entry["kind"] = kind.kind
        entries.append({**entry, "verbs": list(verbs)})
    return entries


def _resource(kind: ServedKind) -> JsonObject:
    """One apidiscovery APIResourceDiscovery."""
    entry: JsonObject = {
        "resource": kind.plural,
        "responseKind": {"group": kind.group, "version": kind.version, "kind": kind.kind},
        "scope": "Namespaced" if kind.namespaced else "Cluster",
        "singularResource": _singular(kind),
        "verbs": list(kind.verbs),
    }
    if kind.short_names:
        entry["shortNames"] = list(kind.short_names)
    if kind.categories:
        entry["categories"] = list(kind.categories)
    if kind.subresources:
        entry["subresources"] = [_subresource(kind, name) for name in kind.subresources]
    return entry


def _subresource(kind: ServedKind, name: str) -> JsonObject:
    shown, verbs = _SUBRESOURCES[name]
    group_name, version, shown_kind = shown or (kind.group, kind.version, kind.kind)
    return {
        "subresource": name,
        "responseKind": {"group": group_name, "version": version, "kind": shown_kind},
        "verbs": list(verbs),
    }


def _regroup(group_name: str, version: str, resources: Sequence[JsonObject]) -> list[JsonObject]:
    """Turn the flat list of an aggregated server, in which `a/b` is a subresource, into the nested one."""
    found: dict[str, JsonObject] = {}
    for entry in resources:
        parent, _, sub = str(entry["name"]).partition("/")
        shown = {
            "group": entry.get("group") or group_name,
            "version": entry.get("version") or version,
            "kind": entry.get("kind") or "",
        }
        scope = "Namespaced" if entry.get("namespaced") else "Cluster"
        base = found.setdefault(parent, {"resource": parent, "scope": scope, "singularResource": "", "verbs": []})
        if sub:
            subs = base.setdefault("subresources", [])
            subs.append({"subresource": sub, "responseKind": shown, "verbs": entry.get("verbs") or []})
            continue
        base.update({"responseKind": shown, "scope": scope, "verbs": entry.get("verbs") or []})
        base["singularResource"] = entry.get("singularName") or ""
        for name in ("shortNames", "categories"):
            if entry.get(name):
                base[name] = entry[name]
    return list(found.values())


def _singular(kind: ServedKind) -> str:
    return kind.singular or kind.kind.lower()
