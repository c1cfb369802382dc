"""Getting an image through a worker, a process of its own with limits: imports and pulls.

Called by the node agent, by the drop-in directory and by `kvedge image`. Starts the process, waits for its answer, and
ends it when it is cancelled or takes too long. The store is read here only once the worker is done.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from kvedge.runtime.program import program_command
from kvedge.storage.image_errors import BadImage, ImageError, StoreError
from kvedge.storage.images.image_records import Image
from kvedge.storage.images.image_store import ImageStore
from kvedge.storage.images.image_worker_message import LONGEST, Answer, Order, error_of
from kvedge.storage.sparse_file import Progress, ignore_progress

# The hidden subcommand.
WORKER_VERB: Final = "image-worker"
# A download may take an hour (`registry_pace`) and the worker an hour of processor time; a slow disk, and the wait for
# another pull of the same repository, may take the remaining two.
_WALL_SECONDS: Final = 4 * 3600.0
# So often the caller, who waits, is asked whether to go on.
_TICK_SECONDS: Final = 0.5


class Cancelled(ImageError):
    """The image is not wanted any more."""


class ImageWork:
    """One import or pull; :meth:`run` is called once, :meth:`cancel` from any thread and at any time."""

    def __init__(self, store: ImageStore, order: Order) -> None:
        self._store = store
        self._order = order
        self._what = os.fsdecode(order.subject)
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._cancelled = False

    def run(self, progress: Progress = ignore_progress) -> list[Image]:
        """Have the worker do it; `progress` is called now and then, and may raise to end it.

        Raises:
            ImageError: with what is wrong and what to do; `Cancelled` after :meth:`cancel`.
            OSError: when no process can be made.
        """
        with self._lock:
            if self._cancelled:
                raise Cancelled(f"{self._what} is not wanted any more")
            process = self._process = subprocess.Popen(
                [*program_command(), WORKER_VERB],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                # A group of its own, which ends as a whole: it starts zstd and qemu-img.
                start_new_session=True,
            )
        try:
            names = self._names(process, progress)
        finally:
            self._end(process)
        if names is None:
            raise self._explain_end(process.returncode)
        return [self._store.resolve(name) for name in names]

    def cancel(self) -> None:
        """End the worker and its connections now."""
        with self._lock:
            self._cancelled = True
            if self._process is not None:
                _kill_group(self._process.pid)

    def _names(self, process: subprocess.Popen[bytes], progress: Progress) -> list[str] | None:
        assert process.stdin is not None
        with suppress(BrokenPipeError):
            process.stdin.write(msgspec.json.encode(self._order) + b"\n")
            # It stays open: the worker ends when it closes.
            process.stdin.flush()
        told = (0, 0)
        for line in self._read_lines(process):
            if line:
                answer = msgspec.json.decode(line, type=Answer)
                if answer.failure is not None:
                    raise error_of(answer.failure)
                if answer.names is not None:
                    return answer.names
                told = answer.progress or told
            progress(*told)
        return None

    def _read_lines(self, process: subprocess.Popen[bytes]) -> Iterator[bytes]:
        """The worker's answers; an empty one for each moment in which it says nothing."""
        assert process.stdout is not None
        source = process.stdout.fileno()
        poll = select.poll()
        poll.register(source, select.POLLIN)
        end = time.monotonic() + _WALL_SECONDS
        rest = b""
        while len(rest) <= LONGEST:
            if time.monotonic() > end:
                raise BadImage(f"{self._what} was not read within {_WALL_SECONDS / 3600:.0f} hours")
            if not poll.poll(_TICK_SECONDS * 1000):
                yield b""
                continue
            part = os.read(source, 1 << 16)
            if not part:
                return
            *lines, rest = (rest + part).split(b"\n")
            yield from lines

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            # Not waited for yet, so that the number is still this group's.
            self._process = None
            _kill_group(process.pid)
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        process.wait()

    def _explain_end(self, code: int) -> ImageError:
        if self._cancelled:
            return Cancelled(f"{self._what} is not wanted any more")
        if code == -signal.SIGXCPU:
            return BadImage(f"reading {self._what} takes more processor time than an honest image")
        how = f"signal {-code}" if code < 0 else f"code {code}"
        # A fault of this host rather than of the image, so that it is tried again.
        return StoreError(
            f"the process that read {self._what} ended with {how}", "see the log; the host may lack memory"
        )


def _kill_group(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def import_work(store: ImageStore, path: Path, name: str = "") -> ImageWork:
    """:func:`image_import.import_file`, in a worker."""
    order = Order(
        verb="import",
        root=os.fsencode(store.root),
        subject=os.fsencode(path),
        limits=store.limits,
        pace=store.pace,
        name=name,
    )
    return ImageWork(store, order)


def pull_work(
    store: ImageStore,
    reference: str,
    credentials: Mapping[str, tuple[str, str]] | None = None,
    insecure: frozenset[str] = frozenset(),
    *,
    own_host: bool = True,
) -> ImageWork:
    """:func:`image_pull.pull_image`, in a worker."""
    order = Order(
        verb="pull",
        root=os.fsencode(store.root),
        subject=reference.encode(errors="replace"),
        limits=store.limits,
        pace=store.pace,
        credentials=dict(credentials or {}),
        insecure=insecure,
        own_host=own_host,
    )
    return ImageWork(store, order)
