"""Which requests for certificates the server signs itself, and which it forgets."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kvedge.resources.codec import JsonObject
from kvedge.resources.role_users import MASTERS
from kvedge.runtime.tls.certificate_requests import new_request
from kvedge.runtime.tls.certificates import CertificateAuthority, LeafRequest
from kvedge.standalone.apiserver.access.authorizer_rules import AUTHENTICATED, FIXED_RIGHTS
from kvedge.standalone.apiserver.access.csr_plan import LONGEST, Fail, Sign, is_old, plan_request
from kvedge.standalone.apiserver.access.csr_rules import CLIENT_SIGNER
from kvedge.standalone.apiserver.requests.write_rules import timestamp

NOW = datetime(2026, 5, 1, tzinfo=UTC)
ANN = new_request("ann", ["devs"]).request


def request(
    pem: bytes = ANN, *conditions: str, certificate: bytes = b"", age: timedelta = timedelta(), **spec: Any
) -> JsonObject:
    moment = timestamp(NOW - age)
    usual = {"request": base64.b64encode(pem).decode(), "signerName": CLIENT_SIGNER, "usages": ["client auth"]}
    status: JsonObject = {
        "conditions": [{"type": kind, "status": "True", "lastUpdateTime": moment} for kind in conditions]
    }
    if certificate:
        status["certificate"] = base64.b64encode(certificate).decode()
    return {"metadata": {"name": "r", "creationTimestamp": moment}, "spec": {**usual, **spec}, "status": status}


@pytest.mark.parametrize(
    ("seconds", "life"),
    [(None, LONGEST), (600, timedelta(minutes=10)), (86400, timedelta(days=1)), (10**9, LONGEST)],
)
def test_an_approved_request_is_signed_for_as_long_as_asked(seconds: int | None, life: timedelta) -> None:
    more = {} if seconds is None else {"expirationSeconds": seconds}
    step = plan_request(request(ANN, "Approved", **more))
    assert isinstance(step, Sign)
    assert step.life == life


@pytest.mark.parametrize(
    "found",
    [
        request(),
        request(ANN, "Denied"),
        request(ANN, "Approved", "Denied"),
        request(ANN, "Approved", "Failed"),
        request(ANN, "Approved", certificate=b"x"),
        request(ANN, "Approved", signerName="kubernetes.io/kubelet-serving"),
        request(ANN, "Approved", signerName="kubernetes.io/kube-apiserver-client-kubelet"),
        request(ANN, "Approved", signerName="kvedge.io/handler-serving"),
    ],
    ids=["undecided", "denied", "both", "failed", "signed", "another", "a kubelet's", "a handler's"],
)
def test_everything_else_is_left_alone(found: JsonObject) -> None:
    assert plan_request(found) is None


@pytest.mark.parametrize("group", sorted(FIXED_RIGHTS.keys() - {AUTHENTICATED} | {MASTERS}))
def test_a_group_with_fixed_rights_is_never_signed(group: str) -> None:
    step = plan_request(request(new_request("me", ["devs", group]).request, "Approved"))
    assert isinstance(step, Fail)
    assert f"group {group}" in step.reason


@pytest.mark.parametrize("group", sorted(FIXED_RIGHTS.keys() - {AUTHENTICATED}))
def test_an_administrator_may_ask_for_one_of_kvedges_roles(group: str) -> None:
    wanted = new_request("me", [group]).request
    step = plan_request(request(wanted, "Approved", groups=[MASTERS, AUTHENTICATED]))
    assert isinstance(step, Fail) if group == MASTERS else isinstance(step, Sign)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (request(new_request("me", ["system:masters"]).request, "Approved"), "system:masters"),
        (request(new_request("me", ["a", "system:masters"]).request, "Approved"), "system:masters"),
        (request(ANN, "Approved", usages=["server auth"]), "usages"),
        (request(ANN, "Approved", usages=["client auth", "server auth"]), "usages"),
        (request(ANN, "Approved", usages=["client auth", "cert sign"]), "usages"),
        (request(b"nonsense", "Approved"), "CERTIFICATE REQUEST"),
        (request(new_request("me\r\nX-Remote-Group: system:masters").request, "Approved"), "control characters"),
        (request(new_request("me", ["g\n"]).request, "Approved"), "control characters"),
    ],
)
def test_what_is_never_signed_is_told_why(found: JsonObject, words: str) -> None:
    step = plan_request(found)
    assert isinstance(step, Fail)
    assert words in step.reason


def ended() -> bytes:
    authority = CertificateAuthority.create("a", NOW - timedelta(days=3))
    request = LeafRequest("x", life=timedelta(days=1))
    return authority.issue(request, NOW - timedelta(days=2)).certificate


@pytest.mark.parametrize(
    ("found", "old"),
    [
        (request(age=timedelta(hours=23)), False),
        (request(age=timedelta(hours=25)), True),
        (request(ANN, "Denied", age=timedelta(minutes=59)), False),
        (request(ANN, "Denied", age=timedelta(minutes=61)), True),
        (request(ANN, "Approved", age=timedelta(hours=2)), False),
        (request(ANN, "Approved", age=timedelta(hours=25)), True),
        (request(ANN, "Approved", "Failed", age=timedelta(hours=2)), True),
        (request(ANN, "Approved", certificate=b"x", age=timedelta(hours=2)), True),
        (request(ANN, "Approved", certificate=b"x", age=timedelta(minutes=5)), False),
        (request(ANN, "Approved", certificate=ended()), True),
    ],
    ids=[
        "waits", "waits for a day", "denied", "denied long ago", "waits for its signer", "is never signed",
        "failed long ago", "signed long ago", "signed", "its certificate has ended",
    ],
)  # fmt: skip
def test_a_request_is_forgotten_when_nobody_needs_it(found: JsonObject, old: bool) -> None:
    assert is_old(found, NOW) is old
