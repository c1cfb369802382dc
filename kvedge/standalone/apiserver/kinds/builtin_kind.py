"""What one built-in kind is: the fields of its row, where Kubernetes keeps a strategy.

The rows stand in `groups/`, a module for each API group; `built_in` gathers them and finds them. Code that treats one
kind differently from another asks its row: a new kind is a row, and a schema in `types/`. Pure data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.kinds.table_columns import CREATED_AT, NAME, Column
from kvedge.standalone.apiserver.schema.metadata_rules import NameRule
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.api_errors import FieldError
from kvedge.standalone.apiserver.wire.protobuf_body import MessageType

Check = Callable[[JsonObject], Iterable[FieldError]]
UpdateCheck = Callable[[JsonObject, JsonObject], Iterable[FieldError]]

# Group and version of the core kinds, the first two fields of a row.
CORE: Final = ("", "v1")
_NO_LABELS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True)
class BuiltinKind(ServedKind):
    """A built-in kind, as it is served and as its objects are treated. Two rows are equal when they serve the same.

    Attributes:
        columns: what `kubectl get` shows.
        field_labels: the fields that selectors may name besides name and namespace, each with the text that an absent
            one stands for.
        set_defaults: fills in what an object leaves out, before it is checked.
        initial_status: the status that a new object starts with, its defaults set; None for none.
        status_on_create: whether the status that a new object brings along is kept.
        metadata_with_status: whether writers of the status may change labels and annotations too.
        name_rule: what the names of objects may look like.
        check: everything wrong with an object besides its metadata.
        keeps: fills in what an update leaves out and the object has, such as an address that was given to it.
        check_update: what is wrong, besides that, with an object that replaces another one.
        checks_changed_specs_only: whether an update that leaves the spec as it is passes unchecked. Older versions have
            let every spec of such a kind in: what lies there with a wrong one can still have its labels and its status
            written.
        returned_when_deleted: whether a deletion answers with the object instead of a Status.
        protobuf: the message in which clients may send it; None when it is read from JSON or YAML only.
    """

    columns: tuple[Column, ...] = field(default=(NAME, CREATED_AT), compare=False, repr=False)
    field_labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS, compare=False, repr=False)
    set_defaults: Callable[[JsonObject], None] | None = field(default=None, compare=False, repr=False)
    initial_status: Callable[[JsonObject], JsonObject] | None = field(default=None, compare=False, repr=False)
    status_on_create: bool = field(default=False, compare=False, repr=False)
    metadata_with_status: bool = field(default=False, compare=False, repr=False)
    name_rule: NameRule = field(default=name_rules.dns_subdomain, compare=False, repr=False)
    check: Check | None = field(default=None, compare=False, repr=False)
    keeps: Callable[[JsonObject, JsonObject], None] | None = field(default=None, compare=False, repr=False)
    check_update: UpdateCheck | None = field(default=None, compare=False, repr=False)
    checks_changed_specs_only: bool = field(default=False, compare=False, repr=False)
    returned_when_deleted: bool = field(default=False, compare=False, repr=False)
    protobuf: MessageType | None = field(default=None, compare=False, repr=False)


def starts_as(phase: str) -> Callable[[JsonObject], JsonObject]:
    """The `initial_status` of a kind whose new objects are in this phase."""
    return lambda obj: {"phase": phase}
