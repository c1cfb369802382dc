"""The tier's own parts, without a box and without KubeVirt's binary."""

from __future__ import annotations

import argparse
import base64
import json
import subprocess
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.http2_door import http2_door
from tests.conformance.known_specs import Place
from tests.conformance.played_front import (
    Played,
    PlayedFront,
    handler_pod,
    one_request_head,
    parse_head,
    with_bridges,
)
from tests.conformance.played_jobs import PlayedJobs
from tests.conformance.spec_server import SpecServer
from tests.conformance.suite import SpecResult, count_processes, first_line, missing_tools, result_of
from tests.conformance.table import render, unexpected
from tests.support.certificate_files import FileAuthority


def report(**more: Any) -> dict[str, Any]:
    """Ginkgo's report of a spec that passed."""
    return {
        "State": "passed",
        "LeafNodeType": "It",
        "ContainerHierarchyTexts": ["[sig-compute]VNC", "A new VMI"],
        "LeafNodeText": "should answer",
        "LeafNodeLocation": {"FileName": "kubevirt.io/kubevirt/tests/vnc_test.go", "LineNumber": 68},
        "RunTime": 2_500_000_000,
        **more,
    }


def ask(server: SpecServer, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(urllib.request.Request(server.address + path, data=body), timeout=5) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, b""


def test_a_report_becomes_a_line_of_the_table() -> None:
    failed = result_of(report(State="failed", Failure={"Message": "\x1b[1mTimed out after\x1b[0m\n180.000s.\nmore"}))
    assert failed == SpecResult(
        "[sig-compute]VNC A new VMI should answer", "vnc_test.go", 68, "failed", 2.5, "Timed out after 180.000s."
    )
    passed = result_of(report())
    assert passed is not None
    lines = render([failed, passed], Place.BOX).splitlines()
    assert lines[1].split() == ["vnc_test.go", "1", "1", "0"]
    assert lines[3].strip() == "failed: Timed out after 180.000s."
    assert lines[-1].split() == ["all", "1", "1", "0"]


def test_a_spec_that_waits_for_a_part_of_kvedge_is_told_apart() -> None:
    name = "[test_id:1654]with set grace period"
    failed = result_of(report(State="failed", LeafNodeText=name, Failure={"Message": "no"}))
    passed = result_of(report(LeafNodeText="[test_id:1653]with set grace period"))
    broken = result_of(report(State="panicked", Failure={"Message": "no"}))
    assert failed is not None
    assert passed is not None
    assert broken is not None
    assert unexpected([failed, passed, broken], Place.BOX) == [broken]
    text = render([failed, passed], Place.BOX)
    assert (
        "failed, waits for a VMI that stays Succeeded for a second, for which these specs look once a second: no"
        in text
    )
    assert "take it off the list" in text


def test_a_program_that_is_missing_is_told_with_its_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    for name in ("skopeo", "kubectl"):
        (tmp_path / name).touch(0o755)
    told = ["xz (apt-get install xz-utils)", "zstd (apt-get install zstd)"]
    assert missing_tools("skopeo", "xz", "kubectl", "zstd") == told


def test_what_was_not_selected_is_no_result() -> None:
    assert result_of(report(State="skipped")) is None
    assert result_of(report(State="pending")) is None
    assert result_of(report(LeafNodeType="AfterSuite")) is None
    skipped = result_of(report(State="skipped", Failure={"Message": "needs CDI"}))
    assert skipped is not None
    assert (skipped.is_failed, skipped.failure) == (False, "needs CDI")
    broken = result_of(report(LeafNodeType="BeforeSuite", State="failed"))
    assert broken is not None
    assert broken.is_failed


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Unexpected error:\n    <*errors.StatusError | 0x16fc>: \n    webhook denied it\n", "webhook denied it"),
        ("Expected\n    <int>: 3\nto equal\n    <int>: 4", "Expected <int>: 3"),
        ("Test Panicked", "Test Panicked"),
    ],
)
def test_a_failure_is_told_by_its_first_line_that_says_something(text: str, line: str) -> None:
    assert first_line(text) == line


def test_a_panic_is_told() -> None:
    panicked = result_of(report(State="panicked", Failure={"Message": "Test Panicked", "ForwardedPanic": "nil map"}))
    assert panicked is not None
    assert panicked.failure == "Test Panicked: nil map"


def test_the_first_line_of_a_failure_is_cut() -> None:
    assert first_line("\n  {{red}}" + "x" * 500 + "{{/}}\nmore") == "x" * 200
    assert first_line("") == ""


@pytest.mark.parametrize("text", ["1", "0", "-2", "two", ""])
def test_a_suite_of_one_process_tells_nothing_and_is_refused(text: str) -> None:
    assert count_processes("2") == 2
    with pytest.raises(argparse.ArgumentTypeError, match="name 2 or more"):
        count_processes(text)


