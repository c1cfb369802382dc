"""The webhook of new migrations: its answer depends on the VMI, its other migrations, and the nodes.

Mounted by api_run.py beside the other webhooks. Asks the API server, in a worker thread and with a short deadline.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
from aiohttp import web

from kvedge.api.admission.admission_message import AdmissionRequest, parse_review, refusal, verdict
from kvedge.api.admission.judgement import Judgement
from kvedge.api.admission.migrations.migration_verdict import Around, judge_spec, judge_surroundings, refusal_words
from kvedge.api.served_paths import VALIDATE_MIGRATION_PATH
from kvedge.kube.errors import KubeError, NotFound
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.names import SCHEDULABLE
from kvedge.resources.types.core import Node
from kvedge.resources.types.migrations import VMI_NAME_LABEL, VirtualMachineInstanceMigration
from kvedge.resources.types.vmi import VirtualMachineInstance

log = logging.getLogger(__name__)

# Less than the API server waits for us, all questions together.
_ASK_SECONDS: Final = 2.0
_BAD_REQUEST: Final = 400
_INTERNAL: Final = 500
# One node is the VMI's own, so that two say whether there is another one.
_ENOUGH_NODES: Final = "2"


class MigrationAdmission:
    """Judges new migrations."""

    def __init__(self, client: KubeClient, judgement: Judgement) -> None:
        self._client = client.hurry(_ASK_SECONDS)
        self._judgement = judgement

    def routes(self) -> list[web.RouteDef]:
        """The webhook."""
        return [web.post(VALIDATE_MIGRATION_PATH, self._handle)]

    async def _handle(self, request: web.Request) -> web.Response:
        try:
            review, migration, judged = await self._judgement.ask(_judge, await request.read())
        except (DecodeError, RecursionError) as error:
            raise web.HTTPBadRequest(text=f"no AdmissionReview: {error}") from error
        answer = judged if migration is None else await asyncio.to_thread(self._answer, review, migration)
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    def _answer(self, request: AdmissionRequest, migration: VirtualMachineInstanceMigration) -> JsonObject:
        try:
            around = self._look_around(migration)
        except KubeError as error:
            return refusal(request.uid, _INTERNAL, f"the API server: {error.message or error}")
        words = refusal_words(migration, around)
        judged = judge_surroundings(migration, around)
        if words or judged.causes:
            facts = {"kind": request.resource.resource, "vmi": migration.spec.vmi_name, "reason": words}
            log.info("refused", extra={"facts": facts})
        if words:
            return refusal(request.uid, _BAD_REQUEST, words)
        return verdict(request.uid, judged.causes, judged.warnings)

    def _look_around(self, migration: VirtualMachineInstanceMigration) -> Around:
        namespace, name = migration.metadata.namespace, migration.spec.vmi_name
        try:
            vmi = self._client.get(VirtualMachineInstance, namespace, name)
        except NotFound:
            return Around(None, (), (), ())
        others = self._client.list(VirtualMachineInstanceMigration, namespace, f"{VMI_NAME_LABEL}={name}")
        wanted = {SCHEDULABLE: "true", **migration.spec.added_node_selector}
        return Around(vmi, others, self._nodes({}), self._nodes(wanted))

    def _nodes(self, labels: Mapping[str, str]) -> Sequence[str]:
        """The names of some nodes with these labels: two of them, if there are so many."""
        query = {"limit": _ENOUGH_NODES}
        if labels:
            query["labelSelector"] = ",".join(f"{key}={value}" for key, value in labels.items())
        found = self._client.request("GET", Node.KIND.path(), query=query)
        return [str(item["metadata"]["name"]) for item in found.get("items") or ()]


def _judge(body: bytes) -> tuple[AdmissionRequest, VirtualMachineInstanceMigration | None, JsonObject]:
    """The review; the migration that is still to be judged, or what is said of the document alone."""
    request = parse_review(body)
    if request.object is None or request.sub_resource or request.operation != "CREATE":
        return request, None, verdict(request.uid, ())
    if causes := judge_spec(request, request.object):
        return request, None, verdict(request.uid, causes)
    migration = decode(VirtualMachineInstanceMigration, request.object)
    migration.metadata.namespace = request.namespace
    return request, migration, {}
