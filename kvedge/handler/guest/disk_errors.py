"""What a user is told of the disks for whose I/O errors a guest was paused.

Called by `vmi_status` for the condition Paused, and by `pass_events`. Pure. The launcher lets the guest go on by
itself, so that a full disk needs nothing but room.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from kvedge.rpc.launcher_pb2 import DiskError, DomainStatus

# Of disks with errors; each gets a sentence.
_MOST_ERRORS: Final = 16
# A volume's name is a DNS label.
_LONGEST_NAME: Final = 63


def describe_disk_errors(status: DomainStatus) -> str:
    """A part of the condition's message; empty when nothing is known of the disks."""
    told = "; ".join(map(_describe, islice(status.disk_errors, _MOST_ERRORS)))
    return f" ({told})" if told else ""


def tell_disk_errors(status: DomainStatus) -> Iterator[str]:
    """The events' messages, which are KubeVirt's."""
    for error in islice(status.disk_errors, _MOST_ERRORS):
        why = "not enough space on volume" if error.no_space else "IO error at the volume"
        yield f"VM Paused due to {why}: {error.name[:_LONGEST_NAME]}"


def _describe(error: DiskError) -> str:
    name = error.name[:_LONGEST_NAME]
    if error.no_space:
        return f"volume {name}: its place is full, and the guest goes on when there is room"
    return f"volume {name}: its storage fails, and the guest goes on when it works again"
