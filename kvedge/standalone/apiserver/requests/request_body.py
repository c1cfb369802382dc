"""Reading what a client sent: bounded, in JSON, YAML or protobuf, and a document.

Used by the REST routes.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Final

from aiohttp import web

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.built_in import MESSAGES
from kvedge.standalone.apiserver.requests.bytes_in_flight import FLIGHT, too_much_in_flight
from kvedge.standalone.apiserver.requests.request_context import RequestContext
from kvedge.standalone.apiserver.wire import protobuf_body
from kvedge.standalone.apiserver.wire.api_errors import BadRequest, RequestTimeout, TooLarge, UnsupportedMediaType
from kvedge.standalone.apiserver.wire.document_decoder import Document, check_size, decode
from kvedge.standalone.apiserver.wire.media_types import APPLY_PATCH, JSON, PROTOBUF, YAML, parse_media_type

# As the real API server limits what etcd would refuse anyway.
LIMIT: Final = 3 * 1024 * 1024
# So long a body may take; the largest comes in this time over 100 kB/s.
BODY_SECONDS: Final = 30.0
_DOCUMENT_TYPES: Final = (JSON, YAML)


def count_announced_bytes(request: web.BaseRequest) -> int:
    """How many bytes the body has, by what its headers say; as many as any may have where they do not say it."""
    is_packed = request.headers.get("Content-Encoding", "identity") != "identity"
    if request.body_exists and (is_packed or request.content_length is None):
        return LIMIT
    return min(request.content_length or 0, LIMIT)


async def read_bytes(request: web.BaseRequest) -> bytes:
    """The body.

    Raises:
        TooLarge: it is longer than any object may be.
        RequestTimeout: it does not come.
        TooManyRequests: too much of this user is on its way already.
    """
    if (request.content_length or 0) > LIMIT:
        raise TooLarge(LIMIT)
    # A body that does not say how long it is may become as long as any.
    size = request.content_length if request.content_length is not None else LIMIT
    if request.body_exists and FLIGHT in request and not request[FLIGHT].take(size):
        raise too_much_in_flight()
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > LIMIT:
                    raise TooLarge(LIMIT)
    except TimeoutError as error:
        raise RequestTimeout(f"the body of the request did not come within {BODY_SECONDS:g} seconds") from error
    return bytes(body)


async def read_object(request: web.BaseRequest, context: RequestContext) -> JsonObject:
    """The object that a create or an update carries.

    Keys that stand there twice are warned of or refused, as the client wishes.

    Raises:
        UnsupportedMediaType, BadRequest, TooLarge: as their names say.
    """
    name = parse_media_type(request.headers.get("Content-Type", JSON)).name or JSON
    if name == PROTOBUF:
        return await _decode_protobuf(await read_bytes(request), context)
    if name not in _DOCUMENT_TYPES:
        raise UnsupportedMediaType(_DOCUMENT_TYPES)
    value, duplicates = await _decode(await read_bytes(request), name == YAML, context)
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise BadRequest("the body of the request must be an object")
    report_duplicates(context, duplicates)
    return value


async def read_options(request: web.BaseRequest, context: RequestContext) -> JsonObject:
    """The DeleteOptions that a delete may carry; an empty object without a body."""
    body = await read_bytes(request)
    if not body.strip():
        return {}
    name = parse_media_type(request.headers.get("Content-Type", JSON)).name or JSON
    if name == PROTOBUF:
        document: Any = await _decode_protobuf(body, context)
    elif name in _DOCUMENT_TYPES:
        document = (await _decode(body, name == YAML, context)).value
    else:
        raise UnsupportedMediaType(_DOCUMENT_TYPES)
    if not isinstance(document, dict) or document.get("kind") not in (None, "", "DeleteOptions"):
        raise BadRequest("the body of a delete must be DeleteOptions")
    return document


async def read_patch(request: web.BaseRequest, accepted: tuple[str, ...], context: RequestContext) -> tuple[str, Any]:
    """The media type and the document of a patch; for the context see `read_object`.

    Raises:
        UnsupportedMediaType: it is none of those accepted.
    """
    name = parse_media_type(request.headers.get("Content-Type", "")).name
    if name not in accepted:
        raise UnsupportedMediaType(accepted)
    value, duplicates = await _decode(await read_bytes(request), name == APPLY_PATCH, context)
    report_duplicates(context, duplicates)
    return name, value


def report_duplicates(context: RequestContext, duplicates: tuple[str, ...]) -> None:
    """Warn of keys that stand twice in a document, or refuse it.

    Raises:
        BadRequest: the client asked for strict validation.
    """
    kind, validation = context.kind, context.options.field_validation
    if duplicates and validation == "Strict":
        raise BadRequest(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict decoding error: '
            + ", ".join(duplicates)
        )
    if validation == "Warn":
        for text in duplicates:
            context.warn(text)


async def _decode(body: bytes, is_yaml: bool, context: RequestContext) -> Document:
    return await context.work(partial(decode, body, is_yaml))


async def _decode_protobuf(body: bytes, context: RequestContext) -> JsonObject:
    def decode() -> JsonObject:
        document = protobuf_body.decode(body, MESSAGES)
        check_size(document)
        return document

    return await context.work(decode)
