"""A container disk of a registry as a source: its one disk, as it comes in.

Called by the import's run. Layers are read first to last; the first one that has a file below `disk/` has the disk, and
nothing else of the image is stored. Everything comes from a stranger: the layer's digest is checked before the disk
gets its name. Opens connections through the door.
"""

from __future__ import annotations

import hashlib
import http.client
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO, Final, cast

from msgspec import Struct

from kvedge.resources.types.import_job import RegistrySource
from kvedge.storage.image_errors import BadImage, RegistryError
from kvedge.storage.images.image_manifest import (
    Descriptor,
    ImageConfig,
    architecture_of,
    choose_manifest,
    descriptor_of,
    is_index,
    layers_of,
    parse_config,
    parse_json,
)
from kvedge.storage.images.image_names import InvalidImageName, parse_image_name
from kvedge.storage.images.registry_client import RegistryClient, is_loopback
from kvedge.storage.images.registry_door import Door
from kvedge.storage.images.registry_pace import Pace
from kvedge.storage.imports.containers.image_labels import labels_of
from kvedge.storage.imports.containers.layer_disk import Layer, LayerDisk
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.sources.web_source import PACE, SourceFiles

_ATTEMPTS: Final = 5
_CHUNK: Final = 1 << 20
_LARGEST_CONFIG: Final = 4 << 20


class DiskImage(Struct, frozen=True):
    """An image; `layers` open each layer as it is stored, checking it to its end when they are left without error."""

    name: str
    layers: tuple[Layer, ...]
    labels: dict[str, str]

    def disk(self, progress: ImportProgress) -> LayerDisk:
        """The disk from its beginning.

        Raises:
            ImportFailure: when no layer has one.
        """
        for layer in self.layers:
            found = LayerDisk(self.name, layer, progress)
            if found.begin():
                return found
        raise ImportFailure(f"Failed to find VM disk image file in the container image {self.name}")


def _name_in(source: RegistrySource) -> str:
    kind, _, rest = source.url.partition(":")
    if kind != "docker":
        raise ImportFailure(f"Illegal registry source URL {source.url[:200]!r}: write docker://NAME")
    return rest.removeprefix("//")


def open_image(source: RegistrySource, files: SourceFiles, door: Door) -> DiskImage:
    """The image of a job: `docker://NAME`.

    Raises:
        ImportFailure: for another URL.
        ImageError: when it cannot be had.
    """
    return _registry_image(source, _name_in(source), files, door)


def image_digest(source: RegistrySource, files: SourceFiles, door: Door) -> str:
    """The digest of what a tag means now, without anything else of the image.

    Raises:
        ImportFailure: for another URL.
        ImageError: when it cannot be had.
    """
    client = _client(source, _name_in(source), files, door)
    return client.manifest(client.name.digest or client.name.tag).digest


def _client(source: RegistrySource, reference: str, files: SourceFiles, door: Door) -> RegistryClient:
    try:
        name = parse_image_name(reference)
    except InvalidImageName as error:
        raise ImportFailure(f"Illegal registry source URL {source.url[:200]!r}: {error}") from error
    user, password = files.login()
    return RegistryClient(
        name,
        user,
        password,
        insecure=source.insecure or is_loopback(name.registry),
        door=door,
        pace=Pace(name.registry, PACE, remedy="check the network and the registry"),
        context=files.context(insecure=source.insecure),
    )


def _registry_image(source: RegistrySource, reference: str, files: SourceFiles, door: Door) -> DiskImage:
    client = _client(source, reference, files, door)
    name = client.name
    machine = source.architecture or platform.machine()
    manifest = parse_json(client.manifest(name.digest or name.tag).data, "manifest")
    if is_index(manifest):
        chosen = descriptor_of(choose_manifest(manifest["manifests"], machine), "manifest")
        manifest = parse_json(client.manifest(chosen.digest).data, "manifest")
    _, layers = layers_of(manifest)
    config = _config(client, descriptor_of(manifest.get("config"), "config"))
    _check_architecture(config, source.architecture)
    return DiskImage(name.familiar, tuple(_blob(client, layer) for layer in layers), labels_of(config))


def _config(client: RegistryClient, descriptor: Descriptor) -> ImageConfig:
    if descriptor.size > _LARGEST_CONFIG:
        raise BadImage(f"the config of {client.name} is larger than any config")
    with _blob(client, descriptor)(ImportProgress()) as stream:
        data = b""
        while part := stream.read(_CHUNK):
            data += part
    return parse_config(data)


def _check_architecture(config: ImageConfig, wanted: str) -> None:
    if wanted and config.architecture and architecture_of(wanted) != architecture_of(config.architecture):
        raise BadImage(f"the image is made for {config.architecture[:40]}, not for {wanted[:40]}")


def _blob(client: RegistryClient, descriptor: Descriptor) -> Layer:
    @contextmanager
    def open_blob(progress: ImportProgress) -> Iterator[BinaryIO]:
        stream = _BlobStream(client, descriptor, progress)
        try:
            yield cast("BinaryIO", stream)
            stream.check()
        finally:
            stream.close()

    return open_blob


class _BlobStream:
    """A blob from its beginning; a connection that breaks is followed by another one that goes on there."""

    def __init__(self, client: RegistryClient, descriptor: Descriptor, progress: ImportProgress) -> None:
        self._client = client
        self._descriptor = descriptor
        self._progress = progress
        self._digest = hashlib.sha256()
        self._position = 0
        self._answer: http.client.HTTPResponse | None = None
        progress.expect(descriptor.size)

    def read(self, size: int) -> bytes:
        """Up to `size` bytes."""
        for attempt in range(_ATTEMPTS):
            try:
                data = self._read_some(size)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if attempt == _ATTEMPTS - 1:
                    words = str(error)[:200] or type(error).__name__
                    raise RegistryError(
                        f"the connection to {self._client.name} broke: {words}", temporary=True
                    ) from error
                time.sleep(2.0**attempt / 4)
                continue
            self._position += len(data)
            self._digest.update(data)
            self._progress.reach(self._position)
            return data
        raise AssertionError

    def check(self) -> None:
        """Read what is left; all of it is what its digest says."""
        while self.read(_CHUNK):
            continue
        if f"sha256:{self._digest.hexdigest()}" != self._descriptor.digest:
            raise BadImage(f"blob {self._descriptor.digest} of {self._client.name} came damaged", "try again")

    def close(self) -> None:
        """End the connection."""
        if self._answer is not None:
            self._answer.close()
            self._answer = None

    def _read_some(self, size: int) -> bytes:
        left = self._descriptor.size - self._position
        if not left:
            return b""
        if self._answer is None:
            self._answer = self._client.open_blob(self._descriptor.digest, self._position)
            skipped = 0 if self._answer.status == http.client.PARTIAL_CONTENT else self._position
            while skipped and (part := self._answer.read(min(_CHUNK, skipped))):
                skipped -= len(part)
        data = self._answer.read(min(size, left))
        if not data:
            raise ConnectionError("it ended early")
        return data
