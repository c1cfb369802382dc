"""`kvedge user renew` against both servers; the kube-apiserver's requests are signed by a real controller manager."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509

from kvedge.cli.exits import Exit
from kvedge.client.users.user_manifest import NewUser, cluster_of, kubeconfig_manifest, role_user
from kvedge.kube import informer
from kvedge.kube.errors import Unauthenticated
from kvedge.kube.informer import Informer
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.kubeconfigs.own_kubeconfig import with_ca
from kvedge.resources.types.vm import VirtualMachine
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.tls.certificate_requests import new_request
from kvedge.runtime.tls.certificates import LEAF_LIFE, ends_at
from tests.support.controller_manager import signing_manager
from tests.support.either_server import EMBEDDED, REAL, EitherServer, running
from tests.support.kube_apiserver import RealApiServer
from tests.support.ports import free_port
from tests.support.waiting import wait_until

pytestmark = pytest.mark.contract
# In the last third of a year, and before it.
DUE, GOOD = timedelta(days=100), timedelta(days=200)
SHORT = timedelta(seconds=10)
VMI = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "spec": {"domain": {"devices": {}}}}


@pytest.fixture(scope="module", params=[EMBEDDED, REAL])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EitherServer]:
    with running(request.param, tmp_path_factory.mktemp(request.param)) as server:
        yield server


@pytest.fixture(scope="module")
def signing(server: EitherServer) -> Iterator[None]:
    if not isinstance(server.server, RealApiServer):
        yield
        return
    with signing_manager(server.server):
        yield


class Node:
    """The roles' kubeconfigs of a server of the cluster, in a directory that its settings name."""

    def __init__(self, server: EitherServer, directory: Path) -> None:
        self.server = server
        self.roles = directory / "roles"
        self.roles.mkdir()
        self.config = directory / "config.yaml"
        self.config.write_text(f"kubeconfig: {self.roles}\n")
        found = cluster_of(yaml.safe_load(server.kubeconfig.read_text()), self._context)
        if path := found.get("certificate-authority"):
            found = with_ca(found, Path(path).read_bytes())
        self.cluster = found

    @property
    def _context(self) -> str:
        return str(yaml.safe_load(self.server.kubeconfig.read_text())["current-context"])

    def write(self, role: str, made: NewUser, life: timedelta) -> Path:
        asked = new_request(made.name, made.groups)
        if isinstance(self.server.server, RealApiServer):
            pem = self.server.server.authority.certify(asked.request, life)
        else:
            pem = self.server.server.pki.clients.sign_client(x509.load_pem_x509_csr(asked.request), life)
        path = self.roles / role
        path.write_text(yaml.safe_dump(kubeconfig_manifest(made, self.cluster, pem, asked.key)))
        return path

    def renew(self, *arguments: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "kvedge", "user", "renew", "--config", str(self.config)]
        command += ["--kubeconfig", str(kubeconfig or self.server.kubeconfig), *arguments]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[2])}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=90)


@pytest.fixture
def node(server: EitherServer, tmp_path: Path) -> Node:
    return Node(server, tmp_path)


def end_of(path: Path) -> datetime:
    user = yaml.safe_load(path.read_text())["users"][0]["user"]
    return ends_at(base64.b64decode(user["client-certificate-data"]))


def test_what_is_due_is_renewed_for_a_year_and_the_rest_is_left_and_a_second_run_does_nothing(
    node: Node, signing: None
) -> None:
    api = node.write("api", role_user("api", "", 365), DUE)
    handler = node.write("handler", role_user("handler", "n1", 365), DUE)
    controller = node.write("controller", role_user("controller", "", 365), GOOD)
    api.chmod(0o644)
    kept = controller.read_bytes()
    done = node.renew()
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{controller}: kvedge:controller, good until {end_of(controller):%Y-%m-%d}",
        f"{api}: kvedge:api, renewed",
        f"{handler}: kvedge:handler:n1, renewed",
    ]
    assert controller.read_bytes() == kept
    for path in (api, handler):
        assert abs(end_of(path) - datetime.now(UTC) - LEAF_LIFE) < timedelta(days=1)
        assert path.stat().st_mode & 0o777 == 0o600
        assert yaml.safe_load(path.read_text())["clusters"][0]["cluster"] == node.cluster
    client = KubeClient.from_kubeconfig(api)
    client.list(VirtualMachine)
    client.close()
    before = {path: path.read_bytes() for path in node.roles.iterdir()}
    again = node.renew()
    assert (again.returncode, again.stdout.count("good until")) == (0, 3)
    assert {path: path.read_bytes() for path in node.roles.iterdir()} == before
    everything = node.renew("--all")
    assert (everything.returncode, everything.stdout.count(", renewed")) == (0, 3)


