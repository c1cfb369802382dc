# Tests: kvedge/standalone/apiserver/requests/audit_entry.py, kvedge/cli/host/audit_verb.py
"""The audit log: what is written of whom, in bounded files, and that nothing waits for it."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from kvedge.cli.group import run
from kvedge.standalone.apiserver import audit_log
from kvedge.standalone.apiserver.audit_log import MOST_OLD, AuditLog, read_audit
from kvedge.standalone.apiserver.requests.audit_entry import AuditEntry, audit_event
from kvedge.standalone.apiserver.requests.request_context import Caller
from kvedge.standalone.apiserver.requests.request_target import request_target
from tests.support.waiting import wait_until

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
VMS = "/apis/kubevirt.io/v1/namespaces/shop/virtualmachines"


def an_entry(method: str = "DELETE", path: str = f"{VMS}/web", user: str = "ann", agent: str = "kubectl") -> AuditEntry:
    target = request_target(method, path, {})
    return AuditEntry(Caller(user, ("shop",)), target, "10.0.0.7", agent, NOON, "id-1")


def test_an_entry_is_an_event_of_kubernetes() -> None:
    assert audit_event(an_entry(), "ResponseComplete", 200, NOON) == {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "Metadata",
        "auditID": "id-1",
        "stage": "ResponseComplete",
        "requestURI": f"{VMS}/web",
        "verb": "delete",
        "user": {"username": "ann", "groups": ["shop"]},
        "sourceIPs": ["10.0.0.7"],
        "userAgent": "kubectl",
        "objectRef": {
            "resource": "virtualmachines",
            "namespace": "shop",
            "name": "web",
            "apiGroup": "kubevirt.io",
            "apiVersion": "v1",
        },
        "responseStatus": {"metadata": {}, "code": 200},
        "requestReceivedTimestamp": "2026-05-01T12:00:00.000000Z",
        "stageTimestamp": "2026-05-01T12:00:00.000000Z",
    }


@pytest.mark.parametrize(
    ("method", "path", "counts"),
    [
        ("POST", VMS, True),
        ("PATCH", f"{VMS}/web", True),
        ("GET", f"{VMS}/web", False),
        ("GET", VMS, False),
        ("GET", f"{VMS}/web/status", False),
        ("GET", "/api/v1/namespaces/shop/secrets/key", True),
        ("GET", "/api/v1/secrets", True),
        ("GET", "/apis/subresources.kubevirt.io/v1/namespaces/shop/virtualmachineinstances/web/console", True),
        ("GET", "/api/v1/namespaces/shop/pods/p/log", True),
        ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", False),
        ("GET", "/version", False),
    ],
)
def test_changes_secrets_and_ways_into_guests_count(method: str, path: str, counts: bool) -> None:
    assert an_entry(method, path).counts == counts


def test_what_a_client_sends_is_bounded() -> None:
    entry = an_entry(path=f"{VMS}/{'x' * 100_000}", user="u" * 100_000, agent="a" * 100_000)
    assert len(json.dumps(audit_event(entry, "ResponseComplete", 200, NOON))) < 5000


def write(folder: Path, *entries: AuditEntry, most_bytes: int = 1 << 20) -> None:
    log = AuditLog(folder, most_bytes)
    log.start()
    for each in entries:
        log.note(each, "ResponseComplete", 200)
    log.stop()


def test_what_was_noted_is_there_after_the_end_and_is_roots_alone(tmp_path: Path) -> None:
    folder = tmp_path / "audit"
    write(folder, *(an_entry(user=f"u{number}") for number in range(1000)))
    assert [each["user"]["username"] for each in read_audit(folder)] == [f"u{number}" for number in range(1000)]
    assert (folder.stat().st_mode & 0o777, (folder / "audit.log").stat().st_mode & 0o777) == (0o700, 0o600)


def test_files_are_few_and_bounded_and_the_newest_stay(tmp_path: Path) -> None:
    for number in range(40):
        write(tmp_path, *(an_entry(user=f"u{number}") for _ in range(10)), most_bytes=5000)
    files = sorted(tmp_path.iterdir())
    assert len(files) <= MOST_OLD + 1
    assert all(path.stat().st_size < 15_000 for path in files)
    found = [each["user"]["username"] for each in read_audit(tmp_path)]
    assert found[-1] == "u39"
    assert "u0" not in found


def test_a_torn_line_is_left_out(tmp_path: Path) -> None:
    write(tmp_path, an_entry(user="one"))
    with (tmp_path / "audit.log").open("ab") as file:
        file.write(b'{"kind":"Ev\n')
    write(tmp_path, an_entry(user="two"))
    assert [each["user"]["username"] for each in read_audit(tmp_path)] == ["one", "two"]


def test_nobody_waits_for_a_disk_and_what_is_lost_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(audit_log, "_MOST_WAITING", 4)
    folder = tmp_path / "audit"
    folder.write_text("a file where the folder should be")
    log = AuditLog(folder)
    begun = time.monotonic()
    for _ in range(100):
        log.note(an_entry(), "ResponseComplete", 200)
    assert time.monotonic() - begun < 1
    log.start()
    wait_until(lambda: "cannot be written" in caplog.text, "the fault is told")
    folder.unlink()
    log.note(an_entry(), "ResponseComplete", 200)
    wait_until(lambda: "has lost" in caplog.text, "what was lost is told")
    log.stop()
    assert len(list(read_audit(folder))) == 1


def test_the_verb_shows_who_did_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "state").mkdir()
    write(tmp_path / "state" / "audit", an_entry(), an_entry(user="bob\x1b[31m"))
    assert run(["audit", "--data-dir", str(tmp_path)]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "2026-05-01T12:00:00.000000Z  200  ann  10.0.0.7  delete virtualmachines shop/web"
    assert "\x1b" not in second
    assert run(["audit", "--data-dir", str(tmp_path), "--user", "ann", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["user"]["username"] == "ann"
    assert run(["audit", "--data-dir", str(tmp_path), "--since", "1h"]) == 0
    assert capsys.readouterr().out == ""
    assert run(["audit", "--data-dir", str(tmp_path), "--since", "long"]) == 2
