"""The archive of a report: bounded, for its owner alone, and without secrets.

Used by the report verb. Writes one file, whole or not at all.
"""

from __future__ import annotations

import io
import os
import tarfile
import time
from pathlib import Path
from typing import Final

from kvedge.appliance.report.report_redaction import Redaction

# Small enough for a mail or an issue.
MOST_BYTES: Final = 48 << 20
MOST_MEMBER_BYTES: Final = 2 << 20


class ReportFile:
    """One report; a context: the file appears under its name at the end."""

    def __init__(self, path: Path, redaction: Redaction) -> None:
        self._path = path
        self._coming = path.with_name(f".{path.name}.{os.getpid()}.part")
        self._redaction = redaction
        self._left = MOST_BYTES
        self.notes: list[str] = []
        self._top = path.name.removesuffix(".tar.gz")

    def __enter__(self) -> ReportFile:
        descriptor = os.open(self._coming, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._stream = open(descriptor, "wb")
        self._archive = tarfile.open(fileobj=self._stream, mode="w:gz")
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        try:
            if kind is None:
                self._write("notes.txt", "\n".join(self.notes or ["everything could be read"]).encode() + b"\n")
            self._archive.close()
            self._stream.close()
            if kind is None:
                self._coming.replace(self._path)
        finally:
            self._coming.unlink(missing_ok=True)

    def add(self, name: str, text: str) -> None:
        """Add a text, its end when it is too long, without what is secret."""
        if len(text) > 2 * MOST_MEMBER_BYTES:
            # A line that is cut may begin in the middle of a secret.
            text = text[-2 * MOST_MEMBER_BYTES :].partition("\n")[2]
        data = self._redaction.clean_text(text).encode(errors="replace")
        if len(data) > MOST_MEMBER_BYTES:
            self.notes.append(f"{name}: only the last {MOST_MEMBER_BYTES >> 20} MiB")
            data = data[-MOST_MEMBER_BYTES:]
        if len(data) > self._left:
            self.notes.append(f"{name}: left out, the report has {MOST_BYTES >> 20} MiB")
            return
        self._left -= len(data)
        self._write(name, data)

    def _write(self, name: str, data: bytes) -> None:
        info = tarfile.TarInfo(f"{self._top}/{name}")
        info.size, info.mode, info.mtime = len(data), 0o600, int(time.time())
        self._archive.addfile(info, io.BytesIO(data))
