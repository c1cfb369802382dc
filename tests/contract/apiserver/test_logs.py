"""The output of containers, from a source of the node agent's to `kubectl logs`; embedded only, as there is no
kubelet here.
"""

from __future__ import annotations

import shutil
import ssl
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvedge.standalone.apiserver.access.pki import Subject
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from kvedge.standalone.apiserver.routes.log_source import LogRequest, NoLog
from tests.contract.apiserver.conftest import load_pair
from tests.support.api_client import ApiClient, eventually
from tests.support.widgets import pod, pods

pytestmark = pytest.mark.contract


class FakeLogs:
    """Stands for the node agent: it says what the test tells it to say."""

    def __init__(self) -> None:
        self.requests: list[LogRequest] = []
        self.pieces: list[bytes] = [b"one\n", b"two\n"]
        self.problem = ""
        self.more = threading.Event()
        self.ended = threading.Event()

    def read_log(self, request: LogRequest, stopped: threading.Event) -> Iterator[bytes]:
        self.requests.append(request)
        if self.problem:
            raise NoLog(self.problem)
        yield from self.pieces
        try:
            while request.follow and not stopped.is_set():
                if self.more.wait(0.02):
                    self.more.clear()
                    yield b"more\n"
        finally:
            self.ended.set()


@pytest.fixture
def logs() -> FakeLogs:
    return FakeLogs()


@pytest.fixture
def box(tmp_path: Path, logs: FakeLogs) -> Iterator[ApiClient]:
    """An administrator of an API with these logs and a Pod `p`."""
    api = EmbeddedApi(ApiServerConfig(tmp_path, port=0), logs)
    api.start()
    api.write_kubeconfig(tmp_path / "kubeconfig", "admin", ["system:masters"])
    context = ssl.create_default_context(cadata=api.pki.servers.certificate_pem.decode())
    pair = api.pki.clients.issue_client(Subject("admin", ("system:masters",)))
    load_pair(context, tmp_path, pair.certificate, pair.key)
    admin = ApiClient(api.address, context)
    admin.made(pods("default"), pod("p", nodeName="n"))
    yield admin
    admin.close()
    api.stop()


def test_a_log_is_what_the_source_says(box: ApiClient, logs: FakeLogs) -> None:
    answer = box.get(pods("default", "p") + "/log", accept="*/*", tailLines="5", sinceSeconds="60", timestamps="true")
    assert (answer.status, answer.body) == (200, b"one\ntwo\n")
    assert answer.headers["Content-Type"] == "text/plain"
    request = logs.requests[0]
    assert (request.namespace, request.pod, request.container) == ("default", "p", "main")
    assert request.pod_uid == box.get(pods("default", "p")).json["metadata"]["uid"]
    assert (request.tail_lines, request.timestamps, request.follow) == (5, True, False)


def test_a_log_ends_at_its_limit(box: ApiClient) -> None:
    assert box.get(pods("default", "p") + "/log", accept="*/*", limitBytes="5").body == b"one\nt"


def test_an_empty_log_is_no_error(box: ApiClient, logs: FakeLogs) -> None:
    logs.pieces = []
    answer = box.get(pods("default", "p") + "/log", accept="*/*")
    assert (answer.status, answer.body) == (200, b"")


def test_a_log_that_is_not_there_says_why(box: ApiClient, logs: FakeLogs) -> None:
    logs.problem = 'container "main" in pod "p" is waiting to start: ContainerCreating'
    answer = box.get(pods("default", "p") + "/log")
    assert (answer.status, answer.message) == (400, logs.problem)
    assert box.get(pods("default", "nobody") + "/log").status == 404
    assert box.get(pods("default", "p") + "/log", container="other").status == 400
    assert box.post(pods("default", "p") + "/log", {}).status == 405


def test_a_followed_log_goes_on_until_the_client_hangs_up(box: ApiClient, logs: FakeLogs) -> None:
    url = f"{box.url}{pods('default', 'p')}/log?follow=true"
    response = box.pool.request("GET", url, preload_content=False)
    assert response.read(8) == b"one\ntwo\n"
    logs.more.set()
    assert response.read(5) == b"more\n"
    response.close()
    assert logs.ended.wait(10)


def test_a_hundred_followers_leave_no_thread_behind(box: ApiClient, logs: FakeLogs) -> None:
    def followers() -> int:
        return sum(thread.name.startswith("kvedge-log-") for thread in threading.enumerate())

    url = f"{box.url}{pods('default', 'p')}/log?follow=true"
    for _ in range(5):
        responses = [box.pool.request("GET", url, preload_content=False) for _ in range(20)]
        assert all(response.read(4) == b"one\n" for response in responses)
        for response in responses:
            response.close()
    eventually(lambda: followers() == 0)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl in the PATH")
def test_kubectl_logs(box: ApiClient, logs: FakeLogs, tmp_path: Path) -> None:
    def kubectl(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = ["kubectl", f"--kubeconfig={tmp_path / 'kubeconfig'}", f"--cache-dir={tmp_path / 'cache'}", "logs"]
        return subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=30, check=False)

    assert kubectl("p").stdout == "one\ntwo\n"
    assert kubectl("p", "-c", "main", "--tail=1").stdout == "one\ntwo\n"
    assert logs.requests[-1].tail_lines == 1
    logs.problem = "the Pod has not been started yet"
    assert "the Pod has not been started yet" in kubectl("p").stderr
