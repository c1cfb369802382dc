"""The files of a claim that holds no disk: listed, read one by one, or packed into one archive.

Called by export_answers.py. A path comes from a client, and links from whoever filled the claim: the kernel resolves
both with the claim as the root. The archive is tar's, which keeps links as links and holes as holes.
"""

from __future__ import annotations

import html
import os
import stat
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final
from urllib.parse import quote

from kvedge.storage.beneath import AS_ROOT, hold_directory, hold_open_beneath
from kvedge.storage.exports.gzip_stream import PIECE

# A directory with more is listed in part.
MOST_LISTED: Final = 10_000
# A file system's own, which is readable by root alone.
_NOT_FILES: Final = "lost+found"
_TAR: Final = "/usr/bin/tar"
_STOP_SECONDS: Final = 5.0


class ArchiveFailed(Exception):
    """The archive is not whole; the text says why."""


@contextmanager
def hold_entry(directory: str, path: str) -> Iterator[tuple[int, bool]]:
    """A file or a directory in a claim, and whether it is a directory, for a `with` block.

    Raises:
        OSError: when there is none, or it is something else.
    """
    with (
        hold_directory(directory) as root,
        # O_NONBLOCK: opening a fifo must not wait for a writer.
        hold_open_beneath(root, path or ".", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, resolve=AS_ROOT) as opened,
    ):
        mode = os.fstat(opened).st_mode
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            raise FileNotFoundError(path)
        yield opened, stat.S_ISDIR(mode)


def list_directory(opened: int) -> bytes:
    """A page with links to what is in a directory."""
    names: list[str] = []
    with os.scandir(opened) as entries:
        for entry in entries:
            if len(names) > MOST_LISTED:
                break
            names.append(f"{entry.name}/" if entry.is_dir(follow_symlinks=False) else entry.name)
    lines = [
        f'<a href="./{quote(os.fsencode(name))}">{html.escape(_show(name))}</a>' for name in sorted(names)[:MOST_LISTED]
    ]
    if len(names) > MOST_LISTED:
        lines.append(f"more than {MOST_LISTED}: the archive disk.tar.gz has all of them")
    return "".join(("<!doctype html>\n<pre>\n", *(f"{line}\n" for line in lines), "</pre>\n")).encode()


def pack_directory(directory: str) -> Iterator[bytes]:
    """All files of a claim as a tar archive, in pieces.

    Raises:
        ArchiveFailed: when tar cannot read all of them.
        OSError: when there is no tar.
    """
    command = [_TAR, "-C", directory, "--sparse", "--one-file-system", f"--exclude=./{_NOT_FILES}", "-cf", "-", "."]
    # Its complaints would be as many as there are files that it cannot read.
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as tar:
        try:
            assert tar.stdout is not None
            while piece := tar.stdout.read(PIECE):
                yield piece
            if tar.wait(_STOP_SECONDS) != 0:
                raise ArchiveFailed(f"tar ended with {tar.returncode}: it could not read some of the files")
        finally:
            if tar.poll() is None:
                tar.kill()


def _show(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "replace")
