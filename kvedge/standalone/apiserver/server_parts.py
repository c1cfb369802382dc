"""What the API server is made of, put together: flows, routes, loops.

Made by `EmbeddedApi` in its event loop.
"""

from __future__ import annotations

from kvedge.resources.codec import JsonObject
from kvedge.resources.manifests.attachment_crd import attachment_crd
from kvedge.standalone.apiserver.access import bootstrap_manifest
from kvedge.standalone.apiserver.access.authorizer_rules import Authorizer
from kvedge.standalone.apiserver.access.bootstrap_roles import cluster_roles, current
from kvedge.standalone.apiserver.access.identity import Authenticator
from kvedge.standalone.apiserver.access.rbac_guard import RbacGuard
from kvedge.standalone.apiserver.access.rbac_index import RbacIndex
from kvedge.standalone.apiserver.access.server_certificate import BoxPki
from kvedge.standalone.apiserver.access.service_tokens import ServiceTokens
from kvedge.standalone.apiserver.admission.admission_webhooks import AdmissionWebhooks
from kvedge.standalone.apiserver.admission.builtin_admission import BuiltInAdmission
from kvedge.standalone.apiserver.admission.limit_ranger import LimitRanger
from kvedge.standalone.apiserver.admission.pod_security import PodSecurity
from kvedge.standalone.apiserver.admission.quota_ledger import QuotaLedger
from kvedge.standalone.apiserver.admission.service_ledger import ServiceLedger
from kvedge.standalone.apiserver.admission.storage_admission import StorageAdmission
from kvedge.standalone.apiserver.admission.webhook_client import WebhookClient
from kvedge.standalone.apiserver.aggregation.aggregation_proxy import AggregationProxy
from kvedge.standalone.apiserver.audit_log import AuditLog
from kvedge.standalone.apiserver.dispatcher import Dispatcher, Route
from kvedge.standalone.apiserver.kinds.built_in import BUILT_IN
from kvedge.standalone.apiserver.kinds.groups import snapshots
from kvedge.standalone.apiserver.kinds.served_kinds import ASKED, MEASURED
from kvedge.standalone.apiserver.loops.availability_loop import AvailabilityLoop
from kvedge.standalone.apiserver.loops.csr_loop import CsrLoop
from kvedge.standalone.apiserver.loops.disruption_loop import DisruptionLoop
from kvedge.standalone.apiserver.loops.emptying_loop import EmptyingLoop
from kvedge.standalone.apiserver.loops.expiry_loop import ExpiryLoop
from kvedge.standalone.apiserver.loops.garbage_loop import GarbageLoop
from kvedge.standalone.apiserver.loops.quota_loop import QuotaLoop
from kvedge.standalone.apiserver.loops.role_aggregation_loop import RoleAggregationLoop
from kvedge.standalone.apiserver.loops.token_secret_loop import TokenSecretLoop
from kvedge.standalone.apiserver.routes.discovery_routes import DiscoveryRoutes
from kvedge.standalone.apiserver.routes.eviction_routes import EvictionRoutes
from kvedge.standalone.apiserver.routes.exec_routes import ExecRoutes
from kvedge.standalone.apiserver.routes.exec_source import ExecSource
from kvedge.standalone.apiserver.routes.forwarding.forward_routes import ForwardRoutes
from kvedge.standalone.apiserver.routes.forwarding.forward_source import ForwardSource
from kvedge.standalone.apiserver.routes.log_source import LogSource
from kvedge.standalone.apiserver.routes.pod_routes import PodRoutes
from kvedge.standalone.apiserver.routes.resource_routes import ResourceRoutes
from kvedge.standalone.apiserver.routes.review_routes import ReviewRoutes
from kvedge.standalone.apiserver.routes.scale_routes import ScaleRoutes
from kvedge.standalone.apiserver.routes.token_routes import TokenRoutes, account_exists
from kvedge.standalone.apiserver.routes.usage_routes import UsageRoutes
from kvedge.standalone.apiserver.routes.usage_source import UsageSource
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import ObjectKey
from kvedge.standalone.apiserver.wire.large_work import LargeWork
from kvedge.standalone.apiserver.writing.object_remover import ObjectRemover
from kvedge.standalone.apiserver.writing.object_writer import ObjectWriter, utc_now
from kvedge.standalone.apiserver.writing.server_actor import ServerActor


