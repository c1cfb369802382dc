"""Trees that somebody else filled: copying them with shared blocks, weighing them and erasing them.

Called by the directory driver. Uses the programs of coreutils, which go as deep as any guest's directories and follow
no link; each call is a process of its own, so that a slow disk is given up by ending it. Touches the trees it is given.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from kvedge.storage.sparse_file import share_blocks

_LOOK_SECONDS: Final = 0.5
_WEIGH_SECONDS: Final = 60.0
_ENV: Final = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
_MOST_TOLD: Final = 300


class TreeError(OSError):
    """A program could not do it; the text is its own, shortened."""


def copy_tree(source: Path, into: Path, keep_on: Callable[[], None], *, by_sharing_alone: bool = False) -> None:
    """Copy the content of a directory with owners, modes and holes into an empty one, and the directory's own too.

    Blocks are shared where the file system can; with `by_sharing_alone` it fails where it cannot. `keep_on` is called
    again and again, and raises to give it up.

    Raises:
        TreeError: with what the program said.
    """
    reflink = "--reflink=always" if by_sharing_alone else "--reflink=auto"
    words = ["cp", "--archive", "--one-file-system", reflink, "--sparse=auto", "--", f"{source}/.", f"{into}/"]
    with tempfile.TemporaryFile() as said, subprocess.Popen(words, stdout=said, stderr=said, env=_ENV) as running:
        try:
            keep_on()
            while running.poll() is None:
                keep_on()
                with suppress(subprocess.TimeoutExpired):
                    running.wait(_LOOK_SECONDS)
        except BaseException:
            running.kill()
            raise
        if running.returncode:
            said.seek(0)
            text = said.read(_MOST_TOLD).decode(errors="replace").strip()
            raise TreeError(0, f"copying failed: {text or running.returncode}", str(source))


def erase_tree(path: Path) -> None:
    """Remove a directory with all that is in it; nothing happens when it is gone.

    Raises:
        TreeError: with what the program said.
    """
    words = ["rm", "-rf", "--one-file-system", "--", str(path)]
    done = subprocess.run(words, capture_output=True, env=_ENV, check=False)
    if done.returncode:
        raise TreeError(0, f"erasing failed: {done.stderr[:_MOST_TOLD].decode(errors='replace').strip()}", str(path))


def tree_bytes(path: Path) -> int:
    """What a directory takes of its disk.

    Raises:
        TreeError: when it cannot be said in time.
    """
    words = ["du", "--summarize", "--block-size=1", "--one-file-system", "--", str(path)]
    try:
        done = subprocess.run(words, capture_output=True, env=_ENV, check=False, timeout=_WEIGH_SECONDS)
    except subprocess.TimeoutExpired as error:
        raise TreeError(0, f"not weighed within {_WEIGH_SECONDS:.0f} s", str(path)) from error
    number = done.stdout.split(b"\t")[0]
    if not number.isdigit():
        raise TreeError(0, f"cannot be weighed: {done.stderr[:_MOST_TOLD].decode(errors='replace').strip()}", str(path))
    return int(number)


def shares_blocks(place: Path) -> bool:
    """Whether files of a directory's file system can share blocks, so that a clone takes neither time nor room."""
    with tempfile.TemporaryFile(dir=place) as source, tempfile.TemporaryFile(dir=place) as target:
        source.write(bytes(4096))
        source.flush()
        return share_blocks(source.fileno(), target.fileno())
