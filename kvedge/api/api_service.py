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
from functools import partial
from pathlib import Path
from typing import Final, TypeVar
from urllib.parse import urlsplit

from msgspec import Struct, field

from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.api_run import ApiRun
from kvedge.api.registration.handler_signing_loop import HandlerSigner
from kvedge.api.registration.presence_loop import Presence
from kvedge.api.registration.registration_loop import Registration, UploadFront
from kvedge.api.registration.registration_manifest import Endpoint, instance_name, server_names
from kvedge.api.role_certificate import RoleCertificate
from kvedge.api.subresources.front_proxy_rules import FrontProxyError
from kvedge.kube.configuration_follower import ConfigurationFollower
from kvedge.kube.errors import Conflict, Invalid, KubeError, NotFound, Unavailable
from kvedge.kube.inner_door import InnerDoor
from kvedge.kube.kube_client import KubeClient
from kvedge.kube.kubeconfigs.kubeconfig_reader import KubeconfigError
from kvedge.kube.told_refusals import ToldRefusals
from kvedge.runtime.clock import Clock, SystemClock
from kvedge.runtime.logs import set_verbosity
from kvedge.runtime.role import Part, Parts, part
from kvedge.runtime.rounds import Rounds
from kvedge.runtime.services import ServiceError
from kvedge.runtime.serving.https_server import HttpsServer, ServerError, split_address
from kvedge.runtime.tls.certificates import (
    CertificateError,
    TlsFiles,
)

log = logging.getLogger(__name__)
T = TypeVar("T")

# How often what is registered is compared with what should be.
_ROUND_SECONDS: Final = 15.0
# How long an API server may take to answer while it starts, too.
_FIRST_ROUND_SECONDS: Final = 60.0
_RETRY_SECONDS: Final = 0.5
# Until all of the cluster sends its calls to other servers: kube-proxies gather changes for a second, and are told late
# by an API server that has much to do.
_LEAVE_SECONDS: Final = 2.0


