"""What a token opens, and what opens nothing."""

from __future__ import annotations

import base64
import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.api.uploads.upload_token import BadToken, UploadGrant, read_token, sign_token, token_key
from tests.support.builders import NOW

KEY, OTHER = token_key(b"one"), token_key(b"another")
GRANT = UploadGrant("shop", "disk")


def test_a_token_opens_the_claim_that_it_was_made_for() -> None:
    assert read_token([OTHER, KEY], sign_token(KEY, GRANT, NOW), NOW) == GRANT


@pytest.mark.parametrize("seconds", [-9, 0, 300, 309], ids=["a clock behind", "new", "at its end", "a clock ahead"])
def test_a_token_is_good_within_its_time(seconds: int) -> None:
    assert read_token([KEY], sign_token(KEY, GRANT, NOW), NOW + timedelta(seconds=seconds)) == GRANT


@pytest.mark.parametrize("seconds", [-20, 311, 86400], ids=["not yet", "just over", "long over"])
def test_a_token_is_good_for_five_minutes_only(seconds: int) -> None:
    with pytest.raises(BadToken, match="time"):
        read_token([KEY], sign_token(KEY, GRANT, NOW), NOW + timedelta(seconds=seconds))


def test_a_token_of_another_key_opens_nothing() -> None:
    with pytest.raises(BadToken, match="signature"):
        read_token([KEY], sign_token(OTHER, GRANT, NOW), NOW)


def test_a_token_that_claims_to_need_no_signature_opens_nothing() -> None:
    head = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    body = sign_token(KEY, GRANT, NOW).split(".")[1]
    for token in (f"{head}.{body}.", f"{head}.{body}", f"{head}.{body}.{sign_token(KEY, GRANT, NOW).split('.')[2]}"):
        with pytest.raises(BadToken):
            read_token([KEY], token, NOW)


def test_a_token_whose_claim_was_changed_opens_nothing() -> None:
    head, body, signature = sign_token(KEY, GRANT, NOW).split(".")
    payload = json.loads(base64.urlsafe_b64decode(body + "=="))
    assert payload["name"] == "disk"
    changed = base64.urlsafe_b64encode(json.dumps({**payload, "name": "other"}).encode()).rstrip(b"=").decode()
    with pytest.raises(BadToken):
        read_token([KEY], f"{head}.{changed}.{signature}", NOW)


@given(st.text(max_size=200) | st.just("." * 5000))
def test_anything_else_opens_nothing_and_breaks_nothing(text: str) -> None:
    with pytest.raises(BadToken):
        read_token([KEY], text, NOW)
