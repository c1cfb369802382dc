"""Installing, upgrading and going back on this host: what is there, what must be done, and whether it works then.

Called by the verbs. One at a time (a lock in /run); may be killed at any step and run again: files are replaced as a
whole, and the plan is made anew from what is there.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal

import msgspec
from msgspec import Struct

from kvedge import __version__
from kvedge.appliance.host.health import Health, check_health, find_lost
from kvedge.appliance.host.layout import ALL_UNITS, Layout, Role, main_unit, role_units
from kvedge.appliance.host.own_file import OwnFile
from kvedge.appliance.host.systemctl_client import SystemdError, last_words, unit_property
from kvedge.appliance.host.unit_files import unit_texts
from kvedge.appliance.install.install_plan import InstallFacts, plan_install, plan_uninstall, plan_way_back
from kvedge.appliance.install.install_steps import CopyFile, Remove, SetAside, Step, Systemctl, WriteFile, carry_out

# Roles find each other, and guests that ran are found again.
_SETTLE_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.5
_PIECE: Final = 1 << 20


class InstallError(Exception):
    """It could not be done; the text says why and what state the host is in."""


# A moment as in the names of copies of the objects.
_MOMENT: Final = "%Y%m%dT%H%M%SZ"


class Pending(msgspec.Struct, frozen=True, kw_only=True):
    """An upgrade that is under way: digests of the programs, and when it began, as copies of the objects say it."""

    from_digest: str
    to_digest: str
    to_version: str
    begun: str = ""


class Installation(Struct, frozen=True):
    """One installation on this host; `kubeconfig` is the one by which its health is seen.

    On a node of a cluster, `node` is its name, and `own` what its roles need beside program and units.
    """

    layout: Layout
    role: Role
    source: Path
    kubeconfig: Path
    progress: Callable[[str], None]
    node: str = ""
    own: Sequence[OwnFile] = ()

    def steps(self, config: bytes) -> list[Step]:
        """What :meth:`install` would do."""
        return plan_install(self._facts(), self.layout, self.role, unit_texts(role_units(self.role)), config, self.own)

    def install(self, config: bytes, *, force: bool = False) -> Literal["installed", "upgraded", "unchanged"]:
        """Make this program the one that is installed and runs.

        An upgrade needs a healthy installation, unless `force`d; when the new program does not become ready, or a VM
        that ran is lost, the old one is put back.

        Raises:
            InstallError: when it could not be done; what ran before runs again.
        """
        with self._lock():
            facts = self._facts()
            is_upgrade = facts.installed_digest not in ("", facts.source_digest) or self.layout.pending.exists()
            steps = self.steps(config)
            if not is_upgrade:
                try:
                    carry_out(steps, self.progress)
                except SystemdError as error:
                    raise InstallError(f"{error}{self._journal()}") from error
                except OSError as error:
                    raise InstallError(f"{in_words(error)}; mend that and run it again") from error
                self._wait_healthy(Health())
                is_changed = any(isinstance(step, WriteFile | CopyFile | Remove) for step in steps)
                return "installed" if is_changed or facts.running != "this" else "unchanged"
            self._upgrade(facts, steps, force=force)
            return "upgraded"

    def uninstall(self, end_guests: Callable[[], None]) -> None:
        """Remove everything but settings and data; `end_guests` is called while no daemon runs any more.

        Raises:
            InstallError: when systemd refuses; to be run again.
            OSError: as the file system has it.
        """
        with self._lock():
            first, last = plan_uninstall(self._facts(), self.layout)
            try:
                carry_out(first, self.progress)
                end_guests()
                carry_out(last, self.progress)
            except SystemdError as error:
                raise InstallError(str(error)) from error

    def _upgrade(self, facts: InstallFacts, steps: list[Step], *, force: bool) -> None:
        unit = main_unit(self.role)
        before = check_health(self.kubeconfig, unit, self.node)
        interrupted = self.layout.pending.exists()
        if before.problems and not (force or interrupted):
            raise InstallError(
                f"not upgraded, as the present installation is not healthy: {'; '.join(before.problems)}; "
                "mend that, or use --force"
            )
        pending = Pending(
            from_digest=facts.installed_digest,
            to_digest=facts.source_digest,
            to_version=__version__,
            begun=self._choose_start_time(facts),
        )
        try:
            self.layout.pending.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            carry_out([WriteFile(self.layout.pending, msgspec.json.encode(pending), 0o600), *steps], self.progress)
            self._wait_healthy(before)
        except (SystemdError, OSError, InstallError) as error:
            what = in_words(error) if isinstance(error, OSError) else f"{error}{self._journal()}"
            raise InstallError(f"{what}\n{self._go_back()}") from error
        carry_out([Remove(self.layout.pending)], self.progress)

    def _choose_start_time(self, facts: InstallFacts) -> str:
        """When the upgrade began: now, unless one was cut short after its program was put in place: it may have run."""
        before = self._read_pending()
        if before is None or not before.begun or facts.installed_digest != facts.source_digest:
            return f"{datetime.now(UTC):{_MOMENT}}"
        return before.begun

    def _go_back(self) -> str:
        """Put the program before back; says how that went."""
        previous = {path.name: path.read_bytes() for path in self.layout.previous.glob("kvedge*.*")}
        if not (self.layout.previous / "kvedge").exists() or not previous:
            return "there is no program to go back to"
        self.progress("going back to the version before")
        try:
            state = way_back_of_state(self.layout, self._read_pending())
            digest = _digest(self.layout.previous / "kvedge")
            own = read_kept_files(self.layout)
            steps = plan_way_back(self._facts(), self.layout, self.role, previous, digest, own)
            carry_out([*state, *steps], self.progress)
            self._wait_healthy(Health())
            carry_out([Remove(self.layout.pending)], self.progress)
        except (SystemdError, OSError, InstallError) as error:
            what = in_words(error) if isinstance(error, OSError) else str(error)
            return f"and going back failed as well: {what}"
        return "the version before runs again"

    def _read_pending(self) -> Pending | None:
        try:
            return msgspec.json.decode(self.layout.pending.read_bytes(), type=Pending)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def _wait_healthy(self, before: Health) -> None:
        unit = main_unit(self.role)
        deadline = time.monotonic() + _SETTLE_SECONDS
        while True:
            after = check_health(self.kubeconfig, unit, self.node)
            problems = [*after.problems, *find_lost(before, after)]
            if not problems:
                return
            if time.monotonic() >= deadline:
                raise InstallError(f"not healthy after {_SETTLE_SECONDS:.0f} s: {'; '.join(problems)}")
            time.sleep(_POLL_SECONDS)

    def _facts(self) -> InstallFacts:
        layout = self.layout
        return InstallFacts(
            source=self.source,
            source_digest=_digest(self.source),
            installed_digest=_digest(layout.program),
            running=self._find_running(),
            units={name: text for name in ALL_UNITS if (text := _content(layout.units / name)) is not None},
            config_exists=layout.config.exists(),
            modules=_content(layout.modules) or b"",
            data_layout=_content(layout.data_dir / "state" / "layout"),
            own={file.path: content for file in self.own if (content := _content(file.path)) is not None},
        )

    def _find_running(self) -> Literal["nothing", "this", "another"]:
        try:
            pid = unit_property(main_unit(self.role), "MainPID")
        except SystemdError:
            return "nothing"
        if pid in ("", "0"):
            return "nothing"
        try:
            theirs = os.readlink(f"/proc/{pid}/exe")
        except OSError:
            return "nothing"
        return "this" if theirs == os.readlink("/proc/self/exe") else "another"

    def _journal(self) -> str:
        lines = last_words(main_unit(self.role))
        return "".join(f"\n    {line}" for line in lines)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        self.layout.lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.layout.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
        except BlockingIOError as error:
            raise InstallError("another kvedge install, upgrade or uninstall is at work on this host") from error
        finally:
            os.close(descriptor)


def in_words(error: OSError) -> str:
    """Which file, and what is wrong with it."""
    return ": ".join(str(part) for part in (error.filename, error.strerror or error) if part)


def read_kept_files(layout: Layout) -> dict[Path, bytes]:
    """What an upgrade has kept of our files beside program and units, by their paths on the host."""
    top = layout.previous_own
    return {Path("/", path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def way_back_of_state(layout: Layout, pending: Pending | None) -> list[Step]:
    """The steps that put the objects back as they were before a version that has changed the data directory's format.

    Nothing when the format is what it was: what was written since then stays. Nothing either when there is no copy of
    None when the format is the same: objects that were written since then stay. None either when there is no copy
    of the objects that the new version found: the old version then says that it cannot read them, and loses none.
    """
    state = layout.data_dir / "state"
    before = _content(layout.previous / "layout")
    if pending is None or before is None or _format(_content(state / "layout")) == _format(before):
        return []
    found = _copy_of_what_was_found(layout.data_dir / "backup", pending)
    if found is None:
        return []
    aside = state / f"replaced-{pending.begun}"
    return [
        Systemctl(("stop", main_unit("standalone"))),
        *(SetAside(state / name, aside) for name in ("kvedge.db", "kvedge.db-wal", "kvedge.db-shm")),
        CopyFile(found, state / "kvedge.db", 0o600),
        WriteFile(state / "layout", before, 0o600),
    ]


def _copy_of_what_was_found(backup: Path, pending: Pending) -> Path | None:
    """The first copy that the new version has made since this upgrade began; earlier ones are of earlier attempts."""
    name = re.compile(rf"kvedge-(\w+)-r(\d+)-{re.escape(pending.to_version)}\.db")
    named = [(found[1], int(found[2]), path) for path in backup.glob("*.db") if (found := name.match(path.name))]
    since = [each for each in named if each[0] >= pending.begun]
    return min(since)[2] if since else None


def _format(mark: bytes | None) -> bytes:
    """The format's number in a data directory's mark; the version that wrote the mark follows it."""
    return (mark or b"").partition(b" ")[0].strip()


def find_installed_role(layout: Layout, roles_of_node: Sequence[str] = ()) -> Role | None:
    """The role that is installed here, by its units; an agent is a node that runs a handler only."""
    if (layout.units / main_unit("standalone")).exists():
        return "standalone"
    if not (layout.units / main_unit("server")).exists():
        return None
    return "agent" if tuple(roles_of_node) == ("handler",) else "server"


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while piece := stream.read(_PIECE):
                digest.update(piece)
    except FileNotFoundError:
        return ""
    return digest.hexdigest()


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
