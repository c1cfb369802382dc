"""Whether the host's system suits kvedge: security modules, user 107, clock, name, init and watchdog.

Called by `doctor_rules`. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kvedge.appliance.doctor.findings import DoctorOptions, Finding, Level
from kvedge.appliance.doctor.host_facts import HostFacts
from kvedge.resources.names import LAUNCHER_GID, LAUNCHER_UID

_HOST_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_BUILT: Final = 2026
# Names under which distributions have a user and a group for QEMU.
_QEMU_NAMES: Final = frozenset({"qemu", "libvirt-qemu"})
_MEMBERS_TOLD: Final = 5


def check_security(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """SELinux and AppArmor."""
    if facts.selinux == "enforcing":
        detail = "SELinux enforces; kvedge ships no policy of its own and has not been tried with it"
        yield Finding("selinux", Level.WARN, detail, "look for `avc: denied` in the audit log when a VM does not start")
    else:
        yield Finding("selinux", Level.OK, facts.selinux or "off")
    yield Finding("apparmor", Level.OK, "on: launchers run without a profile of their own" if facts.apparmor else "off")


def check_launcher_user(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """A launcher sees none of the host's processes and, of its files, `/usr` alone; but the host's processes see it."""
    check = f"user {LAUNCHER_UID}"
    if facts.launcher_user and facts.launcher_user not in _QEMU_NAMES:
        name = facts.launcher_user
        detail = f"is {name} on this host: whatever runs as {name} can read and stop guests, which run with that number"
        yield Finding(check, Level.WARN, detail, f"give {name} another number: usermod -u, then chown its files")
    else:
        yield Finding(check, Level.OK, facts.launcher_user or "is nobody else's on this host")
    check = f"group {LAUNCHER_GID}"
    if not facts.launcher_group or facts.launcher_group in _QEMU_NAMES:
        yield Finding(check, Level.OK, facts.launcher_group or "is nobody else's on this host")
    elif facts.launcher_group_members:
        members = ", ".join(facts.launcher_group_members[:_MEMBERS_TOLD])
        detail = (
            f"is {facts.launcher_group} on this host, with {members}: what guests' files let the group do, they may do"
        )
        yield Finding(check, Level.WARN, detail, f"give {facts.launcher_group} another number: groupmod -g")
    else:
        detail = f"is {facts.launcher_group} on this host, without members; of the host, launchers reach only /usr"
        yield Finding(check, Level.INFO, detail)


def check_clock(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """The time, by which certificates are judged."""
    if facts.year < _BUILT:
        detail = f"the clock says {facts.year}: certificates would not be valid"
        yield Finding("clock", Level.FAIL, detail, "set the clock (date -s, or a time server)")
    elif facts.clock_synchronized is False:
        yield Finding("clock", Level.INFO, "not synchronized to a time server", "install chrony where there is one")
    else:
        yield Finding("clock", Level.OK, "synchronized" if facts.clock_synchronized else "plausible")


def check_system(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """The host's name, its init, and what an earlier run has left."""
    if _HOST_NAME.fullmatch(facts.host_name.lower()) is None or len(facts.host_name) > 253:
        detail = f"{facts.host_name!r} cannot name a node"
        yield Finding("host name", Level.FAIL, detail, "set node-name, or the host's name (hostnamectl)")
    else:
        yield Finding("host name", Level.OK, facts.host_name.lower())
    if facts.init == "systemd":
        yield Finding("init", Level.OK, "systemd")
    else:
        detail = f"{facts.init} is no systemd: start `kvedge standalone` by other means"
        yield Finding("init", Level.INFO, detail)
    if facts.leftovers and not facts.kvedge_runs:
        detail = f"kvedge does not run, but there is {', '.join(facts.leftovers)}"
        yield Finding("leftover state", Level.WARN, detail, "start kvedge, which adopts running VMs, or kvedge killall")
    else:
        yield Finding("leftover state", Level.OK, "none" if not facts.leftovers else "of the running instance")


def check_watchdog(facts: HostFacts, options: DoctorOptions) -> Iterator[Finding]:
    """What a node of a cluster needs to fence itself; nothing else does."""
    if not facts.watchdog:
        detail = "none is there: a node of a cluster that is to fence itself loads softdog"
        yield Finding("watchdog", Level.INFO, detail)
    elif facts.watchdog_is_taken and not facts.kvedge_runs:
        detail = f"{facts.watchdog} runs already, or cannot be stopped: a node cannot fence itself by it"
        yield Finding("watchdog", Level.INFO, detail, "set systemd's RuntimeWatchdogSec=0, its module's nowayout=0")
    else:
        yield Finding("watchdog", Level.OK, facts.watchdog)
