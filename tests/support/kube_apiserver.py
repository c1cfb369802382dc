"""A real etcd and kube-apiserver for one test session, as envtest runs them; without a kubelet or controllers.

Found in $KUBEBUILDER_ASSETS or /usr/local/kubebuilder/bin; a test that needs them is skipped with a clear word when
they are not there. Everything lives in one temporary directory and ends with the session.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kvedge.resources.manifests.role_rights import ROLE_RIGHTS
from kvedge.resources.role_users import HANDLER_GROUP, NODES_GROUP
from kvedge.runtime.clock import parse_rfc3339
from tests.support.certificate_files import FileAuthority
from tests.support.ports import free_port

_START_SECONDS = 60


def assets() -> Path | None:
    """Where the two programs are, or None."""
    for place in (os.environ.get("KUBEBUILDER_ASSETS", ""), "/usr/local/kubebuilder/bin"):
        directory = Path(place) if place else None
        if directory and all((directory / program).is_file() for program in ("etcd", "kube-apiserver")):
            return directory
    return None


def require_assets() -> Path:
    """Skip the test when the programs are missing."""
    found = assets()
    if found is None:
        pytest.skip(
            "needs etcd and kube-apiserver: set KUBEBUILDER_ASSETS or install them in /usr/local/kubebuilder/bin"
        )
    return found


def reachable_address() -> str:
    """An address of this machine that is not loopback, which Endpoints must not hold; sends nothing."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("203.0.113.1", 9))
        except OSError:
            pytest.skip("needs an IPv4 address beside loopback: the API server refuses loopback in Endpoints")
        return str(probe.getsockname()[0])


@dataclass(frozen=True)
class RoleCall:
    """One request of a role; `resource` with its subresource, `moment` in seconds since the epoch."""

    user: str
    group: str
    verb: str
    api_group: str
    resource: str
    namespace: str
    name: str
    code: int
    moment: float


def _is_of_a_role(event: dict[str, Any]) -> bool:
    """A handler may speak as its node, as the kubelet does: the program's name tells them apart."""
    return NODES_GROUP not in event["user"]["groups"] or str(event.get("userAgent", "")).startswith("kvedge")


def _role_call(event: dict[str, Any]) -> RoleCall:
    what, who = event.get("objectRef") or {}, event["user"]
    resource = "/".join(filter(None, (what.get("resource", event["requestURI"]), what.get("subresource"))))
    return RoleCall(
        who["username"],
        next((group for group in who["groups"] if group in ROLE_RIGHTS), HANDLER_GROUP),
        event["verb"],
        what.get("apiGroup", ""),
        resource,
        what.get("namespace", ""),
        what.get("name", ""),
        int((event.get("responseStatus") or {}).get("code", 0)),
        parse_rfc3339(event["requestReceivedTimestamp"]).timestamp(),
    )


