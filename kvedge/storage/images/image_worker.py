"""A process that gets one image: it downloads, unpacks and imports what strangers made, within limits.

Started by `image_work` as the hidden subcommand `image-worker`. It reads its order from standard input and answers on
standard output. What an image makes it allocate, it allocates here, where a limit and the end of the process take it
back. It ends when its standard input does: when the process that wants the image is gone.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import sys
import threading
import time
from typing import BinaryIO, Final, NoReturn

import msgspec

from kvedge.runtime.linux.memory import be_first_to_end
from kvedge.storage.disk_file import QEMU_IMG_MEMORY
from kvedge.storage.image_errors import BadImage, ImageError
from kvedge.storage.images.image_import import import_file
from kvedge.storage.images.image_store import ImageStore
from kvedge.storage.images.image_worker_message import LONGEST_ORDER, Answer, Order, failure_of

log = logging.getLogger(__name__)

# 30 MB are the interpreter's and 80 an xz dictionary's; the rest is for documents and the names of 500,000 files.
# With what it starts it must fit into the service's memory, beside the others that run at the same time.
MEMORY: Final = 192 << 20
# An image of 256 GiB is unpacked and checked in half of this on a slow processor.
CPU_SECONDS: Final = 3600
_PROGRESS_SECONDS: Final = 0.2


def main() -> NoReturn:
    """Carry out the one order."""
    answers = os.fdopen(os.dup(1), "wb")
    # A library that prints must not write into the answers.
    os.dup2(2, 1)
    order = msgspec.json.decode(sys.stdin.buffer.readline(LONGEST_ORDER), type=Order)
    _confine(order)
    threading.Thread(target=_end_with_the_asker, name="asker", daemon=True).start()
    speaker = _Speaker(answers)
    speaker.say(_carry_out(order, speaker))
    # Nothing is left to put in order: the store is whole, and memory goes with the process.
    os._exit(0)


def _carry_out(order: Order, speaker: _Speaker) -> Answer:
    try:
        return Answer(names=_get(order, speaker))
    except ImageError as error:
        return Answer(failure=failure_of(error))
    except MemoryError:
        return Answer(failure=failure_of(BadImage(f"the image needs more than {MEMORY >> 20} MiB of memory to read")))
    except Exception as error:
        # Nothing that an image can do to this program may go unsaid: the log has the place in the program.
        log.exception("an image made the program stumble")
        text = f"{type(error).__name__}: {error}"[:300]
        return Answer(failure=failure_of(ImageError(f"the image cannot be read: {text}", "report this as a fault")))


def _get(order: Order, speaker: _Speaker) -> list[str]:
    store = ImageStore(os.fsdecode(order.root), order.limits, order.pace)
    subject = os.fsdecode(order.subject)
    if order.verb == "import":
        images = import_file(store, subject, order.name, speaker.report_progress)
        return [image.name for image in images]
    # The registry client is loaded for a pull only.
    from kvedge.storage.images.image_pull import pull_image

    image = pull_image(
        store, subject, order.credentials, speaker.report_progress, insecure=order.insecure, own_host=order.own_host
    )
    return [image.name]


class _Speaker:
    """Answers, and says now and then how far it is."""

    def __init__(self, answers: BinaryIO) -> None:
        self._answers = answers
        self._next = 0.0

    def say(self, answer: Answer) -> None:
        """One answer."""
        self._answers.write(msgspec.json.encode(answer) + b"\n")
        self._answers.flush()

    def report_progress(self, done: int, total: int) -> None:
        """As the store reports it; few of it are told."""
        now = time.monotonic()
        if now >= self._next or done >= total:
            self._next = now + _PROGRESS_SECONDS
            self.say(Answer(progress=(done, total)))


def _confine(order: Order) -> None:
    """Bound this process and all that it starts, and have the kernel choose it first when memory is short."""
    resource.setrlimit(resource.RLIMIT_DATA, _bound_limits(resource.RLIMIT_DATA, MEMORY, max(MEMORY, QEMU_IMG_MEMORY)))
    resource.setrlimit(resource.RLIMIT_CPU, _bound_limits(resource.RLIMIT_CPU, CPU_SECONDS, CPU_SECONDS + 10))
    largest = _find_largest_file(order)
    resource.setrlimit(resource.RLIMIT_FSIZE, _bound_limits(resource.RLIMIT_FSIZE, largest, largest))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    be_first_to_end()


def _find_largest_file(order: Order) -> int:
    """A file may have what an image may hold; the copy of an uncompressed disk, whose holes cost nothing, its size."""
    unpacked = order.limits.total_bytes + order.limits.entries * 2048
    if order.verb != "import":
        return unpacked
    try:
        return max(unpacked, os.stat(order.subject).st_size)
    except OSError:
        # The import says what is wrong with the file.
        return unpacked


def _bound_limits(kind: int, soft: int, hard: int) -> tuple[int, int]:
    """The limits, unless this process was given narrower ones."""
    _, given = resource.getrlimit(kind)
    most = hard if given == resource.RLIM_INFINITY else min(hard, given)
    return min(soft, most), most


def _end_with_the_asker() -> None:
    while os.read(0, 1):
        continue
    if os.getpgrp() == os.getpid():
        # With zstd and qemu-img, which would go on without anybody.
        os.killpg(0, signal.SIGKILL)
    os._exit(75)
