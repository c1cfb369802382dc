"""Signatures of S3, and URLs of objects."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.sources.s3_signature import S3Keys, endpoint_of, signer


def test_a_signature_depends_on_key_time_path_and_region() -> None:
    at = datetime(2013, 5, 24, tzinfo=UTC)

    def made(secret: str = "k", region: str = "us-east-1", url: str = "https://b.s3.amazonaws.com/test.txt") -> str:
        return signer(S3Keys("AKID", secret, region), lambda: at)(url)["Authorization"]

    assert made().startswith("AWS4-HMAC-SHA256 Credential=AKID/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;")
    assert len({made(), made("other"), made(region="eu-west-1"), made(url="https://b.s3.amazonaws.com/x")}) == 4
    assert made() == made()


@pytest.mark.parametrize(
    ("url", "gcs", "asked", "region"),
    [
        ("s3://bucket/a b", False, "https://s3.amazonaws.com/bucket/a%20b", "us-east-1"),
        ("https://s3.eu-west-1.amazonaws.com/b/k", False, "https://s3.eu-west-1.amazonaws.com/b/k", "eu-west-1"),
        ("http://minio.lan:9000/b/k", False, "http://minio.lan:9000/b/k", "us-east-1"),
        ("gs://bucket/k", True, "https://storage.googleapis.com/bucket/k", "auto"),
    ],
)
def test_an_object_has_a_web_address_and_a_region(url: str, gcs: bool, asked: str, region: str) -> None:
    found = endpoint_of(url, gcs=gcs)
    assert (found.url, found.region) == (asked, region)


def test_what_is_no_object_is_refused() -> None:
    with pytest.raises(ImportFailure, match="no object"):
        endpoint_of("ftp://x/y", gcs=False)
