"""DataVolumes and DataSources that can never be, refused when they are applied."""

from __future__ import annotations

from typing import Any

import pytest

from kvedge.api.admission.admission_message import AdmissionRequest, GroupVersionResource
from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.rules.subject import Cluster

STORAGE = {"resources": {"requests": {"storage": "1Gi"}}}
BLANK = {"source": {"blank": {}}, "storage": STORAGE}


def causes(resource: str, spec: Any, old: Any = None, group: str = "cdi.kubevirt.io") -> list[tuple[str, str]]:
    def document(found: Any) -> dict[str, Any]:
        return {"metadata": {"name": "d", "namespace": "ns"}, "spec": found}

    request = AdmissionRequest(
        uid="u",
        operation="CREATE" if old is None else "UPDATE",
        resource=GroupVersionResource(group=group, version="v1beta1", resource=resource),
        object=document(spec),
        old_object=None if old is None else document(old),
    )
    return [(str(cause.field), cause.message) for cause in plan_verdict(request, Cluster("amd64")).causes]


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        ({"source": {"blank": {}}}, "spec.pvc", "Missing Data volume PVC"),
        ({"source": {}, "storage": STORAGE}, "spec.source", "Missing Data volume source"),
        (
            {"source": {"blank": {}, "upload": {}}, "storage": STORAGE},
            "spec.source",
            "Multiple Data volume sources",
        ),
        (
            {"source": {"http": {"url": "ftp://a/b"}}, "storage": STORAGE},
            "spec.source.http.url",
            "is neither http:// nor https://",
        ),
        ({"source": {"blank": 1}, "storage": STORAGE}, "spec.source.blank", "spec.source.blank"),
        ({**BLANK, "contentType": "iso"}, "spec.contentType", "ContentType not one of: kubevirt, archive"),
    ],
    ids=["no claim", "no source", "two sources", "another scheme", "another type", "another content"],
)
def test_a_data_volume_that_cannot_be_filled_is_refused(spec: Any, field: str, words: str) -> None:
    found = causes("datavolumes", spec)
    assert any(at == field and words in message for at, message in found), found


def test_a_data_volume_that_can_be_filled_enters_and_stays_as_it_is() -> None:
    assert causes("datavolumes", BLANK) == []
    assert causes("datavolumes", BLANK, BLANK) == []
    ((field, message),) = causes("datavolumes", {**BLANK, "preallocation": True}, BLANK)
    assert (field, message.startswith("Cannot update DataVolume Spec")) == ("spec", True)


def test_one_that_entered_under_older_rules_can_still_be_labelled() -> None:
    wrong = {"source": {}, "storage": STORAGE}
    assert causes("datavolumes", wrong, wrong) == []
    assert causes("datasources", {"source": {"pvc": {}}}, {"source": {"pvc": {}}}) == []


def test_another_group_s_kind_of_that_name_is_not_judged() -> None:
    assert causes("datavolumes", {}, group="example.com") == []


@pytest.mark.parametrize(
    ("source", "field", "words"),
    [
        ({"pvc": {}}, "spec.source.pvc.name", "is a required field"),
        ({"pvc": {"name": "a"}, "snapshot": {"name": "b"}}, "spec.source", "not pvc and snapshot"),
        ({"dataSource": {"name": "d"}}, "spec.source.dataSource", "DataSource cannot self-reference"),
        (
            {"dataSource": {"name": "a", "namespace": "other"}},
            "spec.source.dataSource",
            "DataSource cannot reference a DataSource in another namespace",
        ),
    ],
    ids=["no name", "two", "itself", "elsewhere"],
)
def test_a_data_source_that_points_nowhere_is_refused(source: Any, field: str, words: str) -> None:
    ((at, message),) = causes("datasources", {"source": source})
    assert (at, words in message) == (field, True), message


def test_a_data_source_may_point_at_a_claim_that_is_to_come_or_at_nothing_yet() -> None:
    assert causes("datasources", {"source": {"pvc": {"name": "a", "namespace": "images"}}}) == []
    assert causes("datasources", {"source": {}}) == []
