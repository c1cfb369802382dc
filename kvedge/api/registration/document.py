"""One object that the api role writes to an API server, and what all of them bear.

Used by the manifests beside it, and by those who write them. Pure.
"""

from __future__ import annotations

import base64
from typing import Final

from msgspec import Struct

from kvedge import __version__
from kvedge.resources.codec import JsonObject
from kvedge.resources.names import VERSION

SERVICE_PORT: Final = 443
OURS: Final = {"app.kubernetes.io/managed-by": "kvedge"}
# On all that may differ from release to release, and on the slice, by which other roles see which release serves.
RELEASE: Final = {VERSION: __version__}


class Document(Struct, frozen=True):
    """One object and the collection it belongs to."""

    collection: str
    body: JsonObject

    @property
    def name(self) -> str:
        """The object's name."""
        return str(self.body["metadata"]["name"])

    @property
    def path(self) -> str:
        """The object's path."""
        return f"{self.collection}/{self.name}"


def encode_bundle(ca_bundle: bytes) -> str:
    """An authority as it stands in what leads an API server to the role."""
    return base64.b64encode(ca_bundle).decode("ascii")
