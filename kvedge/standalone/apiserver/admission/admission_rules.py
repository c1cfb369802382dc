"""Which webhooks a write concerns, and what each is asked and answers.

Used by `admission_webhooks`, which calls them. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.admission.admission_protocol import Review
from kvedge.standalone.apiserver.kinds.served_kinds import KindIndex, ServedKind
from kvedge.standalone.apiserver.schema.cel_edge import CelError, condition_holds
from kvedge.standalone.apiserver.schema.selectors import label_selector_of

ADMISSION_GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = f"mutatingwebhookconfigurations.{ADMISSION_GROUP}"
VALIDATING: Final = f"validatingwebhookconfigurations.{ADMISSION_GROUP}"


class Webhook(Struct, frozen=True):
    """One webhook of one configuration."""

    configuration: str
    entry: JsonObject

    @property
    def name(self) -> str:
        return str(self.entry["name"])

    @property
    def ignores_failure(self) -> bool:
        return self.entry.get("failurePolicy") == "Ignore"

    @property
    def timeout_seconds(self) -> int:
        return int(self.entry.get("timeoutSeconds") or 10)

    @property
    def has_side_effects(self) -> bool:
        return self.entry.get("sideEffects") not in ("None", "NoneOnDryRun")


def webhooks_of(configurations: Sequence[JsonObject]) -> list[Webhook]:
    """The webhooks of all configurations, in the order in which they are called."""
    ordered = sorted(configurations, key=lambda configuration: str(configuration["metadata"]["name"]))
    return [
        Webhook(configuration["metadata"]["name"], entry)
        for configuration in ordered
        for entry in configuration.get("webhooks") or []
    ]


def matching_kind(webhook: Webhook, review: Review, kinds: KindIndex) -> ServedKind | None:
    """The kind in which the webhook wants to see the write; None when its rules do not name it.

    With matchPolicy Equivalent a rule for one version of a kind also means the others, which are shown in that version.
    """
    kind = review.context.kind
    if kind.group == ADMISSION_GROUP:
        # A webhook must not lock the administrator out of the configuration of webhooks.
        return None
    candidates = [kind]
    if webhook.entry.get("matchPolicy") != "Exact":
        candidates += [other for other in kinds.kinds if other.storage == kind.storage and other != kind]
    for rule in webhook.entry.get("rules") or []:
        for candidate in candidates:
            if _rule_matches(rule, candidate, review):
                return candidate
    return None


def is_selected(webhook: Webhook, review: Review, namespace_labels: Mapping[str, str] | None) -> bool:
    """Whether the webhook's selectors choose the object; `namespace_labels` is None for what has no namespace."""
    if namespace_labels is not None:
        selector = label_selector_of(webhook.entry.get("namespaceSelector"))
        if not selector.matches(namespace_labels):
            return False
    selector = label_selector_of(webhook.entry.get("objectSelector"))
    if not selector.requirements:
        return True
    return any(obj is not None and selector.matches(_labels(obj)) for obj in (review.obj, review.old))


def own_namespace_labels(review: Review) -> Mapping[str, str] | None:
    """The labels that stand for the namespace's when the object is a namespace itself."""
    obj = review.obj or review.old
    return _labels(obj) if obj is not None and review.context.kind.storage == "namespaces" else None


def admission_review(webhook_kind: ServedKind, review: Review, uid: str) -> JsonObject:
    """The AdmissionReview that the webhook is sent."""
    context = review.context
    request: JsonObject = {
        "uid": uid,
        "kind": _kind(webhook_kind),
        "resource": _resource(webhook_kind),
        "requestKind": _kind(context.kind),
        "requestResource": _resource(context.kind),
        "name": review.name,
        "namespace": context.namespace or (review.name if context.kind.storage == "namespaces" else ""),
        "operation": review.operation,
        "userInfo": {
            "username": context.caller.user,
            "uid": context.caller.uid,
            "groups": list(context.caller.groups),
            "extra": {key: list(values) for key, values in context.caller.extra.items()},
        },
        "object": _in_version(webhook_kind, review.obj),
        "oldObject": _in_version(webhook_kind, review.old),
        "dryRun": context.options.dry_run,
        "options": review.options or _options(review),
    }
    if context.target.subresource:
        request["subResource"] = request["requestSubResource"] = context.target.subresource
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def denial(webhook: Webhook, response: JsonObject) -> JsonObject:
    """The Status of a refusal: the webhook's own, with who refused in front of its message."""
    status = dict(response.get("status") or {})
    by = f'admission webhook "{webhook.name}" denied the request'
    said = status.get("message") or status.get("reason")
    status["message"] = f"{by}: {said}" if said else f"{by} without explanation"
    if not isinstance(status.get("code"), int) or status["code"] < 400:
        status["code"] = 400
    status["status"] = "Failure"
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, **status}


def conditions_hold(webhook: Webhook, request: JsonObject) -> bool:
    """Whether all of a webhook's match conditions hold for an AdmissionRequest.

    A single false condition decides.

    Raises:
        CelError: when none is false and one cannot be evaluated.
    """
    variables = {"object": request.get("object"), "oldObject": request.get("oldObject"), "request": request}
    failure: CelError | None = None
    for condition in webhook.entry.get("matchConditions") or []:
        try:
            if not condition_holds(condition["expression"], variables):
                return False
        except CelError as error:
            failure = failure or error
    if failure is not None:
        raise failure
    return True


def _rule_matches(rule: JsonObject, kind: ServedKind, review: Review) -> bool:
    subresource = review.context.target.subresource
    resource = f"{kind.plural}/{subresource}" if subresource else kind.plural
    scope = rule.get("scope") or "*"
    return (
        _matches(rule.get("operations"), review.operation)
        and _matches(rule.get("apiGroups"), kind.group)
        and _matches(rule.get("apiVersions"), kind.version)
        and any(_resource_matches(pattern, resource) for pattern in rule.get("resources") or [])
        and scope in ("*", "Namespaced" if kind.namespaced else "Cluster")
    )


def _matches(allowed: Sequence[str] | None, value: str) -> bool:
    return any(item in ("*", value) for item in allowed or ())


def _resource_matches(pattern: str, resource: str) -> bool:
    """`pods`, `pods/status`, `pods/*`, `*` (no subresources), `*/status`, `*/*`."""
    wanted, _, wanted_sub = pattern.partition("/")
    plural, _, sub = resource.partition("/")
    if wanted not in ("*", plural):
        return False
    return wanted_sub == sub or (wanted_sub == "*" and "/" in pattern)


def _labels(obj: JsonObject) -> Mapping[str, str]:
    labels: Mapping[str, str] = obj["metadata"].get("labels") or {}
    return labels


def _kind(kind: ServedKind) -> JsonObject:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource(kind: ServedKind) -> JsonObject:
    return {"group": kind.group, "version": kind.version, "resource": kind.plural}


def _in_version(kind: ServedKind, obj: JsonObject | None) -> JsonObject | None:
    return None if obj is None else {**obj, "apiVersion": kind.api_version}


def _options(review: Review) -> JsonObject:
    name = {"CREATE": "CreateOptions", "UPDATE": "UpdateOptions", "DELETE": "DeleteOptions"}.get(review.operation)
    options: JsonObject = {"kind": name, "apiVersion": "meta.k8s.io/v1"}
    given = review.context.options
    if given.dry_run:
        options["dryRun"] = ["All"]
    if given.field_manager and review.operation != "DELETE":
        options["fieldManager"] = given.field_manager
    return options
