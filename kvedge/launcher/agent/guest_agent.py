"""The guest agent: what it is asked, what it has said, and what it is told to do.

Kept by `domain_run`. One thread asks, as an agent may take its time or never answer; who wants to know gets what was
said last, and never waits for a guest. What it says goes through `guest_agent_message` before anyone sees it. libvirt
lets one call at a time talk to an agent and makes the others wait, so only this file talks to it, one at a time.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from kvedge.launcher.agent.agent_schedule import AgentSchedule, Question
from kvedge.launcher.agent.guest_agent_message import AgentFacts, BadAnswer, read_answer, surplus, take
from kvedge.launcher.agent.guest_exec import GuestExec
from kvedge.launcher.agent.guest_freeze import FreezeRecord, GuestFreeze, now
from kvedge.launcher.launcher_errors import LauncherError, LibvirtFailed, Unanswered, Unreadable, WrongState
from kvedge.launcher.libvirt.libvirt_session import LibvirtSession
from kvedge.rpc.launcher_pb2 import (
    DomainStatus,
    GuestAddress,
    GuestExecReply,
    GuestFilesystems,
    GuestInfo,
    GuestUsers,
)
from kvedge.runtime.background import BackgroundThread, passing_thread

log = logging.getLogger(__name__)

# How long an agent may take for an answer.
ANSWER_SECONDS: Final = 5
# libvirt calls it so, and with it KubeVirt and those who look for these words.
NOT_CONNECTED: Final = "the QEMU guest agent is not connected"
# To freeze, a guest first writes out what it has in memory.
FREEZE_SECONDS: Final = 30
# What a freeze waits for the question that is just being asked.
TURN_SECONDS: Final = 10.0
# What an order waits for its turn; an agent that is being asked something is not the only way.
ORDER_TURN_SECONDS: Final = 1.5
# An agent that does not refuse so soon has taken the order to shut down, which is repeated if nothing comes of it.
SHUTDOWN_SECONDS: Final = 1.0
# An order to reboot is not repeated: longer than the silence after which libvirt gives up.
REBOOT_SECONDS: Final = 7.0
# An agent that has just come is given so long to say the first thing.
FIRST_SECONDS: Final = 5.0
# Calls that wait for that; the threads are for others as well.
MOST_WAITING: Final = 3
# So many questions without answer are worth a word.
_SILENCES: Final = 3

T = TypeVar("T")


class GuestAgent:
    """The agent of one guest; every method may be called from any thread."""

    def __init__(self, session: LibvirtSession, record: FreezeRecord, on_change: Callable[[], None]) -> None:
        """`on_change()` is called in any thread when what belongs to the domain's status has changed."""
        self._session = session
        self._on_change = on_change
        self._freeze = GuestFreeze(record)
        self._exec = GuestExec(self._question)
        # Held by whoever talks to the agent.
        self._talking = threading.Lock()
        # Guards all that follows.
        self._changed = threading.Condition()
        self._facts = AgentFacts()
        self._schedule = AgentSchedule()
        self._connected = False
        self._running = False
        self._since = 0.0
        # Changes with each agent that comes: what one has said is never put down to the next.
        self._visit = 0
        self._trouble = ""
        self._news = False
        # Somebody freezes or thaws by request: nothing is asked meanwhile, as locks know no queue.
        self._requested = False
        self._waiting = 0
        self._thread: BackgroundThread | None = None

    def follow(self, *, connected: bool, running: bool) -> None:
        """Whether an agent is there now, and whether the guest's CPUs run, without which it cannot answer."""
        with self._changed:
            came, woke = connected and not self._connected, running and not self._running
            if came or (self._connected and not connected):
                self._visit += 1
                self._facts, self._trouble = AgentFacts(), ""
                self._exec.forget()
                self._since = now()
                self._schedule.restart(self._since)
            elif woke:
                self._schedule.resume(now())
            self._connected, self._running = connected, running
            if came and self._thread is None:
                self._thread = BackgroundThread("guest-agent", self._ask_on)
                self._thread.start()
            if came or woke:
                self._changed.notify_all()

    def fill(self, status: DomainStatus) -> None:
        """Put what the agent has said into the domain's status."""
        with self._changed:
            facts, status.agent_trouble, status.agent_connected = self._facts, self._trouble, self._connected
        facts.fill(status)

    def addresses(self, names: Mapping[str, str]) -> list[GuestAddress]:
        """The guest's NICs; `names` maps a MAC in lower case to the name of the VMI's interface."""
        with self._changed:
            found = self._facts.interfaces
        named = []
        for entry in found:
            copy = GuestAddress()
            copy.CopyFrom(entry)
            copy.interface = names.get(entry.mac, "")
            named.append(copy)
        return named

    def info(self) -> GuestInfo:
        """All that the agent has said, in short.

        Raises:
            LauncherError: when there is no agent, or one that has not answered yet.
        """
        try:
            return self._said(lambda facts: None if self._schedule.is_first_round else facts).info()
        except Unanswered:
            with self._changed:
                facts = self._facts
            if facts.system is None:
                raise
            return facts.info()

    def users(self) -> GuestUsers:
        """Who is logged in. Raises LauncherError as :meth:`info`."""
        return GuestUsers(users=self._said(lambda facts: facts.users))

    def filesystems(self) -> GuestFilesystems:
        """What is mounted. Raises LauncherError as :meth:`info`."""
        return GuestFilesystems(filesystems=self._said(lambda facts: facts.filesystems))

    def freeze(self, seconds: int) -> None:
        """Freeze the guest's file systems; they thaw after so many seconds whatever happens, 0 for when asked.

        A guest that has none which can be frozen (they are all in memory, or of a kind without it) stays thawed.

        Raises:
            LauncherError: when the agent does not do it; then they are thawed again.
            OSError: when the promise to thaw cannot be written down; then nothing was frozen.
        """
        with self._turn():
            # An agent that has frozen them refuses to do it again.
            frozen = self._is_frozen()
            self._freeze.begin(seconds, now())
            count = -1 if frozen else self._do_freeze()
            if count == 0:
                self._freeze.thawed()
                self._is_now("thawed")
                log.info("the guest has no file system to freeze")
                return
            with contextlib.suppress(OSError):
                # Counted from when they are frozen; the promise from before it stands in any case.
                self._freeze.begin(seconds, now())
            self._is_now("frozen")
        log.info("the guest's file systems are frozen", extra={"facts": {"seconds": seconds, "count": count}})

    def unfreeze(self) -> None:
        """Thaw them; if that fails, it is tried on until it succeeds.

        Raises:
            LauncherError: when the agent does not do it at once.
        """
        self._freeze.thaw_soon(now())
        with self._turn():
            try:
                self._thaw()
            except LauncherError:
                self._wake()
                raise

    def thaw_soon(self) -> None:
        """Have them thaw, if they are frozen, without waiting for it: a frozen guest cannot shut down."""
        self._freeze.thaw_soon(now())
        self._wake()

    def order(self, what: Callable[[], None], seconds: float) -> bool:
        """Whether the agent takes an order, that is, does not refuse it so soon; `what` may block until it is done."""
        with self._changed:
            able = self._connected and self._running and self._schedule.silences == 0 and not self._frozen
        if not able or not self._talking.acquire(timeout=ORDER_TURN_SECONDS):
            return False
        refused: list[Exception] = []
        done = threading.Event()

        def give() -> None:
            try:
                what()
            except LauncherError as error:
                log.info("the agent did not obey", extra={"facts": {"why": str(error)}})
                refused.append(error)
                with self._changed:
                    # The next order goes another way, unless it speaks again.
                    self._schedule.unanswered(Question.FREEZE_STATUS, now())
            except Exception as error:
                refused.append(error)
                raise
            finally:
                self._talking.release()
                done.set()

        passing_thread("guest-agent-order", give)
        done.wait(seconds)
        return not refused

    def ping(self, seconds: int) -> None:
        """Whether the agent answers in time; while it freezes or thaws it is taken to.

        Raises:
            LauncherError: when it does not.
        """
        with self._changed:
            busy = self._requested
        if not busy:
            self._question("guest-ping", {}, now() + seconds)

    def execute(self, command: Sequence[str], seconds: int, is_wanted: Callable[[], bool]) -> GuestExecReply:
        """Have the agent run a program, and wait for its end, as long as `is_wanted()`.

        While file systems are frozen by request, nothing is run: that is no failure of the guest.

        Raises:
            LauncherError: when it does not end in time, or does not begin.
        """
        with self._changed:
            busy = self._requested or self._freeze.is_on
        if busy:
            return GuestExecReply(output="not asked: the guest's file systems are frozen")
        return self._exec.run(command, now() + seconds, is_wanted)

    def _question(self, command: str, arguments: dict[str, Any], until: float) -> Any:
        """What the agent returns to a probe's question, asked between those of others."""
        with self._changed:
            if not self._connected:
                raise WrongState(NOT_CONNECTED)
            if not self._running:
                raise WrongState("the guest is paused, so that its agent cannot answer")
        if not self._talking.acquire(timeout=max(0.0, until - now())):
            raise Unanswered("the guest agent is busy")
        try:
            # libvirt counts in whole seconds.
            left = math.ceil(until - now())
            if left <= 0:
                raise Unanswered("the guest agent did not answer in time")
            return read_answer(self._session.ask_agent(command, left, arguments))
        except (BadAnswer, Unreadable) as error:
            raise Unanswered(f"the guest agent's answer {error}") from error
        except LibvirtFailed as error:
            # It does not know the command, or must not obey it: the guest's own affair, and no defect of ours.
            raise WrongState(f"the guest agent refuses: {error.detail}") from error
        finally:
            self._talking.release()

    @property
    def _frozen(self) -> bool:
        return self._freeze.is_on or self._facts.freeze_status == "frozen"

    def _said(self, what: Callable[[AgentFacts], T | None]) -> T:
        with self._changed:
            while (found := what(self._facts)) is None:
                if not self._connected:
                    raise WrongState(NOT_CONNECTED)
                left = self._since + FIRST_SECONDS - now()
                if left <= 0 or self._waiting >= MOST_WAITING:
                    raise Unanswered("the guest agent has not answered")
                self._waiting += 1
                self._changed.wait(left)
                self._waiting -= 1
            return found

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """The right to talk to an agent that is there, for a request; of these, one at a time."""
        with self._changed:
            if not self._connected:
                raise WrongState(NOT_CONNECTED)
            if not self._running:
                raise WrongState("the guest is paused, so that its agent cannot answer")
            if self._requested:
                raise Unanswered("the guest agent is freezing or thawing already")
            self._requested = True
        try:
            if not self._talking.acquire(timeout=TURN_SECONDS):
                raise Unanswered("the guest agent is busy")
            try:
                yield
            finally:
                self._talking.release()
        finally:
            with self._changed:
                self._requested = False
                self._changed.notify_all()

    def _is_frozen(self) -> bool:
        try:
            answer = self._session.ask_agent(Question.FREEZE_STATUS.value, ANSWER_SECONDS)
            return bool(read_answer(answer) == "frozen")
        except (BadAnswer, Unreadable) as error:
            raise Unanswered(f"the guest agent's answer {error}") from error

    def _do_freeze(self) -> int:
        try:
            return self._session.freeze(FREEZE_SECONDS)
        except LauncherError:
            # It may have frozen some of them, or may yet do so.
            self._freeze.thaw_soon(now())
            self._wake()
            raise

    def _thaw(self) -> None:
        """Thaw, with the right to talk."""
        try:
            count = self._session.thaw(ANSWER_SECONDS)
        except LauncherError:
            self._freeze.failed(now())
            raise
        self._freeze.thawed()
        log.info("the guest's file systems are thawed", extra={"facts": {"count": count}})
        self._is_now("thawed")

    def _is_now(self, freeze_status: str) -> None:
        with self._changed:
            self._facts = take(self._facts, Question.FREEZE_STATUS, freeze_status)
            self._schedule.hasten(Question.FREEZE_STATUS, now())
            self._changed.notify_all()
        self._on_change()

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def _ask_on(self) -> None:
        while True:
            question, visit = self._next()
            with self._talking:
                if question is None:
                    self._thaw_in_time()
                else:
                    self._ask(question, visit)

    def _next(self) -> tuple[Question | None, int]:
        """Wait until there is something to do: a question, or None for to thaw."""
        with self._changed:
            while True:
                pause: float | None = None
                if self._connected and self._running and not self._requested:
                    moment = now()
                    thaw = self._freeze.wait(moment)
                    if thaw <= 0:
                        return None, self._visit
                    question, pause = self._schedule.next(moment, frozen=self._frozen)
                    if question is not None:
                        return question, self._visit
                    pause = min(pause, thaw)
                self._changed.wait(pause)

    def _thaw_in_time(self) -> None:
        # Whoever asked for it meanwhile may have done it.
        if self._freeze.wait(now()) > 0:
            return
        try:
            self._thaw()
        except LauncherError as error:
            log.warning("the guest did not thaw; trying again", extra={"facts": {"why": str(error)}})

    def _ask(self, question: Question, visit: int) -> None:
        facts, trouble, silent = self._facts, "", False
        try:
            value = read_answer(self._session.ask_agent(question.value, ANSWER_SECONDS))
            facts = take(facts, question, value)
            trouble = surplus(question, value)
        except (BadAnswer, Unreadable) as error:
            # As good as none, but for what it costs to read the next one.
            trouble, silent = str(error), True
        except (Unanswered, WrongState) as error:
            silent = True
            log.debug("the guest agent did not answer", extra={"facts": {"to": question.value, "why": str(error)}})
        except LauncherError as error:
            # It does not know the command, or does not obey it now.
            log.debug("the guest agent refused", extra={"facts": {"what": question.value, "why": str(error)}})
        self._conclude(question, visit, facts, f"its answer to {question.value} {trouble}" if trouble else "", silent)

    def _conclude(self, question: Question, visit: int, facts: AgentFacts, trouble: str, silent: bool) -> None:
        with self._changed:
            if visit != self._visit:
                return
            if silent:
                self._schedule.unanswered(question, now())
                trouble = trouble or ("it does not answer" if self._schedule.silences == _SILENCES else "")
            else:
                self._schedule.answered(question, now())
            if question is Question.FREEZE_STATUS and facts.freeze_status == "thawed" and not silent:
                # As after a reboot; while it is being frozen nothing is asked.
                self._freeze.thawed()
            worse = bool(trouble) and trouble != self._trouble
            self._news = self._news or worse or facts != self._facts
            self._facts, self._trouble = facts, trouble or self._trouble
            # What an agent has to say when it comes is told at once, not word by word: each is a write to the API.
            tell = self._news and self._schedule.next(now(), frozen=self._frozen)[0] is None
            self._news = self._news and not tell
            self._changed.notify_all()
        if worse:
            log.warning("the guest agent misbehaves", extra={"facts": {"how": trouble}})
        if tell:
            self._on_change()
