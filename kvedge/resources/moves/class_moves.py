"""Disks of a running VM that move to another storage class: the new claims, and the change of the VM that names them.

Called by `kvedge migrate --storage-class`. Pure. What becomes of the change is the controllers' to say: on the only
node the disks move in place, and otherwise the guest moves with them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kvedge.resources.disks.volume_facts import claims as claims_of
from kvedge.resources.moves.disk_moves import DiskMove, NoMove, find_busy, judge_volume, make_move
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance


def plan_class_move(
    vm: VirtualMachine,
    vmi: VirtualMachineInstance,
    claims: Mapping[str, PersistentVolumeClaim],
    classes: Mapping[str, str],
    name: Callable[[str], str],
) -> DiskMove | NoMove:
    """Claims of other classes: `classes` has one for each volume that moves, by name, and one under "" for all others
    that can. `claims` are the VMI's by name, `name` makes the name of a new one.
    """
    if (reason := find_busy(vm, vmi)) is not None:
        return NoMove(reason)
    volumes = {volume.name: (volume, claim) for volume, claim in claims_of(vmi.spec.volumes)}
    unknown = sorted(each for each in classes if each and each not in volumes)
    if unknown:
        return NoMove(f"it has no volume {unknown[0]} on a claim: it has {', '.join(sorted(volumes)) or 'none'}")
    moved = []
    for volume, old in volumes.values():
        wanted = classes.get(volume.name) or classes.get("")
        claim = claims.get(old)
        if wanted is None or (claim is not None and claim.spec.storage_class_name == wanted):
            continue
        reason = f"volume {volume.name} is a layer on its claim" if volume.ephemeral else judge_volume(vmi, volume)
        if reason is not None and volume.name in classes:
            return NoMove(reason)
        if reason is not None:
            continue
        if claim is None:
            return NoMove(f"claim {old} was not found")
        moved.append((volume.name, claim, name(old), wanted))
    if not moved:
        return NoMove("no disk of it that can move is on a claim of another class")
    return make_move(vm, moved)
