"""The one table of alarms: what is looked at, when it is bad, for how long, and what to do then.

Read by the controller's checker, by `kvedge alarms` and `kvedge status`, and by packaging/alarms, which makes the rules
for Prometheus of it. Each rule has a runbook in `runbooks/`, which ships in the program. Pure data.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from importlib import resources
from typing import Final

from msgspec import Struct


class Severity(StrEnum):
    """How bad it is: `info` never makes a box unhealthy."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Rule(Struct, frozen=True):
    """One row.

    An object is bad from `limit` on, and well again from `clear` on: where `clear` is less than `limit`, large values
    are the bad ones, and where it is more, small ones are. Between the two it stays what it was. What is simply so or
    not is 1 or 0. `hold` and `rest` are the seconds for which it has to be bad, or well, without a break.
    """

    name: str
    severity: Severity
    looks_at: str
    limit: float
    clear: float
    hold: float
    rest: float
    summary: str
    remedy: str
    # The same for Prometheus; empty where no series tells it. It names KubeVirt's series, and those of
    # kube-state-metrics, kubelet and node_exporter.
    query: str = ""

    def is_bad(self, level: float, *, was_bad: bool) -> bool:
        """Whether a value of an object is bad, which was bad or well before."""
        bound = self.clear if was_bad else self.limit
        if self.clear < self.limit:
            return level > bound if was_bad else level >= bound
        return level < bound if was_bad else level <= bound


_MINUTE: Final = 60.0
_LOCAL_DISKS: Final = 'fstype=~"ext[234]|xfs|btrfs|f2fs|zfs"'
_FILL: Final = (
    f"100 - 100 * node_filesystem_avail_bytes{{{_LOCAL_DISKS}}} / node_filesystem_size_bytes{{{_LOCAL_DISKS}}}"
)

_ROWS: Final = (
    Rule(
        "HostDiskFilling",
        Severity.WARNING,
        "the fill of the file systems of a node's data directory and root, in percent",
        85,
        80,
        10 * _MINUTE,
        5 * _MINUTE,
        "a disk of the host is filling up",
        "remove images and exports that nobody needs (kvedge image list), or make the file system larger",
        f"{_FILL} >= 85",
    ),
    Rule(
        "HostDiskFull",
        Severity.CRITICAL,
        "the fill of the file systems of a node's data directory and root, in percent",
        95,
        92,
        0,
        5 * _MINUTE,
        "a disk of the host is almost full: guests that write will stop",
        "free some space now: images first (kvedge image list), then old exports and logs",
        f"{_FILL} >= 95",
    ),
    Rule(
        "ClaimFilling",
        Severity.WARNING,
        "the fill of a claim's own local file system, in percent",
        90,
        85,
        10 * _MINUTE,
        5 * _MINUTE,
        "the file system of a claim is filling up",
        "grow the claim (kvedge volume resize), or remove what the guest no longer needs and trim its disk",
        "100 * kubelet_volume_stats_used_bytes / kubelet_volume_stats_capacity_bytes >= 90",
    ),
    Rule(
        "GuestStoppedByIOError",
        Severity.CRITICAL,
        "the condition Paused of a VMI with the reason PausedIOError",
        1,
        0,
        0,
        0,
        "a guest was stopped because its disk could not be read or written",
        "make room, or bring the disk back; then kvedge unpause lets the guest go on where it stopped",
    ),
    Rule(
        "GuestAgentGone",
        Severity.WARNING,
        "the condition AgentConnected of a running VMI that has had it before",
        1,
        0,
        5 * _MINUTE,
        _MINUTE,
        "the agent of a guest no longer answers",
        "look at the guest's screen (kvedge vnc) and its console: it hangs, or its qemu-guest-agent was stopped",
    ),
    Rule(
        "VMFlapping",
        Severity.CRITICAL,
        "the runs in a row of a VM that ended before they ran",
        3,
        0,
        0,
        10 * _MINUTE,
        "a VM is started again and again, and does not stay",
        "kvedge describe vm tells why its last run failed; kvedge stop ends the attempts",
        'kubevirt_vm_info{status="crashloopbackoff"} == 1',
    ),
    Rule(
        "CertificateEnding",
        Severity.WARNING,
        "the days until the certificate ends with which a node speaks to its API",
        21,
        28,
        0,
        0,
        "a certificate of a node ends soon",
        "kvedge user renew makes new ones; on one box a restart of kvedge does",
    ),
    Rule(
        "BackupMissed",
        Severity.WARNING,
        "schedules of backups and snapshots, repositories, and backups by hand",
        1,
        0,
        0,
        0,
        "what keeps VMs has failed or is late",
        "the message says why; kvedge backup list shows what there is, and kvedge backup create makes one now",
    ),
    Rule(
        "NodeLost",
        Severity.CRITICAL,
        "whether kubelet and handler of a node still report",
        1,
        0,
        _MINUTE,
        _MINUTE,
        "a node no longer reports",
        "look whether it has power and network; what its VMs wait for is in kvedge describe node",
        'kube_node_status_condition{condition="Ready",status="true"} == 0',
    ),
    Rule(
        "ClockOff",
        Severity.WARNING,
        "the seconds between a node's clock and the controller's",
        45,
        30,
        2 * _MINUTE,
        _MINUTE,
        "the clock of a node is wrong",
        "set it (chronyc makestep, or date -s), and have a time server where there is one",
        "abs(node_timex_offset_seconds) >= 45",
    ),
    Rule(
        "ClockUnsynchronized",
        Severity.INFO,
        "whether the kernel of a node says that something keeps its clock",
        1,
        0,
        30 * _MINUTE,
        _MINUTE,
        "nothing keeps the clock of a node",
        "install chrony where there is a time server",
        "node_timex_sync_status == 0",
    ),
    Rule(
        "HostMemoryShort",
        Severity.WARNING,
        "the memory of a node that is still to be had, in percent",
        5,
        8,
        5 * _MINUTE,
        5 * _MINUTE,
        "a node is running out of memory: the kernel may end a guest",
        "stop a VM, or give one less memory; kvedge list shows what each has",
        "100 * node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes <= 5",
    ),
    Rule(
        "KvmLost",
        Severity.CRITICAL,
        "whether a node that has had KVM still has it",
        1,
        0,
        0,
        _MINUTE,
        "a node has lost KVM: guests start in software emulation, or not at all",
        "kvedge doctor tells why: a module that is not loaded, virtualization switched off in the firmware",
        'kube_node_status_allocatable{resource="devices_kubevirt_io_kvm"} == 0',
    ),
)

RULES: Final[Mapping[str, Rule]] = {rule.name: rule for rule in _ROWS}


def read_runbook(name: str) -> str:
    """What to do about an alarm of the rule with that name, as Markdown.

    Raises:
        KeyError: when there is no such rule.
    """
    return resources.files(__package__).joinpath("runbooks", f"{RULES[name].name}.md").read_text("utf-8")
