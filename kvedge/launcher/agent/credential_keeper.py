"""Keeps the keys and passwords of a running guest at what their Secrets say, by the guest's agent.

Kept by `domain_run`. One thread, for VMIs that ask for it only, which looks at the files of the Pod's Secrets now and
then. It talks to the agent when they have changed, when another agent came, and to see whether the keys are still
there. Nothing of a Secret is logged or told.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from kvedge.launcher.agent.agent_line import ANSWER_SECONDS, TURN_SECONDS, AgentLine
from kvedge.launcher.agent.credential_plan import CredentialUnusable, Files, Wanted, plan_credentials, plan_keys
from kvedge.launcher.agent.guest_agent_message import clean
from kvedge.launcher.agent.guest_freeze import now
from kvedge.launcher.launcher_errors import BadRequest, LauncherError, WrongState
from kvedge.resources.access_credentials import AgentCredential, agent_credentials, credential_volume
from kvedge.rpc.launcher_pb2 import AccessCredentials, SyncRequest
from kvedge.runtime.background import BackgroundThread

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.domain_facts import DomainFacts

log = logging.getLogger(__name__)

# KubeVirt's words, which clients may look for.
OFFLINE: Final = "Guest agent is offline"
# How often the files are looked at, and how often the guest is asked for its keys (as often as KubeVirt does).
LOOK_SECONDS: Final = 10.0
CHECK_SECONDS: Final = 300.0
# After a failure, and at most; it doubles in between. Each failure is a write to the API.
_FIRST_PAUSE: Final = 15.0
_LONGEST_PAUSE: Final = 300.0
# Of one file of a Secret, as the API has it.
_LARGEST_FILE: Final = 1 << 20
_TOO_OLD: Final = "the guest agent knows no SSH keys: QEMU guest agent 5.2 or newer is needed"


class CredentialKeeper:
    """One guest's keys and passwords; every public method may be called from any thread."""

    def __init__(
        self, line: AgentLine, directory: str, on_change: Callable[[], None], clock: Callable[[], float] = now
    ) -> None:
        """`directory` has the Pod's Secrets; `on_change()` is called when there is another word on them."""
        self._line = line
        self._directory = directory
        self._on_change = on_change
        self._clock = clock
        self._lock = threading.Lock()
        self._wanted = threading.Event()
        self._thread: BackgroundThread | None = None
        self._credentials: list[AgentCredential] = []
        self._word: AccessCredentials | None = None
        # What the agent of a visit has been told, and when to talk to it next.
        self._done: tuple[int, Wanted] | None = None
        self._next = 0.0
        self._failures = 0

    def follow(self, request: SyncRequest, present: DomainFacts | None) -> None:
        """Want what this VMI has.

        Raises:
            BadRequest: when the document is no VMI.
        """
        try:
            spec = json.loads(request.vmi_json or b"{}").get("spec") or {}
            credentials = agent_credentials(spec.get("accessCredentials") or [])
        except (ValueError, AttributeError, TypeError) as error:
            raise BadRequest("the VMI", f"cannot be read: {error!r}") from error
        with self._lock:
            if credentials == self._credentials:
                return
            self._credentials = credentials
            if self._thread is None:
                self._thread = BackgroundThread("guest-credentials", self._keep)
                self._thread.start()
        self._wanted.set()

    def describe(self) -> AccessCredentials | None:
        """For the status; None when there is nothing to bring into the guest, or nothing to say yet."""
        with self._lock:
            return self._word if self._credentials else None

    def _keep(self) -> None:
        while True:
            self._wanted.wait(LOOK_SECONDS)
            self._wanted.clear()
            self.look()

    def look(self) -> None:
        """Do what can be done now; called by its thread."""
        with self._lock:
            credentials = self._credentials
        with self._line.changed:
            state = self._line.state
            visit, is_connected, is_running = state.visit, state.is_connected, state.is_running
        if not is_connected:
            self._tell(OFFLINE)
        elif is_running and credentials:
            try:
                wanted = plan_credentials(credentials, self._read_secret)
            except CredentialUnusable as error:
                self._tell(str(error))
                return
            if self._done != (visit, wanted) or self._clock() >= self._next:
                self._bring(visit, wanted)

    def _bring(self, visit: int, wanted: Wanted) -> None:
        if self._failures and self._clock() < self._next:
            return
        told = self._done[1].passwords if self._done is not None and self._done[0] == visit else {}
        try:
            for user, lines in wanted.keys.items():
                self._bring_keys(user, lines)
            for user, password in wanted.passwords.items():
                # A user may change it in the guest; it is exchanged again when the Secret's changes.
                if told.get(user) != password:
                    self._bring_password(user, password)
        except LauncherError as error:
            log.warning("keys or passwords did not come into the guest", extra={"facts": {"why": str(error)}})
            self._next = self._clock() + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(self._failures, 10))
            self._failures += 1
            self._tell(str(error))
            return
        self._done, self._failures, self._next = (visit, wanted), 0, self._clock() + CHECK_SECONDS
        self._tell("")

    def _bring_keys(self, user: str, lines: Sequence[str]) -> None:
        try:
            present = self._ask("guest-ssh-get-authorized-keys", {"username": user})
        except WrongState as error:
            if "has not been found" in str(error):
                raise WrongState(_TOO_OLD) from error
            # The file is not there yet; a user who is not is told by the next command.
            present = None
        change = plan_keys(present, lines)
        try:
            if change.add:
                self._ask("guest-ssh-add-authorized-keys", {"username": user, "keys": change.add})
            if change.remove:
                self._ask("guest-ssh-remove-authorized-keys", {"username": user, "keys": change.remove})
        except WrongState as error:
            text = f"Error encountered writing ssh pub key access credentials for user [{user}]: {error}"
            raise WrongState(text) from error
        if change.add or change.remove:
            counts = {"user": user, "added": len(change.add), "removed": len(change.remove)}
            log.info("the guest has other keys", extra={"facts": counts})

    def _bring_password(self, user: str, password: str) -> None:
        encoded = base64.b64encode(password.encode()).decode()
        try:
            self._ask("guest-set-user-password", {"username": user, "password": encoded, "crypted": False})
        except WrongState as error:
            raise WrongState(f"Error encountered setting password for user [{user}]: {error}") from error
        log.info("the guest has another password", extra={"facts": {"user": user}})

    def _ask(self, command: str, arguments: dict[str, Any]) -> Any:
        return self._line.ask(command, arguments, now() + TURN_SECONDS + ANSWER_SECONDS)

    def _read_secret(self, name: str) -> Files:
        """The files of a Secret: those of one version, as the kubelet exchanges them all at once."""
        directory = f"{self._directory}/{credential_volume(name)}"
        try:
            version = os.path.realpath(f"{directory}/..data")
            found = {}
            for entry in os.listdir(version):
                with open(f"{version}/{entry}", "rb") as file:
                    found[entry] = file.read(_LARGEST_FILE)
            return found
        except OSError as error:
            # It was exchanged just now, or is not there.
            raise CredentialUnusable(f"Secret {name} cannot be read: {error.strerror}") from error

    def _tell(self, trouble: str) -> None:
        word = AccessCredentials(synchronized=not trouble, message=clean(trouble))
        with self._lock:
            is_news, self._word = word != self._word, word
        if is_news:
            self._on_change()
