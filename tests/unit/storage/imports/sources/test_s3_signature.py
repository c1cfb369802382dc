"""Signatures of S3, and URLs of objects."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kvedge.storage.imports.import_errors import ImportFailure
from kvedge.storage.imports.sources.s3_signature import S3Keys, _canonical_query, endpoint_of, signer


def test_a_signature_depends_on_key_time_path_and_region() -> None:
    at = datetime(2013, 5, 24, tzinfo=UTC)

    def made(secret: str = "k", region: str = "us-east-1", url: str = "https://b.s3.amazonaws.com/test.txt") -> str:
        return signer(S3Keys("AKID", secret, region), lambda: at)(url)["Authorization"]

    assert made().startswith("AWS4-HMAC-SHA256 Credential=AKID/20130524/us-east-1/s3/aws4_request, SignedHeaders=host;")
    assert len({made(), made("other"), made(region="eu-west-1"), made(url="https://b.s3.amazonaws.com/x")}) == 4
    assert made() == made()


@pytest.mark.parametrize(
    ("query", "signature"),
    [
        ("lifecycle", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
        ("prefix=J&max-keys=2", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
    ids=["a bucket's lifecycle", "a list of objects", "the same in another order"],
)
def test_the_signatures_of_amazon_s_published_examples_come_out(query: str, signature: str) -> None:
    """Of "Signature Calculations for the Authorization Header" in the reference of S3's API."""
    keys = S3Keys("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "us-east-1")
    headers = signer(keys, lambda: datetime(2013, 5, 24, tzinfo=UTC))(
        f"https://examplebucket.s3.amazonaws.com/?{query}"
    )
    assert headers == {
        "x-amz-date": "20130524T000000Z",
        "x-amz-content-sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "Authorization": "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, "
        f"SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}",
    }


@pytest.mark.parametrize(
    ("one", "other"),
    [("b?a=1&a-b=2", "b?a-b=2&a=1"), ("b?a=2&a=1", "b?a=1&a=2"), ("b?k=%ff", "b?k=%FF"), ("%ff", "%FF")],
    ids=["a key that begins another", "two values of a key", "a byte of a value", "a byte of the path"],
)
def test_one_request_has_one_signature_however_it_is_written(one: str, other: str) -> None:
    sign = signer(S3Keys("AKID", "k", "auto"), lambda: datetime(2013, 5, 24, tzinfo=UTC))
    assert sign(f"https://store/{one}") == sign(f"https://store/{other}")


@pytest.mark.parametrize(
    ("query", "canonical"),
    [("a-b=2&a=1", "a=1&a-b=2"), ("k=%ff&j", "j=&k=%FF"), ("k=%e4%bd%a0+b", "k=%E4%BD%A0%20b"), ("", "")],
)
def test_parameters_are_sorted_by_name_before_they_are_joined(query: str, canonical: str) -> None:
    assert _canonical_query(query) == canonical


@pytest.mark.parametrize("place", ["%ff", "b?k=%ff"])
def test_bytes_that_are_no_text_are_not_signed_as_others(place: str) -> None:
    sign = signer(S3Keys("AKID", "k", "auto"), lambda: datetime(2013, 5, 24, tzinfo=UTC))
    assert sign(f"https://store/{place}") != sign(f"https://store/{place.replace('%ff', '%fe')}")


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
