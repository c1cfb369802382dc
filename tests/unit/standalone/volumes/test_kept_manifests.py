"""What is noted of a VM and a claim, and what is left out."""

from __future__ import annotations

from kvedge.resources.codec import decode
from kvedge.resources.types.storage import PersistentVolume
from kvedge.resources.types.vm import VirtualMachine
from kvedge.standalone.volumes.kept_manifests import claims_of_vm, make_claim_note, make_vm_note, read_note
from tests.support.builders import a_claim, small_vmi, vm_of


def test_a_vm_is_noted_without_its_status_and_past() -> None:
    document = vm_of(small_vmi(), runStrategy="Always")
    document["metadata"] = {
        "name": "web", "namespace": "shop", "uid": "u", "resourceVersion": "7", "finalizers": ["x"],
        "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "ours": "1"},
    }  # fmt: skip
    document["status"] = {"printableStatus": "Running"}
    document["spec"]["template"]["spec"]["volumes"] = [
        {"name": "a", "dataVolume": {"name": "root"}}, {"name": "b", "persistentVolumeClaim": {"claimName": "data"}},
    ]  # fmt: skip
    vm = decode(VirtualMachine, document)
    note = read_note(make_vm_note(vm))
    assert note is not None
    assert note.vm is not None
    assert note.vm.keys() == {"metadata", "spec"}
    assert note.vm["metadata"] == {"name": "web", "namespace": "shop", "uid": "u", "annotations": {"ours": "1"}}
    assert claims_of_vm(vm) == {"root", "data"}


def test_a_claim_is_noted_with_what_its_volume_is() -> None:
    volume = decode(PersistentVolume, {"metadata": {"name": "pvc-u"}, "spec": {"capacity": {"storage": "64Mi"}}})
    note = read_note(make_claim_note(a_claim("data"), volume, "u"))
    assert note is not None
    assert note.claim is not None
    assert (note.volume, note.capacity, note.claim["metadata"]["name"]) == ("u", "64Mi", "data")
