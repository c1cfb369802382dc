"""The two servers: the embedded API always, a real kube-apiserver where there is one."""

from __future__ import annotations

import itertools
import ssl
import tempfile
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from kvedge.standalone.apiserver.access.pki import Subject
from kvedge.standalone.apiserver.api_server import ApiServerConfig, EmbeddedApi
from tests.contract.apiserver.hooks import Hook, Registrar
from tests.support.api_client import ApiClient, eventually
from tests.support.kube_apiserver import RealApiServer
from tests.support.widgets import WIDGET_CRD

EMBEDDED, REAL = "embedded", "kube-apiserver"
_counter = itertools.count(1)


@dataclass
class Server:
    """A server under test. `log_in` makes a client of a user; without a user it has no certificate."""

    kind: str
    url: str
    log_in: Callable[[str, list[str]], ApiClient]
    admin: ApiClient
    kubeconfig: Path

    @property
    def is_real(self) -> bool:
        return self.kind == REAL


@pytest.fixture(scope="package", params=[EMBEDDED, REAL])
def api_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Each of the two servers, with the Widget kind installed."""
    directory = tmp_path_factory.mktemp(request.param)
    yield from embedded(directory) if request.param == EMBEDDED else real(directory)


@pytest.fixture(scope="package")
def embedded_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The embedded API, for what a kube-apiserver alone does not do (its controllers would)."""
    yield from embedded(tmp_path_factory.mktemp("embedded-alone"))


@pytest.fixture
def admin(api_server: Server) -> ApiClient:
    """A client that may do everything."""
    return api_server.admin


@pytest.fixture
def namespace(api_server: Server) -> str:
    """A namespace of the test's own."""
    return new_namespace(api_server.admin)


def new_namespace(admin: ApiClient) -> str:
    """Make a namespace that nobody else uses."""
    name = f"test-{next(_counter)}"
    admin.made("/api/v1/namespaces", {"metadata": {"name": name}})
    return name


def embedded(directory: Path) -> Generator[Server, None, None]:
    """Run the embedded API on this data directory."""
    api = EmbeddedApi(ApiServerConfig(directory, port=0, node_name="box"))
    api.start()
    try:

        def log_in(user: str, groups: list[str]) -> ApiClient:
            context = ssl.create_default_context(cadata=api.pki.servers.certificate_pem.decode())
            if user:
                pair = api.pki.clients.issue_client(Subject(user, tuple(groups)))
                load_pair(context, directory, pair.certificate, pair.key)
            return ApiClient(api.address, context)

        admin = log_in("admin", ["system:masters"])
        api.write_kubeconfig(directory / "kubeconfig", "admin", ["system:masters"])
        server = Server(EMBEDDED, api.address, log_in, admin, directory / "kubeconfig")
        install_widgets(server)
        yield server
        admin.close()
    finally:
        api.stop()


def real(directory: Path) -> Generator[Server, None, None]:
    """Run a kube-apiserver."""
    # Whether a Pod may be privileged is the level's to say.
    api = RealApiServer(directory, more_options=("--allow-privileged=true",))
    api.start()
    try:
        url = f"https://127.0.0.1:{api.port}"

        def log_in(user: str, groups: list[str]) -> ApiClient:
            context = ssl.create_default_context(cafile=str(api.authority.ca))
            if user:
                pair = api.authority.issue(user, groups=groups)
                context.load_cert_chain(pair.cert, pair.key)
            return ApiClient(url, context)

        admin = log_in("admin", ["system:masters"])
        server = Server(REAL, url, log_in, admin, api.kubeconfig)
        install_widgets(server)
        yield server
        admin.close()
    finally:
        api.stop()


def load_pair(context: ssl.SSLContext, directory: Path, certificate: bytes, key: bytes) -> None:
    """Give a context a client certificate; `ssl` takes it from a file only."""
    with tempfile.NamedTemporaryFile(dir=directory) as file:
        file.write(certificate + key)
        file.flush()
        context.load_cert_chain(file.name)


def install_widgets(server: Server) -> None:
    """Make the server know the Widget kind."""
    answer = server.admin.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", WIDGET_CRD)
    # A server that was started again has it already.
    assert answer.status in (201, 409), answer.body
    eventually(lambda: server.admin.get("/apis/example.com/v1/widgets").status == 200)


@pytest.fixture
def hook(tmp_path: Path) -> Iterator[Hook]:
    """A running webhook that lets everything in."""
    made = Hook(tmp_path / "hook")
    yield made
    made.backend.stop()


@pytest.fixture
def register(api_server: Server, hook: Hook, namespace: str) -> Iterator[Registrar]:
    """Registers the webhook for the test's namespace and waits until the server asks it."""
    made = Registrar(api_server.admin, hook, namespace)
    yield made
    made.remove()
