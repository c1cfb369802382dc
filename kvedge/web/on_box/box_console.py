"""The console on a box or on a server of a cluster, as a service: HTTPS on an address of its own.

Made by the command line for `kvedge standalone`, `node` and `api` when `console-address` is set. It has no rights of
its own: of a kubeconfig it takes the API server's address and authority, and each user's token does the rest.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Final, Protocol

from aiohttp import web

from kvedge.kube.errors import KubeError
from kvedge.kube.kubeconfigs.kubeconfig_entries import KubeconfigFault
from kvedge.kube.kubeconfigs.kubeconfig_reader import KubeconfigError
from kvedge.resources.values.host_ports import join_address
from kvedge.runtime.background_tasks import background_task
from kvedge.runtime.services import ServiceError
from kvedge.runtime.serving.https_server import HttpsServer, ServerError, split_address
from kvedge.runtime.tls.certificates import CertificateError, TlsMaterial, hosts_of
from kvedge.runtime.tls.rotating_tls import RotatingTls
from kvedge.web.console_app import ConsoleApp
from kvedge.web.on_box.api_address import read_api_address
from kvedge.web.on_box.box_users import BoxUsers, close_user, is_known
from kvedge.web.on_box.guests import Guests
from kvedge.web.on_box.sign_in_tries import SignInTries

log = logging.getLogger(__name__)

# The prefix has browsers take it from this host by HTTPS alone.
COOKIE: Final = "__Host-kvedge-console"
_UPKEEP_SECONDS: Final = 15.0
_HTTPS_PORT: Final = 443
# Of a certificate's wildcards, in a message.
_MOST_TOLD: Final = 4


class Certificate(Protocol):
    """What browsers see; read again in each round."""

    def read(self) -> TlsMaterial:
        """Certificate and key as they are now.

        Raises:
            CertificateError: when there are none.
        """


class BoxConsole:
    """Serves until it is stopped."""

    name = "console"

    def __init__(self, address: str, kubeconfig: Path, tls: Certificate) -> None:
        """`address` is host:port; `kubeconfig` may be the directory of a Pod's service account, too."""
        self._address = address
        self._kubeconfig = kubeconfig
        self._certificate = tls
        self._server: HttpsServer | None = None
        self._origins: dict[str, str] = {}
        self._material: TlsMaterial | None = None
        # Why the certificate that is there now is not shown, since the last look.
        self._fault, self._is_told = "", False

    @property
    def port(self) -> int:
        """The port that it listens on, once it serves."""
        assert self._server is not None, "it does not serve"
        return self._server.port

    def start(self) -> None:
        """Take the port and serve.

        Raises:
            ServiceError: when the port cannot be used, or the kubeconfig or the certificate.
        """
        try:
            cluster = read_api_address(self._kubeconfig)
            host, port = split_address(self._address)
            material = self._certificate.read()
            tls = RotatingTls(material)
            self._server = HttpsServer(host, port, self.name)
            self._server.bind()
            self._use(material, self._origins_of(material))
            users = BoxUsers(cluster, self._kubeconfig)
            self._server.start(tls, lambda: self._application(users, tls))
        except (ServerError, CertificateError, KubeconfigError, KubeconfigFault) as error:
            # The port may be taken by now.
            self.stop()
            raise ServiceError(self.name, f"console-address: {error}") from error
        log.info("the console is served", extra={"facts": {"address": join_address(host, self._server.port)}})

    def stop(self) -> None:
        """End all connections and sessions."""
        if self._server is not None:
            self._server.stop()
            self._server = None

    def failure(self) -> str | None:
        """Why it no longer serves."""
        return self._server.failure() if self._server is not None else None

    def _origins_of(self, material: TlsMaterial) -> Mapping[str, str]:
        """Its names are those by which browsers may ask: any other is somebody else's name for this address.

        Raises:
            CertificateError: when it has none that a browser could ask by.
        """
        found = find_origins(hosts_of(material.certificate), self.port)
        if not found:
            raise CertificateError(_no_host(hosts_of(material.certificate)))
        return found

    def _use(self, material: TlsMaterial, origins: Mapping[str, str]) -> None:
        self._material = material
        self._origins.clear()
        self._origins.update(origins)

    def _application(self, users: BoxUsers, tls: RotatingTls) -> web.Application:
        loop = asyncio.get_running_loop()
        guests = Guests(users.open_user, close_user, SignInTries(loop.time))
        console = ConsoleApp(self._origins, COOKIE, loop.time, guests)
        application = console.application()

        async def keep_up(_: web.Application) -> AsyncIterator[None]:
            task = self._begin_upkeep(console, tls)
            yield
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            console.end_all()
            await guests.wait_ended()

        application.cleanup_ctx.append(keep_up)
        return application

    def _begin_upkeep(self, console: ConsoleApp, tls: RotatingTls) -> asyncio.Task[None]:
        return background_task("console-upkeep", lambda: self._keep_up(console, tls))

    async def _keep_up(self, console: ConsoleApp, tls: RotatingTls) -> None:
        """Follow the certificate, and end sessions whose token the API server no longer knows."""
        while True:
            await asyncio.sleep(_UPKEEP_SECONDS)
            self._follow(tls, await asyncio.to_thread(self._read_certificate))
            for session in console.desk.sessions():
                with contextlib.suppress(KubeError):
                    if not await asyncio.to_thread(is_known, session.user):
                        console.desk.sign_out(session)

    def _read_certificate(self) -> TlsMaterial | None:
        try:
            return self._certificate.read()
        except CertificateError as error:
            self._note_fault(error)
            return None

    def _follow(self, tls: RotatingTls, found: TlsMaterial | None) -> None:
        if found is None or found == self._material:
            return
        try:
            origins = self._origins_of(found)
            tls.exchange(found)
        except CertificateError as error:
            self._note_fault(error)
            return
        self._use(found, origins)
        self._fault, self._is_told = "", False

    def _note_fault(self, error: CertificateError) -> None:
        """Tell it once, when it lasts: the key comes before its certificate, and in between they do not fit."""
        if str(error) != self._fault:
            self._fault, self._is_told = str(error), False
        elif not self._is_told:
            self._is_told = True
            log.error("the console keeps its earlier certificate", extra={"facts": {"why": self._fault}})


def _no_host(wildcards: Iterable[str]) -> str:
    """What is wrong with a certificate by which no browser may ask, and what to do."""
    told = ", ".join(sorted(wildcards)[:_MOST_TOLD])
    return (
        f"the certificate names no host but wildcards ({told}), and whatever has such a name could pass for this "
        "console: have console-certificate name the host that browsers open in full, beside the wildcard or instead"
    )


def find_origins(hosts: frozenset[str], port: int) -> Mapping[str, str]:
    """Each Host by which browsers may ask, with the origin of its pages."""
    bare = {f"[{host}]" if ":" in host else host.lower() for host in hosts if "*" not in host}
    with_port = {f"{host}:{port}": f"https://{host}:{port}" for host in bare}
    # Browsers leave out a port that goes without saying.
    return {host: f"https://{host}" for host in bare} if port == _HTTPS_PORT else with_port
