"""What must outlast a launcher: whether and how the guest was started, its leases, its freeze, and how it ended.

Written and read by the parts of `domain_run`, below the Pod's volumes; the Pod is gone after a power cut, so nothing is
synced to disk.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os

from kvedge.launcher.launcher_errors import WrongState
from kvedge.launcher.launcher_files import replace_json
from kvedge.launcher.launcher_options import LauncherOptions
from kvedge.rpc.launcher_pb2 import DomainReason, DomainState, DomainStatus, IncomingState, OutgoingState
from kvedge.runtime.milestones import Milestones, unix_ms

log = logging.getLogger(__name__)


class RunRecord:
    """The marks of one run of one VMI in one Pod."""

    def __init__(self, options: LauncherOptions, milestones: Milestones | None = None) -> None:
        """Take the run's lock. `milestones` are what this launcher has reached so far.

        Raises:
            WrongState: when another launcher of this VMI is alive in this Pod.
        """
        self.directory = options.run_directory
        self.vmi_uid = options.uid
        os.makedirs(self.directory, mode=0o700, exist_ok=True)
        self._begun = options.begun_path
        self._leases = f"{options.run_directory}/leases.json"
        self._freeze = f"{options.run_directory}/freeze.json"
        self._link = f"{options.run_directory}/link-owed"
        self._milestones = f"{options.run_directory}/milestones.json"
        self._final = options.final_path
        # Held until the process ends, however it ends.
        self._lock = os.open(f"{options.run_directory}/lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise WrongState(f"another launcher of VMI {options.uid} runs in this Pod") from error
        self.milestones = milestones or Milestones()
        if self.begun_unix_ms:
            # Another process started the guest.
            self.milestones.take_over(self._read_milestones())

    @property
    def begun_unix_ms(self) -> int:
        """When the guest was started, in milliseconds since 1970; 0 when it never was."""
        try:
            with open(self._begun) as file:
                return int(file.read(32) or "1")
        except FileNotFoundError:
            return 0

    def begin(self) -> None:
        """Record that the guest is about to be started.

        Raises:
            WrongState: when that has been recorded before.
        """
        try:
            opened = os.open(self._begun, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError as error:
            raise WrongState("the guest has been started in this Pod before") from error
        with os.fdopen(opened, "w") as file:
            file.write(str(unix_ms()))

    def keep_milestones(self) -> None:
        """Remember how the guest was started, for the next launcher. Called once the guest runs: no start waits."""
        try:
            replace_json(self._milestones, self.milestones.times())
        except OSError as error:
            # Only `kvedge trace` misses them, and only after another launcher has taken over.
            log.warning("the milestones were not kept", extra={"facts": {"error": error.strerror}})

    def _read_milestones(self) -> dict[str, int]:
        with contextlib.suppress(FileNotFoundError, ValueError), open(self._milestones) as file:
            found = json.loads(file.read(4096))
            if isinstance(found, dict):
                return {str(step): at for step, at in found.items() if isinstance(at, int)}
        return {}

    def leases(self) -> dict[str, str]:
        """The addresses that guests' NICs have taken, by the MAC."""
        with contextlib.suppress(FileNotFoundError, ValueError), open(self._leases) as file:
            found = json.loads(file.read(65536))
            if isinstance(found, dict):
                return {str(mac): str(address) for mac, address in found.items()}
        return {}

    def keep_leases(self, leases: dict[str, str]) -> None:
        """Remember them for the next launcher."""
        replace_json(self._leases, leases)

    @property
    def owes_link(self) -> bool:
        """Whether a guest was started paused until its NIC is served, and nobody has said that it is."""
        return os.path.exists(self._link)

    def owe_link(self) -> None:
        """Remember that. Raises OSError when it cannot be written."""
        os.close(os.open(self._link, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def settle_link(self) -> None:
        """It is served, or the guest has ended."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._link)

    def freeze(self) -> float | None:
        """When the guest that was frozen is to thaw, infinity for not by itself; None when it was not frozen."""
        try:
            with open(self._freeze) as file:
                found = json.loads(file.read(1024))
        except FileNotFoundError:
            return None
        except ValueError:
            return 0.0
        thaw_at = found.get("thawAt") if isinstance(found, dict) else None
        # Better thawed too early than never, when it cannot be read.
        return float(thaw_at) if isinstance(thaw_at, int | float) else 0.0

    def keep_freeze(self, thaw_at: float) -> None:
        """Remember that the guest is frozen, and until when.

        Raises:
            OSError: when it cannot be written.
        """
        replace_json(self._freeze, {"thawAt": thaw_at})

    def forget_freeze(self) -> None:
        """It has thawed."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._freeze)

    def keep_final(self, status: DomainStatus) -> None:
        """Write the last word: DomainStatus as protobuf's JSON, so far as it tells how the domain ended and moved."""
        word: dict[str, object] = {
            "uuid": status.uuid,
            "state": DomainState.Name(status.state),
            "reason": DomainReason.Name(status.reason),
            "message": status.message,
        }
        if status.HasField("outgoing"):
            leaving = status.outgoing
            word["outgoing"] = {
                "migrationUid": leaving.migration_uid,
                "state": OutgoingState.Name(leaving.state),
                "message": leaving.message,
                "paused": leaving.paused,
            }
        if status.HasField("incoming"):
            come = status.incoming
            word["incoming"] = {"migrationUid": come.migration_uid, "state": IncomingState.Name(come.state)}
        replace_json(self._final, word)
