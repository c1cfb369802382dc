"""Admission by webhooks: the mutating ones in turn, the validating ones together.

Given to the write path. Reads configurations and namespaces from the cache, asks through `webhook_client`.
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from functools import partial
from typing import Final

import msgspec

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.admission import admission_rules
from kvedge.standalone.apiserver.admission.admission_protocol import Review
from kvedge.standalone.apiserver.admission.admission_rules import Webhook
from kvedge.standalone.apiserver.admission.webhook_client import WebhookClient, WebhookFailed
from kvedge.standalone.apiserver.kinds.served_kinds import ServedKind
from kvedge.standalone.apiserver.patch import json_patch
from kvedge.standalone.apiserver.schema.cel_edge import CelError
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import Change, ObjectKey
from kvedge.standalone.apiserver.wire.api_errors import ApiError, BadRequest, Denied, InternalError

_CONFIGURATIONS: Final = (admission_rules.MUTATING, admission_rules.VALIDATING)


class AdmissionWebhooks:
    """Implements `Admission` with what the two kinds of configurations say."""

    def __init__(self, hub: ObjectHub, client: WebhookClient) -> None:
        self._hub = hub
        self._client = client
        self._webhooks: dict[str, list[Webhook]] = {}
        for resource in _CONFIGURATIONS:
            self._reload(resource)
        hub.cache.on_change(self._notice)

    async def mutate(self, review: Review) -> JsonObject | None:
        """Let each webhook that is concerned change the object; those that ask for it see later changes once more."""
        again: list[Webhook] = []
        for webhook in self._webhooks[admission_rules.MUTATING]:
            before = review.obj
            review, called = await self._mutate_by(webhook, review)
            if review.obj is not before:
                for other in again:
                    review, _ = await self._mutate_by(other, review)
                again = []
            if called and webhook.entry.get("reinvocationPolicy") == "IfNeeded":
                again.append(webhook)
        return review.obj

    async def validate(self, review: Review) -> None:
        """Ask all webhooks that are concerned; the first in order that refuses is reported."""
        webhooks = self._webhooks[admission_rules.VALIDATING]
        asked = [(webhook, kind) for webhook in webhooks if (kind := self._kind_for(webhook, review)) is not None]
        if not asked:
            return
        results = await asyncio.gather(
            *(self._ask(webhook, kind, review) for webhook, kind in asked), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _mutate_by(self, webhook: Webhook, review: Review) -> tuple[Review, bool]:
        kind = self._kind_for(webhook, review)
        if kind is None:
            return review, False
        response = await self._ask(webhook, kind, review)
        if response is None or not response.get("patch") or review.obj is None:
            return review, True
        patch = partial(_patch, webhook, review.obj, response)
        obj = await review.context.work(patch, len(response["patch"]))
        if obj == review.obj:
            return review, True
        return Review(review.context, review.operation, obj, review.old, review.name, review.options), True

    async def _ask(self, webhook: Webhook, kind: ServedKind, review: Review) -> JsonObject | None:
        """The webhook's response; None when it failed and that is to be ignored.

        Raises:
            ApiError: it refused, or failed and that counts as a refusal.
        """
        message = admission_rules.admission_review(kind, review, str(uuid.uuid4()))
        if not self._is_wanted(webhook, message["request"]):
            return None
        if review.context.options.dry_run and webhook.has_side_effects:
            raise BadRequest(f'admission webhook "{webhook.name}" does not support dry run')
        config = webhook.entry.get("clientConfig") or {}
        try:
            response = await self._client.ask(config, message, webhook.timeout_seconds)
        except WebhookFailed as error:
            if webhook.ignores_failure:
                return None
            raise InternalError(f'failed calling webhook "{webhook.name}": failed to call webhook: {error}') from error
        for text in response.get("warnings") or []:
            review.context.warn(str(text)[:256])
        if not response.get("allowed"):
            raise Denied(admission_rules.denial(webhook, response))
        return response

    @staticmethod
    def _is_wanted(webhook: Webhook, request: JsonObject) -> bool:
        try:
            return admission_rules.conditions_hold(webhook, request)
        except CelError as error:
            if webhook.ignores_failure:
                return False
            raise InternalError(f'failed evaluating match conditions of webhook "{webhook.name}": {error}') from error

    def _kind_for(self, webhook: Webhook, review: Review) -> ServedKind | None:
        kind = admission_rules.matching_kind(webhook, review, self._hub.kinds)
        if kind is None or not admission_rules.is_selected(webhook, review, self._namespace_labels(review)):
            return None
        return kind

    def _namespace_labels(self, review: Review) -> dict[str, str] | None:
        own = admission_rules.own_namespace_labels(review)
        if own is not None:
            return dict(own)
        if not review.context.kind.namespaced:
            return None
        stored = self._hub.get(ObjectKey("namespaces", "", review.context.namespace))
        return dict(stored.meta.labels or {}) if stored else {}

    def _notice(self, change: Change) -> None:
        if change.current.key.resource in _CONFIGURATIONS:
            self._reload(change.current.key.resource)

    def _reload(self, resource: str) -> None:
        configurations = [stored.load() for stored in self._hub.cache.in_namespace(resource)]
        self._webhooks[resource] = admission_rules.webhooks_of(configurations)


def _patch(webhook: Webhook, obj: JsonObject, response: JsonObject) -> JsonObject:
    try:
        if response.get("patchType") != "JSONPatch":
            raise ValueError(f"patchType is {response.get('patchType')!r}, not JSONPatch")
        operations = msgspec.json.decode(base64.b64decode(response["patch"]))
        return json_patch.apply(obj, operations)
    except (ValueError, RecursionError, ApiError) as error:
        raise InternalError(f'webhook "{webhook.name}" sent a patch that cannot be applied: {error}') from error
