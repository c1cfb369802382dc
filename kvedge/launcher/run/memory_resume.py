"""A guest that goes on from saved memory instead of booting: once, and on the disks of the same moment alone.

Called by `domain_life` and by `domain_run`. The memory is in a claim of its own, `disk.img`. Once QEMU has loaded it,
and before the guest runs, the file gets another name: whoever comes after that boots. Until then the guest has changed
nothing, and the next start loads the memory again. A file can be renamed once, so that of two launchers one alone goes
on. What a launcher that is killed leaves is settled by the next one in its Pod: a guest whose memory was taken goes on,
another one ends without having run.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final
from xml.etree import ElementTree

from kvedge.launcher.launcher_errors import LauncherError, WrongState
from kvedge.launcher.launcher_files import replace_json
from kvedge.launcher.libvirt.domain_facts import Life
from kvedge.launcher.run.run_record import RunRecord
from kvedge.launcher.run.run_state import RunState
from kvedge.resources.disks.claim_places import IMAGE_FILE, claim_directory
from kvedge.resources.names import CLAIM_DIRECTORY
from kvedge.resources.values.name_grammar import is_label
from kvedge.resources.values.saved_memory import MEMORY_VOLUME, RESUME_MEMORY

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)

# The name of a memory that was taken: it says by which run.
_TAKEN: Final = "resumed-"
_REMEDY: Final = f"restore the snapshot again, or remove the annotation {RESUME_MEMORY} from the VM: it then boots"


class MemoryResume:
    """The saved memory of one run. Called by the threads that make and end the domain, one at a time."""

    def __init__(
        self,
        session: LibvirtSession,
        state: RunState,
        record: RunRecord,
        owe_time: Callable[[Callable[[], None]], None],
        root: str = "",
    ) -> None:
        """`owe_time()` has the guest's agent be told the time once, and calls what it is given when that is done;
        `root` is before the Pod's paths.
        """
        self._session = session
        self._state = state
        self._owe_time = owe_time
        self._owed = f"{record.directory}/resume-owed.json"
        self._untold = f"{record.directory}/resume-untold"
        self._mark = f"{_TAKEN}{record.vmi_uid}"
        self._root = root

    def is_due(self, volume: str) -> bool:
        """Whether there is memory to go on from; False when it was taken before: then the guest boots.

        Raises:
            WrongState: when there should be one, and is none.
        """
        if not is_label(volume):
            raise WrongState(f"{volume!r} is no volume that memory could be in")
        try:
            names = set(os.listdir(self._directory(volume)))
        except OSError as error:
            raise WrongState(f"the claim with the guest's saved memory cannot be read: {error}; {_REMEDY}") from error
        if IMAGE_FILE in names:
            return True
        if any(name.startswith(_TAKEN) for name in names):
            log.info("the saved memory was taken by an earlier run: the guest boots")
            return False
        raise WrongState(f"the guest's saved memory is not in its claim: {_REMEDY}")

    def start(self, volume: str, document: str, *, paused: bool) -> None:
        """Have the defined guest go on from there; `paused`: as soon as somebody lets it.

        Raises:
            LauncherError: when it does not; then it has not run, or its memory is taken.
        """
        try:
            self._check_disks(volume, document)
            replace_json(self._owed, {"volume": volume, "paused": paused})
        except OSError as error:
            raise WrongState(f"the guest does not go on from its saved memory: {error}; {_REMEDY}") from error
        try:
            self._session.memory.resume(f"{self._directory(volume)}/{IMAGE_FILE}", document)
        except LauncherError as error:
            raise WrongState(f"the guest does not go on from its saved memory: {error}; {_REMEDY}") from error
        try:
            self._take(volume)
            # The guest believes that it is still the time of the snapshot.
            os.close(os.open(self._untold, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600))
            if not paused:
                self._session.unpause()
        except (LauncherError, OSError) as error:
            self._session.destroy(graceful=False)
            raise WrongState(f"the guest does not go on from its saved memory: {error}") from error
        self._settle(volume)
        self._follow_time()

    def take_over(self) -> None:
        """Settle what a launcher has left that was killed before its guest went on.

        Raises:
            LauncherError: when libvirt neither ends it nor lets it go on.
        """
        self._follow_time()
        owed = self._read_owed()
        if owed is None:
            return
        volume, paused = owed
        facts = self._session.facts()
        is_active = facts is not None and facts.is_active
        stands = facts is not None and facts.life is Life.PAUSED
        is_taken = os.path.exists(f"{self._directory(volume)}/{self._mark}")
        if not is_taken and is_active and not stands:
            # Nobody should have let it run; but it does, and no other run may.
            self._take(volume)
        elif not is_taken:
            # Nothing has run: the next start loads the memory again.
            self._state.remember(failure="the launcher was killed before the guest went on from its saved memory")
            if is_active:
                self._session.destroy(graceful=False)
        elif is_active and stands and not paused:
            self._session.unpause()
        self._settle(volume)

    def _follow_time(self) -> None:
        if os.path.exists(self._untold):
            self._owe_time(lambda: _drop(self._untold))

    def _check_disks(self, volume: str, document: str) -> None:
        """Memory knows what is on its disks: on what was written later it destroys file systems."""
        saved = os.stat(f"{self._directory(volume)}/{IMAGE_FILE}").st_mtime_ns
        for path in _claim_images(document):
            if os.stat(self._root + path).st_mtime_ns > saved:
                raise WrongState(f"{path} was written after the memory that belongs to it was restored: {_REMEDY}")

    def _take(self, volume: str) -> None:
        """From here on no other run goes on from it. Raises OSError."""
        directory = self._directory(volume)
        os.rename(f"{directory}/{IMAGE_FILE}", f"{directory}/{self._mark}")
        opened = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # Before the guest runs: after a power cut it must not be there again.
            os.fsync(opened)
        finally:
            os.close(opened)

    def _settle(self, volume: str) -> None:
        _drop(self._owed)
        try:
            # Its blocks are of no use any more.
            os.truncate(f"{self._directory(volume)}/{self._mark}", 0)
        except OSError as error:
            log.info("the taken memory keeps its room", extra={"facts": {"error": error.strerror}})

    def _read_owed(self) -> tuple[str, bool] | None:
        try:
            with open(self._owed) as file:
                found = json.loads(file.read(1024))
        except FileNotFoundError:
            return None
        except ValueError:
            # There is one such volume, and a guest that is paused for ever helps nobody.
            return MEMORY_VOLUME, False
        return str(found["volume"]), bool(found["paused"])

    def _directory(self, volume: str) -> str:
        return self._root + claim_directory(volume)


def _claim_images(document: str) -> Iterator[str]:
    """The images on claims that the domain writes."""
    for disk in ElementTree.fromstring(document).iterfind("devices/disk"):
        source = disk.find("source")
        path = "" if source is None else source.get("file", "")
        if path.startswith(f"{CLAIM_DIRECTORY}/") and disk.find("readonly") is None:
            yield path


def _drop(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        return
