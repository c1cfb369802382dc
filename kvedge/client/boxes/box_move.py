"""A running VM moves from one box to another, with its disks: what the command makes on both, and what it takes away.

Called by `kvedge migrate --to`. It has its user's rights on both. Until the source's half of the migration is made,
nothing has changed for the guest. From then on both boxes go on by themselves, whether or not anybody waits here.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Final

from msgspec import Struct

from kvedge.client.boxes.box_credentials import drop_credential, give_credential
from kvedge.client.boxes.move_checks import MovePlan, check_move
from kvedge.client.boxes.moved_vm import MADE_FOR, claim_document, copied_document, migration_document, vm_document
from kvedge.client.errors import RefusedError, TimedOutError
from kvedge.client.migrations import list_migrations
from kvedge.client.session import Session, check_name
from kvedge.client.vm_wait import Progress
from kvedge.kube.errors import Conflict, KubeError, NotFound, Unavailable
from kvedge.kube.kube_client import Preconditions
from kvedge.kube.patches import MergePatch
from kvedge.resources.codec import JsonObject
from kvedge.resources.meta import condition
from kvedge.resources.moves.crossing import MOVED_TO, MOVES_TO, TARGET_IS_LOST, WAIT_AS_RECEIVER
from kvedge.resources.types.core import Event
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance

_POLL_SECONDS: Final = 0.5
# The target's Pod has its image and its claims by then.
_READY_SECONDS: Final = 180.0


class BoxMove(Struct, frozen=True):
    """One VM's way; `place` is how the target is reached, as HOST:PORT."""

    source: Session
    target: Session
    name: str
    place: str
    migration_id: str

    @property
    def host(self) -> str:
        """What people call the target."""
        return self.place.rpartition(":")[0]


def find_move(source: Session, target: Session, name: str, place: str) -> BoxMove | None:
    """The VM's move that is under way already, or None."""
    for each in list_migrations(source, name):
        if each.spec.send_to is not None and not each.is_final:
            return BoxMove(source, target, name, each.spec.send_to.connect_url or place, each.job)
    return None


def resume(move: BoxMove) -> None:
    """Renew the credential of a move that is under way: the boxes go on by themselves.

    Raises as :func:`begin`.
    """
    vmi = move.target.client.get(VirtualMachineInstance, move.source.namespace, move.name)
    state = vmi.status.migration_state
    if state is None or state.migration_uid != move.migration_id:
        raise RefusedError(f"VM {move.name} moves to another box already, to {move.host}")
    give_credential(move.source, move.target, move.migration_id, state.target_node)


def begin(
    source: Session,
    target: Session,
    name: str,
    place: str,
    *,
    storage_class: str | None,
    progress: Callable[[], Progress],
    dry_run: bool,
) -> BoxMove:
    """Check both boxes, make the VM on the target, and have its guest leave; nothing is left of what is refused.

    Raises:
        NotFoundError: when there is no such VM.
        RefusedError: with what is in the way.
        TimedOutError: when the target does not get ready.
        KubeError: when one of the API servers refuses or does not answer.
    """
    plan = check_move(source, target, check_name(name), storage_class)
    move = BoxMove(source, target, name, place, str(uuid.uuid4()))
    if dry_run:
        return move
    try:
        _make_target(move, plan)
        _wait_ready(move, progress)
        give_credential(source, target, move.migration_id, plan.node)
    except BaseException:
        undo(move)
        raise
    half: JsonObject = {"sendTo": {"migrationID": move.migration_id, "connectURL": place}}
    try:
        source.client.request(
            "POST",
            VirtualMachineInstanceMigration.KIND.path(source.namespace),
            migration_document(name, source.namespace, half),
        )
    except Unavailable as error:
        # It may have been made all the same: then the target must stay.
        text = f"{error}; whether VM {name} moves is not known: give the command again"
        raise RefusedError(text) from error
    except KubeError:
        undo(move)
        raise
    return move


def undo(move: BoxMove) -> None:
    """Take away what was made on the target for a guest that does not come, and the credential."""
    _take_away(move.target, move.source.namespace, move.migration_id)
    drop_credential(move.source, move.migration_id)


def _take_away(target: Session, namespace: str, migration_id: str) -> None:
    """Of a guest whose source lives and keeps it: what cannot be taken away now stays."""
    client, selector = target.client, f"{MADE_FOR}={migration_id}"
    with contextlib.suppress(KubeError):
        for vm in client.list(VirtualMachine, namespace, selector):
            client.delete(VirtualMachine, namespace, vm.metadata.name)
    with contextlib.suppress(KubeError):
        for claim in client.list(PersistentVolumeClaim, namespace, selector):
            client.delete(PersistentVolumeClaim, namespace, claim.metadata.name)
    for resource in ("secrets", "configmaps"):
        path = f"/api/v1/namespaces/{namespace}/{resource}"
        with contextlib.suppress(KubeError):
            for item in client.request("GET", path, query={"labelSelector": selector}).get("items") or ():
                client.request("DELETE", f"{path}/{item['metadata']['name']}")


