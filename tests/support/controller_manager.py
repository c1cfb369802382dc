"""The real signer of a cluster: a kube-controller-manager that does nothing but sign requests for certificates."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.kube_apiserver import RealApiServer, require_assets
from tests.support.ports import free_port


@contextmanager
def signing_manager(server: RealApiServer) -> Iterator[None]:
    """Run it; the test is skipped when it is not installed."""
    program = require_assets() / "kube-controller-manager"
    if not program.is_file():
        pytest.skip(f"needs {program}")
    command = [
        str(program),
        f"--kubeconfig={server.write_kubeconfig('system:kube-controller-manager', ['system:masters'])}",
        "--controllers=certificatesigningrequest-signing-controller",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={free_port()}",
        f"--cert-dir={server.directory / 'controller-manager'}",
        f"--cluster-signing-cert-file={server.authority.ca}",
        f"--cluster-signing-key-file={server.authority.write_key()}",
    ]
    with (server.directory / "kube-controller-manager.log").open("ab") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
