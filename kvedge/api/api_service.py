"""The api role as a service: certificates, server, registration, in that order; and back.

Used by `kvedge api`, `kvedge node` and `kvedge standalone`.
"""

from __future__ import annotations

import contextlib
import ipaddress
import logging
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from aiohttp import web

from kvedge.api.admission.admission_server import MOST_BYTES, admission_routes
from kvedge.api.admission.judgement import Judgement
from kvedge.api.admission.kubevirt_admission import KubeVirtAdmission
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.registration.handler_signing_loop import HandlerSigner
from kvedge.api.registration.presence_loop import Presence
from kvedge.api.registration.registration_loop import Registration
from kvedge.api.registration.registration_manifest import Endpoint, instance_name, server_names
from kvedge.api.subresources.cluster_reader import ClusterReader
from kvedge.api.subresources.front_proxy_rules import FrontProxy, FrontProxyError
from kvedge.api.subresources.power_calls import PowerCalls
from kvedge.api.subresources.relay_client import RelayClient
from kvedge.api.subresources.subresource_server import SubresourceServer
from kvedge.kube.configuration_follower import ConfigurationFollower
from kvedge.kube.connection_settings import KubeconfigError
from kvedge.kube.errors import Conflict, Invalid, KubeError, NotFound, Unavailable
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.shared_authority import shared_authority
from kvedge.kube.told_refusals import ToldRefusals
from kvedge.runtime.background import BackgroundThread
from kvedge.runtime.clock import Clock, SystemClock
from kvedge.runtime.logs import set_verbosity
from kvedge.runtime.services import ServiceError
from kvedge.runtime.serving.https_server import HttpsServer, ServerError, split_address
from kvedge.runtime.tls.authority_plan import Authorities
from kvedge.runtime.tls.certificates import (
    API_NAME,
    CertificateError,
    LeafRequest,
    TlsFiles,
    TlsMaterial,
    renewal_due,
)
from kvedge.runtime.tls.rotating_tls import RotatingTls

log = logging.getLogger(__name__)
T = TypeVar("T")

# How often what is registered is compared with what should be.
_ROUND_SECONDS: Final = 15.0
# How long an API server may take to answer while it starts, too.
_FIRST_ROUND_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 0.5
# How long a new role waits to learn the configuration before it judges by defaults.
_CONFIGURATION_SECONDS: Final = 5.0
# How often it is seen whether the authority has a successor: many times within the week that it is known before it
# signs.
AUTHORITY_SECONDS: Final = 3600.0
# Until all of the cluster sends its calls to other servers: kube-proxies gather changes for a second, and are told late
# by an API server that has much to do.
_LEAVE_SECONDS: Final = 2.0


@dataclass(frozen=True, slots=True)
class ApiOptions:
    """What most installations leave as it is.

    `advertise` is the address by which the API server reaches the role, the listening one unless given. `instance`
    tells several api roles of one cluster apart: the name of the node, the host's unless given. `tls` names files that
    somebody else keeps fresh (common name kvedge-api, for both sides of a connection); without them certificates come
    from the authority in the Secret `kvedge-ca`.
    """

    advertise: str = ""
    instance: str = ""
    tls: TlsFiles | None = None
    install_crds: bool = True
    cluster: Cluster = field(default_factory=Cluster)


