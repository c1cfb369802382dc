"""Which guests move now for an update, which are evicted for it, and which migrations are given up.

Called by `workload_loop`. Pure. Guests move as the KubeVirt object's `workloadUpdateStrategy` allows it: when their
launcher is of another release, when nothing joins their Pod to the network of a NIC, and when they are to have more
than their Pod can get. They move in any case when claims of their disks are exchanged, which a user or a drain has
asked for. Updates stop by themselves: each VMI whose migration has failed waits, longer each time, and once the
migrations of three VMIs in a row have failed all wait, after which one is tried first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from kvedge.controller.guest_moves import Guest, Wait, find_end, find_wait, is_ours
from kvedge.controller.workloads.update_view import Abort, Evictions, Outdated, Pause, Rules, UpdatePlan
from kvedge.resources.evacuation import is_marked, is_migratable
from kvedge.resources.meta import ObjectMeta, condition
from kvedge.resources.moves.pod_room import outgrows_pod
from kvedge.resources.moves.workload_updates import (
    GROWTH_MIGRATION,
    NETWORK_MIGRATION,
    OUTDATED_LAUNCHER,
    UPDATE_ABORTION,
    UPDATE_MIGRATION,
    VOLUME_MIGRATION,
    changes_volumes,
    is_outdated,
    needs_other_pod,
)
from kvedge.resources.names import MIGRATION_REQUIRED
from kvedge.resources.types.migrations import (
    MigrationPriority,
    VirtualMachineInstanceMigration,
    VirtualMachineInstanceMigrationSpec,
)
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import rfc3339, seconds_since

# The migrations of so many VMIs in a row have to fail before no other guest is moved.
MOST_FAILURES: Final = 3
PAUSE_SECONDS: Final = 600.0
# KubeVirt's: how often guests are looked at that are not up to date.
_ROUND_SECONDS: Final = 30.0
# Labels are written for so many VMIs at a time.
_MOST_MARKS: Final = 50
_MARKS_SECONDS: Final = 1.0
_LONGEST_LABEL: Final = 63
# On migrations that somebody's change of a VM has asked for.
_CHANGES: Final = frozenset({VOLUME_MIGRATION, NETWORK_MIGRATION, GROWTH_MIGRATION})
# Of these, those for which the guest comes to another Pod.
_POD_CHANGES: Final = (NETWORK_MIGRATION, GROWTH_MIGRATION)
# The handler of a node with the network's bridge joins the Pod itself, which it begins when nobody else has.
_JOIN_SECONDS: Final = 15.0


def plan_updates(guests: Sequence[Guest], rules: Rules, evictions: Evictions, now: datetime) -> UpdatePlan:
    """Decide about all VMIs at once."""
    known = [guest for guest in guests if not guest.vmi.is_final and guest.vmi.metadata.deletion_timestamp is None]
    running = [guest for guest in known if guest.vmi.status.phase == "Running"]
    outdated = _sort_outdated([guest for guest in running if is_outdated(guest.vmi, rules.version)], rules, now)
    places = rules.places - sum(1 for guest in guests for each in guest.migrations if _takes_place(each))
    changing, waiting = _find_changing(running, rules, now)
    exchange = changing[: max(0, places)]
    joining, unjoined = _find_joining(running, rules, now)
    most = min(places - len(exchange), _count_joining_places(guests, rules))
    join = [vmi for vmi in joining if vmi not in exchange][: max(0, most)]
    chosen = {vmi.metadata.uid for vmi in (*exchange, *join)}
    ready = [guest.vmi for guest in outdated.ready if guest.vmi.metadata.uid not in chosen]
    pause = find_pause(guests, now)
    free = max(0, places - len(exchange) - len(join))
    if pause is not None:
        # After the pause one is tried, and no other beside it.
        free = min(free, 0 if pause.seconds > 0 or outdated.moving else 1)
    move = tuple(ready[:free]) if can_update(rules) else ()
    evict = _choose_evicted(outdated, rules, evictions)
    mark, unmark = _find_marks(known, rules.version)
    wait = (*waiting, *unjoined, *outdated.waiting)
    has_work = bool(outdated.count or changing or any(_wants_other_pod(guest.vmi) for guest in running))
    return UpdatePlan(
        move,
        tuple(exchange),
        tuple(join),
        evict,
        tuple(_find_aborts(running, rules.version)),
        wait,
        tuple(mark[:_MOST_MARKS]),
        tuple(unmark[:_MOST_MARKS]),
        outdated,
        pause,
        _find_next_look(wait, pause, evictions, len(mark) > _MOST_MARKS, has_work),
    )


def can_update(rules: Rules) -> bool:
    """Whether the whole control plane is of one version: until then launchers would be outdated again."""
    return rules.is_deployed and not rules.other_nodes


def make_migration(vmi: VirtualMachineInstance) -> VirtualMachineInstanceMigration:
    """The migration that brings a guest up to date, its disks to their new claims, or itself to a Pod with its NICs or
    of its size."""
    labels: dict[str, str] = {}
    priority: MigrationPriority = "system-critical"
    if changes_volumes(vmi) or _wants_other_pod(vmi):
        name, label = vmi.metadata.name, _label_of(vmi)
        labels, priority = {label: name if len(name) <= _LONGEST_LABEL else vmi.metadata.uid}, "user-triggered"
    return VirtualMachineInstanceMigration(
        metadata=ObjectMeta(
            generate_name="kubevirt-workload-update-",
            namespace=vmi.metadata.namespace,
            annotations={UPDATE_MIGRATION: ""},
            labels=labels,
        ),
        spec=VirtualMachineInstanceMigrationSpec(vmi_name=vmi.metadata.name, priority=priority),
    )


def _label_of(vmi: VirtualMachineInstance) -> str:
    if changes_volumes(vmi):
        return VOLUME_MIGRATION
    return NETWORK_MIGRATION if needs_other_pod(vmi) else GROWTH_MIGRATION


def _wants_other_pod(vmi: VirtualMachineInstance) -> bool:
    return needs_other_pod(vmi) or outgrows_pod(vmi)


def find_pause(guests: Sequence[Guest], now: datetime) -> Pause | None:
    """Whether the latest migrations of so many VMIs have all failed; others tell nothing of it."""
    ended = [
        each
        for guest in guests
        for each in guest.migrations
        if each.is_final and is_ours(each, UPDATE_MIGRATION) and _CHANGES.isdisjoint(each.metadata.labels)
    ]
    ended.sort(key=lambda each: find_end(each) or "", reverse=True)
    failed: dict[str, VirtualMachineInstanceMigration] = {}
    for each in ended:
        if each.status.phase == "Succeeded":
            break
        if each.metadata.deletion_timestamp is None:
            failed.setdefault(f"{each.metadata.namespace}/{each.spec.vmi_name}", each)
    if len(failed) < MOST_FAILURES:
        return None
    last = next(iter(failed.values()))
    passed = seconds_since(find_end(last), now)
    # A clock that was put back must not have all wait for longer than that.
    left = PAUSE_SECONDS if passed is None or passed < 0 else max(0.0, PAUSE_SECONDS - passed)
    return Pause(len(failed), last, left, rfc3339(now + timedelta(seconds=left)))


def _sort_outdated(guests: Sequence[Guest], rules: Rules, now: datetime) -> Outdated:
    ready, moving, waiting, stuck = [], [], [], []
    for guest in sorted(guests, key=_by_name):
        if not guest.is_free:
            moving.append(guest)
        elif not (rules.updates.live_migrate and rules.nodes > 1 and is_migratable(guest.vmi)):
            stuck.append(guest)
        elif (wait := find_wait(guest, UPDATE_MIGRATION, now)) is not None:
            waiting.append(wait)
        elif UPDATE_ABORTION not in guest.vmi.metadata.annotations:
            ready.append(guest)
    return Outdated(tuple(ready), tuple(moving), tuple(waiting), tuple(stuck))


def _find_changing(
    guests: Sequence[Guest], rules: Rules, now: datetime
) -> tuple[list[VirtualMachineInstance], list[Wait]]:
    """Guests whose disks are to move, and can; and those that wait after a failure.

    An older handler knows nothing of claims that are exchanged: its node is upgraded first.
    """
    found, waiting = [], []
    for guest in sorted(guests, key=_by_name):
        vmi = guest.vmi
        if not (guest.is_free and changes_volumes(vmi) and is_migratable(vmi) and rules.nodes > 1):
            continue
        if rules.versions.get(vmi.status.node_name) != rules.version or UPDATE_ABORTION in vmi.metadata.annotations:
            continue
        if (wait := find_wait(guest, UPDATE_MIGRATION, now)) is not None:
            waiting.append(wait)
        else:
            found.append(vmi)
    return found, waiting


def _find_joining(
    guests: Sequence[Guest], rules: Rules, now: datetime
) -> tuple[list[VirtualMachineInstance], list[Wait]]:
    """Guests that can move, and whose Pods have not joined a network for so long that only another Pod helps, or can be
    no larger; and those that wait after a failure."""
    found, waiting = [], []
    for guest in sorted(guests, key=_by_name):
        vmi = guest.vmi
        if not (guest.is_free and _wants_other_pod(vmi) and is_migratable(vmi) and rules.nodes > 1):
            continue
        if not rules.updates.live_migrate or UPDATE_ABORTION in vmi.metadata.annotations:
            continue
        if (wait := find_wait(guest, UPDATE_MIGRATION, now)) is not None:
            waiting.append(wait)
        elif outgrows_pod(vmi) or _lasts(vmi, now):
            found.append(vmi)
    return found, waiting


def _lasts(vmi: VirtualMachineInstance, now: datetime) -> bool:
    required = condition(vmi.status.conditions, MIGRATION_REQUIRED)
    since = None if required is None else seconds_since(required.last_transition_time, now)
    return since is None or since >= _JOIN_SECONDS


def _choose_evicted(outdated: Outdated, rules: Rules, evictions: Evictions) -> tuple[VirtualMachineInstance, ...]:
    """The next batch: those first that have waited longest, so that one that is refused keeps no other waiting."""
    if not rules.updates.evict or not can_update(rules) or evictions.next_batch > 0:
        return ()
    # One whose disks are to move would be left with claims that have half its data.
    stuck = (guest for guest in outdated.stuck if not guest.is_ending and not changes_volumes(guest.vmi))
    found = [guest.vmi for guest in stuck if not is_marked(guest.vmi)]
    found.sort(key=lambda vmi: evictions.tried.get(vmi.metadata.uid, -1.0))
    return tuple(found[: rules.updates.batch_size])


def _find_aborts(guests: Sequence[Guest], version: str) -> Iterator[Abort]:
    """Migrations of ours that are under way without a reason any more; one whose target is ready goes on."""
    for guest in guests:
        vmi, state = guest.vmi, guest.vmi.status.migration_state
        is_told = UPDATE_ABORTION in vmi.metadata.annotations
        if not is_told and (changes_volumes(vmi) or _wants_other_pod(vmi) or is_outdated(vmi, version)):
            continue
        for each in guest.migrations:
            if each.is_final or each.metadata.deletion_timestamp is not None or not is_ours(each, UPDATE_MIGRATION):
                continue
            is_its = state is not None and state.migration_uid == each.metadata.uid
            if state is not None and is_its and (state.target_node_domain_ready_timestamp or not state.is_open):
                continue
            yield Abort(vmi, each)


def _find_marks(
    guests: Sequence[Guest], version: str
) -> tuple[list[VirtualMachineInstance], list[VirtualMachineInstance]]:
    """VMIs whose label has to come, and those from which it has to go."""
    mark: list[VirtualMachineInstance] = []
    unmark: list[VirtualMachineInstance] = []
    for vmi in (guest.vmi for guest in guests):
        wanted, there = is_outdated(vmi, version), OUTDATED_LAUNCHER in vmi.metadata.labels
        if wanted != there:
            (mark if wanted else unmark).append(vmi)
    return mark, unmark


def _count_joining_places(guests: Sequence[Guest], rules: Rules) -> int:
    """How many more guests may move for their Pods: together not more than half of all places, as none may be able to
    come where its network is, and updates go on beside them."""
    ours = [each for guest in guests for each in guest.migrations]
    under_way = [each for each in ours if not each.metadata.labels.keys().isdisjoint(_POD_CHANGES)]
    return max(1, rules.places // 2) - sum(1 for each in under_way if _takes_place(each))


def _takes_place(migration: VirtualMachineInstanceMigration) -> bool:
    """Whether it counts for the limit: it has begun, or is ours. Others' may wait for a guest that never runs."""
    is_begun = migration.status.phase not in ("", "Pending")
    return not migration.is_final and (is_begun or is_ours(migration, UPDATE_MIGRATION))


def _find_next_look(
    waits: Sequence[Wait], pause: Pause | None, evictions: Evictions, has_more_marks: bool, has_work: bool
) -> float | None:
    if has_more_marks:
        return _MARKS_SECONDS
    if not has_work and not waits:
        return None
    moments = [_ROUND_SECONDS, evictions.next_batch, *(wait.seconds for wait in waits)]
    moments += [] if pause is None else [pause.seconds]
    return min(moment for moment in moments if moment > 0)


def _by_name(guest: Guest) -> tuple[str, str]:
    return guest.vmi.metadata.namespace, guest.vmi.metadata.name
