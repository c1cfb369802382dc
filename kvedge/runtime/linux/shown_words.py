"""What `ps` and /proc/PID/cmdline and environ show of this process, for one that goes on as another program without
exec(2).

Called by children of the parent of warm launchers. Touches the memory in which the kernel has put this process'
arguments and environment: other words have as much room as the first ones. The rest of it is zeros, which readers see
as empty words. Giving the kernel another place to read from would need CAP_SYS_RESOURCE.
"""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

# Of /proc/PID/stat (proc(5)), counted behind the name: where arguments and environment begin and end.
_BOUNDS: Final = slice(45, 49)


def show_words(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Show these, as exec(2) would; children show them too.

    Nothing may use the first environment any more: the C library's variables must have been removed before, which
    os.environ.clear() does.

    Raises:
        OSError: when there is no room for them; nothing has changed then.
    """
    words, variables = join_words(argv), join_words(f"{name}={value}" for name, value in environment.items())
    with open("/proc/self/stat", "rb") as file:
        bounds = [int(field) for field in file.read().rpartition(b")")[2].split()[_BOUNDS]]
    room, more_room = bounds[1] - bounds[0], bounds[3] - bounds[2]
    if len(words) > room or len(variables) > more_room:
        raise OSError(errno.E2BIG, os.strerror(errno.E2BIG), "show other words")
    ctypes.memmove(bounds[0], words.ljust(room, b"\0"), room)
    ctypes.memmove(bounds[2], variables.ljust(more_room, b"\0"), more_room)


def join_words(texts: Iterable[str]) -> bytes:
    """As the kernel keeps them."""
    return b"".join(os.fsencode(text) + b"\0" for text in texts)
