"""The schemas of the built-in kinds: one table for merge keys, list types, documentation and validation by clients.

Called by strategic_patch and server_apply (through the server) and by openapi_manifest. Pure; parsed once.

The tables (`builtin_types_*`) say for each type its name, what it is, and its fields, one a line:

    Container: A program that runs in a Pod.
      name! string: Name, unique among the Pod's containers.
      env [EnvVar] by name: Environment variables.

`kind` after a type's name adds apiVersion, kind and metadata; `atomic` says that it is replaced as a whole. `!` marks
required fields. A field's type is a word of `_SCALARS`, a type's name, `[T]` (a list), `{T}` (a map of texts), `object`
(anything inside). `by k1,k2` makes a list a map by these keys, of which patches use the first; `set` makes it a set;
`replace` makes patches put an object in the place of another one; `retain` lets patches clear what they do not name; `=
x` gives a default.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.types import builtin_types_groups as groups
from kvedge.standalone.apiserver.kinds.types.builtin_types_core import CORE
from kvedge.standalone.apiserver.kinds.types.builtin_types_meta import META
from kvedge.standalone.apiserver.kinds.types.builtin_types_pod import POD
from kvedge.standalone.apiserver.kinds.types.builtin_types_pod_status import POD_STATUS
from kvedge.standalone.apiserver.kinds.types.builtin_types_snapshots import SNAPSHOTS

META_PACKAGE: Final = "io.k8s.apimachinery.pkg.apis.meta.v1"
_CORE_PACKAGE: Final = "io.k8s.api.core.v1"
# By API group: the package under which clients know its types, and the tables of its types.
_PACKAGES: Final[Mapping[str, tuple[str, str]]] = {
    "": (_CORE_PACKAGE, POD + POD_STATUS + CORE),
    "admissionregistration.k8s.io": ("io.k8s.api.admissionregistration.v1", groups.ADMISSION),
    "apiextensions.k8s.io": ("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1", groups.APIEXTENSIONS),
    "apiregistration.k8s.io": ("io.k8s.kube-aggregator.pkg.apis.apiregistration.v1", groups.APIREGISTRATION),
    "apps": ("io.k8s.api.apps.v1", groups.APPS),
    "certificates.k8s.io": ("io.k8s.api.certificates.v1", groups.CERTIFICATES),
    "coordination.k8s.io": ("io.k8s.api.coordination.v1", groups.COORDINATION),
    "discovery.k8s.io": ("io.k8s.api.discovery.v1", groups.DISCOVERY),
    "events.k8s.io": ("io.k8s.api.events.v1", groups.EVENTS),
    "metrics.k8s.io": ("io.k8s.metrics.pkg.apis.metrics.v1beta1", groups.METRICS),
    "networking.k8s.io": ("io.k8s.api.networking.v1", groups.NETWORKING),
    "policy": ("io.k8s.api.policy.v1", groups.POLICY),
    "rbac.authorization.k8s.io": ("io.k8s.api.rbac.v1", groups.RBAC),
    "scheduling.k8s.io": ("io.k8s.api.scheduling.v1", groups.SCHEDULING),
    "snapshot.storage.k8s.io": ("io.k8s.storage.snapshot.v1", SNAPSHOTS),
    "storage.k8s.io": ("io.k8s.api.storage.v1", groups.STORAGE),
}
_FREE: Final[JsonObject] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
_SCALARS: Final[Mapping[str, JsonObject]] = {
    "string": {"type": "string"},
    "boolean": {"type": "boolean"},
    "integer": {"type": "integer", "format": "int64"},
    "int32": {"type": "integer", "format": "int32"},
    "bytes": {"type": "string", "format": "byte"},
    "time": {"type": "string", "format": "date-time", "nullable": True},
    "microtime": {"type": "string", "format": "date-time", "nullable": True},
    "quantity": {"anyOf": [{"type": "string"}, {"type": "integer"}, {"type": "number"}]},
    "intstr": {"x-kubernetes-int-or-string": True},
    "object": _FREE,
    "free": _FREE,
}
_TYPE_LINE: Final = re.compile(r"(?P<name>\w+)(?P<marks>( kind| atomic)*): (?P<about>.+)")
_FIELD_LINE: Final = re.compile(
    r"  (?P<name>[\w]+)(?P<required>!)? (?P<type>\S+)"
    r"(?P<mode> set| atomic| replace)?( by (?P<keys>\S+))?(?P<retain> retain)?( = (?P<default>\w+))?: (?P<about>.+)"
)
KIND_FIELDS: Final = """\
  apiVersion string: API group and version of the object.
  kind string: Kind of the object.
  metadata ObjectMeta: Name, labels and what else every object has."""


class Field(Struct, frozen=True):
    """One field of a type. `type` is in the notation of the tables, without brackets; `container` is "", "list" or
    "map".
    """

    name: str
    type: str
    container: str
    required: bool
    about: str
    keys: tuple[str, ...] = ()
    is_set: bool = False
    atomic: bool = False
    replace: bool = False
    retain: bool = False
    default: str = ""


class Type(Struct, frozen=True):
    """One type of a package."""

    package: str
    name: str
    about: str
    is_kind: bool
    atomic: bool
    fields: tuple[Field, ...]

    @property
    def qualified(self) -> str:
        """`io.k8s.api.core.v1.Pod`."""
        return f"{self.package}.{self.name}"


@lru_cache(maxsize=1)
def all_types() -> Mapping[str, Type]:
    """Every type by its qualified name."""
    tables = [(META_PACKAGE, META), *_PACKAGES.values()]
    parsed = [one for package, table in tables for one in _parse(package, table)]
    return {one.qualified: one for one in parsed}


def type_of_kind(group: str, kind: str) -> Type | None:
    """The type of a built-in kind; None for kinds that have no table."""
    if group not in _PACKAGES:
        return None
    found = all_types().get(f"{_PACKAGES[group][0]}.{kind}")
    return found if found is not None and found.is_kind else None


def resolve(name: str, package: str) -> Type | None:
    """The type that a name means inside of a package; None for scalars."""
    if name in _SCALARS:
        return None
    types = all_types()
    for place in (package, META_PACKAGE, _CORE_PACKAGE):
        if f"{place}.{name}" in types:
            return types[f"{place}.{name}"]
    raise LookupError(f"{name} in {package} is no type")


@lru_cache(maxsize=64)
def schema_of(group: str, kind: str) -> JsonObject | None:
    """The whole schema of a built-in kind with everything inside, not to be altered; None where there is no table.

    Besides the structural keywords it has x-kubernetes-patch-merge-key and x-kubernetes-patch-strategy.
    """
    found = type_of_kind(group, kind)
    return _inline(found) if found is not None else None


@lru_cache(maxsize=1)
def metadata_schema() -> JsonObject:
    """The schema of metadata; a CRD's own says no more than that it is an object."""
    return _inline(all_types()[f"{META_PACKAGE}.ObjectMeta"])


