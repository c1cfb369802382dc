"""The VMs of a pool, and what a change of the template makes of one."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.controller.pools.pool_template import number_of, template_of, update_body, vm_of_pool
from kvedge.resources.codec import encode
from kvedge.resources.types.domain import Firmware, Machine
from kvedge.resources.types.scaling.pools import REVISION_LABEL
from tests.unit.controller.pools.test_pool_plan import a_pool, a_vm

VOLUMES: list[dict[str, Any]] = [
    {"name": "claim", "persistentVolumeClaim": {"claimName": "disk"}},
    {"name": "other", "persistentVolumeClaim": {"claimName": "shared"}},
    {"name": "volume", "dataVolume": {"name": "disk"}},
    {"name": "config", "configMap": {"name": "config"}},
    {"name": "secret", "secret": {"secretName": "secret"}},
    {"name": "init", "cloudInitNoCloud": {"secretRef": {"name": "user"}, "networkDataSecretRef": {"name": "net"}}},
    {"name": "drive", "cloudInitConfigDrive": {"secretRef": {"name": "user"}}},
]
TEMPLATE = {
    "spec.dataVolumeTemplates": [{"metadata": {"name": "disk"}, "spec": {}}],
    "spec.template.spec.volumes": VOLUMES,
}


@pytest.mark.parametrize(
    ("naming", "configs", "secrets"),
    [
        (None, "config", ["secret", "user", "net", "user"]),
        ({"appendIndexToConfigMapRefs": True}, "config-7", ["secret", "user", "net", "user"]),
        ({"appendIndexToSecretRefs": True}, "config", ["secret-7", "user-7", "net-7", "user-7"]),
    ],
)
def test_names_get_the_number_of_the_vm(naming: dict[str, bool] | None, configs: str, secrets: list[str]) -> None:
    pool = a_pool(1, 1, TEMPLATE, **({} if naming is None else {"nameGeneration": naming}))
    vm = encode(vm_of_pool(pool, 7, "web-1"))
    assert vm["metadata"]["name"] == "web-7"
    assert [item["metadata"]["name"] for item in vm["spec"]["dataVolumeTemplates"]] == ["disk-7"]
    volumes = {item["name"]: item for item in vm["spec"]["template"]["spec"]["volumes"]}
    assert volumes["claim"]["persistentVolumeClaim"]["claimName"] == "disk-7"
    assert volumes["other"]["persistentVolumeClaim"]["claimName"] == "shared"
    assert volumes["volume"]["dataVolume"]["name"] == "disk-7"
    assert volumes["config"]["configMap"]["name"] == configs
    found = [
        volumes["secret"]["secret"]["secretName"],
        volumes["init"]["cloudInitNoCloud"]["secretRef"]["name"],
        volumes["init"]["cloudInitNoCloud"]["networkDataSecretRef"]["name"],
        volumes["drive"]["cloudInitConfigDrive"]["secretRef"]["name"],
    ]
    assert found == secrets
    # The pool's own template stays as it is.
    assert (
        encode(pool)["spec"]["virtualMachineTemplate"]["spec"]["dataVolumeTemplates"][0]["metadata"]["name"] == "disk"
    )


@pytest.mark.parametrize(("name", "number"), [("web-12", 12), ("a-b-0", 0), ("web", 0), ("web-x", 0)])
def test_the_number_is_the_end_of_the_name(name: str, number: int) -> None:
    assert number_of(name) == number


def test_by_what_a_guest_knows_its_machine_stays() -> None:
    pool = a_pool(1, 2)
    vm = a_vm(pool, 0)
    assert vm.spec.template is not None
    spec = vm.spec.template.spec
    spec.architecture = "amd64"
    spec.domain.machine = Machine(type="pc-q35-9.0")
    spec.domain.firmware = Firmware(uuid="u", serial="s")
    vm.spec.template.metadata.annotations["kubevirt.io/pci-topology-version"] = "v3"
    revised = {"metadata": {"labels": {REVISION_LABEL: "web-2"}}}
    assert update_body(pool, vm, None, "web-2") == {**revised, "spec": {"template": revised}}


def test_labels_and_annotations_of_the_template_before_go_and_those_of_others_stay() -> None:
    old = a_pool(
        1, 1, {"metadata.annotations": {"gone": "x", "kept": "x"}, "metadata.labels": {"app": "web", "old": "x"}}
    )
    new = a_pool(1, 2, {"metadata.annotations": {"kept": "y"}})
    vm = a_vm(old, 0)
    vm.metadata.labels["mine"] = "x"
    vm.metadata.annotations["mine"] = "x"
    body = update_body(new, vm, template_of(encode(old.spec)), "web-2")
    assert body["metadata"] == {
        "labels": {"old": None, REVISION_LABEL: "web-2"},
        "annotations": {"gone": None, "kept": "y"},
    }


def test_a_template_is_read_from_a_revision_and_a_broken_one_is_none() -> None:
    pool = a_pool()
    assert template_of(encode(pool.spec)) == encode(pool.spec)["virtualMachineTemplate"]
    assert template_of({"virtualMachineTemplate": {"spec": 3}}) == {}
    assert template_of({}) == {}
