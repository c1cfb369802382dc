# Tests: kvedge/standalone/box_state/recover_plan.py, kvedge/standalone/box_state/note_choice.py
"""What is made anew of disks whose objects are lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.codec import decode
from kvedge.resources.disks.state_claims import STATE_LABEL, TPM_ORIGIN, state_claim_name
from kvedge.resources.names import KEPT_TYPES
from kvedge.resources.types.core import Namespace
from kvedge.resources.types.devices import TpmDevice
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim
from kvedge.resources.types.vm import Matcher, VirtualMachine
from kvedge.resources.values.saved_memory import RESUME_MEMORY
from kvedge.standalone.box_state.note_choice import FoundNote
from kvedge.standalone.box_state.recover_plan import FoundVolume, Present, RecoverPlan, plan_recovery
from kvedge.standalone.volumes.kept_manifests import (
    KeptManifest,
    claim_note_name,
    make_claim_note,
    make_vm_note,
    read_note,
    vm_note_name,
)
from tests.support.builders import a_claim, small_vmi, vm_of

ROOT, DATA, OTHER = (f"0f5c0000-0000-4000-8000-00000000000{each}" for each in "abc")
VM = "0f5c0000-0000-4000-8000-00000000000d"
MIB = 1 << 20


def found(name: str, *, block: bool = False) -> FoundVolume:
    return FoundVolume(name, "kvedge", Path("/volumes") / name, 64 * MIB, block)


def the_vm(uid: str = VM, made: str = "2026-01-02T03:04:05Z", **spec: Any) -> VirtualMachine:
    template = {"metadata": {"name": "web-root"}, "spec": {"source": {"blank": {}}}}
    document = vm_of(small_vmi(), runStrategy="Always", dataVolumeTemplates=[template], **spec)
    document["metadata"] = {
        "name": "web", "namespace": "shop", "uid": uid, "creationTimestamp": made, "labels": {"tier": "shop"},
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "ours"},
    }  # fmt: skip
    document["spec"]["template"]["spec"]["volumes"] = [
        {"name": "root", "dataVolume": {"name": "web-root", "hotpluggable": True}},
        {"name": "data", "persistentVolumeClaim": {"claimName": "web-data"}},
        {"name": "dump", "memoryDump": {"claimName": "dumps"}},
    ]
    return decode(VirtualMachine, document)


def claim_note(uid: str, name: str) -> tuple[str, KeptManifest]:
    claim = a_claim(name, storage_class_name="kvedge", access_modes=["ReadWriteOnce"])
    claim.metadata.namespace, claim.metadata.uid = "shop", uid
    claim.metadata.labels = {"tier": "shop"}
    volume = decode(PersistentVolume, {"metadata": {"name": f"pvc-{uid}"}, "spec": {"capacity": {"storage": "64Mi"}}})
    note = read_note(make_claim_note(claim, volume, uid))
    assert note is not None
    return claim_note_name(uid), note


def vm_note(vm: VirtualMachine) -> tuple[str, KeptManifest]:
    note = read_note(make_vm_note(vm))
    assert note is not None
    return vm_note_name(vm.metadata.uid), note


NOTES = dict([claim_note(ROOT, "web-root"), claim_note(DATA, "web-data")])


def plan(*volumes: FoundVolume, present: Present | None = None, **notes: KeptManifest) -> RecoverPlan:
    return plan_of([FoundNote(each) for each in {**NOTES, **notes}.values()], *volumes, present=present)


def plan_of(notes: list[FoundNote], *volumes: FoundVolume, present: Present | None = None) -> RecoverPlan:
    return plan_recovery(volumes, notes, present or Present(), node="box", namespace="default")


def names(made: RecoverPlan, kind: type) -> list[str]:
    return [each.metadata.name for each in made.make if isinstance(each, kind)]


def test_volumes_stay_and_claims_have_their_names_and_sizes_again() -> None:
    made = plan(found(ROOT), found(DATA, block=True), present=Present(namespaces={"shop"}))
    assert names(made, PersistentVolume) == [f"pvc-{ROOT}", f"pvc-{DATA}"]
    assert names(made, PersistentVolumeClaim) == ["web-root", "web-data"]
    volume = next(each for each in made.make if isinstance(each, PersistentVolume))
    assert volume.spec.persistent_volume_reclaim_policy == "Retain"
    assert volume.spec.claim_ref is not None
    assert (volume.spec.claim_ref.namespace, volume.spec.claim_ref.name) == ("shop", "web-root")
    claims = [each for each in made.make if isinstance(each, PersistentVolumeClaim)]
    assert [each.spec.volume_mode for each in claims] == ["Filesystem", "Block"]
    assert claims[0].spec.volume_name == f"pvc-{ROOT}"
    assert claims[0].metadata.labels == {"tier": "shop"}
    assert made.told == []


def test_a_vm_comes_back_stopped_and_nothing_fills_its_disks_anew() -> None:
    made = plan(found(ROOT), found(DATA), **dict([vm_note(the_vm())]))
    assert names(made, Namespace) == ["shop"]
    assert isinstance(made.make[-1], VirtualMachine)
    vm = made.make[-1]
    assert vm.spec.run_strategy == "Halted"
    assert vm.spec.data_volume_templates == []
    assert vm.spec.template is not None
    volumes = {each.name: each.persistent_volume_claim for each in vm.spec.template.spec.volumes}
    assert volumes.keys() == {"root", "data"}
    assert volumes["root"] is not None
    assert (volumes["root"].claim_name, volumes["root"].hotpluggable) == ("web-root", True)
    assert vm.metadata.annotations == {"note": "ours", "kvedge.io/recovered": "true"}


def test_a_vm_comes_back_without_words_of_what_is_lost_with_the_box() -> None:
    vm = the_vm(instancetype={"name": "small", "revisionName": "web-small-v1beta1-1-1"})
    vm.metadata.annotations |= {KEPT_TYPES: "{}", RESUME_MEMORY: "memory 1"}
    back = plan(found(ROOT), found(DATA), **dict([vm_note(vm)])).make[-1]
    assert isinstance(back, VirtualMachine)
    assert back.spec.instancetype == Matcher(name="small")
    assert not {KEPT_TYPES, RESUME_MEMORY} & set(back.metadata.annotations)


def test_a_vm_that_comes_back_says_whose_tpm_it_has_as_its_uid_is_new() -> None:
    vm = the_vm()
    assert vm.spec.template is not None
    vm.spec.template.spec.domain.devices.tpm = TpmDevice(persistent=True)
    back = plan(found(ROOT), found(DATA), **dict([vm_note(vm)])).make[-1]
    assert isinstance(back, VirtualMachine)
    assert back.metadata.annotations[TPM_ORIGIN] == VM
    vm.metadata.annotations[TPM_ORIGIN] = "the first one's"
    back = plan(found(ROOT), found(DATA), **dict([vm_note(vm)])).make[-1]
    assert isinstance(back, VirtualMachine)
    assert back.metadata.annotations[TPM_ORIGIN] == "the first one's"


def test_a_vm_whose_disks_are_not_here_is_told_and_not_made() -> None:
    made = plan(found(ROOT), **dict([vm_note(the_vm())]))
    assert names(made, VirtualMachine) == []
    assert made.told == ["VM shop/web: its claims web-data are not here or in doubt: it is not made"]


def test_nothing_that_exists_is_made_or_has_its_disk_exchanged() -> None:
    present = Present(claims={("shop", "web-root"), ("shop", "web-data")}, vms={("shop", "web")}, namespaces={"shop"})
    made = plan(found(ROOT), present=present, **dict([vm_note(the_vm())]))
    assert made.make == []
    assert made.told == [f"volume {ROOT}: claim shop/web-root exists and has another: left alone"]


def test_a_disk_of_which_nothing_is_noted_becomes_a_claim_by_its_own_name() -> None:
    made = plan(found(OTHER), present=Present(namespaces={"default"}))
    assert names(made, PersistentVolumeClaim) == [f"recovered-{OTHER}"]
    assert names(made, Namespace) == []


def test_of_two_vms_of_one_name_the_latest_one_is_made() -> None:
    older = the_vm(VM[:-1] + "e", "2025-01-01T00:00:00Z")
    older.metadata.labels = {"tier": "old"}
    made = plan(found(ROOT), found(DATA), **dict([vm_note(older), vm_note(the_vm())]))
    assert [each.metadata.labels for each in made.make if isinstance(each, VirtualMachine)] == [{"tier": "shop"}]
    assert "an older one of that name" in made.told[0]


@pytest.mark.parametrize("content", [b"", b"{", b'{"format": 2}', b"[]", b'{"format": "x"}'])
def test_what_is_no_note_of_ours_is_none(content: bytes) -> None:
    assert read_note(content) is None


def test_a_note_with_a_broken_document_is_told_and_stops_nothing() -> None:
    made = plan(found(ROOT), **{vm_note_name(VM): KeptManifest(vm={"spec": {"template": 7}})})
    assert names(made, PersistentVolumeClaim) == ["web-root"]
    assert "cannot be read" in made.told[0]


def test_a_volume_that_is_just_made_for_a_claim_is_left_to_it() -> None:
    made = plan(found(OTHER), present=Present(uids={OTHER}, namespaces={"default"}))
    assert made.make == []
    assert made.told == [f"volume {OTHER} is being made for a claim that is there: left alone"]


def test_a_claim_that_keeps_a_vms_own_state_is_known_by_its_label_again() -> None:
    _, note = claim_note(OTHER, "persistent-state-for-web")
    assert note.claim is not None
    note.claim["metadata"]["labels"] = {STATE_LABEL: "web"}
    made = plan_of([FoundNote(note)], found(OTHER))
    [claim] = [each for each in made.make if isinstance(each, PersistentVolumeClaim)]
    assert (claim.metadata.name, claim.metadata.labels) == (state_claim_name("web"), {STATE_LABEL: "web"})


def test_an_old_disk_is_not_taken_under_the_name_of_a_newer_one_that_is_lost() -> None:
    old, new = claim_note(OTHER, "web-root")[1], claim_note(ROOT, "web-root")[1]
    notes = [FoundNote(old, "usb", 1.0), FoundNote(new, "kvedge", 2.0), FoundNote(claim_note(DATA, "web-data")[1])]
    notes.append(FoundNote(vm_note(the_vm())[1]))
    made = plan_of(notes, found(OTHER), found(DATA))
    assert names(made, PersistentVolumeClaim) == ["web-data"]
    assert names(made, VirtualMachine) == []
    assert made.told == [
        f"volume {OTHER}: claim shop/web-root has a newer note, of volume {ROOT}: left alone",
        "VM shop/web: its claims web-root are not here or in doubt: it is not made",
    ]
    made = plan_of(notes, found(OTHER), found(DATA), found(ROOT))
    assert names(made, PersistentVolume) == [f"pvc-{ROOT}", f"pvc-{DATA}"]
    assert names(made, VirtualMachine) == ["web"]


def test_of_two_disks_that_are_noted_at_the_same_time_for_one_claim_none_is_taken() -> None:
    notes = [FoundNote(claim_note(each, "web-root")[1], written=1.0) for each in (OTHER, ROOT)]
    notes += [FoundNote(claim_note(DATA, "web-data")[1]), FoundNote(vm_note(the_vm())[1])]
    made = plan_of(notes, found(OTHER), found(ROOT), found(DATA))
    assert names(made, PersistentVolumeClaim) == ["web-data"]
    assert names(made, VirtualMachine) == []
    assert "noted at the same time for another one too" in made.told[0]


def test_a_vm_does_not_get_the_disk_of_another_claim_of_that_name() -> None:
    present = Present(claims={("shop", "web-root")}, namespaces={"shop"})
    made = plan(found(ROOT), found(DATA), present=present, **dict([vm_note(the_vm())]))
    assert names(made, VirtualMachine) == []
    assert "its claims web-root are not here or in doubt" in made.told[-1]


def test_of_several_notes_of_one_vm_and_of_one_volume_the_latest_counts() -> None:
    stale = the_vm()
    stale.metadata.labels = {"tier": "stale"}
    notes = [
        *(FoundNote(each, "kvedge", 1.0) for each in NOTES.values()),
        FoundNote(claim_note(ROOT, "renamed")[1], "usb", 0.5),
        FoundNote(vm_note(the_vm())[1], "kvedge", 2.0),
        FoundNote(vm_note(stale)[1], "usb", 1.0),
        # The same words in another place of its disks.
        FoundNote(vm_note(the_vm())[1], "other", 1.5),
    ]
    for given in (notes, notes[::-1]):
        made = plan_of(given, found(ROOT), found(DATA))
        assert [each.metadata.labels for each in made.make if isinstance(each, VirtualMachine)] == [{"tier": "shop"}]
        assert names(made, PersistentVolumeClaim) == ["web-root", "web-data"]
        assert made.told == [
            f"volume {ROOT}: older notes name claim shop/renamed: not used",
            "VM shop/web: an older one of that name is noted too: the latest is made",
        ]


def test_two_notes_of_a_vm_that_differ_and_are_of_one_time_make_none() -> None:
    stale = the_vm()
    stale.metadata.labels = {"tier": "stale"}
    notes = [*NOTES.values(), vm_note(stale)[1], vm_note(the_vm())[1]]
    made = plan_of([FoundNote(each) for each in notes], found(ROOT), found(DATA))
    assert names(made, VirtualMachine) == []
    assert "differ: it is not made" in made.told[0]


def test_a_copy_of_a_volume_in_another_place_is_left_alone() -> None:
    copied = FoundVolume(ROOT, "usb", Path("/usb") / ROOT, 64 * MIB, False)
    root = claim_note(ROOT, "web-root")[1]
    made = plan_of([FoundNote(root, "kvedge", 1.0), FoundNote(root, "usb", 2.0)], found(ROOT), copied)
    assert [each.spec.local.path for each in made.make if isinstance(each, PersistentVolume) and each.spec.local] == [
        f"/usb/{ROOT}"
    ]
    assert made.told == [f"volume {ROOT} lies in another place too: that in kvedge is left alone"]
    made = plan_of([FoundNote(root, "kvedge", 1.0), FoundNote(root, "usb", 1.0)], found(ROOT), copied)
    assert made.make == []
