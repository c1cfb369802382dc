"""The messages between a process that wants an image and the worker that gets it: JSON, one message a line.

Called by both ends (`image_work` and `image_worker`). Renders and parses only.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from kvedge.resources.codec import learn
from kvedge.storage.image_errors import BadImage, ImageError, ImageNotFound, RegistryError, StoreError
from kvedge.storage.images.layer_unpack import UnpackLimits
from kvedge.storage.images.registry_pace import PaceLimits

# An answer holds the names of an archive's images, or an error's words.
LONGEST: Final = 1 << 20
# An order may hold the logins of several Secrets, of 1 MiB each.
LONGEST_ORDER: Final = 16 << 20
_LONGEST_TEXT: Final = 2000
_KINDS: Final[dict[str, type[ImageError]]] = {
    kind.__name__: kind for kind in (ImageError, BadImage, ImageNotFound, StoreError)
}


class Order(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """One import or pull; `subject` is a file's path or a reference, `credentials` maps registries to logins."""

    verb: Literal["import", "pull"]
    root: bytes
    subject: bytes
    limits: UnpackLimits
    pace: PaceLimits
    name: str = ""
    credentials: dict[str, tuple[str, str]] = {}
    insecure: frozenset[str] = frozenset()
    own_host: bool = True


class Failure(msgspec.Struct, forbid_unknown_fields=True):
    """An :class:`ImageError` on its way; `temporary` counts for errors of registries only."""

    kind: str
    message: str
    remedy: str = ""
    temporary: bool = False


class Answer(msgspec.Struct, forbid_unknown_fields=True):
    """One of three: how far it is, the names of the images that are stored now, or what went wrong."""

    progress: tuple[int, int] | None = None
    names: list[str] | None = None
    failure: Failure | None = None


def failure_of(error: ImageError) -> Failure:
    """The message for an error, its words cut."""
    kind = next(cls.__name__ for cls in type(error).__mro__ if cls in (RegistryError, *_KINDS.values()))
    temporary = isinstance(error, RegistryError) and error.temporary
    return Failure(kind, error.message[:_LONGEST_TEXT], error.remedy[:_LONGEST_TEXT], temporary)


def error_of(failure: Failure) -> ImageError:
    """The error of a message."""
    if failure.kind == RegistryError.__name__:
        return RegistryError(failure.message, failure.remedy, temporary=failure.temporary)
    return _KINDS.get(failure.kind, ImageError)(failure.message, failure.remedy)


for _message in (Order, Answer):
    learn(_message)
