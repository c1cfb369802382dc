"""One run of the api role, from its start to its stop: whom it trusts, what it has registered, and what it serves.

Made by api_service.py once the role has a certificate and a port. Talks to one API server; the application that it
makes runs in the event loop of the role's server.
"""

from __future__ import annotations

from typing import Final

from aiohttp import web

from kvedge.api.admission.admission_server import MOST_BYTES, admission_routes
from kvedge.api.admission.backups.source_admission import BackupSourceAdmission
from kvedge.api.admission.clone_admission import CloneAdmission
from kvedge.api.admission.evictions.eviction_admission import EvictionAdmission
from kvedge.api.admission.judgement import Judgement
from kvedge.api.admission.kubevirt_admission import KubeVirtAdmission
from kvedge.api.admission.migrations.migration_admission import MigrationAdmission
from kvedge.api.admission.presets.preset_follower import PresetFollower
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.vm_admission import VmAdmission
from kvedge.api.exports.export_proxy import ExportProxy, ExportReader
from kvedge.api.metrics.followed_objects import FollowedObjects, GuestHomes
from kvedge.api.metrics.metrics_server import MetricsServer
from kvedge.api.metrics.role_collector import RoleCollector
from kvedge.api.registration.registration_loop import Registration
from kvedge.api.registration.registration_manifest import Endpoint
from kvedge.api.role_certificate import RoleCertificate
from kvedge.api.secret_paths import SecretPaths
from kvedge.api.subresources.attestation.attestation_calls import AttestationCalls
from kvedge.api.subresources.cluster_reader import ClusterReader
from kvedge.api.subresources.evacuation_calls import EvacuationCalls
from kvedge.api.subresources.expand_calls import ExpandCalls
from kvedge.api.subresources.front_proxy_rules import FrontProxy
from kvedge.api.subresources.graphs.graph_calls import GraphCalls
from kvedge.api.subresources.memory_dump_calls import MemoryDumpCalls
from kvedge.api.subresources.migration_calls import MigrationCalls
from kvedge.api.subresources.power_calls import PowerCalls
from kvedge.api.subresources.relay_client import RelayClient
from kvedge.api.subresources.subresource_server import SubresourceServer
from kvedge.api.subresources.volume_calls import VolumeCalls
from kvedge.api.uploads.claim_reader import ClaimReader
from kvedge.api.uploads.token_requests import TokenRequests
from kvedge.api.uploads.upload_authority import UploadAuthority
from kvedge.api.uploads.upload_proxy import UploadProxy
from kvedge.api.uploads.worker_client import WorkerClient
from kvedge.kube.configuration_follower import ConfigurationFollower
from kvedge.kube.kube_client import KubeClient
from kvedge.runtime.clock import Clock
from kvedge.runtime.tls.rotating_tls import RotatingTls

# How long a new role waits for the presets that there are before VMIs are made without them.
_PRESETS_SECONDS: Final = 5.0
# How long a new role waits to learn the configuration before it judges by defaults.
_CONFIGURATION_SECONDS: Final = 5.0