def forget(session: Session, name: str, *, delete_claims: bool = False) -> str:
    """Have a VM start here again that has moved, or was to move; or take away one whose guest was to come here.

    The claims that were made for such a guest stay, as they may hold the last copy of its disks; with `delete_claims`
    they go. Returns what was done, "" when nothing was to do.

    Raises:
        RefusedError: when the guest has left the other box, or has not left this one.
        KubeError: when the server refuses; it may be given again.
    """
    vm = session.client.get(VirtualMachine, session.namespace, check_name(name))
    if vm.run_strategy == WAIT_AS_RECEIVER and (migration_id := vm.metadata.labels.get(MADE_FOR, "")):
        return _forget_awaited(session, vm, migration_id, delete_claims=delete_claims)
    if delete_claims:
        raise RefusedError(f"VM {name} awaits no guest from another box: no claims were made for it here")
    if not {MOVES_TO, MOVED_TO} & set(vm.metadata.annotations):
        return ""
    freed = f"VM {name} may start here again"
    active = [each for each in list_migrations(session, name) if each.spec.send_to is not None and not each.is_final]
    if active:
        _declare_lost(session, name, active[0])
        return freed
    marks: JsonObject = {MOVES_TO: None, MOVED_TO: None}
    session.client.patch(VirtualMachine, session.namespace, name, MergePatch({"metadata": {"annotations": marks}}))
    return freed


def _forget_awaited(session: Session, vm: VirtualMachine, migration_id: str, *, delete_claims: bool) -> str:
    """The guest has never run here; a source that lives hears that it is to stay. What was done is said."""
    namespace, name = session.namespace, vm.metadata.name
    with contextlib.suppress(NotFound):
        vmi = session.client.get(VirtualMachineInstance, namespace, name)
        state = vmi.status.migration_state
        has_left = state is not None and (state.target_taken_timestamp or state.source_node_domain_gone_timestamp)
        if vmi.status.phase != "WaitingForSync" or has_left:
            raise RefusedError(f"the guest of VM {name} has left the other box, and runs here, or is about to")
        # In the version that was looked at: one that is taken meanwhile stays.
        seen = Preconditions(vmi.metadata.uid, vmi.metadata.resource_version)
        try:
            session.client.delete(VirtualMachineInstance, namespace, name, seen)
        except Conflict as error:
            raise RefusedError(f"something is heard of the guest of VM {name}; look at it, and try again") from error
    claims = _release_claims(session, migration_id, delete=delete_claims)
    for path in _copied_paths(session, namespace, migration_id):
        with contextlib.suppress(NotFound):
            session.client.request("DELETE", path)
    # Last: as long as it is there, this may be given again.
    with contextlib.suppress(NotFound):
        session.client.delete(VirtualMachine, namespace, name)
    done = f"VM {name} awaits its guest no more: it is gone here"
    if not claims:
        return done
    names = ", ".join(claims)
    if delete_claims:
        return f"{done}, with the claims that were made for it: {names}"
    return (
        f"{done}; the claims that were made for it stay, as they may hold the last copy of its disks: {names}. Once"
        f" nobody needs that, `kvedge delete pvc {' '.join(claims)}` removes them"
    )


def _release_claims(session: Session, migration_id: str, *, delete: bool) -> list[str]:
    """The names of the claims that were made for a guest; they are deleted, or are their user's alone from now on."""
    client, namespace = session.client, session.namespace
    unmarked: JsonObject = {"metadata": {"labels": {MADE_FOR: None}}}
    names = []
    for claim in client.list(PersistentVolumeClaim, namespace, f"{MADE_FOR}={migration_id}"):
        with contextlib.suppress(NotFound):
            if delete:
                client.delete(PersistentVolumeClaim, namespace, claim.metadata.name)
            else:
                client.patch(PersistentVolumeClaim, namespace, claim.metadata.name, MergePatch(unmarked))
            names.append(claim.metadata.name)
    return names


def _copied_paths(session: Session, namespace: str, migration_id: str) -> Iterator[str]:
    """The paths of the Secrets and ConfigMaps that were copied for a guest."""
    for resource in ("secrets", "configmaps"):
        path = f"/api/v1/namespaces/{namespace}/{resource}"
        found = session.client.request("GET", path, query={"labelSelector": f"{MADE_FOR}={migration_id}"})
        yield from (f"{path}/{item['metadata']['name']}" for item in found.get("items") or ())


