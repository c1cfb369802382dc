"""What a page hears of an error: a status, a sentence, and, where it is known, at which field.

Called by `console_app`. Pure.
"""

from __future__ import annotations

from typing import Final

from msgspec import Struct

from kvedge.client.errors import ClientError, FlagError, NotFoundError
from kvedge.client.uploads.upload_stream import BrokenUpload
from kvedge.kube.errors import AlreadyExists, Conflict, Forbidden, Invalid, KubeError, NotFound
from kvedge.resources.codec import JsonObject
from kvedge.web.form_fields import field_of_flag, field_of_path
from kvedge.web.texts.shown_text import showable

_MOST_CAUSES: Final = 32
_LONGEST: Final = 1024
_BAD_REQUEST: Final = 400
_STATUS: Final = (
    (NotFound, 404),
    (Forbidden, 403),
    (AlreadyExists, 409),
    (Conflict, 409),
    (Invalid, 422),
    (KubeError, 502),
    # A page tries again by itself.
    (BrokenUpload, 503),
    (NotFoundError, 404),
    (FlagError, 422),
    (ClientError, 409),
)


class WebFailure(Struct, frozen=True):
    """An answer."""

    status: int
    document: JsonObject


def failure_of(error: KubeError | ClientError) -> WebFailure:
    """The answer for an error of the client or of the server."""
    status = next(status for cls, status in _STATUS if isinstance(error, cls))
    if isinstance(error, ClientError):
        causes = [_cause(field_of_flag(error.flag), "", error.why)] if isinstance(error, FlagError) else []
        return WebFailure(status, failure_document(error.text, causes))
    if status == 502 and error.status == _BAD_REQUEST:
        # The server did answer: it does not take what was sent.
        status = 422
    causes = [_cause(field_of_path(each.field), each.field, each.message) for each in error.causes[:_MOST_CAUSES]]
    if isinstance(error, AlreadyExists):
        causes = [_cause("name", "metadata.name", error.message)]
    return WebFailure(status, failure_document(error.message, causes))


def failure_document(message: str, causes: list[JsonObject] | None = None) -> JsonObject:
    """What a page reads; it has causes where fields are known."""
    return {"message": showable(message, _LONGEST), **({"causes": causes} if causes else {})}


def _cause(field: str, path: str, message: str) -> JsonObject:
    return {"field": field, "path": showable(path), "message": showable(message, _LONGEST)}
