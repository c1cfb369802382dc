"""The webhooks over HTTPS: AdmissionReview in, AdmissionReview out.

Mounted by api_run.py on the role's one server. Anybody may call these two: nothing is written and nothing is told that
the caller did not send. An answer takes no API call, so that a webhook never waits for the server that waits for it;
and none is worked out in the event loop. Webhooks that ask or write are at paths of secret_paths.py.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
from aiohttp import web

from kvedge.api.admission.admission_message import AdmissionRequest, mutation, parse_review
from kvedge.api.admission.admission_plan import plan_verdict
from kvedge.api.admission.judgement import Judgement
from kvedge.api.admission.mutation_plan import plan_mutation
from kvedge.api.admission.presets.preset_parts import Preset
from kvedge.api.admission.rules.subject import Cluster
from kvedge.api.admission.webhook_answers import answer_judged
from kvedge.api.served_paths import MUTATE_PATH, VALIDATE_PATH
from kvedge.resources.codec import DecodeError, JsonObject
from kvedge.resources.types.vmi import VirtualMachineInstance
from kvedge.runtime.clock import Clock, rfc3339

log = logging.getLogger(__name__)

# An object is at most 1.5 MiB in etcd; an update carries two of them.
MOST_BYTES: Final = 4 * 1024 * 1024


def admission_routes(
    cluster: Callable[[], Cluster],
    clock: Clock,
    judgement: Judgement,
    presets: Callable[[str], Sequence[Preset]] = lambda namespace: (),
    preset_doubt: Callable[[], str] = lambda: "",
) -> list[web.RouteDef]:
    """The two webhooks.

    `cluster` says, to any thread, what holds when a write is judged, `presets` which ones a namespace has, and
    `preset_doubt` why these may not be all; empty when they are.
    """

    def of(request: AdmissionRequest) -> Sequence[Preset]:
        is_vmi = request.resource.resource == VirtualMachineInstance.KIND.plural
        return presets(request.namespace) if is_vmi and request.operation == "CREATE" else ()

    def mutate(request: AdmissionRequest) -> JsonObject:
        return mutation(request.uid, plan_mutation(request, cluster(), rfc3339(clock.now()), of(request)))

    def validate(request: AdmissionRequest) -> JsonObject:
        judged = plan_verdict(request, cluster(), of(request), preset_doubt())
        return answer_judged(request, judged, log)

    return [
        web.post(path, _handler(answer, judgement))
        for path, answer in ((MUTATE_PATH, mutate), (VALIDATE_PATH, validate))
    ]


def _handler(
    answer: Callable[[AdmissionRequest], JsonObject], judgement: Judgement
) -> Callable[[web.Request], Awaitable[web.Response]]:
    def judge(body: bytes) -> bytes:
        return msgspec.json.encode(answer(parse_review(body)))

    async def handle(request: web.Request) -> web.Response:
        try:
            answered = await judgement.ask(judge, await request.read())
        except (DecodeError, RecursionError) as error:
            raise web.HTTPBadRequest(text=f"no AdmissionReview: {error}") from error
        return web.Response(body=answered, content_type="application/json")

    return handle
