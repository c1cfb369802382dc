"""Which form of an answer a client wants, by its Accept header, and what a body is, by its Content-Type.

Used by the REST routes and discovery. Pure.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from msgspec import Struct

from kvedge.standalone.apiserver.wire.api_errors import NotAcceptable

JSON: Final = "application/json"
YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"

_META_GROUP: Final = "meta.k8s.io"
# Clients of old ask for the second.
_META_VERSIONS: Final = frozenset({"v1", "v1beta1"})
_WILDCARDS: Final = frozenset({"*/*", "application/*"})


class Form(StrEnum):
    """The forms of an object or a list."""

    OBJECT = "object"
    TABLE = "table"
    PARTIAL = "partial"


class WantedForm(NamedTuple):
    """A form, and in which version of meta.k8s.io."""

    form: Form
    version: str = "v1"


_AS: Final = {
    "Table": Form.TABLE,
    "PartialObjectMetadata": Form.PARTIAL,
    "PartialObjectMetadataList": Form.PARTIAL,
}


class MediaType(Struct, frozen=True):
    """One entry of an Accept header, or a Content-Type: the type in lower case, and its parameters."""

    name: str
    parameters: tuple[tuple[str, str], ...] = ()

    def parameter(self, name: str) -> str:
        return dict(self.parameters).get(name, "")


def parse_media_type(text: str) -> MediaType:
    """Parse `application/json;as=Table;v=v1`."""
    name, *rest = [part.strip() for part in text.split(";")]
    pairs = tuple(
        (key.strip().lower(), value.strip().strip('"')) for key, _, value in (part.partition("=") for part in rest)
    )
    return MediaType(name.lower(), pairs)


def parse_accept(header: str) -> list[MediaType]:
    """The entries of an Accept header, as they come; none means anything."""
    return [parse_media_type(part) for part in header.split(",") if part.strip()] or [MediaType("*/*")]


def choose_form(header: str) -> WantedForm:
    """The first form that the client lists and that can be made; JSON is the only encoding here.

    Raises:
        NotAcceptable: when there is none.
    """
    for entry in parse_accept(header):
        if entry.name in _WILDCARDS:
            return WantedForm(Form.OBJECT)
        if entry.name != JSON or entry.parameter("q") == "0":
            continue
        kind = entry.parameter("as")
        if not kind:
            return WantedForm(Form.OBJECT)
        version = entry.parameter("v")
        if kind in _AS and entry.parameter("g") == _META_GROUP and version in _META_VERSIONS:
            return WantedForm(_AS[kind], version)
    raise NotAcceptable([JSON])
