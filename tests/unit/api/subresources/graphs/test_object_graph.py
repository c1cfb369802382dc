"""Which objects a VM names, each kind of them once, and what filters leave of them."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.subresources.graphs.object_graph import DEPENDENCY_LABEL, Wanted, graph_of_vm, graph_of_vmi
from kvedge.resources.codec import JsonObject, decode
from kvedge.resources.label_selectors import selector_of
from kvedge.resources.meta import LabelSelector
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import small_vmi, vm_of

VOLUMES: list[JsonObject] = [
    {"name": "root", "dataVolume": {"name": "root"}},
    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "layer", "ephemeral": {"persistentVolumeClaim": {"claimName": "base"}}},
    {"name": "dump", "memoryDump": {"claimName": "dump"}},
    {"name": "settings", "configMap": {"name": "settings"}},
    {"name": "keys", "secret": {"secretName": "keys"}},
    {"name": "account", "serviceAccount": {"serviceAccountName": "till"}},
    {
        "name": "seed",
        "cloudInitNoCloud": {"secretRef": {"name": "user"}, "networkDataSecretRef": {"name": "network"}},
    },
    {"name": "drive", "cloudInitConfigDrive": {"secretRef": {"name": "drive"}}},
    {"name": "answers", "sysprep": {"configMap": {"name": "unattend"}}},
    {"name": "secret-answers", "sysprep": {"secret": {"name": "hidden"}}},
    {"name": "image", "containerDisk": {"image": "x"}},
]
CREDENTIALS: list[JsonObject] = [
    {"sshPublicKey": {"source": {"secret": {"secretName": "ssh"}}, "propagationMethod": {"noCloud": {}}}},
    {"userPassword": {"source": {"secret": {"secretName": "words"}}, "propagationMethod": {"qemuGuestAgent": {}}}},
]
NETWORKS: list[JsonObject] = [
    {"name": "default", "pod": {}},
    {"name": "lan", "multus": {"networkName": "lan"}},
    {"name": "far", "multus": {"networkName": "other/far"}},
]


def full_vmi() -> JsonObject:
    return small_vmi(
        volumes=VOLUMES, accessCredentials=CREDENTIALS, networks=NETWORKS, domain__devices__tpm={"persistent": True}
    )


def shown(node: JsonObject, level: int = 0) -> list[str]:
    """The tree, a line an object."""
    of: Any = node["objectReference"]
    mark = " (optional)" if node.get("optional") else ""
    line = f"{'  ' * level}{of['apiGroup']}/{of['kind']} {of['namespace']}/{of['name']}{mark}"
    return [line, *(each for child in node.get("children", []) for each in shown(child, level + 1))]


PARTS = [
    "/Secret default/ssh",
    "/Secret default/words",
    "cdi.kubevirt.io/DataVolume default/root",
    "  /PersistentVolumeClaim default/root",
    "/PersistentVolumeClaim default/data",
    "/PersistentVolumeClaim default/base",
    "/PersistentVolumeClaim default/dump",
    "/ConfigMap default/settings",
    "/Secret default/keys",
    "/ServiceAccount default/till",
    "/Secret default/user",
    "/Secret default/network",
    "/Secret default/drive",
    "/ConfigMap default/unattend",
    "/Secret default/hidden",
    "/PersistentVolumeClaim default/persistent-state-for-small",
    "k8s.cni.cncf.io/NetworkAttachmentDefinition default/lan (optional)",
    "k8s.cni.cncf.io/NetworkAttachmentDefinition other/far (optional)",
]


def below(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def test_a_vmi_has_its_pod_and_all_that_it_names() -> None:
    vmi = decode(VirtualMachineInstance, full_vmi())
    assert shown(graph_of_vmi(vmi, "virt-launcher-small", Wanted()).document()) == [
        "kubevirt.io/VirtualMachineInstance default/small",
        "  /Pod default/virt-launcher-small",
        *below(PARTS),
    ]
    assert shown(graph_of_vmi(vmi, None, Wanted()).document())[1:] == below(PARTS)


def made_vm(**status: Any) -> VirtualMachine:
    return decode(VirtualMachine, {**vm_of(full_vmi()), "status": status})


def test_a_vm_has_its_run_besides() -> None:
    assert shown(graph_of_vm(made_vm(created=True), "p", Wanted()).document()) == [
        "kubevirt.io/VirtualMachine default/small",
        "  kubevirt.io/VirtualMachineInstance default/small",
        "    /Pod default/p",
        *below(PARTS),
    ]
    assert shown(graph_of_vm(made_vm(), None, Wanted()).document())[1:] == below(PARTS)


KIND = "VirtualMachineInstancetype"


@pytest.mark.parametrize(
    ("matcher", "status", "lines"),
    [
        (
            {"name": "u1", "kind": KIND, "revisionName": "r1"},
            None,
            [f"instancetype.kubevirt.io/{KIND} default/u1 (optional)", "apps/ControllerRevision default/r1"],
        ),
        (
            {"name": "u1"},
            {"name": "u1", "kind": "", "controllerRevisionRef": {"name": "r2"}},
            [
                "instancetype.kubevirt.io/VirtualMachineClusterInstancetype /u1 (optional)",
                "apps/ControllerRevision default/r2",
            ],
        ),
        (
            {"inferFromVolume": "root"},
            {"name": "c1", "kind": KIND.lower()},
            [f"instancetype.kubevirt.io/{KIND} default/c1 (optional)"],
        ),
        ({"inferFromVolume": "root"}, None, []),
    ],
    ids=["not copied yet", "copied", "inferred", "to be inferred"],
)
def test_an_instance_type_comes_with_the_copy_that_holds(
    matcher: JsonObject, status: JsonObject | None, lines: list[str]
) -> None:
    document = {**vm_of(small_vmi()), "status": {"instancetypeRef": status} if status else {}}
    document["spec"]["instancetype"] = matcher
    vm = decode(VirtualMachine, document)
    assert shown(graph_of_vm(vm, None, Wanted()).document())[1:] == below(lines)


def test_what_is_not_wanted_is_left_out_with_all_below_it() -> None:
    vmi = decode(VirtualMachineInstance, full_vmi())
    without = [line for line in PARTS if "optional" not in line]
    assert shown(graph_of_vmi(vmi, None, Wanted(optional=False)).document())[1:] == below(without)
    storage = Wanted(selector=selector_of(LabelSelector(match_labels={DEPENDENCY_LABEL: "storage"})))
    found = graph_of_vmi(vmi, "p", storage).document()
    assert shown(found)[1:] == below([line for line in PARTS if "Claim" in line or "DataVolume" in line])
    assert shown(graph_of_vm(made_vm(created=True), "p", storage).document())[1:] == shown(found)[1:]
