"""The process in the Pod of a backup or of its way back. The hidden subcommand `backup-worker`.

Its job is in the environment, its outcome in the container's termination message. It tells its progress by HTTP, and
hands out what it was sent to read there. It ends with 0 when the errand is done, with 1 when another try may help, and
with 3 when none can. SIGTERM stops it, and then no disk is left half.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Final, NoReturn

from kvedge.resources.codec import DecodeError, decode_json, encode_json
from kvedge.resources.types.import_job import PROGRESS_PORT
from kvedge.resources.types.protection.backup_job import (
    BACKUP_SECRET_DIRECTORY,
    BACKUP_VARIABLE,
    BackupJob,
    BackupOutcome,
    LiveState,
)
from kvedge.storage.backups.backup_errand import BackupPlaces, bring_back, keep_backup, read_record
from kvedge.storage.backups.live.live_errand import serve_disks
from kvedge.storage.backups.restic_client import ResticClient
from kvedge.storage.backups.restic_program import BackupFailure
from kvedge.storage.backups.upkeep_errand import prune_backups, read_catalog, verify_part
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.progress_server import ProgressServer

log = logging.getLogger(__name__)

TERMINATION_LOG: Final = Path("/dev/termination-log")
SUCCESS, AGAIN, NEVER = 0, 1, 3
# The controller fetches what was read, and ends the Pod; one that nobody fetches from ends by itself.
_HOLD_SECONDS: Final = 600.0
# Kubernetes keeps 4096 bytes of a termination message.
_LONGEST_MESSAGE: Final = 2000


def main() -> NoReturn:
    """Carry out the job of the environment."""
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(levelname)s %(message)s")
    os.umask(0o007)
    signal.signal(signal.SIGTERM, _stop)
    text = os.environ.pop(BACKUP_VARIABLE, "")
    code, outcome = carry_out(text, Path(BACKUP_SECRET_DIRECTORY), BackupPlaces(), PROGRESS_PORT)
    with contextlib.suppress(OSError):
        TERMINATION_LOG.write_bytes(encode_json(outcome))
    sys.stdout.flush()
    os._exit(code)


def carry_out(
    text: str, secret: Path, places: BackupPlaces, port: int, hold: threading.Event | None = None
) -> tuple[int, BackupOutcome]:
    """The job in `text`: the exit code and what is to be left. `hold` ends the time in which a record is handed out."""
    progress = ImportProgress()
    try:
        job = decode_json(BackupJob, text)
        server = ProgressServer(progress, port)
        server.start()
        try:
            client = ResticClient(job.repository, secret)
            if job.mode in ("read", "list"):
                read = read_record(job, client) if job.mode == "read" else read_catalog(client)
                server.hand_out(encode_json(read), job.token)
                (hold or threading.Event()).wait(_HOLD_SECONDS)
                return SUCCESS, BackupOutcome(message="Record Read" if job.mode == "read" else "List Read")
            if job.mode == "serve":
                told = partial(_hand_out, server, job.token)
                outcome = serve_disks(job, client, places, progress, told)
            else:
                outcome = _do(job, client, places, progress)
            progress.complete()
            return SUCCESS, outcome
        finally:
            server.stop()
    except DecodeError as error:
        return NEVER, BackupOutcome(message=f"{BACKUP_VARIABLE} is no job: {error}", fatal=True)
    except BackupFailure as error:
        log.error("%s", error.message)
        outcome = BackupOutcome(
            message=error.message[:_LONGEST_MESSAGE], fatal=error.fatal, locked=error.locked, damaged=error.damaged
        )
        return NEVER if error.fatal else AGAIN, outcome
    except Exception as error:
        # Nothing may go unsaid: the log has the place in the program.
        log.exception("the errand stumbled")
        return AGAIN, BackupOutcome(message=f"{type(error).__name__}: {error}"[:_LONGEST_MESSAGE])


def _do(job: BackupJob, client: ResticClient, places: BackupPlaces, progress: ImportProgress) -> BackupOutcome:
    match job.mode:
        case "backup":
            return keep_backup(job, client, places, progress)
        case "prune":
            return prune_backups(job, client, datetime.now(UTC))
        case "verify":
            return verify_part(job, client)
        case _:
            return bring_back(job, client, places, progress)


def _hand_out(server: ProgressServer, token: str, state: LiveState) -> None:
    server.hand_out(encode_json(state), token)


def _stop(number: int, frame: FrameType | None) -> None:
    # Unwinds, so that what is unfinished is removed.
    raise SystemExit(128 + number)
