# Tests: kvedge/controller/vmi/launcher_pod/returning_claims.py, kvedge/controller/node_affinity.py
"""A guest and the worker that serves its disk are drawn to one node, where the socket is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kvedge.controller.vmi.launcher_pod.launcher_pod_manifest import launcher_pod
from kvedge.resources.codec import JsonObject
from kvedge.resources.disks.snapshot_names import COMES_BACK, RETURNED_BY
from tests.support.builders import CONFIG, a_claim, put, small_vmi, vmi_of
from tests.unit.controller.backups.backup_world import RESTORE_UID
from tests.unit.controller.backups.test_live_return import running

_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def affinity_of(annotations: dict[str, str], own: JsonObject | None = None) -> Any:
    document = small_vmi()
    document["metadata"].update(name="web", namespace="default", uid="u-1")
    put(document, "spec.domain.devices.disks[1]", {"name": "data", "disk": {"bus": "virtio"}})
    put(document, "spec.volumes[1]", {"name": "data", "persistentVolumeClaim": {"claimName": "data"}})
    if own is not None:
        document["spec"]["affinity"] = own
    claim = a_claim("data")
    meta = msgspec.structs.replace(claim.metadata, annotations=annotations)
    return launcher_pod(vmi_of(document), CONFIG, {"data": msgspec.structs.replace(claim, metadata=meta)}).spec.affinity


def values_of(term: JsonObject) -> tuple[int, str, list[str], str]:
    inner = term["podAffinityTerm"]
    (selector,) = inner["labelSelector"]["matchExpressions"]
    return term["weight"], selector["key"], selector["values"], inner["topologyKey"]


def test_a_guest_is_drawn_to_the_worker_that_serves_its_disk_beside_what_it_asks_for_itself() -> None:
    own = {"podAffinity": {_PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "zone"}}]}, "nodeAffinity": {}}
    found = affinity_of({COMES_BACK: "true", RETURNED_BY: RESTORE_UID}, own)
    assert found["nodeAffinity"] == {}
    first, second = found["podAffinity"][_PREFERRED]
    assert first["weight"] == 1
    assert values_of(second) == (100, "kvedge.io/backup-worker", [RESTORE_UID], "kubernetes.io/hostname")


@pytest.mark.parametrize("annotations", [{}, {RETURNED_BY: RESTORE_UID}], ids=["any claim", "all of it is there"])
def test_a_guest_whose_disks_are_there_goes_where_it_likes(annotations: dict[str, str]) -> None:
    assert affinity_of(annotations) is None


def test_another_worker_is_drawn_to_its_guest() -> None:
    world = running()
    affinity: Any = world.pods[f"serve-{RESTORE_UID}"].spec.affinity
    (term,) = affinity["podAffinity"][_PREFERRED]
    assert values_of(term) == (100, "vmi.kubevirt.io/id", ["web"], "kubernetes.io/hostname")
