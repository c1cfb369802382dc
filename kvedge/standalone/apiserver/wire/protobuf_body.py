"""Bodies in Kubernetes' protobuf encoding, made into the JSON object that the same client would otherwise send.

Called where bodies are read. Typed clients such as kubectl's send built-in kinds in this form; answers stay JSON, which
they take too. The messages are those of proto/kubernetes. Pure; the generated module is loaded with the first such
body, so that a server that never gets one does not pay for it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from kvedge.resources.codec import JsonObject, JsonValue
from kvedge.standalone.apiserver.wire.api_errors import BadRequest, TooLarge, UnsupportedMediaType
from kvedge.standalone.apiserver.wire.json_values import MAX_DEPTH, is_deep
from kvedge.standalone.apiserver.wire.media_types import JSON, PROTOBUF, YAML

if TYPE_CHECKING:
    from google.protobuf.message import Message

MAGIC: Final = b"k8s\x00"
# Some bytes can stand for a whole message, and each becomes an object of its own. The largest objects that fit a body
# and mean something (endpoints, quotas) stay well below.
MOST_MESSAGES: Final = 100_000
_SHOWN_BYTES: Final = 30
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_GENERATED: Final = "kvedge.rpc"
_DELETE_OPTIONS: Final = "DeleteOptions"

# The fields of such a message stand in the one around it.
_INLINE: Final = "inline_"


class MessageType(Struct, frozen=True):
    """Where the message of a kind is: a generated module, and the message's name where it is not the kind's."""

    module: str
    name: str = ""


IN_KUBERNETES: Final = MessageType("kubernetes_pb2")
# Large, and seldom sent in this form: their messages are loaded with the first of them.
IN_PODS: Final = MessageType("pods_pb2")


def decode(body: bytes, known: Mapping[tuple[str, str], MessageType]) -> JsonObject:
    """The object in a body: apiVersion, kind, and what the client set; `known` says by apiVersion and kind what can be
    decoded.

    Raises:
        BadRequest: it is not such a body, or not an object of the kind that it names.
        TooLarge: it holds more messages than any object may.
        UnsupportedMediaType: it is of a kind that is read from JSON or YAML only.
    """
    # Costs one to two megabytes and some milliseconds, which a server without such clients saves.
    from kvedge.rpc import kubernetes_pb2 as messages

    version, kind, raw = _open(body, messages)
    # Every group knows DeleteOptions.
    shape = IN_KUBERNETES if kind == _DELETE_OPTIONS else known.get((version, kind))
    if shape is None:
        raise UnsupportedMediaType((JSON, YAML), f"{version}, Kind={kind} is not read from {PROTOBUF}")
    message = getattr(import_module(f"{_GENERATED}.{shape.module}"), shape.name or kind)()
    try:
        _parse(message, raw)
        fields = _Converter().fields_of(message)
    except _Malformed as error:
        short = version.rpartition("/")[2]
        raise BadRequest(f'{kind} in version "{short}" cannot be handled as a {kind}: {error}') from error
    return {"apiVersion": version, "kind": kind, **fields}


class _Malformed(ValueError):
    """What the bytes cannot be."""


def _open(body: bytes, messages: ModuleType) -> tuple[str, str, bytes]:
    """The apiVersion, the kind and the encoded object of an envelope."""
    envelope = messages.Unknown()
    try:
        if not body:
            raise _Malformed("empty data")
        if not body.startswith(MAGIC):
            prefix = " ".join(str(byte) for byte in MAGIC)
            raise _Malformed(f"provided data does not appear to be a protobuf message, expected prefix [{prefix}]")
        if len(body) == len(MAGIC):
            raise _Malformed("empty body")
        _parse(envelope, body[len(MAGIC) :])
        version, kind = envelope.typeMeta.apiVersion, envelope.typeMeta.kind
        for field, value in (("Kind", kind), ("apiVersion", version)):
            if not value:
                named = f"runtime.TypeMeta{{APIVersion:{_quote(version)}, Kind:{_quote(kind)}}}"
                raise _Malformed(f"Object '{field}' is missing in '{named}'")
        if envelope.contentEncoding:
            raise _Malformed(f"content encoding {_quote(envelope.contentEncoding)} is not supported")
    except _Malformed as error:
        raise BadRequest(f"the object provided is unrecognized: {error} ({_summary(body)})") from error
    return version, kind, envelope.raw


def _parse(message: Message, data: bytes) -> None:
    from google.protobuf.message import DecodeError

    try:
        message.ParseFromString(data)
    except DecodeError as error:
        # The library's text names our message; what it means is enough.
        raise _Malformed("proto: not a valid encoding") from error


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    return body[:_SHOWN_BYTES].hex() + (" ..." if len(body) > _SHOWN_BYTES else "")


def _quote(text: str) -> str:
    return msgspec.json.encode(text).decode()


class _Converter:
    """Makes JSON of one object's messages, and counts them."""

    def __init__(self) -> None:
        self._left = MOST_MESSAGES

    def fields_of(self, message: Message) -> JsonObject:
        """The fields that are set, under the names that JSON has for them, which are the messages' own."""
        return dict(self._fields(message))

    def _fields(self, message: Message) -> Iterator[tuple[str, JsonValue]]:
        for field, value in message.ListFields():
            if field.name.startswith(_INLINE):
                yield from self._fields(value)
                continue
            converted = self._convert_value(value)
            # A moment that is none.
            if converted is not None:
                yield field.name, converted

    def _convert_value(self, value: Any) -> JsonValue:
        if isinstance(value, str | int):
            return value
        if isinstance(value, bytes):
            return base64.b64encode(value).decode()
        if isinstance(value, Mapping):
            return {key: self._convert_value(item) for key, item in value.items()}
        if isinstance(value, Sequence):
            return [self._convert_value(item) for item in value]
        self._left -= 1
        if self._left < 0:
            raise TooLarge(MOST_MESSAGES)
        scalar = _SCALARS.get(value.DESCRIPTOR.name)
        return scalar(value) if scalar else self.fields_of(value)