class ApiRun:
    """What the parts of the role share."""

    def __init__(
        self,
        client: KubeClient,
        certificate: RoleCertificate,
        registration: Registration,
        cluster: Cluster,
        clock: Clock,
        *,
        install_crds: bool,
    ) -> None:
        """Ask whom to trust.

        Raises:
            KubeError: when the API server refuses or does not answer.
            CertificateError: when it names an authority that is none.
            FrontProxyError: when it does not say who its front proxy is.
        """
        self._client = client
        self._clock = clock
        self._cluster = cluster
        self._install_crds = install_crds
        self._proxy: FrontProxy = registration.front_proxy()
        self.certificate = certificate
        self.uploads = UploadAuthority(client, clock)
        self._paths = SecretPaths(lambda: self.uploads.path_keys, clock)
        self.registration = registration
        self.configuration = ConfigurationFollower(client, "api")
        self.presets = PresetFollower(client)
        self.metrics_objects = FollowedObjects(client)
        self.guest_homes = GuestHomes(client)
        self.tls = RotatingTls(certificate.material, self._proxy.ca)

    @property
    def endpoint(self) -> Endpoint:
        """Where the API server finds the role."""
        return self.registration.endpoint

    def learn_configuration(self) -> None:
        """Follow the KubeVirt object: from the first webhook on, writes are judged by it."""
        self.configuration.start()
        self.configuration.wait(_CONFIGURATION_SECONDS)

    def learn_presets(self) -> None:
        """Follow presets: from the first webhook on, VMIs get what theirs bring."""
        self.presets.start(_PRESETS_SECONDS)

    def register_kinds(self) -> None:
        """Have the API server know our kinds, unless somebody else installs them.

        Raises:
            KubeError: when the API server refuses or does not answer.
        """
        if self._install_crds:
            self.registration.write_crds()

    def register(self) -> None:
        """The kinds, and the role itself.

        Raises:
            KubeError: when the API server refuses or does not answer.
        """
        self.register_kinds()
        self.registration.write(self.certificate.material.ca, self._paths.part_to_write())

    def refresh(self) -> None:
        """One round: fresh certificates, whom to trust, and what is registered.

        Raises:
            KubeError: when the API server refuses or does not answer.
            CertificateError: when the authority's Secret or the files hold something else.
            FrontProxyError: when the API server does not say who its front proxy is.
        """
        self.metrics_objects.rest()
        self.guest_homes.rest()
        self.certificate.renew()
        self.uploads.refresh()
        self._proxy = self.registration.front_proxy()
        self.tls.exchange(self.certificate.material, self._proxy.ca)
        self.register()

    def application(self) -> web.Application:
        """What the role serves; made inside the event loop."""
        application = web.Application(client_max_size=MOST_BYTES)
        judgement = Judgement()
        presets = self.presets
        application.add_routes(
            admission_routes(self._current_cluster, self._clock, judgement, presets.of_namespace, presets.doubt)
        )
        vms = VmAdmission(self._client, judgement, self._current_cluster, self._clock)
        application.add_routes(vms.routes(self._paths))
        application.add_routes(KubeVirtAdmission(self._client, judgement).routes(self._paths))
        application.add_routes(MigrationAdmission(self._client, judgement).routes(self._paths))
        clones = CloneAdmission(self._client, judgement, lambda: self.uploads.clone_key, self._clock)
        application.add_routes(clones.routes(self._paths))
        application.add_routes(BackupSourceAdmission(self._client, judgement).routes(self._paths))
        evictions = EvictionAdmission(self._client, judgement, lambda: self.configuration.current.eviction_strategy)
        application.add_routes(evictions.routes(self._paths))
        reader = ClusterReader(self._client)
        relay = RelayClient(reader.relay_address, lambda: self.certificate.material)
        volumes = VolumeCalls(self._client, lambda: self.configuration.current.gates)
        cancels = EvacuationCalls(self._client, lambda: self.configuration.current.migrations.node_drain_taint_key)
        migrations = MigrationCalls(self._client)
        dumps = MemoryDumpCalls(self._client, lambda: self.configuration.current.gates)
        expansion = ExpandCalls(self._client, self._current_cluster)
        graphs = GraphCalls(self._client, lambda: self.configuration.current.gates)
        attestation = AttestationCalls(self._client)
        calls = (PowerCalls(self._client), volumes, cancels, migrations, dumps, expansion, graphs, attestation)
        served = SubresourceServer(reader, *calls, relay, lambda: self._proxy, lambda: self.configuration.current.gates)
        application.add_routes(served.routes())
        metrics = MetricsServer(
            reader,
            self.metrics_objects.read,
            self.guest_homes.read,
            relay.node_stats,
            RoleCollector(reader.relays, relay.role_stats, self.endpoint.instance, self.metrics_objects.read),
            lambda: self._proxy,
            lambda: self.configuration.current,
        )
        application.add_routes(metrics.routes())
        tokens = TokenRequests(lambda: self._proxy, lambda: self.uploads.signing_key, self._clock)
        application.add_routes(tokens.routes())
        worker = WorkerClient(lambda: self.uploads.material)
        uploads = UploadProxy(ClaimReader(self._client), worker, lambda: self.uploads.keys, self._clock)
        application.add_routes(uploads.routes())
        exports = ExportProxy(ExportReader(self._client), lambda: self.uploads.material)
        application.add_routes(exports.routes())

        async def end_streams(application: web.Application) -> None:
            served.streams.send_all_away()

        async def close(application: web.Application) -> None:
            judgement.close()
            await relay.close()
            await uploads.close()
            await exports.close()

        application.on_shutdown.append(end_streams)
        application.on_cleanup.append(close)
        return application

    def _current_cluster(self) -> Cluster:
        return self._cluster.with_configuration(self.configuration.current)
