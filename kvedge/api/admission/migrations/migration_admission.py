"""The webhook of new migrations: its answer depends on the VMI, its other migrations, and the nodes.

Mounted by api_run.py beside the other webhooks. Asks the API server, in a worker thread and with a short deadline.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Final

import msgspec
from aiohttp import web

from kvedge.api.admission.admission_message import AdmissionRequest, parse_review, refusal, verdict
from kvedge.api.admission.judgement import Judgement
from kvedge.api.admission.migrations.migration_verdict import judge_spec, judge_surroundings, refusal_words
from kvedge.api.admission.migrations.surroundings import look_around
from kvedge.api.secret_paths import SecretPaths
from kvedge.api.served_paths import VALIDATE_MIGRATION_PATH
from kvedge.kube.errors import KubeError
from kvedge.kube.kube_client import KubeClient
from kvedge.resources.codec import DecodeError, JsonObject, decode
from kvedge.resources.types.migrations import VirtualMachineInstanceMigration

log = logging.getLogger(__name__)

# Less than the API server waits for us, all questions together.
_ASK_SECONDS: Final = 2.0
_BAD_REQUEST: Final = 400
_INTERNAL: Final = 500


class MigrationAdmission:
    """Judges new migrations."""

    def __init__(self, client: KubeClient, judgement: Judgement) -> None:
        self._client = client.hurry(_ASK_SECONDS)
        self._judgement = judgement

    def routes(self, paths: SecretPaths) -> list[web.RouteDef]:
        """The webhook, which asks: at a path that callers must know."""
        return [paths.route(VALIDATE_MIGRATION_PATH, self._handle)]

    async def _handle(self, request: web.Request) -> web.Response:
        try:
            review, migration, judged = await self._judgement.ask(_judge, await request.read())
        except (DecodeError, RecursionError) as error:
            raise web.HTTPBadRequest(text=f"no AdmissionReview: {error}") from error
        answer = judged
        if migration is not None:
            answer = await self._judgement.ask_server(partial(self._answer, review, migration))
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

    def _answer(self, request: AdmissionRequest, migration: VirtualMachineInstanceMigration) -> JsonObject:
        try:
            around = look_around(self._client, migration)
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
