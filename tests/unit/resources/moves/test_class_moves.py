"""Which disks of a VM get claims of another class, and what is refused by name."""

from __future__ import annotations

import pytest

from kvedge.resources.moves.class_moves import plan_class_move
from kvedge.resources.moves.disk_moves import DiskMove, NoMove
from tests.unit.resources.moves.test_disk_moves import CLAIMS, a_claim, a_run, a_vm


def planned(classes: dict[str, str], vmi: object = None, claims: object = None) -> DiskMove | NoMove:
    return plan_class_move(a_vm(), vmi or a_run(), claims or CLAIMS, classes, lambda old: f"{old}-moved-x")  # type: ignore[arg-type]


def found(classes: dict[str, str]) -> dict[str, tuple[str, str | None]]:
    move = planned(classes)
    assert isinstance(move, DiskMove)
    return {each.volume: (each.old, each.claim.spec.storage_class_name) for each in move.exchanges}


def test_all_disks_move_to_a_class() -> None:
    wanted = {"root": ("web-root", "slow"), "data": ("data", "slow"), "shared": ("shared", "slow")}
    assert found({"": "slow"}) == wanted
    assert found({"": "slow", "data": "slower"}) == wanted | {"data": ("data", "slower")}
    # Those of the class stay where they are.
    assert found({"": "fast", "data": "slow"}) == {"data": ("data", "slow")}


def test_a_claim_of_another_class_is_as_the_old_one() -> None:
    move = planned({"data": "slow"})
    assert isinstance(move, DiskMove)
    (each,) = move.exchanges
    spec = each.claim.spec
    assert (spec.volume_mode, spec.access_modes, spec.resources.requests) == (
        "Block",
        ["ReadWriteOnce"],
        {"storage": "2Gi"},
    )


def test_what_does_not_move_is_left_out_unless_it_was_named() -> None:
    run = a_run(disks={"data": {"disk": {}, "shareable": True}})
    move = planned({"": "slow"}, run)
    assert isinstance(move, DiskMove)
    assert {each.volume for each in move.exchanges} == {"root", "shared"}
    refused = planned({"data": "slow"}, run)
    assert isinstance(refused, NoMove)
    assert "volume data is shareable" in refused.reason


@pytest.mark.parametrize(
    ("classes", "reason"),
    [
        ({"": "fast"}, "no disk of it that can move is on a claim of another class"),
        ({"none": "slow"}, "it has no volume none on a claim: it has data, root, shared"),
    ],
)
def test_what_is_refused(classes: dict[str, str], reason: str) -> None:
    assert planned(classes) == NoMove(reason)


def test_a_claim_that_is_gone_and_a_vm_that_does_not_run_are_told() -> None:
    assert planned({"data": "slow"}, claims={"shared": a_claim("shared")}) == NoMove("claim data was not found")
    refused = planned({"data": "slow"}, a_run(phase="Scheduled"))
    assert isinstance(refused, NoMove)
    assert "disks move while the guest runs" in refused.reason
