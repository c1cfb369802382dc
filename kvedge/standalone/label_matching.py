"""Which nodes and labels a selector takes in, as Kubernetes matches them. Pure.

Called by the scheduler's plan, and by the plans that find volumes for claims.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kvedge.resources.label_selectors import node_requirement
from kvedge.resources.types.core import Node


def terms_match(terms: Iterable[Mapping[str, Any]], node: Node) -> bool:
    """Whether any of these node selector terms takes a node in."""
    return any(_term_matches(term, node) for term in terms)


def selector_matches(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector takes these labels in; an empty one takes all."""
    named = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in named.items()) and all(
        _expression_matches(item, labels) for item in selector.get("matchExpressions") or []
    )


def _term_matches(term: Mapping[str, Any], node: Node) -> bool:
    expressions, fields = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not fields:
        return False
    names = {"metadata.name": node.metadata.name}
    return all(_expression_matches(item, node.metadata.labels) for item in expressions) and all(
        _expression_matches(item, names) for item in fields
    )


def _expression_matches(item: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    return node_requirement(str(item.get("key")), str(item.get("operator")), item.get("values") or []).matches(labels)
