"""Whether a document that should be there has to be written, and how it then looks.

Called by registration_loop.py. Pure. Level-triggered: what is there is compared with what should be, members that the
server or somebody else has added are left alone.
"""

from __future__ import annotations

from typing import Any

from kvedge.resources.codec import JsonObject


def plan_write(wanted: JsonObject, there: JsonObject | None) -> JsonObject | None:
    """The document to write: the whole one to create, a merged one to replace; None when nothing is to be done."""
    if there is None:
        return wanted
    if covers(there, wanted):
        return None
    merged: JsonObject = _merged(there, wanted)
    return merged


def covers(there: Any, wanted: Any) -> bool:
    """Whether everything that is wanted is there; members beyond it do not count, items of lists do."""
    if isinstance(wanted, dict):
        return isinstance(there, dict) and all(covers(there.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        if not wanted:
            return not there  # A server may leave an empty list out.
        return (
            isinstance(there, list)
            and len(there) == len(wanted)
            and all(covers(one, other) for one, other in zip(there, wanted, strict=True))
        )
    return bool(there == wanted)


def _merged(there: Any, wanted: Any) -> Any:
    if isinstance(there, dict) and isinstance(wanted, dict):
        return {**there, **{name: _merged(there.get(name), value) for name, value in wanted.items()}}
    return wanted
