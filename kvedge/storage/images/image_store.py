"""The local image store: `<data-dir>/images`.

Called by `image_import` and `image_pull`, which take images in, and by the node agent and `kvedge image`, which use
them. Each image is unpacked once into a tree that is never written again; names point to images; Pods hold them.
Layout:

    images/<hex>/image.json, images/<hex>/tree/     an image, by its id
    names/<hash>.json                               a reference and what it means
    users/<hex>/<user>                              a Pod that uses an image
    staging/, partial/                              what is half-made; cut-off downloads that can be resumed
    lock                                            held while names, users or images change

Other files in it are what users have dropped there to be imported (`standalone/drop_ins`); the store leaves them alone.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct

from kvedge.runtime.durable_files import sync
from kvedge.storage.image_errors import BadImage, ImageInUse, ImageNotFound, StoreError, store_error
from kvedge.storage.images.image_manifest import ImageConfig, is_sha256
from kvedge.storage.images.image_names import ImageName, parse_image_name
from kvedge.storage.images.image_records import (
    ASIDE,
    Image,
    ImageRecord,
    NameRecord,
    forget_aside,
    name_file,
    read_record,
    write_record,
)
from kvedge.storage.images.image_rules import Origin
from kvedge.storage.images.layer_unpack import UnpackLimits
from kvedge.storage.images.registry_pace import PaceLimits
from kvedge.storage.images.staging import hold_lock, make_staging_directory, sweep_staging, sync_file_system

TREE: Final = "tree"
_RECORD: Final = "image.json"
# The entries of the store's directory that are the store's own, and no user's files.
OWN_ENTRIES: Final = frozenset({"images", "names", "users", "staging", "partial", "lock"})


class NewImage(Struct, frozen=True):
    """An image that is complete in a staging directory: its id, what it is, and its tree, `<directory>/tree`."""

    id: str
    kind: str
    config: ImageConfig
    tree: Path


class ImageStore:
    """One store; safe for several processes and threads at once."""

    def __init__(
        self, root: str | os.PathLike[str], limits: UnpackLimits | None = None, pace: PaceLimits | None = None
    ) -> None:
        self.root = Path(root)
        self.limits = limits or UnpackLimits()
        self.pace = pace or PaceLimits()

    def resolve(self, reference: str) -> Image:
        """The image that a reference means.

        Raises:
            InvalidImageName: when it is no reference.
            ImageNotFound: when the store has none.
        """
        name = parse_image_name(reference)
        found = self._find(name)
        if found is None:
            raise ImageNotFound(f"image {name} is not in the local store", f"kvedge image import FILE --name {name}")
        return found

    def list(self) -> list[Image]:
        """All images, once for each of their names, by name."""
        images: list[Image] = []
        for record in self._names():
            # A record of a newer kvedge is left out here, and refused to a caller that asks for it by its name.
            with suppress(StoreError):
                if (image := self._image(record)) is not None:
                    images.append(image)
        return sorted(images, key=lambda image: image.name)

    def newer(self) -> tuple[StoreError, ...]:
        """What was written by a newer kvedge, in words: such images are neither shown nor removed."""
        names, refused = self._read_names()
        images: dict[str, StoreError] = {}
        for record in names:
            try:
                self._image(record)
            except StoreError as error:
                images[record.image] = error
        return (*refused, *images.values())

    def remove(self, reference: str) -> None:
        """Forget a name, and the image with its last name.

        Raises:
            ImageNotFound: when there is no such name.
            ImageInUse: while a Pod uses the image.
            StoreError: when the file system fails.
        """
        with self._change("removing an image"):
            try:
                image = self.resolve(reference)
                name, users = image.name, self._users(image.id)
            except ImageNotFound:
                # A name may be left whose image is damaged.
                name, users = str(parse_image_name(reference)), ()
                if read_record(NameRecord, self.root / "names" / name_file(name)) is None:
                    raise
            if users:
                raise ImageInUse(name, users)
            (self.root / "names" / name_file(name)).unlink(missing_ok=True)
            self._prune()

    def hold(self, reference: str, user: str) -> Image:
        """:meth:`resolve`, and keep the image from being removed until :meth:`release` of this user (a Pod's UID).

        Raises:
            ImageNotFound: as :meth:`resolve`.
        """
        with self._change("using an image"):
            image = self.resolve(reference)
            marker = self.root / "users" / _hex(image.id) / user
            marker.parent.mkdir(parents=True, exist_ok=True)
            marker.touch()
        return image

    def release(self, user: str) -> None:
        """The user is gone: its images may be removed."""
        with self._change("releasing an image"):
            for marker in (self.root / "users").glob(f"*/{user}"):
                marker.unlink(missing_ok=True)
                with suppress(OSError):
                    # Not empty while others use the image.
                    marker.parent.rmdir()
            self._prune()

    def users(self) -> frozenset[str]:
        """Everyone who holds an image."""
        return frozenset(path.name for path in (self.root / "users").glob("*/*"))

    @contextmanager
    def make_staging(self) -> Iterator[Path]:
        """A directory for unfinished files on the store's file system; leftovers of killed processes go first."""
        try:
            sweep_staging(self.root / "staging")
            with make_staging_directory(self.root / "staging") as path:
                yield path
        except OSError as error:
            raise store_error("the image store cannot write", error) from error

    def has(self, image_id: str) -> bool:
        """Whether the image is there, whatever its names."""
        return read_record(ImageRecord, self.root / "images" / _hex(image_id) / _RECORD) is not None

    def add(self, new: NewImage, name: ImageName, origin: Origin, digest: str = "") -> Image:
        """Take a staged image in, durably, under a name; an image that is there already only gets the name.

        Raises:
            StoreError: when the file system fails; nothing has changed then.
        """
        created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self._change("storing an image", locking=False):
            # Before the lock: a large image takes its time to reach the disk, and Pods start meanwhile.
            record = ImageRecord(
                id=new.id, kind=new.kind, size=_count_bytes(new.tree), created=created, config=new.config
            )
            write_record(record, new.tree.parent / _RECORD)
            sync_file_system(new.tree)
        with self._change("storing an image"):
            if not self.has(new.id):
                self._move_in(new)
            self._name(NameRecord(name=str(name), image=new.id, origin=origin, created=created, digest=digest))
        return self.resolve(str(name))

    def add_name(self, image_id: str, name: ImageName, origin: Origin, digest: str = "") -> Image:
        """Give an image that is there one more name; a name that meant another image means this one from now on.

        Raises:
            ImageNotFound: when the image is not there (any more).
            StoreError: when the file system fails.
        """
        created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        with self._change("naming an image"):
            if not self.has(image_id):
                raise ImageNotFound(f"image {image_id} is not in the local store")
            self._name(NameRecord(name=str(name), image=image_id, origin=origin, created=created, digest=digest))
        return self.resolve(str(name))

    def list_damaged(self) -> tuple[Path, ...]:
        """Files that were put aside because nothing could be read from them."""
        found = [*(self.root / "names").glob(f"*{ASIDE}"), *(self.root / "images").glob(f"*/*{ASIDE}")]
        return tuple(sorted(found))

    def _names(self) -> tuple[NameRecord, ...]:
        return tuple(self._read_names()[0])

    def _read_names(self) -> tuple[Sequence[NameRecord], Sequence[StoreError]]:
        """The names, and which of them a newer kvedge has written."""
        names, refused = [], []
        for path in (self.root / "names").glob("[!.]*.json"):
            try:
                if (record := read_record(NameRecord, path)) is not None:
                    names.append(record)
            except StoreError as error:
                refused.append(error)
        return names, refused

    def _name(self, record: NameRecord) -> None:
        path = self.root / "names" / name_file(record.name)
        write_record(record, path)
        forget_aside(path)
        self._prune()

    def _move_in(self, new: NewImage) -> None:
        staged = new.tree.parent
        final = self.root / "images" / _hex(new.id)
        final.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if final.exists() and self._users(new.id):
            # Its record was damaged. Containers run in the tree, which is the same one, as the id says.
            os.replace(staged / _RECORD, final / _RECORD)
            forget_aside(final / _RECORD)
            sync(final)
            return
        if final.exists():
            # Its record is damaged or missing, the latter after a removal that was cut short.
            shutil.rmtree(final)
        staged.rename(final)
        sync(final.parent)

    def _find(self, name: ImageName) -> Image | None:
        record = read_record(NameRecord, self.root / "names" / name_file(str(name)))
        if record is not None:
            return self._image(record)
        if not name.digest:
            return None
        same = (image for image in self.list() if image.digest == name.digest)
        return next((image for image in same if parse_image_name(image.name).familiar == name.familiar), None)

    def _image(self, record: NameRecord) -> Image | None:
        folder = self.root / "images" / _hex(record.image)
        found = read_record(ImageRecord, folder / _RECORD)
        if found is None:
            return None
        return Image(
            id=found.id,
            name=record.name,
            digest=record.digest,
            origin=record.origin,
            kind=found.kind,
            size=found.size,
            created=record.created,
            config=found.config,
            tree=folder / TREE,
        )

    def _users(self, image_id: str) -> tuple[str, ...]:
        return tuple(sorted(path.name for path in (self.root / "users" / _hex(image_id)).glob("*")))

    def _prune(self) -> None:
        """Remove images without a name and a user; called with the lock held.

        A damaged name, or one of a newer kvedge, may have been that of any image without one: nothing is removed until
        the name is given again, or its file is removed.
        """
        names, refused = self._read_names()
        named = {_hex(record.image) for record in names}
        if refused or any((self.root / "names").glob(f"*{ASIDE}")):
            return
        for folder in (self.root / "images").glob("*"):
            if folder.name in named or any((self.root / "users" / folder.name).glob("*")):
                continue
            # Without its record it is no image any more, whenever this is cut short.
            (folder / _RECORD).unlink(missing_ok=True)
            shutil.rmtree(folder)

    @contextmanager
    def _change(self, doing: str, *, locking: bool = True) -> Iterator[None]:
        try:
            with hold_lock(self.root / "lock") if locking else nullcontext():
                yield
        except OSError as error:
            raise store_error(doing, error) from error


def _hex(image_id: str) -> str:
    """The directory of an image; only a whole digest names one."""
    if not is_sha256(image_id):
        raise BadImage(f"{image_id[:80]!r} is no id of an image")
    return image_id.removeprefix("sha256:")


def _count_bytes(tree: Path) -> int:
    """Bytes on disk, links to the same file once."""
    seen: set[int] = set()
    total = 0
    for folder, _, files in os.walk(tree):
        for file in files:
            facts = os.lstat(os.path.join(folder, file))
            if facts.st_ino not in seen:
                seen.add(facts.st_ino)
                total += facts.st_blocks * 512
    return total