class ApiRole:
    """Admission and the aggregated API of one process."""

    name = "api"

    def __init__(
        self,
        kubeconfig: Path,
        listen: str = "127.0.0.1:0",
        options: ApiOptions | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Nothing is opened yet; `listen` is host:port, where port 0 takes a free one."""
        self._kubeconfig = kubeconfig
        self._listen = listen
        self._options = options or ApiOptions()
        self._clock = clock or SystemClock()
        self._stop = threading.Event()
        self._thread: BackgroundThread | None = None
        self._opened: KubeClient | None = None
        self._server: HttpsServer | None = None
        self._tls: RotatingTls | None = None
        self._material: TlsMaterial | None = None
        self._signer: HandlerSigner | None = None
        self._proxy: FrontProxy | None = None
        self._configuration: ConfigurationFollower | None = None
        self._registration: Registration | None = None
        self._authority_read = 0.0
        self._refreshing = threading.Lock()
        self.ready = False

    @property
    def _client(self) -> KubeClient:
        assert self._opened is not None, "not started"
        return self._opened

    @property
    def endpoint(self) -> Endpoint:
        """Where the API server finds this role, once started."""
        assert self._server is not None, "not started"
        instance = instance_name(self._options.instance or socket.gethostname())
        return Endpoint(self._advertised(), self._server.port, instance)

    @property
    def configuration(self) -> ConfigurationFollower:
        """What it judges by, once started."""
        assert self._configuration is not None, "not started"
        return self._configuration

    def start(self) -> None:
        """Serve, register, and be ready when both are done.

        Raises:
            ServiceError: when that is not possible.
        """
        try:
            self._start()
        except Invalid as error:
            hint = self._loopback_hint()
            self.stop()
            raise ServiceError(self.name, f"{error}{hint}") from error
        except (ServerError, CertificateError, FrontProxyError, KubeError, KubeconfigError) as error:
            self.stop()
            raise ServiceError(self.name, str(error)) from error

    def stop(self) -> None:
        """End the server and the loop. What is registered stays: without us, writes are refused, not let by.

        Where others serve, calls go to them before we end.
        """
        self.ready = False
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._registration is not None:
            self._withdraw(self._registration.presence)
            self._registration = None
        if self._signer is not None:
            self._signer.stop()
            self._signer = None
        if self._server is not None:
            self._server.stop()
            self._server = None
        if self._configuration is not None:
            self._configuration.stop()
            self._configuration = None
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def refresh(self) -> None:
        """One round: fresh certificates, whom to trust, and what is registered; the loop does it every few seconds.

        Raises:
            KubeError: when the API server refuses or does not answer.
            CertificateError: when the authority's Secret or the files hold something else.
            FrontProxyError: when the API server does not say who its front proxy is.
        """
        with self._refreshing:
            self._renew()
            self._refresh_trust()
            self._register()

    def failure(self) -> str | None:
        """Why it no longer serves, or None while it does."""
        presence = self._registration.presence if self._registration is not None else None
        parts = (self._server, self._signer, presence, self._thread)
        return next((why for part in parts if part is not None and (why := part.failure()) is not None), None)

    def _start(self) -> None:
        # A role may be started again after it was stopped.
        self._stop.clear()
        self._tls = None
        host, port = split_address(self._listen)
        self._opened = KubeClient.from_kubeconfig(self._kubeconfig)
        self._material = self._patiently(self._issue)
        self._server = HttpsServer(host, port, self.name)
        self._server.bind()
        self._registration = Registration(self._client, self.endpoint, self._clock)
        self._configuration = ConfigurationFollower(self._client, self.name)
        self._configuration.on_change(lambda found: set_verbosity(self.name, found.log_levels.api))
        self._server.start(self._patiently(self._refresh_trust), self._application)
        self._patiently(self._registration.check_server)
        self._patiently(self._register_kinds)
        self._configuration.start()
        # From the first webhook on, writes are judged by it.
        self._configuration.wait(_CONFIGURATION_SECONDS)
        self._patiently(self._register)
        self._registration.presence.start()
        if self._options.tls is None:
            # Who gives us files gives handlers theirs, too.
            self._signer = HandlerSigner(self._client, lambda: self._authority().signing, self._clock)
            self._signer.start()
        self.ready = True
        self._thread = BackgroundThread("api-registration", self._rounds)
        self._thread.start()

    def _application(self) -> web.Application:
        application = web.Application(client_max_size=MOST_BYTES)
        judgement = Judgement()
        application.add_routes(admission_routes(self._cluster, self._clock, judgement))
        application.add_routes(KubeVirtAdmission(self._client, judgement).routes())
        cluster = ClusterReader(self._client)
        relay = RelayClient(cluster.relay_address, self._newest_material)
        served = SubresourceServer(cluster, PowerCalls(self._client), relay, lambda: self._proxy)
        application.add_routes(served.routes())

        async def end_streams(application: web.Application) -> None:
            served.streams.send_all_away()

        async def close(application: web.Application) -> None:
            judgement.close()
            await relay.close()

        application.on_shutdown.append(end_streams)
        application.on_cleanup.append(close)
        return application

    def _cluster(self) -> Cluster:
        return self._options.cluster.configured(self.configuration.current)

    def _newest_material(self) -> TlsMaterial:
        assert self._material is not None
        return self._material

    def _loopback_hint(self) -> str:
        """A cluster's API server reaches us over the network, and refuses a loopback address as an endpoint."""
        if not ipaddress.ip_address(self._advertised()).is_loopback:
            return ""
        return "; let api-address name an address of this node that the API server reaches, such as 192.0.2.2:8443"

    def _rounds(self) -> None:
        told = ToldRefusals()
        while not self._stop.wait(_ROUND_SECONDS):
            self._beat()
            try:
                self.refresh()
                told.clear()
            except (KubeError, CertificateError, FrontProxyError) as error:
                # What is registered still works; the next round tries again.
                if told.is_news(error):
                    log.warning("registration not refreshed", extra={"facts": {"reason": str(error)}})

    def _beat(self) -> None:
        if self._thread is not None:
            self._thread.heartbeat.beat()

    def _patiently(self, step: Callable[[], T]) -> T:
        """Do it as soon as the API server answers: the two may be starting at the same time."""
        deadline = self._clock.monotonic() + _FIRST_ROUND_SECONDS
        while True:
            try:
                return step()
            except (Unavailable, Conflict, NotFound):
                # NotFound: a server that has just started makes kube-system and its ConfigMap a moment later.
                if self._clock.monotonic() > deadline or self._stop.wait(_RETRY_SECONDS):
                    raise

    def _issue(self) -> TlsMaterial:
        if self._options.tls is not None:
            return self._options.tls.read()
        return self._issued_by(self._authority())

    def _authority(self) -> Authorities:
        self._authority_read = self._clock.monotonic()
        return shared_authority(self._client, self._clock.now())

    def _issued_by(self, authority: Authorities) -> TlsMaterial:
        hosts = [*server_names(), self._advertised()]
        return authority.issue(LeafRequest(API_NAME, hosts=hosts), self._clock.now())

    def _renew(self) -> None:
        assert self._material is not None
        if self._options.tls is not None:
            # Somebody else keeps the files fresh.
            self._material = self._options.tls.read()
            return
        due = renewal_due(self._material.certificate, self._clock.now())
        if not due and self._clock.monotonic() - self._authority_read < AUTHORITY_SECONDS:
            return
        authority = self._authority()
        if due or authority.bundle != self._material.ca:
            self._material = self._issued_by(authority)
            log.info("certificate renewed", extra={"facts": {"service": self.name}})

    def _refresh_trust(self) -> RotatingTls:
        assert self._registration is not None
        assert self._material is not None
        self._proxy = self._registration.front_proxy()
        if self._tls is None:
            self._tls = RotatingTls(self._material, self._proxy.ca)
        else:
            self._tls.exchange(self._material, self._proxy.ca)
        return self._tls

    def _register_kinds(self) -> None:
        assert self._registration is not None
        if self._options.install_crds:
            self._registration.write_crds()

    def _register(self) -> None:
        assert self._registration is not None
        assert self._material is not None
        self._register_kinds()
        self._registration.write(self._material.ca)

    def _withdraw(self, presence: Presence) -> None:
        presence.stop()
        # What is in the way of it is in the way of everything else, too, and told there: those who stay see us silent.
        with contextlib.suppress(KubeError):
            if presence.withdraw():
                time.sleep(_LEAVE_SECONDS)

    def _advertised(self) -> str:
        host, _ = split_address(self._listen)
        if self._options.advertise:
            return self._options.advertise
        return _own_address(self._client.host) if ipaddress.ip_address(host).is_unspecified else host


def _own_address(server: str) -> str:
    """The address of ours from which the API server is reached, which is where it can reach us."""
    parts = urlsplit(server)
    host = parts.hostname or ""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            # Connecting a datagram socket sends nothing; it only asks the routing table.
            probe.connect((host, parts.port or 443))
        except OSError as error:
            raise ServerError(f"{server} cannot be reached from here: {error.strerror}; set advertise") from error
        return str(probe.getsockname()[0])
