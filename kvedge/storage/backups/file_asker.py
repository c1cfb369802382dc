"""Reads a file of a repository anywhere in it: `restic mount` is asked over a socket, and nothing is mounted.

Called by the door to restic, which starts the program. `restic mount` serves the kernel by the FUSE protocol, on the
file that a program `fusermount` hands it. Ours hands it one end of a pair of sockets, and this module speaks for the
kernel at the other: no device, no right and no mount is needed. restic checks each piece as it reads it; the lengths of
its answers are checked here.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

_LOOKUP, _OPEN, _READ, _INIT = 1, 14, 15, 26
_VERSION: Final = (7, 12)
_ROOT: Final = 1
_HEAD: Final = struct.Struct("<IIQQIIII")
_ANSWER: Final = struct.Struct("<IiQ")
# Of a file that was looked up: its number, and its size behind all that says how long both hold.
_FOUND: Final = struct.Struct("<Q40xQ")
# A message has to fit into a socket's buffer as each host has it.
_PIECE: Final = 128 << 10
_LONGEST: Final = _PIECE + (4 << 10)
_LOOK_SECONDS: Final = 1.0
_CHANNEL: Final = "RESTIC_ASKED_ON"
# restic looks for the one or the other, by its version.
_NAMES: Final = ("fusermount", "fusermount3")
_PROGRAM: Final = f"""#!{sys.executable} -IS
import array, os, socket, sys
if "-u" not in sys.argv:
    channel = array.array("i", [int(os.environ["{_CHANNEL}"])])
    with socket.socket(fileno=int(os.environ["_FUSE_COMMFD"])) as restic:
        restic.sendmsg([b"0"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, channel)])
"""


class NoAnswer(Exception):
    """restic has ended, has found an error, or says what is no answer."""


def lay_mounter(place: Path, path: str, channel: int) -> dict[str, str]:
    """Write the program that restic has mount for it into an empty directory; what restic's environment needs besides.

    `path` is where programs are searched after it, `channel` the descriptor that restic inherits.
    """
    for name in _NAMES:
        made = os.open(place / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o755)
        with os.fdopen(made, "w") as file:
            file.write(_PROGRAM)
    return {"PATH": f"{place}:{path}", _CHANNEL: str(channel)}


class FileAsker:
    """One file, for one thread; `wait` is called about once a second while nothing comes, and may raise."""

    def __init__(self, channel: socket.socket, wait: Callable[[], None]) -> None:
        """Begin to talk. Raises NoAnswer."""
        self._channel = channel
        self._wait = wait
        self._asked = 0
        self._node = self._handle = 0
        self.size = 0
        self._ask(_INIT, 0, struct.pack("<IIII", *_VERSION, _PIECE, 0))

    def open(self, *names: str) -> None:
        """Find a file by the names on its way. Raises NoAnswer."""
        self._node = _ROOT
        for name in names:
            answer = self._ask(_LOOKUP, self._node, name.encode() + b"\0")
            if len(answer) < _FOUND.size:
                raise NoAnswer(f"{name} was not found")
            self._node, self.size = _FOUND.unpack_from(answer)
        answer = self._ask(_OPEN, self._node, struct.pack("<II", os.O_RDONLY, 0))
        if len(answer) < 8:
            raise NoAnswer("it was not opened")
        self._handle = int.from_bytes(answer[:8], "little")

    def read(self, position: int, size: int) -> bytes:
        """What is there, at most a piece of it; nothing behind the end. Raises NoAnswer."""
        wanted = min(size, _PIECE, max(0, self.size - position))
        if not wanted:
            return b""
        body = struct.pack("<QQIIQII", self._handle, position, wanted, 0, 0, 0, 0)
        found = self._ask(_READ, self._node, body)
        if not found or len(found) > wanted:
            raise NoAnswer(f"{len(found)} bytes came where {wanted} were asked for")
        return found

    def _ask(self, what: int, node: int, body: bytes) -> bytes:
        self._asked += 1
        try:
            self._channel.send(_HEAD.pack(_HEAD.size + len(body), what, self._asked, node, 0, 0, 0, 0) + body)
            while not select.select([self._channel], [], [], _LOOK_SECONDS)[0]:
                self._wait()
            answer = self._channel.recv(_LONGEST)
        except OSError as error:
            raise NoAnswer(f"the channel broke: {error.strerror}") from error
        if len(answer) < _ANSWER.size:
            raise NoAnswer("restic has ended")
        length, failure, asked = _ANSWER.unpack_from(answer)
        if length != len(answer) or asked != self._asked:
            raise NoAnswer("the answer is another one's")
        if failure:
            raise NoAnswer(os.strerror(abs(failure)))
        return answer[_ANSWER.size :]