def _time(value: Any) -> str | None:
    return _moment(value, "seconds", 0)


def _micro_time(value: Any) -> str | None:
    return _moment(value, "microseconds", value.nanos // 1000)


def _moment(value: Any, precision: str, microseconds: int) -> str | None:
    if not value.ListFields():
        return None
    try:
        moment = _EPOCH + timedelta(seconds=value.seconds, microseconds=microseconds)
    except OverflowError as error:
        raise _Malformed("a time is outside of the years 1 to 9999") from error
    return moment.replace(tzinfo=None).isoformat(timespec=precision) + "Z"


def _int_or_string(value: Any) -> int | str:
    if value.type == 0:
        return int(value.intVal)
    if value.type == 1:
        return str(value.strVal)
    raise _Malformed("impossible IntOrString.Type")


def _decode_embedded_json(data: bytes) -> JsonValue:
    """JSON in bytes; none is null."""
    if not data:
        return None
    try:
        document: JsonValue = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _Malformed(f"an embedded document is not valid JSON: {error}") from error
    if is_deep(document, MAX_DEPTH):
        raise _Malformed(f"an embedded document is nested more than {MAX_DEPTH} levels deep")
    return document


# Messages that are one value in JSON, by their name.
_SCALARS: Final[Mapping[str, Callable[[Any], JsonValue]]] = {
    "Time": _time,
    "MicroTime": _micro_time,
    "IntOrString": _int_or_string,
    "Quantity": lambda value: str(value.string),
    "ExtraValue": lambda value: list(value.items),
    "FieldsV1": lambda value: _decode_embedded_json(value.Raw),
    "RawExtension": lambda value: _decode_embedded_json(value.raw),
}
