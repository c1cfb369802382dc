"""What objects of built-in kinds may say: the rule for their names, for what is in them, and for what may change.

Called by the server (`object_checks`) once an object has its final shape. Pure; nothing is raised, the first causes are
returned.
"""

from __future__ import annotations

from itertools import chain

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.built_in import find_built_in
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.schema.metadata_rules import NameRule
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.api_errors import FieldError, first_errors
from kvedge.standalone.apiserver.wire.json_values import same


def name_rule_of(kind: ServedKind) -> NameRule:
    """What the names of a kind's objects may look like."""
    row = find_built_in(kind.storage)
    return name_rules.dns_subdomain if row is None else row.name_rule


def check_content(kind: ServedKind, obj: JsonObject) -> list[FieldError]:
    """What is wrong with an object of a built-in kind besides its metadata: the first errors."""
    row = find_built_in(kind.storage)
    return [] if row is None or row.check is None else first_errors(row.check(obj))


def check_content_update(kind: ServedKind, new: JsonObject, old: JsonObject) -> list[FieldError]:
    """What is wrong with an object of a built-in kind that replaces `old`, besides its metadata: the first errors."""
    row = find_built_in(kind.storage)
    if row is None or (row.checks_changed_specs_only and same(new.get("spec"), old.get("spec"))):
        return []
    changed = row.check_update(new, old) if row.check_update is not None else ()
    return first_errors(chain(check_content(kind, new), changed))
