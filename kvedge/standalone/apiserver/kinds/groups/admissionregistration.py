"""The kinds of admissionregistration.k8s.io. See `builtin_kind`."""

from __future__ import annotations

from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.defaulting import set_missing, set_service_port
from kvedge.standalone.apiserver.kinds.rules import webhook_rules
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, count_column
from kvedge.standalone.apiserver.wire.protobuf_body import IN_PODS

_GROUP: Final = "admissionregistration.k8s.io"
_COLUMNS: Final = (NAME, count_column("webhooks"), AGE)


def _set_webhook_defaults(obj: JsonObject) -> None:
    for webhook in obj.get("webhooks") or []:
        if not isinstance(webhook, dict):
            continue
        set_missing(
            webhook,
            failurePolicy="Fail",
            matchPolicy="Equivalent",
            namespaceSelector={},
            objectSelector={},
            timeoutSeconds=10,
        )
        for rule in webhook.get("rules") or []:
            set_missing(rule, scope="*")
        set_service_port(webhook.get("clientConfig"))


def _set_mutating_defaults(obj: JsonObject) -> None:
    _set_webhook_defaults(obj)
    for webhook in obj.get("webhooks") or []:
        if isinstance(webhook, dict):
            set_missing(webhook, reinvocationPolicy="Never")


KINDS: Final = (
    BuiltinKind(
        _GROUP,
        "v1",
        kind="MutatingWebhookConfiguration",
        plural="mutatingwebhookconfigurations",
        namespaced=False,
        categories=("api-extensions",),
        counts_generation=True,
        columns=_COLUMNS,
        set_defaults=_set_mutating_defaults,
        check=webhook_rules.check_webhooks,
        protobuf=IN_PODS,
    ),
    BuiltinKind(
        _GROUP,
        "v1",
        kind="ValidatingWebhookConfiguration",
        plural="validatingwebhookconfigurations",
        namespaced=False,
        categories=("api-extensions",),
        counts_generation=True,
        columns=_COLUMNS,
        set_defaults=_set_webhook_defaults,
        check=webhook_rules.check_webhooks,
        protobuf=IN_PODS,
    ),
)
