"""What a server's refusal becomes."""

from __future__ import annotations

import json

import pytest

from kvedge.kube.errors import (
    AlreadyExists,
    Cause,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeError,
    NotFound,
    Unauthenticated,
    Unavailable,
    error_from_answer,
)
from tests.support.scripted_api import status


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (404, "NotFound", NotFound),
        (409, "AlreadyExists", AlreadyExists),
        (409, "Conflict", Conflict),
        (410, "Expired", Gone),
        (410, "Gone", Gone),
        (403, "Forbidden", Forbidden),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", Unavailable),
        (500, "InternalError", Unavailable),
        (503, "ServiceUnavailable", Unavailable),
        (504, "Timeout", Unavailable),
        (400, "BadRequest", KubeError),
        (401, "Unauthorized", Unauthenticated),
    ],
)
def test_a_status_becomes_its_error(code, reason, kind):
    error = error_from_answer(code, json.dumps(status(code, reason, "because")).encode(), "GET /x")
    assert type(error) is kind
    assert (error.status, error.reason, str(error)) == (code, reason, "because")


def test_every_cause_is_kept():
    causes = [{"field": "spec.a", "reason": "FieldValueInvalid", "message": "is odd"}, {"message": "too"}]
    body = json.dumps(status(422, "Invalid", causes=causes)).encode()
    error = error_from_answer(422, body, "POST /x")
    assert error.causes == (Cause("spec.a", "FieldValueInvalid", "is odd"), Cause("", "", "too"))


def test_a_wait_that_the_server_asks_for_is_kept():
    body = json.dumps(status(429, "TooManyRequests", retryAfterSeconds=7)).encode()
    assert error_from_answer(429, body, "GET /x").retry_after == 7


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway</html>", b"[]", b'{"kind": "Pod"}', b"\xff\xfe"])
def test_an_answer_of_something_in_between_is_an_error_with_its_text(body):
    error = error_from_answer(502, body, "GET /x")
    assert type(error) is Unavailable
    assert str(error).startswith("GET /x: HTTP 502")


@pytest.mark.parametrize("details", [None, {"causes": None}, {"causes": ["text"]}, {"retryAfterSeconds": "soon"}])
def test_odd_details_are_no_reason_to_fail(details):
    body = json.dumps({**status(409, "Conflict"), "details": details}).encode()
    error = error_from_answer(409, body, "PUT /x")
    assert type(error) is Conflict
    assert error.causes == ()


def test_the_path_of_a_webhook_that_gave_no_answer_is_not_told_on() -> None:
    text = 'Internal error occurred: failed calling webhook "a.kubevirt.io": failed to call webhook: Post "{}": refused'
    url = "https://kvedge-api.kvedge-system.svc:443/validate-migration/5ec2e7?timeout=10s"
    answer = status(500, "InternalError", text.format(url))
    error = error_from_answer(500, json.dumps(answer).encode(), "POST /x")
    assert error.message == text.format("https://kvedge-api.kvedge-system.svc:443/…")
    # All other words are the server's own.
    other = json.dumps(status(500, "InternalError", f"see {url}")).encode()
    assert error_from_answer(500, other, "POST /x").message == f"see {url}"
