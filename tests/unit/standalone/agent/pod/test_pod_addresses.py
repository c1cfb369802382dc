"""Whose address a launcher Pod gets: what a VMI says of its VM is believed when the VM is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.meta import ObjectMeta, OwnerReference
from kvedge.resources.types.core import Pod
from kvedge.standalone.agent.pod.pod_addresses import AddressOwner, PodAddresses
from tests.support.scripted_api import Exchange, Script, refusing, scripted_api

VM = AddressOwner("VirtualMachine", "team", "web", "vm-uid")
VMI = AddressOwner("VirtualMachineInstance", "team", "web", "vmi-uid")
POD = AddressOwner("Pod", "team", "launcher", "pod-uid")
MISSING = refusing(404, "NotFound", "not found")


def reference(kind: str, name: str = "web", uid: str = "vm-uid", group: str = "kubevirt.io") -> dict[str, Any]:
    return {"apiVersion": f"{group}/v1", "kind": kind, "name": name, "uid": uid, "controller": True}


def answering(kind: str, uid: str, *owners: dict[str, Any], **metadata: str) -> Script:
    document = {
        "apiVersion": "kubevirt.io/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "team", "uid": uid, "ownerReferences": list(owners), **metadata},
        "spec": {"domain": {"devices": {}}, "template": {"spec": {"domain": {"devices": {}}}}},
    }

    def answer(exchange: Exchange) -> None:
        exchange.answer(200, document)

    return answer


def vmi_of(*owners: dict[str, Any]) -> Script:
    return answering("VirtualMachineInstance", "vmi-uid", *owners)


def owner(path: Path, *scripts: Script, group: str = "kubevirt.io") -> tuple[AddressOwner, list[str]]:
    """Whose address the Pod gets, and what was asked for."""
    above = OwnerReference(
        api_version=f"{group}/v1", kind="VirtualMachineInstance", name="web", uid="vmi-uid", controller=True
    )
    pod = Pod(metadata=ObjectMeta(name="launcher", namespace="team", uid="pod-uid", owner_references=[above]))
    with scripted_api(*scripts) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(path / "kubeconfig"))
        try:
            found = PodAddresses(client, "10.0.0.0/24", frozenset).owner_of(pod)
        finally:
            client.close()
    return found, [request.path.partition("/namespaces/")[2] for request in api.requests]


def test_the_address_is_that_of_the_vm_that_is_there(tmp_path: Path) -> None:
    found, asked = owner(tmp_path, vmi_of(reference("VirtualMachine")), answering("VirtualMachine", "vm-uid"))
    assert found == VM
    assert asked == ["team/virtualmachineinstances/web", "team/virtualmachines/web"]


def test_a_vm_on_its_way_out_still_counts(tmp_path: Path) -> None:
    leaving = answering("VirtualMachine", "vm-uid", deletionTimestamp="2026-01-01T00:00:00Z")
    assert owner(tmp_path, vmi_of(reference("VirtualMachine")), leaving)[0] == VM


@pytest.mark.parametrize(
    ("claimed", "there"),
    [
        (reference("VirtualMachine", uid="victim-uid"), answering("VirtualMachine", "vm-uid")),
        (reference("VirtualMachine", "bank", "victim-uid"), MISSING),
        (reference("VirtualMachine"), MISSING),
        (reference("VirtualMachine", group="foo.example"), answering("VirtualMachine", "vm-uid")),
        (reference("VirtualMachinePool"), answering("VirtualMachinePool", "vm-uid")),
    ],
    ids=["another's UID", "a VM of another namespace", "a VM that was deleted alone", "another group", "another kind"],
)
def test_a_vmi_that_no_vm_has_made_owns_its_address_itself(
    tmp_path: Path, claimed: dict[str, Any], there: Script
) -> None:
    assert owner(tmp_path, vmi_of(claimed), there)[0] == VMI


def test_who_cannot_be_asked_for_is_not_taken_for_gone(tmp_path: Path) -> None:
    with pytest.raises(KubeError):
        owner(tmp_path, vmi_of(reference("VirtualMachine")), refusing(403, "Forbidden", "no"))


def test_a_pod_whose_owner_only_has_a_vmis_kind_owns_its_address_itself(tmp_path: Path) -> None:
    assert owner(tmp_path, vmi_of(), group="foo.example") == (POD, [])
