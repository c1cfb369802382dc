"""Which exports enter."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster
from kvedge.resources.codec import JsonObject
from tests.support.reviews import request

CLUSTER = Cluster("amd64")
VM = {"apiGroup": "kubevirt.io", "kind": "VirtualMachine", "name": "web"}
CLAIM = {"kind": "PersistentVolumeClaim", "name": "disk"}
SNAPSHOT = {"apiGroup": "snapshot.kubevirt.io", "kind": "VirtualMachineSnapshot", "name": "before"}


def export(source: Any, name: str = "x", version: str = "v1", **spec: Any) -> JsonObject:
    return {
        "apiVersion": f"export.kubevirt.io/{version}",
        "kind": "VirtualMachineExport",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"source": source, **spec},
    }


@pytest.mark.parametrize(
    "document",
    [
        export(VM),
        export(VM, version="v1beta1"),
        export(CLAIM),
        export({**CLAIM, "apiGroup": ""}),
        export(SNAPSHOT, tokenSecretRef="mine", ttlDuration="1h30m"),
    ],
)
def test_what_can_be_exported_enters(document: JsonObject) -> None:
    assert plan_verdict(request(document), CLUSTER).causes == ()


@pytest.mark.parametrize(
    ("document", "field", "words"),
    [
        (export({**CLAIM, "name": ""}), "spec.source.name", "PVC name must not be empty"),
        (export({**CLAIM, "apiGroup": "v1"}), "spec.source.apiGroup", "PVC API group must be missing or blank"),
        (export({**SNAPSHOT, "name": ""}), "spec.source.name", "VMSnapshot name must not be empty"),
        (
            export({**SNAPSHOT, "apiGroup": "kubevirt.io"}),
            "spec.source.apiGroup",
            "VMSnapshot API group must be snapshot.kubevirt.io",
        ),
        (export({**VM, "name": ""}), "spec.source.name", "Virtual Machine name must not be empty"),
        (export({**VM, "apiGroup": None}), "spec.source.apiGroup", "VM API group must be kubevirt.io"),
        (export({**VM, "kind": "Pod"}), "spec.source.kind", "invalid kind"),
        (export({}), "spec.source.kind", "invalid kind"),
        (export({**VM, "kind": "VirtualMachineTemplate"}), "spec.source.kind", "cannot be exported here"),
        (export({**VM, "kind": "VirtualMachineBackup"}), "spec.source.apiGroup", "API group must be backup"),
        (export({**VM, "name": "../x"}), "spec.source.name", "no name of a VirtualMachine"),
        (export(VM, tokenSecretRef="../x"), "spec.tokenSecretRef", "no name of a Secret"),
        (export(VM, ttlDuration="soon"), "spec.ttlDuration", "write it as 30m"),
        (export(VM, ttlDuration="0s"), "spec.ttlDuration", "more than nothing"),
        (export(VM, ttlDuration=5), "spec.ttlDuration", ""),
        (export(VM, forever=True), "spec.forever", ""),
        (export(VM, name="a" * 245), "metadata.name", "name a Secret in spec.tokenSecretRef"),
    ],
)
def test_what_cannot_is_refused_with_its_field(document: JsonObject, field: str, words: str) -> None:
    causes = plan_verdict(request(document), CLUSTER).causes
    assert [(str(cause.field), words in cause.message) for cause in causes] == [(field, True)]


def test_a_spec_stays_as_it_is() -> None:
    old = export(VM)
    assert plan_verdict(request({**old, "status": {"phase": "Ready"}}, old), CLUSTER).causes == ()
    (cause,) = plan_verdict(request(export(VM, ttlDuration="9h"), old), CLUSTER).causes
    assert cause.message == "spec in immutable after creation"
