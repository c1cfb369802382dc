"""Between typed resources and the JSON documents an API server speaks.

Called by every door that reads or writes API objects. Touches nothing. A resource is a :class:`KubeStruct`;
keys are camelCase on the wire, defaults are left out, and unknown keys of a document are dropped when it is decoded:
therefore controllers write patches, never whole objects that they have decoded.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias, TypeVar, cast

import msgspec
from msgspec import inspect

# A JSON document as Python holds it. `Any` inside, as a recursive alias only moves the casts to every caller.
JsonValue: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]


class KubeStruct(msgspec.Struct, rename="camel", omit_defaults=True):
    """Base of every typed resource: camelCase on the wire, defaults omitted."""


T = TypeVar("T")

# msgspec learns a type's fields when it meets it first. It runs Python code for that, so that a second thread may find
# the half of it, and crash the process; a type is therefore learnt by one thread, before any other may use it.
_learning: Final = threading.Lock()
_learnt: Final[set[Any]] = set()


class DecodeError(ValueError):
    """A document does not fit its type; `path` is the field in Kubernetes' notation, `detail` says what is wrong."""

    def __init__(self, path: str, detail: str) -> None:
        super().__init__(f"{path}: {detail}" if path else detail)
        self.path = path
        self.detail = detail


def learn(cls: Any) -> None:
    """Have a type ready for any number of threads; a module that calls msgspec itself calls this at its import."""
    if cls not in _learnt:
        with _learning:
            msgspec.json.Decoder(cls)
            _learnt.add(cls)


def shape_of(cls: type) -> inspect.Type:
    """What msgspec knows of a type, for code that writes or checks by its fields; msgspec learns it as well."""
    learn(cls)
    return inspect.type_info(cls)


def shapes_of(classes: Sequence[type]) -> Sequence[inspect.Type]:
    """The same of several types at once: what they have in common is looked at once, and is one object in all."""
    for cls in classes:
        learn(cls)
    return inspect.multi_type_info(classes)


def decode(cls: type[T], document: Mapping[str, JsonValue] | JsonValue) -> T:
    """Make a `cls` of a JSON document.

    Raises:
        DecodeError: with the path of the first field that does not fit.
    """
    learn(cls)
    try:
        return msgspec.convert(document, cls, strict=True)
    except msgspec.ValidationError as error:
        raise _translate(error) from error


def decode_json(cls: type[T], text: bytes | str) -> T:
    """Make a `cls` of JSON text.

    Raises:
        DecodeError: when the text is no JSON, or with the path of the first field that does not fit.
    """
    learn(cls)
    try:
        return msgspec.json.decode(text, type=cls, strict=True)
    except msgspec.ValidationError as error:
        raise _translate(error) from error
    except msgspec.DecodeError as error:
        raise DecodeError("", f"not valid JSON: {error}") from error


def encode(resource: msgspec.Struct) -> JsonObject:
    """The JSON document of a resource; a resource with a `KIND` carries its apiVersion and kind."""
    document = cast("JsonObject", msgspec.to_builtins(resource))
    kind = getattr(type(resource), "KIND", None)
    if kind is None:
        return document
    return {"apiVersion": kind.api_version, "kind": kind.kind, **document}


def encode_json(resource: msgspec.Struct) -> bytes:
    """The JSON text of a resource, as :func:`encode` has it."""
    return msgspec.json.encode(encode(resource))


def _translate(error: msgspec.ValidationError) -> DecodeError:
    """msgspec words it `Expected `int`, got `str` - at `$.spec.x[...]``; Kubernetes' users look for the path first."""
    text, marker, path = str(error).rpartition(" - at `")
    if not marker:
        return DecodeError("", str(error))
    return DecodeError(path.rstrip("`").removeprefix("$").removeprefix("."), text)
