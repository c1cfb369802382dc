"""The subresource by which Pods are asked to go: pods/eviction.

Called by the dispatcher. An eviction is a deletion that admission and the Pod's PodDisruptionBudget may refuse.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial

from aiohttp import web
from msgspec.structs import replace

from kvedge.standalone.apiserver.admission.admission_protocol import Admission, Review
from kvedge.standalone.apiserver.loops import disruption_plan
from kvedge.standalone.apiserver.loops.disruption_plan import BUDGETS, PodFacts
from kvedge.standalone.apiserver.requests import deletion_rules
from kvedge.standalone.apiserver.requests.deletion_rules import DeleteOptions
from kvedge.standalone.apiserver.requests.request_body import read_object
from kvedge.standalone.apiserver.requests.request_context import RequestContext
from kvedge.standalone.apiserver.routes.pod_routes import success_status
from kvedge.standalone.apiserver.routes.resource_routes import json_response
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import Stored
from kvedge.standalone.apiserver.wire.api_errors import ApiError, Conflict, MethodNotAllowed, NotFound
from kvedge.standalone.apiserver.writing.object_remover import ObjectRemover
from kvedge.standalone.apiserver.writing.server_actor import ServerActor

_SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


class EvictionRoutes:
    """Serves pods/eviction."""

    def __init__(
        self,
        hub: ObjectHub,
        admission: Admission,
        remover: ObjectRemover,
        actor: ServerActor,
        now: Callable[[], datetime],
    ) -> None:
        self._hub = hub
        self._admission = admission
        self._remover = remover
        self._actor = actor
        self._now = now

    async def evict(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        """POST pods/<name>/eviction: delete the Pod, if admission and its budget let it go."""
        if context.target.verb != "create":
            raise MethodNotAllowed()
        body = await read_object(request, context)
        options = deletion_rules.delete_options(body.get("deleteOptions") or {})
        options = replace(options, dry_run=options.dry_run or context.options.dry_run)
        pod = self._pod(context).load()
        await self._admission.validate(Review(context, "CREATE", {"metadata": {}, **body}, pod, context.target.name))
        deletion = replace(context, target=replace(context.target, verb="delete", subresource=""))
        await self._delete(deletion, options)
        return json_response(success_status(), 201, context)

    async def _delete(self, deletion: RequestContext, options: DeleteOptions) -> None:
        # Of now: while admission was asked it may have become another one, or ready.
        stored = self._pod(deletion)
        pod = disruption_plan.pod_facts(stored.load())
        budget = None if disruption_plan.is_free(pod) else self._budget_of(stored)
        if budget is None:
            await self._remover.delete(deletion, pod.name, options)
        elif disruption_plan.is_spared(budget.load(), pod):
            await self._delete_unready(deletion, options, stored, budget)
        else:
            await self._take(budget, pod, dry_run=options.dry_run)
            await self._remover.delete(deletion, pod.name, options)

    async def _take(self, budget: Stored, pod: PodFacts, *, dry_run: bool) -> None:
        """Take one disruption from the budget."""
        granted = partial(disruption_plan.grant_eviction, pod=pod.name, now=self._now())
        if dry_run:
            granted(budget.load())
            return
        try:
            await self._actor.change(budget, granted, "status")
        except NotFound:
            # The budget has gone meanwhile, and forbids nothing any more.
            return

    async def _delete_unready(
        self, deletion: RequestContext, options: DeleteOptions, stored: Stored, budget: Stored
    ) -> None:
        """Delete a Pod that counts for nothing in its budget, unless it became ready meanwhile."""
        version = options.resource_version or str(stored.revision)
        try:
            await self._remover.delete(deletion, stored.key.name, replace(options, resource_version=version))
        except Conflict as error:
            if options.resource_version:
                raise
            raise disruption_plan.refuse_unprocessed(budget.key.name) from error

    def _budget_of(self, pod: Stored) -> Stored | None:
        """The budget that a Pod has.

        Raises:
            ApiError: it has several.
        """
        found = [
            budget
            for budget in self._hub.cache.in_namespace(BUDGETS, pod.key.namespace)
            if disruption_plan.chooses(budget.load(), pod.meta.labels)
        ]
        if len(found) > 1:
            raise ApiError(500, "", _SEVERAL)
        return found[0] if found else None

    def _pod(self, context: RequestContext) -> Stored:
        stored = self._hub.get(context.key)
        if stored is None:
            raise NotFound(context.error_target)
        return stored
