"""VMIs that are wrong at one place: where they may run.

What is changed in a small valid VMI (path below spec, value), the field that is named, and words of the message, which
are those of Kubernetes for a Pod.
"""

from __future__ import annotations

from typing import Any

Wrong = dict[str, tuple[dict[str, Any], str, str]]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NODE = "spec.affinity.nodeAffinity"
POD = "spec.affinity.podAffinity"
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def node_expression(**expression: Any) -> dict[str, Any]:
    return {f"affinity.nodeAffinity.{REQUIRED}": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


WRONG_PLACES: Wrong = {
    "node label": (
        {"nodeSelector": {"a": "b c"}},
        "spec.nodeSelector[a]",
        'spec.nodeSelector[a]: Invalid value: "b c": a valid label must be an empty string or consist of',
    ),
    "node label's key": (
        {"nodeSelector": {"Example.Com/a": ""}},
        "spec.nodeSelector",
        'spec.nodeSelector: Invalid value: "Example.Com/a": prefix part a lowercase RFC 1123 subdomain',
    ),
    "misspelt affinity": (
        {"affinity": {"nodeAffinty": {}}},
        "spec.affinity.nodeAffinty",
        'unknown field "spec.affinity.nodeAffinty"; there are nodeAffinity, podAffinity, podAntiAffinity',
    ),
    "misspelt kind of affinity": (
        {"affinity": {"nodeAffinity": {"required": {}}}},
        f"{NODE}.required",
        f"there are {REQUIRED}, {PREFERRED}",
    ),
    "an affinity that is none": (
        {"affinity": {"nodeAffinity": "box-1"}},
        "spec.affinity.nodeAffinity",
        "spec.affinity.nodeAffinity must be an object or a list",
    ),
    "node affinity without terms": (
        {f"affinity.nodeAffinity.{REQUIRED}": {"nodeSelectorTerms": []}},
        f"{NODE}.{REQUIRED}.nodeSelectorTerms",
        "Required value: must have at least one node selector term",
    ),
    "node affinity's operator": (
        node_expression(key="a", operator="Like", values=["b"]),
        f"{NODE}.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator",
        'Invalid value: "Like": not a valid selector operator',
    ),
    "node affinity's values": (
        node_expression(key="a", operator="In"),
        f"{NODE}.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values",
        "Required value: must be specified when `operator` is 'In' or 'NotIn'",
    ),
    "node affinity's superfluous values": (
        node_expression(key="a", operator="Exists", values=["b"]),
        f"{NODE}.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values",
        "Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
    ),
    "two bounds": (
        node_expression(key="a", operator="Gt", values=["1", "2"]),
        f"{NODE}.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].values",
        "must be specified single value when `operator` is 'Lt' or 'Gt'",
    ),
    "weight": (
        {f"affinity.nodeAffinity.{PREFERRED}": [{"weight": 101, "preference": {}}]},
        f"{NODE}.{PREFERRED}[0].weight",
        "Invalid value: 101: must be in the range 1-100",
    ),
    "pod affinity without topology": (
        {f"affinity.podAffinity.{REQUIRED}": [{"labelSelector": {}}]},
        f"{POD}.{REQUIRED}[0].topologyKey",
        "Required value: can not be empty",
    ),
    "pod affinity's labels": (
        {f"affinity.podAffinity.{REQUIRED}": [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "-"}}}]},
        f"{POD}.{REQUIRED}[0].labelSelector.matchLabels[a]",
        "a valid label must be",
    ),
    "preferred pod affinity without weight": (
        {f"affinity.podAffinity.{PREFERRED}": [{"podAffinityTerm": {"topologyKey": "zone"}}]},
        f"{POD}.{PREFERRED}[0].weight",
        "Invalid value: null: must be in the range 1-100",
    ),
    "skew": (
        {"topologySpreadConstraints": [SPREAD | {"maxSkew": 0}]},
        "spec.topologySpreadConstraints[0].maxSkew",
        "Invalid value: 0: must be greater than zero",
    ),
    "spread without topology": (
        {"topologySpreadConstraints": [{"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}]},
        "spec.topologySpreadConstraints[0].topologyKey",
        "Required value: can not be empty",
    ),
    "spread without a way out": (
        {"topologySpreadConstraints": [SPREAD | {"whenUnsatisfiable": "Cry"}]},
        "spec.topologySpreadConstraints[0].whenUnsatisfiable",
        'Unsupported value: "Cry": supported values: "DoNotSchedule", "ScheduleAnyway"',
    ),
    "spread twice": (
        {"topologySpreadConstraints": [SPREAD, SPREAD]},
        "spec.topologySpreadConstraints[1]",
        'Duplicate value: "{zone, DoNotSchedule}"',
    ),
    "toleration of everything by value": (
        {"tolerations": [{"value": "a"}]},
        "spec.tolerations[0].operator",
        "operator must be Exists when `key` is empty",
    ),
    "toleration's operator": (
        {"tolerations": [{"key": "a", "operator": "Like"}]},
        "spec.tolerations[0].operator",
        'Unsupported value: "Like": supported values: "Equal", "Exists"',
    ),
    "toleration's superfluous value": (
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        "spec.tolerations[0].operator",
        "value must be empty when `operator` is 'Exists'",
    ),
    "toleration's effect": (
        {"tolerations": [{"key": "a", "effect": "Shout"}]},
        "spec.tolerations[0].effect",
        'Unsupported value: "Shout": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"',
    ),
    "toleration for a while": (
        {"tolerations": [{"key": "a", "effect": "NoSchedule", "tolerationSeconds": 3}]},
        "spec.tolerations[0].effect",
        "effect must be 'NoExecute' when `tolerationSeconds` is set",
    ),
    "toleration's key": (
        {"tolerations": [{"key": "a b"}]},
        "spec.tolerations[0].key",
        'Invalid value: "a b": name part must consist of',
    ),
}