class ServerParts:
    """The parts of one server, and their beginning and end."""

    def __init__(
        self,
        hub: ObjectHub,
        pki: BoxPki,
        address: str,
        services: ServiceLedger,
        audit: AuditLog,
        log_source: LogSource | None,
        exec_source: ExecSource | None = None,
        usage_source: UsageSource | None = None,
        forward_source: ForwardSource | None = None,
    ) -> None:
        self._pki = pki
        self._webhooks = WebhookClient(hub.cache)
        self._work = LargeWork()
        rbac = RbacIndex(hub.cache)
        authorizer = Authorizer(lambda *where: _lookup(hub, *where), rbac)
        guard = RbacGuard(authorizer, rbac)
        admission = BuiltInAdmission(
            AdmissionWebhooks(hub, self._webhooks),
            authorizer,
            guard,
            PodSecurity(hub, authorizer),
            LimitRanger(hub),
            StorageAdmission(hub),
            utc_now,
        )
        tokens = ServiceTokens(pki.directory, lambda account: account_exists(hub, account), utc_now)
        quotas = QuotaLedger(hub.cache)
        writer = ObjectWriter(hub, admission, quotas, services)
        remover = ObjectRemover(hub, admission, writer)
        self.actor = ServerActor(hub, writer, remover, self._work)
        self.now = writer.now
        self._resources = ResourceRoutes(hub, writer, remover)
        self._proxy = AggregationProxy(hub, pki.front_proxy_tls)
        availability = AvailabilityLoop(hub, self.actor, self._proxy, writer.now)
        self._discovery = DiscoveryRoutes(hub, address, self._proxy, availability.versions)
        pods = PodRoutes(hub, writer, log_source)
        evictions = EvictionRoutes(hub, admission, remover, self.actor, writer.now)
        self._commands = commands = ExecRoutes(hub, authorizer, exec_source, log_source)
        self._forwards = ForwardRoutes(hub, authorizer, forward_source)
        special: dict[tuple[str, str], Route] = {
            ("pods", "log"): pods.log,
            ("pods", "binding"): pods.bind,
            ("pods", "eviction"): evictions.evict,
            ("pods", "exec"): commands.exec,
            ("pods", "attach"): commands.attach,
            ("pods", "portforward"): self._forwards.forward,
            ("serviceaccounts", "token"): TokenRoutes(hub, tokens, self.actor.ensure).create,
            ("*", "scale"): ScaleRoutes(hub, writer).serve,
        }
        reviews = ReviewRoutes(authorizer, tokens)
        special.update({(kind.storage, ""): reviews.serve for kind in BUILT_IN if kind.verbs == ASKED})
        usage = UsageRoutes(hub, usage_source, writer.now)
        special.update({(kind.storage, ""): usage.serve for kind in BUILT_IN if kind.verbs == MEASURED})
        authenticator = Authenticator(authorizer, tokens)
        self.dispatcher = Dispatcher(
            hub, self._resources, self._discovery, self._proxy, authorizer, authenticator, special, self._work, audit
        )
        self._loops = (
            GarbageLoop(hub, self.actor),
            EmptyingLoop(hub, self.actor),
            CsrLoop(hub, self.actor, pki.clients, writer.now),
            RoleAggregationLoop(hub, self.actor),
            ExpiryLoop(hub, self.actor, writer.now),
            QuotaLoop(hub, self.actor, quotas),
            DisruptionLoop(hub, self.actor, writer.now),
            TokenSecretLoop(hub, self.actor, tokens, pki.servers.certificate_pem),
            availability,
        )

    async def prepare(self) -> None:
        """Write the objects that every cluster has, and start the loops."""
        clients, front_proxy = self._pki.clients.certificate_pem, self._pki.front_proxy.certificate_pem
        for obj in (*bootstrap_manifest.namespaces(), *bootstrap_manifest.priority_classes()):
            await self.actor.ensure(obj)
        for obj in (attachment_crd(), *snapshots.definitions()):
            await self.actor.ensure(obj)
        # Of the authorities that there are now: a damaged one of the front proxy is made anew.
        trusted = bootstrap_manifest.authentication_config_map(clients, front_proxy)
        await self.actor.keep(trusted, lambda live, obj: {**live, "data": obj["data"]})
        for role in cluster_roles():
            await self.actor.keep(role, current)
        for loop in self._loops:
            loop.start()

    def renew(self) -> None:
        """Show other servers a certificate that is good for long, from the next connection on."""
        self._proxy.forget_tls()

    async def stop(self) -> None:
        """End the loops and the watches, so that nobody waits for them."""
        for loop in self._loops:
            loop.stop()
        self._resources.stop()
        self._commands.stop()
        self._forwards.stop()
        self._discovery.stop()
        await self._webhooks.close()
        await self._proxy.close()

    def close(self) -> None:
        """End the threads of large work, once no request is served any more."""
        self._work.close()


def _lookup(hub: ObjectHub, group: str, resource: str, namespace: str, name: str) -> JsonObject | None:
    """The object that an authorization rule depends on."""
    stored = hub.get(ObjectKey(f"{resource}.{group}" if group else resource, namespace, name))
    return stored.load() if stored else None