def test_processes_share_out_specs_and_wait_for_the_first() -> None:
    told: list[dict[str, Any]] = []
    running = [True, True]
    with SpecServer(told.append) as server:
        server.watch([lambda: running[0], lambda: running[1]])
        assert [json.loads(ask(server, "/counter")[1])["Index"] for _ in range(3)] == [0, 1, 2]
        assert ask(server, "/before-suite-state")[0] == 425
        ask(server, "/before-suite-completed", b'{"Data": null, "State": "passed"}')
        assert json.loads(ask(server, "/before-suite-state")[1])["State"] == "passed"
        ask(server, "/did-run", json.dumps(report()).encode())
        ended = {"SpecReports": [report()], "SuiteSucceeded": True}
        assert ask(server, "/have-nonprimary-procs-finished")[0] == 425
        ask(server, "/suite-did-end", json.dumps(ended).encode())
        running[1] = False
        assert ask(server, "/have-nonprimary-procs-finished")[0] == 200
        assert json.loads(ask(server, "/aggregated-nonprimary-procs-report")[1]) == ended
        assert ask(server, "/abort")[0] == 200
        ask(server, "/abort", b"")
        assert ask(server, "/abort")[0] == 410
    assert told == [report()]


def test_a_first_process_that_died_is_waited_for_by_nobody() -> None:
    with SpecServer(lambda report: None) as server:
        server.watch([lambda: False, lambda: True])
        assert ask(server, "/before-suite-state")[0] == 410


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("GET", "/apis/apps/v1/namespaces/kubevirt/deployments/virt-operator", "Deployment"),
        ("GET", "/apis/batch/v1/jobs", "JobList"),
        ("DELETE", "/apis/apps/v1/namespaces/some/daemonsets", "Status"),
        ("GET", "/apis/autoscaling/v2/horizontalpodautoscalers?limit=1", "HorizontalPodAutoscalerList"),
    ],
)
def test_the_door_answers_for_what_a_box_does_not_have(method: str, path: str, kind: str) -> None:
    answer = Played().answer(method, path)
    assert answer is not None
    assert answer["kind"] == kind


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/apis/apps/v1/namespaces/kubevirt/controllerrevisions"),
        ("POST", "/apis/batch/v1/namespaces/some/jobs"),
        ("GET", "/api/v1/namespaces/some/pods"),
        ("GET", "/apis/apps/v1/namespaces/kubevirt/deployments/virt-api"),
    ],
)
def test_the_door_hands_everything_else_on(method: str, path: str) -> None:
    assert Played().answer(method, path) is None


def test_a_cluster_answers_for_workloads_of_its_own() -> None:
    played = Played(workloads=False)
    assert played.answer("GET", "/apis/batch/v1/jobs") is None
    assert played.answer("GET", "/apis/apps/v1/namespaces/kubevirt/deployments/virt-operator") is not None


JOBS = "/apis/batch/v1/namespaces/some/jobs"


class PodServer:
    """Pods by their path, whose phases a test sets."""

    def __init__(self) -> None:
        self.phases: dict[str, str] = {}

    def ask(self, method: str, path: str, body: dict[str, Any] | None) -> dict[str, Any] | None:
        if method == "POST":
            assert body is not None
            self.phases[f"{path}/{body['metadata']['name']}"] = "Running"
        elif method == "DELETE":
            self.phases.pop(path, None)
        return {"status": {"phase": self.phases[path]}} if path in self.phases else None

    def end(self, phase: str) -> None:
        """The newest Pod ends so."""
        self.phases[list(self.phases)[-1]] = phase


def make_job(jobs: PlayedJobs, retries: int) -> str:
    """A Job's path."""
    spec = {"backoffLimit": retries, "template": {"spec": {"containers": []}}}
    made = jobs.answer("POST", JOBS, json.dumps({"metadata": {"generateName": "netcat"}, "spec": spec}).encode())
    assert made[0] == 201
    return f"{JOBS}/{made[1]['metadata']['name']}"


def ended(jobs: PlayedJobs, path: str) -> list[str]:
    return [condition["type"] for condition in jobs.answer("GET", path, b"")[1]["status"]["conditions"]]


def test_a_job_is_complete_once_a_pod_of_it_succeeded() -> None:
    server = PodServer()
    jobs = PlayedJobs(server.ask)
    path = make_job(jobs, retries=1)
    assert ended(jobs, path) == []
    server.end("Failed")
    assert ended(jobs, path) == []
    server.end("Succeeded")
    assert ended(jobs, path) == ["Complete"]
    assert list(server.phases.values()) == ["Failed", "Succeeded"]


