"""What is known of KubeVirt's specs on one box: the one list of those that cannot apply, and of those that wait.

Read by the conformance run. It leaves out what cannot apply, unless `--all` asks for it, and it runs what waits for a
part of kvedge that is not there yet: such a spec may fail, and one that passes should leave the list. A pattern is a
regular expression on a spec's whole text, containers included. Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class KnownSpecs:
    """Some specs, and why they are here."""

    pattern: str
    reason: str


CANNOT_APPLY: Final = (
    KnownSpecs(r"VM Live Migration|Live Migration with a live-migrate", "needs a second node"),
    KnownSpecs(r"when performing migration", "needs a second node"),
    KnownSpecs(r"test_id:8607", "needs a second node: the TPM's state is migrated"),
    KnownSpecs(r"DataVolume clone permission checking", "needs CDI: its webhook decides who may clone"),
    KnownSpecs(r"Guestfs", "needs block volumes and a libguestfs image"),
    KnownSpecs(r"IPv6", "a box gives its Pods IPv4 addresses alone"),
    KnownSpecs(r"outside world", "the tests' guests reach nobody outside of this machine"),
    KnownSpecs(r"test_id:4300", "a launcher of kvedge's has no capability at all, KubeVirt's has NET_BIND_SERVICE"),
    KnownSpecs(r"crash loop backoff", "asks virt-launcher to fail by an annotation of KubeVirt's tests"),
)
WAITING: Final = (
    KnownSpecs(r"masquerade binding|PortForward", "masquerade"),
    KnownSpecs(r"VirtualMachine with paused vmi", "masquerade"),
    KnownSpecs(r"test_id:7480|Freeze without Unfreeze", "masquerade"),
    KnownSpecs(r"Networkpolicy", "masquerade, NetworkPolicy"),
    KnownSpecs(r"Services interface binding to pod network", "masquerade, Jobs"),
    KnownSpecs(r"DataVolume Integration.*test_id:3189|with Filesystem Disk|test_id:7596|test_id:7597", "storage"),
    KnownSpecs(r"test_id:6220", "SSH keys by the guest agent"),
    KnownSpecs(r"instance type ControllerRevisions", "instance types"),
    KnownSpecs(r"test_id:165[34]", "a VMI that stays Succeeded for a second, for which these specs look once a second"),
    KnownSpecs(r"EvictionStratgy: External", "evictions that somebody else answers"),
)


def waits_for(name: str) -> str:
    """What a spec waits for, or nothing."""
    return next((entry.reason for entry in WAITING if re.search(entry.pattern, name)), "")
