"""The site's own program that is told of an alarm: as JSON on its standard input, as a user without rights.

Called by the tellers. Starts a process, and ends it with all its children when its time is over.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from kvedge.controller.alarms.words.deadline_stream import WordsFailed

# The user `nobody` of every distribution.
_NOBODY: Final = 65534
_SECONDS: Final = 30.0
_LONGEST_WORDS: Final = 300
_ENVIRONMENT: Final = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


def find_hook(path: Path) -> Path | None:
    """The program, if the site has one.

    Raises:
        WordsFailed: when others than root could have written it, or it cannot be started.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise WordsFailed(f"{path} cannot be looked at: {error}") from error
    if not stat.S_ISREG(found.st_mode) or not found.st_mode & stat.S_IXOTH:
        raise WordsFailed(f"{path} must be a program that everybody may start: chmod 755 {path}")
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise WordsFailed(f"{path} must be root's, and only root may write it: chown root {path}; chmod 755 {path}")
    return path


def call_hook(program: Path, alert: dict[str, Any], seconds: float = _SECONDS) -> None:
    """Have it told; it ends with 0 when it was.

    Raises:
        WordsFailed: when it does not.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as said:
        given.write(json.dumps(alert).encode() + b"\n")
        given.seek(0)
        user: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = {"user": _NOBODY, "group": _NOBODY, "extra_groups": []}
        try:
            process = subprocess.Popen(
                [str(program)],
                stdin=given,
                stdout=subprocess.DEVNULL,
                stderr=said,
                env=_ENVIRONMENT,
                cwd="/",
                start_new_session=True,
                **user,
            )
        except OSError as error:
            raise WordsFailed(f"{program} does not start: {error}") from error
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            raise WordsFailed(f"{program} was ended: it took longer than {seconds:g} s") from error
        finally:
            # Its children too: they would be those of a box's kvedge for ever.
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        if code != 0:
            size = said.seek(0, os.SEEK_END)
            said.seek(max(0, size - _LONGEST_WORDS))
            words = said.read(_LONGEST_WORDS).decode(errors="replace").strip()
            raise WordsFailed(f"{program} ended with {code}: {words or 'no word'}")
