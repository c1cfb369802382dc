"""What webhooks do alike: hear a review whose answer waits for the API server, and tell what was refused.

Used by the webhooks of this folder.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
from aiohttp import web

from kvedge.api.admission.admission_message import AdmissionRequest, parse_review, verdict
from kvedge.api.admission.judgement import Judgement
from kvedge.api.admission.spec_verdict import Verdict
from kvedge.resources.codec import DecodeError, JsonObject


def ask_for_answer(
    judgement: Judgement, answer: Callable[[AdmissionRequest], JsonObject]
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """A webhook that `answer()`s in a thread that may wait for the API server."""

    async def handle(request: web.Request) -> web.Response:
        try:
            review = await judgement.ask(parse_review, await request.read())
        except (DecodeError, RecursionError) as error:
            raise web.HTTPBadRequest(text=f"no AdmissionReview: {error}") from error
        answered = await judgement.ask_server(partial(answer, review))
        return web.Response(body=msgspec.json.encode(answered), content_type="application/json")

    return handle


def answer_judged(request: AdmissionRequest, judged: Verdict, log: logging.Logger) -> JsonObject:
    """The answer of a validating webhook; a refusal is logged."""
    if judged.causes:
        facts = {
            "kind": request.resource.resource,
            "object": f"{request.namespace}/{request.name}",
            "user": request.user_info.username,
            "causes": len(judged.causes),
        }
        log.info("refused", extra={"facts": facts})
    return verdict(request.uid, judged.causes, judged.warnings)