@dataclass
class RealApiServer:
    """A running kube-apiserver with RBAC and aggregation; `kubeconfig` is of a cluster admin.

    Another `address` than loopback is for callers in a network of their own. One that `has_nodes` is a whole cluster's:
    kubelets are its users, Pods have service accounts, and it tells its own Endpoints.
    """

    directory: Path
    port: int = 0
    etcd_port: int = 0
    address: str = "127.0.0.1"
    has_nodes: bool = False
    more_options: Sequence[str] = ()
    authority: FileAuthority = field(init=False)
    front_proxy: FileAuthority = field(init=False)
    kubeconfig: Path = field(init=False)
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _server_command: list[str] = field(default_factory=list)

    def start(self) -> None:
        """Start both and wait until the server says it is ready."""
        programs = require_assets()
        self.authority = FileAuthority(self.directory, "cluster-ca")
        self.front_proxy = FileAuthority(self.directory, "front-proxy-ca")
        self.port = free_port()
        self.etcd_port = free_port()
        self._run(
            "etcd",
            [
                str(programs / "etcd"),
                "--data-dir",
                str(self.directory / "etcd"),
                "--unsafe-no-fsync",
                "--listen-client-urls",
                f"http://127.0.0.1:{self.etcd_port}",
                "--advertise-client-urls",
                f"http://127.0.0.1:{self.etcd_port}",
                "--listen-peer-urls",
                "http://127.0.0.1:0",
            ],
        )
        # The last one is the first address of the Services' network, which Pods use.
        names = [self.address, "localhost", "kubernetes.default.svc", "10.0.0.1"]
        server = self.authority.issue("kube-apiserver", hosts=names)
        proxy = self.front_proxy.issue("front-proxy-client")
        accounts = self.authority.issue("service-accounts")
        public = accounts.write_public_key()
        self._server_command = [
            str(programs / "kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{self.etcd_port}",
            f"--bind-address={self.address}",
            f"--advertise-address={self.address}",
            f"--secure-port={self.port}",
            f"--tls-cert-file={server.cert}",
            f"--tls-private-key-file={server.key}",
            f"--client-ca-file={self.authority.ca}",
            f"--service-account-key-file={public}",
            f"--service-account-signing-key-file={accounts.key}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            *self._options_for_nodes(),
            "--service-cluster-ip-range=10.0.0.0/24",
            f"--cert-dir={self.directory}",
            f"--requestheader-client-ca-file={self.front_proxy.ca}",
            "--requestheader-allowed-names=front-proxy-client",
            "--requestheader-username-headers=X-Remote-User",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            f"--proxy-client-cert-file={proxy.cert}",
            f"--proxy-client-key-file={proxy.key}",
            "--enable-aggregator-routing=true",
            f"--audit-policy-file={self._write_audit_policy()}",
            f"--audit-log-path={self.directory / 'audit.log'}",
            *self.more_options,
        ]
        self._run("kube-apiserver", self._server_command)
        self.kubeconfig = self.write_kubeconfig("admin", ["system:masters"])
        self._wait_ready()

    def _options_for_nodes(self) -> list[str]:
        # As every distribution has it: a node is kept to itself.
        kept = ["--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction"]
        if not self.has_nodes:
            return [
                *kept,
                "--endpoint-reconciler-type=none",
                "--disable-admission-plugins=ServiceAccount",
            ]
        client = self.authority.issue("kube-apiserver-kubelet-client", groups=["system:masters"])
        return [
            *kept,
            "--allow-privileged=true",
            f"--kubelet-client-certificate={client.cert}",
            f"--kubelet-client-key={client.key}",
            "--kubelet-preferred-address-types=InternalIP",
        ]

    def write_kubeconfig(self, user: str, groups: list[str] | None = None) -> Path:
        """A kubeconfig of a user with a client certificate of the cluster's CA."""
        pair = self.authority.issue(user, groups=groups or [])
        path = self.directory / f"{user.replace(':', '-').replace('/', '-')}.kubeconfig"
        path.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\n"
            f"clusters: [{{name: c, cluster: {{server: 'https://{self.address}:{self.port}',"
            f" certificate-authority: '{self.authority.ca}'}}}}]\n"
            f"users: [{{name: u, user: {{client-certificate: '{pair.cert}', client-key: '{pair.key}'}}}}]\n"
            "contexts: [{name: c, context: {cluster: c, user: u, namespace: default}}]\n"
        )
        return path

    def stop(self) -> None:
        """End both programs."""
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._processes.clear()
        shutil.rmtree(self.directory / "etcd", ignore_errors=True)

    def restart_server(self) -> None:
        """Kill the API server, with etcd left as it is, and start it again."""
        server = self._processes.pop()
        server.kill()
        server.wait()
        self._run("kube-apiserver", self._server_command)
        self._wait_ready()

    def compact(self) -> None:
        """Have etcd forget everything but the present, as it is told to every five minutes."""
        revision = self._ask_etcd("range", {"key": "AA=="})["header"]["revision"]
        self._ask_etcd("compaction", {"revision": revision, "physical": True})

    def _ask_etcd(self, verb: str, body: dict[str, Any]) -> dict[str, Any]:
        url = f"http://127.0.0.1:{self.etcd_port}/v3/kv/{verb}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(urllib.request.Request(url, data=json.dumps(body).encode()), timeout=10) as answer:
            said: dict[str, Any] = json.load(answer)
        return said

    def log(self, program: str) -> str:
        """What a program has said so far."""
        return (self.directory / f"{program}.log").read_text(errors="replace")

    def role_calls(self) -> list[RoleCall]:
        """What kvedge's roles have asked of the server so far, in their own names."""
        path = self.directory / "audit.log"
        # The last line may still be written.
        lines = path.read_text().splitlines(keepends=True) if path.exists() else []
        events = [json.loads(line) for line in lines if line.endswith("\n")]
        return [_role_call(event) for event in events if _is_of_a_role(event)]

    def _write_audit_policy(self) -> Path:
        path = self.directory / "audit-policy.json"
        rules = [{"level": "Metadata", "userGroups": [*ROLE_RIGHTS, NODES_GROUP]}, {"level": "None"}]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
        path.write_text(json.dumps({**policy, "omitStages": ["RequestReceived", "ResponseStarted"]}))
        return path

    def _run(self, name: str, command: list[str]) -> None:
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes.append(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True))

    def _wait_ready(self) -> None:
        pair = self.authority.issue("admin", groups=["system:masters"])
        context = ssl.create_default_context(cafile=str(self.authority.ca))
        context.load_cert_chain(pair.cert, pair.key)
        deadline = time.monotonic() + _START_SECONDS
        while time.monotonic() < deadline:
            if any(process.poll() is not None for process in self._processes):
                break
            try:
                urllib.request.urlopen(f"https://{self.address}:{self.port}/readyz", context=context, timeout=5).close()
                return
            except (urllib.error.URLError, OSError):
                time.sleep(0.2)
        tail = self.log("kube-apiserver")[-2000:]
        self.stop()
        raise AssertionError(f"kube-apiserver did not become ready: {tail}")
