"""A VM that moves with its disks: claims are made for them, and the VM is changed to name them.

Called by `kvedge migrate --with-disks`, and `--storage-class`. It has the rights of its user. What it has made it
removes again when a later step is refused, as long as nothing refers to it.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from kvedge.client.errors import NotFoundError, RefusedError, TimedOutError
from kvedge.client.random_names import random_letters
from kvedge.client.session import Session, check_name
from kvedge.client.vm_wait import Progress
from kvedge.kube.errors import KubeError, NotFound, Unavailable
from kvedge.kube.kube_client import Preconditions
from kvedge.kube.patches import JsonPatch, content_type, document
from kvedge.resources.codec import decode, encode
from kvedge.resources.disks.moved_places import is_moved_place
from kvedge.resources.disks.moved_volumes import VOLUMES_CHANGE
from kvedge.resources.disks.volume_facts import claims as claims_of
from kvedge.resources.meta import condition
from kvedge.resources.moves.class_moves import plan_class_move
from kvedge.resources.moves.disk_moves import (
    MOVED_FROM,
    DiskMove,
    Exchange,
    NoMove,
    moved_name,
    plan_disk_move,
    plan_return,
)
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

# Somebody who writes the VM all the time is followed for so many tries.
_TRIES: Final = 3
_PAUSE_SECONDS: Final = 0.2
_LOOK_SECONDS: Final = 0.5


class Moved(Struct, frozen=True):
    """What was asked for."""

    vm: str
    exchanges: tuple[Exchange, ...]

    def describe(self) -> list[str]:
        """Each disk, and the claims that it leaves and gets."""
        return [f"  {each.volume}: from claim {each.old} to {each.claim.metadata.name}" for each in self.exchanges]

    def describe_left(self) -> str:
        """Which claims are left behind, and how they are deleted."""
        fillers = [each.data_volume for each in self.exchanges if each.data_volume]
        plain = [each.old for each in self.exchanges if not each.data_volume]
        names = ", ".join(each.old for each in self.exchanges)
        calls = [f"`kvedge delete dv {' '.join(fillers)}`"] if fillers else []
        calls += [f"`kvedge delete pvc {' '.join(plain)}`"] if plain else []
        what = f"claim {names} still takes" if len(self.exchanges) == 1 else f"claims {names} still take"
        return f"the old {what} space, with the data of before: {' and '.join(calls)} to be rid of it"


def move_disks(session: Session, name: str, *, dry_run: bool, classes: Mapping[str, str] | None = None) -> Moved:
    """Make the claims and change the VM; nothing is left of a step that is refused.

    With `classes` the disks move to other storage classes, see `plan_class_move`.

    Raises:
        NotFoundError: when there is no such VM, or it does not run.
        RefusedError: when its disks cannot move along, with the reason.
        KubeError: when the server refuses a step.
    """
    for attempt in range(_TRIES):
        vm, plan = _plan(session, check_name(name), classes)
        made: list[str] = []
        try:
            for each in plan.exchanges:
                made.append(_create(session, each.claim, dry_run=dry_run))
            _change(session, vm, plan, dry_run=dry_run)
        except KubeError as error:
            if dry_run:
                raise
            is_changed = _undo(session, vm, plan, made, error)
            if is_changed is None:
                # The answer was lost, and the change was made.
                return Moved(name, plan.exchanges)
            if is_changed and attempt + 1 < _TRIES:
                time.sleep(_PAUSE_SECONDS)
                continue
            raise
        break
    return Moved(name, plan.exchanges)


def put_back(session: Session, name: str, *, dry_run: bool) -> list[str]:
    """Have a VM name the claims again that its guest uses, while their exchange is under way: the claims that it drops.

    Without that the next migration would follow the one that is canceled.

    Raises:
        KubeError: when the server refuses; the VM is as it was.
    """
    client, namespace = session.client, session.namespace
    try:
        vm = client.get(VirtualMachine, namespace, check_name(name))
        vmi = client.get(VirtualMachineInstance, namespace, name)
    except NotFound:
        return []
    ops, dropped = plan_return(vm, vmi)
    if dropped:
        patch = JsonPatch(ops)
        path = vm.KIND.path(namespace, name)
        client.request("PATCH", path, document(patch), _query(dry_run=dry_run), content_type(patch))
    return dropped


def _undo(session: Session, vm: VirtualMachine, plan: DiskMove, made: list[str], error: KubeError) -> bool | None:
    """Remove what was made for a change that was refused: whether somebody else has changed the VM meanwhile.

    None, and nothing is removed, where the VM names the new claims all the same.
    """
    claims = [each.claim.metadata.name for each in plan.exchanges]
    try:
        now = session.client.get(VirtualMachine, session.namespace, vm.metadata.name)
    except KubeError as unread:
        raise RefusedError(
            f"{error}; and whether VM {vm.metadata.name} names the new claims is not known ({unread}): if it does not,"
            f" `kvedge delete pvc {' '.join(claims)}` removes them"
        ) from error
    volumes = now.spec.template.spec.volumes if now.spec.template is not None else []
    if {claim for _, claim in claims_of(volumes)} & set(claims):
        return None
    if left := _remove(session, plan, made, is_answered=not isinstance(error, Unavailable)):
        raise RefusedError(f"{error}; left of it: `kvedge delete pvc {' '.join(left)}` removes it") from error
    return now.metadata.resource_version != vm.metadata.resource_version


def wait_until_exchanged(session: Session, moved: Moved, timeout: float, progress: Progress) -> None:
    """Until the guest uses its new claims.

    Raises:
        RefusedError: when it ended, or somebody has put other claims into the VM.
        TimedOutError: with how far it is.
    """
    wanted = {each.volume: each.claim.metadata.name for each in moved.exchanges}
    deadline = time.monotonic() + timeout
    while True:
        vm = session.client.get(VirtualMachine, session.namespace, moved.vm)
        try:
            vmi = session.client.get(VirtualMachineInstance, session.namespace, moved.vm)
        except NotFound as error:
            raise RefusedError(f"VM {moved.vm} has ended before its disks had moved") from error
        volumes = vm.spec.template.spec.volumes if vm.spec.template is not None else []
        named = {volume.name: claim for volume, claim in claims_of(volumes)}
        if any(named.get(volume) != claim for volume, claim in wanted.items()):
            raise RefusedError(f"VM {moved.vm} names other claims by now: its disks do not move")
        used = {volume.name: claim for volume, claim in claims_of(vmi.spec.volumes)}
        if all(used.get(volume) == claim for volume, claim in wanted.items()) and not vmi.status.migrated_volumes:
            return
        words = _describe_wait(vm, vmi)
        if time.monotonic() >= deadline:
            raise TimedOutError(f"the disks of VM {moved.vm} have not moved yet: {words}")
        progress.show(words)
        time.sleep(_LOOK_SECONDS)


def _describe_wait(vm: VirtualMachine, vmi: VirtualMachineInstance) -> str:
    copies = [entry.message for entry in vmi.status.volume_status if is_moved_place(entry.name) and entry.message]
    change = condition(vmi.status.conditions, VOLUMES_CHANGE)
    restart = condition(vm.status.conditions, "RestartRequired")
    told = [*copies, *(item.message for item in (change, restart) if item is not None and item.message)]
    return "; ".join(told) or "not seen by the controller yet"


def _plan(session: Session, name: str, classes: Mapping[str, str] | None) -> tuple[VirtualMachine, DiskMove]:
    client, namespace = session.client, session.namespace
    vm = client.get(VirtualMachine, namespace, name)
    try:
        vmi = client.get(VirtualMachineInstance, namespace, name)
    except NotFound as error:
        text = f"VM {name} does not run: disks move while the guest runs; a stopped VM starts where its claims are"
        raise NotFoundError(text) from error
    claims = {}
    for _, claim in claims_of(vmi.spec.volumes):
        with contextlib.suppress(NotFound):
            claims[claim] = client.get(PersistentVolumeClaim, namespace, claim)
    if classes is None:
        plan = plan_disk_move(vm, vmi, claims, lambda old: moved_name(old, random_letters()))
    else:
        plan = plan_class_move(vm, vmi, claims, classes, lambda old: moved_name(old, random_letters()))
        if isinstance(plan, NoMove):
            raise RefusedError(f"the disks of VM {name} do not move to another class: {plan.reason}")
    if isinstance(plan, NoMove):
        raise RefusedError(f"VM {name} does not move with its disks: {plan.reason}")
    return vm, plan


def _create(session: Session, claim: PersistentVolumeClaim, *, dry_run: bool) -> str:
    """Make it; its UID."""
    kind = PersistentVolumeClaim.KIND
    body = {"apiVersion": kind.api_version, "kind": kind.kind, **encode(claim)}
    made = session.client.request("POST", kind.path(session.namespace), body, _query(dry_run=dry_run))
    return decode(PersistentVolumeClaim, made).metadata.uid


def _change(session: Session, vm: VirtualMachine, plan: DiskMove, *, dry_run: bool) -> None:
    patch, path = JsonPatch(plan.ops), vm.KIND.path(session.namespace, vm.metadata.name)
    session.client.request("PATCH", path, document(patch), _query(dry_run=dry_run), content_type(patch))


def _query(*, dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}


def _remove(session: Session, plan: DiskMove, made: list[str], *, is_answered: bool) -> list[str]:
    """Delete the claims that were made, and one of which no answer came; the names of those that could not be."""
    left = []
    for each in plan.exchanges:
        name = each.claim.metadata.name
        try:
            there = session.client.get(PersistentVolumeClaim, session.namespace, name).metadata
            is_ours = there.uid in made or (not is_answered and there.annotations.get(MOVED_FROM) == each.old)
            if is_ours:
                session.client.delete(PersistentVolumeClaim, there.namespace, name, Preconditions(uid=there.uid))
        except NotFound:
            continue
        except KubeError:
            left.append(name)
    return left
