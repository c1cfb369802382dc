"""Signing GETs for S3-compatible stores (AWS signature version 4), Google's with HMAC keys included.

Called by the sources. Computes only; reads the clock that it is handed.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qsl, quote, unquote_to_bytes, urlsplit

from msgspec import Struct

from kvedge.storage.imports.import_errors import ImportFailure

_EMPTY: Final = hashlib.sha256(b"").hexdigest()
_BYTES: Final = "surrogateescape"
_AWS_REGION: Final = re.compile(r"s3[.-]([a-z]{2}(?:-[a-z]+)+-\d)\.amazonaws\.com(?:\.cn)?$")


class S3Endpoint(Struct, frozen=True):
    """The HTTP URL of an object, and the region that a signature names."""

    url: str
    region: str


@dataclass(frozen=True, slots=True)
class S3Keys:
    """A login for a store."""

    access: str
    secret: str = field(repr=False)
    region: str


def endpoint_of(url: str, *, gcs: bool) -> S3Endpoint:
    """`s3://bucket/key`, `gs://bucket/key`, or the object's https URL at any store.

    Raises:
        ImportFailure: for another URL.
    """
    parts = urlsplit(url)
    path = parts.path.lstrip("/")
    if parts.scheme == "gs" or (gcs and parts.scheme == "gcs"):
        return S3Endpoint(f"https://storage.googleapis.com/{parts.netloc}/{quote(path)}", "auto")
    if parts.scheme == "s3":
        return S3Endpoint(f"https://s3.amazonaws.com/{parts.netloc}/{quote(path)}", "us-east-1")
    if parts.scheme not in ("http", "https") or not path:
        raise ImportFailure(f"source URL {url[:200]!r} is no object of a store: write s3://BUCKET/KEY or its https URL")
    found = _AWS_REGION.search(parts.hostname or "")
    return S3Endpoint(url, found[1] if found else "auto" if gcs else "us-east-1")


def signer(keys: S3Keys, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> Callable[[str], Mapping[str, str]]:
    """What gives the headers of a GET of a URL."""
    return lambda url: _headers(url, keys, now())


def _headers(url: str, keys: S3Keys, at: datetime) -> dict[str, str]:
    parts = urlsplit(url)
    moment = at.strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{keys.region}/s3/aws4_request"
    path = quote(unquote_to_bytes(parts.path)) or "/"
    asked = "\n".join(
        (
            "GET",
            path,
            _canonical_query(parts.query),
            f"host:{parts.netloc}\nx-amz-content-sha256:{_EMPTY}\nx-amz-date:{moment}\n",
            "host;x-amz-content-sha256;x-amz-date",
            _EMPTY,
        )
    )
    to_sign = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{hashlib.sha256(asked.encode()).hexdigest()}"
    key = f"AWS4{keys.secret}".encode()
    for word in scope.split("/"):
        key = hmac.digest(key, word.encode(), "sha256")
    signature = hmac.digest(key, to_sign.encode(), "sha256").hex()
    return {
        "x-amz-date": moment,
        "x-amz-content-sha256": _EMPTY,
        "Authorization": f"AWS4-HMAC-SHA256 Credential={keys.access}/{scope}, "
        f"SignedHeaders=host;x-amz-content-sha256;x-amz-date, Signature={signature}",
    }


def _canonical_query(query: str) -> str:
    """Each parameter with its value, encoded in one way, then sorted by both: a key alone has an empty value."""
    # Bytes that are no UTF-8 are signed as they are.
    given = parse_qsl(query, keep_blank_values=True, errors=_BYTES)
    encoded = sorted((quote(key, "", errors=_BYTES), quote(value, "", errors=_BYTES)) for key, value in given)
    return "&".join(f"{key}={value}" for key, value in encoded)
