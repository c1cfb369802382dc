from __future__ import annotations

import pytest

from kvedge.resources.codec import decode
from kvedge.resources.disks.claim_facts import is_populated
from kvedge.resources.types.storage import PersistentVolumeClaim

OWNER = {"apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataVolume", "name": "d", "uid": "u", "controller": True}


@pytest.mark.parametrize(
    ("owners", "annotations", "spec", "populated"),
    [
        ([], {}, {}, True),
        ([], {"cdi.kubevirt.io/storage.upload.target": ""}, {}, False),
        (
            [],
            {"cdi.kubevirt.io/storage.upload.target": "", "cdi.kubevirt.io/storage.pod.phase": "Succeeded"},
            {},
            True,
        ),
        (
            [],
            {"cdi.kubevirt.io/storage.upload.target": ""},
            {"dataSourceRef": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}},
            True,
        ),
        ([], {"cdi.kubevirt.io/storage.upload.target": ""}, {"dataSource": {"kind": "VolumeSnapshot"}}, True),
        ([OWNER], {}, {}, False),
        ([OWNER], {"cdi.kubevirt.io/storage.pod.phase": "Running"}, {}, False),
        ([OWNER], {"cdi.kubevirt.io/storage.pod.phase": "Succeeded"}, {}, True),
        ([OWNER], {"cdi.kubevirt.io/clonePhase": "Succeeded"}, {}, True),
        ([OWNER], {}, {"dataSourceRef": {"apiGroup": "cdi.kubevirt.io", "kind": "VolumeImportSource"}}, True),
        ([OWNER], {}, {"dataSource": {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot"}}, True),
    ],
    ids=[
        "nobody's",
        "waiting for an upload",
        "uploaded",
        "marked, and filled from elsewhere",
        "marked, and filled from elsewhere in the older way",
        "just made",
        "being filled",
        "full",
        "cloned by CDI",
        "handed over by CDI",
        "made of a snapshot",
    ],
)
def test_a_claim_is_populated_once_nobody_fills_it_any_more(
    owners: list[dict[str, object]], annotations: dict[str, str], spec: dict[str, object], populated: bool
) -> None:
    document = {"metadata": {"name": "d", "ownerReferences": owners, "annotations": annotations}, "spec": spec}
    assert is_populated(decode(PersistentVolumeClaim, document)) is populated
