"""Whose rights count where a VM has its types read from another namespace; the rest is tested in tests/contract."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kvedge.api.admission.admission_message import AdmissionRequest, AdmissionUser
from kvedge.api.admission.instancetypes.inference import Inferred
from kvedge.api.admission.judgement import Judgement
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.vm_admission import VmAdmission
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import JsonObject
from kvedge.resources.role_users import CONTROLLER_GROUP
from tests.support.clocks import FakeClock
from tests.support.scripted_api import Exchange, scripted_api

LABELS = {"instancetype.kubevirt.io/default-instancetype": "small"}


def server(may: Callable[[JsonObject], bool]) -> Callable[[Exchange], None]:
    def answer(exchange: Exchange) -> None:
        if exchange.request.method == "POST":
            asked = json.loads(exchange.request.body)["spec"]
            exchange.answer(201, {"status": {"allowed": may(asked)}})
        else:
            exchange.answer(200, {"kind": "DataSource", "metadata": {"name": "image", "labels": LABELS}})

    return answer


def complete(
    tmp_path: Path, may: Callable[[JsonObject], bool], namespace: str = "golden", groups: tuple[str, ...] = ()
) -> tuple[Any, list[str]]:
    """What is answered, and the objects that were read for it."""
    disk = {"metadata": {"name": "disk"}, "spec": {"sourceRef": {"kind": "DataSource", "name": "image"}}}
    disk["spec"]["sourceRef"]["namespace"] = namespace  # type: ignore[index]
    volumes = [{"name": "root", "dataVolume": {"name": "disk"}}]
    spec: dict[str, Any] = {
        "instancetype": {"inferFromVolume": "root", "inferFromVolumeFailurePolicy": "Ignore"},
        "dataVolumeTemplates": [disk],
        "template": {"spec": {"domain": {"devices": {}}, "volumes": volumes}},
    }
    document = {"metadata": {"name": "vm", "namespace": "shop"}, "spec": spec}
    user = AdmissionUser(username="alice", groups=list(groups))
    review = AdmissionRequest(uid="u", operation="CREATE", namespace="shop", object=document, user_info=user)
    with scripted_api(server(may)) as api:
        client = KubeClient.from_kubeconfig(api.write_kubeconfig(tmp_path / "kubeconfig"))
        judgement = cast("Judgement", SimpleNamespace())
        admission = VmAdmission(client, judgement, lambda: Cluster("amd64"), FakeClock())
        found = admission._complete(review)
        return found, [each.path for each in api.requests if each.method == "GET"]


def nothing(asked: JsonObject) -> bool:
    return False


@pytest.mark.parametrize(
    "right",
    [("get", "datasources", None), ("create", "datavolumes", "source"), ("create", "pods", None)],
    ids=["seeing", "cloning", "using"],
)
def test_whoever_may_see_or_copy_an_image_has_its_types_read(
    tmp_path: Path, right: tuple[str, str, str | None]
) -> None:
    def may(asked: JsonObject) -> bool:
        has = asked["resourceAttributes"]
        assert (asked["user"], has["namespace"]) == ("alice", "golden")
        return (has["verb"], has["resource"], has.get("subresource")) == right

    (inferred, _), read = complete(tmp_path, may)
    assert inferred == Inferred({"instancetype": {"name": "small"}}, drops_memory=True)
    assert len(read) == 1


def test_nothing_of_another_namespace_is_read_for_others(tmp_path: Path) -> None:
    found, read = complete(tmp_path, nothing)
    status = found["response"]["status"]
    assert status["code"] == 403
    assert status["message"].startswith("spec.instancetype.inferFromVolume: user alice may neither get datasources")
    assert read == []


def test_what_the_controller_makes_for_somebody_is_judged_by_the_namespaces_rights(tmp_path: Path) -> None:
    def may(asked: JsonObject) -> bool:
        return bool(asked["user"] != "system:serviceaccount:shop:default")

    found, read = complete(tmp_path, may, groups=(CONTROLLER_GROUP,))
    assert found["response"]["status"]["code"] == 403
    assert read == []


def test_ones_own_namespace_costs_no_question(tmp_path: Path) -> None:
    (inferred, _), read = complete(tmp_path, nothing, "shop")
    assert inferred.matchers == {"instancetype": {"name": "small"}}
    assert len(read) == 1


def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    found, read = complete(tmp_path, lambda asked: True, "../../api/v1/namespaces/victim")
    assert found["response"]["status"]["code"] == 400
    assert read == []
