"""What the domain is like: read from libvirt, judged, and published on the status board.

Kept by `domain_run`; its parts look after each action, `domain_watch` after each event. Nothing acts on an event
itself.
"""

from __future__ import annotations

import logging
import os
import stat
import threading
import time
from typing import TYPE_CHECKING

from kvedge.launcher.agent.agent_schedule import Steady
from kvedge.launcher.agent.credential_keeper import CredentialKeeper
from kvedge.launcher.agent.guest_agent import GuestAgent
from kvedge.launcher.copies.disk_copies import DiskCopies
from kvedge.launcher.disk_move.disk_mover import DiskMover
from kvedge.launcher.hotplug.cpu_keeper import CpuKeeper
from kvedge.launcher.hotplug.disk_keeper import DiskKeeper
from kvedge.launcher.hotplug.memory_keeper import MemoryKeeper
from kvedge.launcher.hotplug.nic_keeper import NicKeeper
from kvedge.launcher.libvirt.domain_disks import read_device_bytes
from kvedge.launcher.libvirt.domain_facts import DomainDisk, DomainFacts, Life
from kvedge.launcher.migration.outgoing_guest import OutgoingGuest
from kvedge.launcher.migration.outgoing_plan import Outgoing
from kvedge.launcher.run.domain_plan import Verdict
from kvedge.launcher.run.memory_dumps import MemoryDumps
from kvedge.launcher.run.nic_leases import NicLeases
from kvedge.launcher.run.run_record import RunRecord
from kvedge.launcher.run.run_state import RunState
from kvedge.launcher.run.status_board import StatusBoard
from kvedge.launcher.shares.guest_shares import LostShares
from kvedge.resources.disks.claim_places import IMAGE_FILE
from kvedge.resources.disks.moved_places import find_place
from kvedge.rpc.launcher_pb2 import (
    INCOMING_OWNED,
    NIC_ACTION_SERVE,
    DiskError,
    DiskTarget,
    DomainNic,
    DomainStatus,
    NicTrouble,
)
from kvedge.runtime.milestones import AGENT_CONNECTED

if TYPE_CHECKING:
    from kvedge.launcher.libvirt.libvirt_session import LibvirtSession

log = logging.getLogger(__name__)