def test_a_job_has_failed_after_as_many_pods_as_it_allows() -> None:
    server = PodServer()
    jobs = PlayedJobs(server.ask)
    path = make_job(jobs, retries=0)
    server.end("Failed")
    assert ended(jobs, path) == ["Failed"]
    assert len(server.phases) == 1


def test_deleted_jobs_take_their_pods_along() -> None:
    server = PodServer()
    jobs = PlayedJobs(server.ask)
    path = make_job(jobs, retries=0)
    assert [item["kind"] for item in jobs.answer("GET", JOBS, b"")[1]["items"]] == ["Job"]
    assert jobs.answer("DELETE", JOBS, b"")[0] == 200
    assert server.phases == {}
    assert jobs.answer("GET", path, b"")[0] == 404
    assert jobs.answer("PATCH", path, b"")[0] == 405


def test_the_door_shows_virt_handler_as_a_pod_to_whoever_asks_for_its_address() -> None:
    pod = handler_pod("kubevirt", "box", "192.0.2.1")
    pods = "/api/v1/namespaces/kubevirt/pods?labelSelector=kubevirt.io"
    answer = Played([pod]).answer("GET", f"{pods}+%3D+virt-handler")
    assert answer is not None
    assert answer["items"] == [pod]
    assert Played([pod]).answer("GET", f"{pods}%3Dvirt-handler") is None


def test_a_request_that_is_handed_on_is_the_last_on_its_connection_unless_it_upgrades() -> None:
    plain = parse_head(b"GET /version HTTP/1.1\r\nHost: box\r\nConnection: keep-alive\r\n\r\n")
    assert one_request_head(plain) == b"GET /version HTTP/1.1\r\nHost: box\r\nConnection: close\r\n\r\n"
    head = b"GET /exec HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    assert one_request_head(parse_head(head)) == head


def test_masquerade_becomes_a_bridge_only_where_it_was_asked_for() -> None:
    path = "/apis/kubevirt.io/v1/namespaces/some/virtualmachines"
    assert not Played().change_of("POST", path)
    assert Played(bridge_for_masquerade=True).change_of("POST", path)
    assert not Played(bridge_for_masquerade=True).change_of("GET", path)
    interfaces = [{"name": "default", "masquerade": {}}, {"name": "other", "sriov": {}}]
    spec = {"domain": {"devices": {"interfaces": interfaces}}}
    changed = [{"name": "default", "bridge": {}}, {"name": "other", "sriov": {}}]
    vm = json.loads(with_bridges(json.dumps({"spec": {"template": {"spec": spec}}}).encode()))
    assert vm["spec"]["template"]["spec"]["domain"]["devices"]["interfaces"] == changed
    vmi = json.loads(with_bridges(json.dumps({"spec": spec}).encode()))
    assert vmi["spec"]["domain"]["devices"]["interfaces"] == changed
    assert json.loads(with_bridges(b"{}")) == {}


def test_a_changed_body_has_its_own_length() -> None:
    head = parse_head(b"POST /x HTTP/1.1\r\nContent-Length: 7\r\nHost: box\r\n\r\n")
    assert (
        one_request_head(head, 9) == b"POST /x HTTP/1.1\r\nHost: box\r\nContent-Length: 9\r\nConnection: close\r\n\r\n"
    )


def test_the_door_speaks_http2(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "box"
    authority = FileAuthority(tmp_path, "box")
    admin = authority.issue("admin", hosts=["127.0.0.1"])
    encoded = {
        "certificate-authority-data": base64.b64encode(authority.ca.read_bytes()).decode(),
        "client-certificate-data": base64.b64encode(admin.cert.read_bytes()).decode(),
        "client-key-data": base64.b64encode(admin.key.read_bytes()).decode(),
    }
    config = {"clusters": [{"cluster": {"server": "https://127.0.0.1:1", **encoded}}], "users": [{"user": encoded}]}
    kubeconfig.write_text(json.dumps(config))
    pod = handler_pod("some", "box", "192.0.2.1")
    front = PlayedFront(kubeconfig, Played([pod]))
    with front, http2_door(tmp_path / "door", front) as made:
        cluster = yaml.safe_load(made.read_text())["clusters"][0]["cluster"]
        path = "/apis/apps/v1/namespaces/some/deployments/virt-operator"
        command = ["curl", "--http2", "--noproxy", "*", "-sS", "-w", " %{http_version}", "--max-time", "10"]
        command += ["--cacert", cluster["certificate-authority"], cluster["server"] + path]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    body, _, version = done.stdout.rpartition(" ")
    assert (json.loads(body)["kind"], version) == ("Deployment", "2")
