"""What somebody may do, in RBAC's terms: one rule, read from and written to a Role, and whether it means a request.

Used by the manifests of kvedge's own roles and by the embedded API's authorizer. Pure. The meaning is Kubernetes': a
subresource is named exactly (`vnc` is not `vnc/screenshot`), and `*` means everything only where it stands alone, in
`*/subresource`, or at the end of a path.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from kvedge.resources.codec import JsonObject

RBAC_GROUP: Final = "rbac.authorization.k8s.io"
ALL: Final = "*"
# Of words with words, when rights are handed on: some tenths of a second. Roles as they come with Kubernetes and kvedge
# take a hundredth of it.
MOST_COMPARED: Final = 1_000_000
_PART_COSTS: Final = 8
# So many missing rights are told.
MOST_MISSING: Final = 50


class PolicyRule(Struct, frozen=True):
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


class TooManyRules(ValueError):
    """Rules whose comparison would hold up others: a few words stand for millions of verbs on things."""


def find_uncovered(owned: Iterable[PolicyRule], wanted: Iterable[PolicyRule]) -> list[PolicyRule]:
    """What of `wanted` goes beyond `owned`, broken down to one verb on one thing each: the first ones.

    Raises:
        TooManyRules: they cannot be compared in a short time.
    """
    held = [_Held(rule) for rule in dict.fromkeys(owned)]
    missing: list[PolicyRule] = []
    left = MOST_COMPARED
    for rule in dict.fromkeys(wanted):
        left -= _words_of(rule) * len(held)
        if left < 0:
            raise TooManyRules
        # Mostly one rule holds all of it. Where several hold it together, each part is looked up by itself.
        if any(one.covers(rule) for one in held):
            continue
        for part in _parts(rule):
            left -= _PART_COSTS * len(held)
            if left < 0:
                raise TooManyRules
            if not any(one.covers(part) for one in held):
                missing.append(part)
                if len(missing) == MOST_MISSING:
                    return missing
    return missing


def _words_of(rule: PolicyRule) -> int:
    fields = (rule.verbs, rule.groups, rule.resources, rule.names, rule.urls)
    return 1 + sum(map(len, fields))


class _Held:
    """A rule that somebody has, its words as sets."""

    def __init__(self, rule: PolicyRule) -> None:
        self._verbs, self._groups = frozenset(rule.verbs), frozenset(rule.groups)
        self._resources, self._names = frozenset(rule.resources), frozenset(rule.names)
        self._urls = rule.urls

    def covers(self, wanted: PolicyRule) -> bool:
        """Whether this rule by itself allows all that the wanted one allows."""
        if not _all_in(wanted.verbs, self._verbs):
            return False
        if wanted.urls and not all(any(_means_url(known, url) for known in self._urls) for url in wanted.urls):
            return False
        if wanted.urls and not wanted.resources:
            return True
        named = not self._names or (bool(wanted.names) and self._names.issuperset(wanted.names))
        return named and _all_in(wanted.groups, self._groups) and all(map(self._has_resource, wanted.resources))

    def _has_resource(self, resource: str) -> bool:
        if ALL in self._resources or resource in self._resources:
            return True
        plural, _, subresource = resource.partition("/")
        return bool(subresource) and plural != ALL and f"{ALL}/{subresource}" in self._resources


def _all_in(words: tuple[str, ...], known: frozenset[str]) -> bool:
    return ALL in known or known.issuperset(words)


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
    for verb in dict.fromkeys(rule.verbs):
        for group in dict.fromkeys(rule.groups):
            for resource in dict.fromkeys(rule.resources):
                for name in dict.fromkeys(rule.names or ("",)):
                    yield PolicyRule((verb,), (group,), (resource,), (name,) if name else ())
        for url in rule.urls:
            yield PolicyRule((verb,), urls=(url,))
