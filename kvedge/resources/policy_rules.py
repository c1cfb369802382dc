"""What somebody may do, in RBAC's terms: one rule, read from and written to a Role, and whether it means a request.

Used by the manifests of kvedge's own roles and by the embedded API's authorizer. Pure. The meaning is Kubernetes': a
subresource is named exactly (`vnc` is not `vnc/screenshot`), and `*` means everything only where it stands alone, in
`*/subresource`, or at the end of a path.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kvedge.resources.codec import JsonObject

RBAC_GROUP: Final = "rbac.authorization.k8s.io"
ALL: Final = "*"


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule; about resources or about other paths, never both. Resources are plurals, `pods/log` a subresource."""

    verbs: tuple[str, ...]
    groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()

    def means_resource(self, verb: str, group: str, resource: str, subresource: str, name: str) -> bool:
        """Whether this allows the verb on that resource, or subresource, of that name ("" for none)."""
        return (
            _has(self.verbs, verb)
            and _has(self.groups, group)
            and any(_means(known, resource, subresource) for known in self.resources)
            and (not self.names or name in self.names)
        )

    def means_path(self, verb: str, path: str) -> bool:
        """Whether this allows the verb on a path that is no resource."""
        return _has(self.verbs, verb) and any(_means_url(known, path) for known in self.urls)

    def document(self) -> JsonObject:
        """As it stands in a Role."""
        fields = {
            "apiGroups": self.groups,
            "resources": self.resources,
            "resourceNames": self.names,
            "nonResourceURLs": self.urls,
            "verbs": self.verbs,
        }
        return {name: list(values) for name, values in fields.items() if values}


EVERYTHING: Final = (PolicyRule((ALL,), (ALL,), (ALL,)), PolicyRule((ALL,), urls=(ALL,)))


def policy_rules(documents: Iterable[JsonObject] | None) -> tuple[PolicyRule, ...]:
    """The rules of a Role."""
    return tuple(
        PolicyRule(
            tuple(document.get("verbs") or ()),
            tuple(document.get("apiGroups") or ()),
            tuple(document.get("resources") or ()),
            tuple(document.get("resourceNames") or ()),
            tuple(document.get("nonResourceURLs") or ()),
        )
        for document in documents or ()
    )


def uncovered(owned: Iterable[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """What of `wanted` goes beyond `owned`, broken down to one verb on one thing each."""
    held = tuple(owned)
    return [part for rule in wanted for part in _parts(rule) if not any(_covers(rule, part) for rule in held)]


def _has(known: tuple[str, ...], value: str) -> bool:
    return ALL in known or value in known


def _means(known: str, resource: str, subresource: str) -> bool:
    if known == ALL:
        return True
    if not subresource:
        return known == resource
    return known in (f"{resource}/{subresource}", f"{ALL}/{subresource}")


def _means_url(known: str, path: str) -> bool:
    if known in (ALL, path):
        return True
    return known.endswith(ALL) and path.startswith(known.rstrip(ALL))


def _parts(rule: PolicyRule) -> Iterable[PolicyRule]:
    """The rule as rules of one verb on one resource, or path, each."""
    for verb in rule.verbs:
        for group in rule.groups:
            for resource in rule.resources:
                for name in rule.names or ("",):
                    yield PolicyRule((verb,), (group,), (resource,), (name,) if name else ())
        for url in rule.urls:
            yield PolicyRule((verb,), urls=(url,))


def _covers(owned: PolicyRule, part: PolicyRule) -> bool:
    """Whether a rule allows all that a part (see `_parts`) allows."""
    verb = part.verbs[0]
    if part.urls:
        return _has(owned.verbs, verb) and any(_means_url(known, part.urls[0]) for known in owned.urls)
    resource = part.resources[0]
    plural, _, subresource = resource.partition("/")
    named = not owned.names or (bool(part.names) and part.names[0] in owned.names)
    covered = ALL in owned.resources or resource in owned.resources
    if subresource and plural != ALL:
        covered = covered or f"{ALL}/{subresource}" in owned.resources
    return _has(owned.verbs, verb) and _has(owned.groups, part.groups[0]) and covered and named
