"""One errand of a backup's worker: disks into the repository, a record out of it, or disks back into claims.

Called by the worker. A backup is complete once its record is in the repository, which is written last; what has no
record is never restored.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from msgspec import Struct

from kvedge.resources.codec import DecodeError, decode_json, encode_json
from kvedge.resources.disks.claim_places import IMAGE_FILE
from kvedge.resources.types.import_job import ImportJob
from kvedge.resources.types.protection import backup_job as job_places
from kvedge.resources.types.protection.backup_job import BackupJob, BackupOutcome, BackupRecord, BackupVolume
from kvedge.runtime.linux.allocation import device_size
from kvedge.storage.backups.restic_client import KeptFile, ResticClient
from kvedge.storage.backups.restic_program import BackupFailure
from kvedge.storage.backups.stored_backups import HOST_PREFIX, OURS, RECORD
from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.import_progress import ImportProgress
from kvedge.storage.imports.sinks.import_target import DeviceTarget, FileTarget, open_target

_RECORD: Final = "kvedge-backup.json"
_PIECE: Final = 1 << 20
_FORMAT: Final = 1
# So much of a disk is read again at most by a worker that goes on where another one was.
_KEPT_EVERY: Final = 256 << 20


class BackupPlaces(Struct, frozen=True):
    """Where things are; the defaults are those of a worker's Pod."""

    volumes: Path = Path(job_places.VOLUMES_DIRECTORY)
    devices: Path = Path(job_places.VOLUME_DEVICES)


def keep_backup(job: BackupJob, client: ResticClient, places: BackupPlaces, progress: ImportProgress) -> BackupOutcome:
    """Put all disks and then the record into the repository; what an earlier try has kept is found again in pieces.

    Raises:
        BackupFailure: with what is wrong; the repository has no record of this backup then.
    """
    client.ensure(is_known=job.is_known)
    host, tags = _host(job), _tags(job)
    size = added = 0
    written = []
    with _hold_disks(job, places) as disks:
        total = sum(length for _, _, length in disks)
        progress.expect(total)
        for volume, disk, length in disks:
            named = [*tags, f"volume={volume.name}"]
            kept = client.keep(disk, f"{volume.name}.img", named, host, partial(_tell, progress, size))
            if kept.size != length:
                raise BackupFailure(f"volume {volume.name} has {length} bytes, of which restic has read {kept.size}")
            size += length
            added += kept.added
            progress.reach(size)
            written.append(BackupVolume(name=volume.name, place="", block=volume.block, size=length))
    record = BackupRecord(
        id=job.backup_id,
        namespace=job.namespace,
        vm=job.vm,
        time=job.time,
        volumes=written,
        content=job.content or {},
    )
    with _as_file(encode_json(record)) as document:
        added += client.keep(document, _RECORD, [*tags, RECORD, f"size={size}"], host).added
    return BackupOutcome(message="Backup Complete", size=size, added=added)


def read_record(job: BackupJob, client: ResticClient, now: datetime | None = None) -> BackupRecord:
    """The record of the backup that the job names, or of the latest one of its VM.

    Raises:
        BackupFailure: when there is none, it is of a newer kvedge, or a clock leaves open which one is the latest.
    """
    tags = [OURS, f"vm={job.vm}", RECORD]
    if job.backup_id:
        tags.append(f"id={job.backup_id}")
    found = client.list(tags, _host(job))
    if not found:
        what = f"backup {job.backup_id}" if job.backup_id else "complete backup"
        raise BackupFailure(f"the repository has no {what} of VM {job.namespace}/{job.vm}", fatal=True)
    if not job.backup_id and found[-1].is_ahead_of(now or datetime.now(UTC)):
        id_ = next((tag.removeprefix("id=") for tag in found[-1].tags if tag.startswith("id=")), "")
        raise BackupFailure(
            f"backup {id_} of VM {job.namespace}/{job.vm}, dated {found[-1].time}, lies ahead of this node's clock:"
            " which one is the latest is not known while a clock is or was wrong. Name one by its ID"
            " (`kvedge backup list --from`, `--id`, spec.backupID)",
            fatal=True,
        )
    text = client.read(found[-1], _RECORD)
    try:
        record = decode_json(BackupRecord, text)
    except DecodeError as error:
        raise BackupFailure(f"the record of the backup cannot be read: {error}", fatal=True) from error
    if record.format != _FORMAT:
        raise BackupFailure(
            f"the backup has format {record.format}, and this kvedge knows {_FORMAT}: restore it with a newer one",
            fatal=True,
        )
    if f"id={record.id}" not in found[-1].tags or record.vm != job.vm:
        raise BackupFailure("the record in the repository is another backup's: it was exchanged", fatal=True)
    return record


def bring_back(job: BackupJob, client: ResticClient, places: BackupPlaces, progress: ImportProgress) -> BackupOutcome:
    """Fill the claims of the job's volumes; a disk gets its name once all of it was read and is on disk.

    Raises:
        BackupFailure: with what is wrong; a claim with a file system then has no disk.
    """
    files = {volume.name: find_disk(job, client, volume) for volume in job.volumes}
    progress.expect(sum(volume.size for volume in job.volumes))
    size = 0
    for volume in job.volumes:
        _fill(volume, client, files[volume.name], places, progress, size)
        size += volume.size
    return BackupOutcome(message="Restore Complete", size=size)


