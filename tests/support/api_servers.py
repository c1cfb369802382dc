"""The two API servers that the api role is tested against, behind one face: the embedded one and a real one."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pytest

from kvedge.standalone.apiserver.access.pki import Subject
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from tests.support.kube_apiserver import RealApiServer, assets, reachable_address, require_assets

KUBECTL_SECONDS = 60


class ApiServerUnderTest(Protocol):
    """What the tests need of either."""

    # What a user of the suite may ask for to say which one it is.
    name: str
    # An address at which this server reaches the api role.
    listen_host: str

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def write_kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path: ...

    def front_proxy_client(self, common_name: str) -> tuple[bytes, bytes]:
        """A certificate and key of the front proxy's authority, in PEM."""


class RealServer:
    """etcd and kube-apiserver."""

    name = "real"

    def __init__(self, directory: Path) -> None:
        self._server = RealApiServer(directory)
        self.listen_host = ""

    def start(self) -> None:
        self.listen_host = reachable_address()
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def write_kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path:
        return self._server.write_kubeconfig(user, list(groups))

    def front_proxy_client(self, common_name: str) -> tuple[bytes, bytes]:
        pair = self._server.front_proxy.issue(common_name)
        return pair.cert.read_bytes(), pair.key.read_bytes()


class EmbeddedServer:
    """kvedge's own."""

    name = "embedded"
    listen_host = "127.0.0.1"

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._server = EmbeddedApi(ApiServerConfig(directory / "data", port=0, node_name="test"))

    def start(self) -> None:
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def write_kubeconfig(self, user: str, groups: Sequence[str] = ()) -> Path:
        path = self._directory / f"{user.replace(':', '-')}.kubeconfig"
        self._server.write_kubeconfig(path, user, groups)
        return path

    def front_proxy_client(self, common_name: str) -> tuple[bytes, bytes]:
        pair = self._server.pki.front_proxy.issue_client(Subject(common_name))
        return pair.certificate, pair.key


class Kubectl:
    """An unmodified kubectl or virtctl with one kubeconfig; the test is skipped when it is not installed."""

    def __init__(self, kubeconfig: Path, program: str = "kubectl") -> None:
        directory = assets() or require_assets()
        self.path = directory / program
        if not self.path.is_file():
            pytest.skip(f"needs {program} in {directory}")
        self.kubeconfig = kubeconfig

    def try_run(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        """Run it with `text` on its standard input."""
        # Discovery of servers that come and go on the same ports must not be remembered.
        cache = ["--cache-dir", str(self.kubeconfig.parent / "cache")] if self.path.name == "kubectl" else []
        command = [str(self.path), "--kubeconfig", str(self.kubeconfig), *cache, *arguments]
        return subprocess.run(command, input=text, capture_output=True, text=True, timeout=KUBECTL_SECONDS, check=False)

    def run(self, *arguments: str, text: str = "") -> str:
        """What it prints; the test fails when it fails."""
        done = self.try_run(*arguments, text=text)
        assert done.returncode == 0, done.stderr
        return done.stdout
