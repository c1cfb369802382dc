"""The kinds that the embedded API serves: what each is called and which verbs it has, and how a CRD becomes such.

Read by routing, discovery, the write rules and whoever renders documents about kinds. Pure data; touches nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from kvedge.resources.codec import JsonObject

_VERSION: Final = re.compile(r"v([1-9][0-9]*)(?:(alpha|beta)([1-9][0-9]*))?")
ALL_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
# A kind whose objects are questions: they are answered, never stored.
ASKED: Final = ("create",)
# A kind whose objects are measured when somebody reads them.
MEASURED: Final = ("get", "list")


@dataclass(frozen=True)
class ServedKind:
    """One kind in one version as it is served.

    `crd` is the CustomResourceDefinition of a custom kind, `crd_version` the entry of its spec.versions.
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    singular: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    subresources: tuple[str, ...] = ()
    # metadata.generation counts changes of what is neither metadata nor status.
    counts_generation: bool = False
    # Objects of one resource may be served by two groups (events).
    stored_as: str = ""
    stored_version: str = ""
    list_kind: str = ""
    crd: JsonObject | None = field(default=None, compare=False, repr=False)
    crd_version: JsonObject | None = field(default=None, compare=False, repr=False)

    @property
    def api_version(self) -> str:
        """`group/version`, or the bare version for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`virtualmachines.kubevirt.io`, or `pods` for the core group."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def storage(self) -> str:
        """The resource under which the objects are stored."""
        return self.stored_as or self.qualified

    @property
    def storage_api_version(self) -> str:
        """The apiVersion that the stored objects carry."""
        if self.stored_version:
            return self.stored_version
        return self.api_version

    @property
    def list_name(self) -> str:
        """`PodList`."""
        return self.list_kind or f"{self.kind}List"

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources

    @property
    def deprecation(self) -> str:
        """What users of a custom kind's old version are told; nothing of one that is not old."""
        if self.crd is None or self.crd_version is None or not self.crd_version.get("deprecated"):
            return ""
        if self.crd_version.get("deprecationWarning"):
            return str(self.crd_version["deprecationWarning"])
        versions = [entry for entry in self.crd["spec"]["versions"] if entry.get("served")]
        present = (entry["name"] for entry in versions if not entry.get("deprecated"))
        newer = sorted(
            (name for name in present if _version_rank(name) < _version_rank(self.version)), key=_version_rank
        )
        remedy = f"; use {self.group}/{newer[0]} {self.kind}" if newer else ""
        return f"{self.api_version} {self.kind} is deprecated{remedy}"

    @property
    def schema(self) -> JsonObject | None:
        """The structural schema of a custom kind's version."""
        if self.crd_version is None:
            return None
        schema: JsonObject | None = (self.crd_version.get("schema") or {}).get("openAPIV3Schema")
        return schema


def kinds_of_crd(crd: JsonObject) -> list[ServedKind]:
    """One row for each served version of an established CustomResourceDefinition."""
    spec = crd["spec"]
    names = (crd.get("status") or {}).get("acceptedNames") or spec["names"]
    stored = next(version["name"] for version in spec["versions"] if version.get("storage"))
    return [
        ServedKind(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            namespaced=spec.get("scope") == "Namespaced",
            singular=names.get("singular") or names["kind"].lower(),
            short_names=tuple(names.get("shortNames") or ()),
            categories=tuple(names.get("categories") or ()),
            subresources=tuple(sorted(version.get("subresources") or {})),
            counts_generation=True,
            stored_version=f"{spec['group']}/{stored}",
            list_kind=names.get("listKind") or "",
            crd=crd,
            crd_version=version,
        )
        for version in spec["versions"]
        if version.get("served")
    ]


class KindIndex:
    """The served kinds by where they are found in URLs. Rebuilt when CRDs change; never altered."""

    def __init__(self, kinds: Iterable[ServedKind]) -> None:
        self.kinds = tuple(kinds)
        self._by_path = {(kind.group, kind.version, kind.plural): kind for kind in self.kinds}
        self._by_kind = {(kind.api_version, kind.kind): kind for kind in self.kinds}
        self._by_group_kind = {(kind.group, kind.kind): kind for kind in self.kinds}
        self._by_storage: dict[str, ServedKind] = {}
        for kind in self.kinds:
            if kind.storage_api_version == kind.api_version or kind.storage not in self._by_storage:
                self._by_storage[kind.storage] = kind

    def at(self, group: str, version: str, plural: str) -> ServedKind | None:
        """The kind that a URL names."""
        return self._by_path.get((group, version, plural))

    def of(self, api_version: str, kind: str) -> ServedKind | None:
        """The kind that an object names."""
        return self._by_kind.get((api_version, kind))

    def owner(self, api_version: str, kind: str) -> ServedKind | None:
        """The kind that an owner reference names; it may name a version that is not served any more."""
        return self.of(api_version, kind) or self._by_group_kind.get((api_version.rpartition("/")[0], kind))

    def find_stored(self, resource: str) -> ServedKind | None:
        """The kind as which the objects of a stored resource are kept, or another version of it that is served."""
        return self._by_storage.get(resource)

    def group_versions(self) -> dict[str, list[str]]:
        """The versions of each group but the core one, the preferred version first."""
        groups: dict[str, list[str]] = {}
        for kind in self.kinds:
            versions = groups.setdefault(kind.group, [])
            if kind.version not in versions:
                versions.append(kind.version)
        groups.pop("", None)
        return {group: sorted(versions, key=_version_rank) for group, versions in groups.items()}


def _version_rank(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order: v2, v1, v1beta2, v1beta1, v1alpha1, then anything else by name."""
    match = _VERSION.fullmatch(version)
    if match is None:
        return (3, 0, 0, version)
    stage = {None: 0, "beta": 1, "alpha": 2}[match[2]]
    return (stage, -int(match[1]), -int(match[3] or 0), "")
