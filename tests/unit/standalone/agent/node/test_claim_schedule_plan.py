"""What the claims of a Pod mean for where it runs."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.resources.codec import decode
from kvedge.resources.types.core import Node, Pod
from kvedge.resources.types.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from kvedge.standalone.agent.node.claim_schedule_plan import ClaimVerdict, Storage, judge_claims

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
NODE = decode(Node, {"metadata": {"name": "box", "labels": {"kubernetes.io/hostname": "box"}}})
ELSEWHERE = {
    "required": {
        "nodeSelectorTerms": [
            {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["other"]}]}
        ]
    }
}


def a_pod(name: str = "p", phase: str = "Pending") -> Pod:
    source = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    document = {"metadata": {"name": name, "namespace": "ns"}, "spec": {"volumes": [source]}}
    return decode(Pod, {**document, "status": {"phase": phase}})


def judged(
    notes: dict[str, str] | None = None,
    *,
    mode: str = "Immediate",
    affinity: Any = None,
    others: tuple[Pod, ...] = (),
    has_claim: bool = True,
    **fields: Any,
) -> ClaimVerdict:
    spec = {"volumeName": "pv" if notes == BOUND else "", "storageClassName": "c", **fields.pop("spec", {})}
    meta = {"name": "data", "namespace": "ns", "annotations": notes or {}, **fields.pop("metadata", {})}
    claim = decode(PersistentVolumeClaim, {"metadata": meta, "spec": spec, **fields})
    volume = decode(PersistentVolume, {"metadata": {"name": "pv"}, "spec": {"nodeAffinity": affinity}})
    found = decode(StorageClass, {"metadata": {"name": "c"}, "volumeBindingMode": mode})
    storage = Storage(lambda *_: claim if has_claim else None, lambda _: volume, lambda _: found)
    return judge_claims(a_pod(), NODE, others, storage)


def test_a_bound_claim_is_in_nobodys_way() -> None:
    assert judged(BOUND) == ClaimVerdict()


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        pytest.param({"has_claim": False}, 'persistentvolumeclaim "data" not found', id="no claim"),
        pytest.param({}, "pod has unbound immediate PersistentVolumeClaims", id="an unbound claim"),
        pytest.param(
            {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
            'persistentvolumeclaim "data" is being deleted',
            id="a claim that goes",
        ),
        pytest.param(
            {"status": {"phase": "Lost"}},
            'persistentvolumeclaim "data" bound to non-existent persistentvolume',
            id="a lost claim",
        ),
        pytest.param(
            {"notes": BOUND, "affinity": ELSEWHERE},
            "node(s) didn't match PersistentVolume's node affinity",
            id="a volume of another node",
        ),
        pytest.param(
            {"notes": BOUND, "spec": {"accessModes": ["ReadWriteOncePod"]}, "others": (a_pod("other", "Running"),)},
            "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
            id="a claim for one Pod that another one has",
        ),
    ],
)
def test_a_pod_waits_for_its_claim(facts: dict[str, Any], reason: str) -> None:
    assert judged(**facts).reasons == [reason]


def test_a_claim_that_waits_for_its_first_consumer_is_told_the_node_once() -> None:
    waiting = judged(mode="WaitForFirstConsumer")
    assert (waiting.reasons, waiting.waits, len(waiting.to_tell)) == ([], True, 1)
    told = judged({"volume.kubernetes.io/selected-node": "box"}, mode="WaitForFirstConsumer")
    assert (told.reasons, told.waits, told.to_tell) == ([], True, [])
