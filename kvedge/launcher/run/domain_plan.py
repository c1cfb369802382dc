"""What a domain's state means and what is to be done about it.

Called by the parts of `domain_run` with what libvirt says and with what this launcher remembers. Pure: no clock, no
libvirt. The rule above all others: what has been started once in this Pod is never started again.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from kvedge.launcher.libvirt.domain_facts import DomainFacts, Life, Why
from kvedge.rpc.launcher_pb2 import (
    DOMAIN_REASON_BOOTED,
    DOMAIN_REASON_CRASHED,
    DOMAIN_REASON_DESTROYED,
    DOMAIN_REASON_DUMP,
    DOMAIN_REASON_FAILED,
    DOMAIN_REASON_IO_ERROR,
    DOMAIN_REASON_MIGRATED,
    DOMAIN_REASON_PANICKED,
    DOMAIN_REASON_SHUTDOWN,
    DOMAIN_REASON_STARTING_UP,
    DOMAIN_REASON_UNPAUSED,
    DOMAIN_REASON_UNSPECIFIED,
    DOMAIN_REASON_USER,
    DOMAIN_STATE_ABSENT,
    DOMAIN_STATE_CRASHED,
    DOMAIN_STATE_PAUSED,
    DOMAIN_STATE_RUNNING,
    DOMAIN_STATE_SHUTOFF,
    DOMAIN_STATE_SHUTTING_DOWN,
    DOMAIN_STATE_STARTING,
    DomainReason,
    DomainState,
)

# How often a guest that is to shut down is asked again: some ignore the power button while they boot.
ASK_AGAIN_SECONDS: Final = 5.0

_RUNNING: Final = {Why.BOOTED: DOMAIN_REASON_BOOTED, Why.UNPAUSED: DOMAIN_REASON_UNPAUSED}
_PAUSED: Final = {Why.USER: DOMAIN_REASON_USER, Why.IO_ERROR: DOMAIN_REASON_IO_ERROR}


class RunMemory(NamedTuple):
    """What libvirt does not know: `begun` says that a start was attempted in this Pod, by this launcher or one before
    it; `starting` that it is under way; `failure` is why it did not succeed; `kill_requested` that the end is our
    doing; `never_ran` that this launcher has started the guest paused, and nobody has let it go on yet; `held` that a
    user has paused it; `left` that a migration was on its way when its QEMU ended, and nothing says that it failed;
    `resumes` that a migration has brought it, and that it is to run as soon as QEMU can let it; `dumps` that its memory
    is written to a file, after which it goes on; `settles` that it stands for a moment while its disks are exchanged.
    """

    begun: bool = False
    starting: bool = False
    failure: str = ""
    kill_requested: bool = False
    never_ran: bool = False
    held: bool = False
    left: bool = False
    resumes: bool = False
    dumps: bool = False
    settles: bool = False


class Verdict(NamedTuple):
    """The part of a DomainStatus that is judged rather than read."""

    state: DomainState
    reason: DomainReason
    message: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether the run is over for good."""
        return self.state in (DOMAIN_STATE_SHUTOFF, DOMAIN_STATE_CRASHED)

    @property
    def exit_code(self) -> int:
        """The launcher's: 0 when the guest shut down or was ended by request, 1 when something failed."""
        return 1 if self.state == DOMAIN_STATE_CRASHED or self.reason == DOMAIN_REASON_FAILED else 0


def judge(facts: DomainFacts | None, memory: RunMemory) -> Verdict:
    """The domain's state in the words of the launcher's protocol."""
    if facts is not None and facts.is_active:
        return _judge_active(facts, memory)
    if memory.failure and not memory.kill_requested:
        return Verdict(DOMAIN_STATE_SHUTOFF, DOMAIN_REASON_FAILED, memory.failure)
    if memory.starting:
        return Verdict(DOMAIN_STATE_STARTING, DOMAIN_REASON_STARTING_UP)
    if not memory.begun:
        return _judge_not_begun(memory)
    return _judge_ended(facts, memory)


def _judge_not_begun(memory: RunMemory) -> Verdict:
    if memory.kill_requested:
        return Verdict(DOMAIN_STATE_SHUTOFF, DOMAIN_REASON_DESTROYED, "ended before the guest was started")
    return Verdict(DOMAIN_STATE_ABSENT, DOMAIN_REASON_UNSPECIFIED)


