"""Whether a ReplicaSet or a pool can work by its selector, which admission sees to; the words where it cannot.

Called by both plans. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from kvedge.resources.label_selectors import find_keys, selector_of, selector_problems
from kvedge.resources.meta import LabelSelector as SelectorDocument

# The reason of the condition.
BAD_SELECTOR: Final = "SelectorNotUsable"


def find_selector_fault(
    selector: SelectorDocument | None, template: str, labels: Mapping[str, str] | None, own: Collection[str]
) -> str:
    """Why nothing can be done by it; empty for one that is fine.

    Args:
        selector: `spec.selector`.
        template: the field of the template, below `spec`.
        labels: those of the template; None where it is missing.
        own: labels that kvedge itself writes on copies: one that it writes would be let go, and another made, for ever.
    """
    if labels is None:
        return f"spec.{template} is missing"
    if not labels:
        return f"spec.{template}.metadata.labels: the template needs a label by which its copies are known"
    if selector is None:
        return "spec.selector is missing"
    for path, text in selector_problems(selector):
        return f"spec.selector{'.' if path else ''}{path}: {text}"
    for path, key in find_keys(selector, own):
        return f"spec.selector.{path}: kvedge itself writes the label {key}: select by a label of the template"
    if not selector_of(selector).matches(labels):
        return f"spec.selector does not match spec.{template}.metadata.labels"
    return ""
