"""What the agent writes down of a Pod before it does anything for it, so that nothing is lost when either is killed.

Called by the Pod loop. One file per Pod, replaced as a whole.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from kvedge.resources.codec import DecodeError, JsonObject, decode, encode, learn
from kvedge.resources.types.core import Pod
from kvedge.runtime.durable_files import sync, write_whole
from kvedge.standalone.agent.container.container_files import PodFiles

log = logging.getLogger(__name__)

FORMAT: Final = 1
_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class PodRecordError(Exception):
    """A record is damaged or of a newer kvedge; the text names the file."""


class DamagedRecord(PodRecordError):
    """A record that cannot be read, or is another Pod's."""


class PodRecord(msgspec.Struct, kw_only=True):
    """`pod.json`, written before anything is made for the Pod.

    `owner` is the UID that the address belongs to, `devices` the ids of devices by resource, `boot_id` the kernel's
    boot in which its containers were started: they are lost with it. `store` and `store_revision` say which object
    store had the Pod, and when (see `store_history`), `forgotten` that it is no more in it though nobody deleted it.
    """

    format: int = FORMAT
    pod: JsonObject
    owner: str = ""
    address: str = ""
    # Empty where the Pod network has no IPv6, or had none when the Pod began.
    ipv6_address: str = ""
    boot_id: str = ""
    image_ids: dict[str, str] = {}
    devices: dict[str, list[str]] = {}
    # The CPUs that it has for itself.
    cpus: list[int] = []
    store: str = ""
    store_revision: int = 0
    forgotten: bool = False

    @property
    def addresses(self) -> tuple[str, ...]:
        """Its addresses on the Pod network, IPv4 first."""
        return tuple(each for each in (self.address, self.ipv6_address) if each)

    def decode_pod(self) -> Pod:
        """The Pod as it was taken on.

        Raises:
            DecodeError: when it does not fit its type any more.
        """
        return decode(Pod, self.pod)


learn(PodRecord)


def new_record(pod: Pod) -> PodRecord:
    """The record of a Pod that is being taken on."""
    return PodRecord(pod=encode(pod))


def write_pod_record(files: PodFiles, record: PodRecord) -> None:
    """Write the record, making the Pod's directory.

    Raises:
        OSError: as the file system has it.
    """
    is_new = not files.path.exists()
    files.path.mkdir(mode=0o750, parents=True, exist_ok=True)
    write_whole(files.record, msgspec.json.encode(record), durable=True)
    if is_new:
        sync(files.path.parent)


def read_records(pods: Path) -> Iterator[tuple[PodFiles, PodRecord | None]]:
    """Every Pod directory with its record; None when the agent was killed before it wrote one, or it is damaged.

    Raises:
        PodRecordError: for a record of a newer kvedge.
    """
    for files in pod_directories(pods):
        try:
            yield files, read_record(files)
        except DamagedRecord as error:
            log.warning("%s", error)
            yield files, None


def pod_directories(pods: Path) -> Iterator[PodFiles]:
    """Every Pod directory, whatever its record is like."""
    if pods.is_dir():
        # Other entries there, such as lost+found, are not ours.
        found = (path for path in sorted(pods.iterdir()) if _UID.fullmatch(path.name) and path.is_dir())
        yield from map(PodFiles, found)


def read_record(files: PodFiles) -> PodRecord | None:
    """A Pod's record; None when the agent was killed before it wrote one.

    Raises:
        DamagedRecord: when it cannot be read: what it stands for may be running.
        PodRecordError: when a newer kvedge wrote it.
    """
    try:
        record = msgspec.json.decode(files.record.read_bytes(), type=PodRecord)
        if record.format > FORMAT:
            raise PodRecordError(f"{files.record} was written by a newer kvedge: start that one")
        uid = record.decode_pod().metadata.uid
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, DecodeError, OSError) as error:
        raise DamagedRecord(f"{files.record} is damaged: {error}") from error
    if uid != files.uid:
        raise DamagedRecord(f"{files.record} is damaged: it is of a Pod with the UID {uid!r}")
    return record
