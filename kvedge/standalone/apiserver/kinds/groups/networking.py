"""The kinds of networking.k8s.io. See `builtin_kind`."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from kvedge.resources.codec import JsonObject
from kvedge.standalone.apiserver.kinds.builtin_kind import BuiltinKind
from kvedge.standalone.apiserver.kinds.defaulting import set_missing, spec_of
from kvedge.standalone.apiserver.kinds.rules import core_rules, network_policy_rules
from kvedge.standalone.apiserver.kinds.table_columns import AGE, NAME, NONE, Column, at
from kvedge.standalone.apiserver.schema.selectors import label_selector_of
from kvedge.standalone.apiserver.wire.protobuf_body import IN_KUBERNETES


def _parent(address: JsonObject, now: datetime) -> str:
    parent = at(address, "spec.parentRef", {})
    resource = ".".join(part for part in (parent.get("resource"), parent.get("group")) if part)
    return "/".join(part for part in (resource, parent.get("namespace"), parent.get("name")) if part)


def _set_policy_defaults(obj: JsonObject) -> None:
    spec = spec_of(obj)
    # A policy with rules for egress means that, too; any policy means ingress.
    set_missing(spec, podSelector={})
    if not spec.get("policyTypes"):
        spec["policyTypes"] = ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]
    for rule in (*(spec.get("ingress") or ()), *(spec.get("egress") or ())):
        for port in rule.get("ports") or []:
            set_missing(port, protocol="TCP")


def _pod_selector(policy: JsonObject, now: datetime) -> str:
    return str(label_selector_of(at(policy, "spec.podSelector"))) or NONE


KINDS: Final = (
    BuiltinKind(
        "networking.k8s.io",
        "v1",
        kind="IPAddress",
        plural="ipaddresses",
        namespaced=False,
        short_names=("ip",),
        singular="ipaddress",
        columns=(NAME, Column("ParentRef", _parent), AGE),
        check=core_rules.check_ip_address,
        check_update=core_rules.check_ip_address_update,
        protobuf=IN_KUBERNETES,
    ),
    BuiltinKind(
        "networking.k8s.io",
        "v1",
        kind="NetworkPolicy",
        plural="networkpolicies",
        short_names=("netpol",),
        counts_generation=True,
        columns=(NAME, Column("Pod-Selector", _pod_selector, description="The Pods that it is about."), AGE),
        set_defaults=_set_policy_defaults,
        check=network_policy_rules.check_network_policy,
        protobuf=IN_KUBERNETES,
    ),
)
