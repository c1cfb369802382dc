"""Loads the launcher's empty image into the containerd of this node, by the distribution's own tool.

Called when a node of a cluster has been installed. Recent k3s loads by itself what is put into its directory; others do
so when they start next, or not at all. Runs one command.
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kvedge.runtime.program import foreign_environment

_SECONDS: Final = 60.0


class NotLoadedError(Exception):
    """It could not be loaded; the text is the command and what came of it."""


def load_image(tool: Sequence[str], archive: Path) -> None:
    """Import an archive; one that is there already costs nothing.

    Raises:
        NotLoadedError: when the tool is not there, fails, or takes longer than a minute.
    """
    command = [*tool, str(archive)]
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
