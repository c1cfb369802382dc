"""What each rule of the table sees of the objects that there are now.

Called by the checker of alarms. Pure: objects, and what is known of nodes, go in; sightings come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from msgspec import Struct, field

from kvedge.resources.alarms.alarm_state import Sighting, Target
from kvedge.resources.alarms.node_health import NodeHealth, read_health
from kvedge.resources.disks.protection_problems import find_problems
from kvedge.resources.meta import condition
from kvedge.resources.types.core import Node
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.vmi_facts import has_agent
from kvedge.runtime.clock import seconds_since

_DAY: Final = 86400.0
_AGENT: Final = "agent/"
_KVM: Final = "kvm/"


class World(Struct, frozen=True):
    """What there is. `protection` are schedules, repositories and backups."""

    now: datetime
    vms: Sequence[VirtualMachine] = ()
    vmis: Sequence[VirtualMachineInstance] = ()
    nodes: Sequence[Node] = ()
    claims: Sequence[PersistentVolumeClaim] = ()
    protection: Sequence[Any] = ()
    # By node: why it does not report, empty when it does; and the seconds by which its clock is ahead, once measured.
    silent_nodes: Mapping[str, str] = field(default_factory=dict)
    skews: Mapping[str, float] = field(default_factory=dict)
    # What was seen before: guests with an agent, nodes with KVM.
    memory: frozenset[str] = frozenset()


def see_all(world: World) -> Iterator[Sighting]:
    """The sightings of all rules."""
    for look in _LOOKS:
        yield from look(world)


def remember(world: World) -> frozenset[str]:
    """What is to be known with the next look; of objects that have gone nothing is."""
    uids = {vmi.metadata.uid for vmi in world.vmis}
    names = {node.metadata.name for node in world.nodes}
    kept = {
        each
        for each in world.memory
        if each.removeprefix(_AGENT) in uids or (each.startswith(_KVM) and each.removeprefix(_KVM) in names)
    }
    kept |= {_AGENT + vmi.metadata.uid for vmi in world.vmis if has_agent(vmi)}
    for node, health in _healths(world):
        if health is not None and health.kvm == "yes":
            kept.add(_KVM + node.metadata.name)
        elif health is not None and health.kvm == "off":
            kept.discard(_KVM + node.metadata.name)
    return frozenset(kept)


def _see_disks(world: World) -> Iterator[Sighting]:
    for node, health in _healths(world):
        places = {} if health is None else health.disks
        for place, fill in places.items():
            words = f"{place} of node {node.metadata.name} is {fill} % full"
            for rule in ("HostDiskFilling", "HostDiskFull"):
                yield Sighting(rule, _target(node, place), fill, words)


def _see_claims(world: World) -> Iterator[Sighting]:
    by_volume = {claim.spec.volume_name: claim for claim in world.claims if claim.spec.volume_name}
    for _, health in _healths(world):
        for volume, fill in ({} if health is None else health.volumes).items():
            if (claim := by_volume.get(volume)) is not None:
                yield Sighting("ClaimFilling", _target(claim), fill, f"the file system of the claim is {fill} % full")


def _see_io_errors(world: World) -> Iterator[Sighting]:
    for vmi in world.vmis:
        paused = condition(vmi.status.conditions, "Paused")
        bad = paused is not None and paused.status == "True" and paused.reason == "PausedIOError" and not vmi.is_final
        message = paused.message if bad and paused is not None else ""
        yield Sighting("GuestStoppedByIOError", _guest(vmi), float(bad), message)


def _see_agents(world: World) -> Iterator[Sighting]:
    for vmi in world.vmis:
        if _AGENT + vmi.metadata.uid not in world.memory:
            continue
        runs = vmi.status.phase == "Running" and vmi.metadata.deletion_timestamp is None
        paused = condition(vmi.status.conditions, "Paused")
        # A guest whose CPUs stand still answers nobody; a node that says nothing tells nothing of agents.
        if paused is not None or not runs or world.silent_nodes.get(vmi.status.node_name):
            level = None
        else:
            level = float(not has_agent(vmi))
        yield Sighting("GuestAgentGone", _guest(vmi), level, "the guest's agent has answered, and does no more")


def _see_flapping(world: World) -> Iterator[Sighting]:
    for vm in world.vms:
        failed = vm.status.start_failure
        count = 0 if failed is None else failed.consecutive_fail_count
        words = f"{count} runs in a row have ended before they ran; next try after"
        words += f" {(failed.retry_after_timestamp if failed else None) or 'a pause'}"
        yield Sighting("VMFlapping", _target(vm), count, words)


def _see_certificates(world: World) -> Iterator[Sighting]:
    for node, health in _healths(world):
        if health is None or not health.certificate_end:
            continue
        since = seconds_since(health.certificate_end, world.now)
        if since is not None:
            words = f"a certificate of node {node.metadata.name} ends at {health.certificate_end}"
            yield Sighting("CertificateEnding", _target(node), -since / _DAY, words)


def _see_backups(world: World) -> Iterator[Sighting]:
    for kind in dict.fromkeys(type(item) for item in world.protection):
        same = [item for item in world.protection if type(item) is kind]
        by_name = {(item.metadata.namespace, item.metadata.name): item for item in same}
        for problem in find_problems(same):
            item = by_name[problem.namespace, problem.name]
            yield Sighting("BackupMissed", _target(item), 1, problem.message, problem.reason)


def _see_lost_nodes(world: World) -> Iterator[Sighting]:
    for node in world.nodes:
        trouble = world.silent_nodes.get(node.metadata.name, "")
        yield Sighting("NodeLost", _target(node), float(bool(trouble)), trouble)


def _see_clocks(world: World) -> Iterator[Sighting]:
    for node, health in _healths(world):
        skew = world.skews.get(node.metadata.name)
        if skew is not None:
            side = "ahead of" if skew > 0 else "behind"
            words = f"the clock of node {node.metadata.name} is {abs(skew):.0f} s {side} the controller's"
            yield Sighting("ClockOff", _target(node), abs(skew), words)
        if health is not None and health.clock is not None:
            words = f"nothing keeps the clock of node {node.metadata.name}"
            yield Sighting("ClockUnsynchronized", _target(node), float(not health.clock), words)


def _see_memory(world: World) -> Iterator[Sighting]:
    for node, health in _healths(world):
        if health is not None and health.memory is not None:
            words = f"node {node.metadata.name} has {health.memory} % of its memory left"
            yield Sighting("HostMemoryShort", _target(node), health.memory, words)


def _see_kvm(world: World) -> Iterator[Sighting]:
    for node, health in _healths(world):
        if _KVM + node.metadata.name in world.memory:
            level = None if health is None or not health.kvm else float(health.kvm == "no")
            yield Sighting("KvmLost", _target(node), level, f"node {node.metadata.name} has had KVM, and has none now")


_LOOKS: Final[Sequence[Callable[[World], Iterator[Sighting]]]] = (
    _see_disks,
    _see_claims,
    _see_io_errors,
    _see_agents,
    _see_flapping,
    _see_certificates,
    _see_backups,
    _see_lost_nodes,
    _see_clocks,
    _see_memory,
    _see_kvm,
)


def _healths(world: World) -> Iterator[tuple[Node, NodeHealth | None]]:
    """What each node says of its host. What a silent one has said last is still what is known."""
    for node in world.nodes:
        yield node, read_health(node.metadata.annotations)


def _guest(vmi: VirtualMachineInstance) -> Target:
    """A guest's alarms are told of its VM, where it has one."""
    owner = vmi.metadata.controller_reference()
    if owner is not None and owner.kind == VirtualMachine.KIND.kind:
        kind = VirtualMachine.KIND
        return Target(kind.api_version, kind.kind, vmi.metadata.namespace, owner.name, owner.uid)
    return _target(vmi)


def _target(item: Any, part: str = "") -> Target:
    kind, meta = item.KIND, item.metadata
    return Target(kind.api_version, kind.kind, meta.namespace, meta.name, meta.uid, part)