class DomainView:
    """The view of one domain; every method may be called from any thread."""

    def __init__(
        self,
        session: LibvirtSession,
        record: RunRecord,
        state: RunState,
        agent: GuestAgent,
        credentials: CredentialKeeper,
        nics: NicLeases,
        disks: DiskKeeper,
        nic_keeper: NicKeeper,
        cpus: CpuKeeper,
        memory: MemoryKeeper,
        outgoing: OutgoingGuest,
        copies: DiskCopies,
        dumps: MemoryDumps,
        moves: DiskMover,
        root: str = "",
    ) -> None:
        """`root` is before the Pod's paths."""
        self._session = session
        self._record = record
        self._state = state
        self._agent = agent
        self._credentials = credentials
        self._nics = nics
        self._disks = disks
        self._nic_keeper = nic_keeper
        self._cpus = cpus
        self._memory = memory
        self.outgoing = outgoing
        self.copies = copies
        self._dumps = dumps
        self.moves = moves
        self._root = root
        self._shares = LostShares(root)
        self._looking = threading.Lock()
        self._facts: DomainFacts | None = None
        # The agent's part of the status, which changes no more often than the API can bear.
        self._agents_part = Steady(DomainStatus())
        self.board = StatusBoard()

    def verdict(self) -> Verdict:
        """What the domain's state means now."""
        return self._state.outcome or self._state.judge(self._session.facts())

    def facts(self) -> DomainFacts | None:
        """What was read of the domain at the last look."""
        return self._facts

    def look(self) -> DomainStatus:
        """Read the domain and publish what it is like; the run is over when it has ended."""
        with self._looking:
            facts = self._facts = self._session.facts()
            word = self.outgoing.look(facts, killed=self._state.memory.kill_requested)
            self.moves.look(facts)
            self._state.remember(
                left=word is Outgoing.GONE,
                dumps=self._dumps.holds_guest or self.copies.holds_guest,
                settles=self.moves.holds_guest,
            )
            verdict = self._state.judge(facts)
            self._follow_agent(facts)
            status = self.board.publish(self._status(facts, verdict, word))
            if verdict.has_ended and not self._state.ended.is_set():
                log.info("the run is over", extra={"facts": {"reason": verdict.reason, "why": verdict.message}})
                self._state.outcome = verdict
                self._keep_final(status)
                self._state.end()
            return status

    def expect_change(self) -> None:
        """The next change of what the agent says is not the guest's doing, and is told at once."""
        self._agents_part.grant()

    def _follow_agent(self, facts: DomainFacts | None) -> None:
        connected = facts is not None and facts.is_active and facts.agent_connected
        if connected and self._record.milestones.note(AGENT_CONNECTED):
            self._record.keep_milestones()
        self._agent.follow(connected=connected, running=facts is not None and facts.life is Life.RUNNING)

    def _keep_final(self, status: DomainStatus) -> None:
        try:
            self._record.keep_final(status)
        except OSError as error:
            # The watchers have been told; only a handler that was away will have to guess.
            log.error("cannot write the last word", extra={"facts": {"why": str(error)}})

    def _status(self, facts: DomainFacts | None, verdict: Verdict, word: Outgoing) -> DomainStatus:
        status = DomainStatus(state=verdict.state, reason=verdict.reason, message=verdict.message)
        status.follows_nics = status.migrates = status.copies_disks = status.moves_disks = True
        status.moves_to_devices = status.moves_functions = status.backs_up = status.saves_memory = True
        status.copies_state = True
        copy = self.copies.describe()
        if copy is not None:
            status.disk_copy.CopyFrom(copy)
        moving = self.moves.describe(facts)
        if moving is not None:
            status.disk_move.CopyFrom(moving)
        if self.outgoing.came_by:
            status.incoming.migration_uid, status.incoming.state = self.outgoing.came_by, INCOMING_OWNED
        outgoing = self.outgoing.describe(word)
        if outgoing is not None:
            status.outgoing.CopyFrom(outgoing)
        dump = self._dumps.describe()
        if dump is not None:
            status.memory_dump.CopyFrom(dump)
        status.started_unix_ms = self._record.begun_unix_ms
        if facts is not None:
            status.uuid = facts.uuid
            status.qemu_pid = facts.pid
            status.machine_type = facts.machine
            status.vcpus = facts.vcpus
            status.memory_boot_bytes = facts.memory.boot
            status.memory_requested_bytes = facts.memory.boot + facts.memory.requested
            status.memory_bytes = facts.memory.boot + facts.memory.plugged
            status.disks.extend(_target(disk, self._root) for disk in facts.disks)
            status.disk_errors.extend(DiskError(name=name, no_space=full) for name, full in facts.disk_errors)
            status.nics.extend(
                DomainNic(
                    name=nic.name,
                    mac=nic.mac,
                    tap=nic.tap,
                    down=nic.is_down or nic.name == self._state.unserved_nic,
                    queues=nic.queues,
                )
                for nic in facts.nics
            )
        if not verdict.has_ended:
            status.small_disks.extend(self._state.disk_notes)
            status.ungrown_disks.extend(self._state.growth_notes)
            status.lost_filesystems.extend(self._shares.look(facts, time.monotonic()))
            status.disk_troubles.extend(self._disks.troubles())
            status.nic_troubles.extend(self._nic_keeper.troubles())
            if self._state.unserved_nic:
                status.nic_troubles.append(
                    NicTrouble(name=self._state.unserved_nic, action=NIC_ACTION_SERVE, message="passt has ended")
                )
            status.cpu_trouble = self._cpus.trouble()
            status.memory_trouble = self._memory.trouble()
            status.addresses.extend(self._nics.addresses())
            status.MergeFrom(self._agents_part.settle(self._ask_agent(), time.monotonic()))
        return status

    def _ask_agent(self) -> DomainStatus:
        part = DomainStatus()
        part.addresses.extend(self._agent.answers.addresses(self._nics.names))
        credentials = self._credentials.describe()
        if credentials is not None:
            part.access_credentials.CopyFrom(credentials)
        self._agent.answers.fill(part)
        self._agent.probes.fill(part)
        return part


def _target(disk: DomainDisk, root: str) -> DiskTarget:
    return DiskTarget(
        name=disk.name,
        target=disk.target,
        empty=disk.device == "cdrom" and not disk.source,
        image_bytes=_read_image_bytes(disk),
        place=find_place(disk.source.removeprefix(root)),
    )


def _read_image_bytes(disk: DomainDisk) -> int:
    """The size of an ISO, such as the launcher's preparation makes, or of a disk on a claim; 0 for all other images."""
    if disk.part_bytes:
        return disk.part_bytes
    try:
        found = os.stat(disk.source)
    except OSError:
        return 0
    if stat.S_ISBLK(found.st_mode):
        return read_device_bytes(disk.source)
    return found.st_size if disk.source.endswith((".iso", f"/{IMAGE_FILE}")) else 0
