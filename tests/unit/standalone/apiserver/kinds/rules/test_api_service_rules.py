"""What an APIService may say."""

from __future__ import annotations

from kvedge.standalone.apiserver.kinds.rules.api_service_rules import check_api_service
from tests.unit.standalone.apiserver.aggregation.test_aggregation_rules import api_service


def test_an_api_service_is_checked_whole() -> None:
    assert check_api_service(api_service()) == []
    wrong = api_service(
        groupPriorityMinimum=0, versionPriority=9999, service={}, caBundle="x", insecureSkipTLSVerify=True
    )
    wrong["metadata"]["name"] = "other"
    assert [error.field for error in check_api_service(wrong)] == [
        "metadata.name",
        "spec.groupPriorityMinimum",
        "spec.versionPriority",
        "spec.service.namespace",
        "spec.service.name",
        "spec.insecureSkipTLSVerify",
    ]
