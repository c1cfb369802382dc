"""Files that become images: disks, archives, layouts.

Called by `image_worker`, which reads within limits what strangers made, and by the node agent for the launcher's own
image. Reads the user's file, never writes, links or moves it; everything of ours happens in a staging directory.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import resource
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, cast

from kvedge.storage.decompress import is_compressed, open_decompressed
from kvedge.storage.disk_file import check_disk, recognise_disk
from kvedge.storage.image_errors import BadImage, ImageError
from kvedge.storage.images.image_archive import (
    ArchivedImage,
    DirectoryMembers,
    Members,
    TarMembers,
    images_of,
    open_layer,
)
from kvedge.storage.images.image_manifest import ImageConfig
from kvedge.storage.images.image_names import ImageName, InvalidImageName, parse_image_name
from kvedge.storage.images.image_records import Image
from kvedge.storage.images.image_rules import Origin
from kvedge.storage.images.image_store import ImageStore, NewImage
from kvedge.storage.images.layer_unpack import LayerUnpacker
from kvedge.storage.sparse_file import Progress, copy_with_digest, ignore_progress, write_blocks

_CHUNK: Final = 1 << 20
_TAR_MAGIC: Final = (257, b"ustar")


def import_file(
    store: ImageStore, file: str | os.PathLike[str], name: str = "", progress: Progress = ignore_progress
) -> tuple[Image, ...]:
    """Take in a disk (qcow2, raw), an archive (docker save, OCI; also compressed) or an OCI layout directory.

    Disks need a `name`; archives carry names of their own, which it replaces. `progress(done, total)` counts bytes.

    Raises:
        ImageError: with what is wrong and what to do; nothing is left behind.
    """
    path = Path(file)
    wanted = _parse(name) if name else None
    if path.is_dir():
        return _import_archive(store, DirectoryMembers(path), wanted, progress)
    try:
        source = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise ImageError(f"cannot read {path}: {error.strerror}") from error
    try:
        head = os.pread(source, 1024, 0)
        if not is_compressed(head):
            return _import_plain(store, path, source, wanted, progress)
        with store.make_staging() as staging:
            # The name without .gz tells what is inside.
            plain = staging / path.stem
            _unpack_outer(source, plain, store.limits.total_bytes)
            with plain.open("rb") as stream:
                return _import_plain(store, plain, stream.fileno(), wanted, progress)
    finally:
        os.close(source)


def is_archive(source: int) -> bool:
    """Whether an open file is an archive of images, perhaps compressed, which carries names; else it is a disk.

    Raises:
        BadImage: for a compressed file that cannot be unpacked.
    """
    offset, magic = _TAR_MAGIC
    head = os.pread(source, offset + len(magic), 0)
    if is_compressed(head):
        # A descriptor of its own would share the position with this one.
        with open(f"/proc/self/fd/{source}", "rb") as stored, open_decompressed(stored, len(head) + _CHUNK) as plain:
            head = plain.read(offset + len(magic))
    return head[offset:] == magic


def _import_plain(
    store: ImageStore, path: Path, source: int, wanted: ImageName | None, progress: Progress
) -> tuple[Image, ...]:
    offset, magic = _TAR_MAGIC
    if os.pread(source, len(magic), offset) == magic:
        return _import_archive(store, TarMembers(path), wanted, progress)
    if wanted is None:
        raise ImageError(
            f"{path.name} is a disk and carries no name", "give it one: kvedge image import FILE --name NAME"
        )
    return (_import_disk(store, path, source, wanted, progress),)


def _import_disk(store: ImageStore, path: Path, source: int, name: ImageName, progress: Progress) -> Image:
    before = os.fstat(source)
    facts = recognise_disk(source, path.name)
    with store.make_staging() as staging:
        folder = staging / "image" / "tree" / "disk"
        folder.mkdir(mode=0o755, parents=True)
        copy = folder / facts.file_name
        into = os.open(copy, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        try:
            _set_size(into, path, before.st_size)
            digest = copy_with_digest(source, into, progress)
            _check_unchanged(path, before, os.fstat(source))
            # Again, on what was copied: this is what is opened from now on.
            facts = recognise_disk(into, path.name)
            os.fchmod(into, 0o444)
        finally:
            os.close(into)
        check_disk(copy, facts)
        for directory in (folder, folder.parent):
            directory.chmod(0o755)
        image_id = f"sha256:{hashlib.sha256(f'{facts.file_name} {digest}'.encode()).hexdigest()}"
        return store.add(NewImage(image_id, "disk", ImageConfig(diff_ids=()), folder.parent), name, Origin.IMPORTED)


def _set_size(into: int, path: Path, size: int) -> None:
    """Give the copy its size before hours go into its content: a size that cannot be is refused at once."""
    try:
        os.ftruncate(into, size)
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        limit, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
        most = (
            "the store's file system takes" if limit == resource.RLIM_INFINITY else f"the {limit} that a file may have"
        )
        raise BadImage(
            f"{path.name} is a disk of {size} bytes, more than {most}", "convert it: qemu-img convert -O qcow2 OLD NEW"
        ) from error


def _import_archive(
    store: ImageStore, members: Members, wanted: ImageName | None, progress: Progress
) -> tuple[Image, ...]:
    archived = images_of(members)
    if wanted is not None and len(archived) > 1:
        raise ImageError(f"the archive holds {len(archived)} images and cannot be given one name", "leave the name out")
    # All names are looked at before the first image is stored.
    named = [(item, [wanted] if wanted else _own_names(item)) for item in archived]
    stored: list[Image] = []
    for item, names in named:
        stored += _store_archived(store, members, item, names, progress)
    return tuple(stored)


def _own_names(item: ArchivedImage) -> list[ImageName]:
    # In a layout a name may be no more than a tag.
    names = [_parse(name) for name in item.names if "/" in name or ":" in name]
    if not names:
        raise ImageError("the archive's image carries no name", "give it one: kvedge image import FILE --name NAME")
    return names


def _store_archived(
    store: ImageStore, members: Members, item: ArchivedImage, names: list[ImageName], progress: Progress
) -> list[Image]:
    if store.has(item.image_id):
        return [store.add_name(item.image_id, name, Origin.IMPORTED) for name in names]
    with store.make_staging() as staging:
        tree = staging / "image" / "tree"
        tree.mkdir(parents=True)

        def use_layer(index: int, use: Callable[[BinaryIO], None]) -> None:
            with open_layer(members, item.layers[index]) as stream:
                use(stream)
            progress(index + 1, len(item.layers))

        unpack_layers(store, tree, item.config.diff_ids, use_layer)
        first = store.add(NewImage(item.image_id, "oci", item.config, tree), names[0], Origin.IMPORTED)
    return [first] + [store.add_name(item.image_id, name, Origin.IMPORTED) for name in names[1:]]


LayerOpener = Callable[[int, Callable[[BinaryIO], None]], None]


def unpack_layers(store: ImageStore, tree: Path, diff_ids: tuple[str, ...], open_layer_at: LayerOpener) -> None:
    """Unpack layers into an empty directory, checking each against its diff id.

    `open_layer_at(index, use)` calls `use` with the stored (maybe compressed) layer.

    Raises:
        BadImage: when a layer is hostile or not what the config says.
        OSError: when the file system fails.
    """
    tree.chmod(0o755)
    root = os.open(tree, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        unpacker = LayerUnpacker(root, store.limits)
        for index, diff_id in enumerate(diff_ids):
            open_layer_at(index, lambda stream, expected=diff_id: _apply(store, unpacker, stream, expected))  # type: ignore[misc]
        # A tree whose root its layers closed to others could not be entered by a Pod's user.
        os.fchmod(root, 0o755)
    finally:
        os.close(root)


def _apply(store: ImageStore, unpacker: LayerUnpacker, stored: BinaryIO, diff_id: str) -> None:
    # Headers and padding come on top of the content.
    limit = store.limits.total_bytes + store.limits.entries * 2048
    with open_decompressed(stored, limit) as plain:
        hashing = HashingReader(plain)
        unpacker.apply(cast("BinaryIO", hashing))
        while hashing.read(_CHUNK):
            # The bytes behind the archive's end belong to the layer's digest as well.
            continue
    if diff_id.startswith("sha256:") and hashing.digest() != diff_id:
        raise BadImage(f"a layer is damaged: its content is not {diff_id}", "get the image again")


class HashingReader(io.RawIOBase):
    """Reads another stream and keeps the sha256 of what came."""

    def __init__(self, stream: BinaryIO) -> None:
        super().__init__()
        self._stream = stream
        self._hash = hashlib.sha256()

    def readable(self) -> bool:
        """Always."""
        return True

    def read(self, size: int = -1) -> bytes:
        """As the stream."""
        data = self._stream.read(size)
        self._hash.update(data)
        return data

    def digest(self) -> str:
        """`sha256:…` of all that was read."""
        return f"sha256:{self._hash.hexdigest()}"


def _unpack_outer(source: int, into: Path, limit: int) -> None:
    with into.open("xb") as out, open(os.dup(source), "rb") as stored, open_decompressed(stored, limit) as plain:
        position = 0
        while chunk := plain.read(_CHUNK):
            write_blocks(out.fileno(), position, chunk)
            position += len(chunk)
        os.ftruncate(out.fileno(), position)


def _check_unchanged(path: Path, before: os.stat_result, after: os.stat_result) -> None:
    if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
        raise ImageError(f"{path} changed while it was read", "stop whatever writes it, then import it again")


def _parse(name: str) -> ImageName:
    try:
        parsed = parse_image_name(name)
    except InvalidImageName as error:
        raise ImageError(str(error)) from error
    if parsed.digest:
        raise ImageError(f"{name} names a digest, which an imported file cannot be given", "use a tag")
    return parsed
