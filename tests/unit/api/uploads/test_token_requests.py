"""Which claim a request for a token means; the calls themselves are in tests/contract/api/test_uploads.py."""

from __future__ import annotations

import pytest

from kvedge.api.subresources.status_message import Refusal
from kvedge.api.uploads.token_requests import read_requested_grant
from kvedge.api.uploads.upload_token import UploadGrant
from kvedge.resources.codec import JsonObject

KIND = {"kind": "UploadTokenRequest", "apiVersion": "upload.cdi.kubevirt.io/v1beta1"}


@pytest.mark.parametrize(
    "document",
    [
        {**KIND, "metadata": {"generateName": "token-"}, "spec": {"pvcName": "disk"}},
        {"spec": {"pvcName": "disk"}},
        {**KIND, "metadata": {"namespace": "shop"}, "spec": {"pvcName": "disk"}},
    ],
    ids=["as virtctl sends it", "the claim alone", "with its namespace"],
)
def test_a_request_names_a_claim_of_its_namespace(document: JsonObject) -> None:
    assert read_requested_grant(document, "shop") == UploadGrant("shop", "disk")


@pytest.mark.parametrize(
    ("document", "field"),
    [
        ({**KIND}, "spec.pvcName"),
        ({**KIND, "spec": {"pvcName": ""}}, "spec.pvcName"),
        ({**KIND, "spec": {"pvcName": "<script>alert(1)</script>"}}, "spec.pvcName"),
        ({**KIND, "spec": {"pvcName": ["disk"]}}, "spec.pvcName"),
        ({**KIND, "spec": "disk"}, "spec.pvcName"),
        ({**KIND, "metadata": {"namespace": "bank"}, "spec": {"pvcName": "disk"}}, "metadata.namespace"),
        ({**KIND, "metadata": "text", "spec": {"pvcName": "disk"}}, "metadata: must be an object"),
        ({**KIND, "metadata": [], "spec": {"pvcName": "disk"}}, "metadata: must be an object"),
        ({"kind": "Pod", "spec": {"pvcName": "disk"}}, "UploadTokenRequest"),
    ],
    ids=[
        "no spec",
        "empty",
        "script",
        "a list",
        "no object",
        "another namespace",
        "metadata of text",
        "metadata as a list",
        "another kind",
    ],
)
def test_a_request_that_names_none_is_told_the_field(document: JsonObject, field: str) -> None:
    with pytest.raises(Refusal, match=field) as refused:
        read_requested_grant(document, "shop")
    assert refused.value.code == 400
