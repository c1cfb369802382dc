"""The process in a worker's Pod: it fills one claim and ends. The hidden subcommand `import-worker`.

Its job is in the environment, its outcome in the container's termination message. It tells its progress by HTTP, and
ends with 0 when the claim is filled, with 1 when another attempt may help, and with 3 when none can. It is stopped by
SIGTERM, and then leaves nothing unfinished behind (143). What it reads was made by strangers: memory, processor time
and the size of files are bounded.
"""

from __future__ import annotations

import contextlib
import logging
import os
import resource
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from kvedge.resources.codec import DecodeError, decode_json, encode_json
from kvedge.resources.types.import_job import JOB_VARIABLE, PROGRESS_PORT, ImportJob, ImportOutcome
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.import_run import ImportPlaces, run_import
from kvedge.storage.imports.progress_server import ProgressServer

log = logging.getLogger(__name__)

TERMINATION_LOG: Final = Path("/dev/termination-log")
SUCCESS, AGAIN, NEVER = 0, 1, 3
# 30 MB are the interpreter's, 80 an xz dictionary's, 64 a table of qcow2's and its copy. qemu-img has a limit of its
# own, which must lie below this one's hard end.
_MEMORY: Final = 192 << 20
_MEMORY_OF_CHILDREN: Final = 256 << 20
_CPU_SECONDS: Final = 12 * 3600
# Kubernetes keeps 4096 bytes of a termination message.
_LONGEST_MESSAGE: Final = 2000


def main() -> NoReturn:
    """Carry out the job of the environment."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    _confine()
    signal.signal(signal.SIGTERM, _stop)
    # A Pod's other containers and later processes do not need it.
    text = os.environ.pop(JOB_VARIABLE, "")
    code, outcome = carry_out(text, ImportPlaces(), PROGRESS_PORT)
    leave(outcome, TERMINATION_LOG)
    sys.stdout.flush()
    # Nothing is left to put in order; no thread is waited for.
    os._exit(code)


def carry_out(text: str, places: ImportPlaces, port: int) -> tuple[int, ImportOutcome]:
    """The job in `text`: the exit code and what is to be left."""
    progress = ImportProgress()
    try:
        job = decode_json(ImportJob, text)
        server = ProgressServer(progress, port)
        server.start()
        try:
            return SUCCESS, run_import(job, places, progress)
        finally:
            server.stop()
    except DecodeError as error:
        return NEVER, ImportOutcome(message=f"{JOB_VARIABLE} is no job: {error}", reason="Error", fatal=True)
    except ImportFailure as error:
        log.error("%s", error.message)
        outcome = ImportOutcome(message=error.message[:_LONGEST_MESSAGE], reason=error.reason, fatal=error.fatal)
        return NEVER if error.fatal else AGAIN, outcome
    except MemoryError:
        message = f"Unable to process data: it needs more than {_MEMORY >> 20} MiB of memory to read"
        return AGAIN, ImportOutcome(message=message, reason="Error")
    except Exception as error:
        # Nothing that an image can do to this program may go unsaid: the log has the place in the program.
        log.exception("the import stumbled")
        message = f"Unable to process data: {type(error).__name__}: {error}"[:_LONGEST_MESSAGE]
        return AGAIN, ImportOutcome(message=message, reason="Error")


def leave(outcome: ImportOutcome, where: Path) -> None:
    """Write the termination message, which the controller reads when this container has ended."""
    with contextlib.suppress(OSError):
        where.write_bytes(encode_json(outcome))


def _confine() -> None:
    """Bound this process; programs that it starts have narrower limits of their own."""
    os.umask(0o007)
    resource.setrlimit(resource.RLIMIT_DATA, _bound_limits(resource.RLIMIT_DATA, _MEMORY, _MEMORY_OF_CHILDREN))
    resource.setrlimit(resource.RLIMIT_CPU, _bound_limits(resource.RLIMIT_CPU, _CPU_SECONDS, _CPU_SECONDS + 10))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _bound_limits(kind: int, soft: int, hard: int) -> tuple[int, int]:
    """The limits, unless this process was given narrower ones."""
    _, given = resource.getrlimit(kind)
    most = hard if given == resource.RLIM_INFINITY else min(hard, given)
    return min(soft, most), most


def _stop(number: int, frame: FrameType | None) -> None:
    # Unwinds, so that what is unfinished is removed.
    raise SystemExit(128 + number)
