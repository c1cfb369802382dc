"""Services on one box: kept for manifests and tools that have them, and said to do nothing there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.contract.apiserver.conftest import Server

pytestmark = pytest.mark.contract


@pytest.mark.parametrize(("spec", "leads"), [({"selector": {"app": "web"}}, True), ({}, False)], ids=["guests", "none"])
def test_a_service_that_would_lead_to_guests_is_kept_with_a_warning_on_one_box(
    api_server: Server, namespace: str, spec: dict[str, Any], leads: bool
) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web"},
        "spec": {"type": "NodePort", "ports": [{"port": 80, "targetPort": ""}], **spec},
    }
    answer = api_server.admin.post(f"/api/v1/namespaces/{namespace}/services", body)
    assert answer.status == 201
    assert answer.json["spec"]["ports"][0]["targetPort"] == 80
    warned = "nothing listens for this Service" in answer.headers.get("Warning", "")
    assert warned is (leads and not api_server.is_real)
