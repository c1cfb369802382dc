"""The launchers of guests that reserve LUNs: what they ask for, and that they keep apart."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import launcher_pod
from kvedge.controller.vmi.permitted_resources import NotPermitted, check_permitted
from kvedge.resources.codec import JsonObject
from kvedge.resources.configuration.configuration import Configuration
from kvedge.resources.types.core import Pod
from kvedge.resources.types.storage import PersistentVolumeClaim
from kvedge.resources.types.vmi import VirtualMachineInstance
from tests.support.builders import CONFIG, a_claim, put, small_vmi, vmi_of

UID = "6a0e8a0c-8a5d-47d1-b2c4-0a4d6a3f0001"


def guest(*, reserves: bool = True, affinity: JsonObject | None = None) -> VirtualMachineInstance:
    document = small_vmi()
    document["metadata"].update(name="web", namespace="default", uid="u-1")
    for index, name in enumerate(("lun", "gone"), 1):
        lun: dict[str, Any] = {"bus": "scsi", **({"reservation": True} if reserves else {})}
        put(document, f"spec.domain.devices.disks[{index}]", {"name": name, "lun": lun})
        put(document, f"spec.volumes[{index}]", {"name": name, "persistentVolumeClaim": {"claimName": name}})
    if affinity is not None:
        document["spec"]["affinity"] = affinity
    return vmi_of(document)


def claim() -> PersistentVolumeClaim:
    found = a_claim("lun")
    return msgspec.structs.replace(found, metadata=msgspec.structs.replace(found.metadata, uid=UID))


def pod_of(vmi: VirtualMachineInstance) -> Pod:
    return launcher_pod(vmi, CONFIG, {"lun": claim()})


TERM = {
    "labelSelector": {"matchExpressions": [{"key": f"pr.kubevirt.io/{UID}", "operator": "Exists"}]},
    "topologyKey": "kubernetes.io/hostname",
}


def test_two_guests_of_one_claim_are_never_on_one_node() -> None:
    pod = pod_of(guest())
    assert {key: value for key, value in pod.metadata.labels.items() if key.startswith("pr.")} == {
        f"pr.kubevirt.io/{UID}": ""
    }
    assert pod.spec.affinity == {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [TERM]}}
    assert pod.spec.containers[0].resources.limits["devices.kubevirt.io/pr-helper"] == "1"


def test_the_vms_own_affinity_stays() -> None:
    own = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "zone"}
    affinity = {"nodeAffinity": {}, "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own]}}
    found = pod_of(guest(affinity=affinity)).spec.affinity
    assert found == {
        "nodeAffinity": {},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own, TERM]},
    }


def test_a_lun_without_reservations_asks_for_nothing() -> None:
    pod = pod_of(guest(reserves=False))
    assert pod.spec.affinity is None
    assert not any(key.startswith("pr.") for key in pod.metadata.labels)
    assert "devices.kubevirt.io/pr-helper" not in pod.spec.containers[0].resources.limits


def test_no_pod_is_made_while_the_kubevirt_object_does_not_allow_it() -> None:
    check_permitted(guest(), CONFIG.with_configuration(Configuration(reserves_luns=True)))
    check_permitted(guest(reserves=False), CONFIG.with_configuration(Configuration()))
    with pytest.raises(NotPermitted, match="persistent reservation is not enabled in kubevirt config, of LUN lun; the"):
        check_permitted(guest(), CONFIG.with_configuration(Configuration()))