def _judge_active(facts: DomainFacts, memory: RunMemory) -> Verdict:
    if memory.starting:
        return Verdict(DOMAIN_STATE_STARTING, DOMAIN_REASON_STARTING_UP)
    if facts.life is Life.PAUSED:
        if facts.why is Why.PANICKED:
            return Verdict(DOMAIN_STATE_CRASHED, DOMAIN_REASON_PANICKED, Why.PANICKED.value)
        is_passing = facts.why is Why.USER and memory.settles
        if is_passing or (facts.why is Why.MIGRATING and not memory.dumps):
            # A moment, after which it runs: there or here.
            return Verdict(DOMAIN_STATE_RUNNING, DOMAIN_REASON_UNSPECIFIED)
        if facts.why is Why.DUMP or (memory.dumps and facts.why is not Why.IO_ERROR):
            return Verdict(DOMAIN_STATE_PAUSED, DOMAIN_REASON_DUMP)
        if facts.why is Why.USER and memory.resumes and not memory.held:
            return Verdict(DOMAIN_STATE_PAUSED, DOMAIN_REASON_UNSPECIFIED, "the guest has come, and cannot run yet")
        message = "QEMU paused the guest after an I/O error on a disk" if facts.why is Why.IO_ERROR else ""
        return Verdict(DOMAIN_STATE_PAUSED, _PAUSED.get(facts.why, DOMAIN_REASON_UNSPECIFIED), message)
    if facts.life is Life.SHUTTING_DOWN:
        return Verdict(DOMAIN_STATE_SHUTTING_DOWN, DOMAIN_REASON_SHUTDOWN)
    return Verdict(DOMAIN_STATE_RUNNING, _RUNNING.get(facts.why, DOMAIN_REASON_UNSPECIFIED))


def _judge_ended(facts: DomainFacts | None, memory: RunMemory) -> Verdict:
    why = Why.OTHER if facts is None else facts.why
    if why is Why.MIGRATED or (memory.left and why is Why.OTHER):
        return Verdict(DOMAIN_STATE_SHUTOFF, DOMAIN_REASON_MIGRATED)
    if why is Why.SHUTDOWN:
        return Verdict(DOMAIN_STATE_SHUTOFF, DOMAIN_REASON_SHUTDOWN)
    if why is Why.DESTROYED or (memory.kill_requested and why is not Why.PANICKED):
        # A guest that never ran had nothing to lose, and could not be asked: its end is as orderly as it can be.
        return Verdict(DOMAIN_STATE_SHUTOFF, DOMAIN_REASON_SHUTDOWN if memory.never_ran else DOMAIN_REASON_DESTROYED)
    if why is Why.FAILED:
        return Verdict(DOMAIN_STATE_SHUTOFF, DOMAIN_REASON_FAILED, why.value)
    if why is Why.PANICKED:
        return Verdict(DOMAIN_STATE_CRASHED, DOMAIN_REASON_PANICKED, why.value)
    # Also what a new launcher finds when QEMU went down together with the one before.
    return Verdict(DOMAIN_STATE_CRASHED, DOMAIN_REASON_CRASHED, Why.CRASHED.value)


class SyncStep(Enum):
    """What a Sync has to do."""

    START = "define the domain and start it"
    ADOPT = "leave the running domain alone, and serve it"
    LEAVE = "nothing: the run is over"


def plan_sync(verdict: Verdict) -> SyncStep:
    """What to do for a Sync that finds the domain so; nothing that ended ever starts again."""
    if verdict.has_ended:
        return SyncStep.LEAVE
    return SyncStep.START if verdict.state == DOMAIN_STATE_ABSENT else SyncStep.ADOPT


class ShutdownStep(Enum):
    """How a guest is told that it is to go."""

    ASK = "ask it"
    RESUME = "let it go on, and ask it"
    KILL = "end QEMU"


def plan_shutdown(facts: DomainFacts, memory: RunMemory) -> ShutdownStep:
    """A guest that is paused goes in order, too: it is resumed first, as it hears neither agent nor ACPI while paused.

    KubeVirt asks it all the same, waits for its grace period, and ends it with its unwritten data. A guest that never
    ran has nothing to write, and would not hear before its kernel is up.
    """
    if facts.life is not Life.PAUSED:
        return ShutdownStep.ASK
    return ShutdownStep.KILL if memory.never_ran else ShutdownStep.RESUME


class StopStep(Enum):
    """What to do next for a launcher that was told to go."""

    ASK = "ask the guest to shut down"
    KILL = "end QEMU"
    WAIT = "wait"
    DONE = "nothing is left to end"


class StopView(NamedTuple):
    """Seconds since the launcher was told to stop, and since the guest was last asked (None: never)."""

    elapsed: float
    since_asked: float | None
    grace_seconds: float


def plan_stop(verdict: Verdict, view: StopView) -> tuple[StopStep, float]:
    """The next step of going down, and after how many seconds to look again."""
    if verdict.has_ended or verdict.state == DOMAIN_STATE_ABSENT:
        return StopStep.DONE, 0.0
    left = view.grace_seconds - view.elapsed
    if left <= 0:
        return StopStep.KILL, ASK_AGAIN_SECONDS
    if verdict.state != DOMAIN_STATE_STARTING and (view.since_asked is None or view.since_asked >= ASK_AGAIN_SECONDS):
        return StopStep.ASK, min(ASK_AGAIN_SECONDS, left)
    waited = view.since_asked or 0.0
    return StopStep.WAIT, max(0.05, min(ASK_AGAIN_SECONDS - waited, left))
