"""Telling a launcher what its guest should be: its network and Pod first, then the VMI, then what follows from it.

Used by the sync loop. Touches the Pod's network by `guest_network`, and the launcher.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Final

import grpc
from msgspec import Struct, field

from kvedge.handler.guest.function_nics import function_nics
from kvedge.handler.guest.guest_network import GuestNetwork, PreparedNic
from kvedge.handler.guest.lan_joining import LanJoining
from kvedge.handler.guest.mac_conflicts import check_macs
from kvedge.handler.guest.nic_plan import find_released_nics, summarize_nics
from kvedge.handler.guest.pass_events import PassEvents
from kvedge.handler.guest.pass_memory import PassMemory
from kvedge.handler.guest.running_nics import RunningNics, prepare_running
from kvedge.handler.guest.told_claims import summarize_claims
from kvedge.handler.held_process import HeldProcess
from kvedge.handler.launchers.domain_outcome import ALIVE
from kvedge.handler.launchers.held_growth import hold_memory, hold_vcpus
from kvedge.handler.launchers.launcher_connections import Key, LauncherCallError, LauncherConnections
from kvedge.handler.launchers.sync_plan import RESOLVER_SECONDS, LauncherView
from kvedge.handler.migration.copied_claims import image_bytes, known_bytes
from kvedge.handler.pod_errors import PodNotReady
from kvedge.handler.volumes.hotplug_plan import wishes_of
from kvedge.kube.informer import Informer
from kvedge.network.errors import NetworkError
from kvedge.resources.codec import encode_json
from kvedge.resources.configuration.configuration_bindings import asks_sidecars
from kvedge.resources.disks.moved_volumes import as_moved
from kvedge.resources.types.pod_networks import absent_interfaces
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.values.saved_memory import MEMORY_VOLUME, RESUME_MEMORY, resume_claim
from kvedge.resources.vmi_facts import vcpu_count
from kvedge.rpc import launcher_pb2
from kvedge.rpc.launcher_pb2 import DOMAIN_STATE_ABSENT, OUTGOING_ACTIVE
from kvedge.runtime.clock import Clock
from kvedge.runtime.milestones import NETWORK_READY, SYNC_BEGUN

# A cold start of libvirt and QEMU on a loaded box; the guest's own boot is not part of it.
_SYNC_SECONDS: Final = 60.0
# Starts at once that ask hook sidecars: fewer than there are workers.
_HOOK_SLOTS: Final = 2


class LauncherSync(Struct, frozen=True):
    """Syncs of all launchers of this node."""

    vmis: Informer[VirtualMachineInstance]
    connections: LauncherConnections
    network: GuestNetwork
    # Gives the Pod of a launcher, by its process, what it lacks besides the network; raises PodNotReady.
    prepare_pod: Callable[[VirtualMachineInstance, HeldProcess, str], None]
    # The facts of this node that a launcher gets when it starts a guest.
    options: Callable[[], launcher_pb2.NodeOptions]
    events: PassEvents
    clock: Clock
    # Joins a Pod to its networks where nobody else does.
    lans: LanJoining
    # Hook sidecars are their users' own, and may keep a start waiting: other guests of the node go on meanwhile.
    hook_slots: threading.BoundedSemaphore = field(default_factory=lambda: threading.BoundedSemaphore(_HOOK_SLOTS))

    def is_outdated(self, key: Key, vmi: VirtualMachineInstance, memory: PassMemory) -> bool:
        """Whether the launcher would be told of other claims, volumes, NICs or CPUs now, or its guest of servers."""
        memory.joins = self._joins(vmi, memory)
        known = self.connections.view(key).status
        if (
            memory.claims != summarize_claims(vmi)
            or memory.wishes != wishes_of(vmi)
            or memory.vcpus != vcpu_count(hold_vcpus(vmi, known).spec.domain)
            or memory.guest_bytes != hold_memory(vmi, known)
            or memory.told_nics != summarize_nics(vmi, joins=memory.joins)
        ):
            return True
        return self._has_other_network(key, vmi, memory)

    @contextmanager
    def _hook_slot(self, vmi: VirtualMachineInstance, *, starts: bool) -> Iterator[None]:
        """Room for a start that asks hook sidecars. Raises PodNotReady while there is none."""
        if not (starts and asks_sidecars(vmi, self.network.plugins)):
            yield
            return
        if not self.hook_slots.acquire(blocking=False):
            raise PodNotReady("hook sidecars of other guests of this node are being asked; it is tried again")
        try:
            yield
        finally:
            self.hook_slots.release()

    def _joins(self, vmi: VirtualMachineInstance, memory: PassMemory) -> bool:
        try:
            return memory.joins or self.lans.joins(vmi)
        except NetworkError:
            # The next pass asks again.
            return False

    def _has_other_network(self, key: Key, vmi: VirtualMachineInstance, memory: PassMemory) -> bool:
        """Whether the guest would be told of other name servers now, or its network cannot be kept.

        Once in a while both are looked at, and the network is put right.
        """
        now = self.clock.monotonic()
        if memory.resolver is None or now - memory.resolver_seen < RESOLVER_SECONDS:
            return memory.resolver is None
        memory.resolver_seen = now
        if memory.lost:
            # What was lost may be there again.
            return True
        try:
            with self.connections.launcher(key) as launcher:
                found = self.network.resolver(launcher)
                self._keep_network(vmi, launcher, memory)
        except (LauncherCallError, NetworkError):
            # The launcher has just ended: the connection tells that.
            return False
        # A node without network has no name servers: its guests keep those that they had, as it will have them again.
        if found.has_nameservers and found != memory.resolver:
            memory.resolver = None
        return memory.resolver is None

    def _keep_network(self, vmi: VirtualMachineInstance, launcher: HeldProcess, memory: PassMemory) -> None:
        try:
            self.network.keep(vmi, launcher)
        except NetworkError:
            # The next preparation meets the same error, and says so.
            memory.resolver = None

    def sync(self, key: Key, vmi: VirtualMachineInstance, memory: PassMemory) -> None:
        """Prepare the Pod and its network, and hand the VMI to the launcher.

        A guest that moves takes no changes. What is new counts as untold: if the guest stays after all, it is told.

        Raises:
            LauncherCallError: when the launcher refuses, or does not answer.
            NetworkError: when a NIC cannot be prepared.
            PodNotReady: when the Pod lacks something.
        """
        known = self.connections.view(key)
        if known.synced and known.status is not None and known.status.outgoing.state == OUTGOING_ACTIVE:
            return
        try:
            with self.connections.launcher(key) as launcher:
                status = self._tell(key, vmi, memory, launcher)
        except LauncherCallError as error:
            if error.code is not grpc.StatusCode.ABORTED:
                raise
            # It has just begun to move, or is just about to stay: that is no failure to tell of.
            return
        if status.state in ALIVE:
            self.events.tell_start(vmi, memory)

    def _tell(
        self, key: Key, vmi: VirtualMachineInstance, memory: PassMemory, launcher: HeldProcess
    ) -> launcher_pb2.DomainStatus:
        self.connections.note(key, SYNC_BEGUN)
        pod_uid = self.connections.pod_uid(key)
        if pod_uid is not None:
            self.prepare_pod(vmi, launcher, pod_uid)
        known = self.connections.view(key).status
        if known is None:
            # The connection broke since the plan, and is back before its first word: a guest that may run, and that
            # must not get all that a start gets.
            raise PodNotReady("its launcher has not told of its guest yet")
        resolver = self.network.resolver(launcher)
        running = RunningNics([], None, {})
        if known.state == DOMAIN_STATE_ABSENT:
            # A guest that runs is served as it is.
            check_macs(vmi, self.vmis.list())
            self._join(vmi, launcher)
            running = RunningNics(self.network.prepare(vmi, launcher, resolver), None, {})
        else:
            memory.joins = self._joins(vmi, memory)
            join = (lambda name: self._join(vmi, launcher, {name})) if memory.joins else None
            running = prepare_running(self.network, vmi, (launcher, resolver), known, self.vmis.list(), join)
        prepared = running.prepared
        memory.nics = (*(item.nic for item in prepared), *running.lost_nics(vmi), *function_nics(vmi))
        memory.lost = tuple(running.lost_sentences(vmi))
        starts = known.state == DOMAIN_STATE_ABSENT
        told = hold_vcpus(vmi, known)
        request = launcher_pb2.SyncRequest(
            vmi_json=encode_json(told),
            interfaces=[item.message for item in prepared],
            options=self.options(),
            memory_bytes=hold_memory(vmi, known),
            resume=_find_memory(vmi, known) if starts else "",
        )
        self.connections.note(key, NETWORK_READY)
        with self._hook_slot(vmi, starts=starts):
            status: launcher_pb2.DomainStatus = self.connections.call(key, "Sync", request, _SYNC_SECONDS)
        memory.resolver, memory.resolver_seen = resolver, self.clock.monotonic()
        memory.claims = summarize_claims(vmi)
        memory.wishes = wishes_of(vmi)
        memory.vcpus = vcpu_count(told.spec.domain)
        memory.guest_bytes = request.memory_bytes
        self._finish_network(vmi, launcher, prepared, memory)
        for sentence in memory.lost:
            self.events.tell_once(vmi, memory, "NetworkCutOff", sentence)
        if running.failed is not None:
            # One NIC that cannot come holds up nothing else: the launcher has all the rest by now.
            raise running.failed
        memory.told_nics = summarize_nics(vmi, joins=memory.joins)
        return status

    def prepare_incoming(
        self, key: Key, vmi: VirtualMachineInstance, uid: str, others: Iterable[VirtualMachineInstance]
    ) -> None:
        """Prepare the Pod and its network for a guest that is to come by this migration, and have the launcher listen.

        `others` are the VMIs of this node, and those that are to come to it. Volumes have the claims that they get.

        Raises:
            LauncherCallError: when the launcher refuses, or does not answer.
            NetworkError: when a NIC cannot be prepared.
            PodNotReady: when the Pod lacks something.
        """
        copied, vmi = known_bytes(vmi), as_moved(vmi)
        with self.connections.launcher(key) as launcher:
            pod_uid = self.connections.pod_uid(key)
            if pod_uid is not None:
                self.prepare_pod(vmi, launcher, pod_uid)
            check_macs(vmi, others)
            self._join(vmi, launcher)
            prepared = self.network.prepare(vmi, launcher, self.network.resolver(launcher))
            guest = launcher_pb2.SyncRequest(
                vmi_json=encode_json(vmi), interfaces=[item.message for item in prepared], options=self.options()
            )
            request = launcher_pb2.PrepareIncomingRequest(
                migration_uid=uid,
                guest=guest,
                image_bytes=image_bytes(vmi),
                copied_disk_bytes=copied,
            )
            with self._hook_slot(vmi, starts=True):
                self.connections.call(key, "PrepareIncoming", request, _SYNC_SECONDS)

    def _join(self, vmi: VirtualMachineInstance, launcher: HeldProcess, names: Collection[str] | None = None) -> None:
        self.lans.join(vmi, launcher, lambda place: self.network.release(vmi, launcher, place), names)

    def _finish_network(
        self, vmi: VirtualMachineInstance, launcher: HeldProcess, prepared: list[PreparedNic], memory: PassMemory
    ) -> None:
        said = [sentence for item in prepared for sentence in item.shortfalls]
        try:
            self.network.introduce_routers(launcher, prepared)
        except NetworkError as error:
            said.append(f"the guest gets no IPv6: {error}")
        for sentence in said:
            self.events.tell_once(vmi, memory, "NetworkIncomplete", sentence)

    def release_nics(self, key: Key, vmi: VirtualMachineInstance, view: LauncherView, memory: PassMemory) -> None:
        """Undo what was made for NICs that the guest has released."""
        wanted = {item.name for _, item in absent_interfaces(vmi)}
        memory.released &= wanted
        if (
            view.status is None
            or view.status.state not in ALIVE
            or memory.told_nics != summarize_nics(vmi, joins=memory.joins)
        ):
            return
        due = [each for each in find_released_nics(vmi, view.status) if each[1].name not in memory.released]
        if not due:
            return
        try:
            with self.connections.launcher(key) as launcher:
                for place in due:
                    self.network.release(vmi, launcher, place)
                    self.lans.leave(vmi, launcher, place[1])
                    memory.released |= {place[1].name}
        except (LauncherCallError, NetworkError) as error:
            self.events.note_failure(key, vmi, view, memory, error)


def _find_memory(vmi: VirtualMachineInstance, known: launcher_pb2.DomainStatus | None) -> str:
    """The volume with the memory that the guest goes on from; empty: it boots. Raises PodNotReady."""
    if not resume_claim(vmi.metadata.annotations):
        return ""
    if known is None or not known.saves_memory:
        # An older one would boot the guest, and its memory would be lost without a word.
        raise PodNotReady(
            "the VM's launcher is of a release that resumes no guest from saved memory: stop the VM and start it again,"
            f" or remove its annotation {RESUME_MEMORY}"
        )
    return MEMORY_VOLUME
