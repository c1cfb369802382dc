"""Image archives: what `docker save`, `skopeo`, `podman` and `buildah` write, and OCI layout directories.

Called by the image store for imports. Reads the archive only; every blob's digest is checked before its content is
used.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import os
import platform
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final, Protocol, cast

from msgspec import Struct

from kvedge.storage.beneath import AS_ROOT, hold_directory, open_beneath
from kvedge.storage.image_errors import BadImage
from kvedge.storage.images.image_manifest import (
    MAX_DOCUMENT,
    MAX_LAYERS,
    ImageConfig,
    choose_manifest,
    is_index,
    is_sha256,
    layers_of,
    parse_config,
    parse_json,
    reference_annotation,
)
from kvedge.storage.tar_reader import EntryKind, TarReader

_CHUNK: Final = 1 << 20
_MAX_LINKS: Final = 8
# Archives hold some files per layer; these are for several images of many layers each.
_MAX_MEMBERS: Final = 20_000
_MAX_NAMES: Final = 8 << 20
_MAX_IMAGES: Final = 64
_MAX_INDEXES: Final = 4


class LayerSource(Struct, frozen=True):
    """One layer: its name in the archive and the digest of its bytes, empty when only the diff id is known."""

    name: str
    digest: str


class ArchivedImage(Struct, frozen=True):
    """One image of an archive; `names` are the references it was saved with, `image_id` its config's digest."""

    image_id: str
    config: ImageConfig
    layers: tuple[LayerSource, ...]
    names: tuple[str, ...]


class Members(Protocol):
    """The files of an archive or of a layout directory."""

    def names(self) -> frozenset[str]:
        """All of them."""

    def open(self, name: str) -> BinaryIO:
        """Open one of the members; the caller closes it."""


class TarMembers:
    """The files of an uncompressed tar archive, opened in place."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._files: dict[str, tuple[int, int]] = {}
        self._links: dict[str, str] = {}
        names_left = _MAX_NAMES
        with path.open("rb") as stream:
            for count, entry in enumerate(TarReader(stream)):
                names_left -= len(entry.name) + len(entry.link)
                if count >= _MAX_MEMBERS or names_left < 0:
                    raise BadImage("the archive holds more files than an archive of images")
                name = os.path.normpath(entry.name)
                if entry.kind is EntryKind.FILE:
                    self._files[name] = (entry.offset, entry.size)
                elif entry.kind is EntryKind.SYMLINK:
                    self._links[name] = os.path.normpath(os.path.join(os.path.dirname(name), entry.link))
                elif entry.kind is EntryKind.HARDLINK:
                    self._links[name] = os.path.normpath(entry.link)

    def names(self) -> frozenset[str]:
        """Files and links."""
        return frozenset(self._files) | frozenset(self._links)

    def open(self, name: str) -> BinaryIO:
        """One file, or the one it is a link to."""
        wanted = os.path.normpath(name)
        for _ in range(_MAX_LINKS):
            if wanted in self._files:
                offset, size = self._files[wanted]
                return cast("BinaryIO", _Slice(self._path, offset, size))
            if wanted not in self._links:
                break
            wanted = self._links[wanted]
        raise BadImage(f"the archive lacks {name[:256]}", "it may be a broken download: get it again")


class DirectoryMembers:
    """The files of an OCI layout directory."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def names(self) -> frozenset[str]:
        """The fixed names of a layout; blobs are found by their digest."""
        return frozenset(entry.name for entry in self._path.iterdir() if entry.is_file())

    def open(self, name: str) -> BinaryIO:
        """One file; a name that a manifest gives leads nowhere but below the directory."""
        if "\0" in name:
            raise BadImage("the layout's manifest has a file name with a zero byte")
        try:
            with hold_directory(self._path) as root:
                # O_NONBLOCK: opening a fifo must not wait for a writer.
                opened = open_beneath(root, name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, resolve=AS_ROOT)
        except OSError as error:
            raise BadImage(f"the layout lacks {name[:256]}: {error.strerror}") from error
        if not stat.S_ISREG(os.fstat(opened).st_mode):
            os.close(opened)
            raise BadImage(f"the layout's {name[:256]} is no file")
        return os.fdopen(opened, "rb")


class _Slice(io.RawIOBase):
    """A part of a file."""

    def __init__(self, path: Path, offset: int, size: int) -> None:
        super().__init__()
        self._file = path.open("rb")
        self._file.seek(offset)
        self._left = size

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        data = self._file.read(self._left if size < 0 else min(size, self._left))
        self._left -= len(data)
        return data

    def close(self) -> None:
        self._file.close()
        super().close()


