"""What is too large to be judged: of such a document nothing else is said, as every rule costs time for each value.

Called by admission_plan.py, mutation_plan.py and kubevirt_admission.py before anything that walks a document. Pure. The
limits are far above what any VM or configuration has, and low enough that the worst document there is holds no other
user up. API servers have limits of their own, in bytes; but anybody may call a webhook.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from kvedge.api.admission.rules.causes import Cause, Field
from kvedge.resources.codec import JsonObject

# 256 volumes, disks and networks with all that each can have are half of it.
MOST_VALUES: Final = 20_000
MOST_LEVELS: Final = 64
# A label's key, which is the longest that Kubernetes has: a DNS name, a slash and a name.
LONGEST_KEY: Final = 253 + 1 + 63
# Written by the API server, and read by no rule.
_NOT_JUDGED: Final = "managedFields"


def parts_to_judge(document: JsonObject) -> JsonObject:
    """What rules look at of an object: its spec, and of its metadata what somebody has written."""
    metadata = document.get("metadata")
    if isinstance(metadata, dict):
        metadata = {name: value for name, value in metadata.items() if name != _NOT_JUDGED}
    others = {name: value for name, value in document.items() if name not in ("metadata", "status")}
    return {**others, "metadata": metadata}


def size_is_sane(document: JsonObject) -> Iterator[Cause]:
    """One cause when there are too many values, they stand too deep, or a key is too long."""
    left = MOST_VALUES
    for name, member in document.items():
        complaint = _key_complaint(str(name))
        if not complaint:
            left, complaint = _measure(member, left)
        if complaint:
            at = Field(str(name)[:LONGEST_KEY])
            yield Cause(at, f"{at}: {complaint}")
            return


def _measure(root: Any, left: int) -> tuple[int, str]:
    """How many values may still come after those below `root`, and what is wrong with these."""
    # No recursion: how deep it goes is the author's to say.
    waiting: list[tuple[Any, int]] = [(root, 1)]
    while waiting:
        value, level = waiting.pop()
        if not isinstance(value, (dict, list)) or not value:
            continue
        if level > MOST_LEVELS:
            return left, f"is nested deeper than {MOST_LEVELS} levels"
        left -= len(value)
        if left < 0:
            return left, f"there are more than {MOST_VALUES} values in this object"
        if isinstance(value, dict):
            if complaint := next(filter(None, map(_key_complaint, value)), ""):
                return left, complaint
            value = value.values()
        waiting += [(item, level + 1) for item in value]
    return left, ""


def _key_complaint(key: str) -> str:
    return f"a key below it is longer than {LONGEST_KEY} characters" if len(key) > LONGEST_KEY else ""
