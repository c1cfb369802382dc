# Tests: kvedge/resources/disks/clone_grants.py, kvedge/resources/signed_tokens.py
"""Grants of clones: whose they are, for what, and for how long."""

from __future__ import annotations

import base64
from datetime import timedelta

import msgspec
import pytest

from kvedge.resources.disks.clone_grants import CloneGrant, grant_key, read_grant, sign_grant
from kvedge.resources.signed_tokens import BadToken, derive_key, sign
from tests.support.builders import NOW

KEY = grant_key(b"secret")
GRANT = CloneGrant("shop", "disk", ("golden", "other"))


class Other(msgspec.Struct):
    """A payload of something else."""

    iss: str = "cdi-apiserver"
    iat: int = int(NOW.timestamp())
    operation: str = "Upload"
    namespace: str = "shop"
    name: str = "disk"
    sources: tuple[str, ...] = ("golden",)


@pytest.mark.parametrize("minutes", [-5, 0, 5])
def test_a_grant_says_what_it_is_for(minutes: int) -> None:
    made_at = NOW + timedelta(minutes=minutes)
    assert read_grant([grant_key(b"newer"), KEY], sign_grant(KEY, GRANT, NOW), made_at) == GRANT


def flipped(token: str) -> str:
    head, body, signature = token.split(".")
    payload = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).replace(b"golden", b"secret")
    return f"{head}.{base64.urlsafe_b64encode(payload).rstrip(b'=').decode()}.{signature}"


TOKEN = sign_grant(KEY, GRANT, NOW)
BAD = {
    "nothing": "",
    "no token": "hello",
    "letters of another alphabet": "é.é.é",
    "a megabyte": "a" * (1 << 20),
    "another's": sign_grant(grant_key(b"stranger"), GRANT, NOW),
    "one for uploads": sign(derive_key(b"secret", b"kvedge upload tokens"), Other()),
    "one that says something else": sign(KEY, Other()),
    "another namespace in it": flipped(TOKEN),
    "no signature": TOKEN.rpartition(".")[0],
    "no algorithm": sign_grant(KEY, GRANT, NOW).replace(TOKEN.split(".")[0], "eyJhbGciOiJub25lIn0"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_is_no_grant_of_ours_grants_nothing(case: str) -> None:
    with pytest.raises(BadToken):
        read_grant([KEY], BAD[case], NOW)


@pytest.mark.parametrize("minutes", [-6, 6])
def test_a_grant_is_for_the_data_volume_that_it_was_signed_for(minutes: int) -> None:
    with pytest.raises(BadToken, match="earlier DataVolume"):
        read_grant([KEY], TOKEN, NOW + timedelta(minutes=minutes))
