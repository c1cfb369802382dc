# Tests: kvedge/appliance/report/report_file.py, kvedge/appliance/report/report_redaction.py
"""Nothing secret gets into a report, wherever it was put; what helps stays."""

from __future__ import annotations

import base64
import json
import tarfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvedge.appliance.report import report_file
from kvedge.appliance.report.report_file import ReportFile
from kvedge.appliance.report.report_redaction import Redaction
from kvedge.resources.codec import JsonObject

S = [f"planted-{number}-s3cr3t" for number in range(12)]
CLOUD_CONFIG = f"#cloud-config\npassword: {S[0]}\nchpasswd:\n  users:\n  - {{name: root, password: '{S[1]}'}}\n"
VM: JsonObject = {
    "apiVersion": "kubevirt.io/v1",
    "kind": "VirtualMachine",
    "metadata": {"name": "web", "annotations": {}},
    "spec": {
        "template": {
            "spec": {
                "volumes": [
                    {"name": "a", "cloudInitNoCloud": {"userData": CLOUD_CONFIG, "networkData": f"key: {S[2]}"}},
                    {"name": "b", "cloudInitConfigDrive": {"userDataBase64": base64.b64encode(S[3].encode()).decode()}},
                    {"name": "c", "secret": {"secretName": "kept-name"}},
                ],
                "domain": {"memory": {"guest": "1Gi"}},
            }
        }
    },
}
SECRET: JsonObject = {
    "apiVersion": "v1",
    "kind": "Secret",
    "metadata": {"name": "kept-name", "managedFields": [{"fieldsV1": {"f:data": {"f:password": {}}}}]},
    "data": {"any": base64.b64encode(S[4].encode()).decode()},
    "stringData": {"other": S[5]},
}


def with_last_applied(document: JsonObject) -> JsonObject:
    annotation = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(document)}
    return {**document, "metadata": {**document["metadata"], "annotations": annotation}}


def planted() -> list[JsonObject]:
    pod = {
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"env": [{"name": "DB_PASSWORD", "value": S[6]}, {"name": "MODE", "value": "kept"}]}]},
    }
    config_map = {"kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"userdata.yaml": S[7]}}
    revision = {"kind": "ControllerRevision", "metadata": {"name": "r"}, "data": {"spec": VM["spec"]}}
    listed = {"kind": "Event", "metadata": {"name": "e"}, "message": f"login as {S[0]} with {S[4]} failed"}
    return [with_last_applied(VM), with_last_applied(SECRET), pod, config_map, revision, listed]


def test_no_planted_secret_is_left_in_objects_or_in_texts_that_repeat_them() -> None:
    redaction = Redaction()
    documents = [redaction.document(document) for document in planted()]
    text = json.dumps(redaction.scrub(documents))
    encoded = [base64.b64encode(secret.encode()).decode() for secret in S]
    assert [secret for secret in [*S, *encoded] if secret in text] == []
    assert "kept-name" in text
    assert '"kept"' in text
    assert '"guest": "1Gi"' in text
    log = redaction.clean_text(f"qemu: {S[3]} | {S[5]} | {json.dumps(CLOUD_CONFIG)} | started")
    assert [secret for secret in S if secret in log] == []
    assert log.endswith("started")


def test_the_originals_are_not_changed() -> None:
    before = json.dumps(SECRET)
    Redaction().document(SECRET)
    assert json.dumps(SECRET) == before


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"password={S[0]}", id="password="),
        pytest.param(f'"root_password": "{S[0]}"', id="JSON"),
        pytest.param(f"Authorization: Bearer {S[0]}", id="a header"),
        pytest.param(f"curl -H 'x' https://admin:{S[0]}@example/x", id="a URL"),
        pytest.param(f"-----BEGIN EC PRIVATE KEY-----\n{S[0]}\n-----END EC PRIVATE KEY-----", id="a key"),
        pytest.param(f"-----BEGIN PRIVATE KEY-----\n{S[0]}\nand cut off", id="half a key"),
        pytest.param(f"$6$salt$abcdefgh{S[0]}", id="a hash"),
        pytest.param(f"eyJhbGciOiJSUzI1NiJ9.eyJ{S[0]}.sig", id="a token"),
        pytest.param(f"--token={S[0]}", id="an option"),
    ],
)
def test_what_looks_like_a_secret_in_a_text_goes(text: str) -> None:
    cleaned = Redaction().clean_text(f"before {text} after")
    assert S[0] not in cleaned
    assert cleaned.startswith("before")


def test_words_about_secrets_stay() -> None:
    text = 'secret "web-login" not found; the token expired\nsecret:\n  secretName: a'
    assert Redaction().clean_text(text) == text


@given(st.text(min_size=6, max_size=30).map(str.strip).filter(lambda value: len(value) >= 6))
def test_any_value_of_a_secret_is_removed_from_every_text(value: str) -> None:
    redaction = Redaction()
    redaction.document({"kind": "Secret", "data": {"a": base64.b64encode(value.encode()).decode()}})
    assert value not in redaction.clean_text(f"x{value}y").replace("(removed)", "")


def test_an_annotation_that_is_half_a_document_goes_whole() -> None:
    document = {"kind": "VirtualMachine", "metadata": {"annotations": {"a": f'{{"userData": "{S[0]}', "b": "kept"}}}
    text = json.dumps(Redaction().document(document))
    assert S[0] not in text
    assert "kept" in text


def test_a_report_is_for_its_owner_alone_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_file, "MOST_MEMBER_BYTES", 1000)
    monkeypatch.setattr(report_file, "MOST_BYTES", 1500)
    path = tmp_path / "report.tar.gz"
    with ReportFile(path, Redaction()) as report:
        report.add("long.txt", "line\n" * 500 + "the end\n")
        report.add("too-much.txt", "x" * 900)
        report.add("small.txt", "password=hunter2")
    assert path.stat().st_mode & 0o777 == 0o600
    with tarfile.open(path) as archive:
        texts = {info.name: archive.extractfile(info).read().decode() for info in archive}  # type: ignore[union-attr]
    assert texts["report/long.txt"].endswith("the end\n")
    assert len(texts["report/long.txt"]) <= 1000
    assert texts["report/small.txt"] == "password=(removed)"
    assert "too-much.txt: left out" in texts["report/notes.txt"]
    assert list(tmp_path.iterdir()) == [path]


def test_a_report_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail() -> None:
        with ReportFile(tmp_path / "report.tar.gz", Redaction()) as report:
            report.add("a", "b")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert list(tmp_path.iterdir()) == []
