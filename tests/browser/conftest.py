"""`kvedge web` before an embedded API with the api role, and a node whose guests echo: as contract tests have them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support.api_role_fixtures import (
    admin,
    api_role,
    controller,
    crds_installed,
    echo_node,
    guest,
    role_clock,
    subresources_answer,
    webhooks_are_called,
)
from tests.support.api_servers import ApiServerUnderTest, EmbeddedServer

# Fixtures of this tier.
__all__ = [
    "admin",
    "api_role",
    "controller",
    "crds_installed",
    "echo_node",
    "guest",
    "role_clock",
    "subresources_answer",
    "webhooks_are_called",
]


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServerUnderTest]:
    """The embedded one: the pages do not differ by server."""
    if shutil.which("chromium") is None:
        pytest.skip("needs chromium")
    server = EmbeddedServer(tmp_path_factory.mktemp("embedded"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def link(server: ApiServerUnderTest, subresources_answer: None) -> Iterator[str]:
    """What `kvedge web` prints."""
    kubeconfig = server.write_kubeconfig("admin", ["system:masters"])
    command = [sys.executable, "-m", "kvedge", "web", "--kubeconfig", str(kubeconfig)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as console:
        assert console.stdout is not None
        yield console.stdout.readline().strip()
        console.terminate()
        assert console.wait(20) == 0