class ApiOptions(Struct, frozen=True):
    """What most installations leave as it is.

    `advertise` is the address by which the API server reaches the role, the listening one unless given. `instance`
    tells several api roles of one cluster apart: the name of the node, the host's unless given. `tls` names files that
    somebody else keeps fresh (common name kvedge-api, for both sides of a connection); without them certificates come
    from the authority in the Secret `kvedge-ca`. `upload_front` hands uploads on to the role, where something does.
    `door` leads to an API server of this process.
    """

    advertise: str = ""
    instance: str = ""
    tls: TlsFiles | None = None
    install_crds: bool = True
    cluster: Cluster = field(default_factory=Cluster)
    upload_front: UploadFront | None = None
    door: InnerDoor | None = None


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
        self._refreshing = threading.Lock()
        self._told = ToldRefusals()
        self._parts = Parts()
        self._run: ApiRun | None = None
        self.ready = False

    @property
    def endpoint(self) -> Endpoint:
        """Where the API server finds this role, once started."""
        return self._require_run().endpoint

    @property
    def configuration(self) -> ConfigurationFollower:
        """What it judges by, once started."""
        return self._require_run().configuration

    def start(self) -> None:
        """Serve, register, and be ready when both are done.

        Raises:
            ServiceError: when that is not possible.
        """
        # A role may be started again after it was stopped.
        self._stop.clear()
        address = ""
        try:
            client = KubeClient.from_kubeconfig(self._kubeconfig, door=self._options.door)
            address = self._address_to_tell(client)
            self._start(client, address)
        except (ServerError, CertificateError, FrontProxyError, KubeError, KubeconfigError) as error:
            self.stop()
            raise ServiceError(self.name, f"{error}{_hint(error, address)}") from error
        self.ready = True

    def stop(self) -> None:
        """End the server and the loop. What is registered stays: without us, writes are refused, not let by.

        Where others serve, calls go to them before we end.
        """
        self.ready = False
        self._stop.set()
        self._parts.stop()
        self._run = None

    def refresh(self) -> None:
        """One round: fresh certificates, whom to trust, and what is registered; the loop does it every few seconds.

        Raises:
            KubeError: when the API server refuses or does not answer.
            CertificateError: when the authority's Secret or the files hold something else.
            FrontProxyError: when the API server does not say who its front proxy is.
        """
        with self._refreshing:
            self._require_run().refresh()

    def failure(self) -> str | None:
        """Why it no longer serves, or None while it does."""
        return self._parts.failure()

    def _require_run(self) -> ApiRun:
        assert self._run is not None, "not started"
        return self._run

    def _start(self, client: KubeClient, address: str) -> None:
        options, clock = self._options, self._clock
        self._parts = Parts([Part("client", stop=client.close)])
        self._parts.start()
        hosts = [*server_names(), address]
        certificate = self._try_patiently(lambda: RoleCertificate(client, options.tls, hosts, clock))
        server = HttpsServer(*split_address(self._listen), self.name)
        self._parts.start_more([Part("server", server.bind, server.stop, server.failure)])
        endpoint = Endpoint(address, server.port, instance_name(options.instance or socket.gethostname()))
        registration = Registration(client, endpoint, clock, options.upload_front)
        install = options.install_crds
        run = self._try_patiently(
            lambda: ApiRun(client, certificate, registration, options.cluster, clock, install_crds=install)
        )
        self._run = run
        self._parts.start_more(self._make_parts(client, server, run))

    def _make_parts(self, client: KubeClient, server: HttpsServer, run: ApiRun) -> list[Part]:
        configuration, presence = run.configuration, run.registration.presence
        configuration.on_change(lambda found: set_verbosity(self.name, found.log_levels.api))
        rounds = Rounds(
            "api-registration", "keeps the registration", _ROUND_SECONDS, self._refresh_once, stop_seconds=None
        )
        parts = [
            Part("serving", lambda: server.start(run.tls, run.application)),
            Part("policies", lambda: self._try_patiently(run.registration.check_server)),
            Part("kinds", lambda: self._try_patiently(run.register_kinds), needs=("serving", "policies")),
            Part("configuration", run.learn_configuration, configuration.stop, configuration.failure, ("kinds",)),
            Part("presets", run.learn_presets, run.presets.stop, run.presets.failure, ("kinds",)),
            part("metrics objects", run.metrics_objects, "kinds"),
            part("guest homes", run.guest_homes, "kinds"),
            # From here on calls may come, and go elsewhere before the server ends.
            Part(
                "webhooks",
                lambda: self._try_patiently(run.register),
                partial(_withdraw, presence),
                needs=("configuration", "presets"),
            ),
            part("presence", presence, "webhooks"),
        ]
        if self._options.tls is None:
            # An operator who gives this role certificates in files gives handlers theirs, too.
            signer = HandlerSigner(client, lambda: run.certificate.authority().signing, self._clock)
            parts.append(part("signer", signer, "presence"))
        return [*parts, part("rounds", rounds, "presence")]

    def _refresh_once(self) -> None:
        try:
            self.refresh()
            self._told.clear()
        except (KubeError, CertificateError, FrontProxyError) as error:
            # What is registered still works; the next round tries again.
            if self._told.is_news(error):
                log.warning("registration not refreshed", extra={"facts": {"reason": str(error)}})

    def _try_patiently(self, step: Callable[[], T]) -> T:
        """Do it as soon as the API server answers: the two may be starting at the same time."""
        deadline = self._clock.monotonic() + _FIRST_ROUND_SECONDS
        while True:
            try:
                return step()
            except (Unavailable, Conflict, NotFound):
                # NotFound: a server that has just started makes kube-system and its ConfigMap a moment later.
                if self._clock.monotonic() > deadline or self._stop.wait(_RETRY_SECONDS):
                    raise

    def _address_to_tell(self, client: KubeClient) -> str:
        host, _ = split_address(self._listen)
        if self._options.advertise:
            return self._options.advertise
        return _own_address(client.host) if ipaddress.ip_address(host).is_unspecified else host


def _hint(error: Exception, address: str) -> str:
    """A cluster's API server reaches us over the network, and refuses a loopback address as an endpoint."""
    if not isinstance(error, Invalid) or not ipaddress.ip_address(address).is_loopback:
        return ""
    return "; let api-address name an address of this node that the API server reaches, such as 192.0.2.2:8443"


def _withdraw(presence: Presence) -> None:
    # A trouble here is one of every other call as well, and told there. The roles that stay notice that this one is
    # silent.
    with contextlib.suppress(KubeError):
        if presence.withdraw():
            time.sleep(_LEAVE_SECONDS)


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
