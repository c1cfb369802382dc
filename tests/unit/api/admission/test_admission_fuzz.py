# Tests: kvedge/api/admission/admission_plan.py, kvedge/api/admission/mutation_plan.py
"""Whatever a document holds: admission answers, never raises, and what it changes can be applied."""

from __future__ import annotations

import copy
import json
from typing import Any

import jsonpatch
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvedge.api.admission.admission_message import parse_review, verdict
from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.migrations.migration_verdict import judge_spec
from kvedge.api.admission.mutation_plan import plan_mutation
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.spec_verdict import Verdict
from kvedge.resources.codec import DecodeError, JsonObject
from tests.support.builders import small_vmi, smoke_vm, vm_of
from tests.support.reviews import request
from tests.unit.api.admission.rules.wrong_places import PREFERRED, REQUIRED

CLUSTER = Cluster("amd64")
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(["", "1Gi", "virtio", "None", "q35", "arm64", "\x00", "a" * 300]),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from(["name", "disk", "pod", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)


def paths(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        found += paths(value, (*path, key))
    return found


EXPRESSION = {"key": "a", "operator": "Gt", "values": ["1"]}


def full_vmi() -> JsonObject:
    vmi = small_vmi(
        domain__clock={"utc": {}, "timer": {"hpet": {"present": False}, "rtc": {"tickPolicy": "catchup"}}},
        domain__features={"acpi": {}, "hyperv": {"spinlocks": {"spinlocks": 8191}, "synictimer": {"direct": {}}}},
        domain__firmware={"uuid": "x", "bootloader": {"efi": {}}, "kernelBoot": {"container": {"image": "k"}}},
        domain__cpu={"cores": 2, "features": [{"name": "vmx", "policy": "require"}]},
        domain__resources={"requests": {"memory": "1Gi", "cpu": 1}, "limits": {"cpu": 2}},
        dnsConfig={"nameservers": ["10.0.0.1"], "searches": ["a"], "options": [{"name": "ndots"}]},
        dnsPolicy="None",
        nodeSelector={"a": "b"},
        affinity={
            "nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [EXPRESSION]}]}},
            "podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "a", "labelSelector": {}}}]},
        },
        tolerations=[{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}],
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}],
    )
    devices = vmi["spec"]["domain"]["devices"]
    devices |= {
        "inputs": [{"name": "t"}],
        "watchdog": {"name": "w", "i6300esb": {}},
        "panicDevices": [{"model": "isa"}],
    }
    devices["interfaces"][0] |= {"ports": [{"port": 80, "name": "web"}], "dhcpOptions": {"ntpServers": ["10.0.0.1"]}}
    vmi["spec"]["volumes"].append({"name": "init", "cloudInitNoCloud": {"userDataBase64": "YQ=="}})
    vmi["metadata"] |= {"labels": {"a": "b"}, "annotations": {"a": "b"}}
    return vmi


MIGRATION: JsonObject = {
    "kind": "VirtualMachineInstanceMigration",
    "metadata": {"name": "m", "namespace": "default"},
    "spec": {"vmiName": "web", "addedNodeSelector": {"a": "b"}, "priority": "user-triggered", "sendTo": {}},
    "status": {"phase": "Running"},
}
POLICY: JsonObject = {
    "kind": "MigrationPolicy",
    "metadata": {"name": "p"},
    "spec": {
        "selectors": {"namespaceSelector": {"a": "b"}, "virtualMachineInstanceSelector": {"a": "b"}},
        "bandwidthPerMigration": "1Mi",
        "completionTimeoutPerGiB": 1,
        "maxDowntimeMs": 1,
        "allowPostCopy": False,
    },
}
STARTS = {
    "vmi": full_vmi(),
    "vm": vm_of(full_vmi(), running=True),
    "smoke": smoke_vm(),
    "migration": MIGRATION,
    "policy": POLICY,
}


@settings(max_examples=400)
@given(st.sampled_from(sorted(STARTS)), st.data())
def test_a_document_changed_anywhere_is_answered(start: str, data: st.DataObject) -> None:
    document = copy.deepcopy(STARTS[start])
    for _ in range(data.draw(st.integers(1, 3))):
        places = [path for path in paths(document) if path[0] in ("spec", "status")]
        *parents, last = data.draw(st.sampled_from(places))
        holder = document
        for step in parents:
            holder = holder[step]
        holder[last] = data.draw(VALUES)
        if not isinstance(document.get("spec"), dict):
            break
    patch = plan_mutation(request(document), CLUSTER, "2026-01-01T00:00:00Z")
    entered = jsonpatch.apply_patch(copy.deepcopy(document), patch)
    judged = plan_verdict(request(entered), CLUSTER)
    if start == "migration":
        judged = Verdict(judge_spec(request(entered), entered))
    answer = verdict("u", judged.causes, judged.warnings)
    assert answer["response"]["allowed"] is (not judged.causes)
    # And once more, as an update of what was there.
    plan_mutation(request(document, STARTS[start]), CLUSTER, "2026-01-01T00:00:00Z")
    plan_verdict(request(document, STARTS[start]), CLUSTER)


@given(st.binary(max_size=200))
def test_bytes_that_are_no_review_are_refused(body: bytes) -> None:
    with pytest.raises(DecodeError):
        parse_review(body)


@pytest.mark.parametrize(
    ("version", "kind", "operation"),
    [("v1beta1", "AdmissionReview", "CREATE"), ("v1", "Pod", "CREATE"), ("v1", "AdmissionReview", "DANCE")],
    ids=["another version", "another kind", "another operation"],
)
def test_a_review_of_another_kind_is_refused(version: str, kind: str, operation: str) -> None:
    request = {"uid": "u", "operation": operation}
    review = {"apiVersion": f"admission.k8s.io/{version}", "kind": kind, "request": request}
    with pytest.raises(DecodeError):
        parse_review(json.dumps(review).encode())
