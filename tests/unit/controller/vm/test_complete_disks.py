# Tests: kvedge/controller/vm/claim_move_plan.py, kvedge/controller/vm/vm_plan.py
"""Whatever happens in whatever order, a VM starts on no disk that is incomplete, or stale."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kvedge.controller.vm.claim_changes import ClaimSights
from kvedge.controller.vm.vm_actions import CreateVmi, DeleteVmi, Hotplug, PatchVm, PatchVmi, PatchVmStatus, PutBack
from kvedge.controller.vm.vm_plan import plan_vm
from kvedge.resources.codec import decode, encode
from kvedge.resources.disks.moved_volumes import MANUAL_RECOVERY_REQUIRED, as_moved, destinations
from kvedge.resources.disks.volume_facts import claim_of
from kvedge.resources.meta import condition
from kvedge.resources.moves.disk_moves import MOVED_FROM
from kvedge.resources.names import VM_FINALIZER
from kvedge.resources.types.migrations import MigrationState
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.resources.types.volumes import Volume
from tests.support.builders import NOW, a_claim, patched
from tests.unit.controller.vm.claim_pairs import a_pair, on_claim, sights

CLAIMS = ("a", "b", "c")
STEPS = 60


class World:
    """A VM whose one disk goes from claim to claim; `bad` are those that no guest may start on.

    With `put_back` the claims were made for it to leave a node, and the old ones are put back without its user.
    """

    def __init__(self, seed: int, put_back: bool = False) -> None:
        self.put_back = put_back
        self.random = random.Random(seed)
        self.vm: VirtualMachine
        self.vmi: VirtualMachineInstance | None
        self.vm, self.vmi = a_pair({"root": "a"}, {"root": "a"})
        self.bad: set[str] = set()
        self.starts = self.moves = self.blocks = self.returns = 0

    def goes_on(self) -> None:
        self.random.choice(
            (self.user_edits, self.controller_works, self.controller_works, self.controller_works, self.guest_begins,
             self.guest_begins, self.guest_moves, self.guest_moves, self.guest_stays, self.run_ends, self.run_is_gone)
        )()  # fmt: skip

    def wanted(self) -> str | None:
        assert self.vm.spec.template is not None
        return claim_of(self.vm.spec.template.spec.volumes[0])

    def is_blocked(self) -> bool:
        return condition(self.vm.status.conditions, MANUAL_RECOVERY_REQUIRED) is not None

    def user_edits(self) -> None:
        """While a guest runs, or to recover."""
        if (self.vmi is not None and not self.vmi.is_final) or self.is_blocked():
            assert self.vm.spec.template is not None
            self.vm.spec.template.spec.volumes = [decode(Volume, on_claim("root", self.random.choice(CLAIMS)))]

    def controller_works(self) -> None:
        """One pass, which may break off after any of its writes."""
        actions = plan_vm(self.vm, self.vmi, NOW, 0.0, Hotplug(claims=self.seen())).actions
        for action in actions[: self.random.randint(0, len(actions))]:
            self.carry_out(action)
        self.blocks += self.is_blocked()

    def seen(self) -> ClaimSights:
        claims = [a_claim(name) for name in CLAIMS]
        for claim in claims if self.put_back else ():
            claim.metadata.annotations[MOVED_FROM] = self.random.choice(CLAIMS)
        return sights(*claims)

    def carry_out(self, action: Any) -> None:
        match action:
            case PatchVm(body) | PatchVmStatus(body) | PutBack(body):
                self.returns += isinstance(action, PutBack)
                self.vm = decode(VirtualMachine, patched(encode(self.vm), body))
            case PatchVmi(_, body):
                assert self.vmi is not None
                given_up = destinations(self.vmi)
                self.vmi = decode(VirtualMachineInstance, patched(encode(self.vmi), body))
                if not self.vmi.status.migrated_volumes:
                    # Its user knows what is left there.
                    self.bad -= {claim.claim_name for claim in given_up.values()}
            case DeleteVmi():
                assert self.vmi is not None
                self.vmi.metadata.deletion_timestamp = "2026-01-02T03:00:00Z"
            case CreateVmi(vmi):
                assert self.wanted() not in self.bad
                self.starts += 1
                vmi.metadata.uid, vmi.status.phase = f"run-{self.starts}", "Running"
                self.vmi = vmi

    def state(self) -> MigrationState:
        found = None if self.vmi is None else self.vmi.status.migration_state
        return found or MigrationState()

    def guest_begins(self) -> None:
        vmi = self.vmi
        if vmi is not None and not vmi.is_final and destinations(vmi) and not self.state().is_open:
            vmi.status.migration_state = MigrationState(migration_uid="m")
            self.bad |= {claim.claim_name for claim in destinations(vmi).values()}

    def guest_moves(self) -> None:
        if self.vmi is None or self.vmi.is_final or not self.state().is_open:
            return
        (old,), (new,) = (
            {claim_of(volume) or "" for volume in vmi.spec.volumes} for vmi in (self.vmi, as_moved(self.vmi))
        )
        self.bad = (self.bad | {old}) - {new}
        self.vmi = as_moved(self.vmi)
        self.vmi.status.migration_state = MigrationState(migration_uid="m", completed=True)
        self.moves += 1

    def guest_stays(self) -> None:
        if self.vmi is not None and self.state().is_open:
            self.vmi.status.migration_state = MigrationState(migration_uid="m", completed=True, failed=True)

    def run_ends(self) -> None:
        """Also while it moves: nobody has taken it over then."""
        if self.vmi is not None and self.random.random() < 0.2:
            self.vmi.status.phase = "Failed"

    def run_is_gone(self) -> None:
        """The VM lets it go first."""
        if self.vmi is not None and self.vmi.is_final and VM_FINALIZER not in self.vmi.metadata.finalizers:
            self.vmi = None


@pytest.mark.parametrize("put_back", [False, True])
def test_a_vm_starts_on_no_disk_that_is_incomplete_or_stale(put_back: bool) -> None:
    worlds = [World(seed, put_back) for seed in range(100)]
    for world in worlds:
        for _ in range(STEPS):
            world.goes_on()
    # The walks come to all of it.
    counts = [sum(getattr(world, what) for world in worlds) for what in ("starts", "moves", "blocks")]
    assert min(counts) > 10
    assert (sum(world.returns for world in worlds) > 10) is put_back
