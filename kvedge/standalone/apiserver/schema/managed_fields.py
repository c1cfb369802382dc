"""metadata.managedFields: reading, changing and writing the list of who owns what.

Called by server_apply. Pure; the time is given. Entries that cannot be read are dropped, as the API server does: they
would otherwise refuse every later write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.standalone.apiserver.schema import field_sets
from kvedge.standalone.apiserver.schema.field_sets import FieldSet, Path

MAX_UPDATE_MANAGERS: Final = 10
_ANCIENT: Final = "ancient-changes"


class Manager(Struct, frozen=True):
    """A manager of fields: an applier is the same in every API version, an updater has an entry for each."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What tells two entries apart."""
        version = "" if self.operation == "Apply" else self.api_version
        return (self.operation, self.name, version, self.subresource)

    def describe(self) -> str:
        """The manager as conflicts name it."""
        text = f'"{self.name}"'
        if self.subresource:
            text += f' with subresource "{self.subresource}"'
        return f"{text} using {self.api_version}" if self.operation == "Update" else text


class Entry(Struct, frozen=True):
    """One entry: a manager, its fields, and when they last changed."""

    manager: Manager
    fields: FieldSet
    time: str = ""

    def encode(self) -> JsonObject:
        """The metav1.ManagedFieldsEntry."""
        document: JsonObject = {
            "manager": self.manager.name,
            "operation": self.manager.operation,
            "apiVersion": self.manager.api_version,
        }
        if self.time:
            document["time"] = self.time
        document["fieldsType"] = "FieldsV1"
        document["fieldsV1"] = field_sets.encode(self.fields)
        if self.manager.subresource:
            document["subresource"] = self.manager.subresource
        return {key: value for key, value in document.items() if value or key == "fieldsV1"}


def decode(entries: JsonValue) -> list[Entry]:
    """The entries of a managedFields list; none when any of them makes no sense."""
    found = []
    for entry in entries or []:
        sound = entry.get("operation") in {"Apply", "Update"} and entry.get("apiVersion")
        if not sound or entry.get("fieldsType") != "FieldsV1":
            return []
        manager = Manager(
            entry.get("manager") or "", entry["operation"], entry["apiVersion"], entry.get("subresource") or ""
        )
        found.append(Entry(manager, field_sets.decode(entry.get("fieldsV1")), entry.get("time") or ""))
    return found


def encode(entries: Iterable[Entry]) -> list[JsonObject]:
    """The managedFields list: appliers first, then by time; entries without fields are gone."""
    kept = [entry for entry in _cap(list(entries)) if entry.fields]
    kept.sort(key=lambda entry: (entry.manager.operation, entry.time, *entry.manager.identity[1:]))
    return [entry.encode() for entry in kept]


def starting_entries(live: JsonObject | None, new: JsonObject, subresource: str) -> list[Entry]:
    """The entries that an update starts from.

    A request may bring its own, an empty list clears them, and one that brings none leaves those of the live object.
    """
    kept = decode((live or {}).get("metadata", {}).get("managedFields"))
    brought = new.get("metadata", {}).get("managedFields")
    if subresource or brought is None:
        return kept
    if brought in ([], [{}]):
        return []
    return decode(brought) or kept


def format_time(moment: datetime) -> str:
    """The time of an entry."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def without(entries: Iterable[Entry], losses: Mapping[tuple[str, str, str, str], FieldSet]) -> list[Entry]:
    """The entries with each manager's losses taken away."""
    return [
        replace(entry, fields=entry.fields - losses.get(entry.manager.identity, field_sets.EMPTY)) for entry in entries
    ]


def _cap(entries: list[Entry]) -> list[Entry]:
    """Unite the oldest entries of updates when there are too many; a cluster full of one-off managers would grow
    them.
    """
    updates = sorted((entry for entry in entries if entry.manager.operation == "Update"), key=lambda entry: entry.time)
    excess = len(updates) - MAX_UPDATE_MANAGERS
    if excess <= 0:
        return entries
    oldest = updates[: excess + 1]
    united: dict[str, set[Path]] = {}
    times: dict[str, str] = {}
    for entry in oldest:
        version = entry.manager.api_version
        united.setdefault(version, set()).update(entry.fields)
        times[version] = entry.time
    gone = set(map(id, oldest))
    ancient = [
        Entry(Manager(_ANCIENT, "Update", version), frozenset(fields), times[version])
        for version, fields in united.items()
    ]
    return [entry for entry in entries if id(entry) not in gone] + ancient