def _declare_lost(session: Session, name: str, half: VirtualMachineInstanceMigration) -> None:
    """Its user vouches that a guest which has left runs nowhere; the controller then ends its run, and frees the VM."""
    state = session.client.get(VirtualMachineInstance, session.namespace, name).status.migration_state
    if state is None or state.source_node_domain_gone_timestamp is None:
        raise RefusedError(f"VM {name} has not left yet: `kvedge migrate-cancel {name}` has its guest stay")
    if state.target_taken_timestamp is not None:
        raise RefusedError(f"the other box has taken the guest of VM {name}: wait until its run here is over")
    marks: JsonObject = {TARGET_IS_LOST: "true"}
    body: JsonObject = {"metadata": {"annotations": marks}}
    session.client.patch(VirtualMachineInstanceMigration, session.namespace, half.metadata.name, MergePatch(body))


def _make_target(move: BoxMove, plan: MovePlan) -> None:
    client, namespace, uid = move.target.client, move.source.namespace, move.migration_id
    for named, found in plan.missing:
        client.request("POST", f"/api/v1/namespaces/{namespace}/{named.resource}", copied_document(found, uid))
    for claim in plan.claims:
        made = claim_document(claim, plan.classes[claim.metadata.name], uid)
        client.request("POST", PersistentVolumeClaim.KIND.path(namespace), made)
    client.request("POST", VirtualMachine.KIND.path(namespace), vm_document(plan.document, plan.vm, plan.vmi, uid))
    _wait_for_vmi(move)
    half: JsonObject = {"receive": {"migrationID": uid}}
    client.request(
        "POST",
        VirtualMachineInstanceMigration.KIND.path(namespace),
        migration_document(move.name, namespace, half),
    )


def _wait_for_vmi(move: BoxMove) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while _target_vmi(move) is None:
        if time.monotonic() > deadline:
            raise TimedOutError(f"the target has made no VMI {move.name}{_newest_warning(move, move.name)}")
        time.sleep(_POLL_SECONDS)


def _wait_ready(move: BoxMove, progress: Callable[[], Progress]) -> None:
    """Until a launcher waits on the target; nothing has changed for the guest before."""
    deadline = time.monotonic() + _READY_SECONDS
    with progress() as shown:
        while True:
            vmi = _target_vmi(move)
            state = None if vmi is None else vmi.status.migration_state
            if state is not None and state.migration_uid == move.migration_id:
                return
            half = _half(move.target, move)
            if half is not None and half.is_final:
                raise RefusedError(f"the target cannot take VM {move.name}{_newest_warning(move, half.metadata.name)}")
            why = _describe_wait(vmi, half)
            shown.show(f"{move.name}: the target gets ready{why}")
            if time.monotonic() > deadline:
                named = half.metadata.name if half is not None else move.name
                raise TimedOutError(
                    f"the target is not ready for VM {move.name} after {_READY_SECONDS:.0f} s{why}"
                    f"{_newest_warning(move, named)}"
                )
            time.sleep(_POLL_SECONDS)


def _describe_wait(vmi: VirtualMachineInstance | None, half: VirtualMachineInstanceMigration | None) -> str:
    told = [item.message for item in (half.status.conditions if half is not None else ()) if item.message]
    waits = None if vmi is None else condition(vmi.status.conditions, "Synchronized")
    if waits is not None and waits.status == "False" and waits.message:
        told.append(waits.message)
    phase = half.status.phase if half is not None else ""
    return f": {told[-1]}" if told else f" ({phase})" if phase else ""


def _target_vmi(move: BoxMove) -> VirtualMachineInstance | None:
    with contextlib.suppress(NotFound, Unavailable):
        return move.target.client.get(VirtualMachineInstance, move.source.namespace, move.name)
    return None


def _half(session: Session, move: BoxMove) -> VirtualMachineInstanceMigration | None:
    found = session.client.list(VirtualMachineInstanceMigration, move.source.namespace)
    return next((each for each in found if each.job == move.migration_id), None)


def _newest_warning(move: BoxMove, name: str) -> str:
    """The newest warning of an object on the target, behind a colon."""
    with contextlib.suppress(KubeError):
        selector = f"type=Warning,involvedObject.name={name}"
        events = move.target.client.list(Event, move.source.namespace, field_selector=selector)
        newest = max(events, key=lambda event: event.last_timestamp or "", default=None)
        return f": {newest.message}" if newest is not None else ""
    return ""
