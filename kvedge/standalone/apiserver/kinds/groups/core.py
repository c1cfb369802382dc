"""The core kinds that stand for themselves: data, accounts, namespaces and their bounds. See `builtin_kind`."""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import CORE, BuiltinKind, starts_as
from kvedge.standalone.apiserver.kinds.defaulting import set_missing, spec_of
from kvedge.standalone.apiserver.kinds.rules import core_rules, limit_rules, quota_rules
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, Column, at, count_column, text
from kvedge.standalone.apiserver.wire import name_rules
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES

_NAMESPACE_VERBS: Final = ("create", "delete", "get", "list", "patch", "update", "watch")


def _set_namespace_defaults(obj: JsonObject) -> None:
    if not obj["metadata"].get("deletionTimestamp"):
        set_missing(spec_of(obj), finalizers=["kubernetes"])
    labels = obj["metadata"].get("labels") or {}
    # Selectors of webhooks and network policies name namespaces by this label.
    obj["metadata"]["labels"] = {**labels, "kubernetes.io/metadata.name": obj["metadata"].get("name", "")}


def _set_secret_defaults(obj: JsonObject) -> None:
    set_missing(obj, type="Opaque")
    plain = obj.pop("stringData", None)
    if isinstance(plain, dict):
        data = {key: base64.b64encode(str(value).encode()).decode() for key, value in plain.items()}
        obj["data"] = {**(obj.get("data") or {}), **data}


def _quota(name: str, *, limits: bool) -> Column:
    def cell(quota: JsonObject, now: datetime) -> str:
        hard, used = at(quota, "status.hard", {}), at(quota, "status.used", {})
        shown = (key for key in sorted(hard) if key.startswith("limits.") == limits)
        return ", ".join(f"{key}: {used.get(key, '0')}/{hard[key]}" for key in shown)

    return Column(name, cell, description="What is used of what there may be.")


KINDS: Final = (
    BuiltinKind(
        *CORE,
        kind="ConfigMap",
        plural="configmaps",
        short_names=("cm",),
        columns=(NAME, count_column("data", "binaryData"), AGE),
        check=core_rules.check_config_map,
        check_update=core_rules.check_config_map_update,
        protobuf=IN_KUBERNETES,
    ),
    BuiltinKind(
        *CORE,
        kind="LimitRange",
        plural="limitranges",
        short_names=("limits",),
        set_defaults=limit_rules.set_limit_defaults,
        check=limit_rules.check_limit_range,
        checks_changed_specs_only=True,
        protobuf=IN_KUBERNETES,
    ),
    BuiltinKind(
        *CORE,
        kind="Namespace",
        plural="namespaces",
        namespaced=False,
        short_names=("ns",),
        verbs=_NAMESPACE_VERBS,
        subresources=("status", "finalize"),
        columns=(NAME, text("Status", "status.phase"), AGE),
        field_labels={"status.phase": ""},
        name_rule=name_rules.dns_label,
        set_defaults=_set_namespace_defaults,
        initial_status=starts_as("Active"),
        metadata_with_status=True,
        protobuf=IN_KUBERNETES,
    ),
    BuiltinKind(
        *CORE,
        kind="ResourceQuota",
        plural="resourcequotas",
        short_names=("quota",),
        subresources=("status",),
        columns=(NAME, _quota("Request", limits=False), _quota("Limit", limits=True), AGE),
        check=quota_rules.check_quota,
        check_update=quota_rules.check_quota_update,
        checks_changed_specs_only=True,
        returned_when_deleted=True,
        protobuf=IN_KUBERNETES,
    ),
    BuiltinKind(
        *CORE,
        kind="Secret",
        plural="secrets",
        columns=(NAME, text("Type", "type"), count_column("data"), AGE),
        field_labels={"type": ""},
        set_defaults=_set_secret_defaults,
        check=core_rules.check_secret,
        check_update=core_rules.check_secret_update,
        protobuf=IN_KUBERNETES,
    ),
    BuiltinKind(
        *CORE,
        kind="ServiceAccount",
        plural="serviceaccounts",
        short_names=("sa",),
        subresources=("token",),
        columns=(NAME, count_column("secrets"), AGE),
        returned_when_deleted=True,
        protobuf=IN_KUBERNETES,
    ),
)
