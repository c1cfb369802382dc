"""The specs that cannot apply to one box, each with its reason: the one list of them.

Read by the conformance run, which leaves them out unless `--all` asks for them. A pattern is a regular expression on a
spec's whole text, containers included. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class NotApplicable:
    """Specs that are left out, and why."""

    pattern: str
    reason: str


NOT_APPLICABLE: Final = (
    NotApplicable(r"VM Live Migration|Live Migration with a live-migrate", "needs a second node"),
    NotApplicable(r"when performing migration", "needs a second node"),
    NotApplicable(r"test_id:8607", "needs a second node: the TPM's state is migrated"),
    NotApplicable(r"\[sig-storage\] DataVolume Integration", "needs CDI and its DataVolumes"),
    NotApplicable(r"Guestfs", "needs block volumes and a libguestfs image"),
    NotApplicable(r"IPv6", "a box gives its Pods IPv4 addresses only"),
)
