# Tests: kvedge/standalone/volumes/volume_matching.py, kvedge/standalone/volumes/volume_words.py
"""Which volume a claim gets, and what it says while it waits."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.standalone.volumes.claim_plan import (
    AskProvisioner,
    ClaimSeen,
    ClaimStep,
    NameVolume,
    Provision,
    SetStatus,
    TakeVolume,
    Tell,
    UseClass,
    plan_claim,
)
from kvedge.standalone.volumes.volume_words import SELECTED_NODE
from tests.unit.standalone.volumes.claims import bound_claim, claim, node, ref, storage_class, volume

WAITING = {"volumeBindingMode": "WaitForFirstConsumer"}


def plan(wanted: PersistentVolumeClaim, *volumes: Any, classes: Any = None) -> tuple[ClaimStep, ...]:
    return plan_claim(ClaimSeen(wanted, volumes, [storage_class()] if classes is None else classes, node()))


def told(steps: tuple[ClaimStep, ...]) -> list[tuple[str, str]]:
    return [(step.reason, step.message) for step in steps if isinstance(step, Tell)]


def test_a_claim_of_our_class_has_a_volume_made() -> None:
    assert Provision(storage_class()) in plan(claim())


def test_a_volume_names_the_claim_before_the_claim_names_it() -> None:
    found = volume()
    assert plan(claim(), found) == (TakeVolume(found), NameVolume(found), SetStatus("Bound", found))


def test_a_bind_that_was_interrupted_goes_on_with_the_same_volume() -> None:
    taken, smaller = volume("b", claimRef=ref()), volume("a")
    assert plan(claim(), smaller, taken) == (NameVolume(taken), SetStatus("Bound", taken))


@pytest.mark.parametrize(
    "other",
    [
        pytest.param({"size": "512Mi"}, id="too small"),
        pytest.param({"storageClassName": "fast"}, id="of another class"),
        pytest.param({"accessModes": ["ReadOnlyMany"]}, id="of another access mode"),
        pytest.param({"volumeMode": "Block"}, id="of another volume mode"),
        pytest.param({"claimRef": ref("other-uid")}, id="of an earlier claim of this name"),
        pytest.param({"phase": "Released"}, id="released, its data still there"),
        pytest.param(
            {"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchFields": [
                {"key": "metadata.name", "operator": "In", "values": ["elsewhere"]}]}]}}},
            id="on another node",
        ),
    ],
)  # fmt: skip
def test_a_volume_that_does_not_suit_is_left_alone(other: dict[str, Any]) -> None:
    assert not any(isinstance(step, TakeVolume) for step in plan(claim(), volume(**other)))


def test_of_several_volumes_the_smallest_is_bound() -> None:
    large, small = volume("a", "9Gi"), volume("b", "2Gi")
    assert plan(claim(), large, small)[0] == TakeVolume(small)


def test_a_selector_chooses_by_labels_and_has_no_volume_made() -> None:
    plain, labelled = volume("a"), volume("b", "2Gi")
    labelled.metadata.labels = {"disk": "ssd"}
    wanted = claim(selector={"matchLabels": {"disk": "ssd"}})
    assert plan(wanted, plain, labelled)[0] == TakeVolume(labelled)
    assert told(plan(wanted, plain))[0][0] == "ProvisioningFailed"


def test_a_claim_waits_for_its_first_consumer_until_the_scheduler_has_chosen() -> None:
    waiting = [storage_class(**WAITING)]
    assert told(plan(claim(), volume(), classes=waiting)) == [
        ("WaitForFirstConsumer", "waiting for first consumer to be created before binding")
    ]
    assert Provision(waiting[0]) in plan(claim(notes={SELECTED_NODE: "box"}), classes=waiting)
    kept = volume(claimRef=ref(""))
    assert plan(claim(), kept, classes=waiting)[0] == TakeVolume(kept)


def test_a_claim_without_a_class_gets_the_newest_default_one_also_when_that_comes_later() -> None:
    old = storage_class("old", default=True, created="2026-01-01T00:00:00Z")
    new = storage_class("new", default=True, created="2026-02-01T00:00:00Z")
    assert plan(claim(storageClassName=None), classes=[old, new]) == (UseClass("new"),)
    assert told(plan(claim(storageClassName=None), classes=[]))[0][0] == "FailedBinding"


def test_the_empty_class_never_becomes_the_default_one() -> None:
    steps = plan(claim(storageClassName=""), classes=[storage_class(default=True)])
    assert told(steps)[0][0] == "FailedBinding"


def test_a_claim_that_a_populator_fills_says_that_it_waits_and_gets_nothing() -> None:
    source = {"apiGroup": "example.com", "kind": "Archive", "name": "x"}
    said = ("WaitForPopulator", "waiting for a populator that fills it from kind Archive of example.com")
    assert told(plan(claim(dataSourceRef=source))) == [said]


def test_a_claim_for_a_populator_of_cdi_names_the_data_volume_that_does_the_same() -> None:
    source = {"apiGroup": "cdi.kubevirt.io", "kind": "VolumeImportSource", "name": "x"}
    ((reason, text),) = told(plan(claim(dataSourceRef=source)))
    assert reason == "UnrecognizedDataSourceKind"
    assert text.startswith(
        "spec.dataSourceRef: kvedge has no populator for kind VolumeImportSource of cdi.kubevirt.io: "
    )


def test_a_claim_of_a_foreign_class_names_its_provisioner() -> None:
    foreign = [storage_class(provisioner="example.com/nfs")]
    steps = plan(claim(), classes=foreign)
    assert steps[0] == AskProvisioner("example.com/nfs")
    assert told(steps)[0][0] == "ExternalProvisioning"


def test_a_claim_whose_class_has_no_provisioner_is_refused_as_kubernetes_does_it() -> None:
    none = [storage_class(provisioner="kubernetes.io/no-provisioner")]
    ((reason, text),) = told(plan(claim(), classes=none))
    assert reason == "ProvisioningFailed"
    assert text.startswith("no volume plugin matched name: kubernetes.io/no-provisioner; make a PersistentVolume")


@pytest.mark.parametrize(
    ("parameters", "word"),
    [
        ({"type": "lvm-thin", "place": "fast"}, "parameters.type: a thin pool of LVM is a place of the setting"),
        ({"vgname": "ssd"}, "parameters.vgname: a thin pool of LVM is a place of the setting volume-places"),
        ({"driver": "lvm", "volume-group": "ssd", "thin-pool": "thin"}, "parameters.driver: a thin pool of LVM is"),
        ({"fsType": "xfs"}, "parameters.fsType: unknown; the one parameter is place: make the class anew without it"),
    ],
    ids=["a kind", "a volume group", "another driver", "what nobody reads"],
)
def test_a_class_that_asks_for_what_there_is_not_makes_no_volume_and_says_so(
    parameters: dict[str, str], word: str
) -> None:
    steps = plan(claim(), classes=[storage_class("kvedge", parameters=parameters)])
    ((reason, text),) = told(steps)
    assert (reason, word in text) == ("ProvisioningFailed", True)
    assert not any(isinstance(step, Provision) for step in steps)


def test_a_claim_that_is_bound_needs_nothing() -> None:
    assert plan(bound_claim(), volume(claimRef=ref(), phase="Bound")) == ()


def test_a_claim_that_lost_its_volume_is_lost_once() -> None:
    assert told(plan(bound_claim()))[0][0] == "ClaimLost"
    assert told(plan(bound_claim(), volume(claimRef=ref("somebody-else"))))[0][0] == "ClaimMisbound"
    lost = bound_claim()
    lost.status.phase = "Lost"
    assert plan(lost) == ()


def test_a_claim_that_names_a_volume_gets_that_one_or_says_why_not() -> None:
    named = claim(volumeName="pv")
    assert plan(named, volume())[0] == TakeVolume(volume())
    assert told(plan(named)) == [("FailedBinding", 'volume "pv" not found')]
    taken = volume(claimRef=ref("other", "other"))
    assert told(plan(named, taken)) == [("FailedBinding", 'volume "pv" already bound to a different claim.')]
    small = volume(size="1Mi")
    assert told(plan(named, small)) == [
        ("VolumeMismatch", 'Cannot bind to requested volume "pv": requested PV is too small')
    ]


def test_a_claim_that_is_being_deleted_is_bound_to_nothing_new() -> None:
    wanted = claim()
    wanted.metadata.deletion_timestamp = "2026-01-01T00:00:00Z"
    assert plan(wanted, volume()) == ()
