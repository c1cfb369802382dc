"""What a VM's types were, written into what is kept of the VM: a snapshot, and what is made of it.

Written by the controller's snapshots, whose copies of a VM outlive the VM's own ControllerRevisions; read when a VM
that has come back keeps copies of its types again. Pure. Admission lets nobody but the controller write it; what it
says is judged as a type is that somebody makes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Final

from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.instancetypes.matchers import PARTS, Part, UnknownKind
from kvedge.resources.instancetypes.revisions import BadRevision, spec_of
from kvedge.resources.instancetypes.type_faults import find_faults
from kvedge.resources.names import KEPT_TYPES
from kvedge.resources.types.vm import Matcher

# As long as all annotations of an object may be is four times as much.
_LONGEST: Final = 64 * 1024
_UID: Final = re.compile(r"[0-9a-z-]{1,64}")


def annotation_of(objects: Mapping[str, JsonObject]) -> str:
    """The annotation's value; `objects` are a VM's copies by the member of its spec."""
    return json.dumps(objects, sort_keys=True, separators=(",", ":"))


def kept_object(annotations: Mapping[str, str], part: Part, matcher: Matcher) -> JsonObject | None:
    """The object that is kept for what a VM names; None when there is none, or none that can be used."""
    text = annotations.get(KEPT_TYPES, "")
    if not text or len(text) > _LONGEST:
        return None
    try:
        found = json.loads(text)[part.member]
        kind, metadata = part.kind_of(matcher).kind, found["metadata"]
        is_it = (found["kind"], metadata["name"]) == (kind, matcher.name)
        is_named = bool(_UID.fullmatch(metadata["uid"])) and isinstance(metadata["generation"], int)
        spec = spec_of(part, found)
        is_sane = next(find_faults(decode(part.spec, spec)), None) is None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, BadRevision, UnknownKind):
        return None
    return (
        {"kind": kind, "metadata": _find_identity(metadata), "spec": spec} if is_it and is_named and is_sane else None
    )


def identify(document: JsonObject) -> JsonObject:
    """Of an object what is kept."""
    return {"kind": document["kind"], "metadata": _find_identity(document["metadata"]), "spec": document.get("spec")}


def without_revision_names(spec: JsonObject) -> JsonObject:
    """A VM's spec without the names of its copies, which go with the VM."""
    made = dict(spec)
    for part in PARTS:
        matcher = made.get(part.member)
        if isinstance(matcher, dict):
            made[part.member] = {name: value for name, value in matcher.items() if name != "revisionName"}
    return made


def _find_identity(metadata: JsonObject) -> JsonObject:
    return {name: metadata[name] for name in ("name", "uid", "generation")}