def _fill(
    volume: BackupVolume,
    client: ResticClient,
    file: KeptFile,
    places: BackupPlaces,
    progress: ImportProgress,
    before: int,
) -> None:
    target = _target(volume, places)
    begun = position = 0
    try:
        if isinstance(target, FileTarget) and target.present() == volume.size:
            return
        if target.limit < volume.size:
            raise BackupFailure(
                f"volume {volume.name} has {volume.size} bytes, and its new claim room for {target.limit}", fatal=True
            )
        begun = position = kept = _begin(target, file)
        name = f"{volume.name}.img"
        with client.stream_from(file, name, position) if position else client.stream(file, name) as stream:
            while piece := stream.read(_PIECE):
                if position + len(piece) > volume.size:
                    raise BackupFailure(f"the disk of volume {volume.name} is longer than its record says", fatal=True)
                target.write(position, piece)
                position += len(piece)
                progress.reach(before + position)
                if isinstance(target, FileTarget) and position - kept >= _KEPT_EVERY:
                    target.keep_place(file.number, position)
                    kept = position
        if position != volume.size:
            raise BackupFailure(f"the disk of volume {volume.name} ends after {position} of {volume.size} bytes")
        target.finish(volume.size)
    except BaseException as error:
        # Where restic cannot read the rest alone, the next worker reads all of it.
        is_stuck = begun > 0 and position == begun and not isinstance(error, SystemExit)
        if is_stuck or not _goes_on(error):
            target.discard()
        if isinstance(error, ImportFailure):
            raise BackupFailure(error.message, fatal=error.fatal) from error
        raise
    finally:
        target.close()


def _begin(target: FileTarget | DeviceTarget, file: KeptFile) -> int:
    """From where on the disk is to be written: what an earlier worker has on disk of it is not read again."""
    there = target.go_on(file.number) if isinstance(target, FileTarget) else 0
    if not there:
        target.begin()
    return there


def _goes_on(error: BaseException) -> bool:
    """Whether the next worker may go on with what is there: the place went away, or this worker is to end."""
    return isinstance(error, SystemExit) or (isinstance(error, BackupFailure) and not (error.fatal or error.damaged))


def _target(volume: BackupVolume, places: BackupPlaces) -> FileTarget | DeviceTarget:
    # The size of a file is the disk's own; a device is as large as its claim.
    job = ImportJob(name=volume.name, uid=volume.uid, size=0 if volume.block else volume.size, block=volume.block)
    try:
        return open_target(job, places.volumes / volume.place, places.devices / volume.place)
    except ImportFailure as error:
        raise BackupFailure(error.message, fatal=error.fatal) from error


def find_disk(job: BackupJob, client: ResticClient, volume: BackupVolume) -> KeptFile:
    """The disk of a volume in the backup that the job names. Raises BackupFailure."""
    tags = [OURS, f"vm={job.vm}", f"id={job.backup_id}", f"volume={volume.name}"]
    found = client.list(tags, _host(job))
    if not found:
        raise BackupFailure(f"the repository has no disk of volume {volume.name} in backup {job.backup_id}", fatal=True)
    # Of several tries the last one is that of the record.
    return found[-1]


@contextmanager
def _hold_disks(job: BackupJob, places: BackupPlaces) -> Iterator[list[tuple[BackupVolume, BinaryIO, int]]]:
    """All disks, open before the first one is read, each with its size."""
    opened: list[tuple[BackupVolume, BinaryIO, int]] = []
    try:
        for volume in job.volumes:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
            path = places.devices / volume.place if volume.block else places.volumes / volume.place / IMAGE_FILE
            disk = os.fdopen(os.open(path, flags), "rb")
            length = device_size(disk.fileno()) if volume.block else os.fstat(disk.fileno()).st_size
            opened.append((volume, disk, length))
        yield opened
    except FileNotFoundError as error:
        raise BackupFailure(f"a copy has no {IMAGE_FILE}: {error.filename}", fatal=True) from error
    finally:
        for _, held, _ in opened:
            held.close()


@contextmanager
def _as_file(text: bytes) -> Iterator[BinaryIO]:
    """A document as an open file, for a program to read."""
    handle = os.memfd_create("record", os.MFD_CLOEXEC)
    with os.fdopen(handle, "r+b") as document:
        document.write(text)
        document.flush()
        document.seek(0)
        yield document


def _tell(progress: ImportProgress, before: int, read: int) -> None:
    progress.reach(before + read)


def _host(job: BackupJob) -> str:
    """By restic's word for the host: the namespace, so that VMs of one name are told apart."""
    return HOST_PREFIX + job.namespace


def _tags(job: BackupJob) -> list[str]:
    # The VM's UID tells it apart from another of its name, also of another box.
    return [OURS, f"vm={job.vm}", f"id={job.backup_id}", *([f"uid={job.vm_uid}"] if job.vm_uid else [])]
