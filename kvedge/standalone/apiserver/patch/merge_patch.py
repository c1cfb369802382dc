"""JSON merge patch (RFC 7386): what `kubectl patch --type merge` and every custom resource's `kubectl edit` send.

Called by the server's PATCH. Pure; the inputs are not touched, but the outcome shares with the document what it leaves
alone.
"""

from __future__ import annotations

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.standalone.apiserver.wire.api_errors import BadRequest
from kvedge.standalone.apiserver.wire.json_values import clone, type_word


def apply(document: JsonObject, patch: JsonValue) -> JsonObject:
    """The document with the patch merged in: objects merge, null removes, anything else replaces.

    Raises:
        BadRequest: when the patch is not an object, as then nothing would be left of the document.
    """
    if not isinstance(patch, dict):
        raise BadRequest(f"error decoding patch: a merge patch must be an object, not {type_word(patch)}")
    return _merge(document, patch)


def _merge(target: JsonValue, patch: JsonObject) -> JsonObject:
    kept = target if isinstance(target, dict) else {}
    merged = {key: value for key, value in kept.items() if key not in patch}
    for key, value in patch.items():
        if isinstance(value, dict):
            merged[key] = _merge(kept.get(key), value)
        elif value is not None:
            merged[key] = clone(value)
    # The order of keys is that of the document, so that a patched object reads as before.
    return {key: merged[key] for key in [*kept, *patch] if key in merged}
