"""What the handler does next for one VMI.

Called by the sync loop with what it saw. Pure: no clock, no socket. What comes out is carried out in order; then the
loop looks again.
"""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from kvedge.handler.launchers.domain_outcome import ALIVE, ENDED, phase_of
from kvedge.resources.phases import Phase
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import grace_seconds
from kvedge.rpc.launcher_pb2 import DOMAIN_STATE_ABSENT, DOMAIN_STATE_STARTING, DomainStatus

# KubeVirt repeats the ACPI signal at most this often: some guests ignore the first one while they boot.
SHUTDOWN_REPEAT_SECONDS = 5.0
# A launcher that does not answer for so long is taken for dead (KubeVirt's watchdog).
UNRESPONSIVE_SECONDS = 30.0
# A launcher that never answered is still starting, among a hundred others when a small box has just booted: KubeVirt's
# launcher gives its guest as long.
STARTING_SECONDS = 240.0
# How soon a launcher that is not there yet is looked for again; its connection reports by itself as well.
CONNECT_SECONDS = 1.0
# And one that is silent by then: each time all processes of the host are looked at.
SILENT_SECONDS = 5.0
# How often it is asked whether a guest is to be told of other name servers; it learns of them when it renews its lease.
RESOLVER_SECONDS = 60.0


class Step(Enum):
    """One thing to do."""

    CONNECT = "connect to the launcher"
    SYNC = "prepare the network and hand the VMI to the launcher"
    SHUTDOWN = "signal the guest to shut down"
    KILL = "end QEMU"
    ACKNOWLEDGE = "tell the launcher that its last word has been recorded"
    FORGET = "drop what is remembered of this VMI"


class LauncherView(Struct, frozen=True):
    """What is known of a launcher at one moment."""

    connected: bool = False
    # The present connection has been given the VMI and its interfaces.
    synced: bool = False
    # Its guest would be told of other name servers by now.
    outdated: bool = False
    # Of the program that it runs, which may be older than this handler.
    version: str = ""
    status: DomainStatus | None = None
    # How long nobody has answered; 0.0 while somebody does.
    down_seconds: float = 0.0
    # Something of it runs on this host; only looked for when it has not answered for too long.
    runs: bool = False
    # The last word of a launcher that has gone.
    last_word: DomainStatus | None = None
    # Since the last ACPI signal; None when none was sent.
    signalled_seconds: float | None = None


class SyncPlan(Struct, frozen=True):
    """Steps in order, the phase to record, and when to look again without an event."""

    steps: tuple[Step, ...] = ()
    phase: Phase = ""
    reason: str = ""
    again: float | None = None
    # A launcher that runs and does not answer: the controller ends its Pod.
    silence: str = ""


def plan_sync(
    vmi: VirtualMachineInstance | None, node: str, launcher: LauncherView, ending_seconds: float = 0.0
) -> SyncPlan:
    """What to do for a VMI of `node`; None for one that is gone.

    `ending_seconds` is for how long its guest could be asked to end: by this node's own monotonic clock, as the time in
    the VMI is of another machine, whose clock may be hours away.
    """
    if vmi is None or vmi.status.node_name != node:
        return SyncPlan(steps=(Step.FORGET,))
    phase = vmi.status.phase
    if vmi.is_final:
        steps = (Step.ACKNOWLEDGE, Step.FORGET) if launcher.connected else (Step.FORGET,)
        return SyncPlan(steps, phase)
    if phase not in ("Scheduled", "Running", "Unknown"):
        return SyncPlan(phase=phase)
    if not launcher.connected or launcher.status is None:
        return _plan_without_launcher(vmi, launcher)
    if launcher.status.state in ENDED:
        return SyncPlan(phase=phase_of(vmi, launcher.status), reason=launcher.status.message)
    if vmi.metadata.deletion_timestamp is not None:
        return _plan_end(vmi, launcher, launcher.status, ending_seconds)
    if launcher.status.state == DOMAIN_STATE_ABSENT and _awaits_session(vmi):
        # The guest's owner looks at the host first. What is then said of keys changes the VMI, which is a new look.
        return SyncPlan((), phase_of(vmi, launcher.status))
    is_served = launcher.synced and not launcher.outdated
    return SyncPlan(() if is_served else (Step.SYNC,), phase_of(vmi, launcher.status), again=RESOLVER_SECONDS)


def _awaits_session(vmi: VirtualMachineInstance) -> bool:
    security = vmi.spec.domain.launch_security
    return security is not None and security.sev is not None and security.sev.awaits_session


def _plan_without_launcher(vmi: VirtualMachineInstance, launcher: LauncherView) -> SyncPlan:
    if launcher.last_word is not None and launcher.last_word.state in ENDED:
        return SyncPlan(phase=phase_of(vmi, launcher.last_word), reason=launcher.last_word.message)
    down = launcher.down_seconds
    if not launcher.runs and down >= UNRESPONSIVE_SECONDS:
        state = vmi.status.migration_state
        if state is not None and state.may_have_left(vmi.status.node_name):
            # The handler of the node that it was to go to says what has become of it.
            return SyncPlan((Step.CONNECT,), vmi.status.phase, again=SILENT_SECONDS)
        # Only now: its Pod may be gone from the API, and then a run that has failed is followed by the next at once.
        reason = f"the launcher has not answered for {down:.0f} s, and nothing of it runs"
        return SyncPlan(phase="Failed", reason=reason)
    patience = STARTING_SECONDS if vmi.status.phase == "Scheduled" else UNRESPONSIVE_SECONDS
    silence = f"the launcher runs, but has not answered for {patience:.0f} s" if down >= patience else ""
    again = SILENT_SECONDS if down >= UNRESPONSIVE_SECONDS else CONNECT_SECONDS
    return SyncPlan((Step.CONNECT,), vmi.status.phase, again=again, silence=silence)


def _plan_end(
    vmi: VirtualMachineInstance, launcher: LauncherView, status: DomainStatus, ending_seconds: float
) -> SyncPlan:
    if status.state == DOMAIN_STATE_ABSENT:
        return SyncPlan(phase="Failed", reason="deleted before the guest was started")
    phase: Phase = "Running" if status.state in ALIVE else vmi.status.phase
    left = grace_seconds(vmi) - ending_seconds
    if left <= 0 or status.state == DOMAIN_STATE_STARTING:
        return SyncPlan((Step.KILL,), phase, again=SHUTDOWN_REPEAT_SECONDS)
    waited = launcher.signalled_seconds
    if waited is None or waited >= SHUTDOWN_REPEAT_SECONDS:
        return SyncPlan((Step.SHUTDOWN,), phase, again=min(SHUTDOWN_REPEAT_SECONDS, left))
    return SyncPlan(phase=phase, again=max(0.1, min(SHUTDOWN_REPEAT_SECONDS - waited, left)))
