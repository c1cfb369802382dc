"""Tokens of service accounts, and everything that looks like one."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st

from kvedge.standalone.apiserver.access.service_tokens import ISSUER, AccountId, BoundTo, ServiceTokens
from tests.support.clocks import FakeClock

ROBOT = AccountId("ns", "robot", "uid-1")


@pytest.fixture(scope="module")
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="module")
def present() -> set[AccountId]:
    return {ROBOT}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory, clock: FakeClock, present: set[AccountId]) -> ServiceTokens:
    return ServiceTokens(tmp_path_factory.mktemp("pki"), lambda account: account in present, clock.now)


@pytest.fixture(autouse=True)
def as_it_was(clock: FakeClock, present: set[AccountId]) -> None:
    clock.set_wall(datetime(2026, 5, 1, tzinfo=UTC))
    present.clear()
    present.add(ROBOT)


def test_a_token_is_its_accounts_for_a_while(tokens: ServiceTokens, clock: FakeClock) -> None:
    token, ends = tokens.issue(ROBOT, [ISSUER], 600)
    assert ends == clock.now() + timedelta(seconds=600)
    found = tokens.account_of(token)
    assert found is not None
    assert (found.user, found.uid) == ("system:serviceaccount:ns:robot", "uid-1")
    assert found.groups == ("system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated")
    clock.seconds += 599
    assert tokens.account_of(token) is not None
    clock.seconds += 1
    assert tokens.account_of(token) is None


def test_a_token_from_the_future_is_nobodys(tokens: ServiceTokens, clock: FakeClock) -> None:
    token, _ = tokens.issue(ROBOT, [ISSUER], 600)
    clock.seconds -= 2
    assert tokens.account_of(token) is None


def test_a_token_ends_with_its_account(tokens: ServiceTokens, present: set[AccountId]) -> None:
    token, _ = tokens.issue(ROBOT, [ISSUER], 600)
    present.clear()
    assert tokens.account_of(token) is None
    present.add(AccountId("ns", "robot", "uid-2"))
    assert tokens.account_of(token) is None


def test_a_pods_token_ends_with_the_pod(tokens: ServiceTokens, present: set[AccountId]) -> None:
    of_pod = AccountId("ns", "robot", "uid-1", BoundTo("p", "pod-1"))
    present.add(of_pod)
    token, _ = tokens.issue(of_pod, [ISSUER], 600)
    found = tokens.account_of(token)
    assert found is not None
    assert found.extra["authentication.kubernetes.io/pod-name"] == ("p",)
    assert found.extra["authentication.kubernetes.io/pod-uid"] == ("pod-1",)
    present.remove(of_pod)
    assert tokens.account_of(token) is None


def test_a_token_counts_for_its_audience_only(tokens: ServiceTokens) -> None:
    token, _ = tokens.issue(ROBOT, ["vault", "bank"], 600)
    assert tokens.account_of(token) is None
    assert tokens.account_of(token, ["bank"]) is not None
    assert tokens.account_of(token, ["thief"]) is None
    assert tokens.account_of(token, []) is None


def test_the_key_is_kept_and_is_the_owners_alone(tmp_path: Path, clock: FakeClock) -> None:
    token, _ = ServiceTokens(tmp_path, lambda account: True, clock.now).issue(ROBOT, [ISSUER], 600)
    assert ServiceTokens(tmp_path, lambda account: True, clock.now).account_of(token) is not None
    key = tmp_path / "service-account.key"
    assert key.stat().st_mode & 0o777 == 0o600
    key.unlink()
    assert ServiceTokens(tmp_path, lambda account: True, clock.now).account_of(token) is None


def encoded(document: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).decode().rstrip("=")


def decoded(part: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return found


def test_no_claim_can_be_changed(tokens: ServiceTokens) -> None:
    token, _ = tokens.issue(ROBOT, [ISSUER], 600)
    header, claims, signature = token.split(".")
    found = decoded(claims)
    for change in (
        {"sub": "system:serviceaccount:kube-system:admin"},
        {"exp": found["exp"] + 1},
        {"nbf": 0},
        {"aud": ["vault"]},
        {"kubernetes.io": {"namespace": "kube-system", "serviceaccount": {"name": "robot", "uid": "uid-1"}}},
    ):
        assert tokens.account_of(f"{header}.{encoded({**found, **change})}.{signature}") is None, change


@pytest.mark.parametrize("algorithm", ["none", "None", "HS256", "RS256", "ES384", "", "es256"])
def test_the_algorithm_is_not_the_tokens_to_say(tokens: ServiceTokens, algorithm: str) -> None:
    token, _ = tokens.issue(ROBOT, [ISSUER], 600)
    header, claims, signature = token.split(".")
    other = encoded({**decoded(header), "alg": algorithm})
    assert tokens.account_of(f"{other}.{claims}.{signature}") is None
    assert tokens.account_of(f"{other}.{claims}.") is None


def test_the_public_key_is_no_secret_to_sign_with(tokens: ServiceTokens) -> None:
    token, _ = tokens.issue(ROBOT, [ISSUER], 600)
    header, claims, _ = token.split(".")
    public = tokens._key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    signed = f"{encoded({**decoded(header), 'alg': 'HS256'})}.{claims}"
    forged = hmac.new(public, signed.encode(), hashlib.sha256).digest()
    assert tokens.account_of(f"{signed}.{base64.urlsafe_b64encode(forged).decode().rstrip('=')}") is None


def test_a_signature_of_zeros_is_none(tokens: ServiceTokens) -> None:
    token, _ = tokens.issue(ROBOT, [ISSUER], 600)
    head = token.rpartition(".")[0]
    for raw in (bytes(64), bytes(63) + b"\1", b"\xff" * 64, bytes(65), b""):
        assert tokens.account_of(f"{head}.{base64.urlsafe_b64encode(raw).decode().rstrip('=')}") is None


@given(st.text(max_size=60))
def test_any_text_is_nobodys_token(tokens: ServiceTokens, text: str) -> None:
    for token in (text, f"{text}.{text}.{text}", f"e30.{text}.e30"):
        assert tokens.account_of(token) is None
