"""sev/setupsession: what is written into a VMI, and when it is refused."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from kvedge.api.subresources.attestation.attestation_calls import AttestationCalls
from kvedge.api.subresources.status_message import Refusal
from kvedge.kube.errors import Conflict, KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.guest_verbs import GUEST_VERBS
from tests.support.builders import small_vmi

VERB = next(verb for verb in GUEST_VERBS if verb.name == "sev/setupsession")
SESSION = {"session": "c2Vzc2lvbg==", "dhCert": "Y2VydA=="}
WAITING = {"sev": {"attestation": {}, "policy": {"encryptedState": True}}}


class Server:
    """One VMI, and what was written into it."""

    def __init__(self, security: Any = WAITING, phase: str = "Scheduled", error: KubeError | None = None) -> None:
        self.vmi = small_vmi(domain__launchSecurity=security) | {"status": {"phase": phase}}
        self.writes: list[tuple[Any, Any, str]] = []
        self._error = error

    def request(self, method: str, path: str, body: Any = None, query: Any = None, content: str = "") -> Any:
        if self._error is not None and (method == "PATCH" or isinstance(self._error, NotFound)):
            raise self._error
        if method == "PATCH":
            self.writes.append((body, query, content))
        return self.vmi


def call(server: Server, body: Any = SESSION) -> None:
    sent = body if isinstance(body, bytes) else json.dumps(body).encode()
    AttestationCalls(cast("KubeClient", server)).call(VERB, "default", "small", sent)


def refusal(server: Server, body: Any = SESSION) -> tuple[int, str]:
    with pytest.raises(Refusal) as caught:
        call(server, body)
    assert server.writes == []
    return caught.value.code, caught.value.message.rpartition('": ')[2]


def test_the_session_is_written_beside_what_was_read() -> None:
    server = Server()
    call(server)
    ((operations, query, content),) = server.writes
    assert operations == [
        {"op": "test", "path": "/spec/domain/launchSecurity/sev", "value": WAITING["sev"]},
        {"op": "replace", "path": "/spec/domain/launchSecurity/sev", "value": {**WAITING["sev"], **SESSION}},
    ]
    assert (query, content) == ({}, "application/json-patch+json")


def test_a_dry_run_is_one_of_the_server() -> None:
    server = Server()
    call(server, {**SESSION, "dryRun": ["All"]})
    assert server.writes[0][1] == {"dryRun": "All"}


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "Request with no body: SEV session parameters are required"),
        ({"dhCert": "Y2VydA=="}, "Session blob is required"),
        ({"session": "c2Vzc2lvbg=="}, "DH cert is required"),
        ({**SESSION, "session": "%"}, "session: it is no base64, or too long"),
        ({**SESSION, "dhCert": "A" * (64 * 1024 + 4)}, "dhCert: it is no base64, or too long"),
    ],
    ids=["no body", "no session", "no certificate", "no base64", "too long"],
)
def test_a_session_that_is_none_is_refused(body: Any, words: str) -> None:
    assert refusal(Server(), body) == (400, words)


@pytest.mark.parametrize(
    ("server", "words"),
    [
        (Server(phase="Running"), "VMI is not in Scheduled phase"),
        (Server({"sev": {}}), "Attestation not requested for VMI"),
        (Server({"snp": {}}), "Attestation not requested for VMI"),
        (Server({"sev": {"attestation": {}, "session": "cw=="}}), "Session already defined"),
    ],
    ids=["running", "not attested", "another kind", "twice"],
)
def test_a_session_that_nobody_waits_for_is_refused(server: Server, words: str) -> None:
    assert refusal(server) == (409, words)


def test_a_vmi_that_is_not_there_is_not_found() -> None:
    assert refusal(Server(error=NotFound(404, "NotFound", "")))[0] == 404


def test_another_session_that_came_first_is_an_error_of_the_server() -> None:
    assert refusal(Server(error=Conflict(409, "Conflict", "the test failed")))[0] == 500
