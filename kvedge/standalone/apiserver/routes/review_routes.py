"""Kinds whose objects are questions about a caller and its rights.

Called by the dispatcher. Answered by the authorizer; nothing is stored.
"""

from __future__ import annotations

from typing import Final

import msgspec
from aiohttp import web

from kvedge.resources.codec import JsonObject, learn
from kvedge.standalone.apiserver.access.authorizer_rules import Authorizer
from kvedge.standalone.apiserver.access.identity import TokenCheck
from kvedge.standalone.apiserver.access.service_tokens import ISSUER
from kvedge.standalone.apiserver.requests.request_body import read_object
from kvedge.standalone.apiserver.requests.request_context import Caller, RequestContext
from kvedge.standalone.apiserver.requests.request_target import RequestTarget
from kvedge.standalone.apiserver.requests.write_rules import check_identity, invalid
from kvedge.standalone.apiserver.routes.resource_routes import json_response
from kvedge.standalone.apiserver.wire.api_errors import BadRequest, FieldError, FieldErrorType

_NO_TOKEN: Final = "the token is nobody's: it is not of this server, has ended, or its account is gone"


class ReviewRoutes:
    """Serves the reviews of authentication.k8s.io and authorization.k8s.io."""

    def __init__(self, authorizer: Authorizer, tokens: TokenCheck) -> None:
        self._authorizer = authorizer
        self._tokens = tokens
        self._answers = {
            "SelfSubjectReview": self._self_subject,
            "TokenReview": self._token,
            "SubjectAccessReview": self._access,
            "LocalSubjectAccessReview": self._local_access,
            "SelfSubjectAccessReview": self._own_access,
            "SelfSubjectRulesReview": self._own_rules,
        }

    async def serve(self, request: web.BaseRequest, context: RequestContext) -> web.StreamResponse:
        """Answer a review with itself and its status."""
        review = await read_object(request, context)
        check_identity(context.kind, review, context.namespace)
        _check_types(context, review)
        review["status"] = self._answers[context.kind.kind](context, review)
        return json_response(msgspec.json.encode(review), 201, context)

    def _self_subject(self, context: RequestContext, review: JsonObject) -> JsonObject:
        return {"userInfo": _user_info(context.caller)}

    def _token(self, context: RequestContext, review: JsonObject) -> JsonObject:
        spec = review.get("spec") or {}
        audiences = spec.get("audiences") or [ISSUER]
        for audience in audiences:
            account = self._tokens.account_of(spec.get("token") or "", [audience])
            if account is not None:
                return {"authenticated": True, "user": _user_info(account), "audiences": [audience]}
        return {"authenticated": False, "user": {}, "error": _NO_TOKEN}

    def _own_access(self, context: RequestContext, review: JsonObject) -> JsonObject:
        return self._decide(context, context.caller, review.get("spec") or {})

    def _local_access(self, context: RequestContext, review: JsonObject) -> JsonObject:
        # A caller that may ask about one namespace must not learn of others.
        asked = ((review.get("spec") or {}).get("resourceAttributes") or {}).get("namespace") or ""
        if asked != context.namespace:
            words = f"must match metadata.namespace: {context.namespace}"
            field = "spec.resourceAttributes.namespace"
            raise invalid(context.kind, "", [FieldError(FieldErrorType.INVALID, field, words, asked)])
        return self._access(context, review)

    def _access(self, context: RequestContext, review: JsonObject) -> JsonObject:
        spec = review.get("spec") or {}
        user, groups = spec.get("user") or "", tuple(spec.get("groups") or ())
        if not user and not groups:
            words = "at least one of user or group must be specified"
            raise invalid(context.kind, "", [FieldError(FieldErrorType.INVALID, "spec.user", words, user)])
        extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
        return self._decide(context, Caller(user, groups, spec.get("uid") or "", extra), spec)

    def _decide(self, context: RequestContext, caller: Caller, spec: JsonObject) -> JsonObject:
        resource, path = spec.get("resourceAttributes") or {}, spec.get("nonResourceAttributes") or {}
        if bool(resource) == bool(path):
            words = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            error = FieldError(FieldErrorType.INVALID, "spec.resourceAttributes", words, resource)
            raise invalid(context.kind, "", [error])
        if resource:
            target = RequestTarget(
                verb=resource.get("verb") or "",
                path="",
                group=resource.get("group") or "",
                version=resource.get("version") or "",
                namespace=resource.get("namespace") or "",
                resource=resource.get("resource") or "",
                name=resource.get("name") or "",
                subresource=resource.get("subresource") or "",
            )
        else:
            target = RequestTarget(path.get("verb") or "", path.get("path") or "")
        return {"allowed": self._authorizer.allows(caller, target)}

    def _own_rules(self, context: RequestContext, review: JsonObject) -> JsonObject:
        namespace = (review.get("spec") or {}).get("namespace") or ""
        if not namespace:
            raise BadRequest("no namespace on request")
        rules = list(dict.fromkeys(self._authorizer.rules_of(context.caller, namespace)))
        incomplete = self._authorizer.has_limited_rights(context.caller)
        return {
            "resourceRules": [rule.document() for rule in rules if not rule.urls],
            "nonResourceRules": [rule.document() for rule in rules if rule.urls],
            "incomplete": incomplete,
            **({"evaluationError": "some rights depend on the object and are not listed"} if incomplete else {}),
        }


def _user_info(caller: Caller) -> JsonObject:
    info: JsonObject = {"username": caller.user, "groups": list(caller.groups)}
    if caller.uid:
        info["uid"] = caller.uid
    if caller.extra:
        info["extra"] = {key: list(values) for key, values in caller.extra.items()}
    return info


class _Attributes(msgspec.Struct, rename="camel"):
    verb: str | None = None
    path: str | None = None
    group: str | None = None
    version: str | None = None
    namespace: str | None = None
    resource: str | None = None
    name: str | None = None
    subresource: str | None = None


class _Spec(msgspec.Struct, rename="camel"):
    """What the specs of all reviews have together."""

    user: str | None = None
    uid: str | None = None
    groups: list[str] | None = None
    extra: dict[str, list[str] | None] | None = None
    resource_attributes: _Attributes | None = None
    non_resource_attributes: _Attributes | None = None
    namespace: str | None = None
    token: str | None = None
    audiences: list[str] | None = None


learn(_Spec)


def _check_types(context: RequestContext, review: JsonObject) -> None:
    try:
        msgspec.convert(review.get("spec") or {}, _Spec, strict=True)
    except msgspec.ValidationError as error:
        detail, _, path = str(error).partition(" - at `$")
        kind = context.kind.kind
        raise BadRequest(f"{kind} cannot be handled as a {kind}: spec{path.rstrip('`')}: {detail}") from error
