"""Dumps of a guest's memory: what the api role, the controller and the handler must agree on.

Called by those roles. Pure. A VM's `status.memoryDumpRequest` says how far one is: the api role writes Associating and
Dissociating, the controller all the rest, from what the handler reports of the volume in the VMI. Words, phases and the
name of the file are KubeVirt's.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Final

from kvedge.resources.disks.filesystem_overhead import filesystem_overhead
from kvedge.resources.types.data_volumes import CdiConfig
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import MemoryDumpRequest
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import MemoryDumpSource, Volume
from kvedge.resources.values.quantities import QuantityError, parse_bytes
from kvedge.resources.vmi_facts import guest_memory_field

# Phases of a request.
ASSOCIATING: Final = "Associating"
IN_PROGRESS: Final = "InProgress"
UNMOUNTING: Final = "Unmounting"
COMPLETED: Final = "Completed"
FAILED: Final = "Failed"
DISSOCIATING: Final = "Dissociating"
# The guest's memory is about to be written, or is being written.
UNDER_WAY: Final = frozenset({ASSOCIATING, IN_PROGRESS})

# Of a claim: the file that is in it, or that there is none.
DUMP_ANNOTATION: Final = "kubevirt.io/memory-dump"
DUMP_FAILED_MARK: Final = "Memory dump failed"

# What a dump has besides the guest's RAM: notes, headers, the memory of devices. KubeVirt counts so much.
_BESIDES_BYTES: Final = 100 << 20
_MEBIBYTE: Final = 1 << 20
# What a file system takes where no CDIConfig says it, for virtctl.
_NO_CDI: Final = "0.055"
_SUFFIX: Final = ".memory.dump"
# With it the longest name of a volume and all else fit into the 255 bytes of a file's name.
_LONGEST_VMI: Final = 128
# While it is written a dump has another name, so that nobody takes it for a whole one.
_PARTIAL: Final = ".partial"


def dump_volume(claim: str) -> Volume:
    """The volume of a dump, which has its claim's name."""
    return Volume(name=claim, memory_dump=MemoryDumpSource(claim_name=claim, hotpluggable=True))


def is_under_way(request: MemoryDumpRequest | None) -> bool:
    """Whether a guest's memory is about to be written."""
    return request is not None and request.phase in UNDER_WAY


def dump_file_name(vmi: str, volume: str, now: datetime) -> str:
    """The name of a dump in its claim.

    >>> dump_file_name("web", "dumps", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC))
    'web-dumps-20260102-030405.memory.dump'
    """
    return f"{vmi[:_LONGEST_VMI]}-{volume}-{now.astimezone(UTC).strftime('%Y%m%d-%H%M%S')}{_SUFFIX}"


def is_dump_file(name: str) -> bool:
    """Whether a file of a claim is a whole dump."""
    return name.endswith(_SUFFIX) and not name.startswith(".")


def partial_name(vmi_uid: str) -> str:
    """The name under which a dump of this run is written."""
    return f".{vmi_uid}{_SUFFIX}{_PARTIAL}"


def is_partial(name: str) -> bool:
    """Whether a file of a claim is a dump that is being written, or never was written to its end."""
    return name.startswith(".") and name.endswith(_SUFFIX + _PARTIAL)


def dump_bytes(vmi: VirtualMachineInstance) -> int:
    """How large a dump may become: the memory that the guest sees, and some more.

    KubeVirt counts `resources.requests.memory`, which says less of a guest whose memory is overcommitted.
    """
    found = guest_memory_field(vmi.spec.domain)
    try:
        return _BESIDES_BYTES + (0 if found is None else parse_bytes(found[1]))
    except QuantityError:
        return _BESIDES_BYTES


def claim_bytes(vmi: VirtualMachineInstance, claim: PersistentVolumeClaim, cdi: CdiConfig | None) -> int:
    """How large a claim must be for a dump, with what its file system takes: as virtctl makes one."""
    share = _NO_CDI if cdi is None else filesystem_overhead(cdi, claim.spec.storage_class_name)
    return math.ceil((1 + float(share)) * dump_bytes(vmi) / _MEBIBYTE) * _MEBIBYTE
