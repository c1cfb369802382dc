"""Image references as Docker reads them, in one normal form.

Called by everything that takes a reference from a user or a manifest. Touches nothing.
"""

from __future__ import annotations

import re
from typing import Final

from msgspec import Struct

DEFAULT_REGISTRY: Final = "docker.io"

_REGISTRY = re.compile(r"(?:[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?")
_COMPONENT = re.compile(r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*")
_TAG = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}")
# As the distribution specification has it; longer names are refused by registries as well.
_MAX_REPOSITORY: Final = 255


class InvalidImageName(ValueError):
    """A text that is no image reference; the message names the text and says what is wrong."""

    def __init__(self, text: str, detail: str) -> None:
        super().__init__(f'couldn\'t parse image name "{text[:256]}": invalid reference format: {detail}')
        self.text = text


class ImageName(Struct, frozen=True):
    """A reference in normal form; `tag` and `digest` may both be set, the digest then decides."""

    registry: str
    repository: str
    tag: str
    digest: str

    def __str__(self) -> str:
        """The whole reference: `docker.io/library/fedora:latest`, `quay.io/a/b@sha256:…`."""
        if self.digest:
            return f"{self.familiar}@{self.digest}"
        return f"{self.familiar}:{self.tag}"

    @property
    def familiar(self) -> str:
        """Registry and repository, without tag and digest."""
        return f"{self.registry}/{self.repository}"

    @property
    def tagged_latest(self) -> bool:
        """Whether Kubernetes' default pull policy for it is Always."""
        return not self.digest and self.tag == "latest"


def parse_image_name(text: str) -> ImageName:
    """Read a reference in any of Docker's short forms.

    Raises:
        InvalidImageName: when it is none.
    """
    rest, at, digest = text.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        raise InvalidImageName(text, "the digest must be sha256: and 64 hexadecimal digits")
    head, slash, last = rest.rpartition("/")
    last, colon, tag = last.partition(":")
    if colon and not _TAG.fullmatch(tag):
        raise InvalidImageName(text, f"{tag[:64]!r} is no tag")
    registry, repository = _split_registry(f"{head}{slash}{last}")
    if not _REGISTRY.fullmatch(registry):
        raise InvalidImageName(text, f"{registry[:64]!r} is no registry's name")
    if len(repository) > _MAX_REPOSITORY:
        raise InvalidImageName(text, f"the repository's name has more than {_MAX_REPOSITORY} characters")
    for component in repository.split("/"):
        if not _COMPONENT.fullmatch(component):
            raise InvalidImageName(
                text, f"{component[:64]!r} is no part of a repository's name (lower case, digits, . _ -)"
            )
    return ImageName(registry, repository, tag or ("" if digest else "latest"), digest)


def _split_registry(path: str) -> tuple[str, str]:
    """Docker's rule: the first part is a registry when it looks like a host and something follows."""
    first, slash, rest = path.partition("/")
    is_host = bool(slash) and ("." in first or ":" in first or first == "localhost" or first != first.lower())
    if not is_host:
        first, rest = DEFAULT_REGISTRY, path
    if first in ("index.docker.io", "registry-1.docker.io"):
        first = DEFAULT_REGISTRY
    if first == DEFAULT_REGISTRY and "/" not in rest:
        rest = f"library/{rest}"
    return first, rest
