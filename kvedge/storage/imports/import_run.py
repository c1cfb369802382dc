"""One job from its source to its claim.

Called by the worker. Knows the sources and begins an image anew where it must; what is left after a failure is removed.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, Protocol, cast

from msgspec import Struct, field

from kvedge.resources.types import import_job as job_places
from kvedge.resources.types.import_job import ImportJob, ImportOutcome
from kvedge.storage.image_errors import ImageError
from kvedge.storage.images.registry_door import Door
from kvedge.storage.imports.clones.claim_clone import clone, send
from kvedge.storage.imports.clones.clone_sender import sender_tls
from kvedge.storage.imports.image_parts import Parts
from kvedge.storage.imports.import_door import ImportDoor
from kvedge.storage.imports.import_errors import TOO_SMALL, ImportFailure, NotStreamable
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.sinks.archive_sink import ArchiveSink
from kvedge.storage.imports.sinks.image_sink import ImageSink, Way
from kvedge.storage.imports.sinks.import_target import DeviceTarget, FileTarget, open_target
from kvedge.storage.imports.sources.http_download import SourceChanged
from kvedge.storage.imports.sources.mounted_image import MountedDisk
from kvedge.storage.imports.sources.registry_source import open_image
from kvedge.storage.imports.sources.source_poll import source_digest
from kvedge.storage.imports.sources.web_source import SourceFiles, WebStream, http_download, s3_download
from kvedge.storage.imports.uploads.upload_server import upload_tls
from kvedge.storage.imports.uploads.upload_worker import take_clone, take_upload

# A file that changes at its server while it is read, or turns out to be no stream; then the next Pod tries again.
_BEGINNINGS: Final = 4
_ANY: Final = Way()
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Target = FileTarget | DeviceTarget


class ImportPlaces(Struct, frozen=True):
    """Where things are; the defaults are those of a worker's Pod."""

    directory: Path = Path(job_places.TARGET_DIRECTORY)
    device: Path = Path(job_places.TARGET_DEVICE)
    source_directory: Path = Path(job_places.SOURCE_DIRECTORY)
    source_device: Path = Path(job_places.SOURCE_DEVICE)
    upload_certificates: Path = Path(job_places.UPLOAD_CERTIFICATES_DIRECTORY)
    files: SourceFiles = field(
        default_factory=lambda: SourceFiles(
            Path(job_places.CREDENTIALS_DIRECTORY),
            Path(job_places.CERTIFICATES_DIRECTORY),
            Path(job_places.HEADERS_DIRECTORY),
        )
    )


class Sent(Protocol):
    """What a source sends, from its beginning."""

    def read(self, size: int = -1) -> bytes:
        """Up to `size` bytes; empty at the end."""

    def parts(self) -> Parts | None:
        """Any part of it, where the source can."""

    def verify(self) -> None:
        """It was read to its end, and is what it should be."""

    def close(self) -> None:
        """Read no more."""


def run_import(
    job: ImportJob, places: ImportPlaces, progress: ImportProgress, door: Door | None = None
) -> ImportOutcome:
    """Fill the claim of a job; nothing happens for a file that is complete already.

    Raises:
        ImportFailure: with what is wrong; nothing is left behind.
    """
    try:
        outcome = _run(job, places, progress, door or ImportDoor())
    except ImageError as error:
        raise ImportFailure(f"Unable to process data: {error}") from error
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise ImportFailure(f"{TOO_SMALL}: {error.strerror}; a larger claim, or more room at its place") from error
        raise ImportFailure(f"Unable to process data: {error}") from error
    progress.complete()
    return outcome


def _run(job: ImportJob, places: ImportPlaces, progress: ImportProgress, door: Door) -> ImportOutcome:
    if job.poll:
        return ImportOutcome(message="Poll Complete", digest=source_digest(job, places.files, door))
    if job.send is not None and job.clone is not None:
        tls = sender_tls(places.upload_certificates)
        sent = send(job.clone, job.send, tls, (places.source_directory, places.source_device), progress)
        return ImportOutcome(virtual_size=sent, message=_words(job))
    target = open_target(job, places.directory, places.device)
    try:
        size = target.present(upload=job.upload) if isinstance(target, FileTarget) else 0
        # A disk of this very claim may be one of an archive's files: the others may not be there yet.
        if size and not job.archive:
            return ImportOutcome(virtual_size=size, preallocated=job.preallocate, message=_words(job))
        labels: dict[str, str] = {}
        size = _fill(job, target, places, progress, door, labels)
    except BaseException:
        target.discard()
        raise
    finally:
        target.close()
    return ImportOutcome(virtual_size=size, preallocated=job.preallocate, message=_words(job), labels=labels)


