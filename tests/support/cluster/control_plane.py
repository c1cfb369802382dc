"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler of one test cluster, on an address of its own."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.kube_apiserver import RealApiServer, assets
from tests.support.ports import free_port

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl")
# Short, so that the loss of a node is noticed within a test.
_GRACE = ("--node-monitor-period=2s", "--node-monitor-grace-period=14s")
TOLERATION_SECONDS = 6


def missing_programs() -> list[str]:
    """Those that are not where Kubernetes' test binaries are."""
    directory = assets() or Path("/usr/local/kubebuilder/bin")
    return [str(directory / name) for name in PROGRAMS if not (directory / name).is_file()]


@dataclass
class ControlPlane:
    """The servers of a cluster; `api.kubeconfig` is of a cluster admin."""

    directory: Path
    address: str
    api: RealApiServer = field(init=False)
    _processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self) -> None:
        """Start all four; the API server is ready at the end."""
        self.directory.mkdir(parents=True)
        tolerations = [
            f"--default-{what}-toleration-seconds={TOLERATION_SECONDS}" for what in ("not-ready", "unreachable")
        ]
        self.api = RealApiServer(self.directory, address=self.address, has_nodes=True, more_options=tolerations)
        self.api.start()
        self.start_program("kube-controller-manager")
        self.start_program("kube-scheduler")

    def start_program(self, name: str) -> None:
        """Start one of the two that are not the API server."""
        user = f"system:{name}"
        command = [
            str((assets() or Path()) / name),
            f"--kubeconfig={self.api.write_kubeconfig(user, ['system:masters'])}",
            "--leader-elect=false",
            f"--secure-port={free_port()}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.directory / name}",
        ]
        if name == "kube-controller-manager":
            authority = self.api.authority
            command += [
                *_GRACE,
                f"--root-ca-file={authority.ca}",
                f"--service-account-private-key-file={authority.issue('service-accounts').key}",
                f"--cluster-signing-cert-file={authority.ca}",
                f"--cluster-signing-key-file={authority.write_key()}",
            ]
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)

    def stop_program(self, name: str) -> None:
        """End one of the two."""
        process = self._processes.pop(name)
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def stop(self) -> None:
        """End all."""
        for name in list(self._processes):
            self.stop_program(name)
        self.api.stop()