def images_of(members: Members) -> list[ArchivedImage]:
    """All images of an archive that fit this machine.

    Raises:
        BadImage: when it is no image archive, or a broken one.
    """
    names = members.names()
    if "manifest.json" in names:
        return _docker_images(members)
    if "index.json" in names:
        found = list(itertools.islice(_oci_images(members, _document(members, "index.json"), ()), _MAX_IMAGES + 1))
        _check_count(len(found))
        return found
    raise BadImage(
        "the file is a tar archive but holds no image",
        "import an archive written by docker save, podman save or skopeo copy, or a disk as qcow2 or raw",
    )


@contextmanager
def open_layer(members: Members, layer: LayerSource) -> Iterator[BinaryIO]:
    """A layer as stored (maybe compressed), its digest checked first when it is known."""
    with ExitStack() as stack:
        if layer.digest:
            with members.open(layer.name) as blob:
                _check_digest(blob, layer.digest)
        yield stack.enter_context(members.open(layer.name))


def _docker_images(members: Members) -> list[ArchivedImage]:
    listed = _document(members, "manifest.json")
    if not isinstance(listed, list) or not listed:
        raise BadImage("the archive's manifest.json lists no image")
    _check_count(len(listed))
    return [_docker_image(members, item) for item in listed]


def _check_count(images: int) -> None:
    if images > _MAX_IMAGES:
        raise BadImage(f"the archive holds more than {_MAX_IMAGES} images", "import them in several archives")


def _docker_image(members: Members, item: Any) -> ArchivedImage:
    if not isinstance(item, dict) or not isinstance(item.get("Config"), str) or not _texts(item.get("Layers")):
        raise BadImage("the archive's manifest.json has an entry without Config or Layers")
    if len(item["Layers"]) > MAX_LAYERS:
        raise BadImage("the archive's manifest.json has an image of too many layers")
    raw = _read_small(members, item["Config"])
    config = parse_config(raw)
    layers = tuple(LayerSource(name, "") for name in item["Layers"])
    if len(layers) != len(config.diff_ids):
        raise BadImage("the archive's manifest.json and its config disagree on the layers")
    tags = item.get("RepoTags") or []
    return ArchivedImage(_sha256(raw), config, layers, tuple(tag for tag in tags if isinstance(tag, str)))


def _oci_images(members: Members, index: Any, names: tuple[str, ...], depth: int = 0) -> Iterator[ArchivedImage]:
    if depth >= _MAX_INDEXES:
        raise BadImage("the archive's index names indexes that name indexes")
    descriptors = index.get("manifests") if isinstance(index, dict) else None
    if not isinstance(descriptors, list) or not descriptors:
        raise BadImage("the archive's index lists no image")
    named = [item for item in descriptors if isinstance(item, dict) and reference_annotation(item)]
    # Several names in one layout are several images; without names, its entries are one image's architectures.
    chosen = named if len(named) > 1 else [choose_manifest(descriptors, platform.machine())]
    for descriptor in chosen:
        annotation = reference_annotation(descriptor)
        yield from _oci_image(members, descriptor, (annotation,) if annotation else names, depth)


def _oci_image(
    members: Members, descriptor: dict[str, Any], names: tuple[str, ...], depth: int
) -> Iterator[ArchivedImage]:
    digest = str(descriptor.get("digest", ""))
    manifest = parse_json(_blob(members, digest), "manifest")
    if is_index(manifest):
        yield from _oci_images(members, manifest, names, depth + 1)
        return
    config_digest, layers = layers_of(manifest)
    config = parse_config(_blob(members, config_digest))
    sources = tuple(LayerSource(_blob_name(layer.digest), layer.digest) for layer in layers)
    if len(sources) != len(config.diff_ids):
        raise BadImage("the image's manifest and its config disagree on the layers")
    yield ArchivedImage(config_digest, config, sources, names)


def _document(members: Members, name: str) -> Any:
    return parse_json(_read_small(members, name), name)


def _blob(members: Members, digest: str) -> bytes:
    data = _read_small(members, _blob_name(digest))
    if _sha256(data) != digest:
        raise BadImage(f"blob {digest} of the archive is damaged", "get the archive again")
    return data


def _blob_name(digest: str) -> str:
    if not is_sha256(digest):
        raise BadImage(f"the archive names a blob by {digest[:80]!r}, which is no sha256 digest")
    return f"blobs/sha256/{digest.removeprefix('sha256:')}"


def _read_small(members: Members, name: str) -> bytes:
    with members.open(name) as stream:
        data = stream.read(MAX_DOCUMENT + 1)
    if len(data) > MAX_DOCUMENT:
        raise BadImage(f"{name[:256]} of the archive is larger than any such document")
    return data


def _check_digest(stream: BinaryIO, digest: str) -> None:
    found = hashlib.sha256()
    while chunk := stream.read(_CHUNK):
        found.update(chunk)
    if f"sha256:{found.hexdigest()}" != digest:
        raise BadImage(f"blob {digest} of the archive is damaged", "get the archive again")


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _texts(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
