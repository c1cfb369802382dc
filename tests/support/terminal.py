"""A program in a terminal of its own, typed at and read from as a person does: answers follow what is asked.

Used by tests of consoles.
"""

from __future__ import annotations

import contextlib
import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence


class Terminal:
    """One program on a pseudo terminal; `seen` is all that it has written."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.seen = b""

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._descriptor, text.encode())

    def type_until(self, text: str, words: bytes, seconds: float = 60.0) -> None:
        """Press the same keys again and again until these words come: a getty that starts throws away what came before.

        Raises:
            AssertionError: as :meth:`wait_for`.
        """
        deadline = time.monotonic() + seconds
        while True:
            self.type(text)
            try:
                return self.wait_for(words, 3.0)
            except AssertionError:
                if time.monotonic() > deadline:
                    raise

    def wait_for(self, words: bytes, seconds: float = 30.0) -> None:
        """Read until these words have come since the last wait.

        Raises:
            AssertionError: with all that was seen, when they do not.
        """
        deadline = time.monotonic() + seconds
        begun = len(self.seen)
        while words not in self.seen[begun:]:
            ready, _, _ = select.select([self._descriptor], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"no {words!r} within {seconds} s, only {self.seen!r}"
            try:
                self.seen += os.read(self._descriptor, 4096)
            except OSError as error:
                raise AssertionError(f"the program ended before {words!r}: {self.seen!r}") from error


@contextlib.contextmanager
def in_terminal(
    command: Sequence[str], environment: Mapping[str, str]
) -> Iterator[tuple[Terminal, subprocess.Popen[bytes]]]:
    """Run a program on a new terminal; it is ended at the end."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=dict(environment), start_new_session=True
    )
    os.close(theirs)
    try:
        yield Terminal(ours), process
    finally:
        process.kill()
        process.wait()
        os.close(ours)