def _words(job: ImportJob) -> str:
    """CDI's, for the condition Running."""
    if job.upload:
        return "Upload Complete"
    return "Clone Complete" if job.clone is not None else "Import Complete"


def _fill(
    job: ImportJob,
    target: Target,
    places: ImportPlaces,
    progress: ImportProgress,
    door: Door,
    labels: dict[str, str],
) -> int:
    if job.upload:
        return take_upload(job, target, upload_tls(places.upload_certificates))
    if job.archive:
        return _unpack(job, target, places, progress, door)
    if job.http is not None:
        download = http_download(job.http, places.files, door)
        checksum = job.http.checksum
        way = Way(is_archive=job.http.is_archive)
        return take_all(target, lambda: WebStream(download.open(), checksum, progress), job.http.url, way, labels)
    if job.s3 is not None:
        stored = s3_download(job.s3, places.files, door)
        return take_all(target, lambda: WebStream(stored.open(), "", progress), job.s3.url, labels=labels)
    if job.registry is not None:
        image = open_image(job.registry, places.files, door)
        labels.update(image.labels)
        return take_all(target, lambda: image.disk(progress), job.registry.url)
    if job.image is not None:
        mounted = job.image
        return take_all(target, lambda: MountedDisk(mounted, places.source_directory, progress), mounted.name)
    if job.clone is not None and job.clone.remote:
        return take_clone(job, target, upload_tls(places.upload_certificates), progress)
    if job.clone is not None:
        return clone(job.clone, target, places.source_directory, places.source_device, progress)
    return _make_blank(job, target)


def _unpack(job: ImportJob, target: Target, places: ImportPlaces, progress: ImportProgress, door: Door) -> int:
    if not isinstance(target, FileTarget):
        raise ImportFailure("an archive needs a claim with a file system: set volumeMode: Filesystem")
    if job.http is not None:
        download, checksum = http_download(job.http, places.files, door), job.http.checksum
    elif job.s3 is not None:
        download, checksum = s3_download(job.s3, places.files, door), ""
    else:
        raise ImportFailure("an archive comes by http or s3, or is uploaded")
    for _ in range(_BEGINNINGS):
        sent = WebStream(download.open(), checksum, progress)
        sink = ArchiveSink(target)
        try:
            sink.take(cast("BinaryIO", sent))
            sent.verify()
            return sink.finish()
        except SourceChanged:
            sink.discard()
        except BaseException:
            sink.discard()
            raise
        finally:
            sent.close()
    raise _changing_error()


def _changing_error() -> ImportFailure:
    return ImportFailure("Unable to process data: the file changes at its server again and again while it is read")


def _make_blank(job: ImportJob, target: Target) -> int:
    if isinstance(target, FileTarget):
        target.begin()
        return target.finish(target.limit)
    if job.preallocate:
        target.begin(target.limit)
        return target.finish(target.limit)
    # A new volume reads as zeros; nothing is written.
    return target.limit


def take_all(
    target: Target,
    open_source: Callable[[], Sent],
    name: str,
    way: Way = _ANY,
    labels: dict[str, str] | None = None,
) -> int:
    """An image from its source to its place; returns the size of the guest's disk.

    `labels` gets what a container disk in an archive says of itself.

    Raises:
        ImportFailure: as the source and the sink have it.
    """
    for _ in range(_BEGINNINGS):
        sent = open_source()
        sink = ImageSink(target, way, name.rpartition("/")[2][:100])
        try:
            sink.take(cast("BinaryIO", sent), sent.parts())
            sent.verify()
            size = sink.finish()
            if labels is not None:
                labels.update(sink.labels)
            return size
        except NotStreamable as error:
            way = way.after(error)
            sink.discard()
        except SourceChanged:
            sink.discard()
        except BaseException:
            sink.discard()
            raise
        finally:
            sent.close()
    raise _changing_error()
