"""Loads the launcher's empty image into this node's containerd, by the distribution's own tool, and pins it there.

Called when a node of a cluster has been installed, and beside its handler. Recent k3s loads by itself what is put into
its directory; others do so when they start next, or not at all. A kubelet on a full disk removes images that nothing
runs from, unless they are pinned: by a label of containerd's CRI plugin, which releases since the end of 2023 obey.
With older ones the image is removed all the same, and loaded again. Runs commands.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kvedge.resources.names import LAUNCHER_IMAGE
from kvedge.runtime.program import foreign_environment

ARCHIVE: Final = "kvedge-launcher.tar"
_SECONDS: Final = 60.0
_PIN_KEY: Final = "io.cri-containerd.pinned"
_PIN_VALUE: Final = "pinned"


class NotLoadedError(Exception):
    """It could not be loaded; the text is the command and what came of it."""


def load_image(load: Sequence[str], archive: Path) -> None:
    """Import the archive by the command `load` (`… images import`), and pin the launcher's image.

    Where it is there already, that costs nothing.

    Raises:
        NotLoadedError: when the tool is not there, fails, or takes longer than a minute.
    """
    _run([*load, str(archive)])
    _run([*_images(load), "label", LAUNCHER_IMAGE, f"{_PIN_KEY}={_PIN_VALUE}"])


def is_kept(load: Sequence[str]) -> bool:
    """Whether the image is there, and pinned.

    Raises:
        NotLoadedError: when that cannot be asked.
    """
    pinned = f'name=={LAUNCHER_IMAGE},labels."{_PIN_KEY}"=={_PIN_VALUE}'
    return bool(_run([*_images(load), "list", "--quiet", pinned]).strip())


def remove_image(load: Sequence[str]) -> None:
    """Take it out again: pinned as it is, nobody else would.

    Raises:
        NotLoadedError: when that cannot be done.
    """
    _run([*_images(load), "remove", LAUNCHER_IMAGE])


def _images(load: Sequence[str]) -> Sequence[str]:
    """The tool's commands for images, of which importing is one."""
    return load[:-1]


def _run(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
            env=foreign_environment(os.environ),
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotLoadedError(f"`{shlex.join(command)}`: {error}") from error
    if done.returncode != 0:
        raise NotLoadedError(f"`{shlex.join(command)}`: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