def test_one_that_trusts_another_authority_than_the_clusters_is_made_anew(node: Node, signing: None) -> None:
    path = node.write("api", role_user("api", "", 365), GOOD)
    document = yaml.safe_load(path.read_text())
    document["clusters"][0]["cluster"]["certificate-authority-data"] = base64.b64encode(b"old").decode()
    path.write_text(yaml.safe_dump(document))
    assert f"{path}: kvedge:api, renewed" in node.renew().stdout
    client = KubeClient.from_kubeconfig(path)
    client.list(VirtualMachine)
    client.close()


def test_what_kvedge_has_not_made_is_left_alone_and_a_node_without_any_has_nothing_to_renew(node: Node) -> None:
    nothing = node.renew()
    assert (nothing.returncode, nothing.stdout) == (
        0,
        "no role of this node has a certificate of its own: there is nothing to renew\n",
    )
    (node.roles / "api").write_text("users: [{name: kvedge:api, user: {token: t}}]\nclusters: []\n")
    node.write("elsewhere", role_user("controller", "", 365), DUE)
    (node.roles / "controller").symlink_to("elsewhere")
    before = {path: path.read_bytes() for path in node.roles.iterdir()}
    done = node.renew()
    assert done.returncode == 0
    assert f"{node.roles}/api: has no certificate inside, and left as it is" in done.stdout
    assert f"{node.roles}/controller: is a link, and left to whoever keeps what it points to" in done.stdout
    assert {path: path.read_bytes() for path in node.roles.iterdir()} == before


def test_when_the_server_is_away_or_refuses_the_file_stays_and_the_exit_code_says_so(node: Node) -> None:
    path = node.write("api", role_user("api", "", 365), DUE)
    before = path.read_bytes()
    away = yaml.safe_load(node.server.kubeconfig.read_text())
    away["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{free_port()}"
    (node.roles.parent / "away").write_text(yaml.safe_dump(away))
    refused = node.renew(kubeconfig=node.server.kubeconfig_of("nobody"))
    gone = node.renew(kubeconfig=node.roles.parent / "nowhere")
    assert (refused.returncode, gone.returncode) == (Exit.FAILED, Exit.USAGE)
    assert "forbidden" in refused.stderr
    unreachable = node.renew(kubeconfig=node.roles.parent / "away")
    assert unreachable.returncode == Exit.FAILED
    assert "cannot be reached" in unreachable.stderr
    assert path.read_bytes() == before
    assert list(node.roles.iterdir()) == [path]


@pytest.mark.timeout(120)
def test_a_role_whose_certificate_has_ended_goes_on_once_the_verb_was_run(
    node: Node, signing: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(informer, "_WATCH_SECONDS", (2, 2))
    namespace = node.server.new_namespace()
    path = node.write("handler", role_user("handler", "n1", 365), SHORT)
    client = KubeClient.from_kubeconfig(path)
    found: Informer[VirtualMachineInstance] = Informer(client, VirtualMachineInstance, namespace)
    told: list[str] = []
    found.on_change(lambda old, new: told.append(new.metadata.name if old is None and new is not None else "?"))
    found.start()
    try:
        vmis = VirtualMachineInstance.KIND.path(namespace)
        for name in ("before", "during", "after"):
            if name == "during":
                wait_until(lambda: "kvedge user renew" in found.trouble, "the certificate has ended")
            node.server.admin.request("POST", vmis, {**VMI, "metadata": {"name": name}})
            if name == "during":
                with pytest.raises(Unauthenticated):
                    client.list(VirtualMachineInstance, namespace)
                assert node.renew().returncode == 0
                client.list(VirtualMachineInstance, namespace)
            wait_until(lambda name=name: name in told, f"what happened {name} is told", 40)  # type: ignore[misc]
    finally:
        found.stop()
        client.close()
    assert told == ["before", "during", "after"]


def test_requests_that_nobody_signs_end_in_time_with_their_name(tmp_path: Path) -> None:
    with running(REAL, tmp_path) as server:
        node = Node(server, tmp_path)
        path = node.write("api", role_user("api", "", 365), DUE)
        before = path.read_bytes()
        done = node.renew("--timeout", "1")
        assert done.returncode == Exit.TIMED_OUT
        assert "was approved, but is not signed after 1 s" in done.stderr
        assert path.read_bytes() == before
