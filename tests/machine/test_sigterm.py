"""SIGTERM ends `kvedge standalone` within its time-out, whatever hangs on the other side."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest

from kvedge.kube.credentials.connection_settings import from_kubeconfig
from kvedge.resources.codec import JsonObject
from kvedge.runtime.last_exit import EXIT_SECONDS
from tests.support.box import Box, small_vm
from tests.support.guest import build_guest
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.machine, pytest.mark.timeout(280)]

IMAGE = "local/guest:1"
NAME = "hanging"
VMI_PATH = f"/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachineinstances/{NAME}"
# Past its own deadline a role is ended by its last exit. What this file plays has to end without that.
PATIENCE = EXIT_SECONDS - 5.0


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Silent]:
    """A registry that takes calls and never answers; the administrator lets Pods pull from it."""
    with ExitStack() as stack:
        made = Silent(stack)
        monkeypatch.setenv("KVEDGE_INSECURE_REGISTRIES", f"127.0.0.1:{made.port}")
        yield made


@pytest.fixture
def box(tmp_path_factory: pytest.TempPathFactory, registry: Silent) -> Iterator[Box]:
    found = Box(tmp_path_factory.mktemp("box") / "data", "10.98.171.0/24")
    found.data_dir.mkdir()
    found.import_image(build_guest().disk, IMAGE)
    found.start()
    yield found
    found.remove()


class Silent:
    """A server that takes connections and never says a word."""

    def __init__(self, stack: ExitStack) -> None:
        self._listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        self.port: int = self._listening.getsockname()[1]
        self.taken: list[socket.socket] = []
        self._taking = threading.Thread(target=self._take, daemon=True)
        self._taking.start()
        stack.callback(self._end)

    def _take(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                self.taken.append(self._listening.accept()[0])

    def _end(self) -> None:
        """Without the shutdown accept() would wait on, and take what is meant for the port's next owner."""
        self._listening.shutdown(socket.SHUT_RDWR)
        self._taking.join(30)
        for connection in self.taken:
            connection.close()


def asking(box: Box, stack: ExitStack, path: str, *headers: str) -> socket.socket:
    """A request whose answer nobody reads beyond its first byte."""
    connection = from_kubeconfig(box.kubeconfig)
    assert connection.tls is not None
    parts = urlsplit(connection.host)
    plain = socket.create_connection((parts.hostname or "", parts.port or 0), 30)
    asked = stack.enter_context(connection.tls.wrap_socket(plain, server_hostname=parts.hostname))
    asked.sendall("\r\n".join([f"GET {path} HTTP/1.1", f"Host: {parts.netloc}", *headers, "", ""]).encode())
    return asked


def runs(box: Box) -> str:
    """A guest; its VMI's UID."""
    box.apply(small_vm(NAME, IMAGE))
    return box.wait_phase(NAME, "Running").metadata.uid


def a_registry(box: Box, _: ExitStack, registry: Silent) -> None:
    box.apply(small_vm(NAME, f"127.0.0.1:{registry.port}/a/disk:1"))
    wait_until(lambda: registry.taken, "the pull")


def a_launcher(box: Box, stack: ExitStack, _: Silent) -> None:
    pids = box.launcher_pids(runs(box))
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
        stack.callback(os.kill, pid, signal.SIGCONT)
    # What is asked of the launcher now hangs as well.
    box.cli("pause", NAME, check=False)


def a_webhook(box: Box, stack: ExitStack, _: Silent) -> None:
    webhook = Silent(stack)
    box.apply(
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingWebhookConfiguration",
            "metadata": {"name": NAME},
            "webhooks": [
                {
                    "name": "silent.example.com",
                    "clientConfig": {"url": f"https://127.0.0.1:{webhook.port}/"},
                    "rules": [
                        {
                            "apiGroups": [""],
                            "apiVersions": ["v1"],
                            "operations": ["CREATE"],
                            "resources": ["configmaps"],
                        }
                    ],
                    "sideEffects": "None",
                    "admissionReviewVersions": ["v1"],
                    "timeoutSeconds": 30,
                }
            ],
        }
    )
    created: JsonObject = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}}

    def create() -> None:
        with contextlib.suppress(Exception):
            box.apply(created)

    threading.Thread(target=create, daemon=True).start()
    wait_until(lambda: webhook.taken, "the question")


def viewers(box: Box, stack: ExitStack, _: Silent) -> None:
    runs(box)
    upgrade = ("Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13")
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="
    for kind in ("console", "vnc"):
        opened = asking(box, stack, f"{VMI_PATH}/{kind}", *upgrade, key, "Sec-WebSocket-Protocol: plain.kubevirt.io")
        assert opened.recv(12) == b"HTTP/1.1 101"
    watch = asking(box, stack, "/api/v1/pods?watch=1")
    assert watch.recv(12) == b"HTTP/1.1 200"


@pytest.mark.parametrize("hang", [a_registry, a_launcher, a_webhook, viewers])
def test_sigterm_ends_a_box_in_time_whatever_hangs(
    box: Box, registry: Silent, hang: Callable[[Box, ExitStack, Silent], None]
) -> None:
    with ExitStack() as stack:
        hang(box, stack, registry)
        process = box.process
        assert process is not None
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            # The box is started no more and removed by the fixture, which needs it to have ended.
            pytest.fail(f"it did not end within {PATIENCE:.0f} s:\n{box.log_tail()}")
        assert code == 0, box.log_tail()
        assert "did not end in time" not in box.log_tail(400)
        assert "Traceback" not in box.log_tail(60)
        box.process = None
