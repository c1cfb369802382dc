"""`serviceaccounts/<name>/token`: a token for an account, for a while.

Called by the dispatcher. No token is stored. The account `default`, which Kubernetes makes in each namespace for Pods
that name none, is made here once a token of it is asked for.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from aiohttp import web

from kvedge.resources.codec import JsonObject
from kvedge.resources.phases import FINAL_POD_PHASES
from kvedge.resources.role_users import NODE_PREFIX
from kvedge.standalone.apiserver.access.authorizer_rules import AGENTS
from kvedge.standalone.apiserver.access.service_tokens import (
    ISSUER,
    LONGEST_SECONDS,
    SHORTEST_SECONDS,
    AccountId,
    BoundTo,
    ServiceTokens,
)
from kvedge.standalone.apiserver.requests.request_body import read_object
from kvedge.standalone.apiserver.requests.request_context import RequestContext
from kvedge.standalone.apiserver.requests.write_rules import timestamp
from kvedge.standalone.apiserver.routes.resource_routes import json_response
from kvedge.standalone.apiserver.store.object_hub import ObjectHub
from kvedge.standalone.apiserver.store.stored import ObjectKey
from kvedge.standalone.apiserver.wire.api_errors import (
    BadRequest,
    Conflict,
    FieldError,
    Forbidden,
    Invalid,
    MethodNotAllowed,
    NotFound,
    Target,
)
from kvedge.standalone.apiserver.wire.causes import forbidden, invalid

_API_VERSION: Final = "authentication.k8s.io/v1"
_DEFAULT_SECONDS: Final = 3600
# Of Pods that name none.
_DEFAULT_ACCOUNT: Final = "default"


class TokenRoutes:
    """Serves TokenRequests."""

    def __init__(self, hub: ObjectHub, tokens: ServiceTokens, ensure: Callable[[JsonObject], Awaitable[None]]) -> None:
        """`ensure` creates an object in the server's name unless it is there."""
        self._hub = hub
        self._tokens = tokens
        self._ensure = ensure

    async def create(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        """POST serviceaccounts/<name>/token.

        Raises:
            ApiError: there is no such account, or it is asked for what is not given.
        """
        if context.target.verb != "create":
            raise MethodNotAllowed()
        review = await read_object(request, context)
        if review.get("kind") not in (None, "", "TokenRequest"):
            raise BadRequest(f"{review['kind']} cannot be handled as a TokenRequest: another kind was expected")
        spec = review.get("spec") or {}
        if not isinstance(spec, dict):
            raise BadRequest("TokenRequest: spec must be an object")
        if context.target.name != _DEFAULT_ACCOUNT and self._hub.get(context.key) is None:
            raise NotFound(context.error_target)
        errors = _complaints(spec)
        if errors:
            raise Invalid(Target("TokenRequest", "", "authentication.k8s.io"), errors)
        seconds = min(spec.get("expirationSeconds") or _DEFAULT_SECONDS, LONGEST_SECONDS)
        audiences = spec.get("audiences") or [ISSUER]
        pod = await self._find_pod(context, spec.get("boundObjectRef"))
        if pod is None and AGENTS in context.caller.groups:
            raise Forbidden(context.error_target, "the node agent gets tokens of Pods alone")
        if context.target.name == _DEFAULT_ACCOUNT and not context.options.dry_run:
            await self._make_default(context.namespace)
        stored = self._hub.get(context.key)
        if stored is None or stored.meta.deletion_timestamp:
            raise NotFound(context.error_target)
        account = AccountId(context.namespace, context.target.name, stored.meta.uid, pod)
        token, ends = self._tokens.issue(account, audiences, seconds)
        given: JsonObject = {"audiences": audiences, "expirationSeconds": seconds}
        if pod is not None:
            given["boundObjectRef"] = {"kind": "Pod", "apiVersion": "v1", "name": pod.name, "uid": pod.uid}
        answer: JsonObject = {
            "kind": "TokenRequest",
            "apiVersion": _API_VERSION,
            "metadata": {"name": account.name, "namespace": account.namespace},
            "spec": given,
            "status": {"token": token, "expirationTimestamp": timestamp(ends)},
        }
        return json_response(msgspec.json.encode(answer), 201, context)

    async def _make_default(self, namespace: str) -> None:
        metadata = {"name": _DEFAULT_ACCOUNT, "namespace": namespace}
        await self._ensure({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata})

    async def _find_pod(self, context: RequestContext, reference: JsonObject | None) -> BoundTo | None:
        """The Pod that a token is to end with.

        Raises:
            ApiError: there is none, or it is another account's.
        """
        if not reference:
            return None
        name, uid = str(reference.get("name") or ""), str(reference.get("uid") or "")
        stored = self._hub.get(ObjectKey("pods", context.namespace, name))
        if stored is None:
            raise NotFound(Target("pods", name))
        pod = await context.work(stored.load, len(stored.body))
        if AGENTS in context.caller.groups and (why := judge_agent(context.caller.user, pod, uid)):
            raise Forbidden(context.error_target, why)
        if (pod["spec"].get("serviceAccountName") or _DEFAULT_ACCOUNT) != context.target.name:
            raise BadRequest(f"spec.boundObjectRef: Pod {name} has another service account than {context.target.name}")
        if uid and uid != stored.meta.uid:
            raise Conflict(context.error_target, f"spec.boundObjectRef.uid: Pod {name} has the UID {stored.meta.uid}")
        return BoundTo(name, stored.meta.uid)


def judge_agent(user: str, pod: JsonObject, uid: str) -> str:
    """Why the node agent of this name gets no token of a Pod whose `uid` it has named; empty when it does."""
    if not uid:
        return "the node agent names the Pod's uid in spec.boundObjectRef.uid"
    if not user.startswith(NODE_PREFIX) or pod["spec"].get("nodeName") != user.removeprefix(NODE_PREFIX):
        return "the node agent gets tokens of Pods that run on its node alone"
    if (pod.get("status") or {}).get("phase") in FINAL_POD_PHASES:
        return "the node agent gets no tokens of Pods that have ended"
    return ""


def _complaints(spec: JsonObject) -> list[FieldError]:
    errors, seconds = [], spec.get("expirationSeconds")
    if seconds is not None and (not isinstance(seconds, int) or isinstance(seconds, bool)):
        errors.append(invalid("spec.expirationSeconds", seconds, "must be a whole number"))
    elif seconds is not None and seconds < SHORTEST_SECONDS:
        errors.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    audiences = spec.get("audiences") or []
    if not isinstance(audiences, list) or not all(isinstance(item, str) and item for item in audiences):
        errors.append(invalid("spec.audiences", audiences, "must be a list of texts"))
    reference = spec.get("boundObjectRef")
    if reference and (not isinstance(reference, dict) or reference.get("kind") != "Pod"):
        errors.append(forbidden("spec.boundObjectRef", "tokens are bound to their account and to Pods alone"))
    return errors


def account_exists(hub: ObjectHub, account: AccountId) -> bool:
    """Whether this very account is there, and stays, and its Pod or Secret is there, which may be ending."""
    stored = hub.get(ObjectKey("serviceaccounts", account.namespace, account.name))
    if stored is None or stored.meta.uid != account.uid or stored.meta.deletion_timestamp:
        return False
    for resource, bound in (("pods", account.pod), ("secrets", account.secret)):
        if bound is not None:
            holder = hub.get(ObjectKey(resource, account.namespace, bound.name))
            if holder is None or holder.meta.uid != bound.uid:
                return False
    return True
