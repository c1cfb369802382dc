"""Names that roles share about uploads."""

from __future__ import annotations

import re

import pytest

from kvedge.resources.disks.uploads import UPLOAD_PATHS, upload_pod_name


def test_a_worker_is_called_after_its_claim() -> None:
    assert upload_pod_name("disk") == "cdi-upload-disk"


@pytest.mark.parametrize("claim", ["a" * 253, "a" * 236 + ".bbbbbbbbbbbb"], ids=["long", "cut at a dot"])
def test_a_long_claims_worker_has_a_name_that_an_object_may_have(claim: str) -> None:
    name = upload_pod_name(claim)
    assert len(name) <= 253
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?", name)
    assert name != upload_pod_name(claim[:-1] + "c")


def test_uploads_are_taken_at_eight_paths() -> None:
    assert len(UPLOAD_PATHS) == 8
    assert "/v1beta1/upload-form-async" in UPLOAD_PATHS
