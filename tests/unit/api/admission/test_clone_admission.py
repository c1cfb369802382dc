"""What is answered of a DataVolume whose name is not known when it is judged; rights are tested in tests/contract."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.api.admission.admission_message import AdmissionRequest
from kvedge.api.admission.clone_admission import CloneAdmission
from kvedge.api.admission.judgement import Judgement
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from tests.support.clocks import FakeClock


class AllowingServer:
    """Everybody may everything."""

    def hurry(self, seconds: float) -> AllowingServer:
        return self

    def request(self, method: str, path: str, body: Any = None) -> JsonObject:
        return {"status": {"allowed": True}}


def answer_to(metadata: JsonObject, source: str) -> JsonObject:
    judgement = cast("Judgement", SimpleNamespace())
    admission = CloneAdmission(cast("KubeClient", AllowingServer()), judgement, lambda: b"key" * 16, FakeClock())
    document = {"metadata": metadata, "spec": {"source": {"pvc": {"namespace": source, "name": "image"}}}}
    found: JsonObject = admission._answer(
        AdmissionRequest(uid="u", operation="CREATE", namespace="shop", object=document)
    )["response"]
    return found


def test_a_clone_from_afar_whose_name_the_server_makes_up_is_refused_with_what_to_do() -> None:
    said = answer_to({"generateName": "disk-"}, "golden")
    assert said["allowed"] is False
    assert "set metadata.name" in said["status"]["message"]
    [cause] = said["status"]["details"]["causes"]
    assert cause["field"] == "metadata.generateName"


@pytest.mark.parametrize(
    ("metadata", "source", "is_granted"),
    [({"name": "disk"}, "golden", True), ({"generateName": "disk-"}, "shop", False)],
    ids=["by its name", "of its own namespace"],
)
def test_others_are_let_by(metadata: JsonObject, source: str, is_granted: bool) -> None:
    said = answer_to(metadata, source)
    assert said["allowed"] is True
    assert ("patch" in said) == is_granted