def scalar_schema(name: str) -> JsonObject:
    """The schema of a scalar type."""
    return dict(_SCALARS[name])


def with_marks(field: Field, schema: JsonObject) -> JsonObject:
    """The schema of a field from that of its type: as a list or map where it is one, with description and merge
    keys.
    """
    if field.container == "map":
        schema = {"type": "object", "additionalProperties": schema}
    elif field.container == "list":
        schema = {"type": "array", "items": schema}
    schema["description"] = field.about
    if field.default:
        schema["default"] = field.default
    if field.atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    if field.replace:
        schema["x-kubernetes-patch-strategy"] = "replace"
    if field.container == "list":
        schema["x-kubernetes-list-type"] = "map" if field.keys else "set" if field.is_set else "atomic"
    if field.keys:
        schema["x-kubernetes-list-map-keys"] = list(field.keys)
        schema["x-kubernetes-patch-merge-key"] = field.keys[0]
    if field.keys or field.is_set:
        schema["x-kubernetes-patch-strategy"] = "merge,retainKeys" if field.retain else "merge"
    return schema


def _inline(one: Type) -> JsonObject:
    properties = {}
    for field in one.fields:
        inner = resolve(field.type, one.package)
        properties[field.name] = with_marks(field, scalar_schema(field.type) if inner is None else _inline(inner))
    schema: JsonObject = {"type": "object", "description": one.about, "properties": properties}
    required = [field.name for field in one.fields if field.required]
    if required:
        schema["required"] = required
    if one.atomic:
        schema["x-kubernetes-map-type"] = "atomic"
    return schema


def _parse(package: str, table: str) -> list[Type]:
    parsed = []
    for block in re.split(r"\n(?=\w)", table.strip()):
        head, *lines = [line for line in block.split("\n") if line.strip()]
        found = _TYPE_LINE.fullmatch(head)
        if found is None:
            raise ValueError(f"not the first line of a type: {head!r}")
        is_kind = "kind" in found["marks"]
        lines = [*KIND_FIELDS.split("\n"), *lines] if is_kind else lines
        fields = tuple(_field(line) for line in lines)
        parsed.append(Type(package, found["name"], found["about"], is_kind, "atomic" in found["marks"], fields))
    return parsed


def _field(line: str) -> Field:
    found = _FIELD_LINE.fullmatch(line)
    if found is None:
        raise ValueError(f"not a field: {line!r}")
    container = {"[": "list", "{": "map"}.get(found["type"][0], "")
    return Field(
        name=found["name"],
        type=found["type"].strip("[]{}"),
        container=container,
        required=bool(found["required"]),
        about=found["about"],
        keys=tuple((found["keys"] or "").split(",")) if found["keys"] else (),
        is_set=found["mode"] == " set",
        atomic=found["mode"] == " atomic",
        replace=found["mode"] == " replace",
        retain=bool(found["retain"]),
        default=found["default"] or "",
    )
