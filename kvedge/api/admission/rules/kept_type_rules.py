"""Who may say what the types of a VM were when it was kept: the controller, which restores it, and no user.

Called by admission_plan.py and by the verdicts on restores and clones. Works on documents as they came; touches
nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from kvedge.api.admission.rules.causes import Cause, Field, unsupported_cause
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.state_claims import STATE_CLAIM, TPM_ORIGIN
from kvedge.resources.names import KEPT_TYPES
from kvedge.resources.role_users import UserInfo
from kvedge.resources.values.saved_memory import RESUME_MEMORY

_ANNOTATIONS: Final = "/metadata/annotations"
_OURS: Final = (KEPT_TYPES, RESUME_MEMORY, STATE_CLAIM, TPM_ORIGIN)


def kept_types_are_ours(old: JsonObject, new: JsonObject, user: UserInfo) -> Iterator[Cause]:
    """What a restored VM's types were is the controller's word: with it a VM has another size than its type has."""
    before, after = (_annotations(document).get(KEPT_TYPES) for document in (old, new))
    if user.is_controller or after is None or after == before:
        return
    at = Field("metadata").at("annotations").key(KEPT_TYPES)
    yield unsupported_cause(at, f"{at}: only a restore of kvedge writes it: leave it out")


def patches_leave_kept_types(patches: Sequence[str], user: UserInfo) -> Iterator[Cause]:
    """A restore's patches are written by the controller, and are the user's word all the same."""
    if user.is_controller:
        # Those of a clone.
        return
    for index, text in enumerate(patches):
        try:
            operation = json.loads(text)
        except (ValueError, RecursionError):
            # Another rule has the words.
            continue
        if isinstance(operation, dict) and (written := _writes_ours(operation)):
            at = Field("spec").at("patches").item(index)
            yield unsupported_cause(at, f"{at}: {written} is written by kvedge alone: leave it out")


def _writes_ours(operation: JsonObject) -> str:
    """An annotation of ours that an operation writes, or may write; empty for none."""
    path, value = str(operation.get("path")), operation.get("value")
    if operation.get("op") == "test":
        return ""
    if path == _ANNOTATIONS and operation.get("op") in ("copy", "move"):
        return KEPT_TYPES
    named = path.replace("~1", "/").replace("~0", "~").removeprefix(f"{_ANNOTATIONS}/")
    inner = value if path == _ANNOTATIONS and isinstance(value, dict) else {}
    return next((name for name in _OURS if name == named or name in inner), "")


def _annotations(document: JsonObject) -> JsonObject:
    metadata = document.get("metadata")
    found = metadata.get("annotations") if isinstance(metadata, dict) else None
    return found if isinstance(found, dict) else {}
