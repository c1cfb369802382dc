"""Disks and archives that are put into `<data-dir>/images` become images.

Called by its loop. Reads the users' files, which lie beside the image store's own entries, and never changes them;
remembers in `<data-dir>/state/image-drop-ins.json` what became of which content. Removing a file removes no image:
`kvedge image rm` does.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from kvedge.runtime.damaged_files import put_aside
from kvedge.runtime.durable_files import write_durably
from kvedge.standalone.drop_ins.drop_in_loop import Teller
from kvedge.standalone.drop_ins.dropped_files import (
    DroppedFile,
    NotTrusted,
    NotYet,
    SettledFiles,
    compute_digest,
    look_at,
    open_whole,
)
from kvedge.standalone.drop_ins.image_names_plan import NoName, Step, Taken, disk_name, name_taken_by, plan_file
from kvedge.storage.image_errors import ImageError, ImageNotFound, StoreError
from kvedge.storage.images.image_store import OWN_ENTRIES, ImageStore
from kvedge.storage.images.image_work import import_work

log = logging.getLogger(__name__)

# A full disk is emptied some time; nothing else is tried again before the file changes.
_RETRY_SECONDS: Final = 60.0
_FAILED, _IMPORTED = "ImageDropInFailed", "ImageDroppedIn"


class ImageDropIns:
    """`<data-dir>/images`, as the place where users put files."""

    def __init__(self, store: ImageStore, record: Path, teller: Teller) -> None:
        self.directory = store.root
        self._store = store
        self._record = record
        self._teller = teller
        self._settled = SettledFiles()
        self._reading = threading.Lock()
        self._taken: dict[str, Taken] | None = None
        self._retry_at: dict[str, float] = {}

    def not_taken_yet(self) -> list[str]:
        """The files of which images are still to be made; another thread may ask.

        Files that cannot become images, and those that wait for room on the disk, are none of them.
        """
        try:
            files = look_at(self.directory, recursive=False, skip=OWN_ENTRIES).files
        except (OSError, NotTrusted):
            # This directory's own loop tells it.
            return []
        known = self._load_taken()
        return [
            name
            for name, file in sorted(files.items())
            if (name not in known or known[name].signature != file.signature) and self._is_time(name)
        ]

    def look(self, keep_on: Callable[[], None]) -> None:
        """Import what is whole and new."""
        self.directory.mkdir(mode=0o755, parents=True, exist_ok=True)
        look = look_at(self.directory, recursive=False, skip=OWN_ENTRIES)
        for name, why in look.refused.items():
            self._teller.tell_fault(self.directory / name, _FAILED, f"{self.directory / name} was not imported: {why}")
        taken = self._load_taken()
        for file in self._settled.choose_settled(look):
            keep_on()
            known = taken.get(file.name)
            if (known is None or known.signature != file.signature) and self._is_time(file.name):
                self._take(file, known, keep_on)
        gone = taken.keys() - look.files.keys()
        if gone:
            self._forget(gone)

    def _take(self, file: DroppedFile, known: Taken | None, keep_on: Callable[[], None]) -> None:
        path = self.directory / file.name
        try:
            with open_whole(self.directory, file) as opened:
                digest = compute_digest(opened, keep_on)
                step = plan_file(known, digest, images_are_there=known is not None and self._are_there(known.names))
                if step is Step.IMPORT:
                    names = self._import(path, opened, keep_on)
                    taken = Taken(signature=file.signature, digest=digest, names=names)
                else:
                    assert known is not None
                    taken = msgspec.structs.replace(known, signature=file.signature)
        except NotYet:
            return
        except StoreError as error:
            self._retry_at[file.name] = time.monotonic() + _RETRY_SECONDS
            self._teller.tell_fault(path, _FAILED, f"{path} was not imported yet: {error}")
            return
        except (ImageError, NoName) as error:
            message = f"{path} was not imported: {error}"
            self._teller.tell_fault(path, _FAILED, message)
            taken = Taken(signature=file.signature, digest=digest, error=message)
        else:
            if step is Step.IMPORT:
                self._teller.tell_success(path, _IMPORTED, f"{path} was imported as {', '.join(taken.names)}")
        self._remember(file.name, taken)

    def _import(self, path: Path, opened: int, keep_on: Callable[[], None]) -> tuple[str, ...]:
        def report_progress(done: int, total: int) -> None:
            keep_on()

        from kvedge.storage.images.image_import import is_archive

        name = "" if is_archive(opened) else disk_name(path.name)
        other = name_taken_by(name, path.name, self._load_taken())
        if other:
            raise NoName(f"its image would be called {name}, as that of {other} is: rename one of the two files")
        images = import_work(self._store, path, name).run(report_progress)
        return tuple(image.name for image in images)

    def _are_there(self, names: tuple[str, ...]) -> bool:
        try:
            for name in names:
                self._store.resolve(name)
        except ImageNotFound:
            return False
        return True

    def _is_time(self, name: str) -> bool:
        return time.monotonic() >= self._retry_at.get(name, 0.0)

    def _load_taken(self) -> dict[str, Taken]:
        with self._reading:
            if self._taken is None:
                self._taken = self._read()
            return self._taken

    def _read(self) -> dict[str, Taken]:
        try:
            return msgspec.json.decode(self._record.read_bytes(), type=dict[str, Taken])
        except FileNotFoundError:
            return {}
        except (msgspec.DecodeError, OSError) as error:
            # The record can be found out again: an image that is there already only gets its name.
            put_aside(self._record, str(error))
            return {}

    def _remember(self, name: str, taken: Taken) -> None:
        self._retry_at.pop(name, None)
        self._taken = {**self._load_taken(), name: taken}
        self._write()

    def _forget(self, gone: set[str]) -> None:
        known = self._load_taken()
        self._taken = {name: taken for name, taken in known.items() if name not in gone}
        for name in gone:
            taken = known[name]
            self._teller.forget(self.directory / name)
            if taken.names:
                log.info("%s is gone; its images stay: %s", self.directory / name, ", ".join(taken.names))
        self._write()

    def _write(self) -> None:
        write_durably(self._record, msgspec.json.encode(self._load_taken()), mode=0o644)
