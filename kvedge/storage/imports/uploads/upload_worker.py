"""A job whose data is pushed: serves until one upload is whole, and leads it into the claim.

Called by import_run.py. A fault that a sink finds becomes an answer to the client, in CDI's words. The worker itself
ends only when an upload is whole, or when one that was taken cannot be converted.
"""

from __future__ import annotations

import errno
import ssl
import threading
from typing import Final

from kvedge.resources.disks.uploads import UPLOAD_CLIENT_NAME, clone_client_name
from kvedge.resources.types.import_job import UPLOAD_PORT, ImportJob
from kvedge.storage.image_errors import ImageError
from kvedge.storage.imports.clones.clone_stream import CloneSink
from kvedge.storage.imports.import_errors import ImportFailure, NotStreamable, OtherLayer, TooSmall
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.sinks.archive_sink import ArchiveSink
from kvedge.storage.imports.sinks.image_sink import ImageSink, Way
from kvedge.storage.imports.sinks.import_target import DeviceTarget, FileTarget
from kvedge.storage.imports.uploads.upload_attempt import GivenUp, Sink
from kvedge.storage.imports.uploads.upload_run import NotNow, UploadRun
from kvedge.storage.imports.uploads.upload_server import RefusalOf, UploadServer

_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_SAVING: Final = "Saving stream failed"
# Each thread's stack counts against the worker's memory, and none goes deep.
_STACK: Final = 1 << 20


def take_upload(
    job: ImportJob,
    target: FileTarget | DeviceTarget,
    tls: ssl.SSLContext,
    host: str = "::",
    port: int = UPLOAD_PORT,
) -> int:
    """Have a client fill the claim; returns the size of the guest's disk.

    Raises:
        ImportFailure: when what was taken cannot be converted, or an archive is to go to a device.
    """
    sinks = UploadSinks(job, target)
    return _serve(UploadRun(sinks.make), tls, sinks.make_refusal, (host, port), UPLOAD_CLIENT_NAME)


def take_clone(
    job: ImportJob,
    target: FileTarget | DeviceTarget,
    tls: ssl.SSLContext,
    progress: ImportProgress,
    host: str = "::",
    port: int = UPLOAD_PORT,
) -> int:
    """Have the claim filled by the sender of a clone; returns the size of the guest's disk.

    Raises:
        ImportFailure: when what was taken cannot be put on disk.
    """
    sinks = UploadSinks(job, target)
    run = UploadRun(lambda: CloneSink(target, progress))
    return _serve(run, tls, sinks.make_refusal, (host, port), clone_client_name(job.uid))


def _serve(run: UploadRun, tls: ssl.SSLContext, refusal_of: RefusalOf, listen: tuple[str, int], client: str) -> int:
    threading.stack_size(_STACK)
    server = UploadServer(run, tls, refusal_of, *listen, client)
    server.start()
    try:
        done = run.wait()
    finally:
        server.stop()
        run.close()
    assert done is not None, "an endless wait has an outcome"
    if done.error is not None:
        raise done.error if isinstance(done.error, ImportFailure) else ImportFailure(f"{_SAVING}: {done.error}")
    return done.size


class UploadSinks:
    """Makes the sink of each attempt, and says what its errors are to the client."""

    def __init__(self, job: ImportJob, target: FileTarget | DeviceTarget) -> None:
        """Raises ImportFailure when an archive is to go to a device."""
        if job.archive and not isinstance(target, FileTarget):
            raise ImportFailure("an archive needs a claim with a file system: set volumeMode: Filesystem")
        self._is_archive = job.archive
        self._target = target
        # Another one after an image that could not be taken while it came in.
        self._way = Way()

    def make(self) -> Sink:
        """For the next attempt."""
        if self._is_archive and isinstance(self._target, FileTarget):
            return ArchiveSink(self._target)
        return ImageSink(self._target, self._way, "the upload")

    def make_refusal(self, error: Exception) -> NotNow:
        """The status and the line for the client."""
        if isinstance(error, NotStreamable):
            self._way = self._way.after(error)
            if isinstance(error, OtherLayer):
                return NotNow(503, "the archive's disk is in a layer that came after another one: send it again")
            return NotNow(503, "this image has to be stored before it can be converted: send it again")
        if isinstance(error, ImportFailure | ImageError):
            # What is sent after a refusal is another image: the way of this one does not fit it.
            self._way = Way()
        if isinstance(error, TooSmall):
            return NotNow(
                400, f"{_SAVING}: effective image size is larger than the reported available storage: {error}"
            )
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            return NotNow(
                400, f"{_SAVING}: effective image size is larger than the reported available storage: no room"
            )
        if isinstance(error, ImportFailure | ImageError):
            return NotNow(400, f"{_SAVING}: {error}")
        if isinstance(error, GivenUp):
            return NotNow(503, str(error))
        return NotNow(500, f"{_SAVING}: {type(error).__name__}: {error}")
