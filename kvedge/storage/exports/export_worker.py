"""The process in an exporter's Pod: serves claims until its time is over. The hidden subcommand `export-server`.

Its job is in the environment. It ends with 0 when its time is over, by SIGTERM at once, and the controller makes
another one as long as the export lasts. Clients are strangers: memory and connections are bounded.
"""

from __future__ import annotations

import logging
import os
import resource
import signal
import sys
import threading
import time
from typing import Final, NoReturn

from kvedge.resources.codec import DecodeError, decode_json
from kvedge.resources.types.protection.export_job import EXPORT_JOB_VARIABLE, ExportJob
from kvedge.storage.exports.export_answers import ExportAnswers, Places
from kvedge.storage.exports.export_server import ExportServer, export_tls
from kvedge.storage.exports.gzip_stream import Compressor

log = logging.getLogger(__name__)

DONE, NEVER = 0, 3
# 30 MB are the interpreter's, 60 those of compressed streams, and each connection has half of one.
_MEMORY: Final = 256 << 20
# Each thread's stack counts against the memory, and none goes deep.
_STACK: Final = 1 << 20


def main() -> NoReturn:
    """Carry out the job of the environment."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    _confine()
    stopped = threading.Event()
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.set())
    code = serve(os.environ.pop(EXPORT_JOB_VARIABLE, ""), stopped)
    sys.stdout.flush()
    # No download is waited for: a guest may be about to write the disk.
    os._exit(code)


def serve(text: str, stopped: threading.Event) -> int:
    """Serve the job in `text` until it is stopped or its time is over; the exit code."""
    try:
        job = decode_json(ExportJob, text)
        server = ExportServer(ExportAnswers(job, Places(), Compressor()), export_tls())
    except DecodeError as error:
        log.error("%s is no job: %s", EXPORT_JOB_VARIABLE, error)
        return NEVER
    except OSError as error:
        log.error("the exporter cannot serve: %s", error)
        return 1
    server.start()
    log.info("serving %d volumes", len(job.volumes))
    stopped.wait(max(0.0, job.until - time.time()) if job.until else None)
    return DONE


def _confine() -> None:
    os.umask(0o077)
    threading.stack_size(_STACK)
    _, given = resource.getrlimit(resource.RLIMIT_DATA)
    most = _MEMORY if given == resource.RLIM_INFINITY else min(_MEMORY, given)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
